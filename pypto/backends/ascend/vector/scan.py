"""Running results: rows at a time along their columns, each row in steps of 1, 2, 4 …, else number by number."""

from __future__ import annotations

from pypto.backends.ascend.blockir.ir import Record, Scalar, View, Word, fold
from pypto.backends.ascend.blockir.softfloat64 import number
from pypto.backends.ascend.rules.scalars import Number, ScalarEmitter
from pypto.backends.ascend.tile.ub_layout import BLOCK, rounded
from pypto.backends.ascend.vector.builder import Index, Lowering, moved
from pypto.backends.ascend.vector.reduce import FOLDS, in_float32
from pypto.backends.ascend.vector.shape import ensure, last_of, numbers
from pypto.backends.ascend.vector.values import Tile
from pypto.ir.core import Op
from pypto.ir.types import bfloat16, float16, float32, float64, int32, uint32
from pypto.ops.row import Reduction
from pypto.ops.table import TABLE


def scan(low: Lowering, op: Op) -> None:
    tile, axis = low.tile(op.operands[0]), op.attrs["axis"]
    made = low.result(op.result)
    low.env[op.result] = made
    if op.name not in ("cumsum", "cumprod"):
        by_numbers(low, op, tile, made, axis)
    elif tile.dtype in (float32, int32) and axis != last_of(tile.shape):
        by_rows(low, op, tile, made, axis)
    elif tile.dtype in (float32, int32, float16, bfloat16) and axis == last_of(tile.shape) and tile.shape[axis] > 1:
        in_steps(low, op, in_float32(low, tile) if tile.dtype.is_narrow else tile, made)
    else:
        by_numbers(low, op, tile, made, axis)


def place_along(i: Scalar, n: int, reverse: bool) -> Scalar:
    return fold("-", n - 1, i) if reverse else i


def by_rows(low: Lowering, op: Op, tile: Tile, made: Tile, axis: int) -> None:
    """Each run behind the axis is the one before it and its own terms."""
    name = FOLDS[op.name.removeprefix("cum")]
    n, span, reverse = tile.shape[axis], low.grain.strides(tile.shape)[axis], op.attrs["reverse"]
    low.instr("DataCopy", made.view, tile.view, Record((1, tile.layout.count * tile.dtype.bits // 256, 0, 0)))
    with low.each(tuple(m if d < axis else 1 for d, m in enumerate(tile.shape))) as index:
        start = low.place(tile, index)
        with low.loop("i", n, 1) as i:
            at = fold("+", start, fold("*", place_along(i, n, reverse), span))
            before = fold("-" if not reverse else "+", at, span)
            low.instr(name, moved(made.view, at), moved(made.view, before), moved(made.view, at), span)


def in_steps(low: Lowering, op: Op, tile: Tile, made: Tile) -> None:
    """To each element what the one so far before it has, which doubles how many it stands for; beyond is nothing."""
    last, dtype = last_of(tile.shape), tile.dtype
    n, name, reverse = tile.shape[last], op.name.removeprefix("cum"), op.attrs["reverse"]
    room, nothing = rounded(n, BLOCK // dtype.itemsize), int(name == "prod")
    sums, shifted, offsets = (low.new((size,), t, hint).view for size, t, hint in
                              ((2 * room, dtype, "running"), (n, dtype, "shifted"), (n, int32, "offsets")))  # fmt: skip
    mine = sums if reverse else moved(sums, room)
    ensure(low, made)
    low.instr("Muls", offsets, numbers(low, 0, n, int32), dtype.itemsize, n)
    low.instr("Duplicate", sums, float(nothing) if dtype.is_float else nothing, 2 * room)
    with low.each(tuple(1 if d == last else m for d, m in enumerate(tile.shape))) as row:
        same_bits(low, mine, moved(tile.view, low.place(tile, row)), n)
        for step in (1 << k for k in range((n - 1).bit_length())):
            begin = (step if reverse else room - step) * dtype.itemsize
            low.instr("Gather", shifted, sums, View(offsets.of, 0, 0, uint32), begin, n)
            low.instr(FOLDS[name], mine, mine, shifted, n)
        to = moved(made.view, low.place(made, row))
        if made.dtype == dtype:
            same_bits(low, to, mine, n)
        else:
            low.instr("Cast", to, mine, Word("CAST_RINT"), n)


def same_bits(low: Lowering, to: View, source: View, n: int) -> None:
    """A copy of so many numbers of 32 bits, and of none beyond."""
    a, b = (View(x.of, x.offset, x.stage, int32) for x in (to, source))
    low.instr("Adds", a, b, 0, n)


def by_numbers(low: Lowering, op: Op, tile: Tile, made: Tile, axis: int) -> None:
    cell = TABLE[op.name].lane_rule
    assert isinstance(cell, Reduction)
    dtype = float32 if tile.dtype.is_narrow else tile.dtype
    n, e = tile.shape[axis], ScalarEmitter(low, dtype == float64)
    ensure(low, made)
    with low.each(tuple(1 if d == axis else m for d, m in enumerate(tile.shape))) as index:
        total = low.variable("total", dtype, number(cell.identity(dtype), dtype))
        with low.loop("i", n) as i:
            k = place_along(i, n, op.attrs["reverse"])
            at: Index = tuple(k if d == axis else j for d, j in enumerate(index))
            value = low.let("v", dtype, low.element(tile, at))
            low.assign(total, cell.combine(e, Number(total, dtype), Number(value, dtype)).value)
            low.put(made, at, total)
