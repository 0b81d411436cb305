"""``python -m benchmarks compare OLD.json NEW.json``: what got slower, by ratio.

Times of two runs cannot be compared where machines are shared; ratios can. A row is compared by its ratio to the best
of those peers that both files have, or by its fraction of the machine's limit where they have none in common. Probes
and stages of the compiler have no peer: their times are counted in multiply-adds that the machine could have done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.runner import OURS

if TYPE_CHECKING:
    from rich.table import Table

THRESHOLD: Final = 0.1
SHORTEST: Final = 2e-3  # a stage of the compiler that takes less is not compared
Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One figure in both runs, greater is better; `new` is 0 where it is gone."""

    what: str
    by: str
    old: float
    new: float

    @property
    def factor(self) -> float:
        """How much faster it has become."""
        return self.new / self.old


def load(path: Path) -> Data:
    """A run's JSON.

    Raises
    ------
    ValueError
        If the file holds no run.
    """
    data = json.loads(path.read_text("utf-8"))
    if not isinstance(data, dict) or not {"suite", "rows", "limits"} <= data.keys() or not _has_ratios(data):
        raise ValueError(f"{path} holds no run of this version; write one with: python -m benchmarks SUITE --json FILE")
    return data


def _has_ratios(data: Data) -> bool:
    return all("ours_is" in one for row in data["rows"] for one in row["implementations"].values())


def changes(old: Data, new: Data) -> list[Change]:
    """All figures of the old run with those of the new one."""
    found = [*_rows(old, new), *_probes(old, new), *_growths(old, new)]
    return sorted(found, key=lambda change: change.factor)


def worse(found: Iterable[Change], threshold: float = THRESHOLD) -> list[Change]:
    """Those that lost more than a part of their speed."""
    return [change for change in found if change.factor < 1 - threshold]


def _key(row: Data) -> tuple[str, str, int]:
    return row["name"], row["shape"], row["threads"]


def _rows(old: Data, new: Data) -> Iterator[Change]:
    later = {_key(row): row for row in new["rows"]}
    for row in old["rows"]:
        if OURS not in row["implementations"]:
            continue
        name, shape, threads = _key(row)
        what = f"{name} {shape}, {threads} thread{'s' * (threads > 1)}"
        other = later.get(_key(row))
        if other is None or OURS not in other["implementations"]:
            yield Change(what, "gone", 1.0, 0.0)
            continue
        change = _compared(what, row["implementations"], other["implementations"])
        if change is not None:
            yield change


def _compared(what: str, before: Data, after: Data) -> Change | None:
    peers = sorted((before.keys() & after.keys()) - {OURS})
    if peers:
        return Change(what, "best peer", _ratio(before, peers), _ratio(after, peers))
    old, new = before[OURS]["of_limit"], after[OURS]["of_limit"]
    return Change(what, "limit", old, new) if old and new else None


def _ratio(implementations: Data, peers: Iterable[str]) -> float:
    return float(min(implementations[peer]["ours_is"] for peer in peers))


def _probes(old: Data, new: Data) -> Iterator[Change]:
    later = {(p["name"], p["what"]): p["minimum_s"] for p in new["probes"]}
    for probe in old["probes"]:
        before, after = probe["minimum_s"], later.get((probe["name"], probe["what"]))
        if before:
            yield _timed(f"{probe['name']}: {probe['what']}", before, after, old, new)


def _growths(old: Data, new: Data) -> Iterator[Change]:
    later = {g["name"]: g for g in new["growths"]}
    for growth in old["growths"]:
        other = later.get(growth["name"], {"lines": [], "seconds": {}})
        for stage, times in growth["seconds"].items():
            after = dict(zip(other["lines"], other["seconds"].get(stage, ()), strict=False))
            for lines, before in zip(growth["lines"], times, strict=True):
                if before > SHORTEST:
                    what = f"compiling {growth['name']}, {lines} lines: {stage}"
                    yield _timed(what, before, after.get(lines), old, new)


def _timed(what: str, before: float, after: float | None, old: Data, new: Data) -> Change:
    if not after:
        return Change(what, "gone", 1.0, 0.0)
    return Change(what, "1 / Gflop", 1e9 / (before * _speed(old)), 1e9 / (after * _speed(new)))


def _speed(data: Data) -> float:
    return float(data["limits"]["fma"]["1"])


def table(found: Iterable[Change]) -> Table:
    """Changes for the terminal."""
    from rich.table import Table

    made = Table("what", "by", "old", "new", "change", title="what got worse", title_justify="left")
    for change in found:
        made.add_row(change.what, change.by, f"{change.old:.3g}", f"{change.new:.3g}", f"{change.factor - 1:+.0%}")
    return made
