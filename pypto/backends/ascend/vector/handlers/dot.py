"""Products of matrices on vector cores: each row of the result accumulates rows of the second operand times numbers.

It is for kernels that have no form on a cube core. The inner step is `Axpy` over a row; products with one column and
float64 go through the scalar unit. A second operand that is loaded for the product alone is loaded a chunk of rows at a
time.
"""

from __future__ import annotations

from pypto.backends.ascend.blockir.ir import Expr, Read, Scalar, fold
from pypto.backends.ascend.rules.scalars import Number, ScalarEmitter
from pypto.backends.ascend.vector.builder import Lowering, advance_view
from pypto.backends.ascend.vector.dma import copy_in
from pypto.backends.ascend.vector.handlers.control import copy_tile
from pypto.backends.ascend.vector.handlers.reduce import in_float32
from pypto.backends.ascend.vector.region import AccessRegion, Dim
from pypto.backends.ascend.vector.values import DeferredLoad, Splat, Tile
from pypto.ir.core import Op
from pypto.ir.types import float32, float64, int32, int64

CHUNK_BYTES = 32768  # of the second operand that are in UB at once, where the product is its only user


def dot(low: Lowering, op: Op) -> None:
    """Lower a product."""
    if op.result.dtype == float64:
        dot_float64(low, op)
        return
    left = widen(low, low.tile(op.operands[0]))
    right_load = low.env[op.operands[1]]
    acc = low.tile_value(op.operands[2]) if len(op.operands) > 2 else Splat(op.result.shape, op.result.dtype, 0)
    result = low.result(op.result)
    if isinstance(acc, Splat) and result.dtype == float32:
        acc = Splat(acc.shape, float32, float(acc.value) if isinstance(acc.value, int) else acc.value)
    copy_tile(low, result, acc)
    low.env[op.result] = result
    if not isinstance(right_load, DeferredLoad):
        add_product(low, result, left, widen(low, low.tile(op.operands[1])), 0)
        return
    k, n = right_load.shape
    rows = max(1, min(k, CHUNK_BYTES // (n * 4)))
    full, remainder = divmod(k, rows)
    with low.loop("k", fold("*", full, rows), 0, rows) as start:
        add_product(low, result, left, widen(low, load_rows(low, right_load, start, rows)), start)
    if remainder:
        add_product(low, result, left, widen(low, load_rows(low, right_load, full * rows, remainder)), full * rows)


def dot_float64(low: Lowering, op: Op) -> None:
    """Compute a float64 product number by number."""
    left, right = (low.tile(v) for v in op.operands[:2])
    acc = low.tile_value(op.operands[2]) if len(op.operands) > 2 else Splat(op.result.shape, float64, 0)
    result = low.result(op.result)
    e = ScalarEmitter(low, doubles=True)
    copy_tile(low, result, acc)
    with low.loop_nest(result.shape) as (*batch, i, j):
        total = low.variable("total", float64, low.element(result, (*batch, i, j)))
        with low.loop("k", right.shape[-2]) as k:
            a = low.element(left, (*batch, i, k))
            b = low.element(right, (*batch, k, j))
            low.assign(total, e.fma(*(Number(x, float64) for x in (a, b, total))).value)
        low.set_element(result, (*batch, i, j), total)
    low.env[op.result] = result


def load_rows(low: Lowering, right_load: DeferredLoad, start: Scalar, rows: int) -> Tile:
    """Load some rows of the second operand."""
    area = right_load.region
    n = right_load.shape[1]
    assert isinstance(area, AccessRegion)
    dim = area.dims[0]
    stop = fold("max", fold("min", fold("-", dim.stop, start), rows), 0)
    first = low.let("first", int64, fold("+", area.first, fold("*", start, dim.stride)))
    cut = AccessRegion(
        area.base, (Dim(rows, 0, low.let("count", int64, stop), dim.stride), area.dims[1]), area.exists, first
    )
    tile = low.new_tile((rows, n), right_load.dtype)
    copy_in(low, tile, cut, None, right_load.other)
    return tile


def add_product(low: Lowering, result: Tile, left: Tile, right: Tile, start: Scalar) -> None:
    """Add a part of the product: columns from `start` on of the first operand times the second one."""
    *batch, m, _ = left.shape
    k, n = right.shape[-2:]
    if n == 1:
        add_scalar_product(low, result, left, right, start)
        return
    product = low.new_tile((n,), int32, "product").view if result.dtype == int32 else None
    with low.loop_nest((*batch, m)) as row, low.loop("k", k) as j:
        factor = low.let("factor", result.dtype, low.element(left, (*row, fold("+", start, j))))
        to = advance_view(result.view, low.element_index(result, (*row, 0)))
        source = advance_view(right.view, low.element_index(right, (*row[:-1], j, 0)))
        if product is None:
            low.instr("Axpy", to, source, factor, n)
        else:
            low.instr("Muls", product, source, factor, n)
            low.instr("Add", to, to, product, n)


def add_scalar_product(low: Lowering, result: Tile, left: Tile, right: Tile, start: Scalar) -> None:
    """Add a product with a single column on the scalar unit."""
    with low.loop_nest(left.shape[:-1]) as row:
        total = low.variable("total", result.dtype, low.element(result, (*row, 0)))
        with low.loop("k", right.shape[-2]) as j:
            a = low.element(left, (*row, fold("+", start, j)))
            b = low.element(right, (*row[:-1], j, 0))
            low.assign(total, Expr("+", (total, Expr("*", (a, b)))))
        low.set_element(result, (*row, 0), total)


def widen(low: Lowering, tile: Tile) -> Tile:
    """Convert an operand to the dtype that the product accumulates in."""
    if tile.dtype.is_float:
        return in_float32(low, tile)
    if tile.dtype == int32:
        return tile
    wide = low.new_tile(tile.shape, int32)
    with low.loop_nest((tile.layout.count,)) as (i,):
        low.instr("SetValue", advance_view(wide.view, i), Read(advance_view(tile.view, i)))
    return wide
