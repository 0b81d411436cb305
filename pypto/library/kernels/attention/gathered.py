# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Sparse attention in two launches: one gathers the selected rows into contiguous memory, one multiplies them.

This is for chips whose matrix cores cannot gather. Each program loads its row of the page table as a tile, so that no
core reads single numbers from memory.
"""

from __future__ import annotations

import math

import pypto as pto
from pypto.ir.types import bfloat16, int32
from pypto.library.binding import empty
from pypto.library.kernels.attention.attention import exponent_of, merge_block, normalized, scale_of
from pypto.library.kernels.attention.window import seen_rows

HEADS = 64
ROWS = 64  # rows that a program gathers
WIDENED_ROWS = 16  # int8 rows that a program gathers; they become float32
BLOCK = 256  # rows in one step of the products
LINE = 256  # alignment of rows in bfloat16 elements: aligned reads are the fastest


@pto.constexpr_function
def exponent(size):
    """Returns the exponent of a power of two."""
    return size.bit_length() - 1


@pto.jit
def places(table: pto.dynamic, b, token, PAGES: pto.constexpr, PAGE: pto.constexpr):
    """Returns the page of each token of a sequence, and the token's row in that page."""
    listed = pto.reshape(pto.load(table, (b, 0), (1, PAGES)), (PAGES,))
    if pto.next_power_of_2(PAGE) == PAGE:
        number, row = token >> exponent(PAGE), token & (PAGE - 1)
    else:
        number, row = token // PAGE, token % PAGE
    return pto.gather(listed, number, 0), row


@pto.jit
def rows_at(cache: pto.dynamic, page, row, seen, WIDTH: pto.constexpr):
    """Loads rows of a paged cache, and zeros for rows that are not seen."""
    at = page.to(pto.int64) * cache.strides[0] + row.to(pto.int64) * cache.strides[1]
    return pto.load(cache + at[:, None] + pto.arange(0, WIDTH)[None, :], mask=seen[:, None], other=0)


