"""Conversions between element types, and integer division, which machines lack in lanes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pypto.backends.cpu.lanes import Lanes, intrinsic_suffix, llvm_type
from pypto.ir.types import (
    DType,
    bfloat16,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
)

if TYPE_CHECKING:
    from pypto.backends.cpu.emitter import LaneEmitter


def convert(e: LaneEmitter, a: Lanes, dtype: DType) -> Lanes:
    """The language's cast."""
    if a.dtype == dtype:
        return a
    if dtype.is_bool:
        return e.cmp("ne", a, e.const(0, a.dtype))
    if a.dtype.is_float and dtype.is_float:
        return float_to_float(e, a, dtype)
    if a.dtype.is_float:
        return float_to_int(e, a, dtype)
    if dtype.is_float:
        held = dtype if dtype.bits > 16 else float32
        opcode = "sitofp" if a.dtype.kind == "int" else "uitofp"
        wide = e.instr(f"{opcode} {a.typed} to {llvm_type(held, a.width)}", held, a)
        return wide if held == dtype else round_to(e, wide, dtype)
    return int_to_int(e, a, dtype)


def int_to_int(e: LaneEmitter, a: Lanes, dtype: DType) -> Lanes:
    if a.dtype.bits == dtype.bits:
        return a.as_dtype(dtype)
    opcode = "trunc" if a.dtype.bits > dtype.bits else "sext" if a.dtype.kind == "int" else "zext"
    return e.instr(f"{opcode} {a.typed} to {llvm_type(dtype, a.width)}", dtype, a)


def float_to_int(e: LaneEmitter, a: Lanes, dtype: DType) -> Lanes:
    """Saturates; NaN gives 0."""
    held = a.as_dtype(float32) if a.dtype.is_narrow else a
    if dtype.bits < 32:  # LLVM's own saturation into narrow lanes goes element by element
        return int_to_int(e, clamped_to_int32(e, held, dtype), dtype)
    name = "fptosi" if dtype.kind == "int" else "fptoui"
    result = llvm_type(dtype, a.width)
    full = f"llvm.{name}.sat.{intrinsic_suffix(dtype, a.width)}.{intrinsic_suffix(held.dtype, a.width)}"
    return Lanes(e.w.call(result, full, ((held.type, held.text),), a.level), dtype, a.width, max(a.level, e.w.base))


def clamped_to_int32(e: LaneEmitter, a: Lanes, dtype: DType) -> Lanes:
    """The integer part of a float, within the range of a narrow type, as int32; 0 for NaN."""
    low, high = (e.const(float(limit), a.dtype) for limit in dtype.integer_range)
    number = e.select(e.isnan(a), e.const(0.0, a.dtype), a)
    above = e.select(e.cmp("gt", number, low), number, low)
    inside = e.select(e.cmp("lt", above, high), above, high)
    return e.instr(f"fptosi {inside.typed} to {llvm_type(int32, a.width)}", int32, inside)


def float_to_float(e: LaneEmitter, a: Lanes, dtype: DType) -> Lanes:
    source = a.as_dtype(float32) if a.dtype.is_narrow else a
    if a.dtype.bits == 8 and dtype.bits == 16:
        return source.as_dtype(dtype)
    if dtype == float64:
        return e.instr(f"fpext {source.typed} to {llvm_type(float64, a.width)}", float64, source)
    if source.dtype == float64:
        narrow = e.instr(f"fptrunc {source.typed} to {llvm_type(float32, a.width)}", float32, source)
        source = round_to_odd(e, source, narrow) if dtype.is_narrow else narrow
    return source if dtype == float32 else round_to(e, source, dtype)


def round_to_odd(e: LaneEmitter, wide: Lanes, narrow: Lanes) -> Lanes:
    """An inexact float32 with its last bit set, so that rounding it once more equals rounding the float64 once."""
    back = e.instr(f"fpext {narrow.typed} to {wide.type}", float64, narrow)
    bits = e.raw_bitcast(narrow, int32)
    even = e.cmp("eq", e.and_(bits, e.const(1, int32)), e.const(0, int32))
    away = e.cmp("gt", e.abs(back), e.abs(wide))
    toward = e.select(away, e.const(-1, int32), e.const(1, int32))
    inexact = e.and_(e.cmp("ne", back, wide), even)
    finite = e.cmp("eq", wide, wide)
    odd = e.select(e.and_(inexact, finite), e.add(bits, toward), bits)
    return e.raw_bitcast(odd, float32)


def round_to(e: LaneEmitter, a: Lanes, dtype: DType) -> Lanes:
    """float32 to the nearest of a narrower float, ties to even; held as float32."""
    if not dtype.is_narrow:
        return a
    plain = a.as_dtype(float32)
    if dtype.bits == 8:
        return float8_from_bits(e, float8_bits(e, plain, dtype), dtype)
    if dtype == float16 and e.target.has_f16c:
        half = f"<{a.width} x half>" if a.width > 1 else "half"
        narrow = e.w.raw(f"fptrunc {plain.typed} to {half}", a.level)
        return e.instr(f"fpext {half} {narrow} to {plain.type}", float16, plain)
    if dtype == float16:
        return half_from_bits(e, half_bits(e, plain))
    bits = e.add(bfloat_bits(e, plain), e.const(0, uint32))
    return e.raw_bitcast(e.shl(bits, e.const(16, uint32)), float32).as_dtype(bfloat16)


