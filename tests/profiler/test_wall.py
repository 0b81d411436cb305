"""Where the wall time goes: rows that add up, and what limits them."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.profiler.bounds import ADVICE, WORTH, Bound, Limits, judge, limits
from pypto.profiler.wall import OTHER, WallRow
from tests.profiler.kernels import add

MACHINE = Limits(1e10, 1e11)


def test_kernels_and_python_add_up_to_the_wall_time() -> None:
    x = np.ones(1 << 20, np.float32)
    out = np.empty_like(x)
    add[(16,)](x, x, out, BLOCK=1 << 16)
    for _ in range(5):  # a busy machine may take the core away between the two clocks
        with pto.profile() as prof:
            start = time.perf_counter_ns()
            for _ in range(5):
                add[(16,)](x, x, out, BLOCK=1 << 16)
            time.sleep(0.02)
            inside = time.perf_counter_ns() - start
        kernel, other = prof.operators
        if kernel.total_ns + other.total_ns == pytest.approx(inside - prof.overhead_ns, rel=0.02, abs=2e5):
            break
    assert (kernel.level, kernel.name, kernel.calls, other.name) == ("kernel", "add", 5, OTHER)
    assert kernel.share + other.share == pytest.approx(1)
    assert kernel.total_ns + other.total_ns == pytest.approx(inside - prof.overhead_ns, rel=0.02, abs=2e5)
    assert other.total_ns >= 2e7
    assert kernel.bytes == 5 * 3 * x.nbytes


def test_a_fused_function_is_timed_by_kernel() -> None:
    @pto.fuse
    def layer(x: Any, w: Any) -> Any:
        y = np.maximum(x @ w, 0)
        return y / np.sqrt(np.mean(y * y, axis=1, keepdims=True) + 1)

    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((512, 512)).astype(np.float32) for _ in range(2))
    layer(x, w)
    with pto.profile() as prof:  # the versions that time themselves are compiled
        layer(x, w)
    with pto.profile() as prof:
        for _ in range(3):
            layer(x, w)
    *kernels, other = prof.operators
    assert sum(row.share for row in prof.operators) == pytest.approx(1)
    assert {row.level for row in kernels} == {"kernel"}
    assert all(row.calls == 3 for row in kernels)
    assert kernels[0].flops == pytest.approx(3 * 2 * 512**3, rel=0.1)  # tiles are whole
    assert kernels[0].bound.kind in ("compute", "imbalance")
    assert other.name == OTHER
    assert str(prof).index("operator, kernel") < str(prof).index(kernels[0].name) < str(prof).index(OTHER)


@pytest.mark.parametrize(
    ("name", "total_ns", "calls", "moved", "flops", "more", "bound"),
    [
        ("aten::add", 1e6, 1, 9e6, 0, {}, Bound("memory", 0.9)),
        ("aten::add", 1e6, 1, 1e6, 0, {}, Bound("memory", 0.1)),
        ("aten::mm", 1e6, 1, 1e6, 8e7, {}, Bound("compute", 0.8)),
        ("aten::add", 1e6, 200, 1e6, 0, {}, Bound("launch", 0.1)),
        ("aten::index_select", 1e6, 1, 1e6, 0, {}, Bound("gather", 0.1)),
        ("aten::index_select", 1e6, 1, 8e6, 0, {}, Bound("memory", 0.8)),
        ("kernel", 1e6, 1, 1e6, 0, {"gathers": True}, Bound("gather", 0.1)),
        ("kernel", 1e6, 1, 1e6, 0, {"imbalance": 1.9}, Bound("imbalance", 0.1)),
        ("kernel", 1e6, 1, 0, 0, {}, Bound("", 0.0)),
    ],
)
def test_bounds(
    name: str, total_ns: float, calls: int, moved: float, flops: float, more: dict[str, float], bound: Bound
) -> None:
    assert judge(name, total_ns, calls, moved, flops, MACHINE, **more) == bound  # type: ignore[arg-type]
    assert bool(bound.advice) == bool(bound.kind)


def test_every_advice_can_be_given() -> None:
    kinds = {kind for kind, _ in ADVICE}
    assert kinds == {"memory", "compute", "launch", "imbalance", "gather"}


def test_an_operator_is_worth_a_kernel_from_thirty_percent() -> None:
    rows = [WallRow("operator", "aten::x", share, 1.0, 1, bound=Bound("memory", 0.2)) for share in (0.29, 0.3)]
    assert WORTH == 0.3
    assert ["worth a kernel of its own" in row.advice for row in rows] == [False, True]
    assert "saves up to 24% of the time" in rows[1].advice
    near = WallRow("operator", "aten::x", 0.5, 1.0, 1, bound=Bound("compute", 0.8))
    assert "worth" not in near.advice
    assert "a faster kernel saves at most 10% of the time" in near.advice


def test_an_uneven_kernel_and_a_gather_are_named() -> None:
    @pto.jit
    def uneven(x: Any, y: Any, BLOCK: pto.constexpr) -> None:
        i = pto.program_id(0)
        total = pto.zeros((BLOCK,), pto.float32)
        for _ in range(1 + 3000 * (i == 0)):
            total = total + pto.exp(x[:BLOCK] * 1e-9 + total * 1e-9)
        y[i * BLOCK : i * BLOCK + BLOCK] = total

    @pto.jit
    def gathering(x: Any, indices: Any, y: Any, BLOCK: pto.constexpr) -> None:
        i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
        pto.store(y + i, pto.load(x + pto.load(indices + i)))

    x, y = np.ones(1 << 16, np.float32), np.empty(1 << 16, np.float32)
    indices = np.random.default_rng(0).integers(0, 1 << 16, 1 << 16, np.int32)
    seen = set()
    for _ in range(20):  # threads that wait for a core of a busy machine look even
        with pto.profile() as prof:
            uneven[(64,)](x, y, BLOCK=1024)
            gathering[(64,)](x, indices, y, BLOCK=1024)
        rows = {row.name: row.bound for row in prof.operators}
        seen.add(rows["uneven"].kind)
        if "imbalance" in seen:
            break
    threads = max(launch.threads for launch in prof.launches)
    is_busy = os.getloadavg()[0] > (os.cpu_count() or 1)
    assert ("imbalance" in seen) == (threads > 1) or is_busy  # one thread may have run after the other each time
    assert rows["gathering"].kind in ("gather", "launch", "memory")
    from pypto.profiler.wall import has_gather

    assert [has_gather(version) for version in prof.versions.values()] == [False, True]


def test_limits_are_those_of_a_computer() -> None:
    assert limits() is limits()
    assert 1e8 < limits().bandwidth < 1e13
    assert 1e8 < limits().flops < 1e15
