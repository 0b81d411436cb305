"""Type conversion on the vector unit: the language's casts, and between memory's and the computing form of a dtype.

Integers of up to 32 bits are computed in int32, bfloat16 and float8 in float32; float16 stays as it is where a rule
takes it. `Cast` has few pairs of types, so a cast may take several. It is legal to skip one where the form is the same.

    int8 + int8:   Cast(half, x), Cast(int32, half), Add, then wrapped to 8 bits, Cast(float), Cast(half), Cast(int8)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pypto.backends.ascend.blockir.instructions import CASTS
from pypto.backends.ascend.blockir.ir import View, Word
from pypto.backends.ascend.rules import double_float, integers
from pypto.backends.ascend.rules.operand import Lanes, NoInstruction, as_dtype, as_int32, as_uint32
from pypto.ir.types import DType, float16, float32, float64, int16, int32, int64, uint8, uint16, uint32
from pypto.ops.math import formats

if TYPE_CHECKING:
    from pypto.backends.ascend.rules.emitter import VectorEmitter

_TOP = 2.0**31


# --- from and to memory -----------------------------------------------------------------------------------------------


def loaded(e: VectorEmitter, a: Lanes, wide: bool = True) -> Lanes:
    """Convert from memory's form to the computing form; with `wide` also float16 to float32."""
    dtype = a.dtype
    if not isinstance(a.at, View):
        return Lanes(dtype, as_int32(a.at)) if dtype == uint32 else float_number(a) if wide else a
    if dtype.is_float:
        return widened(e, a) if wide else a
    if dtype.is_bool or dtype.bits == 64:
        return a
    if dtype.bits == 32:
        return Lanes(dtype, as_dtype(a.at, int32))
    through = float16 if dtype.bits == 8 else float32
    source = as_dtype(a.at, int16) if dtype == uint16 else a.at
    number = cast(e, int32, cast(e, through, source))
    return integers.wrapped(e, Lanes(dtype, number)) if dtype == uint16 else Lanes(dtype, number)


def float_number(a: Lanes) -> Lanes:
    """Take a number of a narrow float for a float32."""
    return Lanes(float32, a.at) if a.dtype.is_narrow else a


def widened(e: VectorEmitter, a: Lanes) -> Lanes:
    """Widen floats to float32."""
    if not isinstance(a.at, View):
        return float_number(a)
    if a.dtype == float32:
        return a
    if a.dtype.bits == 8:
        code = loaded(e, Lanes(uint8, as_dtype(a.at, uint8)))
        return e.formula(formats.float8_value, Lanes(int32, code.at), dtype=a.dtype)
    return Lanes(float32, cast(e, float32, a.at))


def stored(e: VectorEmitter, a: Lanes) -> Lanes:
    """Convert from the computing form to memory's form."""
    dtype = a.dtype
    if not isinstance(a.at, View):
        return Lanes(dtype, as_uint32(a.at)) if dtype == uint32 else a
    if dtype.is_float or dtype.is_bool or a.at.elem.bits == dtype.bits:
        return Lanes(dtype, as_dtype(a.at, uint32)) if dtype == uint32 else a
    if dtype.bits == 8:
        number = cast(e, float32, a.at)
        return Lanes(dtype, cast(e, dtype, cast(e, float16, number)))
    number = e.view(integers.wrapped(e, a, int16)) if dtype == uint16 else a.at
    return Lanes(dtype, as_dtype(cast(e, int16, number), dtype))


def cast(e: VectorEmitter, dtype: DType, source: View, mode: str = "CAST_RINT") -> View:
    """Emit `Cast`, in a rounding mode if the pair of types takes one; exact casts and cuts of bits take CAST_NONE."""
    rounds = mode in CASTS.get((source.elem.public, dtype.public), ())
    target = e.run("Cast", dtype, source, Word(mode if rounds else "CAST_NONE"), unit=dtype).at
    assert isinstance(target, View)
    return target


def rounded(e: VectorEmitter, a: Lanes, dtype: DType) -> Lanes:
    """Round float32 to the nearest number of a narrower float, in memory's form."""
    if not isinstance(a.at, View) or dtype in (float32, a.at.elem):
        return Lanes(dtype, a.at)
    if dtype.bits == 8:
        code = e.formula(formats.float8_bits, Lanes(float32, a.at), dtype=dtype)
        made = stored(e, Lanes(uint8, code.at)).at
        assert isinstance(made, View)
        return Lanes(dtype, as_dtype(made, dtype))
    return Lanes(dtype, cast(e, dtype, a.at))


# --- casts ------------------------------------------------------------------------------------------------------------


def convert(e: VectorEmitter, a: Lanes, dtype: DType) -> Lanes:
    """Emit the language's cast. Results are in the computing form, but narrow floats in memory's form."""
    if a.dtype == dtype:
        return a
    if 64 in (a.dtype.bits, dtype.bits):
        return with_64_bits(e, a, dtype)
    if a.dtype.is_float:
        a = widened(e, a)
    if dtype.is_bool:
        return e.cmp("ne", a, e.const(0, a.dtype))
    if a.dtype.is_bool:
        return from_bool(e, a, dtype)
    if dtype.is_float:
        return rounded(e, a if a.dtype.is_float else to_float(e, a), dtype)
    return from_float(e, a, dtype) if a.dtype.is_float else integers.wrapped(e, a, dtype)


