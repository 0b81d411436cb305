"""Which tests may be skipped: reasons, how often each, and what a run says that it has."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Skip:
    """A reason for which tests may be skipped: a pattern, at most how many tests, and what they miss."""

    reason: str
    at_most: int
    needs: str = ""


def allowed(file: Path = FILE) -> list[Skip]:
    return [Skip(**row) for row in tomllib.loads(file.read_text(encoding="utf-8"))["skip"]]


def violations(reasons: Iterable[str], rows: Collection[Skip], required: Collection[str] = ()) -> list[str]:
    """What is wrong with the reasons of a run's skipped tests.

    Parameters
    ----------
    reasons : iterable of str
        One for each skipped test.
    rows : collection of Skip
        The reasons that are allowed; the first one that matches counts.
    required : collection of str
        What this run has for certain: no test is skipped for want of it.
    """
    counts: Counter[Skip] = Counter()
    problems = []
    for reason, count in Counter(reason.removeprefix("Skipped: ") for reason in reasons).items():
        row = next((row for row in rows if re.fullmatch(row.reason, reason, re.DOTALL)), None)
        if row is None:
            problems.append(f"{count} skipped for a reason that tests/skips.toml does not know: {reason}")
        elif row.needs in required:
            problems.append(f"{count} skipped, although this run has {row.needs}: {reason}")
        else:
            counts[row] += count
    return problems + [
        f"{n} skipped, at most {row.at_most} may: {row.reason}" for row, n in counts.items() if n > row.at_most
    ]
