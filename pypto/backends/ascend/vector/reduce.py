"""Reductions: dimensions that are rows are folded, rows are brought to a repeat each and reduced by one instruction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.blockir.ir import Expr, Read, Record, Scalar, View, Word, fold
from pypto.backends.ascend.blockir.softfloat64 import number, zero
from pypto.backends.ascend.rules.scalars import Number, ScalarEmitter
from pypto.backends.ascend.tile.ub_layout import BLOCK
from pypto.backends.ascend.vector.builder import Index, Lowering, moved
from pypto.backends.ascend.vector.masks import as_numbers
from pypto.backends.ascend.vector.shape import ensure, fill, last_of
from pypto.backends.ascend.vector.values import Tile
from pypto.ir.core import Op
from pypto.ir.types import DType, bfloat16, float16, float32, float64, int1, int16, int32
from pypto.ops.row import Reduction
from pypto.ops.table import TABLE

FOLDS: Final[Mapping[str, str]] = MappingProxyType({"sum": "Add", "prod": "Mul", "max": "Max", "min": "Min"})
WHOLE: Final[Mapping[str, str]] = MappingProxyType(
    {"sum": "WholeReduceSum", "max": "WholeReduceMax", "min": "WholeReduceMin"}
)
_EACH: Final = 8  # 32-bit elements of a block
NEUTRAL: Final[Mapping[str, float]] = MappingProxyType({"max": -math.inf, "min": math.inf})
_REPEATS: Final = 248  # of one instruction: the most that leave the next one's results at whole blocks
_STRIDE: Final = 255


def reduction(low: Lowering, op: Op) -> None:
    source, result, axes = op.operands[0], op.result, op.attrs["axes"]
    held = low.held(source)
    if not source.shape or all(source.shape[a] == 1 for a in axes):
        tile = low.made(held)
        low.env[result] = tile.reshaped(result.shape, tile.layout) if source.shape else low.env[source]
        return
    tile = low.made(held)
    if op.name in WHOLE and (tile.dtype in (float32, float16, bfloat16)):
        made = on_vectors(low, op.name, in_float32(low, tile), axes)
        made = rounded_back(low, made, result.dtype)
    elif op.name in FOLDS and tile.dtype in (int32, int16, float32) and last_of(tile.shape) not in axes:
        made = on_vectors(low, op.name, tile, axes)
    elif op.name in FOLDS and tile.dtype in (int32, int16, float32) and tile.shape[last_of(tile.shape)] >= 4 * _EACH:
        made = with_sums_by_numbers(low, op, tile)
    else:
        made = one_by_one(low, op, tile, axes)
    low.env[result] = made.reshaped(result.shape, low.grain.layout(result.shape))


def in_float32(low: Lowering, tile: Tile) -> Tile:
    if tile.dtype == float32:
        return tile
    wide = low.new(tile.shape, float32, "wide")
    low.instr("Cast", wide.view, tile.view, Word("CAST_NONE"), tile.layout.count)
    return wide


def rounded_back(low: Lowering, tile: Tile, dtype: DType) -> Tile:
    if tile.dtype == dtype:
        return tile
    narrow = low.new(tile.shape, dtype)
    low.instr("Cast", narrow.view, tile.view, Word("CAST_RINT"), tile.layout.count)
    return narrow


def on_vectors(low: Lowering, kind: str, tile: Tile, axes: tuple[int, ...]) -> Tile:
    if kind not in NEUTRAL or not tile.dtype.is_float:
        return axis_by_axis(low, kind, tile, axes)
    numbers, bits = numbers_of(low, tile, kind)
    made = axis_by_axis(low, kind, numbers, axes)
    nan_of_nothing(low, made, bits, axes, NEUTRAL[kind])
    return made


def numbers_of(low: Lowering, tile: Tile, kind: str) -> tuple[Tile, Tile]:
    """A tile in which NaN gives way to every number, and bits that say where there are numbers."""
    bits, numbers = low.new(tile.shape, int1, "isNumber"), low.new(tile.shape, tile.dtype, "numbers")
    low.instr("Compare", bits.view, tile.view, tile.view, Word("EQ"), tile.layout.count)
    mode = Word("VSEL_TENSOR_SCALAR_MODE")
    low.instr("Select", numbers.view, bits.view, tile.view, NEUTRAL[kind], mode, tile.layout.count)
    return numbers, bits


def nan_of_nothing(low: Lowering, made: Tile, bits: Tile, axes: tuple[int, ...], neutral: float) -> None:
    """Where there was no number at all, there is none: looked for only where some result is the neutral one."""
    worst = axis_by_axis(low, "max" if neutral > 0 else "min", made, tuple(range(len(made.shape))))
    least = low.let("worst", made.dtype, Read(worst.view))
    with low.when(Expr("==", (least, neutral))):
        some = axis_by_axis(low, "max", as_numbers(low, bits, made.dtype), axes)
        found = low.new(made.shape, int1, "anyNumber")
        low.instr("CompareScalar", found.view, some.view, 0.0, Word("GT"), made.layout.count)
        mode = Word("VSEL_TENSOR_SCALAR_MODE")
        low.instr("Select", made.view, found.view, made.view, math.nan, mode, made.layout.count)


def axis_by_axis(low: Lowering, kind: str, tile: Tile, axes: tuple[int, ...]) -> Tile:
    """The axis along rows comes last."""
    last = last_of(tile.shape)
    for axis in axes:
        if axis != last and tile.shape[axis] != 1:
            tile = folded(low, kind, tile, axis)
    return along_rows(low, kind, tile) if last in axes and tile.shape[last] != 1 else tile


def folded(low: Lowering, kind: str, tile: Tile, axis: int) -> Tile:
    """A dimension that is no row is folded in halves, each a run over whatever lies behind it."""
    shape = tuple(1 if d == axis else n for d, n in enumerate(tile.shape))
    strides = low.grain.strides(tile.shape)
    n, span = tile.shape[axis], strides[axis]
    made = low.new(shape, tile.dtype)
    half = low.new((n // 2 * span,), tile.dtype, "halves").view
    outer = tuple(m if d < axis else 1 for d, m in enumerate(tile.shape))
    if math.prod(outer) > 1 or span < made.layout.count:
        fill(low, made, zero(made.dtype))
    with low.each(outer) as index:
        here = moved(tile.view, low.place(tile, index))
        halve(Halving(low, kind), Strip(moved(made.view, low.place(made, index))), Strip(here), Strip(half), n, span)
    return made


@dataclass(frozen=True, slots=True)
class Strip:
    """Runs of elements, the same ones of each row: rows begin so many elements apart."""

    view: View
    pitch: int = 0

    def on(self, by: int) -> Strip:
        return Strip(moved(self.view, by), self.pitch)

    def row(self, r: Scalar) -> View:
        return moved(self.view, fold("*", r, self.pitch))


@dataclass(frozen=True, slots=True)
class Halving:
    """Folds runs into others, of all rows at a time: those of different rows need not wait for each other."""

    low: Lowering
    kind: str
    rows: int = 1

    def fold(self, to: Strip, a: Strip, b: Strip, count: int) -> None:
        each, name = 8 * BLOCK // to.view.elem.itemsize, FOLDS[self.kind]
        steps = tuple(x.pitch * x.view.elem.itemsize // BLOCK for x in (to, a, b))
        if 1 < self.rows <= _REPEATS and count <= each and max(steps) <= _STRIDE:
            self.low.instr(name, to.view, a.view, b.view, count, self.rows, Record((1, 1, 1, *steps)))
            return
        with self.low.each((self.rows,)) as (r,):
            self.low.instr(name, to.row(r), a.row(r), b.row(r), count)

    def copy(self, to: Strip, source: Strip, count: int) -> None:
        with self.low.each((self.rows,)) as (r,):
            blocks = count * to.view.elem.itemsize // BLOCK
            self.low.instr("DataCopy", to.row(r), source.row(r), Record((1, blocks, 0, 0)))


def halve(work: Halving, made: Strip, source: Strip, half: Strip, n: int, span: int) -> None:
    """So many runs of `span` elements into one; `half` has memory for half of them."""
    odd = []
    while n > 1:
        h = n // 2
        if n % 2:
            odd.append(source.on(2 * h * span))
        to = made if n == 2 and not odd else half
        work.fold(to, source, source.on(h * span), h * span)
        source, n = to, h
    for k, run in enumerate(odd):
        work.fold(made if k == len(odd) - 1 else half, half, run, span)


def along_rows(low: Lowering, kind: str, tile: Tile) -> Tile:
    """Each row into one number."""
    shape = tuple(1 if d == last_of(tile.shape) else n for d, n in enumerate(tile.shape))
    layout, lanes = tile.layout, 256 // tile.dtype.itemsize
    source, width, pitch = tile.view, layout.cols, layout.pitch
    if width > lanes:
        source, width, pitch = narrowed(low, kind, tile, lanes), min(width, lanes), lanes
    made = low.new(shape, tile.dtype)
    if layout.rows < made.layout.count:
        fill(low, made, 0.0)
    if width == pitch == lanes and made.layout.rows == 1 and layout.rows >= _EACH:
        in_blocks(low, kind, made.view, source, layout.rows)
    else:
        whole(low, kind, made, source, layout.rows, width, pitch)
    return made


def in_blocks(low: Lowering, kind: str, made: View, source: View, rows: int) -> None:
    """Rows of a repeat each: blocks into numbers, so that a row is a block, and these once more."""
    blocks = low.new((rows * _EACH,), made.elem).view
    name = WHOLE[kind].replace("Whole", "Block")
    lanes = _EACH * _EACH
    for first in range(0, rows, _REPEATS):
        count = min(_REPEATS, rows - first)
        low.instr(name, moved(blocks, first * _EACH), moved(source, first * lanes), count, lanes, 1, 1, _EACH)
    full, rest = divmod(rows, _EACH)
    for first in range(0, full, _REPEATS):
        count = min(_REPEATS, full - first)
        low.instr(name, moved(made, first * _EACH), moved(blocks, first * lanes), count, lanes, 1, 1, _EACH)
    if rest:
        low.instr(name, moved(made, full * _EACH), moved(blocks, full * lanes), 1, rest * _EACH, 1, 1, _EACH)


def whole(low: Lowering, kind: str, made: Tile, source: View, rows: int, width: int, pitch: int) -> None:
    """One instruction for as many rows as results lie side by side."""
    order = () if kind == "sum" else (Word("ORDER_ONLY_VALUE"),)
    per = made.layout.cols if made.layout.rows > 1 else rows
    blocks = pitch * made.dtype.itemsize // BLOCK
    for run in range(rows // per):
        for first in range(0, per, _REPEATS):
            to = moved(made.view, run * made.layout.pitch + first)
            here = moved(source, (run * per + first) * pitch)
            low.instr(WHOLE[kind], to, here, width, min(_REPEATS, per - first), 1, 1, blocks, *order)


def narrowed(low: Lowering, kind: str, tile: Tile, lanes: int) -> View:
    """Rows folded into `lanes` elements each, one repeat after the other."""
    layout = tile.layout
    rows, cols, pitch = layout.rows, layout.cols, layout.pitch
    made = low.new((rows * lanes,), tile.dtype, "folded").view
    blocks = pitch * tile.dtype.itemsize // BLOCK
    if rows >= 8 and blocks <= _STRIDE:
        side_by_side(low, kind, made, tile, lanes)
        return made
    fold_rows(Halving(low, kind, rows), Strip(made, lanes), Strip(tile.view, pitch), cols, lanes)
    return made


def fold_rows(work: Halving, made: Strip, source: Strip, cols: int, lanes: int) -> None:
    """Rows in halves of whole repeats; what is left over comes last."""
    full, tail = divmod(cols, lanes)
    if full == 1:
        work.copy(made, source, lanes)
    else:
        room = full // 2 * lanes
        half = work.low.new((work.rows * room,), made.view.elem, "halves").view
        halve(work, made, source, Strip(half, room), full, lanes)
    if tail:
        work.fold(made, made, source.on(full * lanes), tail)


def side_by_side(low: Lowering, kind: str, made: View, tile: Tile, lanes: int) -> None:
    """All rows at once, a repeat of each at a time; several sums in turns, so that one need not wait for another."""
    rows, cols, pitch = tile.layout.rows, tile.layout.cols, tile.layout.pitch
    step, several = pitch * tile.dtype.itemsize // BLOCK, next(n for n in (4, 2, 1) if cols >= 2 * n * lanes or n == 1)
    sums = [made, *(low.new((rows * lanes,), tile.dtype, "folded").view for _ in range(several - 1))]
    for first in range(0, rows, _REPEATS):
        count = min(_REPEATS, rows - first)
        to, source = [moved(x, first * lanes) for x in sums], moved(tile.view, first * pitch)
        if cols < 2 * lanes:
            low.instr("Copy", to[0], source, lanes, count, Record((1, 1, 8, step)))
        for c in range(0, several * lanes if cols >= 2 * lanes else 0, lanes):
            pair = moved(source, 2 * c), moved(source, 2 * c + lanes)  # neighbours are in different banks
            low.instr(FOLDS[kind], to[c // lanes], *pair, lanes, count, Record((1, 1, 1, 8, step, step)))
        for c in range(2 * several * lanes if cols >= 2 * lanes else lanes, cols, lanes):
            here, width = to[c // lanes % several], min(lanes, cols - c)
            low.instr(FOLDS[kind], here, here, moved(source, c), width, count, Record((1, 1, 1, 8, 8, step)))
        while len(to) > 1:
            to, others = to[: len(to) // 2], to[len(to) // 2 :]
            for here, other in zip(to, others, strict=True):
                low.instr(FOLDS[kind], here, here, other, lanes, count, Record((1, 1, 1, 8, 8, 8)))


def with_sums_by_numbers(low: Lowering, op: Op, tile: Tile) -> Tile:
    """Rows folded into a block each, whose few elements the scalar unit joins."""
    last, kind = last_of(tile.shape), op.name
    for axis in op.attrs["axes"]:
        if axis != last and tile.shape[axis] != 1:
            tile = folded(low, kind, tile, axis)
    each = BLOCK // tile.dtype.itemsize
    layout = tile.layout
    blocks = low.new((*(n if d != last else 1 for d, n in enumerate(tile.shape)), each), tile.dtype)
    fill(low, blocks, zero(tile.dtype))
    to = Strip(blocks.view, blocks.layout.pitch)
    fold_rows(Halving(low, kind, layout.rows), to, Strip(tile.view, layout.pitch), layout.cols, each)
    return one_by_one(low, op, blocks, (len(tile.shape),)).reshaped(
        tuple(1 if d == last else n for d, n in enumerate(tile.shape)), low.grain.layout(tile.shape[:last])
    )


def one_by_one(low: Lowering, op: Op, tile: Tile, axes: tuple[int, ...]) -> Tile:
    """A reduction that the vector unit has not, by the scalar unit."""
    cell = TABLE[op.name].lane_rule
    assert isinstance(cell, Reduction)
    shape = tile.shape
    kept = tuple(1 if d in axes else n for d, n in enumerate(shape))
    made = low.new(kept, op.result.dtype if not op.result.dtype.is_bool else float16)
    ensure(low, made)
    e = ScalarEmitter(low, tile.dtype == float64)
    dtype = float32 if tile.dtype.is_narrow else tile.dtype
    identity = number(cell.identity(op.result.dtype), dtype)
    with low.each(kept) as index:
        total = low.variable("total", dtype, bool(identity) if dtype.is_bool else identity)
        with low.each(tuple(n if d in axes else 1 for d, n in enumerate(shape))) as inner:
            at: Index = tuple(j if d in axes else i for d, (i, j) in enumerate(zip(index, inner, strict=True)))
            value = low.let("v", dtype, low.element(tile, at))
            low.assign(total, cell.combine(e, Number(total, dtype), Number(value, dtype)).value)
        low.put(made, index, Expr("f16", (total,)) if dtype.is_bool else total)
    return as_mask(low, made) if op.result.dtype.is_bool else made


def as_mask(low: Lowering, made: Tile) -> Tile:
    from pypto.backends.ascend.vector.masks import nonzero

    return nonzero(low, made, low.new(made.shape, int1))
