"""The CPU as the device of packages that ask `torch.cpu` for what a GPU has, or look for a vendor's GPU (FlagGems).

Most packages take a tensor's device as it is, and need nothing of this.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

from pypto.compat.triton.driver import DeviceInterface

# What `torch.cuda` has and `torch.cpu` has not.
NAMES: Final = ("device", "get_device_name", "get_device_properties", "get_device_capability")
FIGURES: Final = ("get_device_properties", "get_device_capability")  # what `torch.cuda` is asked without a GPU, too
DETECTOR: Final = "flag_gems.runtime.backend.device"  # FlagGems' module that looks for a device
VENDOR: Final = "arm"  # FlagGems' own for any CPU: its device is named ``cpu``, and no detector lists it


def install() -> None:
    """Completes `torch.cpu` for code written for GPUs, and shows FlagGems the CPU; call it before such an import.

    Names that `torch.cpu` has already stay what they are. Where torch is built for no GPU, the properties and the
    capability that `torch.cuda` gives are those of the CPU; `torch.cuda.is_available()` stays False. FlagGems reads
    ``GEMS_VENDOR``, which this sets.
    A kernel still needs `triton` to be pypto: pypto-triton, or `pypto.compat.triton.install`.
    """
    torch, interface = importlib.import_module("torch"), DeviceInterface()
    for name in NAMES:
        if not hasattr(torch.cpu, name):
            setattr(torch.cpu, name, getattr(interface, name))
    if torch.version.cuda is None and torch.version.hip is None:
        for name in FIGURES:
            setattr(torch.cuda, name, getattr(interface, name))
    os.environ["GEMS_VENDOR"] = VENDOR
    if not any(isinstance(finder, DetectorFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, DetectorFinder())


class DetectorFinder(MetaPathFinder, Loader):
    """Loads FlagGems' detector, and adds its vendor for CPUs to those that it lists."""

    def __init__(self) -> None:
        self.loader: Loader | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != DETECTOR:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec) if self.loader else None

    def exec_module(self, module: ModuleType) -> None:
        assert self.loader is not None
        self.loader.exec_module(module)
        vendors, backend = vars(module)["vendors"], vars(module)["backend"]
        listed = vendors.get_all_vendors()
        vendors.get_all_vendors = lambda: {**listed, VENDOR: VENDOR}
        backend.torch_device_object = DeviceInterface()  # whose devices are numbers, which those of `torch.cpu` are not
