"""Results for readers: tables on the terminal, JSON for machines."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.growth import EXPONENT, Grown
from benchmarks.limits import Limits
from benchmarks.peers import cores, versions
from benchmarks.runner import OURS, Bar, Probed, Result, Suite
from benchmarks.steady import is_steady

if TYPE_CHECKING:
    from rich.table import Table

LEFT: Final = ("row", "by", "what", "limit", "family", "stage")


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run; `load` is what else ran on the machine when it began, in busy cores."""

    suite: Suite
    load: float
    limits: Limits
    results: Sequence[Result]
    probes: Sequence[Probed] = ()
    growths: Sequence[Grown] = ()

    @property
    def complaints(self) -> list[str]:
        """What makes the run fail: ours missing, or somebody wrong."""
        lines = []
        for result in self.results:
            wrong = dict(result.failed)
            if OURS in result.missing:
                wrong[OURS] = f"missing: {result.missing[OURS]}"
            lines += [f"{result.title}: {name}: {reason}" for name, reason in sorted(wrong.items())]
        lines += [f"{p.probe.name}: {p.reason}" for p in self.probes if p.timing is None]
        return lines + [f"{g.growth.name}: {g.reason}" for g in self.growths if g.reason]

    @property
    def below_bar(self) -> list[str]:
        """The bars that were measured and not reached."""
        lines = [line for result in self.results for line in missed(result, self.limits, self.suite.floor)]
        for p in self.probes:
            if p.timing is not None and p.timing.minimum > p.probe.most:
                lines.append(f"{p.probe.name}: {duration(p.timing.minimum)}, the bar is {duration(p.probe.most)}")
        for grown in self.growths:
            powers = ((stage, grown.exponent(stage)) for stage in grown.seconds)
            steep = [f"{stage} with lines^{power:.2f}" for stage, power in powers if power and power > EXPONENT]
            lines += [f"compiling {grown.growth.name}: {what}, the bar is {EXPONENT:.2f}" for what in steep]
        mean = geometric_mean(families(self.results).values())
        if mean is not None and mean < self.suite.mean:
            lines.append(f"geometric mean over the families: {mean:.2f}, the bar is {self.suite.mean:.2f}")
        return lines


def missed(result: Result, limits: Limits, floor: float) -> Iterable[str]:
    """The bars of one row that were not reached, and the one that holds for all rows of its suite."""
    for bar, value in bars(result, limits):
        if value is not None and value < bar.least:
            against = {"": "the best peer", "memory": "torch's memory over ours"}.get(bar.against, bar.against)
            yield f"{result.title}: {value:.2f} of {against}, the bar is {bar.least:.2f}"
    ratio = result.ratio()
    if ratio is not None and ratio < floor and not any(bar.against == "" for bar in result.row.bars):
        yield f"{result.title}: {ratio:.2f} of the best peer, no row may be below {floor:.2f}"
    if OURS in result.timings and result.timings[OURS].minimum > result.row.most:
        took, most = duration(result.timings[OURS].minimum), duration(result.row.most)
        yield f"{result.title}: {took}, the bar is {most}"


def families(results: Sequence[Result]) -> dict[str, float]:
    """Geometric mean of the ratios to the best peer, for each family that has one."""
    ratios: dict[str, list[float]] = {}
    for result in results:
        ratio = result.ratio()
        if ratio is not None:
            ratios.setdefault(result.row.of_family, []).append(ratio)
    return {family: float(np.exp(np.mean(np.log(found)))) for family, found in ratios.items()}


def geometric_mean(values: Iterable[float]) -> float | None:
    """Geometric mean; None of nothing.

    Examples
    --------
    >>> round(geometric_mean([1.0, 4.0]), 6)
    2.0
    """
    found = list(values)
    return float(np.exp(np.mean(np.log(found)))) if found else None


def fraction(result: Result, name: str, limits: Limits) -> float | None:
    """An implementation's rate as a fraction of what the machine can do; None where no limit bounds the work."""
    row = result.row
    return result.rate(name) / limits.rate(row.limit, result.threads) if row.limit else None


def bars(result: Result, limits: Limits) -> Iterable[tuple[Bar, float | None]]:
    """Each bar of the row with the value that it is held against; None without a figure."""
    for bar in result.row.bars:
        if bar.threads not in (0, result.threads):
            continue
        if bar.against == "memory":
            yield bar, memory_ratio(result.peaks)
        elif bar.against != "limit":
            yield bar, result.ratio(bar.against)
        else:
            yield bar, fraction(result, OURS, limits) if OURS in result.timings else None


