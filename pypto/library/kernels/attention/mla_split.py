# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Split-K projections of multi-head latent attention in four launches, so that all cores read weights.

Few tokens give few output tiles, so the first products are split along K. The launch that normalises rows adds the
partial sums. A program of the last launch computes one head: a product gives its latent query, and the rotary part is
computed beside it.
"""

from __future__ import annotations

import pypto as pto
from pypto.ir.types import bfloat16, float32
from pypto.library.binding import empty
from pypto.library.kernels.attention.paged import INDICES, is_last_write
from pypto.library.kernels.attention.rope import pairs
from pypto.library.kernels.norms import rms_norm_tile
from pypto.library.kernels.products import matmul_kernel, w8a8_kernel
from pypto.library.kernels.quantized.quant import quantize_row, quantize_tile

SPLITS = 8
COLUMNS = 256
DEPTH = 128


@pto.jit
def down_kernel(
    x, w_q, w_kv, part_q, part_kv, BLOCKS: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr
):
    """Multiplies a span of K for both down-projections: the first BLOCKS programs of a row are queries, others keys."""
    i, j, s = pto.program_id(0) * BM, pto.program_id(1), pto.program_id(2)
    pto.static_assert(x.shape[2] == w_q.shape[1] == w_kv.shape[1])
    pto.static_assert(part_q.shape[2] == w_q.shape[2] and part_kv.shape[2] == w_kv.shape[2])
    acc = pto.zeros((BM, BN), pto.float32)
    if j < BLOCKS:
        n = j * BN
        for k in range(0, x.shape[2], BK):
            acc = pto.dot(x[i : i + BM, s, k : k + BK], w_q[s, k : k + BK, n : n + BN], acc)
        part_q[s, i : i + BM, n : n + BN] = acc
    else:
        n = (j - BLOCKS) * BN
        for k in range(0, x.shape[2], BK):
            acc = pto.dot(x[i : i + BM, s, k : k + BK], w_kv[s, k : k + BK, n : n + BN], acc)
        part_kv[s, i : i + BM, n : n + BN] = acc


@pto.jit
def turned_halves(rows, c, s):
    """Applies rotary embedding to interleaved pairs, and stores the pairs as halves of a row."""
    n, r = rows.shape
    first = (pto.arange(0, r) < r // 2)[None, :]
    a, b = pairs(rows)
    a = pto.reshape(pto.broadcast_to(a[:, None, :], (n, 2, r // 2)), (n, r))
    b = pto.reshape(pto.broadcast_to(b[:, None, :], (n, 2, r // 2)), (n, r))
    return pto.where(first, a, b) * c + pto.where(first, -b, a) * s


@pto.jit
def rows_kernel(
    part_q, part_kv, g_cq, g_ckv, cos, sin, smooth, index: pto.dynamic, qn, qs, kv_cache, kr_cache, kv_scale, eps,
    C: pto.constexpr, GROUPS: pto.constexpr, BLOCK: pto.constexpr,
):  # fmt: skip
    """Normalises a token's rows and stores them in both caches, unless a later token writes the same row.

    All loads come first, so that their copies run in parallel.
    """
    t, r = pto.program_id(0), cos.shape[1]
    pto.static_assert(part_kv.shape[2] == C + r and sin.shape[1] == kr_cache.shape[1] == r and kv_cache.shape[1] == C)
    parts, latents, keys = part_q[:, t, :], part_kv[:, t, 0:C], part_kv[:, t, C : C + r]
    c, s = cos[t, 0:r].to(pto.float32), sin[t, 0:r].to(pto.float32)
    row = pto.sum(parts, axis=0).to(pto.bfloat16).to(pto.float32)
    row = rms_norm_tile(row, g_cq[:], eps).to(pto.bfloat16)
    if qs is not None:
        floats = row.to(pto.float32)
        if smooth is not None:
            floats = floats * smooth[:]
        qn[t, :], qs[t] = quantize_row(floats)
    else:
        qn[t, :] = row
    if is_last_write(index, t, BLOCK):
        at = index[t]
        latent = pto.sum(latents, axis=0).to(pto.bfloat16).to(pto.float32)
        latent = rms_norm_tile(latent, g_ckv[:], eps).to(pto.bfloat16)
        if GROUPS > 0:
            q, scale = quantize_tile(pto.reshape(latent.to(pto.float32), (GROUPS, C // GROUPS)), 1)
            kv_cache[at, :] = pto.reshape(q, (C,))
            kv_scale[at, :] = scale
        else:
            kv_cache[at, :] = latent
        key = pto.sum(keys, axis=0).to(pto.bfloat16).to(pto.float32)
        rotated = turned_halves(key[None, :], c[None, :], s[None, :])
        kr_cache[at, :] = pto.reshape(rotated, (r,)).to(kr_cache.dtype)


@pto.jit
def head_kernel(qb, w, cos, sin, q_nope, q_rope, BM: pto.constexpr, P: pto.constexpr, C: pto.constexpr):
    """Computes one head of some tokens: P columns times half of the head's matrix; half 0 also does the rotary part."""
    i, n, half = pto.program_id(0) * BM, pto.program_id(1), pto.program_id(2)
    j, r = half * C, cos.shape[1]
    pto.static_assert(qb.shape[2] == P + r and w.shape[1] == P and w.shape[2] == q_nope.shape[2])
    pto.static_assert(sin.shape[1] == q_rope.shape[2] == r)
    acc = pto.dot(qb[i : i + BM, n, 0:P], w[n, :, j : j + C])
    q_nope[i : i + BM, n, j : j + C] = acc.to(q_nope.dtype)
    if half == 0:
        c, s = cos[i : i + BM, :].to(pto.float32), sin[i : i + BM, :].to(pto.float32)
        rotated = turned_halves(qb[i : i + BM, n, P : P + r].to(pto.float32), c, s)
        q_rope[i : i + BM, n, :] = rotated.to(q_rope.dtype)


