"""Indices that mix arrays of integers with numbers, slices and new axes, read and written as numpy does."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.graph import SharedMemory
from pypto.graph import evaluate, trace

X = np.random.default_rng(0).standard_normal((3, 4, 5, 2))
A, B = np.array([0, 1, 1]), np.array([1, 0, 1])
PARTS: tuple[Any, ...] = (slice(None), slice(1, 3), 1, "a", "b", None, Ellipsis)


def keys() -> list[tuple[Any, ...]]:
    """Return indices of the array, each with one array of integers at least."""
    every = [key for n in (1, 2, 3, 4) for key in itertools.product(PARTS, repeat=n)]
    fitting = [
        key for key in every
        if key.count("a") + key.count("b") and key.count(Ellipsis) <= 1 and key.count(None) <= 1
        and sum(part is not None and part is not Ellipsis for part in key) <= X.ndim
    ]  # fmt: skip
    return random.Random(1).sample(fitting, 150)


@pytest.mark.parametrize("part", range(3))
def test_arrays_apart_from_each_other(part: int) -> None:
    for key in keys()[part::3]:

        def index(a: Any, b: Any, key: Any = key) -> Any:
            return tuple(a if k == "a" else b if k == "b" else k for k in key)

        def updated(x: Any, a: Any, b: Any, index: Any = index) -> Any:
            picked = x[index(a, b)] * 1
            x[index(a, b)] += picked * 2 + 1
            return picked, x

        traced = trace(updated, X.copy(), A, B)
        for found, wanted in zip(evaluate(traced.graph, traced.arrays), updated(X.copy(), A, B), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True, err_msg=str(key))


def test_compiled_indices() -> None:
    def pick(x: Any, a: Any, b: Any) -> Any:
        return x[1, :, a], x[a, :, b], x[:, a, 0, b].sum(), x[range(2), a[:2]]

    for found, wanted in zip(pto.fuse(pick)(X, A, B), pick(X, A, B), strict=True):
        np.testing.assert_allclose(found, wanted, strict=True)


def test_numbers_that_are_traced_are_indices() -> None:
    def counted(first: Any, second: Any) -> Any:
        table = np.zeros((3, 3), np.int64)
        for a, b in zip(first, second, strict=True):
            table[a, b] += 1
        return table, first[second[0]]

    for found, wanted in zip(pto.fuse(counted)(A, B), counted(A, B), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_row_by_a_traced_number_is_a_view_in_numpy_so_that_its_update_is_refused() -> None:
    def update(x: Any, places: Any) -> Any:
        row = x[places[0]]
        row += 1
        return x

    with pytest.raises(SharedMemory):
        pto.fuse(update)(X.copy(), A)


def test_columns_and_rows_are_joined_by_brackets() -> None:
    def joined(x: Any, y: Any) -> Any:
        return np.c_[np.ones((5, 1)), x, y], np.r_[y, 3.0, 0:2], np.c_[y, y]

    args = X[0, 0], X[0, 1, :, 0]
    for found, wanted in zip(pto.fuse(joined)(*args), joined(*args), strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)


def test_orders_of_reshaping() -> None:
    def shaped(x: Any) -> Any:
        return (
            x.reshape((6, 20), order="F"), x.reshape(4, -1, order="F") * 2, x.ravel("F"), x.T.flatten("F") + 1,
            np.reshape(x, shape=(2, 60)),
        )  # fmt: skip

    for found, wanted in zip(pto.fuse(shaped)(X), shaped(X), strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)
