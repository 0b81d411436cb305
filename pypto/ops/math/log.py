"""Logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from pypto.ir.types import float64
from pypto.ops import adjoint_math
from pypto.ops.math.exp import LN2
from pypto.ops.math.pair import Pair, constant, two_sum
from pypto.ops.math.rows import function, native
from pypto.ops.math.term import Term, polynomial, where

# log((1 + s) / (1 - s)) = 2 s + s · (2/3 s² + 2/5 s⁴ + …) on |s| < 0.1716; what is left out is below half an ulp.
_TERMS = {"f32": tuple(2 / (2 * k + 3) for k in range(5)), "f64": tuple(2 / (2 * k + 3) for k in range(12))}
# (artanh(s) / s - 1 - s²/3) / s⁴ in s² < 0.0295, Chebyshev interpolant: 1.1e-20 of artanh(s) / s.
_REST = (
    0.2,
    0.1428571428571469,
    0.1111111111082441,
    0.09090909168496285,
    0.07692297395881176,
    0.06667406985646002,
    0.058529940782504536,
    0.05862885610905572,
)
# (artanh(s) / s - 1) / s² there, for float32: 1.1e-13.
_SHORT = (0.33333333333691384, 0.19999999393441642, 0.14285878334073157, 0.11095632799585983, 0.09682639210878612)
THIRD: Final = 1 / 3, 1.850371707708594e-17
# 1 / log(base) in two parts, the upper one of few bits, and log 2 to that base in two parts likewise.
_BASES: Final[Mapping[tuple[int, str], tuple[float, float, float, float]]] = MappingProxyType(
    {
        (2, "f32"): (1.44287109375, -0.00017605286103659264, 1.0, 0.0),
        (2, "f64"): (1.4426950407214463, 1.6751713164886512e-10, 1.0, 0.0),
        (10, "f32"): (0.434326171875, -3.168997174817235e-05, 0.30103302001953125, -3.0243555500547862e-06),
        (10, "f64"): (0.4342944818781689, 2.5082946711645275e-11, 0.30102999566395283, 2.8363394551044964e-14),
    }
)


def split(x: Term) -> tuple[Term, Term]:
    """k and f with x = 2**k · (1 + f) and 1 + f between √½ and √2, for positive finite x."""
    if x.is_paired:
        x = where(x.single.same(math.inf), 2.0**127, x)
        k, _ = split(x.single)
        return k.to(float64), x.scaled(-k) - 1.0
    mantissa = 52 if x.is_double else 23
    root = 0x3FE6A09E667F3BCD if x.is_double else 0x3F3504F3  # bits of √½
    tiny = x < (2.2250738585072014e-308 if x.is_double else 1.17549435e-38)
    bits = where(tiny, x * 2.0**mantissa, x).bits()
    k = (bits - root) >> mantissa
    f = (bits - (k << mantissa)).bits(x.dtype) - 1.0
    return (k - where(tiny, k.number(mantissa), 0)).to(x.dtype), f


def log_parts(f: Term) -> tuple[Term, Term]:
    """log(1 + f) = f - h with h small: from s = f / (2 + f), h = f²/2 - s · (f²/2 + R(s²))."""
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    return half, s * (half + z * polynomial(z, _TERMS[f.dtype.mnemonic]))


def special(x: Term, result: Term) -> Term:
    """-inf at 0, NaN below, inf at inf."""
    result = where(x.same(0.0), -math.inf, result)
    result = where(x.same(math.inf), math.inf, result)
    return where(x >= 0.0, result, math.nan)


def log(x: Term) -> Term:
    k, f = split(x)
    half, tail = log_parts(f)
    high, low = LN2[x.dtype.mnemonic]
    return special(x, k * high - (half - (tail + k * low) - f))


def log1p(x: Term) -> Term:
    """log of the rounded 1 + x, plus what rounding took."""
    u = two_sum(x, 1.0)
    assert u.lo is not None
    k, f = split(u.hi)
    half, tail = log_parts(f)
    high, low = LN2[x.dtype.mnemonic]
    result = k * high - (half - (tail + (k * low + u.lo / u.hi)) - f)
    return where(x.same(0.0), x, special(u.hi, result))


def log_to(base: int) -> Callable[[Term], Term]:
    """The logarithm of the mantissa times 1 / log(base) in two parts, so that no more is lost than by one rounding."""

    def log_base(x: Term) -> Term:
        k, f = split(x)
        half, residual = log_parts(f)
        # The upper part of f - half has few bits: its product with the upper part of the factor is exact.
        upper = ((f - half).bits() & -(1 << 32 if x.is_double else 1 << 12)).bits(x.dtype)
        lower = f - upper - half + residual
        high, low, high2, low2 = _BASES[base, x.dtype.mnemonic]
        sum_ = two_sum(k * high2, upper * high)
        assert sum_.lo is not None
        tail = (lower + upper) * low + lower * high + k * low2
        return special(x, sum_.hi + (sum_.lo + tail))

    return log_base


def log_of(x: Pair) -> Pair:
    """log of a positive finite sum of two, right to 2⁻⁶⁵ (2⁻⁴³ for short terms)."""
    k, f = split(x.hi)
    s = Pair(f) / two_sum(f, 2.0)
    z = s * s
    if f.short:
        curved = Pair(z.hi * polynomial(z.hi, _SHORT, 0.03))
    else:
        curved = (constant(f, THIRD) + z.hi * polynomial(z.hi, _REST)) * z
    high, low = LN2["f64"]
    result = Pair(k * high) + Pair(k * low) + (s + s * curved).scaled(2.0)
    return result if x.lo is None else result + x.lo / x.hi


ROWS = (
    function(
        "log",
        np.log,
        native(log),
        "Natural logarithm: -inf at 0, NaN below.",
        (1.0, 1.0),
        (0.0, 1e4),
        adjoint=adjoint_math.log,
    ),
    function(
        "log2",
        np.log2,
        native(log_to(2)),
        "Logarithm to base 2.",
        (1.0, 1.0),
        (0.0, 1e4),
        adjoint=adjoint_math.log2,
    ),
    function(
        "log10",
        np.log10,
        native(log_to(10)),
        "Logarithm to base 10.",
        (1.0, 1.0),
        (0.0, 1e4),
        adjoint=adjoint_math.log10,
    ),
    function(
        "log1p",
        np.log1p,
        native(log1p),
        "log(1 + x), with all its digits near 0.",
        (1.0, 1.0),
        (-1.0, 1e4),
        adjoint=adjoint_math.log1p,
    ),
)
