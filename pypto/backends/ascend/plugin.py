"""Ascend as a plugin: NPUs with the toolkit that is installed, the simulated device, and chips to compile for."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pypto.backends.ascend.target import TARGETS, ascend_target
from pypto.backends.plugin import Diagnosis, Plugin, Services
from pypto.errors.device import NoToolkit, UnknownDevice
from pypto.options import Settings
from pypto.passes.manager import Pass

SIMULATED: Final = "ascend910b2"  # the chip that is simulated unless another one is named
_NAME: Final = re.compile(r"ascend(:\d+)?|ascend-sim(:(0|ascend\w+))?")
_SHORT: Final = MappingProxyType({"ascend": "ascend:0", "ascend-sim:0": "ascend-sim"})


class AscendPlugin(Plugin):
    targets = tuple(TARGETS)

    def canonical(self, name: str) -> str:
        """
        Examples
        --------
        >>> PLUGIN.canonical("ascend"), PLUGIN.canonical("ascend-sim:0")
        ('ascend:0', 'ascend-sim')
        """
        if not _NAME.fullmatch(name):
            raise UnknownDevice(name=name)
        return _SHORT.get(name, name)

    def open(self, name: str, services: Services) -> Any:
        kind, _, which = name.partition(":")
        return npu(name, int(which), services) if kind == "ascend" else simulator(name, which or SIMULATED, services)

    def target(self, name: str) -> Any:
        from pypto.backends.ascend.backend import AscendBackend
        from pypto.runtime.devices import Chip

        return Chip(name, AscendBackend(ascend_target(name)))

    def passes(self) -> tuple[Pass, ...]:
        from pypto.backends.ascend.pipeline import PASSES

        return PASSES

    def diagnose(self) -> Iterator[Diagnosis]:
        from pypto.backends.ascend.toolchain.toolchain import find_toolkit, form_of, toolkit_version

        try:
            folder = find_toolkit("ascend")
        except NoToolkit as error:
            way = "install Huawei's CANN toolkit and source its set_env.sh; only real Ascend devices need it"
            yield Diagnosis("CANN", "", f"{error.fields['problem']}; {way}")
            return
        version = toolkit_version(folder)
        yield Diagnosis("CANN", f"{folder}, version {version}, compiles as {form_of(folder, version)}")


PLUGIN: Final = AscendPlugin()


def npu(name: str, number: int, services: Services) -> Any:
    """A device of this machine, of which nothing was opened yet."""
    from pypto.backends.ascend.backend import AscendBackend
    from pypto.backends.ascend.toolchain.toolchain import find_toolkit
    from pypto.runtime.acl import opened
    from pypto.runtime.devices import Device
    from pypto.runtime.dlpack import EXTENSION

    folder = find_toolkit(name)
    acl = opened(runtime_of(folder, name), number, shares_streams=True)
    backend = AscendBackend(ascend_target(chip(acl.soc_name())), lambda: folder, lambda: acl)
    return Device(name, acl, backend, services.device, tells_time=True, dlpack_device=(EXTENSION, number))


def simulator(name: str, target: str, services: Services) -> Any:
    """The simulated device; its toolkit is built when it is not there."""
    from pypto.backends.ascend.backend import AscendBackend
    from pypto.runtime.acl import opened
    from pypto.runtime.devices import Device

    folder, facts = simulated_toolkit(services.settings), ascend_target(target)
    acl = opened(runtime_of(folder, name))
    return Device(name, acl, AscendBackend(facts, lambda: folder, lambda: acl), services.device)


def simulated_toolkit(settings: Settings) -> Path:
    """The folder of the simulated toolkit, built when it is not there."""
    from pypto.runtime.cache_store import default_folder
    from pypto.runtime.simulator import toolkit

    quiet = "CI" in os.environ or not sys.stderr.isatty()
    folder = Path(settings.cache_dir) if settings.cache_dir else default_folder()
    return toolkit(folder.absolute(), (lambda text: None) if quiet else functools.partial(print, file=sys.stderr))


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
