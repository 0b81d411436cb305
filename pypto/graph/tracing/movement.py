"""Movements of traced arrays, which are views or copies as in numpy, and functions that join or fill arrays."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from pypto.errors.graph import NotTraced, WrongShapes
from pypto.graph.ir.dims import Size, is_fixed
from pypto.graph.ir.node import checked, here
from pypto.graph.ir.types import contiguous
from pypto.graph.tracing.numpy_steps import by_numpy
from pypto.graph.tracing.tensor import Tensor, graph_of, place_of, tensor_type
from pypto.graph.tracing.ufuncs import cast, lift, to_out

_WINDOWS: Final = "`np.lib.stride_tricks.sliding_window_view`"
_MOST: Final = 256  # elements of a window


def sizes_of(given: Any) -> tuple[int, ...]:
    """Return a shape from one or several arguments."""
    sizes: tuple[Any, ...] = (given,) if isinstance(given, int | Size | np.integer) else tuple(given)
    return tuple(n if not is_fixed(n) else operator.index(n) for n in sizes)


def reshape(x: Tensor, *sizes: Any, shape: Any = None, order: str = "C", copy: bool | None = None) -> Tensor:
    given = sizes or (shape,)
    wanted = sizes_of(given[0] if len(given) == 1 else given)
    if order == "F" and len(wanted) > 1 and x.ndim > 0:
        return in_columns(x, wanted)
    if order not in ("C", "F"):
        raise NotTraced(here().loc(), what="reshape", problem=f"order={order!r}", way="use 'C' or 'F'")
    return reshape_rows(transpose(x) if order == "F" else x, wanted, copy)


def in_columns(x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Reshape in Fortran's order, by numpy; if numpy may give a view, an update of either array is refused."""
    copied: Tensor = by_numpy(lambda array: np.ascontiguousarray(np.reshape(array, sizes, order="F")), "reshape")(x)
    if x.ndim < 2 or x.layout != contiguous(x.node.shape):
        copied.storage.share()
        x.storage.share()
    return copied


