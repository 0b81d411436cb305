"""Facts about every line of a kernel: the width of its instructions, its share of the time, and the reasons.

The width comes from the backend. The time comes from a profile if one is given, else from the backend's timing model.
The reasons come from `pypto.debug.explain`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LineFacts:
    """The compiled code of one line.

    Attributes
    ----------
    width : str
        How many elements one pass computes, and in how many registers; empty if the line has no instructions.
    share : float or None
        Its share of the kernel's time, from 0 to 1; None if it is unknown.
    time : str
        The time in words.
    reasons : tuple of str
        The reasons for this code.
    """

    width: str = ""
    share: float | None = None
    time: str = ""
    reasons: tuple[str, ...] = ()


def facts_by_line(widths: Mapping[int, str], times: Mapping[int, tuple[float | None, str]],
                  findings: Iterable[Any]) -> dict[int, LineFacts]:  # fmt: skip
    """Returns the facts of every line that has some."""
    reasons: dict[int, list[str]] = defaultdict(list)
    for finding in findings:
        way = f"; {finding.way}" if finding.way else ""
        reasons[finding.loc.user.line].append(f"{finding.topic}: {finding.text}{way}")
    lines = sorted({*widths, *times, *reasons} - {0})
    return {n: LineFacts(widths.get(n, ""), *times.get(n, (None, "")), tuple(reasons[n])) for n in lines}


def profiled_times(profile: Any, kernel: str) -> dict[int, tuple[float | None, str]]:
    """Returns each line's share of a profiled time. A fused statement counts at the line of its result."""
    rows = [row for row in profile.rows if row.kernel == kernel]
    kernel_ns = next((row.total_ns for row in rows if row.level == "kernel"), 0.0) or 1.0
    times: dict[int, tuple[float | None, str]] = {}
    exclusive_ns: dict[int, float] = defaultdict(float)
    for row in (row for row in rows if row.level == "line" and row.lines):
        exclusive_ns[row.lines[-1]] += row.total_ns / kernel_ns
        for line in row.lines[:-1]:
            times.setdefault(line, (None, f"in line {row.lines[-1]}"))
    return times | {line: (share, f"{share:.0%}") for line, share in exclusive_ns.items()}


def predicted_times(cycles: Mapping[int, float]) -> dict[int, tuple[float | None, str]]:
    """The cycles that the timing model says for each line, as parts of their sum."""
    total = sum(cycles.values()) or 1.0
    return {line: (count / total, f"{count:.4g} cycles") for line, count in cycles.items() if count}
