"""Measures a run of a plan step by step, as a table and as a timeline for Perfetto.

The timeline has the form of Google's "Trace Event Format": complete events for steps, arrows (flow events) from the
step that writes an array to those that read it, and counters for what is alive in the arena.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from pypto.backends.findings import byte_text
from pypto.graph.plan.execution_context import Frame
from pypto.graph.plan.plan import NO_MEMORY, Plan, places
from pypto.graph.plan.plan_cache import Planned
from pypto.graph.views.arena import live_bytes
from pypto.graph.views.execution import dependencies
from pypto.graph.views.words import form_of, step_name
from pypto.markup import Shown, bar, card, table, tag
from pypto.markup.drawings import hue_of
from pypto.profiler.timeline import event, names

Array = np.ndarray[Any, Any]
ROUNDS: Final = 5  # of which the fastest is shown
_TRACK: Final = {"pid": 1, "tid": 0}


@dataclass(frozen=True, slots=True)
class StepTime:
    """The time of one step of a run.

    Attributes
    ----------
    number : int
    kernel, form, lines : str
        What it launches, and the user's lines.
    grid : tuple of int
    start_ns, wall_ns : int
        From the beginning of the run.
    arena : int
        Bytes of the arena that are alive in it.
    """

    number: int
    kernel: str
    form: str
    lines: str
    grid: tuple[int, ...]
    start_ns: int
    wall_ns: int
    arena: int


@dataclass(frozen=True, slots=True)
class PlanProfile(Shown):
    """The times of one run of a plan.

    Attributes
    ----------
    function : str
    steps : tuple of StepTime
    edges : tuple of (int, int, str)
        Steps of which the second reads an array that the first writes, and the array.
    """

    function: str
    steps: tuple[StepTime, ...]
    edges: tuple[tuple[int, int, str], ...]

    @property
    def total_ns(self) -> int:
        """Returns the time from the beginning of the first step to the end of the last."""
        return max((s.start_ns + s.wall_ns for s in self.steps), default=0)

    def timeline_text(self) -> str:
        """Returns the timeline as JSON."""
        events = [*names({(1, 0): "steps"}), *counters(self.steps), *map(slice_of, self.steps)]
        for number, edge in enumerate(self.edges):
            events += flow(number, *edge, self.steps)
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, separators=(",", ":"))

    def timeline(self, path: str | os.PathLike[str]) -> Path:
        """Writes a timeline for ui.perfetto.dev or chrome://tracing."""
        Path(path).write_text(self.timeline_text(), encoding="utf-8")
        return Path(path)

    def __str__(self) -> str:
        total = max(1, self.total_ns)
        width = max((len(s.kernel) for s in self.steps), default=0)
        shares = (f"{time_text(s.wall_ns):>9}  {100 * s.wall_ns / total:3.0f} %" for s in self.steps)
        pairs = zip(self.steps, shares, strict=True)
        rows = (f"  {s.number:3} {s.kernel:{width}}  {share}  {s.lines}" for s, share in pairs)
        return "\n".join([f"{self.function}: {len(self.steps)} steps in {time_text(self.total_ns)}", *rows])

    def _repr_html_(self) -> str:
        total = max(1, self.total_ns)
        rows = (
            (s.number, tag("code", s.kernel), tag("span", s.form, class_=f"form {hue_of(s.form)}"),
             bar(s.wall_ns / total, time_text(s.wall_ns)), byte_text(s.arena), s.lines)
            for s in self.steps
        )  # fmt: skip
        shown = table(("", "kernel", "form", "time", "arena", "lines"), rows, (0, 4))
        return card(f"{self.function}: {time_text(self.total_ns)}", shown, note=f"the fastest of {ROUNDS} runs")


def time_text(ns: int) -> str:
    """Formats a time with its unit.

    Examples
    --------
    >>> time_text(1200), time_text(3_456_000)
    ('1.2 µs', '3.46 ms')
    """
    return f"{ns / 1e6:.3g} ms" if ns >= 1_000_000 else f"{ns / 1e3:.3g} µs"


def measured(fused: Planned, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PlanProfile:
    """Measures some runs of a plan on one arena, and returns the fastest, which other processes disturbed least."""
    version, arrays, sizes = fused.version_for(args, kwargs)
    plan = version.plan
    plan.compile(arrays)
    frame = Frame(plan, len(arrays), dict(sizes))
    run_timed(frame, arrays)  # steps are prepared by their first runs
    runs = [run_timed(frame, arrays) for _ in range(ROUNDS)]
    times = min(runs, key=lambda run: run[-1][1] if run else 0)
    steps = tuple(
        StepTime(n, step_name(step), form_of(step), places(step.nodes), call.step.grid, begin, end - begin, live)
        for n, (step, call, (begin, end), live) in enumerate(
            zip(plan.steps, frame.steps, times, live_bytes(plan), strict=True)
        )
    )
    return PlanProfile(plan.graph.name, steps, tuple(edges(plan)))


def edges(plan: Plan) -> Iterator[tuple[int, int, str]]:
    for source, target, node in dependencies(plan.steps):
        yield source, target, f"%{node.number} {node.type}"


def run_timed(frame: Frame, arrays: list[Array]) -> list[tuple[int, int]]:
    """Runs a plan, and returns the beginning and end of every step, in nanoseconds from the beginning of the run."""
    frame.enter(arrays, NO_MEMORY)
    now = time.perf_counter_ns
    origin = now()
    times = []
    for step in frame.steps:
        begin = now()
        step.run(frame)
        times.append((begin - origin, now() - origin))
    frame.leave()
    return times


def slice_of(step: StepTime) -> dict[str, Any]:
    """Returns a step as a complete event."""
    args = {"step": step.number, "form": step.form, "lines": step.lines, "grid": list(step.grid), "arena": step.arena}
    return event(step.kernel, "step", step.start_ns, step.start_ns + step.wall_ns, _TRACK, args)


def counters(steps: tuple[StepTime, ...]) -> Iterator[dict[str, Any]]:
    """Yields counters of the live bytes of the arena at the beginning of every step, and 0 after the last."""
    points = [(s.start_ns, s.arena) for s in steps]
    points += [(steps[-1].start_ns + steps[-1].wall_ns, 0)] if steps else []
    for at, live in points:
        yield {"name": "arena", "ph": "C", "ts": round(at / 1000, 3), **_TRACK, "args": {"bytes": live}}


def flow(number: int, source: int, target: int, array: str, steps: tuple[StepTime, ...]) -> list[dict[str, Any]]:
    """Returns an arrow from the last moment of a step to the beginning of another."""
    start, end = steps[source], steps[target]
    last = start.start_ns + max(0, start.wall_ns - 1)
    same: Mapping[str, Any] = {"name": array, "cat": "array", "id": number, **_TRACK}
    return [
        {**same, "ph": "s", "ts": round(last / 1000, 3)},
        {**same, "ph": "f", "bp": "e", "ts": round(end.start_ns / 1000, 3)},
    ]
