"""Backward passes by hand, held against derived ones; the vector-Jacobian product; sums by atomic additions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.gradients import AdjointDiffers, WrongGradient
from tests.gradients.kernels import CASES
from tests.gradients.test_adjoint import launch


@pto.jit
def scaled_rows(x, w, y):
    row = pto.program_id(0)
    y[row, :] = x[row, :] * x[row, :] * w[:]


def square_kernel() -> Any:
    """A kernel of its own for each test, since backward passes are registered with it."""

    @pto.jit
    def square(x, w, y):
        y[:] = x[:] * x[:] * w[:]

    return square


def test_a_backward_pass_by_hand_is_run_in_place_of_the_derived_one() -> None:
    square, grids = square_kernel(), []

    @square.adjoint
    def by_hand(grid, x, w, d_y, d_x):  # type: ignore[no-untyped-def]
        grids.append(grid)
        d_x[:] = 2 * x * w * d_y

    x, w, y, g, d = np.arange(1, 41, dtype=np.float32).reshape(5, 8)
    back = pto.adjoint(square, ["x"])
    assert back.explain(1, x, w, y) == "by_hand: a backward pass by hand"
    back[1](x, w, y, d_y=g, d_x=d)
    np.testing.assert_array_equal(d, 2 * x * w * g)
    assert (grids, back.by_hand) == ([1], "by_hand")
    assert "d_x[:] = 2 * x * w * d_y" in back.source
    pto.adjoint(square, ["x", "w"])[1](x, w, y, d_y=g, d_x=d, d_w=np.zeros(8, np.float32))  # derived: d_w is not there
    assert len(grids) == 1


def test_verify_holds_a_backward_pass_by_hand_against_the_derived_one() -> None:
    square = square_kernel()

    @square.adjoint
    def right(grid, x, w, d_y, d_x):  # type: ignore[no-untyped-def]
        d_x[:] = 2 * x * w * d_y

    x, w, y, g, d = np.arange(1, 41, dtype=np.float32).reshape(5, 8)
    back = pto.adjoint(square, ["x"])
    text = str(pto.verify(back)[1](x, w, y, d_y=g, d_x=d))
    assert text.startswith("right: 1 programs, by hand as derived\n  d_x: 8 elements, largest difference")

    @square.adjoint
    def wrong(grid, x, w, d_y, d_x):  # type: ignore[no-untyped-def]
        d_x[:] = 2 * x * w * d_y
        d_x[3] += 1

    with pytest.raises(AdjointDiffers, match=r"wrong is not the gradient of square: d_x\[3\] is .*; 1 of 8 elements"):
        pto.verify(pto.adjoint(square, ["x"]))[1](x, w, y, d_y=g, d_x=d)


def test_verify_holds_derived_kernels_against_interpreted_ones() -> None:
    x, w, y, g, d = np.arange(1, 41, dtype=np.float32).reshape(5, 8)
    text = str(pto.verify(pto.adjoint(square_kernel(), ["w"]))[1](x, w, y, d_y=g, d_w=d))
    assert text.startswith("adjoint of square: 1 programs, compiled as interpreted\n  d_w: 8 elements")
    np.testing.assert_array_equal(d, x * x * g)


def test_what_is_no_backward_pass() -> None:
    x, w, y = np.zeros((3, 8), np.float32)
    for function, words in (
        (lambda x, d_x: None, "it is no backward pass"),
        (lambda grid, x: None, "it is no backward pass"),
        (lambda grid, x, d_z: None, "`d_z` is no argument and no gradient"),
    ):
        square = square_kernel()
        square.adjoint(function)
        with pytest.raises(WrongGradient, match=words) as error:
            pto.adjoint(square, ["x"]).derive(1, x, w, y)
        assert "test_handwritten.py" in str(error.value)


def test_vjp() -> None:
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(2, 7, 13)).astype(np.float32)
    w = rng.normal(size=13).astype(np.float32)
    (y,), pullback = pto.vjp(scaled_rows, 7, x, w, np.empty_like(x))
    np.testing.assert_array_equal(y, x * x * w)
    for _ in range(2):
        d_x, d_w = pullback(g)
        np.testing.assert_allclose(d_x, 2 * x * w * g, rtol=1e-6)
        np.testing.assert_allclose(d_w, (x * x * g).sum(0), rtol=1e-5, atol=1e-5)
    (only,) = pto.vjp(scaled_rows, 7, x, w, y, wrt=["w"])[1](g)
    np.testing.assert_array_equal(only, d_w)
    with pytest.raises(WrongGradient, match="2 gradients for 1 results"):
        pullback(g, g)


@pytest.mark.parametrize("name", ["layer norm", "matmul", "stencil", "embedding"])
def test_sums_by_atomic_additions(name: str) -> None:
    case = CASES[name]
    _, inputs, gradients, ordered = launch(case)
    back = pto.adjoint(case.kernel, tuple(case.inputs), accumulate="atomic")
    outputs = {n: np.zeros(shape, case.dtype) for n, shape in case.outputs.items()}
    sums = {n: np.full(shape, np.nan, case.dtype) for n, shape in case.inputs.items()}
    given = dict(zip((f"d_{n}" for n in case.outputs), gradients, strict=True))
    back[case.grid](**inputs, **outputs, **case.others, **given, **{f"d_{n}": x for n, x in sums.items()})
    assert "atomic_add" in back.source and "partial_" not in back.source
    for n, x in sums.items():
        np.testing.assert_allclose(x, ordered[n], rtol=1e-5, atol=1e-5 * np.abs(ordered[n]).max())


def test_ways_of_accumulation() -> None:
    with pytest.raises(WrongGradient, match="`accumulate` is 'any'"):
        pto.adjoint(scaled_rows, ["x"], accumulate="any")
