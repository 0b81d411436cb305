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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from pypto.backends.cpu.engine import Engine, Loaded

_FUTEX = {"x86_64": 202, "aarch64": 98}
_PAUSE = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)"}
_DECLARE_PAUSE = {"x86_64": "declare void @llvm.x86.sse2.pause()", "aarch64": "declare void @llvm.aarch64.hint(i32)"}
_SPINS = 4000
_STRUCT_BYTES = 512
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)

# One cache line each: 0 generation (futex word), 1 sleepers, 2 next program,
# 3 workers inside (the sign bit: closed), 4 the job.
_TEXT = r"""
%pool = type {{ i32, [60 x i8], i32, [60 x i8], i64, [56 x i8], i32, [60 x i8], ptr, ptr, i64, i64, i64 }}
%worker = type {{ ptr, i64 }}
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i64 @syscall(i64, ...)
{declare_pause}

define internal void @work(ptr %p, i64 %thread) {{
entry:
  %fp = getelementptr %pool, ptr %p, i32 0, i32 8
  %f = load ptr, ptr %fp
  %ap = getelementptr %pool, ptr %p, i32 0, i32 9
  %a = load ptr, ptr %ap
  %tp = getelementptr %pool, ptr %p, i32 0, i32 10
  %total = load i64, ptr %tp
  %cp = getelementptr %pool, ptr %p, i32 0, i32 11
  %chunk = load i64, ptr %cp
  %np = getelementptr %pool, ptr %p, i32 0, i32 4
  br label %take
take:
  %first = atomicrmw add ptr %np, i64 %chunk monotonic
  %some = icmp slt i64 %first, %total
  br i1 %some, label %run, label %done
run:
  %end = add i64 %first, %chunk
  %fits = icmp slt i64 %end, %total
  %last = select i1 %fits, i64 %end, i64 %total
  call void %f(i64 %first, i64 %last, i64 %thread, ptr %a)
  br label %take
done:
  ret void
}}

define ptr @pool_worker(ptr %w) {{
entry:
  %p = load ptr, ptr %w
  %ip = getelementptr %worker, ptr %w, i32 0, i32 1
  %thread = load i64, ptr %ip
  %sleepers = getelementptr %pool, ptr %p, i32 0, i32 2
  %inside = getelementptr %pool, ptr %p, i32 0, i32 6
  %allowed.p = getelementptr %pool, ptr %p, i32 0, i32 12
  br label %wait
wait:
  %seen = phi i32 [ 0, %entry ], [ %now, %leave ]
  br label %spin
spin:
  %n = phi i32 [ 0, %wait ], [ %n1, %again ]
  %g = load atomic i32, ptr %p acquire, align 4
  %new = icmp ne i32 %g, %seen
  br i1 %new, label %enter, label %again
again:
  call void {pause}
  %n1 = add i32 %n, 1
  %more = icmp ult i32 %n1, {spins}
  br i1 %more, label %spin, label %sleep
sleep:
  %s0 = atomicrmw add ptr %sleepers, i32 1 seq_cst
  br label %doze
doze:
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %p, i64 128, i32 %seen, ptr null, ptr null, i32 0)
  %g2 = load atomic i32, ptr %p seq_cst, align 4
  %new2 = icmp ne i32 %g2, %seen
  br i1 %new2, label %woken, label %doze
woken:
  %s1 = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %enter
enter:
  %now = phi i32 [ %g, %spin ], [ %g2, %woken ]
  %was = atomicrmw add ptr %inside, i32 1 acq_rel
  %closed = icmp slt i32 %was, 0
  br i1 %closed, label %leave, label %look
look:
  %allowed = load i64, ptr %allowed.p
  %mine = icmp slt i64 %thread, %allowed
  br i1 %mine, label %join, label %leave
join:
  call void @work(ptr %p, i64 %thread)
  br label %leave
leave:
  %out = atomicrmw sub ptr %inside, i32 1 acq_rel
  br label %wait
}}

define i32 @pool_start(ptr %p, ptr %workers, i64 %count) {{
entry:
  %id = alloca i64
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %make, label %ok
make:
  %i1 = add i64 %i, 1
  %w = getelementptr %worker, ptr %workers, i64 %i
  store ptr %p, ptr %w
  %ip = getelementptr %worker, ptr %w, i32 0, i32 1
  store i64 %i1, ptr %ip
  %r = call i32 @pthread_create(ptr %id, ptr null, ptr @pool_worker, ptr %w)
  %failed = icmp ne i32 %r, 0
  br i1 %failed, label %bad, label %next
next:
  %t = load i64, ptr %id
  %d = call i32 @pthread_detach(i64 %t)
  br label %head
ok:
  ret i32 0
bad:
  ret i32 %r
}}

define void @pool_run(ptr %p, ptr %f, ptr %a, i64 %total, i64 %chunk, i64 %threads) {{
entry:
  %fp = getelementptr %pool, ptr %p, i32 0, i32 8
  store ptr %f, ptr %fp
  %ap = getelementptr %pool, ptr %p, i32 0, i32 9
  store ptr %a, ptr %ap
  %tp = getelementptr %pool, ptr %p, i32 0, i32 10
  store i64 %total, ptr %tp
  %cp = getelementptr %pool, ptr %p, i32 0, i32 11
  store i64 %chunk, ptr %cp
  %lp = getelementptr %pool, ptr %p, i32 0, i32 12
  store i64 %threads, ptr %lp
  %np = getelementptr %pool, ptr %p, i32 0, i32 4
  store atomic i64 0, ptr %np monotonic, align 8
  %inside = getelementptr %pool, ptr %p, i32 0, i32 6
  %open = atomicrmw and ptr %inside, i32 2147483647 seq_cst
  %g = atomicrmw add ptr %p, i32 1 seq_cst
  %sp = getelementptr %pool, ptr %p, i32 0, i32 2
  %asleep = load atomic i32, ptr %sp seq_cst, align 4
  %any = icmp sgt i32 %asleep, 0
  br i1 %any, label %wake, label %own
wake:
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %p, i64 129, i32 2147483647, ptr null, ptr null, i32 0)
  br label %own
own:
  call void @work(ptr %p, i64 0)
  %c = atomicrmw or ptr %inside, i32 -2147483648 seq_cst
  br label %rest
rest:
  %n = load atomic i32, ptr %inside acquire, align 4
  %left = and i32 %n, 2147483647
  %busy = icmp ne i32 %left, 0
  br i1 %busy, label %hold, label %end
hold:
  call void {pause}
  br label %rest
end:
  ret void
}}
"""


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
    return sys.platform == "linux" and platform.machine() in _FUTEX


def pool_object(engine: Engine) -> bytes:
    """Object code of the pool, for the disk cache."""
    machine = platform.machine()
    return engine.compile(_TEXT.format(futex=_FUTEX[machine], pause=_PAUSE[machine],
        declare_pause=_DECLARE_PAUSE[machine], spins=_SPINS))


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
