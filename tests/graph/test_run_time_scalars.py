"""Numbers that differ from call to call: run-time scalars from the second value on, and a bound on plans."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import numpy as np
import pytest

import pypto as pto

X = np.arange(1, 4, dtype=np.float32)


def test_numbers_become_run_time_scalars() -> None:
    def f(x: Any, rate: float, n: int) -> Any:
        if rate < 0:
            return x * n
        y = x * rate / (1 - rate**n) + math.pi * rate
        return np.where(x > rate, y, rate).astype(np.float32)

    fused = pto.fuse(f)
    for rate in (0.1, 0.2, 0.3, 0.4):
        for n in (2, 3, 4, 5):
            found = fused(X, rate, n)
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, f(X, rate, n), rtol=1e-6)
    assert len(fused.versions) <= 4
    np.testing.assert_allclose(fused(X, -1.0, 3), X * 3)
    assert fused(X.astype(np.float64), 0.1, 2).dtype == np.float32
    made = len(fused.versions)
    for rate in np.linspace(0.1, 0.9, 7).tolist():
        fused(X, rate, 3)
    assert len(fused.versions) == made


@pytest.mark.parametrize("dtype", ["i1", "i4", "f2", "f4", "f8", "u1"])
def test_run_time_scalars_have_the_type_that_numpy_gives_a_number(dtype: str) -> None:
    x = np.arange(4).astype(dtype)

    def f(x: Any, a: Any, b: Any) -> Any:
        return x + a, x * b, np.maximum(a, x), x / b, (x * 2.0) - b, a + b

    fused = pto.fuse(f)
    for a, b in ((1, 2), (2, 3), (3, 4), (0, 5)):
        for got, wanted in zip(fused(x, a, b), f(x, a, b), strict=True):
            assert np.asarray(got).dtype == np.asarray(wanted).dtype
            np.testing.assert_allclose(got, wanted, rtol=1e-3)


@pytest.mark.parametrize(
    "function",
    [
        lambda n: n & 6,
        lambda n: 6 & n,
        lambda n: n | 8,
        lambda n: 8 | n,
        lambda n: n ^ 3,
        lambda n: 3 ^ n,
        lambda n: n << 2,
        lambda n: 1 << n,
        lambda n: n >> 1,
        lambda n: 1000 >> n,
        lambda n: ~n,
        lambda n: divmod(n, 3)[1],
        lambda n: divmod(17, n)[0],
        lambda n: round(n / 4),
        lambda n: round(n / 3, 1),
        lambda n: math.floor(n / 4) + math.ceil(n / 4) + math.trunc(n / 4),
    ],
)
@pytest.mark.parametrize("kind", [int, np.int64])
def test_run_time_scalars_have_the_operators_of_numbers(function: Any, kind: Any) -> None:
    fused = pto.fuse(lambda x, n: x + function(n))
    for n in (2, 3, 4, 7):
        np.testing.assert_array_equal(fused(X, kind(n)), X + function(kind(n)))


class Counter:
    """A number that differs from call to call, in functions without any array."""

    def __init__(self) -> None:
        self.number = 5

    @pto.fuse
    def chosen(self, test: Any, small: Any) -> Any:
        return np.where(test, small, self.number), np.where(test, self.number, self.number)

    @pto.fuse
    def promoted(self, small: Any) -> Any:
        return np.zeros(2, np.result_type(small, self.number)), np.where(small > 2, small, self.number)

    @pto.fuse
    def beside(self, small: Any, x: Any) -> Any:
        return np.where(self.number > 5, self.number, x), np.where(np.arange(3) > 1, small, self.number)


@pytest.mark.parametrize("dtype", ["i1", "i2", "u4", "f2", "f4"])
def test_numpy_promotes_numbers_of_later_calls_as_those_of_the_first(dtype: str) -> None:
    """A run-time scalar that numpy makes an array of would be an int64, which is no number of Python any more."""
    counter, small = Counter(), np.dtype(dtype).type(3)
    calls: tuple[tuple[Any, tuple[Any, ...]], ...] = (
        (Counter.chosen, (np.bool_(True), small)),
        (Counter.promoted, (small,)),
        (Counter.beside, (small, X.astype(dtype))),
    )
    for number in (5, 6, 7, 5):
        counter.number = number
        for fused, args in calls:
            for got, wanted in zip(fused(counter, *args), fused.function(counter, *args), strict=True):
                assert np.asarray(got).dtype == np.asarray(wanted).dtype
                np.testing.assert_array_equal(got, wanted)


def test_numbers_that_are_shapes_or_axes_have_a_plan_each() -> None:
    def f(x: Any, axis: int, rows: int) -> Any:
        return x.reshape(rows, -1).sum(axis=axis) + float(f"{rows}")

    fused = pto.fuse(f)
    x = np.arange(24, dtype=np.float32)
    for _ in range(2):
        for axis in (0, 1):
            for rows in (2, 3, 4):
                np.testing.assert_allclose(fused(x, axis, rows), f(x, axis, rows))


def test_the_plan_that_was_not_used_for_longest_is_dropped() -> None:
    fused = pto.fuse(lambda x: x + 1)
    fused._cache.most = 3
    plans = [weakref.ref(fused.plan(np.ones(n, np.float32))) for n in range(1, 4)]
    fused(np.ones(1, np.float32))
    fused.plan(np.ones(9, np.float32))
    gc.collect()
    assert [p() is None for p in plans] == [False, True, False]
    assert len(fused.versions) == 3


def test_a_number_that_is_computed_in_many_steps() -> None:
    steps = (0.5, -0.25) * 1000

    def function(x: Any, scale: Any) -> Any:
        for step in steps:
            scale = scale + step
        return x, scale

    fused = pto.fuse(function)
    for scale in (1.0, 2.0, 3.0):
        assert fused(np.ones(2), scale)[1] == scale + 250
