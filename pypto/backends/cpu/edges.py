"""Blocks that end somewhere among their lanes: chunks that exist as a whole run without masks, those behind them with.

A block of 1024 columns over rows of 781, the next power of two, is never whole. Where its chunks are many, no version
is needed for whole blocks alone: in these the part without masks is all there is to do.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.crosswise import stored
from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.loopir import Nest, Stmt
from pypto.backends.cpu.memory import Chunk
from pypto.backends.cpu.parts import Part, lane_parts, lanes_of
from pypto.backends.cpu.pull import ELSEWHERE, IndexMap, pulled
from pypto.backends.cpu.writer import Carried
from pypto.ir.types import int1, int64
from pypto.ops.memory import Access

if TYPE_CHECKING:
    from pypto.backends.cpu.nest import NestEmitter

_CHUNKS: Final = (4, 64)  # so many make up for two loops in place of one, in a row alone and in rows of a block
_KINDS: Final = ("compute", "store", "reduce", "arg")


def can_split(nest: NestEmitter, item: Nest) -> bool:
    """True where all loops along lanes are chunks of one width, whose masks depend on where a row ends."""
    free = len(item.bodies) == 1 or item.shared == 0
    return free and nest.block is None and all(splits(nest, body) for body in item.bodies)


def splits(nest: NestEmitter, body: list[Stmt]) -> bool:
    first = body[0]
    if first.lanes not in first.loops or first.lanes != first.loops[-1] or any(s.kind not in _KINDS for s in body):
        return False
    side, position = lanes_of(nest.e.target, body), len(first.loops) - 1
    parts = lane_parts(body, side, nest.registers(body))
    long = len(parts) == 1 and not parts[0].tail and parts[0].stop >= _CHUNKS[position > 0] * parts[0].width
    if not long or nest.crossing.loop(body) >= 0:
        return False
    found = list(accesses(nest, body))
    known = nest.memory.known
    open_ended = any(p == position and not known(a, d) for a, index in found for d, p in enumerate(index))
    return open_ended and all(p != ELSEWHERE for _, index in found for p in index)


def accesses(nest: NestEmitter, body: list[Stmt]) -> Iterator[tuple[Access, IndexMap]]:
    """Structured accesses of a body, each with the loop positions of its dimensions."""
    own = {s.value for s in body if s.value is not None and nest.buffers.get(s.value) is s.buffer}
    for stmt in body:
        if stmt.kind == "store":
            yield Access.of(stmt.does), stmt.index
        for v, index in pulled(stored(stmt), lambda v: v in nest.buffers and v not in own):
            if v.op is not None and v.op.name == "tile_load" and (v not in nest.buffers or v in own):
                yield Access.of(v.op), index


def whole_chunks(nest: NestEmitter, body: list[Stmt], at: Chunk, part: Part) -> str:
    """Run the chunks that exist as a whole, without masks; gives where the others begin."""
    e, w = nest.e, nest.w
    stop = e.binary("and", length(nest, body, at, part), e.const(-part.width, int64))

    def run(body: list[Stmt], at: Chunk) -> list[Lanes]:
        with w.loop(str(part.start), stop.text, str(part.width)) as i:
            nest.loops(body, replace(at, index=[*at.index, i]))
        return []

    def unmasked() -> list[Lanes]:  # what all lanes share need not exist where no chunk does: it is loaded in here
        with w.based():
            return nest.versions(body, replace(at, masked=False), run)

    w.branch(e.cmp("gt", stop, e.const(part.start, int64)).text, [unmasked, list])
    return stop.text


def length(nest: NestEmitter, body: list[Stmt], at: Chunk, part: Part) -> Lanes:
    """How many lanes exist in every access, from the first one on; none where some do not begin."""
    e, zero, memory = nest.e, nest.e.const(0, int64), nest.memory
    ends, conditions = dict[Lanes, None](), dict[Lanes, None]()
    for access, index in accesses(nest, body):
        for d, p in enumerate(index):
            if memory.known(access, d):
                continue
            offset, extent = memory.scalar(access.offsets[d]), memory.scalar(access.extents[d])
            if p == at.lanes:
                ends[e.sub(extent, offset)] = None
                conditions[e.cmp("ge", offset, zero)] = None
            else:
                first = e.add(offset, at.at(p))
                conditions[e.and_(e.cmp("ge", first, zero), e.cmp("lt", first, extent))] = None
    most = functools.reduce(e.minimum, ends, e.const(part.stop, int64))
    there = functools.reduce(e.and_, conditions)
    return e.select(there, e.maximum(most, zero), zero)


def settle(nest: NestEmitter, body: list[Stmt], at: Chunk, part: Part, start: Lanes) -> None:
    """A loop over chunks without elements, left when one has changed no accumulator."""
    e, w, stop = nest.e, nest.w, nest.e.const(part.stop, int64)
    last = Carried("%" + w.name("stop"), "i64", stop.text)
    with w.loop(start.text, last.name, str(part.width), carried=(last,)) as i:
        nest.settled = e.const(True, int1)
        nest.loops(body, replace(at, index=[*at.index, i]))
        last.next = e.select(nest.settled, i, stop).text
    nest.settled = None
