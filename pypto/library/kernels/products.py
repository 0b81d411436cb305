# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Tiled products of activations and weights; the number of rows is a run-time value."""

from __future__ import annotations

import pypto as pto

BLOCKS = (128, 128, 128)


@pto.jit
def matmul_kernel(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc.to(c.dtype)


@pto.jit
def matmul_by_rows_kernel(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """Multiplies by the transpose of b: a row of weights gives one output."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], pto.trans(b[j : j + BN, k : k + BK]), acc)
    c[i : i + BM, j : j + BN] = acc.to(c.dtype)


@pto.jit
def w8a8_kernel(
    a, b, row_scale, column_scale, offset, bias, y, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr,
    TILED: pto.constexpr = False,
):  # fmt: skip
    """Int8 product summed in int32: ``(a @ b + offset) * row_scale * column_scale + bias``.

    With TILED, the first dimension of b counts tiles of BN columns, and scales apply as in `row_kernel`: columns first.
    """
    i, tile = pto.program_id(0) * BM, pto.program_id(1)
    j = tile * BN
    acc = pto.zeros((BM, BN), pto.int32)
    for k in range(0, a.shape[1], BK):
        t = b[tile, k : k + BK, :] if TILED else b[k : k + BK, j : j + BN]
        acc = pto.dot(a[i : i + BM, k : k + BK], t, acc)
    if offset is not None:
        acc = acc + offset[j : j + BN][None, :]
    rows, columns = row_scale[i : i + BM].to(pto.float32), column_scale[j : j + BN].to(pto.float32)
    total = acc.to(pto.float32)
    total = total * columns[None, :] * rows[:, None] if TILED else total * rows[:, None] * columns[None, :]
    if bias is not None:
        total = total + bias[j : j + BN][None, :]
    y[i : i + BM, j : j + BN] = total.to(y.dtype)


def grid(t, n, blocks):
    """Returns the grid of a result of t rows and n columns."""
    return pto.cdiv(t, blocks[0]), pto.cdiv(n, blocks[1])


def blocks_for(k, n):
    """Returns block sizes that are not larger than the weights."""
    bm, bn, bk = BLOCKS
    return bm, min(bn, pto.next_power_of_2(n)), min(bk, pto.next_power_of_2(k))


def matmul(a, b, c):
    """Computes c = a @ b, summed in float32."""
    bm, bn, bk = blocks = blocks_for(*b.shape)
    matmul_kernel[grid(a.shape[0], b.shape[1], blocks)](a, b, c, BM=bm, BN=bn, BK=bk)


def matmul_by_rows(a, b, c):
    """Computes c = a @ b.T, summed in float32."""
    bm, bn, bk = blocks = blocks_for(b.shape[1], b.shape[0])
    matmul_by_rows_kernel[grid(a.shape[0], b.shape[0], blocks)](a, b, c, BM=bm, BN=bn, BK=bk)


def dequantize_matmul(a, b, row_scale, column_scale, bias, y):
    """Computes y = (a @ b + bias) * row_scale * column_scale, summed in int32."""
    bm, bn, bk = blocks = blocks_for(*b.shape)
    sizes = {"BM": bm, "BN": bn, "BK": bk}
    w8a8_kernel[grid(a.shape[0], b.shape[1], blocks)](a, b, row_scale, column_scale, bias, None, y, **sizes)
