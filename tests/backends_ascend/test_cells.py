"""Elementwise ops on the vector unit: the simulated device gives what the interpreter gives."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.blockir.ir import Loop, View
from pypto.backends.ascend.rules.kinds import ViaScalarUnit
from pypto.backends.ascend.rules.lane_rules import Lanes, elementwise
from pypto.backends.ascend.rules.table import rule_for
from pypto.errors.ascend import NotOnAscend
from pypto.ir.types import (
    DTYPES,
    FLOAT8,
    DType,
    TileType,
    bfloat16,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from pypto.ops.casts import convert
from pypto.ops.row import OpRow, Unsupported
from pypto.ops.table import TABLE
from tests.backends_ascend.cells import COUNT, Array, Cells, UbSink, run_all
from tests.conformance.sources import define
from tests.ops.rows import ELEMENTWISE, Call, calls
from tests.ops.samples import operands
from tests.ops.test_elementwise import allowed_on_ascend, assert_agree, kernel_text, outputs
from tests.sim.device import needs_compiler

pytestmark = needs_compiler
SIZE = 701
KERNEL = 100  # instructions of a kernel, about
# Functions of hundreds of instructions, and of thousands; some of them stand for the others in the quick tests, since
# they are the lane rules that the CPU runs, too.
FEW = ("asinh", "pow", "tan", "acos", "erfc")
LONG = (
    "exp10", "sinh", "cosh", "asinh", "acosh", "atanh", "cbrt", "pow", "hypot", "sin", "cos", "tan", "sinpi", "cospi",
    "asin", "acos", "atan", "atan2", "erfc", "erfcx", "normcdf",
)  # fmt: skip
LONGEST = ("erfinv", "erfcinv", "normcdfinv", "tgamma", "cyl_bessel_i0", "cyl_bessel_i1")
COMPUTED = tuple(d for d in DTYPES if d != float64)


def tried(row: OpRow, dtype: DType) -> list[Call]:
    """Calls that are one op of the operands' own types."""
    if isinstance(rule_for(row), ViaScalarUnit | Unsupported):
        return []
    made = [call for call in calls(row, dtype, (SIZE,)) if call.op.name == row.name]
    return [c for c in made if [v.type for v in c.op.operands] == list(c.types) and c.op.result.dtype != float64]


def check(rows: Iterable[OpRow], dtype: DType) -> None:
    kernels, expected = [Cells()], []
    for row in rows:
        for call in tried(row, dtype):
            arrays = operands(zlib.crc32(f"{row.name} {dtype}".encode()), dtype, len(call.types), SIZE, row.domain)
            kernels[-1].add(call.op, arrays)
            expected.append((call, wanted(call, arrays)))
            if len(kernels[-1].items) > KERNEL:
                kernels.append(Cells())
    found = run_all(kernels, SIZE) if expected else []
    assert found or not expected
    for (call, right), array in zip(expected, found, strict=True):
        assert_agree(array, right, call, "Ascend against interpreter", allowed_on_ascend)


def wanted(call: Call, arrays: list[Array]) -> Array:
    (made,) = results = outputs([call], SIZE)
    pto.interpret(define(kernel_text([call], False)))[1](*arrays, *results)
    return made


WIDER = (uint8, int16, uint16, uint32, uint64)  # kinds that others of the same form stand for in the quick tests


@pytest.mark.parametrize(
    "dtype", [pytest.param(d, marks=pytest.mark.slow) if d in WIDER else d for d in COMPUTED], ids=str
)
def test_ascend_agrees_with_interpreter(dtype: DType) -> None:
    check((row for row in ELEMENTWISE if row.name not in (*LONG, *LONGEST) or dtype.is_int), dtype)


@pytest.mark.parametrize(
    "name", [*FEW, *(pytest.param(name, marks=pytest.mark.slow) for name in (*LONG, *LONGEST) if name not in FEW)]
)
def test_long_functions(name: str) -> None:
    check([TABLE[name]], float32)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_long_functions_of_narrow_floats(dtype: DType) -> None:
    check((TABLE[name] for name in LONG), dtype)


NUMBERS = (
    "add", "sub", "mul", "div", "floordiv", "rem", "and_", "or_", "xor", "shl", "shr", "eq", "ne", "lt", "le", "gt",
    "ge", "maximum", "minimum", "where", "neg", "abs", "cast", "exp", "sqrt",
)  # fmt: skip


LESS = (int1, int32, int64, uint8, uint32, bfloat16)


