"""Bars and their verdicts."""

from __future__ import annotations

import math
from typing import Any

import pytest

from benchmarks import bars
from benchmarks.bars import POWER, SECONDS, Verdict
from benchmarks.launch import through_pool
from benchmarks.limits import Limits, call_rate
from benchmarks.report import Report
from benchmarks.runner import OURS, Bar, Case, Missing, Probe, Probed, Result, Row, Suite, Timing
from benchmarks.tables import tables

LIMITS = Limits({"fma": {2: 4.0}})


def result(ours: float | None, numpy: float, *held: Bar, **more: Any) -> Result:
    gone = Case(Missing(""), {}, lambda: 0)
    row = Row("a", "8", 4.0, "flop", "fma", 0.0, lambda: gone, held, **more)
    timings = {"numpy": Timing.of([[numpy]])} | ({OURS: Timing.of([[ours]])} if ours else {})
    return Result(row, 2, timings, dict.fromkeys(timings, 0.0))


@pytest.mark.parametrize(
    ("value", "bar", "kind", "reached"),
    [
        (2.0, 1.0, bars.LEAST, True), (0.5, 1.0, bars.LEAST, False), (None, 1.0, bars.LEAST, None),
        (2.0, 1.0, SECONDS, False), (1.0, 1.0, SECONDS, True), (1.3, 1.2, POWER, False),
    ],
)  # fmt: skip
def test_reached(value: float | None, bar: float, kind: str, reached: bool | None) -> None:
    assert Verdict("a", "numpy", value, bar, kind).reached is reached


def test_lines() -> None:
    assert Verdict("a", "numpy", 1.0, 2.0).line == "a: 1.00 of numpy, the bar is 2.00"
    assert Verdict("a", "", 2e-3, 1e-3, SECONDS).line == "a: 2.00 ms, the bar is 1.00 ms"
    assert Verdict("a, parse", "lines", 1.5, 1.2, POWER).line == "a, parse: lines^1.50, the bar is 1.20"


def test_a_row_has_all_its_bars() -> None:
    found = list(bars.of_row(result(1.0, 2.0, Bar("numpy", 3.0), Bar("limit", 0.5), most=0.5), LIMITS, 0.95))
    assert [(v.against, v.value, v.bar, v.reached) for v in found] == [
        ("numpy", 2.0, 3.0, False), ("the limit", 1.0, 0.5, True), ("the best peer", 2.0, 0.95, True),
        ("", 1.0, 0.5, False),
    ]  # fmt: skip


def test_a_bar_without_a_figure_is_not_measured() -> None:
    found = list(bars.of_row(result(None, 2.0, Bar("torch", 3.0), Bar("memory", 2.0), most=0.5), LIMITS, 0.0))
    assert [v.reached for v in found] == [None, None, None]


def test_only_probes_with_a_bar_are_held() -> None:
    probes = [Probed(Probe("p", "x", most, list), Timing.of([[1.0]])) for most in (0.5, math.inf)]
    assert [v.line for v in bars.of_probes(probes)] == ["p: x: 1.00 s, the bar is 500.00 ms"]


def test_the_summary() -> None:
    from rich.console import Console

    suite = Suite("core", (), (), 2.0, 0.95)
    report = Report(suite, 0.0, LIMITS, [result(1.0, 4.0), result(2.0, 1.0)])
    assert report.lowest is not None
    assert report.lowest.ratio() == 0.5
    console = Console(width=150)
    with console.capture() as captured:
        console.print(tables(report)[-1])
    text = captured.get()
    assert "1.41x, the bar is 2.00" in text
    assert "0.50x of numpy, the bar is 0.95" in text
    assert "1 of 3, 0 not measured" in text


def test_calls_have_a_rate() -> None:
    assert 1e5 < call_rate() < 1e10


def test_the_launch_through_the_pool_is_measured() -> None:
    found = through_pool(rounds=2)
    assert len(found) == 2
    assert all(map(math.isfinite, found))
