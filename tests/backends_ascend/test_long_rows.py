"""Rows that do not fit UB, on the simulated device, against float64."""

from __future__ import annotations

import inspect
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.pipeline import lower_kernel
from pypto.backends.ascend.target import ascend_target
from tests.backends_ascend.simulated import run
from tests.sim.device import needs_compiler

Array = np.ndarray[Any, Any]
f16, f32 = np.dtype(np.float16), np.dtype(np.float32)
bf16 = np.dtype(ml_dtypes.bfloat16)


@pto.jit
def softmax(x, y):
    i = pto.program_id(0)
    y[i] = pto.softmax(x[i].to(pto.float32), 0).to(y.dtype)


@pto.jit
def log_softmax_in_place(x):
    for i in range(pto.program_id(0), x.shape[0], pto.num_programs(0)):
        t = x[i].to(pto.float32)
        t = t - pto.max(t)
        x[i] = (t - pto.log(pto.sum(pto.exp(t)))).to(x.dtype)


@pto.jit
def layer_norm(x, w, b, y):
    i = pto.program_id(0)
    t = x[i].to(pto.float32)
    mean = pto.sum(t) / x.shape[1]
    d = t - mean
    scale = pto.rsqrt(pto.sum(d * d) / x.shape[1] + 1e-5)
    y[i] = (d * scale * w[:].to(pto.float32) + b[:].to(pto.float32)).to(y.dtype)


@pto.jit
def statistics(x, best, least, at, low, total):
    i = pto.program_id(0)
    t = x[i]
    best[i], least[i] = pto.max(t), pto.min(t)
    at[i], low[i] = pto.argmax(t, axis=0), pto.argmin(t, axis=0)
    total[i] = pto.sum(t)


@pto.jit
def any_all(x, y, z):
    i = pto.program_id(0)
    y[i] = pto.any(x[i] > 4.0, axis=0).to(pto.int32)
    z[i] = pto.all(x[i] < 4.0, axis=0).to(pto.int32)


@pto.jit
def cross_entropy(x, label, y, n, BLOCK: pto.constexpr):
    i = pto.program_id(0)
    c = pto.arange(0, BLOCK)
    t = pto.load(x + i * n + c, mask=c < n, other=-float("inf")).to(pto.float32)
    best = pto.max(t)
    total = pto.log(pto.sum(pto.exp(t - best))) + best
    y[i] = total - pto.sum(pto.where(c == label[i], t, 0.0))


@pto.jit
def stored_before_its_maximum(x, y):
    i = pto.program_id(0)
    t = x[i]
    x[i] = t + 1.0
    y[i] = t - pto.max(t)


@pto.jit
def norm_gradient(x, g, dx, dw):
    t, u = x[:, :].to(pto.float32), g[:, :].to(pto.float32)
    s = pto.sum(t * u, axis=1, keep_dims=True)
    dx[:, :] = (u - t * s).to(dx.dtype)
    dw[:] = pto.sum(t * u, axis=0)


def normal(*shape: int, dtype: Any = f16) -> Array:
    return np.random.default_rng(shape[-1]).standard_normal(shape).astype(dtype)


