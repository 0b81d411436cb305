# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Products with weights of four and eight bits, which become float32 in registers, and of int8 with a float32 bias."""

from __future__ import annotations

import pypto as pto
from pypto.ir.types import float32
from pypto.library.binding import empty
from pypto.library.kernels.gemv import int4_sums, piece_of, sums
from pypto.library.kernels.products import blocks_for, grid
from pypto.library.kernels.split_k_gemv import w4a16_row, w8a16_row

COLUMNS = 128
TALL = 128  # rows of a block of many on a matrix unit
FEW = 64  # rows up to which blocks have 16
BY_ROW = 2  # rows up to which each is a program
FLOATS_BY_ROW = 4  # the same where weights become floats
WIDE = 2048  # columns from which programs take more of them


@pto.jit
def int4_row_kernel(x, packed, scale, zero, bias, low, y, HALF: pto.constexpr, PIECE: pto.constexpr, BN: pto.constexpr):
    """A row for each program: products of a group are summed before its scale is applied.

    A code costs one conversion so; zero points and minima need the sum of the group's inputs only.
    """
    row, j = pto.program_id(0), pto.program_id(1) * BN
    acc = pto.zeros((BN,), pto.float32)
    for g in range(scale.shape[0]):
        k = 2 * g * HALF
        t = int4_sums(x, row, k, packed, g * HALF, j, HALF, PIECE, BN)
        inputs = pto.sum(x[row, k : k + 2 * HALF].to(pto.float32))
        z = 8.0 if zero is None else 8 + zero[g, j : j + BN].to(pto.float32)
        acc = acc + (t - z * inputs) * scale[g, j : j + BN]
        if low is not None:
            acc = acc + inputs * low[g, j : j + BN]
    if bias is not None:
        acc = acc + bias[j : j + BN]
    y[row, j : j + BN] = acc


@pto.jit
def int8_weights_row_kernel(
    x, codes, scale, zero, bias, y, GROUP: pto.constexpr, PIECE: pto.constexpr, BN: pto.constexpr
):
    """The same of eight bits."""
    row, j = pto.program_id(0), pto.program_id(1) * BN
    acc = pto.zeros((BN,), pto.float32)
    for g in range(scale.shape[0]):
        k = g * GROUP
        t = sums(x, row, k, codes, k, j, GROUP, PIECE, BN)
        if zero is not None:
            t = t - pto.sum(x[row, k : k + GROUP].to(pto.float32)) * zero[g, j : j + BN].to(pto.float32)
        acc = acc + t * scale[g, j : j + BN]
    if bias is not None:
        acc = acc + bias[j : j + BN]
    y[row, j : j + BN] = acc


@pto.jit
def int4_matmul_kernel(x, packed, scale, zero, bias, low, y, HALF: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr):
    """Row r of a group's bytes has its input r in the low nibbles, and its input HALF + r in the high ones."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for g in range(scale.shape[0]):
        k = 2 * g * HALF
        codes = packed[g * HALF : (g + 1) * HALF, j : j + BN]
        s = scale[g, j : j + BN]
        z = 8.0 if zero is None else 8 + zero[g, j : j + BN].to(pto.float32)
        first = ((codes & 15).to(pto.float32) - z) * s
        second = ((codes >> 4).to(pto.float32) - z) * s
        if low is not None:
            first = first + low[g, j : j + BN]
            second = second + low[g, j : j + BN]
        acc = pto.dot(x[i : i + BM, k : k + HALF].to(pto.float32), first, acc)
        acc = pto.dot(x[i : i + BM, k + HALF : k + 2 * HALF].to(pto.float32), second, acc)
    if bias is not None:
        acc = acc + bias[j : j + BN][None, :]
    y[i : i + BM, j : j + BN] = acc


@pto.jit
def int8_weights_matmul_kernel(
    x, codes, scale, zero, bias, y, GROUP: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr
):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for g in range(scale.shape[0]):
        k = g * GROUP
        t = codes[k : k + GROUP, j : j + BN].to(pto.float32)
        if zero is not None:
            t = t - zero[g, j : j + BN].to(pto.float32)
        acc = pto.dot(x[i : i + BM, k : k + GROUP].to(pto.float32), t * scale[g, j : j + BN], acc)
    if bias is not None:
        acc = acc + bias[j : j + BN][None, :]
    y[i : i + BM, j : j + BN] = acc


@pto.jit
def int4_pieces_kernel(
    x, packed, scale, zero, bias, low, y, HALF: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr
):
    """For a matrix unit: codes become numbers of x's dtype, which holds them; the scale multiplies a piece's sum."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for p in range(0, packed.shape[0], BK):
        g = p // HALF
        k = p + g * HALF
        codes = packed[p : p + BK, j : j + BN]
        z = 8.0 if zero is None else 8 + zero[g, j : j + BN].to(pto.float32)[None, :]
        first = x[i : i + BM, k : k + BK]
        second = x[i : i + BM, k + HALF : k + HALF + BK]
        t = pto.dot(first, ((codes & 15).to(pto.float32) - z).to(x.dtype))
        t = pto.dot(second, ((codes >> 4).to(pto.float32) - z).to(x.dtype), t)
        acc = acc + t * scale[g, j : j + BN][None, :]
        if low is not None:
            inputs = pto.sum(first.to(pto.float32), axis=1) + pto.sum(second.to(pto.float32), axis=1)
            acc = acc + inputs[:, None] * low[g, j : j + BN][None, :]
    if bias is not None:
        acc = acc + bias[j : j + BN][None, :]
    y[i : i + BM, j : j + BN] = acc


