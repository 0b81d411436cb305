"""Sorting and counting, written in the language itself."""

from __future__ import annotations

from typing import Any

from pypto.ir.types import bfloat16, float32, float64, int16, int32, int64, uint32, uint64
from pypto.language import ops
from pypto.language.libdevice import isnan
from pypto.language.shaping import cat, flip, from_zero, part, positions
from pypto.language.standard import cdiv, next_power_of_2
from pypto.ops.public import OpFunction
from pypto.ops.table import TABLE

Tile = Any  # a tile or scalar; annotations in here are for readers

__all__ = ["argsort", "bitonic_merge", "sort", "topk"]

_COLUMNS = 16  # that a selection ends with
_MANY = 256  # keys, of which a few are selected before anything is sorted
sort_keys = OpFunction(TABLE["sort_keys"])


def sort(x: Tile, dim: Any = None, descending: bool = False) -> Tile:
    """A tile in order along a dimension, by default the last one.

    It is a permutation for every input: NaN is last in either direction, and -0.0 counts as less than 0.0.

    Parameters
    ----------
    x : tile
        Of any shape, of integers or floats.
    dim : int, optional
        The dimension to sort along; the last one without. Negative numbers count from the end.
    descending : bool
        Whether the greatest element is first.

    Returns
    -------
    tile
        Of the shape and type of `x`.
    """
    return _picked(x, dim, descending, x.shape[-1 if dim is None else dim])


def argsort(x: Tile, dim: Any = None, descending: bool = False) -> Tile:
    """Where the elements of the sorted tile were, as int32. Equal ones, and 0.0 and -0.0, keep their order."""
    axis = from_zero(-1 if dim is None else dim, len(x.shape))
    return _to_last(ops.cast(_order(_to_last(x, axis), descending, x.shape[axis]), int32), axis)


def topk(x: Tile, k: int, dim: Any = None, return_indices: bool = False) -> Any:
    """The k greatest elements along a dimension, greatest first; NaN counts as least.

    Parameters
    ----------
    x : tile
        Of any shape, of integers or floats.
    k : int
        How many; a constant, 1 to the size of the dimension.
    dim : int, optional
        The dimension to choose along; the last one without.
    return_indices : bool
        Give the index of each element as well, int32. Equal elements, and 0.0 and -0.0, keep their order then.

    Returns
    -------
    tile, or (tile, tile)

    Examples
    --------
        values, indices = pto.topk(x, 4, return_indices=True)
    """
    if not return_indices:
        return _picked(x, dim, True, k)
    axis = from_zero(-1 if dim is None else dim, len(x.shape))
    indices = ops.cast(_order(_to_last(x, axis), True, k), int32)
    return _to_last(ops.gather(_to_last(x, axis), indices, -1), axis), _to_last(indices, axis)


def bitonic_merge(x: Tile, dim: Any = None, descending: bool = False) -> Tile:
    """A tile that goes up and then down along a dimension, in order."""
    return sort(x, dim, descending)


def _to_last(x: Tile, axis: int) -> Tile:
    """The dimension and the last one change places."""
    last = len(x.shape) - 1
    return ops.permute(x, tuple(last if d == axis else axis if d == last else d for d in range(len(x.shape))))


def _picked(x: Tile, dim: Any, descending: bool, count: int) -> Tile:
    """The first elements in order. The keys tell the elements, so that nothing has to be fetched."""
    axis = from_zero(-1 if dim is None else dim, len(x.shape))
    rows = _to_last(x, axis)
    if x.dtype.is_float and x.dtype.bits == 8:
        return ops.cast(_picked(ops.cast(x, float32), dim, descending, count), x.dtype)
    return _to_last(_elements(_first(_keys(rows, descending), count), x.dtype, descending), axis)


def _gathered(x: Tile, dim: Any, descending: bool, count: int) -> Tile:
    """The first elements in order, each from where it was: an index is constant nearby, and so has no gradient."""
    axis = from_zero(-1 if dim is None else dim, len(x.shape))
    rows = _to_last(x, axis)
    return _to_last(ops.gather(rows, ops.cast(_order(rows, descending, count), int32), -1), axis)


