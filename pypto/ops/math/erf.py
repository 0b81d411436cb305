"""The error function and its relatives."""

from __future__ import annotations

import math

from pypto.ops import adjoint_math
from pypto.ops.math import reference
from pypto.ops.math.erf_tables import (
    GUESS_FAR,
    GUESS_MIDDLE,
    GUESS_NEAR,
    LARGE,
    LARGE_SHORT,
    MIDDLE,
    SCALED,
    SCALED_SHORT,
    SMALL,
)
from pypto.ops.math.exp import exp, exp2_reduced, exp_parts
from pypto.ops.math.log import log
from pypto.ops.math.pair import Pair, choose, constant, product, two_sum
from pypto.ops.math.rows import function, native, widened
from pypto.ops.math.term import Term, clamp, copysign, muladd, polynomial, where

_ROOT_HALF = 0.7071067811865476, -4.833646656726457e-17


def erf(x: Term) -> Term:
    """x + x · P(x²) near 0, far out 1 - erfc(|x|) with erfc by its logarithm; float64 has a polynomial between them."""
    size = abs(x)
    small = muladd(size, polynomial(size * size, SMALL[x.dtype.mnemonic]), size)
    if x.is_double:
        small = where(size < 0.75, small, polynomial(size - 1.125, MIDDLE) + 0.888671875)
        result = where(size < 1.5, small, 1.0 - large_erfc(where(size > 6.0, 6.0, size)))
    else:
        result = where(size < 0.921875, small, 1.0 - large_erfc_short(where(size > 4.0, 4.0, size)))
    return copysign(result, x)


def large_erfc_short(x: Term) -> Term:
    exponent = polynomial(x, LARGE_SHORT)
    n, fraction = exponent.split_integer()
    return exp2_reduced(fraction).scaled(n)


def large_erfc(x: Term) -> Term:
    """exp(-x² - correction), with what rounding takes from the exponent."""
    correction, square = polynomial((x - 3.75) * (1 / 2.25), LARGE), product(x, x)
    assert square.lo is not None
    total = square.hi + correction
    value = exp(-total)
    return value - value * (correction - (total - square.hi) + square.lo)


def scaled(x: Pair) -> Pair:
    """exp(x²) erfc(x) for x from 0 (Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x", 1981)."""
    t = (x.hi - 4.0) / (x.hi + 4.0)
    top = polynomial(t, SCALED_SHORT if t.short else SCALED) * 0.5  # halves, so that no x overflows
    return Pair(top) / two_sum(x.hi, 0.5)


def small_erf(x: Term) -> Term:
    """erf(x) - x for |x| ≤ 1."""
    return x * polynomial(x * x, SMALL["f64"])


def near_erfc(x: Pair) -> Pair:
    """1 - erf(x) for |x| ≤ ½, where the quotient in `scaled` would cost digits."""
    tail = small_erf(x.hi)
    return two_sum(-x.hi, 1.0) - Pair(tail if x.lo is None else tail + x.lo * (2 / math.sqrt(math.pi)))


def erfc_of(x: Pair) -> Term:
    """exp(-x²) times `scaled`, and 2 minus that below 0."""
    sign = x.hi < 0.0
    size = choose(sign, -x, x)
    size = Pair(clamp(size.hi, 0.0, 28.0), size.lo)
    n, q = exp_parts(-(size * size))
    result = ((q + 1.0) * scaled(size)).value.scaled(n)
    return result_near(size, near_erfc(x).value, where(sign, 2.0 - result, result))


def result_near(size: Pair, below_half: Term, far: Term) -> Term:
    return far if size.hi.short else where(size.hi < 0.5, below_half, far)


def erfc(x: Term) -> Term:
    return erfc_of(Pair(x))


def normcdf(x: Term) -> Term:
    return erfc_of(constant(x, _ROOT_HALF) * clamp(-x, -60.0, 60.0)) * 0.5


