"""Loop peeling: the full chunks of a lane loop run without masks, in a loop of their own.

It pays where masks cost time and rows have several chunks: a tile of 1024 columns over rows of 781 is never in bounds
as a whole, but 12 of its 16 chunks are. Legal for bodies whose structured accesses bound the lanes by offset and extent
alone, so that the range of full chunks is an interval; chunks stay in order, so that sums are the same.

for i in 0..1024 step 64: masked(i) becomes for i in 0..first step 64: masked(i) for i in first..stop step 64:
unmasked(i) for i in stop..end step 64: masked(i)
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.codegen.memory import Chunk
from pypto.backends.cpu.codegen.register_transpose import values_written
from pypto.backends.cpu.codegen.strip_mining import Strip, strip_mine_lanes, vector_width_of
from pypto.backends.cpu.loopir.index_maps import UNKNOWN_POSITION, IndexMap, inlined_operands
from pypto.backends.cpu.loopir.ir import Nest, Stmt
from pypto.backends.cpu.techniques import is_enabled
from pypto.backends.llvm.value import VectorValue
from pypto.backends.llvm.writer import Carried
from pypto.ir.types import int1, int64
from pypto.ops.memory import Access

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.nest import NestEmitter

_MIN_CHUNKS: Final = (4, 64)  # chunks of a row from which peeling pays: of a single row, of the rows of a tile
_PEELABLE_KINDS: Final = ("compute", "store", "reduce", "arg")


def why_not_peeled(nest: NestEmitter, item: Nest, edge: bool = False) -> str:
    """Why the lane loops of a nest are not peeled; empty where they are.

    With `edge`, the answer is for the version of tiles at an edge, which peels shorter rows too.
    """
    if not is_enabled(nest.function, "peeling"):
        return "peeling is switched off"
    if nest.epilogue_region is not None:
        return "a product runs it block by block"
    if len(item.bodies) > 1 and item.fused_depth:
        return "several loops share its rows"
    return next((why for why in (why_body_not_peeled(nest, body, edge) for body in item.bodies) if why), "")


def why_body_not_peeled(nest: NestEmitter, body: list[Stmt], edge: bool) -> str:
    """Why the lane loop of one body is not peeled; empty where it is."""
    first = body[0]
    unsupported = [s for s in body if s.kind not in _PEELABLE_KINDS]
    if unsupported:
        op = unsupported[0].op
        return f"`{op.name}` is computed in its loop" if op is not None else "memory is cleared in its loop"
    if first.lanes not in first.loops or first.lanes != first.loops[-1] or nest.transposes.transpose_axis(body) >= 0:
        return "its innermost loop runs across the rows"
    accesses = list(structured_accesses(nest, body))
    if any(p == UNKNOWN_POSITION for _, index in accesses for p in index):
        return "what it picks may lie anywhere"
    vector_width = vector_width_of(nest.e.target, body)
    position = len(first.loops) - 1
    registers = edge_unroll_factor(nest, body, vector_width) if edge else nest.unroll_factor(body)
    main = strip_mine_lanes(body, vector_width, registers)[0]
    min_chunks = _MIN_CHUNKS[position > 0]
    if edge:
        min_chunks = 1 if can_narrow_masked_chunks(nest, body) else _MIN_CHUNKS[0]
    if main.tail or main.stop < min_chunks * main.width:
        return "its rows are short"
    bounds = ((access, d) for access, index in accesses for d, p in enumerate(index) if edge or p == position)
    may_be_partial = any(not nest.memory.statically_in_bounds(access, d) for access, d in bounds)
    return "" if may_be_partial else "its rows end nowhere"


def edge_unroll_factor(nest: NestEmitter, body: list[Stmt], vector_width: int) -> int:
    """Registers per chunk in the version for tiles at an edge.

    One in short rows, where narrow chunks leave fewer elements to the masked loop. A sum along the lanes keeps its
    unroll factor, so that all versions add in the same order.
    """
    registers = nest.unroll_factor(body)
    is_long = body[0].domain[body[0].lanes] >= _MIN_CHUNKS[0] * registers * vector_width
    return registers if is_long or not can_narrow_masked_chunks(nest, body) else 1


def can_narrow_masked_chunks(nest: NestEmitter, body: list[Stmt]) -> bool:
    """Whether masked chunks may be one register wide: where masks are slow, and no sum depends on the width."""
    return not nest.e.target.has_fast_masks and not body[0].forced_width and not any(s.lanes in s.reduced for s in body)


def structured_accesses(nest: NestEmitter, body: list[Stmt]) -> Iterator[tuple[Access, IndexMap]]:
    """The structured accesses of a body, with their index maps."""
    computed = {s.value for s in body if s.value is not None and nest.buffers.get(s.value) is s.buffer}
    for stmt in body:
        if stmt.kind == "store":
            yield Access.of(stmt.the_op), stmt.index
        for v, index in inlined_operands(values_written(stmt), lambda v: v in nest.buffers and v not in computed):
            if v.op is not None and v.op.name == "tile_load" and (v not in nest.buffers or v in computed):
                yield Access.of(v.op), index


def emit_peeled_loop(nest: NestEmitter, body: list[Stmt], at: Chunk, strip: Strip, end: VectorValue) -> VectorValue:
    """Emit the lane loop in three parts: masked, unmasked, masked. Gives the index at which the last chunk ends.

    The text of the masked loop is emitted once, in a loop of two iterations: the first runs it up to `first`, the
    second runs the unmasked loop and then the masked one from `stop`. The first iteration is skipped where `first` is
    the start, as it is for most rows. Where no offset can be negative, there is no first iteration.
    """
    e = nest.e
    w = nest.w
    start, zero, one = (e.const(n, int64) for n in (strip.start, 0, 1))
    first, stop = unmasked_range(nest, body, at, strip)
    width = nest.vector_width if can_narrow_masked_chunks(nest, body) else strip.width

    def emit_masked_loop(start: VectorValue, stop: VectorValue) -> None:
        with w.loop(start.text, stop.text, str(width)) as j:
            nest.emit_loops(body, replace(at, width=width, index=[*at.index, j]))

    if first.text == start.text:
        emit_unmasked_main_loop(nest, body, at, strip, (first, stop), e.cmp("lt", first, stop))
        emit_masked_loop(stop, end)
    else:
        iteration = e.select(e.cmp("gt", first, start), zero, one)
        with w.loop(iteration.text, "2", "1") as i:
            is_second = e.cmp("eq", i, one)
            is_nonempty = e.and_(is_second, e.cmp("lt", first, stop))
            emit_unmasked_main_loop(nest, body, at, strip, (first, stop), is_nonempty)
            emit_masked_loop(e.select(is_second, stop, start), e.select(is_second, end, first))
    rounded = e.binary("and", e.add(end, e.const(strip.width - 1, int64)), e.const(-strip.width, int64))
    return e.maximum(rounded, start)


def emit_unmasked_main_loop(
    nest: NestEmitter,
    body: list[Stmt],
    at: Chunk,
    strip: Strip,
    unmasked: tuple[VectorValue, VectorValue],
    is_nonempty: VectorValue,
) -> None:
    """Emit the loop without masks, under the condition `is_nonempty`.

    Loads of what all lanes share are isolated: they may be out of bounds where there is no full chunk.
    """
    w = nest.w
    first, stop = unmasked

    def emit_loop(body: list[Stmt], at: Chunk) -> list[VectorValue]:
        with w.loop(first.text, stop.text, str(strip.width)) as i:
            nest.emit_loops(body, replace(at, index=[*at.index, i]))
        return []

    def emit_nonempty() -> list[VectorValue]:
        with w.isolated():
            return nest.emit_store_versions(body, replace(at, masked=False), emit_loop)

    w.branch(is_nonempty.text, [emit_nonempty, list])


def unmasked_range(nest: NestEmitter, body: list[Stmt], at: Chunk, strip: Strip) -> tuple[VectorValue, VectorValue]:
    """The range of full chunks, all of whose accesses are in bounds; empty, at the start, where there are none."""
    e = nest.e
    memory = nest.memory
    zero = e.const(0, int64)
    start = e.const(strip.start, int64)
    stop = e.const(strip.stop, int64)
    starts = dict[VectorValue, None]()
    ends = dict[VectorValue, None]()
    conditions = dict[VectorValue, None]()
    for access, index in structured_accesses(nest, body):
        for d, p in enumerate(index):
            if memory.statically_in_bounds(access, d):
                continue
            offset = memory.scalar(access.offsets[d])
            extent = memory.scalar(access.extents[d])
            if p == at.lanes:
                if memory.may_be_negative(access, d):
                    starts[e.neg(offset)] = None
                ends[e.sub(extent, offset)] = None
            else:
                index_in_array = e.add(offset, at.index_of(p))
                at_least = [e.cmp("ge", index_in_array, zero)] if memory.may_be_negative(access, d) else []
                conditions[functools.reduce(e.and_, (*at_least, e.cmp("lt", index_in_array, extent)))] = None
    low = functools.reduce(e.maximum, starts, start)
    high = functools.reduce(e.minimum, ends, stop)
    if starts or strip.start % strip.width:
        low = e.binary("and", e.add(low, e.const(strip.width - 1, int64)), e.const(-strip.width, int64))
    high = e.binary("and", high, e.const(-strip.width, int64))
    is_nonempty = functools.reduce(e.and_, conditions, e.cmp("lt", low, high))
    return low if low.text == start.text else e.select(is_nonempty, low, start), e.select(is_nonempty, high, start)


def emit_early_exit_remainder(nest: NestEmitter, body: list[Stmt], at: Chunk, strip: Strip, start: VectorValue) -> None:
    """Emit the chunks beyond the trip count of a reduction, with an early exit.

    All these chunks hold the same values. Once one has left every accumulator unchanged, all further ones would.
    """
    e = nest.e
    w = nest.w
    stop = e.const(strip.stop, int64)
    last = Carried("%" + w.name("stop"), "i64", stop.text)
    with w.loop(start.text, last.name, str(strip.width), carried=(last,)) as i:
        nest.is_fixpoint = e.const(True, int1)
        nest.emit_loops(body, replace(at, index=[*at.index, i]))
        last.next = e.select(nest.is_fixpoint, i, stop).text
    nest.is_fixpoint = None
