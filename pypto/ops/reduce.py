"""Reductions, scans and dot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.ir.core import Op
from pypto.ir.types import DType, TileType, Type, float32, float64, int32, uint32
from pypto.ops.arith import lane_max
from pypto.ops.row import STRUCTURAL, OpRow, Param, Reduction
from pypto.ops.rules import Prepared, check_axes, normal_axes, reduced_shape, reduction_infer, tile

if TYPE_CHECKING:
    from pypto.ops.build import OpBuilder

Array = np.ndarray[Any, Any]
_AXIS = Param("axis", "axis", None, "dimension or dimensions to reduce; None is all")
_KEEP = Param("keep_dims", "bool", False, "leave the reduced dimensions in place with size 1")
_REDUCED = ("axes", "keep_dims")


def sum_dtype(dtype: DType) -> DType:
    """Small integers add up in 32 bits."""
    if dtype.is_float or dtype.bits >= 32:
        return dtype
    return uint32 if dtype.kind == "uint" else int32


def prepare_sum(b: OpBuilder, x: Any, axis: Any, keep_dims: bool, dtype: DType | None) -> Prepared:
    v = b.value(x)
    v = b.cast(v, dtype or sum_dtype(v.dtype))
    return [v], {"axes": normal_axes(v.shape, axis), "keep_dims": keep_dims}


def prepare_reduction(b: OpBuilder, x: Any, axis: Any, keep_dims: bool) -> Prepared:
    v = b.value(x)
    return [v], {"axes": normal_axes(v.shape, axis), "keep_dims": keep_dims}


def wide(a: Array) -> Array:
    """Floats in float64, so that the meaning has no rounding of its own."""
    return a if a.dtype.kind in "iub" else a.astype(np.float64)


def reduce_meaning(fn: Any) -> Any:
    def meaning(op: Op, a: Array) -> Any:
        with np.errstate(all="ignore"):
            return fn(wide(a), axis=op.attrs["axes"], keepdims=op.attrs["keep_dims"])

    return meaning


def exact_sum(a: Array, **how: Any) -> Array:
    return np.asarray(np.sum(a, dtype=a.dtype, **how))


def least(dtype: DType) -> float | int:
    """Gives way to every value under max; NaN, so that a reduction over NaN alone is NaN."""
    return float("nan") if dtype.is_float else dtype.integer_range[0]


def greatest(dtype: DType) -> float | int:
    return float("nan") if dtype.is_float else dtype.integer_range[1]


def infer_arg(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    source = tile(types[0])
    check_axes(source, attrs["axes"])
    if len(attrs["axes"]) != 1:
        raise TypeError(f"takes one axis, or None for all, not {attrs['axes']}")
    return (TileType(reduced_shape(source.shape, attrs["axes"], attrs["keep_dims"]), int32),)


def prepare_arg(b: OpBuilder, x: Any, axis: int | None, keep_dims: bool) -> Prepared:
    v = b.value(x)
    if axis is None and len(v.shape) > 1:
        v = b.emit("reshape", v, shape=(v.tile.size,))
    return [v], {"axes": normal_axes(v.shape, 0 if axis is None else axis), "keep_dims": keep_dims}


def arg_meaning(best: Any) -> Any:
    """The first index of the best number; 0 where there is none."""

    def meaning(op: Op, a: Array) -> Array:
        (axis,) = op.attrs["axes"]
        values = wide(a)
        first = values == best(values, axis=axis, keepdims=True)
        return np.asarray(np.argmax(first, axis=axis, keepdims=op.attrs["keep_dims"]))

    return meaning


def infer_scan(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    source = tile(types[0])
    check_axes(source, (attrs["axis"],))
    return (source,)


def prepare_scan(b: OpBuilder, x: Any, axis: int, reverse: bool) -> Prepared:
    v = b.value(x)
    return [b.cast(v, sum_dtype(v.dtype))], {"axis": axis + len(v.shape) if axis < 0 else axis, "reverse": bool(reverse)}


def cumsum_meaning(op: Op, a: Array) -> Array:
    axis = op.attrs["axis"]
    assert isinstance(axis, int)
    values = np.flip(wide(a), axis) if op.attrs["reverse"] else wide(a)
    result = np.cumsum(values, axis=axis, dtype=values.dtype)
    return np.flip(result, axis) if op.attrs["reverse"] else result


def dot_result(a: DType) -> DType:
    """float64 accumulates in float64, every other float in float32, integers in int32."""
    if a.is_float:
        return float64 if a == float64 else float32
    return int32


def infer_dot(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    a, b = tile(types[0]), tile(types[1])
    if len(a.shape) != len(b.shape) or len(a.shape) not in (2, 3) or a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        raise TypeError(f"takes (M, K) and (K, N), or stacks of them, not {a.shape} and {b.shape}")
    if a.elem != b.elem or a.dtype.is_bool:
        raise TypeError(f"takes two operands of one number type, not {a.dtype} and {b.dtype}; cast one of them")
    result = TileType((*a.shape[:-1], b.shape[-1]), dot_result(a.dtype))
    if len(types) > 2 and types[2] != result:
        raise TypeError(f"the accumulator is {types[2]}, but the product is {result}")
    return (result,)


def prepare_dot(b: OpBuilder, x: Any, y: Any, acc: Any, out_dtype: DType | None, **hints: Any) -> Prepared:
    return [b.value(x), b.value(y)] + ([] if acc is None else [b.value(acc)]), {}


def dot_meaning(op: Op, a: Array, b: Array, acc: Array | None = None) -> Array:
    kind = np.float64 if a.dtype.kind not in "iu" else np.int64
    with np.errstate(all="ignore"):
        product = np.matmul(a.astype(kind), b.astype(kind))
        return np.asarray(product if acc is None else product + acc.astype(kind))


_DOT = (
    Param("x", doc="tile of shape (M, K)"), Param("y", doc="tile of shape (K, N)"), Param("acc", default=None, doc="added to the product"),
    Param("out_dtype", "dtype", None, "element type of the result"),
    Param("input_precision", "str", None, "accepted; float32 is IEEE here"), Param("allow_tf32", "bool", None, "accepted, see above"),
    Param("max_num_imprecise_acc", "any", None, "accepted, without meaning here"),
)

ROWS = (
    OpRow("sum", (Param("x"), _AXIS, _KEEP, Param("dtype", "dtype", None, "element type to add up in")), reduction_infer,
          reduce_meaning(exact_sum), Reduction(lambda d: 0, lambda e, a, b: e.add(a, b)), STRUCTURAL, prepare_sum,
          traits=frozenset({"reduction"}), attrs=_REDUCED, dtypes="number", doc="Sum along an axis. 16-bit floats add up in float32.",
          example="sum(x, axis=0)"),
    OpRow("max", (Param("x"), _AXIS, _KEEP), reduction_infer, reduce_meaning(np.fmax.reduce), Reduction(least, lane_max), STRUCTURAL,
          prepare_reduction, traits=frozenset({"reduction"}), attrs=_REDUCED, dtypes="number", doc="Greatest element along an axis, NaN ignored.",
          example="max(x, axis=0)"),
    OpRow("min", (Param("x"), _AXIS, _KEEP), reduction_infer, reduce_meaning(np.fmin.reduce),
          Reduction(greatest, lambda e, a, b: lane_max(e, a, b, "lt")), STRUCTURAL, prepare_reduction,
          traits=frozenset({"reduction"}), attrs=_REDUCED, dtypes="number", doc="Least element along an axis, NaN ignored.", example="min(x, axis=0)"),
    OpRow("argmax", (Param("x"), _AXIS, _KEEP), infer_arg, arg_meaning(np.fmax.reduce), STRUCTURAL, STRUCTURAL, prepare_arg, attrs=_REDUCED,
          dtypes="number", doc="Index of the greatest element along an axis; the lowest index of equals.", example="argmax(x, axis=0)"),
    OpRow("argmin", (Param("x"), _AXIS, _KEEP), infer_arg, arg_meaning(np.fmin.reduce), STRUCTURAL, STRUCTURAL, prepare_arg, attrs=_REDUCED,
          dtypes="number", doc="Index of the least element along an axis; the lowest index of equals.", example="argmin(x, axis=0)"),
    OpRow("cumsum", (Param("x"), Param("axis", "int", 0), Param("reverse", "bool", False)), infer_scan, cumsum_meaning, STRUCTURAL,
          STRUCTURAL, prepare_scan, dtypes="number", doc="Running sum along an axis.", example="cumsum(x, axis=0)"),
    OpRow("dot", _DOT, infer_dot, dot_meaning, STRUCTURAL, STRUCTURAL, prepare_dot, attrs=(), dtypes="number",
          doc="Matrix product, accumulated in float32 (float64 and integers: see the language guide).", example="dot(a, b, acc)"),
)

