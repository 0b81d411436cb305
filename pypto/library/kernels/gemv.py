# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""GEMV: one row of inputs times a group of codes; what rows of the library and a decoder's products share.

Codes are read once, some rows at a time, and sums of their columns stay in registers. Inputs beyond the end of a row
count as 0.
"""

from __future__ import annotations

import pypto as pto

UNROLLED = 8  # rows of codes that are one stretch of code


@pto.jit
def input_at(x, row, k):
    """One input, as a tile: beyond the end of the row it is 0."""
    return x[row, k : k + 1].to(pto.float32)


@pto.jit
def int4_sums(x, row, k, packed, first, j, HALF: pto.constexpr, PIECE: pto.constexpr, BN: pto.constexpr):
    """Sums of inputs from k on times codes from 0 to 15, whose bytes are HALF rows from `first` on.

    A byte is ``low + 16 high``, so that the low code alone is cut out of it.
    """
    t = pto.zeros((BN,), pto.float32)
    for p in range(0, HALF, PIECE):
        for r in pto.static_range(PIECE):
            both = packed[first + p + r, j : j + BN].to(pto.int32)
            high = input_at(x, row, k + HALF + p + r) * 0.0625
            t = pto.fma(input_at(x, row, k + p + r) - high, (both & 15).to(pto.float32), t)
            t = pto.fma(high, both.to(pto.float32), t)
    return t


@pto.jit
def sums(x, row, k, codes, first, j, GROUP: pto.constexpr, PIECE: pto.constexpr, BN: pto.constexpr):
    """Sums of inputs from k on times codes, or floats, of GROUP rows from `first` on."""
    t = pto.zeros((BN,), pto.float32)
    for p in range(0, GROUP, PIECE):
        for r in pto.static_range(PIECE):
            t = pto.fma(input_at(x, row, k + p + r), codes[first + p + r, j : j + BN].to(pto.float32), t)
    return t


def piece_of(rows: int, most: int = UNROLLED) -> int:
    """The most rows up to `most` that divide so many."""
    return next(size for size in range(min(rows, most), 0, -1) if rows % size == 0)
