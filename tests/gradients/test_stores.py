"""Which stores have gradients: each element stored once, as the numbers of the launch decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.gradients import NoGradient

Array = np.ndarray[Any, Any]


@pto.jit
def scalars(x, y, z, stride):
    """One number by each program, beside one another and a stride apart."""
    row = pto.program_id(0)
    total = pto.sum(x[row, :])
    pto.store(y + row, total * total)
    pto.store(z + row * stride, total)


@pto.jit
def blocks_in_a_loop(x, y, n, BLOCK: pto.constexpr):
    row = pto.program_id(0)
    for i in range(0, n, BLOCK):
        at = i + pto.arange(0, BLOCK)
        t = pto.load(x + row * n + at, mask=at < n)
        pto.store(y + row * n + at, t * t, mask=at < n)


@pto.jit
def two_axes(x, y, m, n, BM: pto.constexpr, BN: pto.constexpr):
    i = pto.program_id(0) * BM + pto.arange(0, BM)[:, None]
    j = pto.program_id(1) * BN + pto.arange(0, BN)[None, :]
    inside = (i < m) & (j < n)
    t = pto.load(x + i * n + j, mask=inside)
    pto.store(y + i * n + j, t * t, mask=inside)


@pto.jit
def without_masks(x, y, n, BLOCK: pto.constexpr):
    at = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    t = pto.load(x + at)
    pto.store(y + at, t * t)


@pto.jit
def for_one_program(x, y, n, BLOCK: pto.constexpr):
    """A pointer tile without bounds, under a condition on the program."""
    at = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    t = pto.load(x + at, mask=pto.program_id(0) < 2)
    if pto.program_id(0) < 2:
        pto.store(y + at, t * t)


@pto.jit
def in_one_of_two_branches(x, y, BLOCK: pto.constexpr):
    at = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    t = pto.load(x + at)
    if pto.sum(t) > 0:
        pto.store(y + at, t * t)
    else:
        pto.store(y + at, t)


@pto.jit
def with_a_loaded_default(x, y, n, BLOCK: pto.constexpr):
    """What stands for missing elements is a number that was loaded."""
    at = pto.arange(0, BLOCK)
    mean = pto.load(x)
    t = pto.load(x + at, mask=at < n, other=mean)
    y[0] = pto.sum(t * t)


@pto.jit
def overlapping(x, y, step, BLOCK: pto.constexpr):
    at = pto.program_id(0) * step + pto.arange(0, BLOCK)
    pto.store(y + at, pto.load(x + at))


@pto.jit
def scattered(x, places, y):
    row = pto.program_id(0)
    pto.store(y + places[row], x[row])


def gradient(kernel: Any, grid: Any, x: Array, *others: Any, **given: Any) -> Array:
    d_x = np.full_like(x, np.nan)
    pto.adjoint(kernel, ["x"])[grid](x, *others, d_x=d_x, **given)
    return d_x


def test_scalars_of_each_program() -> None:
    x = np.arange(12.0).reshape(3, 4)
    y, z, d_y, d_z = np.zeros(3), np.zeros(9), np.array([1.0, 2.0, 3.0]), np.arange(9.0)
    found = gradient(scalars, 3, x, y, z, 4, d_y=d_y, d_z=d_z)
    wanted = 2 * x.sum(1) * d_y + d_z[[0, 4, 8]]
    np.testing.assert_allclose(found, np.repeat(wanted[:, None], 4, 1))
    with pytest.raises(NoGradient, match="an element of `z` may be stored by several programs"):
        gradient(scalars, 3, x, y, z, 0, d_y=d_y, d_z=d_z)


SQUARES: dict[str, tuple[Any, Any, tuple[int, ...], tuple[int, ...], dict[str, int]]] = {
    "loop": (blocks_in_a_loop, 3, (3, 10), (10,), {"BLOCK": 4}),
    "axes": (two_axes, (2, 3), (10, 21), (10, 21), {"BM": 8, "BN": 8}),
    "unmasked": (without_masks, 4, (32,), (32,), {"BLOCK": 8}),
    "condition": (for_one_program, 4, (32,), (32,), {"BLOCK": 8}),
}


@pytest.mark.parametrize("name", SQUARES)
def test_stores_that_are_apart(name: str) -> None:
    kernel, grid, shape, numbers, constants = SQUARES[name]
    x, g = np.random.default_rng(0).normal(size=(2, *shape))
    found = gradient(kernel, grid, x, np.zeros_like(x), *numbers, **constants, d_y=g)
    wanted = 2 * x * g
    if name == "condition":
        wanted[16:] = 0
    np.testing.assert_allclose(found, wanted)


def test_one_of_two_branches_stores() -> None:
    x, g = np.random.default_rng(0).normal(size=(2, 4, 8))
    found = gradient(in_one_of_two_branches, 4, x.reshape(-1), np.zeros(32), BLOCK=8, d_y=g.reshape(-1))
    assert 0 < (x.sum(1) > 0).sum() < 4
    np.testing.assert_allclose(found, np.where(x.sum(1, keepdims=True) > 0, 2 * x * g, g).reshape(-1))


def test_a_default_that_was_loaded() -> None:
    x = np.array([2.0, 3.0, 5.0, 7.0])
    found = gradient(with_a_loaded_default, 1, x, np.zeros(1), 3, BLOCK=8, d_y=np.ones(1))
    np.testing.assert_allclose(found, [2 * 2 + 5 * 2 * 2, 6, 10, 0])


def test_the_numbers_of_the_launch_decide() -> None:
    x, y = np.arange(32.0), np.zeros(32)
    np.testing.assert_allclose(gradient(overlapping, 4, x, y, 8, BLOCK=8, d_y=y + 2), 2)
    with pytest.raises(NoGradient, match="an element of `y` may be stored by several programs") as error:
        gradient(overlapping, 4, x, y, 7, BLOCK=8, d_y=y + 2)
    assert "pto.store(y + at, pto.load(x + at))" in str(error.value)


def test_places_that_are_data() -> None:
    x, places = np.ones(3), np.array([2, 0, 1], np.int32)
    with pytest.raises(NoGradient, match="`y` may be stored by several programs or trips: where it is depends on what"):
        gradient(scattered, 3, x, places, np.zeros(3), d_y=np.ones(3))


@pto.jit
def first_elements(x, y, n, BLOCK: pto.constexpr):
    """Fewer elements than the array has; the others count as 0."""
    at = pto.arange(0, BLOCK)
    t = pto.load(x + at, mask=at < n)
    y[0] = pto.sum((t + 1) * (t + 1))


@pto.jit
def every_second(x, y, BLOCK: pto.constexpr):
    t = pto.load(x + 2 * pto.arange(0, BLOCK))
    y[0] = pto.sum(t * t)


def test_masks_end_before_the_array() -> None:
    x = np.arange(1.0, 7.0)
    found = gradient(first_elements, 1, x, np.zeros(1), 3, BLOCK=8, d_y=np.ones(1))
    np.testing.assert_allclose(found, [4, 6, 8, 0, 0, 0])
    found = gradient(every_second, 1, x, np.zeros(1), BLOCK=3, d_y=np.ones(1))
    np.testing.assert_allclose(found, [2, 0, 6, 0, 10, 0])
