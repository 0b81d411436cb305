"""Kernels in which random programs of products were wrong once, shrunk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from tests.conftest import ALL_LEVELS

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.parametrize("level", ALL_LEVELS, indirect=True)


def run(kernel: Any, level: str, *arrays: Array, **constants: int) -> None:
    pto.jit(level=level)(kernel.function)[1,](*arrays, **constants)


def randn(*shape: int) -> Array:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


@pto.jit
def by_columns(x, y, out, M: pto.constexpr, K: pto.constexpr):
    out[:, :] = pto.dot(pto.trans(x[0:K, 0:M]), pto.exp2(y[:, :]))


@pytest.mark.parametrize("columns", [8, 12, 16, 40])
def test_a_left_side_read_by_columns_that_exists_in_part(columns: int, level: str) -> None:
    """Thin results had blocks of more rows than the copy of a block has room for."""
    x, y, out = randn(21, 19), randn(24, columns), np.empty((24, columns), np.float32)
    run(by_columns, level, x, y, out, M=24, K=24)
    whole = np.pad(x, ((0, 3), (0, 5)))
    np.testing.assert_allclose(out, whole.T @ np.exp2(y), rtol=1e-4, atol=1e-4)


@pto.jit
def in_two_bodies(x, out):
    t = pto.exp2(x[:, :])
    product = pto.dot(pto.exp2(t), t)
    out[:, :] = product - pto.sum(product, axis=1, keep_dims=True)


def test_a_tile_that_panels_copy_in_another_body_has_memory(level: str) -> None:
    x, out = randn(33, 33) / 2, np.empty((33, 33), np.float32)
    run(in_two_bodies, level, x, out)
    t = np.exp2(x)
    product = np.exp2(t) @ t
    np.testing.assert_allclose(out, product - product.sum(1, keepdims=True), rtol=1e-4, atol=1e-3)


@pto.jit
def through_a_view(x, out):
    """The second value that the loop hands on is computed from the first one's elements in other places."""
    step = x[:, :]
    a, b = step * 2, pto.zeros((32, 16), pto.int32)
    for _ in range(3):
        regrouped = pto.reshape(a, (32, 16))
        a = a ^ step
        b = b ^ regrouped
    out[:, :] = b


def test_a_loop_does_not_overwrite_what_a_view_is_of(level: str) -> None:
    x, out = np.arange(512, dtype=np.int32).reshape(16, 32), np.empty((32, 16), np.int32)
    run(through_a_view, level, x, out)
    wanted = (x * 2) ^ (x * 2 ^ x) ^ (x * 2)
    np.testing.assert_array_equal(out, wanted.reshape(32, 16))


@pto.jit
def onto_its_own_side(x, out):
    """What is added to is also what the right side is the transpose of."""
    a = x[:, :]
    b = a * 0.5 + pto.exp2(a)
    out[:, :] = pto.dot(a, pto.trans(b), b)


def test_a_result_in_place_of_an_operand(level: str) -> None:
    x, out = randn(40, 40), np.empty((40, 40), np.float32)
    run(onto_its_own_side, level, x, out)
    b = x * np.float32(0.5) + np.exp2(x)
    np.testing.assert_allclose(out, x @ b.T + b, rtol=1e-4, atol=1e-4)


@pto.jit
def in_other_shapes(x, y, out, sums):
    """A product and an accumulator whose rows have padding, shown under other shapes."""
    m: pto.constexpr = x.shape[0]
    n: pto.constexpr = y.shape[1]
    acc = pto.zeros((m, n), pto.float32)
    for k in range(0, x.shape[1], 4):
        sums[k // 4, :] = pto.reshape(acc, (m * n,))
        acc = pto.dot(x[:, k : k + 4], y[k : k + 4, :], acc)
    out[:] = pto.reshape(pto.dot(x[:, :], y[:, :]), (m * n,)) + pto.reshape(acc, (m * n,))


@pytest.mark.parametrize("shape", [(4, 8, 4), (5, 8, 20), (33, 12, 17), (1, 8, 7)], ids=str)
def test_products_under_another_shape(level: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    x, y = randn(m, k), randn(k, n)
    out, sums = np.empty(m * n, np.float32), np.empty((k // 4, m * n), np.float32)
    run(in_other_shapes, level, x, y, out, sums)
    np.testing.assert_allclose(out, 2 * (x @ y).ravel(), rtol=1e-4, atol=1e-4)
    for i, partial in enumerate(sums):
        np.testing.assert_allclose(partial, (x[:, : 4 * i] @ y[: 4 * i]).ravel(), rtol=1e-4, atol=1e-4)


@pto.jit
def read_and_overwritten(a, y):
    """An element is read as a tile, overwritten, and needed as a scalar behind that."""
    tile = a[0:1]
    a[0:1] = pto.full((1,), 5.0, pto.float32)
    number = pto.reshape(tile, ())
    y[0:1] = pto.reshape(number * 2, (1,))
    y[1:2] = pto.reshape(number * 3, (1,))


def test_a_scalar_that_was_overwritten(level: str) -> None:
    a, y = np.ones(4, np.float32), np.zeros(2, np.float32)
    run(read_and_overwritten, level, a, y)
    assert a[0] == 5 and y.tolist() == [2, 3]
