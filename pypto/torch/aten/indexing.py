"""Rows that gather and scatter by indices, and rows that create tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pypto.graph.tracing.movement import broadcast_to
from pypto.graph.tracing.tensor import TensorGraph
from pypto.graph.tracing.ufuncs import cast, lift
from pypto.torch.aten.row import IndexRange, NotLowered, Result, Row, counted, is_tensor

MADE: Final = ("graph", "results")


def embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Any:
    return np.take(weight, indices, axis=0)


def index_select(x: Any, dim: int, index: Any) -> Any:
    return np.take(x, index, axis=dim) if x.ndim else x


def index(x: Any, indices: Sequence[Any]) -> Any:
    """Gather by arrays of indices; torch takes a dimension without one whole."""
    given = [(n, i) for n, i in enumerate(indices) if i is not None]
    if any(i.dtype == np.bool_ for _, i in given):
        raise NotLowered("a mask as an index")
    if len(given) == 1:
        axis, places = given[0]
        return np.take(x, places, axis=axis)
    numbers = [n for n, _ in given]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise NotLowered("indices that are not side by side")
    return x[(*(slice(None),) * numbers[0], *(i for _, i in given))]


def gather(x: Any, dim: int, places: Any, sparse_grad: bool = False) -> Any:
    if not x.ndim:
        raise NotLowered("a tensor without dimensions")
    axis = dim % x.ndim
    wanted = tuple(n if d == axis else m for d, (n, m) in enumerate(zip(x.shape, places.shape, strict=True)))
    if any(a != b for a, b in zip(wanted, x.shape, strict=True)):
        x = x[tuple(slice(0, n) for n in wanted)]
    return np.take_along_axis(x, places, axis=axis)


def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """Replace elements, or add to them, by arrays of indices for the first dimensions."""
    if any(i is None for i in indices) or any(i.dtype == np.bool_ for i in indices):
        raise NotLowered("a dimension without indices, or a mask")
    places = indices[0] if len(indices) == 1 else tuple(indices)
    result = x.copy()
    if accumulate:
        np.add.at(result, places, values)
    else:
        result[places] = values
    return result


def in_range(x: Any, dim: int, places: Any) -> IndexRange:
    axis = dim % max(1, x.ndim)
    return IndexRange(places, axis, x.node.shape[axis] if x.ndim else 1)


def in_ranges(x: Any, indices: Sequence[Any]) -> list[IndexRange]:
    return [IndexRange(i, n, x.node.shape[n], True) for n, i in enumerate(indices) if i is not None]


def filled(value: Any, graph: TensorGraph, result: Result) -> Any:
    """Return an array of one number, or of the element of a tensor without dimensions."""
    number = cast(lift(graph, value), result.dtype) if is_tensor(value) else lift(graph, value, result.dtype)
    return broadcast_to(number, result.shape)


def full(size: Any, value: Any, graph: TensorGraph, results: tuple[Result, ...], **memory: Any) -> Any:
    return filled(value, graph, results[0])


def full_like(x: Any, value: Any, graph: TensorGraph, results: tuple[Result, ...], **memory: Any) -> Any:
    return filled(value, graph, results[0])


def scalar_tensor(value: Any, graph: TensorGraph, results: tuple[Result, ...], **memory: Any) -> Any:
    return filled(value, graph, results[0])


def constant(number: int) -> Any:
    """Make a row of an array of zeros or ones; memory whose content is arbitrary holds zeros."""

    def lower(*shape: Any, graph: TensorGraph, results: tuple[Result, ...], **memory: Any) -> Any:
        return filled(number, graph, results[0])

    return lower


def fill(x: Any, value: Any, graph: TensorGraph, results: tuple[Result, ...]) -> Any:
    return filled(value, graph, results[0])


def arange(*bounds: Any, graph: TensorGraph, results: tuple[Result, ...], **memory: Any) -> Any:
    """Return an arithmetic progression: a constant, or a range of numbers from 0 where a size has a name."""
    result, *_ = results
    start, end, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if all(isinstance(n, int | float) for n in (start, end, step)):
        return lift(graph, np.arange(start, end, step).astype(result.dtype))
    if step != 1 or not isinstance(start, int):
        raise NotLowered("a range with a step, or from a size")
    size = result.shape[0]
    numbers = cast(counted(graph, size), result.dtype)
    return numbers if start == 0 else numbers + result.dtype.type(start)


ROWS: Final = (
    Row("embedding", embedding, indices=lambda weight, places, *_, **__: [in_range(weight, 0, places)]),
    Row("index_select", index_select, indices=lambda x, dim, places: [in_range(x, dim, places)]),
    Row("index", index, indices=in_ranges),
    Row("_unsafe_index", index),  # its indices are known to be in range
    Row("gather", gather, indices=lambda x, dim, places, *_, **__: [in_range(x, dim, places)]),
    Row("index_put", index_put),
    Row("full", full, MADE),
    Row("full_like", full_like, MADE),
    Row("scalar_tensor", scalar_tensor, MADE),
    Row("fill", fill, MADE),
    Row("zeros", constant(0), MADE),
    Row("ones", constant(1), MADE),
    Row("empty", constant(0), MADE),
    Row("empty_strided", constant(0), MADE),
    Row("empty_permuted", constant(0), MADE),
    Row("zeros_like", constant(0), MADE),
    Row("ones_like", constant(1), MADE),
    Row("empty_like", constant(0), MADE),
    Row("new_zeros", constant(0), MADE),
    Row("new_ones", constant(1), MADE),
    Row("new_empty", constant(0), MADE),
    Row("new_full", lambda x, *args, **given: full(*args, **given), MADE),
    Row("arange", arange, MADE),
)
