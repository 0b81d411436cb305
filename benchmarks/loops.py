"""What the machine gives while a row runs: the plain loops of `limits_ir`, timed in turns with the implementations.

The machine is shared with others, and its rates change within seconds, that of memory by a factor of two: a limit
measured at the beginning of a run says little about a row that is measured minutes later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from benchmarks.limits import MOVED, Machine, buffers, call, per_round
from benchmarks.limits_ir import PRODUCTS, STREAMS, UNROLL, tile_operations
from benchmarks.runner import Impl, Row

LEAST: Final = 200_000  # rounds of multiply-adds on a thread; with fewer, starting the threads would count
LEAST_TILES: Final = 15_000  # the same of products of tiles, of which each takes ten times as long


def beside(machine: Machine, row: Row, threads: int) -> Mapping[str, Impl]:
    """Loops that do nothing but a row's work; none for rows within the caches and for short ones."""
    kind, _, level = row.limit.partition(" ")
    if level == "DRAM":
        return memory_streams(machine, kind, row.work, threads)
    return multiply_adds(machine, kind, row.work, threads) if kind in PRODUCTS else {}


def memory_streams(machine: Machine, kind: str, work: float, threads: int) -> Mapping[str, Impl]:
    """The loops that move as many bytes as a row does, on as many threads."""
    step = machine.width * UNROLL
    n = int(work) // (4 * MOVED[kind] * threads * step) * step
    arrays, found = buffers(n * threads, 0), {}
    for loop in (name for name in STREAMS if name.removesuffix("_nt") == kind):
        parts = [[a[k * n : (k + 1) * n] for a in arrays] for k in range(threads)]
        found[loop] = at_once([call(machine, loop, 1, n, part) for part in parts])
    return found


def multiply_adds(machine: Machine, kind: str, work: float, threads: int) -> Mapping[str, Impl]:
    """As many multiply-adds in registers as a row has, on as many threads."""
    if kind in machine.tiles:
        name, least, operations = f"{kind}_tiles", LEAST_TILES, tile_operations(kind)
    else:
        name, least = (kind if kind in machine.products else "fma"), LEAST
        operations = per_round(machine, name)
    rounds = int(work / operations / threads)
    if rounds < least:
        return {}
    return {name: at_once([call(machine, name, 1, rounds, buffers(64, machine.width)) for _ in range(threads)])}


def at_once(calls: Sequence[Callable[[], None]]) -> Impl:
    """All calls, each in a thread, the first one in the caller's."""
    return partial(together, ThreadPoolExecutor(len(calls)), calls) if len(calls) > 1 else calls[0]


def together(pool: ThreadPoolExecutor, calls: Sequence[Callable[[], None]]) -> None:
    """All calls at once, the first one here."""
    others = [pool.submit(call) for call in calls[1:]]
    calls[0]()
    for other in others:
        other.result()
