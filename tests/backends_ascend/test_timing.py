"""The timing model: against published figures, and as a user asks it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.blockir.ir import Buffer, Instr, Param, Record, View, Word
from pypto.backends.ascend.target import ascend_target
from pypto.backends.ascend.timing.core import CoreTime
from pypto.backends.ascend.timing.costs import cost_of
from pypto.backends.ascend.timing.prediction import predict
from pypto.backends.ascend.timing.rates import RATES_OF
from pypto.errors import OptionError
from pypto.ir.types import DType, float16, float32
from tests.backends_ascend.ladder import LADDER, Rung, predicted, tile_add


@pytest.mark.parametrize("rung", LADDER, ids=lambda rung: rung.label)
def test_the_published_ladder(rung: Rung) -> None:
    """Within 11 %; docs/timing.md has each error."""
    assert abs(1e6 * predicted(rung).seconds / rung.published - 1) <= 0.11


@pytest.mark.parametrize("chip", ["ascend910b1", "ascend950"])
def test_each_rung_is_faster_than_the_one_before(chip: str) -> None:
    times = [predicted(rung).seconds for rung in LADDER if rung.chip == chip]
    assert all(a >= 0.999 * b for a, b in pairwise(times))


@pto.jit
def matmul(a, b, c, M: pto.constexpr, N: pto.constexpr, K: pto.constexpr):
    i, j = pto.program_id(0) * M, pto.program_id(1) * N
    acc = pto.zeros((M, N), pto.float32)
    for k in range(0, a.shape[1], K):
        acc += pto.dot(a[i : i + M, k : k + K], b[k : k + K, j : j + N])
    c[i : i + M, j : j + N] = acc.to(pto.float16)


@pto.jit
def add(x, y, out, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    mask = i < n
    pto.store(out + i, pto.load(x + i, mask=mask) + pto.load(y + i, mask=mask), mask=mask)


def simulated(size: int, block: int = 4096, **more: Any) -> Any:
    x, y, out = np.zeros((3, size), np.float32)
    return pto.simulate(add, **more)[-(-size // block)](x, y, out, size, BLOCK=block)


def test_what_a_prediction_tells() -> None:
    found = simulated(1 << 22)
    first = add.kernel_source.node.lineno
    assert found.limit == "memory"
    assert found.bytes == pytest.approx({"GM read": 8.0 * (1 << 22), "GM written": 4.0 * (1 << 22)}, rel=0.05)
    assert set(found.lines) <= {first + n for n in range(5)}
    assert found.assumed == ()
    assert found.levels == pytest.approx(
        {"HBM": 8.0 * (1 << 22), "L2": 4.0 * (1 << 22), "GM to UB": 8.0 * (1 << 22), "UB to GM": 4.0 * (1 << 22)},
        rel=0.05,
    )
    assert "limited by memory" in str(found)
    assert simulated(1 << 23).seconds > 1.5 * found.seconds
    assert simulated(1 << 22, target="ascend910b4").seconds > 1.5 * found.seconds
    with pytest.raises(OptionError, match="unknown target"):
        simulated(16, target="ascend1")


def test_a_kernel_that_is_compiled_for_a_chip_is_simulated() -> None:
    x, y, out = np.zeros((3, 1 << 20), np.float32)
    expected = pto.simulate(add, "ascend910b3")[256](x, y, out, x.size, BLOCK=4096)
    late = add.compile(target="ascend910b3")
    assert late.simulate(x, y, out, x.size, BLOCK=4096, grid=256) == expected
    early = add.compile(x, y, out, x.size, BLOCK=4096, target="ascend910b3")
    assert early.simulate(x, y, out, x.size, BLOCK=4096, grid=(256,)) == expected
    assert "SetGlobalBuffer" in early.program.artifact.code.decode(errors="replace")
    with pytest.raises(OptionError, match=r"compiled for no Ascend chip: name one"):
        add.compile(x, y, out, x.size, BLOCK=4096).simulate(x, y, out, x.size, BLOCK=4096, grid=(256,))


def test_a_timeline_names_the_users_lines(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    found = simulated(1 << 20)
    assert found.timeline(path) == found.timeline() == path.read_text(encoding="utf-8")
    rows = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    slices = [row for row in rows if row["ph"] == "X"]
    assert any(row["name"].startswith("pto.store(out + i") for row in slices)
    units = {row["tid"]: row["args"]["name"] for row in rows if row["name"] == "thread_name"}
    assert {units[row["tid"]] for row in slices} >= {"V", "MTE2", "MTE3"}
    ends: dict[int, float] = {}
    for row in sorted(slices, key=lambda row: row["ts"]):
        if units[row["tid"]] in ("MTE2", "MTE3"):
            assert row["ts"] >= ends.get(row["tid"], 0) - 0.2
        ends[row["tid"]] = row["ts"]


@pytest.mark.parametrize("stages", [1, 2])
def test_repeated_rounds_are_taken_for_what_they_add(stages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, target = tile_add(8192, stages), ascend_target("ascend910b2")
    short = predict(kernel, target, {}, (48, 1, 1), 48)
    monkeypatch.setattr(CoreTime, "skip", lambda self, history, left: 0)
    whole = predict(kernel, target, {}, (48, 1, 1), 48)
    assert abs(short.cycles / whole.cycles - 1) < 1e-3
    assert short.levels == whole.levels
    assert short.lines == pytest.approx(whole.lines, rel=1e-3)


def test_sums_leave_l0c_at_the_slowest_rate_that_published_attention_allows() -> None:
    """256 keys more of 128 queries on one core: scores, and at least half of a product, taken away without a pause."""
    cycles = (74.54e-6 - 43.80e-6) * 1850e6 / ((8192 - 4096) / 256)
    least = (128 * 256 * 4 + 128 * 128 * 4 / 2) / cycles
    assert 0.99 * least < RATES_OF[2201].from_l0c <= least


@pytest.mark.parametrize("dtype", [float16, float32])
def test_sums_are_taken_at_one_rate_whatever_they_become(dtype: DType) -> None:
    sums, out = Buffer("sums", "L0C", float32, 128 * 128, layout="NZ"), Param("out", dtype, True)
    taken = Instr("Fixpipe", (View(out), View(sums), Record((128, 128, 128, 128, Word("NoQuant"), False, 1, 0, 0, 0))))
    cost = cost_of(taken, ((0, 0), (0, 0), (128, 128, 128, 128, None, 0, 1, 0, 0, 0)), RATES_OF[2201])
    assert cost.busy == pytest.approx(128 * 128 * 4 / RATES_OF[2201].from_l0c)
    assert cost.bytes == 128 * 128 * dtype.itemsize


def test_l2_reads_and_writes_side_by_side() -> None:
    """What published attention over 32768 keys must move is more than what is written to L2 alone could be."""
    target, n, seconds = ascend_target("ascend910b2"), 32768, 3262.6e-6
    scores, weights, products, operands = 4 * n * n, 2 * n * n, n * n // 2, n // 128 * n * 128 * 2 * 2
    each_way = scores + weights + products
    assert 2 * each_way + operands > target.l2_written_per_second * seconds
    assert each_way + operands < target.l2_bytes_per_second * seconds
    assert each_way < target.l2_written_per_second * seconds
