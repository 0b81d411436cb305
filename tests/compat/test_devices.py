"""Packages that ask for a GPU's names find the CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pypto.compat.devices import FIGURES, NAMES, DetectorFinder, install

torch = pytest.importorskip("torch")
DETECTOR = """
import os
from enum import Enum

from .. import backend


class vendors(Enum):
    NVIDIA = 0

    @classmethod
    def get_all_vendors(cls):
        return {member.name.lower(): member for member in cls}


def found():
    name = os.environ.get("GEMS_VENDOR")
    return name if name in vendors.get_all_vendors() else None
"""


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Later tests see torch, the environment and the finders as they were."""
    before = [name for name in NAMES if hasattr(torch.cpu, name)]
    monkeypatch.setenv("GEMS_VENDOR", "none")
    for name in FIGURES:
        monkeypatch.setattr(torch.cuda, name, getattr(torch.cuda, name))
    yield
    for name in NAMES:
        if name not in before and hasattr(torch.cpu, name):
            delattr(torch.cpu, name)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, DetectorFinder)]
    for name in [name for name in sys.modules if name.split(".")[0] == "flag_gems"]:
        del sys.modules[name]


def test_torch_cpu_answers_as_a_gpu_does() -> None:
    torch.cpu.get_device_name = lambda device=None: "torch's own"
    install()
    with torch.cpu.device(0):
        assert torch.cpu.get_device_capability() == (0, 0)
    assert torch.cpu.get_device_name() == "torch's own"
    figures = torch.cpu.get_device_properties(torch.device("cpu"))
    assert (figures.name, figures.major) == ("cpu", 0)
    assert figures.multi_processor_count >= 1
    assert figures.L2_cache_size > 0
    assert torch.cuda.get_device_properties(0).shared_memory_per_block_optin > 0
    assert torch.cuda.get_device_capability() == (0, 0)
    assert not torch.cuda.is_available()


def test_a_detector_of_vendors_lists_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layout is FlagGems'."""
    folder = tmp_path / "flag_gems" / "runtime" / "backend"
    folder.mkdir(parents=True)
    for package in (folder, *folder.parents[:2]):
        (package / "__init__.py").touch()
    (folder / "__init__.py").write_text("torch_device_object = None\n", encoding="utf-8")
    (folder / "device.py").write_text(DETECTOR, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    install()
    install()
    from flag_gems.runtime.backend import device  # type: ignore[import-not-found]

    assert device.found() == "arm"
    assert device.backend.torch_device_object.current_device() == 0
    assert list(device.vendors.get_all_vendors()) == ["nvidia", "arm"]
