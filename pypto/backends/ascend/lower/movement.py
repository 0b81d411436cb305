"""Tiles of some of another tile's elements: slices, gathers, sorts and counts, by the scalar unit."""

from __future__ import annotations

from pypto.backends.ascend.blockir import Expr, Read, fold
from pypto.backends.ascend.lower.lowering import Index, Lowering, moved
from pypto.backends.ascend.lower.scalars import compared, conjunction
from pypto.backends.ascend.lower.shape import ensure, fill, rearrange
from pypto.backends.ascend.lower.values import Splat, Tile
from pypto.ir.core import Op
from pypto.ir.types import int1, int64


def slice_of(low: Lowering, op: Op) -> None:
    held, shape = low.held(op.operands[0]), op.result.shape
    starts, steps = op.attrs["starts"], op.attrs["steps"]
    if isinstance(held, Splat):
        low.env[op.result] = Splat(shape, held.dtype, held.value)
        return
    made = low.result(op.result)

    def source(index: Index) -> Index:
        return tuple(fold("+", fold("*", i, step), s) for i, s, step in zip(index, starts, steps, strict=True))

    rearrange(low, made, low.made(held), source)
    low.env[op.result] = made


def gather(low: Lowering, op: Op) -> None:
    """Elements at indices, which are kept inside of the tile."""
    tile, where = low.tile(op.operands[0]), low.held(op.operands[1])
    axis, made = op.attrs["axis"], low.result(op.result)
    last = tile.shape[axis] - 1

    def source(index: Index) -> Index:
        at = low.let("at", int64, Expr("i64", (low.element(where, index),)))
        inside = fold("min", fold("max", at, 0), last)
        return tuple(inside if d == axis else i for d, i in enumerate(index))

    rearrange(low, made, tile, source)
    low.env[op.result] = made


def histogram(low: Lowering, op: Op) -> None:
    values, made = low.held(op.operands[0]), low.result(op.result)
    mask = low.held(op.operands[1]) if len(op.operands) > 1 else None
    fill(low, made, 0)
    with low.each(op.operands[0].shape) as index:
        v = low.let("v", op.operands[0].dtype, low.element(values, index))
        inside = conjunction(compared(">=", v, 0), compared("<", v, op.attrs["num_bins"]))
        taken = inside if mask is None else conjunction(low.element(mask, index), inside)
        with low.when(taken):
            place = moved(made.view, v)
            low.instr("SetValue", place, fold("+", Read(place), 1))
    low.env[op.result] = made


def sort_keys(low: Lowering, op: Op) -> None:
    """A bitonic network over each row, filled up to a power of two."""
    tile, shape, dtype = low.tile(op.operands[0]), op.result.shape, op.result.dtype
    n = shape[-1]
    size = 1 << (n - 1).bit_length()
    made = low.result(op.result)
    ensure(low, made)
    work = low.new((size,), dtype, "keys")
    with low.each(shape[:-1]) as row:
        with low.loop("i", n) as i:
            low.put(work, (i,), low.element(tile, (*row, i)))
        with low.loop("i", size, n) as i:
            low.put(work, (i,), dtype.integer_range[1])
        network(low, work, size)
        with low.loop("i", n) as i:
            low.put(made, (*row, i), low.element(work, (i,)))
    low.env[op.result] = made


def network(low: Lowering, work: Tile, size: int) -> None:
    k = 2
    while k <= size:
        j = k // 2
        while j > 0:
            exchange(low, work, size, k, j)
            j //= 2
        k *= 2


def exchange(low: Lowering, work: Tile, size: int, k: int, j: int) -> None:
    """Pairs at a distance of `j`: ascending where the bit `k` of their place is 0."""
    with low.loop("g", size // (2 * j)) as g, low.loop("i", j) as i:
        at = low.let("at", int64, fold("+", fold("*", g, 2 * j), i))
        a = low.let("a", work.dtype, low.element(work, (at,)))
        b = low.let("b", work.dtype, low.element(work, (fold("+", at, j),)))
        up = low.let("up", int1, Expr("==", (Expr("&", (at, k)), 0)))
        with low.when(Expr("==", (Expr(">", (a, b)), up))):
            low.put(work, (at,), b)
            low.put(work, (fold("+", at, j),), a)
