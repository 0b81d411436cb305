# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Products with int4 and int8 weights, which become float32 in registers, and int8 products with a float32 bias."""

from __future__ import annotations

import pypto as pto
from pypto.ir.types import float32
from pypto.library.binding import empty
from pypto.library.kernels.gemv import int4_sums, piece_of, sums
from pypto.library.kernels.products import blocks_for, grid, w8a8_kernel
from pypto.library.kernels.split_k_gemv import split_k_row
from pypto.tuning.tile_sizes import TILES

COLUMNS = TILES.depth
TALL = 128  # rows of a block on a matrix unit, if there are many
FEW = 64  # up to so many rows, a block has 16
BY_ROW = 2  # up to so many rows, each has its own program
FLOATS_BY_ROW = 4  # the same limit if weights become floats
NIBBLE = 8.0  # the nibble that stands for code 0
WIDE = 2048  # from so many columns on, a program takes more of them


@pto.jit
def of_group(t, g, tile, BN: pto.constexpr, TILED: pto.constexpr):
    """Returns a group's scales, zero points or minima for the BN columns of a program, as float32."""
    return (t[tile, g, :] if TILED else t[g, tile * BN : tile * BN + BN]).to(pto.float32)


@pto.jit
def centred(codes, zero, g, tile, MIDDLE: pto.constexpr, BN: pto.constexpr, TILED: pto.constexpr):
    """Subtracts MIDDLE and the zero points from a group's codes, in float32."""
    t = codes.to(pto.float32)
    if zero is not None:
        z = of_group(zero, g, tile, BN, TILED)
        t = t - (MIDDLE + z if MIDDLE else z)[None, :]
    elif MIDDLE:
        t = t - MIDDLE
    return t


@pto.jit
def numbers(codes, scale, zero, low, g, tile, MIDDLE: pto.constexpr, BN: pto.constexpr, TILED: pto.constexpr):
    """Dequantises a group's weights to float32."""
    t = centred(codes, zero, g, tile, MIDDLE, BN, TILED)
    if scale is not None:
        t = t * of_group(scale, g, tile, BN, TILED)
    if low is not None:
        t = t + of_group(low, g, tile, BN, TILED)
    return t


