"""Shapes and the order of elements, written in the language itself."""

from __future__ import annotations

from typing import Any

from pypto.language import ops
from pypto.ops.public import OpFunction
from pypto.ops.table import TABLE

Tile = Any  # a tile or scalar; annotations in here are for readers

__all__ = [
    "broadcast",
    "cat",
    "expand_dims",
    "flip",
    "interleave",
    "join",
    "ravel",
    "split",
    "squeeze",
    "trans",
    "unsqueeze",
    "view",
]

_slice = OpFunction(TABLE["slice"])


def part(x: Tile, axis: int, start: int, size: int, step: int = 1) -> Tile:
    """Elements start, start + step, … along one axis."""
    starts = tuple(start if d == axis else 0 for d in range(len(x.shape)))
    sizes = tuple(size if d == axis else n for d, n in enumerate(x.shape))
    return _slice(x, starts, sizes, tuple(step if d == axis else 1 for d in range(len(x.shape))))


def positions(shape: Any, axis: int, dtype: Any = None) -> Tile:
    """The index along one axis, in a tile of the given shape."""
    index = ops.reshape(ops.arange(0, shape[axis]), tuple(n if d == axis else 1 for d, n in enumerate(shape)))
    return ops.broadcast_to(index if dtype is None else ops.cast(index, dtype), shape)


def from_zero(axis: int, rank: int) -> int:
    """An axis that may count from the end."""
    assert -rank <= axis < rank, f"invalid axis {axis}: a tile of {rank} dimensions has none such"
    return axis % rank


def trans(input: Tile, *dims: Any) -> Tile:
    """A tile with its dimensions in another order; by default the last two change places."""
    return ops.permute(input, *dims)


def view(input: Tile, *shape: Any) -> Tile:
    """The elements in row-major order under another shape."""
    return ops.reshape(input, *shape)


def ravel(input: Tile, can_reorder: bool = False) -> Tile:
    """A tile with one dimension; the order is kept."""
    return ops.reshape(input, (-1,))


def expand_dims(input: Tile, axis: Any) -> Tile:
    """A tile with dimensions of size 1 at an axis of the result, or at several."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    rank = len(input.shape) + len(axes)
    new = tuple(from_zero(a, rank) for a in axes)
    twice = sum(tuple(d in new for d in range(rank))) < len(new)
    assert not twice, f"duplicate axes, normalized axes = [{repr(new)[1:-1]}]"
    sizes, shape = input.shape, ()
    for d in ops.static_range(rank):
        shape = (*shape, *((1,) if d in new else sizes[:1]))
        sizes = sizes if d in new else sizes[1:]
    return ops.reshape(input, shape)


def unsqueeze(input: Tile, dim: Any) -> Tile:
    """Another name of `expand_dims`."""
    return expand_dims(input, dim)


def squeeze(input: Tile, dim: Any = None) -> Tile:
    """A tile without its dimensions of size 1, or without those that are given."""
    dims = dim if isinstance(dim, tuple) else (dim,)
    gone = () if dim is None else tuple(from_zero(d, len(input.shape)) for d in dims)
    shape = tuple(n for d, n in enumerate(input.shape) if n > 1 or (dim is not None and d not in gone))
    return ops.reshape(input, shape)


def broadcast(input: Tile, other: Tile) -> Any:
    """Both tiles in their common shape, by numpy's rules."""
    a, b = input.shape, other.shape
    a, b = (1,) * (len(b) - len(a)) + a, (1,) * (len(a) - len(b)) + b
    shape = tuple(m if n == 1 else n for n, m in zip(a, b))  # noqa: B905
    return ops.broadcast_to(input, shape), ops.broadcast_to(other, shape)


def cat(input: Tile, other: Tile, can_reorder: bool = False, dim: int = 0) -> Tile:
    """Two tiles one behind the other along a dimension; the order is kept."""
    axis, first = from_zero(dim, len(input.shape)), input.shape[dim]
    shape = tuple(n + other.shape[axis] if d == axis else n for d, n in enumerate(input.shape))
    index = positions(shape, axis)
    a = ops.gather(input, ops.minimum(index, first - 1), axis)
    b = ops.gather(other, ops.maximum(index - first, 0), axis)
    return ops.where(index < first, a, b)


def join(a: Tile, b: Tile) -> Tile:
    """Two tiles side by side along a new last dimension of size 2."""
    return ops.where(ops.arange(0, 2) == 0, expand_dims(a, -1), expand_dims(b, -1))


def split(a: Tile) -> Any:
    """The two tiles that lie along a last dimension of size 2."""
    assert a.shape[-1] == 2, "`split` takes a tile whose last dimension has size 2"
    return a[..., 0], a[..., 1]


def interleave(a: Tile, b: Tile) -> Tile:
    """Elements of both tiles in turn, along the last dimension."""
    x, y = broadcast(a, b)
    if not len(x.shape):
        return join(x, y)
    shape, last = (*x.shape[:-1], 2 * x.shape[-1]), len(x.shape) - 1
    index = positions(shape, last)
    return ops.where(index % 2 == 0, ops.gather(x, index // 2, last), ops.gather(y, index // 2, last))


def item(input: Tile) -> Tile:
    """The one element of a tile."""
    return view(input, ()) if len(input.shape) else input


def flip(x: Tile, dim: Any = None) -> Tile:
    """A tile with the order along a dimension reversed; by default along the last one."""
    axis = from_zero(-1 if dim is None else dim, len(x.shape))
    return part(x, axis, x.shape[axis] - 1, x.shape[axis], -1)
