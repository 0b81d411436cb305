"""Exponentials."""

from __future__ import annotations

import math

import numpy as np

from pypto.ir.types import float32
from pypto.ops import adjoint_math
from pypto.ops.math.pair import Pair, choose, constant, maybe, renormal, two_sum
from pypto.ops.math.rows import by_size, function, native, widened
from pypto.ops.math.term import Term, clamp, muladd, polynomial, where

LOG2E = 1.4426950408889634
# log 2 in two parts: the first has few enough bits that its product with an exponent is exact.
LN2 = {"f32": (0.693359375, -2.12194440054690583e-4), "f64": (0.6931471803691238, 1.9082149292705877e-10)}
LOG2 = 0.6931471805599453, 2.3190468138462996e-17
LN10 = 2.302585092994046, -2.1707562233822494e-16
# A sum with it has no digits behind the point, and the difference is what was added, rounded: two operations of the
# multipliers, of which an instruction that rounds takes two beside the product.
_WHOLE = {"f32": 1.5 * 2.0**23, "f64": 1.5 * 2.0**52}
# exp on ±log(2)/2. float32: Chebyshev interpolant of degree 6, error 2.0e-9. float64: 1/k!, error 4e-18.
_EXP = {
    "f32": (
        1.0,
        1.000000037716214,
        0.5000000047117757,
        0.16666415514653277,
        0.04166635289677516,
        0.008375126398153335,
        0.0013941108433972674,
    ),
    "f64": tuple(1 / math.factorial(k) for k in range(14)),
}
# (exp(r) - 1 - r - r²/2) / r³ on ±log(2)/2, Chebyshev interpolant: 1.2e-18 of r.
_EXP_REST = (
    0.16666666666666666,
    0.04166666666666667,
    0.008333333333333333,
    0.0013888888888883752,
    0.00019841269841266418,
    2.4801587325533363e-05,
    2.7557319239947517e-06,
    2.7557273661348637e-07,
    2.5052078014485868e-08,
    2.0914679376583935e-09,
    1.6084322823993442e-10,
)
# (exp(r) - 1 - r) / r² there, for float32: 4.9e-10 of r.
_EXP_SHORT = (
    0.5000000013457727,
    0.16666666681614256,
    0.04166646500604005,
    0.008333310934448869,
    0.0013933641031986701,
    0.00019890980869750327,
)


def reduce_exp(x: Term) -> tuple[Term, Term]:
    """n and r with x = n log 2 + r and r within ±log(2)/2."""
    high, low = LN2[x.dtype.mnemonic]
    n = (x * LOG2E).round() if x.is_paired else muladd(x, LOG2E, _WHOLE[x.dtype.mnemonic]) - _WHOLE[x.dtype.mnemonic]
    return n, muladd(n, -low, muladd(n, -high, x))


def one_more(first: Term, tail: Term) -> Term:
    """1 + first + tail with one rounding in effect, for a first from -1 to 1 and a small tail."""
    total = first + 1.0
    return total + (first - (total - 1.0) + tail)


def exp_reduced(r: Term) -> Term:
    """exp within ±log(2)/2."""
    if r.dtype == float32:
        return polynomial(r, _EXP["f32"])
    return one_more(r, r * r * polynomial(r, _EXP["f64"][2:]))


def vanishing(x: Term) -> Term:
    """An argument of exp in parts, with one number for all of which the result is 0, -inf among them.

    As in `within`, an instruction that scales is not to round what is a little too small; a power far below all that
    could be a result is 0 at once.
    """
    if x.saturates:
        return where(x < -104.0, -1e3, x) if x.dtype == float32 else where(x < -800.0, -1e4, x)
    least = -150.0 if x.dtype == float32 else -800.0
    return where(x < least, least, x)


def exp(x: Term) -> Term:
    low, high = (-104.0, 130.0) if x.dtype == float32 else (-746.0, 800.0)
    n, r = reduce_exp(within(x, low, high, x.dtype == float32))
    return where(x < low, 0.0, exp_reduced(r).scaled(n))


def within(x: Term, low: float, high: float, saturates_above: bool = True) -> Term:
    """An exponent, from above no larger than makes sense. One below the range, where the result is 0, may become any.

    Processors take a hundred cycles to round what is below all numbers, as masked scores' exponentials would be: it is
    not computed. With an instruction that scales, the lanes are left out of it; else they take the exponent 0. Far up,
    that instruction saturates, since the polynomial of whatever is left (float32) is above 0 or NaN.
    """
    if x.saturates:
        return x if saturates_above else where(x > high, high, x)
    return where(x < low, 0.0, where(x > high, high, x))


