"""What a copy into UB leaves unwritten: elements that do not exist, and padding.

It is written behind the copy: before it, the copy would have to wait for the vector unit.
"""

from __future__ import annotations

from pypto.backends.ascend.blockir.ir import Expr, Scalar, View, fold
from pypto.backends.ascend.rules.scalars import compared
from pypto.backends.ascend.tile.ub_layout import BLOCK, rounded
from pypto.backends.ascend.vector.builder import Lowering, moved
from pypto.backends.ascend.vector.region import Region
from pypto.backends.ascend.vector.shape import fill, fill_run
from pypto.backends.ascend.vector.values import Tile
from pypto.ir.types import int64

_REPEATS, _STRIDE = 248, 255


def is_tail_only(area: Region, inner: int) -> bool:
    """Whether elements are missing at the end of rows, or whole rows at the end, alone."""
    outer = [d for d in range(inner) if area.dims[d].size != 1]
    return all(dim.start == 0 for dim in area.dims) and all(area.dims[d].is_whole for d in outer[:-1])


def pad_missing(low: Lowering, tile: Tile, area: Region, inner: int, value: Scalar) -> None:
    """All that is missing is `value`."""
    layout = tile.layout
    if area.exists is not True:
        with low.when(Expr("not", (area.exists,))):
            fill(low, tile, value)
    if layout.rows == 1:
        pad_row_tail(low, tile.view, area.dims[inner].stop, layout.cols, layout.count, value)
        return
    pad_row_tails(low, tile, area.dims[inner].stop, value)
    outer = [d for d in range(inner) if area.dims[d].size != 1]
    rows, strides = area.dims[outer[-1]], low.grain.strides(tile.shape)
    if not rows.is_whole:
        step = strides[outer[-1]]
        sizes = tuple(n if d < outer[-1] else 1 for d, n in enumerate(tile.shape))
        with low.when(compared("<", rows.stop, rows.size)), low.each(sizes) as index:
            start = fold("+", low.place(tile, index), fold("*", rows.stop, step))
            fill_run(low, moved(tile.view, start), value, fold("*", fold("-", rows.size, rows.stop), step))
    end = layout.rows * layout.pitch
    if end < layout.count:
        fill_run(low, moved(tile.view, end), value, layout.count - end)


def pad_row_tail(low: Lowering, row: View, stop: Scalar, cols: int, end: int, value: Scalar) -> None:
    """From the block behind the last element on."""
    each = BLOCK // row.elem.itemsize
    if isinstance(stop, int):
        if (whole := rounded(stop, each)) < end:
            fill_run(low, moved(row, whole), value, end - whole)
        return
    first = low.let("padded", int64, fold("*", Expr("//", (fold("+", stop, each - 1), each)), each))
    condition = True if rounded(cols, each) < end else compared("<", first, end)
    with low.when(condition):
        fill_run(low, moved(row, first), value, fold("-", end, first))


def pad_row_tails(low: Lowering, tile: Tile, stop: Scalar, value: Scalar) -> None:
    layout, size = tile.layout, tile.dtype.itemsize
    rows, cols, pitch = layout.rows, layout.cols, layout.pitch
    written = stop if isinstance(stop, int) else cols  # of each row; the rest of its last block comes with the copy
    first, blocks = rounded(written * size, BLOCK) // size, pitch * size // BLOCK
    if isinstance(stop, int) and first == pitch:
        return
    if isinstance(stop, int) and blocks <= _STRIDE and size in (2, 4) and pitch - first <= 256 // size:
        for k in range(0, rows, _REPEATS):
            to, count = moved(tile.view, k * pitch + first), min(_REPEATS, rows - k)
            low.instr("Duplicate", to, value, pitch - first, count, 1, blocks)
        return
    with low.when(True if first < pitch else compared("<", stop, cols)), low.loop("r", rows) as r:
        pad_row_tail(low, moved(tile.view, fold("*", r, pitch)), stop, cols, pitch, value)
