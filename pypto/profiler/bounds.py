"""Finds the bottleneck of an operator or a kernel: memory, computing, launches, uneven threads, or gathers."""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

WORTH: Final = 0.3  # part of the time from which an operator is worth a kernel of its own
LAUNCH_NS: Final = 10_000  # a call that is shorter spends its time on being called
IMBALANCE: Final = 1.3  # the busiest thread's time, divided by the mean
CLOSE: Final = 0.5  # part of the machine's limit from which a call is near it
COPIED: Final = 64 << 20  # bytes
SIDE: Final = 768  # of square matrices
_GATHER: Final = re.compile(r"gather|scatter|embedding|index|take|lookup", re.IGNORECASE)

ADVICE: Final[Mapping[tuple[str, bool], str]] = MappingProxyType({
    ("memory", True): "at the memory's rate: fuse it with its neighbours, or store fewer bytes for each number",
    ("memory", False): "far from the memory's rate: fuse it, or write it as a kernel; look at strides and copies",
    ("compute", True): "at the rate of the cores: fewer operations or a narrower dtype",
    ("compute", False): "far from the rate of the cores: larger batches or tiles, another layout, or a kernel",
    ("launch", False): "short calls: fuse them (`pto.fuse`, `torch.compile`), or make the batch larger",
    ("imbalance", False): "some threads wait for others: more and smaller programs, or programs of equal work",
    ("gather", False): "elements are fetched one by one: sort the indices, or keep the table small enough for a cache",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the machine: bytes per second of memory, and float32 operations per second of products."""

    bandwidth: float
    flops: float


@dataclass(frozen=True, slots=True)
class Bound:
    """The bottleneck of some calls.

    Attributes
    ----------
    kind : str
        ``memory``, ``compute``, ``launch``, ``imbalance`` or ``gather``; empty where it is not known.
    limit : float
        The part of the machine's rate that they reach, 0 to 1; 0 where it is not known.
    """

    kind: str = ""
    limit: float = 0.0

    @property
    def advice(self) -> str:
        """Advises what to try."""
        close = self.kind in ("memory", "compute") and self.limit >= CLOSE
        return ADVICE.get((self.kind, close), "")


@functools.lru_cache(maxsize=1)
def limits() -> Limits:
    """Measures the machine, once per process: copies of 64 MiB by all threads, and a product of matrices."""
    threads = os.cpu_count() or 1
    source = np.ones((threads, COPIED // 8 // threads))
    target = np.empty_like(source)
    with ThreadPoolExecutor(threads) as pool:
        copy = fastest(lambda: list(pool.map(np.copyto, target, source)))
    a = np.ones((SIDE, SIDE), np.float32)
    product = fastest(lambda: a @ a)
    return Limits(2 * source.nbytes / copy, 2 * SIDE**3 / product)


def fastest(function: Callable[[], object]) -> float:
    """Returns the least seconds of a few calls."""
    times = []
    for _ in range(4):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def judge(  # what was measured of the calls
    name: str, total_ns: float, calls: int, moved: float, flops: float, machine: Limits,
    *, imbalance: float = 1.0, gathers: bool = False,
) -> Bound:  # fmt: skip
    """Decides what limits some calls.

    Parameters
    ----------
    name : str
        The operator or kernel.
    total_ns : float
        Nanoseconds of all calls.
    calls : int
    moved, flops : float
        Bytes that they read and write, and operations that they compute, as far as known.
    machine : Limits
    imbalance : float
        The time of the busiest thread, divided by the mean of all threads.
    gathers : bool
        Whether it is known to load single elements from places that are computed.

    Examples
    --------
    >>> machine = Limits(1e10, 1e11)
    >>> judge("aten::relu", 1e6, 1, 8e6, 0, machine)
    Bound(kind='memory', limit=0.8)
    >>> judge("aten::mm", 1e6, 1, 1e5, 9e7, machine).kind, judge("aten::add", 1e6, 500, 1e3, 0, machine).kind
    ('compute', 'launch')
    """
    needed = moved / machine.bandwidth, flops / machine.flops
    memory, compute = (1e9 * seconds / total_ns if total_ns else 0.0 for seconds in needed)
    limit, short = min(1.0, max(memory, compute)), total_ns < LAUNCH_NS * calls
    causes = {
        "launch": short,
        "gather": gathers or bool(_GATHER.search(name)),
        "imbalance": imbalance >= IMBALANCE and total_ns > 5 * LAUNCH_NS * calls,  # or it is the start of threads
    }
    if limit < CLOSE and any(causes.values()):
        return Bound(next(kind for kind, holds in causes.items() if holds), limit)
    if not limit:
        return Bound()
    return Bound("compute" if compute >= memory else "memory", limit)
