"""The benchmark runner on numpy alone: what it measures, and what it refuses to call a result."""

from __future__ import annotations

import functools
import io
import itertools
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from benchmarks import steady
from benchmarks.__main__ import chosen_rows, is_there, main, parse
from benchmarks.bars import fraction
from benchmarks.encoder import BATCH, LENGTHS, LONG, long_batch, real_batch
from benchmarks.levels import environment
from benchmarks.limits import Limits
from benchmarks.ours import ours
from benchmarks.probes import PROBES
from benchmarks.report import Report, to_json
from benchmarks.runner import (
    OURS,
    Bar,
    Case,
    Missing,
    Pace,
    Probe,
    Probed,
    Result,
    Row,
    Suite,
    Timing,
    as_arrays,
    interleave,
    is_one_of,
    largest_difference,
    run_probe,
    run_row,
)
from benchmarks.suites import CORE, SUITES
from benchmarks.tables import tables
from benchmarks.tutorials import allow_helpers

QUICK = Pace(rounds=2, seconds=0.001, gap=0.0)
LIMITS = Limits({"fma": {1: 4e9, 2: 8e9}})
SOME = Suite("some", ())


@contextmanager
def as_it_is(_count: int) -> Iterator[None]:
    yield


def doubling(ours: Any, **peers: Any) -> Row:
    x = np.arange(8, dtype=np.float32)
    out = np.empty_like(x)

    def build() -> Case:
        named = {name: peer if isinstance(peer, Missing) else lambda f=peer: f(x, out) for name, peer in peers.items()}
        mine = ours if isinstance(ours, Missing) else lambda: ours(x, out)
        return Case(mine, named, lambda: x.astype(np.float64) * 2, [out])

    return Row("double", "8", 8e9, "flop", "fma", 1e-6, build, (Bar("numpy", 0.5), Bar("limit", 0.25)))


def right(x: Any, out: Any) -> Any:
    return np.multiply(x, 2, out=out)


def wrong(x: Any, out: Any) -> Any:
    return np.multiply(x, 3, out=out)


def idle(x: Any, out: Any) -> Any:
    return out


def broken(x: Any, out: Any) -> Any:
    raise ValueError("no such kernel")


def result(**seconds: float) -> Result:
    timings = {name: Timing.of([[s]]) for name, s in seconds.items()}
    return Result(doubling(right), 2, timings, dict.fromkeys(timings, 0.0))


def test_a_right_row_is_timed() -> None:
    got = run_row(doubling(right, numpy=right), 1, as_it_is, QUICK)
    assert got.sound
    assert got.timings.keys() == {OURS, "numpy"}
    assert got.errors == {OURS: 0.0, "numpy": 0.0}


@pytest.mark.parametrize(
    ("bad", "words"), [(wrong, "differs from float64 by 7"), (idle, "by nan"), (broken, "ValueError: no such kernel")]
)
def test_what_is_wrong_is_not_timed(bad: Any, words: str) -> None:
    got = run_row(doubling(bad, numpy=right), 1, as_it_is, QUICK)
    assert words in got.failed[OURS]
    assert got.timings.keys() == {"numpy"}
    assert not got.sound


def test_a_wrong_peer_makes_the_row_unsound() -> None:
    assert not run_row(doubling(right, numpy=wrong), 1, as_it_is, QUICK).sound


def test_missing_ours_is_reported_and_peers_are_timed() -> None:
    got = run_row(doubling(Missing("no tutorial"), numpy=right), 1, as_it_is, QUICK)
    report = Report(SOME, 0.0, LIMITS, [got], [])
    assert got.timings.keys() == {"numpy"}
    assert report.complaints == ["double 8, 1 thread: ours: missing: no tutorial"]


def test_a_missing_peer_is_no_complaint() -> None:
    got = run_row(doubling(right, torch=Missing("not installed")), 1, as_it_is, QUICK)
    assert got.missing == {"torch": "not installed"}
    assert Report(SOME, 0.0, LIMITS, [got], []).complaints == []


