"""Shows a profile as a table in the terminal and in notebooks."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pypto.markup import Markup, bar, card, note, table, tag
from pypto.markup.colours import coloured
from pypto.profiler.bounds import WORTH
from pypto.profiler.rows import ProfileRow, ranges

if TYPE_CHECKING:
    from rich.table import Table

    from pypto.profiler.profile import Profile
    from pypto.profiler.wall import WallRow

HEADINGS: Final = ("share", "total", "runs", "min", "median", "GB/s", "GFLOP/s")
NOTE: Final = "min and median: time in one program; GB/s and GFLOP/s: of one thread, whole tiles"
WALL_HEADINGS: Final = ("share", "time", "calls", "GB/s", "GFLOP/s", "bound by", "of limit")
WALL_NOTE: Final = "shares of the wall time; limits are measured on this machine, and bytes are those of tensors"
_MOST_OPERATORS: Final = 16
_HEAVY: Final = 0.05  # share of a module that is listed
_MOST_ORIGINS: Final = 3
_STYLES: Final = {"kernel": "bold", "label": "cyan", "line": ""}


def cells(row: ProfileRow) -> tuple[str, ...]:
    """Returns the texts under `HEADINGS`."""
    bandwidth, speed = (f"{n / row.total_ns:.1f}" if n and row.total_ns else "" for n in (row.bytes, row.flops))
    times = ("" if t is None else duration(t) for t in (row.min_ns, row.median_ns))
    return (f"{row.share:.1%}", duration(row.total_ns), f"{row.runs:,}", *times, bandwidth, speed)


def duration(ns: float) -> str:
    """Formats a time with three digits.

    Examples
    --------
    >>> duration(1234.5), duration(12.0)
    ('1.23 us', '12 ns')
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 999.5 * size else f"{ns / size:.0f} {unit}"
    return f"{ns:.0f} ns"


def name(row: ProfileRow) -> str:
    """Returns the name of the kernel, label or line of a row."""
    if row.level == "line":
        return f"{ranges(row.lines)}  {row.source}".strip()
    return row.kernel if row.level == "kernel" else row.label.rpartition("/")[2]


def place(rows: tuple[ProfileRow, ...], kernel: str) -> str:
    """Returns the name of the file that contains a kernel."""
    return next((Path(row.file).name for row in rows if row.kernel == kernel and row.file), "")


def origins(row: ProfileRow) -> list[str]:
    """Lists lines of the program that a generated kernel computes: the first ones, and the number of the others."""
    more = len(row.origins) - _MOST_ORIGINS
    named = [f"of {line}" for line in row.origins[:_MOST_ORIGINS]]
    return [*named, f"and {more} other lines"] if more > 0 else named


def remarks(profile: Profile) -> list[str]:
    """Lists what is missing in the profile."""
    lost = [f"{count:,} {what}" for what, count in profile.dropped.items() if count]
    remarks_made = [f"beyond the limit of {profile.limit:,}, only in the totals: {', '.join(lost)}"] if lost else []
    return [NOTE, *remarks_made, *(f"not timed inside: {problem}" for problem in profile.problems)]


def wall_cells(row: WallRow) -> tuple[str, ...]:
    """Returns the texts under `WALL_HEADINGS`."""
    rates = (f"{n / row.total_ns:.1f}" if n and row.total_ns else "" for n in (row.bytes, row.flops))
    limit = f"{row.bound.limit:.0%}" if row.bound.limit else ""
    calls = f"{row.calls:,}" if row.calls else ""
    return (f"{row.share:.1%}", duration(row.total_ns), calls, *rates, row.bound.kind, limit)


