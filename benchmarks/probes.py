"""Times without a peer: a warm launch, a cold compile, and a fresh process up to its first result."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.ours import ours
from benchmarks.runner import Missing, Probe
from benchmarks.steady import plain_environment
from benchmarks.tutorials import load_tutorial

CACHE: Final = "PYPTO_CACHE"
CACHE_DIR: Final = "PYPTO_CACHE_DIR"
LAUNCHES: Final = 2_000


def warm_launch() -> Sequence[float] | Missing:
    """Seconds of one call of a kernel that has next to nothing to do."""
    add = ours("01_vector_add", "vector_add")
    if isinstance(add, Missing):
        return add
    x = np.ones(16, np.float32)
    out = np.empty_like(x)
    for _ in range(LAUNCHES):
        add(x, x, out)
    return [_seconds(lambda: add(x, x, out), LAUNCHES) for _ in range(21)]


def cold_compile() -> Sequence[float] | Missing:
    """Seconds from the softmax kernel's source to its first result on a few rows, nothing cached, llvmlite imported."""
    with changed_environment(CACHE, "off"):
        first = ours("02_fused_softmax", "softmax_rows")
        if isinstance(first, Missing):
            return first
        x = np.ones((4, 4096), np.float32)
        out = np.empty_like(x)
        first(x, out)
        return [_seconds(_fresh_softmax(x, out), 1) for _ in range(9)]


def _fresh_softmax(x: Any, out: Any) -> Callable[[], Any]:
    function = load_tutorial("02_fused_softmax").softmax_rows
    return lambda: function(x, out)


def fresh_process() -> Sequence[float] | Missing:
    """Seconds from ``import pypto`` to the first softmax in a new process whose disk cache holds the kernel."""
    softmax = ours("02_fused_softmax", "softmax_rows")
    if isinstance(softmax, Missing):
        return softmax
    with tempfile.TemporaryDirectory() as folder:
        environment = plain_environment(**{CACHE_DIR: str(Path(folder).resolve()), CACHE: "rw"})
        command = [sys.executable, "-m", "benchmarks.first_result"]
        runs = [subprocess.run(command, check=False, env=environment, capture_output=True, text=True) for _ in range(8)]
    for run in runs:
        if run.returncode:
            return Missing(f"benchmarks.first_result failed: {run.stderr.strip()[-300:]}")
    return [float(run.stdout) for run in runs[1:]]


@contextmanager
def changed_environment(name: str, value: str) -> Iterator[None]:
    """Set a variable for a while."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _seconds(function: Callable[[], Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


PROBES: Final = (
    Probe("warm launch", "vector add of 16 floats", 5e-6, warm_launch),
    Probe("cold compile", "softmax, source to first result", 60e-3, cold_compile),
    Probe("fresh process", "import pypto to first softmax, warm disk cache", 300e-3, fresh_process),
)
