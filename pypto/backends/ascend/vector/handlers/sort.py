"""Sorting of integer rows: merge sort by the vector unit's sort instructions, with a bitonic network as fallback.

`Sort32` and `MrgSort` sort pairs of a float32 score and a 32-bit payload, the greatest score first: 32 pairs, then up
to four lists into one. They are stable. So int32 keys are sorted twice, as in a radix sort: by their lower 16 bits,
then by their upper ones, with the key as payload. As float32 scores, 16-bit digits are exact, and there is no NaN or
negative zero. Of 64-bit keys the payload is the index. Rows that are too long for memory go through a bitonic network
on the scalar unit.

    Sort32(pairs, -lower_digits, keys, n / 32)
    MrgSort(pairs, lists of 32, 128, 512, ...)           # keys by their lower digit
    Sort32(pairs, -upper_digits, sorted keys, n / 32)    # stable: by both digits
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby

from pypto.backends.ascend.blockir.ir import Expr, Record, View, Word, fold
from pypto.backends.ascend.vector.builder import Lowering, advance_view
from pypto.backends.ascend.vector.handlers.elementwise import compute
from pypto.backends.ascend.vector.handlers.shape import index_vector, initialise_padding
from pypto.backends.ascend.vector.nan_facts import is_never_nan
from pypto.backends.ascend.vector.narrow_int64 import ODD, select_words, words32_of
from pypto.backends.ascend.vector.values import Tile
from pypto.blocking import round_up
from pypto.ir.core import Op, Region, Value
from pypto.ir.types import float32, int1, int32, int64, uint32
from pypto.ops.build import OpBuilder
from pypto.ops.table import MOVEMENT_OPS, TABLE
from pypto.passes.analysis.carried import flow_sources

_LIST_PAIRS = 32
_MAX_PAIRS = 4096  # pairs that `Sort32` sorts, and pairs that UB has room for
_LANES = 64  # 32-bit numbers of a repeat
_HALF = 16
_GREATEST = int32.integer_range[1]
_ABOVE_16_BITS = 1 << 16  # greater than any 16-bit number


def sort_keys(low: Lowering, op: Op) -> None:
    """Sort each row."""
    dtype = op.result.dtype
    result = low.result(op.result)
    row_length = op.result.shape[-1]
    initialise_padding(low, result)
    if dtype == int32 and 1 < row_length <= _MAX_PAIRS:
        merge_sort(low, low.tile(op.operands[0]), result, fits_16_bits(op.operands[0]))
    elif dtype == int64 and 1 < row_length <= (_MAX_PAIRS if upper_words(op.operands[0]) else _MAX_PAIRS // 2):
        sort_int64(low, op, result)
    else:
        sort_by_network(low, low.tile(op.operands[0]), result, 1 << (row_length - 1).bit_length())
    low.env[op.result] = result


def fits_16_bits(v: Value) -> bool:
    """Whether all numbers of a tile come from 16 bits or fewer, directly or with all bits inverted."""
    worklist = [v]
    seen = set[Value]()
    while worklist:
        v = worklist.pop()
        if v in seen:
            continue
        seen.add(v)
        sources = _sources(v.op) if v.op is not None else None
        if sources is None:
            return False
        worklist += sources
    return True


def _sources(op: Op) -> tuple[Value, ...] | None:
    """Return the tiles that must fit so that a result does, None where it is unknown."""
    if op.name == "cast":
        source = op.operands[0].dtype
        return () if (source.is_int or source.is_bool) and source.bits <= _HALF else None
    if op.name == "constant":
        return () if -_ABOVE_16_BITS <= op.attrs["value"] < _ABOVE_16_BITS else None
    if op.name in ("where", "gather"):
        return op.operands[1:] if op.name == "where" else op.operands[:1]
    return tuple(op.operands) if "width_preserving" in TABLE[op.name].traits else None


def merge_sort(low: Lowering, tile: Tile, result: Tile, is_few: bool) -> None:
    """Sort rows, as many at once as there is memory for, each padded to whole lists."""
    n = tile.shape[-1]
    rows = math.prod(tile.shape[:-1])
    pitch = tile.layout.pitch
    size = round_up(n, _LIST_PAIRS)
    rows_at_once = max(k for k in range(1, rows + 1) if rows % k == 0 and k * size <= _MAX_PAIRS)
    is_whole = n == size and (rows_at_once == 1 or pitch == n)
    padding_key = _ABOVE_16_BITS if is_few else _GREATEST
    with low.loop_nest((rows // rows_at_once,)) as (i,):
        source, target = (advance_view(x.view, fold("*", i, rows_at_once * pitch)) for x in (tile, result))
        keys = source if is_whole else pad_rows(low, source, pitch, (rows_at_once, n, size), padding_key)
        for digit in ("all",) if is_few else ("lower", "upper"):
            to = target if digit != "lower" and is_whole else low.new_tile((rows_at_once * size,), int32, "sorted").view
            pairs = sort_pairs(low, sort_scores(low, keys, rows_at_once * size, digit), keys, rows_at_once, size)
            extract_payload(low, to, pairs, rows_at_once * size)
            keys = to
        if not is_whole:
            move_rows(low, target, pitch, keys, size, rows_at_once, n)


def pad_rows(low: Lowering, source: View, pitch: int, sizes: tuple[int, int, int], padding_key: int) -> View:
    """Copy rows padded to whole lists; the padding sorts behind all numbers, or equals the greatest one."""
    rows, n, size = sizes
    keys = low.new_tile((rows * size,), int32, "keys").view
    low.instr("Duplicate", keys, padding_key, rows * size)
    move_rows(low, keys, size, source, pitch, rows, n)
    return keys


def move_rows(low: Lowering, to: View, to_pitch: int, source: View, pitch: int, rows: int, n: int) -> None:
    """Copy rows of `n` numbers to another pitch: column strips of all rows, or row by row, whichever are fewer."""
    strips = -(-n // _LANES)
    steps = (to_pitch // 8, pitch // 8)
    if strips >= rows or max(steps) > 255 or to_pitch % 8 or pitch % 8:
        with low.loop_nest((rows,)) as (r,):
            low.instr("Adds", advance_view(to, fold("*", r, to_pitch)), advance_view(source, fold("*", r, pitch)), 0, n)
        return
    for at in range(0, n, _LANES):
        lanes = min(_LANES, n - at)
        low.instr("Adds", advance_view(to, at), advance_view(source, at), 0, lanes, rows, Record((1, 1, *steps)))


def sort_scores(low: Lowering, keys: View, count: int, digit: str) -> View:
    """Compute negative scores, so that the least key comes first.

    They are those of whole keys (`all`) or of one digit (`lower`, `upper`, `unsigned`).
    """
    scores = low.new_tile((count,), float32, "scores").view
    bits = as_words32(scores)
    if digit != "all":
        views = (bits, keys) if digit != "unsigned" else (as_uint32(bits), as_uint32(keys))
        low.instr("ShiftRight", *views, _HALF, count)
    low.instr("Muls", bits, keys if digit == "all" else bits, 1 << _HALF if digit == "lower" else -1, count)
    if digit == "lower":
        low.instr("Sub", bits, bits, keys, count)
    low.instr("Cast", scores, bits, Word("CAST_RINT"), count)
    return scores


def as_words32(scores: View) -> View:
    """Return a view of scores as int32."""
    return View(scores.of, scores.offset, scores.stage, int32)


def as_uint32(view: View) -> View:
    """Return a view as uint32."""
    return View(view.of, view.offset, view.stage, uint32)


def sort_pairs(low: Lowering, scores: View, payload: View, rows: int, size: int) -> View:
    """Sort the pairs of each row by score, the greatest first; equal scores keep their order."""
    pairs = low.new_tile((2 * rows * size,), float32, "pairs").view
    low.instr("Sort32", pairs, scores, as_uint32(payload), rows * size // _LIST_PAIRS)
    lists = (_LIST_PAIRS,) * (size // _LIST_PAIRS)
    scratch = low.new_tile((2 * rows * size,), float32, "merged").view if len(lists) > 1 else pairs
    while len(lists) > 1:
        merges = tuple(merge_plan(lists))
        spans_rows = len(lists) % 4 == 0 and len(set(lists)) == 1  # over all rows
        with low.loop_nest((1 if spans_rows else rows,)) as (r,):
            to, source = (advance_view(x, fold("*", r, 2 * size)) for x in (scratch, pairs))
            for begin, lengths, times in merges:
                emit_merge(low, to, source, begin, lengths, times * (rows if spans_rows else 1))
        lists = tuple(sum(lengths) for _, lengths, times in merges for _ in range(times))
        pairs, scratch = scratch, pairs
    return pairs


def merge_plan(lists: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...], int]]:
    """Yield the merges of one level: begin, lengths, and how often the same merge repeats.

    Lists are merged by fours, the last ones by threes or twos, so that no list is left alone.
    """
    fours, remainder = divmod(len(lists), 4)
    sizes = [4] * (fours - 1) + [3, 2] if remainder == 1 else [4] * fours + [remainder] * (remainder > 0)
    ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
    begin = 0
    for lengths, equal_groups in groupby(lists[end - n : end] for n, end in zip(sizes, ends, strict=True)):
        times = len(list(equal_groups))
        repeats = times if len(lengths) == 4 and len(set(lengths)) == 1 else 1
        for _ in range(times // repeats):
            yield begin, lengths, repeats
            begin += sum(lengths) * repeats


def emit_merge(low: Lowering, to: View, source: View, at: int, lengths: tuple[int, ...], times: int) -> None:
    """Merge adjacent lists, of which the first begins at pair `begin`."""
    list_begins = [at + sum(lengths[:k]) for k in range(len(lengths))]
    list_begins += list_begins[-1:] * (4 - len(lengths))
    unused = (0,) * (4 - len(lengths))
    config = Record((*lengths, *unused, 0, (1 << len(lengths)) - 1, times))
    low.instr(
        "MrgSort",
        advance_view(to, 2 * at),
        *(advance_view(source, 2 * list_begin) for list_begin in list_begins),
        config,
    )


def extract_payload(low: Lowering, to: View, pairs: View, count: int) -> None:
    """Take the payloads of pairs."""
    select_words(low, to, as_words32(pairs), count, ODD)


# --- numbers of 64 bits -----------------------------------------------------------------------------------------------


def sort_int64(low: Lowering, op: Op, result: Tile) -> None:
    """Sort rows of 64-bit keys: sort their indices by 16 bits of the key in each pass, then gather the keys.

    If the lower words are the indices themselves, as argsort makes them, only the upper words are sorted, or the floats
    that these are the order of.
    """
    upper = upper_words(op.operands[0])
    if upper and (floats := ordered_floats(low, upper)) is not None and op.result.shape[-1] % _LIST_PAIRS == 0:
        sort_floats(low, result, low.tile(floats[0]), low.tile(upper), floats[1])
        return
    tile = as_words(low, upper) if upper else low.tile(op.operands[0])
    n = op.result.shape[-1]
    size = round_up(n, _LIST_PAIRS)
    itemsize = tile.dtype.itemsize
    places, words = (low.new_tile((k * size,), int32, hint).view for k, hint in ((1, "places"), (2, "words")))
    passes = [(0, "lower", -1), (0, "unsigned", -1), (4, "lower", -1), (4, "upper", _GREATEST)]
    if upper:
        short = upper.dtype != int32 or fits_16_bits(upper)
        passes = [(0, "all", _ABOVE_16_BITS)] if short else [(0, "lower", -1), (0, "upper", _GREATEST)]
    with low.loop_nest(tile.shape[:-1]) as row:
        source, target = (advance_view(x.view, low.element_index(x, (*row, 0))) for x in (tile, result))
        source = words32_of(source) if itemsize == 8 else source
        current_places = index_vector(low, 0, size, int32)
        for begin, digit, padding_key in passes:
            digits = low.new_tile((size,), int32, "digits").view
            if n < size:
                low.instr("Duplicate", digits, padding_key, size)
            gather_words(low, digits, source, current_places, itemsize, begin, n)
            extract_payload(
                low, places, sort_pairs(low, sort_scores(low, digits, size, digit), current_places, 1, size), size
            )
            current_places = places
        gather_words(low, advance_view(words, size), source, places, itemsize, itemsize - 4, n)
        if upper:
            low.instr("Adds", words, places, 0, n)
        else:
            gather_words(low, words, source, places, itemsize, 0, n)
        interleave_words(low, words32_of(target), words, n, size)


def upper_words(v: Value) -> Value | None:
    """Match `upper << 32 | index`; return the upper words if they fit int32."""
    if v.op is None or v.op.name != "or_":
        return None
    key, index = (x.op for x in v.op.operands)
    if key is None or key.name != "shl":
        return None
    shift = key.operands[1].op
    if shift is None or shift.attrs.get("value") != 32:
        return None
    while index is not None and (index.name == "cast" or (index.name in MOVEMENT_OPS and index.name != "permute")):
        index = index.operands[0].op if index.operands[0].shape[-1:] == v.shape[-1:] else None
    is_index = index is not None and index.name == "arange" and index.attrs["start"] == 0
    cast = key.operands[0].op
    if not is_index or cast is None or cast.name != "cast":
        return None
    source = cast.operands[0].dtype
    return cast.operands[0] if source == int32 or (not source.is_float and source.bits <= _HALF) else None


def ordered_floats(low: Lowering, keys: Value) -> tuple[Value, bool] | None:
    """Match argsort's keys of float32 numbers that are no NaN: the numbers, and whether they descend."""
    op = keys.op
    if op is None or op.name != "where" or not isinstance(op.operands[0].op, Op) or op.operands[0].op.name != "ne":
        return None
    x = op.operands[0].op.operands[0]
    order = op.operands[2].op
    descends = order is not None and order.name == "not_"
    order = order.operands[0].op if order is not None and descends else order
    bits = order.operands[2].op if order is not None and order.name == "where" else None
    flipped = order.operands[1].op if order is not None and order.name == "where" else None
    if bits is None or flipped is None or (bits.name, flipped.name) != ("bitcast", "xor") or x.dtype != float32:
        return None
    without_sign = bits.operands[0].op  # of zeros
    is_own = without_sign is not None and without_sign.name == "where" and without_sign.operands[2] is x
    return (x, descends) if is_own and is_never_nan(x, flow_sources(low.function)) else None