def exp2_reduced(x: Term) -> Term:
    """2**x = exp(x log 2) within ±½."""
    coefficients = [c * math.log(2) ** k for k, c in enumerate(_EXP[x.dtype.mnemonic])]
    if x.dtype == float32:
        return polynomial(x, coefficients)
    return one_more(x * LOG2[0], x * polynomial(x, (LOG2[1], *coefficients[2:])))


def exp2(x: Term) -> Term:
    low, high = (-150.0, 200.0) if x.dtype == float32 else (-1076.0, 1200.0)
    n, fraction = within(x, low, high).split_integer()
    return where(x < low, 0.0, exp2_reduced(fraction).scaled(n))


def exp_parts(x: Pair) -> tuple[Term, Pair]:
    """n and q with exp(x) = 2**n · (1 + q) and q between -0.3 and 0.42; q is right to 2⁻⁵⁹ (2⁻³⁰ for short terms)."""
    high, low = LN2["f64"]
    n = (x.hi * LOG2E).round()
    r = two_sum(x.hi - n * high, n * -low)
    r = renormal(r.hi, maybe(r.lo, x.lo))
    if x.hi.short:
        return n, Pair(muladd(r.hi * r.hi, polynomial(r.hi, _EXP_SHORT, 0.35), r.hi))
    tail = r.hi * r.hi * r.hi * polynomial(r.hi, _EXP_REST)
    return n, r + (r * r).scaled(0.5) + tail


def bounded(x: Pair) -> Pair:
    """At most 800, and as good as at least -800, where exp is 0 or infinite."""
    inside, high = abs(x.hi) < 800.0, vanishing(x.hi)
    return Pair(where(high > 800.0, 800.0, high), x.lo and where(inside, x.lo, 0.0))


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


def sigmoid_short(x: Term) -> Term:
    """1 / (1 + e) for x from 0, else e / (1 + e), with e = exp(-|x|) in two parts, and a quotient that is mended once."""
    n, r = reduce_exp(vanishing(-abs(x)))
    q = muladd(r * r, polynomial(r, _EXP_SHORT), r)
    high = q + 1.0
    low, power = q - (high - 1.0), x.number(1.0).scaled(n)
    d = high * power + 1.0
    tail = high * power - (d - 1.0) + low * power
    negative, inverse = x < 0.0, 1.0 / d
    over, more = where(negative, high, 1.0), where(negative, low, 0.0)
    y = over * inverse
    y = muladd(muladd(-y, d, over) + (more - y * tail), inverse, y)
    return where(negative, y.scaled(n), y)


def sigmoid(x: Term) -> Term:
    n, q = exp_parts(bounded(Pair(-abs(x))))
    e, negative = q + 1.0, x < 0.0
    y = choose(negative, e, Pair(x.number(1.0))) / (e.scaled(x.number(1.0).scaled(n)) + 1.0)
    return where(negative, y.value.scaled(n), y.value)


ROWS = (
    function(
        "exp",
        np.exp,
        native(exp),
        "e to the power of x.",
        (1.4, 1.0),
        (-100.0, 90.0),
        adjoint=adjoint_math.exp,
    ),
    function(
        "exp2",
        np.exp2,
        native(exp2),
        "2 to the power of x.",
        (1.3, 1.0),
        (-150.0, 128.0),
        adjoint=adjoint_math.exp2,
    ),
    function(
        "exp10",
        lambda x: np.power(10.0, x),
        widened(exp10),
        "10 to the power of x.",
        (0.6, 1.0),
        (-45.0, 39.0),
        public=False,
        adjoint=adjoint_math.exp10,
    ),
    function(
        "expm1",
        np.expm1,
        by_size(expm1_short, expm1),
        "exp(x) - 1, with all its digits near 0.",
        (1.5, 1.0),
        (-20.0, 90.0),
        adjoint=adjoint_math.expm1,
    ),
    function(
        "sigmoid",
        lambda x: 1 / (1 + np.exp(-x)),
        by_size(sigmoid_short, sigmoid),
        "1 / (1 + exp(-x)).",
        (1.6, 1.0),
        (-110.0, 30.0),
        adjoint=adjoint_math.sigmoid,
    ),
)
