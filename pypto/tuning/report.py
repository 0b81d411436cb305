"""The report of tuning as a text table, a plot and HTML for notebooks."""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pypto._platform import install_command
from pypto.errors import PyptoError
from pypto.markup import Markup, Shown, card, cells, note, table
from pypto.tuning.search import Outcome

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS: Final = ("configuration", "median", "20 %", "80 %", "of the best", "")  # the best by its 20 % quantile
_NOTHING: Final = "nothing was tried yet; what earlier processes found needs no search"
_NUMBERS: Final = (1, 2, 3, 4)
_ORDER: Final = ("ok", "equal", "wrong", "failed", "untried")


@dataclass(frozen=True, slots=True)
class ConfigResult:
    """The result of one configuration for one key; times are in milliseconds, and infinite if unknown."""

    config: str
    status: str
    reason: str
    median: float
    low: float
    high: float
    chosen: bool

    @property
    def verdict(self) -> str:
        return "chosen" if self.chosen else self.reason and f"{self.status}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Section:
    """The results of all configurations for one key, the fastest first."""

    key: tuple[Any, ...]
    seconds: float
    rows: tuple[ConfigResult, ...]
    interrupted: bool = False

    @staticmethod
    def of(key: tuple[Any, ...], outcomes: Sequence[Outcome], names: Mapping[int, str], chosen: Outcome | None,
           seconds: float, interrupted: bool) -> Section:  # fmt: skip
        """Make the section of a search; `names` has the configurations' names by their `id`."""
        ordered = sorted(outcomes, key=lambda o: (o is not chosen, _ORDER.index(o.status), o.low))
        rows = (ConfigResult(names[id(o.config)], o.status, o.reason, *o.quantiles, o is chosen) for o in ordered)
        return Section(key, seconds, tuple(rows), interrupted)

    @property
    def title(self) -> str:
        over = ", interrupted" if self.interrupted else ""
        return f"key {', '.join(map(str, self.key)) or '()'}: {self.seconds:.2g} s{over}"

    def cells(self) -> list[tuple[str, ...]]:
        """The texts under `HEADINGS`."""
        best = min((row.low for row in self.rows if row.status == "ok"), default=math.inf)
        none = ("",) * 4
        return [(row.config, *(times(row, best) if row.status == "ok" else none), row.verdict) for row in self.rows]


def times(row: ConfigResult, best: float) -> tuple[str, ...]:
    return *(f"{t:.4g} ms" for t in (row.median, row.low, row.high)), f"{row.low / best:.2f}x"


@dataclass(frozen=True, slots=True)
class TuningReport(Shown):
    """What was tried for a kernel in this process. `print` shows it; a notebook shows a table."""

    kernel: str
    sections: tuple[Section, ...]

    def __str__(self) -> str:
        lines = [f"tuning of {self.kernel}" if self.sections else f"tuning of {self.kernel}: {_NOTHING}"]
        for section in self.sections:
            rows = [HEADINGS, *section.cells()]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines.append(section.title)
            lines += [aligned(row, widths) for row in rows]
        return "\n".join(lines)

    def tables(self) -> list[Table]:
        """Return the sections as rich tables."""
        from rich.table import Table

        tables = []
        for section in self.sections:
            drawn = Table(*HEADINGS, title=f"{self.kernel}, {section.title}", title_justify="left")
            for texts in section.cells():
                drawn.add_row(*texts)
            tables.append(drawn)
        return tables

    def _repr_html_(self) -> str:
        if not self.sections:
            return card(f"tuning of {self.kernel}", note=_NOTHING)
        return card(f"tuning of {self.kernel}", *(part for s in self.sections for part in section_parts(s)))

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the times of every configuration, the fastest at the top; matplotlib's figure, which a notebook shows.

        Parameters
        ----------
        path : str or Path, optional
            A file to write, as in ``tuning.png``.

        Raises
        ------
        PyptoError
            When matplotlib is not installed, or nothing was tried.
        """
        shown = [s for s in self.sections if any(r.status == "ok" for r in s.rows)]
        try:
            figures = importlib.import_module("matplotlib.figure")
        except ImportError:
            raise PyptoError(f"a plot needs matplotlib: {install_command('viz')}") from None
        if not shown:
            raise PyptoError(f"nothing was tried for {self.kernel} yet: launch it first")
        heights = [sum(r.status == "ok" for r in s.rows) for s in shown]
        size = 8, 1 + 0.3 * sum(heights) + 0.8 * len(shown)
        figure = shown_figure(figures.Figure)(figsize=size, layout="constrained")
        axes = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)
        for section, axis in zip(shown, axes[:, 0], strict=True):
            draw(section, axis)
        if path is not None:
            figure.savefig(path)
        return figure


def section_parts(section: Section) -> Iterator[Markup]:
    """Return a section as HTML: its title and its table, with the chosen configuration marked."""
    yield note(section.title)
    pairs = zip(section.rows, section.cells(), strict=True)
    rows = (cells("td", texts, _NUMBERS, class_="best" if row.chosen else "") for row, texts in pairs)
    yield table(HEADINGS, rows, _NUMBERS)


def aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """Return a line of the table, with times aligned right and words aligned left."""
    cells = [c.rjust(w) if 0 < n < 5 else c.ljust(w) for n, (c, w) in enumerate(zip(row, widths, strict=True))]
    return "  ".join(["", *cells]).rstrip()


def shown_figure(kind: type[Any]) -> type[Any]:
    """Wrap matplotlib's figure so that a notebook shows it, which otherwise needs pyplot."""

    def _repr_png_(figure: Any) -> bytes:
        file = io.BytesIO()
        figure.savefig(file, format="png")
        return file.getvalue()

    return type("Figure", (kind,), {"_repr_png_": _repr_png_})


def draw(section: Section, axis: Any) -> None:
    rows = [r for r in section.rows if r.status == "ok"]
    errors = [[max(0.0, r.median - r.low) for r in rows], [max(0.0, r.high - r.median) for r in rows]]
    colors = ["#0b7285" if r.chosen else "#adb5bd" for r in rows]
    axis.barh([r.config for r in rows], [r.median for r in rows], xerr=errors, color=colors)
    axis.invert_yaxis()
    axis.set(xlabel="ms (median; 20 % to 80 %)", title=section.title)
