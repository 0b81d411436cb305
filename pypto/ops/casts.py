"""Conversions: between element types, of bits, and between addresses and pointers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.errors.language import OpTypeError
from pypto.ir.core import Op, Value
from pypto.ir.types import (
    FLOAT8,
    DType,
    Elem,
    PtrType,
    Type,
    float8_e4m3fn,
    float8e4b15,
    float16,
    float32,
    float64,
    int64,
    uint8,
    uint16,
    uint32,
)
from pypto.ops import adjoint_math, dims
from pypto.ops.adjoint import BY_SWEEP, OF_BITS
from pypto.ops.row import REQUIRED, STRUCTURAL, OpRow, Param
from pypto.ops.rules import BoundArguments, tile

if TYPE_CHECKING:
    from pypto.ops.build import OpBuilder

Array = np.ndarray[Any, Any]
_UNSIGNED = (uint8, uint16, uint32)
_B15_SCALE = 256.0  # float8e4b15 is float8_e4m3fn with an exponent that means 2**8 less


# --- what the rows mean -----------------------------------------------------------------------------------------------


def infer_cast(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    source = tile(types[0])
    for elem in (source.elem, attrs["dtype"]):
        if not isinstance(elem, DType) or elem.kind in ("bits", "void"):
            raise TypeError(f"cannot cast {source} to {attrs['dtype']}")
    return (source.with_elem(attrs["dtype"]),)


def cast_reference(op: Op, a: Array) -> Array:
    dtype = op.attrs["dtype"]
    assert isinstance(dtype, DType)
    return convert(a, dtype)


def convert(a: Array, dtype: DType) -> Array:
    """The language's cast of an array: floats saturate into integers with NaN to 0, integers wrap, bool is `!= 0`."""
    with np.errstate(all="ignore"):
        if dtype.is_bool:
            return np.asarray(a != 0)
        if dtype.is_int and a.dtype.kind not in "iub":
            low, high = dtype.integer_range
            real = np.trunc(np.nan_to_num(a.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
            inside = np.where((real >= float(low)) & (real < float(high) + 1.0), real, 0.0).astype(dtype.numpy)
            over = np.where(real >= float(high) + 1.0, dtype.numpy.type(high), inside)
            return np.where(real < float(low), dtype.numpy.type(low), over)
        if dtype.is_narrow and a.dtype == np.float64:
            a = once_rounded(a)
        return a.astype(dtype.numpy)


def once_rounded(a: Array) -> Array:
    """float64 as a float32 whose last bit says whether something was lost: rounding it once more is right."""
    narrow = a.astype(np.float32)
    bits = narrow.view(np.int32)
    away = np.abs(narrow.astype(np.float64)) > np.abs(a)
    neighbour = bits + np.where(away, -1, 1).astype(np.int32)
    lost = (narrow != a) & (bits & 1 == 0) & np.isfinite(a)
    return np.asarray(np.where(lost, neighbour, bits).astype(np.int32).view(np.float32))


def infer_bitcast(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    source = tile(types[0])
    if source.dtype.itemsize != attrs["dtype"].itemsize:
        raise TypeError(f"cannot view {source.dtype} as {attrs['dtype']}: their sizes differ")
    return (source.with_elem(attrs["dtype"]),)


def bitcast_reference(op: Op, a: Array) -> Array:
    dtype = op.attrs["dtype"]
    assert isinstance(dtype, DType)
    return a.view(dtype.numpy)


def infer_ptr_cast(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    source, target = tile(types[0]), attrs["dtype"]
    pointers = isinstance(source.elem, PtrType), isinstance(target, PtrType)
    others = [x for x, is_pointer in zip((source.elem, target), pointers, strict=True) if not is_pointer]
    if not any(pointers) or any(x != int64 for x in others):
        raise TypeError(f"cannot cast {source} to {target}; pointers are cast to pointers and 64-bit integers")
    return (source.with_elem(target),)


# --- what a program writes --------------------------------------------------------------------------------------------


def cast_value(b: OpBuilder, v: Value, elem: Elem) -> Value:
    """A value in another element type, by as many ops as that takes."""
    source = v.tile.elem
    if source == elem:
        return v
    if isinstance(source, PtrType) or isinstance(elem, PtrType):
        return cast_pointer(b, v, elem)
    if source == float8e4b15:
        return cast_value(b, from_b15(b, v), elem)
    if b.lenient and elem in FLOAT8:
        v = saturated(b, v, elem)
    return to_b15(b, v) if elem == float8e4b15 else b.emit("cast", v, dtype=elem)


def cast_pointer(b: OpBuilder, v: Value, elem: Elem) -> Value:
    """Between pointers, and through int64 between pointers and integers; a pointer is true where it is not 0."""
    source = v.tile.elem
    if isinstance(source, PtrType):
        if isinstance(elem, PtrType):
            return b.emit("ptr_cast", v, dtype=elem)
        if (elem.bits == 64 and elem.is_int) or elem.is_bool:
            return cast_value(b, b.emit("ptr_cast", v, dtype=int64), elem)
    elif source.is_int and source.bits == 64:
        return b.emit("ptr_cast", cast_value(b, v, int64), dtype=elem)
    problem = f"cannot cast {v.type} to {elem}; pointers are cast to pointers and 64-bit integers"
    raise OpTypeError(b.loc, op="cast", problem=problem)


def from_b15(b: OpBuilder, v: Value) -> Value:
    """float8e4b15 as float16, which has the same bias: sign and digits move to the upper bits."""
    code = b.emit("cast", b.emit("bitcast", v, dtype=uint8), dtype=uint16)

    def field(mask: int, left: int) -> Value:
        part = b.emit("and_", code, b.constant(mask, uint16, v.shape))
        return b.emit("shl", part, b.constant(left, uint16, v.shape))

    return b.emit("bitcast", b.emit("or_", field(0x80, 8), field(0x7F, 7)), dtype=float16)


def to_b15(b: OpBuilder, v: Value) -> Value:
    """To the nearest, ties to even; what is larger than 1.75, and NaN, becomes 1.75 as in Triton."""
    v = v if v.dtype == float64 else cast_value(b, v, float32)
    for row, limit in (("minimum", 1.75), ("maximum", -1.75)):
        v = b.emit(row, v, b.constant(limit, v.dtype, v.shape), propagate_nan=False)
    scaled = b.emit("mul", v, b.constant(_B15_SCALE, v.dtype, v.shape))
    return b.emit("bitcast", b.emit("cast", scaled, dtype=float8_e4m3fn), dtype=float8e4b15)


def greatest(dtype: DType) -> float:
    """The greatest finite number of a float type."""
    import ml_dtypes

    info: Any = ml_dtypes.finfo
    return float(info(dtype.numpy).max)


def saturated(b: OpBuilder, v: Value, dtype: DType) -> Value:
    """A float limited to the finite numbers of a narrower type; NaN stays."""
    v = v if v.dtype.is_float else b.cast(v, float32)
    if not dtype.is_float or greatest(dtype) >= greatest(v.dtype):
        return v
    for row, limit in (("minimum", greatest(dtype)), ("maximum", -greatest(dtype))):
        v = b.emit(row, v, b.constant(limit, v.dtype, v.shape), propagate_nan=True)
    return v


def toward_zero(b: OpBuilder, v: Value, dtype: DType) -> Value:
    """A float cut to a narrower type: the nearest magnitude, or the code below it where that one is larger."""
    zero, inf = (b.constant(x, v.dtype, v.shape) for x in (0.0, float("inf")))
    size = b.emit("abs", v)
    limited = b.emit("where", b.emit("lt", size, inf), saturated(b, size, dtype), size)
    rounded = b.emit("cast", limited, dtype=dtype)
    unsigned = next(d for d in _UNSIGNED if d.bits == dtype.bits)
    code = b.emit("bitcast", rounded, dtype=unsigned)
    below = b.emit("bitcast", b.emit("sub", code, b.constant(1, unsigned, v.shape)), dtype=dtype)
    cut = b.emit("where", b.emit("gt", b.emit("cast", rounded, dtype=v.dtype), size), below, rounded)
    # What is neither positive nor negative (zeros and NaN) needs no cutting and has its own sign.
    plain = b.emit("where", b.emit("gt", v, zero), cut, b.emit("cast", v, dtype=dtype))
    return b.emit("where", b.emit("lt", v, zero), b.emit("neg", cut), plain)


def bind_cast(
    b: OpBuilder, input: Any, dtype: Elem, fp_downcast_rounding: str | None, bitcast: bool, saturate: bool
) -> BoundArguments | Value:
    v = b.value(input, float64 if dtype == float64 and isinstance(input, float) else None)
    if bitcast:
        pointers = isinstance(dtype, PtrType) or v.tile.is_ptr
        return cast_value(b, v, dtype) if pointers else b.emit("bitcast", v, dtype=dtype)
    if fp_downcast_rounding not in (None, "rtne", "rtz"):
        raise TypeError(
            f"fp_downcast_rounding is 'rtne' (to nearest even) or 'rtz' (towards zero), not {fp_downcast_rounding!r}"
        )
    if fp_downcast_rounding and v.tile.elem != dtype and not is_downcast(v, dtype):
        raise TypeError(f"fp_downcast_rounding is for casts to a narrower float, not from {v.type} to {dtype}")
    if isinstance(dtype, PtrType) or v.tile.is_ptr or float8e4b15 in (dtype, v.dtype):
        return cast_value(b, v, dtype)
    if dtype == float64 and v.dtype == float32:
        return b.cast(v, float64)  # which knows of numbers that are weak
    saturate = saturate or (b.lenient and dtype in FLOAT8)
    if fp_downcast_rounding == "rtz":
        return toward_zero(b, saturated(b, v, dtype) if saturate else v, dtype)
    return [saturated(b, v, dtype) if saturate else v], {"dtype": dtype}


def is_downcast(v: Value, dtype: Elem) -> bool:
    source = v.tile.elem
    if not (isinstance(source, DType) and isinstance(dtype, DType)):
        return False
    return source.is_float and dtype.is_float and source.bits > dtype.bits


def bind_bitcast(b: OpBuilder, x: Any, dtype: DType) -> BoundArguments:
    return [b.value(x)], {"dtype": dtype}


_X = Param("x", doc="operand")
_TO = Param("dtype", "dtype", REQUIRED, "element type of the result")
_CAST = (
    Param("input", doc="a tile or scalar"),
    Param("dtype", "elem", REQUIRED, "element type of the result; pointers: `pto.pointer_type`"),
    Param(
        "fp_downcast_rounding",
        "str",
        None,
        "to a narrower float: 'rtne' (to nearest even, the default) or 'rtz' (towards zero)",
    ),
    Param("bitcast", "any", False, "keep the bits in place of the value; sizes must be equal"),
    Param("saturate", "any", False, "what is larger than the result's greatest number becomes that"),
)
_ELEMENTWISE = frozenset({"elementwise"})

ROWS = (
    OpRow(
        "cast",
        params=_CAST,
        infer=infer_cast,
        reference=cast_reference,
        lane_rule=lambda e, op, a: e.convert(a, op.attrs["dtype"]),
        bind_arguments=bind_cast,
        traits=_ELEMENTWISE | {"zero_preserving", "exact_in_narrow"},
        attrs=("dtype",),
        doc="x in another element type. Floats are rounded once, to nearest even; what is too large becomes infinite, or NaN where "
        "the type has no infinity (float8_e4m3fn, the fnuz types). Floats saturate into integers, with NaN to 0; integers wrap.",
        example="cast(x, pto.float16)",
        adjoint=adjoint_math.cast,
    ),
    OpRow(
        "bitcast",
        params=(_X, _TO),
        infer=infer_bitcast,
        reference=bitcast_reference,
        lane_rule=lambda e, op, a: e.bitcast(a, op.attrs["dtype"]),
        bind_arguments=bind_bitcast,
        traits=_ELEMENTWISE | {"zero_preserving", "exact_in_narrow"},
        doc="The same bits under another element type of the same size.",
        example="bitcast(x, pto.int32)",
        adjoint=OF_BITS,
    ),
    OpRow(
        "ptr_cast",
        params=(_X, Param("dtype", "elem")),
        infer=infer_ptr_cast,
        reference=None,
        lane_rule=STRUCTURAL,
        public=False,
        dims=dims.elementwise,
        traits=frozenset({"indexable"}),
        doc="Pointers from addresses or of another element type, and addresses from pointers.",
        adjoint=BY_SWEEP,
    ),
)
__all__ = ["ROWS", "cast_value", "convert"]
