"""Reductions on the vector unit: rows are folded in halves, the elements of a row reduced by one instruction.

A dimension that is not the last one is folded with elementwise instructions over what lies behind it. A row is folded
to one repeat (256 bytes), which `WholeReduce` or `BlockReduce` brings to one number. Max and min ignore NaN
unless all elements are NaN. What the vector unit lacks goes through the scalar unit.

    s = sum(x, axis=1)     # 8 x 256        Add(h, x[0:128], x[128:256], ...)     # 8 x 128
                                     ->     Add(f, h[0:64], h[64:128], ...)       # 8 x 64
                                            WholeReduceSum(s, f, 64, 8, ...)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.blockir.ir import Expr, Read, Record, Scalar, View, Word
from pypto.backends.ascend.blockir.softfloat64 import number, zero
from pypto.backends.ascend.rules.operand import as_dtype
from pypto.backends.ascend.rules.scalars import Number, ScalarEmitter
from pypto.backends.ascend.target import REPEAT
from pypto.backends.ascend.tile.ub_layout import BLOCK
from pypto.backends.ascend.vector.builder import Index, Lowering, advance_view
from pypto.backends.ascend.vector.folding import (
    FOLDS,
    MAX_REPEATS,
    MAX_STRIDE,
    Halving,
    Strip,
    fold_in_halves,
    fold_rows,
    fold_to_repeat,
)
from pypto.backends.ascend.vector.handlers.shape import fill, initialise_padding, last_dim
from pypto.backends.ascend.vector.nan_facts import is_never_nan, sees_no_nan
from pypto.backends.ascend.vector.values import Tile
from pypto.ir.core import Op
from pypto.ir.types import DType, bfloat16, float16, float32, float64, int1, int16, int32
from pypto.ops.row import Reduction
from pypto.ops.table import TABLE
from pypto.passes.analysis.carried import flow_sources

WHOLE_REDUCE: Final[Mapping[str, str]] = MappingProxyType(
    {"sum": "WholeReduceSum", "max": "WholeReduceMax", "min": "WholeReduceMin"}
)
_BLOCK_LANES: Final = 8  # 32-bit elements in a block
_SHORT: Final = (8, 16, 32)  # elements of rows that are folded block by block
IDENTITY: Final[Mapping[str, float]] = MappingProxyType({"max": -math.inf, "min": math.inf})


def reduction(low: Lowering, op: Op) -> None:
    """Lower a reduction."""
    source = op.operands[0]
    result = op.result
    axes = op.attrs["axes"]
    operand = low.tile_value(source)
    if not source.shape or all(source.shape[a] == 1 for a in axes):
        tile = low.materialize(operand)
        low.env[result] = tile.reshaped(result.shape, tile.layout) if source.shape else low.env[source]
        return
    tile = low.materialize(operand)
    if op.name in WHOLE_REDUCE and (tile.dtype in (float32, float16, bfloat16)):
        wide = in_float32(low, tile)
        if is_never_nan(source, flow_sources(low.function)):
            reduced = reduce_axes(low, op.name, wide, axes)
        else:
            reduced = reduce_vectors(low, op.name, wide, axes, sees_no_nan(low, op))
        reduced = narrow(low, reduced, result.dtype)
    elif op.name in FOLDS and tile.dtype in (int32, int16, float32) and last_dim(tile.shape) not in axes:
        reduced = reduce_vectors(low, op.name, tile, axes)
    elif (
        op.name in FOLDS
        and tile.dtype in (int32, int16, float32)
        and tile.shape[last_dim(tile.shape)] >= 4 * _BLOCK_LANES
    ):
        reduced = reduce_with_scalar_tail(low, op, tile)
    else:
        reduced = reduce_by_scalar_unit(low, op, tile, axes)
    low.env[result] = reduced.reshaped(result.shape, low.grain.layout(result.shape))


def in_float32(low: Lowering, tile: Tile) -> Tile:
    """Convert a tile to float32."""
    if tile.dtype == float32:
        return tile
    wide = low.new_tile(tile.shape, float32, "wide")
    low.instr("Cast", wide.view, tile.view, Word("CAST_NONE"), tile.layout.count)
    return wide


def narrow(low: Lowering, tile: Tile, dtype: DType) -> Tile:
    """Convert a tile back to a narrower dtype."""
    if tile.dtype == dtype:
        return tile
    result = low.new_tile(tile.shape, dtype)
    low.instr("Cast", result.view, tile.view, Word("CAST_RINT"), tile.layout.count)
    return result


def reduce_vectors(low: Lowering, kind: str, tile: Tile, axes: tuple[int, ...], any_without: bool = False) -> Tile:
    """Reduce on the vector unit; `any_without`: what a maximum gives where there is no number does not matter."""
    if kind not in IDENTITY or not tile.dtype.is_float:
        return reduce_axes(low, kind, tile, axes)
    no_nan, bits = replace_nan(low, tile, kind)
    reduced = reduce_axes(low, kind, no_nan, axes)
    if not any_without:
        restore_nan(low, reduced, bits, axes, IDENTITY[kind], no_nan)
    return reduced


def replace_nan(low: Lowering, tile: Tile, kind: str) -> tuple[Tile, Tile]:
    """Replace NaN by the identity; return that tile, and bits that say where numbers are."""
    bits = low.new_tile(tile.shape, int1, "isNumber")
    no_nan = low.new_tile(tile.shape, tile.dtype, "numbers")
    low.instr("Compare", bits.view, tile.view, tile.view, Word("EQ"), tile.layout.count)
    mode = Word("VSEL_TENSOR_SCALAR_MODE")
    low.instr("Select", no_nan.view, bits.view, tile.view, IDENTITY[kind], mode, tile.layout.count)
    return no_nan, bits


def restore_nan(low: Lowering, reduced: Tile, bits: Tile, axes: tuple[int, ...], neutral: float, memory: Tile) -> None:
    """Write NaN where there was no number at all; the memory is that of the numbers, which nothing reads any more.

    Many results are decided by vector instructions, since a question to the scalar unit would halt both. One result is
    looked at by the scalar unit: the row is looked through only if it equals the identity.
    """
    is_empty: Scalar = True
    if math.prod(reduced.shape) == 1:
        is_empty = Expr("==", (low.let("worst", reduced.dtype, Read(reduced.view)), neutral))
    with low.when(is_empty):
        has_number = reduce_axes(low, "max", numbers_present(low, bits, axes, memory), axes)
        has_number_bits = low.new_tile(reduced.shape, int1, "anyNumber")
        low.instr("CompareScalar", has_number_bits.view, has_number.view, 0.0, Word("GT"), reduced.layout.count)
        mode = Word("VSEL_TENSOR_SCALAR_MODE")
        low.instr("Select", reduced.view, has_number_bits.view, reduced.view, math.nan, mode, reduced.layout.count)


def numbers_present(low: Lowering, bits: Tile, axes: tuple[int, ...], memory: Tile) -> Tile:
    """Return float32 above 0 where there are numbers: one for many elements of a row, where its bits are whole words.

    They are written over the memory, so that the decision needs no more than the reduction did.

    isNumber: 8 x 1024 bits   ->   Cast(words, isNumber, 256)   # 8 x 32, each the bits of 32 elements
                                   Abs(words, words, 256)
    """
    if (words := packed_layout(low, bits, axes, 32)) is not None:
        numbers = Tile(words, float32, memory.view, low.grain.layout(words))
        count = numbers.layout.count
        low.instr("Cast", numbers.view, as_dtype(bits.view, int32), Word("CAST_RINT"), count)
        low.instr("Abs", numbers.view, numbers.view, count)
        return numbers
    if (in_bytes := packed_layout(low, bits, axes, 8)) is not None:
        numbers = Tile(in_bytes, float32, memory.view, low.grain.layout(in_bytes))
        count = numbers.layout.count
        halves = as_dtype(advance_view(memory.view, count), float16)
        low.instr("Cast", halves, bits.view, Word("CAST_NONE"), count)
        low.instr("Cast", numbers.view, halves, Word("CAST_NONE"), count)
        return numbers
    count, mode = memory.layout.count, Word("VSEL_TENSOR_SCALAR_MODE")
    low.instr("Duplicate", memory.view, 1.0, count)
    low.instr("Select", memory.view, bits.view, memory.view, 0.0, mode, count)
    return memory


def packed_layout(low: Lowering, bits: Tile, axes: tuple[int, ...], size: int) -> tuple[int, ...] | None:
    """Return the shape of a tile of bits in words of a size; None where rows are not reduced, or are no whole words."""
    last, layout = last_dim(bits.shape), bits.layout
    shape = tuple(n // size if d == last else n for d, n in enumerate(bits.shape))
    if last not in axes or layout.cols % size:
        return None
    packed = low.grain.layout(shape)
    fits = packed.count * size == layout.count and (layout.rows == 1 or packed.pitch * size == layout.pitch)
    return shape if fits else None


def reduce_axes(low: Lowering, kind: str, tile: Tile, axes: tuple[int, ...]) -> Tile:
    """Reduce axis by axis, rows last."""
    last = last_dim(tile.shape)
    for axis in axes:
        if axis != last and tile.shape[axis] != 1:
            tile = fold_axis(low, kind, tile, axis)
    return reduce_rows(low, kind, tile) if last in axes and tile.shape[last] != 1 else tile


def fold_axis(low: Lowering, kind: str, tile: Tile, axis: int) -> Tile:
    """Fold a dimension that does not run along rows, in halves."""
    shape = tuple(1 if d == axis else n for d, n in enumerate(tile.shape))
    strides = low.grain.strides(tile.shape)
    n = tile.shape[axis]
    span = strides[axis]
    result = low.new_tile(shape, tile.dtype)
    outer = tuple(m if d < axis else 1 for d, m in enumerate(tile.shape))
    if takes_runs(tile, n, span, math.prod(outer)):
        fill(low, result, zero(result.dtype))
        fold_runs(low, kind, result.view, tile, n, span)
        return result
    scratch = low.new_tile((n // 2 * span,), tile.dtype, "halves").view
    if math.prod(outer) > 1 or span < result.layout.count:
        fill(low, result, zero(result.dtype))
    with low.loop_nest(outer) as index:
        source = advance_view(tile.view, low.element_index(tile, index))
        fold_in_halves(
            Halving(low, kind),
            Strip(advance_view(result.view, low.element_index(result, index))),
            Strip(source),
            Strip(scratch),
            n,
            span,
        )
    return result


def takes_runs(tile: Tile, n: int, span: int, outer: int) -> bool:
    """Whether one instruction for each of `n` elements of a dimension is better than a loop over those around it."""
    blocks = span * tile.dtype.itemsize // BLOCK
    in_repeats = outer % _BLOCK_LANES == 0 if blocks == 1 else span * tile.dtype.itemsize <= REPEAT
    fits = n * blocks * (_BLOCK_LANES if blocks == 1 else 1) <= MAX_STRIDE
    return outer >= _BLOCK_LANES and n < outer and in_repeats and fits and not tile.dtype.is_bool


def fold_runs(low: Lowering, kind: str, result: View, tile: Tile, n: int, span: int) -> None:
    """Fold a dimension inside of others: an instruction takes one more of its elements in, for all runs at once.

    A run of one block is a block of a repeat; else each repeat is a run.
    """
    runs, blocks = tile.layout.rows * tile.layout.pitch // (n * span), span * tile.dtype.itemsize // BLOCK
    each = _BLOCK_LANES if blocks == 1 else 1  # runs in a repeat
    for first in range(0, runs // each, MAX_REPEATS):
        to, count = advance_view(result, first * each * span), min(MAX_REPEATS, runs // each - first)
        for k in range(1, n):
            sources = [advance_view(tile.view, (first * each * n + i) * span) for i in (0, k)]
            strides = [n * blocks, n * blocks]
            if k > 1:
                sources[0], strides[0] = to, blocks
            in_repeat = strides if blocks == 1 else (1, 1)
            how = Record((1, *in_repeat, each * blocks, *(each * stride for stride in strides)))
            low.instr(FOLDS[kind], to, *sources, each * span, count, how)


def reduce_rows(low: Lowering, kind: str, tile: Tile) -> Tile:
    """Reduce each row to a number."""
    shape = tuple(1 if d == last_dim(tile.shape) else n for d, n in enumerate(tile.shape))
    layout = tile.layout
    lanes = 256 // tile.dtype.itemsize
    source, width, pitch = tile.view, layout.cols, layout.pitch
    if width > lanes:
        source = fold_to_repeat(low, kind, tile, lanes)
        width = min(width, lanes)
        pitch = lanes
    result = low.new_tile(shape, tile.dtype)
    if layout.rows < result.layout.count:
        fill(low, result, 0.0)
    is_dense = width == pitch and result.layout.is_dense and layout.rows >= _BLOCK_LANES
    if is_dense and width == lanes:
        reduce_by_blocks(low, kind, result.view, source, layout.rows)
    elif is_dense and tile.dtype == float32 and width in _SHORT and layout.rows % (2 * _BLOCK_LANES) == 0:
        blocks = fold_blocks(low, kind, source, layout.rows, width // _BLOCK_LANES)
        block_reduce(low, kind, result.view, blocks, layout.rows)
    else:
        reduce_whole(low, kind, result, source, layout.rows, width, pitch)
    return result


def reduce_by_blocks(low: Lowering, kind: str, result: View, source: View, rows: int) -> None:
    """Reduce rows of one repeat: blocks to numbers, so that a row is a block, and once more."""
    blocks = low.new_tile((rows * _BLOCK_LANES,), result.elem).view
    block_reduce(low, kind, blocks, source, rows * _BLOCK_LANES)
    block_reduce(low, kind, result, blocks, rows)


def block_reduce(low: Lowering, kind: str, result: View, source: View, blocks: int) -> None:
    """Reduce blocks to numbers, eight of them in a repeat."""
    name, lanes = WHOLE_REDUCE[kind].replace("Whole", "Block"), _BLOCK_LANES * _BLOCK_LANES
    full, remainder = divmod(blocks, _BLOCK_LANES)
    runs = [(first, min(MAX_REPEATS, full - first), lanes) for first in range(0, full, MAX_REPEATS)]
    for first, count, mask in (*runs, *([(full, 1, remainder * _BLOCK_LANES)] if remainder else [])):
        to, of = advance_view(result, first * _BLOCK_LANES), advance_view(source, first * lanes)
        low.instr(name, to, of, count, mask, 1, 1, _BLOCK_LANES)


def fold_blocks(low: Lowering, kind: str, source: View, rows: int, blocks: int) -> View:
    """Fold rows of 2 or 4 blocks to one: an instruction takes the same block of eight rows in a repeat."""
    folded = [
        source if blocks == 1 else low.new_tile((rows * _BLOCK_LANES,), source.elem).view
        for _ in range(blocks // 2 or 1)
    ]
    lanes, repeats = _BLOCK_LANES * _BLOCK_LANES, rows // _BLOCK_LANES
    for k in range(blocks // 2):
        pair = (advance_view(source, (2 * k + i) * _BLOCK_LANES) for i in range(2))
        pitch = blocks * _BLOCK_LANES
        low.instr(
            FOLDS[kind], folded[k], *pair, lanes, repeats, Record((1, blocks, blocks, _BLOCK_LANES, pitch, pitch))
        )
    if len(folded) > 1:
        low.instr(FOLDS[kind], folded[0], *folded, rows * _BLOCK_LANES)
    return folded[0]


def reduce_whole(low: Lowering, kind: str, result: Tile, source: View, rows: int, width: int, pitch: int) -> None:
    """Reduce as many rows by one instruction as have adjacent results."""
    order = () if kind == "sum" else (Word("ORDER_ONLY_VALUE"),)
    rows_per_run = rows if result.layout.is_dense else result.layout.cols
    blocks = pitch * result.dtype.itemsize // BLOCK
    for run in range(rows // rows_per_run):
        for first in range(0, rows_per_run, MAX_REPEATS):
            to = advance_view(result.view, run * result.layout.pitch + first)
            row_view = advance_view(source, (run * rows_per_run + first) * pitch)
            low.instr(
                WHOLE_REDUCE[kind], to, row_view, width, min(MAX_REPEATS, rows_per_run - first), 1, 1, blocks, *order
            )


def reduce_with_scalar_tail(low: Lowering, op: Op, tile: Tile) -> Tile:
    """Fold rows into one block each, whose elements the scalar unit combines."""
    last = last_dim(tile.shape)
    kind = op.name
    for axis in op.attrs["axes"]:
        if axis != last and tile.shape[axis] != 1:
            tile = fold_axis(low, kind, tile, axis)
    block_lanes = BLOCK // tile.dtype.itemsize
    layout = tile.layout
    blocks = low.new_tile((*(n if d != last else 1 for d, n in enumerate(tile.shape)), block_lanes), tile.dtype)
    fill(low, blocks, zero(tile.dtype))
    to = Strip(blocks.view, blocks.layout.pitch)
    fold_rows(Halving(low, kind, layout.rows), to, Strip(tile.view, layout.pitch), layout.cols, block_lanes)
    return reduce_by_scalar_unit(low, op, blocks, (len(tile.shape),)).reshaped(
        tuple(1 if d == last else n for d, n in enumerate(tile.shape)), low.grain.layout(tile.shape[:last])
    )


def reduce_by_scalar_unit(low: Lowering, op: Op, tile: Tile, axes: tuple[int, ...]) -> Tile:
    """Reduce element by element on the scalar unit."""
    rule = TABLE[op.name].lane_rule
    assert isinstance(rule, Reduction)
    shape = tile.shape
    result_shape = tuple(1 if d in axes else n for d, n in enumerate(shape))
    result = low.new_tile(result_shape, op.result.dtype if not op.result.dtype.is_bool else float16)
    initialise_padding(low, result)
    e = ScalarEmitter(low, tile.dtype == float64)
    dtype = float32 if tile.dtype.is_narrow else tile.dtype
    identity = number(rule.identity(op.result.dtype), dtype)
    with low.loop_nest(result_shape) as index:
        total = low.variable("total", dtype, bool(identity) if dtype.is_bool else identity)
        with low.loop_nest(tuple(n if d in axes else 1 for d, n in enumerate(shape))) as inner:
            at: Index = tuple(j if d in axes else i for d, (i, j) in enumerate(zip(index, inner, strict=True)))
            value = low.let("v", dtype, low.element(tile, at))
            low.assign(total, rule.combine(e, Number(total, dtype), Number(value, dtype)).value)
        low.set_element(result, index, Expr("f16", (total,)) if dtype.is_bool else total)
    return as_mask(low, result) if op.result.dtype.is_bool else result


def as_mask(low: Lowering, numbers: Tile) -> Tile:
    """Convert numbers to bits."""
    from pypto.backends.ascend.vector.masks import compare_nonzero

    return compare_nonzero(low, numbers, low.new_tile(numbers.shape, int1))
