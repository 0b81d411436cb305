"""Float arithmetic that machines lack, in full precision: fmod, and on old ones fused multiply-add and rounding."""

from __future__ import annotations

import math

from pypto.ir.types import float64
from pypto.ops.math.term import Term, copysign, where

_DIGITS = 52  # quotient bits per step of fmod
_SPLIT = 2.0**27 + 1


def fmod(x: Term, y: Term) -> Term:
    """x - trunc(x / y) * y, exactly: each step takes off a multiple of y by a power of two.

    float32 is computed in float64, where the steps reach over all its exponents.
    """
    a, b = abs(x.to(float64)), abs(y.to(float64))
    remainder, reach = a, 2097 if x.dtype == float64 else 277
    for power in range(reach // _DIGITS * _DIGITS, -1, -_DIGITS):
        third = power // 3  # 2.0**power may lie outside the range
        step = b * 2.0**third * 2.0**third * 2.0 ** (power - 2 * third)
        remainder = where(remainder >= step, less_steps(remainder, step), remainder)
    usable = (a < math.inf) & (b > 0.0)
    return copysign(where(usable, remainder, math.nan).to(x.dtype), x)


def less_steps(remainder: Term, step: Term) -> Term:
    """`remainder` minus an integer number of steps. The quotient may be one off, which shows in the remainder."""
    quotient = (remainder / step).round("trunc")
    remainder = remainder.new(remainder.e.fma((-quotient).lanes, step.lanes, remainder.lanes))
    remainder = where(remainder < 0.0, remainder + step, remainder)
    return where(remainder >= step, remainder - step, remainder)


def fma(a: Term, b: Term, c: Term) -> Term:
    """a * b + c with one rounding, on machines without the instruction.

    Product and sum are split into a float64 and its error, and the errors are joined by rounding to odd, which the
    last rounding does not see (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    x, y, z = (v.to(float64) for v in (a, b, c))
    usual, unscaled = usual_factor(x) & usual_factor(y), x * y + z
    (x, scale), (y, other) = smaller(x, x * y), smaller(y, y)
    scale = scale * other
    z = divided(z, scale)
    product, rounding_error = x * y, product_error(x, y)
    plain = (product + z) * scale
    high, low = two_sum(z, product)
    small, error = two_sum(low, rounding_error)
    bits = small.bits()
    odd_value = where((error.bits() ^ bits) > -1, bits, bits - 1) | 1
    is_odd = (bits & 1).differs(0)
    total = (high + where(error.same(0.0) | is_odd, small, odd_value.bits(float64))) * scale
    result = where(abs(total) < math.inf, total, plain)
    result = where(abs(z).same(math.inf), z, result)  # the product may overflow, but is finite
    return where(usual, result, unscaled).to(a.dtype)


def usual_factor(x: Term) -> Term:
    """Whether a factor is neither zero nor infinite nor NaN: else product and sum need no care."""
    return (abs(x) > 0.0) & (abs(x) < math.inf)


def divided(z: Term, scale: Term) -> Term:
    """z / scale, but never zero for it: beside a large product the sign of the smallest number still decides a tie."""
    quotient = z / scale
    gone = quotient.same(0.0) & z.differs(0.0)
    return where(gone, copysign(z.number(5e-324), z), quotient)


def two_sum(a: Term, b: Term) -> tuple[Term, Term]:
    """The rounded sum and what rounding took from it (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def product_error(a: Term, b: Term) -> Term:
    """What rounding took from a product (Dekker)."""
    (a1, a2), (b1, b2) = halves(a), halves(b)
    return a2 * b2 - (a * b - a1 * b1 - a2 * b1 - a1 * b2)


def halves(a: Term) -> tuple[Term, Term]:
    """Upper and lower half of a float64's digits (Veltkamp)."""
    scaled = a * _SPLIT
    upper = scaled - (scaled - a)
    return upper, a - upper


def smaller(a: Term, largest: Term) -> tuple[Term, Term]:
    """A number divided so that neither it nor `largest` comes near an overflow, and what it was divided by."""
    large, one = (abs(a) > 2.0**990) | (abs(largest) > 2.0**990), a.number(1.0)
    return a * where(large, 2.0**-64, one), where(large, 2.0**64, one)


def scaled_twice(a: Term, n: Term) -> Term:
    """a * 2**n in two steps of half the exponent each, so that both factors are normal and only the last one rounds.

    Adding 1.5 times the weight of the first fraction bit puts an integral `n` into the lowest bits, and twice the bias
    with it. The half of that, cut to whole exponents, is the first factor, and what it lacks of all is the second.
    """
    mantissa, bias = a.dtype.format
    half = (n + (1.5 * 2.0**mantissa + 2 * bias)).bits() << mantissa - 1
    first = half & (-1 << mantissa)
    return a * first.bits(a.dtype) * (half + half - first).bits(a.dtype)


def round_by_adding(a: Term, mode: str) -> Term:
    """Rounding where the machine has no instruction for it: through 2**23 (2**52), which pushes the fraction out."""
    big = 2.0**52 if a.dtype == float64 else 2.0**23
    size = abs(a)
    rounded = size + big - big
    zero = a.number(0.0)
    if mode == "trunc":
        rounded = rounded - where(rounded > size, 1.0, zero)
    result = copysign(rounded, a)
    if mode == "floor":
        result = result - where(result > a, 1.0, zero)
    elif mode == "ceil":
        result = copysign(result + where(result < a, 1.0, zero), a)
    return where(size < big, result, a)
