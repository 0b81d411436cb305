"""Gradients of loops whose trips the launch does not tell: `while`, `for` up to loaded numbers, `for` with `break`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.gradients import NoGradient, WrongGradient
from tests.sim.device import needs_compiler

Array = np.ndarray[Any, Any]
STEP = 1e-6


@pto.jit
def grown(x, w, y):
    """Each row is multiplied until its largest element is large."""
    row = pto.program_id(0)
    t = x[row, :]
    while pto.max(pto.abs(t)) < 10:
        t = t * 1.5 + pto.sin(t) * w[:]
    y[row, :] = t


@pto.jit
def halved(x, w, y):
    """A loop in a loop: as often as needed halved, then moved."""
    row = pto.program_id(0)
    t = x[row, :]
    count = 0
    while count < 2:
        while pto.sum(t * t) > 1:
            t = t * w[:]
        t = pto.exp(t) + 0.5
        count += 1
    y[row, :] = t


def grown_numpy(t: Array, w: Array) -> Array:
    while np.abs(t).max() < 10:
        t = t * 1.5 + np.sin(t) * w
    return t


def halved_numpy(t: Array, w: Array) -> Array:
    for _ in range(2):
        while (t * t).sum() > 1:
            t = t * w
        t = np.exp(t) + 0.5
    return t


def launch(kernel: Any, bound: int) -> tuple[Array, ...]:
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(2, 4, 7))
    w = rng.uniform(0.3, 0.7, 7)
    d_x, d_w, y = np.full_like(x, np.nan), np.full_like(w, np.nan), np.empty_like(x)
    pto.adjoint(kernel, ["x", "w"], max_trips=bound)[4](x, w, y, d_y=g, d_x=d_x, d_w=d_w)
    return x, w, g, d_x, d_w


@pytest.mark.parametrize(("kernel", "meaning", "bound"), [(grown, grown_numpy, 12), (halved, halved_numpy, 7)])
def test_bounded_loops(kernel: Any, meaning: Callable[[Array, Array], Array], bound: int) -> None:
    x, w, g, d_x, d_w = launch(kernel, bound)
    rng = np.random.default_rng(1)
    for _ in range(3):
        along_x, along_w = rng.normal(size=x.shape), rng.normal(size=w.shape)
        ends = [np.stack([meaning(row, w + s * along_w) for row in x + s * along_x]) for s in (STEP, -STEP)]
        measured = ((ends[0] - ends[1]) * g).sum() / (2 * STEP)
        np.testing.assert_allclose((d_x * along_x).sum() + (d_w * along_w).sum(), measured, rtol=1e-6, atol=1e-6)


def test_a_loop_that_does_not_end_within_its_bound() -> None:
    with pytest.raises(WrongGradient, match="ran more often than `max_trips`") as error:
        launch(grown, 3)
    assert "pass a larger `max_trips`" in str(error.value)


def test_a_loop_without_a_bound() -> None:
    x = np.ones((1, 7))
    with pytest.raises(NoGradient, match="pass `max_trips`"):
        pto.adjoint(grown, ["x"])[1](x, x[0], x.copy(), d_y=x, d_x=x.copy())
    with pytest.raises(WrongGradient, match="`max_trips` is 0"):
        pto.adjoint(grown, ["x"], max_trips=0)


@pto.jit
def counted(x, counts, y):
    """As many trips as a number that is loaded; within, a loop that is left."""
    row = pto.program_id(0)
    t = x[row, :]
    for k in range(counts[row]):
        for _ in range(4):
            if pto.sum(t * t) > 9:
                break
            t = t * 1.5
        t = pto.sin(t) + 0.1 * k
    y[row, :] = t


@pto.jit
def counted_down(x, counts, y):
    row = pto.program_id(0)
    t = x[row, :]
    for k in range(counts[row], 0, -2):
        t = pto.sin(t) * k
    y[row, :] = t


@pto.jit
def left(x, y):
    row = pto.program_id(0)
    t = x[row, :]
    for k in range(1, 10, 2):
        if pto.max(t) > 5:
            break
        t = t * 1.5 + k
    y[row, :] = t


def along_a_direction(kernel: Any, counts: tuple[Any, ...], **options: Any) -> tuple[float, float]:
    """The derivative of a loss along a random direction: derived, and measured."""
    rng = np.random.default_rng(2)
    x, g, along = rng.normal(size=(3, 4, 7))
    d_x, y = np.full_like(x, np.nan), np.empty_like(x)
    pto.adjoint(kernel, ["x"], **options)[4](x, *counts, y, d_y=g, d_x=d_x)
    losses = []
    for step in (STEP, -STEP):
        kernel[4](x + step * along, *counts, y)
        losses.append((y * g).sum())
    return float((d_x * along).sum()), float(losses[0] - losses[1]) / (2 * STEP)


COUNTS = np.array([0, 3, 5, 2], np.int32)


@pytest.mark.parametrize("kernel", [counted, counted_down], ids=["up", "down"])
def test_loops_up_to_a_number_that_is_loaded(kernel: Any) -> None:
    derived, measured = along_a_direction(kernel, (COUNTS,), max_trips=5)
    np.testing.assert_allclose(derived, measured, rtol=1e-6)
    with pytest.raises(WrongGradient, match="a loop ran more often than `max_trips`"):
        along_a_direction(kernel, (COUNTS,), max_trips=2)
    with pytest.raises(NoGradient, match="how often this loop runs at most is not known") as error:
        along_a_direction(kernel, (COUNTS,))
    assert "pass `max_trips`" in str(error.value) and "for k in range(counts[row]" in str(error.value)


def test_a_loop_that_is_left_is_bounded_by_its_range() -> None:
    derived, measured = along_a_direction(left, ())
    np.testing.assert_allclose(derived, measured, rtol=1e-6)


@needs_compiler
@pytest.mark.slow
def test_a_bounded_loop_on_the_simulated_device() -> None:
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(2, 4, 7)).astype(np.float32)
    w, y, found = rng.uniform(0.3, 0.7, 7).astype(np.float32), np.empty_like(x), []
    for device in ("cpu", "ascend-sim"):
        d_x, d_w = np.full_like(x, np.nan), np.full_like(w, np.nan)
        with pto.device(device):
            pto.adjoint(grown, ["x", "w"], max_trips=12)[4](x, w, y, d_y=g, d_x=d_x, d_w=d_w)
        found.append(np.concatenate([d_x.ravel(), d_w]))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-4)
