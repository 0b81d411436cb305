"""Kernels of neural networks, in both styles. What they compute stands in `network_cases`."""

import pypto as pto

# --- rows ----------------------------------------------------------------------------------------------------------


@pto.jit
def softmax_native(x, y):
    row = pto.program_id(0)
    t = x[row, :]
    e = pto.exp(t - pto.max(t))
    y[row, :] = e / pto.sum(e)


@pto.jit
def softmax_pointers(out, x, out_stride, x_stride, rows, cols, BLOCK: pto.constexpr):
    for row in range(pto.program_id(0), rows, pto.num_programs(0)):
        offs = pto.arange(0, BLOCK)
        mask = offs < cols
        t = pto.load(x + row * x_stride + offs, mask=mask, other=-float("inf"))
        e = pto.exp(t - pto.max(t, axis=0))
        pto.store(out + row * out_stride + offs, e / pto.sum(e, axis=0), mask=mask)


@pto.jit
def softmax_online(x, y, BLOCK: pto.constexpr):
    row = pto.program_id(0)
    top, total = -float("inf"), 0.0
    for k in range(0, x.shape[1], BLOCK):
        t = pto.load(x, (row, k), (1, BLOCK), pad=-float("inf"))
        new = pto.maximum(top, pto.max(t))
        total = total * pto.exp(top - new) + pto.sum(pto.exp(t - new))
        top = new
    for k in range(0, x.shape[1], BLOCK):
        y[row, k : k + BLOCK] = pto.exp(x[row, k : k + BLOCK] - top) / total


@pto.jit
def layer_norm(x, weight, bias, y, mean, rstd, eps):
    row = pto.program_id(0)
    t = x[row, :]
    n = x.shape[1]
    mu = pto.sum(t) / n
    centred = t - mu
    r = pto.rsqrt(pto.sum(centred * centred) / n + eps)
    mean[row], rstd[row] = mu, r
    y[row, :] = centred * r * weight[:] + bias[:]


@pto.jit
def layer_norm_backward(x, weight, dy, mean, rstd, dx, dw, db, GROUP: pto.constexpr):  # noqa: PLR0913, PLR0917
    """Every program takes a group of rows and sums up its share of dw and db."""
    g, n = pto.program_id(0), x.shape[1]
    w = weight[:]
    part_w, part_b = pto.zeros((n,), pto.float32), pto.zeros((n,), pto.float32)
    for row in range(g * GROUP, min(g * GROUP + GROUP, x.shape[0])):
        d, r = dy[row, :], rstd[row]
        normal = (x[row, :] - mean[row]) * r
        wd = w * d
        c1, c2 = pto.sum(normal * wd) / n, pto.sum(wd) / n
        dx[row, :] = (wd - normal * c1 - c2) * r
        part_w += d * normal
        part_b += d
    dw[g, :], db[g, :] = part_w, part_b


@pto.jit
def masked_mean(x, mask, out):
    """Mean of the rows that count, then to length one."""
    b = pto.program_id(0)
    m = mask[b, :].to(pto.float32)
    total = pto.sum(x[b] * m[:, None], axis=0) / pto.maximum(pto.sum(m), 1.0)
    out[b, :] = total * pto.rsqrt(pto.sum(total * total) + 1e-12)


# --- matrices ------------------------------------------------------------------------------------------------------


