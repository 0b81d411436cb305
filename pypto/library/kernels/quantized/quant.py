# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Quantisation to int8."""

from __future__ import annotations

import pypto as pto
from pypto.ir.types import int32
from pypto.library.binding import empty, refuse_nan
from pypto.library.kernels.activations import gelu_tile
from pypto.library.kernels.norms import layer_norm_tile


@pto.jit
def magnitudes(t):
    """Bits of magnitudes, which as integers are in the order of the numbers, and those of NaN above all others."""
    return pto.bitcast(pto.abs(t), pto.int32)


@pto.jit
def largest(t, axis: pto.constexpr = None):
    """The largest magnitude of float32, or NaN where there is one, which `max` of floats leaves out."""
    return pto.bitcast(pto.max(magnitudes(t), axis=axis), pto.float32)


@pto.jit
def quantize_tile(t, axis: pto.constexpr):
    """Float32 as int8, and the scales that give it back; zeros have scale 0, and NaN has a scale of NaN."""
    most = largest(t, axis)
    scale = pto.where(most > 0, 127 / most, 0.0)
    return pto.rint(t * pto.expand_dims(scale, axis)).to(pto.int8), most / 127


@pto.jit
def quantize_row(t):
    """A float32 row as int8, and its scale."""
    most = largest(t)
    scale = pto.where(most > 0, 127 / most, 0.0)
    return pto.rint(t * scale).to(pto.int8), most / 127


@pto.jit
def quantize_per_token_kernel(x, smooth, q, scale):
    row = pto.program_id(0)
    t = x[row, :].to(pto.float32)
    if smooth is not None:
        t = t * smooth[:].to(pto.float32)
    q[row, :], scale[row] = quantize_row(t)


