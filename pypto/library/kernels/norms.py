# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""One program per row of activations, computed in float32 and rounded once."""

from __future__ import annotations

import pypto as pto


@pto.jit
def rms_norm_tile(t, g, eps):
    """A float32 row over its root mean square, times g."""
    return t * (1 / pto.sqrt(pto.sum(t * t) * (1 / t.shape[0]) + eps)) * g.to(pto.float32)


@pto.jit
def layer_norm_tile(t, g, b, eps):
    """A float32 row with mean 0 and variance 1, times g, plus b."""
    centred = t - pto.sum(t) * (1 / t.shape[0])
    scale = 1 / pto.sqrt(pto.sum(centred * centred) * (1 / t.shape[0]) + eps)
    return centred * scale * g.to(pto.float32) + b.to(pto.float32)


@pto.jit
def rms_norm_kernel(x, g, y, eps):
    row = pto.program_id(0)
    y[row, :] = rms_norm_tile(x[row, :].to(pto.float32), g[:], eps).to(y.dtype)


@pto.jit
def add_rms_norm_kernel(x, residual, g, y, total, eps):
    row = pto.program_id(0)
    t = x[row, :].to(pto.float32) + residual[row, :].to(pto.float32)
    total[row, :] = t.to(total.dtype)
    y[row, :] = rms_norm_tile(t, g[:], eps).to(y.dtype)


@pto.jit
def layer_norm_kernel(x, g, b, y, eps):
    row = pto.program_id(0)
    y[row, :] = layer_norm_tile(x[row, :].to(pto.float32), g[:], b[:], eps).to(y.dtype)


@pto.jit
def add_layer_norm_kernel(x, residual, g, b, y, total, eps):
    row = pto.program_id(0)
    t = x[row, :].to(pto.float32) + residual[row, :].to(pto.float32)
    total[row, :] = t.to(total.dtype)
    y[row, :] = layer_norm_tile(t, g[:], b[:], eps).to(y.dtype)


def rms_norm(x, g, eps, y):
    """y = x / sqrt(mean x² + eps) * g, by rows."""
    rms_norm_kernel[(x.shape[0],)](x, g, y, eps)


def add_rms_norm(x, residual, g, eps, y, total):
    """total = x + residual, y = RMS norm of it before it is rounded."""
    add_rms_norm_kernel[(x.shape[0],)](x, residual, g, y, total, eps)


def layer_norm(x, g, b, eps, y):
    """y = (x - mean) / sqrt(variance + eps) * g + b, by rows."""
    layer_norm_kernel[(x.shape[0],)](x, g, b, y, eps)


def add_layer_norm(x, residual, g, b, eps, y, total):
    """total = x + residual, y = layer norm of it before it is rounded."""
    add_layer_norm_kernel[(x.shape[0],)](x, residual, g, b, y, total, eps)
