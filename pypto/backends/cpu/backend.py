"""The CPU as a `Backend`: lowering, LLVM and the thread pool."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pypto.backends.base import Artifact, Backend, Lines, Show, SlotNumber, timed
from pypto.backends.cpu.runtime.crash import CrashHandler, crash_object
from pypto.backends.cpu.runtime.engine import Engine, Loaded
from pypto.backends.cpu.runtime.pool import KERNEL, NativePool, PythonPool, Runner, is_native, pool_object
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Function
from pypto.ops.target import TargetConstants
from pypto.passes.manager import Pass

if TYPE_CHECKING:
    from pypto.backends.findings import Findings, LineDetails

SERIAL_BELOW = 8000.0  # nanoseconds of work for which waking a second thread does not pay
POLLED_ABOVE = 1e6  # nanoseconds of work from which signals are handled meanwhile
_TICKET_NS = 2000.0  # nanoseconds of work from which taking a ticket pays


def programs_per_ticket(cost: float) -> int:
    """Programs that a thread takes at a time, from the nanoseconds of one."""
    return max(1, int(_TICKET_NS / cost))


@dataclass(eq=False)
class CpuBackend(Backend):
    """Compiles for one CPU target. `stored` keeps helper code, such as the pool's, in the disk cache."""

    target: CpuTarget
    threads: int
    stored: Callable[[str, Callable[[], bytes]], bytes]
    native_pool: bool = field(default_factory=is_native)
    name: str = "cpu"
    keeps_places: bool = False
    reports: bool = True
    has_native_launches: bool = True
    runner: Runner | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.engine = Engine(self.target)
        self.record = (ctypes.c_int64 * 3)(0, 0, self.threads)  # code and state of the native pool, once it has started

    @property
    def constants(self) -> TargetConstants:
        return replace(self.target.constants, cores=self.threads, l2_bytes=self.target.caches[1])

    def key_parts(self) -> tuple[tuple[str, str], ...]:
        import llvmlite

        return ("target", repr(self.target)), ("llvmlite", llvmlite.__version__)

    def compile(self, function: Function, timings: dict[str, float]) -> Artifact:
        from pypto.backends.cpu.codegen.function import lower
        from pypto.backends.cpu.loopir.cost import is_bounded

        with timed(timings, "codegen"):
            lowered = lower(function, self.target)
        code = self.engine.compile(lowered.text, timings)
        return Artifact(
            name=lowered.name,
            abi=lowered.abi,
            scratch_bytes=lowered.scratch_bytes,
            cost=self.estimate(function),
            code=code,
            bounded=is_bounded(function),
            sites=lowered.sites,
            locality=lowered.locality,
            checks=lowered.checks,
            prints=lowered.prints,
        )

    def estimate(self, function: Function) -> float:
        from pypto.backends.cpu.loopir.cost import estimate

        return estimate(function, self.target)

    def load(self, artifact: Artifact) -> Loaded:
        loaded = self.engine.load(artifact.code, artifact.name)
        if self.crashes is not None:
            self.crashes.add(artifact.name, loaded.address, artifact.code)
        loaded.call = KERNEL(loaded.address)
        loaded.locality = artifact.locality
        loaded.bounded = artifact.bounded
        return loaded

    def located(self, artifact: Artifact, executable: Loaded, place: str) -> None:
        if self.crashes is not None and not artifact.checks:
            self.crashes.add(artifact.name, executable.address, artifact.code, place)

    @functools.cached_property
    def crashes(self) -> CrashHandler | None:
        """The handler that names the kernel when it ends the process; None on systems without it."""
        code = self.stored("crash", lambda: crash_object(self.engine)) if is_native() else b""
        return CrashHandler(self.engine, code) if code else None

    def run(self, executable: Loaded, args: int, programs: int, cost: float, threads: int) -> None:
        threads = min(threads, self.threads)
        polled = programs > 1 and (programs * cost > POLLED_ABOVE or not executable.bounded)
        is_serial = threads <= 1 or programs == 1 or programs * cost < SERIAL_BELOW
        if is_serial and not polled:
            executable.call(0, programs, 0, args)
            return
        threads = 1 if is_serial else threads
        self.pool().run(
            executable.address, args, programs, threads, programs_per_ticket(cost), executable.locality, polled
        )

    def clock(self) -> Loaded:
        """A function without arguments that reads the profile's counter."""
        from pypto.backends.cpu.instrument.timing import CLOCK, clock_text

        code = self.stored("clock", lambda: self.engine.compile(clock_text(self.target.triple)))
        return self.engine.load(code, CLOCK)

    def pool(self) -> Runner:
        """The thread pool, started with the first launch that needs it."""
        if self.runner is None:
            with self.lock:
                if self.runner is None:
                    self.runner = self.new_pool()
        return self.runner

    def new_pool(self) -> Runner:
        """A thread pool; native launches learn its address."""
        if not self.native_pool:
            return PythonPool()
        pool = NativePool(self.engine, self.threads, self.stored("pool", lambda: pool_object(self.engine)))
        self.record[1] = pool.state
        self.record[0] = pool.loaded.address
        return pool

    # --- explanations ------------------------------------------------------------------------------------------------

    @property
    def passes(self) -> tuple[Pass, ...]:
        from pypto.backends.cpu.pipeline import PASSES

        return PASSES

    def run_passes(self, function: Function) -> None:
        from pypto.backends.cpu.pipeline import run_passes

        run_passes(function, self.target)

    def print_ir(self, ir: Any) -> str:
        from pypto.backends.cpu.explain.passes import print_ir

        return print_ir(ir)

    @property
    def levels(self) -> Mapping[str, Show]:
        from pypto.backends.cpu.explain.levels import CpuLevels

        return CpuLevels(self.target, self.engine).shows

    def explain(self, function: Function) -> Findings:
        from pypto.backends.cpu.explain.decisions import explain

        return explain(function, self.target)

    def line_details(
        self, function: Function, artifact: Artifact, texts: Mapping[str, Lines], number: SlotNumber
    ) -> LineDetails:
        from pypto.backends.cpu.explain.widths import widths_of
        from pypto.backends.findings import LineDetails

        return LineDetails(widths_of(texts["llvm-ir"], self.target.vector_bytes))
