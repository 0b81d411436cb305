# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Functions of rows and their reductions, one program a row: what predictions of vector units are made for."""

from __future__ import annotations

import pypto as pto


@pto.jit
def function_of_rows(x, out, FUNCTION: pto.constexpr):
    row = pto.program_id(0)
    out[row, :] = FUNCTION(x[row, :])


@pto.jit
def power_of_rows(x, exponents, out):
    row = pto.program_id(0)
    out[row, :] = x[row, :] ** exponents[row, :]


@pto.jit
def reduction_of_rows(x, out, REDUCE: pto.constexpr):
    row = pto.program_id(0)
    out[row] = REDUCE(x[row, :])


@pto.jit
def maxima_of_products(a, b, out, BM: pto.constexpr, BN: pto.constexpr):
    """The maximum of each row of each block of a product."""
    i, j = pto.program_id(0) * BM, pto.program_id(1)
    t = pto.dot(a[i : i + BM, :], b[:, j * BN : j * BN + BN])
    out[j, i : i + BM] = pto.max(t, axis=1)
