# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Flash attention computes the online softmax in one pass over blocks of keys; sequence lengths are run-time values."""

from __future__ import annotations

import math

import pypto as pto
from pypto.ir.types import float32
from pypto.library.binding import empty

LOG2E = math.log2(math.e)


@pto.jit
def power(x):
    """Returns 2 ** x, or e ** x on targets that compute it in fewer instructions."""
    return pto.exp2(x) if pto.target.has_exp2 else pto.exp(x)


@pto.jit
def exponent_of(scores):
    """Scales scores to exponents of `power`, so that its results are e ** scores."""
    return scores * LOG2E if pto.target.has_exp2 else scores


@pto.jit
def merge_block(s, v, m, total, acc):
    """Updates the running maximum, sum and result of the online softmax with a block of scores and values."""
    new = pto.maximum(m, pto.max(s, axis=1))
    base = pto.where(new > -math.inf, new, 0.0)
    p = power(s - base[:, None])
    scale = power(m - base)
    acc = pto.dot(p.to(v.dtype), v, acc * scale[:, None])
    return new, total * scale + pto.sum(p, axis=1), acc


@pto.jit
def no_keys(BM: pto.constexpr, DV: pto.constexpr):
    """Returns maximum, sum and result of the online softmax before its first block."""
    return pto.full((BM,), -math.inf, pto.float32), pto.zeros((BM,), pto.float32), pto.zeros((BM, DV), pto.float32)


@pto.jit
def normalized(acc, total):
    """Divides the result by its sum; the largest score adds 1 to the sum, so it is below 1 only without keys."""
    return acc * (1 / pto.maximum(total, 1.0))[:, None]


@pto.jit
def attention_kernel(
    q, k, v, out, n, keys, scale, DV: pto.constexpr,
    GROUP: pto.constexpr, CAUSAL: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr,
):  # fmt: skip
    i, h, b = pto.program_id(0) * BM, pto.program_id(1), pto.program_id(2)
    g, offset, unit = h // GROUP, keys - n, exponent_of(scale)
    queries = q[b, h, i : i + BM, :]
    rows = i + pto.arange(0, BM)
    m, total, acc = no_keys(BM, DV)
    end = min(keys, max(i + BM + offset, 0)) if CAUSAL else keys
    for j in range(0, end, BN):
        values = v[b, g, j : j + BN, :]
        s = pto.dot(queries, pto.trans(k[b, g, j : j + BN, :])) * unit
        columns = j + pto.arange(0, BN)
        seen = columns[None, :] < keys
        if CAUSAL:
            seen = seen & (columns[None, :] <= rows[:, None] + offset)
        m, total, acc = merge_block(pto.where(seen, s, -math.inf), values, m, total, acc)
    out[b, h, i : i + BM, :] = normalized(acc, total).to(out.dtype)


@pto.jit
def rows_of_page(cache: pto.dynamic, page, g, count, PAGE: pto.constexpr, WIDTH: pto.constexpr):
    """Loads the first `count` rows of a page for one key head, and zeros behind them."""
    rows = pto.arange(0, PAGE)
    at = page.to(pto.int64) * cache.strides[0] + g * cache.strides[2] + rows * cache.strides[1]
    return pto.load(cache + at[:, None] + pto.arange(0, WIDTH)[None, :], mask=(rows < count)[:, None], other=0)


@pto.jit
def paged_rows_kernel(
    q, keys: pto.dynamic, values: pto.dynamic, table: pto.dynamic, lengths, part, sums, scale,
    D: pto.constexpr, DV: pto.constexpr, GROUP: pto.constexpr, PAGE: pto.constexpr,
):  # fmt: skip
    """Computes one split of a sequence's pages for the query heads that share a key head.

    A mask on the load limits the rows, because a matrix unit loads them itself. A mask on a loaded tile would send the
    tile through the vector cores first.
    """
    split, g, b = pto.program_id(0), pto.program_id(1), pto.program_id(2)
    length, splits, unit = lengths[b], pto.num_programs(0), exponent_of(scale)
    pages = pto.cdiv(length, PAGE)
    each = pto.cdiv(pages, splits)
    queries = q[b, g * GROUP : g * GROUP + GROUP, :]
    m, total, acc = no_keys(GROUP, DV)
    first = split * each
    for i in range(0, min(each, pages - first)):
        page, count = table[b, first + i], length - (first + i) * PAGE
        s = pto.dot(queries, pto.trans(rows_of_page(keys, page, g, count, PAGE, D))) * unit
        seen = pto.arange(0, PAGE) < count
        content = rows_of_page(values, page, g, count, PAGE, DV)
        m, total, acc = merge_block(pto.where(seen[None, :], s, -math.inf), content, m, total, acc)
    part[b, g, split, :, :] = acc
    sums[b, g, split, 0, :] = m
    sums[b, g, split, 1, :] = total