def memory_ratio(peaks: Mapping[str, float]) -> float | None:
    """How many times ours fits into the memory of eager torch."""
    if OURS not in peaks or "torch" not in peaks:
        return None
    return peaks["torch"] / max(peaks[OURS], 1.0)


def to_json(report: Report) -> str:
    """The run as JSON text with sorted keys."""
    return json.dumps(
        {
            "suite": report.suite.name,
            "machine": {"cpu": _cpu(), "cores": cores(), "python": platform.python_version(),
                        "load": report.load, "steady_memory": is_steady(), "versions": versions()},
            "limits": {name: {str(n): rate for n, rate in by.items()} for name, by in report.limits.rates.items()},
            "rows": [_row_json(result, report.limits) for result in report.results],
            "probes": [_probe_json(probed) for probed in report.probes],
            "growths": [_growth_json(grown) for grown in report.growths],
            "families": families(report.results),
            "geometric_mean": geometric_mean(families(report.results).values()),
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
        "family": row.of_family, "intensity": row.intensity, "peak_bytes": dict(result.peaks),
        "most_s": None if math.isinf(row.most) else row.most,
        "limit": row.limit, "tolerance": row.tolerance, "implementations": implementations,
        "best_peer": result.best_peer, "ratio_to_best_peer": result.ratio(),
        "bars": [{"against": b.against, "least": b.least, "value": v} for b, v in bars(result, limits)],
        "missing": dict(result.missing), "failed": dict(result.failed),
    }  # fmt: skip


def _probe_json(probed: Probed) -> dict[str, Any]:
    timing = probed.timing
    return {
        "name": probed.probe.name, "what": probed.probe.what, "missing": probed.reason,
        "most_s": None if math.isinf(probed.probe.most) else probed.probe.most,
        "minimum_s": timing and timing.minimum, "median_s": timing and timing.median,
    }  # fmt: skip


def _growth_json(grown: Grown) -> dict[str, Any]:
    return {
        "name": grown.growth.name, "what": grown.growth.what, "lines": list(grown.lines), "stopped": grown.reason,
        "seconds": {stage: list(times) for stage, times in grown.seconds.items()},
        "exponents": {stage: grown.exponent(stage) for stage in grown.seconds},
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


def rate(value: float, unit: str) -> str:
    """Work per second with a fitting prefix.

    Examples
    --------
    >>> rate(2.5e12, "flop"), rate(31.4e9, "B"), rate(4e6, "call")
    ('2500 Gflop/s', '31.4 GB/s', '4.0 Mcall/s')
    """
    prefix, scale = next(((p, s) for p, s in (("G", 1e9), ("M", 1e6), ("k", 1e3)) if value >= s), ("", 1.0))
    return f"{value / scale:.{0 if value >= 1e11 else 1}f} {prefix}{unit}/s"


def tables(report: Report) -> list[Table]:
    """The machine's limits, the rows with every implementation, the families, the probes, and the compiler's stages."""
    made = [_limits_table(report.limits), _rows_table(report)]
    if families(report.results):
        made.append(_families_table(report))
    if report.probes:
        made.append(_probes_table(report.probes))
    return [*made, *map(_growth_table, report.growths)]


def _table(title: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in LEFT else "right")
    return table


def _limits_table(limits: Limits) -> Table:
    counts = sorted({n for by in limits.rates.values() for n in by})
    table = _table("limits, G(flop or byte)/s", "limit", *(f"{n} thread{'s' * (n > 1)}" for n in counts))
    for name, by in limits.rates.items():
        table.add_row(name, *(f"{by[n] / 1e9:.0f}" for n in counts))
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
    ratio = result.ratio(name) if name != OURS else result.ratio()
    shown = f"{ratio:.2f}x {'best peer' if name == OURS else ''}".rstrip() if ratio else ""
    return (
        duration(timing.minimum), duration(timing.median), rate(result.rate(name), result.row.unit),
        "" if part is None else f"{part:.0%}", shown, f"{result.errors[name]:.1e}",
        f"{result.peaks[name] / 1e6:.1f} MB" if name in result.peaks else "",
    )  # fmt: skip


def _families_table(report: Report) -> Table:
    table = _table("geometric means against the best peer", "family", "ours is")
    found = families(report.results)
    for family, ratio in found.items():
        table.add_row(family, f"{ratio:.2f}x")
    table.add_section()
    table.add_row("all families", f"{geometric_mean(found.values()):.2f}x")
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
