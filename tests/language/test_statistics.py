"""Means, variances and the functions of neural networks, against numpy in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pypto as pto
from tests.language.running import FLOATS, NUMBERS, Array, both, sample

SHAPES = [(1, 1), (3, 2), (5, 19), (7, 131)]
EPS = {2: 2.0**-7, 4: 2.0**-22, 8: 2.0**-50}  # of the type that holds the result


@pto.jit
def statistics(x, mean, var, std, whole, corrected):
    t = x[:, :]
    mean[:] = pto.mean(t, 1)
    var[:] = t.var(axis=0)
    std[:, :] = pto.std(t, 1, keep_dims=True, correction=0)
    whole[0] = t.mean()
    corrected[0] = pto.var(t, correction=1)
    pto.static_assert(pto.mean(t).shape == () and pto.var(t, (0, 1), keep_dims=True).shape == (1, 1))
    pto.static_assert(pto.mean(t).dtype == pto.std(t, 0).dtype)
    pto.static_assert(pto.mean(t).dtype == (t.dtype if t.dtype.is_float else pto.float32))


def close(found: Array, wanted: Array, scale: float) -> None:
    """Equal but for the rounding of numbers of that scale."""
    found = found.astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=scale)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_mean_and_variance(dtype: Any, shape: tuple[int, int]) -> None:
    x = sample(dtype, shape, sum(shape))
    wide = x.astype(np.float64)
    result = dtype if dtype in FLOATS else np.float32
    rows, columns = shape
    outputs = [np.zeros(n, result) for n in (rows, columns, (rows, 1), 1, 1)]
    if rows * columns == 1:  # 0 / 0
        with np.errstate(all="ignore"):
            assert np.isnan(both(statistics, x, *outputs, outputs=5)[4][0])
        return
    mean, var, std, whole, corrected = both(statistics, x, *outputs, outputs=5)
    eps = 4 * EPS[np.dtype(result).itemsize]
    most = abs(wide).max()
    close(mean, wide.mean(1), eps * most)
    close(var, wide.var(0), eps * most**2)
    close(std[:, 0], wide.std(1), math.sqrt(eps) * most if columns == 1 else eps * most * 4)
    close(whole, wide.mean(), eps * most)
    close(corrected, wide.var(ddof=1), eps * most**2 * 2)


@pto.jit
def averages(x, out):
    out[0] = pto.mean(x[:])


def test_a_mean_of_narrow_numbers_does_not_overflow() -> None:
    x = np.full(1000, 30000, np.float16)  # their sum is no float16
    assert both(averages, x, np.zeros(1, np.float16), outputs=1)[0][0] == 30000
    bytes_ = np.full(1000, 127, np.int8)
    assert both(averages, bytes_, np.zeros(1, np.float32), outputs=1)[0][0] == 127


@pto.jit
def logarithms(x, out, whole):
    t = x[:, :]
    out[:] = pto.logsumexp(t, 1)
    whole[0] = t.logsumexp()


def test_logsumexp_of_large_and_of_infinite_numbers() -> None:
    x = np.array([[1000, 1001, 999.5], [-1e30, -1e30, -1e30], [-np.inf] * 3, [np.inf, 0, 1]], np.float32)
    wide = x.astype(np.float64)
    wanted = [1001 + math.log(math.exp(-1) + 1 + math.exp(-1.5)), -1e30, -np.inf, np.inf]
    found, whole = both(logarithms, x, np.zeros(4, np.float32), np.zeros(1, np.float32), outputs=2)
    np.testing.assert_allclose(found.astype(float), wanted, rtol=1e-6)
    assert whole[0] == wide.max()


@pto.jit
def activations(x, relu, silu, gelu, quick, plus):
    t = x[:]
    plus[:] = pto.softplus(t)
    relu[:] = pto.relu(t)
    silu[:] = t.silu()
    gelu[:] = pto.gelu(t)
    quick[:] = pto.gelu(t, approximate="tanh")


def erfc(x: Array) -> Array:
    return np.array([math.erfc(v) for v in x])


@pytest.mark.parametrize("dtype", FLOATS)
def test_activations(dtype: Any, level: str) -> None:
    x = np.linspace(-9, 9, 257).astype(dtype)
    wide = x.astype(np.float64)
    outputs = [np.zeros_like(x) for _ in range(5)]
    found = both(activations, x, *outputs, outputs=5, level=level)
    relu, silu, gelu, quick, plus = (y.astype(np.float64) for y in found)
    inner = 2 * math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
    np.testing.assert_array_equal(relu, np.maximum(wide, 0))
    # An exponential is off by its argument times that of the argument: the functions fall as exp(-x), exp(-x * x / 2).
    within(silu, wide / (1 + np.exp(-wide)), 1 + abs(wide), dtype)
    within(gelu, wide / 2 * erfc(-wide / math.sqrt(2)), 1 + wide**2, dtype)
    within(plus, np.logaddexp(0, wide), 2 + 0 * wide, dtype)
    within(quick, wide / (1 + np.exp(-inner)), 1 + abs(inner), dtype)


def within(found: Array, exact: Array, factor: Array, dtype: Any) -> None:
    """Off by no more than rounding of the inner type allows, and that of the result where it is narrower."""
    size = np.dtype(dtype).itemsize
    allowed = 2 * factor * EPS[max(size, 4)] + (2 * EPS[2] if size == 2 else 0)
    least = 1e-7 if size == 2 else 0  # what is subnormal in float16
    assert np.all(abs(found - exact) <= allowed * abs(exact) + least)


def test_activations_of_special_numbers() -> None:
    x = np.array([np.nan, np.inf, 0.0, 3.0], np.float32)
    found = both(activations, x, *[np.zeros_like(x) for _ in range(5)], outputs=5)
    for y in found:
        assert np.isnan(y[0]) and y[1] == np.inf
    assert [y[2] for y in found] == [0, 0, 0, 0, np.float32(math.log(2))]
    assert found[0][3] == 3


@pto.jit
def rectified(x, out):
    out[:] = pto.relu(x[:])


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16])
def test_relu_of_integers(dtype: Any) -> None:
    x = sample(dtype, (33,))
    np.testing.assert_array_equal(both(rectified, x, np.zeros_like(x), outputs=1)[0], np.maximum(x, 0))


@pto.jit
def best(x, values, places):
    found, at = pto.topk(x[:, :], values.shape[1], return_indices=True)
    values[:, :], places[:, :] = found, at


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize(("size", "count"), [(5, 5), (37, 1), (300, 3), (131, 20), (1024, 8)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.int64, np.float64])
def test_topk_with_indices(dtype: Any, size: int, count: int) -> None:
    x = sample(dtype, (3, size), size)
    if np.dtype(dtype).kind == "f":
        x[1, :3] = (np.nan, 0.0, -0.0)
    x[2] = x[2, 0]  # all equal: the lowest indices are the first
    values, places = both(best, x, np.zeros((3, count), dtype), np.zeros((3, count), np.int32), outputs=2)
    keys = x.astype(np.float64) if np.dtype(dtype).kind == "f" else x.astype(object)
    order = [sorted(range(size), key=lambda i, k=row: (bool(k[i] != k[i]), -k[i], i))[:count] for row in keys]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, 1))


@pto.jit
def converted(x, out):
    out[:] = x[:].astype(pto.int32) + x.size


@pytest.mark.parametrize("shape", [(6,), (64,)])
def test_astype_and_the_size_of_an_array(shape: tuple[int, ...]) -> None:
    x = np.linspace(-3, 3, shape[0]).astype(np.float32)
    found = both(converted, x, np.zeros(shape, np.int32), outputs=1)[0]
    np.testing.assert_array_equal(found, x.astype(np.int32) + x.size)


@pto.jit
def counted(x: pto.dynamic, scalar, out):
    out[0] = x.size
    out[1] = scalar.size


def test_size_of_several_dimensions_known_or_not() -> None:
    x, scalar = np.zeros((3, 5, 7), np.float32), np.zeros((), np.float32)
    np.testing.assert_array_equal(both(counted, x, scalar, np.zeros(2, np.int64), outputs=1)[0], [105, 1])
    x = np.broadcast_to(np.float32(0), (2**20, 2**20))  # more than 32 bits hold
    for run in (counted, pto.interpret(counted)):
        out = np.zeros(2, np.int64)
        run[1](x, scalar, out)
        np.testing.assert_array_equal(out, [2**40, 1])


@pto.jit
def of_numbers(out):
    out[0] = pto.relu(-3.0)
    out[1] = pto.silu(0)
    out[2] = pto.mean(pto.full((4,), 2.5, pto.float32))


def test_functions_of_numbers() -> None:
    np.testing.assert_array_equal(both(of_numbers, np.ones(3, np.float32), outputs=1)[0], [0, 0, 2.5])