def shown_rows(profile: Profile) -> list[tuple[str, WallRow]]:
    """Returns rows of the wall time with titles: the longest operators and kernels, the rest, and heavy modules."""
    *named, other = profile.operators
    fewer = named[_MOST_OPERATORS:]
    total = sum(row.total_ns for row in fewer)
    titled = [(title(row), row) for row in named[:_MOST_OPERATORS]]
    if fewer:
        share, calls = sum(row.share for row in fewer), sum(row.calls for row in fewer)
        merged = replace(other, share=share, total_ns=total, calls=calls)
        titled.append((f"{len(fewer)} more", merged))
    heavy = [row for row in profile.modules if row.share >= _HEAVY]
    return [*titled, (other.name, other), *((f"module {row.name}", row) for row in heavy)]


def title(row: WallRow) -> str:
    """Returns the name of an operator or kernel, with lines that a generated kernel computes."""
    more = f" and {len(row.origins) - 1} more" if len(row.origins) > 1 else ""
    return f"{row.name}\n  of {row.origins[0].split('  ')[0]}{more}" if row.origins else row.name


def wall_remarks(profile: Profile) -> list[str]:
    """Says what the table of wall time shows, and what to try with the longest rows."""
    heavy = [row for row in profile.operators if row.share >= _HEAVY and row.advice]
    lost = f"; {duration(profile.overhead_ns)} of the profiler's own work are left out" if profile.overhead_ns else ""
    notes = [WALL_NOTE + lost, *([profile.torch.problem] if profile.torch.problem else [])]
    return [*notes, *(f"{row.name}: {row.advice}" for row in heavy)]


def make_wall_table(profile: Profile) -> Table:
    """Returns the wall time as a table of rich."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(caption="\n".join(map(escape, wall_remarks(profile))), caption_justify="left", header_style="bold")
    table.add_column("operator, kernel", no_wrap=True, overflow="ellipsis", max_width=66)
    for heading in WALL_HEADINGS:
        table.add_column(heading, justify="left" if heading == "bound by" else "right", no_wrap=True)
    for name, row in shown_rows(profile):
        style = "bold" if row.share >= WORTH and row.level in ("operator", "kernel") else ""
        table.add_row(escape(name), *wall_cells(row), style="dim" if row.level == "module" else style)
    return table


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
    """Returns the table as plain text."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=140, color_system=None, force_jupyter=False)
    console.print(make_wall_table(profile))
    if profile.versions or profile.problems:
        console.print(make_table(profile))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]  # the file is the StringIO above
    return text


def as_html(profile: Profile) -> Markup:
    """Returns the table as HTML, with shares as bars."""
    rows = profile.rows
    rows_shown = [html_row(row, place(rows, row.kernel) if row.level == "kernel" else row.file) for row in rows]
    table_of_rows = table(("kernel, label, line", *HEADINGS), rows_shown, range(1, 1 + len(HEADINGS)))
    wall = [bar_cells(title, row) for title, row in shown_rows(profile)]
    table_of_wall = table(("operator, kernel", *WALL_HEADINGS), wall, (*range(1, 6), 7))
    parts = [table_of_wall, *map(note, wall_remarks(profile))]
    if profile.versions or profile.problems:
        parts += [table_of_rows, *map(note, remarks(profile))]
    return card("profile", *parts)


def bar_cells(title: str, row: WallRow) -> tuple[object, ...]:
    """Returns the cells of a row of the wall time, with its share as a bar."""
    share, *others = wall_cells(row)
    first, *lines = title.split("\n")
    shown = tag("span", tag("code", first), *(tag("div", line, class_="pypto-note") for line in lines))
    return (shown, bar(row.share, share), *others)


def html_row(row: ProfileRow, file: str) -> Markup:
    """Returns a row as HTML; its bar is as long as the share, and a line shows its file under the pointer."""
    share, *others = cells(row)
    where = f"{file}:{ranges(row.lines)}" if row.lines else file
    shown = tag("code", f"{ranges(row.lines)}  ", coloured(row.source)) if row.lines else name(row)
    lines = (tag("div", line, class_="pypto-note") for line in origins(row))
    first = tag("td", shown, *lines, title=where, style=f"padding-left:{18 * row.depth}px")
    numbers = (tag("td", value, class_="number") for value in (bar(row.share, share), *others))
    return tag("tr", first, *numbers, class_=row.level)
