"""Broadcasts: tiles repeated along dimensions of size 1, one dimension after the other, the last one first.

A column becomes rows by `Brcb`, which makes a block of each element, and strided copies of the blocks. Other dimensions
are copies of what lies behind them. A broadcast is materialised only where an instruction cannot take the operand as it
is (see `broadcast_operands`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from pypto.backends.ascend.blockir.ir import Record, View, fold
from pypto.backends.ascend.blockir.softfloat64 import zero
from pypto.backends.ascend.target import REPEAT
from pypto.backends.ascend.tile.ub_layout import BLOCK
from pypto.backends.ascend.vector.builder import Lowering, advance_view
from pypto.backends.ascend.vector.handlers.shape import rearrange
from pypto.backends.ascend.vector.masks import compare_nonzero, select_ones
from pypto.backends.ascend.vector.values import Broadcast, Tile
from pypto.ir.types import float16

MAX_REPEATS: Final = 248  # of one instruction: a multiple of 8, so that the next one begins at a whole repeat
_STRIDE: Final = 255


def broadcast(low: Lowering, result: Tile, operand: Broadcast) -> None:
    """Write a broadcast to a tile."""
    tile = operand.source
    if tile.dtype.is_bool:
        ones = select_ones(low, tile, float16)
        compare_nonzero(low, low.materialize(Broadcast(operand.shape, ones)), result)
        return
    if tile.dtype.bits not in (16, 32):
        rearrange(
            low, result, tile, lambda index: tuple(0 if n == 1 else i for i, n in zip(index, tile.shape, strict=True))
        )
        return
    dims = [d for d, (n, m) in enumerate(zip(tile.shape, operand.shape, strict=True)) if n != m]
    for d in reversed(dims):
        shape = tuple(operand.shape[e] if e == d else n for e, n in enumerate(tile.shape))
        target = result if d == dims[0] else low.new_tile(shape, tile.dtype)
        broadcast_columns(low, target, tile) if is_column(tile, target) else repeat_dimension(low, target, tile, d)
        tile = target


def is_column(tile: Tile, wide: Tile) -> bool:
    """Whether each element of a tile becomes a row of the wider one."""
    last = max(d for d, n in enumerate(wide.shape) if n != 1)
    return tile.shape[last] == 1


def clear_tail(low: Lowering, tile: Tile) -> None:
    """Initialise the padding behind the last row, where nothing else writes."""
    layout = tile.layout
    end = layout.rows * (layout.pitch if layout.rows > 1 else layout.cols)
    first = end * tile.dtype.itemsize // BLOCK * BLOCK // tile.dtype.itemsize
    if end < layout.count:
        tail = Tile((layout.count - first,), tile.dtype, advance_view(tile.view, first), low.grain.layout((1,)))
        low.instr("Duplicate", tail.view, zero(tile.dtype), layout.count - first)


def element_blocks(low: Lowering, tile: Tile) -> View:
    """Return a block of 32 bytes for each element of a tile."""
    each = BLOCK // tile.dtype.itemsize
    layout = tile.layout
    elements = layout.rows * layout.pitch if layout.rows > 1 else layout.cols
    repeats = -(-elements // 8)
    result = low.new_tile((repeats * 8 * each,), tile.dtype, "repeated").view
    for first in range(0, repeats, MAX_REPEATS):
        count = min(MAX_REPEATS, repeats - first)
        low.instr(
            "Brcb", advance_view(result, first * 8 * each), advance_view(tile.view, first * 8), count, Record((1, 8))
        )
    return result


def broadcast_columns(low: Lowering, result: Tile, tile: Tile) -> None:
    """Repeat each element of a column along a row."""
    blocks = element_blocks(low, tile)
    layout = result.layout
    each = BLOCK // tile.dtype.itemsize
    lanes = REPEAT // tile.dtype.itemsize
    if layout.rows == 1:
        full, rest = divmod(layout.count, lanes)
        for first in range(0, full, MAX_REPEATS):
            low.instr(
                "Copy",
                advance_view(result.view, first * lanes),
                blocks,
                lanes,
                min(MAX_REPEATS, full - first),
                Record((1, 0, 8, 0)),
            )
        assert rest == 0
        return
    clear_tail(low, result)
    for to, source, count in column_runs(result, tile):
        for c in range(0, layout.pitch, lanes):
            strides = Record((1, 0, layout.pitch // each, 1))
            low.instr(
                "Copy",
                advance_view(result.view, to + c),
                advance_view(blocks, source * each),
                min(lanes, layout.pitch - c),
                count,
                strides,
            )


def column_runs(result: Tile, tile: Tile) -> Iterator[tuple[int, int, int]]:
    """Yield runs of rows whose column elements are neighbours: both offsets, and the number of rows."""
    rows, pitch = result.layout.rows, result.layout.pitch
    column_length = tile.layout.cols
    for run in range(rows // column_length):
        start = run * tile.layout.pitch if tile.layout.rows > 1 else run * column_length
        for first in range(0, column_length, MAX_REPEATS):
            yield (run * column_length + first) * pitch, start + first, min(MAX_REPEATS, column_length - first)


def repeat_dimension(low: Lowering, result: Tile, tile: Tile, d: int) -> None:
    """Repeat what lies behind a dimension."""
    strides = low.grain.strides(result.shape)
    n = result.shape[d]
    span = strides[d]
    size = result.dtype.itemsize
    lanes = REPEAT // size
    clear_tail(low, result)
    outer = tuple(m if e < d else 1 for e, m in enumerate(result.shape))
    if n * -(-span // lanes) < math.prod(outer) and n * span * size <= _STRIDE * BLOCK:
        repeat_runs(low, result, tile, n, span)
        return
    with low.loop_nest(outer) as index:
        target = advance_view(result.view, low.element_index(result, index))
        source = advance_view(tile.view, low.element_index(tile, index))
        if -(-span // lanes) <= n <= _STRIDE and math.prod(outer) == 1:
            for column in range(0, span, lanes):
                how = Record((1, 1, span * size // BLOCK, 0))
                low.instr(
                    "Copy",
                    advance_view(target, column),
                    advance_view(source, column),
                    min(lanes, span - column),
                    n,
                    how,
                )
        else:
            with low.loop("r", n) as r:
                low.instr(
                    "DataCopy",
                    advance_view(target, fold("*", r, span)),
                    source,
                    Record((1, span * size // BLOCK, 0, 0)),
                )


def repeat_runs(low: Lowering, result: Tile, tile: Tile, n: int, span: int) -> None:
    """Repeat each run of `span` elements `n` times: for each time one copy of all runs."""
    size = result.dtype.itemsize
    lanes, runs = REPEAT // size, tile.layout.rows * tile.layout.pitch // span
    how = Record((1, 1, n * span * size // BLOCK, span * size // BLOCK))
    for first in range(0, runs, MAX_REPEATS):
        for r, column in ((r, column) for r in range(n) for column in range(0, span, lanes)):
            target = advance_view(result.view, first * n * span + r * span + column)
            source = advance_view(tile.view, first * span + column)
            low.instr("Copy", target, source, min(lanes, span - column), min(MAX_REPEATS, runs - first), how)
