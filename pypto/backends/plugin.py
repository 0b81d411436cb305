"""Plugins: how a backend is found, and how it opens the devices that run its kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pypto.errors.device import UnknownDevice
from pypto.options import Settings

if TYPE_CHECKING:
    from pypto.passes.manager import Pass


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One line of `pypto doctor`. `way` says how to get what is missing; nothing works without what is `needed`."""

    what: str
    found: str
    way: str = ""
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Services:
    """What a plugin may use of the process: the settings of the user, and other devices by their names."""

    settings: Settings
    device: Callable[[str], Any]


class Plugin(ABC):
    """One backend as an entry point of the group `pypto.backends` names it.

    The entry point is called as the devices are: `open` gets all names that are the entry point's own, or that go on
    with a colon after it. One plugin may have several entry points.

    Attributes
    ----------
    targets : tuple of str
        Machines that kernels can be compiled for without a device, as in ``kernel.compile(target=…)``.
    """

    targets: tuple[str, ...] = ()

    def canonical(self, name: str) -> str:
        """The one name of a device that has several.

        Raises
        ------
        UnknownDevice
            When there is no such device.
        """
        if ":" in name:
            raise UnknownDevice(name=name)
        return name

    @abstractmethod
    def open(self, name: str, services: Services) -> Any:
        """A device by its canonical name: a `pypto.runtime.devices.Place` with the backend that compiles for it."""

    def target(self, name: str) -> Any:
        """A place to compile for one of `targets`, where nothing runs."""
        raise NotImplementedError(
            f"{type(self).__name__} lists the target {name!r} and has no method `target` to open it"
        )

    def refuse(self, target: str) -> None:
        """Raise a diagnostic for a machine that is near to `targets` and not one of them."""
        return None

    def passes(self) -> tuple[Pass, ...]:
        """The pass list of the backend, whose optional rows a kernel may switch off by name."""
        return ()

    def diagnose(self) -> Iterator[Diagnosis]:
        """What this machine has of all that the backend needs."""
        yield from ()


class HostPlugin(Plugin):
    """The plugin whose backend makes the launches for which no device is named."""

    @abstractmethod
    def backend(self, level: str, fast_math: bool, threads: int, stored: Callable[..., bytes]) -> Any:
        """The backend for a feature level. ``stored(name, make)`` keeps code that is no kernel between processes."""

    @abstractmethod
    def default_threads(self) -> int:
        """Threads that the process may use."""

    @abstractmethod
    def launcher(self, backend: Any, *state: Any) -> Any:
        """What makes launches in native code; None where only Python does."""

    @abstractmethod
    def ahead(self) -> Any:
        """The module that makes object files of kernels."""

    @abstractmethod
    def library_detail(self, library: str) -> str:
        """What the version number of a library does not say; empty for nothing."""
