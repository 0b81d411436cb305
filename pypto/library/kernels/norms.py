# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""RMS norm and layer norm; one program per row computes in float32 and rounds once."""

from __future__ import annotations

import pypto as pto
from pypto.ir.types import float32
from pypto.library.binding import empty

PARTS = 64  # number of partial sums over tokens; they are added in a fixed order
COLUMNS = 512


@pto.jit
def rms_norm_tile(t, g, eps):
    """Divides a float32 row by its root mean square, and multiplies it by g."""
    return t * (1 / pto.sqrt(pto.sum(t * t) * (1 / t.shape[0]) + eps)) * g.to(pto.float32)


@pto.jit
def layer_norm_tile(t, g, b, eps):
    """Normalises a float32 row to mean 0 and variance 1, multiplies it by g and adds b."""
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
def rms_norm_backward_kernel(x, g, dy, dx, part, t, eps):
    """Computes the gradients of the rows of one program, and their partial sum of the gradient of g."""
    p, d = pto.program_id(0), x.shape[1]
    each = pto.cdiv(t, pto.num_programs(0))
    total = pto.zeros((d,), pto.float32)
    for row in range(p * each, min(p * each + each, t)):
        grad = dy[row, :].to(pto.float32)
        value = x[row, :].to(pto.float32)
        scale = 1 / pto.sqrt(pto.sum(value * value) * (1 / d) + eps)
        unit = value * scale
        inner = grad * g[:].to(pto.float32)
        dx[row, :] = ((inner - unit * (pto.sum(inner * unit) * (1 / d))) * scale).to(dx.dtype)
        total = total + grad * unit
    part[p, :] = total


@pto.jit
def sum_parts_kernel(part, y, BLOCK: pto.constexpr):
    """Adds up the partial sums of the columns in their order."""
    j = pto.program_id(0) * BLOCK
    total = pto.zeros((BLOCK,), pto.float32)
    for p in range(part.shape[0]):
        total = total + part[p, j : j + BLOCK]
    y[j : j + BLOCK] = total


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
    """Computes y = x / sqrt(mean x² + eps) * g, by rows."""
    rms_norm_kernel[(x.shape[0],)](x, g, y, eps)


def add_rms_norm(x, residual, g, eps, y, total):
    """Computes total = x + residual, and y = RMS norm of the sum before it is rounded."""
    add_rms_norm_kernel[(x.shape[0],)](x, residual, g, y, total, eps)


def rms_norm_backward(x, g, dy, eps, dx, dg):
    """Computes the gradient of x by rows, and that of g by partial sums that are added in a fixed order."""
    t, d = x.shape
    part = empty(x, (PARTS, d), float32)
    rms_norm_backward_kernel[(PARTS,)](x, g, dy, dx, part, t, eps)
    sum_parts_kernel[(pto.cdiv(d, COLUMNS),)](part, dg, BLOCK=COLUMNS)


def layer_norm(x, g, b, eps, y):
    """Computes y = (x - mean) / sqrt(variance + eps) * g + b, by rows."""
    layer_norm_kernel[(x.shape[0],)](x, g, b, y, eps)


def add_layer_norm(x, residual, g, b, eps, y, total):
    """Computes total = x + residual, and y = layer norm of the sum before it is rounded."""
    add_layer_norm_kernel[(x.shape[0],)](x, residual, g, b, y, total, eps)
