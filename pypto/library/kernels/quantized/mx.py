# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Microscaling formats: groups of 32 small floats share one power of two (OCP MX specification 1.0)."""

from __future__ import annotations

import pypto as pto
from pypto.ir.types import bfloat16
from pypto.library.binding import empty
from pypto.library.kernels.products import grid

GROUP = 32
SLOTS = 2  # groups whose scales are stored side by side
COLUMNS = 2048  # columns of a row in a program that quantises
BM, BN, BK = 128, 128, 128


@pto.jit
def shared_exponents(most, EMAX: pto.constexpr, LARGEST: pto.constexpr, UP: pto.constexpr):
    """Computes the shared exponents (E8M0 codes) of groups from their largest magnitudes; 255 is NaN."""
    if UP:
        bits = pto.bitcast(most * (1 / LARGEST) if LARGEST == 1.0 else most / LARGEST, pto.int32)
        fraction = bits & 0x7FFFFF
        code = (bits >> 23) + pto.where(bits >= 1 << 23, fraction > 0, fraction > 1 << 22).to(pto.int32)
    else:
        code = (pto.bitcast(most, pto.int32) >> 23) - EMAX
    code = pto.where(pto.isinf(most), 254, pto.minimum(pto.maximum(code, 0), 254))
    return pto.where(pto.isnan(most), 255, code)


@pto.jit
def power(e):
    """Returns 2 ** e in float32, for e from -126 to 127."""
    return pto.bitcast((e + 127) << 23, pto.float32)


