# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Int8 quantisation: dynamic scales per token, group or channel, static scales, and fake quantisation."""

from __future__ import annotations

import pypto as pto
from pypto.ir.types import int32
from pypto.library.binding import empty, refuse_nan
from pypto.library.kernels.activations import gelu_tile
from pypto.library.kernels.norms import layer_norm_tile


@pto.jit
def magnitudes(t):
    """Returns the bits of magnitudes: as integers they are ordered as the numbers, and NaN is the largest."""
    return pto.bitcast(pto.abs(t), pto.int32)


@pto.jit
def largest(t, axis: pto.constexpr = None):
    """Returns the largest magnitude in float32, or NaN if one is there, which a `max` of floats would ignore."""
    return pto.bitcast(pto.max(magnitudes(t), axis=axis), pto.float32)


@pto.jit
def quantize_tile(t, axis: pto.constexpr):
    """Quantises a float32 tile to int8, and returns the codes and scales; zeros have scale 0, NaN a scale of NaN."""
    most = largest(t, axis)
    scale = pto.where(most > 0, 127 / most, 0.0)
    return pto.rint(t * pto.expand_dims(scale, axis)).to(pto.int8), most / 127


@pto.jit
def quantize_row(t):
    """Quantises a float32 row to int8, and returns the codes and the scale."""
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
    """Writes a float32 row as int8, with a scale for each group of adjacent elements."""
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
    """Finds the largest magnitude of each column, then quantises the columns."""
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
    """Quantises a row with given scales, and notes whether NaN, which has no code, is in it."""
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
    """Rounds to the middles between steps, so that levels lie symmetrically around the offset of a group."""
    row = pto.program_id(0)
    groups, d = scale.shape[1], w.shape[1]
    reach = (pto.maximum(scale[row, :], 1e-4, propagate_nan=True) * LEVELS)[:, None]
    middle = offset[row, :][:, None]
    t = pto.reshape(w[row, :].to(pto.float32), (groups, d // groups))
    u = pto.clamp((t - middle) / reach, -0.99, 0.99, propagate_nan=True) * LEVELS - 0.5
    values = (pto.rint(u) + 0.5) * (1 / LEVELS) * reach + middle
    y[row, :] = pto.reshape(values, (d,)).to(y.dtype)


def quantize_per_token(x, smooth, q, scale):
    """Quantises rows of x to int8 with one scale each."""
    quantize_per_token_kernel[(x.shape[0],)](x, smooth, q, scale)


def quantize_per_group(x, smooth, groups, q, scale):
    """Quantises rows of x to int8 with a scale for each group of adjacent elements."""
    quantize_per_group_kernel[(x.shape[0],)](x, smooth, q, scale)


def gelu_quantize(x, smooth, groups, q, scale, function=gelu_tile):
    """Quantises rows of gelu(x) to int8 with a scale for each group of adjacent elements."""
    gelu_quantize_kernel[(x.shape[0],)](x, smooth, q, scale, FUNCTION=function)


def add_layer_norm_quantize(x, residual, g, b, smooth, eps, groups, y, q, scale):
    """Computes y = layer norm of x + residual, and quantises its rows to int8 before they are rounded to y."""
    add_layer_norm_quantize_kernel[(x.shape[0],)](x, residual, g, b, smooth, y, q, scale, eps)


def quantize_per_channel(w, q, scale):
    """Quantises columns of w to int8 with one scale each."""
    quantize_per_channel_kernel[(pto.cdiv(w.shape[1], 64),)](w, q, scale, BK=32, BN=64)


def quantize_static(x, scale, offset, q):
    """Quantises rows of x to int8 with given scales and offsets of the columns."""
    nan = empty(x, (x.shape[0],), int32)
    quantize_static_kernel[(x.shape[0],)](x, scale, offset, q, nan)
    refuse_nan("quantize_static", nan)


def dequantize(q, scale, y):
    """Multiplies rows of int8 by their scales."""
    dequantize_kernel[(q.shape[0],)](q, scale, y)


def fake_quantize(w, scale, y):
    """Rounds w to numbers that int8 can represent, with one scale per row."""
    fake_quantize_kernel[(w.shape[0],)](w, scale, y, LOW=-128.0, HIGH=127.0)


def fake_quantize_backward(w, scale, g, dw, ds):
    """Computes the gradients of the weights and scales (straight-through estimator)."""
    fake_quantize_backward_kernel[(w.shape[0],)](w, scale, g, dw, ds, LOW=-128.0, HIGH=127.0)


def fake_quantize_groups(w, scale, offset, bits, y):
    """Rounds w to numbers that a few bits can represent, with a scale and an offset per group of columns."""
    fake_quantize_groups_kernel[(w.shape[0],)](w, scale, offset, y, LEVELS=float(2 ** (bits - 1)))
