"""Indices of tiles: new axes, slices, and single elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from tests.language.running import NUMBERS, both, sample


@pto.jit
def slices(x, a, b, c, d, e):
    t = x[:, :]
    a[:, :] = t[1:6:2, ::-1]
    b[:, :, :] = t[:, None, -5:]
    c[:, :] = t[2:3, :][..., 1:-1:3]
    d[:] = t[-1]
    e[:] = t[..., 4][::2]


@pytest.mark.parametrize("dtype", [*NUMBERS, np.bool_])
def test_slices(dtype: Any, level: str) -> None:
    x = sample(dtype, (7, 19))
    wanted = [x[1:6:2, ::-1], x[:, None, -5:], x[2:3, 1:-1:3], x[-1], x[::2, 4]]
    found = both(slices, x, *map(np.zeros_like, wanted), outputs=5, level=level)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pto.jit
def elements(x, i, j, out, row, column):
    t = x[:, :] * 2
    out[0] = t[2, 3]
    out[1] = t[i, j]
    out[2] = t[-1, j] + t[i, 0]
    row[:] = t[i]
    column[:] = t[1:, j]


@pytest.mark.parametrize(("i", "j"), [(0, 0), (4, 16), (2, 9)])
def test_elements(i: int, j: int, level: str) -> None:
    x = sample(np.float32, (5, 17))
    t = x * 2
    zeros = np.zeros(3, np.float32), np.zeros(17, np.float32), np.zeros(4, np.float32)
    out, row, column = both(elements, x, i, j, *zeros, outputs=3, level=level)
    np.testing.assert_array_equal(out, [t[2, 3], t[i, j], t[-1, j] + t[i, 0]])
    np.testing.assert_array_equal(row, t[i])
    np.testing.assert_array_equal(column, t[1:, j])


@pto.jit
def steps(x, n, total, out):
    t = x[:]
    acc = 0.0
    for k in range(n):
        acc += t[k] * k
    total[0] = acc
    out[:] = t[::2][1:][::-1]


@pytest.mark.parametrize("size", [5, 64, 101, 1000])
def test_elements_in_loops_and_slices_of_slices(size: int, level: str) -> None:
    x = sample(np.float32, (size,))
    wanted = x[::2][1:][::-1]
    total, out = both(steps, x, size, np.zeros(1, np.float32), np.zeros_like(wanted), outputs=2, level=level)
    np.testing.assert_allclose(total[0], np.sum(x * np.arange(size), dtype=np.float64), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(out, wanted)