@pytest.mark.parametrize(
    "dtype",
    [int8, float16, float32, *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in LESS)],
    ids=str,
)
def test_numbers_as_operands(dtype: DType) -> None:
    """Each operand in turn is one number, and then all of them are."""
    kernel, expected = Cells(), []
    for call in (c for name in NUMBERS for c in tried(TABLE[name], dtype)[:1]):
        types = [v.dtype for v in call.op.operands]
        arrays = [operands(5, d, 1, SIZE, (-9.0, 9.0))[0] for d in types]
        for chosen in [*((i,) for i in range(len(types))), tuple(range(len(types)))]:
            tried_numbers = [number_of(d) if i in chosen else None for i, d in enumerate(types)]
            given = [a if n is None else np.full(SIZE, n, a.dtype) for a, n in zip(arrays, tried_numbers, strict=True)]
            kernel.add(call.op, given, tuple(tried_numbers))
            expected.append((call, wanted(call, given)))
    for (call, right), array in zip(expected, kernel.run(SIZE), strict=True):
        assert_agree(array, right, call, "Ascend against interpreter, with numbers", allowed_on_ascend)


def number_of(dtype: DType) -> float | int | bool:
    if dtype.is_bool or dtype.is_float:
        return True if dtype.is_bool else 2.5
    return dtype.integer_range[1] - 3 if dtype.kind == "uint" else -3


@pytest.mark.parametrize(("count", "parts"), [(768, 1), (8192, 2), (128 * 61, 61)])
def test_long_chunks_are_done_in_parts(count: int, parts: int) -> None:
    """So that a function's temporaries take a part of UB only."""
    (call,) = tried(TABLE["exp2"], float32)
    sink = UbSink(count)
    source = sink.temporary(float32)
    (made,) = elementwise(call.op, [Lanes(float32, source)], sink)
    loops = [item for item in sink.items if isinstance(item, Loop)]
    assert [loop.stop for loop in loops] == [parts] * (parts > 1)
    assert sink.used <= 2 * 4 * count + 64 * 1024
    assert isinstance(made.at, View)


@pytest.mark.parametrize("row", ELEMENTWISE, ids=lambda row: row.name)
def test_every_cell_runs_or_says_what_to_do(row: OpRow) -> None:
    """For every dtype that the row takes, also those that no chip has."""
    dtypes = (float32, float64) if row.name in (*LONG, *LONGEST) else DTYPES
    for call in (c for dtype in dtypes for c in calls(row, dtype, (SIZE,)) if c.op.name == row.name):
        sink = UbSink(128)
        try:
            (made,) = elementwise(call.op, [Lanes(v.dtype, sink.temporary(v.dtype)) for v in call.op.operands], sink)
        except NotOnAscend as refused:
            dtypes = [v.dtype for v in (*call.op.operands, call.op.result)]
            wide = float64 in dtypes or (row.name in ("ldexp", "pow") and int64 in dtypes)
            assert wide or isinstance(rule_for(row), ViaScalarUnit | Unsupported)
            assert all(len(refused.fields[name].split()) > 2 for name in ("reason", "way"))
            continue
        assert isinstance(made.at, View) and made.dtype == call.op.result.dtype


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_floats_of_8_bits(dtype: DType) -> None:
    """Casts of every code and of what lies between two of them, and choices."""
    codes = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    kernel, expected = Cells(), []
    for other in (float32, float16, bfloat16, int8, int32):
        values = codes.astype(np.float32)
        with np.errstate(all="ignore"):
            near = np.concatenate([values, values * np.float32(1.03), values * np.float32(0.97)])
            sources = {other: near.astype(other.numpy)} if other.is_float else {}
        for source, to, array in ((dtype, other, codes), *((d, dtype, a) for d, a in sources.items())):
            call = Call(TABLE["cast"], (TileType(array.shape, source),), (("dtype", to),))
            kernel.add(call.op, [array])
            expected.append((call, convert(array, to)))
    chosen = Call(TABLE["where"], (TileType((256,), int1), *(TileType((256,), dtype),) * 2))
    condition = np.arange(256) % 3 == 0
    kernel.add(chosen.op, [condition, codes, codes[::-1].copy()])
    expected.append((chosen, np.where(condition, codes, codes[::-1])))
    for (call, right), array in zip(expected, kernel.run(COUNT), strict=True):
        assert_agree(array[: len(right)], right, call, "Ascend against the cast's meaning")
