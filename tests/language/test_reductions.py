"""Reductions and scans, with functions of the author's and without, against numpy."""

from __future__ import annotations

from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
from pypto.frontend import KernelSource
from pypto.frontend.build import build
from pypto.language import METHODS
from pypto.options import KernelOptions
from tests.frontend.evaluate import Facts, spec
from tests.language.running import FLOATS, SIGNED, UNSIGNED, both, sample

SHAPES = [(1, 1), (3, 2), (5, 19), (16, 64), (7, 131)]


@pto.jit
def extremes(x, most, place, least, least_place):
    t = x[:, :]
    m, i = pto.max(t, 1, return_indices=True, keep_dims=True)
    most[:, :], place[:, :] = m, i
    a, b = t.min(axis=0, return_indices=True, return_indices_tie_break_left=False)
    least[:], least_place[:] = a, b
    pto.static_assert(m.dtype.bits >= 32 and pto.max(t).shape == () and pto.min(t, 0, keep_dims=True).shape[0] == 1)
    pto.static_assert(pto.argmax(t, 1, tie_break_left=False, keep_dims=True).shape == m.shape)


@pytest.mark.parametrize("dtype", [*FLOATS, *SIGNED, *UNSIGNED])
def test_extremes(dtype: Any, level: str) -> None:
    x = sample(dtype, (5, 37))
    x[2, 5:9] = x[2].max()
    wide = x.astype(np.float64) if np.dtype(dtype).kind not in "iu" else x
    outputs = np.zeros((5, 1), dtype), np.zeros((5, 1), np.int32), np.zeros(37, dtype), np.zeros(37, np.int32)
    most, place, least, least_place = both(extremes, x, *outputs, outputs=4, level=level)
    np.testing.assert_array_equal(most[:, 0], wide.max(1).astype(dtype))
    np.testing.assert_array_equal(place[:, 0], wide.argmax(1))
    np.testing.assert_array_equal(least, wide.min(0).astype(dtype))
    np.testing.assert_array_equal(least_place, wide.argmin(0))


def test_extremes_ignore_nan(level: str) -> None:
    x = sample(np.float32, (5, 37))
    x[1, :] = np.nan
    x[3, 7] = np.nan
    outputs = np.zeros((5, 1), np.float32), np.zeros((5, 1), np.int32), np.zeros(37, np.float32), np.zeros(37, np.int32)
    most, place, least, _ = both(extremes, x, *outputs, outputs=4, level=level)
    rest = [0, 2, 3, 4]
    np.testing.assert_array_equal(most[rest, 0], np.nanmax(x[rest], 1))
    np.testing.assert_array_equal(place[rest, 0], np.nanargmax(x[rest], 1))
    np.testing.assert_array_equal(least, np.nanmin(x, 0))
    assert np.isnan(most[1, 0])


@pto.jit
def bits(x, out, some, every):
    t = x[:, :]
    out[:, 0] = pto.xor_sum(t, 1)
    out[:, 1] = pto.reduce_or(t, axis=1)
    out[:, 2] = pto.reduce(t, 1, lambda a, b: a & b)
    out[:, 3] = t.prod(1, dtype=t.dtype)
    some[:] = pto.any(t % 3 == 0, 0)
    every[:] = pto.all(t % 3, 0)


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
def test_bits(dtype: Any, level: str) -> None:
    x = sample(dtype, (3, 17))
    outputs = np.zeros((3, 4), dtype), np.zeros(17, bool), np.zeros(17, bool)
    out, some, every = both(bits, x, *outputs, outputs=3, level=level)
    functions = (np.bitwise_xor, np.bitwise_or, np.bitwise_and)
    for k, f in enumerate(functions):
        np.testing.assert_array_equal(out[:, k], f.reduce(x, 1))
    np.testing.assert_array_equal(out[:, 3], x.prod(1, dtype=dtype))
    third = np.fmod(x, 3)
    np.testing.assert_array_equal(some, (third == 0).any(0))
    np.testing.assert_array_equal(every, (third != 0).all(0))


