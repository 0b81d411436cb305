"""Extremes that pass NaN on, of a tile and one number that is NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.pipeline import lower_kernel, lower_to_text
from pypto.backends.ascend.target import AscendTarget, ascend_target
from tests.backends_ascend.simulated import function_of, run
from tests.sim.device import needs_compiler

pytestmark = needs_compiler
CHIPS = [ascend_target("ascend910b2"), ascend_target("ascend950")]
NAN = float("nan")


@pto.jit
def extremes(x, s, most, least, between, within, loaded):
    t = x[:]
    most[:] = pto.maximum(t, s, propagate_nan=True)
    least[:] = pto.minimum(s, t, propagate_nan=True)
    between[:] = pto.clamp(t, s, 3.0, propagate_nan=True)
    within[:] = pto.clamp(t, -3.0, s, propagate_nan=True)
    loaded[:] = pto.maximum(t, x[2], propagate_nan=True)


@pto.jit
def extremes_of_constants(x, most, least, plain):
    t = x[:]
    most[:] = pto.maximum(t, float("nan"), propagate_nan=True)
    least[:] = pto.minimum(t, 0.5, propagate_nan=True)
    plain[:] = pto.maximum(t, float("nan"))


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("s", [NAN, 2.0])
def test_numbers_that_are_nan(dtype: Any, s: float, chip: AscendTarget) -> None:
    x = np.array([1, -2, NAN, 5] * 16, dtype)
    names = ("most", "least", "between", "within", "loaded")
    found = {name: np.zeros(64, dtype) for name in names}
    run(extremes, (1,), lower_kernel, chip=chip, x=x, s=s, **found)
    wanted = (np.maximum(x, dtype(s)), np.minimum(x, dtype(s)), np.minimum(np.maximum(x, dtype(s)), dtype(3)),
              np.minimum(np.maximum(x, dtype(-3)), dtype(s)), np.full(64, NAN, dtype))  # fmt: skip
    for name, a in zip(names, wanted, strict=True):
        np.testing.assert_array_equal(found[name], a, name)


def test_constants_that_are_nan() -> None:
    x = np.array([1, -2, NAN, 5] * 16, np.float32)
    found = {name: np.zeros(64, np.float32) for name in ("most", "least", "plain")}
    run(extremes_of_constants, (1,), lower_kernel, x=x, **found)
    np.testing.assert_array_equal(found["most"], np.full(64, NAN, np.float32))
    np.testing.assert_array_equal(found["least"], np.minimum(x, np.float32(0.5)))
    np.testing.assert_array_equal(found["plain"], x)
    _, text = lower_to_text(function_of(extremes_of_constants, {"x": x, **found}), CHIPS[0])
    assert text.count("Mins(") == 1  # a number that is none is an operand of the instruction
