"""Results for readers: a table on the terminal, JSON for machines."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.limits import Limits
from benchmarks.peers import cores, versions
from benchmarks.runner import OURS, Bar, Probed, Result
from benchmarks.steady import is_steady

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run; `load` is what else ran on the machine when it began, in busy cores."""

    suite: str
    load: float
    limits: Limits
    results: Sequence[Result]
    probes: Sequence[Probed]

    @property
    def complaints(self) -> list[str]:
        """What makes the run fail: ours missing, or somebody wrong."""
        lines = []
        for result in self.results:
            title = f"{result.row.name} {result.row.shape}, {result.threads} threads"
            wrong = dict(result.failed)
            if OURS in result.missing:
                wrong[OURS] = f"missing: {result.missing[OURS]}"
            lines += [f"{title}: {name}: {reason}" for name, reason in sorted(wrong.items())]
        return lines + [f"{p.probe.name}: {p.reason}" for p in self.probes if p.timing is None]

    @property
    def below_bar(self) -> list[str]:
        """The bars that were measured and not reached."""
        lines = []
        for result in self.results:
            for bar, value in bars(result, self.limits):
                if value is not None and value < bar.least:
                    title = f"{result.row.name} {result.row.shape}, {result.threads} threads"
                    lines.append(f"{title}: {value:.2f} of {bar.against}, the bar is {bar.least:.2f}")
        for p in self.probes:
            if p.timing is not None and p.timing.minimum > p.probe.most:
                lines.append(f"{p.probe.name}: {duration(p.timing.minimum)}, the bar is {duration(p.probe.most)}")
        return lines


def fraction(result: Result, name: str, limits: Limits) -> float:
    """An implementation's rate as a fraction of what the machine can do."""
    return result.rate(name) / limits.rate(result.row.limit, result.threads)


def bars(result: Result, limits: Limits) -> Iterable[tuple[Bar, float | None]]:
    """Each bar of the row with the value that it is held against; None without a figure."""
    for bar in result.row.bars:
        if bar.against != "limit":
            yield bar, result.ratio(bar.against)
        else:
            yield bar, fraction(result, OURS, limits) if OURS in result.timings else None


def to_json(report: Report) -> str:
    """The run as JSON text with sorted keys."""
    return json.dumps(
        {
            "suite": report.suite,
            "machine": {"cpu": _cpu(), "cores": cores(), "python": platform.python_version(),
                        "load": report.load, "steady_memory": is_steady(), "versions": versions()},
            "limits": {name: {str(n): rate for n, rate in by.items()} for name, by in report.limits.rates.items()},
            "rows": [_row_json(result, report.limits) for result in report.results],
            "probes": [_probe_json(probed) for probed in report.probes],
            "complaints": report.complaints,
            "below_bar": report.below_bar,
        },
        indent=2, sort_keys=True, ensure_ascii=False,
    ) + "\n"  # fmt: skip


def _row_json(result: Result, limits: Limits) -> dict[str, Any]:
    row = result.row
    implementations = {
        name: {"minimum_s": t.minimum, "median_s": t.median, "rate": result.rate(name), "error": result.errors[name],
               "of_limit": fraction(result, name, limits)}
        for name, t in result.timings.items()
    }  # fmt: skip
    return {
        "name": row.name, "shape": row.shape, "threads": result.threads, "work": row.work, "unit": row.unit,
        "limit": row.limit, "tolerance": row.tolerance, "implementations": implementations,
        "best_peer": result.best_peer, "ratio_to_best_peer": result.ratio(),
        "bars": [{"against": b.against, "least": b.least, "value": v} for b, v in bars(result, limits)],
        "missing": dict(result.missing), "failed": dict(result.failed),
    }  # fmt: skip


def _probe_json(probed: Probed) -> dict[str, Any]:
    timing = probed.timing
    return {
        "name": probed.probe.name, "what": probed.probe.what, "most_s": probed.probe.most, "missing": probed.reason,
        "minimum_s": timing and timing.minimum, "median_s": timing and timing.median,
    }  # fmt: skip


def _cpu() -> str:
    import llvmlite.binding as llvm

    return f"{platform.machine()} {llvm.get_host_cpu_name()}"


def duration(seconds: float | None) -> str:
    """Seconds with a fitting unit.

    Examples
    --------
    >>> duration(0.0021), duration(3.2e-6), duration(None)
    ('2.10 ms', '3.20 µs', '')
    """
    if seconds is None:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def tables(report: Report) -> list[Table]:
    """The machine's limits, the rows with every implementation, and the probes."""
    made = [_limits_table(report.limits), _rows_table(report)]
    return [*made, _probes_table(report.probes)] if report.probes else made


def _table(title: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in ("row", "by", "what", "limit") else "right")
    return table


def _limits_table(limits: Limits) -> Table:
    counts = sorted({n for by in limits.rates.values() for n in by})
    table = _table("limits, G(flop or byte)/s", "limit", *(f"{n} thread{'s' * (n > 1)}" for n in counts))
    for name, by in limits.rates.items():
        table.add_row(name, *(f"{by[n] / 1e9:.0f}" for n in counts))
    return table


def _rows_table(report: Report) -> Table:
    columns = ("row", "on", "by", "minimum", "median", "G/s", "of limit", "ours is", "error")
    table = _table(report.suite, *columns)
    for result in report.results:
        first = (f"{result.row.name} {result.row.shape}", str(result.threads))
        for name in (OURS, *(n for n in (*result.timings, *result.missing, *result.failed) if n != OURS)):
            table.add_row(*first, name, *_cells(result, name, report.limits))
            first = ("", "")
        table.add_section()
    return table


def _cells(result: Result, name: str, limits: Limits) -> tuple[str, ...]:
    if name not in result.timings:
        return ("wrong" if name in result.failed else "missing",)
    timing = result.timings[name]
    ratio = result.ratio(name) if name != OURS else result.ratio()
    shown = f"{ratio:.2f}x {'best peer' if name == OURS else ''}".rstrip() if ratio else ""
    return (
        duration(timing.minimum), duration(timing.median), f"{result.rate(name) / 1e9:.1f}",
        f"{fraction(result, name, limits):.0%}", shown, f"{result.errors[name]:.1e}",
    )  # fmt: skip


def _probes_table(probes: Sequence[Probed]) -> Table:
    table = _table("what a call costs", "row", "what", "minimum", "median", "bar")
    for p in probes:
        least, middle = (p.timing.minimum, p.timing.median) if p.timing else (None, None)
        cells = (duration(least) or "missing", duration(middle), duration(p.probe.most))
        table.add_row(p.probe.name, p.probe.what, *cells)
    return table
