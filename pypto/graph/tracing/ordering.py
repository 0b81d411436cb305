"""Sorting, argmax and argmin, and gathers and scatters by arrays of indices, on traced arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.graph.ir.dims import bounds, is_fixed
from pypto.graph.ir.node import Node, checked, here
from pypto.graph.ir.node_table import COMBINED, order_of
from pypto.graph.ir.types import TensorType, broadcast
from pypto.graph.rewrite.gather_pushdown import flat_index, take_where
from pypto.graph.tracing import numpy_steps
from pypto.graph.tracing.indexing import index_of, view
from pypto.graph.tracing.movement import concatenate, copy, reshape, swapaxes
from pypto.graph.tracing.numpy_steps import by_numpy
from pypto.graph.tracing.reductions import PIECE, axes_of, reduce
from pypto.graph.tracing.reductions import positions as positions_along
from pypto.graph.tracing.tensor import Tensor, TensorGraph, graph_of, place_of, untraced
from pypto.graph.tracing.ufuncs import assign, call, cast, lift, resolved, where
from pypto.ir.types import int32
from pypto.tuning.tile_sizes import TILES


def ordered(x: Tensor, op: str, axis: Any, descending: bool) -> Node:
    """Add a sort or argsort along an axis."""
    if x.dtype == np.bool_:
        x = cast(x, np.uint8)
    at = place_of(axis, max(1, x.ndim))
    if x.ndim and is_fixed(x.node.shape[at]) and x.node.shape[at] > TILES.most_whole:
        step = by_numpy(SORTS[op, bool(descending)], f"np.{op}")
        result: Node = step(x, at).node
        return result
    return checked(f"`{op}`", lambda: x.graph.add(op, x.node, place=here(), axis=at, descending=bool(descending)))


SORTS: Final[Mapping[tuple[str, bool], Callable[..., Any]]] = MappingProxyType(
    {
        ("sort", False): np.sort,
        ("argsort", False): lambda x, at: np.argsort(x, at, kind="stable"),
        ("sort", True): lambda x, at: np.take_along_axis(x, order_of({"axis": at, "descending": True}, x), at),
        ("argsort", True): lambda x, at: order_of({"axis": at, "descending": True}, x),
    }
)  # of axes that no tile holds


def flat_where_none(x: Tensor, axis: Any) -> tuple[Tensor, int]:
    return (x.reshape(-1), 0) if axis is None else (x, axis)


def sort(x: Tensor, axis: Any = -1, kind: Any = None, *, stable: Any = None, descending: bool = False) -> Tensor:
    """Trace ``np.sort``; every kind is stable."""
    x, axis = flat_where_none(x, axis)
    return cast(Tensor.fresh(x.graph, ordered(x, "sort", axis, descending)), x.dtype)


def argsort(x: Tensor, axis: Any = -1, kind: Any = None, *, stable: Any = None, descending: bool = False) -> Tensor:
    """Trace ``np.argsort``; every kind is stable."""
    x, axis = flat_where_none(x, axis)
    return cast(Tensor.fresh(x.graph, ordered(x, "argsort", axis, descending)), np.int64)


def argtopk(x: Tensor, count: int, axis: int) -> Tensor:
    """Where the `count` greatest elements along an axis are, greatest first: NaN counts as least, and of equal elements
    the first one comes first. Of a long axis, those of pieces, and then of these."""
    last = x.ndim - 1
    result = argtopk_of_last(swapaxes(x, place_of(axis, x.ndim), last), count)
    return cast(swapaxes(result, place_of(axis, x.ndim), last), np.int64)


def argtopk_of_last(x: Tensor, count: int) -> Tensor:
    """`argtopk` along the last axis: of most of its elements by an order of all."""
    size, last = x.node.shape[-1], x.ndim - 1
    piece = max(PIECE, 2 * count)
    if count < 2 <= size // 2:  # a selection has two at least
        return argtopk_of_last(x, 2)[..., :count]
    if count < 2 or count > size // 2 or piece > TILES.most_whole:
        return argsort(x, axis=last, descending=True)[..., :count]
    if not is_fixed(size) or size <= TILES.most_whole:
        source = cast(x, np.uint8) if x.dtype == np.bool_ else x
        node = checked("`topk`", lambda: x.graph.add("argtopk", source.node, place=here(), axis=last, count=count))
        return cast(Tensor.fresh(x.graph, node), np.int64)
    return argtopk_of_pieces(x, count, piece)


def argtopk_of_pieces(x: Tensor, count: int, piece: int) -> Tensor:
    """`argtopk` along a long axis: of each piece, which come in order, and then of all that these have."""
    lead, size = x.node.shape[:-1], x.node.shape[-1]
    pieces = reshape(x[..., : size // piece * piece], (*lead, size // piece, piece))
    starts = call(x.graph, np.multiply, (positions_along(pieces, -2), piece))
    places = reshape(call(x.graph, np.add, (argtopk_of_last(pieces, count), starts)), (*lead, size // piece * count))
    if size % piece:
        remainder = x[..., size // piece * piece :]
        few = argtopk_of_last(remainder, min(count, size % piece))
        places = concatenate([places, call(x.graph, np.add, (few, size // piece * piece))], -1)
    best = argtopk_of_last(take_along_axis(x, places, -1), count)
    return take_along_axis(places, best, -1)


def arg(x: Tensor, name: str, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Where the greatest or least element is: the first of equals, and a NaN before all numbers."""
    flat = x.reshape(-1) if axis is None else x
    (at,) = axes_of(flat, 0 if axis is None else axis)
    size = flat.node.shape[at]
    if is_fixed(size) and size == 1:
        result = call(x.graph, np.multiply, (reduce(cast(flat, np.bool_), "sum", at, keepdims, np.int64), 0))
    elif bounds(size)[1] > TILES.most_whole // (1 if at == flat.ndim - 1 else TILES.most_columns):
        result = arg_of_long(flat, name, at, keepdims)
    else:
        result = arg_of_line(flat, name, at, keepdims)
    return result.reshape((1,) * x.ndim) if axis is None and keepdims else result