@pto.jit
def int8_weights_pieces_kernel(
    x, codes, scale, zero, bias, y, GROUP: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr
):
    """The same of eight bits."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, codes.shape[0], BK):
        g = k // GROUP
        t = codes[k : k + BK, j : j + BN].to(pto.float32)
        if zero is not None:
            t = t - zero[g, j : j + BN].to(pto.float32)[None, :]
        acc = acc + pto.dot(x[i : i + BM, k : k + BK], t.to(x.dtype)) * scale[g, j : j + BN][None, :]
    if bias is not None:
        acc = acc + bias[j : j + BN][None, :]
    y[i : i + BM, j : j + BN] = acc


@pto.jit
def w8a8_linear_kernel(
    a, b, row_scale, column_scale, offset, bias, y, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr
):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.int32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    if offset is not None:
        acc = acc + offset[j : j + BN][None, :]
    t = acc.to(pto.float32) * row_scale[i : i + BM][:, None] * column_scale[j : j + BN][None, :]
    if bias is not None:
        t = t + bias[j : j + BN][None, :]
    y[i : i + BM, j : j + BN] = t


@pto.jit
def group_sums(a, b, row_scale, i, j, BM: pto.constexpr, BN: pto.constexpr):
    """Products of int8, whose sums over a group are multiplied by the group's scale of the row."""
    groups = row_scale.shape[1]
    size = a.shape[1] // groups
    acc = pto.zeros((BM, BN), pto.float32)
    for g in range(groups):
        k = g * size
        t = pto.dot(a[i : i + BM, k : k + size], b[k : k + size, j : j + BN])
        acc = acc + t.to(pto.float32) * row_scale[i : i + BM, g][:, None]
    return acc


