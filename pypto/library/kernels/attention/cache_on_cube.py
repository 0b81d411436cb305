# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Attention over an int8 cache for matrix units without int8 attention: each code becomes a 16-bit float once.

All heads share the converted codes, which 16-bit floats hold exactly. Key scales are folded into the queries, and value
scales into the values. Float32 queries use the kernel of `cache` instead.
"""

from __future__ import annotations

import math

import pypto as pto
from pypto.ir.types import bfloat16, float16, float32
from pypto.library.binding import empty
from pypto.library.kernels.attention import cache
from pypto.library.kernels.attention.attention import attention_kernel, combine, merge_block, no_keys, scale_of

BLOCK = 128
KEYS = 256  # keys of one step, for a single query
ROWS = 64  # rows that a program converts


@pto.jit
def widen_kernel(codes, scale, floats, ROWS: pto.constexpr):
    """Converts rows of codes to floats, and multiplies each row by its scale if there is one."""
    i = pto.program_id(0) * ROWS
    t = codes[i : i + ROWS, :].to(pto.float32)
    if scale is not None:
        t = t * scale[i : i + ROWS][:, None]
    floats[i : i + ROWS, :] = t.to(floats.dtype)


@pto.jit
def one_query_kernel(q, k, v, part, sums, D: pto.constexpr, DV: pto.constexpr, GROUP: pto.constexpr, BN: pto.constexpr):
    """Computes one split of a sequence's keys for the query heads that share a key head."""
    split, g, b = pto.program_id(0), pto.program_id(1), pto.program_id(2)
    keys = k.shape[2]
    each = pto.cdiv(pto.cdiv(keys, BN), pto.num_programs(0)) * BN
    queries = q[b, g * GROUP : g * GROUP + GROUP, :]
    m, total, acc = no_keys(GROUP, DV)
    for j in range(split * each, min(split * each + each, keys), BN):
        s = pto.dot(queries, pto.trans(k[b, g, j : j + BN, :]))
        seen = (j + pto.arange(0, BN) < keys)[None, :]
        m, total, acc = merge_block(pto.where(seen, s, -math.inf), v[b, g, j : j + BN, :], m, total, acc)
    part[b, g, split, :, :] = acc
    sums[b, g, split, 0, :] = m
    sums[b, g, split, 1, :] = total


def widened(codes, scale, dtype):
    """Returns codes as floats of a dtype."""
    floats, width = empty(codes, tuple(codes.shape), dtype), codes.shape[3]
    rows, scale = codes.reshape(-1, width), None if scale is None else scale.reshape(-1)
    widen_kernel[(pto.cdiv(rows.shape[0], ROWS),)](rows, scale, floats.reshape(-1, width), ROWS=ROWS)
    return floats


def attention_int8_cache(q, k, key_scale, v, value_scale, scale, causal, out):
    """out = softmax(q kᵀ scale) v with keys and values as codes; with causal, queries are the last of the keys."""
    if "float32" in str(q.dtype):
        cache.attention_int8_cache(q, k, key_scale, v, value_scale, scale, causal, out)
        return
    (batch, heads, n, d), (_, groups, keys, dv) = q.shape, v.shape
    group, dtype = heads // groups, bfloat16 if "bfloat16" in str(q.dtype) else float16
    scaled, rows = empty(q, tuple(q.shape), dtype), min(BLOCK, pto.next_power_of_2(n))
    where = (pto.cdiv(n, rows), heads, batch)
    cache.scale_queries_kernel[where](q, key_scale, scaled, scale_of(scale, d), GROUP=group, BM=rows)
    wide_k, wide_v = widened(k, None, dtype), widened(v, value_scale, dtype)
    if n > 1:
        sizes = {"DV": dv, "GROUP": group, "CAUSAL": bool(causal), "BM": BLOCK, "BN": BLOCK}
        attention_kernel[pto.cdiv(n, BLOCK), heads, batch](scaled, wide_k, wide_v, out, n, keys, 1.0, **sizes)
        return
    splits = max(1, min(pto.target.cube_cores // (groups * batch), pto.cdiv(keys, KEYS)))
    part = empty(q, (batch, groups, splits, group, dv), float32)
    sums = empty(q, (batch, groups, splits, 2, group), float32)
    sizes = {"D": d, "DV": dv, "GROUP": group, "BN": KEYS}
    one_query_kernel[splits, groups, batch](scaled.reshape(batch, heads, d), wide_k, wide_v, part, sums, **sizes)
    combine(part, sums, out.reshape(batch, heads, dv))