def arg_of_line(x: Tensor, name: str, at: int, keepdims: bool) -> Tensor:
    """`arg` along an axis that a program has as a whole; the row ignores NaN."""
    make = x.graph.add
    node = checked(f"`{name}`", lambda: make(name, x.node, place=here(), axes=(at,), keep_dims=keepdims))
    index = cast(Tensor.fresh(x.graph, node), np.int64)
    if not x.type.dtype.is_float:
        return index
    size = x.node.shape[at]
    first = reduce(where(x != x, positions_along(x, at - x.ndim), size), "min", at, keepdims)  # noqa: PLR0124  # a NaN is not
    return cast(where(first < size, first, index), np.int64)


def arg_of_long(x: Tensor, name: str, at: int, keepdims: bool) -> Tensor:
    """`arg` along a long axis: the best of each piece, then the best of these.

    Where the axis is not the last one, or its size not fixed, the extreme first, then the first place that has it.
    """
    if at == x.ndim - 1 and is_fixed(x.node.shape[at]):
        return arg_of_pieces(x, name, keepdims)
    most = reduce(x, "max" if name == "argmax" else "min", at, True)
    hit: Any = x == most
    if x.type.dtype.is_float:
        hit = hit | (x != x)  # noqa: PLR0124  # where there is a NaN, it is the extreme, and equals nothing
    return cast(reduce(where(hit, positions_along(x, at - x.ndim), x.node.shape[at]), "min", at, keepdims), np.int64)


def arg_of_pieces(x: Tensor, name: str, keepdims: bool) -> Tensor:
    """`arg` along the last axis by pieces; what a piece has first of equals, or as NaN, it has as its best."""
    size, lead = x.node.shape[-1], x.node.shape[:-1]
    count = size // PIECE
    pieces = reshape(x[..., : count * PIECE], (*lead, count, PIECE))
    first = call(x.graph, np.multiply, (positions_along(pieces, -2), PIECE))
    places = call(x.graph, np.add, (arg_of_line(pieces, name, len(lead) + 1, False), reshape(first, (count,))))
    if size % PIECE:
        remainder = arg_of_line(x[..., count * PIECE :], name, len(lead), True)
        places = concatenate([places, call(x.graph, np.add, (remainder, count * PIECE))], -1)
    best = arg(take_along_axis(x, places, -1), name, -1, True)
    index = take_along_axis(places, best, -1)
    return index if keepdims else reshape(index, lead)


