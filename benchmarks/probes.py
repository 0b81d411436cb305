"""Times without a peer: compiling, loading from the disk cache, and a fresh process up to its first result."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.runner import Missing, Probe
from benchmarks.steady import plain_environment


def cold_compile() -> Sequence[float] | Missing:
    """Seconds of the first compilation in a fresh process, from the softmax kernel's source to something callable."""
    runs = fresh_processes("compile", 6, CACHE="off")
    return runs if isinstance(runs, Missing) else [run[0] for run in runs]


def next_compile() -> Sequence[float] | Missing:
    """The same for a later compilation, when target machine and thread pool are there."""
    return later("compile")


def attention_compile() -> Sequence[float] | Missing:
    """The same for flash attention."""
    return later("attention")


def numba_compile() -> Sequence[float] | Missing:
    """Seconds that numba takes for the same softmax."""
    return later("numba")


def torch_compile() -> Sequence[float] | Missing:
    """Seconds that torch.compile takes for the same softmax, with what it keeps on disk left out."""
    return later("torch")


def later(what: str) -> Sequence[float] | Missing:
    """All compilations of two processes but their first ones."""
    runs = fresh_processes(what, 2, CACHE="off")
    return runs if isinstance(runs, Missing) else [seconds for run in runs for seconds in run[1:]]


def load_compiled() -> Sequence[float] | Missing:
    """Seconds that the compiled softmax takes to come out of the disk cache, in a process that compiled another one."""
    with tempfile.TemporaryDirectory() as folder:
        runs = fresh_processes("load", 7, CACHE_DIR=str(Path(folder).resolve()), CACHE="rw")
    return runs if isinstance(runs, Missing) else [run[0] for run in runs[1:]]


def fresh_process() -> Sequence[float] | Missing:
    """Seconds from ``import pypto`` to the first softmax in a new process whose disk cache holds the kernel."""
    with tempfile.TemporaryDirectory() as folder:
        runs = fresh_processes("result", 9, CACHE_DIR=str(Path(folder).resolve()), CACHE="rw")
    return runs if isinstance(runs, Missing) else [run[0] for run in runs[1:]]


def fresh_processes(what: str, count: int, **settings: str) -> list[list[float]] | Missing:
    """What `benchmarks.first_result` printed in each of several processes, one after the other."""
    environment = plain_environment(**{f"PYPTO_{name}": value for name, value in settings.items()})
    command = [sys.executable, "-m", "benchmarks.first_result", what]
    runs = []
    for _ in range(count):
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        if done.returncode:
            return Missing(f"benchmarks.first_result failed: {done.stderr.strip().splitlines()[-1]}")
        runs.append([float(word) for word in done.stdout.split()])
    return runs


PROBES: Final = (
    Probe("cold compile", "softmax, source to callable, first of a process", 30e-3, cold_compile),
    Probe("next compile", "softmax, source to callable, later ones", 30e-3, next_compile),
    Probe("cold compile", "attention, source to callable", 150e-3, attention_compile),
    Probe("load", "softmax, source to callable out of the disk cache", 5e-3, load_compiled),
    Probe("fresh process", "import pypto to first softmax, warm disk cache", 220e-3, fresh_process),
)
PEERS: Final = (
    Probe("numba", "softmax compiled by numba", math.inf, numba_compile, "numba"),
    Probe("torch.compile", "softmax compiled by torch.compile", math.inf, torch_compile, "torch"),
)
