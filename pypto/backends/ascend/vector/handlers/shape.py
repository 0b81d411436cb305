"""Tiles that are created or moved without arithmetic: constants, ranges, broadcasts, reshapes and transposes."""

from __future__ import annotations

from typing import Any, Final

from pypto.backends.ascend.blockir.ir import Buffer, Expr, Instr, Scalar, View, Word, fold
from pypto.backends.ascend.blockir.softfloat64 import number, zero
from pypto.backends.ascend.tile.ub_layout import BLOCK
from pypto.backends.ascend.vector.builder import Index, Lowering, advance_view
from pypto.backends.ascend.vector.masks import compare_nonzero, select_ones
from pypto.backends.ascend.vector.values import AnyTile, Broadcast, Deferred, Pointer, Pointers, Splat, Tile
from pypto.ir.core import Op
from pypto.ir.types import DType, float16, int32, int64, uint8, uint16, uint32

SMALL_BYTES: Final = 2 << 10  # an index vector up to this size is kept for all programs
ADDRESS_MOVES: Final = ("reshape", "broadcast_to")  # of numbers that become addresses


def constant(low: Lowering, op: Op) -> None:
    """Lower a constant: a splat takes no memory."""
    shape = op.result.shape
    value = number(op.attrs["value"], op.result.dtype)
    low.env[op.result] = Splat(shape, op.result.dtype, value) if shape else value


def undef(low: Lowering, op: Op) -> None:
    """Lower an undefined value as zero."""
    if op.result.tile.is_ptr:
        raise low.refusal("a pointer that is set in a branch alone", "has no address", "set it before the branch")
    nothing = zero(op.result.dtype)
    low.env[op.result] = Splat(op.result.shape, op.result.dtype, nothing) if op.result.shape else nothing


