"""A prediction as HTML: time and limit, how busy each unit is, what was moved, and the lines that take longest."""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, Final

from pypto.markup import Markup, bar, card, note, table, tag
from pypto.markup.colours import coloured

if TYPE_CHECKING:
    from pypto.backends.ascend.timing.prediction import Prediction

_MOST: Final = 12  # lines that are shown


def prediction_card(found: Prediction) -> Markup:
    """The card of a notebook's cell."""
    title = f"{found.kernel} on {found.target}: {1e6 * found.seconds:.4g} µs"
    told = f"{found.cycles:.4g} cycles on {found.cores} cores, by the timing model; limited by {found.limit}"
    parts = [units(found), moved(found), lines(found)]
    if found.assumed:
        named = ", ".join(map(str, found.assumed))
        parts.append(note(f"Depends on data, so something usual was assumed: lines {named}"))
    return card(title, *parts, note=told)


def units(found: Prediction) -> Markup:
    busy = [(pipe, share) for pipe, share in found.utilisation.items() if share >= 0.005]
    return table(("unit", "busy"), [(pipe, bar(share, f"{share:.0%}")) for pipe, share in busy])


def moved(found: Prediction) -> Markup:
    sizes = (found.bytes | found.levels).items()
    return table(("copies", "MB"), [(kind, f"{size / 1e6:.3g}") for kind, size in sizes if size], (1,))


def lines(found: Prediction) -> Markup:
    whole = sum(found.lines.values()) or 1.0
    longest = sorted(found.lines.items(), key=lambda row: -row[1])[:_MOST]
    rows = [(n, bar(cycles / whole, f"{cycles:.4g}"), code(found.file, n)) for n, cycles in longest if cycles]
    return table(("line", "cycles", "source"), rows, (0,))


def code(file: str, line: int) -> Markup:
    return tag("code", coloured(linecache.getline(file, line).strip()))
