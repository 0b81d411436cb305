"""Exponentials of what is far below 0, as of masked scores: nothing is computed that a processor rounds slowly to 0."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.target import describe
from tests.backends_cpu.emulated import CrossEngine
from tests.backends_cpu.lowering import FEATURES, fixed_target, lowered
from tests.conformance.cases import Launch
from tests.conformance.running import at_level
from tests.conftest import ALL_LEVELS

V4 = (*FEATURES, "avx512f", "avx512vl", "avx512dq", "avx512bw", "avx512cd")


@pto.jit
def exponentials(x, y, N: pto.constexpr):
    y[:N] = pto.exp(x[:N])


@pto.jit
def powers(x, y, N: pto.constexpr):
    y[:N] = pto.exp2(x[:N])


@pytest.mark.parametrize("kernel", [exponentials, powers], ids=lambda k: k.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lanes_whose_result_is_zero_are_left_out(kernel: object, dtype: type) -> None:
    target = describe("x86-64-v4", "", "x86-64-v4", "x86_64-unknown-linux-gnu", set(V4))
    x = np.zeros(64, dtype)
    text = lowered(Launch(kernel, (1, 1, 1), {"x": x, "y": x, "N": 64}, {}), target).text
    scalings = re.findall(r"\tvscalefp.*", CrossEngine(target).assembly(text))
    assert len(scalings) >= 4
    assert all(line.endswith("{z}") for line in scalings)


@pytest.mark.parametrize("kernel", [exponentials, powers], ids=lambda k: k.__name__)
def test_without_an_instruction_that_scales_they_are_powers_of_zero(kernel: object) -> None:
    """What is multiplied by powers of two is chosen before, and the zeros after it: two masks of each register."""
    x = np.zeros(64, np.float32)
    text = lowered(Launch(kernel, (1, 1, 1), {"x": x, "y": x, "N": 64}, {})).text
    found = CrossEngine(fixed_target()).assembly(text)
    assert "vscalef" not in found
    assert len(re.findall(r"\tv(?:and|andn|blendv)ps\t", found)) >= 4


@pytest.mark.parametrize("level", ALL_LEVELS)
@pytest.mark.parametrize(("name", "kernel"), [("exp", exponentials), ("exp2", powers)])
def test_around_the_last_number_above_zero(level: str, name: str, kernel: object) -> None:
    far = [-np.inf, -1e38, -1e30, -2000.0, -1080.0, -1074.6, -800.0, -746.1, -745.2, -744.9, -708.0]
    near = [-200.0, -150.1, -149.9, -149.0, -104.1, -103.98, -103.9, -100.0, -87.4, -1.0, 0.0, np.nan, 1e30, np.inf]
    for dtype in (np.float32, np.float64):
        x = np.array(far + near, dtype)
        y = np.full_like(x, 5)
        at_level(kernel, level)[(1,)](x, y, len(x))
        with np.errstate(over="ignore", under="ignore"):
            wanted = getattr(np, name)(x.astype(np.longdouble)).astype(dtype)
        np.testing.assert_array_max_ulp(y[~np.isnan(x)], wanted[~np.isnan(x)], 1)
        assert np.isnan(y[np.isnan(x)]).all()
