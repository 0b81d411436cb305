"""The error function and its relatives on a vector unit with an exponential: formulas of `rules.kinds.ViaFormula`."""

from __future__ import annotations

import math
from typing import Final

from pypto.backends.ascend.rules.formulas import unit
from pypto.ir.types import float32
from pypto.ops.math.erf_tables import LARGE_SHORT, SCALED_SHORT, SMALL
from pypto.ops.math.term import Term, copysign, polynomial, where

_UPPER: Final = -(1 << 12)  # the upper bits of a float32, whose square is exact
_ROOT_HALF: Final = 0.7071067811865476
# -log(erfc(x)) from 0.921875 to 4: the table of its base-2 logarithm times log 2.
_MINUS_LOG_ERFC: Final = tuple(c * math.log(2) for c in LARGE_SHORT)
# 2 artanh(erf(x)) / x in x² for |x| ≤ 3.1, minimax: erf to 0.04 units in the last place of float16.
_ERF_F16: Final = (2.25671753173553, 0.20622140747906856, -0.001824919185462435, -0.00037571140692604503)


def gauss(x: Term, halved: bool) -> Term:
    """exp(-x²), or exp(-x² / 2), without the rounding of the square: x = h + l with an exact square of h."""
    h = (x.bits() & _UPPER).bits(float32)
    scale = -0.5 if halved else -1.0
    return unit.exp(h * h * scale) * unit.exp((x - h) * (x + h) * scale)


def scaled_erfc(x: Term) -> Term:
    """exp(x²) erfc(x) for x from 0.

    Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x", 1981.
    """
    t = (x - 4.0) / (x + 4.0)
    return polynomial(t, SCALED_SHORT) / (x * 2.0 + 1.0)


def small_erf(x: Term) -> Term:
    """erf within ±0.92."""
    z = x * x
    return x * (polynomial(z, SMALL["f32"]) + 1.0)


def erf(x: Term) -> Term:
    """A polynomial near 0, else 1 - exp of one."""
    size = abs(x)
    far = 1.0 - unit.exp(polynomial(unit.lesser(size, 4.0), _MINUS_LOG_ERFC))
    return where(size < 0.921875, small_erf(x), copysign(far, x))


def erf_f16(x: Term) -> Term:
    """1 - 2 / (exp(x P(x²)) + 1), and 2/√π x near 0."""
    is_small, single = abs(x) < 2.0**-8, unit.to_single(x)
    size = unit.to_single(unit.lesser(unit.greater(x, -4.0), 4.0))
    far = -2.0 / (unit.exp(size * polynomial(size * size, _ERF_F16)) + 1.0) + 1.0
    return where(is_small, single * (2.0 / math.sqrt(math.pi)), far)


def erfc(x: Term) -> Term:
    """1 - erf(x) near 0, else exp(-x²) times a slow function, and 2 minus that below 0."""
    size = unit.lesser(abs(x), 12.0)
    far = gauss(size, False) * scaled_erfc(size)
    far = where(x < 0.0, 2.0 - far, far)
    return where(abs(x) < 0.5, 1.0 - small_erf(x), far)


def normal_tail(x: Term) -> Term:
    """The probability that a standard normal variable is above x, twice, for x from 0."""
    return gauss(x, True) * scaled_erfc(x * _ROOT_HALF)


def normcdf(x: Term) -> Term:
    """Half of erfc(-x / √2)."""
    half = normal_tail(unit.lesser(abs(x), 16.0)) * 0.5
    far = where(x > 0.0, 1.0 - half, half)
    return where(abs(x) < 0.75, small_erf(x * _ROOT_HALF) * 0.5 + 0.5, far)
