"""Addresses for the buffers of a kernel: apart while there is room, sharing memory where there is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from pypto.backends.ascend.block.bank_conflicts import REGION, Neighbours, neighbours
from pypto.backends.ascend.block.liveness import Life, from_before, lives
from pypto.backends.ascend.blockir.effects import all_views, items_of, memory_reads, row_of, scalars, views
from pypto.backends.ascend.blockir.ir import BlockKernel, Buffer, Instr, Item, Loop, Scalar, View, While, parts
from pypto.backends.ascend.blockir.rewrite import mapped, with_buffers, without_dead
from pypto.backends.ascend.target import AscendTarget
from pypto.errors.ascend import NoRoomOnAscend
from pypto.loc import Loc

ALIGNMENT: Final = {"L0C": 1024}  # what Mmad writes, where the memory itself asks for less
ROW: Final = 512  # bytes that all banks of a region hold side by side


@dataclass(frozen=True)
class MemoryPool:
    """A memory that buffers are placed in.

    Those `apart` share it with none: the scalar unit, which reads them, would wait for the others, too. So would, of
    those that are `copied` to or from arrays in the innermost loops, the vector unit for the copy. What is in `aligned`
    begins at multiples of more bytes than the others.
    """

    space: str
    bytes: int
    alignment: int
    lives: Mapping[str, Life]
    neighbours: Neighbours
    apart: frozenset[str] = frozenset()
    copied: frozenset[str] = frozenset()
    aligned: Mapping[str, int] = field(default_factory=dict)


def allocate(kernel: BlockKernel, target: AscendTarget) -> BlockKernel:
    """The kernel with an address for every buffer, and without numbers and buffers that nothing uses.

    Raises
    ------
    NoRoomOnAscend
        When a core has too little memory, at the line where most is in use.
    """
    kernel = without_dead(kernel)
    everything = kernel.body + kernel.cube_body
    touched = {view.of.name for item in items_of(everything) for view in all_views(item)}
    kernel = replace(kernel, buffers=tuple(b for b in kernel.buffers if b.name in touched))
    for attempt in (kernel, _without_stages(kernel)):
        places = _place_all(attempt, target)
        if places is not None:
            placed = [replace(b, address=places[b.name], ahead=False) for b in attempt.buffers]
            return with_buffers(attempt, {b.name: b for b in placed})
    raise _out_of_memory(_without_stages(kernel), target)


def _pools(kernel: BlockKernel, target: AscendTarget) -> Iterator[tuple[MemoryPool, list[Buffer]]]:
    alive = lives(kernel.body) | lives(kernel.cube_body)
    near = neighbours(kernel)
    apart = frozenset(view.of.name for item in items_of(kernel.body) for x in scalars(item) for view in memory_reads(x))
    copied = frozenset(_copied(kernel.body))
    for space in sorted({b.space for b in kernel.buffers}):
        memory = target.memories[space]
        alignment = max(memory.alignment, ALIGNMENT.get(space, 0))
        mine = [b for b in kernel.buffers if b.space == space]
        yield MemoryPool(space, memory.bytes, alignment, alive, near, apart, copied, aligned(kernel)), mine


def aligned(kernel: BlockKernel) -> dict[str, int]:
    """What instructions ask of the begins of buffers beyond what a memory asks for."""
    found: dict[str, int] = {}
    for instr in kernel.instructions():
        for view, size in zip(views(instr), row_of(instr).aligned, strict=False):
            found[view.of.name] = max(size, found.get(view.of.name, 1))
    return found


def _copied(items: tuple[Item, ...]) -> list[str]:
    """The buffers that the innermost loops of all that copy from or to arrays do that with."""
    found: list[tuple[int, str]] = []

    def note(items: tuple[Item, ...], depth: int) -> None:
        for item in items:
            views = all_views(item) if isinstance(item, Instr) and item.name.startswith("DataCopy") else ()
            if any(view.space == "GM" for view in views):
                found.extend((depth, view.of.name) for view in views if view.space == "UB")
            for side in parts(item):
                note(side, depth + isinstance(item, Loop | While))

    note(items, 0)
    return [name for depth, name in found if depth == max(d for d, _ in found)]


def _place_all(kernel: BlockKernel, target: AscendTarget) -> dict[str, int] | None:
    found: dict[str, int] = {}
    for room, buffers in _pools(kernel, target):
        places = _place(room, buffers)
        if places is None:
            return None
        found.update(places)
    return found


def _place(room: MemoryPool, buffers: list[Buffer]) -> dict[str, int] | None:
    """Places that are all apart, else shared ones in bank order, else as tight as can be."""
    by_size = sorted(buffers, key=lambda b: -b.bytes)
    by_begin = sorted(buffers, key=lambda b: room.lives[b.name].first)
    attempts = ((by_size, False, True), (by_size, True, True), (by_size, True, False), (by_begin, True, False))
    for order, shares, in_banks in attempts:
        fewer = (room.apart | room.copied, room.apart, frozenset[str]()) if shares else (room.apart,)
        for some in (replace(room, apart=apart) for apart in dict.fromkeys(fewer)):
            named = _first(order, some.apart if shares else frozenset())
            places = _in_order(some, named, shares, in_banks and room.space == "UB")
            if places is not None:
                return places
    return None


def _first(order: list[Buffer], names: frozenset[str]) -> list[Buffer]:
    """Some buffers before all others."""
    return sorted(order, key=lambda b: b.name not in names)


def _in_order(room: MemoryPool, order: list[Buffer], shares: bool, in_banks: bool) -> dict[str, int] | None:
    places: dict[str, int] = {}
    sizes = {b.name: b.bytes for b in order}
    for buffer in order:
        life = room.lives[buffer.name]
        alone = not shares or buffer.name in room.apart
        taken = [(places[n], places[n] + sizes[n]) for n in places
                 if alone or n in room.apart or room.lives[n].meets(life)]  # fmt: skip
        gaps = list(_gaps(taken, room.bytes))
        alignment = max(room.alignment, room.aligned.get(buffer.name, 1))
        fits = [
            (room.neighbours.conflicts(buffer.name, at, places) if in_banks else 0, end - start if shares else 0, at)
            for start, end in gaps
            for at in _candidates(start, end, buffer.bytes, alignment, in_banks)
        ]
        if not fits:
            return None
        places[buffer.name] = min(fits)[2]
    return places


def _gaps(taken: list[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """The free stretches between places, which may overlap."""
    ends, edge = [(0, 0), *sorted(taken), (size, size)], 0
    for (_, end), (start, _) in pairwise(ends):
        edge = max(edge, end)
        if start > edge:
            yield edge, start


def _candidates(start: int, end: int, size: int, alignment: int, in_banks: bool) -> Iterator[int]:
    """Addresses in a gap; a buffer of many rows begins in the first bank or in the middle one, in any region."""
    first = -(-start // alignment) * alignment
    begins = [first]
    if in_banks and size > ROW:
        regions = [first, *(at for at in range(0, end, REGION) if at >= first)]
        begins = [-(-at // ROW) * ROW + half for at in regions for half in (0, ROW // 2)]
    yield from (at for at in begins if at + size <= end)


def _without_stages(kernel: BlockKernel) -> BlockKernel:
    """The kernel without double buffers in UB, where every iteration keeps to its own stage."""
    stages: dict[str, set[Scalar]] = {}
    everything = kernel.body + kernel.cube_body
    for item in items_of(everything):
        for view in all_views(item):
            stages.setdefault(view.of.name, set()).add(view.stage)
    lone = {b.name: replace(b, stages=1) for b in kernel.buffers if b.space == "UB" and b.stages > 1}
    lone = {name: b for name, b in lone.items() if len(stages[name]) == 1}

    def change(view: View) -> View:
        return replace(view, stage=0) if view.of.name in lone else view

    body, cube_body = mapped(kernel.body, change), mapped(kernel.cube_body, change)
    made = with_buffers(replace(kernel, body=body, cube_body=cube_body), lone)
    kept = from_before(made.body) | from_before(made.cube_body)
    return made if not kept & lone.keys() else kernel


def _out_of_memory(kernel: BlockKernel, target: AscendTarget) -> NoRoomOnAscend:
    room, buffers = next(x for x in _pools(kernel, target) if _place(*x) is None)

    def alive(at: Buffer) -> list[Buffer]:
        moment = room.lives[at.name].first
        return [b for b in buffers if room.lives[b.name].first <= moment <= room.lives[b.name].last]

    def bytes_at(b: Buffer) -> int:
        return sum(x.bytes for x in alive(b))

    peak = max(buffers, key=bytes_at)
    needed, largest = bytes_at(peak), max(alive(peak), key=lambda b: b.bytes)
    return NoRoomOnAscend(
        Loc(kernel.file or "<unknown>", room.lives[peak.name].line), needed=needed, space=room.space, chip=target.name,
        available=room.bytes, percent=min(99, 100 * room.bytes // needed), largest=largest.name, bytes=largest.bytes,
    )  # fmt: skip
