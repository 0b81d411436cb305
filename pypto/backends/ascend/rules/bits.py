"""Bits of integers by shifts, masks and sums, for units that have no instruction for them."""

from __future__ import annotations

from pypto.ir.types import DTYPE_BY_NAME, DType
from pypto.ops.math_term import Term


def unsigned(dtype: DType) -> DType:
    return DTYPE_BY_NAME[f"u{dtype.bits}"]


def runs(bits: int, run: int) -> int:
    """The lower halves of all fields of twice as many bits as a run."""
    return sum(((1 << run) - 1) << at for at in range(0, bits, 2 * run))


def popcount(x: Term, bits: int) -> Term:
    """Of a number without sign: sums in fields of two bits, of four, of eight, and so on."""
    run = 1
    while run < bits:
        mask = runs(bits, run)
        x = (x & mask) + (x >> run & mask)
        run *= 2
    return x


def reversed_bits(x: Term, bits: int) -> Term:
    """Of a number without sign: neighbours change places, then pairs of them, and so on."""
    run = 1
    while run < bits:
        mask = runs(bits, run)
        x = (x & mask) << run | x >> run & mask
        run *= 2
    return x
