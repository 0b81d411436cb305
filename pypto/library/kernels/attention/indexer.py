# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""The lightning indexer scores all rows of a paged cache for each token and selects the largest."""

from __future__ import annotations

import math

import pypto as pto
from pypto.ir.types import bfloat16, float16, float32, int8
from pypto.library.binding import empty
from pypto.library.kernels.attention.paged import INDICES, scatter_update_kernel
from pypto.library.kernels.attention.rope import rope_half_kernel
from pypto.library.kernels.norms import layer_norm_tile
from pypto.library.kernels.products import dequantize_matmul, matmul
from pypto.library.kernels.quantized.quant import quantize_tile

TOKENS = 16


@pto.jit
def score_kernel(
    q, q_scale, keys: pto.dynamic, k_scale: pto.dynamic, weights, lengths, table: pto.dynamic, scores,
    H: pto.constexpr, D: pto.constexpr, PAGE: pto.constexpr,
):  # fmt: skip
    """Scores the rows of one page for one token."""
    p, s, b = pto.program_id(0), pto.program_id(1), pto.program_id(2)
    if p * PAGE < lengths[b]:
        page = table[b, p]
        block = pto.reshape(pto.load(keys, (page, 0, 0), (1, PAGE, D)), (PAGE, D))
        product = pto.dot(q[b, s, :, :], pto.trans(block)).to(pto.float32)
        r = (pto.maximum(product, 0.0) * (1 / 2048)).to(pto.float16).to(pto.float32)
        w = (q_scale[b, s, :] * weights[b, s, :]).to(pto.float16).to(pto.float32)
        unit = pto.reshape(pto.load(k_scale, (page, 0), (1, PAGE)), (PAGE,)).to(pto.float32)
        total = pto.sum(r * w[:, None], axis=0) * unit
        scores[b, s, p * PAGE : p * PAGE + PAGE] = total


@pto.jit
def hadamard_quantize_kernel(x, matrix, q, scale, ROWS: pto.constexpr):
    i = pto.program_id(0) * ROWS
    t = pto.dot(x[i : i + ROWS, :], matrix[:, :]).to(pto.bfloat16).to(pto.float32)
    tile, factors = quantize_tile(t, 1)
    q[i : i + ROWS, :] = tile
    scale[i : i + ROWS] = factors.to(scale.dtype)


@pto.jit
def key_norm_kernel(x, g, b, y, eps):
    row = pto.program_id(0)
    y[row, :] = layer_norm_tile(x[row, :], g[:], b[:], eps).to(y.dtype)


@pto.jit
def head_weights_kernel(x, y, unit):
    row = pto.program_id(0)
    y[row, :] = (x[row, :].to(pto.float32) * unit).to(y.dtype)


def lightning_indexer(choose, q, q_scale, keys, k_scale, weights, lengths, table, k, indices):
    """Scores all rows, and selects the k largest for each token with `choose`, a version of `topk`."""
    b, s, h, d = q.shape
    page, p = keys.shape[1], table.shape[1]
    scores = empty(q, (b, s, p * page), float32)
    sizes = {"H": h, "D": d, "PAGE": page}
    score_kernel[(p, s, b)](q, q_scale, keys, k_scale, weights, lengths, table, scores, **sizes)
    choose(scores.reshape(b * s, -1), lengths, k, s, None, indices.reshape(b * s, -1))


def turned_and_quantized(x, cos, sin, matrix, q, scale):
    """Applies rotary embedding to the first columns of x (t, n, d), then the transform, and quantises rows to int8."""
    t, n, d = x.shape
    rotated = empty(x, (t, n, d), bfloat16)
    rope_half_kernel[(t,)](x, cos, sin, rotated, FIRST=0, WIDTH=cos.shape[1], HALVED=False)
    rows = (rotated.reshape(t * n, d), matrix, q.reshape(t * n, d), scale.reshape(t * n))
    hadamard_quantize_kernel[(pto.cdiv(t * n, TOKENS),)](*rows, ROWS=TOKENS)


def indexer_prolog(
    qn, qn_scale, w_qb, w_qb_scale, x, w_k, w_proj, ln_g, ln_b, cos, sin, hadamard_q, hadamard_k, index, k_cache,
    k_scale_cache, eps, q, q_scale, weights,
):  # fmt: skip
    """Computes the queries, keys and weights of the indexer, and stores the keys in their cache."""
    t, n, d = q.shape
    heads = empty(x, (t, n * d), bfloat16)
    dequantize_matmul(qn, w_qb, qn_scale, w_qb_scale, None, heads)
    turned_and_quantized(heads.reshape(t, n, d), cos, sin, hadamard_q, q, q_scale)
    key, normed = empty(x, (t, d), float32), empty(x, (t, 1, d), bfloat16)
    matmul(x, w_k, key)
    key_norm_kernel[(t,)](key, ln_g, ln_b, normed.reshape(t, d), eps)
    k8, k_scale = empty(x, (t, d), int8), empty(x, (t, 1), float16)
    turned_and_quantized(normed, cos, sin, hadamard_k, k8, k_scale)
    scatter_update_kernel[(t,)](k_cache, index, k8, BLOCK=INDICES)
    scatter_update_kernel[(t,)](k_scale_cache.reshape(-1, 1), index, k_scale, BLOCK=INDICES)
    logits = empty(x, (t, n), bfloat16)
    matmul(x, w_proj, logits)
    head_weights_kernel[(t,)](logits, weights, 1 / math.sqrt(n * d))
