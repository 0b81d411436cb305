"""Indexing of traced arrays: slices and numbers are views, arrays of integers gather, masks select.

Several index arrays of adjacent dimensions become one index array of the merged dimension.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.errors.graph import NotTraced, WrongShapes
from pypto.graph.ir.dims import ceil_div, is_fixed, unasked
from pypto.graph.ir.node import here

if TYPE_CHECKING:
    from pypto.graph.tracing.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Index:
    """An index, split into slices of all dimensions, the shape of the view, and index arrays."""

    starts: tuple[int, ...]
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    seen: tuple[int, ...]
    array: Any = None  # picks along `axis` of what is seen, or is a mask over all of it
    axis: int = 0
    others: tuple[Any, ...] = ()  # arrays that pick along the axes behind that
    order: tuple[int, ...] = ()  # of the axes of what is seen, where the arrays pick along axes apart from each other


def refuse(problem: str, way: str) -> NotTraced:
    return NotTraced(here().loc(), what="this index", problem=problem, way=way)


def is_array(key: Any) -> bool:
    stands_in = getattr(type(key), "stands_in", False) and hasattr(key, "node")  # a traced number has numpy's class
    return stands_in or (hasattr(key, "dtype") and not isinstance(key, np.generic)) or isinstance(key, list)


def by_places(tensor: Tensor, key: Any) -> Any:
    """Replace masks whose values are known by the places where they are true.

    Raises
    ------
    WrongShapes
        When a mask has not the sizes of the dimensions that it stands for.
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    if not any(map(is_known_mask, keys)):
        return key
    ranks = [np.ndim(k) if is_known_mask(k) else k is not None and k is not Ellipsis for k in keys]
    places: list[Any] = []
    for n, k in enumerate(keys):
        if is_known_mask(k):
            is_last = any(x is Ellipsis for x in keys[:n])
            dim = tensor.ndim - sum(ranks[n:]) if is_last else sum(ranks[:n])
            sizes, mask = tensor.shape[dim : dim + np.ndim(k)], np.asarray(k)
            if mask.shape != sizes:
                problem = f"a mask of shape {mask.shape} for dimensions of sizes {sizes}"
                raise WrongShapes(here().loc(), what="this index", problem=problem)
            places += np.nonzero(mask)
        else:
            places.append(k)
    return tuple(places)


def is_known_mask(key: Any) -> bool:
    """Whether an index is a mask with dimensions whose values are known."""
    if type(key) is list:
        return bool(key) and all(type(k) is bool for k in key)
    return type(key) is np.ndarray and key.dtype == np.bool_ and key.ndim > 0


def index_of(tensor: Tensor, key: Any) -> Index:
    """Parse an index of an array."""
    keys = list(key) if isinstance(key, tuple) else [key]
    count = sum(1 for k in keys if k is not None and k is not Ellipsis)
    if count > tensor.ndim and not (is_array(keys[0]) and keys[0].dtype == np.bool_):
        problem = f"{count} indices for an array of {tensor.ndim} dimensions"
        raise WrongShapes(here().loc(), what="this index", problem=problem)
    fill = [slice(None)] * max(0, tensor.ndim - count)
    at = next((n for n, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys = [*keys[:at], *fill, *(k for k in keys[at:] if k is not Ellipsis)]
    places = [n for n, k in enumerate(keys) if is_array(k)]
    arrays = [keys[n] for n in places]
    masks = any(getattr(k, "dtype", None) == np.bool_ for k in arrays)
    if len(arrays) > 1 and masks:
        raise refuse("it has a mask beside other arrays", "pick along one after the other")
    if masks:
        return masked(tensor, arrays[0], keys)
    return parts(tensor, keys, arrays)


def masked(tensor: Tensor, mask: Any, keys: list[Any]) -> Index:
    if any(k is not mask and k != slice(None) for k in keys) or tuple(mask.shape) != tensor.shape[: mask.ndim]:
        raise refuse("its mask does not cover the whole array", "use `np.where(mask, a, b)`")
    origin = (0,) * tensor.ndim
    return Index(origin, tensor.shape, tuple(1 for _ in origin), tensor.shape, mask)


def parts(tensor: Tensor, keys: list[Any], arrays: list[Any]) -> Index:
    starts, shape, steps, seen, axes = [], [], [], [], []
    dim = 0
    for k in keys:
        if k is None:
            seen.append(1)
            continue
        start, count, step = one(k, tensor.shape[dim])
        starts.append(start)
        shape.append(count)
        steps.append(step)
        if is_array(k):
            axes.append(len(seen))
        if isinstance(k, slice) or is_array(k):
            seen.append(count)
        dim += 1
    first, *others = arrays or [None]
    index = Index(tuple(starts), tuple(shape), tuple(steps), tuple(seen), first, (axes or [0])[0], tuple(others))
    picking = [n for n, k in enumerate(keys) if k is not None and not isinstance(k, slice)]
    if not arrays or picking[-1] - picking[0] < len(picking):
        return index
    order = (*axes, *(d for d in range(len(seen)) if d not in axes))  # numpy has what the arrays pick first
    return replace(index, axis=0, order=order)


def one(key: Any, size: int) -> tuple[int, int, int]:
    """Return the first element, the count and the step along one dimension."""
    if is_array(key):
        return 0, size, 1
    if isinstance(key, slice) and not all(map(is_fixed, (key.start, key.stop, size))):
        return spanned(key, size)
    if not is_fixed(key) or not is_fixed(size):
        return element(key, size), 1, 1
    if isinstance(key, slice):
        span = range(*key.indices(size))
        return (span.start if span else 0), len(span), (span.step if len(span) > 1 else 1)
    number = int(key.__index__())
    if not -size <= number < size:
        raise WrongShapes(here().loc(), what="this index", problem=f"{number} is out of bounds for size {size}")
    return number % size, 1, 1


def spanned(key: slice, size: int) -> tuple[int, int, int]:
    """Return the span of a slice with dynamic sizes, whose comparisons become guards."""
    step = 1 if key.step is None else int(key.step)
    if step < 0:
        if key.start is not None or key.stop is not None:
            raise refuse("it goes backwards from or to a bound in a dimension by name", "take the part, then `[::-1]`")
        return size - 1, ceil_div(size, -step), step
    start, stop = (bound(x, size, default) for x, default in ((key.start, 0), (key.stop, size)))
    if stop <= start:
        return 0, 0, 1
    return start, ceil_div(stop - start, step), step


def bound(value: Any, size: int, default: int) -> int:
    """Clip a bound of a slice to the dimension."""
    if value is None:
        return default
    place: int = value if value >= 0 else value + size
    if place < 0:
        return 0
    return place if place <= size else size


def element(key: Any, size: int) -> int:
    """Normalise the index of one element."""
    number = key if not is_fixed(key) else int(key.__index__())
    place: int = number if number >= 0 else number + size
    if place < 0 or place >= size:
        raise WrongShapes(here().loc(), what="this index", problem=f"{number} is out of bounds for size {size}")
    return place


def view(tensor: Tensor, index: Index) -> Tensor:
    """Return the view of an array that the slices of an index select."""
    part = tensor.moved("slice", starts=index.starts, shape=index.shape, steps=index.steps)
    part = part if part.node.shape == unasked(index.seen) else part.moved("reshape", shape=index.seen)
    return part.moved("permute", dims=index.order) if index.order else part
