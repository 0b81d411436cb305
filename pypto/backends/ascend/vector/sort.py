"""Sorting rows of whole numbers.

Rows of 32-bit numbers by the instructions for that, which put pairs of a score and an index in order, the greatest
score first: 32 pairs each, then up to four lists into one. They are stable, and float32 scores that are whole numbers
of few bits have no order of their own (no NaN, one zero): so numbers go by their lower halves first and then by their
upper ones, with themselves in the place of the index; of numbers of 64 bits, it is the index that goes along. Rows that
there is no memory for go through a network, pair by pair by the scalar unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby

from pypto.backends.ascend.blockir.ir import Expr, Record, View, Word, fold
from pypto.backends.ascend.tile.ub_layout import rounded
from pypto.backends.ascend.vector.builder import Lowering, moved
from pypto.backends.ascend.vector.elementwise import computed
from pypto.backends.ascend.vector.narrow_int64 import ODD, select_words, words32_of
from pypto.backends.ascend.vector.shape import ensure, numbers
from pypto.backends.ascend.vector.values import Tile
from pypto.ir.core import Op, Region, Value
from pypto.ir.types import float32, int1, int32, int64, uint32
from pypto.ops.build import OpBuilder

_LIST, _MOST = 32, 4096  # pairs that one instruction puts in order, and what there is memory for
_LANES = 64  # 32-bit numbers of a repeat
_HALF = 16
_GREATEST = int32.integer_range[1]
_FEW = 1 << 16  # more than any number that came from 16 bits
_KEPT = frozenset(["not_", "xor", "slice", "reshape", "permute", "broadcast_to", "minimum", "maximum", "sort_keys"])


def sort_keys(low: Lowering, op: Op) -> None:
    """Each row in order, in parts of the tile that there is memory for."""
    dtype, made, n = op.result.dtype, low.result(op.result), op.result.shape[-1]
    ensure(low, made)
    if dtype == int32 and 1 < n <= _MOST:
        by_merging(low, low.tile(op.operands[0]), made, is_short(op.operands[0]))
    elif dtype == int64 and 1 < n <= (_MOST if upper_words(op.operands[0]) else _MOST // 2):
        by_places(low, op, made)
    else:
        by_numbers(low, low.tile(op.operands[0]), made, 1 << (n - 1).bit_length())
    low.env[op.result] = made


def is_short(v: Value) -> bool:
    """Whether all numbers of a tile came from 16 bits or fewer, as they are or with all bits turned."""
    todo, seen = [v], set[Value]()
    while todo:
        if (v := todo.pop()) in seen:
            continue
        seen.add(v)
        if v.op is None or (sources := _sources(v.op)) is None:
            return False
        todo += sources
    return True


def _sources(op: Op) -> tuple[Value, ...] | None:
    """Which tiles must be short so that a result is, or None."""
    if op.name == "cast":
        source = op.operands[0].dtype
        return () if (source.is_int or source.is_bool) and source.bits <= _HALF else None
    if op.name == "constant":
        return () if -_FEW <= op.attrs["value"] < _FEW else None
    if op.name in ("where", "gather"):
        return op.operands[1:] if op.name == "where" else op.operands[:1]
    return tuple(op.operands) if op.name in _KEPT else None


# --- by pairs ---------------------------------------------------------------------------------------------------------


def by_merging(low: Lowering, tile: Tile, made: Tile, is_few: bool) -> None:
    """As many rows at once as there is memory for, each filled up to whole lists with what comes last."""
    n, rows, pitch = tile.shape[-1], math.prod(tile.shape[:-1]), tile.layout.pitch
    size = rounded(n, _LIST)
    each = max(k for k in range(1, rows + 1) if rows % k == 0 and k * size <= _MOST)
    is_whole = n == size and (each == 1 or pitch == n)
    last = _FEW if is_few else _GREATEST
    with low.each((rows // each,)) as (i,):
        here, there = (moved(x.view, fold("*", i, each * pitch)) for x in (tile, made))
        keys = here if is_whole else filled(low, here, pitch, (each, n, size), last)
        for part in ("all",) if is_few else ("lower", "upper"):
            to = there if part != "lower" and is_whole else low.new((each * size,), int32, "sorted").view
            pairs = in_order(low, scored(low, keys, each * size, part), keys, each, size)
            taken(low, to, pairs, each * size)
            keys = to
        if not is_whole:
            move_rows(low, there, pitch, keys, size, each, n)


def filled(low: Lowering, here: View, pitch: int, sizes: tuple[int, int, int], last: int) -> View:
    """Rows of whole lists; what is behind a row's numbers comes after them, or is the same as the greatest."""
    rows, n, size = sizes
    keys = low.new((rows * size,), int32, "keys").view
    low.instr("Duplicate", keys, last, rows * size)
    move_rows(low, keys, size, here, pitch, rows, n)
    return keys