def test_a_row_with_nobody_asks_for_no_reference() -> None:
    def build() -> Case:
        return Case(Missing("gone"), {}, lambda: pytest.fail("asked"))

    got = run_row(replace(doubling(right), build=build), 1, as_it_is, QUICK)
    assert got.timings == {}


def test_the_thread_count_reaches_the_limiter() -> None:
    asked: list[int] = []

    @contextmanager
    def note(count: int) -> Iterator[None]:
        asked.append(count)
        yield

    assert run_row(doubling(right), 3, note, QUICK).threads == 3
    assert asked == [3]


def test_ratios_are_against_the_fastest_of_a_kind() -> None:
    got = result(ours=1.0, numpy=4.0, torch=3.0, **{"torch out=": 2.0})
    assert got.best_peer == "torch out="
    assert got.ratio() == 2.0
    assert got.ratio("torch") == 2.0
    assert got.ratio("numpy") == 4.0
    assert got.ratio("jax") is None
    assert result(numpy=1.0).ratio() is None


def test_fraction_of_the_limit_is_at_the_same_threads() -> None:
    assert fraction(result(ours=2.0), OURS, LIMITS) == 0.5


def test_the_machine_is_measured_in_turns_with_a_row() -> None:
    calls: list[str] = []
    loops = {"copy": lambda: calls.append("copy"), "copy_nt": lambda: calls.append("copy_nt")}
    got = run_row(doubling(right), 1, as_it_is, QUICK, loops=lambda row, threads: loops)
    assert set(got.timings) == {OURS}
    assert len(calls) > 2 and set(got.loops) == {"copy", "copy_nt"}
    assert fraction(got, OURS, LIMITS) == min(map(got.timings[OURS].faster_than, got.loops.values()))


def test_rows_that_memory_bounds_take_shorter_rounds_and_more_of_them() -> None:
    bounded = replace(doubling(right, numpy=right), limit="copy DRAM")
    results = [run_row(row, 1, as_it_is, QUICK) for row in (bounded, doubling(right))]
    rounds = {got.row.limit: len(got.timings[OURS].rounds) for got in results}
    assert rounds == {"copy DRAM": 9 * QUICK.rounds, "fma": QUICK.rounds}


def test_bars_that_are_not_reached() -> None:
    slow = Report(SOME, 0.0, LIMITS, [result(ours=10.0, numpy=2.0)], [])
    assert slow.below_bar == [
        "double 8, 2 threads: 0.20 of numpy, the bar is 0.50",
        "double 8, 2 threads: 0.10 of the limit, the bar is 0.25",
    ]
    assert Report(SOME, 0.0, LIMITS, [result(ours=1.0, numpy=2.0)], []).below_bar == []


def test_probes() -> None:
    def fail() -> Any:
        raise RuntimeError("no cache")

    ok, gone, bad = (
        run_probe(Probe("launch", "x", 2.0, measure)) for measure in (lambda: [3.0, 5.0], lambda: Missing("gone"), fail)
    )
    assert ok.timing == Timing(3.0, 4.0, (3.0,))
    report = Report(SOME, 0.0, LIMITS, [], [ok, gone, bad])
    assert report.complaints == ["launch: gone", "launch: RuntimeError: no cache"]
    assert report.below_bar == ["launch: x: 3.00 s, the bar is 2.00 s"]


def test_a_ratio_is_that_of_the_rounds() -> None:
    """A burst of fast memory that meets one implementation alone decides nothing."""
    ours, theirs = Timing.of([[2.0, 3.0], [2.0], [4.0]]), Timing.of([[4.0], [0.5], [8.0, 9.0]])
    got = Result(doubling(right), 1, {OURS: ours, "numpy": theirs, "numba": Timing.of([[6.0], [6.0]])}, {})
    assert got.ratio() == got.times_as_fast("numpy") == 2.0
    assert got.times_as_fast("numba") == 3.0  # it took too long for a third round
    assert got.best_peer == "numpy"