def softmax_of(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def ulp(dtype: np.dtype[Any]) -> float:
    return float(ml_dtypes.finfo(dtype).eps)


SHAPES = (
    ("ascend910b2", 50_000, f16),
    pytest.param("ascend950", 50_021, f32, marks=pytest.mark.slow),
    pytest.param("ascend910b2", 152_064, bf16, marks=pytest.mark.slow),
    pytest.param("ascend950", 152_064, f16, marks=pytest.mark.slow),
    pytest.param("ascend910b2", 65_537, f32, marks=pytest.mark.slow),
)
on_shapes = pytest.mark.parametrize(("chip", "n", "dtype"), SHAPES)


def function_arguments(kernel: Any, arrays: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(inspect.signature(kernel.function).parameters, arrays, strict=False))


def launch(kernel: Any, chip: str, programs: int, *arrays: Any, **more: Any) -> None:
    run(kernel, (programs,), lower_kernel, chip=ascend_target(chip), **function_arguments(kernel, arrays), **more)


@needs_compiler
@on_shapes
def test_softmax(chip: str, n: int, dtype: np.dtype[Any]) -> None:
    x = normal(2, n, dtype=dtype)
    y = np.zeros_like(x)
    launch(softmax, chip, 2, x, y)
    np.testing.assert_allclose(y.astype(float), softmax_of(x.astype(float)), rtol=8 * ulp(f32) + ulp(dtype), atol=6e-8)


@needs_compiler
@on_shapes
def test_log_softmax_in_place_in_a_loop(chip: str, n: int, dtype: np.dtype[Any]) -> None:
    x = normal(3, n, dtype=dtype)
    expected = np.log(softmax_of(x.astype(float)))
    launch(log_softmax_in_place, chip, 2, x)
    np.testing.assert_allclose(x.astype(float), expected, rtol=8 * ulp(f32) + ulp(dtype))


@needs_compiler
@on_shapes
def test_layer_norm(chip: str, n: int, dtype: np.dtype[Any]) -> None:
    x, w, b = normal(2, n, dtype=dtype), normal(n, dtype=dtype), normal(n, dtype=dtype)[::-1].copy()
    y = np.zeros_like(x)
    launch(layer_norm, chip, 2, x, w, b, y)
    t = x.astype(float)
    expected = (t - t.mean(1, keepdims=True)) / np.sqrt(t.var(1, keepdims=True) + 1e-5) * w.astype(float)
    np.testing.assert_allclose(y.astype(float), expected + b.astype(float), rtol=ulp(dtype), atol=4 * ulp(f32) * 16)


@needs_compiler
@pytest.mark.parametrize(
    ("chip", "dtype"),
    [
        ("ascend950", np.dtype(np.int32)),
        pytest.param("ascend910b2", f16, marks=pytest.mark.slow),
        pytest.param("ascend950", bf16, marks=pytest.mark.slow),
        pytest.param("ascend910b2", f32, marks=pytest.mark.slow),
    ],
)
def test_sums_and_extremes_with_their_indices(chip: str, dtype: np.dtype[Any]) -> None:
    x = ((100 if dtype.kind == "i" else 0.25) * normal(3, 50_000, dtype=f32)).astype(dtype)
    x[1] = x[1].max()  # all are equal
    x[2, 40_000:] = x[2].min()
    if dtype.kind != "i":
        x[0, ::3] = np.nan
    t = x.astype(float)
    best, least = np.zeros(3, dtype), np.zeros(3, dtype)
    at, low = np.zeros(3, np.int32), np.zeros(3, np.int32)
    total = np.zeros(3, np.int32 if dtype.kind == "i" else f32)
    launch(statistics, chip, 3, x, best, least, at, low, total)
    np.testing.assert_array_equal(best.astype(float), np.nanmax(t, 1))
    np.testing.assert_array_equal(least.astype(float), np.nanmin(t, 1))
    np.testing.assert_array_equal(at, np.nanargmax(t, 1))
    np.testing.assert_array_equal(low, np.nanargmin(t, 1))
    magnitude = float(np.abs(t[1:]).sum(1).max())
    np.testing.assert_allclose(total, t.sum(1), rtol=ulp(dtype) if dtype.kind != "i" else 0, atol=1e-6 * magnitude)


@needs_compiler
def test_any_and_all() -> None:
    x = np.clip(normal(3, 50_000), -3, 3)
    x[1, 49_999] = 5
    y, z = np.zeros(3, np.int32), np.zeros(3, np.int32)
    launch(any_all, "ascend910b2", 3, x, y, z)
    assert (y.tolist(), z.tolist()) == ([0, 1, 0], [1, 0, 1])


@needs_compiler
@pytest.mark.parametrize("n", [32_003, pytest.param(50_257, marks=pytest.mark.slow)])
def test_cross_entropy_with_masks(n: int) -> None:
    x, label = normal(3, n), np.array([0, n - 1, n // 2], np.int32)
    y = np.zeros(3, f32)
    launch(cross_entropy, "ascend910b2", 3, x, label, y, n, BLOCK=65_536)
    np.testing.assert_allclose(y, -np.log(softmax_of(x.astype(float)))[np.arange(3), label], rtol=4e-7)


@needs_compiler
@pytest.mark.parametrize("n", [8192, 20_000])
def test_sums_along_rows_and_across_them(n: int) -> None:
    """What is carried for sums across rows would take the memory of the tiles: rows are split, not the other way."""
    x = normal(3, n) / 128
    g = x[::-1].copy()
    dx, dw = np.zeros_like(x), np.zeros(n, f32)
    launch(norm_gradient, "ascend910b2", 1, x, g, dx, dw)
    t, u = x.astype(float), g.astype(float)
    np.testing.assert_allclose(dw, (t * u).sum(0), rtol=1e-6, atol=1e-6)
    expected = u - t * (t * u).sum(1, keepdims=True)
    np.testing.assert_allclose(dx.astype(float), expected, rtol=ulp(f16), atol=1e-3)


@needs_compiler
def test_a_store_waits_for_the_last_pass_that_loads_its_row() -> None:
    x = normal(2, 50_000, dtype=f32)
    y, before = np.zeros_like(x), x.copy()
    launch(stored_before_its_maximum, "ascend910b2", 2, x, y)
    np.testing.assert_array_equal(x, before + 1)
    np.testing.assert_array_equal(y, before - before.max(1, keepdims=True))
