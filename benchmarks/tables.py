"""A run for the terminal: limits, rows, bars, families, and the summary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from benchmarks.bars import LEAST, POWER, fraction
from benchmarks.growth import Grown
from benchmarks.limits import Limits
from benchmarks.report import Report, families
from benchmarks.runner import OURS, Probed, Result
from benchmarks.text import duration, rate

if TYPE_CHECKING:
    from rich.table import Table

LEFT: Final = ("row", "by", "what", "limit", "family", "stage", "against", "summary")
MARKS: Final = {True: "[green]✓[/]", False: "[red]✗ missed[/]", None: "not measured"}


def tables(report: Report) -> list[Table]:
    """The machine's limits, the rows with every implementation, probes, stages, families, bars, and the summary."""
    made = [_limits_table(report.limits), _rows_table(report)]
    if report.probes:
        made.append(_probes_table(report.probes))
    made += map(_growth_table, report.growths)
    if families(report.results):
        made.append(_families_table(report))
    if report.verdicts:
        made.append(_bars_table(report))
    return [*made, _summary_table(report)]


def _table(title: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in LEFT else "right")
    return table


def _limits_table(limits: Limits) -> Table:
    counts = sorted({n for by in limits.rates.values() for n in by})
    columns = ("limit", *(f"{n} thread{'s' * (n > 1)}" for n in counts))
    table = _table("limits, G(flop or byte)/s; calls in G/s", *columns)
    for name, by in limits.rates.items():
        table.add_row(name, *(f"{by[n] / 1e9:.3g}" for n in counts))
    return table


def _rows_table(report: Report) -> Table:
    columns = ("row", "on", "by", "minimum", "median", "rate", "of limit", "ours is", "error", "memory")
    table = _table(report.suite.name, *columns)
    for result in report.results:
        first = (result.row.title, str(result.threads))
        for name in (OURS, *(n for n in (*result.timings, *result.missing, *result.failed) if n != OURS)):
            table.add_row(*first, name, *_cells(result, name, report.limits))
            first = ("", "")
        table.add_section()
    return table


def _cells(result: Result, name: str, limits: Limits) -> tuple[str, ...]:
    if name not in result.timings:
        return ("wrong" if name in result.failed else "missing",)
    timing, part = result.timings[name], fraction(result, name, limits)
    ratio = result.ratio() if name == OURS else result.times_as_fast(name)
    shown = f"{ratio:.2f}x {'best peer' if name == OURS else ''}".rstrip() if ratio else ""
    return (
        duration(timing.minimum), duration(timing.median), rate(result.rate(name), result.row.unit),
        "" if part is None else f"{part:.0%}", shown, f"{result.errors[name]:.1e}",
        f"{result.peaks[name] / 1e6:.1f} MB" if name in result.peaks else "",
    )  # fmt: skip


def _bars_table(report: Report) -> Table:
    table = _table("bars", "row", "against", "bar", "ours", "")
    for verdict in report.verdicts:
        sign = "≥" if verdict.kind == LEAST else "≤"
        against = "lines^" if verdict.kind == POWER else verdict.against
        bar = f"{sign} {verdict.shown(verdict.bar)}"
        table.add_row(verdict.title, against, bar, verdict.shown(verdict.value), MARKS[verdict.reached])
    return table


def _families_table(report: Report) -> Table:
    table = _table("geometric means against the best peer", "family", "rows", "ours is")
    counts = [r.row.of_family for r in report.results if r.ratio() is not None]
    for family, ratio in families(report.results).items():
        table.add_row(family, str(counts.count(family)), f"{ratio:.2f}x")
    return table


def _summary_table(report: Report) -> Table:
    table = _table("summary", "summary", "")
    if report.mean is not None:
        bar = f", the bar is {report.suite.mean:.2f}" if report.suite.mean else ""
        table.add_row("geometric mean, families weighted equally", f"{report.mean:.2f}x{bar}")
    if (lowest := report.lowest) is not None:
        bar = f", the bar is {report.suite.floor:.2f}" if report.suite.floor else ""
        table.add_row(f"lowest row: {lowest.title}", f"{lowest.ratio():.2f}x of {lowest.best_peer}{bar}")
    reached = [verdict.reached for verdict in report.verdicts]
    table.add_row("bars reached", f"{reached.count(True)} of {len(reached)}, {reached.count(None)} not measured")
    return table


def _growth_table(grown: Grown) -> Table:
    title = f"compiling {grown.growth.name}: {grown.growth.what}"
    table = _table(title, "stage", *(f"{n} lines" for n in grown.lines), "lines^")
    for stage, times in grown.seconds.items():
        power = grown.exponent(stage)
        table.add_row(stage, *map(duration, times), "" if power is None else f"{power:.2f}")
    return table


def _probes_table(probes: Sequence[Probed]) -> Table:
    table = _table("what a call costs", "row", "what", "minimum", "median", "bar")
    for p in probes:
        least, middle = (p.timing.minimum, p.timing.median) if p.timing else (None, None)
        bar = duration(p.probe.most) if p.probe.most < math.inf else ""
        cells = (duration(least) or "missing", duration(middle), bar)
        table.add_row(p.probe.name, p.probe.what, *cells)
    return table
