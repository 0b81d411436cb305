"""Copies of rows between UB and arrays.

Rows at equal distances go in one instruction, all others in loops. Elements that do not begin at a whole block in UB go
one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pypto.backends.ascend.blockir.conditions import compared, conjunction
from pypto.backends.ascend.blockir.ir import Record, Scalar, View, fold
from pypto.backends.ascend.tile.ub_layout import BLOCK
from pypto.backends.ascend.vector.builder import Index, Lowering, advance_view
from pypto.backends.ascend.vector.region import AccessRegion, Dim
from pypto.backends.ascend.vector.scalar_access import read_element, store_element
from pypto.backends.ascend.vector.values import AnyTile, Broadcast, Deferred, Pointer, Splat, Tile
from pypto.ir.types import int64

MAX_ROWS_PER_COPY: Final = 4095  # that one copy moves


def copy_region_rows(
    low: Lowering,
    tile: Tile,
    access_region: AccessRegion,
    inner: int,
    padding: Record | None = None,
    mask: AnyTile | None = None,
) -> None:
    """Copy rows, as many at once as lie at equal distances in the array; with `padding`, into UB.

    With a `mask`, which is the same for all elements of a row, they go row by row, those for which it holds.
    """
    dims = access_region.dims
    strides = low.grain.strides(tile.shape)
    outer = [d for d in range(inner) if dims[d].size != 1]
    rows = outer[-1] if outer and mask is None and has_uniform_stride(access_region, outer[-1]) else None
    single = [d for d in outer if d != rows]
    length = dims[inner]
    aligned = compared("==", length.start, 0)
    nonempty = (compared(">", dim.stop, dim.start) for dim in access_region.dims if not dim.is_whole)
    with (
        low.when(conjunction(access_region.exists, *nonempty)),
        index_loops(low, access_region, single) as index,
        low.when(True if mask is None else low.element(mask, index)),
    ):
        at = low.let("at", int64, access_region.offset(low, index)) if single else access_region.offset(low, index)
        place = low.element_index(tile, index)
        with low.when(aligned):
            in_ub = advance_view(tile.view, place)
            in_array = View(access_region.base.array, at)
            dim, step = (None, 0) if rows is None else (dims[rows], strides[rows])
            copy_rows(low, in_ub, in_array, dim, step, length.stop, padding)
        if aligned is not True:
            with low.when(compared(">", length.start, 0)):
                copy_elements(low, tile, access_region, index, single, padding is not None)


def has_uniform_stride(access_region: AccessRegion, d: int) -> bool:
    """Whether rows along a dimension lie at equal distances."""
    return isinstance(access_region.base, Pointer) or access_region.base.shape[d] == 1


def is_row_mask(mask: AnyTile | None, inner: int) -> bool:
    """Whether a mask is the same for all elements along a dimension."""
    match mask:
        case Broadcast():
            return mask.source.shape[inner] == 1
        case Deferred():
            return all(is_row_mask(x, inner) for x in mask.operands)
    return isinstance(mask, Splat) or (mask is not None and mask.shape[inner] == 1)


@contextmanager
def index_loops(low: Lowering, access_region: AccessRegion, dims: list[int]) -> Iterator[Index]:
    """Open loops over the valid indices of some dimensions; all others are 0."""
    index: list[Scalar] = [0] * len(access_region.dims)
    if not dims:
        yield tuple(index)
        return
    first = dims[0]
    dim = access_region.dims[dims[0]]
    with low.loop("ijklmn"[first % 6], dim.stop, dim.start) as i, index_loops(low, access_region, dims[1:]) as rest:
        yield tuple(i if d == first else x for d, x in enumerate(rest))


def copy_elements(
    low: Lowering, tile: Tile, access_region: AccessRegion, index: Index, looped_dims: list[int], is_load: bool
) -> None:
    """Copy element by element, in the dimensions that no loop goes through yet."""
    over = [d for d, dim in enumerate(access_region.dims) if dim.size != 1 and d not in looped_dims]
    with index_loops(low, access_region, over) as more:
        full_index = tuple(i if d in looped_dims else j for d, (i, j) in enumerate(zip(index, more, strict=True)))
        place = View(access_region.base.array, low.let("at", int64, access_region.offset(low, full_index)))
        if is_load:
            low.set_element(tile, full_index, read_element(low, place))
        else:
            store_element(low, place, low.element(tile, full_index))


def copy_rows(
    low: Lowering, in_ub: View, in_array: View, rows: Dim | None, pitch: int, length: Scalar, padding: Record | None
) -> None:
    """Copy rows between UB and an array: at once, or in a loop where the gap is too large for the engine."""
    size = in_array.elem.itemsize
    nbytes = fold("*", length, size)
    if rows is None:
        emit_copy(low, in_ub, in_array, Record((1, nbytes, 0, 0, 0)), padding)
        return
    in_ub = advance_view(in_ub, fold("*", rows.start, pitch))
    in_array = advance_view(in_array, fold("*", rows.start, rows.stride))
    array_gap = fold("-", fold("*", rows.stride, size), nbytes)
    ub_gap = fold("//", fold("-", pitch * size, nbytes), BLOCK)
    fits = conjunction(compared(">=", array_gap, 0), compared("<", array_gap, 1 << 32))
    gaps = (array_gap, ub_gap) if padding else (ub_gap, array_gap)
    with low.block() as at_once:
        emit_copy(low, in_ub, in_array, Record((rows.count, nbytes, *gaps, 0)), padding)
    with low.block() as single, low.loop("r", rows.count) as r:
        emit_copy(
            low,
            advance_view(in_ub, fold("*", r, pitch)),
            advance_view(in_array, fold("*", r, rows.stride)),
            Record((1, nbytes, 0, 0, 0)),
            padding,
        )
    low.branch(fits if rows.size <= MAX_ROWS_PER_COPY else False, at_once, single)


def emit_copy(low: Lowering, in_ub: View, in_array: View, sizes: Record, padding: Record | None) -> None:
    """Emit one copy; with `padding`, into UB."""
    if padding:
        low.instr("DataCopyPad", in_ub, in_array, sizes, padding)
    else:
        low.instr("DataCopyPad", in_array, in_ub, sizes)


@contextmanager
def for_valid_elements(low: Lowering, access_region: AccessRegion, mask: AnyTile | None) -> Iterator[Index]:
    """Open loops over the elements that exist and whose mask holds."""
    dims = [d for d, dim in enumerate(access_region.dims) if dim.size != 1]
    with low.when(access_region.exists), index_loops(low, access_region, dims) as index:  # noqa: SIM117  # the loops enclose the mask's reads
        with low.when(True if mask is None else low.element(mask, index)):
            yield index
