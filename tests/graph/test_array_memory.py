"""Memory of arrays in traced functions: aliases, parts and strides are numpy's, and nothing is written unseen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.graph import NotTraced
from tests.graph.test_trace import same

X = np.random.default_rng(0).random((6, 5))


def aliases(x: Any) -> Any:
    z = np.zeros(6)
    same_memory, part = np.asarray(z), np.asarray(z[2:])
    same_memory[0] = x[0, 0]
    part[1] = x[0, 1]
    return z, same_memory, part


def results_given_by_position(x: Any) -> Any:
    z, w, v = np.zeros(5), np.zeros(5), np.zeros(5)
    first = x + w
    np.sum(np.ones((3, 5)), 0, None, z)
    np.clip(w, 1, 2, w)
    np.clip(x[0], 0.25, 0.5, v)
    return first, x + z, x + w, v


def flat_elements(x: Any) -> Any:
    z = np.zeros((1, 5))
    first = x + z
    z.flat[1] = 4
    y = x.copy()
    y.flat[7] = 1
    return first, x + z, sum(v for v in z.flat), y


def parts_of_complex_numbers(x: Any) -> Any:
    c = np.zeros(5, complex)
    c[1] = x[0, 0]
    c.real = x[1]
    c.imag = 2
    y = x.copy()
    y.real = 3
    return c, y, x.imag, x.real + 1


def strides(x: Any) -> Any:
    return x.strides, x.T.strides, x[::2, 1:].strides, np.ones((2, 3), np.int16).strides, (x + 1).strides


def bits(x: Any) -> Any:
    return np.ones(5).view(np.int64) + x


@pytest.mark.parametrize(
    "function", [aliases, results_given_by_position, flat_elements, parts_of_complex_numbers, strides, bits]
)
def test_memory_is_numpys(function: Any) -> None:
    found, wanted = pto.fuse(function)(X.copy()), function(X.copy())
    for a, b in zip(found, wanted, strict=True):
        same(a, b) if isinstance(b, np.ndarray) else check_equal(a, b)


def check_equal(found: Any, wanted: Any) -> None:
    assert found == wanted


def written_by_an_iterator(x: Any) -> Any:
    z = np.zeros(5)
    how: Any = {"op_flags": [["readwrite"]]}
    for v in np.nditer(z, **how):
        part: Any = v
        part[...] = 3
    return x + z


def written_through_strides(x: Any) -> Any:
    z = np.zeros(5)
    np.lib.stride_tricks.as_strided(z)[0] = 4
    return x + z


@pytest.mark.parametrize("function", [written_by_an_iterator, written_through_strides])
def test_memory_is_not_written_behind_the_trace(function: Any) -> None:
    with pytest.raises(ValueError, match="read-only"):
        pto.fuse(function)(X)


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda x: setattr(x, "shape", (30,)), r"assignment to `\.shape`"),
        (lambda x: setattr(np.zeros(4), "shape", (2, 2)), r"assignment to `\.shape`"),
        (lambda x: setattr(x, "flat", 1), r"assignment to `\.flat`"),
        (lambda x: x.T.flat, r"`\.flat` cannot be traced"),
        (lambda x: np.zeros(5).ctypes, r"`\.ctypes` cannot be traced"),
        (lambda x: (x + 1j)[x > 0.5].var(), "how many elements a mask picks"),
    ],
)
def test_uses_of_memory_that_are_refused(function: Any, match: str) -> None:
    with pytest.raises(NotTraced, match=match):
        pto.fuse(function)(X)


class Layer:
    """An object whose array a function replaces by other elements."""

    def __init__(self) -> None:
        self.w = np.arange(5.0)


def filled_from_outside(layer: Layer, x: Any) -> Any:
    layer.w[:] = x[0]
    return x * 2


def filled_and_updated(layer: Layer, x: Any) -> Any:
    w = layer.w
    w[...] = 3
    w += x[1]
    return x + layer.w


def filled_with_a_number(layer: Layer, x: Any) -> Any:
    layer.w.fill(7)
    return x + 1


@pytest.mark.parametrize("function", [filled_from_outside, filled_and_updated, filled_with_a_number])
def test_an_array_from_outside_whose_elements_are_all_replaced_is_written(function: Any) -> None:
    ours, theirs, fused = Layer(), Layer(), pto.fuse(function)
    for _ in range(2):
        np.testing.assert_array_equal(fused(ours, X), function(theirs, X))
        np.testing.assert_array_equal(ours.w, theirs.w)
        ours.w, theirs.w = np.ones(5), np.ones(5)


def test_arrays_of_the_function_are_joined() -> None:
    def function(x: Any) -> Any:
        rows = np.stack([np.zeros(5), np.ones(5)])
        rows[0] = x[0]
        both = np.concatenate((np.arange(5.0), np.zeros(2)))
        return rows, both + x[0, 0]

    for found, wanted in zip(pto.fuse(function)(X), function(X), strict=True):
        same(found, wanted)


GLOBAL = np.zeros(5)


def test_a_global_array_whose_elements_are_all_replaced_is_written() -> None:
    def function(x: Any) -> Any:
        GLOBAL[:] = x[0] + 1
        return x * 2

    pto.fuse(function)(X)
    np.testing.assert_array_equal(GLOBAL, X[0] + 1)
