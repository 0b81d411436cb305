"""Orders of arrays, and elements that are read and written by arrays of indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto.graph.movement import reshape
from pypto.graph.node import Node
from pypto.graph.places import checked, here
from pypto.graph.tensor import Tensor
from pypto.graph.types import TensorType
from pypto.graph.ufuncs import assign, call, cast, lift, untraced, where
from pypto.ir.types import int32


def ordered(x: Tensor, op: str, axis: Any, descending: bool) -> Node:
    """The node of an order along an axis."""
    if x.dtype == np.bool_:
        x = cast(x, np.uint8)
    at = int(axis) % max(1, x.ndim)
    return checked(f"`{op}`", lambda: x.graph.add(op, x.node, place=here(), axis=at, descending=bool(descending)))


def flat_where_none(x: Tensor, axis: Any) -> tuple[Tensor, int]:
    return (x.reshape(-1), 0) if axis is None else (x, axis)


def sort(x: Tensor, axis: Any = -1, kind: Any = None, *, stable: Any = None, descending: bool = False) -> Tensor:
    """``np.sort``; every kind is stable."""
    x, axis = flat_where_none(x, axis)
    return cast(Tensor.fresh(x.graph, ordered(x, "sort", axis, descending)), x.dtype)


def argsort(x: Tensor, axis: Any = -1, kind: Any = None, *, stable: Any = None, descending: bool = False) -> Tensor:
    """``np.argsort``; every kind is stable."""
    x, axis = flat_where_none(x, axis)
    return cast(Tensor.fresh(x.graph, ordered(x, "argsort", axis, descending)), np.int64)


def sort_in_place(x: Tensor, axis: int = -1, kind: Any = None) -> None:
    assign(x, sort(x, axis))


def positions(x: Tensor, indices: Any, axis: int) -> tuple[Tensor, int]:
    """Indices along an axis as indices of the flat array."""
    index = lift(x.graph, indices)
    at = axis % max(1, x.ndim)
    if index.ndim != x.ndim or index.dtype.kind not in "iu":
        raise untraced("take_along_axis", "its indices are no integers, or have other dimensions than the array")
    size = x.shape[at]
    index = cast(index, np.int64)
    found = where(index < 0, index + size, index)
    step = 1
    total: Any = 0
    for d in reversed(range(x.ndim)):
        total = call(x.graph, np.add, (total, call(x.graph, np.multiply, (found if d == at else counted(x, d), step))))
        step *= x.shape[d]
    return total, at


def counted(x: Tensor, dim: int) -> Tensor:
    """0, 1, … along a dimension."""
    size = x.shape[dim].__index__()
    node = x.graph.add("arange", type=TensorType((size,), int32), place=here(), start=0, end=size)
    flat = cast(Tensor.fresh(x.graph, node), np.int64)
    return reshape(flat, tuple(size if d == dim else 1 for d in range(x.ndim)))


def take_along_axis(x: Any, indices: Any, axis: Any = -1) -> Tensor:
    """``np.take_along_axis``"""
    from pypto.graph.functions import graph_of, take

    source, at = flat_where_none(lift(graph_of(x, indices), x), axis)
    index, _ = positions(source, indices, at)
    return take(source.reshape(-1), index, axis=0)


def put_along_axis(x: Tensor, indices: Any, values: Any, axis: Any) -> None:
    """``np.put_along_axis``; of equal indices the last one counts."""
    if axis is None:
        raise untraced("put_along_axis", "without an axis it writes to the flat array", "reshape first")
    index, _ = positions(x, indices, int(axis))
    flat = Tensor.fresh(x.graph, x.node).reshape(-1)
    shown = lift(x.graph, values, x.dtype).node
    full = x.graph.add("broadcast_to", shown, place=here(), shape=index.node.shape)
    put(flat, index.reshape(-1), 0, Tensor.fresh(x.graph, full).reshape(-1))
    assign(x, flat.reshape(x.node.shape))


def put(part: Tensor, indices: Any, axis: int, value: Any, add: bool = False) -> None:
    """Write to, or add to, elements of a view along an axis by an array of indices."""
    graph = part.graph
    index = lift(graph, indices)
    if index.type.dtype.kind == "int":
        index = where(index < 0, index + part.shape[axis], index)
    shape = part.node.shape
    wanted = (*shape[:axis], *index.node.shape, *shape[axis + 1 :])
    given = lift(graph, value, part.dtype).node
    full = checked("this update", lambda: graph.add("broadcast_to", given, place=here(), shape=wanted))
    made = checked(
        "this update", lambda: graph.add("put", part.node, index.node, full, place=here(), axis=axis, add=add)
    )
    part.write(made)
