"""Masks in compiled loops: reductions of the elements that a mask picks, and stores to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.graph import NeedsValue
from tests.graph.loop_programs import drawn
from tests.graph.test_loops import compare

Array = np.ndarray[Any, Any]


def binned(data: Array, radius: Array, bins: int) -> Array:
    greatest = radius.max()
    means = np.zeros(bins)
    for i in range(bins):
        inside = np.logical_and(greatest * i / bins <= radius, radius < greatest * (i + 1) / bins)
        values = data[inside]
        means[i] = values.mean()
    return means


def stored(x: Array) -> Array:
    for i in range(40):
        x[x > 0.5] -= 0.25
        x[x < -0.5] = 0.1 * i
        m = x > 0
        x[m] = x[m] * 2 + i
        x[m] /= 3
    return x


def counted(x: Array, y: Array) -> Any:
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i][y > i].sum() + np.sum(x[i][y > i] ** 2)
        total += len(x[i][y < i]) + x[i][y < i].size
    return total


def sparse(starts: Array, columns: Array, values: Array, x: Array) -> Array:
    y = np.empty(starts.size - 1, values.dtype)
    for i in range(starts.size - 1):
        part = columns[starts[i] : starts[i + 1]]
        row = values[starts[i] : starts[i + 1]]
        y[i] = row @ x[part]
    return y


STARTS = np.concatenate([[0], np.cumsum(np.arange(50) % 7)]).astype(np.uint32)
COLUMNS = (np.arange(STARTS[-1]) * 37 % 60).astype(np.uint32)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (binned, (drawn(3000), np.abs(drawn(3000)), 30)),
        (stored, (drawn(7, 33),)),
        (counted, (drawn(20, 40), np.arange(40) % 23)),
        (sparse, (STARTS, COLUMNS, drawn(COLUMNS.size), drawn(60))),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_masks_and_slices_of_loaded_bounds_are_loops_of_one_kernel(
    function: Callable[..., Any], arguments: Any
) -> None:
    assert f"launch of {function.__name__}_loop_" in str(compare(function, arguments))


def late(x: Array) -> Array:
    for _ in range(20):
        v = x[x > 0]
        x += 1
        x[0] = v.sum()
    return x


def test_elements_that_change_before_they_are_read_are_not_read_anew() -> None:
    compare(late, (drawn(30),))


def reloaded(x: Array, y: Array) -> Array:
    for i in range(20):
        y[0] = x[i] + y[0]
        a = y[0] + x[i]
        for j in range(3):
            y[j] += a + y[0]
            if y[0] > 2:
                y[0] = 1
            a = y[0]
        y[1] = y[0] + a
    return y


def test_a_stored_element_is_loaded_anew() -> None:
    compare(reloaded, (drawn(20), drawn(5)))


def greatest(x: Array) -> Array:
    for i in range(20):
        x[i] = x[x < 5].max()
    return x


def test_what_a_mask_does_not_offer_in_a_loop_runs_as_before() -> None:
    compare(greatest, (drawn(20),))
    with pytest.raises((NeedsValue, TypeError)):
        pto.fuse(lambda x: [x[x > n] for n in range(20)])(drawn(20))