@pto.jit
def in_groups(x, row, j, EMAX: pto.constexpr, LARGEST: pto.constexpr, UP: pto.constexpr, WIDTH: pto.constexpr):
    """Divides WIDTH columns of a row by their groups' powers, clamps them, and returns them with the scale codes."""
    t = pto.reshape(pto.load(x, (row, j), (1, WIDTH)).to(pto.float32), (WIDTH // 32, 32))
    unknown = pto.isnan(t)
    wrong = pto.max(pto.where(unknown, 1.0, 0.0), axis=1) > 0
    most = pto.where(wrong, float("nan"), pto.max(pto.where(unknown, 0.0, pto.abs(t)), axis=1))
    code = shared_exponents(most, EMAX, LARGEST, UP)
    up = 127 - code
    first = up >> 1
    t = t * power(first)[:, None] * power(up - first)[:, None]
    t = pto.where(wrong[:, None], 0.0, pto.clamp(t, -LARGEST, LARGEST, propagate_nan=True))
    return t, code.to(pto.uint8)


@pto.jit
def quantize_mx_kernel(
    x, q, scale, EMAX: pto.constexpr, LARGEST: pto.constexpr, UP: pto.constexpr, WIDTH: pto.constexpr
):
    row, j = pto.program_id(0), pto.program_id(1) * WIDTH
    t, code = in_groups(x, row, j, EMAX, LARGEST, UP, WIDTH)
    pto.store(q, (row, j), pto.reshape(t, (1, WIDTH)).to(q.dtype))
    scale[row, j // 32 : j // 32 + WIDTH // 32] = code


@pto.jit
def e2m1(t):
    """Rounds to the nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6, ties to even, and returns its code; the sign is bit 3."""
    a = pto.abs(t)
    code = (a > 0.25).to(pto.int32) + (a >= 0.75).to(pto.int32) + (a > 1.25).to(pto.int32)
    code += (a >= 1.75).to(pto.int32) + (a > 2.5).to(pto.int32) + (a >= 3.5).to(pto.int32) + (a > 5.0).to(pto.int32)
    return code + pto.where(t < 0, 8, 0)


@pto.jit
def quantize_mxfp4_kernel(
    x, packed, scale, EMAX: pto.constexpr, LARGEST: pto.constexpr, UP: pto.constexpr, WIDTH: pto.constexpr
):
    """Packs two codes in a byte; the first goes to the low nibble."""
    row, j = pto.program_id(0), pto.program_id(1) * WIDTH
    t, code = in_groups(x, row, j, EMAX, LARGEST, UP, WIDTH)
    low, high = pto.split(pto.reshape(e2m1(pto.reshape(t, (1, WIDTH))), (1, WIDTH // 2, 2)))
    pto.store(packed, (row, j // 2), (low + high * 16).to(pto.uint8))
    scale[row, j // 32 : j // 32 + WIDTH // 32] = code


@pto.jit
def mx_matmul_kernel(
    a, a_scale, b, b_scale, bias, y, RELU: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr
):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        left = scaled(a[i : i + BM, k : k + BK], pto.load(a_scale, (i, k // 64, 0), (BM, BK // 64, 2)))
        right = scaled(b[j : j + BN, k : k + BK], pto.load(b_scale, (j, k // 64, 0), (BN, BK // 64, 2)))
        acc = pto.dot(left, pto.trans(right), acc)
    if bias is not None:
        acc = acc + bias[j : j + BN][None, :]
    if RELU:
        acc = pto.maximum(acc, 0.0, propagate_nan=True)
    y[i : i + BM, j : j + BN] = acc.to(y.dtype)


@pto.jit
def scaled(t, code):
    """Multiplies small floats by their groups' powers, in float32."""
    rows, width = t.shape
    exponents = pto.reshape(code, (rows, width // 32)).to(pto.int32)
    factor = pto.bitcast(pto.where(exponents == 0, 1 << 22, exponents << 23), pto.float32)
    factor = pto.where(exponents == 255, float("nan"), factor)
    groups = pto.reshape(t.to(pto.float32), (rows, width // 32, 32)) * factor[:, :, None]
    return pto.reshape(groups, (rows, width))


@pto.jit
def widen_kernel(t, code, floats, WIDTH: pto.constexpr):
    """Converts columns of a row to bfloat16, which holds every E4M3 number times its group's power."""
    row, j = pto.program_id(0), pto.program_id(1) * WIDTH
    numbers = scaled(pto.load(t, (row, j), (1, WIDTH)), pto.load(code, (row, j // 64, 0), (1, WIDTH // 64, 2)))
    pto.store(floats, (row, j), numbers.to(pto.bfloat16))


@pto.jit
def wide_matmul_kernel(a, b, bias, y, RELU: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], pto.trans(b[j : j + BN, k : k + BK]), acc)
    if bias is not None:
        acc = acc + bias[j : j + BN][None, :]
    if RELU:
        acc = pto.maximum(acc, 0.0, propagate_nan=True)
    y[i : i + BM, j : j + BN] = acc.to(y.dtype)


def blocks_of(x, columns):
    """Returns the grid of rows and column blocks, and the width of a block: whole pairs of groups."""
    (t, d), pair = x.shape, GROUP * SLOTS
    width = min(columns, pto.cdiv(d, pair) * pair)
    return (t, pto.cdiv(d, width)), width


def quantize_mx(x, up, q, scale, columns=COLUMNS):
    """Quantises rows of x to MXFP8 (E4M3), whose largest number is 448 = 1.75 * 2**8."""
    where, width = blocks_of(x, columns)
    quantize_mx_kernel[where](x, q, scale.reshape(len(x), -1), EMAX=8, LARGEST=448.0, UP=bool(up), WIDTH=width)


def quantize_mxfp4(x, up, packed, scale, columns=COLUMNS):
    """Quantises rows of x to MXFP4 (E2M1), whose largest number is 6 = 1.5 * 2**2."""
    where, width = blocks_of(x, columns)
    quantize_mxfp4_kernel[where](x, packed, scale.reshape(len(x), -1), EMAX=2, LARGEST=6.0, UP=bool(up), WIDTH=width)


def mx_matmul(a, a_scale, b, b_scale, bias, relu, y):
    """Computes products of rows of a and rows of b, summed in float32."""
    where = grid(a.shape[0], b.shape[0], (BM, BN))
    mx_matmul_kernel[where](a, a_scale, b, b_scale, bias, y, RELU=bool(relu), BM=BM, BN=BN, BK=BK)


def widened(t, code):
    """Returns rows converted to bfloat16."""
    floats = empty(t, tuple(t.shape), bfloat16)
    where, width = blocks_of(t, COLUMNS)
    widen_kernel[where](t, code, floats, WIDTH=width)
    return floats


def mx_matmul_widened(a, a_scale, b, b_scale, bias, relu, y):
    """Converts each number to bfloat16 once, for matrix units without small floats, and then multiplies."""
    left, right = widened(a, a_scale), widened(b, b_scale)
    where = grid(a.shape[0], b.shape[0], (BM, BN))
    wide_matmul_kernel[where](left, right, bias, y, RELU=bool(relu), BM=BM, BN=BN, BK=BK)
