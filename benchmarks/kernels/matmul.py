# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Products of matrices by blocks, plain and batched, and convolution as a product."""

from __future__ import annotations

import pypto as pto


@pto.jit
def matmul_kernel(
    a, b, c, ACC: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr, PRECISION: pto.constexpr
):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), ACC)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc, input_precision=PRECISION)
    c[i : i + BM, j : j + BN] = pto.cast(acc, c.dtype)


def matmul(a, b, out, blocks=(128, 128, 128), precision="ieee"):
    """out = a @ b; shapes (m, k), (k, n) and (m, n)."""
    acc = pto.int32 if out.dtype == "int32" else pto.float32
    bm, bn, bk = blocks
    grid = (pto.cdiv(a.shape[0], bm), pto.cdiv(b.shape[1], bn))
    matmul_kernel[grid](a, b, out, ACC=acc, BM=bm, BN=bn, BK=bk, PRECISION=precision)


@pto.jit
def pointers_kernel(
    a, b, c, M, N, K, pitch_a, pitch_b, pitch_c,
    BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr, GROUP: pto.constexpr,
):  # fmt: skip
    """In Triton's style: a grid of one axis in groups of rows, indices that wrap around, pointers that move."""
    down, right = pto.cdiv(M, BM), pto.cdiv(N, BN)
    group, rest = pto.program_id(0) // (GROUP * right), pto.program_id(0) % (GROUP * right)
    high = min(down - group * GROUP, GROUP)
    rows = (group * GROUP + rest % high) * BM + pto.arange(0, BM)
    columns = rest // high * BN + pto.arange(0, BN)
    inner = pto.arange(0, BK)
    left = a + (rows % M)[:, None] * pitch_a + inner[None, :]
    right_side = b + inner[:, None] * pitch_b + (columns % N)[None, :]
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, pto.cdiv(K, BK)):
        x = pto.load(left, inner[None, :] < K - k * BK, 0.0)
        y = pto.load(right_side, inner[:, None] < K - k * BK, 0.0)
        acc = pto.dot(x, y, acc)
        left += BK
        right_side += BK * pitch_b
    pto.store(c + rows[:, None] * pitch_c + columns[None, :], acc, (rows[:, None] < M) & (columns[None, :] < N))


def matmul_by_pointers(a, b, out, blocks=(128, 128, 64)):
    """out = a @ b; shapes (m, k), (k, n) and (m, n), rows of neighbours."""
    (m, k), n, (bm, bn, bk) = a.shape, b.shape[1], blocks
    grid = (pto.cdiv(m, bm) * pto.cdiv(n, bn),)
    pointers_kernel[grid](a, b, out, m, n, k, k, n, n, BM=bm, BN=bn, BK=bk, GROUP=8)


@pto.jit
def batched_kernel(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j, h = pto.program_id(0) * BM, pto.program_id(1) * BN, pto.program_id(2)
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[2], BK):
        acc = pto.dot(a[h, i : i + BM, k : k + BK], b[h, k : k + BK, j : j + BN], acc)
    c[h, i : i + BM, j : j + BN] = acc


def batched_matmul(a, b, out, blocks=(128, 128, 128)):
    """out = a @ b for each of a batch; shapes (batch, m, k), (batch, k, n) and (batch, m, n)."""
    bm, bn, bk = blocks
    grid = (pto.cdiv(a.shape[1], bm), pto.cdiv(b.shape[2], bn), a.shape[0])
    batched_kernel[grid](a, b, out, BM=bm, BN=bn, BK=bk)


@pto.jit
def linear_kernel(x, weight, bias, y, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, x.shape[1], BK):
        acc = pto.dot(x[i : i + BM, k : k + BK], pto.trans(weight[j : j + BN, k : k + BK]), acc)
    y[i : i + BM, j : j + BN] = pto.maximum(acc + bias[j : j + BN], 0)


def linear_relu(x, weight, bias, out, blocks=(128, 128, 128)):
    """out = max(x @ weight.T + bias, 0); shapes (m, k), (n, k), (n,) and (m, n)."""
    bm, bn, bk = blocks
    grid = (pto.cdiv(x.shape[0], bm), pto.cdiv(weight.shape[0], bn))
    linear_kernel[grid](x, weight, bias, out, BM=bm, BN=bn, BK=bk)


@pto.jit
def convolution_kernel(x, weight, out, BW: pto.constexpr):
    n, h, w = pto.program_id(0), pto.program_id(1), pto.program_id(2) * BW
    acc = pto.zeros((weight.shape[2], BW), pto.float32)
    for ky in pto.static_range(3):
        for kx in pto.static_range(3):
            left = w + kx - 1  # what lies beside the image reads as 0
            acc = pto.dot(weight[ky, kx, :, :], x[n, :, h + ky - 1, left : left + BW], acc)
    out[n, :, h, w : w + BW] = acc


def convolution(x, weight, out, block=64):
    """3 x 3 with padding 1; x (n, c, h, w), weight (3, 3, o, c), out (n, o, h, w)."""
    grid = (x.shape[0], x.shape[2], pto.cdiv(x.shape[3], block))
    convolution_kernel[grid](x, weight, out, BW=block)
