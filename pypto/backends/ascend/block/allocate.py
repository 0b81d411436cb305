"""Memory allocation: gives every buffer of a kernel its address.

Buffers get memory of their own while there is room, since buffers that share memory order the units that use them.
Where a memory is too small, buffers with disjoint live ranges share addresses, and double buffers in UB fall back to
one stage. In UB the allocator also avoids bank conflicts. Sharing is legal where live ranges do not overlap;
`insert_sync` later orders the instructions that meet in shared memory.

    a = UB(float32, ND, 2048)            a = UB(float32, ND, 2048, at=0)
    b = UB(float32, ND, 2048)      ->    b = UB(float32, ND, 2048, at=8192)
    c = UB(float32, ND, 64)              c = UB(float32, ND, 64, at=0)        # a is dead, and UB is full
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from pypto.backends.ascend.block.bank_conflicts import REGION, ConflictGraph, conflict_graph
from pypto.backends.ascend.block.liveness import LiveRange, live_ranges, loop_carried_buffers
from pypto.backends.ascend.blockir.effects import all_views, items_of, memory_reads, row_of, scalars, views
from pypto.backends.ascend.blockir.ir import BlockKernel, Buffer, Instr, Item, Loop, Scalar, View, While, parts
from pypto.backends.ascend.blockir.rewrite import mapped, with_buffers, without_dead
from pypto.backends.ascend.target import AscendTarget
from pypto.errors.ascend import NoRoomOnAscend
from pypto.loc import Loc

ALIGNMENT: Final = {"L0C": 1024}  # Mmad writes whole fractals of 1 KB
BANK_ROW: Final = 512  # bytes of 32 in each of the 16 banks of a region
REPEAT: Final = 256  # bytes that an instruction works on at a time


@dataclass(frozen=True)
class MemoryPool:
    """One memory of a core, with all that decides about addresses in it.

    A buffer that shares memory delays the instructions of the buffers that it shares with. So buffers that the scalar
    unit reads share memory as the last resort only, and buffers that innermost loops copy as the last but one.
    """

    space: str  # name of the memory
    bytes: int  # its size
    alignment: int  # bytes that every address is a multiple of
    live_ranges: Mapping[str, LiveRange]  # of all buffers of the kernel
    conflict_graph: ConflictGraph  # bank conflicts between buffers
    exclusive: frozenset[str] = frozenset()  # buffers that share memory with no other one
    copied: frozenset[str] = frozenset()  # buffers that innermost loops copy from or to arrays
    alignments: Mapping[str, int] = field(default_factory=dict)  # what instructions ask for beyond it


def allocate(kernel: BlockKernel, target: AscendTarget) -> BlockKernel:
    """Return the kernel with an address for every buffer, and without dead numbers and buffers.

    Raises
    ------
    NoRoomOnAscend
        When a core has too little memory, at the line where most is in use.
    """
    kernel = without_dead(kernel)
    all_items = kernel.body + kernel.cube_body
    used_buffers = {view.of.name for item in items_of(all_items) for view in all_views(item)}
    kernel = replace(kernel, buffers=tuple(b for b in kernel.buffers if b.name in used_buffers))
    for attempt in (kernel, _single_buffered(kernel)):
        addresses = _place_all(attempt, target)
        if addresses is not None:
            placed_buffers = [replace(b, address=addresses[b.name], ahead=False) for b in attempt.buffers]
            return with_buffers(attempt, {b.name: b for b in placed_buffers})
    raise _out_of_memory(_single_buffered(kernel), target)


def _pools(kernel: BlockKernel, target: AscendTarget) -> Iterator[tuple[MemoryPool, list[Buffer]]]:
    """Yield each memory that the kernel uses, with its buffers."""
    ranges = live_ranges(kernel.body) | live_ranges(kernel.cube_body)
    conflicts = conflict_graph(kernel)
    read_by_scalar_unit = frozenset(
        view.of.name for item in items_of(kernel.body) for x in scalars(item) for view in memory_reads(x)
    )
    copied = frozenset(_innermost_copies(kernel.body))
    for space in sorted({b.space for b in kernel.buffers}):
        memory = target.memories[space]
        alignment = max(memory.alignment, ALIGNMENT.get(space, 0))
        buffers = [b for b in kernel.buffers if b.space == space]
        alignments = operand_alignments(kernel)
        yield (
            MemoryPool(space, memory.bytes, alignment, ranges, conflicts, read_by_scalar_unit, copied, alignments),
            buffers,
        )


def operand_alignments(kernel: BlockKernel) -> dict[str, int]:
    """Return the alignments of buffers that instructions ask for beyond that of their memory."""
    alignments: dict[str, int] = {}
    for instr in kernel.instructions():
        for view, size in zip(views(instr), row_of(instr).aligned, strict=False):
            alignments[view.of.name] = max(size, alignments.get(view.of.name, 1))
    return alignments


def _innermost_copies(items: tuple[Item, ...]) -> list[str]:
    """Return the UB buffers that are copied from or to arrays in the most deeply nested loops."""
    copies: list[tuple[int, str]] = []

    def note(items: tuple[Item, ...], depth: int) -> None:
        for item in items:
            views = all_views(item) if isinstance(item, Instr) and item.name.startswith("DataCopy") else ()
            if any(view.space == "GM" for view in views):
                copies.extend((depth, view.of.name) for view in views if view.space == "UB")
            for side in parts(item):
                note(side, depth + isinstance(item, Loop | While))

    note(items, 0)
    return [name for depth, name in copies if depth == max(d for d, _ in copies)]


def _place_all(kernel: BlockKernel, target: AscendTarget) -> dict[str, int] | None:
    """Return the addresses of all buffers, None where a memory is too small."""
    addresses: dict[str, int] = {}
    for pool, buffers in _pools(kernel, target):
        pool_addresses = _place(pool, buffers)
        if pool_addresses is None:
            return None
        addresses.update(pool_addresses)
    return addresses


def _place(pool: MemoryPool, buffers: list[Buffer]) -> dict[str, int] | None:
    """Try placements from the fastest to the tightest.

    Disjoint; shared without bank conflicts; shared, large buffers first; shared, in the order of the live ranges.
    """
    by_size = sorted(buffers, key=lambda b: -b.bytes)
    by_begin = sorted(buffers, key=lambda b: pool.live_ranges[b.name].first)
    attempts = ((by_size, False, True), (by_size, True, True), (by_size, True, False), (by_begin, True, False))
    for order, is_sharing, avoids_conflicts in attempts:
        exclusive_sets = (
            (pool.exclusive | pool.copied, pool.exclusive, frozenset[str]()) if is_sharing else (pool.exclusive,)
        )
        for attempt_pool in (replace(pool, exclusive=exclusive) for exclusive in dict.fromkeys(exclusive_sets)):
            prioritised = _prioritised(order, attempt_pool.exclusive if is_sharing else frozenset())
            addresses = _first_fit(attempt_pool, prioritised, is_sharing, avoids_conflicts and pool.space == "UB")
            if addresses is not None:
                return addresses
    return None


def _prioritised(order: list[Buffer], prioritised: frozenset[str]) -> list[Buffer]:
    """Sort the buffers with some names before all others."""
    return sorted(order, key=lambda b: b.name not in prioritised)


def _first_fit(
    pool: MemoryPool, order: list[Buffer], is_sharing: bool, avoids_conflicts: bool
) -> dict[str, int] | None:
    """Place buffers in order: fewest bank conflicts first, then the smallest gap, then the lowest address."""
    addresses: dict[str, int] = {}
    sizes = {b.name: b.bytes for b in order}
    for buffer in order:
        live_range = pool.live_ranges[buffer.name]
        is_exclusive = not is_sharing or buffer.name in pool.exclusive
        occupied = [
            (addresses[n], addresses[n] + sizes[n])
            for n in addresses
            if is_exclusive or n in pool.exclusive or pool.live_ranges[n].overlaps(live_range)
        ]
        gaps = list(_gaps(occupied, pool.bytes))
        alignment = max(pool.alignment, pool.alignments.get(buffer.name, 1))
        choices = [
            (
                pool.conflict_graph.conflicts(buffer.name, at, addresses) if avoids_conflicts else 0,
                end - start if is_sharing else 0,
                at,
            )
            for start, end in gaps
            for at in _candidate_addresses(start, end, buffer.bytes, alignment, avoids_conflicts)
        ]
        if not choices:
            return None
        addresses[buffer.name] = min(choices)[2]
    return addresses


def _gaps(occupied: list[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Yield the free stretches between occupied ones, which may overlap."""
    ends = [(0, 0), *sorted(occupied), (size, size)]
    free_from = 0
    for (_, end), (start, _) in pairwise(ends):
        free_from = max(free_from, end)
        if start > free_from:
            yield free_from, start