@pto.jit
def matmul_native(a, b, bias, c, ACTIVATION: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    acc += bias[j : j + BN]
    c[i : i + BM, j : j + BN] = acc if ACTIVATION is None else ACTIVATION(acc)


@pto.jit
def matmul_f64(a, b, bias, c, ACTIVATION: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """Float64 throughout; the accumulator begins with the bias."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.broadcast_to(bias[j : j + BN].to(pto.float64), (BM, BN))
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc=acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def matmul_pointers(  # noqa: PLR0913, PLR0917
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr, GROUP: pto.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = pto.cdiv(M, BM), pto.cdiv(N, BN)
    pid = pto.program_id(axis=0)
    first = pid // (GROUP * tiles_n) * GROUP
    rows = min(tiles_m - first, GROUP)
    pid_m = first + pid % (GROUP * tiles_n) % rows
    pid_n = pid % (GROUP * tiles_n) // rows
    offs_m, offs_n = pid_m * BM + pto.arange(0, BM), pid_n * BN + pto.arange(0, BN)
    offs_k = pto.arange(0, BK)
    a_ptrs = a + (offs_m[:, None] * sam + offs_k[None, :] * sak)
    b_ptrs = b + (offs_k[:, None] * sbk + offs_n[None, :] * sbn)
    acc = pto.zeros((BM, BN), dtype=pto.float32)
    for k in range(0, pto.cdiv(K, BK)):
        inside = offs_k < K - k * BK
        left = pto.load(a_ptrs, mask=(offs_m[:, None] < M) & inside[None, :], other=0.0)
        right = pto.load(b_ptrs, mask=inside[:, None] & (offs_n[None, :] < N), other=0.0)
        acc = pto.dot(left, right, acc)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    pto.store(c + scm * offs_m[:, None] + scn * offs_n[None, :], acc.to(c.dtype), mask=mask)


@pto.jit
def matmul_wrapped(  # noqa: PLR0913, PLR0917
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr
):
    """Rows and columns beyond the matrices are others of them, so that loads need no mask there."""
    offs_m, offs_n = pto.program_id(0) * BM + pto.arange(0, BM), pto.program_id(1) * BN + pto.arange(0, BN)
    rows, cols, offs_k = offs_m % M, pto.minimum(offs_n, N - 1), pto.arange(0, BK)
    a_ptrs = a + (rows[:, None] * sam + offs_k[None, :] * sak)
    b_ptrs = b + (offs_k[:, None] * sbk + cols[None, :] * sbn)
    acc = pto.zeros((BM, BN), dtype=pto.float32)
    for k in range(0, pto.cdiv(K, BK)):
        left = pto.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        right = pto.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        acc = pto.dot(left, right, acc)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    pto.store(c + scm * offs_m[:, None] + scn * offs_n[None, :], acc.to(c.dtype), mask=mask)


@pto.jit
def batched_dot(a, b, c, B: pto.constexpr):
    """Stacks of matrices: a transposed right side, and an accumulator of the result's type."""
    i = pto.program_id(0) * B
    c[i : i + B, :, :] = pto.dot(a[i : i + B, :, :], pto.trans(b[i : i + B, :, :]))


@pto.jit
def attention(q, k, v, out, scale, CAUSAL: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr):
    i, head = pto.program_id(0) * BM, pto.program_id(1)
    queries = q[head, i : i + BM, :] * scale
    rows = i + pto.arange(0, BM)
    top = pto.full((BM,), -float("inf"), pto.float32)
    total = pto.zeros((BM,), pto.float32)
    acc = pto.zeros((BM, q.shape[2]), pto.float32)
    end = min(i + BM, k.shape[1]) if CAUSAL else k.shape[1]
    for j in range(0, end, BN):
        cols = j + pto.arange(0, BN)
        s = pto.dot(queries, pto.trans(k[head, j : j + BN, :]))
        seen = (cols < k.shape[1])[None, :]
        if CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None])
        s = pto.where(seen, s, -float("inf"))
        new = pto.maximum(top, pto.max(s, 1))
        p = pto.exp(s - new[:, None])
        shrink = pto.exp(top - new)
        total = total * shrink + pto.sum(p, 1)
        acc = pto.dot(p, v[head, j : j + BN, :], acc * shrink[:, None])
        top = new
    out[head, i : i + BM, :] = acc / total[:, None]


@pto.jit
def transpose(x, y, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    y[j : j + BN, i : i + BM] = x[i : i + BM, j : j + BN].T
