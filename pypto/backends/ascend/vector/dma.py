"""Loads and stores: whole rows by the copy engines, else row by row, else element by element."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pypto.backends.ascend.blockir.ir import Expr, Record, Scalar, View, fold
from pypto.backends.ascend.blockir.softfloat64 import zero
from pypto.backends.ascend.rules.scalars import compared, conjunction
from pypto.backends.ascend.tile.ub_layout import BLOCK, rounded
from pypto.backends.ascend.vector.builder import Index, Lowering, moved
from pypto.backends.ascend.vector.masks import from_bytes, to_bytes
from pypto.backends.ascend.vector.padding import is_tail_only, pad_missing
from pypto.backends.ascend.vector.region import Dim, Region, region_of
from pypto.backends.ascend.vector.scalar_access import load_element, load_predicated, read_element, store_element
from pypto.backends.ascend.vector.shape import fill, fill_run, permuted
from pypto.backends.ascend.vector.values import AnyTile, Broadcast, Deferred, Later, Pointer, Pointers, Splat, Tile
from pypto.ir.core import Op, Value, walk
from pypto.ir.types import ArrayType, DType, float64, int64, uint8
from pypto.ops.memory import Access
from pypto.passes.memory_effects import writes_memory

BLOCKS: Final = 4095  # that one copy moves


def tile_load(low: Lowering, op: Op) -> None:
    access, result = Access.of(op), op.result
    area = region_of(low, access)
    if result.tile.size == 1 and access.mask is None:
        low.env[result] = load_element(low, op, area, access.other)
        return
    mask = None if access.mask is None else low.held(access.mask)
    other = low.held(access.other) if access.other else None
    if mask is None and not isinstance(other, Tile | Broadcast | Deferred) and is_streamed_operand(low, op, area):
        low.env[result] = Later(result.shape, result.dtype, area, other)
        return
    low.env[result] = load_region(low, result, area, mask, access.other)


def is_streamed_operand(low: Lowering, op: Op, area: Region) -> bool:
    """Whether a load is for the second operand of one product alone, which then takes it in stretches."""
    result, users = op.result, low.users.get(op.result, [])
    if len(users) != 1 or users[0].name != "dot" or len(result.shape) != 2 or 1 in result.shape:
        return False
    if result.dtype == float64:
        return False
    (here, first), (there, end) = low.places[op], low.places[users[0]]
    if here is not there or users[0].operands[1] is not result or contiguous_dim(area) != 1 or area.dims[0].start != 0:
        return False
    between = (inner for k in range(first + 1, end) for inner in (here.ops[k], *inside(here.ops[k])))
    return not any(writes_memory(inner) for inner in between)


def inside(op: Op) -> Iterator[Op]:
    for region in op.regions:
        yield from walk(region)


def load_region(low: Lowering, v: Value, area: Region, mask: AnyTile | None, other: Value | None) -> Tile:
    if v.dtype.is_bool:
        raw = low.new(v.shape, uint8, "bytes")
        fetch(low, raw, area, mask, other)
        return from_bytes(low, raw, v)
    inner = contiguous_dim(area)
    if mask is None and inner is not None and inner != row_dim(area):
        return load_transposed(low, v, area, inner, other)
    tile = low.result(v)
    fetch(low, tile, area, mask, other)
    return tile


def contiguous_dim(area: Region) -> int | None:
    """The dimension whose elements are neighbours; the last one where there are several."""
    found = [d for d, dim in enumerate(area.dims) if dim.size != 1 and dim.stride == 1]
    if isinstance(area.base, Pointers):
        found = [d for d in found if area.base.shape[d] == 1]
    return found[-1] if found else None


def row_dim(area: Region) -> int | None:
    """The dimension that runs along rows in UB."""
    return next((d for d in reversed(range(len(area.dims))) if area.dims[d].size != 1), None)


def load_transposed(low: Lowering, v: Value, area: Region, inner: int, other: Value | None) -> Tile:
    """A load whose neighbours in memory are rows of the tile: it lands as it lies, and is turned in UB."""
    order = (*(d for d in range(len(area.dims)) if d != inner), inner)
    turned = low.new(tuple(v.shape[d] for d in order), v.dtype, "turned")
    back = tuple(order.index(d) for d in range(len(order)))
    default = permuted(low, low.held(other), order, turned.shape) if other else None
    fetch(low, turned, transposed_region(low, area, order), None, default)
    made = permuted(low, turned, back, v.shape)
    assert isinstance(made, Tile)
    return made


def transposed_region(low: Lowering, area: Region, order: tuple[int, ...]) -> Region:
    base = area.base
    if isinstance(base, Pointers):
        shape = tuple(base.shape[d] for d in order)
        base = base.each(lambda part: permuted(low, part, order, shape))
    return Region(base, tuple(area.dims[d] for d in order), area.exists, area.first)


def fetch(low: Lowering, tile: Tile, area: Region, mask: AnyTile | None, other: Value | AnyTile | None) -> None:
    """Elements of an array into UB; those that do not exist are `other`."""
    default = low.held(other) if isinstance(other, Value) else other
    inner = contiguous_dim(area)
    if mask is None and inner is not None and inner == row_dim(area):
        value = default.value if isinstance(default, Splat) else None if default else zero(tile.dtype)
        value = None if tile.dtype.bits == 64 and value != 0 else value  # the engines pad 64 bits with 0
        if value is not None or area.is_ragged is False:
            fetch_rows(low, tile, area, inner, value, default)
            return
        with low.block() as rows:
            fetch_rows(low, tile, area, inner, value, default)
        with low.block() as elements:  # a copy would write over what is beside its last element
            load_elements(low, tile, area, None, default)
        low.either(negated(area.is_ragged), rows, elements)
        return
    load_elements(low, tile, area, mask, default)


def fetch_rows(
    low: Lowering, tile: Tile, area: Region, inner: int, value: Scalar | None, default: AnyTile | None
) -> None:
    """A load by copies of rows. What does not exist is one `value`, or the elements of `default`."""
    later = value is not None and is_tail_only(area, inner)
    if not later:
        prefill(low, tile, area, default)
    for_rows(low, tile, area, inner, tail_padding(tile.dtype, area.dims[inner], value))
    if later and value is not None:
        pad_missing(low, tile, area, inner, int(value) if isinstance(value, bool) else value)


def negated(condition: Scalar) -> Scalar:
    return not condition if isinstance(condition, bool) else Expr("not", (condition,))


def tail_padding(dtype: DType, dim: Dim, value: Scalar | None) -> Record:
    """What a copy writes behind a row that ends within a block: elements that do not exist."""
    if dim.is_whole or value is None:
        return Record((False, 0, 0, 0))
    each = BLOCK // dtype.itemsize
    missing = fold("%", fold("-", each, fold("%", dim.stop, each)), each)
    return Record((True, 0, missing, int(value) if isinstance(value, bool) else value))


def load_elements(low: Lowering, tile: Tile, area: Region, mask: AnyTile | None, default: AnyTile | None) -> None:
    """A load by the scalar unit."""
    overwrite(low, tile, default)
    with for_valid_elements(low, area, mask) as index:
        low.put(tile, index, read_element(low, View(area.base.array, low.let("at", int64, area.offset(low, index)))))


def overwrite(low: Lowering, tile: Tile, default: AnyTile | None) -> None:
    from pypto.backends.ascend.vector.control import write

    if isinstance(default, Tile) and default.dtype.is_bool and not tile.dtype.is_bool:
        default = to_bytes(low, default)
    if default is None or isinstance(default, Splat):
        value = default.value if default else zero(tile.dtype)
        fill(low, tile, int(value) if isinstance(value, bool) else value)
    else:
        write(low, tile, default)


def prefill(low: Lowering, tile: Tile, area: Region, default: AnyTile | None) -> None:
    """What the copy will not write: elements that do not exist, and padding beyond the last block of a row."""
    layout, size = tile.layout, tile.dtype.itemsize
    row = rounded(layout.cols * size, BLOCK) // size
    if layout.rows > 1 and row < layout.pitch:
        overwrite(low, tile, default)
        return
    end = row if layout.rows == 1 else layout.rows * layout.pitch
    with low.when(area.is_ragged):
        overwrite(low, tile, default)
    if end < layout.count and area.is_ragged is not True:
        fill_run(low, moved(tile.view, end), zero(tile.dtype), layout.count - end)


def for_rows(low: Lowering, tile: Tile, area: Region, inner: int, into: Record | None = None) -> None:
    """Copies of rows, as many at once as lie at equal distances in the array; `into` UB with such a padding."""
    dims, strides = area.dims, low.grain.strides(tile.shape)
    outer = [d for d in range(inner) if dims[d].size != 1]
    rows = outer[-1] if outer and has_uniform_stride(area, outer[-1]) else None
    single = [d for d in outer if d != rows]
    length = dims[inner]
    aligned = compared("==", length.start, 0)
    some = (compared(">", dim.stop, dim.start) for dim in area.dims if not dim.is_whole)
    with low.when(conjunction(area.exists, *some)), index_loops(low, area, single) as index:
        at = low.let("at", int64, area.offset(low, index)) if single else area.offset(low, index)
        place = low.place(tile, index)
        with low.when(aligned):
            here, there = moved(tile.view, place), View(area.base.array, at)
            dim, step = (None, 0) if rows is None else (dims[rows], strides[rows])
            copy_rows(low, here, there, dim, step, length.stop, into)
        if aligned is not True:
            with low.when(compared(">", length.start, 0)):
                copy_elements(low, tile, area, index, single, into is not None)


def has_uniform_stride(area: Region, d: int) -> bool:
    return isinstance(area.base, Pointer) or area.base.shape[d] == 1


@contextmanager
def index_loops(low: Lowering, area: Region, over: list[int]) -> Iterator[Index]:
    """Loops over the indices that exist of some dimensions; all others are 0."""
    index: list[Scalar] = [0] * len(area.dims)
    if not over:
        yield tuple(index)
        return
    first, dim = over[0], area.dims[over[0]]
    with low.loop("ijklmn"[first % 6], dim.stop, dim.start) as i, index_loops(low, area, over[1:]) as rest:
        yield tuple(i if d == first else x for d, x in enumerate(rest))


def copy_elements(low: Lowering, tile: Tile, area: Region, index: Index, done: list[int], into: bool) -> None:
    """Element by element, for the dimensions that no loop goes through yet."""
    over = [d for d, dim in enumerate(area.dims) if dim.size != 1 and d not in done]
    with index_loops(low, area, over) as more:
        whole = tuple(i if d in done else j for d, (i, j) in enumerate(zip(index, more, strict=True)))
        there = View(area.base.array, low.let("at", int64, area.offset(low, whole)))
        if into:
            low.put(tile, whole, read_element(low, there))
        else:
            store_element(low, there, low.element(tile, whole))


def copy_rows(
    low: Lowering, here: View, there: View, rows: Dim | None, pitch: int, length: Scalar, into: Record | None
) -> None:
    """Rows between UB and an array: one copy, or a loop where the engines cannot take so large steps."""
    size = there.elem.itemsize
    nbytes = fold("*", length, size)
    if rows is None:
        emit_copy(low, here, there, Record((1, nbytes, 0, 0, 0)), into)
        return
    here = moved(here, fold("*", rows.start, pitch))
    there = moved(there, fold("*", rows.start, rows.stride))
    apart = fold("-", fold("*", rows.stride, size), nbytes)
    skipped = fold("//", fold("-", pitch * size, nbytes), BLOCK)
    fits = conjunction(compared(">=", apart, 0), compared("<", apart, 1 << 32))
    gaps = (apart, skipped) if into else (skipped, apart)
    with low.block() as at_once:
        emit_copy(low, here, there, Record((rows.count, nbytes, *gaps, 0)), into)
    with low.block() as each, low.loop("r", rows.count) as r:
        emit_copy(
            low,
            moved(here, fold("*", r, pitch)),
            moved(there, fold("*", r, rows.stride)),
            Record((1, nbytes, 0, 0, 0)),
            into,
        )
    low.either(fits if rows.size <= BLOCKS else False, at_once, each)


def emit_copy(low: Lowering, here: View, there: View, how: Record, into: Record | None) -> None:
    if into:
        low.instr("DataCopyPad", here, there, how, into)
    else:
        low.instr("DataCopyPad", there, here, how)


@contextmanager
def for_valid_elements(low: Lowering, area: Region, mask: AnyTile | None) -> Iterator[Index]:
    """Loops over the elements that exist and whose mask holds."""
    over = [d for d, dim in enumerate(area.dims) if dim.size != 1]
    with low.when(area.exists), index_loops(low, area, over) as index:  # noqa: SIM117  # the mask is read inside of the loops
        with low.when(True if mask is None else low.element(mask, index)):
            yield index


def tile_store(low: Lowering, op: Op) -> None:
    access = Access.of(op)
    assert access.value is not None
    area = region_of(low, access)
    held = low.held(access.value)
    if access.value.dtype.is_bool:
        held = to_bytes(low, held)
    mask = None if access.mask is None else low.held(access.mask)
    with low.adding(op.attrs.get("atomic"), access.value.dtype):
        store_region(low, area, held, mask)


def store_region(low: Lowering, area: Region, held: AnyTile, mask: AnyTile | None) -> None:
    inner = contiguous_dim(area)
    if mask is None and inner is not None:
        order = (*(d for d in range(len(area.dims)) if d != inner), inner)
        if inner != row_dim(area):
            held, area = (
                permuted(low, held, order, tuple(held.shape[d] for d in order)),
                transposed_region(low, area, order),
            )
        tile = low.made(held)
        for_rows(low, tile, area, row_dim(area) or 0)
        return
    with for_valid_elements(low, area, mask) as index:
        there = View(area.base.array, low.let("at", int64, area.offset(low, index)))
        store_element(low, there, low.element(held, index))


# --- pointers ---------------------------------------------------------------------------------------------------------


def pointer_region(low: Lowering, base: Pointer | Pointers, shape: tuple[int, ...]) -> Region:
    """All elements that a tile of pointers points at."""
    return Region(base, tuple(Dim(n, 0, n, 0) for n in shape), True, 0)


def pointers(low: Lowering, v: Value) -> Pointer | Pointers:
    held = low.env[v]
    assert isinstance(held, Pointer | Pointers)
    return held


def load(low: Lowering, op: Op) -> None:
    base, result = pointers(low, op.operands[0]), op.result
    mask, other = (*op.operands[1:], None, None)[:2]
    if not result.shape:
        default: Scalar = low.number(other) if other else zero(result.dtype)
        at = low.offset(base, ())
        low.env[result] = load_predicated(low, result, base, at, True if mask is None else low.number(mask), default)
        return
    low.env[result] = load_region(
        low, result, pointer_region(low, base, result.shape), None if mask is None else low.held(mask), other
    )


def store(low: Lowering, op: Op) -> None:
    base, value = pointers(low, op.operands[0]), op.operands[1]
    mask = op.operands[2] if len(op.operands) > 2 else None
    if not value.shape:
        at = low.offset(base, ())
        with low.when(True if mask is None else low.number(mask)):
            store_element(low, View(base.array, at), low.number(value))
        return
    held = to_bytes(low, low.held(value)) if value.dtype.is_bool else low.held(value)
    store_region(low, pointer_region(low, base, value.shape), held, None if mask is None else low.held(mask))


def array_ptr(low: Lowering, op: Op) -> None:
    array = op.operands[0]
    assert isinstance(array.type, ArrayType)
    low.env[op.result] = Pointer(low.param("ptr", array, 0, array.type.elem))


def addptr(low: Lowering, op: Op) -> None:
    base = pointers(low, op.operands[0])
    if isinstance(base, Pointer):
        low.env[op.result] = base.moved(low.number(op.operands[1]))
        return
    low.env[op.result] = Pointers(base.array, (*base.offsets, low.held(op.operands[1])))


def array_fact(low: Lowering, op: Op) -> None:
    kind = "shape" if op.name == "array_shape" else "stride"
    low.env[op.result] = low.param(kind, op.operands[0], op.attrs["dim"]).name
