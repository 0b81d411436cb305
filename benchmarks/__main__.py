"""``python -m benchmarks SUITE --json FILE``: measure a suite against its peers in one run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Final

from benchmarks.core import CORE
from benchmarks.limits import measure
from benchmarks.peers import cores, limited_threads, load
from benchmarks.report import Report, tables, to_json
from benchmarks.runner import Pace, Probed, Result, Suite, run_probe, run_row
from benchmarks.steady import become_steady

BUSY: Final = 0.7
SUITES: Final = MappingProxyType({suite.name: suite for suite in (CORE,)})


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--only", default="", metavar="TEXT", help="only rows whose name and shape contain TEXT")
    parser.add_argument("--rounds", type=int, default=Pace().rounds, help="rounds over all implementations of a row")
    parser.add_argument("--strict", action="store_true", help="fail when a bar is not reached, too")
    return parser.parse_args(argv)


def measure_suite(suite: Suite, only: str, pace: Pace) -> Report:
    """Measure the limits, then every chosen row and probe, with a bar that says how far it is."""
    from rich.progress import Progress

    busy, counts = load(), sorted({1, cores()})
    rows = [row for row in suite.rows if only in f"{row.name} {row.shape}"]
    probes = [probe for probe in suite.probes if only in f"{probe.name} {probe.what}"]
    with Progress(transient=True) as progress:
        task = progress.add_task("the machine's limits", total=1 + len(rows) + len(probes))
        limits = measure(counts)
        results: list[Result] = []
        for row in rows:
            progress.update(task, advance=1, description=f"{row.name} {row.shape}")
            results += [run_row(row, n or cores(), limited_threads, pace) for n in row.threads]
        probed: list[Probed] = []
        for probe in probes:
            progress.update(task, advance=1, description=probe.name)
            probed.append(run_probe(probe))
    return Report(suite.name, busy, limits, results, probed)


def main(argv: list[str]) -> int:
    """Run a suite; 1 if ours is missing or anybody is wrong, with --strict also if a bar is not reached."""
    from rich.console import Console

    options = parse(argv)
    become_steady()
    report = measure_suite(SUITES[options.suite], options.only, Pace(rounds=options.rounds))
    console = Console(width=None if sys.stdout.isatty() else 130)
    if report.load > BUSY:
        console.print(f"[yellow]the machine was busy (load {report.load:.1f}): compare ratios, not times[/]")
    for table in tables(report):
        console.print(table)
    for line in report.complaints:
        console.print(f"[red]✗[/] {line}", highlight=False)
    for line in report.below_bar:
        console.print(f"[yellow]below the bar:[/] {line}", highlight=False)
    if options.json:
        options.json.write_text(to_json(report), "utf-8")
    return int(bool(report.complaints or (options.strict and report.below_bar)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