WITH_GRADIENTS = ((_picked, _gathered),)


def _first(keys: Tile, count: int) -> Tile:
    """The least keys of the last dimension in order. A few of many come out of blocks, of which two and two meet."""
    last, size, width = len(keys.shape) - 1, keys.shape[-1], next_power_of_2(count if count > 16 else 16)
    if size <= 4 * width:
        return part(sort_keys(keys), last, 0, count)
    if count <= 8 and size >= _MANY:
        return part(sort_keys(_some(keys, 8 if count > 4 else 4)), last, 0, count)
    shape = (*keys.shape[:-1], cdiv(size, width) * width)
    if shape != keys.shape:
        index, greatest = positions(shape, last), keys.dtype.integer_range[1]
        keys = ops.where(index < size, ops.gather(keys, ops.minimum(index, size - 1), last), greatest)
    blocks = sort_keys(ops.reshape(keys, (*shape[:-1], shape[-1] // width, width)))
    return ops.reshape(part(_narrowed(blocks, None), last + 1, 0, count), (*shape[:-1], count))


def _some(keys: Tile, count: int) -> Tile:
    """Some keys of the last dimension, with so many of the least: as many rows, each column of which is in order."""
    last, size = len(keys.shape) - 1, keys.shape[-1]
    columns = size // count // _COLUMNS * _COLUMNS
    rows = _ordered(tuple(part(keys, last, i * columns, columns) for i in range(count)))
    narrowest, lead = _narrowest(rows, None), keys.shape[:-1]
    index = positions((*lead, count, _COLUMNS), last)
    some = ops.reshape(narrowest[0], (*lead, 1, _COLUMNS))
    for i in ops.static_range(1, count):
        some = ops.where(index == i, ops.reshape(narrowest[i], (*lead, 1, _COLUMNS)), some)
    some = ops.reshape(some, (*lead, count * _COLUMNS))
    if size == count * columns:
        return some
    return cat(some, part(keys, last, count * columns, size - count * columns), dim=last)


def _narrowest(rows: Any, tail: Any) -> Any:
    """Of rows whose columns are in order, few columns that have the least keys of all."""
    last, n = len(rows[0].shape) - 1, rows[0].shape[-1]
    half = n // (2 * _COLUMNS) * _COLUMNS
    if n > 2 * half:
        unpaired = tuple(part(row, last, 2 * half, _COLUMNS) for row in rows)
        tail = unpaired if tail is None else _least(unpaired, tail)
    if half == 0:
        return tail
    left, right = tuple(part(row, last, 0, half) for row in rows), tuple(part(row, last, half, half) for row in rows)
    return _narrowest(_least(left, right), tail)


def _least(a: Any, b: Any) -> Any:
    """The least keys of two times as many in order, in order, each column by itself."""
    return _smooth(tuple(ops.minimum(a[i], b[len(b) - 1 - i]) for i in range(len(a))))


def _smooth(a: Any) -> Any:
    """In order what goes up and then down."""
    half = len(a) // 2
    if half == 0:
        return a
    low = tuple(ops.minimum(a[i], a[half + i]) for i in range(half))
    return (*_smooth(low), *_smooth(tuple(ops.maximum(a[i], a[half + i]) for i in range(half))))


def _ordered(a: Any) -> Any:
    """Tiles in order, each column by itself."""
    half = len(a) // 2
    if half == 0:
        return a
    x, y = _ordered(a[:half]), _ordered(a[half:])
    low = tuple(ops.minimum(x[i], y[half - 1 - i]) for i in range(half))
    return (*_smooth(low), *_smooth(tuple(ops.maximum(x[i], y[half - 1 - i]) for i in range(half))))


def _narrowed(blocks: Tile, tail: Any) -> Tile:
    """One block in order with the least keys of all, which are in order each."""
    axis = len(blocks.shape) - 2
    half = blocks.shape[axis] // 2
    if blocks.shape[axis] % 2 == 1:
        unpaired = part(blocks, axis, 2 * half, 1)
        tail = unpaired if tail is None else _met(unpaired, tail)
    if half == 0:
        return tail
    best = _met(part(blocks, axis, 0, half), part(blocks, axis, half, half))
    return _narrowed(best, tail)


def _met(a: Tile, b: Tile) -> Tile:
    """The least keys of two blocks in order: of those that lie opposite to each other when one is turned round."""
    return sort_keys(ops.minimum(a, flip(b)))


def _keys(x: Tile, descending: bool) -> Tile:
    """int32 or int64 in the order of the elements, one for each: the bits of floats with the sign apart, NaN last."""
    integer, signed = int64 if x.dtype.bits == 64 else int32, _signed(x.dtype)
    if not x.dtype.is_float:
        keys = ops.cast(x, integer) if x.dtype.bits < 32 else ops.bitcast(x, integer)
        keys = keys ^ integer.integer_range[0] if x.dtype in (uint32, uint64) else keys
        return ~keys if descending else keys
    bits = ops.bitcast(x, signed)
    keys = ops.where(bits < 0, bits ^ signed.integer_range[1], bits)
    keys = ~keys if descending else keys
    return ops.cast(keys - _nans(x.dtype), integer)  # wraps: the NaN in front of all go behind those at the end


def _elements(keys: Tile, dtype: Any, descending: bool) -> Tile:
    """The elements that keys stand for."""
    if not dtype.is_float:
        keys = ~keys if descending else keys
        keys = keys ^ keys.dtype.integer_range[0] if dtype in (uint32, uint64) else keys
        return ops.cast(keys, dtype) if dtype.bits < 32 else ops.bitcast(keys, dtype)
    signed = _signed(dtype)
    keys = ops.cast(keys, signed) + _nans(dtype)
    keys = ~keys if descending else keys
    return ops.bitcast(ops.where(keys < 0, keys ^ signed.integer_range[1], keys), dtype)


def _signed(dtype: Any) -> Any:
    """The integer with the width of a dtype."""
    return int16 if dtype.bits == 16 else int32 if dtype.bits == 32 else int64


def _nans(dtype: Any) -> int:
    """How many NaN of one sign there are."""
    return 0x7F if dtype == bfloat16 else 0x3FF if dtype.bits == 16 else 0x7FFFFF if dtype.bits == 32 else 2**52 - 1


def _order(x: Tile, descending: bool, count: int) -> Tile:
    """Positions along the last dimension of the first elements in order; int64."""
    last = len(x.shape) - 1
    index = positions(x.shape, last, int64)
    if x.dtype.bits < 64:
        if x.dtype.is_float:
            keys = _float_keys(ops.cast(x, float32), descending)
        else:
            keys = ops.cast(_keys(x, descending), int64)
        return _first((keys << 32) | index, count) & 0xFFFFFFFF
    # By the lower halves of the keys, then, as equal ones keep their order, by the upper halves.
    keys = _wide_keys(x, descending)
    first = sort_keys(((keys ^ 0x80000000) << 32) | index) & 0xFFFFFFFF
    upper = ops.gather(keys, first, -1) & -0x100000000
    second = part(sort_keys(upper | index), last, 0, count) & 0xFFFFFFFF
    return ops.gather(first, second, -1)


def _float_keys(x: Tile, descending: bool) -> Tile:
    """int64 with the order of float32: bits with the sign apart, both zeros alike, NaN last."""
    bits = ops.bitcast(ops.where(x == 0, 0.0, x), int32)
    keys = ops.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    keys = ~keys if descending else keys
    return ops.cast(ops.where(isnan(x), 0x7FFFFFFF, keys), int64)


def _wide_keys(x: Tile, descending: bool) -> Tile:
    """int64 with the order of 64-bit numbers."""
    if x.dtype == float64:
        keys = ops.bitcast(ops.where(x == 0, 0.0, x), int64)
        keys = ops.where(keys < 0, keys ^ 0x7FFFFFFFFFFFFFFF, keys)
        return ops.where(isnan(x), 0x7FFFFFFFFFFFFFFF, ~keys if descending else keys)
    keys = ops.bitcast(x, int64) ^ (-0x8000000000000000 if x.dtype == uint64 else 0)
    return ~keys if descending else keys
