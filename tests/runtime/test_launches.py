"""Launch lists: arenas, binding, replay on other addresses, and an arena in the memory of a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors import CompilerBug
from pypto.errors.launch import WrongArguments
from pypto.graph.plan.execution_context import Frame
from pypto.ir.types import float32
from pypto.runtime.arena import Arena, ArrayRef, Buffer, Slot
from pypto.runtime.device_arrays import DeviceArray
from pypto.runtime.launches import HOST, LaunchList, LaunchStep
from pypto.runtime.staging import Staging

ROWS, COLUMNS = 3, 16


@pto.jit
def doubled(x, y, factor):  # type: ignore[no-untyped-def]
    """Multiply a row."""
    y[pto.program_id(0), :] = x[pto.program_id(0), :] * factor


@pto.jit
def added(x, y, out):  # type: ignore[no-untyped-def]
    """Add two rows."""
    out[pto.program_id(0), :] = x[pto.program_id(0), :] + y[pto.program_id(0), :]


def matrix(key: str) -> Buffer:
    return Buffer(key, (ROWS, COLUMNS), float32)


def two_launches(memory: Any = HOST) -> LaunchList:
    """`x * 2 + x` by two kernels, with an array between them in the arena."""
    first = LaunchStep(doubled, (ROWS,), {"x": ArrayRef("x"), "y": ArrayRef("t"), "factor": 2.0})
    second = LaunchStep(added, (ROWS,), {"x": ArrayRef("t"), "y": ArrayRef("x"), "out": ArrayRef("out")})
    arena = Arena.packed([Slot(matrix("t"), 0, 1)])
    return LaunchList((first, second), (matrix("x"),), (matrix("out"),), arena, memory=memory)


def numbers(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((ROWS, COLUMNS)).astype(np.float32)


def test_a_list_prints_its_arrays_and_launches() -> None:
    assert str(two_launches()) == "\n".join([
        "input x: f32[3, 16]",
        "result out: f32[3, 16]",
        "arena 192 bytes on cpu",
        "  t: f32[3, 16] at 0, steps 0-1",
        "doubled[3](x=x, y=t, factor=2.0)",
        "added[3](x=t, y=x, out=out)",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("offset", "first", "is_refused"), [(0, 1, True), (60, 1, True), (192, 1, False), (0, 2, False)]
)
def test_arrays_of_an_arena_that_are_alive_together_do_not_overlap(offset: int, first: int, is_refused: bool) -> None:
    slots = Slot(matrix("a"), 0, 1), Slot(matrix("b"), first, 2, offset)
    if not is_refused:
        assert len(Arena(slots).slots) == 2
        return
    with pytest.raises(CompilerBug, match="a and b overlap"):
        Arena(slots)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "`x` is missing"),
        ({"x": numbers(0), "z": numbers(0)}, "`z` is none of its inputs"),
        ({"x": numbers(0)[:2]}, r"`x` has the shape \(2, 16\)"),
        ({"x": numbers(0).astype(np.float64)}, "`x` is float64"),
    ],
)
def test_errors_of_binding_name_the_argument(given: dict[str, Any], says: str) -> None:
    with pytest.raises(WrongArguments, match=says):
        two_launches().bind(given)


def test_a_launch_is_given_arrays_of_its_list_only() -> None:
    with pytest.raises(CompilerBug, match="argument `x` is nothing"):
        LaunchList((LaunchStep(doubled, (1,), {"x": ArrayRef("nothing")}),))


def test_a_replay_runs_on_other_addresses() -> None:
    bound = two_launches().bind({"x": numbers(0)})
    for seed in range(5):
        x = numbers(seed)
        (found,) = bound.run([x])
        np.testing.assert_array_equal(found, x * 2 + x)
    (found,) = bound.run()
    np.testing.assert_array_equal(found, numbers(0) * 2 + numbers(0))


def test_results_are_made_in_memory_that_is_given() -> None:
    bound = two_launches().bind({"x": numbers(0)})
    memory = np.empty((ROWS, COLUMNS), np.float32)
    for _ in range(3):
        assert bound.run(memory={"out": memory})[0] is memory
        np.testing.assert_array_equal(memory, numbers(0) * 3)
        memory[:] = 0


def test_slots_and_inputs_are_zeroed_before_each_run() -> None:
    step = LaunchStep(added, (ROWS,), {"x": ArrayRef("x"), "y": ArrayRef("t"), "out": ArrayRef("t")})
    arena = Arena((Slot(matrix("t"), 0, 0, is_zeroed=True),))
    bound = LaunchList((step,), (matrix("x"),), arena=arena).bind({"x": numbers(1)})
    for _ in range(3):
        bound.run()
        np.testing.assert_array_equal(bound.arrays["t"], numbers(1))


@pytest.mark.slow
def test_an_arena_lies_in_the_memory_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    device = pto.device("ascend-sim")
    x = numbers(3)
    bound = two_launches(device).bind({"x": device.array(x)})
    reads: list[int] = []
    monkeypatch.setattr(Staging, "upload", lambda self: reads.extend(map(id, self.staged)))
    monkeypatch.setattr(DeviceArray, "fetch", lambda self: reads.append(id(self)))
    results = [bound.run()[0] for _ in range(2)]
    monkeypatch.undo()
    assert not reads  # nothing was copied to the device or from it
    assert isinstance(bound.arrays["t"], DeviceArray) and bound.arrays["t"].device is device
    for found in results:
        np.testing.assert_array_equal(found.numpy(), x * 2 + x)
    assert "arena 192 bytes on ascend-sim" in str(bound.launches)


@pytest.mark.slow
def test_a_plan_of_two_kernels_runs_in_the_memory_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    device = pto.device("ascend-sim")
    fused = pto.fuse(lambda x: ((x.T @ x) @ (x.T @ (x + 1)))[1:])
    x = numbers(5)
    plan = fused.plan(x)
    assert len(plan.kernels) == 2 and plan.arena_bytes
    frame = Frame(plan, 1, {}, device)
    given = [device.array(x)]
    copies: list[str] = []
    monkeypatch.setattr(Staging, "upload", lambda self: copies.extend("staged" for _ in self.staged))
    monkeypatch.setattr(DeviceArray, "fetch", lambda self: copies.append("fetched"))
    for _ in range(2):
        (found,) = frame.run(given)
    monkeypatch.undo()
    assert not copies
    assert all(isinstance(array, DeviceArray) for array in frame.arrays.values())
    np.testing.assert_allclose(found.numpy(), fused.function(x), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_device_is_given_views_of_its_arrays() -> None:
    device = pto.device("ascend-sim")
    x = numbers(4)
    view = ArrayRef("x", (ROWS * COLUMNS,)).seen({"x": device.array(x)})
    rows = ArrayRef("x", None, (lambda a: a[1:, ::2],)).seen({"x": device.array(x)})
    np.testing.assert_array_equal(view.numpy(), x.ravel())
    np.testing.assert_array_equal(rows.numpy(), x[1:, ::2])


def test_views_of_an_array_on_a_device() -> None:
    array = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    there = pto.to_device(array, "ascend-sim")
    views: list[Any] = [
        lambda x: x[1], lambda x: x[:, ::-1, 1:3], lambda x: x[..., None, 0], lambda x: x.reshape(6, 4)[::2],
        lambda x: x.reshape((-1,))[23], lambda x: x[:, 3:],
    ]  # fmt: skip
    for view in views:
        seen = view(there)
        assert seen.memory is there.memory
        np.testing.assert_array_equal(seen.numpy(), view(array))
    assert len(there) == 2
    copies: list[Any] = [lambda x: x[[0, 1]], lambda x: x[:, ::2].reshape(-1)]
    for copy in copies:
        with pytest.raises(ValueError, match="copy"):
            copy(there)
    with pytest.raises(ValueError, match="truth value"):
        bool(there)
