# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Kernels multiply rows by weights in tiles of columns, each of which is contiguous in memory.

A tile is read once, row by row, and its sums stay in registers, so that a product with one row takes as long as
reading the weights.
"""

from __future__ import annotations

import pypto as pto
from pypto.library.kernels.gemv import int4_sums, sums
from pypto.library.kernels.norms import rms_norm_tile
from pypto.library.kernels.quantized.quant import quantize_row


@pto.jit
def columns_of(x, row, order, FIRST: pto.constexpr, COUNT: pto.constexpr):
    """LayerWeights of a row from FIRST on, in a given order."""
    if order is not None:
        return pto.load(x + row * x.strides[0] + (order[:] + FIRST))
    return x[row, FIRST : FIRST + COUNT]


@pto.jit
def inputs_kernel(x, weight, order, factors, y, scale, eps, COUNT: pto.constexpr, GATED: pto.constexpr):
    """Inputs of a product: the RMS norm of a row (with `weight`) or SwiGLU of its halves (with GATED), times factors.

    With `scale`, inputs are rounded to int8, and keep that as floats where `y` has floats.
    """
    row = pto.program_id(0)
    t = columns_of(x, row, order, 0, COUNT)
    if GATED:
        t = t / (1 + pto.exp(-t)) * columns_of(x, row, order, COUNT, COUNT)
    if weight is not None:
        t = rms_norm_tile(t, weight[:], eps)
    if factors is not None:
        t = t * factors[:]
    if scale is not None:
        q, scale[row] = quantize_row(t)
        y[row, 0:COUNT] = q.to(y.dtype)
    else:
        y[row, 0:COUNT] = t


@pto.jit
def int4_row_kernel(x, packed, scale, low, y, HALF: pto.constexpr, PIECE: pto.constexpr, ADD: pto.constexpr):
    """One row by four bits; the rows of all tiles are those of `packed`."""
    tile, BN = pto.program_id(0), packed.shape[1]
    j = tile * BN
    acc = pto.zeros((BN,), pto.float32)
    for g in range(scale.shape[1]):
        k = 2 * g * HALF
        t = int4_sums(x, 0, k, packed, (tile * scale.shape[1] + g) * HALF, 0, HALF, PIECE, BN)
        inputs = pto.sum(x[0, k : k + 2 * HALF])
        acc = acc + t * scale[tile, g, :].to(pto.float32) + inputs * low[tile, g, :].to(pto.float32)
    if ADD:
        acc = acc + y[0, j : j + BN]
    y[0, j : j + BN] = acc


@pto.jit
def row_kernel(
    x,
    codes,
    scale,
    low,
    row_scale,
    y,
    ROWS: pto.constexpr,
    GROUP: pto.constexpr,
    PIECE: pto.constexpr,
    ADD: pto.constexpr,
):
    """One row by eight bits, or by floats where there is no scale; tiles have ROWS rows each."""
    tile, BN = pto.program_id(0), codes.shape[1]
    j = tile * BN
    acc = pto.zeros((BN,), pto.float32)
    for k in range(0, ROWS, GROUP):
        t = sums(x, 0, k, codes, tile * ROWS + k, 0, GROUP, PIECE, BN)
        if scale is not None:
            t = t * scale[tile, k // GROUP, :].to(pto.float32)
        if low is not None:
            t = t + pto.sum(x[0, k : k + GROUP]) * low[tile, k // GROUP, :].to(pto.float32)
        acc = acc + t
    if row_scale is not None:
        acc = acc * row_scale[0]
    if ADD:
        acc = acc + y[0, j : j + BN]
    y[0, j : j + BN] = acc


@pto.jit
def int4_rows_kernel(x, packed, scale, low, y, HALF: pto.constexpr, BM: pto.constexpr, ADD: pto.constexpr):
    """Many rows by four bits."""
    i, tile, BN = pto.program_id(0) * BM, pto.program_id(1), packed.shape[2]
    j = tile * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for g in range(scale.shape[1]):
        k = 2 * g * HALF
        both = packed[tile, g * HALF : (g + 1) * HALF, :]
        s, least = scale[tile, g, :].to(pto.float32), low[tile, g, :].to(pto.float32)
        acc = pto.dot(x[i : i + BM, k : k + HALF], (both & 15).to(pto.float32) * s + least, acc)
        acc = pto.dot(x[i : i + BM, k + HALF : k + 2 * HALF], (both >> 4).to(pto.float32) * s + least, acc)
    if ADD:
        acc = acc + y[i : i + BM, j : j + BN]
    y[i : i + BM, j : j + BN] = acc


@pto.jit
def rows_kernel(x, codes, scale, low, row_scale, y, GROUP: pto.constexpr, BM: pto.constexpr, ADD: pto.constexpr):
    """Many rows by eight bits or floats; with `row_scale`, inputs are int8, whose products are summed in int32."""
    i, tile, BN = pto.program_id(0) * BM, pto.program_id(1), codes.shape[2]
    j = tile * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, codes.shape[1], GROUP):
        t = codes[tile, k : k + GROUP, :]
        if row_scale is not None:
            products = pto.dot(x[i : i + BM, k : k + GROUP], t).to(pto.float32)
            acc = acc + products * scale[tile, k // GROUP, :].to(pto.float32)[None, :]
        else:
            t = t.to(pto.float32)
            if scale is not None:
                t = t * scale[tile, k // GROUP, :].to(pto.float32)
            if low is not None:
                t = t + low[tile, k // GROUP, :].to(pto.float32)
            acc = pto.dot(x[i : i + BM, k : k + GROUP], t, acc)
    if row_scale is not None:
        acc = acc * row_scale[i : i + BM][:, None]
    if ADD:
        acc = acc + y[i : i + BM, j : j + BN]
    y[i : i + BM, j : j + BN] = acc