@pto.jit
def store_groups(t, smooth, q, scale, row):
    """Write a float32 row as int8, with a scale for each group of neighbours."""
    groups, d = scale.shape[1], q.shape[1]
    if smooth is not None:
        t = t * smooth[:].to(pto.float32)
    parts = pto.reshape(t, (groups, d // groups))
    most = largest(parts, 1)
    up = pto.where(most > 0, 127 / most, 0.0)
    q[row, :] = pto.reshape(pto.rint(parts * up[:, None]).to(pto.int8), (d,))
    scale[row, :] = most / 127


@pto.jit
def quantize_per_group_kernel(x, smooth, q, scale):
    row = pto.program_id(0)
    store_groups(x[row, :].to(pto.float32), smooth, q, scale, row)


@pto.jit
def gelu_quantize_kernel(x, smooth, q, scale, FUNCTION: pto.constexpr):
    row = pto.program_id(0)
    store_groups(FUNCTION(x[row, :].to(pto.float32)), smooth, q, scale, row)


@pto.jit
def add_layer_norm_quantize_kernel(x, residual, g, b, smooth, y, q, scale, eps):
    row = pto.program_id(0)
    t = x[row, :].to(pto.float32) + residual[row, :].to(pto.float32)
    t = layer_norm_tile(t, g[:], b[:], eps)
    y[row, :] = t.to(y.dtype)
    store_groups(t, smooth, q, scale, row)


@pto.jit
def quantize_per_channel_kernel(w: pto.dynamic, q, scale, BK: pto.constexpr, BN: pto.constexpr):
    """Columns: their largest elements first, then the numbers."""
    j = pto.program_id(0) * BN
    bits = pto.zeros((BN,), pto.int32)
    for k in range(0, w.shape[0], BK):
        bits = pto.maximum(bits, pto.max(magnitudes(w[k : k + BK, j : j + BN].to(pto.float32)), axis=0))
    most = pto.bitcast(bits, pto.float32)
    up = pto.where(most > 0, 127 / most, 0.0)
    for k in range(0, w.shape[0], BK):
        t = w[k : k + BK, j : j + BN].to(pto.float32)
        q[k : k + BK, j : j + BN] = pto.rint(t * up[None, :]).to(pto.int8)
    scale[j : j + BN] = most / 127


@pto.jit
def quantize_static_kernel(x, scale, offset, q, nan):
    """Codes of a row, and whether NaN is among its numbers, which has no code."""
    row = pto.program_id(0)
    t = x[row, :].to(pto.float32) * scale[:].to(pto.float32) + offset[:].to(pto.float32)
    nan[row] = pto.max(pto.isnan(t).to(pto.int32))
    q[row, :] = pto.clamp(pto.rint(t), -128.0, 127.0).to(pto.int8)


@pto.jit
def dequantize_kernel(q, scale, y):
    row = pto.program_id(0)
    y[row, :] = (q[row, :].to(pto.float32) * scale[row]).to(y.dtype)


@pto.jit
def fake_quantize_kernel(w, scale, y, LOW: pto.constexpr, HIGH: pto.constexpr):
    row = pto.program_id(0)
    s = pto.maximum(scale[row], 1e-4, propagate_nan=True)
    r = pto.rint(w[row, :].to(pto.float32) / s)
    y[row, :] = (pto.clamp(r, LOW, HIGH, propagate_nan=True) * s).to(y.dtype)


@pto.jit
def fake_quantize_backward_kernel(w, scale, g, dw, ds, LOW: pto.constexpr, HIGH: pto.constexpr):
    row = pto.program_id(0)
    s, t, grad = pto.maximum(scale[row], 1e-4, propagate_nan=True), w[row, :].to(pto.float32), g[row, :].to(pto.float32)
    u = t / s
    r = pto.rint(u)
    inside = (r >= LOW) & (r <= HIGH)
    dw[row, :] = pto.where(inside, grad, 0.0).to(dw.dtype)
    total = pto.sum(grad * (pto.clamp(r, LOW, HIGH, propagate_nan=True) - pto.where(inside, u, 0.0)))
    ds[row] = pto.where(scale[row] <= 1e-4, 0.0, total)


@pto.jit
def fake_quantize_groups_kernel(w, scale, offset, y, LEVELS: pto.constexpr):
    """Steps lie symmetrically around the offset of a group, half a step from it."""
    row = pto.program_id(0)
    groups, d = scale.shape[1], w.shape[1]
    reach = (pto.maximum(scale[row, :], 1e-4, propagate_nan=True) * LEVELS)[:, None]
    middle = offset[row, :][:, None]
    t = pto.reshape(w[row, :].to(pto.float32), (groups, d // groups))
    u = pto.clamp((t - middle) / reach, -0.99, 0.99, propagate_nan=True) * LEVELS - 0.5
    found = (pto.rint(u) + 0.5) * (1 / LEVELS) * reach + middle
    y[row, :] = pto.reshape(found, (d,)).to(y.dtype)


def quantize_per_token(x, smooth, q, scale):
    """Rows of x as int8 with one scale each."""
    quantize_per_token_kernel[(x.shape[0],)](x, smooth, q, scale)


def quantize_per_group(x, smooth, groups, q, scale):
    """Rows of x as int8 with a scale for each group of neighbours."""
    quantize_per_group_kernel[(x.shape[0],)](x, smooth, q, scale)


def gelu_quantize(x, smooth, groups, q, scale, function=gelu_tile):
    """Rows of gelu(x) as int8 with a scale for each group of neighbours."""
    gelu_quantize_kernel[(x.shape[0],)](x, smooth, q, scale, FUNCTION=function)


def add_layer_norm_quantize(x, residual, g, b, smooth, eps, groups, y, q, scale):
    """y = layer norm of x + residual, and its rows as int8 before they are rounded to y."""
    add_layer_norm_quantize_kernel[(x.shape[0],)](x, residual, g, b, smooth, y, q, scale, eps)


def quantize_per_channel(w, q, scale):
    """Columns of w as int8 with one scale each."""
    quantize_per_channel_kernel[(pto.cdiv(w.shape[1], 64),)](w, q, scale, BK=32, BN=64)


def quantize_static(x, scale, offset, q):
    """Rows of x as int8, with scales and offsets of columns that are known before."""
    nan = empty(x, (x.shape[0],), int32)
    quantize_static_kernel[(x.shape[0],)](x, scale, offset, q, nan)
    refuse_nan("quantize_static", nan)


def dequantize(q, scale, y):
    """Rows of int8 times their scales."""
    dequantize_kernel[(q.shape[0],)](q, scale, y)


def fake_quantize(w, scale, y):
    """Numbers that int8 can hold, one scale per row."""
    fake_quantize_kernel[(w.shape[0],)](w, scale, y, LOW=-128.0, HIGH=127.0)


def fake_quantize_backward(w, scale, g, dw, ds):
    """The gradient that passes through the rounding."""
    fake_quantize_backward_kernel[(w.shape[0],)](w, scale, g, dw, ds, LOW=-128.0, HIGH=127.0)


def fake_quantize_groups(w, scale, offset, bits, y):
    """Numbers that a few bits can hold, with a scale and an offset per group of columns."""
    fake_quantize_groups_kernel[(w.shape[0],)](w, scale, offset, y, LEVELS=float(2 ** (bits - 1)))