@pto.jit
def head_of_page(
    q, keys, values, part, sums, b, split, page, g, rows, unit,
    GROUP: pto.constexpr, PAGE: pto.constexpr, MASKED: pto.constexpr,
):  # fmt: skip
    """Processes one page for the query heads of one key head; with MASKED, only the first `rows` rows count."""
    D, DV = q.shape[2], part.shape[4]
    block = pto.reshape(pto.load(keys, (page, 0, g, 0), (1, PAGE, 1, D)), (PAGE, D))
    content = pto.reshape(pto.load(values, (page, 0, g, 0), (1, PAGE, 1, DV)), (PAGE, DV))
    s = pto.dot(q[b, g * GROUP : g * GROUP + GROUP, :], pto.trans(block)) * unit
    if MASKED:
        seen = pto.arange(0, PAGE) < rows
        content = pto.where(seen[:, None], content, pto.zeros_like(content))
        s = pto.where(seen[None, :], s, -math.inf)
    m, total, acc = sums[b, g, split, 0, :], sums[b, g, split, 1, :], part[b, g, split, :, :]
    m, total, acc = merge_block(s, content, m, total, acc)
    part[b, g, split, :, :] = acc
    sums[b, g, split, 0, :] = m
    sums[b, g, split, 1, :] = total


@pto.jit
def paged_stream_kernel(
    q, keys: pto.dynamic, values: pto.dynamic, table: pto.dynamic, lengths, part, sums, scale,
    G: pto.constexpr, DV: pto.constexpr, GROUP: pto.constexpr, PAGE: pto.constexpr,
):  # fmt: skip
    """Computes one split of a sequence's pages for all heads, so that a page is read once, as contiguous memory.

    The running softmax of each head is kept in `part` and `sums`, which stay in the processor's cache.
    """
    split, b = pto.program_id(0), pto.program_id(1)
    length, splits, unit = lengths[b], pto.num_programs(0), exponent_of(scale)
    pages = pto.cdiv(length, PAGE)
    each = pto.cdiv(pages, splits)
    for g in range(G):
        part[b, g, split, :, :] = pto.zeros((GROUP, DV), pto.float32)
        sums[b, g, split, 0, :] = pto.full((GROUP,), -math.inf, pto.float32)
        sums[b, g, split, 1, :] = pto.zeros((GROUP,), pto.float32)
    last = min(split * each + each, pages)
    filled = min(last, length // PAGE)
    for p in range(split * each, filled):
        for g in range(G):
            head_of_page(q, keys, values, part, sums, b, split, table[b, p], g, PAGE, unit, GROUP, PAGE, False)
    for p in range(max(filled, split * each), last):
        for g in range(G):
            rows = length - p * PAGE
            head_of_page(q, keys, values, part, sums, b, split, table[b, p], g, rows, unit, GROUP, PAGE, True)


@pto.jit
def combine_kernel(part, sums, out, SPLITS: pto.constexpr, GROUP: pto.constexpr, DV: pto.constexpr):
    """Combines the splits of a sequence (split-KV): rescales their partial softmaxes to one maximum and adds them."""
    g, b = pto.program_id(0), pto.program_id(1)
    m = pto.full((GROUP,), -math.inf, pto.float32)
    for split in range(SPLITS):
        m = pto.maximum(m, sums[b, g, split, 0, :])
    base = pto.where(m > -math.inf, m, 0.0)
    total = pto.zeros((GROUP,), pto.float32)
    acc = pto.zeros((GROUP, DV), pto.float32)
    for split in range(SPLITS):
        scale = power(sums[b, g, split, 0, :] - base)
        total = total + sums[b, g, split, 1, :] * scale
        acc = acc + part[b, g, split, :, :] * scale[:, None]
    out[b, g * GROUP : g * GROUP + GROUP, :] = normalized(acc, total).to(out.dtype)


def scale_of(scale, d):
    """Returns the factor of scores; 0 stands for that of the model."""
    return scale or 1 / math.sqrt(d)


def attention(q, k, v, scale, causal, out):
    """out = softmax(q kᵀ scale) v; with causal, queries are the last of the keys."""
    batch, heads, n, d = q.shape
    sizes = {"DV": v.shape[3], "GROUP": heads // k.shape[1], "CAUSAL": bool(causal), "BM": 128, "BN": 128}
    attention_kernel[(pto.cdiv(n, 128), heads, batch)](q, k, v, out, n, k.shape[2], scale_of(scale, d), **sizes)


def paged_parts(q, keys, values, splits):
    """Allocates partial results, maxima and sums for all splits and heads, and returns the sizes of the kernel."""
    batch, heads, _ = q.shape
    groups, dv = keys.shape[2], values.shape[3]
    part = empty(q, (batch, groups, splits, heads // groups, dv), float32)
    sums = empty(q, (batch, groups, splits, 2, heads // groups), float32)
    return part, sums, {"DV": dv, "GROUP": heads // groups, "PAGE": keys.shape[1]}


def combine(part, sums, out):
    """Combines the splits of every sequence and head."""
    batch, groups, splits, group, dv = part.shape
    combine_kernel[(groups, batch)](part, sums, out, SPLITS=splits, GROUP=group, DV=dv)


def paged_attention(q, keys, values, table, lengths, scale, splits, out):
    """Paged attention of one query for each sequence; a program serves one key head."""
    part, sums, sizes = paged_parts(q, keys, values, splits)
    batch, _, d = q.shape
    where = splits, keys.shape[2], batch
    paged_rows_kernel[where](q, keys, values, table, lengths, part, sums, scale_of(scale, d), D=d, **sizes)
    combine(part, sums, out)


def paged_attention_by_pages(q, keys, values, table, lengths, scale, splits, out):
    """Paged attention in which a program serves all heads; it suits memory that is fast for contiguous reads."""
    part, sums, sizes = paged_parts(q, keys, values, splits)
    scale, where = scale_of(scale, q.shape[2]), (splits, q.shape[0])
    paged_stream_kernel[where](q, keys, values, table, lengths, part, sums, scale, G=keys.shape[2], **sizes)
    combine(part, sums, out)
