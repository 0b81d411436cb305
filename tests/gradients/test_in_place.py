"""Gradients of kernels that read and write an array in place: the gradient of what they leave becomes that of what they
find.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.gradients import NoGradient, WrongGradient

Array = np.ndarray[Any, Any]
STEP = 1e-6


@pto.jit
def rotate(q, cos, sin, HALF: pto.constexpr):
    """The first 2 · HALF elements of a row are rotated; the others stay."""
    row = pto.program_id(0)
    a, b = q[row, 0:HALF], q[row, HALF : 2 * HALF]
    q[row, 0:HALF] = a * cos[:] - b * sin[:]
    q[row, HALF : 2 * HALF] = b * cos[:] + a * sin[:]


@pto.jit
def rotate_by_pointers(q, cos, sin, HALF: pto.constexpr):
    base = q + pto.program_id(0) * q.shape[1] + pto.arange(0, HALF)
    a, b = pto.load(base), pto.load(base + HALF)
    c, s = cos[:], sin[:]
    pto.store(base, a * c - b * s)
    pto.store(base + HALF, b * c + a * s)


@pto.jit
def loss_over_logits(x, losses, BLOCK: pto.constexpr):
    """Two loops over a row: the second one overwrites what it has read."""
    row = pto.program_id(0)
    total = pto.full((), 0.0, x.dtype)
    for j in range(0, x.shape[1], BLOCK):
        total += pto.sum(pto.exp(x[row, j : j + BLOCK]) * (j + pto.arange(0, BLOCK) < x.shape[1]))
    for j in range(0, x.shape[1], BLOCK):
        x[row, j : j + BLOCK] = pto.exp(x[row, j : j + BLOCK]) / total
    losses[row] = pto.log(total)


@pto.jit
def where_positive(x, BLOCK: pto.constexpr):
    """Which elements are overwritten depends on what they are."""
    at = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    t = pto.load(x + at)
    pto.store(x + at, t * t, mask=t > 0)


@pto.jit
def running(x):
    """Each trip reads what the one before has written."""
    for j in range(1, x.shape[0]):
        x[j] = x[j] + x[j - 1]


@pto.jit
def moved_down(x):
    """Each trip reads what a later one writes."""
    for j in range(0, x.shape[0] - 1):
        x[j] = x[j + 1] * x[j]


def inputs(*shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape) for shape in shapes]


CASES = {
    "rotate": (rotate, 4, inputs((4, 10), (3,), (3,)), {"HALF": 3}, (0,)),
    "pointers": (rotate_by_pointers, 4, inputs((4, 10), (4,), (4,)), {"HALF": 4}, (0,)),
    "logits": (loss_over_logits, 3, inputs((3, 10), (3,)), {"BLOCK": 4}, (0, 1)),
    "positive": (where_positive, 2, inputs((16,)), {"BLOCK": 8}, (0,)),
    "moved": (moved_down, 1, inputs((6,)), {}, (0,)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_in_place(name: str) -> None:
    """Along a random direction of the array, as measured."""
    kernel, grid, arrays, constants, stored = CASES[name]
    names = kernel.signature.names
    rng = np.random.default_rng(1)
    slopes = {n: rng.normal(size=arrays[n].shape) for n in stored}
    found = [a.copy() for a in arrays]
    gradients = {f"d_{names[n]}": g.copy() for n, g in slopes.items()}
    pto.adjoint(kernel, [names[0]])[grid](*found, **constants, **gradients)
    assert all(np.array_equal(a, b) for a, b in zip(found, arrays, strict=True))
    along = rng.normal(size=arrays[0].shape)

    def loss(step: float) -> float:
        moved = [arrays[0] + step * along, *(a.copy() for a in arrays[1:])]
        kernel[grid](*moved, **constants)
        return sum(float((moved[n] * g).sum()) for n, g in slopes.items())

    measured = (loss(STEP) - loss(-STEP)) / (2 * STEP)
    np.testing.assert_allclose((gradients[f"d_{names[0]}"] * along).sum(), measured, rtol=1e-6)


def test_elements_that_stay_keep_their_gradient() -> None:
    q, cos, sin = inputs((4, 10), (3,), (3,))
    d_q, d_cos = np.ones_like(q), np.zeros_like(cos)
    pto.adjoint(rotate, ["q"])[4](q, cos, sin, HALF=3, d_q=d_q)
    assert (d_q[:, 6:] == 1).all() and not (d_q[:, :6] == 1).all()
    before = np.ones_like(q)
    pto.adjoint(rotate, ["cos"])[4](q, cos, sin, HALF=3, d_q=before, d_cos=d_cos)
    assert (before == 1).all()  # read alone, where `wrt` does not name it
    np.testing.assert_allclose(d_cos, (q[:, :3] + q[:, 3:6]).sum(0))


def test_reading_after_writing_is_refused() -> None:
    x = np.ones(6)
    with pytest.raises(NoGradient, match="`x` is read and written in place, and an element is read after") as error:
        pto.adjoint(running, ["x"])[1](x, d_x=x.copy())
    assert "x[j] = x[j] + x[j - 1]" in str(error.value)


def test_results_and_pullback_in_place() -> None:
    q, cos, sin = inputs((4, 10), (3,), (3,))
    before = q.copy()
    (result,), pullback = pto.vjp(rotate, 4, q, cos, sin, HALF=3, wrt=["q"])
    assert result is q and not np.array_equal(q, before)
    (d_q,) = pullback(np.ones_like(q))
    wanted = np.ones_like(q)
    pto.adjoint(rotate, ["q"])[4](before, cos, sin, HALF=3, d_q=wanted)
    np.testing.assert_array_equal(d_q, wanted)
    d = np.ones_like(q)
    assert "d_q: 40 elements" in str(pto.verify(pto.adjoint(rotate, ["q"]))[4](before, cos, sin, HALF=3, d_q=d))


@pto.jit
def overwritten(x, w, BLOCK: pto.constexpr):
    at = pto.arange(0, BLOCK)
    pto.store(x + at, pto.load(w + at) * 2)


@pto.jit
def added_to(x, w):
    pto.atomic_add(x + pto.program_id(0), w[pto.program_id(0)])


def test_an_array_that_is_written_and_not_read() -> None:
    x, w = inputs((5,), (5,))
    d_x, d_w = np.ones(5), np.full(5, np.nan)
    pto.adjoint(overwritten, ["x", "w"])[1](x, w, BLOCK=4, d_x=d_x, d_w=d_w)
    assert d_x.tolist() == [0, 0, 0, 0, 1] and d_w.tolist() == [2, 2, 2, 2, 0]
    (result,), pullback = pto.vjp(overwritten, 1, x, w, BLOCK=4)
    assert result is x and pullback(np.ones(5))[0].tolist() == [2, 2, 2, 2, 0]
    with pytest.raises(WrongGradient, match="`x` is added to by `atomic_add`"):
        pto.adjoint(added_to, ["x"])[5](x, w, d_x=d_x)


@pto.jit
def moved_and_cleared(x, w, BLOCK: pto.constexpr):
    at = pto.arange(0, BLOCK)
    t = pto.load(x + at)
    pto.store(w + at, t * t)
    pto.store(x + at, pto.zeros((BLOCK,), pto.float64))


@pto.jit
def cancelled(x, w, BLOCK: pto.constexpr):
    """What is stored is 0 whatever is read, which the compiler finds out."""
    at = pto.arange(0, BLOCK)
    t = pto.maximum(pto.load(x + at), pto.load(w + at))
    pto.store(x + at, t - t * 0.5 - t * 0.5)


def test_a_constant_that_is_stored_ends_the_gradient_of_what_was_there() -> None:
    x, w = inputs((5,), (5,))
    d_x, d_w = np.ones(5), np.full(5, 3.0)
    pto.adjoint(moved_and_cleared, ["x"])[1](x.copy(), w, BLOCK=4, d_x=d_x, d_w=d_w)
    np.testing.assert_allclose(d_x, [*(2 * x * 3)[:4], 1])
    d_x, d_w = np.ones(5), np.full(5, np.nan)
    pto.adjoint(cancelled, ["x", "w"])[1](x.copy(), w, BLOCK=4, d_x=d_x, d_w=d_w)
    assert d_x.tolist() == [0, 0, 0, 0, 1] and d_w.tolist() == [0] * 5