def test_interleaving_takes_turns() -> None:
    """Each round has another order; two runs have the same ones."""

    def turns() -> list[str]:
        order: list[str] = []
        impls = {name: functools.partial(order.append, name) for name in "abc"}
        interleave(impls, Pace(rounds=30, seconds=0.0, gap=0.0))
        return ["".join(order[i : i + 3]) for i in range(6, len(order), 3)]  # behind the calls that are counted

    assert turns() == turns()
    assert len(turns()) == 30
    assert set(turns()) == set(map("".join, itertools.permutations("abc")))


def test_what_takes_long_is_measured_less() -> None:
    done: list[str] = []
    interleave({"a": lambda: done.append("a")}, Pace(rounds=9, seconds=0.0, gap=0.0, most=0.0))
    assert len(done) == 2 + 4  # twice to count the calls, then until a third of the rounds is over


def test_shapes_have_to_agree() -> None:
    assert largest_difference(np.zeros((2, 2)), np.zeros(4)) == float("inf")


def test_json_is_sorted_and_complete() -> None:
    report = Report(SOME, 0.0, LIMITS, [result(ours=1.0, numpy=2.0)], [Probed(Probe("p", "", 1.0, list), None, "no")])
    text = to_json(report)
    data = json.loads(text)
    assert text == json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    row = data["rows"][0]
    assert row["ratio_to_best_peer"] == 2.0
    assert row["implementations"][OURS]["of_limit"] == 1.0
    assert row["bars"][0] == {"against": "numpy", "least": 0.5, "value": 2.0, "reached": True}
    assert data["limits"]["fma"] == {"1": 4e9, "2": 8e9}


def test_tables_name_everyone() -> None:
    from rich.console import Console

    missing = Result(doubling(right), 2, {}, {}, {OURS: "gone"})
    report = Report(SOME, 0.0, LIMITS, [result(ours=1e-3, numpy=2e-3), missing], [])
    console = Console(width=130, file=io.StringIO(), record=True)
    for table in tables(report):
        console.print(table)
    text = console.export_text()
    assert all(word in text for word in ("double 8", "ours", "numpy", "2.00x", "missing", "fma"))


@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_rows_of_a_suite_are_distinct(suite: Suite) -> None:
    titles = [(row.name, row.shape) for row in suite.rows]
    assert len(set(titles)) == len(titles)
    assert all(row.work > 0 and row.threads for row in suite.rows)


PROMISED = {
    "vector add 1M", "vector add 16M", "gelu 1M", "gelu 16M", "chain of 15 4M",
    "softmax 4096²", "softmax 64 x 128", "layer norm 4096²", "rms norm 4096²", "residual + rms norm 4096²",
    "cross entropy 4096²", "cross entropy 1024 x 32000", "int8 row quantise 4096²", "row sort 4096 x 2048",
    "topk 4096 x 2048 x 8", "matmul fp32 512³", "matmul fp32 1024³", "matmul fp32 2048³", "matmul fp32 4096³",
    "matmul fp32 1000 x 1001 x 999", "matmul bf16 1024³", "matmul int8 1024³", "matmul fp32 1 x 4096 x 4096",
    "matmul fp32 4 x 4096 x 4096", "matmul fp32 16 x 4096 x 4096", "convolution 3 x 3 8 x 64 x 56², 64",
    "attention 16 x 1024 x 64", "causal attention 16 x 2048 x 64", "attention bf16 16 x 1024 x 64",
    "launch as written, 16 floats", "launch grid kept, 16 floats", "launch torch tensors, 16 floats",
    "sentence encoder 32 sentences", "sentence encoder 32 x 128 tokens",
}  # fmt: skip


def test_the_core_holds_every_promise() -> None:
    assert {row.title for row in CORE.rows} >= PROMISED
    assert all(row.bars for row in CORE.rows)
    assert (CORE.mean, CORE.floor) == (2.0, 0.95)


