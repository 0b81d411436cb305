"""Broadcast operands: arithmetic of a tile and a row or column without materialising the broadcast.

Strides of 0 between the blocks or repeats of an operand read the same data again. It saves a buffer and its writes, as
for `x - max` in softmax. It applies to float32 `add`, `sub`, `mul` and `div` whose broadcast has not been materialised
yet.

    wide = broadcast(max)                     # none
    Sub(y, x, wide, n)               ->       Sub(y, x, blocks(max), 64, rows, strides (1, 1, 0, 8, 8, 1))
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.blockir.ir import Record, Scalar, View, fold
from pypto.backends.ascend.tile.ub_layout import BLOCK, Layout
from pypto.backends.ascend.vector.builder import Lowering, advance_view
from pypto.backends.ascend.vector.handlers.broadcast import MAX_REPEATS, clear_tail, element_blocks, is_column
from pypto.backends.ascend.vector.values import AnyTile, Broadcast, Tile
from pypto.ir.core import Op
from pypto.ir.types import float32

BROADCASTABLE: Final[Mapping[str, str]] = MappingProxyType({"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div"})
_LANES: Final = 64
_MAX_REPEATS: Final = 255  # of the stride between repeats, in blocks


def broadcast_operand_op(low: Lowering, op: Op, operands: Sequence[AnyTile], shape: tuple[int, ...]) -> Tile | None:
    """Lower an op with a broadcast operand; None where it is not of this kind."""
    if op.name not in BROADCASTABLE or op.result.dtype != float32 or not shape:
        return None
    k = next(
        (
            k
            for k, x in enumerate(operands)
            if isinstance(x, Broadcast) and low.lookup(x) is None and (is_row_or_column(x) or repeated_runs(low, x))
        ),
        None,
    )
    if k is None:
        return None
    repeated = operands[k]
    full = low.materialize(operands[1 - k])
    assert isinstance(repeated, Broadcast)
    result = low.new_tile(shape, float32, op.result.hint)
    is_repeated_column = is_column(repeated.source, result)
    instruction = BroadcastInstr(
        low,
        BROADCASTABLE[op.name],
        result,
        full.view,
        element_blocks(low, repeated.source) if is_repeated_column else repeated.source.view,
        k == 0,
    )
    if result.layout.rows > 1:
        clear_tail(low, result)
    if not is_row_or_column(repeated):
        instruction.runs(*repeated_runs(low, repeated))
    elif not repeated.source.layout.is_dense:
        instruction.padded_columns(repeated.source.layout)
    else:
        (instruction.columns if is_repeated_column else instruction.rows)()
    return result


def is_row_or_column(operand: Broadcast) -> bool:
    """Whether an operand is a column along rows, or one row for all rows."""
    small, large = operand.source.shape, operand.shape
    repeated = [n != m for n, m in zip(small, large, strict=True) if m != 1]
    if repeated[-1:] == [True] and not any(repeated[:-1]):
        return operand.source.layout.is_dense or operand.source.layout.pitch <= _MAX_REPEATS
    return operand.source.layout.is_dense and all(repeated[:-1]) and repeated[-1:] == [False]


def repeated_runs(low: Lowering, operand: Broadcast) -> tuple[int, ...]:
    """The number and size of the runs that a broadcast repeats, and how often; empty where instructions take none such.

    One dimension is repeated, between others.
    """
    small, large = operand.source.shape, operand.shape
    dims = [d for d, (n, m) in enumerate(zip(small, large, strict=True)) if n != m]
    if len(dims) != 1 or all(n == 1 for n in small[: dims[0]]) or all(n == 1 for n in small[dims[0] + 1 :]):
        return ()
    (d,) = dims
    n, span = large[d], low.grain.strides(large)[d]
    runs, blocks = math.prod(large[:d]), span * 4 // BLOCK
    one_repeat = blocks == 1 and n <= _LANES * 4 // BLOCK
    fits = one_repeat or (span <= _LANES and n < runs and n * blocks <= _MAX_REPEATS)
    return (runs, span, n) if fits else ()


class BroadcastInstr:
    """An instruction over a full tile and a repeated one, which comes first where `is_swapped`."""

    def __init__(self, low: Lowering, name: str, result: Tile, full: View, repeated: View, is_swapped: bool) -> None:
        self.low = low
        self.name = name
        self.made = result
        self.full = full
        self.narrow = repeated
        self.is_swapped = is_swapped
        self.pitch = result.layout.pitch if result.layout.rows > 1 else result.layout.count
        self.blocks = self.pitch * 4 // BLOCK

    def emit(self, offset: Scalar, other: View, strides_of_both: tuple[int, ...], lanes: int, repeats: int) -> None:
        """Emit one instruction.

        `strides_of_both` has the full tile's stride between repeats, then the block and the repeat stride of the other.
        """
        step, blk, rep = strides_of_both
        full = advance_view(self.full, offset)
        repeated = other
        strides = (1, blk, 1, step, rep, step) if self.is_swapped else (1, 1, blk, step, step, rep)
        pair = (repeated, full) if self.is_swapped else (full, repeated)
        self.low.instr(self.name, advance_view(self.made.view, offset), *pair, lanes, repeats, Record(strides))

    def columns(self) -> None:
        """Combine each row with the block of its element."""
        rows = self.made.layout.rows
        if self.blocks == 1 and rows > 1:  # the blocks are the broadcast
            pair = (self.narrow, self.full) if self.is_swapped else (self.full, self.narrow)
            self.low.instr(self.name, self.made.view, *pair, rows * self.pitch)
            return
        if self.blocks <= _MAX_REPEATS and rows * _LANES >= self.pitch:
            for first in range(0, rows, MAX_REPEATS):
                for column in range(0, self.pitch, _LANES):
                    width = min(_LANES, self.pitch - column)
                    count = min(MAX_REPEATS, rows - first)
                    self.emit(
                        first * self.pitch + column,
                        advance_view(self.narrow, first * 8),
                        (self.blocks, 0, 1),
                        width,
                        count,
                    )
            return
        with self.low.loop_nest((rows,)) as (r,):
            self.row_with_block(fold("*", r, self.pitch), advance_view(self.narrow, fold("*", r, 8)))

    def runs(self, runs: int, span: int, n: int) -> None:
        """Combine runs, each repeated `n` times: in a repeat that reads a block again, or by an instruction each."""
        blocks = span * 4 // BLOCK
        for first in range(0, runs, MAX_REPEATS):
            count, start = min(MAX_REPEATS, runs - first), first * n * span
            narrow = advance_view(self.narrow, first * span)
            if blocks == 1 and n * span <= _LANES:
                self.emit(start, narrow, (n, 0, 1), n * span, count)
                continue
            for k in range(n):
                self.emit(start + k * span, narrow, (n * blocks, 1, blocks), span, count)

    def padded_columns(self, source: Layout) -> None:
        """Combine each row with the block of its element, where those of a few rows are followed by padding."""
        for inner in range(source.cols):
            for outer in range(0, source.rows, self.fitting(source.cols, source.rows)):
                count = min(self.fitting(source.cols, source.rows), source.rows - outer)
                start = (outer * source.cols + inner) * self.pitch
                block = advance_view(self.narrow, (outer * source.pitch + inner) * 8)
                if count == 1:
                    self.row_with_block(start, block)
                    continue
                for column in range(0, self.pitch, _LANES):
                    width, strides = min(_LANES, self.pitch - column), (source.cols * self.blocks, 0, source.pitch)
                    self.emit(start + column, block, strides, width, count)

    def fitting(self, step: int, rows: int) -> int:
        """Return how many rows that lie `step` rows apart one instruction takes."""
        return min(MAX_REPEATS, rows) if step * self.blocks <= _MAX_REPEATS else 1

    def row_with_block(self, start: Scalar, block: View) -> None:
        """Combine one row with one block."""
        full, remainder = divmod(self.pitch, _LANES)
        for first in range(0, full, MAX_REPEATS):
            offset = fold("+", start, first * _LANES)
            self.emit(offset, block, (8, 0, 0), _LANES, min(MAX_REPEATS, full - first))
        if remainder:
            self.emit(fold("+", start, full * _LANES), block, (8, 0, 0), remainder, 1)

    def rows(self) -> None:
        """Combine each row with the same other one."""
        rows = self.made.layout.rows
        if self.blocks <= _MAX_REPEATS and rows * _LANES >= self.pitch:
            for first in range(0, rows, MAX_REPEATS):
                for column in range(0, self.pitch, _LANES):
                    width = min(_LANES, self.pitch - column)
                    count = min(MAX_REPEATS, rows - first)
                    self.emit(
                        first * self.pitch + column,
                        advance_view(self.narrow, column),
                        (self.blocks, 1, 0),
                        width,
                        count,
                    )
            return
        with self.low.loop_nest((rows,)) as (r,):
            offset = fold("*", r, self.pitch)
            pair = (
                (self.narrow, advance_view(self.full, offset))
                if self.is_swapped
                else (advance_view(self.full, offset), self.narrow)
            )
            self.low.instr(self.name, advance_view(self.made.view, offset), *pair, self.pitch)
