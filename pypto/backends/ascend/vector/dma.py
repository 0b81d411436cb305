"""Loads and stores: whole rows by the copy engines, else row by row, else element by element.

An access is a region of an array with a valid range in each dimension. If its innermost dimension is contiguous and no
mask applies, rows are copied, as many at once as lie at equal distances. If another dimension is contiguous, the tile
is copied as it lies and transposed in UB. All else goes element by element through the scalar unit. Elements that do
not exist become `other`, by padding of the copy and fills around it.

    t = tile_load(x, (i, 0), (8, 64))    ->    DataCopyPad(t[0], x[i * n], (8, 256, gap, 0, 0), (0, 0, 0, 0))
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.backends.ascend.blockir.ir import Expr, Record, Scalar, View, fold
from pypto.backends.ascend.blockir.softfloat64 import zero
from pypto.backends.ascend.tile.ub_layout import BLOCK
from pypto.backends.ascend.vector.builder import Lowering, advance_view
from pypto.backends.ascend.vector.handlers.shape import fill, fill_run, permute_value
from pypto.backends.ascend.vector.masks import from_bytes, to_bytes
from pypto.backends.ascend.vector.padding import is_tail_only, pad_missing
from pypto.backends.ascend.vector.region import AccessRegion, Dim, region_of
from pypto.backends.ascend.vector.row_copies import copy_region_rows, for_valid_elements, is_row_mask
from pypto.backends.ascend.vector.scalar_access import load_element, load_predicated, read_element, store_element
from pypto.backends.ascend.vector.values import (
    AnyTile,
    Broadcast,
    Deferred,
    DeferredLoad,
    Pointer,
    Pointers,
    Splat,
    Tile,
)
from pypto.blocking import round_up
from pypto.ir.core import Op, Value, walk
from pypto.ir.types import ArrayType, DType, float64, int64, uint8
from pypto.ops.memory import Access
from pypto.passes.analysis.memory_effects import writes_memory


def tile_load(low: Lowering, op: Op) -> None:
    """Lower a load of a tile."""
    access = Access.of(op)
    result = op.result
    region = region_of(low, access)
    if result.tile.size == 1 and access.mask is None:
        low.env[result] = load_element(low, op, region, access.other)
        return
    mask = None if access.mask is None else low.tile_value(access.mask)
    other = low.tile_value(access.other) if access.other else None
    if mask is None and not isinstance(other, Tile | Broadcast | Deferred) and is_streamed_operand(low, op, region):
        low.env[result] = DeferredLoad(result.shape, result.dtype, region, other)
        return
    low.env[result] = load_region(low, result, region, mask, access.other)


def is_streamed_operand(low: Lowering, op: Op, region: AccessRegion) -> bool:
    """Whether a load is only for the second operand of a product, which then loads it in chunks."""
    result = op.result
    users = low.users.get(op.result, [])
    if len(users) != 1 or users[0].name != "dot" or len(result.shape) != 2 or 1 in result.shape:
        return False
    if result.dtype == float64:
        return False
    (op_region, load_index), (dot_region, dot_index) = low.positions[op], low.positions[users[0]]
    if (
        op_region is not dot_region
        or users[0].operands[1] is not result
        or contiguous_dim(region) != 1
        or region.dims[0].start != 0
    ):
        return False
    between = (
        inner for k in range(load_index + 1, dot_index) for inner in (op_region.ops[k], *nested_ops(op_region.ops[k]))
    )
    return not any(writes_memory(inner) for inner in between)


def nested_ops(op: Op) -> Iterator[Op]:
    """Yield the ops inside of an op."""
    for region in op.regions:
        yield from walk(region)


def load_region(
    low: Lowering, v: Value, access_region: AccessRegion, mask: AnyTile | None, other: Value | None
) -> Tile:
    """Load a region into the tile of a value."""
    if v.dtype.is_bool:
        raw = low.new_tile(v.shape, uint8, "bytes")
        copy_in(low, raw, access_region, mask, other)
        return from_bytes(low, raw, v)
    inner = contiguous_dim(access_region)
    if mask is None and inner is not None and inner != row_dim(access_region):
        return load_transposed(low, v, access_region, inner, other)
    tile = low.result(v)
    copy_in(low, tile, access_region, mask, other)
    return tile


def contiguous_dim(access_region: AccessRegion) -> int | None:
    """Return the dimension whose elements are neighbours in the array; the last one where there are several."""
    contiguous = [d for d, dim in enumerate(access_region.dims) if dim.size != 1 and dim.stride == 1]
    if isinstance(access_region.base, Pointers):
        contiguous = [d for d in contiguous if access_region.base.shape[d] == 1]
    return contiguous[-1] if contiguous else None


def row_dim(access_region: AccessRegion) -> int | None:
    """Return the dimension that runs along rows in UB."""
    return next((d for d in reversed(range(len(access_region.dims))) if access_region.dims[d].size != 1), None)


def load_transposed(low: Lowering, v: Value, access_region: AccessRegion, inner: int, other: Value | None) -> Tile:
    """Load a region as it lies in the array, and transpose it in UB."""
    order = (*(d for d in range(len(access_region.dims)) if d != inner), inner)
    untransposed = low.new_tile(tuple(v.shape[d] for d in order), v.dtype, "turned")
    inverse = tuple(order.index(d) for d in range(len(order)))
    default = permute_value(low, low.tile_value(other), order, untransposed.shape) if other else None
    copy_in(low, untransposed, transposed_region(low, access_region, order), None, default)
    result = permute_value(low, untransposed, inverse, v.shape)
    assert isinstance(result, Tile)
    return result


def transposed_region(low: Lowering, access_region: AccessRegion, order: tuple[int, ...]) -> AccessRegion:
    """Return a region with its dimensions in another order."""
    base = access_region.base
    if isinstance(base, Pointers):
        shape = tuple(base.shape[d] for d in order)
        base = base.each(lambda part: permute_value(low, part, order, shape))
    return AccessRegion(base, tuple(access_region.dims[d] for d in order), access_region.exists, access_region.first)


def copy_in(
    low: Lowering, tile: Tile, access_region: AccessRegion, mask: AnyTile | None, other: Value | AnyTile | None
) -> None:
    """Copy elements of an array to UB; those that do not exist are `other`."""
    default = low.tile_value(other) if isinstance(other, Value) else other
    contiguous = contiguous_dim(access_region)
    if mask is None and contiguous is not None and contiguous == row_dim(access_region):
        value = default.value if isinstance(default, Splat) else None if default else zero(tile.dtype)
        value = None if tile.dtype.bits == 64 and value != 0 else value  # the engines pad 64-bit elements with 0 only
        if value is not None or access_region.is_ragged is False:
            fetch_rows(low, tile, access_region, contiguous, value, default)
            return
        with low.block() as rows:
            fetch_rows(low, tile, access_region, contiguous, value, default)
        with low.block() as elements:  # a copy would overwrite what lies behind its last element
            load_elements(low, tile, access_region, None, default)
        low.branch(negated(access_region.is_ragged), rows, elements)
        return
    is_of_rows = contiguous is not None and contiguous == row_dim(access_region) and is_row_mask(mask, contiguous)
    if contiguous is not None and is_of_rows and not is_wide_default(default):
        value = default.value if isinstance(default, Splat) else zero(tile.dtype)
        fill_default(low, tile, default)
        padding = tail_padding(tile.dtype, access_region.dims[contiguous], value)
        copy_region_rows(low, tile, access_region, contiguous, padding, mask)
        return
    load_elements(low, tile, access_region, mask, default)


def is_wide_default(default: AnyTile | None) -> bool:
    """Whether copies cannot pad rows with what stands for missing elements: tiles, and 64-bit numbers but 0."""
    if isinstance(default, Splat):
        return default.dtype.bits == 64 and default.value != 0
    return default is not None


def fetch_rows(
    low: Lowering, tile: Tile, access_region: AccessRegion, inner: int, value: Scalar | None, default: AnyTile | None
) -> None:
    """Load by copies of rows; what does not exist is one `value`, or the elements of `default`."""
    pads_afterwards = value is not None and is_tail_only(access_region, inner)
    if not pads_afterwards:
        prefill(low, tile, access_region, default)
    copy_region_rows(low, tile, access_region, inner, tail_padding(tile.dtype, access_region.dims[inner], value))
    if pads_afterwards and value is not None:
        pad_missing(low, tile, access_region, inner, int(value) if isinstance(value, bool) else value)


def negated(condition: Scalar) -> Scalar:
    """Return the negation of a condition."""
    return not condition if isinstance(condition, bool) else Expr("not", (condition,))


def tail_padding(dtype: DType, dim: Dim, value: Scalar | None) -> Record:
    """Return what a copy writes behind a row that ends within a block."""
    if dim.is_whole or value is None:
        return Record((False, 0, 0, 0))
    lane_count = BLOCK // dtype.itemsize
    missing = fold("%", fold("-", lane_count, fold("%", dim.stop, lane_count)), lane_count)
    return Record((True, 0, missing, int(value) if isinstance(value, bool) else value))


def load_elements(
    low: Lowering, tile: Tile, access_region: AccessRegion, mask: AnyTile | None, default: AnyTile | None
) -> None:
    """Load element by element on the scalar unit."""
    fill_default(low, tile, default)
    with for_valid_elements(low, access_region, mask) as index:
        low.set_element(
            tile,
            index,
            read_element(low, View(access_region.base.array, low.let("at", int64, access_region.offset(low, index)))),
        )


def fill_default(low: Lowering, tile: Tile, default: AnyTile | None) -> None:
    """Fill a tile with the default of a load."""
    from pypto.backends.ascend.vector.handlers.control import copy_tile

    if isinstance(default, Tile) and default.dtype.is_bool and not tile.dtype.is_bool:
        default = to_bytes(low, default)
    if default is None or isinstance(default, Splat):
        value = default.value if default else zero(tile.dtype)
        fill(low, tile, int(value) if isinstance(value, bool) else value)
    else:
        copy_tile(low, tile, default)


def prefill(low: Lowering, tile: Tile, access_region: AccessRegion, default: AnyTile | None) -> None:
    """Fill what the copy will not write: elements that do not exist, and padding beyond the last block of a row."""
    layout, size = tile.layout, tile.dtype.itemsize
    row_room = round_up(layout.cols * size, BLOCK) // size
    if layout.rows > 1 and row_room < layout.pitch:
        fill_default(low, tile, default)
        return
    end = row_room if layout.rows == 1 else layout.rows * layout.pitch
    with low.when(access_region.is_ragged):
        fill_default(low, tile, default)
    if end < layout.count and access_region.is_ragged is not True:
        fill_run(low, advance_view(tile.view, end), zero(tile.dtype), layout.count - end)


def tile_store(low: Lowering, op: Op) -> None:
    """Lower a store of a tile."""
    access = Access.of(op)
    assert access.value is not None
    access_region = region_of(low, access)
    tile_value = low.tile_value(access.value)
    if access.value.dtype.is_bool:
        tile_value = to_bytes(low, tile_value)
    mask = None if access.mask is None else low.tile_value(access.mask)
    with low.atomic_mode(op.attrs.get("atomic"), access.value.dtype):
        store_region(low, access_region, tile_value, mask)


def store_region(low: Lowering, access_region: AccessRegion, tile_value: AnyTile, mask: AnyTile | None) -> None:
    """Store a value to a region."""
    contiguous = contiguous_dim(access_region)
    if contiguous is not None and contiguous == row_dim(access_region) and is_row_mask(mask, contiguous):
        copy_region_rows(low, low.materialize(tile_value), access_region, contiguous, mask=mask)
        return
    if mask is None and contiguous is not None:
        order = (*(d for d in range(len(access_region.dims)) if d != contiguous), contiguous)
        if contiguous != row_dim(access_region):
            tile_value = permute_value(low, tile_value, order, tuple(tile_value.shape[d] for d in order))
            access_region = transposed_region(low, access_region, order)
        tile = low.materialize(tile_value)
        copy_region_rows(low, tile, access_region, row_dim(access_region) or 0)
        return
    with for_valid_elements(low, access_region, mask) as index:
        place = View(access_region.base.array, low.let("at", int64, access_region.offset(low, index)))
        store_element(low, place, low.element(tile_value, index))


# --- pointers ---------------------------------------------------------------------------------------------------------


def pointer_region(low: Lowering, base: Pointer | Pointers, shape: tuple[int, ...]) -> AccessRegion:
    """Return the region of all elements that a tile of pointers points at."""
    return AccessRegion(base, tuple(Dim(n, 0, n, 0) for n in shape), True, 0)


def pointers(low: Lowering, v: Value) -> Pointer | Pointers:
    """Return the lowered form of a pointer."""
    pointer = low.env[v]
    assert isinstance(pointer, Pointer | Pointers)
    return pointer


def load(low: Lowering, op: Op) -> None:
    """Lower a load through a pointer or a tile of pointers."""
    base = pointers(low, op.operands[0])
    result = op.result
    mask, other = (*op.operands[1:], None, None)[:2]
    if not result.shape:
        default: Scalar = low.number(other) if other else zero(result.dtype)
        at = low.offset(base, ())
        low.env[result] = load_predicated(low, result, base, at, True if mask is None else low.number(mask), default)
        return
    low.env[result] = load_region(
        low, result, pointer_region(low, base, result.shape), None if mask is None else low.tile_value(mask), other
    )


def store(low: Lowering, op: Op) -> None:
    """Lower a store through a pointer or a tile of pointers."""
    base = pointers(low, op.operands[0])
    value = op.operands[1]
    mask = op.operands[2] if len(op.operands) > 2 else None
    if not value.shape:
        at = low.offset(base, ())
        with low.when(True if mask is None else low.number(mask)):
            store_element(low, View(base.array, at), low.number(value))
        return
    held = to_bytes(low, low.tile_value(value)) if value.dtype.is_bool else low.tile_value(value)
    store_region(low, pointer_region(low, base, value.shape), held, None if mask is None else low.tile_value(mask))


def array_ptr(low: Lowering, op: Op) -> None:
    """Lower the pointer to an array."""
    array = op.operands[0]
    assert isinstance(array.type, ArrayType)
    low.env[op.result] = Pointer(low.param("ptr", array, 0, array.type.elem))


def addptr(low: Lowering, op: Op) -> None:
    """Lower the addition of an offset to a pointer."""
    base = pointers(low, op.operands[0])
    if isinstance(base, Pointer):
        low.env[op.result] = base.advanced(low.number(op.operands[1]))
        return
    low.env[op.result] = Pointers(base.array, (*base.offsets, low.tile_value(op.operands[1])))


def array_fact(low: Lowering, op: Op) -> None:
    """Lower the shape or stride of an array."""
    kind = "shape" if op.name == "array_shape" else "stride"
    low.env[op.result] = low.param(kind, op.operands[0], op.attrs["dim"]).name
