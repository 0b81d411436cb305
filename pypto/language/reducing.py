"""Reductions and scans, written in the language itself."""

from __future__ import annotations

from typing import Any

from pypto.ir.types import float32, float64, int1, int32
from pypto.language import ops
from pypto.language.shaping import flip, from_zero, part, positions
from pypto.ops.public import Intrinsic

Tile = Any  # a tile or scalar; annotations in here are for readers

__all__ = ["all", "any", "associative_scan", "map_elementwise", "max", "min", "reduce", "softmax"]

_combination = Intrinsic("combination", "combination(fn, x): the row that a function of two elements is, or None.")
_in_kernel = Intrinsic("in_kernel", "in_kernel(x): x itself; an error outside of a kernel.")
_map_elements = Intrinsic("map_elements", "map_elements(fn, *tiles): a function of single elements, on tiles.")


def widened(x: Tile) -> Tile:
    """Numbers of fewer than 32 bits in 32, as Triton's extremes give them."""
    if _in_kernel(x).dtype.bits >= 32:
        return x
    return ops.cast(x, float32 if x.dtype.is_float else int32)


def max(
    input: Tile,
    axis: Any = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Any:
    """Greatest element along an axis, NaN ignored.

    Parameters
    ----------
    input : tile
    axis : int, tuple of int, or None for all elements
    return_indices : bool
        Give the index of the greatest element as well, the lowest of equals; int32.
    return_indices_tie_break_left : bool
        Accepted; the lowest index is a right answer either way.
    keep_dims : bool
        Leave the reduced dimensions in place with size 1.

    Returns
    -------
    tile, or (tile, tile)
        Of 32 bits at least.

    Examples
    --------
        pto.max(x, axis=0)
    """
    x = widened(input)
    best = ops.max(x, axis, keep_dims)
    return (best, ops.argmax(x, axis, keep_dims=keep_dims)) if return_indices else best


def min(
    input: Tile,
    axis: Any = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Any:
    """Least element along an axis, NaN ignored.

    Parameters
    ----------
    input : tile
    axis : int, tuple of int, or None for all elements
    return_indices : bool
        Give the index of the least element as well, the lowest of equals; int32.
    return_indices_tie_break_left : bool
        Accepted; the lowest index is a right answer either way.
    keep_dims : bool
        Leave the reduced dimensions in place with size 1.

    Returns
    -------
    tile, or (tile, tile)
        Of 32 bits at least.

    Examples
    --------
        pto.min(x, axis=0)
    """
    x = widened(input)
    best = ops.min(x, axis, keep_dims)
    return (best, ops.argmin(x, axis, keep_dims=keep_dims)) if return_indices else best


def any(input: Tile, axis: Any = None, keep_dims: bool = False) -> Tile:
    """Whether some element along an axis is not zero."""
    return ops.reduce_or(ops.cast(input, int1), axis, keep_dims)


def all(input: Tile, axis: Any = None, keep_dims: bool = False) -> Tile:
    """Whether no element along an axis is zero."""
    return ~ops.reduce_or(ops.cast(input, int1) ^ True, axis, keep_dims)


def softmax(x: Tile, dim: Any = None, keep_dims: bool = False, ieee_rounding: bool = False) -> Tile:
    """Exponentials of x along a dimension, divided by their sum. The dimension is the first one by default.

    In float32 an element is off by some (6 + |x - max|) · 2**-24 of itself, as the difference is rounded before the
    exponential; a sum over thousands adds a little to that.
    """
    along = 0 if dim is None else dim
    e = ops.exp(x - max(x, along, keep_dims=True))
    return e / ops.sum(e, along, True)


def as_float(x: Tile) -> Tile:
    """Floats of at least 32 bits: narrower ones and integers in float32, integers of 64 bits in float64."""
    if _in_kernel(x).dtype.bits == 64:
        return x if x.dtype.is_float else ops.cast(x, float64)
    return ops.cast(x, float32)


def in_type_of(y: Tile, x: Tile) -> Tile:
    """A result in the type of the operand that it was computed from, if that one is a float; else in float32."""
    return ops.cast(y, x.dtype if x.dtype.is_float else float32)


def map_elementwise(scalar_fn: Any, *args: Any, pack: int = 1) -> Any:
    """A function of single elements, on the elements of tiles that are broadcast together.

    Unlike elsewhere, the function may branch on its arguments. With `pack` it takes so many neighbours of each tile
    at a time, and gives as many of each result.

    Parameters
    ----------
    scalar_fn : function
    args : tiles or numbers
    pack : int
    """
    if pack == 1:
        return _map_elements(scalar_fn, *args)
    shape = _map_elements(lambda *x: sum_of_zeros(x), *args).shape
    inputs = ()
    for x in args:
        rows = ops.reshape(ops.broadcast_to(x, shape), (-1, pack))
        inputs = (*inputs, *(rows[:, k] for k in range(pack)))
    outputs = _map_elements(scalar_fn, *inputs)
    results = tuple(packed(outputs[k : k + pack], shape) for k in range(0, len(outputs), pack))
    return results if len(results) > 1 else results[0]


def sum_of_zeros(numbers: Any) -> Any:
    """Zero in the common shape of some tiles."""
    total = False
    for x in numbers:
        total = (x < 0) | total
    return total


def packed(columns: Any, shape: Any) -> Tile:
    """Tiles as the columns of a matrix, whose elements have the given shape."""
    last = ops.arange(0, len(columns))
    result = columns[0][:, None]
    for k in ops.static_range(1, len(columns)):
        result = ops.where(last >= k, columns[k][:, None], result)
    return ops.reshape(result, shape)


# --- with functions of the author's ----------------------------------------------------------------------------------


def tuple_of(x: Any) -> Any:
    """The items of a tuple; a tile is the only item of one."""
    return x if isinstance(x, tuple) else (x,)


def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: bool = False) -> Any:
    """A tile along an axis, or several tiles at once, joined by a function that is associative.

    The order of the elements is kept.

    Parameters
    ----------
    input : tile, or tuple of tiles of one shape
    axis : int, or None for all elements
    combine_fn : function
        Takes one element of each tile, then another one of each, and gives what both become.
    keep_dims : bool
    """
    parts = tuple_of(input)
    row = _combination(combine_fn, parts[0]) if len(parts) == 1 else None
    if row in ("add", "mul", "maximum", "minimum", "or_", "xor"):
        return _same_form(input, (_by_row(row, parts[0], axis, keep_dims),))
    shape = parts[0].shape
    if axis is None:
        at, after = 0, (1,) * len(shape) if keep_dims else ()
        parts = tuple(ops.reshape(p, (-1,)) for p in parts)
    else:
        at = from_zero(axis, len(shape))
        after = (*shape[:at], *((1,) if keep_dims else ()), *shape[at + 1 :])
    return _same_form(input, tuple(ops.reshape(p, after) for p in _halved(parts, at, combine_fn, None)))


def _same_form(input: Any, results: Any) -> Any:
    return results if isinstance(input, tuple) else results[0]


def _by_row(row: str, x: Tile, axis: Any, keep_dims: bool) -> Tile:
    if row == "add":
        return ops.sum(x, axis, keep_dims, dtype=x.dtype)
    if row == "mul":
        return ops.prod(x, axis, keep_dims, dtype=x.dtype)
    if row in ("maximum", "minimum"):
        return (ops.max if row == "maximum" else ops.min)(x, axis, keep_dims)
    return (ops.reduce_or if row == "or_" else ops.xor_sum)(x, axis, keep_dims)


def _combined(function: Any, a: Any, b: Any) -> Any:
    """Both, element by element, in the types that they have."""
    joined = tuple_of(_map_elements(function, *a, *b))
    return tuple(ops.cast(y, x.dtype) for x, y in zip(a, joined))  # noqa: B905


def _halved(parts: Any, axis: int, function: Any, tail: Any) -> Any:
    """Neighbours joined until one is left; what has no neighbour is joined with the tail, which comes last."""
    size = parts[0].shape[axis]
    if size == 1:
        return parts if tail is None else _combined(function, parts, tail)
    if size % 2 == 1:
        last = tuple(part(p, axis, size - 1, 1) for p in parts)
        tail = last if tail is None else _combined(function, last, tail)
    left, right = (tuple(part(p, axis, k, size // 2, 2) for p in parts) for k in (0, 1))
    return _halved(_combined(function, left, right), axis, function, tail)


def associative_scan(input: Any, axis: int, combine_fn: Any, reverse: bool = False) -> Any:
    """Every element joined with all before it along an axis, by a function that is associative.

    Parameters
    ----------
    input : tile, or tuple of tiles of one shape
    axis : int
    combine_fn : function
        Takes one element of each tile, then a later one of each, and gives what both become.
    reverse : bool
        Begin with the last element.
    """
    parts = tuple_of(input)
    at = from_zero(axis, len(parts[0].shape))
    row = _combination(combine_fn, parts[0]) if len(parts) == 1 else None
    if row == "add":
        return _same_form(input, (ops.cumsum(parts[0], at, reverse, dtype=parts[0].dtype),))
    if row in ("mul", "maximum", "minimum"):
        scan = ops.cumprod if row == "mul" else ops.cummax if row == "maximum" else ops.cummin
        return _same_form(input, (scan(parts[0], at, reverse),))
    if reverse:
        parts = tuple(flip(p, at) for p in parts)
    parts = _scanned(parts, at, combine_fn, 1)
    return _same_form(input, tuple(flip(p, at) for p in parts) if reverse else parts)


def _scanned(parts: Any, axis: int, function: Any, step: int) -> Any:
    """Each element with the one `step` before it, which holds the result of as many elements."""
    if step >= parts[0].shape[axis]:
        return parts
    index = positions(parts[0].shape, axis)
    earlier = tuple(ops.gather(p, ops.maximum(index - step, 0), axis) for p in parts)
    joined = _combined(function, earlier, parts)
    results = tuple(ops.where(index >= step, y, x) for x, y in zip(parts, joined))  # noqa: B905
    return _scanned(results, axis, function, 2 * step)
