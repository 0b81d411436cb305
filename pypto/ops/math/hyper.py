"""Hyperbolic functions and their inverses."""

from __future__ import annotations

import numpy as np

from pypto.ops import adjoint_math
from pypto.ops.math.exp import LOG2, exp_parts, exp_reduced, less_one, reduce_exp
from pypto.ops.math.log import log_of
from pypto.ops.math.pair import Pair, choose, constant, product, two_sum
from pypto.ops.math.rows import by_size, function, widened
from pypto.ops.math.term import Term, clamp, copysign, muladd, polynomial, where

# (tanh(x) - x) / x³ in x² ≤ 0.391, Chebyshev interpolant: 5.5e-10 of x.
TANH = (
    -0.33333333171275803,
    0.1333330342585789,
    -0.05395922855611955,
    0.021768666325116613,
    -0.008343119638547832,
    0.0022918094207610654,
)


def tanh_short(x: Term) -> Term:
    """A polynomial near 0, else 1 - 2 / (exp(2 |x|) + 1)."""
    size = abs(x)
    z = size * size
    small = muladd(z * size, polynomial(z, TANH), size)
    twice = size + size
    n, r = reduce_exp(where(twice > 20.0, 20.0, twice))
    far = 1.0 - 2.0 / (exp_reduced(r).scaled(n) + 1.0)
    return copysign(where(size < 0.625, small, far), x)


def tanh(x: Term) -> Term:
    """(exp(2 |x|) - 1) / (exp(2 |x|) + 1)."""
    size = clamp(abs(x), 0.0, 20.0)
    _, less, more = less_one(Pair(size + size))
    return copysign((less / more).value, x)


def halves(x: Term) -> tuple[Term, Pair, Pair]:
    """n, and exp(x) - exp(-x) and exp(x) + exp(-x) over 2**n, for x from 0."""
    n, q = exp_parts(Pair(clamp(x, 0.0, 800.0)))
    inverse = x.number(1.0).scaled(-n)
    square = inverse * inverse
    less = (q / (q + 1.0)).scaled(square)
    return n, q + less + two_sum(-square, 1.0), q - less + two_sum(square, 1.0)


def sinh(x: Term) -> Term:
    n, less, _ = halves(abs(x))
    return copysign(less.value.scaled(n - 1.0), x)


def cosh(x: Term) -> Term:
    n, _, more = halves(abs(x))
    return more.value.scaled(n - 1.0)


def one_plus(t: Pair) -> Pair:
    """1 + t with its second part, for short terms too: log of it is right near 0."""
    s = two_sum(t.hi, 1.0, keep=True)
    return s if t.lo is None or s.lo is None else Pair(s.hi, s.lo + t.lo)


def asinh(x: Term) -> Term:
    """log(1 + t) with t = |x| + x² / (1 + √(1 + x²)); far out log |x| + log 2."""
    size = abs(x)
    far = size > 2.0**30
    bounded = where(far, 1.0, size)
    square = product(bounded, bounded)
    u = one_plus(square / ((square + 1.0).sqrt() + 1.0) + bounded)
    result = log_of(choose(far, Pair(size), u)) + far_out(far, x)
    return copysign(finite(size, result), x)


def acosh(x: Term) -> Term:
    """log(1 + t) with t = (x - 1) + √((x - 1) (x + 1))."""
    far = x > 2.0**30
    less = two_sum(where(far, 1.0, x), -1.0)
    u = one_plus(less + (less * (less + 2.0)).sqrt())
    result = finite(x, log_of(choose(far, Pair(x), u)) + far_out(far, x))
    return where(x >= 1.0, result, float("nan"))


def atanh(x: Term) -> Term:
    """log(1 + t) / 2 with t = 2 |x| / (1 - |x|)."""
    size = abs(x)
    u = one_plus(Pair(size + size) / two_sum(-size, 1.0))
    result = where(size.same(1.0), float("inf"), log_of(u).value * 0.5)
    return copysign(where(size <= 1.0, result, float("nan")), x)


def far_out(far: Term, x: Term) -> Pair:
    """log 2 where an argument was taken for half of itself."""
    ln2 = constant(x, LOG2)
    return Pair(where(far, ln2.hi, 0.0), ln2.lo and where(far, ln2.lo, 0.0))


def finite(x: Term, result: Pair) -> Term:
    """The result, or x where that is infinite or NaN."""
    return where(abs(x) < float("inf"), result.value, x)


ROWS = (
    function(
        "tanh",
        np.tanh,
        by_size(tanh_short, tanh),
        "Hyperbolic tangent.",
        (1.5, 1.0),
        adjoint=adjoint_math.tanh,
    ),
    function("sinh", np.sinh, widened(sinh), "Hyperbolic sine.", (0.6, 1.0), (-90.0, 90.0), adjoint=adjoint_math.sinh),
    function(
        "cosh", np.cosh, widened(cosh), "Hyperbolic cosine.", (0.6, 1.0), (-90.0, 90.0), adjoint=adjoint_math.cosh
    ),
    function("asinh", np.arcsinh, widened(asinh), "Inverse hyperbolic sine.", (0.6, 1.0), adjoint=adjoint_math.asinh),
    function(
        "acosh",
        np.arccosh,
        widened(acosh),
        "Inverse hyperbolic cosine: NaN below 1.",
        (0.6, 1.0),
        (1.0, 100.0),
        adjoint=adjoint_math.acosh,
        kink="infinite at 1.",
    ),
    function(
        "atanh",
        np.arctanh,
        widened(atanh),
        "Inverse hyperbolic tangent: NaN beyond ±1.",
        (0.6, 1.0),
        (-1.0, 1.0),
        adjoint=adjoint_math.atanh,
    ),
)
