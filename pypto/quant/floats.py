"""Floats of four and eight bits (E4M3, E5M2, E2M1) are encoded by rounding to nearest and decoded by a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

Array = Any


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A small float: a sign, `exponent` bits of an exponent, and `mantissa` bits.

    Parameters
    ----------
    exponent, mantissa, bias : int
    finite : int
        The largest code of a finite number; larger codes stand for infinity and NaN.

    Examples
    --------
    >>> FORMATS["e4m3"].largest, FORMATS["e5m2"].largest, FORMATS["e2m1"].largest
    (448.0, 57344.0, 6.0)
    """

    exponent: int
    mantissa: int
    bias: int
    finite: int

    @property
    def bits(self) -> int:
        """The bits of a number."""
        return 1 + self.exponent + self.mantissa

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return float(magnitudes(self)[-1])

    @property
    def power(self) -> int:
        """The exponent of the largest power of two."""
        return int(np.frexp(self.largest)[1]) - 1

    def codes(self, numbers: Array) -> Array:
        """Rounds to the nearest numbers, ties to the even code, and returns their bit patterns as int8.

        Numbers beyond the largest finite one saturate.
        """
        table = magnitudes(self)
        middles = (table[1:] + table[:-1]) / 2
        size = np.abs(np.asarray(numbers, np.float64))
        code = np.searchsorted(middles, size)
        tie = middles[np.minimum(code, len(middles) - 1)] == size
        code = code + (tie & (code % 2 == 1))
        sign = np.where(np.signbit(numbers), 1 << (self.bits - 1), 0)
        return (code + sign).astype(np.uint8).view(np.int8)

    def numbers(self, codes: Array) -> Array:
        """Decodes bit patterns to float32; within a fused function, the table becomes an array of its graph."""
        table = np.where(np.ones_like(codes, bool, shape=256), table_of(self), np.float32(0))
        return table[codes.astype(np.uint8)]


FORMATS: Final = {
    "e4m3": FloatFormat(4, 3, 7, 0x7E),
    "e5m2": FloatFormat(5, 2, 15, 0x7B),
    "e2m1": FloatFormat(2, 1, 1, 7),
}


@cache
def magnitudes(form: FloatFormat) -> Array:
    """All finite numbers from 0 on, in the order of their codes, in float64."""
    code = np.arange(form.finite + 1)
    exponent = code >> form.mantissa
    fraction = (code & ((1 << form.mantissa) - 1)) / (1 << form.mantissa)
    return np.ldexp(np.where(exponent > 0, 1 + fraction, fraction), np.maximum(exponent, 1) - form.bias)


@cache
def table_of(form: FloatFormat) -> Array:
    """Returns the float32 numbers of all 256 bytes; a byte that is no finite number gives NaN."""
    half = 1 << (form.bits - 1)
    table = np.full(256, np.nan, np.float32)
    positive = magnitudes(form)
    table[: len(positive)] = positive
    table[half : half + len(positive)] = -positive
    return table


def powers(most: Array, form: FloatFormat) -> Array:
    """Computes power-of-two scales, ``2 ** (floor(log2(most)) - power)``, of groups with the largest magnitude `most`.

    Exponents have the range of E8M0, from -127 to 127 (OCP Microscaling Formats Specification 1.0, 2023).
    """
    exponent = np.clip(np.frexp(most)[1] - 1 - form.power, -127, 127)
    return np.ldexp(1.0, exponent)