def rows_of(t):
    """Returns the number of tokens of a program."""
    return min(128, max(16, pto.next_power_of_2(t)))


def down(x, w_dq, w_dkvkr):
    """Computes the partial sums of both down-projections."""
    (t, depth), bm = x.shape, rows_of(x.shape[0])
    splits = next(n for n in (SPLITS, 4, 2, 1) if n == 1 or depth % (n * DEPTH) == 0)
    span = depth // splits
    parts = [empty(x, (splits, t, w.shape[1]), float32) for w in (w_dq, w_dkvkr)]
    spans = [x.reshape(t, splits, span), *(w.reshape(splits, span, w.shape[1]) for w in (w_dq, w_dkvkr))]
    bn = min(COLUMNS, pto.next_power_of_2(w_dq.shape[1]))
    blocks = [pto.cdiv(w.shape[1], bn) for w in (w_dq, w_dkvkr)]
    bk = min(DEPTH, pto.next_power_of_2(span))
    where = pto.cdiv(t, bm), sum(blocks), splits
    down_kernel[where](*spans, *parts, BLOCKS=blocks[0], BM=bm, BN=bn, BK=bk)
    return parts


def up(qn, w_uq, scales):
    """Computes the up-projection of the queries; `scales` are the int8 scales of its rows and columns, or None."""
    (t, depth), width = qn.shape, w_uq.shape[1]
    qb = empty(qn, (t, width), bfloat16)
    sizes = {"BM": rows_of(t), "BN": min(2 * COLUMNS, pto.next_power_of_2(width))}
    sizes["BK"] = min(DEPTH, pto.next_power_of_2(depth))
    where = pto.cdiv(t, sizes["BM"]), pto.cdiv(width, sizes["BN"])
    if scales is None:
        matmul_kernel[where](qn, w_uq, qb, **sizes)
    else:
        w8a8_kernel[where](qn, w_uq, *scales, None, None, qb, **sizes)
    return qb


def prolog(
    x, w_dq, w_uq, w_uk, w_dkvkr, g_cq, g_ckv, cos, sin, index, caches, smooth, eps, qn, qs, scale, q_nope, q_rope
):
    """Launches the projections, in bfloat16 or int8."""
    (t, n, c), kv_scale = q_nope.shape, caches[2]
    sizes = {"C": c, "GROUPS": 0 if kv_scale is None else kv_scale.shape[1], "BLOCK": INDICES}
    parts = down(x, w_dq, w_dkvkr)
    rows_kernel[(t,)](*parts, g_cq, g_ckv, cos, sin, smooth, index, qn, qs, *caches, eps, **sizes)
    qb = up(qn, w_uq, None if qs is None else (qs, scale)).reshape(t, n, -1)
    bm = rows_of(t)
    head_kernel[(pto.cdiv(t, bm), n, 2)](qb, w_uk, cos, sin, q_nope, q_rope, BM=bm, P=w_uk.shape[1], C=pto.cdiv(c, 2))


def mla_prolog(x, w_dq, w_uq, w_uk, w_dkvkr, g_cq, g_ckv, cos, sin, index, kv_cache, kr_cache, eps, q_nope, q_rope):
    """MLA projections with all weights in bfloat16."""
    qn, caches = empty(x, (x.shape[0], w_dq.shape[1]), bfloat16), (kv_cache, kr_cache, None)
    prolog(
        x, w_dq, w_uq, w_uk, w_dkvkr, g_cq, g_ckv, cos, sin, index, caches, None, eps, qn, None, None, q_nope, q_rope
    )


def mla_prolog_quant(
    x, w_dq, w_uq, w_uq_scale, w_uk, w_dkvkr, g_cq, g_ckv, cos, sin, index, kv_cache, kr_cache, kv_scale, smooth, eps,
    q_nope, q_rope, qn, qs,
):  # fmt: skip
    """MLA projections with an int8 second query projection, and an int8 latent cache."""
    caches = (kv_cache, kr_cache, kv_scale)
    prolog(
        x, w_dq, w_uq, w_uk, w_dkvkr, g_cq, g_ckv, cos, sin, index, caches, smooth, eps, qn, qs, w_uq_scale, q_nope,
        q_rope,
    )  # fmt: skip
