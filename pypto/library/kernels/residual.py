# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Residual streams: attention over the outputs of layers, and hyper-connections."""

from __future__ import annotations

import pypto as pto
from pypto.ir.types import float32
from pypto.library.binding import empty

TOKENS, COLUMNS = 16, 256
BATCH = 64  # at most so many matrices in a program
TALL, SPLITS = 64, 3  # tokens in a tile of the product, and its splits along K
FAR = 1e30  # is subtracted from scores that do not exist
MIXED = 16  # tokens in a program that computes mixing matrices


@pto.jit
def block_attention_kernel(v, w, gain, h, scale, L: pto.constexpr, D: pto.constexpr):
    """Computes the softmax over the layers of a token; a layer's logit is its product with one vector."""
    b, t = pto.program_id(0), pto.program_id(1)
    x = pto.reshape(pto.load(v, (b, t, 0, 0), (1, 1, L, D)), (L, D)).to(pto.float32)
    key = x * pto.rsqrt(pto.sum(x * x, axis=1) * (1 / D) + 1e-6)[:, None]
    if gain is not None:
        key = key * gain[:].to(pto.float32)[None, :]
    logits = pto.sum(key * w[:].to(pto.float32)[None, :], axis=1) * scale
    e = pto.exp(logits - pto.max(logits))
    h[b, t, :] = (pto.sum(x * e[:, None], axis=0) / pto.sum(e)).to(h.dtype)


@pto.jit
def sinkhorn_tile(c, ROUNDS: pto.constexpr):
    """Sinkhorn normalisation: softmax of rows, then columns and rows are divided by their sums in turns."""
    c = pto.exp(c - pto.max(c, axis=1)[:, None])
    c = c / pto.sum(c, axis=1)[:, None] + 1e-6
    c = c / (pto.sum(c, axis=0) + 1e-6)[None, :]
    for _ in range(ROUNDS - 1):
        c = c / (pto.sum(c, axis=1) + 1e-6)[:, None]
        c = c / (pto.sum(c, axis=0) + 1e-6)[None, :]
    return c


@pto.jit
def sinkhorn_kernel(x, y, ROUNDS: pto.constexpr):
    t = pto.program_id(0)
    y[t, :, :] = sinkhorn_tile(x[t, :, :], ROUNDS)


@pto.jit
def normalized_rounds(c, ROUNDS: pto.constexpr):
    """Divides the columns of many matrices by their sums, then rows and columns in turns."""
    c = c / (pto.sum(c, axis=1) + 1e-6)[:, None, :]
    for _ in range(ROUNDS - 1):
        c = c / (pto.sum(c, axis=2) + 1e-6)[:, :, None]
        c = c / (pto.sum(c, axis=1) + 1e-6)[:, None, :]
    return c


@pto.jit
def sinkhorn_batch(c, ROUNDS: pto.constexpr):
    """Sinkhorn normalisation of many matrices."""
    c = pto.exp(c - pto.max(c, axis=2)[:, :, None])
    return normalized_rounds(c / pto.sum(c, axis=2)[:, :, None] + 1e-6, ROUNDS)


@pto.jit
def sinkhorn_batch_kernel(x, y, ROUNDS: pto.constexpr, BATCH: pto.constexpr):
    t = pto.program_id(0) * BATCH
    y[t : t + BATCH, :, :] = sinkhorn_batch(x[t : t + BATCH, :, :], ROUNDS)


@pto.jit
def stream_logits_kernel(x, w, m, BM: pto.constexpr, BK: pto.constexpr, N: pto.constexpr):
    """Multiplies rows by all weights, and divides the products by the rows' root mean squares."""
    i, width = pto.program_id(0) * BM, x.shape[1]
    acc = pto.zeros((BM, N), pto.float32)
    squares = pto.zeros((BM,), pto.float32)
    for k in range(0, width, BK):
        t = x[i : i + BM, k : k + BK].to(pto.float32)
        acc = pto.dot(t, pto.trans(w[0:N, k : k + BK]), acc)
        squares += pto.sum(t * t, axis=1)
    m[i : i + BM, :] = acc * pto.rsqrt(squares * (1 / width) + 1e-6)[:, None]


@pto.jit
def partial_logits_kernel(
    x, w, part, squares, SPAN: pto.constexpr, BM: pto.constexpr, BK: pto.constexpr, N: pto.constexpr
):
    """Computes products and sums of squares over a span of columns (split-K)."""
    i, s = pto.program_id(0) * BM, pto.program_id(1)
    acc = pto.zeros((BM, N), pto.float32)
    total = pto.zeros((BM,), pto.float32)
    for k in range(0, SPAN, BK):
        at = s * SPAN + k
        t = x[i : i + BM, at : at + BK].to(pto.float32)
        acc = pto.dot(t, pto.trans(w[0:N, at : at + BK]), acc)
        total += pto.sum(t * t, axis=1)
    part[s, i : i + BM, :] = acc
    squares[s, i : i + BM] = total


@pto.jit
def sum_logits_kernel(part, squares, m, width, BM: pto.constexpr):
    """Adds up the spans, and divides by the root mean square."""
    i = pto.program_id(0) * BM
    total = pto.sum(squares[:, i : i + BM], axis=0)
    m[i : i + BM, :] = pto.sum(part[:, i : i + BM, :], axis=0) * pto.rsqrt(total * (1 / width) + 1e-6)[:, None]


