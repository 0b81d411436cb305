"""Inverse trigonometric functions."""

from __future__ import annotations

import math

import numpy as np

from pypto.ops import adjoint_math
from pypto.ops.math.pair import Pair, choose, constant, maybe, two_sum
from pypto.ops.math.rows import function, widened
from pypto.ops.math.term import Term, clamp, copysign, is_negative, polynomial, scaling, where
from pypto.ops.math.trig import HALF_PI, PI

_QUARTER_PI = 0.7853981633974483, 3.061616997868383e-17
# (atan(t) / t - 1) / t² in |t| ≤ √2 - 1, Chebyshev interpolants: 3e-18 of atan(t) / t, for float32 8.1e-11.
_ATAN = (
    -0.3333333333333333,
    0.19999999999999804,
    -0.14285714285659828,
    0.11111111105155447,
    -0.09090908753500877,
    0.07692296375032143,
    -0.06666424885738255,
    0.05878928997834775,
    -0.05230454270650244,
    0.04551593220626549,
    -0.034570561981427744,
    0.016285756855221028,
)
_ATAN_SHORT = (
    -0.333333332792548,
    0.19999977258688387,
    -0.14284151193628614,
    0.11071365021884794,
    -0.08624676145249494,
    0.050481385120797445,
)
# (asin(s) / s - 1) / s² in |s| ≤ ½, Chebyshev interpolants: 5.4e-18 of asin(s) / s, for float32 6.2e-11.
_ASIN = (
    0.16666666666666669,
    0.07499999999998433,
    0.04464285714635543,
    0.030381944138531247,
    0.02237217294214989,
    0.017352392720869973,
    0.013971212973552933,
    0.011479177415184906,
    0.01032281435018578,
    0.005457506718640358,
    0.01740087944269402,
    -0.014851887071247204,
    0.028757851367421566,
)
_ASIN_SHORT = (
    0.16666666686085643,
    0.07499992404401838,
    0.04464766388813485,
    0.030269138728589183,
    0.023611817008891752,
    0.010574415516912909,
    0.030974540371355073,
)


def angle(y: Term, x: Term) -> Pair:
    """Angle of the point (x, y) in the first quadrant: π/2, π/4 or 0 plus atan(t) with |t| ≤ √2 - 1."""
    steep, middle = y > x * (1 + math.sqrt(2)), y > x * (math.sqrt(2) - 1)
    top = choose(steep, Pair(-x), choose(middle, two_sum(y, -x), Pair(y)))
    bottom = choose(steep, Pair(y), choose(middle, two_sum(y, x), Pair(x)))
    t = top / bottom
    z = t.hi * t.hi
    tail = t.hi * z * polynomial(z, _ATAN_SHORT if z.short else _ATAN, 0.172)
    half, quarter, zero = constant(z, HALF_PI), constant(z, _QUARTER_PI), constant(z, (0.0, 0.0))
    return choose(steep, half, choose(middle, quarter, zero)) + Pair(t.hi, maybe(t.lo, tail))


def atan(x: Term) -> Term:
    return copysign(angle(clamp(abs(x), 0.0, 2.0**60), x.number(1.0)).value, x)


def atan2(y: Term, x: Term) -> Term:
    height, width = abs(y), abs(x)
    # Infinite sides count for 1, and what lies beside them for 0.
    inf_h, inf_w = height.same(math.inf), width.same(math.inf)
    height, width = where(inf_h, 1.0, where(inf_w, 0.0, height)), where(inf_w, 1.0, where(inf_h, 0.0, width))
    shrink, _ = scaling(where(height > width, height, width))
    # Heights of least angles are lifted, so that no part of a quotient is subnormal.
    least = (height < width * 2.0**-900) & (x > 0.0)
    height = height * shrink if y.short else where(least, height * 2.0**200, height) * shrink
    width = where(height.same(0.0) & width.same(0.0), 1.0, width * shrink)
    radians = angle(height, width)
    size = choose(is_negative(x), constant(x, PI) - radians, radians).value
    size = size if y.short else where(least, size * 2.0**-200, size)
    return where(x.is_nan() | y.is_nan(), math.nan, copysign(size, y))


def arc_sine(x: Term) -> tuple[Term, Pair]:
    """Whether |x| > ½, and asin(|x|) where it is not, else acos(|x|) / 2 = asin(√((1 - |x|) / 2))."""
    size = abs(x)
    large = size > 0.5
    z = where(large, (1.0 - size) * 0.5, size * size)
    s = choose(large, Pair(z).sqrt(), Pair(size))
    tail = s.hi * z * polynomial(z, _ASIN_SHORT if z.short else _ASIN, 0.25)
    return large, Pair(s.hi, maybe(s.lo, tail)).normal


def asin(x: Term) -> Term:
    large, arc = arc_sine(x)
    return copysign(where(large, (constant(x, HALF_PI) - arc.scaled(2.0)).value, arc.value), x)


def acos(x: Term) -> Term:
    large, arc = arc_sine(x)
    twice, sign = arc.scaled(2.0), x < 0.0
    outer = choose(sign, constant(x, PI) - twice, twice)
    inner = constant(x, HALF_PI) - choose(sign, -arc, arc)
    return choose(large, outer, inner).value


ROWS = (
    function(
        "asin",
        np.arcsin,
        widened(asin),
        "Inverse sine in radians: NaN beyond ±1.",
        (0.6, 1.0),
        (-1.0, 1.0),
        adjoint=adjoint_math.asin,
        kink="infinite at 1 and at -1.",
    ),
    function(
        "acos",
        np.arccos,
        widened(acos),
        "Inverse cosine in radians: NaN beyond ±1.",
        (0.6, 1.0),
        (-1.0, 1.0),
        adjoint=adjoint_math.acos,
        kink="infinite at 1 and at -1.",
    ),
    function("atan", np.arctan, widened(atan), "Inverse tangent in radians.", (0.6, 1.0), adjoint=adjoint_math.atan),
    function(
        "atan2",
        np.arctan2,
        widened(atan2),
        "Angle of the point (x, y) in radians, in the right quadrant.",
        (0.6, 1.0),
        names="y x",
        adjoint=adjoint_math.atan2,
        kink="0 at the origin.",
    ),
)