def bfloat_bits(e: LaneEmitter, a: Lanes) -> Lanes:
    """The upper 16 bits after rounding to nearest even, in uint32; a NaN stays one."""
    bits = e.raw_bitcast(a, uint32)
    upper = e.shr(bits, e.const(16, uint32))
    bias = e.add(e.and_(upper, e.const(1, uint32)), e.const(0x7FFF, uint32))
    rounded = e.shr(e.add(bits, bias), e.const(16, uint32))
    return e.select(e.isnan(a), e.or_(upper, e.const(0x40, uint32)), rounded)


def half_bits(e: LaneEmitter, a: Lanes) -> Lanes:
    """float16 bits of a float32, in uint32, by integer steps alone (machines without F16C)."""
    c = functools.partial(e.const, dtype=uint32)
    bits = e.raw_bitcast(a, uint32)
    sign = e.and_(e.shr(bits, c(16)), c(0x8000))
    size = e.and_(bits, c(0x7FFFFFFF))
    magnitude = e.raw_bitcast(size, float32)
    # Adding 0.5 aligns a subnormal result's last bit with float32's last bit: the addition rounds it.
    tiny = e.sub(e.raw_bitcast(e.add(magnitude, e.const(0.5, float32)), uint32), c(0x3F000000))
    odd = e.and_(e.shr(size, c(13)), c(1))
    normal = e.shr(e.add(e.add(size, c(0xC8000FFF)), odd), c(13))
    finite = e.select(e.cmp("lt", size, c(0x38800000)), tiny, normal)
    limited = e.select(e.cmp("ge", size, c(0x47800000)), c(0x7C00), finite)
    nan = e.or_(c(0x7E00), e.and_(e.shr(size, c(13)), c(0x3FF)))
    return e.or_(e.select(e.cmp("gt", size, c(0x7F800000)), nan, limited), sign)


def half_from_bits(e: LaneEmitter, bits: Lanes) -> Lanes:
    """float16 bits in uint32 to float32."""
    c = functools.partial(e.const, dtype=uint32)
    sign = e.shl(e.and_(bits, c(0x8000)), c(16))
    size = e.shl(e.and_(bits, c(0x7FFF)), c(13))
    # The exponent is off by 112; a product with 2**112 mends normal and subnormal numbers alike.
    scaled = e.mul(e.raw_bitcast(size, float32), e.const(2.0**112, float32))
    special = e.or_(size, c(0x7F800000))
    magnitude = e.select(e.cmp("ge", size, c(0x0F800000)), special, e.raw_bitcast(scaled, uint32))
    return e.raw_bitcast(e.or_(magnitude, sign), float32).as_dtype(float16)


def float8_bits(e: LaneEmitter, a: Lanes, dtype: DType) -> Lanes:
    """The code of the nearest float of 8 bits, ties to even, in int32."""
    (digits, bias), c = dtype.format, functools.partial(e.const, dtype=int32)
    bits, shift = e.raw_bitcast(a, int32), 23 - digits
    sign, size = e.and_(e.shr(bits, c(24)), c(0x80)), e.and_(bits, c(0x7FFFFFFF))
    # Adding a number whose last bit weighs what the subnormals' does lets the addition round them.
    anchor = e.const(2.0 ** (24 - bias - digits), float32)
    sum_bits = e.raw_bitcast(e.add(e.raw_bitcast(size, float32), anchor), int32)
    tiny = e.sub(sum_bits, c((151 - bias - digits) << 23))
    odd = e.and_(e.shr(size, c(shift)), c(1))
    normal = e.shr(e.add(e.add(size, c(((bias - 127) << 23) + (1 << (shift - 1)) - 1)), odd), c(shift))
    code = e.select(e.cmp("lt", size, c((128 - bias) << 23)), tiny, normal)
    most = c(0x7C if dtype == float8_e5m2 else 0x7F)
    if dtype in (float8_e4m3fnuz, float8_e5m2fnuz):
        signed = e.select(e.cmp("eq", code, c(0)), code, e.or_(code, sign))
        return e.select(e.cmp("gt", code, most), c(0x80), signed)
    code = e.minimum(code, most)
    if dtype == float8_e5m2:
        part = e.and_(e.shr(size, c(shift)), c(3))
        nan = e.or_(most, e.select(e.cmp("eq", part, c(0)), c(2), part))
        code = e.select(e.cmp("gt", size, c(0x7F800000)), nan, code)
    return e.or_(code, sign)


