"""Families, bars of whole suites, growth, and the picture of a run."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import growth, plot
from benchmarks.bars import memory_ratio
from benchmarks.growth import Grown, Growth, run_growth
from benchmarks.limits import Limits
from benchmarks.report import Report, families, geometric_mean, to_json
from benchmarks.runner import OURS, Bar, Case, Missing, Result, Row, Suite, Timing
from benchmarks.tables import tables

RATES = ("fma", "bf16", "int8", "copy L2", "copy L3", "copy DRAM")
LIMITS = Limits({name: {1: 1e9, 2: 2e9} for name in RATES})


def result(name: str, family: str, ours: float, numpy: float, **more: Any) -> Result:
    gone = Case(Missing(""), {}, lambda: 0)
    row = Row(name, "8", 1e6, "flop", "fma", 0.0, lambda: gone, family=family, intensity=2.0)
    timings = {OURS: Timing.of([[ours]]), "numpy": Timing.of([[numpy]])}
    return Result(replace(row, **more), 2, timings, dict.fromkeys(timings, 0.0))


SUITE = Suite("some", (), (), 2.0, 0.95)
RESULTS = [result("a", "x", 1.0, 2.0), result("b", "x", 1.0, 8.0), result("c", "", 2.0, 1.0)]
STEEP = Grown(
    Growth("straight", "lines"),
    (10, 100, 1000),
    {"fast": (0.1, 1.0, 10.0), "slow": (0.01, 1.0, 100.0), "total": (0.11, 2.0, 110.0)},
)


def test_families_count_alike() -> None:
    assert families(RESULTS) == pytest.approx({"x": 4.0, "c": 0.5})
    assert geometric_mean(families(RESULTS).values()) == pytest.approx(2.0**0.5)
    assert geometric_mean([]) is None


def test_bars_of_a_whole_suite() -> None:
    assert Report(SUITE, 0.0, LIMITS, RESULTS).below_bar == [
        "c 8, 2 threads: 0.50 of the best peer, the bar is 0.95",
        "geometric mean over the families: 1.41 of the best peer, the bar is 2.00",
    ]


def test_a_row_with_a_bar_against_all_is_named_once() -> None:
    slow = result("c", "", 2.0, 1.0, bars=(Bar("", 0.95),))
    lines = Report(replace(SUITE, mean=0.0), 0.0, LIMITS, [slow]).below_bar
    assert lines == ["c 8, 2 threads: 0.50 of the best peer, the bar is 0.95"]


def test_a_row_that_takes_too_long() -> None:
    slow = result("call", "", 2e-6, 4e-6, most=1e-6, limit="")
    report = Report(Suite("launch", ()), 0.0, LIMITS, [slow])
    assert report.below_bar == ["call 8, 2 threads: 2.00 µs, the bar is 1.00 µs"]
    assert json.loads(to_json(report))["rows"][0]["implementations"][OURS]["of_limit"] is None


def test_a_bar_for_one_thread() -> None:
    bars = (Bar("limit", 0.9, threads=1),)
    slow = [replace(result("m", "", 1.0, 0.5, bars=bars), threads=n) for n in (1, 2)]
    lines = Report(Suite("s", ()), 0.0, LIMITS, slow).below_bar
    assert lines == ["m 8, 1 thread: 0.00 of the limit, the bar is 0.90"]


def test_memory_is_held_against_torch() -> None:
    assert memory_ratio({OURS: 2e6}) is None
    assert memory_ratio({OURS: 2e6, "torch": 4e6}) == 2.0
    hungry = replace(result("d", "", 1.0, 2.0, bars=(Bar("memory", 3.0),)), peaks={OURS: 2e6, "torch": 4e6})
    assert Report(Suite("s", ()), 0.0, LIMITS, [hungry]).below_bar == [
        "d 8, 2 threads: 2.00 of torch's memory over ours, the bar is 3.00"
    ]


def test_exponents() -> None:
    assert STEEP.exponent("fast") == pytest.approx(1.0)
    assert STEEP.exponent("slow") == pytest.approx(2.0)
    assert Report(Suite("s", ()), 0.0, LIMITS, [], (), [STEEP]).below_bar == [
        "compiling straight, slow: lines^2.00, the bar is 1.20",
        "compiling straight, total: lines^1.74, the bar is 1.20",
    ]


def test_a_stage_that_is_too_short_has_no_exponent() -> None:
    short = replace(STEEP, seconds={"short": (1e-6, 1e-5, 1e-4), "total": (1.0, 2.0, 3.0)})
    assert short.exponent("short") is None
    assert replace(STEEP, lines=(10,), seconds={"total": (1.0,)}).exponent("total") is None


@pytest.mark.parametrize("kind", growth.SOURCES)
def test_generated_kernels_compile(kind: str) -> None:
    assert growth.compile_lines(kind, 30)["frontend"] > 0


@pytest.mark.parametrize("kind", growth.SOURCES)
def test_generated_kernels_have_their_lines(kind: str) -> None:
    assert abs(len(growth.SOURCES[kind](1000).splitlines()) - 1000) <= 2


def test_growth_stops_where_a_size_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(_kind: str, n: int) -> dict[str, float] | Missing:
        return {"frontend": n * 1.0, "lower": n * 2.0} if n < 100 else Missing("took longer than 1 s")

    monkeypatch.setattr(growth, "in_new_process", measured)
    grown = run_growth(Growth("straight", ""), (10, 30, 100, 300))
    assert grown.lines == (10, 30)
    assert grown.seconds == {"frontend": (10.0, 30.0), "lower": (20.0, 60.0), "total": (30.0, 90.0)}
    assert Report(SUITE, 0.0, LIMITS, [], (), [grown]).complaints == ["straight: 100 lines: took longer than 1 s"]


def test_a_process_that_fails_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    done = SimpleNamespace(returncode=1, stderr="boom", stdout="")
    monkeypatch.setattr(subprocess, "run", lambda *_a, **_k: done)
    assert growth.in_new_process("straight", 10) == Missing("boom")


def test_tables_show_families_and_stages() -> None:
    from rich.console import Console

    console = Console(width=150, record=True, quiet=True)
    with console.capture():
        for table in tables(Report(SUITE, 0.0, LIMITS, RESULTS, (), [STEEP])):
            console.print(table)
    titles = [str(table.title) for table in tables(Report(SUITE, 0.0, LIMITS, RESULTS, (), [STEEP]))]
    assert titles[2:] == ["compiling straight: lines", "geometric means against the best peer", "bars", "summary"]


@pytest.mark.parametrize("name", ["rows", "scaling"])
def test_a_picture(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "run.png"
    assert plot.draw(Report(Suite(name, ()), 0.0, LIMITS, RESULTS, (), [STEEP]), path) == ""
    assert path.read_bytes().startswith(b"\x89PNG")


def test_no_picture_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plot, "imported", lambda name: Missing(f"{name} is not installed"))
    path = tmp_path / "run.png"
    assert plot.draw(Report(SUITE, 0.0, LIMITS, RESULTS), path) == "matplotlib is not installed; it draws the plot"
    assert not path.exists()


def test_what_a_picture_is_made_of() -> None:
    parts = plot.panels(Report(SUITE, 0.0, LIMITS, RESULTS, (), [STEEP]))
    assert [part[0].__name__ for part in parts] == ["ratio_bars", "roofline", "stages"]
    curves = plot.panels(Report(Suite("scaling", ()), 0.0, LIMITS, RESULTS))
    assert [part[0].__name__ for part in curves] == ["curves"] * 3
    assert plot.panels(Report(SUITE, 0.0, LIMITS, [])) == []
