"""Running results: rows at a time along their columns, else number by number."""

from __future__ import annotations

from pypto.backends.ascend.blockir import Scalar, fold
from pypto.backends.ascend.lower.lowering import Index, Lowering, moved
from pypto.backends.ascend.lower.reduce import FOLDS, last_of
from pypto.backends.ascend.lower.scalars import Number, ScalarEmitter
from pypto.backends.ascend.lower.shape import ensure
from pypto.backends.ascend.lower.values import Tile
from pypto.ir.core import Op
from pypto.ir.types import float32, int32
from pypto.ops.row import Reduction
from pypto.ops.table import TABLE


def scan(low: Lowering, op: Op) -> None:
    tile, axis = low.tile(op.operands[0]), op.attrs["axis"]
    made = low.result(op.result)
    if op.name in ("cumsum", "cumprod") and tile.dtype in (float32, int32) and axis != last_of(tile.shape):
        by_rows(low, op, tile, made, axis)
    else:
        by_numbers(low, op, tile, made, axis)
    low.env[op.result] = made


def place_along(i: Scalar, n: int, reverse: bool) -> Scalar:
    return fold("-", n - 1, i) if reverse else i


def by_rows(low: Lowering, op: Op, tile: Tile, made: Tile, axis: int) -> None:
    """Each run behind the axis is the one before it and its own terms."""
    name = FOLDS[op.name.removeprefix("cum")]
    n, span, reverse = tile.shape[axis], low.grain.strides(tile.shape)[axis], op.attrs["reverse"]
    low.instr(*whole_copy(tile, made))
    with low.each(tuple(m if d < axis else 1 for d, m in enumerate(tile.shape))) as index:
        start = low.place(tile, index)
        with low.loop("i", n, 1) as i:
            at = fold("+", start, fold("*", place_along(i, n, reverse), span))
            before = fold("-" if not reverse else "+", at, span)
            low.instr(name, moved(made.view, at), moved(made.view, before), moved(made.view, at), span)


def whole_copy(tile: Tile, made: Tile):  # type: ignore[no-untyped-def]
    from pypto.backends.ascend.blockir import Record

    return "DataCopy", made.view, tile.view, Record((1, tile.layout.count * tile.dtype.bits // 256, 0, 0))


def by_numbers(low: Lowering, op: Op, tile: Tile, made: Tile, axis: int) -> None:
    cell = TABLE[op.name].cpu
    assert isinstance(cell, Reduction)
    dtype = float32 if tile.dtype.is_narrow else tile.dtype
    n, e = tile.shape[axis], ScalarEmitter(low)
    ensure(low, made)
    with low.each(tuple(1 if d == axis else m for d, m in enumerate(tile.shape))) as index:
        total = low.variable("total", dtype, cell.identity(dtype))
        with low.loop("i", n) as i:
            k = place_along(i, n, op.attrs["reverse"])
            at: Index = tuple(k if d == axis else j for d, j in enumerate(index))
            value = low.let("v", dtype, low.element(tile, at))
            low.assign(total, cell.combine(e, Number(total, dtype), Number(value, dtype)).value)
            low.put(made, at, total)
