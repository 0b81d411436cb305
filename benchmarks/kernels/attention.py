# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Flash attention, forward and backward, on arrays of shape (heads, n, d)."""

from __future__ import annotations

import math

import pypto as pto


@pto.jit
def blocks_of_keys(  # noqa: PLR0913, PLR0917
    q, k, v, g, rows, first, stop, n, m, total, acc, unit,
    MASKED: pto.constexpr, CAUSAL: pto.constexpr, BN: pto.constexpr, PRECISION: pto.constexpr,
):  # fmt: skip
    for j in range(first, stop, BN):
        s = pto.dot(q, pto.trans(k[g, j : j + BN, :]), input_precision=PRECISION)
        if MASKED:
            cols = j + pto.arange(0, BN)
            seen = cols[None, :] < n
            if CAUSAL:
                seen = seen & (cols[None, :] <= rows[:, None])
            s = pto.where(seen, s, -float("inf"))
        new = pto.maximum(m, pto.max(s, axis=1) * unit)
        p = pto.exp2(pto.fma(s, unit, -new[:, None]))
        scale = pto.exp2(m - new)
        total = total * scale + pto.sum(p, axis=1)
        acc = pto.dot(pto.cast(p, v.dtype), v[g, j : j + BN, :], acc * scale[:, None], input_precision=PRECISION)
        m = new
    return m, total, acc


@pto.jit
def forward_kernel(  # noqa: PLR0913, PLR0917
    q, k, v, out, log_total,
    GROUP: pto.constexpr, CAUSAL: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, PRECISION: pto.constexpr,
):  # fmt: skip
    i, h = pto.program_id(0) * BM, pto.program_id(1)
    n, d = q.shape[1], q.shape[2]
    g = h // GROUP
    queries = q[h, i : i + BM, :]
    rows = i + pto.arange(0, BM)
    m = pto.full((BM,), -float("inf"), pto.float32)
    total = pto.zeros((BM,), pto.float32)
    acc = pto.zeros((BM, d), pto.float32)
    unit = math.log2(math.e) / math.sqrt(d)
    end = min(n, i + BM) if CAUSAL else n
    whole = (i if CAUSAL else n) // BN * BN
    m, total, acc = blocks_of_keys(
        queries, k, v, g, rows, 0, whole, n, m, total, acc, unit, False, CAUSAL, BN, PRECISION
    )
    m, total, acc = blocks_of_keys(
        queries, k, v, g, rows, whole, end, n, m, total, acc, unit, True, CAUSAL, BN, PRECISION
    )
    out[h, i : i + BM, :] = pto.cast(acc / total[:, None], out.dtype)
    log_total[h, i : i + BM] = (m + pto.log2(total)) * math.log(2)


def attention(q, k, v, out, log_total, causal=False, blocks=(128, 128), precision="ieee"):
    """out = softmax(q kᵀ / sqrt(d)) v for every head, and the logarithms of the sums, shape (heads, n).

    k and v may have fewer heads, each for a group of queries' heads.
    """
    heads, n, _ = q.shape
    grid = (pto.cdiv(n, blocks[0]), heads)
    group = heads // k.shape[0]
    more = {"GROUP": group, "CAUSAL": causal, "PRECISION": precision}
    forward_kernel[grid](q, k, v, out, log_total, BM=blocks[0], BN=blocks[1], **more)


@pto.jit
def products_kernel(out, dout, product, BM: pto.constexpr):
    h, i = pto.program_id(0), pto.program_id(1) * BM
    product[h, i : i + BM] = pto.sum(out[h, i : i + BM, :] * dout[h, i : i + BM, :], axis=1)


@pto.jit
def keys_kernel(q, k, v, dout, log_total, product, dk, dv, BM: pto.constexpr, BN: pto.constexpr):  # noqa: PLR0913, PLR0917
    h, j = pto.program_id(0), pto.program_id(1) * BN
    n, d = q.shape[1], q.shape[2]
    keys, values = k[h, j : j + BN, :], v[h, j : j + BN, :]
    grad_k = pto.zeros((BN, d), pto.float32)
    grad_v = pto.zeros((BN, d), pto.float32)
    for i in range(0, n, BM):
        queries, above = q[h, i : i + BM, :], dout[h, i : i + BM, :]
        s = pto.dot(queries, pto.trans(keys)) * (1 / math.sqrt(d))
        p = pto.exp(s - log_total[h, i : i + BM][:, None])
        p = pto.where((i + pto.arange(0, BM) < n)[:, None], p, 0.0)
        grad_v = pto.dot(pto.trans(p), above, grad_v)
        ds = p * (pto.dot(above, pto.trans(values)) - product[h, i : i + BM][:, None]) * (1 / math.sqrt(d))
        grad_k = pto.dot(pto.trans(ds), queries, grad_k)
    dk[h, j : j + BN, :] = grad_k
    dv[h, j : j + BN, :] = grad_v


@pto.jit
def queries_kernel(q, k, v, dout, log_total, product, dq, BM: pto.constexpr, BN: pto.constexpr):  # noqa: PLR0913, PLR0917
    h, i = pto.program_id(0), pto.program_id(1) * BM
    n, d = q.shape[1], q.shape[2]
    queries, above = q[h, i : i + BM, :], dout[h, i : i + BM, :]
    logs, products = log_total[h, i : i + BM], product[h, i : i + BM]
    grad = pto.zeros((BM, d), pto.float32)
    for j in range(0, n, BN):
        keys = k[h, j : j + BN, :]
        s = pto.dot(queries, pto.trans(keys)) * (1 / math.sqrt(d))
        p = pto.exp(s - logs[:, None])
        p = pto.where((j + pto.arange(0, BN) < n)[None, :], p, 0.0)
        ds = p * (pto.dot(above, pto.trans(v[h, j : j + BN, :])) - products[:, None]) * (1 / math.sqrt(d))
        grad = pto.dot(ds, keys, grad)
    dq[h, i : i + BM, :] = grad


def attention_backward(q, k, v, out, log_total, dout, product, grads, blocks=(64, 64)):  # noqa: PLR0913, PLR0917
    """grads = the gradients by q, k and v, given the one by out; product is room of shape (heads, n)."""
    heads, n, _ = q.shape
    bm, bn = blocks
    dq, dk, dv = grads
    products_kernel[(heads, pto.cdiv(n, bm))](out, dout, product, BM=bm)
    keys_kernel[(heads, pto.cdiv(n, bn))](q, k, v, dout, log_total, product, dk, dv, BM=bm, BN=bn)
    queries_kernel[(heads, pto.cdiv(n, bm))](q, k, v, dout, log_total, product, dq, BM=bm, BN=bn)


@pto.jit
def decode_kernel(q, k, v, out, GROUP: pto.constexpr, ROWS: pto.constexpr, BLOCK: pto.constexpr):
    """One query for each head, on a part of the keys; the sum of each part is over the part alone."""
    part, h = pto.program_id(0), pto.program_id(1)
    g = h // GROUP
    query = q[h, :]
    m, total = -math.inf, 0.0
    acc = pto.zeros((v.shape[2],), pto.float32)
    for j in range(part * ROWS, part * ROWS + ROWS, BLOCK):
        s = pto.sum(k[g, j : j + BLOCK, :].to(pto.float32) * query[None, :], axis=1)
        new = pto.maximum(m, pto.max(s))
        p, scale = pto.exp(s - new), pto.exp(m - new)
        total = total * scale + pto.sum(p)
        acc = acc * scale + pto.sum(v[g, j : j + BLOCK, :].to(pto.float32) * p[:, None], axis=0)
        m = new
    out[h, part, :] = acc / total
