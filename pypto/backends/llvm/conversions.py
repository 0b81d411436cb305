"""Conversions between element types and between their forms in memory and registers; integer division.

A register holds a narrow float as float32 that is rounded to it. A bool is a byte in memory, and i1 in a register.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.backends.llvm.value import HALF, VectorValue, intrinsic_suffix, llvm_type
from pypto.ir.types import DType, bfloat16, float16, float32, float64, int8, int32, uint8, uint16, uint32
from pypto.ops.math import formats

if TYPE_CHECKING:
    from pypto.backends.llvm.lane_emitter import LaneEmitter


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
        opcode = "sitofp" if a.dtype.kind == "int" else "uitofp"
        return round_to(e, e.change(opcode, a, float32 if dtype.is_narrow else dtype), dtype)
    return int_to_int(e, a, dtype)


def int_to_int(e: LaneEmitter, a: VectorValue, dtype: DType) -> VectorValue:
    """An integer truncated, or extended by its sign or by zeros."""
    if a.dtype.bits == dtype.bits:
        return a.as_dtype(dtype)
    extend = "sext" if a.dtype.kind == "int" else "zext"
    return e.change("trunc" if a.dtype.bits > dtype.bits else extend, a, dtype)


def float_to_int(e: LaneEmitter, a: VectorValue, dtype: DType) -> VectorValue:
    """A float truncated to an integer, saturating; NaN gives 0."""
    source = a.as_dtype(float32) if a.dtype.is_narrow else a
    if dtype.bits < 32:  # LLVM scalarises its saturating conversion to narrow lanes
        return int_to_int(e, clamped_to_int32(e, source, dtype), dtype)
    name = "fptosi" if dtype.kind == "int" else "fptoui"
    full = f"llvm.{name}.sat.{intrinsic_suffix(dtype, a.width)}.{intrinsic_suffix(source.dtype, a.width)}"
    return e.call(full, dtype, a.width, a.hoist_depth, (source.type, source.text))


def clamped_to_int32(e: LaneEmitter, a: VectorValue, dtype: DType) -> VectorValue:
    """A float truncated to int32, clamped to the range of a narrower type; NaN gives 0."""
    low, high = (e.const(float(limit), a.dtype) for limit in dtype.integer_range)
    number = e.select(e.isnan(a), e.const(0.0, a.dtype), a)
    number = e.select(e.cmp("gt", number, low), number, low)
    number = e.select(e.cmp("lt", number, high), number, high)
    return e.change("fptosi", number, int32)


def float_to_float(e: LaneEmitter, a: VectorValue, dtype: DType) -> VectorValue:
    """A float rounded to another float type; from float64 to a narrow one, by way of round-to-odd."""
    source = a.as_dtype(float32) if a.dtype.is_narrow else a
    if a.dtype.bits == 8 and dtype.bits == 16:
        return source.as_dtype(dtype)
    if dtype == float64:
        return e.change("fpext", source, float64)
    if source.dtype == float64:
        source = e.formula(formats.round_to_odd, source) if dtype.is_narrow else e.change("fptrunc", source, float32)
    return round_to(e, source, dtype)


def round_to(e: LaneEmitter, a: VectorValue, dtype: DType) -> VectorValue:
    """A float32 rounded to a narrow float, ties to even, and source as float32."""
    if not dtype.is_narrow:
        return a
    plain = a.as_dtype(float32)
    if dtype.bits == 8:
        return float8_from_bits(e, e.formula(formats.float8_bits, plain, dtype=dtype), dtype)
    if dtype == float16 and e.target.has_half:
        return e.change("fpext", e.change("fptrunc", plain, HALF), float16)
    if dtype == float16:
        return e.formula(formats.half_value, e.formula(formats.half_bits, plain)).as_dtype(float16)
    return e.round_to_bfloat(plain)


def round_to_bfloat(e: LaneEmitter, a: VectorValue) -> VectorValue:
    """A float32 rounded to bfloat16 by integer arithmetic, ties to even."""
    bits = e.add(e.formula(formats.bfloat_bits, a), e.const(0, uint32))
    return e.change("bitcast", e.shl(bits, e.const(16, uint32)), float32).as_dtype(bfloat16)


def float8_from_bits(e: LaneEmitter, code: VectorValue, dtype: DType) -> VectorValue:
    """The float32 of an 8-bit code, which is remembered for a store of the value."""
    value = e.formula(formats.float8_value, code, dtype=dtype).as_dtype(dtype)
    e.codes[value.text] = code
    return value


def to_memory(e: LaneEmitter, a: VectorValue) -> VectorValue:
    """A register value in the form that memory holds."""
    if a.dtype.is_narrow and a.dtype.bits == 8:
        code = e.codes.get(a.text) or e.formula(formats.float8_bits, a.as_dtype(float32), dtype=a.dtype)
        return int_to_int(e, code, uint8)
    if a.dtype.is_bool:
        return e.change("zext", a, int8)
    if a.dtype == bfloat16:
        return int_to_int(e, e.shr(e.change("bitcast", a, uint32), e.const(16, uint32)), uint16)
    if a.dtype == float16 and e.target.has_half:
        return e.change("bitcast", e.change("fptrunc", a, HALF), uint16)
    if a.dtype == float16:
        return int_to_int(e, e.formula(formats.half_bits, a.as_dtype(float32)), uint16)
    return a


def from_memory(e: LaneEmitter, a: VectorValue, dtype: DType) -> VectorValue:
    """A register value, from the form that memory holds."""
    if dtype.is_bool:
        return e.cmp("ne", a, e.const(0, a.dtype))
    if dtype.is_narrow and dtype.bits == 8:
        return float8_from_bits(e, e.change("zext", a, int32), dtype)
    if dtype == bfloat16:
        return e.change("bitcast", e.shl(e.change("zext", a, uint32), e.const(16, uint32)), float32).as_dtype(bfloat16)
    if dtype == float16 and e.target.has_half:
        return e.change("fpext", e.change("bitcast", a, HALF), float16)
    if dtype == float16:
        return e.formula(formats.half_value, e.change("zext", a, uint32)).as_dtype(float16)
    return a.as_dtype(dtype) if a.type == llvm_type(dtype, a.width) else e.change("bitcast", a, dtype)


def int_div(e: LaneEmitter, a: VectorValue, b: VectorValue) -> VectorValue:
    """Truncating division that does not trap: by zero it gives 0, the least value by -1 wraps."""
    if b.text.lstrip("-").isdigit() and b.text not in ("0", "-1"):
        return e.binary("sdiv" if a.dtype.kind == "int" else "udiv", a, b)
    zero = e.const(0, a.dtype)
    one = e.const(1, a.dtype)
    is_zero = e.cmp("eq", b, zero)
    divisor = e.select(is_zero, one, b)
    if a.dtype.kind != "int":
        return e.select(is_zero, zero, e.integer_quotient(a, divisor))
    is_minus_one = e.cmp("eq", b, e.const(-1, a.dtype))
    quotient = e.integer_quotient(a, divisor, is_minus_one)
    return e.select(is_zero, zero, e.select(is_minus_one, e.neg(a), quotient))