def sort_in_place(x: Tensor, axis: int = -1, kind: Any = None) -> None:
    assign(x, sort(x, axis))


def positions(x: Tensor, indices: Any, axis: int) -> tuple[Tensor, int]:
    """Convert indices along an axis to indices of the flat array."""
    index = lift(x.graph, indices)
    at = place_of(axis, max(1, x.ndim))
    if index.ndim != x.ndim or index.dtype.kind not in "iu":
        raise untraced("take_along_axis", "its indices are no integers, or have other dimensions than the array")
    size = x.shape[at]
    index = cast(index, np.int64)
    from_start = where(index < 0, index + size, index)
    step = 1
    total: Any = 0
    for d in reversed(range(x.ndim)):
        total = call(
            x.graph, np.add, (total, call(x.graph, np.multiply, (from_start if d == at else counted(x, d), step)))
        )
        step *= x.shape[d]
    return total, at


def counted(x: Tensor, dim: int) -> Tensor:
    """Return 0, 1, … along a dimension."""
    size = x.shape[dim].__index__()
    node = x.graph.add("arange", type=TensorType((size,), int32), place=here(), start=0, end=size)
    flat = cast(Tensor.fresh(x.graph, node), np.int64)
    return reshape(flat, tuple(size if d == dim else 1 for d in range(x.ndim)))


def take_along_axis(x: Any, indices: Any, axis: Any = -1) -> Tensor:
    """Trace ``np.take_along_axis`` as a batched gather along the axis, which is moved to the end."""
    graph = graph_of(x, indices)
    source, at = flat_where_none(lift(graph, x), axis)
    index = lift(graph, indices)
    if index.ndim != source.ndim or index.dtype.kind not in "iu":
        raise untraced("take_along_axis", "its indices are no integers, or have other dimensions than the array")
    last, at = source.ndim - 1, place_of(at, max(1, source.ndim))
    source, index = swapaxes(source, at, last), swapaxes(index, at, last)
    lead = checked("`np.take_along_axis`", lambda: broadcast(source.node.shape[:-1], index.node.shape[:-1]))
    if index.type.dtype.kind == "int":
        index = where(index < 0, index + source.shape[-1], index)
    nodes = [graph.add("broadcast_to", n, place=here(), shape=(*lead, n.shape[-1])) for n in (source.node, index.node)]
    node = checked("`np.take_along_axis`", lambda: graph.add("take", *nodes, place=here(), axis=last, batch=last))
    return swapaxes(Tensor.fresh(graph, node), at, last)


def put_along_axis(x: Tensor, indices: Any, values: Any, axis: Any) -> None:
    """Trace ``np.put_along_axis``; the last of equal indices wins."""
    if axis is None:
        raise untraced("put_along_axis", "without an axis it writes to the flat array", "reshape first")
    index, _ = positions(x, indices, int(axis))
    flat = Tensor.fresh(x.graph, x.node).reshape(-1)
    shown = lift(x.graph, values, x.dtype).node
    full = x.graph.add("broadcast_to", shown, place=here(), shape=index.node.shape)
    put(flat, (index.reshape(-1),), 0, Tensor.fresh(x.graph, full).reshape(-1))
    assign(x, flat.reshape(x.node.shape))


def update_at(graph: TensorGraph, ufunc: Any, target: Any, key: Any, value: Any = None) -> None:
    """Trace ``np.add.at`` and similar functions, which apply all of equal indices in their order."""
    name = f"{ufunc.__name__}.at"
    if not isinstance(target, Tensor):
        raise untraced(
            name,
            "it updates an array from outside",
            "pass the array as an argument, or make it by `np.zeros_like(x, shape=…)`",
        )
    is_row = ufunc.__name__ in COMBINED and value is not None
    if not is_row or resolved(ufunc, (target, value), None)[-1] != target.dtype:  # numpy rounds each time
        numpy_steps.update_at(ufunc, target, key, *(() if value is None else (value,)))
        return
    index = index_of(target, key)
    part = view(target, index)
    if index.array is None:
        assign(part, call(graph, ufunc, (part, value)))
    elif getattr(index.array, "dtype", None) != np.bool_:
        put(part, (index.array, *index.others), index.axis, value, ufunc.__name__)
    else:
        numpy_steps.update_at(ufunc, target, key, value)


