"""Tiles that several products read, as they are and transposed, with other work on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from tests.conftest import ALL_LEVELS

Array = np.ndarray[Any, Any]


@pto.jit
def two_products(x, y, first, second):
    """The transpose of a dear tile, on the right side of two products."""
    t = pto.trans(pto.exp2(y[:, :]))
    first[:, :] = pto.dot(x[:, :], t)
    second[:, :] = pto.dot(y[:, :], t)


@pto.jit
def scaled(x, y, first, second):
    """The left side of the second product is computed after the first one."""
    t = pto.trans(y[:, :] * pto.exp2(0.5 - y[:, :]))
    a = x[:, :]
    first[:, :] = pto.dot(a, t)
    second[:, :] = pto.dot(a * 2, t)


@pto.jit
def on_both_sides(x, y, first, second):
    """A product of the tile and its transpose, then one of the transpose, which is added up, too."""
    e = pto.exp2(y[:, :])
    t = pto.trans(e)
    first[:, :] = pto.dot(e, t)
    second[:, :] = pto.dot(x[:, :] + 1, t) + pto.sum(t, axis=0)[None, :]


@pto.jit
def in_a_loop(x, y, first, second):
    """Every round reads the transpose, and overwrites what came of the last one."""
    t = pto.trans(pto.exp2(y[:, :]))
    total = pto.zeros((16, 16), pto.float32)
    for k in range(3):
        a = x[:, :] * (k + 1)
        total = total + pto.dot(a, t)
        total = total + pto.dot(pto.exp2(a), t)
    first[:, :] = total
    second[:, :] = pto.dot(y[:, :], t)


def grown(x: Array, e: Array) -> Array:
    rounds = [x * np.float32(k + 1) for k in range(3)]
    return np.sum([a @ e.T + np.exp2(a) @ e.T for a in rounds], axis=0)


EXPECTED: dict[Any, Callable[[Array, Array], tuple[Array, Array]]] = {
    two_products: lambda x, y: (x @ np.exp2(y).T, y @ np.exp2(y).T),
    scaled: lambda x, y: (x @ (y * np.exp2(0.5 - y)).T, 2 * x @ (y * np.exp2(0.5 - y)).T),
    on_both_sides: lambda x, y: (np.exp2(y) @ np.exp2(y).T, (x + 1) @ np.exp2(y).T + np.exp2(y).sum(1)[None, :]),
    in_a_loop: lambda x, y: (grown(x, np.exp2(y)), y @ np.exp2(y).T),
}


@pytest.mark.parametrize("level", ALL_LEVELS, indirect=True)
@pytest.mark.parametrize("depth", [16, 32, 24])
@pytest.mark.parametrize("kernel", EXPECTED, ids=lambda kernel: kernel.__name__)
def test_a_transpose_that_several_products_read(kernel: Any, depth: int, level: str) -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((16, depth)).astype(np.float32) for _ in range(2))
    first, second = np.empty((16, 16), np.float32), np.empty((16, 16), np.float32)
    pto.jit(level=level)(kernel.function)[1,](x, y, first, second)
    for found, wanted in zip((first, second), EXPECTED[kernel](x, y), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pto.jit
def changed_left(x, y, out):
    """A store changes what the left side was loaded from, a reshape lies between."""
    a = pto.reshape(x[0:1, :, :], (16, 32))
    x[0:1, :, :] = x[0:1, :, :] * 2
    out[:, :] = pto.dot(a, pto.trans(y[:, :]))


@pto.jit
def changed_right(x, y, out):
    """The same for a right side that is transposed."""
    a = pto.trans(pto.reshape(x[0:1, :, :], (16, 32)))
    x[0:1, :, :] = x[0:1, :, :] * 2
    out[:, :] = pto.trans(pto.dot(y[:, :], a))


@pytest.mark.parametrize("kernel", [changed_left, changed_right], ids=lambda kernel: kernel.__name__)
def test_an_operand_that_is_stored_over(kernel: Any) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((1, 16, 32)).astype(np.float32), rng.standard_normal((16, 32)).astype(np.float32)
    before, out = x.copy(), np.empty((16, 16), np.float32)
    kernel[1,](x, y, out)
    np.testing.assert_allclose(out, before[0] @ y.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(x, before * 2)