def sort_floats(low: Lowering, result: Tile, floats: Tile, keys: Tile, descends: bool) -> None:
    """Sort the indices of numbers by the numbers themselves, in one pass."""
    n = floats.shape[-1]
    with low.loop_nest(floats.shape[:-1]) as row:
        scores, source, target = (advance_view(x.view, low.element_index(x, (*row, 0))) for x in (floats, keys, result))
        if not descends:
            scores, plain = low.new_tile((n,), float32, "scores").view, scores
            low.instr("Muls", scores, plain, -1.0, n)
        places, words = (low.new_tile((k * n,), int32, hint).view for k, hint in ((1, "places"), (2, "words")))
        extract_payload(low, places, sort_pairs(low, scores, index_vector(low, 0, n, int32), 1, n), n)
        low.instr("Adds", words, places, 0, n)
        gather_words(low, advance_view(words, n), source, places, 4, 0, n)
        interleave_words(low, words32_of(target), words, n, n)


def as_words(low: Lowering, v: Value) -> Tile:
    """Convert integers of up to 32 bits, or bools, to int32."""
    cast = OpBuilder(Region()).cast(v, int32).op
    if cast is None or v.dtype == int32:
        return low.tile(v)
    return low.materialize(compute(low, cast, (low.tile_value(v),), v.shape))


