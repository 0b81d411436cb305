# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Sparse attention over the rows of a paged cache that each token selected."""

from __future__ import annotations

import math

import pypto as pto
from pypto.library.kernels.attention.attention import exponent_of, merge_block, no_keys, normalized, scale_of

HEADS = 128
ROWS = 64


@pto.jit
def sparse_kernel(
    q_nope, q_rope, keys: pto.dynamic, rope: pto.dynamic, scales: pto.dynamic, topk, table: pto.dynamic, lengths, out,
    s1, scale, C: pto.constexpr, R: pto.constexpr, K: pto.constexpr, PAGE: pto.constexpr, GROUPS: pto.constexpr,
    BM: pto.constexpr, BK: pto.constexpr,
):  # fmt: skip
    """Gathers the selected rows block by block; int8 rows are multiplied by the scales of their groups."""
    h, t = pto.program_id(0) * BM, pto.program_id(1)
    b, unit = t // s1, exponent_of(scale)
    count = min(max(lengths[b] - s1 + 1 + t % s1, 0), K)
    nope, rotary = q_nope[t, h : h + BM, :], q_rope[t, h : h + BM, :]
    columns, more = pto.arange(0, C), pto.arange(0, R)
    m, total, acc = no_keys(BM, C)
    for j in range(0, count, BK):
        numbers = j + pto.arange(0, BK)
        seen = numbers < count
        token = pto.load(topk + t * K + numbers, mask=seen, other=0)
        page = pto.load(table + b * table.strides[0] + token // PAGE, mask=seen, other=0).to(pto.int64)
        at = page * keys.strides[0] + token % PAGE * keys.strides[1]
        v = pto.load(keys + at[:, None] + columns[None, :], mask=seen[:, None], other=0)
        if GROUPS > 0:
            groups = pto.arange(0, GROUPS)
            first = page * scales.strides[0] + token % PAGE * scales.strides[1]
            factor = pto.load(scales + first[:, None] + groups[None, :], mask=seen[:, None], other=0.0)
            scaled = pto.reshape(v.to(pto.float32), (BK, GROUPS, C // GROUPS)) * factor[:, :, None]
            v = pto.reshape(scaled, (BK, C)).to(q_nope.dtype)
        beside = page * rope.strides[0] + token % PAGE * rope.strides[1]
        k = pto.load(rope + beside[:, None] + more[None, :], mask=seen[:, None], other=0)
        s = pto.dot(rotary, pto.trans(k), pto.dot(nope, pto.trans(v))) * unit
        m, total, acc = merge_block(pto.where(seen[None, :], s, -math.inf), v, m, total, acc)
    out[t, h : h + BM, :] = normalized(acc, total).to(out.dtype)


def launch(q_nope, q_rope, keys, rope, scales, topk, table, lengths, scale, out):
    t, h, c = q_nope.shape
    r = q_rope.shape[2]
    bm = min(HEADS, pto.next_power_of_2(h))
    sizes = {"C": c, "R": r, "K": topk.shape[1], "PAGE": keys.shape[1], "BM": bm, "BK": ROWS}
    groups = 0 if scales is None else scales.shape[2]
    s1 = t // lengths.shape[0]
    sparse_kernel[(pto.cdiv(h, bm), t)](
        q_nope,
        q_rope,
        keys,
        rope,
        scales,
        topk,
        table,
        lengths,
        out,
        s1,
        scale_of(scale, c + r),
        GROUPS=groups,
        **sizes,
    )


def sparse_attention(q_nope, q_rope, keys, rope, topk, table, lengths, scale, out):
    """Sparse attention over rows in the dtype of the queries."""
    launch(q_nope, q_rope, keys, rope, None, topk, table, lengths, scale, out)


def sparse_attention_quant(q_nope, q_rope, keys, rope, scales, topk, table, lengths, scale, out):
    """Sparse attention over int8 rows with a scale for each group of columns."""
    launch(q_nope, q_rope, keys, rope, scales, topk, table, lengths, scale, out)
