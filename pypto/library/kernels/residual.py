# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Residual streams: attention over blocks of layers, and hyper-connections."""

from __future__ import annotations

import pypto as pto


@pto.jit
def block_attention_kernel(v, w, gain, h, scale, L: pto.constexpr, D: pto.constexpr):
    """Softmax over the layers of a token, by their product with one vector."""
    b, t = pto.program_id(0), pto.program_id(1)
    x = pto.reshape(pto.load(v, (b, t, 0, 0), (1, 1, L, D)), (L, D)).to(pto.float32)
    key = x * pto.rsqrt(pto.sum(x * x, axis=1) * (1 / D) + 1e-6)[:, None]
    if gain is not None:
        key = key * gain[:].to(pto.float32)[None, :]
    logits = pto.sum(key * w[:].to(pto.float32)[None, :], axis=1) * scale
    e = pto.exp(logits - pto.max(logits))
    h[b, t, :] = (pto.sum(x * e[:, None], axis=0) / pto.sum(e)).to(h.dtype)


@pto.jit
def sinkhorn_kernel(x, y, N: pto.constexpr, ROUNDS: pto.constexpr):
    """Softmax of rows, then columns and rows are divided by their sums in turns."""
    t = pto.program_id(0)
    c = x[t, :, :]
    c = pto.exp(c - pto.max(c, axis=1)[:, None])
    c = c / pto.sum(c, axis=1)[:, None] + 1e-6
    c = c / (pto.sum(c, axis=0) + 1e-6)[None, :]
    for _ in range(ROUNDS - 1):
        c = c / (pto.sum(c, axis=1) + 1e-6)[:, None]
        c = c / (pto.sum(c, axis=0) + 1e-6)[None, :]
    y[t, :, :] = c


def block_attention(v, w, gain, scale, h):
    """A mixture of layers for every token."""
    batch, t, layers, d = v.shape
    block_attention_kernel[(batch, t)](v, w, gain, h, scale, L=layers, D=d)


def sinkhorn(x, rounds, y):
    """Matrices whose rows and columns have the sum 1."""
    sinkhorn_kernel[(x.shape[0],)](x, y, N=x.shape[1], ROUNDS=rounds)
