# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Flash attention over an int8 cache converts codes to floats in registers and folds key scales into the queries."""

from __future__ import annotations

import math

import pypto as pto
from pypto.ir.types import float32
from pypto.library.binding import empty
from pypto.library.kernels.attention.attention import exponent_of, merge_block, no_keys, normalized, scale_of

BLOCK = 128


@pto.jit
def scale_queries_kernel(q, key_scale, scaled, scale, GROUP: pto.constexpr, BM: pto.constexpr):
    """Multiplies the queries by the key scales of their channels and by the scale of the scores."""
    i, h, b = pto.program_id(0) * BM, pto.program_id(1), pto.program_id(2)
    factors = key_scale[h // GROUP, :] * exponent_of(scale)
    scaled[b, h, i : i + BM, :] = (q[b, h, i : i + BM, :].to(pto.float32) * factors[None, :]).to(scaled.dtype)


@pto.jit
def attention_int8_cache_kernel(
    q, k, v, value_scale, out, n, keys, DV: pto.constexpr,
    GROUP: pto.constexpr, CAUSAL: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr,
):  # fmt: skip
    i, h, b = pto.program_id(0) * BM, pto.program_id(1), pto.program_id(2)
    g, offset = h // GROUP, keys - n
    queries = q[b, h, i : i + BM, :]
    rows = i + pto.arange(0, BM)
    m, total, acc = no_keys(BM, DV)
    end = min(keys, max(i + BM + offset, 0)) if CAUSAL else keys
    for j in range(0, end, BN):
        columns = j + pto.arange(0, BN)
        values = v[b, g, j : j + BN, :].to(pto.float32) * value_scale[b, g, j : j + BN][:, None]
        s = pto.dot(queries, pto.trans(k[b, g, j : j + BN, :].to(pto.float32)))
        seen = columns[None, :] < keys
        if CAUSAL:
            seen = seen & (columns[None, :] <= rows[:, None] + offset)
        m, total, acc = merge_block(pto.where(seen, s, -math.inf), values, m, total, acc)
    out[b, h, i : i + BM, :] = normalized(acc, total).to(out.dtype)


def attention_int8_cache(q, k, key_scale, v, value_scale, scale, causal, out):
    """out = softmax(q kᵀ scale) v with keys and values as codes; with causal, queries are the last of the keys."""
    batch, heads, n, d = q.shape
    rows = 1 if n == 1 else BLOCK
    sizes = {"GROUP": heads // k.shape[1], "BM": rows}
    where = (pto.cdiv(n, rows), heads, batch)
    scaled = empty(q, q.shape, float32)
    scale_queries_kernel[where](q, key_scale, scaled, scale_of(scale, d), **sizes)
    sizes |= {"DV": v.shape[3], "CAUSAL": bool(causal), "BN": BLOCK}
    attention_int8_cache_kernel[where](scaled, k, v, value_scale, out, n, k.shape[2], **sizes)