def fill(low: Lowering, tile: Tile, value: Scalar) -> None:
    """Fill a tile with a number, padding included."""
    count = tile.layout.count
    if tile.dtype.is_bool:
        bits = Expr("u16", (Expr("?:", (value, 0xFFFF, 0)),)) if not isinstance(value, bool) else 0xFFFF * value
        low.instr("Duplicate", View(tile.view.of, tile.view.offset, tile.view.stage, uint16), bits, count // 16)
    else:
        fill_run(low, tile.view, value, count)


def repeated_number(low: Lowering, value: int | float, dtype: DType, count: int) -> View:
    """Return a few elements of one number, for reading only, which are filled once, before all programs."""
    key = repr(value), count, dtype
    if key not in low.repeated_numbers:
        view = low.repeated_numbers[key] = low.buffer("number", dtype, count)
        assert isinstance(view.of, Buffer)
        low.preamble.append(Instr("Duplicate", (view, value, view.of.elements), low.line))
    return low.repeated_numbers[key]


def fill_run(low: Lowering, view: View, value: Scalar, count: Scalar) -> None:
    """Fill a run of elements that begins at a whole block."""
    bits = view.elem.bits
    if bits == 64:
        fill_wide(low, view, value, count)
    elif bits == 8:
        halves = View(view.of, fold("//", view.offset, 2), view.stage, uint16)
        code = Expr("u8", (value,)) if view.elem.is_float and not isinstance(value, int) else value
        byte = code & 255 if isinstance(code, int) else Expr("&", (code, 255))
        both = Expr("u16", (Expr("*", (byte, 257)),)) if not isinstance(byte, int) else byte * 257
        low.instr("Duplicate", halves, both, fold("//", count, 2))
    else:
        low.instr("Duplicate", view, value, count)


def fill_wide(low: Lowering, view: View, value: Scalar, count: Scalar) -> None:
    """Fill 64-bit elements: by 32-bit halves if both are equal, else one by one."""
    if isinstance(value, int) and value in (0, -1, (1 << 64) - 1):
        halves = View(view.of, fold("*", view.offset, 2), view.stage, int32)
        low.instr("Duplicate", halves, 0 if value == 0 else -1, fold("*", count, 2))
        return
    with low.loop("i", count) as i:
        low.instr("SetValue", advance_view(view, i), value)


def arange(low: Lowering, op: Op) -> None:
    """Lower a range of integers."""
    v = op.result
    start = op.attrs["start"]
    assert isinstance(start, int)
    layout = low.grain.layout(v.shape)
    if v.dtype == int64:
        result = low.result(v)
        with low.loop_nest((layout.count,)) as (i,):
            low.instr("SetValue", advance_view(result.view, i), fold("+", i, start))
    elif v in low.destinations:
        result = low.destinations[v]
        emit_iota(low, result.view, start, layout.count)
    else:
        result = Tile(v.shape, v.dtype, index_vector(low, start, layout.count, v.dtype), layout)
    low.env[v] = result


def index_vector(low: Lowering, first: int, count: int, dtype: DType) -> View:
    """Return counting numbers, for reading only; short vectors are computed once, before all programs."""
    key = first, count, dtype
    if key in low.index_vectors:
        return low.index_vectors[key]
    vector = low.buffer("indices", dtype, count)
    if count * dtype.itemsize > SMALL_BYTES:
        emit_iota(low, vector, first, count)
        return vector
    low.index_vectors[key] = vector
    items, low.items = low.items, low.preamble
    emit_iota(low, vector, first, count)
    low.items = items
    return vector


def emit_iota(low: Lowering, view: View, first: int, count: int) -> None:
    """Write counting numbers: the bytes of a block are widened, then doubled.

    `CreateVecIndex` needs an event of a `TPipe` on 2201.
    """
    filled = BLOCK // view.elem.itemsize
    dtype = view.elem
    codes = low.buffer("codes", int32, BLOCK // 4)
    halves = low.buffer("halves", float16, BLOCK // 2)
    for k in reversed(range(filled // 4)):  # four bytes in a word, the last words first
        low.instr("Duplicate", codes, sum(4 * k + i << 8 * i for i in range(4)), k + 1)
    low.instr("Cast", halves, View(codes.of, 0, 0, uint8), Word("CAST_NONE"), filled)
    low.instr("Cast", view, halves, Word("CAST_NONE" if dtype.is_float else "CAST_RINT"), filled)
    if first:
        low.instr("Adds", view, view, float(first) if dtype.is_float else first, filled)
    while filled < count:
        low.instr(
            "Adds",
            advance_view(view, filled),
            view,
            float(filled) if dtype.is_float else filled,
            min(filled, count - filled),
        )
        filled *= 2


def broadcast(low: Lowering, op: Op) -> None:
    """Lower a broadcast."""
    operand = low.env[op.operands[0]]
    shape = op.result.shape
    if isinstance(operand, Pointer):
        low.env[op.result] = Pointers(operand.array, (Splat(shape, int64, operand.offset),))
    elif isinstance(operand, Pointers):
        low.env[op.result] = operand.each(lambda part: broadcast_value(low, part, shape))
    else:
        value = low.tile_value(op.operands[0])
        is_kept = isinstance(value, Deferred) and is_address(low, op)
        low.env[op.result] = spread(low, value, shape) if is_kept else broadcast_value(low, value, shape)


def is_address(low: Lowering, op: Op) -> bool:
    """Whether nothing but the addresses of loads and stores uses a moved value."""
    users = low.users.get(op.result, [])
    return all(user.name == "addptr" or (user.name in ADDRESS_MOVES and is_address(low, user)) for user in users)


def spread(low: Lowering, value: AnyTile, shape: tuple[int, ...]) -> AnyTile:
    """Return a deferred value repeated along dimensions of size 1; readers compute its elements from its operands."""
    if not isinstance(value, Deferred):
        return broadcast_value(low, value, shape)
    return Deferred(shape, value.op, tuple(spread(low, x, shape) for x in value.operands))


def under_shape(low: Lowering, value: AnyTile, shape: tuple[int, ...]) -> AnyTile:
    """Return a deferred value under a shape that differs in dimensions of size 1 alone."""
    if not isinstance(value, Deferred):
        return reshape_value(low, value, shape)
    return Deferred(shape, value.op, tuple(under_shape(low, x, shape) for x in value.operands))


def broadcast_value(low: Lowering, value: AnyTile, shape: tuple[int, ...]) -> AnyTile:
    """Return a value repeated along its dimensions of size 1."""
    if isinstance(value, Splat):
        return Splat(shape, value.dtype, value.value)
    value = low.materialize(value) if isinstance(value, Deferred) else value
    tile = value.source if isinstance(value, Broadcast) else value
    if not tile.shape:
        tile = tile.reshaped((1,) * len(shape), tile.layout)
    if [n for n in tile.shape if n != 1] == [n for n in shape if n != 1]:
        return tile.reshaped(shape, tile.layout)
    return Broadcast(shape, tile)


def reshape(low: Lowering, op: Op) -> None:
    """Lower a reshape."""
    operand = low.env[op.operands[0]]
    shape = op.result.shape
    if isinstance(operand, Pointer):
        low.env[op.result] = Pointers(operand.array, (Splat(shape, int64, operand.offset),)) if shape else operand
    elif isinstance(operand, Pointers):
        low.env[op.result] = operand.each(lambda part: reshape_value(low, part, shape))
    else:
        value = low.tile_value(op.operands[0])
        has_same_dims = [n for n in value.shape if n != 1] == [n for n in shape if n != 1]
        is_kept = isinstance(value, Deferred) and has_same_dims and is_address(low, op)
        low.env[op.result] = under_shape(low, value, shape) if is_kept else reshape_value(low, value, shape)


def reshape_value(low: Lowering, value: AnyTile, shape: tuple[int, ...]) -> AnyTile:
    """Return the elements under another shape; they move where the padding of rows differs."""
    if isinstance(value, Splat):
        return Splat(shape, value.dtype, value.value)
    if isinstance(value, Broadcast) and (regrouped := reshape_broadcast(value, shape)) is not None:
        return regrouped
    tile = low.materialize(value)
    layout = low.grain.layout(shape)
    same_rows = (layout.rows, layout.cols) == (tile.layout.rows, tile.layout.cols)
    if same_rows or (layout.is_dense and tile.layout.is_dense):
        return tile.reshaped(shape, layout)
    result = low.new_tile(shape, tile.dtype)
    is_straight = tile.layout.cols % layout.cols == 0  # each row is part of one row
    rearrange(low, result, tile, lambda index: unravel(ravel(index, shape), tile.shape), is_straight=is_straight)
    return result


def reshape_broadcast(value: Broadcast, shape: tuple[int, ...]) -> Broadcast | None:
    """Return a broadcast under a shape that differs only in dimensions of size 1, else None."""
    if [n for n in value.shape if n != 1] != [n for n in shape if n != 1]:
        return None
    sizes = iter(n for n, m in zip(value.source.shape, value.shape, strict=True) if m != 1)
    inner = tuple(1 if m == 1 else next(sizes) for m in shape)
    return Broadcast(shape, value.source.reshaped(inner, value.source.layout))


def ravel(index: Index, shape: tuple[int, ...]) -> Scalar:
    """Return the row-major number of an index."""
    number: Scalar = 0
    for i, n in zip(index, shape, strict=True):
        number = fold("+", fold("*", number, n), i)
    return number


def unravel(number: Scalar, shape: tuple[int, ...]) -> Index:
    """Return the index of a row-major number."""
    index: list[Scalar] = []
    for d, n in reversed(list(enumerate(shape))):
        index.append(number if d == 0 else 0 if n == 1 else fold("%", number, n))
        number = number if n == 1 else fold("//", number, n)
    return tuple(reversed(index))


def permute(low: Lowering, op: Op) -> None:
    """Lower a transpose."""
    dims: Any = op.attrs["dims"]
    operand = low.env[op.operands[0]]
    shape = op.result.shape
    if isinstance(operand, Pointers):
        low.env[op.result] = operand.each(lambda part: permute_value(low, part, dims, shape))
    else:
        low.env[op.result] = permute_value(low, low.tile_value(op.operands[0]), dims, shape)


def permute_value(low: Lowering, value: AnyTile, dims: tuple[int, ...], shape: tuple[int, ...]) -> AnyTile:
    """Return a value with its dimensions in another order."""
    if isinstance(value, Splat):
        return Splat(shape, value.dtype, value.value)
    if isinstance(value, Broadcast):
        inner = permute_value(low, value.source, dims, tuple(value.source.shape[d] for d in dims))
        assert isinstance(inner, Tile)
        return Broadcast(shape, inner)
    value = low.materialize(value)
    if [d for d in dims if value.shape[d] != 1] == [d for d, n in enumerate(value.shape) if n != 1]:
        return value.reshaped(shape, value.layout)
    result = low.new_tile(shape, value.dtype)
    rearrange(low, result, value, lambda index: tuple(index[dims.index(d)] for d in range(len(dims))), is_straight=True)
    return result


def rearrange(low: Lowering, result: Tile, tile: Tile, source: Any, is_straight: bool = False) -> None:
    """Set each element `index` of a tile to the element `source(index)` of another one.

    If `is_straight`, elements of a row lie at equal distances in the other tile: then each row is one gather. All else
    goes through the scalar unit.
    """
    if tile.dtype.is_bool:
        halves = low.new_tile(result.shape, float16, "halves")
        rearrange(low, halves, select_ones(low, tile, float16), source, is_straight)
        compare_nonzero(low, halves, result)
        return
    initialise_padding(low, result)
    last = last_dim(result.shape)
    size = tile.dtype.itemsize
    n = result.shape[last] if is_straight and size in (2, 4) else 1
    begins = (tuple(i if d == last else 0 for d in range(len(result.shape))) for i in (0, min(1, n - 1)))
    first, second = (low.element_index(tile, source(index)) for index in begins)
    if not isinstance(first, int) or not isinstance(second, int) or second <= first:
        with low.loop_nest(result.shape) as index:
            low.set_element(result, index, low.element(tile, source(index)))
        return
    offsets = low.new_tile((n,), int32, "offsets").view
    low.instr("Muls", offsets, index_vector(low, 0, n, int32), (second - first) * size, n)
    with low.loop_nest(tuple(1 if d == last else m for d, m in enumerate(result.shape))) as index:
        to = advance_view(result.view, low.element_index(result, index))
        begin = fold("*", low.element_index(tile, source(index)), size)
        low.instr("Gather", to, tile.view, View(offsets.of, 0, 0, uint32), begin, n)


def last_dim(shape: tuple[int, ...]) -> int:
    """Return the dimension that runs along rows."""
    return max((d for d, n in enumerate(shape) if n != 1), default=len(shape) - 1)


def initialise_padding(low: Lowering, tile: Tile) -> None:
    """Fill the padding of a tile that is written element by element."""
    if tile.layout.count != tile.layout.rows * tile.layout.cols:
        fill(low, tile, zero(tile.dtype))