@pto.jit
def gather_kernel(
    q_nope, q_rope, keys: pto.dynamic, rope: pto.dynamic, scales: pto.dynamic, topk, table: pto.dynamic, lengths,
    queries, rows, counts, C: pto.constexpr, R: pto.constexpr, K: pto.constexpr, PAGES: pto.constexpr,
    PAGE: pto.constexpr, GROUPS: pto.constexpr, HEADS: pto.constexpr, ROWS: pto.constexpr, BLOCK: pto.constexpr,
):  # fmt: skip
    """Gathers a block of the rows that a token selected, with their rotary part behind them, and some query heads."""
    pto.static_assert(queries.shape[2] == rows.shape[2] >= C + R)
    j, n = pto.program_id(0) * ROWS, pto.program_id(0) * HEADS
    i, b, s1 = pto.program_id(1), pto.program_id(2), pto.num_programs(1)
    t = b * s1 + i
    count = min(max(lengths[b] - s1 + 1 + i, 0), K)
    if j == 0:
        counts[t] = count
    queries[t, n : n + HEADS, 0:C] = q_nope[t, n : n + HEADS, :]
    queries[t, n : n + HEADS, C : C + R] = q_rope[t, n : n + HEADS, :]
    if j < pto.cdiv(count, BLOCK) * BLOCK:
        seen = pto.arange(0, ROWS) < count - j
        token = pto.where(seen, topk[t, j : j + ROWS], 0)
        page, row = places(table, b, token, PAGES, PAGE)
        v = rows_at(keys, page, row, seen, C)
        rows[t, j : j + ROWS, C : C + R] = rows_at(rope, page, row, seen, R)
        if GROUPS > 0:
            factor = rows_at(scales, page, row, seen, GROUPS)
            scaled = pto.reshape(v.to(pto.float32), (ROWS, GROUPS, C // GROUPS)) * factor[:, :, None]
            v = pto.reshape(scaled, (ROWS, C)).to(rows.dtype)
        rows[t, j : j + ROWS, 0:C] = v


@pto.jit
def attention_kernel(
    q, rows, counts, sink, out, scale, C: pto.constexpr, WIDTH: pto.constexpr, BM: pto.constexpr, BK: pto.constexpr
):
    """Attention of a token's heads over its gathered rows, whose first C columns are values; a sink has value zero."""
    h, t = pto.program_id(0) * BM, pto.program_id(1)
    pto.static_assert(rows.shape[2] == q.shape[2] >= WIDTH and out.shape[2] == C)
    count, queries, unit = counts[t], q[t, h : h + BM, 0:WIDTH], exponent_of(scale)
    if sink is not None:
        m = exponent_of(sink[h : h + BM].to(pto.float32))
        total = pto.full((BM,), 1.0, pto.float32)
    else:
        m = pto.full((BM,), -math.inf, pto.float32)
        total = pto.zeros((BM,), pto.float32)
    acc = pto.zeros((BM, C), pto.float32)
    for j in range(0, count, BK):
        s = pto.dot(queries, pto.trans(rows[t, j : j + BK, 0:WIDTH])) * unit
        seen = (pto.arange(0, BK) < count - j)[None, :]
        m, total, acc = merge_block(pto.where(seen, s, -math.inf), rows[t, j : j + BK, 0:C], m, total, acc)
    out[t, h : h + BM, :] = normalized(acc, total).to(out.dtype)


@pto.jit
def window_rows_kernel(
    keys: pto.dynamic, table: pto.dynamic, compressed: pto.dynamic, places_of: pto.dynamic, topk, lengths, spans, rows,
    counts, s1, D: pto.constexpr, WINDOW: pto.constexpr, RATIO: pto.constexpr, K: pto.constexpr, PAGES: pto.constexpr,
    PAGE: pto.constexpr, OLDER: pto.constexpr, CPAGE: pto.constexpr, ROWS: pto.constexpr, BLOCK: pto.constexpr,
):  # fmt: skip
    """Gathers a block of the rows that a token sees: first its sliding window, then compressed rows."""
    j, t = pto.program_id(0) * ROWS, pto.program_id(1)
    b, first, nearby, count = seen_rows(t, compressed, topk, lengths, spans, s1, WINDOW, RATIO, K)
    if j == 0:
        counts[t] = count
    if j < pto.cdiv(count, BLOCK) * BLOCK:
        number = j + pto.arange(0, ROWS)
        recent = number < nearby
        page, row = places(table, b, pto.where(recent, first + number, 0), PAGES, PAGE)
        rows[t, j : j + ROWS, :] = rows_at(keys, page, row, recent, D)
        if compressed is not None and j + ROWS > nearby:
            older = (number >= nearby) & (number < count)
            token = pto.where(older, number - nearby, 0)
            if topk is not None:
                token = pto.load(topk + t * K + token, mask=older, other=0)
            page, row = places(places_of, b, token, OLDER, CPAGE)
            content = rows_at(compressed, page, row, older, D)
            at = number.to(pto.int64) * rows.strides[1]
            pto.store(rows + t * rows.strides[0] + at[:, None] + pto.arange(0, D)[None, :], content, older[:, None])


def padded(n):
    """Rounds rows up to whole steps."""
    return max(1, pto.cdiv(n, BLOCK)) * BLOCK


def attend(queries, rows, counts, sink, scale, width, out):
    """Launches the products: `width` columns of a row are keys, and the first columns, as wide as `out`, are values."""
    t, h, c = out.shape
    bm = min(HEADS, pto.next_power_of_2(h))
    where = pto.cdiv(h, bm), t
    attention_kernel[where](queries, rows, counts, sink, out, scale, C=c, WIDTH=width, BM=bm, BK=BLOCK)


def chosen(q_nope, q_rope, keys, rope, scales, topk, table, lengths, scale, out):
    """Latent attention over the rows that each token selected."""
    (t, h, c), r, (b, p), k = q_nope.shape, q_rope.shape[2], table.shape, topk.shape[1]
    pitch = pto.cdiv(c + r, LINE) * LINE
    rows, queries = empty(q_nope, (t, padded(k), pitch), bfloat16), empty(q_nope, (t, h, pitch), bfloat16)
    counts = empty(q_nope, (t,), int32)
    each = ROWS if scales is None else WIDENED_ROWS
    programs = rows.shape[1] // each
    sizes = {"C": c, "R": r, "K": k, "PAGES": pto.next_power_of_2(p), "PAGE": keys.shape[1], "ROWS": each}
    sizes |= {"GROUPS": 0 if scales is None else scales.shape[2], "HEADS": pto.cdiv(h, programs), "BLOCK": BLOCK}
    gather_kernel[programs, t // b, b](
        q_nope, q_rope, keys, rope, scales, topk, table, lengths, queries, rows, counts, **sizes
    )
    attend(queries, rows, counts, None, scale_of(scale, c + r), c + r, out)


def sparse_attention(q_nope, q_rope, keys, rope, topk, table, lengths, scale, out):
    """Sparse attention over rows in the dtype of the queries."""
    chosen(q_nope, q_rope, keys, rope, None, topk, table, lengths, scale, out)


def sparse_attention_quant(q_nope, q_rope, keys, rope, scales, topk, table, lengths, scale, out):
    """Sparse attention over int8 rows with a scale for each group of columns."""
    chosen(q_nope, q_rope, keys, rope, scales, topk, table, lengths, scale, out)


def recent(q, keys, table, compressed, places_of, topk, lengths, spans, sink, ratio, window, scale, out):
    """Attention over the sliding window of a token and over compressed rows."""
    t, _, d = q.shape
    k = 0 if topk is None else topk.shape[1]
    older = 0 if compressed is None else k or places_of.shape[1] * compressed.shape[1]
    rows, counts = empty(q, (t, padded(window + older), d), bfloat16), empty(q, (t,), int32)
    sizes = {"D": d, "WINDOW": window, "RATIO": ratio, "K": k, "PAGES": pto.next_power_of_2(table.shape[1])}
    sizes |= {"PAGE": keys.shape[1], "CPAGE": 0 if compressed is None else compressed.shape[1]}
    sizes |= {"OLDER": 0 if compressed is None else pto.next_power_of_2(places_of.shape[1]), "ROWS": ROWS}
    window_rows_kernel[(rows.shape[1] // ROWS, t)](
        keys, table, compressed, places_of, topk, lengths, spans, rows, counts, t // lengths.shape[0], BLOCK=BLOCK,
        **sizes,
    )  # fmt: skip
    attend(q, rows, counts, sink, scale_of(scale, d), d, out)
