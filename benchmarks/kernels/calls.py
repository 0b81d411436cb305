# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Kernels with little to do, for what a call costs."""

from __future__ import annotations

import pypto as pto


@pto.jit
def many_kernel(a, b, c, d, e, f, g, out, p, q, r, s):  # noqa: PLR0913, PLR0917
    total = a[0:16] + b[0:16] + c[0:16] + d[0:16] + e[0:16] + f[0:16] + g[0:16]
    out[0:16] = total + p + q + r + s


@pto.jit
def busy_kernel(x, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    t = x[i : i + BLOCK]
    for _ in pto.static_range(16):
        t = pto.exp(-t * t)
    out[i : i + BLOCK] = t