def take(x: Any, indices: Any, axis: Any = None, mode: str = "raise") -> Tensor:
    """Trace ``np.take``; by `mode`, negative indices count from the end, wrap around, or are clipped to 0."""
    graph = graph_of(x, indices)
    source, index = lift(graph, x), lift(graph, indices)
    if axis is None:
        source, axis = source.reshape(-1), 0
    axis = place_of(axis, max(1, source.ndim))
    if issubclass(type(indices), int | np.integer) and mode == "raise":  # a traced number has numpy's class
        return copy(source[(*(slice(None),) * axis, indices)])
    size = source.shape[axis]
    if mode == "clip":
        index = call(graph, np.minimum, (call(graph, np.maximum, (index, 0)), size - 1))
    elif mode == "wrap":
        index = call(graph, np.remainder, (index, size))
    elif index.type.dtype.kind == "int":
        index = where(index < 0, index + size, index)
    node = checked("`np.take`", lambda: graph.add("take", source.node, index.node, place=here(), axis=axis))
    return Tensor.fresh(graph, node)


def counted_from_0(part: Tensor, arrays: Any, axis: int) -> list[Node]:
    """Normalise index arrays of adjacent dimensions to one shape and type; negative ones count from the end."""
    counts = []
    for dim, array in enumerate(arrays, axis):
        index = lift(part.graph, array)
        if index.dtype.kind not in "iu":
            raise untraced("this index", "an array of it is not of integers", "cast it")
        counts.append(where(index < 0, index + part.shape[dim], index) if index.dtype.kind == "i" else index)
    if len(counts) == 1:
        return [counts[0].node]
    shape = checked("this index", lambda: broadcast(*(x.node.shape for x in counts)))
    add = part.graph.add
    return [add("broadcast_to", cast(x, np.int64).node, place=here(), shape=shape) for x in counts]


def seen_flat(part: Tensor, axis: int, count: int) -> Tensor:
    """Merge adjacent dimensions of an array."""
    shape = part.node.shape
    if count == 1:
        return part
    return part.moved("reshape", shape=(*shape[:axis], math.prod(shape[axis : axis + count]), *shape[axis + count :]))


def take_several(part: Tensor, arrays: tuple[Any, ...], axis: int) -> Tensor:
    """Gather elements by index arrays of adjacent dimensions."""
    graph, count = part.graph, len(arrays)
    indices = counted_from_0(part, arrays, axis)
    if all(map(is_fixed, (*part.node.shape, *indices[0].shape))):
        few = take_where(graph, part.node, tuple(indices), axis, here())
        if few is not None:
            return Tensor.fresh(graph, few)
    sizes = part.node.shape[axis : axis + count]
    index = flat_index(graph, list(zip(sizes, indices, strict=True)), here())
    source = seen_flat(part, axis, count).node
    return Tensor.fresh(graph, graph.add("take", source, index, place=here(), axis=axis))


def put(part: Tensor, arrays: tuple[Any, ...], axis: int, value: Any, how: str = "") -> None:
    """Scatter to a view by index arrays of adjacent dimensions; `how` combines new and old elements.

    An index out of range in its own dimension is out of range for all of them.
    """
    graph, count = part.graph, len(arrays)
    indices = counted_from_0(part, arrays, axis)
    sizes = part.shape[axis : axis + count]
    index = Tensor.fresh(graph, flat_index(graph, list(zip(part.node.shape[axis:], indices, strict=False)), here()))
    if count > 1:
        for size, node in zip(sizes, indices, strict=True):
            each = Tensor.fresh(graph, node)
            index = where((each >= 0) & (each < size), index, math.prod(sizes))
    view = seen_flat(part, axis, count)
    shape = view.node.shape
    wanted = (*shape[:axis], *index.node.shape, *shape[axis + 1 :])
    given = lift(graph, value, part.dtype).node
    full = checked("this update", lambda: graph.add("broadcast_to", given, place=here(), shape=wanted))
    result = checked(
        "this update", lambda: graph.add("put", view.node, index.node, full, place=here(), axis=axis, how=how)
    )
    view.write(result)