@pto.jit
def streams_kernel(x, m, scale, base, y, post, comb, ROUNDS: pto.constexpr):
    t, n = pto.program_id(0), x.shape[1]
    pre = pto.sigmoid(m[t, 0:n] * scale[0] + base[0:n]) + 1e-6
    post[t, :] = 2 * pto.sigmoid(m[t, n : 2 * n] * scale[1] + base[n : 2 * n])
    mixed = m[t, 2 * n : 2 * n + n * n] * scale[2] + base[2 * n : 2 * n + n * n]
    comb[t, :, :] = sinkhorn_tile(pto.reshape(mixed, (n, n)), ROUNDS)
    y[t, :] = pto.sum(x[t, :, :].to(pto.float32) * pre[:, None], axis=0).to(y.dtype)


@pto.jit
def mixing_kernel(m, scale, base, comb, ROUNDS: pto.constexpr, BATCH: pto.constexpr, SIDE: pto.constexpr):
    """Computes the mixing matrices of some tokens, each padded with zeros so that rows fill whole memory blocks.

    Masks are floats, because rows of bools would need more padding.
    """
    t, n = pto.program_id(0) * BATCH, comb.shape[1]
    known = pto.clamp(n - pto.arange(0, SIDE).to(pto.float32), 0.0, 1.0)
    known = pto.broadcast_to((known[:, None] * known[None, :])[None, :, :], (BATCH, SIDE, SIDE))
    c = m[t : t + BATCH, 2 : 2 + SIDE, 0:SIDE] * scale[2] + base[2 : 2 + SIDE, 0:SIDE][None, :, :]
    c = c * known + (known - 1) * FAR
    c = pto.exp(c - pto.max(c, axis=2)[:, :, None]) * known
    c = c / pto.maximum(pto.sum(c, axis=2), 1e-30)[:, :, None] + known * 1e-6
    comb[t : t + BATCH, 0:SIDE, 0:SIDE] = normalized_rounds(c, ROUNDS)


@pto.jit
def sum_streams_kernel(x, m, scale, base, y, post):
    """Sums the streams of a token into one input, and computes the weights of the way back."""
    t = pto.program_id(0)
    pre = pto.sigmoid(m[t, 0, :] * scale[0] + base[0, :]) + 1e-6
    post[t, :] = 2 * pto.sigmoid(m[t, 1, :] * scale[1] + base[1, :])
    y[t, :] = pto.sum(x[t, :, :].to(pto.float32) * pre[:, None], axis=0).to(y.dtype)


def block_attention(v, w, gain, scale, h):
    """Mixes the layers of every token."""
    batch, t, layers, d = v.shape
    block_attention_kernel[(batch, t)](v, w, gain, h, scale, L=layers, D=d)


def sinkhorn(x, rounds, y):
    """Normalises matrices so that their rows and columns sum to 1."""
    sinkhorn_kernel[(x.shape[0],)](x, y, ROUNDS=rounds)


def sinkhorn_in_batches(x, rounds, y):
    """Sinkhorn normalisation with many matrices in a program."""
    batch = max(8, min(BATCH, pto.next_power_of_2(x.shape[0] // pto.target.cores)))
    sinkhorn_batch_kernel[(pto.cdiv(x.shape[0], batch),)](x, y, ROUNDS=rounds, BATCH=batch)


def hyper_connections(x, w, scale, base, rounds, y, post, comb):
    """Sums n streams into one input, and computes the weights with which a layer's output returns to them."""
    t, n = x.shape[:2]
    m = empty(x, (t, n * (n + 2)), float32)
    sizes = {"BM": TOKENS, "BK": COLUMNS, "N": n * (n + 2)}
    stream_logits_kernel[(pto.cdiv(t, TOKENS),)](x.reshape(t, -1), w, m, **sizes)
    streams_kernel[(t,)](x, m, scale, base, y, post, comb, ROUNDS=rounds)


def hyper_connections_in_batches(x, w, scale, base, rounds, y, post, comb):
    """Hyper-connections with the mixing matrices of many tokens in a program."""
    t, n = x.shape[:2]
    m, base, rows = empty(x, (t, n + 2, n), float32), base.reshape(n + 2, n), x.reshape(t, -1)
    part, squares = empty(x, (SPLITS, t, n * (n + 2)), float32), empty(x, (SPLITS, t), float32)
    bm, span = min(TALL, max(16, pto.next_power_of_2(t))), pto.cdiv(pto.cdiv(rows.shape[1], COLUMNS), SPLITS) * COLUMNS
    sizes = {"SPAN": span, "BM": bm, "BK": COLUMNS, "N": n * (n + 2)}
    partial_logits_kernel[pto.cdiv(t, bm), SPLITS](rows, w, part, squares, **sizes)
    sum_logits_kernel[(pto.cdiv(t, MIXED),)](part, squares, m.reshape(t, -1), rows.shape[1], BM=MIXED)
    sum_streams_kernel[(t,)](x, m, scale, base, y, post)
    sizes = {"ROUNDS": rounds, "BATCH": MIXED, "SIDE": max(8, pto.next_power_of_2(n))}
    mixing_kernel[(pto.cdiv(t, MIXED),)](m, scale, base, comb, **sizes)
