"""The thread pool: workers take chunks of programs by tickets, spin for a short time, then sleep.

On Linux the pool is C over pthread_create and futex. The package has its LLVM IR, so it needs no compiler, and a launch
costs well under a microsecond. Elsewhere Python's threads stand in.

The caller works, too. It opens a job, takes chunks until none is left, closes the job and waits for the workers that
have entered. A worker that comes later finds the job closed, so that nobody waits for a worker that has not entered.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from pypto.backends.base import NO_LOCALITY, Locality
from pypto.backends.cpu.runtime.engine import Engine, Loaded
from pypto.backends.llvm.compiled import helpers

# Number of the system call `futex`; the intrinsics of the spin-wait instruction (with its argument) and of the clock.
_MACHINES: Final = MappingProxyType(
    {
        "x86_64": (202, "@llvm.x86.sse2.pause", "", "@llvm.readcyclecounter"),
        "aarch64": (98, "@llvm.aarch64.hint", "i32 1", "@pool_nanoseconds"),
    }
)
_SPINS = 4000  # of a worker, before it sleeps
_PARTS = 8  # chunks of programs per thread, unless they would be too small
STATE_BYTES = 512
_INTERVAL = 50_000_000  # nanoseconds after which a polled launch lets Python handle signals
_QUICK, _SLOW = 2_000_000, 20_000_000  # nanoseconds of a chunk that a polled launch neither grows nor cuts
WORKERS = 200  # offset of the workers' memory and number in the state
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


class Runner(Protocol):
    """Runs a kernel for all programs of a grid."""

    def run(
        self,
        kernel: int,
        args: int,
        programs: int,
        threads: int,
        least: int,
        locality: Locality = NO_LOCALITY,
        polled: bool = False,
    ) -> None:
        """Run programs 0 to `programs`; where it is `polled`, signal handlers run meanwhile, and may end it."""


def default_threads(root: Path = Path("/")) -> int:
    """CPUs that this process may use: its affinity, limited by its control groups."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([count, *granted(root)]))


def granted(root: Path) -> Iterator[int]:
    """CPUs by the quota of each control group of this process, of cgroup v1 or v2."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if not controllers or "cpu" in controllers.split(","):
            base = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
            group = base / path.strip("/")
            for folder in (group, *(up for up in group.parents if up.is_relative_to(base))):
                yield from quota(folder)


def quota(folder: Path) -> Iterator[int]:
    """CPUs by the quota of one control group, rounded up; none where it has no limit."""
    try:
        if (folder / "cpu.max").exists():
            time, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
        else:
            time, period = ((folder / f"cpu.cfs_{name}_us").read_text(encoding="utf-8") for name in ("quota", "period"))
        if time.strip() != "max" and int(time) > 0:
            yield -(-int(time) // int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return


def is_native() -> bool:
    """Whether the native pool works on this machine."""
    return sys.platform == "linux" and platform.machine() in _MACHINES


def pool_object(engine: Engine) -> bytes:
    """Object code of the pool, for the disk cache."""
    return engine.compile(pool_text())


def pool_text() -> str:
    """The pool as LLVM IR for this machine."""
    futex, pause, argument, clock = _MACHINES[platform.machine()]
    given = {"pool_futex": futex, "pool_spins": _SPINS, "pool_parts": _PARTS, "pool_interval": _INTERVAL,
        "pool_quick": _QUICK, "pool_slow": _SLOW}  # fmt: skip
    text, declared = helpers(Path(__file__).with_suffix(".c"), **given)
    lines = [declared[name] for name in declared if name not in ("pool_pause", "pool_now")]
    lines += [f"declare void {pause}({argument[:3]})"]
    lines += [] if clock == "@pool_nanoseconds" else [f"declare i64 {clock}()"]
    lines += [f"define internal void @pool_pause() alwaysinline {{\n  call void {pause}({argument})\n  ret void\n}}"]
    lines += [f"define internal i64 @pool_now() alwaysinline {{\n  %t = call i64 {clock}()\n  ret i64 %t\n}}"]
    return text + "\n".join(lines) + "\n"


@dataclass
class NativePool:
    """The native pool. Its workers start with the first job that needs them."""

    engine: Engine
    threads: int
    code: bytes

    def __post_init__(self) -> None:
        self.loaded: Loaded = self.engine.load(self.code, "pool_run", "pool_locked")
        # Workers run this code until the process ends, so nothing may unload it: not even Python's last clean-up.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.loaded.keep))
        words = *(ctypes.c_void_p,) * 3, *(ctypes.c_int64,) * 5
        self.launch = ctypes.CFUNCTYPE(ctypes.c_int32, *words)(self.loaded.address)
        self.launch_polled = ctypes.PYFUNCTYPE(ctypes.c_int32, *words)(self.loaded.addresses[1])  # raises what is set
        self.memory = ctypes.create_string_buffer(STATE_BYTES + 64)
        self.workers = ctypes.create_string_buffer(16 * max(1, self.threads))
        self.state = (ctypes.addressof(self.memory) + 63) // 64 * 64
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        """Forget all workers and jobs: a forked child has none."""
        ctypes.memset(self.state, 0, STATE_BYTES)
        for n, word in enumerate((ctypes.addressof(self.workers), max(0, self.threads - 1))):
            ctypes.c_int64.from_address(self.state + WORKERS + 8 * n).value = word

    def run(
        self,
        kernel: int,
        args: int,
        programs: int,
        threads: int,
        least: int,
        locality: Locality = NO_LOCALITY,
        polled: bool = False,
    ) -> None:
        """Run programs 0 to `programs`; serially while another thread of this process uses the pool."""
        launch = self.launch_polled if polled else self.launch
        launch(self.state, kernel, args, programs, threads, least, locality.encoded, polled)


class PythonPool:
    """The pool on Python's threads; compiled code runs without the interpreter's lock."""

    def run(
        self,
        kernel: int,
        args: int,
        programs: int,
        threads: int,
        least: int,
        locality: Locality = NO_LOCALITY,
        polled: bool = False,
    ) -> None:
        """Run programs 0 to `programs`; after an exception in the caller, no thread begins another chunk."""
        from concurrent.futures import ThreadPoolExecutor

        function = KERNEL(kernel)
        free = list(range(threads))
        parts = _PARTS * _PARTS if polled else _PARTS
        group = 1 if locality.kind == "rows" else locality.count
        chunk = max(least, group, programs // (threads * parts))
        if threads <= 1:
            for first in range(0, programs, chunk):  # Python handles signals between two calls
                function(first, min(first + chunk, programs), 0, args)
            return

        stopped: list[bool] = []

        def work(first: int) -> None:
            if stopped:
                return
            thread = free.pop()
            function(first, min(first + chunk, programs), thread, args)
            free.append(thread)

        with ThreadPoolExecutor(threads) as executor:
            try:
                list(executor.map(work, range(0, programs, chunk)))
            except BaseException:
                stopped.append(True)
                raise
