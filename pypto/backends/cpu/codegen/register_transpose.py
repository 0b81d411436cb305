"""Register transpose: an operand that is contiguous along another loop than the lanes is loaded in tiles and
transposed.

Otherwise its lanes would be gathered, one element at a time. A chunk takes as many steps of the other loop at once as
half a register has lanes; the operand is loaded along that loop, and a butterfly of shuffles transposes the tile. Legal
for bodies that compute and store only, over operands that the nest does not write.

for r in rows, lanes c: y[r, c] = x[c, r]        # x is gathered becomes for r in rows step 8, lanes c: t =
transpose(x[c.., r..r+8]); y[r..r+8, c] = t
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pypto.backends.cpu.codegen.memory import Chunk, register_dtype
from pypto.backends.cpu.loopir.index_maps import (
    IndexedValue,
    IndexMap,
    inlined_operands,
    is_tile,
    operand_map,
    tile_operands,
)
from pypto.backends.cpu.loopir.ir import Buffer, Stmt
from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.llvm.value import VectorValue
from pypto.ir.core import Value
from pypto.ir.types import DType, int64
from pypto.ops.memory import Access

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.values import ValueEmitter

_MAX_BODY_OPS = 12  # of a body, whose text is repeated for each row of a tile
MIN_TILE_SIDE = 4  # lanes and rows from which a tile pays


class TransposeTiling:
    """Finds operands that are contiguous along another loop than the lanes."""

    def __init__(
        self,
        in_memory: Callable[[Value], Buffer | None],  # the buffer that a value is read from
        is_overwritten: Callable[[Value], bool],  # whether the nest writes what reading a value reads
        scalar: Callable[[Value], VectorValue],
        enabled: bool = True,
    ) -> None:
        self.in_memory = in_memory
        self.is_overwritten = is_overwritten
        self.scalar = scalar
        self.enabled = enabled

    def stride_along(self, v: Value, index: IndexMap, position: int) -> str:
        """Elements between neighbours of an operand along a loop, as text; empty where that is not known."""
        buffer = self.in_memory(v)
        if buffer is not None:
            return str(sum(s for p, s in zip(index, buffer.strides, strict=True) if p == position))
        if v.op is None or v.op.name != "tile_load":
            return ""
        access = Access.of(v.op)
        if is_tile(access.base):
            return ""
        texts = [self.scalar(s).text for p, s in zip(index, access.strides, strict=True) if p == position]
        return texts[0] if texts else "0"

    def reads_transposed(self, v: Value, index: IndexMap, lanes: int, other: int) -> bool:
        """Whether an operand is strided along the lanes and contiguous along another loop."""
        if self.stride_along(v, index, lanes) in ("", "0", "1") or self.stride_along(v, index, other) != "1":
            return False
        return not self.is_overwritten(v) and not (isinstance(v.tile.elem, DType) and v.tile.elem.is_bool)

    def operand_tree(self, roots: list[IndexedValue]) -> list[IndexedValue]:
        """All that computing some values computes and reads, with index maps; each pair once."""
        return list(inlined_operands(roots, self.is_memory_operand))

    def is_memory_operand(self, v: Value) -> bool:
        """Whether computing a value reads it from memory: from a buffer, or from an array."""
        return self.in_memory(v) is not None or v.op is None or v.op.name == "tile_load"

    def memory_operands(self, roots: list[IndexedValue]) -> list[IndexedValue]:
        """What computing some values reads from memory, with index maps; that of a gather has no known position."""
        return [(v, index) for v, index in self.operand_tree(roots) if self.is_memory_operand(v)]

    def transpose_axis(self, body: list[Stmt]) -> int:
        """The position of the loop along which most transposed operands are contiguous, or -1 where none is."""
        first = body[0]
        if not self.enabled:
            return -1
        if first.lanes not in first.loops or any(s.kind not in ("compute", "zero", "store") for s in body):
            return -1
        lanes = first.loops.index(first.lanes)
        sources = [source for s in body for source in values_written(s)]
        operands = self.operand_tree(sources)
        loops = [p for p, n in enumerate(first.sizes[:lanes]) if n >= MIN_TILE_SIDE]
        reads = [(v, index) for v, index in operands if self.is_memory_operand(v)]
        counts = {p: sum(self.reads_transposed(v, index, lanes, p) for v, index in reads) for p in loops}
        best = max(counts, key=lambda p: counts[p], default=-1)
        return best if len(operands) <= _MAX_BODY_OPS and counts.get(best) else -1


def values_written(stmt: Stmt) -> list[IndexedValue]:
    """The values that a statement writes, with their index maps."""
    if stmt.source is not None or stmt.kind == "zero":
        return []
    if stmt.value is not None:
        return [(stmt.value, stmt.index)]
    return [(v, operand_map(stmt.the_op, v, stmt.index)) for v in tile_operands(stmt.the_op)]


def row_chunks(e: CpuLaneEmitter, at: Chunk) -> list[Chunk]:
    """The chunks of one row each that a chunk of several rows is made of."""
    if not at.transpose_rows:
        return [at]
    first = at.index[at.transpose_axis]
    rows = (first, *(e.add(first, e.const(r, int64)) for r in range(1, at.transpose_rows)))
    return [replace(with_index(at, at.transpose_axis, row), row_indices=rows) for row in rows]


def with_index(at: Chunk, position: int, index: VectorValue) -> Chunk:
    """The chunk with another index at a loop position."""
    return replace(at, index=[*at.index[:position], index, *at.index[position + 1 :]])


def transposed_tile(nest: ValueEmitter, v: Value, index: IndexMap, at: Chunk, side: int) -> list[VectorValue]:
    """The lanes of an operand in all rows of a chunk, from transposed tiles of `side` lanes."""
    tiles = []
    for start in range(0, at.width, side):
        columns = tile_columns(nest, v, index, at, start, side)
        halves = [nest.e.joined(columns[k :: side // 2]) for k in range(side // 2)]
        tiles.append(transpose_registers(nest.e, halves))
    return [nest.e.joined(list(row)) for row in zip(*tiles, strict=True)][: at.transpose_rows]


def tile_columns(nest: ValueEmitter, v: Value, index: IndexMap, at: Chunk, start: int, side: int) -> list[VectorValue]:
    """The columns of one tile, each a contiguous load; columns behind the tail repeat one that is valid."""
    height = side // 2
    corner = with_index(at, at.transpose_axis, at.row_indices[0])
    corner = replace(corner, lanes=at.transpose_axis, width=height, tail=at.transpose_rows % height, row_indices=())
    columns: list[VectorValue] = []
    for n in range(start, start + side):
        if at.tail and n >= at.tail:
            zero = nest.e.const(0, register_dtype(v.tile.elem))
            columns.append(columns[0] if columns else nest.e.splat(zero, height))
            continue
        column = nest.e.add(at.index[at.lanes], nest.e.const(n, int64))
        columns.append(nest.e.splat(nest.value(v, index, with_index(corner, at.lanes, column)), height))
    return columns


def transpose_registers(e: CpuLaneEmitter, rows: list[VectorValue]) -> list[VectorValue]:
    """Transpose square tiles side by side in registers: a butterfly of log2(rows) steps.

    At each step, rows that lie `step` apart exchange their blocks of `step` lanes.
    """
    rows = list(rows)
    lanes = rows[0].width
    step = len(rows) // 2
    while step:
        low = [lane if not lane & step else lanes + lane - step for lane in range(lanes)]
        high = [lane + step if not lane & step else lanes + lane for lane in range(lanes)]
        for r in [r for r in range(len(rows)) if not r & step]:
            upper = rows[r]
            lower = rows[r + step]
            rows[r] = e.shuffle(upper, lower, low)
            rows[r + step] = e.shuffle(upper, lower, high)
        step //= 2
    return rows
