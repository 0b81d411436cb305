"""Slices, gathers and histograms.

Slices whose rows begin at whole blocks are copies of rows; others go through `Gather` or the scalar unit. Gathers of
16- and 32-bit elements run row by row on the vector unit.
"""

from __future__ import annotations

from pypto.backends.ascend.blockir.conditions import compared, conjunction
from pypto.backends.ascend.blockir.ir import Expr, Read, Record, View, fold
from pypto.backends.ascend.tile.ub_layout import BLOCK
from pypto.backends.ascend.vector.builder import Index, Lowering, advance_view
from pypto.backends.ascend.vector.handlers.shape import (
    SMALL_BYTES,
    fill,
    index_vector,
    initialise_padding,
    last_dim,
    rearrange,
)
from pypto.backends.ascend.vector.strided_select import is_strided, select_strided
from pypto.backends.ascend.vector.values import AnyTile, Broadcast, Splat, Tile
from pypto.ir.core import Op
from pypto.ir.types import int32, int64, uint32


def lower_slice(low: Lowering, op: Op) -> None:
    """Lower a slice."""
    operand = low.tile_value(op.operands[0])
    shape = op.result.shape
    starts = op.attrs["starts"]
    steps = op.attrs["steps"]
    if isinstance(operand, Splat):
        low.env[op.result] = Splat(shape, operand.dtype, operand.value)
        return
    if shape == operand.shape and not any(starts) and steps == (1,) * len(steps):
        low.env[op.result] = operand
        return
    tile = low.materialize(operand)
    result = low.result(op.result)
    low.env[op.result] = result
    if slice_by_blocks(low, tile, result, starts, steps):
        return
    last = last_dim(tile.shape)
    if is_strided(tile, result, starts, steps, last):
        initialise_padding(low, result)
        select_strided(low, result.view, tile.view, tile.layout.rows * tile.layout.cols, steps[last], starts[last])
        return

    def source(index: Index) -> Index:
        return tuple(fold("+", fold("*", i, step), s) for i, s, step in zip(index, starts, steps, strict=True))

    rearrange(low, result, tile, source, is_straight=True)


