"""Formulas for a vector unit with an exponential and a logarithm: right to the error that their rows state.

Floats of 16 bits are tried all. The unit is numpy's arithmetic, also with functions that are wrong by two units.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pytest

from pypto.backends.ascend.rules.kinds import ViaFormula
from pypto.backends.ascend.rules.table import rule_for
from pypto.ir.types import DType, bfloat16, float16, float32
from pypto.ops.row import OpRow
from pypto.ops.table import ROWS, TABLE
from tests.ops.samples import Array, operands, ulp_errors
from tests.ops.unit_model import evaluated

FORMULAS: Final = tuple(
    pytest.param(row, dtype, id=f"{row.name}-{dtype}")
    for row in ROWS
    for dtype in (float32, float16, bfloat16)
    if isinstance(rule := rule_for(row), ViaFormula) and rule.for_dtype(dtype)
)
OFF: Final = 2.0  # units in the last place that the chip's functions may be off


def arguments(row: OpRow, dtype: DType) -> list[Array]:
    if dtype.bits == 16 and len(row.params) == 1:
        arrays = [np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(dtype.numpy)]
    else:
        arrays = operands(7, dtype, len(row.params), 40_000, row.domain)
    return within_reach(row, arrays)


def within_reach(row: OpRow, arrays: list[Array]) -> list[Array]:
    """The arguments that the formulas are for, and those that are no numbers."""
    rule: Any = rule_for(row)
    if math.isinf(rule.reach):
        return arrays
    with np.errstate(invalid="ignore"):
        known = [~(np.abs(a.astype(np.float64)) > rule.reach) | np.isinf(a.astype(np.float64)) for a in arrays]
    return [a[np.logical_and.reduce(known)] for a in arrays]


def computed(row: OpRow, dtype: DType, arrays: list[Array], off: float = 0.0) -> Array:
    """What the row's formula gives, in the dtype."""
    rule: Any = rule_for(row)
    fn = rule.for_dtype(dtype)
    lanes = float16 if fn is rule.f16 else float32
    with np.errstate(all="ignore"):
        made = evaluated(fn, *(a.astype(lanes.numpy) for a in arrays), dtype=lanes, off=off)
        return made.astype(dtype.numpy)


def exact(row: OpRow, arrays: list[Array]) -> Array:
    reference: Any = row.reference
    with np.errstate(all="ignore"):
        return np.asarray(reference(None, *arrays), np.float64)


@pytest.mark.parametrize(("row", "dtype"), FORMULAS)
def test_errors_are_as_stated(row: OpRow, dtype: DType) -> None:
    arrays = arguments(row, dtype)
    wanted, rule = exact(row, arrays), rule_for(row)
    assert isinstance(rule, ViaFormula)
    bound = 1.0 if dtype.bits == 16 else rule.ulp
    for off, more in ((0.0, 0.0), (OFF, 3 * OFF), (-OFF, 3 * OFF)):
        found = computed(row, dtype, arrays, off)
        errors = ulp_errors(found, wanted, dtype)
        worst = int(np.argmax(errors))
        assert errors[worst] <= bound + (more if dtype == float32 else 0.0), (
            f"{row.name} of {[a[worst] for a in arrays]} is {found[worst]}, {errors[worst]:.2f} ulp off"
        )


@pytest.mark.parametrize(("row", "dtype"), FORMULAS)
def test_special_values(row: OpRow, dtype: DType) -> None:
    """Infinities, NaN, zeros with their signs, subnormal numbers: as the row's meaning has them."""
    arrays = within_reach(row, operands(3, dtype, len(row.params), 1000, row.domain))
    with np.errstate(all="ignore"):
        wanted = exact(row, arrays).astype(dtype.numpy)
    found = computed(row, dtype, arrays)
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    assert np.array_equal(np.isinf(found), np.isinf(wanted))
    zeros = (wanted == 0) & np.logical_or.reduce([a == 0 for a in arrays])
    assert np.array_equal(np.signbit(found[zeros]), np.signbit(wanted[zeros]))


def test_powers_of_two_are_exact() -> None:
    n = np.arange(-149, 128, dtype=np.float32)
    powers = np.ldexp(np.float32(1), n.astype(np.int32))
    assert np.array_equal(computed(TABLE["exp2"], float32, [n]), powers)
    normal = n >= -126
    assert np.array_equal(computed(TABLE["log2"], float32, [powers[normal]]), n[normal])


def test_results_below_the_range_of_the_exponential() -> None:
    x = np.linspace(-103, -87, 100, dtype=np.float32)
    assert np.all(computed(TABLE["sigmoid"], float32, [x]) > 0)
    assert computed(TABLE["exp"], float32, [np.float32([89, np.inf, -np.inf, -200])]).tolist() == [np.inf, np.inf, 0, 0]


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_arguments_nearest_to_zeros_of_the_sine(name: str) -> None:
    """All multiples of π/2 within reach, where most digits cancel, and three million arguments of all sizes."""
    row = TABLE[name]
    rule: Any = rule_for(row)
    near = (np.arange(1, int(rule.reach / (math.pi / 2)), dtype=np.float64) * (math.pi / 2)).astype(np.float32)
    parts = [near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(np.inf))]
    rng = np.random.default_rng(5)
    parts.append(rng.uniform(-rule.reach, rule.reach, 1_000_000).astype(np.float32))
    parts.append(rng.uniform(-10, 10, 1_000_000).astype(np.float32))
    parts.append(np.exp2(rng.uniform(-140, 17, 1_000_000)).astype(np.float32))
    x = np.concatenate(parts)
    errors = ulp_errors(computed(row, float32, [x]), exact(row, [x]), float32)
    worst = int(np.argmax(errors))
    assert errors[worst] <= rule.ulp, (x[worst], errors[worst])


def test_powers_of_float32_of_all_sizes() -> None:
    """Bases of all sizes and near 1, with exponents that bring the power into the range and a little beyond."""
    rng = np.random.default_rng(6)
    bases = np.exp2(rng.uniform(-149, 128, 600_000)), rng.uniform(0.5, 2, 600_000), np.exp(rng.normal(0, 1e-4, 600_000))
    x = np.concatenate(bases).astype(np.float32)
    with np.errstate(divide="ignore"):
        y = (rng.uniform(-151, 129, len(x)) / np.log2(x.astype(np.float64))).astype(np.float32)
    row, rule = TABLE["pow"], rule_for(TABLE["pow"])
    assert isinstance(rule, ViaFormula)
    errors = ulp_errors(computed(row, float32, [x, y]), exact(row, [x, y]), float32)
    worst = int(np.argmax(errors))
    assert errors[worst] <= rule.ulp, (x[worst], y[worst], errors[worst])


def test_special_powers() -> None:
    """All pairs of numbers for which IEEE 754 says what their power is."""
    inf, nan = math.inf, math.nan
    known = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1e-42, -1e-42, 3e38, -3e38, inf, -inf, nan]
    x, y = (a.ravel().astype(np.float32) for a in np.meshgrid(known, known))
    found = computed(TABLE["pow"], float32, [x, y])
    with np.errstate(over="ignore"):
        wanted = exact(TABLE["pow"], [x, y]).astype(np.float32)
    for a, b, p, q in zip(x, y, found, wanted, strict=True):
        same = p == q if np.isinf(q) or q == 0 else abs(p - q) <= 4 * np.spacing(abs(q))
        assert (np.isnan(p) and np.isnan(q)) or (same and np.signbit(p) == np.signbit(q)), (a, b, p, q)
