"""Scans: running sums and products.

Along a dimension that is not the last one, each row is combined with the one before. Along rows, a log-step scan adds
elements at distances of 1, 2, 4 and so on (Hillis and Steele, 1986), with shifts by `Gather`. All else goes number by
number.

    x = [a, b, c, d]    step 1: [a, a+b, b+c, c+d]    step 2: [a, a+b, a+b+c, a+b+c+d]
"""

from __future__ import annotations

from pypto.backends.ascend.blockir.ir import Record, Scalar, View, Word, fold
from pypto.backends.ascend.blockir.softfloat64 import number
from pypto.backends.ascend.rules.scalars import Number, ScalarEmitter
from pypto.backends.ascend.tile.ub_layout import BLOCK
from pypto.backends.ascend.vector.builder import Index, Lowering, advance_view
from pypto.backends.ascend.vector.folding import FOLDS
from pypto.backends.ascend.vector.handlers.reduce import in_float32
from pypto.backends.ascend.vector.handlers.shape import index_vector, initialise_padding, last_dim
from pypto.backends.ascend.vector.values import Tile
from pypto.blocking import round_up
from pypto.ir.core import Op
from pypto.ir.types import bfloat16, float16, float32, float64, int32, uint32
from pypto.ops.row import Reduction
from pypto.ops.table import TABLE


def scan(low: Lowering, op: Op) -> None:
    """Lower a scan."""
    tile = low.tile(op.operands[0])
    axis = op.attrs["axis"]
    result = low.result(op.result)
    low.env[op.result] = result
    if op.name not in ("cumsum", "cumprod"):
        scan_by_scalar_unit(low, op, tile, result, axis)
    elif tile.dtype in (float32, int32) and axis != last_dim(tile.shape):
        scan_rows(low, op, tile, result, axis)
    elif tile.dtype in (float32, int32, float16, bfloat16) and axis == last_dim(tile.shape) and tile.shape[axis] > 1:
        scan_log_steps(low, op, in_float32(low, tile) if tile.dtype.is_narrow else tile, result)
    else:
        scan_by_scalar_unit(low, op, tile, result, axis)


def scan_position(i: Scalar, n: int, reverse: bool) -> Scalar:
    """Return the position in a scan, from the end if it runs in reverse."""
    return fold("-", n - 1, i) if reverse else i


def scan_rows(low: Lowering, op: Op, tile: Tile, result: Tile, axis: int) -> None:
    """Combine each row along the axis with the one before."""
    name = FOLDS[op.name.removeprefix("cum")]
    n = tile.shape[axis]
    row_span = low.grain.strides(tile.shape)[axis]
    reverse = op.attrs["reverse"]
    low.instr("DataCopy", result.view, tile.view, Record((1, tile.layout.count * tile.dtype.bits // 256, 0, 0)))
    with low.loop_nest(tuple(m if d < axis else 1 for d, m in enumerate(tile.shape))) as index:
        start = low.element_index(tile, index)
        with low.loop("i", n, 1) as i:
            at = fold("+", start, fold("*", scan_position(i, n, reverse), row_span))
            before = fold("-" if not reverse else "+", at, row_span)
            low.instr(
                name,
                advance_view(result.view, at),
                advance_view(result.view, before),
                advance_view(result.view, at),
                row_span,
            )


def scan_log_steps(low: Lowering, op: Op, tile: Tile, result: Tile) -> None:
    """Scan each row in log steps; elements outside of the row are the identity."""
    last = last_dim(tile.shape)
    dtype = tile.dtype
    n = tile.shape[last]
    name = op.name.removeprefix("cum")
    reverse = op.attrs["reverse"]
    row_room = round_up(n, BLOCK // dtype.itemsize)
    rule = TABLE[op.name].lane_rule
    assert isinstance(rule, Reduction)
    identity = rule.identity(dtype)
    sums = low.new_tile((2 * row_room,), dtype, "running").view
    shifted = low.new_tile((n,), dtype, "shifted").view
    offsets = low.new_tile((n,), int32, "offsets").view
    running = sums if reverse else advance_view(sums, row_room)
    initialise_padding(low, result)
    low.instr("Muls", offsets, index_vector(low, 0, n, int32), dtype.itemsize, n)
    low.instr("Duplicate", sums, float(identity) if dtype.is_float else identity, 2 * row_room)
    with low.loop_nest(tuple(1 if d == last else m for d, m in enumerate(tile.shape))) as row:
        copy_words(low, running, advance_view(tile.view, low.element_index(tile, row)), n)
        for step in (1 << k for k in range((n - 1).bit_length())):
            begin = (step if reverse else row_room - step) * dtype.itemsize
            low.instr("Gather", shifted, sums, View(offsets.of, 0, 0, uint32), begin, n)
            low.instr(FOLDS[name], running, running, shifted, n)
        to = advance_view(result.view, low.element_index(result, row))
        if result.dtype == dtype:
            copy_words(low, to, running, n)
        else:
            low.instr("Cast", to, running, Word("CAST_RINT"), n)


def copy_words(low: Lowering, to: View, source: View, n: int) -> None:
    """Copy a number of 32-bit words exactly."""
    a, b = (View(x.of, x.offset, x.stage, int32) for x in (to, source))
    low.instr("Adds", a, b, 0, n)


def scan_by_scalar_unit(low: Lowering, op: Op, tile: Tile, result: Tile, axis: int) -> None:
    """Scan element by element on the scalar unit."""
    rule = TABLE[op.name].lane_rule
    assert isinstance(rule, Reduction)
    dtype = float32 if tile.dtype.is_narrow else tile.dtype
    n = tile.shape[axis]
    e = ScalarEmitter(low, dtype == float64)
    initialise_padding(low, result)
    with low.loop_nest(tuple(1 if d == axis else m for d, m in enumerate(tile.shape))) as index:
        total = low.variable("total", dtype, number(rule.identity(dtype), dtype))
        with low.loop("i", n) as i:
            k = scan_position(i, n, op.attrs["reverse"])
            at: Index = tuple(k if d == axis else j for d, j in enumerate(index))
            value = low.let("v", dtype, low.element(tile, at))
            low.assign(total, rule.combine(e, Number(total, dtype), Number(value, dtype)).value)
            low.set_element(result, at, total)
