"""Reports on routes: a row for each version of each routed operator, as a table, JSON, or text for Prometheus."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pypto.markup import Markup, Shown, card, note
from pypto.markup import table as html_table
from pypto.profiler.table import duration

if TYPE_CHECKING:
    from rich.table import Table

    from pypto.routing.route import Route
    from pypto.routing.versions import Version

HEADINGS: Final = (
    "operator", "version", "share", "calls", "answers", "p50", "p99", "bytes", "compared", "difference", "fallbacks",
    "state",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class VersionCounts:
    """The counts of one version.

    Attributes
    ----------
    operator, version : str
    share : float
        The part of the calls that it is given.
    calls, answers, computed, compared : int
        Calls given to it, calls whose caller got its results, calls that it computed, and those that were compared.
    p50, p99, seconds : float
        Median and 99th percentile of the seconds of its last 1,024 calls, and the sum of all.
    bytes : int
        Bytes of arguments and results of the calls that it computed.
    fallbacks : int
        Calls given to it that the reference answered, as it failed, was demoted, or does not take such arguments.
    reasons : dict of str to int
        The fallbacks by reason.
    difference : float
        The largest absolute difference from the reference.
    state : str
        ``"reference"``, ``"answers"``, ``"idle"``, or ``"demoted: "`` and the reason.
    """

    operator: str
    version: str
    share: float
    calls: int
    answers: int
    computed: int
    compared: int
    p50: float
    p99: float
    seconds: float
    bytes: int
    fallbacks: int
    reasons: dict[str, int]
    difference: float
    state: str

    @staticmethod
    def of(route: Route, version: Version) -> VersionCounts:
        """Returns the row of a version."""
        right = version.name == (route.reference or route.default().version)
        state = "reference" if right else "answers" if version.share else "idle"
        return VersionCounts(
            route.name, version.name, version.share, version.calls, version.answers, version.computed,
            version.compared, version.quantile(0.5), version.quantile(0.99), version.seconds, version.bytes,
            version.failures.total(), dict(sorted(version.failures.items())), version.difference,
            f"demoted: {version.demoted}" if version.demoted else state,
        )  # fmt: skip

    @property
    def cells(self) -> tuple[str, ...]:
        """Returns the texts under `HEADINGS`."""
        times = (duration(1e9 * seconds) if self.computed else "" for seconds in (self.p50, self.p99))
        why = ", ".join(f"{count:,} {reason}" for reason, count in self.reasons.items())
        difference = f"{self.difference:.1e}" if self.compared else ""
        return (
            self.operator, self.version, f"{self.share:.1%}", f"{self.calls:,}", f"{self.answers:,}", *times,
            f"{self.bytes:,}", f"{self.compared:,}", difference, why, self.state,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report(Shown):
    """The counts of some routes.

    Attributes
    ----------
    rows : tuple of VersionCounts
    stuck : int
        Threads that have not returned from a version within its time limit. Each keeps a core and its memory.
    remarks : tuple of str
        Lines below the table.
    """

    rows: tuple[VersionCounts, ...]
    stuck: int
    remarks: tuple[str, ...] = ()

    @staticmethod
    def of(routes: Iterable[Route]) -> Report:
        """Returns the counts of routes, without versions that got no calls."""
        listed, stuck = [], 0
        for route in routes:
            with route.lock:
                used = [v for v in route.versions.values() if v.share or v.calls or v.computed]
                listed += [VersionCounts.of(route, version) for version in used]
                stuck += route.threads.stuck
        return Report(tuple(listed), stuck)

    @property
    def notes(self) -> list[str]:
        """Returns the remarks below the table."""
        lines = ["p50 and p99: of the last 1,024 calls", *self.remarks]
        return [*lines, f"{self.stuck} threads have not returned within their limit"] if self.stuck else lines

    def table(self) -> Table:
        """Returns a table of `rich`."""
        from rich.table import Table

        table = Table(caption="\n".join(self.notes), caption_justify="left", header_style="bold")
        for n, heading in enumerate(HEADINGS):
            table.add_column(heading, justify="right" if 2 <= n <= 9 else "left")
        for row in self.rows:
            table.add_row(*row.cells, style="red" if row.state.startswith("demoted") else "")
        return table

    def json(self) -> str:
        """Returns all rows as JSON."""
        return json.dumps(
            {"stuck": self.stuck, "remarks": self.remarks, "operators": [asdict(row) for row in self.rows]}, indent=1
        )

    def prometheus(self) -> str:
        """Returns all rows in Prometheus' text format; it needs `prometheus_client`."""
        from pypto.routing.prometheus import text

        return text(self)

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=160, color_system=None, force_jupyter=False)
        console.print(self.table())
        text: str = console.file.getvalue()  # type: ignore[attr-defined]  # the file is the StringIO above
        return text

    def _repr_html_(self) -> Markup:
        rows: list[tuple[Any, ...]] = [row.cells for row in self.rows]
        return card("operators", html_table(HEADINGS, rows, range(2, 10)), *(note(line) for line in self.notes))
