"""Instructions of the cube core: copies from GM to L1 and from L1 to L0, products, and results to GM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.blockir.ir import Expr, If, Instr, Item, Loop, Record, Scalar, View, Word, fold
from pypto.backends.ascend.cube.layout import Panel, ceil_div, in_units, scaled, view_at
from pypto.backends.ascend.tile.fractals import BLOCK_BYTES, FRACTAL_BYTES, SIDE, lanes, square
from pypto.ir.types import DType, bfloat16, float16, int1, int8, int32, uint16, uint32

LOAD_PITCH: Final = uint16  # dtype of the row pitch in a copy from GM
STORE_PITCH: Final = uint32  # dtype of the row pitch in a store
MORE = 2
LAST = 3  # `unitFlag`: the fixpipe starts on each unit once its last product is done
_QUANT: Final = MappingProxyType({float16: "F322F16", bfloat16: "F322BF16"})
LOOP_NAMES: Final = ("row", "strip")  # of loops in this file; no other name may be one of them
_ROW, _STRIP = LOOP_NAMES


@dataclass(frozen=True, slots=True)
class Pitch:
    """Elements from one row to the next in GM."""

    stride: Scalar  # the pitch
    field: Scalar  # the same as a copy's parameter
    fits: Scalar = True  # whether the parameter can hold it: then rows go in one copy

    @staticmethod
    def of(stride: Scalar, dtype: DType, let: Callable[[str, DType, Scalar], Scalar]) -> Pitch:
        """Build a pitch; it may be negative, or too large for the `dtype` of the parameter."""
        max_pitch = dtype.integer_range[1]
        if isinstance(stride, int):
            return Pitch(stride, stride) if 0 < stride <= max_pitch else Pitch(stride, 1, False)
        fits = let("fits", int1, Expr("&&", (Expr(">", (stride, 0)), Expr("<=", (stride, max_pitch)))))
        return Pitch(stride, let("pitch", dtype, Expr(dtype.mnemonic, (Expr("?:", (fits, stride, 1)),))), fits)


def copy_rows(
    rows: Scalar, pitch: Pitch, unit: int | None, copy_of: Callable[[Scalar, Scalar], Instr], line: int
) -> Iterator[Item]:
    """Copy rows: all at once, or `unit` of them, or one by one where their pitch does not fit.

    `copy_of` builds the copy of some rows, from the first row and their number.
    """
    grouped: Item = copy_of(0, rows)
    if unit is not None:
        grouped = Loop(_ROW, 0, rows, unit, (copy_of(_ROW, fold("min", unit, fold("-", rows, _ROW))),), line, int32)
    single = Loop(_ROW, 0, rows, 1, (copy_of(_ROW, 1),), line, int32)
    yield (
        grouped
        if pitch.fits is True
        else single
        if pitch.fits is False
        else If(pitch.fits, (grouped,), (single,), line)
    )


def load_l1(
    panel: Panel, source: View, outer: Scalar, depth: Scalar, pitch: Pitch, line: int, first_row: Scalar = 0
) -> Iterator[Item]:
    """Copy the existing elements of a panel from GM to L1, `outer` by `depth`, to a row and those behind it."""
    rows, cols = (depth, outer) if panel.side.k_down else (outer, depth)
    unit, height = (SIDE, SIDE) if panel.side.in_strips else (None, panel.rows)

    def copy(row: Scalar, count: Scalar) -> Instr:
        place = view_at(source, fold("*", row, pitch.stride))
        return _nd2nz(panel.row_view(fold("+", row, first_row)), place, count, cols, pitch.field, height, line)

    return copy_rows(rows, pitch, unit, copy, line)


def _nd2nz(to: View, source: View, rows: Scalar, cols: Scalar, pitch: Scalar, height: int, line: int) -> Instr:
    """Build the copy that lays rows of GM out as fractals; `height` rows lie between two columns of fractals."""
    return Instr("DataCopy", (to, source, Record((1, rows, cols, 0, pitch, height, 1, 0))), line)


def load_l0(panel: Panel, to: View, k: Scalar, outer: Scalar, depth: Scalar, line: int) -> Iterator[Item]:
    """Load whole fractals from L1 to L0: depth `k` and what follows, `outer` by `depth`."""
    side = panel.side
    if side.target.loads_panels:
        yield _load_panel(panel, to, k, outer, depth, line)
    elif side.k_down and side.dtype.itemsize != 2:
        yield from _transpose_squares(panel, panel.depth_view(k), to, outer, depth, line)
    elif side.k_down and side.is_left:
        yield from _transpose_strips(panel, panel.depth_view(k), to, outer, depth, line)
    elif side.is_left or side.k_down:  # an image load: one image row, with the panel's rows as pixels
        rows, cols = (depth, outer) if side.k_down else (outer, depth)
        start = (panel.view, k) if side.k_down else (panel.depth_view(k), 0)
        yield Instr("LoadData", (to, start[0], Record((1, panel.rows, cols, cols, rows, start[1], side.k_down))), line)
    else:
        yield from _load_in_order(panel, panel.depth_view(k), to, outer, depth, line)


def _load_panel(panel: Panel, to: View, k: Scalar, outer: Scalar, depth: Scalar, line: int) -> Instr:
    """Load a part of a panel with one instruction, transposed where K runs down its rows."""
    side = panel.side
    rows, cols = (depth, outer) if side.k_down else (outer, depth)
    fractal_rows = ceil_div(rows, SIDE)
    fractal_cols = ceil_div(cols, lanes(side.dtype))
    sizes = (fractal_rows, fractal_cols, panel.rows // SIDE, ceil_div(outer, SIDE))
    return Instr("LoadData", (to, panel.depth_view(k), Record((0, 0, *sizes, side.k_down, 0))), line)


def _transpose_strips(panel: Panel, source: View, to: View, outer: Scalar, depth: Scalar, line: int) -> Iterator[Item]:
    """Transpose the fractals of a left operand, strip by strip along M."""
    side = panel.side
    strips = in_units(outer, SIDE)
    depth_fractals = in_units(depth, lanes(side.dtype))

    def load_strip(i: Scalar) -> Instr:
        place = view_at(to, scaled(scaled(depth_fractals, side.fractal), i))
        strip = view_at(source, scaled(i, panel.rows * SIDE))
        return Instr("LoadData", (place, strip, Record((0, depth_fractals, 1, 0, True))), line)

    yield from _for_each_strip(strips, load_strip, line)


def _load_in_order(panel: Panel, source: View, to: View, outer: Scalar, depth: Scalar, line: int) -> Iterator[Item]:
    """Load fractals of a right operand, which already lie in the order of L0B."""
    side = panel.side
    depth_fractals = in_units(depth, lanes(side.dtype))
    outer_fractals = in_units(outer, SIDE)
    is_contiguous = outer == panel.rows
    fractals = fold("*", depth_fractals, outer_fractals) if is_contiguous else outer_fractals

    def load_strip(i: Scalar) -> Instr:
        place = view_at(to, scaled(scaled(outer_fractals, side.fractal), i))
        strip = view_at(source, scaled(i, panel.rows * lanes(side.dtype)))
        return Instr("LoadData", (place, strip, Record((0, fractals, 1, 0, False))), line)

    yield from _for_each_strip(1 if is_contiguous else depth_fractals, load_strip, line)


def _transpose_squares(panel: Panel, source: View, to: View, outer: Scalar, depth: Scalar, line: int) -> Iterator[Item]:
    """Transpose squares of two fractals: 32 by 32 bytes one below the other, or 16 by 16 words side by side."""
    side = panel.side
    unit = square(side.dtype)
    fractal = side.fractal
    is_bytes = side.dtype == int8
    squares = in_units(depth, unit)
    outer_squares = in_units(outer, unit)
    # Squares of the source are `down` apart along K and `across` apart along M or N.
    down, across = (1, panel.rows // unit) if is_bytes else (panel.cols // unit, 1)
    pairs = in_units(depth, lanes(side.dtype))  # fractals along K in L0
    if side.is_left:
        # for each strip of M along K; the pair's second fractal is the next along M (bytes) or along K (words)
        count, repeat, step, stride = outer_squares, squares, across, down
        to_step = fold("*", pairs, unit // SIDE)
        gap = 0 if is_bytes else 1
        fractal_gap = fold("-", pairs, 1) if is_bytes else 0
    else:
        outer_fractals = in_units(outer, SIDE)
        count, repeat, step, stride = squares, outer_squares, down, across
        to_step = fold("*", outer_fractals, unit // lanes(side.dtype))
        gap = 1 if is_bytes else 0
        fractal_gap = 0 if is_bytes else fold("-", outer_fractals, 1)
    yield from _for_each_strip(
        count,
        lambda i: Instr(
            "LoadDataWithTranspose",
            (
                view_at(to, scaled(scaled(to_step, fractal), i)),
                view_at(source, fold("*", i, step * 2 * fractal)),
                Record((0, repeat, stride, gap, fractal_gap)),
            ),
            line,
        ),
        line,
    )


def _for_each_strip(count: Scalar, load_of: Callable[[Scalar], Instr], line: int) -> Iterator[Item]:
    """Build a load for each strip of fractals."""
    if count == 1:
        yield load_of(0)
    else:
        yield Loop(_STRIP, 0, count, 1, (load_of(_STRIP),), line, int32)


def zero_fill(to: View, elements: int, line: int) -> Instr:
    """Fill whole fractals with zeros."""
    words = View(to.of, to.offset, to.stage, float16) if to.elem.itemsize == 1 else to
    unit = BLOCK_BYTES if to.space == "L1" else FRACTAL_BYTES
    return Instr("InitConstValue", (words, Record((1, elements * to.elem.itemsize // unit, 0, 0))), line)


def mmad(
    to: View,
    left: View,
    right: View,
    size: tuple[Scalar, Scalar, Scalar],
    first: Scalar,
    flag: Scalar,
    aligned: bool,
    line: int,
) -> Instr:
    """Multiply operands in L0 and add the product to the accumulator, or overwrite it if it is the `first` one.

    M and N are whole fractals.
    """
    return Instr("Mmad", (to, left, right, Record((*size, flag, first, False, aligned))), line)


def store_result(
    source: View, to: View, size: tuple[Scalar, Scalar], height: Scalar, pitch: Pitch, flag: Scalar, line: int
) -> Iterator[Item]:
    """Store rows and columns of an accumulator to GM, converted to the dtype of the array."""
    rows, cols = size
    conversion = Word("NoQuant" if to.elem == source.elem else _QUANT[to.elem])
    return copy_rows(
        rows,
        pitch,
        None,
        lambda row, count: Instr(
            "Fixpipe",
            (
                view_at(to, fold("*", row, pitch.stride)),
                view_at(source, scaled(row, SIDE)),
                Record((cols, count, height, pitch.field, conversion, False, 1, 0, 0, flag)),
            ),
            line,
        ),
        line,
    )
