"""Tiles repeated along dimensions of size 1: rows by copies of rows, columns by a block for each element."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from pypto.backends.ascend.blockir.ir import Record, View, fold
from pypto.backends.ascend.blockir.softfloat64 import zero
from pypto.backends.ascend.tile.ub_layout import BLOCK
from pypto.backends.ascend.vector.builder import Lowering, moved
from pypto.backends.ascend.vector.masks import as_numbers, nonzero
from pypto.backends.ascend.vector.shape import rearrange
from pypto.backends.ascend.vector.values import Broadcast, Tile
from pypto.ir.types import float16

REPEAT: Final = 256  # bytes that a repeat works on
REPEATS: Final = 248  # of one instruction: the most after which the next one begins at whole repeats of blocks
_STRIDE: Final = 255


def broadcast(low: Lowering, made: Tile, held: Broadcast) -> None:
    """One dimension after the other, the last one first."""
    tile = held.of
    if tile.dtype.is_bool:
        ones = as_numbers(low, tile, float16)
        nonzero(low, low.made(Broadcast(held.shape, ones)), made)
        return
    if tile.dtype.bits not in (16, 32):
        rearrange(
            low, made, tile, lambda index: tuple(0 if n == 1 else i for i, n in zip(index, tile.shape, strict=True))
        )
        return
    dims = [d for d, (n, m) in enumerate(zip(tile.shape, held.shape, strict=True)) if n != m]
    for d in reversed(dims):
        shape = tuple(held.shape[e] if e == d else n for e, n in enumerate(tile.shape))
        to = made if d == dims[0] else low.new(shape, tile.dtype)
        broadcast_columns(low, to, tile) if is_column(tile, to) else repeat_dimension(low, to, tile, d)
        tile = to


def is_column(tile: Tile, wide: Tile) -> bool:
    """Whether each element of a tile becomes a row of the wider one."""
    last = max(d for d, n in enumerate(wide.shape) if n != 1)
    return tile.shape[last] == 1


def clear_tail(low: Lowering, made: Tile) -> None:
    """Something behind the last row, where nothing else writes."""
    layout = made.layout
    end = layout.rows * (layout.pitch if layout.rows > 1 else layout.cols)
    first = end * made.dtype.itemsize // BLOCK * BLOCK // made.dtype.itemsize
    if end < layout.count:
        rest = Tile((layout.count - first,), made.dtype, moved(made.view, first), low.grain.layout((1,)))
        low.instr("Duplicate", rest.view, zero(made.dtype), layout.count - first)


def element_blocks(low: Lowering, tile: Tile) -> View:
    """A block for each element of a tile."""
    each, layout = BLOCK // tile.dtype.itemsize, tile.layout
    elements = layout.rows * layout.pitch if layout.rows > 1 else layout.cols
    repeats = -(-elements // 8)
    made = low.new((repeats * 8 * each,), tile.dtype, "repeated").view
    for first in range(0, repeats, REPEATS):
        count = min(REPEATS, repeats - first)
        low.instr("Brcb", moved(made, first * 8 * each), moved(tile.view, first * 8), count, Record((1, 8)))
    return made


def broadcast_columns(low: Lowering, made: Tile, tile: Tile) -> None:
    """Every element of a column along a row."""
    blocks, layout = element_blocks(low, tile), made.layout
    each, lanes = BLOCK // tile.dtype.itemsize, REPEAT // tile.dtype.itemsize
    if layout.rows == 1:
        full, rest = divmod(layout.count, lanes)
        for first in range(0, full, REPEATS):
            low.instr(
                "Copy", moved(made.view, first * lanes), blocks, lanes, min(REPEATS, full - first), Record((1, 0, 8, 0))
            )
        assert rest == 0
        return
    clear_tail(low, made)
    for to, source, count in runs(made, tile):
        for c in range(0, layout.pitch, lanes):
            how = Record((1, 0, layout.pitch // each, 1))
            low.instr(
                "Copy", moved(made.view, to + c), moved(blocks, source * each), min(lanes, layout.pitch - c), count, how
            )


def runs(made: Tile, tile: Tile) -> Iterator[tuple[int, int, int]]:
    """Stretches of rows whose elements in the column lie side by side: offset in both, and how many."""
    rows, pitch = made.layout.rows, made.layout.pitch
    per = tile.layout.cols
    for a in range(rows // per):
        start = a * tile.layout.pitch if tile.layout.rows > 1 else a * per
        for first in range(0, per, REPEATS):
            yield (a * per + first) * pitch, start + first, min(REPEATS, per - first)


def repeat_dimension(low: Lowering, made: Tile, tile: Tile, d: int) -> None:
    """What lies behind a dimension, again and again."""
    strides = low.grain.strides(made.shape)
    n, span, size = made.shape[d], strides[d], made.dtype.itemsize
    lanes = REPEAT // size
    clear_tail(low, made)
    outer = tuple(m if e < d else 1 for e, m in enumerate(made.shape))
    with low.each(outer) as index:
        to, source = moved(made.view, low.place(made, index)), moved(tile.view, low.place(tile, index))
        if -(-span // lanes) <= n <= _STRIDE and math.prod(outer) == 1:
            for c in range(0, span, lanes):
                how = Record((1, 1, span * size // BLOCK, 0))
                low.instr("Copy", moved(to, c), moved(source, c), min(lanes, span - c), n, how)
        else:
            with low.loop("r", n) as r:
                low.instr("DataCopy", moved(to, fold("*", r, span)), source, Record((1, span * size // BLOCK, 0, 0)))
