"""Conversions between element types, and integer division, which machines lack in lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.backends.cpu.llvm.bf16_rounding import rounded, rounds
from pypto.backends.cpu.llvm.division import in_lanes, is_narrow
from pypto.backends.cpu.llvm.value import HALF, VectorValue, intrinsic_suffix, llvm_type
from pypto.ir.types import DType, bfloat16, float16, float32, float64, int8, int32, uint8, uint16, uint32
from pypto.ops import math_formats as formats

if TYPE_CHECKING:
    from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter


def convert(e: LaneEmitter, a: VectorValue, dtype: DType) -> VectorValue:
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
        wide = e.change("sitofp" if a.dtype.kind == "int" else "uitofp", a, float32 if dtype.is_narrow else dtype)
        return round_to(e, wide, dtype)
    return int_to_int(e, a, dtype)


def int_to_int(e: LaneEmitter, a: VectorValue, dtype: DType) -> VectorValue:
    if a.dtype.bits == dtype.bits:
        return a.as_dtype(dtype)
    return e.change("trunc" if a.dtype.bits > dtype.bits else "sext" if a.dtype.kind == "int" else "zext", a, dtype)


def float_to_int(e: LaneEmitter, a: VectorValue, dtype: DType) -> VectorValue:
    """Saturates; NaN gives 0."""
    held = a.as_dtype(float32) if a.dtype.is_narrow else a
    if dtype.bits < 32:  # LLVM's own saturation into narrow lanes goes element by element
        return int_to_int(e, clamped_to_int32(e, held, dtype), dtype)
    name = "fptosi" if dtype.kind == "int" else "fptoui"
    full = f"llvm.{name}.sat.{intrinsic_suffix(dtype, a.width)}.{intrinsic_suffix(held.dtype, a.width)}"
    return e.call(full, dtype, a.width, a.hoist_depth, (held.type, held.text))


def clamped_to_int32(e: LaneEmitter, a: VectorValue, dtype: DType) -> VectorValue:
    """The integer part of a float, within the range of a narrow type, as int32; 0 for NaN."""
    low, high = (e.const(float(limit), a.dtype) for limit in dtype.integer_range)
    number = e.select(e.isnan(a), e.const(0.0, a.dtype), a)
    above = e.select(e.cmp("gt", number, low), number, low)
    inside = e.select(e.cmp("lt", above, high), above, high)
    return e.change("fptosi", inside, int32)


def float_to_float(e: LaneEmitter, a: VectorValue, dtype: DType) -> VectorValue:
    source = a.as_dtype(float32) if a.dtype.is_narrow else a
    if a.dtype.bits == 8 and dtype.bits == 16:
        return source.as_dtype(dtype)
    if dtype == float64:
        return e.change("fpext", source, float64)
    if source.dtype == float64:
        source = e.formula(formats.round_to_odd, source) if dtype.is_narrow else e.change("fptrunc", source, float32)
    return round_to(e, source, dtype)


def round_to(e: LaneEmitter, a: VectorValue, dtype: DType) -> VectorValue:
    """float32 to the nearest of a narrower float, ties to even; held as float32."""
    if not dtype.is_narrow:
        return a
    plain = a.as_dtype(float32)
    if dtype.bits == 8:
        return float8_from_bits(e, e.formula(formats.float8_bits, plain, dtype=dtype), dtype)
    if dtype == float16 and e.target.has_f16c:
        return e.change("fpext", e.change("fptrunc", plain, HALF), float16)
    if dtype == float16:
        return e.formula(formats.half_value, e.formula(formats.half_bits, plain)).as_dtype(float16)
    if rounds(e, plain) and "bf16_rounding" not in e.disabled:
        return from_memory(e, rounded(e, plain, formats.bfloat_bits), bfloat16)
    bits = e.add(e.formula(formats.bfloat_bits, plain), e.const(0, uint32))
    return e.change("bitcast", e.shl(bits, e.const(16, uint32)), float32).as_dtype(bfloat16)


def float8_from_bits(e: LaneEmitter, code: VectorValue, dtype: DType) -> VectorValue:
    """A code of 0 to 255 in int32 as float32. The emitter remembers the code, for when the value is stored."""
    value = e.formula(formats.float8_value, code, dtype=dtype).as_dtype(dtype)
    e.codes[value.text] = code
    return value


def to_memory(e: LaneEmitter, a: VectorValue) -> VectorValue:
    """A register value as the integer or float that memory holds."""
    if a.dtype.is_narrow and a.dtype.bits == 8:
        code = e.codes.get(a.text) or e.formula(formats.float8_bits, a.as_dtype(float32), dtype=a.dtype)
        return int_to_int(e, code, uint8)
    if a.dtype.is_bool:
        return e.change("zext", a, int8)
    if a.dtype == bfloat16:
        return int_to_int(e, e.shr(e.change("bitcast", a, uint32), e.const(16, uint32)), uint16)
    if a.dtype == float16 and e.target.has_f16c:
        return e.change("bitcast", e.change("fptrunc", a, HALF), uint16)
    if a.dtype == float16:
        return int_to_int(e, e.formula(formats.half_bits, a.as_dtype(float32)), uint16)
    return a


def from_memory(e: LaneEmitter, a: VectorValue, dtype: DType) -> VectorValue:
    """The reverse; `a` has the type that memory holds."""
    if dtype.is_bool:
        return e.cmp("ne", a, e.const(0, a.dtype))
    if dtype.is_narrow and dtype.bits == 8:
        return float8_from_bits(e, e.change("zext", a, int32), dtype)
    if dtype == bfloat16:
        return e.change("bitcast", e.shl(e.change("zext", a, uint32), e.const(16, uint32)), float32).as_dtype(bfloat16)
    if dtype == float16 and e.target.has_f16c:
        return e.change("fpext", e.change("bitcast", a, HALF), float16)
    if dtype == float16:
        return e.formula(formats.half_value, e.change("zext", a, uint32)).as_dtype(float16)
    return a.as_dtype(dtype) if a.type == llvm_type(dtype, a.width) else e.change("bitcast", a, dtype)


def int_div(e: LaneEmitter, a: VectorValue, b: VectorValue) -> VectorValue:
    """Truncating division that never traps: by zero it gives 0, the least value by -1 wraps."""
    if b.text.lstrip("-").isdigit() and b.text not in ("0", "-1"):
        return e.binary("sdiv" if a.dtype.kind == "int" else "udiv", a, b)
    zero, one = e.const(0, a.dtype), e.const(1, a.dtype)
    narrow = is_narrow(a, b) and "reciprocal_division" not in e.disabled
    by_zero = e.cmp("eq", b, zero)
    safe = e.select(by_zero, one, b)
    if a.dtype.kind != "int":
        return e.select(by_zero, zero, in_lanes(e, a, safe) if narrow else e.binary("udiv", a, safe))
    minus = e.cmp("eq", b, e.const(-1, a.dtype))
    quotient = in_lanes(e, a, safe) if narrow else e.binary("sdiv", a, e.select(minus, one, safe))
    return e.select(by_zero, zero, e.select(minus, e.neg(a), quotient))