def float8_from_bits(e: LaneEmitter, code: Lanes, dtype: DType) -> Lanes:
    """A code of 0 to 255 in int32 as float32. The emitter remembers the code, for when the value is stored."""
    (digits, bias), c = dtype.format, functools.partial(e.const, dtype=int32)
    sign, size = e.shl(e.and_(code, c(0x80)), c(24)), e.shl(e.and_(code, c(0x7F)), c(23 - digits))
    normal = e.add(size, c((127 - bias) << 23))
    # With one more in the exponent a subnormal number lacks its leading digit, which is then taken off.
    odd = e.raw_bitcast(e.add(normal, c(1 << 23)), float32)
    tiny = e.raw_bitcast(e.sub(odd, e.const(2.0 ** (1 - bias), float32)), int32)
    number = e.select(e.cmp("lt", size, c(1 << 23)), tiny, normal)
    nan = c(0x7FC00000)
    if dtype == float8_e5m2:
        number = e.select(e.cmp("ge", size, c(31 << 23)), e.or_(size, c(0x7F800000)), number)
    elif dtype == float8_e4m3fn:
        number = e.select(e.cmp("eq", size, c(0x7F << 20)), nan, number)
    number = e.or_(number, sign)
    if dtype in (float8_e4m3fnuz, float8_e5m2fnuz):
        number = e.select(e.cmp("eq", code, c(0x80)), nan, number)
    value = e.raw_bitcast(number, float32).as_dtype(dtype)
    e.codes[value.text] = code
    return value


def to_memory(e: LaneEmitter, a: Lanes) -> Lanes:
    """A register value as the integer or float that memory holds."""
    if a.dtype.is_narrow and a.dtype.bits == 8:
        code = e.codes.get(a.text) or float8_bits(e, a.as_dtype(float32), a.dtype)
        return int_to_int(e, code, uint8)
    if a.dtype.is_bool:
        return e.instr(f"zext {a.typed} to {llvm_type(int8, a.width)}", int8, a)
    if a.dtype == bfloat16:
        upper = e.shr(e.raw_bitcast(a, uint32), e.const(16, uint32))
        return int_to_int(e, upper, uint16)
    if a.dtype != float16:
        return a
    if not e.target.has_f16c:
        return int_to_int(e, half_bits(e, a.as_dtype(float32)), uint16)
    half = f"<{a.width} x half>" if a.width > 1 else "half"
    narrow = e.w.raw(f"fptrunc {a.typed} to {half}", a.level)
    return e.instr(f"bitcast {half} {narrow} to {llvm_type(int16, a.width)}", uint16, a)


def from_memory(e: LaneEmitter, a: Lanes, dtype: DType) -> Lanes:
    """The reverse; `a` has the type that memory holds."""
    if dtype.is_bool:
        return e.cmp("ne", a, e.const(0, a.dtype))
    if dtype.is_narrow and dtype.bits == 8:
        return float8_from_bits(e, e.instr(f"zext {a.typed} to {llvm_type(int32, a.width)}", int32, a), dtype)
    if dtype == bfloat16:
        wide = e.instr(f"zext {a.typed} to {llvm_type(uint32, a.width)}", uint32, a)
        return e.raw_bitcast(e.shl(wide, e.const(16, uint32)), float32).as_dtype(bfloat16)
    if dtype == float16 and not e.target.has_f16c:
        return half_from_bits(e, e.instr(f"zext {a.typed} to {llvm_type(uint32, a.width)}", uint32, a))
    if dtype == float16:
        half = f"<{a.width} x half>" if a.width > 1 else "half"
        bits = e.w.raw(f"bitcast {a.typed} to {half}", a.level)
        return e.instr(f"fpext {half} {bits} to {llvm_type(float16, a.width)}", float16, a)
    if a.type == llvm_type(dtype, a.width):
        return a.as_dtype(dtype)
    return e.raw_bitcast(a, dtype)


def int_div(e: LaneEmitter, a: Lanes, b: Lanes) -> Lanes:
    """Truncating division that never traps: by zero it gives 0, the least value by -1 wraps."""
    if b.text.lstrip("-").isdigit() and b.text not in ("0", "-1"):
        return e.binary("sdiv" if a.dtype.kind == "int" else "udiv", a, b)
    a, b = e.unify(a, b)
    zero, one = e.const(0, a.dtype), e.const(1, a.dtype)
    by_zero = e.cmp("eq", b, zero)
    if a.width > 1 and a.dtype.bits <= 32:
        # 53 bits hold the quotient of two 32-bit integers exactly enough for truncation to be right.
        wide = int64 if a.dtype == uint32 else int32
        quotient = e.div(convert(e, a, float64), convert(e, e.select(by_zero, one, b), float64))
        return e.select(by_zero, zero, int_to_int(e, float_to_int(e, quotient, wide if a.dtype != int32 else int64),
            a.dtype))
    if a.dtype.kind != "int":
        return e.select(by_zero, zero, e.binary("udiv", a, e.select(by_zero, one, b)))
    minus = e.cmp("eq", b, e.const(-1, a.dtype))
    quotient = e.binary("sdiv", a, e.select(e.or_(by_zero, minus), one, b))
    return e.select(by_zero, zero, e.select(minus, e.neg(a), quotient))
