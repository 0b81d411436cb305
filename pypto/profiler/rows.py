"""Builds the rows of a profile: kernels, their nested labels, and lines below these, in the order of the source."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from typing import Any

import numpy as np

from pypto.backends.sites import Site
from pypto.profiler.clock import clock
from pypto.profiler.profile import Version
from pypto.profiler.recording import own_time

REST = "scalars, control flow and the timing itself"


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """The times of one kernel, label or place in the source.

    Attributes
    ----------
    level : str
        ``kernel``, ``label`` or ``line``.
    depth : int
        How deep the row stands: a row's time is contained in the nearest row above that stands less deep.
    kernel, label : str
        What the row belongs to; a nested label is ``outer/inner``, and ``a + b`` what two labels share a loop for.
    file, lines : str, tuple of int
        The lines that the statement was made from.
    source : str
        Text of the last of these lines, which is what the others lead to.
    kind : str
        ``nest``, ``dot``, ``pack``, ``sort``, ``loop``, ``branch``, ``program``; several are joined by commas.
    share : float
        Part of the time of all kernels, 0 to 1. Those of all lines add up to 1.
    total_ns : float
        Time of all threads, in nanoseconds; of a kernel that was not timed inside, of the launches.
    runs : int
        How often it ran: for a kernel, its programs.
    min_ns, median_ns : float or None
        Time in one program; None where no program was kept.
    bytes, flops : int
        What whole tiles move from and to arrays, and multiplications and additions of dots; 0 where that is unknown.
    origins : tuple of str
        Of a kernel that was generated, as for torch.compile: lines of the program that it computes.
    """

    level: str
    depth: int
    kernel: str
    label: str
    file: str
    lines: tuple[int, ...]
    source: str
    kind: str
    share: float
    total_ns: float
    runs: int
    min_ns: float | None
    median_ns: float | None
    bytes: int
    flops: int
    origins: tuple[str, ...] = ()


@dataclass(slots=True)
class Leaf:
    """The sum of all sites of a kernel with one label and place."""

    path: tuple[str, ...]
    places: tuple[tuple[str, int], ...]
    kinds: dict[str, None] = field(default_factory=dict)
    total_ns: float = 0
    bytes: int = 0
    flops: int = 0
    runs: dict[int, int] = field(default_factory=dict)  # by version, like `samples`: nanoseconds per program
    samples: dict[int, Any] = field(default_factory=dict)


def make_rows(versions: list[Version]) -> tuple[ProfileRow, ...]:
    groups: dict[int, list[Version]] = {}
    for version in versions:
        groups.setdefault(id(version.kernel), []).append(version)
    kernels = [(group, leaves(group)) for group in groups.values()]
    all_ns = sum(leaf.total_ns for _, members in kernels for leaf in members) or 1.0
    return tuple(row for group, members in kernels for row in kernel_rows(group, members, all_ns))


def kernel_rows(versions: list[Version], leaves: list[Leaf], all_ns: float) -> Iterator[ProfileRow]:
    name = versions[0].kernel.signature.kernel
    kinds = "" if any(v.sites for v in versions) else "whole launch"
    origins, programs = versions[0].kernel.origins, sum(v.programs for v in versions)
    yield row("kernel", 0, name, leaves, all_ns, runs=programs, kind=kinds, origins=origins)
    yield from nested([leaf for leaf in leaves if leaf.kinds], (), name, all_ns)


def nested(leaves: list[Leaf], prefix: tuple[str, ...], kernel: str, all_ns: float) -> Iterator[ProfileRow]:
    """Yields the rows below a label: lines, and inner labels, each followed by the rows below it."""
    depth = len(prefix)
    inner: dict[Any, list[Leaf]] = {}
    for leaf in leaves:
        inner.setdefault(leaf.path[depth] if len(leaf.path) > depth else id(leaf), []).append(leaf)
    for name, part in inner.items():
        if isinstance(name, str):
            yield row("label", depth + 1, kernel, part, all_ns, label="/".join((*prefix, name)))
            yield from nested(part, (*prefix, name), kernel, all_ns)
        else:
            kinds = ", ".join(part[0].kinds)
            yield row("line", depth + 1, kernel, part, all_ns, label="/".join(prefix), kind=kinds)


def row(level: str, depth: int, kernel: str, leaves: list[Leaf], all_ns: float, **given: Any) -> ProfileRow:
    """Returns the row of the sum of some leaves."""
    total = sum(leaf.total_ns for leaf in leaves)
    times = per_program(leaves)
    file, lines, source = described(leaves[0].places) if level == "line" else ("", (), "")
    facts = {"label": "", "kind": "", "runs": max(sum(leaf.runs.values()) for leaf in leaves), **given}
    least, median = (float(times.min()), float(np.median(times))) if times.size else (None, None)
    return ProfileRow(level, depth, kernel, file=file, lines=lines, source=source, share=total / all_ns, total_ns=total,
        min_ns=least, median_ns=median, bytes=sum(leaf.bytes for leaf in leaves),
        flops=sum(leaf.flops for leaf in leaves), **facts)  # fmt: skip


def per_program(leaves: list[Leaf]) -> Any:
    """Returns the times of those programs that ran any of the leaves."""
    versions = dict.fromkeys(v for leaf in leaves for v in leaf.samples)
    sums = [sum(leaf.samples[v] for leaf in leaves if v in leaf.samples) for v in versions]
    times = np.concatenate(sums) if sums else np.zeros(0)
    return times[times > 0]


def leaves(versions: list[Version]) -> list[Leaf]:
    """Returns the leaves of a kernel, one for each label and place over all versions; that of programs is last."""
    by_path: dict[Any, Leaf] = {}
    for number, version in enumerate(versions):
        if not version.sites:
            by_path.setdefault(None, Leaf((), ())).total_ns += version.wall_ns
            continue
        samples = np.concatenate(version.samples) if version.samples else np.zeros((0, len(version.sites)), np.int64)
        times, programs = (own_time(x, version.sites) * clock().ns for x in (version.totals[0], samples))
        for index, site in enumerate(version.sites):
            path, places = label_path(site.labels), user_places(site)
            leaf = by_path.setdefault((path, places), Leaf(path, places))
            runs = int(version.totals[1][index])
            count(leaf, site, float(times[index]), runs)
            leaf.runs[number] = max(runs, leaf.runs.get(number, 0))
            leaf.samples[number] = leaf.samples.get(number, 0) + programs[:, index]
    return sorted(by_path.values(), key=lambda leaf: "program" in leaf.kinds)


def count(leaf: Leaf, site: Site, total_ns: float, runs: int) -> None:
    leaf.kinds[site.kind] = None
    leaf.total_ns += total_ns
    leaf.bytes += site.bytes * runs
    leaf.flops += site.flops * runs


def label_path(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the nested labels around a site.

    Several labels become the path that they share, and one name for their remainders.
    """
    paths = [label.split("/") for label in labels]
    if len(paths) < 2:
        return tuple(paths[0]) if paths else ()
    shared = [parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))]
    suffixes = ["/".join(path[len(shared) :]) for path in paths]
    return (*shared, " + ".join(filter(None, suffixes)))


def user_places(site: Site) -> tuple[tuple[str, int], ...]:
    """Returns the user's files and lines that a site was made from; none for the site of a program."""
    return () if site.kind == "program" else tuple(sorted({(loc.user.file, loc.user.line) for loc in site.locs}))


def described(places: tuple[tuple[str, int], ...]) -> tuple[str, tuple[int, ...], str]:
    """Returns the file, the lines, and the text of the last line."""
    if not places:
        return "", (), REST
    file = places[0][0]
    lines = tuple(line for name, line in places if name == file)
    return file, lines, ("… " if len(lines) > 1 else "") + linecache.getline(file, lines[-1]).strip()


def ranges(lines: Iterable[int]) -> str:
    """Formats line numbers as ranges.

    Examples
    --------
    >>> ranges([3, 4, 5, 9])
    '3-5, 9'
    """
    runs = [[line for _, line in group] for _, group in groupby(enumerate(lines), lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