def _candidate_addresses(start: int, end: int, size: int, alignment: int, avoids_conflicts: bool) -> Iterator[int]:
    """Yield addresses in a gap. A buffer of a repeat or more begins in the first or in the middle bank of a row."""
    lowest = -(-start // alignment) * alignment
    addresses = [lowest]
    if avoids_conflicts and size >= REPEAT:
        regions = [lowest, *(at for at in range(0, end, REGION) if at >= lowest)]
        addresses = [-(-at // BANK_ROW) * BANK_ROW + half for at in regions for half in (0, BANK_ROW // 2)]
    yield from (at for at in addresses if at + size <= end)


def _single_buffered(kernel: BlockKernel) -> BlockKernel:
    """Return the kernel with double buffers in UB reduced to one stage.

    A buffer qualifies if all its views name the same stage expression: then no iteration touches the stage of another
    one. The kernel stays as it is where a loop carries such a buffer from one iteration to the next.
    """
    stages: dict[str, set[Scalar]] = {}
    all_items = kernel.body + kernel.cube_body
    for item in items_of(all_items):
        for view in all_views(item):
            stages.setdefault(view.of.name, set()).add(view.stage)
    single = {b.name: replace(b, stages=1) for b in kernel.buffers if b.space == "UB" and b.stages > 1}
    single = {name: b for name, b in single.items() if len(stages[name]) == 1}

    def change(view: View) -> View:
        return replace(view, stage=0) if view.of.name in single else view

    body = mapped(kernel.body, change)
    cube_body = mapped(kernel.cube_body, change)
    changed = with_buffers(replace(kernel, body=body, cube_body=cube_body), single)
    carried = loop_carried_buffers(changed.body) | loop_carried_buffers(changed.cube_body)
    return changed if not carried & single.keys() else kernel


def _out_of_memory(kernel: BlockKernel, target: AscendTarget) -> NoRoomOnAscend:
    """Build the error for the memory that is too small, at the moment when most of it is in use."""
    pool, buffers = next(entry for entry in _pools(kernel, target) if _place(*entry) is None)

    def alive(buffer: Buffer) -> list[Buffer]:
        begin = pool.live_ranges[buffer.name].first
        return [b for b in buffers if pool.live_ranges[b.name].first <= begin <= pool.live_ranges[b.name].last]

    def bytes_at(b: Buffer) -> int:
        return sum(x.bytes for x in alive(b))

    peak = max(buffers, key=bytes_at)
    needed = bytes_at(peak)
    largest = max(alive(peak), key=lambda b: b.bytes)
    return NoRoomOnAscend(
        Loc(kernel.file or "<unknown>", pool.live_ranges[peak.name].line),
        needed=needed,
        space=pool.space,
        chip=target.name,
        available=pool.bytes,
        percent=min(99, 100 * pool.bytes // needed),
        largest=largest.name,
        bytes=largest.bytes,
        otherwise="",
    )
