# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Split-K GEMV on vector units: one row of inputs times int4 or int8 weights, whose rows are split over cores.

Codes are read once, in long rows. A matrix unit would multiply sixteen rows, and wait for codes from the vector units.
Here each program sums some rows of codes times the inputs; a second launch adds the partial sums of all programs.
"""

from __future__ import annotations

import pypto as pto
from pypto.ir.types import float32
from pypto.library.binding import empty
from pypto.library.kernels.gemv import piece_of

COLUMNS = 1024  # columns of a program
ROWS = 8  # rows of a step, at most
SPAN = 128  # rows of a program, at most
SUMMED = 128  # columns of a program that adds partial sums


@pto.jit
def weighted(x, k, codes, ROWS: pto.constexpr):
    """Sums rows of codes times the inputs from k on."""
    return pto.sum(x[0, k : k + ROWS].to(pto.float32)[:, None] * codes.to(pto.float32), axis=0)


@pto.jit
def split_k_kernel(
    x, codes, scale, zero, low, part, GROUP: pto.constexpr, BITS: pto.constexpr, MIDDLE: pto.constexpr,
    SPAN: pto.constexpr, ROWS: pto.constexpr, BN: pto.constexpr,
):  # fmt: skip
    """Multiplies SPAN rows of codes of one group; inputs of low nibbles come GROUP before those of high ones."""
    j, s = pto.program_id(0) * BN, pto.program_id(1)
    first, acc = s * SPAN, pto.zeros((BN,), pto.float32)
    g = first // GROUP
    k = first + g * GROUP if BITS == 4 else first
    for r in range(0, SPAN, ROWS):
        t = codes[first + r : first + r + ROWS, j : j + BN]
        if BITS == 4:
            acc = acc + weighted(x, k + r, t & 15, ROWS) + weighted(x, k + GROUP + r, t >> 4, ROWS)
        else:
            acc = acc + weighted(x, k + r, t, ROWS)
    if zero is not None or low is not None or MIDDLE:
        inputs = pto.sum(x[0, k : k + SPAN].to(pto.float32))
        if BITS == 4:
            inputs = inputs + pto.sum(x[0, k + GROUP : k + GROUP + SPAN].to(pto.float32))
    if zero is not None:
        z = zero[g, j : j + BN].to(pto.float32)
        acc = acc - inputs * (MIDDLE + z if MIDDLE else z)
    elif MIDDLE:
        acc = acc - inputs * MIDDLE
    acc = acc * scale[g, j : j + BN]
    if low is not None:
        acc = acc + inputs * low[g, j : j + BN]
    part[s, j : j + BN] = acc


@pto.jit
def sum_kernel(part, bias, y, BN: pto.constexpr):
    """Adds the partial sums of all programs, and the bias."""
    j = pto.program_id(0) * BN
    total = pto.sum(part[:, j : j + BN], axis=0)
    if bias is not None:
        total = total + bias[j : j + BN]
    y[0, j : j + BN] = total


def spans_of(rows):
    """Returns the rows of a program and of a step: the largest sizes that divide a group."""
    span = piece_of(rows, SPAN)
    return {"SPAN": span, "ROWS": piece_of(span, ROWS)}


def split_k_row(x, codes, scale, zero, bias, low, y, **form):
    """Computes y = x @ ((codes - zero) * scale + low) + bias, in two launches."""
    rows, n = codes.shape
    sizes = form | spans_of(form["GROUP"])
    bn, splits = min(COLUMNS, pto.next_power_of_2(n)), pto.cdiv(rows, sizes["SPAN"])
    part = empty(x, (splits, n), float32)
    split_k_kernel[pto.cdiv(n, bn), splits](x, codes, scale, zero, low, part, **sizes, BN=bn)
    sum_kernel[(pto.cdiv(n, SUMMED),)](part, bias, y, BN=SUMMED)
