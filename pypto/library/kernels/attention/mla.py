# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Projections of multi-head latent attention (MLA), and the update of its latent cache."""

from __future__ import annotations

import pypto as pto
from pypto.ir.types import bfloat16
from pypto.library.binding import empty
from pypto.library.kernels.attention.paged import INDICES, is_last_write
from pypto.library.kernels.attention.rope import pairs
from pypto.library.kernels.norms import rms_norm_kernel, rms_norm_tile
from pypto.library.kernels.products import dequantize_matmul, matmul
from pypto.library.kernels.quantized.quant import quantize_row, quantize_tile

BM, BN = 64, 128


@pto.jit
def norm_quantize_kernel(x, g, smooth, q, scale, eps):
    row = pto.program_id(0)
    t = rms_norm_tile(x[row, :].to(pto.float32), g[:], eps).to(pto.bfloat16).to(pto.float32)
    if smooth is not None:
        t = t * smooth[:]
    q[row, :], scale[row] = quantize_row(t)


@pto.jit
def absorb_kernel(qb, w, out, BM: pto.constexpr, BN: pto.constexpr, P: pto.constexpr):
    """Multiplies the first P columns of every query head by the head's key matrix (weight absorption)."""
    i, j, n = pto.program_id(0) * BM, pto.program_id(1) * BN, pto.program_id(2)
    acc = pto.dot(qb[i : i + BM, n, 0:P], w[n, :, j : j + BN])
    out[i : i + BM, n, j : j + BN] = acc.to(out.dtype)


@pto.jit
def turn_heads_kernel(qb, cos, sin, out, P: pto.constexpr):
    t, h = pto.program_id(0), out.shape[2] // 2
    a, b = rope_of(qb, cos, sin, t, P)
    out[t, :, 0:h] = a.to(out.dtype)
    out[t, :, h : 2 * h] = b.to(out.dtype)


@pto.jit
def rope_of(qb, cos, sin, t, P: pto.constexpr):
    """Applies rotary embedding to the columns from P on, for all heads of a token."""
    r, h = cos.shape[1], cos.shape[1] // 2
    a, b = pairs(qb[t, :, P : P + r].to(pto.float32))
    c, s = cos[t, 0:h].to(pto.float32)[None, :], sin[t, 0:h].to(pto.float32)[None, :]
    c2, s2 = cos[t, h : 2 * h].to(pto.float32)[None, :], sin[t, h : 2 * h].to(pto.float32)[None, :]
    return a * c - b * s, b * c2 + a * s2


@pto.jit
def cache_kernel(
    kv, g, cos, sin, index: pto.dynamic, kv_cache, kr_cache, kv_scale, eps,
    C: pto.constexpr, GROUPS: pto.constexpr, BLOCK: pto.constexpr,
):  # fmt: skip
    """Stores a token's latent row and rotary key in both caches, unless a later token writes the same row."""
    t = pto.program_id(0)
    if is_last_write(index, t, BLOCK):
        at, h = index[t], cos.shape[1] // 2
        row = rms_norm_tile(kv[t, 0, 0:C].to(pto.float32), g[:], eps).to(pto.bfloat16)
        if GROUPS > 0:
            groups = pto.reshape(row.to(pto.float32), (GROUPS, C // GROUPS))
            q, scale = quantize_tile(groups, 1)
            kv_cache[at, :] = pto.reshape(q, (C,))
            kv_scale[at, :] = scale
        else:
            kv_cache[at, :] = row
        a, b = rope_of(kv, cos, sin, t, C)
        kr_cache[at, 0:h] = pto.reshape(a, (h,)).to(kr_cache.dtype)
        kr_cache[at, h : 2 * h] = pto.reshape(b, (h,)).to(kr_cache.dtype)


def heads(qb, w_uk, cos, sin, q_nope, q_rope):
    """Computes the queries in the latent space, and their rotary part."""
    t, n, c = q_nope.shape
    p = w_uk.shape[1]
    absorb_kernel[(pto.cdiv(t, BM), pto.cdiv(c, BN), n)](qb, w_uk, q_nope, BM=BM, BN=BN, P=p)
    turn_heads_kernel[(t,)](qb, cos, sin, q_rope, P=p)


def update_caches(x, w_dkvkr, g_ckv, cos, sin, index, kv_cache, kr_cache, kv_scale, eps):
    """Stores the latent row and the rotary key of every token in their caches."""
    t, c = x.shape[0], g_ckv.shape[0]
    kv = empty(x, (t, w_dkvkr.shape[1]), bfloat16)
    matmul(x, w_dkvkr, kv)
    groups = 0 if kv_scale is None else kv_scale.shape[1]
    sizes = {"C": c, "GROUPS": groups, "BLOCK": INDICES}
    kv = kv.reshape(t, 1, -1)
    cache_kernel[(t,)](kv, g_ckv, cos, sin, index, kv_cache, kr_cache, kv_scale, eps, **sizes)


def mla_prolog(x, w_dq, w_uq, w_uk, w_dkvkr, g_cq, g_ckv, cos, sin, index, kv_cache, kr_cache, eps, q_nope, q_rope):
    """MLA projections with all weights in bfloat16."""
    t, rank = x.shape[0], w_dq.shape[1]
    qa, qn = empty(x, (t, rank), bfloat16), empty(x, (t, rank), bfloat16)
    matmul(x, w_dq, qa)
    rms_norm_kernel[(t,)](qa, g_cq, qn, eps)
    qb = empty(x, (t, w_uq.shape[1]), bfloat16)
    matmul(qn, w_uq, qb)
    heads(qb.reshape(t, q_nope.shape[1], -1), w_uk, cos, sin, q_nope, q_rope)
    update_caches(x, w_dkvkr, g_ckv, cos, sin, index, kv_cache, kr_cache, None, eps)


def mla_prolog_quant(
    x, w_dq, w_uq, w_uq_scale, w_uk, w_dkvkr, g_cq, g_ckv, cos, sin, index, kv_cache, kr_cache, kv_scale, smooth, eps,
    q_nope, q_rope, qn, qs,
):  # fmt: skip
    """MLA projections with an int8 second query projection, and an int8 latent cache."""
    t, rank = x.shape[0], w_dq.shape[1]
    qa = empty(x, (t, rank), bfloat16)
    matmul(x, w_dq, qa)
    norm_quantize_kernel[(t,)](qa, g_cq, smooth, qn, qs, eps)
    qb = empty(x, (t, w_uq.shape[1]), bfloat16)
    dequantize_matmul(qn, w_uq, qs, w_uq_scale, None, qb)
    heads(qb.reshape(t, q_nope.shape[1], -1), w_uk, cos, sin, q_nope, q_rope)
    update_caches(x, w_dkvkr, g_ckv, cos, sin, index, kv_cache, kr_cache, kv_scale, eps)
