"""Powers of float32 on a vector unit: 2**(y log2 |x|), a formula of `rules.kinds.ViaFormula`.

An exponent may be 128, of which 24 bits are not enough digits. The logarithm has a part of 12 bits, whose products with
12 bits of y are exact, and a tail (Dekker, "A floating-point technique for extending the available precision", 1971).
"""

from __future__ import annotations

import math
from typing import Final

from pypto.backends.ascend.rules.formulas import unit
from pypto.ir.types import float32, int32
from pypto.ops.math.term import Term, copysign, polynomial, where

_UPPER: Final = -(1 << 12)  # bits of a float32 without its lower 12
_ROOT_HALF: Final = 0x3F3504F3  # bits of √½
_LEAST_NORMAL: Final = 2.0**-126
# 2 / log 2 in a part of few bits and a tail; (2 artanh(s) / (s log 2) - 2 / log 2) / s² in s² for |s| ≤ 0.1717, minimax
# to 4.9e-12 of the logarithm.
_FACTOR: Final = (2.8857421875, -0.0003521057220731853)
_ARTANH: Final = (0.9617966791039133, 0.5770828741435632, 0.41170483296733845, 0.3402488459036357)
_LARGEST: Final = 250.0  # an exponent beyond which a power is infinite or 0


def upper(x: Term) -> Term:
    """The upper 12 bits of a float32."""
    return (x.bits() & _UPPER).bits(float32)


def split(size: Term) -> tuple[Term, Term]:
    """k and f with size = 2**k · (1 + f) and 1 + f between √½ and √2, for positive finite sizes."""
    is_tiny = size < _LEAST_NORMAL
    bits = where(is_tiny, size * 2.0**24, size).bits()
    k = bits - _ROOT_HALF >> 23
    f = (bits - (k << 23)).bits(float32) - 1.0
    exponent = k.to(float32)
    return where(is_tiny, exponent - 24.0, exponent), f


def ratio(f: Term) -> tuple[Term, Term]:
    """f / (f + 2) as a part of 12 bits and a tail, which is the quotient of the exact remainder."""
    inverse = 1.0 / (f + 2.0)
    s = upper(f * inverse)
    f_upper = upper(f)
    remainder = f - s * 2.0 - s * f_upper - s * (f - f_upper)
    return s, remainder * inverse


def log2_parts(size: Term) -> tuple[Term, Term]:
    """log2 of a positive finite size as a part of 12 bits and a tail, to 2⁻³⁰ of it: by 2 artanh(f / (f + 2))."""
    k, f = split(size)
    s, tail = ratio(f)
    both = s + tail
    z = s * s + tail * (s + both)  # the square, of which the first product is exact
    low = both * (z * polynomial(z, _ARTANH) + _FACTOR[1]) + tail * _FACTOR[0]
    high = s * _FACTOR[0]
    total = k + high
    low = high - (total - k) + low
    first = upper(total + low)
    return first, total - first + low


def exp2_of(high: Term, low: Term) -> Term:
    """2**(high + low) for a high part within ±250 and a low one within ±1, by 2**n with an even n."""
    n = ((high + low) * 0.5).round()
    fraction = high - n * 2.0 + low
    root = (n.to(int32) + 127 << 23).bits(float32)
    return unit.exp(fraction * math.log(2)) * root * root


def power_f32(x: Term, y: Term) -> Term:
    """2**(y log2 |x|), with IEEE 754's answers where that is no number or has no sign."""
    first, tail = log2_parts(abs(x))
    y_upper = upper(y)
    rough = unit.log(abs(x)) * y  # infinite or NaN where |x| is 0, infinite or NaN
    is_usual = abs(rough) < 2 * _LARGEST
    high = where(is_usual, y_upper * first, rough)
    low = where(is_usual, (y - y_upper) * first + y * tail, 0.0)
    result = exp2_of(unit.greater(unit.lesser(high, _LARGEST), -_LARGEST), low)
    result = with_sign(where(abs(x).same(1.0), 1.0, result), x, y)
    return where(y.same(1.0), x, result)


def power_narrow(x: Term, y: Term) -> Term:
    """exp(y log |x|); where a result of 16 bits is finite, the product is right to 2⁻¹⁵."""
    x, y = unit.to_single(x), unit.to_single(y)
    size = abs(x)
    return with_sign(where(size.same(1.0), 1.0, unit.exp(unit.log(size) * y)), x, y)


def with_sign(size: Term, x: Term, y: Term) -> Term:
    """The power of which the size is known: negative, NaN, or 1 for an exponent of 0."""
    half, integral = y * 0.5, y.round().same(y)
    is_odd = integral & half.round().differs(half)
    result = where(is_odd, copysign(size, x), size)
    result = where((x < 0.0) & (x > -math.inf) & ~integral, math.nan, result)
    return where(y.same(0.0), 1.0, result)
