"""Products of matrices on vector cores: to each row of the result, rows of the second operand times numbers."""

from __future__ import annotations

from pypto.backends.ascend.blockir.ir import Expr, Read, Scalar, fold
from pypto.backends.ascend.rules.scalars import Number, ScalarEmitter
from pypto.backends.ascend.vector.builder import Lowering, moved
from pypto.backends.ascend.vector.control import write
from pypto.backends.ascend.vector.dma import fetch
from pypto.backends.ascend.vector.reduce import in_float32
from pypto.backends.ascend.vector.region import Dim, Region
from pypto.backends.ascend.vector.values import Later, Splat, Tile
from pypto.ir.core import Op
from pypto.ir.types import float32, float64, int32, int64

CHUNK = 32768  # bytes of the second operand that are in memory at once, where it is loaded for the product alone


def dot(low: Lowering, op: Op) -> None:
    if op.result.dtype == float64:
        in_doubles(low, op)
        return
    left, later = wide(low, low.tile(op.operands[0])), low.env[op.operands[1]]
    acc = low.held(op.operands[2]) if len(op.operands) > 2 else Splat(op.result.shape, op.result.dtype, 0)
    made = low.result(op.result)
    if isinstance(acc, Splat) and made.dtype == float32:
        acc = Splat(acc.shape, float32, float(acc.value) if isinstance(acc.value, int) else acc.value)
    write(low, made, acc)
    low.env[op.result] = made
    if not isinstance(later, Later):
        add_product(low, made, left, wide(low, low.tile(op.operands[1])), 0)
        return
    k, n = later.shape
    rows = max(1, min(k, CHUNK // (n * 4)))
    full, rest = divmod(k, rows)
    with low.loop("k", fold("*", full, rows), 0, rows) as start:
        add_product(low, made, left, wide(low, stretch(low, later, start, rows)), start)
    if rest:
        add_product(low, made, left, wide(low, stretch(low, later, full * rows, rest)), full * rows)


def in_doubles(low: Lowering, op: Op) -> None:
    """float64, number by number."""
    left, right = (low.tile(v) for v in op.operands[:2])
    acc = low.held(op.operands[2]) if len(op.operands) > 2 else Splat(op.result.shape, float64, 0)
    made, e = low.result(op.result), ScalarEmitter(low, doubles=True)
    write(low, made, acc)
    with low.each(made.shape) as (*batch, i, j):
        total = low.variable("total", float64, low.element(made, (*batch, i, j)))
        with low.loop("k", right.shape[-2]) as k:
            a, b = low.element(left, (*batch, i, k)), low.element(right, (*batch, k, j))
            low.assign(total, e.fma(*(Number(x, float64) for x in (a, b, total))).value)
        low.put(made, (*batch, i, j), total)
    low.env[op.result] = made


def stretch(low: Lowering, later: Later, start: Scalar, rows: int) -> Tile:
    """Some rows of what was to be loaded."""
    area, n = later.area, later.shape[1]
    assert isinstance(area, Region)
    dim = area.dims[0]
    stop = fold("max", fold("min", fold("-", dim.stop, start), rows), 0)
    first = low.let("first", int64, fold("+", area.first, fold("*", start, dim.stride)))
    cut = Region(area.base, (Dim(rows, 0, low.let("count", int64, stop), dim.stride), area.dims[1]), area.exists, first)
    tile = low.new((rows, n), later.dtype)
    fetch(low, tile, cut, None, later.other)
    return tile


def add_product(low: Lowering, made: Tile, left: Tile, right: Tile, start: Scalar) -> None:
    """To the result, columns from `start` on of the first operand times the second."""
    *batch, m, _ = left.shape
    k, n = right.shape[-2:]
    if n == 1:
        add_by_numbers(low, made, left, right, start)
        return
    product = low.new((n,), int32, "product").view if made.dtype == int32 else None
    with low.each((*batch, m)) as row, low.loop("k", k) as j:
        factor = low.let("factor", made.dtype, low.element(left, (*row, fold("+", start, j))))
        to = moved(made.view, low.place(made, (*row, 0)))
        source = moved(right.view, low.place(right, (*row[:-1], j, 0)))
        if product is None:
            low.instr("Axpy", to, source, factor, n)
        else:
            low.instr("Muls", product, source, factor, n)
            low.instr("Add", to, to, product, n)


def add_by_numbers(low: Lowering, made: Tile, left: Tile, right: Tile, start: Scalar) -> None:
    """The product with a single column, whose elements lie too close for the vector unit."""
    with low.each(left.shape[:-1]) as row:
        total = low.variable("total", made.dtype, low.element(made, (*row, 0)))
        with low.loop("k", right.shape[-2]) as j:
            a, b = low.element(left, (*row, fold("+", start, j))), low.element(right, (*row[:-1], j, 0))
            low.assign(total, Expr("+", (total, Expr("*", (a, b)))))
        low.put(made, (*row, 0), total)


def wide(low: Lowering, tile: Tile) -> Tile:
    """In the type that the product adds up in."""
    if tile.dtype.is_float:
        return in_float32(low, tile)
    if tile.dtype == int32:
        return tile
    made = low.new(tile.shape, int32)
    with low.each((tile.layout.count,)) as (i,):
        low.instr("SetValue", moved(made.view, i), Read(moved(tile.view, i)))
    return made
