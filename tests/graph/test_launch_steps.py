# Kernels are for the front end, which reads types from arguments; not for a type checker.
"""Launches of kernels in fused functions are native steps: they write into arguments and the arena without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto import library
from pypto.arrays import Dim, explain
from pypto.errors.graph import NeedsValue, NotTraced, SharedMemory, WrongOut
from pypto.graph.plan.execution_context import Frame
from pypto.graph.plan.plan_text import parse_plan, plan_text
from pypto.runtime.launches import BoundLaunches

RNG = np.random.default_rng(7)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pto.jit
def add_to(x, y):  # type: ignore[no-untyped-def]
    i = pto.program_id(0)
    y[i, :] = y[i, :] + x[i, :] * 2


@pto.jit
def two(x, y, z):  # type: ignore[no-untyped-def]
    i = pto.program_id(0)
    y[i, :] = x[i, :] * 2
    z[i, :] = x[i, :] * 3


@pto.jit
def store_at(x, cache, position):  # type: ignore[no-untyped-def]
    p, i = position[0], pto.program_id(0)
    cache[i, p, :] = x[i, :]


def step(x: Any, cache: Any, position: Any) -> Any:
    """A row for each head into a cache, then a sum over the cache."""
    store_at[len(cache)](np.tanh(x) + 1, cache, position)
    return cache.sum(axis=1)


def views(x: Any) -> Any:
    """Launches into views of fresh memory, one of them written twice."""
    y = np.empty_like(x, shape=(4, 24))
    two[4](x + 1, y[:, :8], y[:, 8:16])
    two[4](x + 2, y[:, 16:], y[:, 8:16])
    return y


def unread(x: Any) -> Any:
    """One of two written arrays is read by nothing."""
    y = np.empty_like(x)
    two[4](x + 1, y, np.empty_like(x))
    return y * 2


def part(x: Any, cache: Any) -> Any:
    """A launch into a view of an argument."""
    add_to[4](x + 1, cache[1])
    return cache[1] * 2


def chain(x: Any, y: Any) -> Any:
    """Launches and an operator, each of which updates the argument."""
    add_to[4](x, y)
    y *= 2
    add_to[4](x, y)
    return y


def old_is_read(x: Any, y: Any) -> Any:
    """What the argument was is read once it has changed."""
    old = y.copy()
    add_to[4](x, y)
    return old + y


def kept(x: Any, y: Any) -> Any:
    """The kernel updates a copy."""
    z = y.copy()
    add_to[4](x, z)
    return z + y


POSITION = np.array([2], np.int32)
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "step": (step, (floats(3, 8), floats(3, 5, 8), POSITION)),
    "views": (views, (floats(4, 8),)),
    "unread": (unread, (floats(4, 8),)),
    "part": (part, (floats(4, 8), floats(3, 4, 8))),
    "chain": (chain, (floats(4, 8), floats(4, 8))),
    "old": (old_is_read, (floats(4, 8), floats(4, 8))),
    "kept": (kept, (floats(4, 8), floats(4, 8))),
    "row": (lambda x, w: library.rms_norm(x + 1, w) * 2, (floats(4, 8), floats(8))),
}
NATIVE = ("step", "views", "unread", "part", "row")
case = pytest.mark.parametrize(("function", "arrays"), FUNCTIONS.values(), ids=FUNCTIONS)


def compare(fused: Any, function: Any, arrays: tuple[Any, ...]) -> None:
    """The results, and what becomes of the arguments."""
    own, other = ([a.copy() for a in arrays] for _ in range(2))
    np.testing.assert_allclose(fused(*own), function(*other), rtol=1e-5, atol=1e-6)
    for got, wanted in zip(own, other, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@case
def test_a_plan_computes_what_the_function_does(function: Any, arrays: Any) -> None:
    fused = pto.fuse(function)
    for _ in range(3):
        compare(fused, function, arrays)
    pto.verify(fused, *arrays)


@case
def test_without_updates_in_place_and_without_overlap_too(function: Any, arrays: Any) -> None:
    compare(pto.fuse(function, disable=["in_place"]), function, arrays)
    compare(pto.fuse(function, overlap=False), function, arrays)


@case
def test_the_interpreter_agrees(function: Any, arrays: Any) -> None:
    expected = function(*(a.copy() for a in arrays))
    with pto.interpreter():
        np.testing.assert_allclose(pto.fuse(function)(*(a.copy() for a in arrays)), expected, rtol=1e-5, atol=1e-6)


@case
def test_the_text_of_a_plan_has_its_launches(function: Any, arrays: Any) -> None:
    plan = pto.fuse(function).plan(*arrays)
    text = plan_text(plan)
    assert text.count("assemble") == sum(step.kernel is None for step in plan.steps)
    assert text.count("update ") == len(plan.updates)


def test_updates_of_arguments_survive_the_text_of_a_plan() -> None:
    def function(x: Any) -> None:
        x += 1

    plan = pto.fuse(function).plan(floats(600, 600))
    assert "update 0 value 2\nin_place 2 owner 0\n" in plan_text(plan)
    assert plan_text(parse_plan(plan_text(plan))) == plan_text(plan)


@pytest.mark.parametrize("name", NATIVE)
def test_from_the_second_run_on_all_launches_are_one_native_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, arrays = FUNCTIONS[name]
    fused = pto.fuse(function)
    for _ in range(2):
        fused(*(a.copy() for a in arrays))
    (frame,) = fused.plan(*arrays).frames[()]
    if frame.sections[0].native is None:
        pytest.skip("no native launches here")
    assert len(frame.sections) == 1
    monkeypatch.setattr("pypto.runtime.launches.BoundStep.run", None)
    compare(fused, function, arrays)


def test_an_argument_is_written_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = pto.fuse(step)
    x, cache, position = (a.copy() for a in FUNCTIONS["step"][1])
    plan = fused.plan(x, cache, position)
    assert {owner.attr("name") for owner in plan.buffer_aliases.values()} == {"cache"}
    assert plan.offsets.keys().isdisjoint(plan.buffer_aliases)
    monkeypatch.setattr(np, "copyto", None)
    before = cache.copy()
    fused(x, cache, position)
    assert not np.array_equal(before, cache)
    assert "launch of store_at [1]" in explain(step, x, cache, position)
    assert "in `cache`" in explain(step, x, cache, position)


def test_named_dimensions_are_those_of_a_launch_too() -> None:
    def function(x: Any) -> Any:
        y, z = np.empty_like(x), np.empty_like(x)
        two[(x.shape[0],)](x + 1, y, z)
        return y - z

    fused = pto.fuse(function, dims={"x": (Dim("rows"), 8)})
    for rows in (1, 5, 5, 64, 5, 1):
        compare(fused, function, (floats(rows, 8),))
    assert len(fused.versions) == 1


def test_a_function_with_named_dimensions_is_a_part_of_another_one() -> None:
    inner = pto.fuse(lambda x, w: x * w + x.shape[0], dims={"x": (Dim("rows"), None)})
    outer = pto.fuse(lambda x, w: inner(np.tanh(x), w))
    x, w = floats(4, 8), floats(8)
    np.testing.assert_allclose(outer(x, w), np.tanh(x) * w + 4, rtol=1e-5)
    assert len(outer.plan(x, w).kernels) == 1


def test_an_array_of_numpys_is_read_by_a_launch() -> None:
    def function(x: Any) -> Any:
        y = np.zeros_like(x)
        add_to[4](np.ones((4, 8), np.float32), y)
        return x + y

    compare(pto.fuse(function), function, (floats(4, 8),))


def test_a_read_only_argument_is_not_updated() -> None:
    x, y = floats(4, 8), floats(4, 8)
    fused = pto.fuse(chain)
    fused(x, y)
    y.flags.writeable = False
    before = y.copy()
    with pytest.raises(WrongOut, match=r"`y`.*the function writes to it, and it is read-only"):
        fused(x, y)
    np.testing.assert_array_equal(y, before)


def test_one_thread_each_has_memory_of_its_own() -> None:
    plan = pto.fuse(unread).plan(floats(4, 8))
    one, other = (Frame(plan, 1, {}) for _ in range(2))
    assert isinstance(one, BoundLaunches)
    (mine,), (yours,) = (frame.unread().values() for frame in (one, other))
    assert not np.may_share_memory(mine, yours)


def test_what_a_trace_cannot_follow_is_refused_at_the_launch() -> None:
    x = floats(4, 8)
    with pytest.raises(NotTraced, match="it writes to an array from outside"):
        pto.fuse(lambda x: add_to[4](x, np.frombuffer(bytearray(128), np.float32).reshape(4, 8))).plan(x)
    with pytest.raises(NotTraced, match="it writes to a broadcast array"):
        pto.fuse(lambda x: add_to[4](x, np.broadcast_to(x[0], (4, 8)))).plan(x)
    with pytest.raises(SharedMemory):
        pto.fuse(lambda x: add_to[4](x, (x.T * x.T).reshape(4, 8))).plan(x)
    with pytest.raises(NeedsValue):
        pto.fuse(library.cross_entropy).plan(x, np.zeros(4, np.int32))


@case
def test_a_bound_call_runs_on_its_arrays_again_and_again(function: Any, arrays: Any) -> None:
    own, other = ([a.copy() for a in arrays] for _ in range(2))
    bound = pto.fuse(function).bind(*own)
    for _ in range(4):
        own[0] += 1
        other[0] += 1
        np.testing.assert_allclose(bound.run(), function(*other), rtol=1e-4, atol=1e-5)
        for got, wanted in zip(own, other, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_a_bound_call_runs_functions_between_kernels_and_updates_every_time() -> None:
    def function(x: Any, y: Any) -> Any:
        y[:] = y.T
        return {"inverse": np.linalg.inv(x), "sum": y.sum()}

    x, y = np.eye(3), np.arange(9.0).reshape(3, 3)
    bound = pto.fuse(function).bind(x, y)
    for scale in (1.0, 2.0, 4.0):
        x[:] = np.eye(3) * scale
        before = y.copy()
        result = bound.run()
        np.testing.assert_array_equal(result["inverse"], np.eye(3) / scale)
        assert result["sum"] == before.sum()
        np.testing.assert_array_equal(y, before.T)