def from_bool(e: VectorEmitter, a: Lanes, dtype: DType) -> Lanes:
    """Convert bools to 0 or 1 of a dtype."""
    if dtype.is_float:
        return rounded(e, e.selected(a, e.const(1.0, float32), e.const(0.0, float32)), dtype)
    return Lanes(dtype, e.selected(a, e.const(1, int32), e.const(0, int32)).at)


def to_float(e: VectorEmitter, a: Lanes) -> Lanes:
    """Convert integers to float32, rounded once."""
    if not isinstance(a.at, View):
        return Lanes(float32, e.number(a.at, float32))
    if a.dtype != uint32:
        return Lanes(float32, cast(e, float32, a.at))
    # Both halves are exact; their sum is rounded once.
    high = integers.shifted_by(e, "ShiftRight", a, 16)
    low = integers.wrapped(e, a, uint16)
    upper, lower = (Lanes(float32, cast(e, float32, e.view(v))) for v in (high, low))
    return e.add(e.mul(upper, e.const(65536.0, float32)), lower)


def from_float(e: VectorEmitter, a: Lanes, dtype: DType) -> Lanes:
    """Convert float32 to an integer: towards zero, saturating, NaN to 0."""
    if dtype == uint32:
        return to_uint32(e, a)
    number = Lanes(int32, cast(e, int32, e.view(a), "CAST_TRUNC"))
    if dtype.bits < 32:
        low, high = dtype.integer_range
        number = e.arithmetic("Min", e.arithmetic("Max", number, Lanes(int32, low)), Lanes(int32, high))
    return Lanes(dtype, number.at)


def to_uint32(e: VectorEmitter, a: Lanes) -> Lanes:
    """Convert float32 to uint32: numbers from 2**31 on are converted less 2**31, and their highest bit is set."""
    above = e.cmp("ge", a, e.const(_TOP, float32))
    lowered = e.select(above, e.sub(a, e.const(_TOP, float32)), a)
    number = Lanes(int32, cast(e, int32, e.view(lowered), "CAST_TRUNC"))
    positive = e.arithmetic("Max", number, Lanes(int32, 0))
    top = e.selected(above, e.const(-(1 << 31), int32), e.const(0, int32))
    return Lanes(uint32, e.arithmetic("Add", positive, top).at)


def with_64_bits(e: VectorEmitter, a: Lanes, dtype: DType) -> Lanes:
    """Convert from or to 64 bits: int64 by `Cast` from int32 or float32 and to float32, float64 as a double-float."""
    if float64 in (a.dtype, dtype):
        return double_float.convert(e, a, dtype)
    if dtype == int64 and isinstance(a.at, View):
        if a.dtype.is_bool or (a.dtype.is_int and a.dtype != uint32):
            number = convert(e, a, int32)
            return Lanes(int64, cast(e, int64, e.view(number)))
        if a.dtype.is_float:
            return Lanes(int64, cast(e, int64, e.view(widened(e, a)), "CAST_TRUNC"))
    if a.dtype == int64 and dtype.is_float and isinstance(a.at, View):
        return rounded(e, Lanes(float32, cast(e, float32, a.at)), dtype)
    raise NoInstruction(f"there is no cast from {a.dtype} to {dtype}")


# --- bits -------------------------------------------------------------------------------------------------------------


def bitcast(e: VectorEmitter, a: Lanes, dtype: DType) -> Lanes:
    """Reinterpret the bits as another dtype of the same size."""
    if a.dtype.is_bool or dtype.is_bool:
        return bool_bits(e, a, dtype)
    if isinstance(a.at, int | float) and {a.dtype, dtype} == {float32, int32}:
        return Lanes(dtype, np.asarray(a.at, a.dtype.numpy).view(dtype.numpy).item())
    if 64 in (a.dtype.bits, dtype.bits) and not isinstance(a.at, View):
        raise NoInstruction("numbers of 64 bits have no bits of their own")
    if float64 in (a.dtype, dtype):
        raise NoInstruction("sums of two float32 have no bits of their own")
    if not isinstance(a.at, View):
        a = Lanes(a.dtype, e.view(a))
    memory = stored(e, rounded(e, a, a.dtype) if a.dtype.is_float and a.dtype.bits < 64 else a).at
    assert isinstance(memory, View)
    return loaded(e, Lanes(dtype, as_dtype(memory, dtype)), wide=False)


def bool_bits(e: VectorEmitter, a: Lanes, dtype: DType) -> Lanes:
    """Reinterpret bools as bytes of 0 or 1, or bytes as bools: all but 0 are true."""
    if a.dtype == dtype:
        return a
    if dtype.is_bool:
        return e.cmp("ne", bitcast(e, a, uint8), e.const(0, uint8))
    made = stored(e, from_bool(e, a, uint8)).at
    assert isinstance(made, View)
    return loaded(e, Lanes(dtype, as_dtype(made, dtype)), wide=False)
