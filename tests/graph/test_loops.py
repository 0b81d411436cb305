"""Loops of fused functions: each of these is one loop of one kernel, and gives what numpy gives."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.errors.advice import LoopUnrolled
from pypto.errors.graph import NeedsValue, NotTraced
from pypto.graph.capture import loop_statements
from tests.graph.loop_programs import (
    PROGRAMS,
    averaged,
    backwards,
    diffused,
    drawn,
    factored,
    orthogonal,
    recursed,
)
from tests.graph.random_loops import outcome

Array = np.ndarray[Any, Any]


TOLERANCE: dict[bool, Any] = {True: {"rtol": 2e-4, "atol": 1e-5}, False: {"rtol": 1e-10, "atol": 1e-12}}


def compare(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call a function with numpy and fused, twice, and compare results and updated arguments; return the plan."""
    fused = pto.fuse(function)
    wanted_arguments = copied(arguments)
    wanted = function(*wanted_arguments)
    for _ in range(2):
        given = copied(arguments)
        found = fused(*given)
        for a, b in zip(flat((wanted, wanted_arguments)), flat((found, given)), strict=True):
            assert np.shape(a) == np.shape(b)
            assert not isinstance(a, np.ndarray) or a.dtype == b.dtype
            np.testing.assert_allclose(b, a, **TOLERANCE[np.asarray(a).dtype == np.float32])
    return fused.plan(*copied(arguments))


def copied(tree: Any) -> Any:
    if isinstance(tree, tuple):
        return tuple(map(copied, tree))
    return tree.copy() if isinstance(tree, np.ndarray) else tree


def flat(tree: Any) -> list[Any]:
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in flat(part)]
    return [] if tree is None else [tree]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_a_loop_is_a_loop_of_one_kernel(function: Callable[..., Any]) -> None:
    plan = compare(function, PROGRAMS[function])
    assert len(plan.steps) < 8
    assert f"launch of {function.__name__}_loop_" in str(plan)


@pytest.mark.parametrize("function", [factored, diffused, averaged, backwards, recursed, orthogonal])
def test_loops_keep_float32(function: Callable[..., Any]) -> None:
    arguments = tuple(x.astype(np.float32) if isinstance(x, np.ndarray) else x for x in PROGRAMS[function])
    compare(function, arguments)


def test_a_long_loop_is_traced_in_constant_time() -> None:
    def traced_in(trips: int) -> float:
        start = time.process_time()
        pto.fuse(averaged).emit("traced", np.zeros(trips), 0.5)
        return time.process_time() - start

    traced_in(100)
    short, long = min(traced_in(200), traced_in(300)), min(traced_in(100_000), traced_in(100_001))
    assert long < 20 * short + 0.2


def shifted(x: Array, n: int) -> Array:
    for _ in range(n):
        x[1:] = 0.5 * (x[1:] + x[:-1])
        x[:-1] += x[1:]
        x[::-1][:-1] *= 0.5
        x[2:-1] -= x[-2:0:-1][:-1] if False else x[1:-2]
    return x


def of_views(x: Array) -> Array:
    row, part = x[3], x[2:, 1:]
    for i in range(x.shape[0] - 2):
        part[i] += row[1:]
        row[i] = part[i, 0]
        x[i, :i] = part[i, :i][::-1]
    return x


def of_no_trips(x: Array, n: int) -> Array:
    for i in range(x.shape[0]):
        for j in range(i + 1, n):
            x[i] += x[j]
        for j in range(n, i, 2):
            x[i] -= x[j]
    return x


def of_negative_indices(x: Array) -> Array:
    for i in range(len(x)):
        x[i] = x[i - 1] + x[-1 - i] * x[i - len(x)]
        x[i:-1] *= 0.9
        x[-i:] += 0.1
    return x


def of_integers(x: Array) -> tuple[Any, ...]:
    total = 0
    for i in range(x.shape[0]):
        x[i] = x[i] * 3 + i % 5
        total += x[i] // 3 - (x[i] % -4)
        if x[i] & 1:
            x[i] >>= 1
    return x, total + np.int64(0)


def halved(x: Any, n: int) -> Any:
    if n % 3 == 0:
        return x / 2
    if n % 3 == 1:
        return x * 0.75
    return x