@pto.jit
def chain(a1, b1, a2, b2):
    """One linear function after another: associative, and not commutative."""
    return a1 * a2, b1 * a2 + b2


@pto.jit
def ordered(x, y, along, whole, AXIS: pto.constexpr):
    a, b = pto.reduce((x[:, :], y[:, :]), AXIS, chain, keep_dims=True)
    along[0, :, :] = a
    along[1, :, :] = b
    p, q = pto.reduce((x[:, :], y[:, :]), axis=None, combine_fn=chain)
    pto.static_assert(p.shape == ())
    whole[0] = p
    whole[1] = q


def chained(x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """The same along the first axis, in numpy."""
    with np.errstate(over="ignore"):
        return reduce(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), zip(x, y, strict=True))


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_the_order_is_kept(shape: tuple[int, int], axis: int, level: str) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 9, shape).astype(np.int64) for _ in range(2))
    wanted = np.stack([np.expand_dims(v, axis) for v in chained(np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0))])
    along, whole = np.zeros(wanted.shape, np.int64), np.zeros(2, np.int64)
    along, whole = both(ordered, x, y, along, whole, outputs=2, level=level, AXIS=axis)
    np.testing.assert_array_equal(along, wanted)
    np.testing.assert_array_equal(whole, chained(x.ravel(), y.ravel()))


@pto.jit
def best(v1, i1, v2, i2):
    tie = v1 == v2 and i1 < i2
    if v1 > v2 or tie:
        return v1, i1
    return v2, i2


@pto.jit
def branching(x, values, places):
    t = x[:, :]
    index = pto.broadcast_to(pto.arange(0, x.shape[1])[None, :], t.shape)
    values[:], places[:] = pto.reduce((t, index), 1, best)


@pytest.mark.parametrize("shape", SHAPES)
def test_functions_may_branch_on_elements(shape: tuple[int, int], level: str) -> None:
    x = np.random.default_rng(3).integers(0, 9, shape).astype(np.float32)
    values, places = np.zeros(shape[0], np.float32), np.zeros(shape[0], np.int32)
    values, places = both(branching, x, values, places, outputs=2, level=level)
    np.testing.assert_array_equal(values, x.max(1))
    np.testing.assert_array_equal(places, x.argmax(1))


@pto.jit
def plain(x, out):
    t = x[:, :]
    out[:, 0] = pto.reduce(t, 1, lambda a, b: a + b)
    out[:, 1] = t.reduce(1, pto.maximum)
    out[:, 2] = pto.reduce(t, 1, lambda p, q: pto.minimum(q, p))
    out[:, 3] = pto.reduce(t, 1, lambda a, b: a * b)
    out[:, 4] = pto.associative_scan(t, 1, lambda a, b: a + b)[:, -1]
    out[:, 5] = pto.associative_scan(t, 1, lambda a, b: pto.maximum(b, a), reverse=True)[:, 0]


def test_plain_functions_are_ops(level: str) -> None:
    """What is one op is emitted as one, and gives its result in the type of the operand."""
    x = sample(np.float32, (4, 33))
    (out,) = both(plain, x, np.zeros((4, 6), np.float32), outputs=1, level=level)
    wanted = [x.sum(1), x.max(1), x.min(1), x.prod(1), x.sum(1), x.max(1)]
    np.testing.assert_allclose(out, np.stack(wanted, 1), rtol=1e-4, atol=1e-5)
    facts = Facts({("x", 0): 4, ("x", 1): 33, ("out", 0): 4, ("out", 1): 6})
    specs = {"x": spec(x), "out": spec(out)}
    function = build(KernelSource.of(plain.function), specs, facts, METHODS, KernelOptions().max_ops).function
    names, ops = [op.name for op in function.walk()], ("sum", "max", "min", "prod", "cumsum", "cummax")
    assert tuple(n for n in names if n in ops) == ops
    assert not {"add", "mul", "maximum", "gather"} & {*names}


