"""Instructions that bring operands to the cube unit, multiply them, and take results away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.blockir.ir import Expr, If, Instr, Item, Loop, Record, Scalar, View, Word, fold
from pypto.backends.ascend.cube.layout import Panel, at, ceil_div, in_units, times
from pypto.backends.ascend.tile.fractals import BLOCK_BYTES, FRACTAL_BYTES, SIDE, lanes, square
from pypto.ir.types import DType, bfloat16, float16, int1, int8, int32, uint16, uint32

PITCH: Final = uint16  # elements from row to row in GM, as far as one copy can step
STEP: Final = uint32  # the same for a result
MORE, LAST = 2, 3  # of `unitFlag`: the fixpipe follows these products, unit by unit, once the last of them ran
_QUANT: Final = MappingProxyType({float16: "F322F16", bfloat16: "F322BF16"})
NAMES: Final = ("row", "strip")  # of the loops here; nothing else has these
_ROW, _STRIP = NAMES


@dataclass(frozen=True, slots=True)
class Pitch:
    """Elements from row to row in GM. Where that `fits` a copy's parameter, `field`, rows go in one copy."""

    stride: Scalar
    field: Scalar
    fits: Scalar = True

    @staticmethod
    def of(stride: Scalar, dtype: DType, let: Callable[[str, DType, Scalar], Scalar]) -> Pitch:
        """A pitch may be negative, or too large for the `dtype` of the parameter."""
        most = dtype.integer_range[1]
        if isinstance(stride, int):
            return Pitch(stride, stride) if 0 < stride <= most else Pitch(stride, 1, False)
        fits = let("fits", int1, Expr("&&", (Expr(">", (stride, 0)), Expr("<=", (stride, most)))))
        return Pitch(stride, let("pitch", dtype, Expr(dtype.mnemonic, (Expr("?:", (fits, stride, 1)),))), fits)


def by_rows(
    rows: Scalar, pitch: Pitch, unit: int | None, one: Callable[[Scalar, Scalar], Instr], line: int
) -> Iterator[Item]:
    """A copy of rows: all at once or `unit` of them, and one by one where they lie too far apart for that.

    `one` is told the first row and how many there are.
    """
    fast: Item = one(0, rows)
    if unit is not None:
        fast = Loop(_ROW, 0, rows, unit, (one(_ROW, fold("min", unit, fold("-", rows, _ROW))),), line, int32)
    slow = Loop(_ROW, 0, rows, 1, (one(_ROW, 1),), line, int32)
    yield fast if pitch.fits is True else slow if pitch.fits is False else If(pitch.fits, (fast,), (slow,), line)


def fetch(panel: Panel, source: View, outer: Scalar, depth: Scalar, pitch: Pitch, line: int) -> Iterator[Item]:
    """GM to L1: the elements that exist, `outer` by `depth`."""
    rows, cols = (depth, outer) if panel.side.k_down else (outer, depth)
    unit, height = (SIDE, SIDE) if panel.side.in_strips else (None, panel.rows)

    def copy(row: Scalar, count: Scalar) -> Instr:
        there = at(source, fold("*", row, pitch.stride))
        return _nd2nz(panel.row(row), there, count, cols, pitch.field, height, line)

    return by_rows(rows, pitch, unit, copy, line)


def _nd2nz(to: View, source: View, rows: Scalar, cols: Scalar, pitch: Scalar, height: int, line: int) -> Instr:
    """Rows of GM as fractals, which are `height` rows of 32 bytes apart where columns go on."""
    return Instr("DataCopy", (to, source, Record((1, rows, cols, 0, pitch, height, 1, 0))), line)


