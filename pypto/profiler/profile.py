"""`pto.profile` measures the launches of a `with` block."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto.jit import Kernel
from pypto.markup import Shown
from pypto.profiler.torch_operators import OURS, TorchEvents
from pypto.runtime.launch import Sizes, Values
from pypto.runtime.mode import MODE, mode
from pypto.runtime.tensors import span

if TYPE_CHECKING:
    from rich.table import Table

    from pypto.profiler.recording import Recording
    from pypto.profiler.rows import ProfileRow
    from pypto.profiler.wall import WallRow

_EVENTS_PER_LAUNCH = 1 << 14  # on one thread


@dataclass(slots=True)
class Launch:
    """The record of one launch.

    `start_ns` counts from the beginning of the profile; `events` hold, per thread, rows of site, program, begin and
    end, the last two in nanoseconds like `start_ns`. `sites` is empty where the kernel ran without timing itself.
    """

    kernel: str
    grid: Sizes
    threads: int
    start_ns: int
    wall_ns: int
    sites: tuple[Any, ...] = ()
    events: list[Any] = field(default_factory=list)
    thread: int = 0  # that made the launch
    process: int = 0


@dataclass(slots=True)
class Version:
    """The totals of all launches of one version: cycles and runs by site, and the cycles of some programs."""

    kernel: Kernel
    sites: tuple[Any, ...]
    program: Any = None
    totals: Any = 0
    samples: list[Any] = field(default_factory=list)
    launches: int = 0
    programs: int = 0
    wall_ns: int = 0


class Profile(Shown):
    """The result of `profile`.

    Attributes
    ----------
    launches : list of Launch
        Every launch, in order, as far as the limit allows.
    dropped : dict of str to int
        Events, programs and launches beyond the limit: they count in every total, but not in the timeline, in minimum
        and median, or in `launches`.
    problems : list of str
        The reasons why some launches were not timed inside.
    elapsed_ns, overhead_ns : int
        Time in the `with` block, and the part of it in which the profiler itself worked around launches.
    """

    def __init__(self, limit: int) -> None:
        self.launches: list[Launch] = []
        self.dropped = {"events": 0, "programs": 0, "launches": 0}
        self.problems: list[str] = []
        self.versions: dict[tuple[int, tuple[Any, ...]], Version] = {}
        self.limit = self.room = limit  # in events
        self.outer: Profile | None = None
        self.start_ns = 0
        self.torch = TorchEvents()
        self.elapsed_ns = self.overhead_ns = 0
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._block = contextlib.ExitStack()
        self._open = False

    def __enter__(self) -> Profile:
        if self._open:
            raise RuntimeError("this profile is open already; use another `with pto.profile() as …` inside")
        around = getattr(MODE.get().watch, "__self__", None)
        self.outer = around if isinstance(around, Profile) else None
        self._block.enter_context(self.torch.recording())
        self._block.enter_context(mode(watch=self.watch))
        self._block.enter_context(self.timing())
        self._open = True
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._block.close()

    @contextlib.contextmanager
    def timing(self) -> Iterator[None]:
        """Measures the time of the block."""
        start = time.perf_counter_ns()
        self.start_ns = self.start_ns or start
        try:
            yield
        finally:
            self.elapsed_ns += time.perf_counter_ns() - start

    @property
    def wall_ns(self) -> int:
        """Returns the wall time of the block without the profiler's own work around launches."""
        return self.elapsed_ns - self.overhead_ns

    # --- what it found -------------------------------------------------------------------------------------------

    @property
    def rows(self) -> tuple[ProfileRow, ...]:
        """Returns rows by kernel, label and line, as plain data: `dataclasses.asdict` makes one a dict for JSON."""
        from pypto.profiler.rows import make_rows

        return make_rows(list(self.versions.values()))

    @property
    def operators(self) -> tuple[WallRow, ...]:
        """Returns where the wall time goes: operators of torch, kernels, and all the rest; shares add up to 1."""
        from pypto.profiler.wall import wall_rows

        return wall_rows(self)

    @property
    def modules(self) -> tuple[WallRow, ...]:
        """Returns the modules of torch that ran, with the wall time of all that they did."""
        from pypto.profiler.wall import module_rows

        return module_rows(self)

    def table(self) -> Table:
        """Returns the rows as a table of `rich`, which `rich.print` and a notebook show."""
        from pypto.profiler.table import make_table

        return make_table(self)

    def timeline(self, path: str | os.PathLike[str]) -> Path:
        """Writes a timeline for ui.perfetto.dev or chrome://tracing: JSON with a track for every thread."""
        from pypto.profiler.timeline import timeline_text

        Path(path).write_text(timeline_text(self), encoding="utf-8")
        return Path(path)

    def __str__(self) -> str:
        from pypto.profiler.table import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from pypto.profiler.table import as_html

        return as_html(self)

    # --- launches ------------------------------------------------------------------------------------------------

    def watch(self, kernel: Kernel, sizes: Sizes, values: Values, interpret: bool) -> None:
        """Runs a kernel and records its times. If the profiler fails, the kernel still runs."""
        start = time.perf_counter_ns()
        with span(OURS):
            wall = self.measure(kernel, sizes, values, interpret)
        overhead = time.perf_counter_ns() - start - wall
        for profile in self.all():
            with profile.locked():
                profile.overhead_ns += overhead

    def measure(self, kernel: Kernel, sizes: Sizes, values: Values, interpret: bool) -> int:
        """Runs a kernel, records its times, and returns the nanoseconds of the launch."""
        if interpret:
            return self.plain(kernel, sizes, lambda: kernel.interpret(sizes, values))
        try:
            prepared = self.prepare(kernel, sizes, values)
        except Exception as error:  # the user's own mistakes come again below, without the profiler
            return self.plain(kernel, sizes, lambda: MODE.get().launch(kernel, sizes, values), str(error))
        plan, launch, recording, now = prepared
        with span(kernel.signature.kernel):
            start = time.perf_counter_ns()
            if sizes[0] * sizes[1] * sizes[2]:
                plan.run(*launch)
            wall = time.perf_counter_ns() - start
        try:
            self.collect(kernel, plan, launch, recording, (now, start, wall))
        except Exception as error:  # the launch itself is done
            self.note(f"{kernel.signature.kernel}: {error}")
        return wall

    def plain(self, kernel: Kernel, sizes: Sizes, call: Callable[[], None], problem: str = "") -> int:
        """Records a launch of which only the total time is known, and returns it."""
        with span(kernel.signature.kernel):
            start = time.perf_counter_ns()
            call()
            wall = time.perf_counter_ns() - start
        if problem:
            self.note(f"{kernel.signature.kernel}: {problem}")
        launch = Launch(kernel.signature.kernel, sizes, 1, start, wall, (), [], threading.get_native_id(), os.getpid())
        for profile in self.all():
            profile.add(kernel, launch, None)
        return wall

    def prepare(self, kernel: Kernel, sizes: Sizes, values: Values) -> tuple[Any, tuple[Any, ...], Recording, Any]:
        from pypto.profiler.clock import clock
        from pypto.profiler.recording import Recording

        if MODE.get().device:
            raise RuntimeError("on a device, only whole launches are timed")
        plan, launch = kernel.profiled.ready(sizes, values)
        if not plan.version.program.artifact.sites:
            raise RuntimeError("the backend of these arrays times whole launches alone")
        _, _, _, scratch, threads = launch
        artifact = plan.version.program.artifact
        with self.locked():
            events = max(0, min(self.room // threads, _EVENTS_PER_LAUNCH))
        programs = min(events, -(-sizes[0] * sizes[1] * sizes[2]))
        recording = Recording.begin(artifact, scratch, plan.slots[4], threads, events, programs)
        return plan, launch, recording, clock().now()

    def collect(self, kernel: Kernel, plan: Any, launch: tuple[Any, ...], recording: Recording, times: Any) -> None:
        """Reads the records of a launch, and adds them to this profile and the surrounding ones."""
        from pypto.profiler.clock import clock

        (count, at), start, wall = times
        events = recording.kept_events()
        for rows in events:
            rows[:, 2:] = (rows[:, 2:] - count) * clock().ns + at
        collected = Launch(
            kernel.signature.kernel,
            launch[0],
            launch[4],
            start,
            wall,
            plan.version.program.artifact.sites,
            events,
            threading.get_native_id(),
            os.getpid(),
        )
        for profile in self.all():
            profile.add(kernel, collected, recording, plan.version.program)

    def add(self, kernel: Kernel, launch: Launch, recording: Recording | None, program: Any = None) -> None:
        """Counts a launch, and stores its records within the limit."""
        x, y, z = launch.grid
        with self.locked():
            version = self.versions.setdefault((id(kernel), launch.sites), Version(kernel, launch.sites, program))
            version.launches += 1
            version.programs += x * y * z
            version.wall_ns += launch.wall_ns
            if recording is not None:
                version.totals = version.totals + recording.totals
                self.keep(version, launch, recording)
            if len(self.launches) < self.limit:
                self.launches.append(launch)
            else:
                self.dropped["launches"] += 1

    def keep(self, version: Version, launch: Launch, recording: Recording) -> None:
        """Stores events and programs of a launch within the limit, and counts the others."""
        events, samples = sum(map(len, launch.events)), recording.kept_programs()
        lost, missed = recording.dropped
        needed = events + samples.size // 4
        if needed > self.room:
            lost, missed, needed, launch.events, samples = lost + events, missed + len(samples), 0, [], samples[:0]
        self.room -= needed
        self.dropped["events"] += lost
        self.dropped["programs"] += missed
        if len(samples):
            version.samples.append(samples)

    def note(self, problem: str) -> None:
        for profile in self.all():
            if problem not in profile.problems:
                profile.problems.append(problem)

    def all(self) -> list[Profile]:
        """Returns this profile and the surrounding ones."""
        return [self] if self.outer is None else [self, *self.outer.all()]

    def locked(self) -> threading.Lock:
        """Returns the lock; a forked child gets a new one, since another thread may have held the old one."""
        if self.process != os.getpid():
            self.process, self._lock = os.getpid(), threading.Lock()
        return self._lock


def profile(limit: int = 200_000) -> Profile:
    """Profiles a `with` block: where its time goes, by operator of torch, kernel, label and source line.

    Parts of a kernel are named by ``with pto.label("…"):``. The kernels are compiled once more, for the profile alone:
    these versions read a clock around every statement that is left after fusion, and what was fused from several lines
    names them all. Loops over tiles cost some percent, tiny programs more. Only launches of the block's own thread (or
    of a context that is copied from it) are watched; all threads of such a launch are.

    Parameters
    ----------
    limit : int
        Events to keep, of 32 bytes each. Beyond it only totals are counted, and `dropped` says how many were not kept.

    Returns
    -------
    Profile
        With `operators` (where the wall time goes: operators of torch, kernels, Python), `modules` of torch, `rows` of
        kernels by label and line, `table()`, `timeline(path)`, and all as tables in notebooks and under `print`.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.jit
    ... def double(x, y):
    ...     with pto.label("twice"):
    ...         y[:] = x[:] * 2
    >>> x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    >>> with pto.profile() as prof:
    ...     double[(1,)](x, y)
    >>> [(row.level, row.label, row.runs) for row in prof.rows[:3]]
    [('kernel', '', 1), ('label', 'twice', 1), ('line', 'twice', 1)]
    """
    return Profile(limit)
