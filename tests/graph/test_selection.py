"""Selections, positions and running sums along axes that are longer than a tile: by pieces, and as numpy has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt


def reference(x: Any, k: int, axis: int) -> tuple[Any, Any]:
    """The first of a stable order from the greatest element on, NaN last."""
    key = -x.astype(np.float64) if x.dtype.kind == "f" else ~x
    places = np.take(np.argsort(key, axis=axis, kind="stable"), range(k), axis=axis)
    return np.take_along_axis(x, places, axis), places


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int64])
@pytest.mark.parametrize("shape", [(7,), (2, 5, 300), (2, 70_001), (9000, 4)])
def test_topk(shape: tuple[int, ...], dtype: Any) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) * 50).astype(dtype)
    if x.dtype.kind == "f":
        x.flat[::17] = np.nan
    for k, axis in ((0, -1), (1, -1), (2, 0), (7, -1)):
        if k <= shape[axis]:
            values, places = pt.topk(x, k, axis)
            wanted = reference(x, k, axis)
            np.testing.assert_array_equal(places, wanted[1])
            np.testing.assert_array_equal(values, wanted[0])
            assert (values.dtype, places.dtype) == (x.dtype, np.int64)


def test_topk_within_a_function() -> None:
    x = np.random.default_rng(1).standard_normal((20, 100)).astype(np.float32)
    fused = pto.fuse(lambda x, y: pt.topk(x * 2 + y, 3)[0].sum(axis=-1))
    np.testing.assert_allclose(fused(x, x), reference(x * 2 + x, 3, 1)[0].sum(axis=-1), rtol=1e-5)
    named = pto.fuse(lambda x: pt.topk(x, 3), dims={"x": (None, pt.Dim("n", 10, 4096))})
    for n in (100, 37):
        for found, wanted in zip(named(x[:, :n].copy()), reference(x[:, :n], 3, 1), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_topk_selects_and_sorts_nothing() -> None:
    plan = pto.fuse(lambda x: pt.topk(x, 8)).plan(np.zeros((8, 32_000), np.float32))
    source = "".join(kernel.source for kernel in plan.kernels)
    assert "pto.topk(" in source
    assert "sort(" not in source


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("shape", [(100_000,), (3, 50_001), (32_768 + 1,), (400, 500)])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_along_long_axes(name: str, shape: tuple[int, ...]) -> None:
    function = getattr(np, name)
    x = np.random.default_rng(0).integers(-99, 99, shape).astype(np.float32)
    for special in (0.5, np.nan):
        x[..., shape[-1] // 2] = x[..., -1] = special
        for axis, keep in ((None, False), (-1, True), (0, False)):
            found = pto.fuse(lambda x, axis=axis, keep=keep: function(x, axis=axis, keepdims=keep))(x)
            np.testing.assert_array_equal(found, function(x, axis=axis, keepdims=keep))


@pytest.mark.parametrize("shape", [(100_000,), (70_001,), (2000, 700), (50_000, 3), (2, 5003, 7)])
@pytest.mark.parametrize("dtype", [np.int16, np.float64])
def test_running_sums_along_long_axes(dtype: Any, shape: tuple[int, ...]) -> None:
    x = (np.random.default_rng(0).standard_normal(shape) * 50).astype(dtype)
    for axis in (None, 0, -1):
        found, wanted = pto.fuse(lambda x, axis=axis: np.cumsum(x, axis=axis))(x), np.cumsum(x, axis=axis)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-7 if x.dtype.kind == "f" else 0)


def test_running_products_and_infinities() -> None:
    x = np.full(50_000, 1.0001)
    np.testing.assert_allclose(pto.fuse(np.cumprod)(x), np.cumprod(x), rtol=1e-11)
    x[3] = np.inf
    np.testing.assert_array_equal(np.isinf(pto.fuse(np.cumsum)(x)), np.isinf(np.cumsum(x)))
