# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Quantisation to int8, and products of what was quantised."""

from __future__ import annotations

import pypto as pto


@pto.jit
def quantize_tile(t):
    """A float32 row as int8, and the scale that gives it back; zeros have scale 0."""
    most = pto.max(pto.abs(t))
    scale = pto.where(most > 0, 127 / most, 0.0)
    return pto.round(t * scale).to(pto.int8), most / 127


@pto.jit
def quantize_per_token_kernel(x, smooth, q, scale):
    row = pto.program_id(0)
    t = x[row, :].to(pto.float32)
    if smooth is not None:
        t = t * smooth[:].to(pto.float32)
    q[row, :], scale[row] = quantize_tile(t)


def quantize_per_token(x, smooth, q, scale):
    """Rows of x as int8 with one scale each."""
    quantize_per_token_kernel[(x.shape[0],)](x, smooth, q, scale)
