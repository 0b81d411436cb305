"""Tiles that are made or moved without computing."""

from __future__ import annotations

from typing import Any, Final

from pypto.backends.ascend.blockir.ir import Expr, Scalar, View, Word, fold
from pypto.backends.ascend.blockir.softfloat64 import number, zero
from pypto.backends.ascend.tile.ub_layout import BLOCK
from pypto.backends.ascend.vector.builder import Index, Lowering, moved
from pypto.backends.ascend.vector.masks import as_numbers, nonzero
from pypto.backends.ascend.vector.values import AnyTile, Broadcast, Deferred, Pointer, Pointers, Splat, Tile
from pypto.ir.core import Op
from pypto.ir.types import DType, float16, int16, int32, int64, uint8, uint16, uint32

REPEAT: Final = 256  # bytes that a repeat works on
MOST: Final = 255  # repeats of an instruction
FEW: Final = 2 << 10  # bytes of numbers that stay in memory for all programs
_SIGNED: Final = {8: int16, 16: int16, 32: int32}


def constant(low: Lowering, op: Op) -> None:
    shape, value = op.result.shape, number(op.attrs["value"], op.result.dtype)
    low.env[op.result] = Splat(shape, op.result.dtype, value) if shape else value


def undef(low: Lowering, op: Op) -> None:
    if op.result.tile.is_ptr:
        raise low.refused("a pointer that is set in a branch alone", "has no address", "set it before the branch")
    nothing = zero(op.result.dtype)
    low.env[op.result] = Splat(op.result.shape, op.result.dtype, nothing) if op.result.shape else nothing


