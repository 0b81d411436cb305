# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Flash attention whose scores are masked, biased, capped or windowed, with sinks and padding on the left."""

from __future__ import annotations

import math

import pypto as pto
from pypto.library.kernels.attention.attention import attention, exponent_of, merge_block, normalized, power, scale_of

BLOCK = 128


@pto.jit
def block_of(x, b, h, i, j, BM: pto.constexpr, BN: pto.constexpr, SHARED: pto.constexpr):
    """Loads the block of a mask or bias; batches, heads and, if SHARED, queries with one element share it."""
    b, h = b % x.shape[0], h % x.shape[1]
    if SHARED:
        return x[b, h, 0, j : j + BN][None, :]
    return x[b, h, i : i + BM, j : j + BN]


@pto.jit
def seen_keys(
    rows, columns, keys, offset, window, first, CAUSAL: pto.constexpr, WINDOWED: pto.constexpr, PADDED: pto.constexpr
):
    """Returns which keys of a block each query sees by their positions."""
    seen = columns[None, :] < keys
    if CAUSAL:
        seen = seen & (columns[None, :] <= rows[:, None] + offset)
    if WINDOWED:
        seen = seen & (columns[None, :] > rows[:, None] + (offset - window))
    if PADDED:
        seen = seen & (columns[None, :] >= first)
    return seen


@pto.jit
def masked_attention_kernel(
    q, k, v, bias, mask, first, sinks, out, n, keys, scale, cap, window,
    DV: pto.constexpr, GROUP: pto.constexpr, CAUSAL: pto.constexpr, BIAS: pto.constexpr, MASK: pto.constexpr,
    PADDED: pto.constexpr, SINKS: pto.constexpr, CAPPED: pto.constexpr, WINDOWED: pto.constexpr, BM: pto.constexpr,
    BN: pto.constexpr,
):  # fmt: skip
    """Computes a block of queries of one head; blocks of keys that no query sees by its position are skipped.

    BIAS and MASK are 0 without one, 1 with one for each query, and 2 with one that all queries share.
    """
    i, h, b = pto.program_id(0) * BM, pto.program_id(1), pto.program_id(2)
    g, offset = h // GROUP, keys - n
    base = exponent_of(1.0)
    unit = scale if CAPPED else exponent_of(scale)
    queries = q[b, h, i : i + BM, :]
    rows = i + pto.arange(0, BM)
    m = pto.full((BM,), -math.inf, pto.float32)
    total = pto.zeros((BM,), pto.float32)
    acc = pto.zeros((BM, DV), pto.float32)
    padding = first[b] if PADDED else 0
    begin = max(padding, i + offset - window + 1) if WINDOWED else padding
    end = min(keys, max(i + BM + offset, 0)) if CAUSAL else keys
    for j in range(max(begin, 0) // BN * BN, end, BN):
        values = v[b, g, j : j + BN, :]
        s = pto.dot(queries, pto.trans(k[b, g, j : j + BN, :])) * unit
        if CAPPED:
            s = pto.tanh(s / cap) * (cap * base)
        seen = seen_keys(rows, j + pto.arange(0, BN), keys, offset, window, padding, CAUSAL, WINDOWED, PADDED)
        if MASK > 0:
            seen = seen & (block_of(mask, b, h, i, j, BM, BN, MASK == 2) != 0)
        if BIAS > 0:
            s = s + block_of(bias, b, h, i, j, BM, BN, BIAS == 2).to(pto.float32) * base
        m, total, acc = merge_block(pto.where(seen, s, -math.inf), values, m, total, acc)
    if SINKS:
        sink = sinks[h].to(pto.float32) * base
        new = pto.maximum(m, sink)
        factor = power(m - new)
        total = total * factor + power(sink - new)
        acc = acc * factor[:, None]
    out[b, h, i : i + BM, :] = normalized(acc, total).to(out.dtype)


def rows_of(x):
    """Says how queries use a mask or bias: 0 without one, 2 if all share it."""
    return 0 if x is None else 2 if x.shape[2] == 1 else 1


def masked_attention(q, k, v, scale, causal, bias, mask, first, sinks, window, softcap, out):
    """Attention with masks, biases and sinks; without any of them, the kernel that knows none."""
    if softcap == 0 and not window and all(x is None for x in (bias, mask, first, sinks)):
        attention(q, k, v, scale, causal, out)
        return
    batch, heads, n, d = q.shape
    flags = {"BIAS": rows_of(bias), "MASK": rows_of(mask), "PADDED": first is not None, "SINKS": sinks is not None}
    flags |= {"CAUSAL": bool(causal), "CAPPED": softcap != 0, "WINDOWED": bool(window)}
    sizes = {"DV": v.shape[3], "GROUP": heads // k.shape[1], "BM": BLOCK, "BN": BLOCK}
    given = [q if x is None else x for x in (bias, mask, first, sinks)]  # a kernel reads those that its flags name
    where = (pto.cdiv(n, BLOCK), heads, batch)
    masked_attention_kernel[where](
        q, k, v, *given, out, n, k.shape[2], scale_of(scale, d), float(softcap), window, **sizes, **flags
    )
