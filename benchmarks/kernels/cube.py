# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Products whose operands lie at places that data, edges or steps decide, as routed tokens, pages and convolutions."""

from __future__ import annotations

import pypto as pto


@pto.jit
def by_expert(x, weights, experts, y, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """Each block of tokens is multiplied with the weights of its expert; without one, it gives zeros."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    e = experts[pto.program_id(0)]
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, x.shape[1], BK):
        acc = pto.dot(x[i : i + BM, k : k + BK], weights[e, k : k + BK, j : j + BN], acc)
    y[i : i + BM, j : j + BN] = acc


@pto.jit
def by_groups(x, weights, starts, y, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """Groups of rows, each with its own weights; a group's first rows may lie before the array."""
    g, j = pto.program_id(0), pto.program_id(1) * BN
    end, cols = starts[g + 1], j + pto.arange(0, BN)
    for i in range(starts[g], end, BM):
        acc = pto.zeros((BM, BN), pto.float32)
        for k in range(0, x.shape[1], BK):
            acc = pto.dot(x[i : i + BM, k : k + BK], weights[g, k : k + BK, j : j + BN], acc)
        rows = i + pto.arange(0, BM)
        inside = (rows < end)[:, None] & (rows >= 0)[:, None] & (cols < y.shape[1])[None, :]
        pto.store(y + rows[:, None] * y.shape[1] + cols[None, :], acc.to(pto.float16), mask=inside)


@pto.jit
def routed(x, w, tokens, experts, y, COUNT, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """Rows in the order of a list, which ends with numbers beyond the last row; each block has its expert."""
    rows = pto.load(tokens + pto.program_id(0) * BM + pto.arange(0, BM))
    j = pto.program_id(1) * BN
    e, cols = experts[pto.program_id(0)], j + pto.arange(0, BN)
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, x.shape[1], BK):
        ks = k + pto.arange(0, BK)
        inside = (rows < COUNT)[:, None] & (ks < x.shape[1])[None, :]
        left = pto.load(x + rows[:, None] * x.shape[1] + ks[None, :], mask=inside, other=0.0)
        acc = pto.dot(left, w[e, k : k + BK, j : j + BN], acc)
    out = y + rows[:, None] * w.shape[2] + cols[None, :]
    pto.store(out, acc.to(pto.float16), mask=(rows < COUNT)[:, None])


@pto.jit
def paged_attention(q, keys, values, pages, lengths, out, PAGE: pto.constexpr):
    """One head over keys and values in pages, in the order of a table."""
    b = pto.program_id(0)
    n = lengths[b]
    x = q[b, :, :]
    top = pto.full((x.shape[0],), -1e30, pto.float32)
    total = pto.zeros((x.shape[0],), pto.float32)
    acc = pto.zeros(x.shape, pto.float32)
    for j in range(0, pto.cdiv(n, PAGE)):
        page = pages[b, j]
        s = pto.dot(x, keys[page, :, :].T) * 0.125
        s = pto.where((j * PAGE + pto.arange(0, PAGE))[None, :] < n, s, -1e30)
        higher = pto.maximum(top, pto.max(s, axis=1))
        p = pto.exp(s - higher[:, None])
        scale = pto.exp(top - higher)
        total = total * scale + pto.sum(p, axis=1)
        acc = acc * scale[:, None] + pto.dot(p.to(pto.float16), values[page, :, :])
        top = higher
    out[b, :, :] = acc / total[:, None]


@pto.jit
def convolution(x, w, y, BP: pto.constexpr, BC: pto.constexpr):
    """A 3 x 3 convolution as a sum of nine products; channels are last, and edges are padded with zeros."""
    n, h = pto.program_id(0) // x.shape[1], pto.program_id(0) % x.shape[1]
    p = pto.program_id(1) * BP
    acc = pto.zeros((BP, w.shape[3]), pto.float32)
    for r in range(3):
        for s in range(3):
            for c in range(0, x.shape[3], BC):
                pixels = x[n, h + r - 1, p + s - 1 : p + s - 1 + BP, c : c + BC]
                acc = pto.dot(pixels, w[r, s, c : c + BC, :], acc)
    y[n, h, p : p + BP, :] = acc


@pto.jit
def dequantised(a, b, scale, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr, LAST: pto.constexpr):
    """float16 by int8 weights with a scale for each column, on the weights or on the result."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    s = scale[j : j + BN][None, :]
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        w = b[k : k + BK, j : j + BN].to(pto.float16)
        acc = pto.dot(a[i : i + BM, k : k + BK], w if LAST else (w * s).to(pto.float16), acc)
    c[i : i + BM, j : j + BN] = acc * s if LAST else acc
