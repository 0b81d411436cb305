"""Forms of loops that become one kernel: zip, enumerate, reversed, return, else, narrow floats, carried arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt

Array = np.ndarray[Any, Any]
X = np.random.default_rng(0).standard_normal(50)


def of_pairs(x: Array) -> Any:
    s = np.zeros(50)
    for k, (a, b) in enumerate(zip(x, x[::-1], strict=False)):
        s[k] = a * b + s[k - 1]
    return s


def numbered(x: Array) -> Any:
    s = np.zeros(60)
    for k, a in enumerate(x, 5):
        s[k] = a * 2 + s[k - 1]
    return s


def backwards(x: Array) -> Any:
    s, t = np.zeros(50), 0.0
    for k, a in zip(reversed(range(50)), reversed(x), strict=False):
        t = t * 0.5 + a
        s[k] = t
    return s


def inner(x: Array) -> Any:
    rows, s = x.reshape(5, 10), np.zeros(5)
    for k in range(5):
        for n, a in enumerate(rows[k]):
            s[k] += a * n
    return s


def floored(x: Array) -> Any:
    s = np.zeros(50, x.dtype)
    for k in range(1, 50):
        s[k] = x[k] // x.dtype.type(0.3) + x[k] % x.dtype.type(-0.7) + s[k - 1]
    return s


def narrow(x: Array) -> Any:
    s = np.zeros(50, np.float16)
    for k in range(1, 50):
        s[k] = np.float16(x[k]) * np.float16(0.5) + s[k - 1]
    return s


def halved(x: Array) -> Any:
    while np.abs(x).max() > 0.01:
        x = x * 0.5
    return x


def first(x: Array) -> Any:
    for k in range(50):
        if x[k] > 1.5:
            return k
    return -1


def of_two(x: Array) -> Any:
    total = 0.0
    for k in range(50):
        total += x[k]
        if total > 3:
            return total, x[k] * 2
    return total, 0.0


def endless(x: Array) -> Any:
    k = 0
    while True:
        if x[k] > 1.0:
            return x[k] + k
        k += 1


def of_inner_loops(x: Array) -> Any:
    rows = x.reshape(5, 10)
    for i in range(5):
        for j in range(10):
            if rows[i, j] > 1.5:
                return i * 100.0 + j
    return -1.0


def otherwise(x: Array) -> Any:
    for k in range(50):
        if x[k] > 100:
            break
    else:
        return x * 2
    return x


def place(x: Array, least: float) -> Any:
    for k in range(len(x)):
        if x[k] > least:
            return x[k]
    return 0.0


def of_calls(x: Array) -> Any:
    s = np.zeros(20)
    for k in range(20):
        s[k] = place(x, k / 8)
    return s


FUNCTIONS: list[Callable[[Array], Any]] = [
    of_pairs, numbered, backwards, inner, floored, narrow, halved, first, of_two, endless, of_inner_loops, otherwise,
    of_calls,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_loop_of_this_form_is_one_kernel(function: Callable[[Array], Any]) -> None:
    fused = pto.fuse(function)
    for x in (X, -X[::-1].copy()) if function is not endless else (X, np.abs(X)):
        wanted, found = function(x.copy()), fused(x.copy())
        pairs = zip(wanted, found, strict=True) if isinstance(wanted, tuple) else [(wanted, found)]
        for a, b in pairs:
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_allclose(b, a, rtol=1e-12)
    assert pt.explain(function, X).count("launch of ") == 1


def weighted(a: Array, x: Array) -> Any:
    total = np.zeros(a.shape[1], a.dtype)
    for k in range(20):
        total[k:] += x[k:] @ a[k:, k:] + a[:, k] @ a[:, k:]
        total[k] += (a[k:, k:] @ total[k : a.shape[1]])[0]
    return total


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_of_vectors_and_matrices_are_parts_of_the_kernel(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    a, x = rng.standard_normal((43, 37)).astype(dtype), rng.standard_normal(43).astype(dtype)
    a /= 40
    wanted, found = weighted(a, x), pto.fuse(weighted)(a, x)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-4 if dtype is np.float32 else 1e-10)
    assert pt.explain(weighted, a, x).count("launch of ") == 1


def test_floats_are_floored_as_numpy_floors_them() -> None:
    values = [7.5, -7.5, 0.0, -0.0, 0.3, -0.3, 1e300, np.inf, -np.inf, np.nan, 2.0, -2.0]
    x, y = (a.ravel() for a in np.meshgrid(values, values))

    def divided(x: Array, y: Array) -> Any:
        q, r = np.zeros(x.size), np.zeros(x.size)
        for k in range(x.size):
            q[k] = x[k] // y[k]
            r[k] = x[k] % y[k]
        return q, r

    with np.errstate(all="ignore"):
        wanted, found = divided(x, y), pto.fuse(divided)(x, y)
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(b, a)
        np.testing.assert_array_equal(np.signbit(b[~np.isnan(b)]), np.signbit(a[~np.isnan(a)]))
