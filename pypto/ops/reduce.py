"""Reductions and scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pypto.ir.core import Op
from pypto.ir.types import DType, TileType, Type, float32, int32, uint32
from pypto.ops import adjoint_tiles, dims
from pypto.ops.adjoint import OF_INDICES, OF_INTEGERS, AdjointRule
from pypto.ops.arith import lane_max
from pypto.ops.row import OpRow, Param, Reduction, Search
from pypto.ops.rules import BoundArguments, check_axes, normal_axes, reduced_shape, reduction_infer, tile

if TYPE_CHECKING:
    from pypto.ops.build import OpBuilder

Array = np.ndarray[Any, Any]
_INPUT = Param("input", doc="a tile")
_AXIS = Param("axis", "axis", None, "dimension or dimensions to reduce; None is all")
_KEEP = Param("keep_dims", "bool", False, "leave the reduced dimensions in place with size 1")
_REDUCED = ("axes", "keep_dims")


def sum_dtype(dtype: DType) -> DType:
    """Small integers add up in 32 bits; floats of 8 bits would soon overflow, and give float32."""
    if dtype.kind in ("float", "bits") and dtype.bits == 8:
        return float32
    if dtype.is_float or dtype.bits >= 32:
        return dtype
    return uint32 if dtype.kind == "uint" else int32


def bind_sum(b: OpBuilder, input: Any, axis: Any, keep_dims: bool, dtype: DType | None) -> BoundArguments:
    v = b.value(input)
    v = b.cast(v, dtype or sum_dtype(v.dtype))
    return [v], {"axes": normal_axes(v.shape, axis), "keep_dims": bool(keep_dims)}


def bind_reduction(b: OpBuilder, input: Any, axis: Any, keep_dims: bool) -> BoundArguments:
    v = b.value(input)
    return [v], {"axes": normal_axes(v.shape, axis), "keep_dims": bool(keep_dims)}


def infer_bits(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    if tile(types[0]).dtype.is_float:
        raise TypeError(f"takes integers or bools, not {types[0]}")
    return reduction_infer(types, attrs)


def to_double(a: Array) -> Array:
    """Floats in float64, so that the meaning has no rounding of its own."""
    return a if a.dtype.kind in "iub" else a.astype(np.float64)


def reduce_reference(fn: Any) -> Any:
    def reference(op: Op, a: Array) -> Any:
        with np.errstate(all="ignore"):
            return fn(to_double(a), axis=op.attrs["axes"], keepdims=op.attrs["keep_dims"])

    return reference


def exact(fn: Any) -> Any:
    """A sum or product in the type of its terms."""
    return lambda a, **how: np.asarray(fn(a, dtype=a.dtype, **how))


def least(dtype: DType) -> float | int:
    """The start of a maximum, which every value replaces; NaN, so that a reduction over NaN alone is NaN."""
    return float("nan") if dtype.is_float else dtype.integer_range[0]


def greatest(dtype: DType) -> float | int:
    return float("nan") if dtype.is_float else dtype.integer_range[1]


def infer_arg(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    source = tile(types[0])
    check_axes(source, attrs["axes"])
    if len(attrs["axes"]) != 1:
        raise TypeError(f"takes one axis, or None for all, not {attrs['axes']}")
    return (TileType(reduced_shape(source.shape, attrs["axes"], attrs["keep_dims"]), int32),)


def bind_arg(b: OpBuilder, input: Any, axis: int | None, tie_break_left: bool, keep_dims: bool) -> BoundArguments:
    v = b.value(input)
    if axis is None and len(v.shape) > 1:
        v = b.emit("reshape", v, shape=(v.tile.size,))
    return [v], {"axes": normal_axes(v.shape, 0 if axis is None else axis), "keep_dims": bool(keep_dims)}


def arg_reference(best: Any) -> Any:
    """The first index of the best number; 0 where there is none."""

    def reference(op: Op, a: Array) -> Array:
        (axis,) = op.attrs["axes"]
        values = to_double(a)
        first = values == best(values, axis=axis, keepdims=True)
        return np.asarray(np.argmax(first, axis=axis, keepdims=op.attrs["keep_dims"]))

    return reference


def infer_scan(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    source = tile(types[0])
    check_axes(source, (attrs["axis"],))
    return (source,)


def bind_scan(b: OpBuilder, input: Any, axis: int, reverse: bool, dtype: DType | None = None) -> BoundArguments:
    v = b.value(input)
    v = b.cast(v, dtype) if dtype is not None else v
    return [v], {"axis": axis + len(v.shape) if axis < 0 else axis, "reverse": bool(reverse)}


def bind_cumsum(b: OpBuilder, input: Any, axis: int, reverse: bool, dtype: DType | None) -> BoundArguments:
    return bind_scan(b, input, axis, reverse, dtype or sum_dtype(b.value(input).dtype))


def scan_reference(fn: Any) -> Any:
    """A running result from the first element on, or from the last one."""

    def reference(op: Op, a: Array) -> Array:
        axis = op.attrs["axis"]
        values = np.flip(to_double(a), axis) if op.attrs["reverse"] else to_double(a)
        with np.errstate(all="ignore"):
            result = fn(values, axis=axis, dtype=values.dtype)
        return np.asarray(np.flip(result, axis) if op.attrs["reverse"] else result)

    return reference


def scan_row(name: str, fn: Any, how: Reduction, doc: str, adjoint: AdjointRule, kink: str = "") -> OpRow:
    dtype = () if name != "cumsum" else (Param("dtype", "dtype", None, "element type to add up in"),)
    bind = bind_cumsum if name == "cumsum" else bind_scan
    params = (
        Param("input"),
        Param("axis", "int", 0),
        Param("reverse", "bool", False, "from the last element on"),
        *dtype,
    )
    return OpRow(
        name,
        params=params,
        infer=infer_scan,
        reference=scan_reference(fn),
        lane_rule=how,
        bind_arguments=bind,
        traits=frozenset({"scan"}),
        dims=dims.scan,
        dtypes="number",
        attrs=("axis", "reverse"),
        adjoint=adjoint,
        kink=kink,
        doc=doc,
        example=f"{name}(x, axis=0)",
    )


def reduction_row(name: str, fn: Any, how: Reduction, doc: str, **more: Any) -> OpRow:
    more = {
        "params": (_INPUT, _AXIS, _KEEP),
        "infer": reduction_infer,
        "bind_arguments": bind_reduction,
        "dtypes": "number",
        **more,
    }
    return OpRow(
        name,
        reference=reduce_reference(fn),
        lane_rule=how,
        traits=frozenset({"reduction"}),
        dims=dims.reduction,
        attrs=_REDUCED,
        doc=doc,
        example=f"{name}(x, axis=0)",
        **more,
    )


def arg_row(name: str, best: Any, better: Literal["gt", "lt"], doc: str) -> OpRow:
    params = (
        _INPUT,
        _AXIS,
        Param("tie_break_left", "bool", True, "accepted; the lowest index is a right answer either way"),
        _KEEP,
    )
    return OpRow(
        name,
        params=params,
        infer=infer_arg,
        reference=arg_reference(best),
        lane_rule=Search(better),
        bind_arguments=bind_arg,
        attrs=_REDUCED,
        traits=frozenset({"arg_reduction"}),
        dims=dims.reduction,
        adjoint=OF_INDICES,
        dtypes="number",
        doc=doc,
        example=f"{name}(x, axis=0)",
    )


_SUM = Reduction(lambda d: 0, lambda e, a, b: e.add(a, b), "add")
_RUNNING_SUM = replace(_SUM, identity=lambda d: -0.0 if d.is_float else 0)  # the first element as it is, -0.0 too
_PROD = Reduction(lambda d: 1, lambda e, a, b: e.mul(a, b), "mul")
_MAX = Reduction(least, lane_max, "maximum", "gt")
_MIN = Reduction(greatest, lambda e, a, b: lane_max(e, a, b, "lt"), "minimum", "lt")
_DTYPE = Param("dtype", "dtype", None, "element type to compute in")

ROWS = (
    reduction_row(
        "sum",
        exact(np.sum),
        _SUM,
        "Sum along an axis. 16-bit floats add up in float32, small integers in 32 bits.",
        params=(_INPUT, _AXIS, _KEEP, _DTYPE),
        bind_arguments=bind_sum,
        adjoint=adjoint_tiles.total,
    ),
    reduction_row(
        "prod",
        exact(np.prod),
        _PROD,
        "Product along an axis. 16-bit floats multiply in float32, small integers in 32 bits.",
        params=(_INPUT, _AXIS, _KEEP, _DTYPE),
        bind_arguments=bind_sum,
        adjoint=adjoint_tiles.product,
    ),
    reduction_row(
        "max",
        np.fmax.reduce,
        _MAX,
        "Greatest element along an axis, NaN ignored.",
        adjoint=adjoint_tiles.extremum("argmax"),
        kink="all of it for the first of equal elements.",
    ),
    reduction_row(
        "min",
        np.fmin.reduce,
        _MIN,
        "Least element along an axis, NaN ignored.",
        adjoint=adjoint_tiles.extremum("argmin"),
        kink="all of it for the first of equal elements.",
    ),
    reduction_row(
        "xor_sum",
        np.bitwise_xor.reduce,
        Reduction(lambda d: 0, lambda e, a, b: e.xor(a, b), "xor"),
        "Exclusive or along an axis.",
        infer=infer_bits,
        dtypes="int",
        adjoint=OF_INTEGERS,
    ),
    reduction_row(
        "reduce_or",
        np.bitwise_or.reduce,
        Reduction(lambda d: 0, lambda e, a, b: e.or_(a, b), "or_"),
        "Inclusive or along an axis.",
        infer=infer_bits,
        dtypes="int",
        adjoint=OF_INTEGERS,
    ),
    arg_row(
        "argmax",
        np.fmax.reduce,
        "gt",
        "Index of the greatest element along an axis; the lowest index of equals.",
    ),
    arg_row(
        "argmin",
        np.fmin.reduce,
        "lt",
        "Index of the least element along an axis; the lowest index of equals.",
    ),
    scan_row(
        "cumsum",
        np.cumsum,
        _RUNNING_SUM,
        "Running sum along an axis. 16-bit floats add up in float32, small integers in 32 bits.",
        adjoint=adjoint_tiles.cumsum,
    ),
    scan_row("cumprod", np.cumprod, _PROD, "Running product along an axis.", adjoint=adjoint_tiles.cumprod),
    scan_row(
        "cummax",
        np.fmax.accumulate,
        _MAX,
        "Greatest element so far along an axis, NaN ignored.",
        adjoint=adjoint_tiles.running_extremum("ge"),
        kink="all of it for the last of equal elements so far.",
    ),
    scan_row(
        "cummin",
        np.fmin.accumulate,
        _MIN,
        "Least element so far along an axis, NaN ignored.",
        adjoint=adjoint_tiles.running_extremum("le"),
        kink="all of it for the last of equal elements so far.",
    ),
)