def of_calls(x: Array) -> Array:
    for i in range(x.shape[0]):
        x[i] = halved(x[i], i) + max(x[i], 0.25, x[0])
    return x


def after_the_loop(x: Array) -> tuple[Any, ...]:
    for i in range(x.shape[0]):
        last = x[i] * 2
        row = x[i:]
    return last, i, row.sum()


MORE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "overlapping parts": (shifted, (drawn(300), 17)),
    "views": (of_views, (drawn(20, 20),)),
    "no trips": (of_no_trips, (drawn(30), 12)),
    "negative indices": (of_negative_indices, (drawn(40),)),
    "int32": (of_integers, (np.arange(-20, 20, dtype=np.int32),)),
    "int64": (of_integers, (np.arange(-20, 20),)),
    "functions": (of_calls, (drawn(30),)),
}


@pytest.mark.parametrize("name", MORE)
def test_loops_mean_what_they_mean_in_numpy(name: str) -> None:
    function, arguments = MORE[name]
    plan = compare(function, arguments)
    assert "_loop_" in str(plan)


def test_variables_have_their_last_values_after_a_loop() -> None:
    compare(after_the_loop, (drawn(30),))


def weighted(x: Array, n: int) -> Any:
    weight = 1.0
    for i in range(n):
        weight = weight * 0.5 + x[i] * 0
        weight = float(weight)
    return x * weight


def test_a_number_of_python_stays_weak_after_a_loop() -> None:
    """In a kernel it would be float64, and numpy keeps the array's type, so the loop is unrolled or refused."""
    fused = pto.fuse(weighted)
    with pytest.raises(NeedsValue):
        fused(np.ones(40, np.float32), 40)
    np.testing.assert_allclose(fused(np.ones(40), 40), weighted(np.ones(40), 40))


def running_total(x: Array) -> Any:
    for _ in range(60):
        x = np.sort(x)[::-1] + 1
    return x


def test_a_loop_that_is_unrolled_for_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_statements, "_LONG", 0.001)
    with pytest.warns(LoopUnrolled, match="this loop of running_total is unrolled") as caught:
        pto.fuse(running_total).emit("traced", np.ones(4))
    assert "np.sort" in str(caught[0].message) or "sort" in str(caught[0].message)


def test_an_element_is_no_view_of_its_array() -> None:
    def moved(x: Array) -> Any:
        first, row = x[0], x[1:]
        x[0] += 5
        x[1] *= 2
        return first, row

    compare(moved, (drawn(4),))


def test_short_loops_are_unrolled() -> None:
    def few(x: Array) -> Array:
        for n in range(3):
            x = x * n + 1
        return x

    plan = compare(few, (drawn(8),))
    assert "_loop_" not in str(plan)


@pytest.mark.parametrize("first", [0, 6])
def test_random_loops(first: int) -> None:
    found = [outcome(seed) for seed in range(first, first + 6)]
    assert [x for x in found if x[0] == "differs"] == []
    assert sum(x[0] == "agrees" for x in found) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1200, 20))
def test_many_random_loops(first: int) -> None:
    assert [x for x in map(outcome, range(first, first + 20)) if x[0] == "differs"] == []


def test_an_error_behind_a_loop_is_at_its_line() -> None:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = x * 2
        return np.unique(x)

    with pytest.raises(NotTraced) as caught:
        pto.fuse(f)(np.ones(3))
    assert caught.value.loc.line == f.__code__.co_firstlineno + 3


def test_a_loop_without_a_kernel_says_why() -> None:
    def f(x: Any, y: Any) -> Any:
        for a, b in list(zip(x, y, strict=True)):
            x = x + a * b
        return x

    x = np.arange(3.0)
    told = pt.explain(f, x, x)
    line = f.__code__.co_firstlineno + 1
    assert f"the loop in line {line} is unrolled, and no kernel: it runs over a list" in told

    def g(x: Any, y: Any) -> Any:
        for a, b in list(zip(x, y, strict=True)):
            x = x + float(a > b)
        return x

    with pytest.raises(NeedsValue, match="is unrolled, and no kernel: it runs over a list"):
        pto.fuse(g)(x, x)
