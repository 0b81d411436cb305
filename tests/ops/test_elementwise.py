"""Elementwise ops, on lanes and on scalars: the CPU gives what the interpreter gives, and floats within the ulp."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.rules.kinds import ViaFormula, ViaInstruction
from pypto.backends.ascend.rules.table import rule_for
from pypto.ir.types import DTYPES, DType, float32
from pypto.ops.casts import convert
from pypto.ops.row import OpRow
from pypto.ops.table import TABLE
from tests.conformance.sources import define
from tests.conftest import ALL_LEVELS, LEVELS
from tests.ops.rows import ELEMENTWISE, QUICK, SIZE, Call, at_levels, calls, takes
from tests.ops.samples import Array, assert_same, between, enough, operands, ulp_errors, wide

ZEROS_OPEN = ("maximum", "minimum")  # which of 0.0 and -0.0 is the greater one
EXTENDED = np.finfo(np.longdouble).nmant > 52
SINGLES = 151  # elements that are computed one by one, too
MANY = 20_001  # operands of functions of one real number
ON_OLD_MACHINES = ("cast", "exp", "floor", "rem", "fma", "maximum", "floordiv", "sqrt")  # what needs newer instructions

PAIRS = [(row, dtype) for row in ELEMENTWISE for dtype in takes(row)]
OLD = [(row, dtype) for row, dtype in PAIRS if row.name in ON_OLD_MACHINES]
FLOATS = [d for d in DTYPES if d.is_float]
TOGETHER = 8  # short rows of a dtype in one kernel, most of whose time to compile would be spent on each kernel


def is_function(row: OpRow, dtype: DType) -> bool:
    """Whether a row is as near to the numbers that it means as it says, and not equal to them."""
    return bool(row.ulp) and dtype.is_float


def is_tried_here(row: OpRow, dtype: DType) -> bool:
    """Whether a function's ulp are measured here: `test_math_accuracy` does it with more digits where it can."""
    return dtype.bits == 16 or row.name == "fma" or (dtype.bits == 64 and not EXTENDED)


FUNCTIONS = [(row, dtype) for row, dtype in PAIRS if is_function(row, dtype)]
# Floats of 16 bits are computed in float32 and rounded: every third function shows it in each run.
NARROW = [pair for number, pair in enumerate(FUNCTIONS) if pair[1].bits == 16 and number % 3]


def together(pairs: list[tuple[OpRow, DType]]) -> list[tuple[tuple[OpRow, ...], DType]]:
    """Rows that are tried in one kernel, and their dtype."""
    made = []
    for dtype in DTYPES:
        rows = [row for row, taken in pairs if taken == dtype]
        made += [(tuple(rows[at : at + TOGETHER]), dtype) for at in range(0, len(rows), TOGETHER)]
    return made


def kernel_text(tried: list[Call], scalar: bool) -> str:
    """All calls of a row in one kernel, each with an output of its own; `scalar`: a second time, one by one."""
    return text_of_rows([tried], scalar)


def text_of_rows(rows: list[list[Call]], scalar: bool) -> str:
    """All calls of some rows in one kernel: its arguments are all inputs, all outputs, and those of single elements."""
    inputs = [[f"x{r}_{i}" for i in range(len(tried[0].types))] for r, tried in enumerate(rows)]
    outputs = [[f"y{r}_{i}" for i in range(len(tried))] for r, tried in enumerate(rows)]

    def statements(index: str, to: str) -> list[str]:
        return [
            f"{y.replace('y', to)}[{index}] = {call.text(*(f'{x}[{index}]' for x in xs))}"
            for xs, ys, tried in zip(inputs, outputs, rows, strict=True)
            for y, call in zip(ys, tried, strict=True)
        ]

    names = [name for part in (*inputs, *outputs) for name in part]
    singles = [y.replace("y", "z") for part in outputs for y in part] if scalar else []
    loop = [f"    for i in range({singles[0]}.shape[0]):"] if scalar else []
    loop += [f"        {s}" for s in statements("i", "z")] if scalar else []
    head = f"def kernel({', '.join(names + singles)}):"
    return "\n".join([head, *(f"    {s}" for s in statements(":", "y")), *loop, ""])


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
    rule, shared = rule_for(row), allowed(row, dtype)
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


def check_agreement(rows: tuple[OpRow, ...], dtype: DType, level: str) -> None:
    """Compare all calls of some rows with what the interpreter makes of them."""
    tried, arrays, wanted = zip(*(interpreted(row.name, dtype) for row in rows), strict=True)
    lanes, scalars = [outputs(calls, SIZE) for calls in tried], [outputs(calls, SINGLES) for calls in tried]
    given = [array for part in (*arrays, *lanes, *scalars) for array in part]
    define(text_of_rows([*tried], True), level)[1](*given)
    for made, one_by_one, right, called in zip(lanes, scalars, wanted, tried, strict=True):
        for call, found, single, expected in zip(called, made, one_by_one, right, strict=True):
            assert_agree(found, expected, call, "CPU against interpreter")
            assert_agree(single, expected[:SINGLES], call, "CPU against interpreter, one by one")


def at_levels_together(pairs: list[tuple[OpRow, DType]], levels: tuple[str, ...] = LEVELS) -> Any:
    made = []
    for rows, dtype in together(pairs):
        for level in levels:
            marks = [pytest.mark.slow] if level and dtype.mnemonic not in QUICK else []
            name = f"{rows[0].name}..{rows[-1].name}-{dtype}-{level or 'host'}"
            made.append(pytest.param(rows, dtype, level, marks=marks, id=name))
    return pytest.mark.parametrize(("rows", "dtype", "level"), made, indirect=["level"])


@at_levels_together([(row, dtype) for row, dtype in PAIRS if not is_function(row, dtype)])
def test_cpu_agrees_with_interpreter(rows: tuple[OpRow, ...], dtype: DType, level: str) -> None:
    check_agreement(rows, dtype, level)


@at_levels_together(OLD, ALL_LEVELS[2:])
def test_cpu_without_newer_instructions(rows: tuple[OpRow, ...], dtype: DType, level: str) -> None:
    check_agreement(rows, dtype, level)


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


@at_levels(FUNCTIONS, slow=NARROW)
def test_functions_agree_and_lie_within_the_stated_ulp(row: OpRow, dtype: DType, level: str) -> None:
    check_agreement((row,), dtype, level)
    if not is_tried_here(row, dtype):
        return
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
