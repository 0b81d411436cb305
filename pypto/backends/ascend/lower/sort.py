"""Sorting rows of whole numbers by a bitonic network.

Of 32-bit numbers all elements are exchanged at once: each meets its partner, whose place differs in one bit, through a
gather, and takes the lesser or the greater of both, as bits of its own place say. Others go pair by pair through the
scalar unit.
"""

from __future__ import annotations

from pypto.backends.ascend.blockir import Expr, Scalar, View, Word, fold
from pypto.backends.ascend.lower.lowering import Lowering, moved
from pypto.backends.ascend.lower.shape import ensure
from pypto.backends.ascend.lower.values import Tile
from pypto.ir.core import Op
from pypto.ir.types import float32, int1, int32, int64, uint32

_LEAST, _MOST = 64, 4096  # elements of a row: a whole repeat, and what there is memory for


def sort_keys(low: Lowering, op: Op) -> None:
    """A network over each row, filled up to a power of two."""
    tile, shape, dtype = low.tile(op.operands[0]), op.result.shape, op.result.dtype
    made, n = low.result(op.result), shape[-1]
    ensure(low, made)
    size = 1 << (n - 1).bit_length()
    if dtype == int32 and n > 1 and size <= _MOST:
        by_vectors(low, tile, made, max(size, _LEAST))
    else:
        by_numbers(low, tile, made, size)
    low.env[op.result] = made


# --- all at once ------------------------------------------------------------------------------------------------------


def by_vectors(low: Lowering, tile: Tile, made: Tile, size: int) -> None:
    n = tile.shape[-1]
    keys, places, fours = (low.new((size,), int32, hint).view for hint in ("keys", "places", "fours"))
    low.instr("CreateVecIndex", places, 0, size)
    low.instr("Muls", fours, places, 4, size)
    with low.each(tile.shape[:-1]) as row:
        here, there = (moved(x.view, low.place(x, (*row, 0))) for x in (tile, made))
        if n < size:
            low.instr("Duplicate", keys, int32.integer_range[1], size)
        low.instr("Adds", keys, here, 0, n)
        network_at_once(low, keys, places, fours, size)
        low.instr("Adds", there, keys, 0, n)


def network_at_once(low: Lowering, keys: View, places: View, fours: View, size: int) -> None:
    """Runs of 2, 4, 8 … elements are put in order, up and down in turns; `fours` are byte offsets of the places."""
    names = ("runBit", "pairBit", "twice", "offsets", "partners", "lesser", "greater")
    run, pair, twice, offsets, partners, lesser, greater = (low.new((size,), int32, name).view for name in names)
    mask = low.new((size,), int1, "takesLesser").view
    with low.loop("stage", size.bit_length(), 1, dtype=int32) as stage:
        bit(low, run, twice, places, stage, size)
        with low.loop("step", stage, dtype=int32) as step:
            at = low.let("at", int32, Expr("-", (Expr("-", (stage, 1)), step)))
            apart = low.let("apart", int32, Expr("<<", (4, at)))  # bytes from an element to its partner
            bit(low, pair, twice, places, at, size)
            low.instr("Muls", offsets, pair, Expr("*", (apart, -2)), size)
            low.instr("Add", offsets, offsets, fours, size)
            low.instr("Adds", offsets, offsets, apart, size)
            low.instr("Gather", partners, keys, View(offsets.of, 0, 0, uint32), 0, size)
            low.instr("Min", lesser, keys, partners, size)
            low.instr("Max", greater, keys, partners, size)
            low.instr("Compare", mask, pair, run, Word("EQ"), size)
            chosen = (View(x.of, 0, 0, float32) for x in (keys, lesser, greater))
            to, one, other = chosen
            low.instr("Select", to, mask, one, other, Word("VSEL_TENSOR_TENSOR_MODE"), size)


def bit(low: Lowering, made: View, twice: View, places: View, number: Scalar, size: int) -> None:
    """One bit of each number: what is left of it from there on, less twice what is left beyond."""
    low.instr("ShiftRight", made, places, number, size)
    low.instr("ShiftRight", twice, places, fold("+", number, 1), size)
    low.instr("Muls", twice, twice, 2, size)
    low.instr("Sub", made, made, twice, size)


# --- pair by pair -----------------------------------------------------------------------------------------------------


def by_numbers(low: Lowering, tile: Tile, made: Tile, size: int) -> None:
    shape, dtype = tile.shape, tile.dtype
    work = low.new((size,), dtype, "keys")
    with low.each(shape[:-1]) as row:
        with low.loop("i", shape[-1]) as i:
            low.put(work, (i,), low.element(tile, (*row, i)))
        with low.loop("i", size, shape[-1]) as i:
            low.put(work, (i,), dtype.integer_range[1])
        network(low, work, size)
        with low.loop("i", shape[-1]) as i:
            low.put(made, (*row, i), low.element(work, (i,)))


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