def slice_by_blocks(low: Lowering, tile: Tile, result: Tile, starts: Index, steps: Index) -> bool:
    """Copy rows that begin at whole blocks; whether the slice has that form."""
    last = last_dim(tile.shape)
    size = tile.dtype.itemsize
    row_start = starts[last]
    is_contiguous = steps == (1,) * len(steps) and (last_dim(result.shape) == last or set(result.shape) <= {1})
    if not is_contiguous or tile.dtype.is_bool or not isinstance(row_start, int) or row_start * size % BLOCK:
        return False
    initialise_padding(low, result)
    blocks = -(-result.shape[last] * size // BLOCK)
    with low.loop_nest(result.shape[:last]) as index:
        full_index = (*index, *(0 for _ in result.shape[last:]))
        source_index = tuple(fold("+", i, s) for i, s in zip(full_index, starts, strict=True))
        to = advance_view(result.view, low.element_index(result, full_index))
        source = advance_view(tile.view, low.element_index(tile, source_index))
        low.instr("DataCopy", to, source, Record((1, blocks, 0, 0)))
    return True


def gather(low: Lowering, op: Op) -> None:
    """Lower a gather; indices are clamped to the tile."""
    tile = low.tile(op.operands[0])
    indices = low.tile_value(op.operands[1])
    axis = op.attrs["axis"]
    result = low.result(op.result)
    last = tile.shape[axis] - 1
    if tile.dtype.itemsize in (2, 4) and not tile.dtype.is_bool and indices.dtype == int32 and op.result.tile.size > 1:
        low.env[op.result] = result
        gather_rows(low, tile, indices, result, axis)
        return

    def source(index: Index) -> Index:
        at = low.let("at", int64, Expr("i64", (low.element(indices, index),)))
        inside = fold("min", fold("max", at, 0), last)
        return tuple(inside if d == axis else i for d, i in enumerate(index))

    rearrange(low, result, tile, source)
    low.env[op.result] = result


def gather_rows(low: Lowering, tile: Tile, indices: AnyTile, result: Tile, axis: int) -> None:
    """Gather each row by one instruction; indices become offsets in bytes."""
    last = last_dim(result.shape)
    initialise_padding(low, result)
    if axis == last and tile.shape[:last] == result.shape[:last] and (row := shared_row(indices, result)) is not None:
        gather_alike(low, tile, row, result, last)
        return
    size = tile.dtype.itemsize
    strides = low.grain.strides(tile.shape)
    offsets = byte_offsets(low, low.materialize(indices), tile.shape[axis], strides[axis] * size)
    row_length = result.shape[last]
    if axis != last:
        columns = low.new_tile((row_length,), int32, "columns").view
        low.instr("Muls", columns, index_vector(low, 0, row_length, int32), strides[last] * size, row_length)
    with low.loop_nest(tuple(1 if d == last else m for d, m in enumerate(result.shape))) as index:
        start = advance_view(offsets.view, low.element_index(offsets, index))
        if axis != last:
            low.instr("Add", start, start, columns, row_length)
        begin = low.element_index(tile, tuple(0 if d == axis else i for d, i in enumerate(index)))
        to = advance_view(result.view, low.element_index(result, index))
        bytes_ = View(start.of, start.offset, start.stage, uint32)
        low.instr("Gather", to, tile.view, bytes_, fold("*", begin, size), row_length)


def byte_offsets(low: Lowering, indices: Tile, extent: int, step: int) -> Tile:
    """Return indices as offsets in bytes, clamped to what exists."""
    offsets = low.new_tile(indices.shape, int32, "offsets")
    count = indices.layout.count
    low.instr("Maxs", offsets.view, indices.view, 0, count)
    low.instr("Mins", offsets.view, offsets.view, extent - 1, count)
    low.instr("Muls", offsets.view, offsets.view, step, count)
    return offsets


def shared_row(indices: AnyTile, result: Tile) -> Tile | None:
    """Return the one row of indices that all rows of a result take; None where rows differ."""
    if not isinstance(indices, Broadcast) or indices.source.layout.rows != 1:
        return None
    last = last_dim(result.shape)
    return indices.source if indices.source.shape[last:] == result.shape[last:] else None


def gather_alike(low: Lowering, tile: Tile, row: Tile, result: Tile, last: int) -> None:
    """Gather rows that have the same indices: as many at once as offsets in `SMALL_BYTES` reach, if rows are dense."""
    size, length, rows = tile.dtype.itemsize, result.shape[last], result.layout.rows
    most = max(1, SMALL_BYTES // (length * int32.itemsize)) if result.layout.is_dense else 1
    group = next(n for n in range(min(rows, most), 0, -1) if rows % n == 0)
    single = byte_offsets(low, row, tile.shape[last], size)
    offsets = low.new_tile((group * length,), int32, "offsets").view if group > 1 else single.view
    if group > 1:
        for r in range(group):  # rows are whole blocks, as they are dense
            low.instr("Adds", advance_view(offsets, r * length), single.view, r * tile.layout.pitch * size, length)
    with low.loop_nest((rows // group,)) as (i,):
        to = advance_view(result.view, fold("*", i, group * result.layout.pitch))
        bytes_before = fold("*", i, group * tile.layout.pitch * size)
        low.instr("Gather", to, tile.view, View(offsets.of, 0, offsets.stage, uint32), bytes_before, group * length)


def histogram(low: Lowering, op: Op) -> None:
    """Lower a histogram, element by element."""
    values = low.tile_value(op.operands[0])
    counts = low.result(op.result)
    mask = low.tile_value(op.operands[1]) if len(op.operands) > 1 else None
    fill(low, counts, 0)
    with low.loop_nest(op.operands[0].shape) as index:
        v = low.let("v", op.operands[0].dtype, low.element(values, index))
        inside = conjunction(compared(">=", v, 0), compared("<", v, op.attrs["num_bins"]))
        is_counted = inside if mask is None else conjunction(low.element(mask, index), inside)
        with low.when(is_counted):
            place = advance_view(counts.view, v)
            low.instr("SetValue", place, fold("+", Read(place), 1))
    low.env[op.result] = counts
