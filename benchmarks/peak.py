"""``python -m benchmarks.peak SUITE ROW IMPLEMENTATION``: bytes that a call needs beside its inputs.

In a process of its own, with plain memory: the call is made once, so that everything is compiled, and once more while
the kernel of the system notes the highest use. Arrays that the implementation writes its result to count as well.
"""

from __future__ import annotations

import ctypes
import gc
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import VARIABLE, limited_threads
from benchmarks.runner import OURS, Case, Impl, Missing, Row
from benchmarks.steady import plain_environment

STATUS = Path("/proc/self/status")
RESET = Path("/proc/self/clear_refs")


def peaks(suite: str, row: Row, threads: int) -> dict[str, float]:
    """Ours and eager torch, each in a new process; empty where the system does not tell."""
    found = {}
    for name, library in ((OURS, "numpy"), ("torch", "torch")):
        environment = plain_environment(**{VARIABLE: library})
        command = [sys.executable, "-m", "benchmarks.peak", suite, row.title, name, str(threads)]
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        if done.returncode == 0 and (value := json.loads(done.stdout)) is not None:
            found[name] = float(value)
    return found


def measure(case: Case, name: str) -> int | None:
    """Bytes that a call of one implementation needs; None if it is missing, or if the system does not tell."""
    impl = {OURS: case.ours, **case.peers}.get(name, Missing("unknown"))
    if isinstance(impl, Missing) or not RESET.exists():
        return None
    impl()
    return extra(impl) + shared(impl(), case.outputs)


def extra(impl: Impl) -> int:
    """Highest use of memory during a call, beyond the use before it."""
    gc.collect()
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
    RESET.write_text("5", "ascii")
    before = status("VmRSS")
    impl()
    return max(0, status("VmHWM") - before)


def shared(result: Any, outputs: Any) -> int:
    """Bytes of those outputs that the result lies in."""
    parts = [part for part in (result if isinstance(result, tuple) else (result,)) if isinstance(part, np.ndarray)]
    return sum(out.nbytes for out in outputs if any(np.shares_memory(out, part) for part in parts))


def status(field: str) -> int:
    """A line of the process's status, in bytes."""
    line = next(line for line in STATUS.read_text("ascii").splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) << 10


def main(suite: str, title: str, name: str, threads: str) -> None:
    from benchmarks.suites import SUITES

    row = next(row for row in SUITES[suite].rows if row.title == title)
    with limited_threads(int(threads)):
        print(json.dumps(measure(row.build(), name)))


if __name__ == "__main__":
    main(*sys.argv[1:])
