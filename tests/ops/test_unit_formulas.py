"""Formulas for a vector unit with an exponential and a logarithm: right to the error that their rows state.

Floats of 16 bits are tried all. The unit is numpy's arithmetic, also with functions that are wrong by two units.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from pypto.ir.types import DType, bfloat16, float16, float32
from pypto.ops.row import OpRow, ViaFormula
from pypto.ops.table import ROWS, TABLE
from tests.ops.samples import Array, operands, ulp_errors
from tests.ops.unit_model import evaluated

FORMULAS: Final = tuple(
    pytest.param(row, dtype, id=f"{row.name}-{dtype}")
    for row in ROWS
    for dtype in (float32, float16, bfloat16)
    if isinstance(rule := row.rule_for("ascend"), ViaFormula) and rule.for_dtype(dtype)
)
OFF: Final = 2.0  # units in the last place that the chip's functions may be off


def arguments(row: OpRow, dtype: DType) -> list[Array]:
    if dtype.bits == 16 and len(row.params) == 1:
        return [np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(dtype.numpy)]
    return operands(7, dtype, len(row.params), 40_000, row.domain)


def computed(row: OpRow, dtype: DType, arrays: list[Array], off: float = 0.0) -> Array:
    """What the row's formula gives, in the dtype."""
    rule: Any = row.rule_for("ascend")
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
    wanted, rule = exact(row, arrays), row.rule_for("ascend")
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
    arrays = operands(3, dtype, len(row.params), 1000, row.domain)
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
