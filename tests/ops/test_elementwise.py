"""Elementwise ops, on lanes and on scalars: the CPU gives what the interpreter gives, and floats within the ulp."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.ir.types import DTYPES, DType, float32
from pypto.ops.casts import convert
from pypto.ops.row import OpRow, ViaFormula, ViaInstruction
from pypto.ops.table import TABLE
from tests.conformance.sources import define
from tests.conftest import ALL_LEVELS
from tests.ops.rows import ELEMENTWISE, SIZE, Call, at_levels, calls, takes
from tests.ops.samples import Array, assert_same, between, enough, operands, ulp_errors, wide

ZEROS_OPEN = ("maximum", "minimum")  # which of 0.0 and -0.0 is the greater one
SINGLES = 151  # elements that are computed one by one, too
MANY = 20_001  # operands of functions of one real number
ON_OLD_MACHINES = ("cast", "exp", "floor", "rem", "fma", "maximum", "floordiv", "sqrt")  # what needs newer instructions

PAIRS = [(row, dtype) for row in ELEMENTWISE for dtype in takes(row)]
OLD = [(row, dtype) for row, dtype in PAIRS if row.name in ON_OLD_MACHINES]
FUNCTIONS = [(row, dtype) for row, dtype in PAIRS if row.ulp and dtype.is_float]
FLOATS = [d for d in DTYPES if d.is_float]


def kernel_text(tried: list[Call], scalar: bool) -> str:
    """All calls of a row in one kernel, each with an output of its own; `scalar`: a second time, one by one."""
    inputs, outputs = [f"x{i}" for i in range(len(tried[0].types))], [f"y{i}" for i in range(len(tried))]

    def statements(index: str, outputs: list[str]) -> list[str]:
        arguments = [f"{x}[{index}]" for x in inputs]
        return [f"{y}[{index}] = {call.text(*arguments)}" for y, call in zip(outputs, tried, strict=True)]

    singles = [y.replace("y", "z") for y in outputs] if scalar else []
    loop = ["    for i in range(z0.shape[0]):", *(f"        {s}" for s in statements("i", singles))] if scalar else []
    head = f"def kernel({', '.join(inputs + outputs + singles)}):"
    return "\n".join([head, *(f"    {s}" for s in statements(":", outputs)), *loop, ""])


def outputs(tried: list[Call], count: int) -> list[Array]:
    return [np.zeros(count, call.op.result.dtype.numpy) for call in tried]


def allowed(row: OpRow, dtype: DType) -> float:
    """Units in the last place that a result may be off. 16-bit floats are computed in float32 and rounded once more."""
    if not row.ulp or not dtype.is_float:
        return 0.0
    # The reference of float64 is itself off by up to a unit.
    return 0.51 if dtype.bits == 16 else row.ulp[dtype.mnemonic] + (1.0 if dtype.bits == 64 else 0.0)


def allowed_on_ascend(row: OpRow, dtype: DType) -> float:
    """The same for Ascend, whose instructions and formulas state errors of their own."""
    rule, shared = row.rule_for("ascend"), allowed(row, dtype)
    if isinstance(rule, ViaFormula) and dtype.is_float and dtype.bits == 16:
        return 1.0
    return max(shared, rule.ulp) if isinstance(rule, ViaFormula | ViaInstruction) and dtype == float32 else shared


def assert_agree(
    found: Array, wanted: Array, call: Call, what: str, most: Callable[[OpRow, DType], float] = allowed
) -> None:
    """Exact where the row states no error; else as near as stated, and half a unit since both sides round."""
    dtype = call.op.result.dtype
    ulp = most(call.row, dtype)
    if ulp == 0:
        assert_same(found, wanted, f"{what}: {call}", zeros=call.row.name not in ZEROS_OPEN)
        return
    errors = ulp_errors(found, wide(wanted), dtype)
    assert errors.max() <= ulp + 0.5, f"{what}: {call} is {errors.max():.2f} ulp off at index {errors.argmax()}"


@functools.lru_cache(8)  # a row's tests on two levels follow each other
def interpreted(name: str, dtype: DType) -> tuple[list[Call], list[Array], list[Array]]:
    """Calls of a row, operands, and what the interpreter makes of them, which is the same for every level."""
    row = TABLE[name]
    tried, seed = calls(row, dtype), zlib.crc32(f"{row.name} {dtype}".encode())
    arrays, wanted = operands(seed, dtype, len(tried[0].types), SIZE, row.domain), outputs(tried, SIZE)
    pto.interpret(define(kernel_text(tried, False)))[1](*arrays, *wanted)
    return tried, arrays, wanted


def check_agreement(row: OpRow, dtype: DType, level: str) -> None:
    tried, arrays, wanted = interpreted(row.name, dtype)
    lanes, scalars = outputs(tried, SIZE), outputs(tried, SINGLES)
    define(kernel_text(tried, True), level)[1](*arrays, *lanes, *scalars)
    for call, found, single, right in zip(tried, lanes, scalars, wanted, strict=True):
        assert_agree(found, right, call, "CPU against interpreter")
        assert_agree(single, right[:SINGLES], call, "CPU against interpreter, one by one")


@at_levels(PAIRS)
def test_cpu_agrees_with_interpreter(row: OpRow, dtype: DType, level: str) -> None:
    check_agreement(row, dtype, level)


@at_levels(OLD, ALL_LEVELS[2:])
def test_cpu_without_newer_instructions(row: OpRow, dtype: DType, level: str) -> None:
    check_agreement(row, dtype, level)


@functools.lru_cache(8)
def meant(name: str, dtype: DType) -> tuple[list[Array], Array]:
    """Many operands of a function of real numbers, and what is right for them, for every level."""
    row, tried = TABLE[name], calls(TABLE[name], dtype)
    arrays = operands(len(name), dtype, len(tried[0].types), enough(name, dtype, MANY), row.domain)
    with np.errstate(all="ignore"):
        return arrays, np.asarray(row.reference(tried[0].op, *arrays), np.float64)


def in_parts(tried: list[Call], arrays: list[Array], level: str) -> Array:
    """Many results of one call, by the kernel that `check_agreement` compiles; the last part ends with the last one."""
    (found,) = outputs(tried, count := len(arrays[0]))
    kernel = define(kernel_text(tried, True), level)
    for at in [*range(0, count - SIZE, SIZE), count - SIZE]:
        lanes, scalars = outputs(tried, SIZE), outputs(tried, SINGLES)
        kernel[1](*(a[at : at + SIZE].copy() for a in arrays), *lanes, *scalars)
        found[at : at + SIZE] = lanes[0]
    return found


@at_levels(FUNCTIONS)
def test_floats_lie_within_the_stated_ulp(row: OpRow, dtype: DType, level: str) -> None:
    arrays, reference = meant(row.name, dtype)
    found = in_parts(calls(row, dtype), arrays, level)
    errors = ulp_errors(found, reference, dtype)
    worst = errors.argmax()
    shown = ", ".join(str(a[worst]) for a in arrays)
    assert errors.max() <= allowed(row, dtype), f"{row.name}({shown}) = {found[worst]}, off by {errors.max():.3f} ulp"


@pytest.mark.parametrize("level", ALL_LEVELS, indirect=True)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_casts_round_once_to_nearest_even(source: DType, level: str) -> None:
    kernel: Any = define("def kernel(x, y):\n    y[:] = x[:].to(y.dtype)\n", level)
    narrower = [d for d in FLOATS if d.bits < source.bits]
    for dtype in narrower:
        for x in between(dtype, source, SIZE):
            y = np.zeros(SIZE, dtype.numpy)
            kernel[1](x, y)
            # numpy rounds float64 twice on its way to bfloat16.
            assert_same(y, convert(x, dtype), f"{source} to {dtype}")
    assert narrower or source.bits == 16