@pto.jit
def w8a8_group_linear_kernel(a, b, row_scale, column_scale, bias, y, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    t = group_sums(a, b, row_scale, i, j, BM, BN) * column_scale[j : j + BN][None, :]
    if bias is not None:
        t = t + bias[j : j + BN][None, :]
    y[i : i + BM, j : j + BN] = t


@pto.jit
def transpose_kernel(x, y, BM: pto.constexpr):
    """Columns become rows, so that some numbers of a column are neighbours."""
    i = pto.program_id(0) * BM
    y[:, i : i + BM] = pto.trans(x[i : i + BM, :])


@pto.jit
def w8a8_groups_on_cube_kernel(a, b, scales, column_scale, bias, y, BM: pto.constexpr, BN: pto.constexpr):
    """The same with a row of scales for each group."""
    i, j, groups = pto.program_id(0) * BM, pto.program_id(1) * BN, scales.shape[0]
    size = a.shape[1] // groups
    acc = pto.zeros((BM, BN), pto.float32)
    for g in range(groups):
        k = g * size
        t = pto.dot(a[i : i + BM, k : k + size], b[k : k + size, j : j + BN])
        acc = acc + t.to(pto.float32) * scales[g, i : i + BM][:, None]
    acc = acc * column_scale[j : j + BN][None, :]
    if bias is not None:
        acc = acc + bias[j : j + BN][None, :]
    y[i : i + BM, j : j + BN] = acc


def rows_for(t):
    """Rows of a block: a version for few rows, one for many."""
    return 16 if t <= 16 else 128


def columns_for(n):
    """Columns of a program."""
    return min(COLUMNS, pto.next_power_of_2(n))


def row_columns_for(n):
    """Columns of a program of one row: six programs share a matrix, and read long pieces of its rows."""
    columns = next((c for c in (1024, 512, 256) if n >= 6 * c), COLUMNS)
    return min(columns, pto.next_power_of_2(n))


def w4a16_matmul(x, packed, scale, zero, bias, low, y):
    """y = x @ ((codes - zero) * scale + low) + bias, with two codes in a byte."""
    (t, n), half = y.shape, packed.shape[0] // scale.shape[0]
    if t <= FLOATS_BY_ROW:
        bn = row_columns_for(n)
        sizes = {"HALF": half, "PIECE": piece_of(half), "BN": bn}
        int4_row_kernel[t, pto.cdiv(n, bn)](x, packed, scale, zero, bias, low, y, **sizes)
        return
    bm, bn = rows_for(t), columns_for(n)
    where = grid(t, n, (bm, bn))
    int4_matmul_kernel[where](x, packed, scale, zero, bias, low, y, HALF=half, BM=bm, BN=bn)


def w4a16_pieces(x, packed, scale, zero, bias, low, y):
    """The same for a matrix unit, whose tiles hold a piece of a group, and for one row on vector units."""
    if x.shape[0] == 1:
        w4a16_row(x, packed, scale, zero, bias, low, y)
        return
    bm, bn = rows_for(x.shape[0]), columns_for(packed.shape[1])
    half = packed.shape[0] // scale.shape[0]
    sizes = {"HALF": half, "BM": bm, "BN": bn, "BK": piece_of(half, 128)}
    int4_pieces_kernel[grid(x.shape[0], packed.shape[1], (bm, bn))](x, packed, scale, zero, bias, low, y, **sizes)


def w8a16_pieces(x, codes, scale, zero, bias, y):
    """The same for a matrix unit, whose tiles hold a piece of a group, and for one row on vector units."""
    if x.shape[0] == 1:
        w8a16_row(x, codes, scale, zero, bias, y)
        return
    bm, bn = rows_for(x.shape[0]), columns_for(codes.shape[1])
    group = codes.shape[0] // scale.shape[0]
    sizes = {"GROUP": group, "BM": bm, "BN": bn, "BK": piece_of(group, 128)}
    int8_weights_pieces_kernel[grid(x.shape[0], codes.shape[1], (bm, bn))](x, codes, scale, zero, bias, y, **sizes)


def w8a16_matmul(x, codes, scale, zero, bias, y):
    """y = x @ ((codes - zero) * scale) + bias."""
    (t, n), group = y.shape, codes.shape[0] // scale.shape[0]
    if t <= FLOATS_BY_ROW:
        bn = row_columns_for(n)
        sizes = {"GROUP": group, "PIECE": piece_of(group), "BN": bn}
        int8_weights_row_kernel[t, pto.cdiv(n, bn)](x, codes, scale, zero, bias, y, **sizes)
        return
    bm, bn = rows_for(t), columns_for(n)
    where = grid(t, n, (bm, bn))
    int8_weights_matmul_kernel[where](x, codes, scale, zero, bias, y, GROUP=group, BM=bm, BN=bn)


def int8_rows_for(t):
    """Rows of a program: a version for rows one by one, one for few, one for many."""
    return 1 if t <= BY_ROW else 32 if t <= FEW else 128


def int8_columns_for(t, n):
    """Columns of a program: for few rows as many as divide a matrix, whose weights are then read in long pieces."""
    if t > FEW:
        columns = 256 if n >= WIDE else 128
    else:
        columns = next((c for c in (512, 192, 256) if n % c == 0 and (c < 512 or n >= WIDE)), 128)
    return min(columns, pto.next_power_of_2(n))


def w8a8_linear(a, b, row_scale, column_scale, offset, bias, y):
    """y = (a @ b + offset) * row_scale * column_scale + bias, summed in int32."""
    (t, k), n = a.shape, b.shape[1]
    bm, bn = int8_rows_for(t), int8_columns_for(t, n)
    sizes = {"BM": bm, "BN": bn, "BK": min(128, pto.next_power_of_2(k))}
    where = grid(t, n, (bm, bn))
    w8a8_linear_kernel[where](a, b, row_scale, column_scale, offset, bias, y, **sizes)


def w8a8_on_cube(a, b, row_scale, column_scale, offset, bias, y):
    """The same for a matrix unit, by blocks of one size."""
    bm, bn, bk = blocks = blocks_for(*b.shape)
    sizes = {"BM": bm, "BN": bn, "BK": bk}
    where = grid(a.shape[0], b.shape[1], blocks)
    w8a8_linear_kernel[where](a, b, row_scale, column_scale, offset, bias, y, **sizes)


def w8a8_group_linear(a, b, row_scale, column_scale, bias, y):
    """y = the sum over groups of (a @ b) * row_scale, times column_scale, plus bias; sums of a group in int32."""
    t, n = a.shape[0], b.shape[1]
    bm = 1 if t <= BY_ROW else 16 if t <= FEW else 32
    bn = 192 if t <= FEW and n % 192 == 0 else columns_for(n)
    where = grid(t, n, (bm, bn))
    w8a8_group_linear_kernel[where](a, b, row_scale, column_scale, bias, y, BM=bm, BN=bn)


def w8a8_groups_on_cube(a, b, row_scale, column_scale, bias, y):
    """The same for a matrix unit."""
    t, groups = row_scale.shape
    bm, bn = (16 if t <= FEW else TALL), columns_for(b.shape[1])
    scales = empty(a, (groups, t), float32)
    transpose_kernel[(pto.cdiv(t, FEW),)](row_scale, scales, BM=FEW)
    where = grid(t, b.shape[1], (bm, bn))
    w8a8_groups_on_cube_kernel[where](a, b, scales, column_scale, bias, y, BM=bm, BN=bn)
