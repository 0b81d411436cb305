"""`pto.adjoint` and `pto.verify` of functions under `triton.jit`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.compat.triton import install, installed, uninstall
from pypto.errors.gradients import WrongGradient


@pytest.fixture(autouse=True)
def triton() -> Iterator[None]:
    was = installed()
    install()
    yield
    if not was:
        uninstall()


def kernels() -> tuple[Any, Any]:
    import triton
    import triton.language as tl

    @triton.jit
    def squares(x, y, total, n, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        at = tl.arange(0, BLOCK)
        t = tl.load(x + row * n + at, mask=at < n, other=0.0)
        tl.store(y + row * n + at, t * t, mask=at < n)
        tl.store(total + row, tl.sum(t, 0))

    tuned = triton.autotune(configs=[triton.Config({"BLOCK": 8}), triton.Config({"BLOCK": 16})], key=["n"])(squares)
    return squares, tuned


def test_adjoint_of_a_triton_kernel() -> None:
    squares, tuned = kernels()
    x = np.arange(10.0, dtype=np.float32).reshape(2, 5)
    y, total, d_y, d_total = np.zeros_like(x), np.zeros(2, np.float32), np.ones_like(x), np.array([1, 2], np.float32)
    d_x = np.full_like(x, np.nan)
    back = pto.adjoint(squares, ["x"])
    back[(2,)](x, y, total, 5, BLOCK=8, num_warps=4, d_y=d_y, d_total=d_total, d_x=d_x)
    np.testing.assert_allclose(d_x, 2 * x + d_total[:, None])
    assert "def squares_adjoint_x(" in back.source
    (found, sums), pullback = pto.vjp(squares, (2,), x, y, total, 5, BLOCK=8)
    np.testing.assert_allclose(found, x * x)
    np.testing.assert_allclose(pullback(d_y, d_total)[0], d_x)
    assert sums is total
    assert "y: 10 elements" in str(pto.verify(squares)[(2,)](x, y, total, 5, BLOCK=8))
    with pytest.raises(WrongGradient, match="what a tuner or heuristic chooses at a launch is not known") as error:
        pto.adjoint(tuned, ["x"])
    assert "squares.fn" in str(error.value)
    pto.adjoint(tuned.fn, ["x"])[(2,)](x, y, total, 5, BLOCK=8, d_y=d_y, d_total=d_total, d_x=d_x)
