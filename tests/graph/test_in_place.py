"""Arrays that kernels make in the memory of others, and cheap ones that two kernels make rather than store."""

from __future__ import annotations

from typing import Any

import numpy as np

import pypto as pto
from pypto.graph import parse_plan, plan_text

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
