# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""GEMV over quantised weights: one row of inputs times a group of codes, for library rows and decoders.

Each code is read once, a few rows at a time, and the column sums stay in registers. Inputs beyond the end of a row
count as 0.
"""

from __future__ import annotations

import pypto as pto

UNROLLED = 8  # rows of codes that are unrolled


@pto.jit
def input_at(x, row, k):
    """Loads one input as a tile; beyond the end of the row it is 0."""
    return x[row, k : k + 1].to(pto.float32)


@pto.jit
def int4_sums(x, row, k, packed, first, j, HALF: pto.constexpr, PIECE: pto.constexpr, BN: pto.constexpr):
    """Sums inputs from k on times int4 codes (0 to 15), which are packed in HALF rows of bytes from `first` on.

    A byte is ``low + 16 high``, so only the low code needs a mask.
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
    """Sums inputs from k on times GROUP rows of codes, or floats, from `first` on."""
    t = pto.zeros((BN,), pto.float32)
    for p in range(0, GROUP, PIECE):
        for r in pto.static_range(PIECE):
            t = pto.fma(input_at(x, row, k + p + r), codes[first + p + r, j : j + BN].to(pto.float32), t)
    return t


def piece_of(rows: int, most: int = UNROLLED) -> int:
    """Returns the largest divisor of `rows` that is at most `most`."""
    return next(size for size in range(min(rows, most), 0, -1) if rows % size == 0)
