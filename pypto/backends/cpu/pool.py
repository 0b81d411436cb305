"""Threads: programs of a grid are handed out in chunks to workers that wait, spinning briefly and then asleep.

On Linux the pool is LLVM IR of our own over pthread_create and futex, so that no compiler is needed and a launch costs
well under a microsecond; elsewhere Python's threads stand in.

The caller takes part. It opens a job, runs chunks until none is left, closes the job and waits for the workers inside;
one that comes later finds the job closed and leaves, so nobody ever waits for a worker that has not entered.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

from pypto.backends.cpu.engine import Engine, Loaded

# Number of the system call `futex`, and the instruction for waiting loops: declaration and call.
_MACHINES: Final = MappingProxyType({
    "x86_64": ("202", "@llvm.x86.sse2.pause()", "@llvm.x86.sse2.pause()"),
    "aarch64": ("98", "@llvm.aarch64.hint(i32)", "@llvm.aarch64.hint(i32 1)"),
})
_SPINS = 4000
_STRUCT_BYTES = 512
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


class Runner(Protocol):
    """Runs a kernel for all programs of a grid."""

    def run(self, kernel: int, args: int, programs: int, chunk: int, threads: int) -> None: ...


def default_threads() -> int:
    """CPUs that this process may use: its affinity and its container's quota."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        return count
    return count if quota == "max" else max(1, min(count, -(-int(quota) // int(period))))


def is_native() -> bool:
    """True where the pool in LLVM IR works."""
    return sys.platform == "linux" and platform.machine() in _MACHINES


def pool_object(engine: Engine) -> bytes:
    """Object code of the pool, for the disk cache."""
    futex, declared, pause = _MACHINES[platform.machine()]
    text = Path(__file__).with_suffix(".ll").read_text(encoding="utf-8")
    for name, value in (("futex", futex), ("declared", declared), ("pause", pause), ("spins", str(_SPINS))):
        text = text.replace(f"<{name}>", value)
    return engine.compile(text)


@dataclass
class NativePool:
    """The pool in LLVM IR. Its workers start with the first job that needs them."""

    engine: Engine
    threads: int
    code: bytes
    lock: Any = field(default_factory=threading.Lock)
    started: int = 0

    def __post_init__(self) -> None:
        self.loaded: Loaded = self.engine.load(self.code, "pool_start", "pool_run")
        # Workers run this code until the process ends, so nothing may unload it: not even Python's last clean-up.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.loaded.keep))
        start, launch = self.loaded.addresses
        self.start = ctypes.CFUNCTYPE(ctypes.c_int32, *(ctypes.c_void_p,) * 2, ctypes.c_int64)(start)
        self.launch = ctypes.CFUNCTYPE(None, *(ctypes.c_void_p,) * 3, *(ctypes.c_int64,) * 3)(launch)
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        """Forget all workers: a forked child has none."""
        self.memory = ctypes.create_string_buffer(_STRUCT_BYTES + 64)
        self.state = (ctypes.addressof(self.memory) + 63) // 64 * 64
        self.workers = ctypes.create_string_buffer(16 * max(1, self.threads))
        self.lock = threading.Lock()
        self.started = 0

    def run(self, kernel: int, args: int, programs: int, chunk: int, threads: int) -> None:
        """Run programs 0 to `programs`; serially while another thread of this process uses the pool."""
        threads = min(threads, self.threads)
        if threads <= 1 or programs <= chunk or not self.lock.acquire(blocking=False):
            KERNEL(kernel)(0, programs, 0, args)
            return
        try:
            if not self.started:
                self.started = 1 if self.start(self.state, ctypes.addressof(self.workers),
                    self.threads - 1) == 0 else -1
            self.launch(self.state, kernel, args, programs, chunk, threads)
        finally:
            self.lock.release()


@dataclass
class PythonPool:
    """The same on Python's threads; compiled code runs without the interpreter's lock."""

    threads: int
    lock: Any = field(default_factory=threading.Lock)

    def run(self, kernel: int, args: int, programs: int, chunk: int, threads: int) -> None:
        threads = min(threads, self.threads)
        function = KERNEL(kernel)
        if threads <= 1 or programs <= chunk:
            function(0, programs, 0, args)
            return
        from concurrent.futures import ThreadPoolExecutor

        following = iter(range(0, programs, chunk))

        def work(thread: int) -> None:
            while True:
                with self.lock:
                    first = next(following, None)
                if first is None:
                    return
                function(first, min(first + chunk, programs), thread, args)

        with ThreadPoolExecutor(threads) as executor:
            list(executor.map(work, range(threads)))