def erfcx(x: Term) -> Term:
    size = abs(x)
    result = where(size > 2.0**300, 1 / math.sqrt(math.pi) / size, scaled(Pair(clamp(size, 0.0, 2.0**300))).value)
    reach = clamp(size, 0.0, 28.0)
    n, q = exp_parts(product(reach, reach))
    far = where(x < 0.0, (q + 1.0).value.scaled(n + 1.0) - result, result)
    return result_near(Pair(size), ((q + 1.0) * near_erfc(Pair(x))).value, far)


def inverse(x: Term, c: Term) -> Term:
    """The y from 0 with erf(y) = x and erfc(y) = c, where x + c is 1: a guess and one step of Halley's method.

    Multiplied by exp(y²), the step is right for the least c.
    """
    w = -log(c * (2.0 - c))
    root = w.sqrt()
    part = 1.0 / where(w > 5.0, root, 1.0)
    y = where(w > 38.0, polynomial(part, GUESS_FAR), polynomial(part, GUESS_MIDDLE)) * root
    y = where(w > 5.0, y, polynomial(w, GUESS_NEAR) * x)
    n, q = exp_parts(product(y, y))
    growth = (q + 1.0).value
    below = (y - x + small_erf(y)) * growth.scaled(n)
    step = where(x < 0.8, below, c.scaled(n) * growth - scaled(Pair(y)).value) * (math.sqrt(math.pi) / 2)
    return where(c > 0.0, y - step / muladd(y, step, 1.0), where(c.same(0.0), c.number(math.inf), math.nan))


def erfinv(x: Term) -> Term:
    size = abs(x)
    return copysign(inverse(size, 1.0 - size), x)


def erfcinv(x: Term) -> Term:
    small = x < 1.0
    c = where(small, x, 2.0 - x)
    y = inverse(1.0 - c, c)
    return where(small, y, -y)


def normcdfinv(x: Term) -> Term:
    y = erfcinv(x + x)
    return where(abs(y) < math.inf, (constant(x, _ROOT_HALF) * y).value, y) * -2.0


ROWS = (
    function(
        "erf",
        reference.erf,
        native(erf),
        "Error function, 2/√π · ∫₀ˣ exp(-t²) dt.",
        (1.5, 1.0),
        (-5.0, 5.0),
        adjoint=adjoint_math.erf,
    ),
    function(
        "erfc",
        reference.erfc,
        widened(erfc),
        "1 - erf(x), with all its digits where that is small.",
        (0.6, 2.0),
        (-5.0, 28.0),
        adjoint=adjoint_math.erfc,
    ),
    function(
        "erfcx",
        reference.erfcx,
        widened(erfcx),
        "exp(x²) · erfc(x), which neither overflows nor vanishes for large x.",
        (0.6, 2.0),
        (-5.0, 100.0),
        public=False,
        adjoint=adjoint_math.erfcx,
    ),
    function(
        "erfinv",
        reference.erfinv,
        widened(erfinv),
        "Inverse of erf: NaN beyond ±1.",
        (0.6, 2.0),
        (-1.0, 1.0),
        public=False,
        adjoint=adjoint_math.erfinv,
    ),
    function(
        "erfcinv",
        reference.erfcinv,
        widened(erfcinv),
        "Inverse of erfc: NaN outside of 0 to 2.",
        (0.6, 2.0),
        (0.0, 2.0),
        public=False,
        adjoint=adjoint_math.erfcinv,
    ),
    function(
        "normcdf",
        reference.normcdf,
        widened(normcdf),
        "Probability that a standard normal variable is at most x.",
        (0.6, 2.5),
        (-38.0, 10.0),
        public=False,
        adjoint=adjoint_math.normcdf,
    ),
    function(
        "normcdfinv",
        reference.normcdfinv,
        widened(normcdfinv),
        "Inverse of normcdf: NaN outside of 0 to 1.",
        (0.6, 2.5),
        (0.0, 1.0),
        public=False,
        adjoint=adjoint_math.normcdfinv,
    ),
)
