"""Blocks that end somewhere among their lanes: chunks that exist as a whole run without masks, those behind them with.

A block of 1024 columns over rows of 781, the next power of two, is never whole. Where its chunks are many, no version
is needed for whole blocks alone: in these the part without masks is all there is to do.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.codegen.memory import Chunk
from pypto.backends.cpu.codegen.register_transpose import values_written
from pypto.backends.cpu.codegen.strip_mining import Strip, strip_mine_lanes, vector_width_of
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.llvm.writer import Carried
from pypto.backends.cpu.loopir.index_maps import UNKNOWN_POSITION, IndexMap, inlined_operands
from pypto.backends.cpu.loopir.ir import Nest, Stmt
from pypto.backends.cpu.techniques import is_enabled
from pypto.ir.types import int1, int64
from pypto.ops.memory import Access

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.nest import NestEmitter

_MIN_CHUNKS: Final = (4, 64)  # so many make up for two loops in place of one, in a row alone and in rows of a block
_PEELABLE_KINDS: Final = ("compute", "store", "reduce", "arg")


def why_not_peeled(nest: NestEmitter, item: Nest, edge: bool = False) -> str:
    """Why a nest's rows are not split into chunks that exist as a whole and others; empty where they are.

    Long rows are split in every version of the nest; shorter ones in that for tiles at an `edge` alone.
    """
    if not is_enabled(nest.function, "peeling"):
        return "peeling is switched off"
    if nest.epilogue_region is not None:
        return "a product runs it block by block"
    if len(item.bodies) > 1 and item.fused_depth:
        return "several loops share its rows"
    return next((why for why in (why_body_not_peeled(nest, body, edge) for body in item.bodies) if why), "")


def why_body_not_peeled(nest: NestEmitter, body: list[Stmt], edge: bool) -> str:
    first, odd = body[0], [s for s in body if s.kind not in _PEELABLE_KINDS]
    if odd:
        op = odd[0].op
        return f"`{op.name}` is computed in its loop" if op is not None else "memory is cleared in its loop"
    if first.lanes not in first.loops or first.lanes != first.loops[-1] or nest.transposes.transpose_axis(body) >= 0:
        return "its innermost loop runs across the rows"
    found = list(structured_accesses(nest, body))
    if any(p == UNKNOWN_POSITION for _, index in found for p in index):
        return "what it picks may lie anywhere"
    side, position = vector_width_of(nest.e.target, body), len(first.loops) - 1
    registers = edge_unroll_factor(nest, body, side) if edge else nest.unroll_factor(body)
    main = strip_mine_lanes(body, side, registers)[0]
    least = _MIN_CHUNKS[position > 0] if not edge else 1 if can_narrow_masked_chunks(nest, body) else _MIN_CHUNKS[0]
    if main.tail or main.stop < least * main.width:
        return "its rows are short"
    known = nest.memory.statically_in_bounds
    ends = ((access, d) for access, index in found for d, p in enumerate(index) if edge or p == position)
    return "" if any(not known(*end) for end in ends) else "its rows end nowhere"


def edge_unroll_factor(nest: NestEmitter, body: list[Stmt], side: int) -> int:
    """Registers per chunk in the version for tiles at an edge: one in short rows, of which more exists as a whole then.

    Sums along the lanes are the same in all versions.
    """
    registers = nest.unroll_factor(body)
    long = body[0].domain[body[0].lanes] >= _MIN_CHUNKS[0] * registers * side
    return registers if long or not can_narrow_masked_chunks(nest, body) else 1


def can_narrow_masked_chunks(nest: NestEmitter, body: list[Stmt]) -> bool:
    """Whether chunks with masks are better narrow: masks cost much, and no sum depends on how wide the chunks are."""
    return not nest.e.target.has_fast_masks and not body[0].forced_width and not any(s.lanes in s.reduced for s in body)


def structured_accesses(nest: NestEmitter, body: list[Stmt]) -> Iterator[tuple[Access, IndexMap]]:
    """Structured accesses of a body, each with the loop positions of its dimensions."""
    own = {s.value for s in body if s.value is not None and nest.buffers.get(s.value) is s.buffer}
    for stmt in body:
        if stmt.kind == "store":
            yield Access.of(stmt.the_op), stmt.index
        for v, index in inlined_operands(values_written(stmt), lambda v: v in nest.buffers and v not in own):
            if v.op is not None and v.op.name == "tile_load" and (v not in nest.buffers or v in own):
                yield Access.of(v.op), index


def emit_peeled_loop(nest: NestEmitter, body: list[Stmt], at: Chunk, part: Strip, live: VectorValue) -> VectorValue:
    """Run the chunks that exist as a whole without masks, and those before and behind them with masks, in order.

    The loop with masks is written once: it runs in a first turn up to the chunks that exist as a whole, and in a second
    turn from where they end. Most rows have nothing to do in the first. Gives where the chunks end.
    """
    e, w = nest.e, nest.w
    start, zero, one = (e.const(n, int64) for n in (part.start, 0, 1))
    first, stop = unmasked_range(nest, body, at, part)
    turn = e.select(e.cmp("gt", first, start), zero, one)
    with w.loop(turn.text, "2", "1") as i:
        behind = e.cmp("eq", i, one)
        emit_unmasked_main_loop(nest, body, at, part, (first, stop), e.and_(behind, e.cmp("lt", first, stop)))
        narrow = nest.vector_width if can_narrow_masked_chunks(nest, body) else part.width
        with w.loop(e.select(behind, stop, start).text, e.select(behind, live, first).text, str(narrow)) as j:
            nest.emit_loops(body, replace(at, width=narrow, index=[*at.index, j]))
    ended = e.binary("and", e.add(live, e.const(part.width - 1, int64)), e.const(-part.width, int64))
    return e.maximum(ended, start)


def emit_unmasked_main_loop(
    nest: NestEmitter,
    body: list[Stmt],
    at: Chunk,
    part: Strip,
    ends: tuple[VectorValue, VectorValue],
    some: VectorValue,
) -> None:
    """Run the chunks that exist as a whole, if there are some."""
    w = nest.w

    def run(body: list[Stmt], at: Chunk) -> list[VectorValue]:
        with w.loop(ends[0].text, ends[1].text, str(part.width)) as i:
            nest.emit_loops(body, replace(at, index=[*at.index, i]))
        return []

    def inside() -> list[VectorValue]:  # what all lanes share need not exist where no chunk does: it is loaded in here
        with w.isolated():
            return nest.emit_store_versions(body, replace(at, masked=False), run)

    w.branch(some.text, [inside, list])


def unmasked_range(nest: NestEmitter, body: list[Stmt], at: Chunk, part: Strip) -> tuple[VectorValue, VectorValue]:
    """Where the chunks begin that exist as a whole in every access, and where they end; no chunks where none do."""
    e, zero, memory, width = nest.e, nest.e.const(0, int64), nest.memory, part.width
    start, stop = e.const(part.start, int64), e.const(part.stop, int64)
    starts, ends, conditions = dict[VectorValue, None](), dict[VectorValue, None](), dict[VectorValue, None]()
    for access, index in structured_accesses(nest, body):
        for d, p in enumerate(index):
            if memory.statically_in_bounds(access, d):
                continue
            offset, extent = memory.scalar(access.offsets[d]), memory.scalar(access.extents[d])
            if p == at.lanes:
                starts[e.neg(offset)] = None
                ends[e.sub(extent, offset)] = None
            else:
                place = e.add(offset, at.index_of(p))
                conditions[e.and_(e.cmp("ge", place, zero), e.cmp("lt", place, extent))] = None
    low, high = functools.reduce(e.maximum, starts, start), functools.reduce(e.minimum, ends, stop)
    low = e.binary("and", e.add(low, e.const(width - 1, int64)), e.const(-width, int64))
    high = e.binary("and", high, e.const(-width, int64))
    there = functools.reduce(e.and_, conditions, e.cmp("lt", low, high))
    return e.select(there, low, start), e.select(there, high, start)


def emit_early_exit_remainder(nest: NestEmitter, body: list[Stmt], at: Chunk, part: Strip, start: VectorValue) -> None:
    """A loop over chunks without elements, left when one has changed no accumulator."""
    e, w, stop = nest.e, nest.w, nest.e.const(part.stop, int64)
    last = Carried("%" + w.name("stop"), "i64", stop.text)
    with w.loop(start.text, last.name, str(part.width), carried=(last,)) as i:
        nest.is_fixpoint = e.const(True, int1)
        nest.emit_loops(body, replace(at, index=[*at.index, i]))
        last.next = e.select(nest.is_fixpoint, i, stop).text
    nest.is_fixpoint = None