def fill(low: Lowering, tile: Tile, value: Scalar) -> None:
    """One number in every element, padding too."""
    count = tile.layout.count
    if tile.dtype.is_bool:
        bits = Expr("u16", (Expr("?:", (value, 0xFFFF, 0)),)) if not isinstance(value, bool) else 0xFFFF * value
        low.instr("Duplicate", View(tile.view.of, tile.view.offset, tile.view.stage, uint16), bits, count // 16)
    else:
        fill_run(low, tile.view, value, count)


def fill_run(low: Lowering, view: View, value: Scalar, count: Scalar) -> None:
    """One number in so many elements from a whole block on."""
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
    """64-bit numbers: halves that are alike as 32 bits, others one by one."""
    if isinstance(value, int) and value in (0, -1, (1 << 64) - 1):
        halves = View(view.of, fold("*", view.offset, 2), view.stage, int32)
        low.instr("Duplicate", halves, 0 if value == 0 else -1, fold("*", count, 2))
        return
    with low.loop("i", count) as i:
        low.instr("SetValue", moved(view, i), value)


def arange(low: Lowering, op: Op) -> None:
    v, start = op.result, op.attrs["start"]
    assert isinstance(start, int)
    layout = low.grain.layout(v.shape)
    if v.dtype == int64:
        made = low.result(v)
        with low.each((layout.count,)) as (i,):
            low.instr("SetValue", moved(made.view, i), fold("+", i, start))
    elif v in low.into:
        made = low.into[v]
        count_up(low, made.view, start, layout.count)
    else:
        made = Tile(v.shape, v.dtype, numbers(low, start, layout.count, v.dtype), layout)
    low.env[v] = made


def numbers(low: Lowering, first: int, count: int, dtype: DType) -> View:
    """The numbers from `first` on, to be read alone: few are made once, before the first program."""
    key = first, count, dtype
    if key in low.counted:
        return low.counted[key]
    made = low.buffer("indices", dtype, count)
    if count * dtype.itemsize > FEW:
        count_up(low, made, first, count)
        return made
    low.counted[key] = made
    items, low.items = low.items, low.front
    count_up(low, made, first, count)
    low.items = items
    return made


def count_up(low: Lowering, view: View, first: int, count: int) -> None:
    """Bytes of a block widened, then doubled: `CreateVecIndex` takes an event of a `TPipe` on 2201."""
    each, dtype = BLOCK // view.elem.itemsize, view.elem
    codes, halves = low.buffer("codes", int32, BLOCK // 4), low.buffer("halves", float16, BLOCK // 2)
    for k in reversed(range(each // 4)):  # four bytes to a word, the last words first
        low.instr("Duplicate", codes, sum(4 * k + i << 8 * i for i in range(4)), k + 1)
    low.instr("Cast", halves, View(codes.of, 0, 0, uint8), Word("CAST_NONE"), each)
    low.instr("Cast", view, halves, Word("CAST_NONE" if dtype.is_float else "CAST_RINT"), each)
    if first:
        low.instr("Adds", view, view, float(first) if dtype.is_float else first, each)
    while each < count:
        low.instr("Adds", moved(view, each), view, float(each) if dtype.is_float else each, min(each, count - each))
        each *= 2


def broadcast(low: Lowering, op: Op) -> None:
    held, shape = low.env[op.operands[0]], op.result.shape
    if isinstance(held, Pointer):
        low.env[op.result] = Pointers(held.array, (Splat(shape, int64, held.offset),))
    elif isinstance(held, Pointers):
        low.env[op.result] = held.each(lambda part: widened(low, part, shape))
    else:
        low.env[op.result] = widened(low, low.held(op.operands[0]), shape)


def widened(low: Lowering, held: AnyTile, shape: tuple[int, ...]) -> AnyTile:
    """A tile repeated along its dimensions of size 1."""
    if isinstance(held, Splat):
        return Splat(shape, held.dtype, held.value)
    held = low.made(held) if isinstance(held, Deferred) else held
    tile = held.of if isinstance(held, Broadcast) else held
    if not tile.shape:
        tile = tile.reshaped((1,) * len(shape), tile.layout)
    if [n for n in tile.shape if n != 1] == [n for n in shape if n != 1]:
        return tile.reshaped(shape, tile.layout)
    return Broadcast(shape, tile)


def reshape(low: Lowering, op: Op) -> None:
    held, shape = low.env[op.operands[0]], op.result.shape
    if isinstance(held, Pointer):
        low.env[op.result] = Pointers(held.array, (Splat(shape, int64, held.offset),)) if shape else held
    elif isinstance(held, Pointers):
        low.env[op.result] = held.each(lambda part: reshaped(low, part, shape))
    else:
        low.env[op.result] = reshaped(low, low.held(op.operands[0]), shape)


def reshaped(low: Lowering, held: AnyTile, shape: tuple[int, ...]) -> AnyTile:
    """The same elements in row-major order under another shape; where rows are padded they move."""
    if isinstance(held, Splat):
        return Splat(shape, held.dtype, held.value)
    if isinstance(held, Broadcast) and (of := regrouped(held, shape)) is not None:
        return of
    tile = low.made(held)
    layout = low.grain.layout(shape)
    same_rows = (layout.rows, layout.cols) == (tile.layout.rows, tile.layout.cols)
    if same_rows or (layout.is_dense and tile.layout.is_dense):
        return tile.reshaped(shape, layout)
    made = low.new(shape, tile.dtype)
    stays = tile.layout.cols % layout.cols == 0  # each row is part of one row
    rearrange(low, made, tile, lambda index: unravel(ravel(index, shape), tile.shape), is_straight=stays)
    return made


def regrouped(held: Broadcast, shape: tuple[int, ...]) -> Broadcast | None:
    """A repeated tile under a shape that differs in dimensions of size 1 alone, or None."""
    if [n for n in held.shape if n != 1] != [n for n in shape if n != 1]:
        return None
    sizes = iter(n for n, m in zip(held.of.shape, held.shape, strict=True) if m != 1)
    inner = tuple(1 if m == 1 else next(sizes) for m in shape)
    return Broadcast(shape, held.of.reshaped(inner, held.of.layout))


def ravel(index: Index, shape: tuple[int, ...]) -> Scalar:
    """Number of an index in row-major order."""
    number: Scalar = 0
    for i, n in zip(index, shape, strict=True):
        number = fold("+", fold("*", number, n), i)
    return number


def unravel(number: Scalar, shape: tuple[int, ...]) -> Index:
    """The index of a number in row-major order."""
    index: list[Scalar] = []
    for d, n in reversed(list(enumerate(shape))):
        index.append(number if d == 0 else 0 if n == 1 else fold("%", number, n))
        number = number if n == 1 else fold("//", number, n)
    return tuple(reversed(index))


def permute(low: Lowering, op: Op) -> None:
    dims: Any = op.attrs["dims"]
    held, shape = low.env[op.operands[0]], op.result.shape
    if isinstance(held, Pointers):
        low.env[op.result] = held.each(lambda part: permuted(low, part, dims, shape))
    else:
        low.env[op.result] = permuted(low, low.held(op.operands[0]), dims, shape)


def permuted(low: Lowering, held: AnyTile, dims: tuple[int, ...], shape: tuple[int, ...]) -> AnyTile:
    if isinstance(held, Splat):
        return Splat(shape, held.dtype, held.value)
    if isinstance(held, Broadcast):
        inner = permuted(low, held.of, dims, tuple(held.of.shape[d] for d in dims))
        assert isinstance(inner, Tile)
        return Broadcast(shape, inner)
    held = low.made(held)
    if [d for d in dims if held.shape[d] != 1] == [d for d, n in enumerate(held.shape) if n != 1]:
        return held.reshaped(shape, held.layout)
    made = low.new(shape, held.dtype)
    rearrange(low, made, held, lambda index: tuple(index[dims.index(d)] for d in range(len(dims))), is_straight=True)
    return made


def rearrange(low: Lowering, made: Tile, tile: Tile, source: Any, is_straight: bool = False) -> None:
    """Element `index` of a tile is element `source(index)` of another one.

    Rows whose elements lie at equal distances in the other tile, as they do where it `is_straight`, come by a gather
    each; all else is moved by the scalar unit.
    """
    if tile.dtype.is_bool:
        halves = low.new(made.shape, float16, "halves")
        rearrange(low, halves, as_numbers(low, tile, float16), source, is_straight)
        nonzero(low, halves, made)
        return
    ensure(low, made)
    last, size = last_of(made.shape), tile.dtype.itemsize
    n = made.shape[last] if is_straight and size in (2, 4) else 1
    begins = (tuple(i if d == last else 0 for d in range(len(made.shape))) for i in (0, min(1, n - 1)))
    first, second = (low.place(tile, source(index)) for index in begins)
    if not isinstance(first, int) or not isinstance(second, int) or second <= first:
        with low.each(made.shape) as index:
            low.put(made, index, low.element(tile, source(index)))
        return
    offsets = low.new((n,), int32, "offsets").view
    low.instr("Muls", offsets, numbers(low, 0, n, int32), (second - first) * size, n)
    with low.each(tuple(1 if d == last else m for d, m in enumerate(made.shape))) as index:
        to, begin = moved(made.view, low.place(made, index)), fold("*", low.place(tile, source(index)), size)
        low.instr("Gather", to, tile.view, View(offsets.of, 0, 0, uint32), begin, n)


def last_of(shape: tuple[int, ...]) -> int:
    """The dimension that runs along rows."""
    return max((d for d, n in enumerate(shape) if n != 1), default=len(shape) - 1)


def ensure(low: Lowering, tile: Tile) -> None:
    """Something in the padding of a tile that is written element by element."""
    if tile.layout.count != tile.layout.rows * tile.layout.cols:
        fill(low, tile, zero(tile.dtype))
