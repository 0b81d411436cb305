"""The CPU as a `Backend`: lowering, LLVM and the thread pool behind one face."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from pypto.backends.base import Artifact
from pypto.backends.cpu.engine import Engine, Loaded
from pypto.backends.cpu.pool import KERNEL, NativePool, PythonPool, Runner, is_native, pool_object
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Function

_SERIAL_BELOW = 8000.0  # nanoseconds of work that waking a second thread does not pay for
_CHUNKS_PER_THREAD = 8


@dataclass
class CpuBackend:
    """Compiles for one target. `stored` keeps the pool's code between processes."""

    target: CpuTarget
    threads: int
    stored: Callable[[str, Callable[[], bytes]], bytes]
    native_pool: bool = field(default_factory=is_native)
    name: str = "cpu"
    runner: Runner | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.engine = Engine(self.target)

    def key_parts(self) -> tuple[tuple[str, str], ...]:
        import llvmlite

        t = self.target
        return ("target", repr(t)), ("llvmlite", llvmlite.__version__)

    def compile(self, function: Function, timings: dict[str, float]) -> Artifact:
        import time

        from pypto.backends.cpu.cost import estimate
        from pypto.backends.cpu.lower import lower

        start = time.perf_counter()
        lowered = lower(function, self.target)
        timings["lower"] = time.perf_counter() - start
        code = self.engine.compile(lowered.text, timings)
        return Artifact(lowered.name, lowered.abi, lowered.scratch_bytes, estimate(function, self.target), code)

    def load(self, artifact: Artifact) -> Loaded:
        loaded = self.engine.load(artifact.code, artifact.name)
        loaded.call = KERNEL(loaded.address)
        return loaded

    def run(self, executable: Loaded, args: int, programs: int, cost: float, threads: int) -> None:
        if threads <= 1 or programs == 1 or programs * cost < _SERIAL_BELOW:
            executable.call(0, programs, 0, args)
            return
        chunk = max(1, programs // (threads * _CHUNKS_PER_THREAD))
        self.pool().run(executable.address, args, programs, chunk, threads)

    def pool(self) -> Runner:
        """The thread pool, made with the first launch that needs it."""
        if self.runner is None:
            with self.lock:
                if self.runner is None:
                    self.runner = self.new_pool()
        return self.runner

    def new_pool(self) -> Runner:
        if not self.native_pool:
            return PythonPool(self.threads)
        return NativePool(self.engine, self.threads, self.stored("pool", lambda: pool_object(self.engine)))
