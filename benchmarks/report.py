"""What a run gave, what is wrong with it, how it stands against its bars, and all of that as JSON."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.bars import LEAST, Verdict, fraction, of_growths, of_probes, of_row
from benchmarks.growth import Grown
from benchmarks.levels import forced_level, note
from benchmarks.limits import Limits
from benchmarks.peers import cores, versions
from benchmarks.runner import OURS, Probed, Result, Suite
from benchmarks.steady import is_steady


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
    def verdicts(self) -> list[Verdict]:
        """Every bar of the run, that of the geometric mean last."""
        found = [verdict for result in self.results for verdict in of_row(result, self.limits, self.suite.floor)]
        found += [*of_probes(self.probes), *of_growths(self.growths)]
        if self.suite.mean and self.mean is not None:
            found.append(Verdict("geometric mean over the families", "the best peer", self.mean, self.suite.mean))
        return found

    @property
    def below_bar(self) -> list[str]:
        """The bars that were measured and not reached."""
        return [verdict.line for verdict in self.verdicts if verdict.reached is False]

    @property
    def mean(self) -> float | None:
        """Geometric mean over the families, each of which counts as one."""
        return geometric_mean(families(self.results).values())

    @property
    def lowest(self) -> Result | None:
        """The row that is slowest beside its best peer."""
        return min((r for r in self.results if r.ratio() is not None), key=lambda r: r.ratio() or 0.0, default=None)


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


def to_json(report: Report) -> str:
    """The run as JSON text with sorted keys."""
    lowest = report.lowest
    return json.dumps(
        {
            "suite": report.suite.name,
            "machine": {"cpu": _cpu(), "cores": cores(), "python": platform.python_version(),
                        "load": report.load, "level": forced_level() or "host", "level_note": note(),
                        "steady_memory": is_steady(), "versions": versions()},
            "limits": {name: {str(n): rate for n, rate in by.items()} for name, by in report.limits.rates.items()},
            "rows": [_row_json(result, report) for result in report.results],
            "probes": [_probe_json(probed) for probed in report.probes],
            "growths": [_growth_json(grown) for grown in report.growths],
            "families": families(report.results),
            "geometric_mean": report.mean,
            "lowest_row": lowest and {"row": lowest.title, "ratio": lowest.ratio(), "peer": lowest.best_peer},
            "complaints": report.complaints,
            "below_bar": report.below_bar,
        },
        indent=2, sort_keys=True, ensure_ascii=False,
    ) + "\n"  # fmt: skip


def _row_json(result: Result, report: Report) -> dict[str, Any]:
    row = result.row
    implementations = {
        name: {"minimum_s": t.minimum, "median_s": t.median, "rate": result.rate(name), "error": result.errors[name],
               "of_limit": fraction(result, name, report.limits), "ours_is": result.times_as_fast(name)}
        for name, t in result.timings.items()
    }  # fmt: skip
    held = [v for v in of_row(result, report.limits, report.suite.floor) if v.kind == LEAST]
    return {
        "name": row.name, "shape": row.shape, "threads": result.threads, "work": row.work, "unit": row.unit,
        "family": row.of_family, "intensity": row.intensity, "peak_bytes": dict(result.peaks),
        "most_s": None if math.isinf(row.most) else row.most,
        "limit": row.limit, "loops": {name: {"minimum_s": t.minimum, "median_s": t.median}
                                      for name, t in result.loops.items()},
        "tolerance": row.tolerance, "implementations": implementations,
        "best_peer": result.best_peer, "ratio_to_best_peer": result.ratio(),
        "bars": [{"against": v.against, "least": v.bar, "value": v.value, "reached": v.reached} for v in held],
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
