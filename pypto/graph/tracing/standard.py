"""Less common functions of the array API standard, as compositions of traced functions.

They consist of views, selections by position, sums and products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.graph.ir.node import checked
from pypto.graph.ir.types import broadcast, is_floating
from pypto.graph.tracing import functions, methods, movement, ordering, products, reductions, ufuncs
from pypto.graph.tracing.movement import diagonal, sliding_window_view
from pypto.graph.tracing.numpy_steps import by_numpy
from pypto.graph.tracing.tensor import Tensor, graph_of, place_of
from pypto.graph.tracing.ufuncs import call, lift, to_out

# --- shapes ----------------------------------------------------------------------------------------------------------


def broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Tensor, ...]:
    graph = graph_of(*arrays)
    tensors = [lift(graph, x) for x in arrays]
    shape = checked("`np.broadcast_arrays`", lambda: broadcast(*(x.node.shape for x in tensors)))
    return tuple(movement.broadcast_to(x, shape) for x in tensors)


def meshgrid(*arrays: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tensor, ...]:
    graph = graph_of(*arrays)
    rank = len(arrays)
    order = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else list(range(rank))
    lines = []
    for x, axis in zip(arrays, order, strict=True):
        flat = lift(graph, x).reshape(-1)
        lines.append(movement.reshape(flat, (*(1,) * axis, flat.node.shape[0], *(1,) * (rank - axis - 1))))
    return tuple(lines) if sparse else broadcast_arrays(*lines)


def tile(x: Any, reps: Any) -> Tensor:
    counts = [int(n) for n in np.atleast_1d(reps)]
    rank = max(len(counts), x.ndim)
    counts = [1] * (rank - len(counts)) + counts
    shape = (*(1,) * (rank - x.ndim), *x.node.shape)
    interleaved = movement.reshape(x, tuple(n for size in shape for n in (1, size)))
    spread = interleaved.moved("broadcast_to", shape=tuple(n for pair in zip(counts, shape, strict=True) for n in pair))
    return movement.copy(movement.reshape(spread, tuple(n * size for n, size in zip(counts, shape, strict=True))))


def unstack(x: Tensor, *, axis: int = 0) -> tuple[Tensor, ...]:
    size = x.shape[axis]
    lead = (slice(None),) * (place_of(axis, x.ndim))
    return tuple(x[(*lead, n)] for n in range(size))


# --- choices by position ---------------------------------------------------------------------------------------------


def triangle(lower: bool) -> Callable[..., Tensor]:
    def function(x: Tensor, k: int = 0) -> Tensor:
        if x.ndim == 1:  # numpy repeats it as rows
            x = movement.broadcast_to(x, (x.node.shape[0], x.node.shape[0]))
        # Rows and columns count from different numbers: as one array they would be needed in two orders.
        rows, columns = (k, 0) if k else (int(lower), int(not lower))
        compared = ("greater", "less")[not lower] + ("_equal" if k else "")
        inside = call(
            x.graph, getattr(np, compared), (reductions.positions(x, -2, rows), reductions.positions(x, -1, columns))
        )
        return ufuncs.where(inside, x, np.zeros((), x.dtype))

    return function


def count_nonzero(x: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return reductions.reduce(ufuncs.truth(x.graph, x), "sum", axis, keepdims, np.intp)


def searchsorted(x: Any, values: Any, side: str = "left", sorter: Any = None) -> Tensor:
    """Trace `searchsorted`: count the elements that precede each value, with NaN as the greatest."""
    graph = graph_of(x, values, sorter)
    line, keys = lift(graph, x), lift(graph, values)
    if sorter is not None:
        line = ordering.take(line, sorter)
    widened = np.result_type(line.dtype, keys.dtype)
    line, keys = ufuncs.cast(line, widened), ufuncs.cast(keys, widened)
    column = movement.reshape(keys, (*keys.node.shape, 1))
    before = line < column if side == "left" else line <= column
    if is_floating(widened):
        is_nan, even = (
            call(graph, np.isnan, (column,)),
            call(graph, np.isfinite, (line,)) | call(graph, np.isinf, (line,)),
        )
        before = before | (is_nan & even if side == "left" else is_nan)
    return reductions.reduce(before, "sum", -1, False, np.intp)


def cumulative(name: str, first: int) -> Callable[..., Tensor]:
    def function(
        x: Tensor, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
    ) -> Tensor:
        if axis is None and x.ndim > 1:
            raise methods.untraced("a running result of several dimensions", "say along which `axis`")
        along = 0 if axis is None else place_of(axis, x.ndim)
        result = reductions.scan(x, name, along, dtype)
        if include_initial:
            shape = tuple(1 if d == along else n for d, n in enumerate(result.node.shape))
            result = movement.concatenate([movement.full_like(result, first, shape=shape), result], along)
        return to_out(result, out)

    return function


# --- linear algebra --------------------------------------------------------------------------------------------------


def cross(a: Any, b: Any, *, axis: int = -1) -> Tensor:
    graph = graph_of(a, b)
    x, y = broadcast_arrays(lift(graph, a), lift(graph, b))
    at = place_of(axis, x.ndim)
    if x.node.shape[at] != 3:
        raise methods.untraced("a cross product of vectors that have not three elements")
    (a0, a1, a2), (b0, b1, b2) = unstack(x, axis=at), unstack(y, axis=at)
    return movement.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], at)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    x = reductions.floating(x)
    size = call(x.graph, np.abs, (x,))
    if axis is None and not keepdims:
        size, axis = size.reshape(-1), 0
    if math.isinf(ord):
        return reductions.reduce(size, "max" if ord > 0 else "min", axis, keepdims)
    if ord == 0:
        return ufuncs.cast(count_nonzero(x, axis, keepdims=keepdims), x.dtype)
    if ord == 1:
        return reductions.reduce(size, "sum", axis, keepdims)
    if ord == 2:
        return call(x.graph, np.sqrt, (reductions.reduce(size * size, "sum", axis, keepdims),))
    total = reductions.reduce(call(x.graph, np.power, (size, float(ord))), "sum", axis, keepdims)
    return call(x.graph, np.power, (total, 1.0 / ord))


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    x = reductions.floating(x)
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        along, other = (-2, -1) if abs(ord) == 1 else (-1, -2)
        sums = reductions.reduce(call(x.graph, np.abs, (x,)), "sum", along, True)
        result = reductions.reduce(sums, "max" if ord > 0 else "min", other, True)
        return result if keepdims else movement.squeeze(result, (-2, -1))
    norms: Tensor = by_numpy(np.linalg.matrix_norm)(x, keepdims=keepdims, ord=ord)
    return norms


def matrix_power(x: Tensor, n: int) -> Tensor:
    if n < 0:
        return matrix_power(by_numpy(np.linalg.inv)(x), -n)
    if n == 0:
        same = call(x.graph, np.equal, (reductions.positions(x, -2, 1) - 1, reductions.positions(x, -1)))
        one = ufuncs.where(same, np.ones((), x.dtype), np.zeros((), x.dtype))
        return movement.copy(movement.broadcast_to(one, x.node.shape))
    half = matrix_power(x, n // 2) if n > 1 else None
    if half is None:
        return movement.copy(x)
    square = products.matmul(half, half)
    return products.matmul(square, x) if n % 2 else square


LINEAR: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "matmul": functions.two(products.matmul), "outer": functions.two(products.outer),
        "tensordot": lambda a, b, *, axes=2: functions.tensordot(a, b, axes), "cross": cross,
        "vecdot": lambda a, b, *, axis=-1: np.vecdot(np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1)),
        "matrix_transpose": methods.matrix_transpose, "vector_norm": vector_norm,
        "diagonal": lambda x, *, offset=0: diagonal(x, offset, -2, -1), "matrix_norm": matrix_norm,
        "trace": lambda x, *, offset=0, dtype=None: methods.trace(x, offset, -2, -1, dtype),
        "matrix_power": matrix_power,
    }
)  # fmt: skip
STANDARD: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "broadcast_arrays": broadcast_arrays, "meshgrid": meshgrid, "tile": tile, "unstack": unstack,
        "trace": methods.trace,
        "diagonal": diagonal, "tril": triangle(True), "triu": triangle(False), "count_nonzero": count_nonzero,
        "searchsorted": searchsorted, "cumulative_sum": cumulative("cumsum", 0),
        "cumulative_prod": cumulative("cumprod", 1), "cross": cross,
        "lib.stride_tricks.sliding_window_view": sliding_window_view,
        **{f"linalg.{name}": function for name, function in LINEAR.items()},
    }
)  # fmt: skip
