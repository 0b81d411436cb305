"""Cores and caches are those of the device, and a chip without rules is refused by its name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.plugin import npu, runtime_of
from pypto.backends.ascend.target import TARGETS, ascend_target, record_name
from pypto.backends.plugin import Services
from pypto.errors.device import UnsupportedChip
from pypto.options import Settings
from pypto.runtime.acl import opened
from tests.runtime.simulated import folder

needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
MB = 1 << 20


@pytest.fixture
def chip(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A device by CANN's name of its chip, through the way of real ones."""
    monkeypatch.setenv("ASCEND_HOME_PATH", str(folder()))

    def new(soc: str) -> Any:
        monkeypatch.setenv("ASCSIM_SOC", soc)
        return npu("ascend:0", 0, Services(Settings(), pto.device))

    library = runtime_of(folder(), "ascend:0")
    opened(library).close()  # a reset concerns the whole library
    yield new
    opened(library, shares_streams=True).close()


@needs_compiler
@pytest.mark.parametrize(("soc", "cube", "l2"), [("Ascend910B2", 24, 192), ("Ascend910_9362", 20, 168),
    ("Ascend910B4", 20, 96), ("Ascend950PR_950z", 4, 16), ("Ascend950PR_9599", 36, 128)])  # fmt: skip
def test_a_device_is_asked(soc: str, cube: int, l2: int, chip: Any) -> None:
    target = chip(soc).backend.target
    assert (target.cube_cores, target.vector_cores, target.l2_bytes) == (cube, 2 * cube, l2 * MB)
    assert target.arch == (3510 if "950" in soc else 2201)


@needs_compiler
def test_a_launch_has_as_many_blocks_as_the_device_has_cores(chip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    @pto.jit
    def double(x, out):
        i = pto.program_id(0) * 64
        out[i : i + 64] = x[i : i + 64] * 2.0

    x, out, blocks = np.ones(64 * 100, np.float32), np.zeros(64 * 100, np.float32), []
    device = chip("Ascend950PR_950z")
    launch = device.acl.launch
    monkeypatch.setattr(device.acl, "launch", lambda f, n, a: (blocks.append(n), launch(f, n, a)))
    with device:
        double[(100,)](x, out)
    np.testing.assert_array_equal(out, 2 * x)
    assert blocks == [8]


@needs_compiler
def test_a_chip_without_rules_is_refused(chip: Any) -> None:
    with pytest.raises(UnsupportedChip, match=r"no kernel can be compiled for ascend310p3"):
        chip("Ascend310P3")


@pytest.mark.parametrize("name", ["ascend310p1", "ascend310b4", "ascend910a", "ascend910b", "ascend910proa"])
def test_other_generations_are_refused_as_targets(name: str) -> None:
    with pytest.raises(UnsupportedChip, match=name):
        ascend_target(name)


def test_records_of_families() -> None:
    for soc, cores, mhz, l2 in (("Ascend910_9362", 20, 1500, 168), ("Ascend910_9372", 20, 1800, 192),
                                ("Ascend910_9392", 24, 1850, 192), ("Ascend910B4", 20, 1500, 96),
                                ("Ascend910B4-1", 20, 1500, 168), ("Ascend950PR_950z", 4, 1650, 16),
                                ("Ascend950DT_950x", 8, 1650, 32), ("Ascend950DT_9573", 28, 1650, 112),
                                ("Ascend950PR_9589", 32, 1650, 128), ("Ascend950DT_95A1", 36, 1800, 128)):  # fmt: skip
        target = ascend_target(record_name(soc))
        assert (target.cube_cores, target.mhz, target.l2_bytes) == (cores, mhz, l2 * MB), soc
        assert target.ratio == 2
    assert {t.cube_cores for t in TARGETS.values() if t.arch == 3510} == {4, 8, 28, 32, 36}
    assert record_name("Ascend910B9") == "ascend910b1"  # what a later one is like; its cores it tells itself
