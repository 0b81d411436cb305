"""Arrays that kernels make in the memory of others, and cheap ones that two kernels make rather than store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.graph import parse_plan, plan_text
from pypto.graph.codegen.writer import Access, Argument
from pypto.graph.ir.node import Graph
from pypto.graph.ir.types import TensorType
from pypto.graph.plan.schedule import Step, is_in_place
from pypto.ir.types import float32

SIDE = 300  # so that an array is worth it


def held(function: Any, *arrays: Any) -> Any:
    """The plan of a function, which is right, in its first run and in those that are replayed, and as text."""
    fused = pto.fuse(function)
    for _ in range(3):
        np.testing.assert_allclose(fused(*arrays), function(*arrays), rtol=1e-4, atol=1e-4)
    pto.verify(fused, *arrays)
    plan = fused.plan(*arrays)
    assert plan_text(parse_plan(plan_text(plan))) == plan_text(plan)
    return plan


def square(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((SIDE, SIDE), np.float32)


def descended(x: Any, y: Any) -> Any:
    """Steps that each depend on a sum over all of the array."""
    for _ in range(3):
        x = x - y * ((x * x).sum() / x.size)
    return np.tanh(x)


def test_a_kernel_writes_where_it_reads_what_nobody_reads_any_more() -> None:
    plan = held(descended, square(0), square(1))
    assert len(plan.buffer_aliases) == 2
    assert set(plan.buffer_aliases.values()) == {plan.graph.outputs[0]}
    assert plan.arena_bytes < SIDE * SIDE


def test_what_is_read_elsewhere_than_it_is_written_is_not_overwritten() -> None:
    def beside(x: Any) -> Any:
        for _ in range(3):
            p = np.pad(x / (x * x).sum(), 1)
            x = p[2:, 1:-1] - p[1:-1, :-2]
        return x

    def turned(x: Any) -> Any:
        for _ in range(3):
            x = np.tanh(x) / (x * x).sum(axis=0)[:, None] + x.T
        return x

    def by_columns(x: Any) -> Any:
        for _ in range(3):
            x = np.tanh(x) - np.tanh(x).sum(axis=0)[:, None]
        return x

    for function in (beside, turned, by_columns):
        held(function, square(2))


def test_a_stencil_is_made_again_rather_than_stored_for_what_depends_on_its_sum() -> None:
    def step(d: Any, r: Any) -> Any:
        p = np.pad(d, 1)
        q = 4 * d - p[:-2, 1:-1] - p[2:, 1:-1]
        return r - q / (d * q).sum()

    plan = held(step, square(3), square(4))
    assert plan.arena_bytes < 4 * SIDE * SIDE / 10
    (again,) = {n for n in plan.steps[-1].nodes if n in plan.steps[0].nodes and n.op == "mul"}
    assert again.type.size == SIDE * SIDE
    assert "computes again" in str(plan)


def test_what_costs_much_is_stored() -> None:
    def step(d: Any, r: Any) -> Any:
        q = np.exp(d)
        return r - q / (d * q).sum()

    plan = held(step, square(3), square(4))
    assert sum(any(n.op == "exp" for n in s.nodes) for s in plan.steps) == 1


READ, WRITE = Access("a0", (0, 1), "read"), Access("out0", (0, 1), "write")


@pytest.mark.parametrize(
    ("accesses", "expected"),
    [
        ((READ, WRITE), True),
        ((READ, Access("out0", (1, 0), "write")), False),  # a transpose
        ((READ, READ, WRITE), False),  # the second read may see what the program wrote
        ((READ, WRITE, WRITE), False),
        ((Access("a0", (None, 1), "read"), Access("out0", (None, 1), "write")), False),  # rows by indices
        ((WRITE,), False),
        ((), False),
    ],
)
def test_a_kernel_may_write_in_place_if_it_reads_and_writes_once_by_the_same_axes(
    accesses: tuple[Access, ...], expected: bool
) -> None:
    graph, type = Graph("f"), TensorType((4, 4), float32)
    x = graph.input("x", type)
    y = graph.add("exp", x)
    arguments = (Argument("a0", x, (4, 4)), Argument("out0", y, (4, 4), True))
    assert is_in_place(Step((y,), (x,), (y,), None, arguments, (4,), accesses), x, y) is expected


def test_a_kernel_records_each_place_that_reads_or_writes_an_array() -> None:
    def function(x: Any, rows: Any, index: Any) -> Any:
        return np.exp(x) + rows[index] + np.pad(x, ((1, 0), (0, 0)))[:-1]

    arrays = np.ones((6, 8), np.float32), np.ones((3, 8), np.float32), np.zeros(6, np.int64)
    (step,) = pto.fuse(function).plan(*arrays).steps
    found = sorted((x.mode, len([a for a in x.axes if a is None])) for x in step.accesses)
    assert found == [("read", 0), ("read", 0), ("read", 1), ("read", 2), ("write", 0)]
