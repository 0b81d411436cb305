"""Ascend as a plugin: NPUs with the toolkit that is installed, the simulated device, and chips to compile for."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pypto.backends.ascend.target import TARGETS, AscendTarget, ascend_target, record_name, refuse
from pypto.backends.plugin import Diagnosis, Plugin, Services
from pypto.errors.device import NoToolkit, UnknownDevice
from pypto.options import Settings
from pypto.passes.manager import Pass

SIMULATED: Final = "ascend910b2"  # the chip that is simulated unless another one is named
_NAME: Final = re.compile(r"ascend(:\d+)?|ascend-sim(:(0|ascend[\w-]+))?")
_SHORT: Final = MappingProxyType({"ascend": "ascend:0", "ascend-sim:0": "ascend-sim"})


class AscendPlugin(Plugin):
    targets = tuple(TARGETS)

    def canonical(self, name: str) -> str:
        """Return the full name of a device.

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
        from pypto.runtime.places import Chip

        return Chip(name, AscendBackend(ascend_target(name)))

    def rule_for(self, row: Any) -> Any:
        """The rule by which a vector core computes an elementwise op, which `pypto ops` shows."""
        from pypto.backends.ascend.rules import table

        return table.rule_for(row)

    def refuse(self, target: str) -> None:
        refuse(target)

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
    """Open a device of this machine. The number of its cores and the size of L2 are what the device says they are."""
    from pypto.backends.ascend.backend import AscendBackend
    from pypto.backends.ascend.toolchain.toolchain import find_toolkit
    from pypto.runtime.acl import opened
    from pypto.runtime.devices import Device
    from pypto.runtime.dlpack import EXTENSION

    folder = find_toolkit(name)
    acl = opened(runtime_of(folder, name), number, shares_streams=True)
    target = measured(ascend_target(record_name(acl.soc_name())), acl)
    backend = AscendBackend(target, lambda: folder, lambda: acl)
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
    from pypto.runtime.disk_cache.store import default_folder
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


def measured(target: AscendTarget, acl: Any) -> AscendTarget:
    """Replace facts of a record by those of a device, which may have fewer cores than others of its type.

    Examples
    --------
    >>> class Half:
    ...     def attribute(self, number):
    ...         return {102: 12, 201: 24}.get(number, 0)
    >>> measured(ascend_target("ascend910b2"), Half()).vector_cores
    24
    """
    from pypto.runtime.acl import CUBE_CORES, L2_BYTES, VECTOR_CORES

    cube, vector, l2 = (acl.attribute(number) for number in (CUBE_CORES, VECTOR_CORES, L2_BYTES))
    return replace(target, cube_cores=cube or target.cube_cores, vector_cores=vector or target.vector_cores,
        l2_bytes=l2 or target.l2_bytes)  # fmt: skip


if __name__ == "__main__":  # the folder of the simulated toolkit, for builds that look for one in ASCEND_HOME_PATH
    print(simulated_toolkit(Settings.from_env()))
