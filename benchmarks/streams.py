"""What memory gives while a row runs: the plain loops of `limits_ir`, timed in turns with the row's implementations.

Memory is shared with whoever else is on the machine, and its rate changes within seconds by a factor of two: a limit
measured at the beginning of a run says little about a row that is measured minutes later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from benchmarks.limits import MOVED, Machine, buffers, call
from benchmarks.limits_ir import STREAMS, UNROLL
from benchmarks.runner import Impl, Row


def memory_streams(machine: Machine, row: Row, threads: int) -> Mapping[str, Impl]:
    """The loops that move as many bytes as a row does, on as many threads; none for rows that memory does not bound."""
    kind, _, level = row.limit.partition(" ")
    if level != "DRAM":
        return {}
    step = machine.width * UNROLL
    n = int(row.work) // (4 * MOVED[kind] * threads * step) * step
    arrays, pool = buffers(n * threads, 0), ThreadPoolExecutor(threads)
    found = {}
    for loop in (name for name in STREAMS if name.removesuffix("_nt") == kind):
        parts = [[a[k * n : (k + 1) * n] for a in arrays] for k in range(threads)]
        found[loop] = partial(together, pool, [call(machine, loop, 1, n, part) for part in parts])
    return found


def together(pool: ThreadPoolExecutor, calls: Sequence[Callable[[], None]]) -> None:
    """All calls at once, the first one here."""
    others = [pool.submit(call) for call in calls[1:]]
    calls[0]()
    for other in others:
        other.result()