@pto.jit
def row_kernel(
    x, codes, scale, zero, low, row_scale, bias, y, ROWS: pto.constexpr, GROUP: pto.constexpr, PIECE: pto.constexpr,
    BITS: pto.constexpr, MIDDLE: pto.constexpr, TILED: pto.constexpr, BN: pto.constexpr,
):  # fmt: skip
    """GEMV: each program multiplies a row of inputs by BN columns, whose codes have ROWS rows in groups of GROUP rows.

    It sums the products of a group, and then applies the group's scale. So a code costs one conversion, and zero
    points and minima need only the sum of the group's inputs. Without a scale, weights are floats. With TILED, there
    is one row of inputs, and the codes and scales of BN columns lie together; tiles of codes are rows of one matrix.
    """
    row, tile = 0 if TILED else pto.program_id(0), pto.program_id(1)
    j = tile * BN
    first, c, width = (tile * ROWS, 0, codes.shape[1]) if TILED else (0, j, BN)
    acc = pto.zeros((BN,), pto.float32)
    for g in range(ROWS // GROUP if TILED else scale.shape[0]):
        if BITS == 4:
            k, end = 2 * g * GROUP, 2 * g * GROUP + 2 * GROUP
            t = int4_sums(x, row, k, codes, first + g * GROUP, c, GROUP, PIECE, width)
        else:
            k, end = g * GROUP, g * GROUP + GROUP
            t = sums(x, row, k, codes, first + k, c, GROUP, PIECE, width)
        if zero is not None:
            z = of_group(zero, g, tile, BN, TILED)
            t = t - (MIDDLE + z if MIDDLE else z) * pto.sum(x[row, k:end].to(pto.float32))
        elif MIDDLE:
            t = t - MIDDLE * pto.sum(x[row, k:end].to(pto.float32))
        if scale is not None:
            t = t * of_group(scale, g, tile, BN, TILED)
        acc = acc + t
        if low is not None:
            acc = acc + pto.sum(x[row, k:end].to(pto.float32)) * of_group(low, g, tile, BN, TILED)
    if row_scale is not None:
        acc = acc * row_scale[row]
    if bias is not None:
        acc = acc + bias[j : j + BN]
    y[row, j : j + BN] = acc


@pto.jit
def rows_kernel(
    x, codes, scale, zero, low, bias, y, ROWS: pto.constexpr, GROUP: pto.constexpr, BITS: pto.constexpr,
    MIDDLE: pto.constexpr, TILED: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr,
):  # fmt: skip
    """GEMM: multiplies BM rows of inputs by BN columns, whose codes lie as in `row_kernel`; tiles have a dimension.

    Row r of a group's bytes holds the codes for input r in the low nibbles, and those for input GROUP + r in the high.
    """
    i, tile = pto.program_id(0) * BM, pto.program_id(1)
    j = tile * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for g in range(ROWS // GROUP):
        r = g * GROUP
        t = codes[tile, r : r + GROUP, :] if TILED else codes[r : r + GROUP, j : j + BN]
        if BITS == 4:
            k = 2 * g * GROUP
            low_half = numbers(t & 15, scale, zero, low, g, tile, MIDDLE, BN, TILED)
            high_half = numbers(t >> 4, scale, zero, low, g, tile, MIDDLE, BN, TILED)
            acc = pto.dot(x[i : i + BM, k : k + GROUP].to(pto.float32), low_half, acc)
            acc = pto.dot(x[i : i + BM, k + GROUP : k + 2 * GROUP].to(pto.float32), high_half, acc)
        else:
            k = g * GROUP
            t = numbers(t, scale, zero, low, g, tile, MIDDLE, BN, TILED)
            acc = pto.dot(x[i : i + BM, k : k + GROUP].to(pto.float32), t, acc)
    if bias is not None:
        acc = acc + bias[j : j + BN][None, :]
    y[i : i + BM, j : j + BN] = acc


@pto.jit
def pieces_kernel(
    x, codes, scale, zero, low, bias, y, GROUP: pto.constexpr, BITS: pto.constexpr, MIDDLE: pto.constexpr,
    BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr,
):  # fmt: skip
    """GEMM on a matrix unit: codes are converted to x's dtype, which holds them; the scale multiplies partial sums."""
    i, tile = pto.program_id(0) * BM, pto.program_id(1)
    j = tile * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for p in range(0, codes.shape[0], BK):
        g = p // GROUP
        t = codes[p : p + BK, j : j + BN]
        if BITS == 4:
            k = p + g * GROUP
            first, second = x[i : i + BM, k : k + BK], x[i : i + BM, k + GROUP : k + GROUP + BK]
            total = pto.dot(first, centred(t & 15, zero, g, tile, MIDDLE, BN, False).to(x.dtype))
            total = pto.dot(second, centred(t >> 4, zero, g, tile, MIDDLE, BN, False).to(x.dtype), total)
        else:
            total = pto.dot(x[i : i + BM, p : p + BK], centred(t, zero, g, tile, MIDDLE, BN, False).to(x.dtype))
        acc = acc + total * scale[g, j : j + BN][None, :]
        if low is not None:
            inputs = pto.sum(first.to(pto.float32), axis=1) + pto.sum(second.to(pto.float32), axis=1)
            acc = acc + inputs[:, None] * low[g, j : j + BN][None, :]
    if bias is not None:
        acc = acc + bias[j : j + BN][None, :]
    y[i : i + BM, j : j + BN] = acc


@pto.jit
def w8a8_groups_kernel(
    a, b, row_scale, column_scale, bias, y, TRANSPOSED: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr
):
    """Int8 product whose sum over each group is multiplied by the row's scale for the group.

    With TRANSPOSED, `row_scale` has a row for each group.
    """
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    groups = row_scale.shape[0] if TRANSPOSED else row_scale.shape[1]
    size = a.shape[1] // groups
    acc = pto.zeros((BM, BN), pto.float32)
    for g in range(groups):
        k = g * size
        t = pto.dot(a[i : i + BM, k : k + size], b[k : k + size, j : j + BN])
        scales = row_scale[g, i : i + BM] if TRANSPOSED else row_scale[i : i + BM, g]
        acc = acc + t.to(pto.float32) * scales[:, None]
    acc = acc * column_scale[j : j + BN][None, :]
    if bias is not None:
        acc = acc + bias[j : j + BN][None, :]
    y[i : i + BM, j : j + BN] = acc


@pto.jit
def transpose_kernel(x, y, BM: pto.constexpr):
    """Transposes a matrix, so that several numbers of a column are adjacent in memory."""
    i = pto.program_id(0) * BM
    y[:, i : i + BM] = pto.trans(x[i : i + BM, :])


def rows_for(t):
    """Returns the rows of a block: there is a version for few rows and one for many."""
    return 16 if t <= 16 else 128


def columns_for(n):
    """Returns the columns of a program."""
    return min(COLUMNS, pto.next_power_of_2(n))


def row_columns_for(n):
    """Returns the columns of a program of one row: six programs share a matrix, and read long parts of its rows."""
    columns = next((c for c in (1024, 512, 256) if n >= 6 * c), COLUMNS)
    return min(columns, pto.next_power_of_2(n))


def w4a16_matmul(x, packed, scale, zero, bias, low, y):
    """Computes y = x @ ((codes - zero) * scale + low) + bias, with two codes in a byte."""
    by_columns(x, packed, scale, zero, bias, low, y, 4, NIBBLE)


def w8a16_matmul(x, codes, scale, zero, bias, y):
    """Computes y = x @ ((codes - zero) * scale) + bias."""
    by_columns(x, codes, scale, zero, bias, None, y, 8, 0.0)


def by_columns(x, codes, scale, zero, bias, low, y, bits, middle):
    """Launches the product for codes that are stored by columns."""
    (t, n), rows = y.shape, codes.shape[0]
    group = rows // scale.shape[0]
    if t <= FLOATS_BY_ROW:
        bn = row_columns_for(n)
        row_kernel[t, pto.cdiv(n, bn)](
            x, codes, scale, zero, low, None, bias, y, rows, group, piece_of(group), bits, middle, False, bn
        )
        return
    bm, bn = rows_for(t), columns_for(n)
    where = grid(t, n, (bm, bn))
    rows_kernel[where](x, codes, scale, zero, low, bias, y, rows, group, bits, middle, False, bm, bn)


def w4a16_pieces(x, packed, scale, zero, bias, low, y):
    """Launches the int4 product on a matrix unit, or on vector units for one row; a tile lies within a group."""
    in_pieces(x, packed, scale, zero, bias, low, y, 4, NIBBLE)


def w8a16_pieces(x, codes, scale, zero, bias, y):
    """Launches the int8-weight product on a matrix unit."""
    in_pieces(x, codes, scale, zero, bias, None, y, 8, 0.0)


def in_pieces(x, codes, scale, zero, bias, low, y, bits, middle):
    """Launches a product on a matrix unit; a single row goes to the vector units."""
    form = {"GROUP": codes.shape[0] // scale.shape[0], "BITS": bits, "MIDDLE": middle}
    if x.shape[0] == 1:
        split_k_row(x, codes, scale, zero, bias, low, y, **form)
        return
    bm, bn = rows_for(x.shape[0]), columns_for(codes.shape[1])
    sizes = form | {"BM": bm, "BN": bn, "BK": piece_of(form["GROUP"], 128)}
    pieces_kernel[grid(x.shape[0], codes.shape[1], (bm, bn))](x, codes, scale, zero, low, bias, y, **sizes)


def int8_rows_for(t):
    """Returns the rows of a program: there is a version for single rows, one for few, and one for many."""
    return 1 if t <= BY_ROW else 32 if t <= FEW else 128


def int8_columns_for(t, n):
    """Returns the columns of a program: for few rows a divisor of the matrix, so that reads of the weights are long."""
    if t > FEW:
        columns = 2 * COLUMNS if n >= WIDE else COLUMNS
    else:
        columns = next((c for c in TILES.int8_columns if n % c == 0 and (c < TILES.most_columns or n >= WIDE)), COLUMNS)
    return min(columns, pto.next_power_of_2(n))


def w8a8_linear(a, b, row_scale, column_scale, offset, bias, y):
    """Computes y = (a @ b + offset) * row_scale * column_scale + bias, summed in int32."""
    (t, k), n = a.shape, b.shape[1]
    bm, bn = int8_rows_for(t), int8_columns_for(t, n)
    sizes = {"BM": bm, "BN": bn, "BK": min(128, pto.next_power_of_2(k))}
    where = grid(t, n, (bm, bn))
    w8a8_kernel[where](a, b, row_scale, column_scale, offset, bias, y, **sizes)


def w8a8_on_cube(a, b, row_scale, column_scale, offset, bias, y):
    """Computes `w8a8_linear` on a matrix unit, with blocks of one size."""
    bm, bn, bk = blocks = blocks_for(*b.shape)
    sizes = {"BM": bm, "BN": bn, "BK": bk}
    where = grid(a.shape[0], b.shape[1], blocks)
    w8a8_kernel[where](a, b, row_scale, column_scale, offset, bias, y, **sizes)


def w8a8_group_linear(a, b, row_scale, column_scale, bias, y):
    """Computes y = the sum over groups of (a @ b) * row_scale, times column_scale, plus bias."""
    t, n = a.shape[0], b.shape[1]
    bm = 1 if t <= BY_ROW else 16 if t <= FEW else 32
    _, even, _ = TILES.int8_columns
    bn = even if t <= FEW and n % even == 0 else columns_for(n)
    where = grid(t, n, (bm, bn))
    w8a8_groups_kernel[where](a, b, row_scale, column_scale, bias, y, TRANSPOSED=False, BM=bm, BN=bn)


def w8a8_groups_on_cube(a, b, row_scale, column_scale, bias, y):
    """Computes `w8a8_group_linear` on a matrix unit."""
    t, groups = row_scale.shape
    bm, bn = (16 if t <= FEW else TALL), columns_for(b.shape[1])
    scales = empty(a, (groups, t), float32)
    transpose_kernel[(pto.cdiv(t, FEW),)](row_scale, scales, BM=FEW)
    where = grid(t, b.shape[1], (bm, bn))
    w8a8_groups_kernel[where](a, b, scales, column_scale, bias, y, TRANSPOSED=True, BM=bm, BN=bn)
