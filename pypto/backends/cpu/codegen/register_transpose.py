"""Tiles read across their rows: squares of registers, loaded along the rows and transposed in place of gathers.

Where the lanes run along a dimension in which an operand's elements lie apart, while they are neighbours along another
loop, a chunk takes as many steps of that loop at once as it has lanes. The operand's lanes then run along that loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pypto.backends.cpu.codegen.memory import Chunk, register_dtype
from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.loopir.index_maps import GATHERING, IndexMap, is_tile, operand_map, tile_operands
from pypto.backends.cpu.loopir.ir import Buffer, Stmt
from pypto.ir.core import Value
from pypto.ir.types import DType, int64
from pypto.ops.memory import Access

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.values import ValueEmitter

_MAX_BODY_OPS = 12  # of a body: it is written once for each row of a square
MIN_TILE_SIDE = 4  # lanes and rows from which a block pays
IndexedValue = tuple[Value, IndexMap]


class TransposeTiling:
    """Tells which operands are read across.

    `in_memory` gives the buffer that a value is read from, `is_overwritten` tells whether the nest writes what a leaf
    reads: that stays in the order of the elements.
    """

    def __init__(
        self,
        in_memory: Callable[[Value], Buffer | None],
        changes: Callable[[Value], bool],
        scalar: Callable[[Value], VectorValue],
        enabled: bool = True,
    ) -> None:
        self.in_memory = in_memory
        self.is_overwritten = changes
        self.scalar = scalar
        self.enabled = enabled

    def stride_along(self, v: Value, index: IndexMap, position: int) -> str:
        """Elements between neighbours along a loop, of what a leaf reads; "" where that is not told."""
        buffer = self.in_memory(v)
        if buffer is not None:
            return str(sum(s for p, s in zip(index, buffer.strides, strict=True) if p == position))
        if v.op is None or v.op.name != "tile_load" or is_tile((access := Access.of(v.op)).base):
            return ""
        texts = [self.scalar(s).text for p, s in zip(index, access.strides, strict=True) if p == position]
        return texts[0] if texts else "0"

    def reads_transposed(self, v: Value, index: IndexMap, lanes: int, other: int) -> bool:
        """True for a leaf whose neighbours lie along another loop than the lanes."""
        if self.stride_along(v, index, lanes) in ("", "0", "1") or self.stride_along(v, index, other) != "1":
            return False
        return not self.is_overwritten(v) and not (isinstance(v.tile.elem, DType) and v.tile.elem.is_bool)

    def memory_operands(self, v: Value, index: IndexMap, seen: set[IndexedValue]) -> Iterator[IndexedValue]:
        """What computing a value reads from memory, with its index map."""
        if (v, index) in seen:
            return
        seen.add((v, index))
        if self.in_memory(v) is not None or v.op is None or v.op.name == "tile_load":
            yield v, index
            return
        for operand in tile_operands(v.op):
            if v.op.name not in GATHERING or operand is not v.op.operands[0]:
                yield from self.memory_operands(operand, operand_map(v.op, operand, index), seen)

    def transpose_axis(self, body: list[Stmt]) -> int:
        """Position of the loop along which the body's operands lie that are read across, or -1."""
        first, seen = body[0], set[IndexedValue]()
        if not self.enabled:
            return -1
        if first.lanes not in first.loops or any(s.kind not in ("compute", "zero", "store") for s in body):
            return -1
        lanes, sources = first.loops.index(first.lanes), [source for s in body for source in values_written(s)]
        found = [leaf for v, index in sources for leaf in self.memory_operands(v, index, seen)]
        loops = [p for p, n in enumerate(first.sizes[:lanes]) if n >= MIN_TILE_SIDE]
        counts = {p: sum(self.reads_transposed(v, index, lanes, p) for v, index in found) for p in loops}
        best = max(counts, key=lambda p: counts[p], default=-1)
        return best if len(seen) <= _MAX_BODY_OPS and counts.get(best) else -1


def values_written(stmt: Stmt) -> list[IndexedValue]:
    """Values that a statement writes, with their index maps."""
    if stmt.source is not None or stmt.kind == "zero":
        return []
    if stmt.value is not None:
        return [(stmt.value, stmt.index)]
    return [(v, operand_map(stmt.the_op, v, stmt.index)) for v in tile_operands(stmt.the_op)]


def row_chunks(e: LaneEmitter, at: Chunk) -> list[Chunk]:
    """A square step by step."""
    if not at.transpose_rows:
        return [at]
    first = at.index[at.transpose_axis]
    rows = (first, *(e.add(first, e.const(r, int64)) for r in range(1, at.transpose_rows)))
    return [replace(with_index(at, at.transpose_axis, row), row_indices=rows) for row in rows]


def with_index(at: Chunk, position: int, to: VectorValue) -> Chunk:
    return replace(at, index=[*at.index[:position], to, *at.index[position + 1 :]])


def transposed_tile(nest: ValueEmitter, v: Value, index: IndexMap, at: Chunk, side: int) -> list[VectorValue]:
    """What a leaf holds in all rows of a chunk that is one or more blocks wide, each of `side` lanes."""
    found = []
    for start in range(0, at.width, side):
        parts = tile_columns(nest, v, index, at, start, side)
        rows = [nest.e.joined(parts[k :: side // 2]) for k in range(side // 2)]
        found.append(transpose_registers(nest.e, rows))
    return [nest.e.joined(list(row)) for row in zip(*found, strict=True)][: at.transpose_rows]


def tile_columns(nest: ValueEmitter, v: Value, index: IndexMap, at: Chunk, start: int, side: int) -> list[VectorValue]:
    """Columns of a block, along which the elements are neighbours; those past the tail are any that exist."""
    tall = side // 2
    corner = with_index(at, at.transpose_axis, at.row_indices[0])
    corner = replace(corner, lanes=at.transpose_axis, width=tall, tail=at.transpose_rows % tall, row_indices=())
    found: list[VectorValue] = []
    for n in range(start, start + side):
        if at.tail and n >= at.tail:
            found.append(found[0] if found else nest.e.splat(nest.e.const(0, register_dtype(v.tile.elem)), tall))
            continue
        place = nest.e.add(at.index[at.lanes], nest.e.const(n, int64))
        found.append(nest.e.splat(nest.value(v, index, with_index(corner, at.lanes, place)), tall))
    return found


def transpose_registers(e: LaneEmitter, rows: list[VectorValue]) -> list[VectorValue]:
    """Squares side by side in registers, each transposed: a butterfly of log2(rows) steps.

    At each step, rows that lie `step` apart exchange their blocks of `step` lanes.
    """
    rows, lanes = list(rows), rows[0].width
    step = len(rows) // 2
    while step:
        low = [lane if not lane & step else lanes + lane - step for lane in range(lanes)]
        high = [lane + step if not lane & step else lanes + lane for lane in range(lanes)]
        for r in [r for r in range(len(rows)) if not r & step]:
            pair = rows[r], rows[r + step]
            rows[r], rows[r + step] = e.shuffle(*pair, low), e.shuffle(*pair, high)
        step //= 2
    return rows
