"""Reads the counter that profiled kernels read, and converts it to nanoseconds."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

_BASELINE = 0.01  # seconds; a reading is off by well under a microsecond


@dataclass(frozen=True, slots=True)
class Clock:
    """The counter, with the nanoseconds of one count."""

    read: Callable[[], int]
    ns: float
    keep: object = None

    def now(self) -> tuple[int, int]:
        """Reads the counter and `time.perf_counter_ns` at the same moment: the closest of a few pairs."""
        pairs = []
        for _ in range(5):
            before = time.perf_counter_ns()
            count = self.read()
            after = time.perf_counter_ns()
            pairs.append((after - before, count, (before + after) // 2))
        _, count, at = min(pairs)
        return count, at


@functools.lru_cache(maxsize=1)
def clock() -> Clock:
    """Returns the machine's clock, calibrated once per process.

    Raises
    ------
    RuntimeError
        If the counter does not advance.
    """
    from pypto.compile import session
    from pypto.options import KernelOptions

    loaded = session().backend(KernelOptions()).clock()
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(loaded.address)
    rough = Clock(read, 0.0, loaded)
    first, start = rough.now()
    time.sleep(_BASELINE)
    last, end = rough.now()
    if last <= first:
        raise RuntimeError("this machine's counter of cycles stands still")
    return Clock(read, (end - start) / (last - first), loaded)