def load(panel: Panel, to: View, k: Scalar, outer: Scalar, depth: Scalar, line: int) -> Iterator[Item]:
    """L1 to L0: depth `k` and what follows, `outer` by `depth` of it, which are whole fractals."""
    side = panel.side
    if side.target.loads_panels:
        rows, cols = (depth, outer) if side.k_down else (outer, depth)
        yield Instr("LoadData", (to, panel.step(k), Record((
            0, 0, ceil_div(rows, SIDE), ceil_div(cols, lanes(side.dtype)), panel.rows // SIDE, ceil_div(outer, SIDE),
            side.k_down, 0))), line)  # fmt: skip
    elif side.k_down and side.dtype.itemsize != 2:
        yield from _turn_pairs(panel, panel.step(k), to, outer, depth, line)
    elif side.k_down and side.is_left:
        strips = in_units(outer, SIDE)
        deep = in_units(depth, lanes(side.dtype))
        yield from _each(strips, lambda i: Instr("LoadData", (
            at(to, times(times(deep, side.fractal), i)), at(panel.step(k), times(i, panel.rows * SIDE)),
            Record((0, deep, 1, 0, True))), line), line)  # fmt: skip
    elif side.is_left or side.k_down:  # as an image of one row, whose pixels are the panel's rows
        rows, cols = (depth, outer) if side.k_down else (outer, depth)
        start = (panel.view, k) if side.k_down else (panel.step(k), 0)
        yield Instr("LoadData", (to, start[0], Record((1, panel.rows, cols, cols, rows, start[1], side.k_down))), line)
    else:  # fractals lie in the order that L0B has
        deep, broad = in_units(depth, lanes(side.dtype)), in_units(outer, SIDE)
        together = outer == panel.rows
        yield from _each(1 if together else deep, lambda i: Instr("LoadData", (
            at(to, times(times(broad, side.fractal), i)), at(panel.step(k), times(i, panel.rows * lanes(side.dtype))),
            Record((0, fold("*", deep, broad) if together else broad, 1, 0, False))), line), line)  # fmt: skip


def _turn_pairs(panel: Panel, source: View, to: View, outer: Scalar, depth: Scalar, line: int) -> Iterator[Item]:
    """Squares of two fractals, turned: 32 by 32 bytes that lie below each other, or 16 by 16 words side by side."""
    side = panel.side
    unit, fractal = square(side.dtype), side.fractal
    bytes_, squares = side.dtype == int8, in_units(depth, unit)
    along = in_units(outer, unit)
    # Squares of the source are `down` apart along K and `across` apart along M or N.
    down, across = (1, panel.rows // unit) if bytes_ else (panel.cols // unit, 1)
    pairs = in_units(depth, lanes(side.dtype))  # fractals along K in L0
    if side.is_left:
        # along K for each strip of M; the second of a pair is the next one along M (bytes) or along K (words)
        count, repeat, step, stride = along, squares, across, down
        to_step, gap, between = fold("*", pairs, unit // SIDE), 0 if bytes_ else 1, fold("-", pairs, 1) if bytes_ else 0
    else:
        broad = in_units(outer, SIDE)
        count, repeat, step, stride = squares, along, down, across
        to_step = fold("*", broad, unit // lanes(side.dtype))
        gap, between = 1 if bytes_ else 0, 0 if bytes_ else fold("-", broad, 1)
    yield from _each(count, lambda i: Instr("LoadDataWithTranspose", (
        at(to, times(times(to_step, fractal), i)), at(source, fold("*", i, step * 2 * fractal)),
        Record((0, repeat, stride, gap, between))), line), line)  # fmt: skip


def _each(count: Scalar, one: Callable[[Scalar], Instr], line: int) -> Iterator[Item]:
    """An instruction for every strip of fractals."""
    if count == 1:
        yield one(0)
    else:
        yield Loop(_STRIP, 0, count, 1, (one(_STRIP),), line, int32)


def fill(to: View, elements: int, line: int) -> Instr:
    """Zeros in whole fractals."""
    words = View(to.of, to.offset, to.stage, float16) if to.elem.itemsize == 1 else to
    unit = BLOCK_BYTES if to.space == "L1" else FRACTAL_BYTES
    return Instr("InitConstValue", (words, Record((1, elements * to.elem.itemsize // unit, 0, 0))), line)


def multiply(
    to: View,
    left: View,
    right: View,
    size: tuple[Scalar, Scalar, Scalar],
    first: Scalar,
    flag: Scalar,
    aligned: bool,
    line: int,
) -> Instr:
    """A product of operands in L0, added to what is there unless it is the `first`; m and n are whole fractals."""
    return Instr("Mmad", (to, left, right, Record((*size, flag, first, False, aligned))), line)


def take(
    source: View, to: View, size: tuple[Scalar, Scalar], height: Scalar, pitch: Pitch, flag: Scalar, line: int
) -> Iterator[Item]:
    """Rows and columns of a result to GM, in the dtype of the place that they go to."""
    rows, cols = size
    quant = Word("NoQuant" if to.elem == source.elem else _QUANT[to.elem])
    return by_rows(rows, pitch, None, lambda row, count: Instr("Fixpipe", (
        at(to, fold("*", row, pitch.stride)), at(source, times(row, SIDE)),
        Record((cols, count, height, pitch.field, quant, False, 1, 0, 0, flag))), line), line)  # fmt: skip
