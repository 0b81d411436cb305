"""Block pointers: a block of an array, with its place."""

from __future__ import annotations

from typing import Any

from pypto.ir.types import int64
from pypto.language import ops
from pypto.language.aggregates import aggregate
from pypto.ops.memory import UNBOUNDED
from pypto.ops.public import Intrinsic, constexpr

Tile = Any

__all__ = ["advance", "make_block_ptr"]

# What these mean is known to the front end: integers in 64 bits, and structured accesses.
_indices = Intrinsic("block_indices", "")
_tile_load = Intrinsic("tile_load", "")
_tile_store = Intrinsic("tile_store", "")


def _moved(places: Any, offsets: Any) -> Any:
    """Places, each of which is moved by a step; by 0 it stays the value that it is."""
    steps = _indices(offsets, "offsets")
    assert len(places) == len(steps), f"one offset per dimension, here {len(places)}"
    pairs = zip(places, steps)  # noqa: B905
    return tuple(x if isinstance(s, constexpr) and s == 0 else x + s for x, s in pairs)


def _operands(base: Any, offsets: Any, strides: Any, sizes: Any, block: Any, checked: Any) -> Any:
    """Of a structured access. Where a dimension is not checked every position exists: there the base moves."""
    every = tuple(range(len(block)))
    dims = every if checked is None else checked if isinstance(checked, tuple) else (checked,)
    for d in dims:
        assert d in every, f"boundary_check: {d} is no dimension of a block with {len(block)}"
    for d in every:
        if d not in dims:
            base = base + offsets[d] * strides[d]
            offsets = (*offsets[:d], 0, *offsets[d + 1 :])
            sizes = (*sizes[:d], UNBOUNDED, *sizes[d + 1 :])
    return base, *offsets, *strides, *sizes


def _load(base: Any, offsets: Any, strides: Any, sizes: Any, block: Any, checked: Any, padding: Any) -> Tile:
    assert padding in ("", "zero", "nan", None), f"padding_option: {padding} is none of zero and nan"
    where = _operands(base, offsets, strides, sizes, block, checked)
    if padding == "nan":
        where = (*where, ops.full(block, float("nan"), base.dtype.element_ty))
    return _tile_load(block, *where)


def _store(base: Any, offsets: Any, strides: Any, sizes: Any, block: Any, checked: Any, value: Any) -> None:
    data = ops.broadcast_to(ops.cast(value, base.dtype.element_ty), block)
    _tile_store(block, *_operands(base, offsets, strides, sizes, block, checked), data)


@aggregate
class block_pointer:
    """A block of an array. Made by `make_block_ptr`, moved by `advance`."""

    base: Tile
    shape: Tile
    strides: Tile
    offsets: Tile
    block_shape: constexpr
    order: constexpr

    @property
    def dtype(self) -> Any:
        """The type of pointers to its elements."""
        return self.base.dtype

    @property
    def type(self) -> Any:
        return self.base.dtype

    def advance(self, offsets: Any) -> Any:
        return advance(self, offsets)

    def load(
        self: Any, mask: Any = None, other: Any = None, boundary_check: Any = (), padding_option: Any = "",
        cache_modifier: Any = "", eviction_policy: Any = "", volatile: Any = False,
    ) -> Tile:  # fmt: skip
        assert mask is None and other is None, "a block pointer takes `boundary_check` in place of `mask` and `other`"
        base, sizes, strides, offsets, block, _ = self
        return _load(base, offsets, strides, sizes, block, boundary_check or (), padding_option)

    def store(
        self: Any, value: Any, mask: Any = None, boundary_check: Any = (), cache_modifier: Any = "",
        eviction_policy: Any = "",
    ) -> None:  # fmt: skip
        assert mask is None, "a block pointer takes `boundary_check` in place of `mask`"
        base, sizes, strides, offsets, block, _ = self
        _store(base, offsets, strides, sizes, block, boundary_check or (), value)


_block_pointer: Any = block_pointer  # a class with the fields as parameters, which type checkers cannot see


def make_block_ptr(base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any = ()) -> Any:
    """A pointer to a block of an array, for `load`, `store` and `advance`.

    Parameters
    ----------
    base : pointer or array
        Address of the array's first element.
    shape, strides : tuple of int
        Of the array; strides in elements. May be run-time values.
    offsets : tuple of int
        Position of the block in the array. May be run-time values.
    block_shape : tuple of int
        Sizes of the block, of any size; constants.
    order : tuple of int
        Accepted; has no meaning here.

    Examples
    --------
        p = pto.make_block_ptr(x, (M, N), (N, 1), (i * BM, 0), (BM, BN), (1, 0))
        t = pto.load(p, boundary_check=(0, 1), padding_option="zero")
        p = pto.advance(p, (0, BN))
    """
    rank = len(block_shape)
    assert len(shape) == rank and len(strides) == rank and len(offsets) == rank, (
        f"shape, strides, offsets and block_shape of a block pointer have one entry per dimension, here {rank}"
    )
    sizes, steps = _indices(shape, "shape"), _indices(strides, "strides")
    places = tuple(ops.cast(x, int64) for x in _indices(offsets, "offsets"))
    return _block_pointer(base + 0, sizes, steps, places, block_shape, order)


def advance(base: Any, offsets: Any) -> Any:
    """A block pointer moved by a number of elements along each dimension.

    Parameters
    ----------
    base : block pointer
    offsets : tuple of int
        May be run-time values.
    """
    pointer, sizes, strides, places, block, order = base
    return _block_pointer(pointer, sizes, strides, _moved(places, offsets), block, order)
