"""Times without a peer: a warm launch, a cold compile, and a fresh process up to its first result."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.ours import ours
from benchmarks.runner import Missing, Probe
from benchmarks.steady import plain_environment

LAUNCHES: Final = 2_000


def warm_launch() -> Sequence[float] | Missing:
    """Seconds of one launch of a kernel that has next to nothing to do."""
    add = ours("01_vector_add", "add")
    if isinstance(add, Missing):
        return add
    x = np.ones(16, np.float32)
    out = np.empty_like(x)
    for _ in range(LAUNCHES):
        add[(1,)](x, x, out, BLOCK=16)
    return [_seconds(lambda: add[(1,)](x, x, out, BLOCK=16), LAUNCHES) for _ in range(21)]


def cold_compile() -> Sequence[float] | Missing:
    """Seconds of the first compilation in a fresh process, from the softmax kernel's source to something callable."""
    runs = _fresh_processes("compile", 6, CACHE="off")
    return runs if isinstance(runs, Missing) else [run[0] for run in runs]


def next_compile() -> Sequence[float] | Missing:
    """The same for a later compilation, when target machine and thread pool are there."""
    runs = _fresh_processes("compile", 2, CACHE="off")
    return runs if isinstance(runs, Missing) else [seconds for run in runs for seconds in run[1:]]


def fresh_process() -> Sequence[float] | Missing:
    """Seconds from ``import pypto`` to the first softmax in a new process whose disk cache holds the kernel."""
    with tempfile.TemporaryDirectory() as folder:
        runs = _fresh_processes("result", 9, CACHE_DIR=str(Path(folder).resolve()), CACHE="rw")
    return runs if isinstance(runs, Missing) else [run[0] for run in runs[1:]]


def _fresh_processes(what: str, count: int, **settings: str) -> list[list[float]] | Missing:
    """What `benchmarks.first_result` printed in each of several processes, one after the other."""
    environment = plain_environment(**{f"PYPTO_{name}": value for name, value in settings.items()})
    command = [sys.executable, "-m", "benchmarks.first_result", what]
    runs = []
    for _ in range(count):
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        if done.returncode:
            return Missing(f"benchmarks.first_result failed: {done.stderr.strip()[-300:]}")
        runs.append([float(word) for word in done.stdout.split()])
    return runs


def _seconds(function: Callable[[], Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


PROBES: Final = (
    Probe("warm launch", "vector add of 16 floats", 5e-6, warm_launch),
    Probe("cold compile", "softmax, source to callable, first of a process", 60e-3, cold_compile),
    Probe("next compile", "softmax, source to callable, later ones", 60e-3, next_compile),
    Probe("fresh process", "import pypto to first softmax, warm disk cache", 300e-3, fresh_process),
)
