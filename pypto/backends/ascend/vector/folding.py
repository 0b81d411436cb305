"""Folding of rows and runs in halves, for reductions on the vector unit.

Elementwise instructions combine the two halves of a run until one repeat is left in each row. With many rows, strided
instructions fold all rows at once, one repeat of each at a time.

    Add(h[0], x[0], x[128], 128)        # 256 elements to 128
    Add(f[0], h[0], h[64], 64)          # 128 elements to 64, one repeat
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.blockir.ir import Record, Scalar, View, fold
from pypto.backends.ascend.tile.ub_layout import BLOCK
from pypto.backends.ascend.vector.builder import Lowering, advance_view
from pypto.backends.ascend.vector.values import Tile

FOLDS: Final[Mapping[str, str]] = MappingProxyType({"sum": "Add", "prod": "Mul", "max": "Max", "min": "Min"})
MAX_REPEATS: Final = 248  # of one instruction: a multiple of 8, so that the next results begin at a whole block
MAX_STRIDE: Final = 255


@dataclass(frozen=True, slots=True)
class Strip:
    """A run of elements at equal columns in each row."""

    view: View  # where it begins in the first row
    pitch: int = 0  # elements from one row to the next

    def advanced(self, by: int) -> Strip:
        """Return the run that begins some elements later."""
        return Strip(advance_view(self.view, by), self.pitch)

    def row(self, r: Scalar) -> View:
        """Return the run in a row."""
        return advance_view(self.view, fold("*", r, self.pitch))


@dataclass(frozen=True, slots=True)
class Halving:
    """Folds runs of all rows at a time, since different rows are independent."""

    low: Lowering  # the lowering
    kind: str  # the reduction
    rows: int = 1  # number of rows

    def fold(self, to: Strip, a: Strip, b: Strip, count: int) -> None:
        """Combine two runs elementwise."""
        repeat_lanes = 8 * BLOCK // to.view.elem.itemsize
        name = FOLDS[self.kind]
        steps = tuple(x.pitch * x.view.elem.itemsize // BLOCK for x in (to, a, b))
        if 1 < self.rows <= MAX_REPEATS and count <= repeat_lanes and max(steps) <= MAX_STRIDE:
            self.low.instr(name, to.view, a.view, b.view, count, self.rows, Record((1, 1, 1, *steps)))
            return
        with self.low.loop_nest((self.rows,)) as (r,):
            self.low.instr(name, to.row(r), a.row(r), b.row(r), count)

    def copy(self, to: Strip, source: Strip, count: int) -> None:
        """Copy a run."""
        with self.low.loop_nest((self.rows,)) as (r,):
            blocks = count * to.view.elem.itemsize // BLOCK
            self.low.instr("DataCopy", to.row(r), source.row(r), Record((1, blocks, 0, 0)))


def fold_in_halves(halving: Halving, result: Strip, source: Strip, scratch: Strip, n: int, span: int) -> None:
    """Fold `n` runs of `span` elements into one; the scratch has room for half of them."""
    odd = []
    while n > 1:
        half_count = n // 2
        if n % 2:
            odd.append(source.advanced(2 * half_count * span))
        to = result if n == 2 and not odd else scratch
        halving.fold(to, source, source.advanced(half_count * span), half_count * span)
        source, n = to, half_count
    for k, run in enumerate(odd):
        halving.fold(result if k == len(odd) - 1 else scratch, scratch, run, span)


def fold_to_repeat(low: Lowering, kind: str, tile: Tile, lanes: int) -> View:
    """Fold rows into one repeat each."""
    layout = tile.layout
    rows, cols, pitch = layout.rows, layout.cols, layout.pitch
    result = low.new_tile((rows * lanes,), tile.dtype, "folded").view
    blocks = pitch * tile.dtype.itemsize // BLOCK
    if rows >= 8 and blocks <= MAX_STRIDE:
        fold_all_rows(low, kind, result, tile, lanes)
        return result
    fold_rows(Halving(low, kind, rows), Strip(result, lanes), Strip(tile.view, pitch), cols, lanes)
    return result


def fold_rows(halving: Halving, result: Strip, source: Strip, cols: int, lanes: int) -> None:
    """Fold rows in halves of whole repeats; the remainder comes last."""
    full, tail = divmod(cols, lanes)
    if full == 1:
        halving.copy(result, source, lanes)
    else:
        half_size = full // 2 * lanes
        scratch = halving.low.new_tile((halving.rows * half_size,), result.view.elem, "halves").view
        fold_in_halves(halving, result, source, Strip(scratch, half_size), full, lanes)
    if tail:
        halving.fold(result, result, source.advanced(full * lanes), tail)


def fold_all_rows(low: Lowering, kind: str, result: View, tile: Tile, lanes: int) -> None:
    """Fold all rows at once, one repeat of each at a time.

    Several accumulators take turns, so that an instruction need not wait for the one before.
    """
    rows = tile.layout.rows
    cols = tile.layout.cols
    pitch = tile.layout.pitch
    step = pitch * tile.dtype.itemsize // BLOCK
    accumulator_count = next(n for n in (4, 2, 1) if cols >= 2 * n * lanes or n == 1)
    accumulators = [
        result,
        *(low.new_tile((rows * lanes,), tile.dtype, "folded").view for _ in range(accumulator_count - 1)),
    ]
    for first in range(0, rows, MAX_REPEATS):
        count = min(MAX_REPEATS, rows - first)
        to = [advance_view(x, first * lanes) for x in accumulators]
        source = advance_view(tile.view, first * pitch)
        if cols < 2 * lanes:
            low.instr("Copy", to[0], source, lanes, count, Record((1, 1, 8, step)))
        for c in range(0, accumulator_count * lanes if cols >= 2 * lanes else 0, lanes):
            pair = (
                advance_view(source, 2 * c),
                advance_view(source, 2 * c + lanes),
            )  # neighbouring repeats lie in different banks
            low.instr(FOLDS[kind], to[c // lanes], *pair, lanes, count, Record((1, 1, 1, 8, step, step)))
        for c in range(2 * accumulator_count * lanes if cols >= 2 * lanes else lanes, cols, lanes):
            accumulator = to[c // lanes % accumulator_count]
            width = min(lanes, cols - c)
            low.instr(
                FOLDS[kind],
                accumulator,
                accumulator,
                advance_view(source, c),
                width,
                count,
                Record((1, 1, 1, 8, 8, step)),
            )
        while len(to) > 1:
            to, others = to[: len(to) // 2], to[len(to) // 2 :]
            for accumulator, other in zip(to, others, strict=True):
                low.instr(FOLDS[kind], accumulator, accumulator, other, lanes, count, Record((1, 1, 1, 8, 8, 8)))
