"""Covering arrays: of all combinations of a test's parameters, those few that have every combination of few values.

Most faults need one or two parameters at certain values, whatever the others are (Kuhn, Wallace and Gallo, "Software
fault interactions", 2004). A test with the marker ``covering(quick=1, slow=2)`` runs in the quick suite for a set of
combinations in which every value of each parameter occurs (strength 1), and in the slow one for as many more as it
takes that every pair of values of two parameters does (strength 2). What is left is `exhaustive`. The feature level of
the CPU is a parameter like the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import pytest

MARKER: Final = "covering"
Row = Mapping[str, object]  # a combination: what stands for the value of each parameter


def covering(rows: Sequence[Row], strength: int, taken: Collection[int] = ()) -> list[int]:
    """Numbers of the rows of a covering array, chosen greedily: next comes the row that covers most that is missing.

    Parameters
    ----------
    rows : sequence of mapping
        The combinations that there are.
    strength : int
        How many parameters have each combination of their values covered.
    taken : collection of int
        Numbers of rows that run anyway; they are no part of the result.

    Examples
    --------
    >>> rows = [{"m": m, "n": n} for m in (1, 2, 3) for n in (1, 2)]
    >>> covering(rows, 1)
    [0, 3, 4]
    >>> covering(rows, 2) == [0, 1, 2, 3, 4, 5]
    True
    """
    covers = [set(itertools.combinations(sorted(row.items()), min(strength, len(row)))) for row in rows]
    missing = set().union(*covers) - set().union(*(covers[number] for number in taken))
    chosen = []
    while missing:
        best = max(range(len(rows)), key=lambda number: len(covers[number] & missing))
        chosen.append(best)
        missing -= covers[best]
    return chosen


def mark(items: Sequence[pytest.Item]) -> None:
    """Say which of the items of one test function are quick, slow and exhaustive, by its marker.

    What is marked slow by hand is not quick, whatever it covers.
    """
    marker = items[0].get_closest_marker(MARKER)
    assert marker is not None
    rows = [parameters(item) for item in items]
    may_be_quick = [number for number, item in enumerate(items) if item.get_closest_marker("slow") is None]
    quick = [may_be_quick[n] for n in covering([rows[number] for number in may_be_quick], marker.kwargs["quick"])]
    slow = covering(rows, marker.kwargs["slow"], quick)
    for number, item in enumerate(items):
        if number not in quick:
            item.add_marker(pytest.mark.slow)
            if number not in slow:
                item.add_marker(pytest.mark.exhaustive)


def parameters(item: pytest.Item) -> dict[str, object]:
    """What stands for the value of each parameter of an item: a text, since values need not have hashes."""
    callspec: Any = getattr(item, "callspec", None)
    return {} if callspec is None else {name: repr(value) for name, value in callspec.params.items()}