def gather_words(low: Lowering, to: View, source: View, places: View, itemsize: int, begin: int, n: int) -> None:
    """Gather one word of the key at each index."""
    offsets = low.new_tile((round_up(n, _LANES),), int32, "offsets").view
    low.instr("Muls", offsets, places, itemsize, n)
    low.instr("Gather", to, source, as_uint32(offsets), begin, n)


def interleave_words(low: Lowering, to: View, words: View, n: int, size: int) -> None:
    """Interleave first words with second words, which lie `size` words further on."""
    index = index_vector(low, 0, 2 * size, int32)
    offsets = low.new_tile((2 * size,), int32, "offsets").view
    low.instr("ShiftRight", offsets, index, 1, 2 * n)
    low.instr("Muls", offsets, offsets, -2, 2 * n)
    low.instr("Add", offsets, offsets, index, 2 * n)  # 1 for second words, 0 for first ones
    low.instr("Muls", offsets, offsets, 4 * size - 2, 2 * n)
    for _ in range(2):
        low.instr("Add", offsets, offsets, index, 2 * n)
    low.instr("Gather", to, words, as_uint32(offsets), 0, 2 * n)


def sort_by_network(low: Lowering, tile: Tile, result: Tile, size: int) -> None:
    """Sort each row by a bitonic network on the scalar unit."""
    shape, dtype = tile.shape, tile.dtype
    keys = low.new_tile((size,), dtype, "keys")
    with low.loop_nest(shape[:-1]) as row:
        with low.loop("i", shape[-1]) as i:
            low.set_element(keys, (i,), low.element(tile, (*row, i)))
        with low.loop("i", size, shape[-1]) as i:
            low.set_element(keys, (i,), dtype.integer_range[1])
        bitonic_network(low, keys, size)
        with low.loop("i", shape[-1]) as i:
            low.set_element(result, (*row, i), low.element(keys, (i,)))


def bitonic_network(low: Lowering, keys: Tile, size: int) -> None:
    """Emit the network (Batcher, 1968)."""
    block_size = 2
    while block_size <= size:
        distance = block_size // 2
        while distance > 0:
            compare_exchange(low, keys, size, block_size, distance)
            distance //= 2
        block_size *= 2


def compare_exchange(low: Lowering, keys: Tile, size: int, block_size: int, distance: int) -> None:
    """Order pairs at a distance: ascending where the bit `block_size` of their position is 0."""
    with low.loop("g", size // (2 * distance)) as g, low.loop("i", distance) as i:
        position = low.let("at", int64, fold("+", fold("*", g, 2 * distance), i))
        a = low.let("a", keys.dtype, low.element(keys, (position,)))
        b = low.let("b", keys.dtype, low.element(keys, (fold("+", position, distance),)))
        is_ascending = low.let("up", int1, Expr("==", (Expr("&", (position, block_size)), 0)))
        with low.when(Expr("==", (Expr(">", (a, b)), is_ascending))):
            low.set_element(keys, (position,), b)
            low.set_element(keys, (fold("+", position, distance),), a)
