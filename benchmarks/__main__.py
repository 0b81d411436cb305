"""``python -m benchmarks SUITE``: a suite and its peers in one run; also ``blocking``, ``compare`` and ``charts``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import blocking, charts, compare
from benchmarks.growth import run_growth
from benchmarks.levels import PEERS as LEVELS
from benchmarks.levels import environment, note
from benchmarks.limits import compile_loops, measure
from benchmarks.loops import beside
from benchmarks.peak import peaks
from benchmarks.peers import VARIABLE, cores, imported, limited_threads, load
from benchmarks.plot import draw
from benchmarks.report import Report, to_json
from benchmarks.runner import Missing, Pace, Probed, Result, Row, Suite, run_probe, run_row
from benchmarks.steady import become_steady
from benchmarks.suites import SUITES
from benchmarks.tables import tables

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

BUSY: Final = 0.7
PEERS: Final = "torch,torch.compile,numba,jax,onnxruntime"


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = "|".join((*sorted(SUITES), "blocking", "charts", "compare"))
    commands = parser.add_subparsers(dest="suite", required=True, metavar=names)
    for name in sorted(SUITES):
        suite = commands.add_parser(name, help=f"measure the suite {name}")
        suite.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
        suite.add_argument("--plot", type=Path, metavar="FILE", help="draw them as a PNG; needs matplotlib")
        suite.add_argument("--only", default="", metavar="TEXT", help="only rows whose name and shape contain TEXT")
        suite.add_argument("--peers", metavar="NAMES", help=f"only these of {PEERS}, beside numpy")
        suite.add_argument("--rounds", type=int, default=Pace().rounds, help="rounds over all implementations of a row")
        suite.add_argument("--threads", type=int, metavar="N", help="all rows on N threads")
        suite.add_argument("--level", default="", choices=sorted(LEVELS), help="hold ours and the peers to a CPU level")
        memory = "measure the peak memory of ours and torch, too; core does"
        suite.add_argument("--memory", action=argparse.BooleanOptionalAction, help=memory)
        suite.add_argument("--strict", action="store_true", help="fail when a bar is not reached, too")
    blocking.add_options(commands.add_parser("blocking", help="search for a faster blocking of matrix products"))
    drawn = commands.add_parser("charts", help="draw the charts of the site from a run's JSON")
    drawn.add_argument("run", type=Path)
    drawn.add_argument("folder", type=Path)
    two = commands.add_parser("compare", help="compare two runs by ratio; 1 if something got worse")
    two.add_argument("old", type=Path)
    two.add_argument("new", type=Path)
    lost = "the part of its speed that a figure may lose"
    two.add_argument("--threshold", type=float, default=compare.THRESHOLD, help=lost)
    return parser.parse_args(argv)


def chosen_rows(suite: Suite, only: str, threads: int | None) -> list[Row]:
    """The rows with a text in their title, for which everything is there, on some number of threads if one is given."""
    rows = [row for row in suite.rows if only in row.title and is_there(row.needs)]
    return [replace(row, threads=(threads,)) for row in rows] if threads else rows


def measure_suite(suite: Suite, rows: Sequence[Row], only: str, pace: Pace, memory: bool) -> Report:
    """Measure the limits, then all that is chosen, with a bar that says how far it is."""
    from rich.progress import Progress

    busy = load()
    counts = sorted({1, cores(), *(n for row in rows for n in row.threads if n)})
    probes = [p for p in suite.probes if only in f"{p.name} {p.what}" and is_there(p.needs) and p.cores <= counts[-1]]
    growths = [g for g in suite.growths if only in f"{g.name} {g.what}"]
    with Progress(transient=True) as progress:
        task = progress.add_task("the machine's limits", total=1 + len(rows) + len(probes) + len(growths))
        machine = compile_loops()
        limits, loops = measure(machine, counts), partial(beside, machine)
        run = partial(run_row, limit_threads=limited_threads, pace=pace, loops=loops)
        results = [result for row in rows for result in run_threads(suite, row, run, memory, progress, task)]
        probed: list[Probed] = []
        for probe in probes:
            progress.update(task, advance=1, description=probe.name)
            probed.append(run_probe(probe))
        grown = []
        for growth in growths:
            progress.update(task, advance=1, description=f"compiling {growth.name}")
            grown.append(run_growth(growth))
    return Report(suite, busy, limits, results, probed, grown)


def is_there(library: str) -> bool:
    """Whether a library that something is about can be imported."""
    return not library or not isinstance(imported(library), Missing)


def run_threads(
    suite: Suite, row: Row, run: Callable[..., Result], memory: bool, progress: Progress, task: TaskID
) -> list[Result]:  # fmt: skip
    """A row with each of its numbers of threads."""
    progress.update(task, advance=1, description=row.title)
    results = []
    for n in dict.fromkeys(n or cores() for n in row.threads):
        found = peaks(suite.name, row, n) if memory else {}
        results.append(run(row, n, peaks=found))
        if not progress.console.is_terminal:  # where the bar cannot be seen, a long run says how far it is
            progress.console.print(one_line(results[-1]), highlight=False)
    return results


def one_line(result: Result) -> str:
    """How a row went, in short."""
    ratio = result.ratio()
    return f"{result.title}: " + (f"{ratio:.2f}x {result.best_peer}" if ratio else "nothing to compare")


def show(report: Report, console: Console) -> None:
    """The tables, then what is wrong, then what is below its bar."""
    if report.load > BUSY:
        console.print(f"[yellow]the machine was busy (load {report.load:.1f}): compare ratios, not times[/]")
    if line := note():
        console.print(f"[yellow]{line}[/]", highlight=False)
    for table in tables(report):
        console.print(table)
    for line in report.complaints:
        console.print(f"[red]✗[/] {line}", highlight=False)
    for line in report.below_bar:
        console.print(f"[yellow]below the bar:[/] {line}", highlight=False)


def compare_files(options: argparse.Namespace, console: Console) -> int:
    """1 if something got worse than the threshold, and 2 if a file cannot be read."""
    try:
        found = compare.changes(compare.load(options.old), compare.load(options.new))
    except (OSError, ValueError) as problem:
        console.print(f"[red]✗[/] {problem}", highlight=False)
        return 2
    bad = compare.worse(found, options.threshold)
    if bad:
        console.print(compare.table(bad))
    console.print(f"{len(bad)} of {len(found)} figures lost more than {options.threshold:.0%}", highlight=False)
    return int(bool(bad))


def main(argv: list[str]) -> int:
    """Run a suite; 1 if ours is missing or anybody is wrong, with --strict also if a bar is not reached."""
    from rich.console import Console

    options = parse(argv)
    console = Console(width=None if sys.stdout.isatty() else 150)
    if options.suite == "charts":
        console.print(*charts.write(options.run, options.folder), highlight=False)
        return 0
    if options.suite == "compare":
        return compare_files(options, console)
    if options.suite == "blocking":
        become_steady(environment(options.level))
        return blocking.run(options, console)
    if options.peers is not None:
        os.environ[VARIABLE] = f"numpy,matplotlib,{options.peers}"
    become_steady(environment(options.level))
    suite, pace = SUITES[options.suite], Pace(rounds=options.rounds)
    rows = chosen_rows(suite, options.only, options.threads)
    memory = suite.memory if options.memory is None else options.memory
    report = measure_suite(suite, rows, options.only, pace, memory)
    show(report, console)
    if options.json:
        options.json.write_text(to_json(report), "utf-8")
    if options.plot and (problem := draw(report, options.plot)):
        console.print(f"[yellow]no plot:[/] {problem}", highlight=False)
    return int(bool(report.complaints or (options.strict and report.below_bar)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
