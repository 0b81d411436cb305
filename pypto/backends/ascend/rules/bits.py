"""Population count and bit reversal by shifts and masks on all fields of a word at once (SWAR).

Units without such instructions take log2(bits) steps instead of one per bit. Legal for numbers without sign, whose
upper bits are 0.

    popcount of 0b1101:   0b10_01 (fields of two bits)   ->   0b0011 (a field of four)
"""

from __future__ import annotations

from pypto.ir.types import DTYPE_BY_NAME, DType
from pypto.ops.math.term import Term


def unsigned(dtype: DType) -> DType:
    """Return the unsigned integer of the same width."""
    return DTYPE_BY_NAME[f"u{dtype.bits}"]


def runs(bits: int, run: int) -> int:
    """Return the mask of the lower `run` bits of each field of 2 * `run` bits: 0x0F0F for runs of 4 in 16 bits."""
    return sum(((1 << run) - 1) << at for at in range(0, bits, 2 * run))


def popcount(x: Term, bits: int) -> Term:
    """Count the bits that are set, by sums in fields of two bits, of four, of eight, and so on."""
    run = 1
    while run < bits:
        mask = runs(bits, run)
        x = (x & mask) + (x >> run & mask)
        run *= 2
    return x


def reversed_bits(x: Term, bits: int) -> Term:
    """Reverse the bits: neighbours are swapped, then pairs of them, and so on."""
    run = 1
    while run < bits:
        mask = runs(bits, run)
        x = (x & mask) << run | x >> run & mask
        run *= 2
    return x
