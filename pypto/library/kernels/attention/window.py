# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Sliding-window attention over a paged cache and a compressed one, with an attention sink for each head."""

from __future__ import annotations

import math

import pypto as pto
from pypto.ir.types import int32
from pypto.library.binding import empty
from pypto.library.kernels.attention.attention import exponent_of, merge_block, normalized, scale_of

HEADS = 64
ROWS = 64
SEQUENCES = 64


@pto.jit
def spans_kernel(starts: pto.dynamic, lengths, spans, n, BLOCK: pto.constexpr):
    """Finds the sequence of a token, and how many rows of its pages the token sees."""
    t = pto.program_id(0)
    b = 0
    for j in range(0, n, BLOCK):
        numbers = j + pto.arange(0, BLOCK)
        ends = pto.load(starts + 1 + numbers, mask=numbers < n, other=2147483647)
        b += pto.sum((ends <= t).to(pto.int32))
    spans[t, 0] = b
    spans[t, 1] = lengths[b] - starts[b + 1] + t + 1


@pto.jit
def rows_of(cache: pto.dynamic, table: pto.dynamic, b, token, seen, D: pto.constexpr):
    """Loads rows of a paged cache, which are keys and values at once."""
    page_rows = cache.shape[1]
    page = pto.load(table + b * table.strides[0] + token // page_rows, mask=seen, other=0).to(pto.int64)
    at = page * cache.strides[0] + token % page_rows * cache.strides[1]
    return pto.load(cache + at[:, None] + pto.arange(0, D)[None, :], mask=seen[:, None], other=0)


@pto.jit
def seen_rows(
    t, compressed: pto.dynamic, topk, lengths, spans, s1, WINDOW: pto.constexpr, RATIO: pto.constexpr,
    K: pto.constexpr,
):  # fmt: skip
    """Returns the sequence of a token, the first row and size of its window, and the number of all seen rows."""
    if spans is not None:
        b, end = spans[t, 0], spans[t, 1]
    else:
        b = t // s1
        end = lengths[b] - (s1 - 1 - t % s1)
    first = max(end - WINDOW, 0)
    nearby = max(end, 0) - first
    count = nearby
    if topk is not None:
        count += min(max(lengths[b] // RATIO - (s1 - 1 - t % s1), 0), K)
    elif compressed is not None:
        count += max(end, 0) // RATIO
    return b, first, nearby, count


@pto.jit
def merge_rows(queries, rows, seen, unit, m, total, acc):
    """Updates the running softmax with rows that are keys and values at once."""
    s = pto.dot(queries, pto.trans(rows)) * unit
    return merge_block(pto.where(seen[None, :], s, -math.inf), rows, m, total, acc)


@pto.jit
def window_kernel(
    q, keys: pto.dynamic, table: pto.dynamic, compressed: pto.dynamic, places: pto.dynamic, topk, lengths, spans, sink,
    out, s1, scale, D: pto.constexpr, WINDOW: pto.constexpr, RATIO: pto.constexpr, K: pto.constexpr,
    BM: pto.constexpr, BK: pto.constexpr,
):  # fmt: skip
    """Computes attention with a sink, a score whose value is zero, which starts the running maximum and sum."""
    h, t = pto.program_id(0) * BM, pto.program_id(1)
    b, first, nearby, count = seen_rows(t, compressed, topk, lengths, spans, s1, WINDOW, RATIO, K)
    queries, unit = q[t, h : h + BM, :], exponent_of(scale)
    m = exponent_of(sink[h : h + BM])
    total = pto.full((BM,), 1.0, pto.float32)
    acc = pto.zeros((BM, D), pto.float32)
    for j in range(0, nearby, BK):
        seen = j + pto.arange(0, BK) < nearby
        rows = rows_of(keys, table, b, first + j + pto.arange(0, BK), seen, D)
        m, total, acc = merge_rows(queries, rows, seen, unit, m, total, acc)
    if compressed is not None:
        for j in range(0, count - nearby, BK):
            token = j + pto.arange(0, BK)
            seen = token < count - nearby
            if topk is not None:
                token = pto.load(topk + t * K + token, mask=seen, other=0)
            rows = rows_of(compressed, places, b, token, seen, D)
            m, total, acc = merge_rows(queries, rows, seen, unit, m, total, acc)
    out[t, h : h + BM, :] = normalized(acc, total).to(out.dtype)


def launch(q, keys, table, compressed, places, topk, lengths, spans, sink, ratio, window, scale, out):
    t, h, d = q.shape
    bm = min(HEADS, pto.next_power_of_2(h))
    sizes = {"D": d, "WINDOW": window, "RATIO": ratio, "K": 0 if topk is None else topk.shape[1]}
    window_kernel[(pto.cdiv(h, bm), t)](
        q, keys, table, compressed, places, topk, lengths, spans, sink, out, t // lengths.shape[0],
        scale_of(scale, d), BM=bm, BK=ROWS, **sizes,
    )  # fmt: skip


def window_attention(q, keys, table, lengths, starts, sink, window, scale, out, attend=launch):
    """Sliding-window attention of ragged sequences."""
    spans = empty(q, (q.shape[0], 2), int32)
    spans_kernel[(q.shape[0],)](starts, lengths, spans, lengths.shape[0], BLOCK=SEQUENCES)
    attend(q, keys, table, None, None, None, lengths, spans, sink, 1, window, scale, out)


def compressed_attention(q, keys, compressed, table, places, lengths, sink, ratio, window, scale, out, attend=launch):
    """Attention over the sliding window and all compressed rows that end before a token."""
    attend(q, keys, table, compressed, places, None, lengths, None, sink, ratio, window, scale, out)


def sparse_compressed_attention(
    q, keys, compressed, table, places, topk, lengths, sink, ratio, window, scale, out, attend=launch
):
    """Attention over the sliding window and the compressed rows that were selected."""
    attend(q, keys, table, compressed, places, topk, lengths, None, sink, ratio, window, scale, out)
