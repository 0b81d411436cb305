"""Narrow floats by integer steps: the bits that stand for a float32 rounded to them, and the float32 behind the bits."""

from __future__ import annotations

from pypto.ir.types import DType, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float32, float64, uint32
from pypto.ops.math.term import Term, where

_WITHOUT_ZERO_SIGN = (float8_e4m3fnuz, float8_e5m2fnuz)  # its code is the NaN


def minimum(a: Term, most: int) -> Term:
    return where(a < most, a, most)


def round_to_odd(x: Term) -> Term:
    """A float64 as float32 with its last bit set if inexact, so that rounding it once more equals rounding once."""
    narrow = x.to(float32)
    back, bits = narrow.to(float64), narrow.bits()
    even = (bits & 1).same(0)
    toward = where(abs(back) > abs(x), bits.number(-1), 1)
    inexact = back.differs(x) & even
    return where(inexact & x.same(x), bits + toward, bits).bits(float32)


def bfloat_bits(a: Term) -> Term:
    """The upper 16 bits of a float32 after rounding to nearest even, in uint32; a NaN stays one."""
    bits = a.bits(uint32)
    upper = bits >> 16
    rounded = bits + ((upper & 1) + 0x7FFF) >> 16
    return where(a.is_nan(), upper | 0x40, rounded)


def half_bits(a: Term) -> Term:
    """float16 bits of a float32, in uint32."""
    bits = a.bits(uint32)
    sign, size = bits >> 16 & 0x8000, bits & 0x7FFFFFFF
    # Adding 0.5 aligns a subnormal result's last bit with float32's last bit: the addition rounds it.
    tiny = (size.bits(float32) + 0.5).bits(uint32) - 0x3F000000
    normal = size + 0xC8000FFF + (size >> 13 & 1) >> 13
    finite = where(size < 0x38800000, tiny, normal)
    limited = where(size >= 0x47800000, 0x7C00, finite)
    nan = size >> 13 & 0x3FF | 0x7E00
    return where(size > 0x7F800000, nan, limited) | sign


def half_value(bits: Term) -> Term:
    """float16 bits in uint32 as float32."""
    sign, size = (bits & 0x8000) << 16, (bits & 0x7FFF) << 13
    # The exponent is off by 112; a product with 2**112 mends normal and subnormal numbers alike.
    scaled = (size.bits(float32) * 2.0**112).bits(uint32)
    return (where(size >= 0x0F800000, size | 0x7F800000, scaled) | sign).bits(float32)


def float8_bits(a: Term, dtype: DType) -> Term:
    """The code of the nearest float of 8 bits to a float32, ties to even, in int32."""
    digits, bias = dtype.format
    bits, shift = a.bits(), 23 - digits
    sign, size = bits >> 24 & 0x80, bits & 0x7FFFFFFF
    # Adding a number whose last bit weighs what the subnormals' does lets the addition round them.
    tiny = (size.bits(float32) + 2.0 ** (24 - bias - digits)).bits() - (151 - bias - digits << 23)
    normal = size + ((bias - 127 << 23) + (1 << shift - 1) - 1) + (size >> shift & 1) >> shift
    code = where(size < 128 - bias << 23, tiny, normal)
    most = 0x7C if dtype == float8_e5m2 else 0x7F
    if dtype in _WITHOUT_ZERO_SIGN:
        return where(code > most, 0x80, where(code.same(0), code, code | sign))
    code = minimum(code, most)
    if dtype == float8_e5m2:
        part = size >> shift & 3
        code = where(size > 0x7F800000, where(part.same(0), 2, part) | most, code)
    return code | sign


def float8_value(code: Term, dtype: DType) -> Term:
    """A code of 0 to 255 in int32 as float32."""
    digits, bias = dtype.format
    sign, size, nan = (code & 0x80) << 24, (code & 0x7F) << 23 - digits, 0x7FC00000
    normal = size + (127 - bias << 23)
    # With one more in the exponent a subnormal number lacks its leading digit, which is then taken off.
    tiny = ((normal + (1 << 23)).bits(float32) - 2.0 ** (1 - bias)).bits()
    number = where(size < 1 << 23, tiny, normal)
    if dtype == float8_e5m2:
        number = where(size >= 31 << 23, size | 0x7F800000, number)
    elif dtype == float8_e4m3fn:
        number = where(size.same(0x7F << 20), nan, number)
    number = number | sign
    return (where(code.same(0x80), nan, number) if dtype in _WITHOUT_ZERO_SIGN else number).bits(float32)
