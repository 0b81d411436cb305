"""Checked products: operands and results that a dot reads or stores by itself are checked like all others."""

from __future__ import annotations

import numpy as np
import pytest

import pypto as pto
from pypto.errors.interp import OutOfBounds


@pto.jit
def product(a, b, c, K: pto.constexpr, B: pto.constexpr):
    i, k, j = pto.program_id(0) * B + pto.arange(0, B), pto.arange(0, K), pto.arange(0, B)
    x = pto.load(a + i[:, None] * K + k[None, :])
    y = pto.load(b + k[:, None] * B + j[None, :])
    pto.store(c + i[:, None] * B + j[None, :], pto.dot(x, y))


@pytest.mark.parametrize(("rows", "of", "told"), [
    ((40, 64, 64), "a", r"load out of bounds: a\[40, 0\]"),
    ((64, 40, 64), "b", r"load out of bounds: b\[40, 0\]"),
    ((64, 64, 40), "c", r"store out of bounds: c\[40, 0\]"),
])  # fmt: skip
def test_what_a_dot_touches_by_itself(rows: tuple[int, int, int], of: str, told: str) -> None:
    a, b, c = (np.ones((n, 64), np.float32) for n in rows)
    with pto.checked(), pytest.raises(OutOfBounds, match=told):
        product[1](a, b, c, K=64, B=64)
    if of == "c":
        assert (c == 1).all()


def test_products_that_are_right() -> None:
    a, b, c = (np.ones((64, 64), np.float32) for _ in range(3))
    with pto.checked():
        product[1](a, b, c, K=64, B=64)
    np.testing.assert_array_equal(c, 64)
