# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""One program per row of activations."""

from __future__ import annotations

import pypto as pto


@pto.jit
def rms_norm_kernel(x, g, y, eps):
    row = pto.program_id(0)
    t = x[row, :].to(pto.float32)
    scale = 1 / pto.sqrt(pto.sum(t * t) * (1 / x.shape[1]) + eps)
    y[row, :] = (t * scale * g[:].to(pto.float32)).to(y.dtype)


def rms_norm(x, g, eps, y):
    """y = x / sqrt(mean x² + eps) * g, by rows."""
    rms_norm_kernel[(x.shape[0],)](x, g, y, eps)
