"""Reductions, scans, dot, and ops that move elements: on every axis, at odd sizes, with NaN and infinities."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.ir.types import DTYPES, DType
from pypto.ops.row import OpRow
from tests.conformance.sources import define
from tests.ops.rows import AXES, COMPUTING, FITTING, Call, Shape, at_levels, calls, operands_of, takes
from tests.ops.samples import Array, assert_same, finfo, random_values, specials, wide

SUMS = ("sum", "cumsum", "dot")  # what may be added up in another order
PRODUCTS = ("prod", "cumprod")
SHAPES: tuple[Shape, ...] = ((5, 9, 19), (33, 35), (1, 67), (701,), (1,))
ROWS_AND_DTYPES = [(row, dtype) for row in AXES for dtype in takes(row)]
MOVING = [row for row in COMPUTING if row.name in FITTING]


def colons(shape: Shape) -> str:
    return ", ".join(":" * len(shape)) or "0"


def kernel_text(tried: list[Call]) -> str:
    """All calls on the same operands, each with an output of its own."""
    inputs, outputs = [f"x{i}" for i in range(len(tried[0].types))], [f"y{i}" for i in range(len(tried))]
    arguments = [f"{x}[{colons(t.shape)}]" for x, t in zip(inputs, tried[0].types, strict=True)]
    targets = [f"{y}[{colons(call.op.result.shape)}]" for y, call in zip(outputs, tried, strict=True)]
    lines = [f"    {y} = {call.text(*arguments)}" for y, call in zip(targets, tried, strict=True)]
    return "\n".join([f"def kernel({', '.join(inputs + outputs)}):", *lines, ""])


def outputs(tried: list[Call]) -> list[Array]:
    return [np.zeros(call.op.result.shape or (1,), call.op.result.dtype.numpy) for call in tried]


def compare(tried: list[Call], arrays: list[Array], level: str) -> None:
    found, wanted = outputs(tried), outputs(tried)
    define(kernel_text(tried), level)[1](*arrays, *found)
    pto.interpret(define(kernel_text(tried)))[1](*arrays, *wanted)
    for call, a, b in zip(tried, found, wanted, strict=True):
        assert_agree(call, arrays, a, b)


def assert_agree(call: Call, arrays: list[Array], found: Array, wanted: Array) -> None:
    dtype = call.op.result.dtype
    if call.row.name in PRODUCTS and dtype.is_float:  # each factor rounds once, in float32 at least
        unit = 2.0**-23 if dtype.bits <= 32 else 2.0**-52
        lost = (wide(wanted) == 0) & np.isnan(wide(found))  # some factors were infinite before they met a zero
        right = np.where(lost, np.nan, wide(wanted))
        np.testing.assert_allclose(wide(found), right, rtol=arrays[0].size * unit + float(finfo(dtype).eps))
        return
    if call.row.name not in SUMS or not dtype.is_float:
        assert_same(found, wanted, str(call), zeros=False)
        return
    bound = rounding_bound(call, arrays, dtype)
    with np.errstate(all="ignore"):
        near = np.abs(wide(found) - wide(wanted)) <= bound + float(finfo(dtype).eps) * np.abs(wide(wanted))
    same = (wide(found) == wide(wanted)) | (np.isnan(wide(found)) & np.isnan(wide(wanted)))
    assert np.all(near | same), f"{call}: {found[~(near | same)]} is not {wanted[~(near | same)]}"


def rounding_bound(call: Call, arrays: list[Array], dtype: DType) -> float:
    """What a sum of so many terms of such a size can be off, added up in any order."""
    unit = 2.0**-24 if dtype.bits <= 32 else 2.0**-53
    sizes = [float(np.max(np.abs(np.where(np.isfinite(wide(a)), wide(a), 0)))) for a in arrays]
    terms = arrays[0].shape[-1] if call.row.name == "dot" else arrays[0].size
    return 2 * unit * terms * terms * math.prod(sizes)


def finite(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
    values = random_values(rng, dtype, math.prod(shape), (-10.0, 10.0)).reshape(shape)
    return values if not dtype.is_float else rng.uniform(-10, 10, shape).astype(dtype.numpy)


def sprinkled(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
    """Many special values, whole rows of NaN, and ties."""
    values = rng.choice(specials(dtype), shape)
    values = np.where(rng.random(shape) < 0.5, rng.choice(values.ravel()[:5], shape), values).astype(dtype.numpy)
    if dtype.is_float:
        values[rng.random(shape[:1]) < 0.3] = np.nan
    return values


@pytest.mark.covering(quick=1, slow=2)
@at_levels(ROWS_AND_DTYPES)
def test_axes(row: OpRow, dtype: DType, level: str) -> None:
    rng = np.random.default_rng(zlib.crc32(f"{row.name} {dtype}".encode()))
    for shape in SHAPES if dtype.mnemonic in ("f32", "i32") else SHAPES[:1]:
        tried = calls(row, dtype, shape)
        assert tried
        compare(tried, [finite(rng, dtype, shape)], level)


@pytest.mark.covering(quick=1, slow=2)
@at_levels([(row, dtype) for row, dtype in ROWS_AND_DTYPES if row.name not in (*SUMS, *PRODUCTS)])
def test_special_values_along_axes(row: OpRow, dtype: DType, level: str) -> None:
    rng = np.random.default_rng(zlib.crc32(f"special {row.name} {dtype}".encode()))
    compare(calls(row, dtype, (9, 37)), [sprinkled(rng, dtype, (9, 37))], level)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.is_float], ids=str)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_sums_with_a_special_value(dtype: DType, special: float) -> None:
    from pypto.ops.table import TABLE

    x = finite(np.random.default_rng(3), dtype, (9, 37))
    x[2, 5] = special
    for name in ("sum", "cumsum"):
        compare(calls(TABLE[name], dtype, x.shape), [x], "")
    total = np.zeros(1, dtype.numpy)
    define("def kernel(x, y):\n    y[0] = pto.sum(x[:, :])\n")[1](x, total)
    np.testing.assert_array_equal(wide(total), special)


def apart(tried: list[Call]) -> str:
    """All calls in one kernel, each with operands and an output of its own."""
    names, lines = [], []
    for i, call in enumerate(tried):
        inputs = [f"x{i}_{k}" for k in range(len(call.types))]
        arguments = [f"{x}[{colons(t.shape)}]" for x, t in zip(inputs, call.types, strict=True)]
        lines.append(f"    y{i}[{colons(call.op.result.shape)}] = {call.text(*arguments)}")
        names += [*inputs, f"y{i}"]
    return "\n".join([f"def kernel({', '.join(names)}):", *lines, ""])


def arguments(tried: list[Call], made: list[Array]) -> list[Array]:
    """Operands of every call, then its output; an index lies within what it points into."""
    rng, found = np.random.default_rng(11), []
    for call, output in zip(tried, made, strict=True):
        for p, kind in zip(operands_of(call.row), call.types, strict=True):
            if p.name == "index":
                size = call.types[0].shape[dict(call.attrs)["axis"]]
                found.append(rng.integers(0, size, kind.shape, kind.dtype.numpy))
            else:
                found.append(finite(rng, kind.dtype, kind.shape))
        found.append(output)
    return found


@pytest.mark.covering(quick=1, slow=2)
@at_levels([(row, dtype) for row in MOVING for dtype in takes(row)])
def test_calls_that_fit_their_operands(row: OpRow, dtype: DType, level: str) -> None:
    tried = calls(row, dtype)
    assert len(tried) == len(FITTING[row.name])
    given, right = arguments(tried, outputs(tried)), arguments(tried, outputs(tried))
    define(apart(tried), level)[1](*given)
    pto.interpret(define(apart(tried)))[1](*right)
    at = 0
    for call in tried:
        end = at + len(call.types)
        assert_agree(call, given[at:end], given[end], right[end])
        at = end + 1


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.is_bool], ids=str)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 13, 3), (65, 47, 129)])
def test_dot(sizes: tuple[int, int, int], dtype: DType, level: str) -> None:
    """Against exact products of integers, which every type holds; the accumulator has the result's type."""
    m, n, k = sizes
    rng = np.random.default_rng(sum(sizes))
    a, b = (rng.integers(0, 4, s).astype(dtype.numpy) for s in ((m, k), (k, n)))
    kind: Any = np.float64 if dtype.bits == 64 and dtype.is_float else np.float32 if dtype.is_float else np.int32
    c, plain, added = rng.integers(0, 9, (m, n)).astype(kind), np.zeros((m, n), kind), np.zeros((m, n), kind)
    lines = ["x, y = a[:, :], b[:, :]", "plain[:, :] = pto.dot(x, y)", "added[:, :] = pto.dot(x, y, c[:, :])"]
    define("\n    ".join(["def kernel(a, b, c, plain, added):", *lines]) + "\n", level)[1](a, b, c, plain, added)
    np.testing.assert_array_equal(plain, a.astype(int) @ b.astype(int))
    np.testing.assert_array_equal(added, plain + c)


def test_dot_of_integers_wraps() -> None:
    a = np.full((3, 9), 2**30, np.int32)
    out = np.zeros((3, 3), np.int32)
    kernel = define("def kernel(a, b, out):\n    out[:, :] = pto.dot(a[:, :], b[:, :])\n")
    for run in (kernel, pto.interpret(kernel)):
        run[1](a, np.full((9, 3), 7, np.int32), out)
        assert (out == (2**30 * 63 + 2**31) % 2**32 - 2**31).all()
