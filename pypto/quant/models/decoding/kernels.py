# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""The prologue of a product in one kernel: norm or SwiGLU, reordering, scaling and rounding of its inputs."""

from __future__ import annotations

import pypto as pto
from pypto.library.kernels.norms import rms_norm_tile
from pypto.library.kernels.quantized.quant import quantize_row


@pto.jit
def columns_of(x, row, order, FIRST: pto.constexpr, COUNT: pto.constexpr):
    """Loads columns of a row from FIRST on, in a given order."""
    if order is not None:
        return pto.load(x + row * x.strides[0] + (order[:] + FIRST))
    return x[row, FIRST : FIRST + COUNT]


@pto.jit
def inputs_kernel(x, weight, order, factors, y, scale, eps, COUNT: pto.constexpr, GATED: pto.constexpr):
    """Computes inputs of a product: RMS norm (with `weight`) or SwiGLU (with GATED), times smoothing factors.

    With `scale`, inputs are quantised to int8; if `y` has floats, it stores the dequantised inputs.
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
