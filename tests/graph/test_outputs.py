"""Results in arrays of the caller: `out=`, and arguments that are given away; overlaps are refused first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.arrays import Dim
from pypto.errors.graph import NegativePower, WrongDims, WrongOut
from pypto.graph.plan.outputs import overlap

X = np.random.default_rng(1).standard_normal((6, 10)).astype(np.float32)


def stats(x: Any) -> dict[str, Any]:
    return {"mean": x.mean(axis=0), "both": (x + 1, x.T), "count": 3, "whole": x.sum()}


def test_results_are_written_to_arrays_that_are_given() -> None:
    fused, wanted = pto.fuse(stats), stats(X)
    out = {"mean": np.empty(10, np.float32), "both": (None, np.empty((10, 6), np.float32)), "whole": np.empty((), "f4")}
    for _ in range(3):
        found = fused(X, out=out)
        assert found["mean"] is out["mean"]
        assert found["both"][1] is out["both"][1]
        np.testing.assert_allclose(out["mean"], wanted["mean"], rtol=1e-5)
        np.testing.assert_array_equal(out["both"][1], X.T)
        np.testing.assert_array_equal(found["both"][0], X + 1)
        np.testing.assert_allclose(out["whole"], wanted["whole"], rtol=1e-5)
        assert found["count"] == 3


def test_out_may_have_any_memory_order() -> None:
    fused = pto.fuse(lambda x: np.exp(x) * 2)
    wanted = np.exp(X) * 2
    for out in (np.empty((6, 10), np.float32, order="F"), np.empty((12, 20), np.float32)[::2, ::-2]):
        assert fused(X, out=out) is out
        np.testing.assert_allclose(out, wanted, rtol=1e-6)


def test_out_with_dims() -> None:
    fused = pto.fuse(lambda x: x * 2, dims={"x": (Dim("n", 1, 50), None)})
    out = np.empty((6, 10), np.float32)
    assert fused(X, out=out) is out
    np.testing.assert_array_equal(out, X * 2)
    with pytest.raises(WrongOut, match=r"the result is float32\[5, 10\]"):
        fused(X[:5], out=out)


def test_an_argument_named_out_is_the_functions_own() -> None:
    def add(x: Any, out: Any) -> Any:
        return np.add(x, 1, out=out)

    out = np.zeros_like(X)
    found = pto.fuse(add)(X, out=out)
    np.testing.assert_array_equal(found, X + 1)
    np.testing.assert_array_equal(out, X + 1)


def frozen() -> Any:
    out = np.empty((6, 10), np.float32)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    ("out", "problem"),
    [
        (np.empty((6, 11), np.float32), "the result is float32"),
        (np.empty((6, 10)), "the result is float32"),
        (frozen(), "read-only"),
        ([np.empty((6, 10), np.float32)], "no array there"),
        (3, "no array of numpy"),
    ],
)
def test_what_does_not_fit_is_refused(out: Any, problem: str) -> None:
    with pytest.raises(WrongOut, match=problem):
        pto.fuse(lambda x: x + 1)(X, out=out)


def test_overlaps_are_refused_before_anything_is_written() -> None:
    x = np.zeros(100, np.float32)
    fused = pto.fuse(lambda a: (a + 1, a * 2))
    a = x[:40]
    for out, problem in (
        ((x[30:70], None), "reads"),
        ((a, None), "reads"),
        ((x[40:80], x[60:100]), "another array"),
    ):
        before = x.copy()
        with pytest.raises(WrongOut, match=problem):
            fused(a, out=out)
        np.testing.assert_array_equal(x, before)
    wide = np.zeros((40, 2), np.float32)
    fused(wide[:, 0], out=(wide[:, 1], None))  # columns of one array do not overlap
    np.testing.assert_array_equal(wide[:, 1], np.ones(40))


def test_an_array_from_outside_is_read() -> None:
    outside = np.ones(8, np.float32)
    with pytest.raises(WrongOut, match="reads"):
        pto.fuse(lambda x: x + outside)(np.ones(8, np.float32), out=outside)


def test_results_are_made_in_memory_that_is_given_away() -> None:
    fused = pto.fuse(lambda u, rate: u + rate * u * (1 - u), donate=["u"])
    u = np.full((64, 64), 0.1, np.float32)
    wanted, first = u.copy(), u
    for _ in range(5):
        wanted = wanted + np.float32(0.5) * wanted * (1 - wanted)
        u = fused(u, np.float32(0.5))
        assert u is first
    np.testing.assert_allclose(u, wanted, rtol=1e-5)


def test_memory_is_not_given_away_while_it_is_read() -> None:
    def step(u: Any) -> Any:
        new = u.copy()
        new[1:-1] = (u[2:] + u[:-2]) * np.float32(0.5)
        return new

    def turned(u: Any) -> Any:
        return u.T + u

    square = np.random.default_rng(3).standard_normal((20, 20)).astype(np.float32)
    for function in (step, turned, lambda u: u @ u, lambda u: (u, u + 1), lambda u: u - u.mean(axis=0)):
        u = square.copy()
        found, wanted = pto.fuse(function, donate=["u"])(u), function(square)
        several = isinstance(wanted, tuple)
        for a, b in zip(found if several else [found], wanted if several else [wanted], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_what_is_given_away_overlaps_nothing() -> None:
    fused = pto.fuse(lambda state, y: {"x": state["x"] + y}, donate=["state.x"])
    x = np.zeros(100, np.float32)
    with pytest.raises(WrongOut, match="given away"):
        fused({"x": x[:60]}, x[40:])
    np.testing.assert_array_equal(fused({"x": x[:40]}, x[60:] + 1)["x"], np.ones(40))
    with pytest.raises(WrongDims, match="no array"):
        fused({"x": 3}, x)
    with pytest.raises(WrongDims, match="no parameter"):
        pto.fuse(lambda x: x, donate=["y"])


def replayed(fused: Any) -> bool:
    """Whether the fast path of a function with donated arguments has a native replay."""
    return any(path.frames[path.donated,][0].native is not None for path in fused._fast_paths)


def test_calls_with_donated_arguments_are_replayed() -> None:
    fused = pto.fuse(lambda u, rate: u + rate * u, donate=["u"])
    memory, rate = np.ones((9, 16), np.float32), np.full(16, 0.5, np.float32)
    for n in range(1, 5):
        u = memory[:8]
        assert fused(u, rate) is u
        np.testing.assert_array_equal(u, np.full((8, 16), 1.5**n, np.float32))
    assert replayed(fused) and fused._fast_paths[0].call((u, rate), {}) is u
    before = memory.copy()
    with pytest.raises(WrongOut, match="`u`, which is given away,: it overlaps"):
        fused(memory[:8], memory[7])
    np.testing.assert_array_equal(memory, before)
    fixed = memory[:8].copy()
    fixed.flags.writeable = False
    assert fused(fixed, rate) is not fixed
    np.testing.assert_array_equal(fixed, before[:8])
    out = np.empty_like(u)
    assert fused(u, rate, out=out) is out
    np.testing.assert_array_equal(u, before[:8])


def test_launches_update_donated_memory() -> None:
    def summed(total: Any, y: Any) -> Any:
        result = total.copy()
        added[result.shape[0]](result, y)
        return result

    fused = pto.fuse(summed, donate=["total"])
    total, y = np.zeros((8, 16), np.float32), np.ones((8, 16), np.float32)
    for n in range(1, 5):
        assert fused(total, y) is total
        np.testing.assert_array_equal(total, n * y)
    assert replayed(fused)
    plain = pto.fuse(summed)(total, y)
    np.testing.assert_array_equal(plain, total + 1)
    bound = fused.bind(total, y)
    for n in range(5, 9):
        assert bound.run() is total
        np.testing.assert_array_equal(total, n * y)


def test_an_absent_argument_donates_nothing() -> None:
    fused = pto.fuse(lambda x, more=None: x + 1 if more is None else x + more, donate=["more"])
    x = np.zeros(8, np.float32)
    np.testing.assert_array_equal(fused(x), 1)
    assert fused(x, more := np.ones(8, np.float32)) is more


@pto.jit
def added(x, y):  # type: ignore[no-untyped-def]
    """Add a row."""
    i = pto.program_id(0)
    x[i, :] = x[i, :] + y[i, :]


def test_overlap_is_exact_where_that_is_quick() -> None:
    x = np.zeros((8, 8))
    assert not overlap(x[::2], x[1::2])
    assert overlap(x[::2], x[::3])


def updates(x: Any) -> Any:
    """Three updates of one array, each after what reads it; the last is the result."""
    y = np.exp(x)
    total = y.sum()
    y[:, 0] = total
    y[:, 1] = y[:, 0] + y[:, 2]
    y[2:, 3] = y[0, 3] * 2
    return y


def test_updates_are_made_in_the_memory_of_what_they_update() -> None:
    x = np.random.default_rng(0).standard_normal((30, 8), np.float32)
    fused = pto.fuse(updates)
    np.testing.assert_allclose(fused(x), updates(x), rtol=1e-5)
    np.testing.assert_allclose(fused(x), updates(x), rtol=1e-5)
    plan = fused.plan(x)
    assert len(plan.buffer_aliases) == 3
    assert set(plan.buffer_aliases.values()) == {plan.graph.outputs[0]}
    out = np.empty_like(x)
    assert fused(x, out=out) is out
    np.testing.assert_allclose(out, updates(x), rtol=1e-5)


def test_an_array_that_is_read_later_is_not_updated_in_place() -> None:
    def both(x: Any) -> Any:
        y = np.exp(x)
        z = y.copy()
        z[:, 0] = 0
        w = z.copy()
        w[0] = z[:, 1].sum()
        return (w * y).sum(axis=0), z

    x = np.random.default_rng(1).standard_normal((20, 6), np.float32)
    fused = pto.fuse(both)
    for _ in range(2):
        for a, b in zip(fused(x), both(x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_an_update_by_a_part_of_itself_is_a_copy() -> None:
    def shifted(x: Any) -> Any:
        y = np.exp(x)
        y[1:] = y[:-1]
        return np.tanh(y)

    x = np.random.default_rng(2).standard_normal((50, 7), np.float32)
    fused = pto.fuse(shifted)
    np.testing.assert_allclose(fused(x), shifted(x), rtol=1e-5)
    assert not fused.plan(x).buffer_aliases


def reversed_in_place(x: Any) -> Any:
    x[:] = x[::-1]
    return x, x[1:]


def test_a_view_of_an_argument_that_is_written_is_as_it_was_then() -> None:
    fused = pto.fuse(reversed_in_place)
    for _ in range(3):
        ours, theirs = X.copy(), X.copy()
        for a, b in zip(fused(ours), reversed_in_place(theirs), strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(ours, theirs)


def test_an_argument_that_is_written_and_overlaps_another_one_is_refused() -> None:
    def function(x: Any, y: Any) -> Any:
        y += 1
        return x.sum(axis=0)

    fused = pto.fuse(function)
    memory = X.copy()
    for y in (memory[1:4], memory.T):
        with pytest.raises(WrongOut, match=r"`y`.*overlaps another array of the call"):
            fused(memory, y)
    np.testing.assert_array_equal(memory, X)
    other = X.copy()
    np.testing.assert_allclose(fused(memory, other), X.sum(axis=0), rtol=1e-5)
    np.testing.assert_array_equal(other, X + 1)


def test_nothing_is_written_when_an_exponent_is_refused() -> None:
    """A check that runs behind other kernels leaves the arrays of the caller as they were."""

    def function(x: Any, k: Any) -> Any:
        return x * 2.0, (x + 1).sum(axis=0), 2**k

    x, k = np.ones((300, 300)), np.array([1, -1, 2])
    out = (np.zeros((300, 300)), np.zeros(300), np.zeros(3, np.int64))
    fused = pto.fuse(function)
    with pytest.raises(NegativePower):
        fused(x, k, out=out)
    assert not any(array.any() for array in out)
    fused(x, abs(k), out=out)
    for a, b in zip(out, function(x, abs(k)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_arrays_that_a_function_makes_are_new_in_each_call() -> None:
    """A caller may write to a result; later calls do not see it."""
    fused = pto.fuse(lambda x: (np.array([3.0, 4.0]), np.array(5.0), np.broadcast_arrays(x, np.array([1.0, 2.0]))[1]))
    x = np.ones(2)
    for _ in range(3):
        for result, wanted in zip(fused(x), ([3, 4], 5, [1, 2]), strict=True):
            np.testing.assert_array_equal(result, wanted)
            result[...] = 99


def test_views_of_results_are_replayed() -> None:
    fused, x = pto.fuse(lambda x: ((x + 1).T, x + 1, (x * 2).reshape(-1))), X.copy()
    for n in range(4):
        x[0, 0] = n
        found = fused(x)
        for result, wanted in zip(found, ((x + 1).T, x + 1, (x * 2).reshape(-1)), strict=True):
            np.testing.assert_array_equal(result, wanted)
    turned = pto.fuse(lambda x: (x + 1).T)
    out = np.empty((10, 6), np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(turned(x), (x + 1).T)
        assert turned(x, out=out) is out
        np.testing.assert_array_equal(out, (x + 1).T)
