"""Padding after a load: fills elements that do not exist, and the rest of each row.

The fill comes after the copy. If it came before, the copy would have to wait for the vector unit. It is legal if
elements are missing only at the end of rows, or whole rows at the end.
"""

from __future__ import annotations

from pypto.backends.ascend.blockir.conditions import compared
from pypto.backends.ascend.blockir.ir import Expr, Scalar, View, fold
from pypto.backends.ascend.tile.ub_layout import BLOCK
from pypto.backends.ascend.vector.builder import Lowering, advance_view
from pypto.backends.ascend.vector.handlers.shape import fill, fill_run
from pypto.backends.ascend.vector.region import AccessRegion
from pypto.backends.ascend.vector.values import Tile
from pypto.blocking import round_up
from pypto.ir.types import int64

_REPEATS, _STRIDE = 248, 255


def is_tail_only(region: AccessRegion, inner: int) -> bool:
    """Whether elements are missing only at the end of rows, or whole rows at the end."""
    outer = [d for d in range(inner) if region.dims[d].size != 1]
    return all(dim.start == 0 for dim in region.dims) and all(region.dims[d].is_whole for d in outer[:-1])


def pad_missing(low: Lowering, tile: Tile, region: AccessRegion, inner: int, value: Scalar) -> None:
    """Fill all missing elements with a value."""
    layout = tile.layout
    if region.exists is not True:
        with low.when(Expr("not", (region.exists,))):
            fill(low, tile, value)
    if layout.rows == 1:
        pad_row_tail(low, tile.view, region.dims[inner].stop, layout.cols, layout.count, value)
        return
    pad_row_tails(low, tile, region.dims[inner].stop, value)
    outer = [d for d in range(inner) if region.dims[d].size != 1]
    rows = region.dims[outer[-1]]
    strides = low.grain.strides(tile.shape)
    if not rows.is_whole:
        step = strides[outer[-1]]
        sizes = tuple(n if d < outer[-1] else 1 for d, n in enumerate(tile.shape))
        with low.when(compared("<", rows.stop, rows.size)), low.loop_nest(sizes) as index:
            start = fold("+", low.element_index(tile, index), fold("*", rows.stop, step))
            fill_run(low, advance_view(tile.view, start), value, fold("*", fold("-", rows.size, rows.stop), step))
    end = layout.rows * layout.pitch
    if end < layout.count:
        fill_run(low, advance_view(tile.view, end), value, layout.count - end)


def pad_row_tail(low: Lowering, row: View, stop: Scalar, cols: int, end: int, value: Scalar) -> None:
    """Fill a row from the block behind its last element on."""
    lane_count = BLOCK // row.elem.itemsize
    if isinstance(stop, int):
        whole = round_up(stop, lane_count)
        if whole < end:
            fill_run(low, advance_view(row, whole), value, end - whole)
        return
    begin = low.let("padded", int64, fold("*", Expr("//", (fold("+", stop, lane_count - 1), lane_count)), lane_count))
    condition = True if round_up(cols, lane_count) < end else compared("<", begin, end)
    with low.when(condition):
        fill_run(low, advance_view(row, begin), value, fold("-", end, begin))


def pad_row_tails(low: Lowering, tile: Tile, stop: Scalar, value: Scalar) -> None:
    """Fill the tail of each row."""
    layout, size = tile.layout, tile.dtype.itemsize
    rows, cols, pitch = layout.rows, layout.cols, layout.pitch
    written = stop if isinstance(stop, int) else cols  # elements of each row; the copy pads the last block
    begin = round_up(written * size, BLOCK) // size
    blocks = pitch * size // BLOCK
    if isinstance(stop, int) and begin == pitch:
        return
    if isinstance(stop, int) and blocks <= _STRIDE and size in (2, 4) and pitch - begin <= 256 // size:
        for k in range(0, rows, _REPEATS):
            to = advance_view(tile.view, k * pitch + begin)
            count = min(_REPEATS, rows - k)
            low.instr("Duplicate", to, value, pitch - begin, count, 1, blocks)
        return
    with low.when(True if begin < pitch else compared("<", stop, cols)), low.loop("r", rows) as r:
        pad_row_tail(low, advance_view(tile.view, fold("*", r, pitch)), stop, cols, pitch, value)
