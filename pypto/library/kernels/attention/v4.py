# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""DeepSeek-V4's projections: heads are normalised, and rotary embedding turns their last columns."""

from __future__ import annotations

import math

import pypto as pto
from pypto.ir.types import bfloat16, float32
from pypto.library.binding import empty
from pypto.library.kernels.attention.indexer import TOKENS, hadamard_quantize_kernel, head_weights_kernel
from pypto.library.kernels.attention.rope import pairs
from pypto.library.kernels.norms import rms_norm_kernel, rms_norm_tile
from pypto.library.kernels.products import dequantize_matmul, matmul
from pypto.library.kernels.quantized.quant import quantize_row

HEADS = 8


@pto.jit
def norm_quantize_kernel(x, g, q, scale, eps):
    row = pto.program_id(0)
    q[row, :], scale[row] = quantize_row(rms_norm_tile(x[row, :], g[:], eps))


@pto.jit
def turn_last_kernel(x, gain, cos, sin, y, eps, NORM: pto.constexpr, BH: pto.constexpr, FIRST: pto.constexpr):
    """Applies RMS norm to heads if NORM is set, then rotary embedding to the pairs from column FIRST on."""
    t, h = pto.program_id(0), pto.program_id(1) * BH
    d, r = x.shape[2], cos.shape[1]
    passed = x[t, h : h + BH, 0:FIRST].to(pto.float32)
    last = x[t, h : h + BH, FIRST:d].to(pto.float32)
    if NORM:
        squares = pto.sum(passed * passed, axis=1) + pto.sum(last * last, axis=1)
        scale = 1 / pto.sqrt(squares * (1 / d) + eps)
        passed, last = passed * scale[:, None], last * scale[:, None]
        if gain is not None:
            passed = passed * gain[0:FIRST].to(pto.float32)[None, :]
            last = last * gain[FIRST:d].to(pto.float32)[None, :]
        last = last.to(y.dtype).to(pto.float32)
    a, b = pairs(last)
    c, c2 = pairs(cos[t, :].to(pto.float32)[None, :])
    s, s2 = pairs(sin[t, :].to(pto.float32)[None, :])
    y[t, h : h + BH, 0:FIRST] = passed.to(y.dtype)
    y[t, h : h + BH, FIRST:d] = pto.reshape(pto.join(a * c - b * s, b * c2 + a * s2), (BH, r)).to(y.dtype)


def turn_last(x, gain, cos, sin, y, eps=None):
    """Applies rotary embedding to the last columns of x (t, n, d); with eps, RMS norm comes first."""
    t, n, d = x.shape
    heads = min(HEADS, pto.next_power_of_2(n))
    sizes = {"NORM": eps is not None, "BH": heads, "FIRST": d - cos.shape[1]}
    turn_last_kernel[(t, pto.cdiv(n, heads))](x, gain, cos, sin, y, eps or 0.0, **sizes)


def latent(x, w_kv, g_kv, cos, sin, eps, kv):
    """Computes the shared row of keys and values of every token."""
    t, d = kv.shape
    product = empty(x, (t, d), float32)
    matmul(x, w_kv, product)
    turn_last(product.reshape(t, 1, d), g_kv, cos, sin, kv.reshape(t, 1, d), eps)


def mla_prolog_v4(x, w_dq, w_uq, w_kv, g_q, g_kv, cos, sin, n, eps, q, kv):
    """V4 projections with all weights in bfloat16."""
    t, d = kv.shape
    qa, qn = empty(x, (t, w_dq.shape[1]), float32), empty(x, (t, w_dq.shape[1]), bfloat16)
    matmul(x, w_dq, qa)
    rms_norm_kernel[(t,)](qa, g_q, qn, eps)
    qb = empty(x, (t, n * d), float32)
    matmul(qn, w_uq, qb)
    turn_last(qb.reshape(t, n, d), None, cos, sin, q, eps)
    latent(x, w_kv, g_kv, cos, sin, eps, kv)


def mla_prolog_v4_quant(x, w_dq, w_uq, w_uq_scale, w_kv, g_q, g_kv, cos, sin, n, eps, q, kv, qn, qs):
    """V4 projections with an int8 second query projection."""
    t, d = kv.shape
    qa = empty(x, (t, w_dq.shape[1]), float32)
    matmul(x, w_dq, qa)
    norm_quantize_kernel[(t,)](qa, g_q, qn, qs, eps)
    qb = empty(x, (t, n * d), float32)
    dequantize_matmul(qn, w_uq, qs, w_uq_scale, None, qb)
    turn_last(qb.reshape(t, n, d), None, cos, sin, q, eps)
    latent(x, w_kv, g_kv, cos, sin, eps, kv)


def indexer_prolog_v4(qn, qn_scale, w_qb, w_qb_scale, x, w_proj, cos, sin, hadamard, q, q_scale, weights):
    """Computes the queries and weights of V4's indexer."""
    t, n, d = q.shape
    heads, rotated = empty(x, (t, n * d), bfloat16), empty(x, (t, n, d), bfloat16)
    dequantize_matmul(qn, w_qb, qn_scale, w_qb_scale, None, heads)
    turn_last(heads.reshape(t, n, d), None, cos, sin, rotated)
    rows = (rotated.reshape(t * n, d), hadamard, q.reshape(t * n, d), q_scale.reshape(t * n))
    hadamard_quantize_kernel[(pto.cdiv(t * n, TOKENS),)](*rows, ROWS=TOKENS)
    logits = empty(x, (t, n), bfloat16)
    matmul(x, w_proj, logits)
    head_weights_kernel[(t,)](logits, weights, 1 / math.sqrt(n * d))