def reshape_rows(x: Tensor, sizes: tuple[int, ...], copy: bool | None = None) -> Tensor:
    """Reshape an array in C order."""
    known = math.prod(n for n in sizes if n != -1)
    if sizes.count(-1) == 1 and known != 0:  # beside a dimension of size 0, any size would do
        sizes = tuple(x.size // known if n == -1 else n for n in sizes)
    result = checked("reshape", lambda: x.moved("reshape", shape=sizes))
    if copy or (result.layout is None and x.size):
        copied = Tensor.fresh(x.graph, result.node)
        if x.layout is None and not copy:  # numpy may give a view
            copied.storage.shared = x.storage.shared = True
        return copied
    return result


def transpose(x: Tensor, *places: Any, axes: Any = None) -> Tensor:
    given = places or (axes,)
    order = given[0] if len(given) == 1 and (given[0] is None or isinstance(given[0], tuple | list)) else given
    dims = tuple(place_of(d, x.ndim) for d in order) if order else tuple(reversed(range(x.ndim)))
    if len(dims) != x.ndim:
        problem = f"it names {len(dims)} of {x.ndim} axes; two axes are exchanged by `np.swapaxes(x, a, b)`"
        raise WrongShapes(here().loc(), what="transpose", problem=problem)
    return checked("transpose", lambda: x.moved("permute", dims=dims))


def swapaxes(x: Tensor, axis1: int, axis2: int) -> Tensor:
    dims = list(range(x.ndim))
    first, second = place_of(axis1, x.ndim), place_of(axis2, x.ndim)
    dims[first], dims[second] = second, first
    return transpose(x, dims)


def squeeze(x: Tensor, axis: Any = None) -> Tensor:
    chosen = range(x.ndim) if axis is None else [place_of(a, x.ndim) for a in np.atleast_1d(axis)]
    gone = [d for d in chosen if axis is not None or x.shape[d] == 1]
    return reshape(x, tuple(n for d, n in enumerate(x.node.shape) if d not in gone))


def ravel(x: Tensor, order: str = "C") -> Tensor:
    return reshape(x, -1, order=order)


def copy(x: Tensor, order: str = "C") -> Tensor:
    return Tensor.fresh(x.graph, x.node)


def repeat(x: Tensor, repeats: Any, axis: Any = None) -> Tensor:
    """Trace ``np.repeat`` with one count for all elements."""
    if axis is None:
        x, axis = ravel(x), 0
    shape = x.node.shape
    at = place_of(axis, x.ndim)
    copies = (*shape[: at + 1], int(repeats), *shape[at + 1 :])
    column = reshape(x, (*shape[: at + 1], 1, *shape[at + 1 :]))
    spread = checked("`np.repeat`", lambda: column.moved("broadcast_to", shape=copies))
    return copy(reshape(spread, (*shape[:at], shape[at] * int(repeats), *shape[at + 1 :])))


def concatenate(arrays: Any, axis: Any = 0, out: Any = None, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    graph = graph_of(arrays)
    parts = [lift(graph, x) for x in arrays]
    if axis is None:
        parts, axis = [x.reshape(-1) for x in parts], 0
    common = np.dtype(dtype or np.result_type(*(x.dtype for x in parts)))
    nodes = [cast(x, common).node for x in parts]
    at = place_of(axis, max(1, parts[0].ndim))
    node = checked("`np.concatenate`", lambda: graph.add("concat", *nodes, place=here(), axis=at))
    return to_out(Tensor.fresh(graph, node), out)


def stack(arrays: Any, axis: int = 0, out: Any = None) -> Tensor:
    graph = graph_of(arrays)
    return concatenate([expand_dims(lift(graph, x), axis) for x in arrays], axis, out)


def expand_dims(x: Any, axis: Any) -> Tensor:
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    rank = x.ndim + len(axes)
    places = {place_of(a, rank) for a in axes}
    if len(places) < len(axes):
        raise WrongShapes(here().loc(), what="`np.expand_dims`", problem=f"an axis is twice among {axes}")
    sizes = iter(x.node.shape)
    return reshape(x, tuple(1 if d in places else next(sizes) for d in range(rank)))


def broadcast_to(x: Any, shape: Any, subok: bool = False) -> Tensor:
    sizes = sizes_of(shape)
    x = reshape(x, (*(1,) * max(0, len(sizes) - x.ndim), *x.shape))
    view: Tensor = checked("`np.broadcast_to`", lambda: x.moved("broadcast_to", shape=sizes))
    return view


def full_like(
    x: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
) -> Tensor:
    value = fill_value
    sizes = x.node.shape if shape is None else sizes_of(shape)
    if isinstance(value, Tensor):
        return copy(broadcast_to(cast(value, dtype or x.dtype), sizes))
    if np.dtype(dtype or x.dtype).kind == "c":
        return copy(broadcast_to(lift(x.graph, complex(value), dtype or x.dtype), sizes))
    type = tensor_type(sizes, dtype or x.dtype)
    number = np.asarray(value).astype(type.dtype.numpy).item()
    return Tensor.fresh(x.graph, x.graph.constant(number, type, here()))


def like(value: float) -> Callable[..., Tensor]:
    return lambda x, dtype=None, order="K", subok=True, shape=None: full_like(x, value, dtype, shape=shape)


def diagonal(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    first, second = place_of(axis1, x.ndim), place_of(axis2, x.ndim)
    others = [d for d in range(x.ndim) if d not in (first, second)]
    moved = transpose(x, [*others, first, second])
    rows, columns = moved.node.shape[-2:]
    if not (is_fixed(rows) and is_fixed(columns)):
        raise NotTraced(
            here().loc(), what="a diagonal along dimensions by name", problem="it is not offered",
            way="give the sizes of these dimensions as numbers",
        )  # fmt: skip
    count = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    start = offset if offset >= 0 else -offset * columns
    flat = reshape(moved, (*moved.node.shape[:-2], rows * columns))
    return flat[..., start : start + count * (columns + 1) : columns + 1] if count else flat[..., :0]


# --- sliding windows ------------------------------------------------------------------------------------------------


def sliding_window_view(x: Tensor, window_shape: Any, axis: Any = None, *, subok: bool = False) -> Tensor:
    """Return the windows of an array: its slices, one for each element of a window, along axes behind the others.

    A product of windows with weights reads the slices, so that a convolution by windows stores no windows.
    """
    window = tuple(np.atleast_1d(window_shape).tolist())
    axes = tuple(range(x.ndim)) if axis is None else tuple(np.atleast_1d(axis).tolist())
    axes = tuple(place_of(a, x.ndim) for a in axes)
    if len(window) != len(axes):
        problem = f"a window of {len(window)} dimensions for {len(axes)} axes"
        raise WrongShapes(here().loc(), what=_WINDOWS, problem=problem)
    sizes = list(x.node.shape)
    if not all(map(is_fixed, sizes)) or math.prod(window) > _MOST:
        way = "write it as a sum over slices"
        raise NotTraced(
            here().loc(), what=_WINDOWS, problem=f"it is offered for fixed sizes and {_MOST} elements", way=way
        )
    for a, n in zip(axes, window, strict=True):
        sizes[a] -= n - 1
    if min(window, default=1) < 1 or min(sizes, default=1) < 1:
        raise WrongShapes(
            here().loc(), what=_WINDOWS, problem=f"an array of shape {x.shape} has no windows of {window}"
        )
    taps = [slices(sizes, axes, starts) for starts in itertools.product(*map(range, window))]
    return reshape(stack([x[at] for at in taps], axis=-1), (*sizes, *window))


def unfold(x: Tensor, axis: int, size: int) -> Tensor:
    """Return a view of the windows along an axis, which overlap, along a new last dimension."""
    view: Tensor = checked("unfold", lambda: x.moved("unfold", axis=axis, size=size))
    return view


def slices(sizes: list[int], axes: tuple[int, ...], starts: tuple[int, ...]) -> tuple[slice, ...]:
    """Return a slice with one element of each window."""
    first = [0] * len(sizes)
    for a, n in zip(axes, starts, strict=True):
        first[a] += n
    return tuple(slice(n, n + size) for n, size in zip(first, sizes, strict=True))
