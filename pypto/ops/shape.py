"""Creation of tiles, and ops that move elements without computing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.ir.core import Op
from pypto.ir.types import PtrType, TileType, Type, int32, int64, scalar
from pypto.ops import adjoint_tiles, dims
from pypto.ops.adjoint import BY_SWEEP, OF_INDICES
from pypto.ops.row import STRUCTURAL, OpRow, Param
from pypto.ops.rules import BoundArguments, tile

if TYPE_CHECKING:
    from pypto.ops.build import OpBuilder

Array = np.ndarray[Any, Any]
_INPUT = Param("input", doc="a tile")
_SHAPE = Param("shape", "shape", doc="sizes of the result; integers known at compile time")


def infer_arange(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    if attrs["end"] <= attrs["start"]:
        raise TypeError(f"the range {attrs['start']} to {attrs['end']} is empty")
    needs_int64 = max(abs(attrs["start"]), abs(attrs["end"])) >= 2**31
    return (TileType((attrs["end"] - attrs["start"],), int64 if needs_int64 else int32),)


def bind_arange(b: OpBuilder, start: int, end: int | None) -> BoundArguments:
    return [], {"start": 0 if end is None else start, "end": start if end is None else end}


def arange_reference(op: Op) -> Array:
    start, end = op.attrs["start"], op.attrs["end"]
    assert isinstance(start, int) and isinstance(end, int)
    return np.arange(start, end, dtype=op.result.dtype.numpy)


def shape_of(attrs: Mapping[str, Any]) -> tuple[int, ...]:
    shape: tuple[int, ...] = attrs["shape"]
    if any(n < 1 for n in shape):
        raise TypeError(f"sizes must be 1 or more, not {shape}")
    return shape


def infer_broadcast(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    source, shape = tile(types[0]), shape_of(attrs)
    if source.shape and (
        len(source.shape) != len(shape) or any(n not in (1, m) for n, m in zip(source.shape, shape, strict=True))
    ):
        raise TypeError(f"{source} does not broadcast to {shape}; sizes must be equal or 1")
    return (source.with_shape(shape),)


def bind_broadcast(b: OpBuilder, input: Any, shape: tuple[int, ...]) -> BoundArguments:
    v = b.value(input)
    if len(v.shape) < len(shape) and v.shape:
        v = b.emit("reshape", v, shape=(1,) * (len(shape) - len(v.shape)) + v.shape)
    return [v], {"shape": shape}


def infer_reshape(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    source, shape = tile(types[0]), shape_of(attrs)
    if source.size != math.prod(shape):
        raise TypeError(f"{source} has {source.size} elements, the shape {shape} has {math.prod(shape)}")
    return (source.with_shape(shape),)


def bind_reshape(b: OpBuilder, input: Any, shape: tuple[int, ...], can_reorder: bool) -> BoundArguments:
    v = b.value(input)
    if -1 in shape:
        known = math.prod(n for n in shape if n != -1)
        shape = tuple(v.tile.size // max(1, known) if n == -1 else n for n in shape)
    return [v], {"shape": shape}


def infer_permute(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    source, dims = tile(types[0]), attrs["dims"]
    if sorted(dims) != list(range(len(source.shape))):
        raise TypeError(f"{dims} is no permutation of the {len(source.shape)} dimensions of {source}")
    return (source.with_shape(tuple(source.shape[d] for d in dims)),)


def bind_permute(b: OpBuilder, input: Any, dims: tuple[int, ...] | None) -> BoundArguments:
    v = b.value(input)
    rank = len(v.shape)
    if dims is None:  # numpy would reverse all; a stack of matrices is what kernels transpose
        dims = (*range(rank - 2), rank - 1, rank - 2) if rank > 1 else tuple(range(rank))
    return [v], {"dims": tuple(d + rank if d < 0 else d for d in dims)}


def attr_reference(fn: Any, attr: str) -> Any:
    return lambda op, a: fn(a, op.attrs[attr])


def index_row(name: str, doc: str, *options: str) -> OpRow:
    return OpRow(
        name,
        params=(Param("axis", "int", 0, "axis of the grid: 0, 1 or 2"),),
        infer=infer_axis,
        reference=None,
        lane_rule=STRUCTURAL,
        traits=frozenset({"uniform"}),
        options=options,
        dims=dims.free,
        adjoint=OF_INDICES,
        doc=doc,
        example=f"{name}(0)",
    )


def infer_axis(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    if attrs["axis"] not in (0, 1, 2):
        raise TypeError(f"axis must be 0, 1, or 2 but got {attrs['axis']}")
    return (scalar(int32),)


def check_constant(op: Op) -> None:
    value, elem = op.attrs["value"], tile(op.results[0].type).elem
    if isinstance(elem, PtrType):
        raise TypeError("there are no constant pointers")
    if type(value) is not (bool if elem.is_bool else int if elem.is_int else float):
        raise TypeError(f"the value {value!r} is no {elem.kind}")
    low, high = elem.integer_range
    if isinstance(value, int) and not low <= value <= high:
        raise TypeError(f"{value} does not fit into {elem}")


# The result type of these is given by who makes them.
_DECLARED = frozenset({"declared"})

ROWS = (
    # With `end`, the index behind the last program of a group that runs as one (coarsening on Ascend).
    index_row("program_id", "Index of this program along an axis of the grid, as int32.", "end"),
    index_row("num_programs", "Size of the grid along an axis, as int32."),
    OpRow(
        "constant",
        params=(Param("value", "any"),),
        infer=lambda types, attrs: (),
        reference=lambda op: np.full(op.result.shape, op.attrs["value"], op.result.dtype.numpy),
        lane_rule=STRUCTURAL,
        public=False,
        check=check_constant,
        traits=_DECLARED | {"indexable"},
        dims=dims.free,
        cost=0,
        doc="A number known at compile time, in every element.",
        adjoint=BY_SWEEP,
    ),
    OpRow(
        "undef",
        params=(),
        infer=lambda types, attrs: (),
        reference=lambda op: np.zeros(op.result.shape, op.result.dtype.numpy),
        lane_rule=STRUCTURAL,
        public=False,
        traits=_DECLARED | {"indexable"},
        dims=dims.free,
        cost=0,
        doc="A value that is never read: a variable before its first assignment.",
        adjoint=BY_SWEEP,
    ),
    OpRow(
        "arange",
        params=(Param("start", "int"), Param("end", "int", None)),
        infer=infer_arange,
        reference=arange_reference,
        lane_rule=STRUCTURAL,
        bind_arguments=bind_arange,
        dims=dims.free,
        cost=0,
        traits=frozenset({"indexable"}),
        doc="start, start + 1, … end - 1 as an int32 tile; any size.",
        example="arange(0, 100)",
        adjoint=OF_INDICES,
    ),
    OpRow(
        "broadcast_to",
        params=(_INPUT, _SHAPE),
        infer=infer_broadcast,
        reference=attr_reference(np.broadcast_to, "shape"),
        lane_rule=STRUCTURAL,
        bind_arguments=bind_broadcast,
        dims=dims.broadcast,
        cost=0,
        traits=frozenset({"movement", "zero_preserving", "indexable", "width_preserving"}),
        doc="x repeated along its dimensions of size 1.",
        example="broadcast_to(x, (4, 8))",
        adjoint=adjoint_tiles.broadcast_to,
    ),
    OpRow(
        "reshape",
        params=(_INPUT, _SHAPE, Param("can_reorder", "bool", False, "accepted; the order is kept")),
        infer=infer_reshape,
        reference=attr_reference(np.reshape, "shape"),
        lane_rule=STRUCTURAL,
        bind_arguments=bind_reshape,
        attrs=("shape",),
        dims=dims.reshape,
        cost=0,
        traits=frozenset({"movement", "zero_preserving", "indexable", "width_preserving"}),
        doc="The elements of x in row-major order under another shape; one size may be -1.",
        example="reshape(x, (8, 16))",
        adjoint=adjoint_tiles.reshape,
    ),
    OpRow(
        "permute",
        params=(_INPUT, Param("dims", "shape", None)),
        infer=infer_permute,
        reference=attr_reference(np.transpose, "dims"),
        lane_rule=STRUCTURAL,
        bind_arguments=bind_permute,
        dims=dims.permute,
        cost=0,
        traits=frozenset({"movement", "zero_preserving", "indexable", "width_preserving"}),
        doc="x with its dimensions in another order; by default the last two change places.",
        example="permute(x, (1, 0))",
        adjoint=adjoint_tiles.permute,
    ),
)
