"""Movements of traced arrays: views where numpy gives views, copies where it copies."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from pypto.errors.graph import NotTraced
from pypto.graph.ir.dims import Size, is_fixed
from pypto.graph.ir.location import checked, here
from pypto.graph.tracing.tensor import Tensor


def sizes_of(given: Any) -> tuple[int, ...]:
    """A shape that was given as a number or as several."""
    sizes: tuple[Any, ...] = (given,) if isinstance(given, int | Size | np.integer) else tuple(given)
    return tuple(n if not is_fixed(n) else operator.index(n) for n in sizes)


def reshape(x: Tensor, *shape: Any, order: str = "C", copy: bool | None = None) -> Tensor:
    if order != "C":
        raise NotTraced(here().loc(), what="reshape", problem=f"order={order!r}", way="transpose first")
    sizes = sizes_of(shape[0] if len(shape) == 1 else shape)
    if -1 in sizes:
        known = math.prod(n for n in sizes if n != -1)
        sizes = tuple(x.size // (known or 1) if n == -1 else n for n in sizes)
    made = checked("reshape", lambda: x.moved("reshape", shape=sizes))
    if copy or (made.strides is None and x.size):
        copied = Tensor.fresh(x.graph, made.node)
        if x.strides is None and not copy:  # numpy may give a view
            copied.storage.shared = x.storage.shared = True
        return copied
    return made


def transpose(x: Tensor, *axes: Any) -> Tensor:
    order = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], tuple | list)) else axes
    dims = tuple(int(d) % x.ndim for d in order) if order else tuple(reversed(range(x.ndim)))
    return checked("transpose", lambda: x.moved("permute", dims=dims))


def swapaxes(x: Tensor, a: int, b: int) -> Tensor:
    dims = list(range(x.ndim))
    dims[a], dims[b] = dims[b], dims[a]
    return transpose(x, dims)


def squeeze(x: Tensor, axis: Any = None) -> Tensor:
    chosen = range(x.ndim) if axis is None else [int(a) % x.ndim for a in np.atleast_1d(axis)]
    gone = [d for d in chosen if axis is not None or x.shape[d] == 1]
    return reshape(x, tuple(n for d, n in enumerate(x.node.shape) if d not in gone))


def ravel(x: Tensor, order: str = "C") -> Tensor:
    return reshape(x, -1, order=order)


def copy(x: Tensor, order: str = "C") -> Tensor:
    return Tensor.fresh(x.graph, x.node)


def repeat(x: Tensor, repeats: Any, axis: Any = None) -> Tensor:
    """``np.repeat`` where each element is repeated as often."""
    if not isinstance(repeats, int | np.integer):
        raise NotTraced(
            here().loc(),
            what="`np.repeat`",
            problem="it has a count for each element",
            way="index with an array of places",
        )
    if axis is None:
        x, axis = ravel(x), 0
    shape = x.node.shape
    at = axis % x.ndim
    copies = (*shape[: at + 1], int(repeats), *shape[at + 1 :])
    column = reshape(x, (*shape[: at + 1], 1, *shape[at + 1 :]))
    spread = checked("`np.repeat`", lambda: column.moved("broadcast_to", shape=copies))
    return copy(reshape(spread, (*shape[:at], shape[at] * int(repeats), *shape[at + 1 :])))