@pytest.mark.parametrize(
    ("name", "kind", "verdict"),
    [
        ("numpy", "", True), ("torch out=", "torch", True), ("torch.compile", "torch", False),
        ("torch.compile", "compiled", True), ("numba", "compiled", True), ("numpy", "blas", True),
        ("torch fused", "blas", True), ("torch.compile", "blas", False), ("jax", "numpy", False),
    ],
)  # fmt: skip
def test_kinds_of_peers(name: str, kind: str, verdict: bool) -> None:
    assert is_one_of(name, kind) is verdict


def test_results_of_several_arrays() -> None:
    one, two = np.zeros(3, np.float32), np.ones(2, np.int8)
    assert largest_difference(as_arrays([one, two]), (np.zeros(3), np.array([1.0, 3.0]))) == 2.0
    assert np.isnan(largest_difference((one, np.array([1.0, np.nan])), (one, two)))
    assert as_arrays(np.ones(2, ml_dtypes.bfloat16)).dtype == np.float64


def test_integer_outputs_are_cleared_before_the_check() -> None:
    out = np.full(4, 7, np.int32)
    row = Row("seven", "4", 1.0, "B", "", 0.0, lambda: Case(lambda: out, {}, lambda: np.full(4, 7.0), [out]))
    assert OURS in run_row(row, 1, as_it_is, QUICK).failed


def test_the_encoder_rows_hold_what_they_say() -> None:
    allow_helpers()
    from minilm import MissingModel

    try:
        real, long = real_batch(), long_batch()
    except MissingModel as problem:
        pytest.skip(str(problem))
    assert real.mask.sum(axis=1).tolist() == list(LENGTHS)
    assert long.mask.shape == (BATCH, LONG)
    assert long.mask.all()


@pytest.mark.slow
@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_a_probe_measures(probe: Probe) -> None:
    got = run_probe(probe)
    assert got.reason == ""
    assert got.timing is not None
    assert 0 < got.timing.minimum <= got.timing.median


def test_an_unknown_tutorial_is_missing() -> None:
    found = ours("99_nothing", "f")
    assert isinstance(found, Missing)
    assert "there is no 99_nothing.py" in found.reason


def test_steady_memory_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, str]] = []
    monkeypatch.setattr(os, "execve", lambda *command: started.append(command[2]))
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.delenv(steady.VARIABLE, raising=False)
    steady.become_steady()
    assert started[0].items() >= steady.STEADY.items()
    monkeypatch.setenv(steady.VARIABLE, steady.TUNABLES)
    steady.become_steady()
    assert len(started) == 1
    assert steady.STEADY.keys().isdisjoint(steady.plain_environment())


def test_command_line() -> None:
    options = parse(["core", "--json", "x.json", "--only", "matmul", "--threads", "1"])
    assert (options.suite, options.json.name, options.only, options.strict) == ("core", "x.json", "matmul", False)
    rows = chosen_rows(CORE, options.only, options.threads)
    assert rows and all("matmul" in row.name and row.threads == (1,) for row in rows)
    assert chosen_rows(CORE, "", None) == [row for row in CORE.rows if is_there(row.needs)]
    with pytest.raises(SystemExit):
        parse(["nothing"])


@pytest.mark.slow
def test_a_run_writes_json(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {steady.VARIABLE: steady.TUNABLES, **environment("")}
    for name, value in settings.items():  # without them the command would start this process over
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "execve", lambda *command: pytest.fail("the process starts over"))
    file = tmp_path / "core.json"
    main(["core", "--only", "vector add 1M", "--rounds", "1", "--peers", "", "--no-memory", "--json", str(file)])
    (row,) = json.loads(file.read_text("utf-8"))["rows"]
    assert row["name"] == "vector add"
    assert row["implementations"]["numpy"]["minimum_s"] > 0
