"""Float arithmetic that machines lack, in full precision: fmod, and on old ones fused multiply-add and rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.backends.cpu.lanes import Lanes
from pypto.ir.types import float64, int64

if TYPE_CHECKING:
    from pypto.backends.cpu.emitter import LaneEmitter

_DIGITS = 52  # quotient bits per step of fmod
_SPLIT = 2.0**27 + 1


def fmod(e: LaneEmitter, x: Lanes, y: Lanes) -> Lanes:
    """x - trunc(x / y) * y, exactly: each step takes off a multiple of y by a power of two.

    float32 is computed in float64, where the steps reach over all its exponents.
    """
    a, b = e.abs(e.convert(x, float64)), e.abs(e.convert(y, float64))
    inf = e.const(float("inf"), float64)
    rest = a
    reach = 2097 if x.dtype == float64 else 277
    for power in range(reach // _DIGITS * _DIGITS, -1, -_DIGITS):
        step = b
        for part in (power // 3, power // 3, power - power // 3 * 2):  # 2.0**power may lie outside the range
            step = e.mul(step, e.const(2.0**part, float64))
        rest = e.select(e.cmp("ge", rest, step), less_steps(e, rest, step), rest)
    usable = e.and_(e.cmp("lt", a, inf), e.cmp("gt", b, e.const(0.0, float64)))
    rest = e.select(usable, rest, e.const(float("nan"), float64))
    return copysign(e, e.convert(rest, x.dtype), x)


def less_steps(e: LaneEmitter, rest: Lanes, step: Lanes) -> Lanes:
    """`rest` minus a whole number of steps. The quotient may be one off, which shows in the remainder."""
    quotient = e.round(e.div(rest, step), "trunc")
    rest = e.fma(e.neg(quotient), step, rest)
    rest = e.select(e.cmp("lt", rest, e.const(0.0, float64)), e.add(rest, step), rest)
    return e.select(e.cmp("ge", rest, step), e.sub(rest, step), rest)


def fma(e: LaneEmitter, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """a * b + c with one rounding, on machines without the instruction.

    Product and sum are split into a float64 and its error, and the errors are joined by rounding to odd, which the
    last rounding does not see (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    x, y, z = (e.convert(v, float64) for v in (a, b, c))
    usual = e.and_(usual_factor(e, x), usual_factor(e, y))
    unscaled = e.add(e.mul(x, y), z)
    (x, scale), (y, other) = smaller(e, x, e.mul(x, y)), smaller(e, y, y)
    scale = e.mul(scale, other)
    z = divided(e, z, scale)
    product, error = two_product(e, x, y)
    plain = e.mul(e.add(product, z), scale)
    high, low = two_sum(e, z, product)
    small, rest = two_sum(e, low, error)
    exact = e.cmp("eq", rest, e.const(0.0, float64))
    bits, one = e.raw_bitcast(small, int64), e.const(1, int64)
    away = e.cmp("gt", e.xor(e.raw_bitcast(rest, int64), bits), e.const(-1, int64))
    odd = e.or_(e.select(away, bits, e.sub(bits, one)), one)
    is_odd = e.cmp("ne", e.and_(bits, one), e.const(0, int64))
    small = e.select(e.or_(exact, is_odd), small, e.raw_bitcast(odd, float64))
    total = e.mul(e.add(high, small), scale)
    inf = e.const(float("inf"), float64)
    result = e.select(e.cmp("lt", e.abs(total), inf), total, plain)
    result = e.select(e.cmp("eq", e.abs(z), inf), z, result)  # the product may overflow, but is finite
    return e.convert(e.select(usual, result, unscaled), a.dtype)


def usual_factor(e: LaneEmitter, x: Lanes) -> Lanes:
    """Whether a factor is neither zero nor infinite nor NaN: else product and sum need no care."""
    size = e.abs(x)
    return e.and_(e.cmp("gt", size, e.const(0.0, float64)), e.cmp("lt", size, e.const(float("inf"), float64)))


def divided(e: LaneEmitter, z: Lanes, scale: Lanes) -> Lanes:
    """z / scale, but never zero for it: beside a large product the sign of the smallest number still decides a tie."""
    zero, least = e.const(0.0, float64), e.const(5e-324, float64)
    quotient = e.div(z, scale)
    gone = e.and_(e.cmp("eq", quotient, zero), e.cmp("ne", z, zero))
    return e.select(gone, copysign(e, least, z), quotient)


def two_sum(e: LaneEmitter, a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """The rounded sum and what rounding took from it (Knuth)."""
    total = e.add(a, b)
    part = e.sub(total, a)
    return total, e.add(e.sub(a, e.sub(total, part)), e.sub(b, part))


def two_product(e: LaneEmitter, a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """The rounded product and what rounding took from it (Dekker)."""
    product = e.mul(a, b)
    (a1, a2), (b1, b2) = halves(e, a), halves(e, b)
    error = e.sub(product, e.mul(a1, b1))
    error = e.sub(e.sub(error, e.mul(a2, b1)), e.mul(a1, b2))
    return product, e.sub(e.mul(a2, b2), error)


def halves(e: LaneEmitter, a: Lanes) -> tuple[Lanes, Lanes]:
    """Upper and lower half of a float64's digits (Veltkamp)."""
    scaled = e.mul(a, e.const(_SPLIT, float64))
    upper = e.sub(scaled, e.sub(scaled, a))
    return upper, e.sub(a, upper)


def smaller(e: LaneEmitter, a: Lanes, largest: Lanes) -> tuple[Lanes, Lanes]:
    """A number divided so that neither it nor `largest` comes near an overflow, and what it was divided by."""
    one, most = e.const(1.0, float64), e.const(2.0**990, float64)
    large = e.or_(e.cmp("gt", e.abs(a), most), e.cmp("gt", e.abs(largest), most))
    return (e.mul(a, e.select(large, e.const(2.0**-64, float64), one)), e.select(large, e.const(2.0**64, float64), one))


def round_by_adding(e: LaneEmitter, a: Lanes, mode: str) -> Lanes:
    """Rounding where the machine has no instruction for it: through 2**23 (2**52), which pushes the fraction out."""
    big = e.const(2.0**52 if a.dtype == float64 else 2.0**23, a.dtype)
    size = e.abs(a)
    near = e.sub(e.add(size, big), big)
    if mode == "even":
        result = copysign(e, near, a)
    else:
        signed = copysign(e, near, a)
        zero, one = e.const(0.0, a.dtype), e.const(1.0, a.dtype)
        if mode == "trunc":
            result = copysign(e, e.sub(near, e.select(e.cmp("gt", near, size), one, zero)), a)
        elif mode == "floor":
            result = e.sub(signed, e.select(e.cmp("gt", signed, a), one, zero))
        else:
            result = copysign(e, e.add(signed, e.select(e.cmp("lt", signed, a), one, zero)), a)
    return e.select(e.cmp("lt", size, big), result, a)


def copysign(e: LaneEmitter, a: Lanes, sign: Lanes) -> Lanes:
    return e.intrinsic("copysign", a.dtype, a, sign)