@pto.jit
def scans(x, y, forward, backward, AXIS: pto.constexpr):
    a, b = pto.associative_scan((x[:, :], y[:, :]), AXIS, chain)
    forward[0, :, :], forward[1, :, :] = a, b
    a, b = pto.associative_scan((x[:, :], y[:, :]), axis=AXIS, combine_fn=chain, reverse=True)
    backward[0, :, :], backward[1, :, :] = a, b


def scanned(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Along the first axis, in numpy."""
    return np.stack([np.stack(chained(x[: n + 1], y[: n + 1])) for n in range(len(x))], 1)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_scans(shape: tuple[int, int], axis: int, level: str) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 9, shape).astype(np.int64) for _ in range(2))
    p, q = np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)
    wanted = [np.moveaxis(scanned(p, q), 1, axis + 1), np.moveaxis(scanned(p[::-1], q[::-1])[:, ::-1], 1, axis + 1)]
    found = both(scans, x, y, *map(np.zeros_like, wanted), outputs=2, level=level, AXIS=axis)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pto.jit
def running(x, sums, products, most, least):
    t = x[:, :]
    sums[:, :] = pto.cumsum(t, 1, reverse=True, dtype=pto.float64)
    products[:, :] = pto.cumprod(t, axis=0)
    most[:, :] = t.cummax(1)
    least[:, :] = pto.cummin(t, axis=0, reverse=True)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.int32, np.uint8])
def test_running(dtype: Any, level: str) -> None:
    x = sample(dtype, (5, 33)) if np.dtype(dtype).kind not in "iu" else (sample(dtype, (5, 33)) % 7).astype(dtype)
    wide = x.astype(np.float64)
    sums = np.cumsum(wide[:, ::-1], 1)[:, ::-1]
    most, least = np.maximum.accumulate(wide, 1), np.minimum.accumulate(wide[::-1], 0)[::-1]
    outputs = np.zeros(x.shape), *(np.zeros_like(x) for _ in range(3))
    a, b, c, d = both(running, x, *outputs, outputs=4, level=level)
    np.testing.assert_allclose(a, sums, rtol=1e-12)
    products = np.cumprod(wide, 0) if np.dtype(dtype).kind not in "iu" else np.cumprod(x, 0, dtype=dtype)
    np.testing.assert_allclose(b.astype(float), products.astype(float), rtol=1e-2 if x.itemsize == 2 else 1e-5)
    np.testing.assert_array_equal(c.astype(float), most)
    np.testing.assert_array_equal(d.astype(float), least)


@pto.jit
def normal(x, first, second):
    t = x[:, :]
    first[:, :] = pto.softmax(t)
    second[:, :] = t.softmax(dim=1, keep_dims=True, ieee_rounding=True)


def test_softmax(level: str) -> None:
    x = sample(np.float32, (6, 21))
    e = np.exp(x.astype(float))
    first, second = both(normal, x, np.zeros_like(x), np.zeros_like(x), outputs=2, level=level)
    np.testing.assert_allclose(first, e / e.sum(0), rtol=1e-5)
    np.testing.assert_allclose(second, e / e.sum(1, keepdims=True), rtol=1e-5)


@pto.jit
def normal_rows(x, out):
    row = pto.program_id(0)
    out[row, :] = pto.softmax(x[row, :])


@pytest.mark.parametrize(("scale", "count"), [(1, 7), (5, 64), (5, 1000), (30, 1000)])
def test_softmax_is_as_near_as_it_says(scale: int, count: int, level: str) -> None:
    x = (scale * np.random.default_rng(count).standard_normal((50, count))).astype(np.float32)
    out = np.zeros_like(x)
    pto.jit(level=level)(normal_rows.function)[50](x, out)
    below = x.astype(float) - x.max(1, keepdims=True).astype(float)
    exact = np.exp(below) / np.exp(below).sum(1, keepdims=True)
    allowed = 1.5 * (6 - below) * 2.0**-24 * exact
    assert np.all(abs(out - exact) <= np.maximum(allowed, 2.0**-148))  # of what is subnormal, too
