"""Ops that pick elements of a tile: static slices, and gathers by an index tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.ir.core import Op
from pypto.ir.types import TileType, Type, int1, int32, int64
from pypto.ops import adjoint_tiles, dims
from pypto.ops.adjoint import OF_INTEGERS, NoAdjoint
from pypto.ops.row import STRUCTURAL, OpRow, Param
from pypto.ops.rules import BoundArguments, check_axes, tile

if TYPE_CHECKING:
    from pypto.ops.build import OpBuilder

Array = np.ndarray[Any, Any]


def infer_slice(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    source, starts, shape, steps = tile(types[0]), attrs["starts"], attrs["shape"], attrs["steps"]
    if not len(source.shape) == len(starts) == len(shape) == len(steps):
        raise TypeError(f"takes a start, a size and a step for each dimension of {source}")
    for n, start, size, step in zip(source.shape, starts, shape, steps, strict=True):
        if size < 1 or not (0 <= start < n and 0 <= start + (size - 1) * step < n):
            raise TypeError(f"{size} elements from {start} by {step} do not lie within a size of {n}")
    return (source.with_shape(tuple(shape)),)


def slice_reference(op: Op, a: Array) -> Array:
    for d, (start, size, step) in enumerate(zip(op.attrs["starts"], op.attrs["shape"], op.attrs["steps"], strict=True)):
        a = np.take(a, start + step * np.arange(size), axis=d)
    return a


def infer_gather(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    source, index, axis = tile(types[0]), tile(types[1]), attrs["axis"]
    check_axes(source, (axis,))
    if index.is_ptr or not index.dtype.is_int or len(index.shape) != len(source.shape):
        raise TypeError(f"takes integer indices with as many dimensions as {source}, not {index}")
    if any(n > m for d, (n, m) in enumerate(zip(index.shape, source.shape, strict=True)) if d != axis):
        raise TypeError(f"indices of shape {index.shape} reach beyond {source} in another dimension than {axis}")
    return (TileType(index.shape, source.elem),)


def bind_gather(b: OpBuilder, src: Any, index: Any, axis: int) -> BoundArguments:
    v = b.value(src)
    return [v, b.value(index)], {"axis": axis + len(v.shape) if axis < 0 else axis}


def gather_reference(op: Op, a: Array, index: Array) -> Array:
    axis = op.attrs["axis"]
    rows = a[tuple(slice(None) if d == axis else slice(n) for d, n in enumerate(index.shape))]
    return np.take_along_axis(rows, np.clip(index.astype(np.int64), 0, a.shape[axis] - 1), axis)


def infer_sort(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    keys = tile(types[0])
    if keys.elem not in (int32, int64) or not keys.shape:
        raise TypeError(f"takes a tile of int32 or int64 keys, not {keys}")
    return (keys,)


def infer_histogram(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    values = tile(types[0])
    if values.is_ptr or not values.dtype.is_int or not values.shape:
        raise TypeError(f"counts a tile of integers, not {values}")
    if len(types) > 1 and types[1] != values.with_elem(int1):
        raise TypeError(f"the mask must be {values.with_elem(int1)}, not {types[1]}")
    if attrs["num_bins"] < 1:
        raise TypeError(f"needs one bin or more, not {attrs['num_bins']}")
    return (TileType((attrs["num_bins"],), int32),)


def bind_histogram(b: OpBuilder, input: Any, num_bins: int, mask: Any) -> BoundArguments:
    v = b.value(input)
    return [v, *([] if mask is None else [b.broadcast(b.cast(b.value(mask), int1), v.shape)])], {"num_bins": num_bins}


def histogram_reference(op: Op, a: Array, mask: Array | None = None) -> Array:
    inside = (a >= 0) & (a < op.attrs["num_bins"])
    counted = a[inside if mask is None else inside & mask]
    return np.bincount(counted.astype(np.int64), minlength=op.attrs["num_bins"])


ROWS = (
    OpRow(
        "histogram",
        params=(Param("input"), Param("num_bins", "int"), Param("mask", default=None)),
        infer=infer_histogram,
        reference=histogram_reference,
        lane_rule=STRUCTURAL,
        bind_arguments=bind_histogram,
        dtypes="int",
        doc="How often each of 0, 1, … num_bins - 1 is among the elements where "
        "the mask holds, as int32; other values are not counted.",
        example="histogram(indices, 16)",
        adjoint=OF_INTEGERS,
    ),
    OpRow(
        "sort_keys",
        params=(Param("keys"),),
        infer=infer_sort,
        reference=lambda op, a: np.sort(a, axis=-1),
        lane_rule=STRUCTURAL,
        public=False,
        dims=dims.sort,
        traits=frozenset({"width_preserving"}),
        doc="The keys in ascending order along the last dimension; sorts of every kind are made of it.",
        adjoint=NoAdjoint(
            "it sorts keys, which are integers: sort the values along with their indices by `argsort`, and gather"
        ),
    ),
    OpRow(
        "slice",
        params=(Param("x"), Param("starts", "shape"), Param("shape", "shape"), Param("steps", "shape")),
        infer=infer_slice,
        reference=slice_reference,
        lane_rule=STRUCTURAL,
        public=False,
        dims=dims.slice_,
        traits=frozenset({"indexable", "width_preserving"}),
        doc="Element i is element starts + i * steps of x, in every dimension.",
        adjoint=adjoint_tiles.slice_,
    ),
    OpRow(
        "gather",
        params=(Param("src"), Param("index"), Param("axis", "int")),
        infer=infer_gather,
        reference=gather_reference,
        lane_rule=STRUCTURAL,
        bind_arguments=bind_gather,
        dims=dims.gather,
        traits=frozenset({"indexable"}),
        doc="Elements of src at the indices along an axis, as numpy's take_along_axis. An index out of range is an error "
        "in checked mode, and gives some element elsewhere.",
        example="gather(x, indices, axis=0)",
        adjoint=adjoint_tiles.gather,
    ),
)
