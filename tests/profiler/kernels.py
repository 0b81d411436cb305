"""Kernels to profile."""

from __future__ import annotations

import pypto as pto


@pto.jit
def add(x, y, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    with pto.label("sum"):
        out[i : i + BLOCK] = x[i : i + BLOCK] + y[i : i + BLOCK]


@pto.jit
def attention(q, k, v, out, BM: pto.constexpr, BN: pto.constexpr):
    i = pto.program_id(0) * BM
    n, d = q.shape[0], q.shape[1]
    queries = q[i : i + BM, :]
    m = pto.full((BM,), -float("inf"), pto.float32)
    total = pto.zeros((BM,), pto.float32)
    acc = pto.zeros((BM, d), pto.float32)
    with pto.label("attention"):
        for j in range(0, n, BN):
            with pto.label("qk"):
                s = pto.dot(queries, pto.trans(k[j : j + BN, :]))
            with pto.label("softmax"):
                new = pto.maximum(m, pto.max(s, axis=1))
                p = pto.exp(s - new[:, None])
                scale = pto.exp(m - new)
                total = total * scale + pto.sum(p, axis=1)
                m = new
            with pto.label("pv"):
                acc = pto.dot(p, v[j : j + BN, :], acc * scale[:, None])
    out[i : i + BM, :] = acc / total[:, None]


@pto.jit
def rows(x, out, most, BLOCK: pto.constexpr):
    """Two labels whose statements share the loop over rows."""
    i = pto.program_id(0) * BLOCK
    tile = x[i : i + BLOCK, :]
    with pto.label("shift"):
        tile = tile - pto.max(tile, axis=1, keep_dims=True)
    with pto.label("norm"):
        out[i : i + BLOCK, :] = tile / pto.sum(tile, axis=1, keep_dims=True)
    if most > 0:
        pto.sort(x[i, :])
