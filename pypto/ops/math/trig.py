"""Sine, cosine and tangent, right for arguments of any size."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Final

import numpy as np

from pypto.ir.types import float32, float64, int32, uint32
from pypto.ops import adjoint_math
from pypto.ops.math import reference
from pypto.ops.math.pair import Pair, choose, constant, product, two_sum
from pypto.ops.math.rows import by_size, function, widened
from pypto.ops.math.term import Term, muladd, polynomial, rarely, signed, where

# π/2 in parts of 33 bits, whose products with 20-bit numbers are exact, and the rest; for float32 of two parts.
_PARTS: Final = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)
_PARTS_SHORT: Final = (1.5707963267341256, 6.077100506506192e-11)
_TWO_BY_PI: Final = 0.6366197723675814
HALF_PI: Final = 1.5707963267948966, 6.123233995736766e-17
PI: Final = 3.141592653589793, 1.2246467991473532e-16
# (sin(r) / r - 1) / r² in r² ≤ (π/4)², Chebyshev interpolants: 5.7e-18 of sin(r) / r, for float32 1.8e-11.
_SIN = (
    -0.16666666666666666,
    0.008333333333333331,
    -0.00019841269841265065,
    2.7557319219339167e-06,
    -2.5052106232447578e-08,
    1.6058531618986147e-10,
    -7.586697117706918e-13,
)
_SIN_SHORT = (-0.1666666666385529, 0.008333331874710208, -0.00019840086735384846, 2.724992580305979e-06)
# (cos(r) - 1 + r²/2) / r⁴ there: 8.9e-19 of cos(r), for float32 9e-13.
_COS = (
    0.041666666666666664,
    -0.0013888888888887398,
    2.480158729876569e-05,
    -2.7557317271729793e-07,
    2.08761462684032e-09,
    -1.1382632425521717e-11,
)
_COS_SHORT = (0.0416666666643212, -0.001388888767201679, 2.480060037715673e-05, -2.730095920390147e-07)
# For float32 lanes: π/2 in three parts of 13 bits, whose products with 11-bit numbers are exact, and the rest; sin and cos
# as above, to 1.3e-8 of sin(r) / r and 7.7e-10 of cos(r).
_PARTS_SINGLE: Final = (1.570556640625, 0.0002396702766418457, 1.5890691429376602e-08, 2.5633440682570896e-12)
_SIN_SINGLE = (-0.1666666466231438, 0.008332748270629749, -0.00019587890880412386)
_COS_SINGLE = (0.04166666465950221, -0.0013888303035894866, 2.4547942085071572e-05)
_NEAR_SINGLE: Final = 3216.0  # 2**11 · π/2 and less
# The first 1280 binary digits of 2/π.
_DIGITS: Final = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921cfe1deb1cb129"
    "a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf"
    "27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)
_NEAR: Final = 20  # binary digits of arguments that are reduced by multiples of π/2 in parts


def far_table() -> tuple[float, ...]:
    """2**(32 j - 32) · 2/π modulo 4 in four parts, for j from 0 to 31."""
    entries = []
    for j in range(32):
        digits = (_DIGITS << 32 * j >> 32) % (1 << 1282) >> 980
        for _ in range(4):
            entries.append(float(digits) * 2.0**-300)
            digits -= int(float(digits))
    return tuple(entries)


def short_table() -> tuple[float, ...]:
    """2**(16 j - 3) · 2/π modulo 4 in two parts of 29 bits and the rest, for j from 0 to 6."""
    entries = []
    for j in range(7):
        digits = (_DIGITS << 16 * j >> 3) % (1 << 1282)
        for unit in (1253, 1224):
            entries.append(float(digits >> unit) * 2.0 ** (unit - 1280))
            digits %= 1 << unit
        entries.append(float(digits >> 1000) * 2.0**-280)
    return tuple(entries)


def cody_waite(x: Term) -> tuple[Term, Pair]:
    """n and r with x = n π/2 + r, for x below 2**20 (Cody and Waite)."""
    n = (x * _TWO_BY_PI).round()
    if x.short:
        high, low = _PARTS_SHORT
        return n, Pair(muladd(n, -low, x - n * high))
    first, *others = _PARTS
    r = Pair(x - n * first)
    for part in others:
        r = r + n * -part
    return n, r


def far(x: Term) -> tuple[Term, Pair]:
    """Return n modulo 4 and r with x = n π/2 + r, for x from 2**20 on.

    See Payne and Hanek, "Radian reduction for trigonometric functions", 1983. x is an integer times a power of two, and
    the multiples of 4 in that power times 2/π do not matter.
    """
    if x.short:
        return far_short(x)
    bits = x.bits()
    j = ((bits >> 52) - (1023 + _NEAR)) >> 5
    mantissa = (bits - ((j - 1) * 32 << 52)).bits(x.dtype)
    first, second, third = (product(mantissa, entry(j, i)) for i in range(3))
    assert first.lo and second.lo and third.lo
    s = two_sum(modulo4(first.hi), modulo4(first.lo))
    t = two_sum(modulo4(s.hi), modulo4(second.hi))
    n = t.hi.round()
    quarters = Pair(t.hi - n)
    for part in (second.lo, third.hi, s.lo, t.lo, third.lo, mantissa * entry(j, 3)):
        quarters = quarters if part is None else quarters + part
    return n, quarters * constant(x, HALF_PI)


def far_short(x: Term) -> tuple[Term, Pair]:
    """For a float32: an integer of 24 bits times a power of two, whose products with 29 bits are exact.

    What is not exact is off by 2**-54; the float32 nearest to a multiple of π/2 is 2**-30 away from it.
    """
    bits = x.bits()
    j = ((bits >> 52) - (1023 + _NEAR)) >> 4
    mantissa = (bits - ((j * 16 - 3) << 52)).bits(x.dtype)
    first, second, third = (
        mantissa * x.new(x.e.lookup("two_by_pi_short", short_table, (j * 3 + i).lanes)) for i in range(3)
    )
    first, second = modulo4(first), modulo4(second)
    n = (first + second).round()
    return n, Pair((first - n + second + third) * HALF_PI[0])


def entry(j: Term, part: int) -> Term:
    return j.new(j.e.lookup("two_by_pi", far_table, (j * 4 + part).lanes))


def modulo4(x: Term) -> Term:
    return x - (x * 0.25).round() * 4.0


def quadrant(x: Term) -> tuple[Term, Pair]:
    """Integer k and r with x = k π/2 + r modulo 2π, for x from 0."""
    if x.is_paired:
        k, high, low = quadrant_single(x.single)
        return k, Pair(high.to(float64) + low.to(float64))
    n, r = cody_waite(x)
    distant = (x >= 2.0**_NEAR) & (x < math.inf)
    usual = [n, r.hi] if r.lo is None else [n, r.hi, r.lo]

    def rare() -> list[Term]:
        m, s = far(where(distant, x, 2.0**_NEAR))
        exact = [m, s.value] if r.lo is None or s.lo is None else [m, s.hi, s.lo]
        return [where(distant, a, b) for a, b in zip(exact, usual, strict=True)]

    n, *parts = rarely(distant, usual, rare)
    return integer(n), Pair(*parts)


def integer(n: Term) -> Term:
    """An integral number below 2**51 as bits: 1.5 · 2**52 brings it to the lowest ones."""
    return n.to(int32) if n.is_paired else (n + 1.5 * 2.0**52).bits()


def sine(r: Pair) -> Pair:
    z = r.hi * r.hi
    tail = r.hi * z * polynomial(z, _SIN_SHORT if z.short else _SIN, 0.62)
    return Pair(r.hi, tail if r.lo is None else tail + (r.lo - r.lo * (z * 0.5)))


def cosine(r: Pair) -> Pair:
    z = r.hi * r.hi
    half = z * 0.5
    head, tail = 1.0 - half, z * z * polynomial(z, _COS_SHORT if z.short else _COS, 0.62)
    if z.short:
        return Pair(head, tail)
    return Pair(head, (1.0 - head - half) + (tail if r.lo is None else tail - r.hi * r.lo))


def sine_of(k: Term, r: Pair) -> Term:
    """sin(k π/2 + r)."""
    value = where((k & 1).differs(0), cosine(r).value, sine(r).value)
    if value.is_paired:
        return where((k & 2).differs(0), -value, value)
    return (value.bits() ^ (k & 2) << 62).bits(value.dtype)


def sin(x: Term) -> Term:
    return signed(sine_of(*quadrant(abs(x))), x)


def cos(x: Term) -> Term:
    k, r = quadrant(abs(x))
    return sine_of(k + 1, r)


def quadrant_single(x: Term) -> tuple[Term, Term, Term]:
    """`quadrant` of float32 lanes, r in two parts; what is large goes through float64."""
    n = (x * _TWO_BY_PI).round()
    first, second, third, last = _PARTS_SINGLE
    above, step = muladd(n, -second, muladd(n, -first, x)), n * third
    k, r = (n + 1.5 * 2.0**23).bits(), above - step
    low = muladd(n, -last, above - r - step)
    distant = (x > _NEAR_SINGLE) & (x < math.inf)

    def rare() -> list[Term]:
        far_k, far_r, far_low = far_single(where(distant, x, _NEAR_SINGLE)) if x.e.paired else through_double(x)
        return [where(distant, a, b) for a, b in ((far_k, k), (far_r, r), (far_low, low))]

    k, r, low = rarely(distant, [k, r, low], rare)
    return k, r, low


def through_double(x: Term) -> tuple[Term, Term, Term]:
    k, pair = quadrant(replace(x.to(float64), short=True))
    r = pair.hi.to(float32)
    return k.to(int32), r, (pair.hi - r.to(float64)).to(float32)


def far_single(x: Term) -> tuple[Term, Term, Term]:
    """Payne's and Hanek's reduction by integers of 32 bits, for float32 from 2**11 on.

    x is an integer m times 2**e. In 2/π · 2**e the bits above weight 4 count for nothing, three words below it suffice.
    """
    bits = x.bits(uint32)
    m = bits & 0x7FFFFF | 0x800000
    places = (bits >> 23).to(int32) - (150 - 30)
    words = digits_from(places)
    first, second, third = (m * words[0], m * words[1], upper_half(m, words[2]))
    low = second + third
    carry = where(low < second, low.number(1), 0)
    high = first + upper_half(m, words[1]) + carry  # quarters of a turn, in units of 2**-30
    k = (high + (1 << 29)) >> 30
    fraction = (high - (k << 30)).to(int32)
    parts = (
        ((fraction >> 16) << 16, 2.0**-30),
        (fraction & 0xFFFF, 2.0**-30),
        ((low >> 16).to(int32), 2.0**-46),
        ((low & 0xFFFF).to(int32), 2.0**-62),
    )
    quarters = x.number(0.0).to(float64)
    for part, unit in parts:
        quarters = quarters + (part.to(float32) * unit).to(float64)
    r = quarters * x.new(x.e.const(HALF_PI[0], float64))
    single = r.to(float32)
    return k.to(int32), single, (r - single.to(float64)).to(float32)


def digits_from(places: Term) -> list[Term]:
    """2/π · 2**places modulo 2**32, and the two words of 32 bits that follow, for places from 0 to 159."""
    index, shift = places >> 5, places & 31
    known = [index.number(0).to(uint32)] * 4
    for i in range(5):
        has = where(index.same(i), index.number(1), 0).to(uint32)
        known = [k + has * (_DIGITS >> 1280 - 32 * (i + j) & 0xFFFFFFFF) for j, k in enumerate(known)]
    factor = (shift + 127 << 23).bits(float32).to(uint32)
    return [a * factor + upper_half(b, factor) for a, b in itertools.pairwise(known)]


def upper_half(a: Term, b: Term) -> Term:
    """Of the product of two uint32, by halves, none of whose sums overflows."""
    half = (1 << 16) - 1
    a1, a0, b1, b0 = a >> 16, a & half, b >> 16, b & half
    middle = a1 * b0 + (a0 * b0 >> 16)
    other = a0 * b1 + (middle & half)
    return a1 * b1 + (middle >> 16) + (other >> 16)


def turned_single(k: Term, r: Term, low: Term) -> Term:
    """sin(k π/2 + r + low) of float32 lanes."""
    z = r * r
    half = z * 0.5
    head = 1.0 - half
    c = head + ((1.0 - head - half) + (z * z * polynomial(z, _COS_SINGLE) - r * low))
    s = r + muladd(r * z, polynomial(z, _SIN_SINGLE), low)
    return (where((k & 1).differs(0), c, s).bits() ^ (k & 2) << 30).bits(r.dtype)


def sin_single(x: Term) -> Term:
    return signed(turned_single(*quadrant_single(abs(x))), x)


def cos_single(x: Term) -> Term:
    k, r, low = quadrant_single(abs(x))
    return turned_single(k + 1, r, low)


def tan(x: Term) -> Term:
    """sin / cos, or -cos / sin in every second quadrant."""
    k, r = quadrant(abs(x))
    is_odd = (k & 1).differs(0)
    s, c = sine(r).normal, cosine(r).normal
    quotient = (choose(is_odd, c, s) / choose(is_odd, s, c)).value
    if x.is_paired:
        return signed(where(is_odd, -quotient, quotient), x)
    return signed((quotient.bits() ^ k << 63).bits(x.dtype), x)


def half_turns(x: Term) -> tuple[Term, Pair]:
    """`quadrant` of x π, which is exact."""
    x = x - (x * 0.5).round("floor") * 2.0
    n = (x + x).round()
    return integer(n), constant(x, PI) * (x - n * 0.5)


def sinpi(x: Term) -> Term:
    """Small numbers are lifted, so that the parts of their product with π are not subnormal."""
    small = abs(x) < 2.0**-900
    lifted = x if x.short else where(small, x * 2.0**200, x)
    value = signed(sine_of(*half_turns(abs(lifted))), x)
    value = value if x.short else where(small, value * 2.0**-200, value)
    return where(value.same(0.0), x * 0.0, value)


def cospi(x: Term) -> Term:
    k, r = half_turns(abs(x))
    return sine_of(k + 1, r) + 0.0


ROWS = (
    function(
        "sin",
        np.sin,
        by_size(sin_single, sin),
        "Sine of an angle in radians.",
        (1.0, 1.0),
        (-100.0, 100.0),
        adjoint=adjoint_math.sin,
    ),
    function(
        "cos",
        np.cos,
        by_size(cos_single, cos),
        "Cosine of an angle in radians.",
        (1.0, 1.0),
        (-100.0, 100.0),
        adjoint=adjoint_math.cos,
    ),
    function(
        "tan",
        np.tan,
        widened(tan),
        "Tangent of an angle in radians.",
        (0.6, 1.0),
        (-100.0, 100.0),
        adjoint=adjoint_math.tan,
    ),
    function(
        "sinpi",
        reference.half_turns(0),
        widened(sinpi),
        "sin(π x), exact at multiples of ½.",
        (0.6, 1.0),
        public=False,
        adjoint=adjoint_math.sinpi,
    ),
    function(
        "cospi",
        reference.half_turns(1),
        widened(cospi),
        "cos(π x), exact at multiples of ½.",
        (0.6, 1.0),
        public=False,
        adjoint=adjoint_math.cospi,
    ),
)
