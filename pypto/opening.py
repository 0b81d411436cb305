"""Devices by name: the toolkit that is there or the simulated one, a backend for the chip, and the runtime library."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pypto.errors.device import NoToolkit
from pypto.options import Settings
from pypto.runtime.mode import MODE

SIMULATED: Final = "ascend910b2"  # the chip that is simulated unless another one is named


class Devices:
    """The devices of a process, by their names."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.known: dict[str, Any] = {}
        self.lock = threading.RLock()

    @functools.cached_property
    def default(self) -> Any:
        """Where launches run if nothing else is said; None is the CPU, without a detour."""
        return None if self.settings.device == "cpu" else self.named(self.settings.device)

    def named(self, name: str) -> Any:
        """A device."""
        from pypto.runtime.devices import canonical

        name = canonical(name)
        return self.kept(name, lambda: open_device(name, self.settings, self.named))

    def chip(self, name: str) -> Any:
        """A chip that is not there, to compile for."""
        return self.kept(name, lambda: open_chip(name))

    def kept(self, name: str, make: Callable[[], Any]) -> Any:
        with self.lock:
            if name not in self.known:
                self.known[name] = make()
            return self.known[name]

    def backend(self, kernel: str, infos: Mapping[str, Any]) -> Any:
        """The backend of the device that the arrays of a launch are on, or else of where launches run."""
        from pypto.runtime.devices import device_of

        place = device_of(kernel, infos) or MODE.get().device or self.default
        return getattr(self.named(place) if isinstance(place, str) else place, "backend", None)


def open_device(name: str, settings: Settings, other: Callable[[str], Any]) -> Any:
    """A device of which nothing was opened yet."""
    from pypto.backends.ascend.backend import AscendBackend
    from pypto.backends.ascend.target import ascend_target
    from pypto.runtime.acl import opened
    from pypto.runtime.devices import Cpu, Device

    kind, _, which = name.partition(":")
    if kind == "cpu":
        return Cpu()
    if kind == "ascend-sim":
        folder, target = simulated(settings), ascend_target(which or SIMULATED)
        acl = opened(runtime_of(folder, name))
    else:
        folder = installed(name)
        acl = opened(runtime_of(folder, name), int(which), shares_streams=True)
        target = ascend_target(chip(acl.soc_name()))
    return Device(name, acl, AscendBackend(target, lambda: folder, lambda: acl), other)


def open_chip(name: str) -> Any:
    """A chip that is not there, to compile for: Block IR and text, without a toolkit."""
    from pypto.backends.ascend.backend import AscendBackend
    from pypto.backends.ascend.target import ascend_target
    from pypto.runtime.devices import Chip

    return Chip(name, AscendBackend(ascend_target(name)))


def simulated(settings: Settings) -> Path:
    """The folder of the simulated toolkit, built when it is not there."""
    from pypto.runtime.cache_store import default_folder
    from pypto.runtime.simulator import toolkit

    quiet = "CI" in os.environ or not sys.stderr.isatty()
    folder = Path(settings.cache_dir) if settings.cache_dir else default_folder()
    return toolkit(folder.absolute(), (lambda text: None) if quiet else functools.partial(print, file=sys.stderr))


def installed(name: str) -> Path:
    """The folder of the toolkit that is installed."""
    from pypto.backends.ascend.toolchain.toolchain import find_toolkit

    return find_toolkit(name)


def runtime_of(folder: Path, name: str) -> Path:
    """The runtime library of a toolkit."""
    from pypto.backends.ascend.toolchain.toolchain import library

    path = library(folder, "libascendcl.so")
    if path is None:
        raise NoToolkit(name=name, problem=f"{folder} has no libascendcl.so")
    return path


def chip(soc: str) -> str:
    """The name of a chip's record, from what the runtime library calls it.

    Examples
    --------
    >>> chip("Ascend910B2C"), chip("Ascend910_9382"), chip("Ascend950PR_957c")
    ('ascend910b2', 'ascend910c', 'ascend950')
    """
    name = soc.lower()
    return "ascend910c" if name.startswith("ascend910_") else name[:11] if name.startswith("ascend910b") else name[:9]