def move_rows(low: Lowering, to: View, to_pitch: int, source: View, pitch: int, rows: int, n: int) -> None:
    """Rows of `n` numbers to another pitch: some columns of all rows, or row by row, whichever are fewer."""
    strips = -(-n // _LANES)
    steps = (to_pitch // 8, pitch // 8)
    if strips >= rows or max(steps) > 255 or to_pitch % 8 or pitch % 8:
        with low.each((rows,)) as (r,):
            low.instr("Adds", moved(to, fold("*", r, to_pitch)), moved(source, fold("*", r, pitch)), 0, n)
        return
    for at in range(0, n, _LANES):
        lanes = min(_LANES, n - at)
        low.instr("Adds", moved(to, at), moved(source, at), 0, lanes, rows, Record((1, 1, *steps)))


def scored(low: Lowering, keys: View, count: int, part: str) -> View:
    """Negative scores, so that the least comes first: of numbers, or of `lower`, `upper` or `unsigned` upper halves."""
    scores = low.new((count,), float32, "scores").view
    bits = whole(scores)
    if part != "all":
        views = (bits, keys) if part != "unsigned" else (unsigned(bits), unsigned(keys))
        low.instr("ShiftRight", *views, _HALF, count)
    low.instr("Muls", bits, keys if part == "all" else bits, 1 << _HALF if part == "lower" else -1, count)
    if part == "lower":
        low.instr("Sub", bits, bits, keys, count)
    low.instr("Cast", scores, bits, Word("CAST_RINT"), count)
    return scores


def whole(scores: View) -> View:
    return View(scores.of, scores.offset, scores.stage, int32)


def unsigned(view: View) -> View:
    return View(view.of, view.offset, view.stage, uint32)


def in_order(low: Lowering, scores: View, payload: View, rows: int, size: int) -> View:
    """Pairs of each row, the greatest score first, pairs of one score as they were."""
    pairs = low.new((2 * rows * size,), float32, "pairs").view
    low.instr("Sort32", pairs, scores, unsigned(payload), rows * size // _LIST)
    lists = (_LIST,) * (size // _LIST)
    other = low.new((2 * rows * size,), float32, "merged").view if len(lists) > 1 else pairs
    while len(lists) > 1:
        merges = tuple(merged(lists))
        goes_on = len(lists) % 4 == 0 and len(set(lists)) == 1  # over all rows
        with low.each((1 if goes_on else rows,)) as (r,):
            to, source = (moved(x, fold("*", r, 2 * size)) for x in (other, pairs))
            for at, lengths, times in merges:
                merge(low, to, source, at, lengths, times * (rows if goes_on else 1))
        lists = tuple(sum(lengths) for _, lengths, times in merges for _ in range(times))
        pairs, other = other, pairs
    return pairs


def merged(lists: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...], int]]:
    """Which lists become one: where they begin, their lengths, and how often the same comes again right behind.

    They go by fours, the last ones by threes or twos, so that none is left alone.
    """
    fours, rest = divmod(len(lists), 4)
    sizes = [4] * (fours - 1) + [3, 2] if rest == 1 else [4] * fours + [rest] * (rest > 0)
    ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
    at = 0
    for lengths, same in groupby(lists[end - n : end] for n, end in zip(sizes, ends, strict=True)):
        times = len(list(same))
        repeats = times if len(lengths) == 4 and len(set(lengths)) == 1 else 1
        for _ in range(times // repeats):
            yield at, lengths, repeats
            at += sum(lengths) * repeats


def merge(low: Lowering, to: View, source: View, at: int, lengths: tuple[int, ...], times: int) -> None:
    """Lists that lie one after the other, the first one `at` so many pairs, into one."""
    begins = [at + sum(lengths[:k]) for k in range(len(lengths))]
    begins += begins[-1:] * (4 - len(lengths))
    none = (0,) * (4 - len(lengths))
    how = Record((*lengths, *none, 0, (1 << len(lengths)) - 1, times))
    low.instr("MrgSort", moved(to, 2 * at), *(moved(source, 2 * begin) for begin in begins), how)


def taken(low: Lowering, to: View, pairs: View, count: int) -> None:
    """The second halves of pairs."""
    select_words(low, to, whole(pairs), count, ODD)


# --- numbers of 64 bits -----------------------------------------------------------------------------------------------


def by_places(low: Lowering, op: Op, made: Tile) -> None:
    """Rows of 64-bit numbers: their places in order, 16 bits of what lies there in a pass; then the numbers.

    Where the lower words are the places themselves, as in what argsort asks for, the upper ones alone are gone by.
    """
    upper = upper_words(op.operands[0])
    tile, n = as_words(low, upper) if upper else low.tile(op.operands[0]), op.result.shape[-1]
    size, each = rounded(n, _LIST), tile.dtype.itemsize
    places, both = (low.new((k * size,), int32, hint).view for k, hint in ((1, "places"), (2, "words")))
    passes = [(0, "lower", -1), (0, "unsigned", -1), (4, "lower", -1), (4, "upper", _GREATEST)]
    if upper:
        short = upper.dtype != int32 or is_short(upper)
        passes = [(0, "all", _FEW)] if short else [(0, "lower", -1), (0, "upper", _GREATEST)]
    with low.each(tile.shape[:-1]) as row:
        here, there = (moved(x.view, low.place(x, (*row, 0))) for x in (tile, made))
        here = words32_of(here) if each == 8 else here
        at = numbers(low, 0, size, int32)
        for begin, part, last in passes:
            digits = low.new((size,), int32, "digits").view
            if n < size:
                low.instr("Duplicate", digits, last, size)
            fetched(low, digits, here, at, each, begin, n)
            taken(low, places, in_order(low, scored(low, digits, size, part), at, 1, size), size)
            at = places
        fetched(low, moved(both, size), here, places, each, each - 4, n)
        if upper:
            low.instr("Adds", both, places, 0, n)
        else:
            fetched(low, both, here, places, each, 0, n)
        side_by_side(low, words32_of(there), both, n, size)


def upper_words(v: Value) -> Value | None:
    """What as int32 is the upper halves of 64-bit numbers whose lower ones are their places in a row."""
    if v.op is None or v.op.name != "or_":
        return None
    key, index = (x.op for x in v.op.operands)
    if key is None or key.name != "shl" or (by := key.operands[1].op) is None or by.attrs.get("value") != 32:
        return None
    while index is not None and index.name in ("cast", "reshape", "broadcast_to"):
        index = index.operands[0].op if index.operands[0].shape[-1:] == v.shape[-1:] else None
    counts = index is not None and index.name == "arange" and index.attrs["start"] == 0
    cast = key.operands[0].op
    if not counts or cast is None or cast.name != "cast":
        return None
    source = cast.operands[0].dtype
    return cast.operands[0] if source == int32 or (not source.is_float and source.bits <= _HALF) else None


def as_words(low: Lowering, v: Value) -> Tile:
    """Integers of up to 32 bits, or bools, as int32."""
    cast = OpBuilder(Region()).cast(v, int32).op
    if cast is None or v.dtype == int32:
        return low.tile(v)
    return low.made(computed(low, cast, (low.held(v),), v.shape))


def fetched(low: Lowering, to: View, source: View, places: View, each: int, begin: int, n: int) -> None:
    """A word of what lies at each place."""
    offsets = low.new((rounded(n, _LANES),), int32, "offsets").view
    low.instr("Muls", offsets, places, each, n)
    low.instr("Gather", to, source, unsigned(offsets), begin, n)


def side_by_side(low: Lowering, to: View, both: View, n: int, size: int) -> None:
    """First words and, so many further on, second words in turns."""
    index, offsets = numbers(low, 0, 2 * size, int32), low.new((2 * size,), int32, "offsets").view
    low.instr("ShiftRight", offsets, index, 1, 2 * n)
    low.instr("Muls", offsets, offsets, -2, 2 * n)
    low.instr("Add", offsets, offsets, index, 2 * n)  # 1 for second words
    low.instr("Muls", offsets, offsets, 4 * size - 2, 2 * n)
    for _ in range(2):
        low.instr("Add", offsets, offsets, index, 2 * n)
    low.instr("Gather", to, both, unsigned(offsets), 0, 2 * n)


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
