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
    """One line of `pypto doctor`."""

    what: str
    found: str  # what this machine has; empty for nothing
    way: str = ""  # how to get what is missing
    needed: bool = False  # whether nothing works without it


@dataclass(frozen=True, slots=True)
class Services:
    """What a plugin may use of the process."""

    settings: Settings  # of the user
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
        """The canonical name of a device that has several.

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
        """A device by its canonical name: a `pypto.runtime.places.Place` with the backend that compiles for it."""

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
        """What the backend needs, and what this machine has of it."""
        yield from ()


class HostPlugin(Plugin):
    """The plugin of the backend that launches without a named device use."""

    @abstractmethod
    def backend(
        self, level: str, fast_math: bool, threads: int, stored: Callable[..., bytes], remember: Callable[..., bytes]
    ) -> Any:
        """The backend for a feature level.

        ``stored(name, make)`` keeps helper code in the disk cache, and ``remember(key, make)`` other facts.
        """

    @abstractmethod
    def default_threads(self) -> int:
        """Threads that the process may use."""

    @abstractmethod
    def launcher(self, backend: Any, *state: Any) -> Any:
        """The native launcher; None where Python launches."""

    @abstractmethod
    def ahead(self) -> Any:
        """The module that compiles kernels ahead of time."""

    @abstractmethod
    def library_detail(self, library: str) -> str:
        """The version of what a library contains, such as LLVM in llvmlite; empty for others."""
