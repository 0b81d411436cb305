"""Writes the timeline of a profile as JSON for Perfetto and chrome://tracing, with a track for every thread.

On a track, launches contain programs, programs contain labels, and labels contain lines. The format is Google's "Trace
Event Format": complete events (``ph: X``) with times in microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.backends.sites import Site
from pypto.profiler.recording import Counts
from pypto.profiler.rows import described, label_path, ranges, user_places

if TYPE_CHECKING:
    from pypto.profiler.profile import Launch, Profile

_WORKERS = 1000  # number of the first track that is not a caller's


@dataclass(frozen=True, slots=True)
class Face:
    """The display of a site: the labels around it, its name and details."""

    path: tuple[str, ...]
    kind: str
    title: str
    args: dict[str, Any]

    @staticmethod
    def of(site: Site) -> Face:
        if site.kind == "program":
            return Face((), "program", "program", {})
        file, lines, source = described(user_places(site))
        facts = {"where": f"{Path(file).name}:{ranges(lines)}", "bytes": site.bytes, "flops": site.flops}
        args = {name: value for name, value in facts.items() if value}
        return Face(label_path(site.labels), site.kind, f"{ranges(lines)}: {source}", args)


@dataclass(slots=True)
class Slice:
    """An interval of time in which a site ran, and the slices inside it."""

    begin: int
    end: int
    face: Face
    program: int
    inner: list[Slice] = field(default_factory=list)


def timeline_text(profile: Profile) -> str:
    """Returns the timeline as JSON, which depends only on the recorded times."""
    events: list[dict[str, Any]] = []
    tracks: dict[tuple[int, int], str] = {}
    processes: dict[int, int] = {}
    callers: dict[int, int] = {}
    faces: dict[tuple[Site, ...], list[Face]] = {}
    for launch in profile.launches:
        pid = processes.setdefault(launch.process, len(processes) + 1)
        caller = callers.setdefault(launch.thread, len(callers))
        if launch.sites not in faces:
            faces[launch.sites] = [Face.of(site) for site in launch.sites]
        for n, rows in enumerate(launch.events or [np.zeros((0, 4), np.int64)]):
            tid = _WORKERS + n if n else caller
            slices = list(tree(launch, faces[launch.sites], rows))
            if n == 0 or slices:
                tracks[pid, tid] = f"worker {n}" if n else f"caller {caller}"
                events += track(launch, slices, n == 0, {"pid": pid, "tid": tid}, profile.start_ns)
    trace = {"traceEvents": [*names(tracks), *events], "displayTimeUnit": "ns",
             "otherData": {f"dropped_{what}": count for what, count in profile.dropped.items()}}  # fmt: skip
    return json.dumps(trace, separators=(",", ":"))


def names(tracks: dict[tuple[int, int], str]) -> Iterator[dict[str, Any]]:
    for pid in sorted({pid for pid, _ in tracks}):
        yield {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": "pypto"}}
    for (pid, tid), text in sorted(tracks.items()):
        yield {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": text}}


def tree(launch: Launch, faces: list[Face], rows: Counts) -> Iterator[Slice]:
    """Yields the outermost slices of a thread, each with those inside; all lie within the launch."""
    low, high = launch.start_ns, launch.start_ns + launch.wall_ns
    around: list[Slice] = []
    for begin, end, site, program in sorted((b, -e, s, p) for s, p, b, e in rows.tolist()):
        slices = Slice(min(max(begin, low), high), min(max(-end, low), high), faces[site], program)
        while around and around[-1].end < slices.end:
            around.pop()
        if around:
            around[-1].inner.append(slices)
        else:
            yield slices
        around.append(slices)


def track(
    launch: Launch, slices: list[Slice], called: bool, where: dict[str, int], origin: int
) -> Iterator[dict[str, Any]]:
    """Yields the events of one launch on one thread.

    On other threads than the caller's, the launch lasts from its first program to its last.
    """
    begin, end = launch.start_ns, launch.start_ns + launch.wall_ns
    if not called:
        begin, end = slices[0].begin, max(s.end for s in slices)
    args = {"grid": list(launch.grid), "threads": launch.threads}
    yield event(launch.kernel, "launch", begin - origin, end - origin, where, args)
    yield from inside(slices, 0, where, origin)


def inside(slices: list[Slice], depth: int, where: dict[str, int], origin: int) -> Iterator[dict[str, Any]]:
    """Yields the events of slices in their order; a slice of their label surrounds neighbours under one label.

    `depth` labels have slices already.
    """
    for name, group in groupby(slices, lambda s: s.face.path[depth : depth + 1]):
        members = list(group)
        if name:
            yield event(name[0], "label", members[0].begin - origin, members[-1].end - origin, where, {})
            yield from inside(members, depth + 1, where, origin)
            continue
        for s in members:
            title = f"program {s.program}" if s.face.kind == "program" else s.face.title
            args = {"program": s.program, **s.face.args}
            yield event(title, s.face.kind, s.begin - origin, s.end - origin, where, args)
            yield from inside(s.inner, depth, where, origin)


def event(name: str, kind: str, begin: int, end: int, where: dict[str, int], args: dict[str, Any]) -> dict[str, Any]:
    times = {"ts": round(begin / 1000, 3), "dur": round((end - begin) / 1000, 3)}
    return {"name": name, "cat": kind, "ph": "X", **times, **where, **({"args": args} if args else {})}
