"""Exponentials."""

from __future__ import annotations

import math

import numpy as np

from pypto.ir.types import float32
from pypto.ops.math_pair import Pair, constant, maybe, renormal, two_sum
from pypto.ops.math_rows import by_size, function, instead, native, unary, widened
from pypto.ops.math_term import Term, clamp, muladd, polynomial, where

LOG2E = 1.4426950408889634
# log 2 in two parts: the first has few enough bits that its product with an exponent is exact.
LN2 = {"f32": (0.693359375, -2.12194440054690583e-4), "f64": (0.6931471803691238, 1.9082149292705877e-10)}
LN10 = 2.302585092994046, -2.1707562233822494e-16
# exp on ±log(2)/2. float32: Chebyshev interpolant of degree 6, error 2.0e-9. float64: 1/k!, error 4e-18.
_EXP = {
    "f32": (1.0, 1.0000000377204035, 0.5000000047122991, 0.1666641549604781, 0.04166635287353722, 0.008375127947279674,
            0.0013941110368767256),
    "f64": tuple(1 / math.factorial(k) for k in range(14)),
}
# (exp(r) - 1 - r - r²/2) / r³ on ±log(2)/2, Chebyshev interpolant: 1.2e-18 of r.
_EXP_REST = (0.16666666666666666, 0.04166666666666667, 0.008333333333333333, 0.0013888888888883752, 0.00019841269841266418,
             2.4801587325536023e-05, 2.7557319239949287e-06, 2.7557273657975953e-07, 2.505207801223787e-08,
             2.0914680780540263e-09, 1.608432375977149e-10)
# (exp(r) - 1 - r) / r² there, for float32: 4.9e-10 of r.
_EXP_SHORT = (0.5000000013459222, 0.16666666681615916, 0.041666464991106766, 0.008333310932790487, 0.0013933642689829186,
              0.00019890982710792465)


def reduce_exp(x: Term) -> tuple[Term, Term]:
    """n and r with x = n log 2 + r and r within ±log(2)/2."""
    high, low = LN2[x.dtype.name]
    n = (x * LOG2E).round()
    return n, muladd(n, -low, muladd(n, -high, x))


def exp(x: Term) -> Term:
    x = clamp(x, -150.0, 130.0) if x.dtype == float32 else clamp(x, -800.0, 800.0)
    n, r = reduce_exp(x)
    return polynomial(r, _EXP[x.dtype.name]).scaled(n)


def exp2(x: Term) -> Term:
    """2**x = 2**n · exp((x - n) log 2)."""
    x = clamp(x, -200.0, 200.0) if x.dtype == float32 else clamp(x, -1200.0, 1200.0)
    n = x.round()
    coefficients = [c * math.log(2) ** k for k, c in enumerate(_EXP["f64"][: 8 if x.dtype == float32 else 14])]
    return polynomial(x - n, coefficients).scaled(n)


def exp_parts(x: Pair) -> tuple[Term, Pair]:
    """n and q with exp(x) = 2**n · (1 + q) and q between -0.3 and 0.42; q is right to 2⁻⁵⁹ (2⁻³⁰ for short terms)."""
    high, low = LN2["f64"]
    n = (x.hi * LOG2E).round()
    r = two_sum(x.hi - n * high, n * -low)
    r = renormal(r.hi, maybe(r.lo, x.lo))
    if x.hi.short:
        return n, Pair(muladd(r.hi * r.hi, polynomial(r.hi, _EXP_SHORT), r.hi))
    rest = r.hi * r.hi * r.hi * polynomial(r.hi, _EXP_REST)
    return n, r + (r * r).scaled(0.5) + rest


def bounded(x: Pair) -> Pair:
    """Between -800 and 800, where exp is 0 or infinite."""
    inside = abs(x.hi) < 800.0
    return Pair(clamp(x.hi, -800.0, 800.0), x.lo and where(inside, x.lo, 0.0))


def exp_of(x: Pair) -> Term:
    """exp of a sum of two, with one rounding in effect."""
    n, q = exp_parts(bounded(x))
    return (q + 1.0).value.scaled(n)


def exp10(x: Term) -> Term:
    x = clamp(x, -400.0, 400.0)
    return exp_of(constant(x, LN10) * x)


def expm1_short(x: Term) -> Term:
    """exp(x) - 1 without cancellation: 2**n · (exp(r) - 1) + (2**n - 1)."""
    # Small arguments are not reduced: the sum below would cancel a part of their digits.
    small = abs(x) < 0.75
    n, r = reduce_exp(clamp(x, -150.0, 88.9))
    n, r = where(small, 0.0, n), where(small, x, r)
    q = muladd(r * r, polynomial(r, [1 / math.factorial(k) for k in range(2, 11)]), r)
    half = x.number(0.5).scaled(n)
    return where(x.same(0.0), x, muladd(half, q, half - 0.5) * 2.0)


def less_one(x: Pair) -> tuple[Term, Pair, Pair]:
    """n, and exp(x) - 1 and exp(x) + 1 over 2**n."""
    n, q = exp_parts(x)
    inverse = n.number(1.0).scaled(-n)
    return n, q + two_sum(-inverse, 1.0), q + two_sum(inverse, 1.0)


def expm1(x: Term) -> Term:
    n, less, _ = less_one(Pair(clamp(x, -40.0, 800.0)))
    return where(x.same(0.0), x, less.value.scaled(n))


ROWS = (
    function("exp", np.exp, native(exp), unary("Exp"), "e to the power of x.", (1.3, 1.1), (-100.0, 90.0)),
    function("exp2", np.exp2, native(exp2), instead("exp(x * 0.6931471805599453)"), "2 to the power of x.", (1.1, 1.1), (-150.0, 128.0)),
    function("exp10", lambda x: np.power(10.0, x), widened(exp10), instead("exp(x * 2.302585092994046)"), "10 to the power of x.",
             (0.6, 1.0), (-45.0, 39.0), public=False),
    function("expm1", np.expm1, by_size(expm1_short, expm1), instead("exp(x) - 1"), "exp(x) - 1, with all its digits near 0.", (1.5, 1.0), (-20.0, 90.0)),
)
