"""Shows a profile as a table in the terminal and in notebooks."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pypto.markup import Markup, bar, card, note, table, tag
from pypto.markup.colours import coloured
from pypto.profiler.rows import Row, ranges

if TYPE_CHECKING:
    from rich.table import Table

    from pypto.profiler.profile import Profile

HEADINGS: Final = ("share", "total", "runs", "min", "median", "GB/s", "GFLOP/s")
NOTE: Final = "min and median: time in one program; GB/s and GFLOP/s: of one thread, whole tiles"
_MOST_ORIGINS: Final = 3
_STYLES: Final = {"kernel": "bold", "label": "cyan", "line": ""}


def cells(row: Row) -> tuple[str, ...]:
    """The texts under `HEADINGS`."""
    bandwidth, speed = (f"{n / row.total_ns:.1f}" if n and row.total_ns else "" for n in (row.bytes, row.flops))
    times = ("" if t is None else duration(t) for t in (row.min_ns, row.median_ns))
    return (f"{row.share:.1%}", duration(row.total_ns), f"{row.runs:,}", *times, bandwidth, speed)


def duration(ns: float) -> str:
    """A time with three digits.

    Examples
    --------
    >>> duration(1234.5), duration(12.0)
    ('1.23 us', '12 ns')
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 999.5 * size else f"{ns / size:.0f} {unit}"
    return f"{ns:.0f} ns"


def name(row: Row) -> str:
    """What the row is about."""
    if row.level == "line":
        return f"{ranges(row.lines)}  {row.source}".strip()
    return row.kernel if row.level == "kernel" else row.label.rpartition("/")[2]


def place(rows: tuple[Row, ...], kernel: str) -> str:
    """Name of the file that a kernel stands in."""
    return next((Path(row.file).name for row in rows if row.kernel == kernel and row.file), "")


def origins(row: Row) -> list[str]:
    """Lines of the program that a generated kernel computes: the first of them, and how many there are beside."""
    more = len(row.origins) - _MOST_ORIGINS
    named = [f"of {line}" for line in row.origins[:_MOST_ORIGINS]]
    return [*named, f"and {more} other lines"] if more > 0 else named


def remarks(profile: Profile) -> list[str]:
    """Lists what is missing in the profile."""
    lost = [f"{count:,} {what}" for what, count in profile.dropped.items() if count]
    remarks_made = [f"beyond the limit of {profile.limit:,}, only in the totals: {', '.join(lost)}"] if lost else []
    return [NOTE, *remarks_made, *(f"not timed inside: {problem}" for problem in profile.problems)]


def make_table(profile: Profile) -> Table:
    from rich.markup import escape
    from rich.table import Table

    rows = profile.rows
    table = Table(caption="\n".join(map(escape, remarks(profile))), caption_justify="left", header_style="bold")
    table.add_column("kernel, label, line", no_wrap=True, overflow="ellipsis", max_width=66)
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        where = f"  ({place(rows, row.kernel)})" if row.level == "kernel" else ""
        shown = ["  " * row.depth + name(row) + where, *(f"  {line}" for line in origins(row))]
        table.add_row(escape("\n".join(shown)), *cells(row), style=_STYLES[row.level])
    return table


def as_text(profile: Profile) -> str:
    """The table as plain text."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=140, color_system=None, force_jupyter=False)
    console.print(make_table(profile))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]  # the file is the StringIO above
    return text


def as_html(profile: Profile) -> Markup:
    """The table as HTML, with shares as bars."""
    rows = profile.rows
    rows_shown = [html_row(row, place(rows, row.kernel) if row.level == "kernel" else row.file) for row in rows]
    table_of_rows = table(("kernel, label, line", *HEADINGS), rows_shown, range(1, 1 + len(HEADINGS)))
    return card("profile", table_of_rows, *(note(remark) for remark in remarks(profile)))


def html_row(row: Row, file: str) -> Markup:
    """A row; the bar is as long as the share, and a line says its file when it is pointed at."""
    share, *others = cells(row)
    where = f"{file}:{ranges(row.lines)}" if row.lines else file
    shown = tag("code", f"{ranges(row.lines)}  ", coloured(row.source)) if row.lines else name(row)
    lines = (tag("div", line, class_="pypto-note") for line in origins(row))
    first = tag("td", shown, *lines, title=where, style=f"padding-left:{18 * row.depth}px")
    numbers = (tag("td", value, class_="number") for value in (bar(row.share, share), *others))
    return tag("tr", first, *numbers, class_=row.level)
