"""Steps that overlap: which, in which order, in which memory; and that they are one launch."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.arrays import explain
from pypto.errors.ir import IRTextError
from pypto.graph import parse_plan, plan_text
from pypto.graph.plan.plan import Plan
from pypto.graph.plan.schedule import MOST_MEMBERS, ends_of

RNG = np.random.default_rng(5)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def projections(x: Any, a: Any, b: Any, c: Any) -> Any:
    return x @ a, np.tanh(x @ b), x @ c


def branches(x: Any, *weights: Any) -> Any:
    return sum(np.cumsum(np.sort(x @ w, axis=1), axis=0) @ w for w in weights)


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pypto.graph.plan.pipeline.get_num_threads", lambda: 2)


def overlaps_of(plan: Plan) -> list[tuple[int, ...]]:
    return [tuple(range(n, n + size)) for n, size in enumerate(plan.waves) if size > 1]


def check(plan: Plan) -> None:
    """No step reads what one that it overlaps stores, and no array has memory that one of these uses."""
    ends, spans = ends_of(plan.waves), {}
    written = {node: n for n, step in enumerate(plan.steps) for node in step.writes}
    for number, step in enumerate(plan.steps):
        assert all(ends[written[node]][1] < ends[number][0] for node in step.reads if node in written)
    for node, at in plan.offsets.items():
        used = [n for n, s in enumerate(plan.steps) if node in s.reads or node in s.writes]
        spans[node] = (
            ends[min(used)][0],
            ends[max(used)][1],
            at,
            at + node.type.nbytes,
            plan.buffer_aliases.get(node, node),
        )
    for a in spans.values():
        for b in spans.values():
            apart = a[1] < b[0] or b[1] < a[0] or a[3] <= b[2] or b[3] <= a[2]
            assert apart or a[4] is b[4]


def test_projections_overlap_and_compute_the_same() -> None:
    args = floats(8, 384), *(floats(384, 384) for _ in range(3))
    fused, serial = pto.fuse(projections), pto.fuse(projections, overlap=False)
    assert overlaps_of(fused.plan(*args)) == [(0, 1, 2)]
    assert overlaps_of(serial.plan(*args)) == []
    for _ in range(4):
        for a, b in zip(fused(*args), serial(*args), strict=True):
            np.testing.assert_array_equal(a, b)


def test_overlapping_launches_are_one() -> None:
    from pypto.compile import session

    args = floats(16, 384), *(floats(384, 384) for _ in range(3))
    fused, serial = pto.fuse(projections), pto.fuse(projections, overlap=False)
    for _ in range(3):
        fused(*args), serial(*args)
    frame = fused.plan(*args).frames[()][0]
    backend = fused.plan(*args).kernels[0].kernel.specializations[0].program.backend
    if frame.native is None or backend.record[1] == 0 or session().threads < 2:
        pytest.skip("no native launches on two threads here")
    generation = ctypes.c_uint32.from_address(backend.record[1])
    before = generation.value
    fused(*args)
    assert generation.value - before == 1
    before = generation.value
    serial(*args)
    assert generation.value - before in (0, 3)  # in one thread, or each in both


def test_branches_overlap_step_by_step() -> None:
    args = floats(16, 64), *(floats(64, 64) for _ in range(4))
    fused = pto.fuse(branches)
    plan = fused.plan(*args)
    check(plan)
    assert len(overlaps_of(plan)) >= 2 and max(plan.waves) == 4
    for _ in range(4):
        np.testing.assert_allclose(fused(*args), branches(*args), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(fused(*args), pto.fuse(branches, overlap=False)(*args))


def test_many_branches_are_several_waves() -> None:
    fused = pto.fuse(lambda *xs: [np.cumsum(x) for x in xs])
    xs = [floats(40) for _ in range(MOST_MEMBERS + 5)]
    assert [len(w) for w in overlaps_of(fused.plan(*xs))] == [MOST_MEMBERS, 5]
    for _ in range(3):
        for got, x in zip(fused(*xs), xs, strict=True):
            np.testing.assert_allclose(got, np.cumsum(x), rtol=1e-4, atol=1e-4)


def test_what_fills_the_threads_is_alone() -> None:
    args = floats(2000, 384), *(floats(384, 384) for _ in range(3))
    assert overlaps_of(pto.fuse(projections).plan(*args)) == []


def test_an_arena_does_not_grow_much_for_overlaps() -> None:
    def rows(x: Any) -> Any:
        total = 0
        for n in range(20):
            total = total + float(n) * np.cumsum(np.sort(x * n))  # one program, and 120 kB
        return total

    x = floats(30_000)
    fused, serial = pto.fuse(rows), pto.fuse(rows, overlap=False)
    plan = fused.plan(x)
    check(plan)
    assert plan.arena_bytes <= 1.125 * serial.plan(x).arena_bytes
    np.testing.assert_array_equal(fused(x), serial(x))


def test_explain_says_what_overlaps_and_why() -> None:
    args = floats(8, 384), *(floats(384, 384) for _ in range(3))
    text = explain(pto.fuse(projections), *args)
    assert "overlaps 1, 2: none reads what another stores, and 1 program" in text
    assert "overlaps" not in explain(pto.fuse(projections, overlap=False), *args)


def test_a_plan_with_overlaps_is_text() -> None:
    plan = pto.fuse(branches).plan(floats(16, 64), *(floats(64, 64) for _ in range(4)))
    text = plan_text(plan)
    again = parse_plan(text)
    assert plan_text(again) == text and again.waves == plan.waves and again.arena_bytes == plan.arena_bytes
    check(again)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("overlap 4", "overlap 17", "too many"),
        ("overlap 4", "overlap 1", "too few"),
        ("overlap 4", "overlap 4\noverlap 2", "some steps overlap"),
        ("overlap 4", "overlap 16", "fewer steps|reads what one of them stores|some steps overlap"),
    ],
)
def test_overlaps_that_cannot_be_are_refused(old: str, new: str, problem: str) -> None:
    plan = pto.fuse(branches).plan(floats(16, 64), *(floats(64, 64) for _ in range(4)))
    text = plan_text(plan)
    assert old in text
    with pytest.raises(IRTextError, match=problem):
        parse_plan(text.replace(old, new, 1))


def test_a_result_is_not_made_in_an_argument_that_an_overlapping_step_reads() -> None:
    fused = pto.fuse(lambda x, y: (np.exp(x) * y, np.cumsum(x)), donate=["x"])
    x, y = floats(500), floats(500)
    assert overlaps_of(fused.plan(x, y)) == [(0, 1)]
    for _ in range(3):
        given = x.copy()
        a, b = fused(given, y)
        np.testing.assert_allclose(a, np.exp(x) * y, rtol=1e-5)
        np.testing.assert_allclose(b, np.cumsum(x), rtol=1e-3, atol=1e-3)
        assert not np.shares_memory(a, given) and not np.shares_memory(b, given)


def test_threads_share_the_pool() -> None:
    args = floats(16, 384), *(floats(384, 384) for _ in range(3))
    fused = pto.fuse(projections)
    wanted = fused(*args)
    same: list[bool] = []

    def work() -> None:
        for _ in range(40):
            same.append(all(np.array_equal(a, b) for a, b in zip(fused(*args), wanted, strict=True)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(same) == 160 and all(same)
