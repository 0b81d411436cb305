"""What became of every line of a kernel: how wide its instructions are, what part of the time it takes, and why.

The width is read off LLVM IR, whose lines name the user's. The time is a profile's where one is given, and on an Ascend
chip what the timing model says. The reasons are those of `pypto.debug.explain`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pypto.debug.inspection import Level

_VECTOR: Final = re.compile(r"<(\d+) x (half|bfloat|float|double|i8|i16|i32|i64)>")
_BITS: Final = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
_NAMES: Final = {"half": "float16", "bfloat": "bfloat16", "float": "float32", "double": "float64"}
_SCALAR: Final = "one at a time"
# What makes a line's width: integers beside floats are indices and masks.
_FLOATS: Final = ("half", "bfloat", "float", "double")


@dataclass(frozen=True, slots=True)
class LineFacts:
    """What became of one line.

    Attributes
    ----------
    width : str
        How many elements one pass computes, and in how many registers; empty where the line became no instructions.
    share : float or None
        Its part of the kernel's time, from 0 to 1; None where that is unknown.
    time : str
        The time in words.
    reasons : tuple of str
        Why it was compiled as it was.
    """

    width: str = ""
    share: float | None = None
    time: str = ""
    reasons: tuple[str, ...] = ()


def facts_by_line(widths: Mapping[int, str], times: Mapping[int, tuple[float | None, str]],
                  findings: Iterable[Any]) -> dict[int, LineFacts]:  # fmt: skip
    """The facts of every line that has some."""
    reasons: dict[int, list[str]] = defaultdict(list)
    for finding in findings:
        way = f"; {finding.way}" if finding.way else ""
        reasons[finding.loc.user.line].append(f"{finding.topic}: {finding.text}{way}")
    lines = sorted({*widths, *times, *reasons} - {0})
    return {n: LineFacts(widths.get(n, ""), *times.get(n, (None, "")), tuple(reasons[n])) for n in lines}


def widths_of(levels: Sequence[Level], register_bytes: int) -> dict[int, str]:
    """The widest vectors of every line's LLVM IR: the code for whole tiles, not that for their edges."""
    level = next((level for level in levels if level.name == "llvm-ir"), None)
    found: dict[int, set[tuple[int, str]]] = defaultdict(set)
    for number, text in level.lines if level is not None else ():
        found[number] |= {(int(count), kind) for count, kind in _VECTOR.findall(text)}
    return {number: width_text(vectors, register_bytes) for number, vectors in found.items() if number}


def width_text(vectors: set[tuple[int, str]], register_bytes: int) -> str:
    """The widest vector in words: of floats, if there are any.

    Examples
    --------
    >>> width_text({(64, "float"), (64, "i32")}, 64), width_text({(4, "i32")}, 32), width_text(set(), 64)
    ('64 float32 in 4 registers', '4 int32 in a register', 'one at a time')
    """
    floats = {vector for vector in vectors if vector[1] in _FLOATS}
    if not vectors:
        return _SCALAR
    count, kind = max(floats or vectors, key=lambda vector: (vector[0] * _BITS[vector[1]], vector))
    registers = -(-count * _BITS[kind] // (8 * register_bytes))
    name = _NAMES.get(kind, kind.replace("i", "int"))
    return f"{count} {name} in {'a register' if registers == 1 else f'{registers} registers'}"


def profiled_times(profile: Any, kernel: str) -> dict[int, tuple[float | None, str]]:
    """The part of a kernel's time that each line takes. What was fused counts at the line that it leads to."""
    rows = [row for row in profile.rows if row.kernel == kernel]
    whole = next((row.total_ns for row in rows if row.level == "kernel"), 0.0) or 1.0
    times: dict[int, tuple[float | None, str]] = {}
    own: dict[int, float] = defaultdict(float)
    for row in (row for row in rows if row.level == "line" and row.lines):
        own[row.lines[-1]] += row.total_ns / whole
        for line in row.lines[:-1]:
            times.setdefault(line, (None, f"in line {row.lines[-1]}"))
    return times | {line: (share, f"{share:.0%}") for line, share in own.items()}


def predicted_times(cycles: Mapping[int, float]) -> dict[int, tuple[float | None, str]]:
    """The cycles that the timing model says for each line, as parts of their sum."""
    whole = sum(cycles.values()) or 1.0
    return {line: (found / whole, f"{found:.4g} cycles") for line, found in cycles.items() if found}
