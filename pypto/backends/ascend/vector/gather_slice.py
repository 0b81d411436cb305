"""Tiles of some of another tile's elements: slices, gathers and counts, by the scalar unit."""

from __future__ import annotations

from pypto.backends.ascend.blockir.ir import Expr, Read, Record, View, fold
from pypto.backends.ascend.rules.scalars import compared, conjunction
from pypto.backends.ascend.tile.ub_layout import BLOCK
from pypto.backends.ascend.vector.builder import Index, Lowering, moved
from pypto.backends.ascend.vector.shape import ensure, fill, last_of, numbers, rearrange
from pypto.backends.ascend.vector.values import Splat, Tile
from pypto.ir.core import Op
from pypto.ir.types import int32, int64, uint32


def lower_slice(low: Lowering, op: Op) -> None:
    held, shape = low.held(op.operands[0]), op.result.shape
    starts, steps = op.attrs["starts"], op.attrs["steps"]
    if isinstance(held, Splat):
        low.env[op.result] = Splat(shape, held.dtype, held.value)
        return
    if shape == held.shape and not any(starts) and steps == (1,) * len(steps):
        low.env[op.result] = held
        return
    tile, made = low.made(held), low.result(op.result)
    low.env[op.result] = made
    if slice_by_blocks(low, tile, made, starts, steps):
        return

    def source(index: Index) -> Index:
        return tuple(fold("+", fold("*", i, step), s) for i, s, step in zip(index, starts, steps, strict=True))

    rearrange(low, made, tile, source, is_straight=True)


def slice_by_blocks(low: Lowering, tile: Tile, made: Tile, starts: Index, steps: Index) -> bool:
    """Rows that begin at whole blocks of others are copied as they are; whether that is so."""
    last, size = last_of(tile.shape), tile.dtype.itemsize
    begin = starts[last]
    plain = steps == (1,) * len(steps) and (last_of(made.shape) == last or set(made.shape) <= {1})
    if not plain or tile.dtype.is_bool or not isinstance(begin, int) or begin * size % BLOCK:
        return False
    ensure(low, made)
    blocks = -(-made.shape[last] * size // BLOCK)
    with low.each(made.shape[:last]) as index:
        whole = (*index, *(0 for _ in made.shape[last:]))
        there = tuple(fold("+", i, s) for i, s in zip(whole, starts, strict=True))
        to, source = moved(made.view, low.place(made, whole)), moved(tile.view, low.place(tile, there))
        low.instr("DataCopy", to, source, Record((1, blocks, 0, 0)))
    return True


def gather(low: Lowering, op: Op) -> None:
    """Elements at indices, which are kept inside of the tile."""
    tile, where = low.tile(op.operands[0]), low.held(op.operands[1])
    axis, made = op.attrs["axis"], low.result(op.result)
    last = tile.shape[axis] - 1
    if tile.dtype.itemsize in (2, 4) and not tile.dtype.is_bool and where.dtype == int32 and op.result.tile.size > 1:
        low.env[op.result] = made
        gather_rows(low, tile, low.made(where), made, axis)
        return

    def source(index: Index) -> Index:
        at = low.let("at", int64, Expr("i64", (low.element(where, index),)))
        inside = fold("min", fold("max", at, 0), last)
        return tuple(inside if d == axis else i for d, i in enumerate(index))

    rearrange(low, made, tile, source)
    low.env[op.result] = made


def gather_rows(low: Lowering, tile: Tile, where: Tile, made: Tile, axis: int) -> None:
    """Each row by one gather; indices become distances in bytes, all of them at once."""
    last, size, strides = last_of(made.shape), tile.dtype.itemsize, low.grain.strides(tile.shape)
    offsets, n, count = low.new(where.shape, int32, "offsets"), made.shape[last], where.layout.count
    low.instr("Maxs", offsets.view, where.view, 0, count)
    low.instr("Mins", offsets.view, offsets.view, tile.shape[axis] - 1, count)
    low.instr("Muls", offsets.view, offsets.view, strides[axis] * size, count)
    if axis != last:
        columns = low.new((n,), int32, "columns").view
        low.instr("Muls", columns, numbers(low, 0, n, int32), strides[last] * size, n)
    ensure(low, made)
    with low.each(tuple(1 if d == last else m for d, m in enumerate(made.shape))) as index:
        row = moved(offsets.view, low.place(offsets, index))
        if axis != last:
            low.instr("Add", row, row, columns, n)
        begin = low.place(tile, tuple(0 if d == axis else i for d, i in enumerate(index)))
        to, bytes_ = moved(made.view, low.place(made, index)), View(row.of, row.offset, row.stage, uint32)
        low.instr("Gather", to, tile.view, bytes_, fold("*", begin, size), n)


def histogram(low: Lowering, op: Op) -> None:
    values, made = low.held(op.operands[0]), low.result(op.result)
    mask = low.held(op.operands[1]) if len(op.operands) > 1 else None
    fill(low, made, 0)
    with low.each(op.operands[0].shape) as index:
        v = low.let("v", op.operands[0].dtype, low.element(values, index))
        inside = conjunction(compared(">=", v, 0), compared("<", v, op.attrs["num_bins"]))
        taken = inside if mask is None else conjunction(low.element(mask, index), inside)
        with low.when(taken):
            place = moved(made.view, v)
            low.instr("SetValue", place, fold("+", Read(place), 1))
    low.env[op.result] = made
