"""Tensor descriptors: arrays with a block shape, of which blocks are loaded and stored. Always checked for bounds."""

from __future__ import annotations

from typing import Any

from pypto.ir.types import int64
from pypto.language import ops
from pypto.language.aggregates import aggregate
from pypto.language.blocks import _indices, _load, _store
from pypto.ops.public import constexpr

Tile = Any

__all__ = ["TensorDescriptor", "load_tensor_descriptor", "make_tensor_descriptor", "store_tensor_descriptor"]


@aggregate
class tensor_descriptor:
    """An array with a block shape. Made by `make_tensor_descriptor`, or passed as a `TensorDescriptor`."""

    base: Tile
    shape: Tile
    strides: Tile
    block_shape: constexpr
    padding: constexpr

    @property
    def dtype(self) -> Any:
        """The type of its elements."""
        return self.base.dtype.element_ty

    def load(self, offsets: Any) -> Tile:
        """The block at the offsets. Elements that do not exist are 0, or NaN where the descriptor says so."""
        at, steps = placed(self, offsets), _indices(self.strides, "strides")
        return _load(self.base, at, steps, self.shape, self.block_shape, None, self.padding)

    def store(self, offsets: Any, value: Tile) -> None:
        """Writes a block at the offsets. Elements that do not exist are not written."""
        at, steps = placed(self, offsets), _indices(self.strides, "strides")
        block = value if len(value.shape) == 0 else ops.reshape(value, self.block_shape)
        _store(self.base, at, steps, self.shape, self.block_shape, None, block)

    def gather(self, x_offsets: Tile, y_offset: Any) -> Tile:
        """Rows at the positions of a tile, with as many columns as the block from y_offset on."""
        pointers, mask = rows(self, x_offsets, y_offset)
        return ops.load(pointers, mask, ops.cast(float("nan") if self.padding == "nan" else 0, self.dtype))

    def scatter(self, value: Tile, x_offsets: Tile, y_offset: Any) -> None:
        """Writes rows at the positions of a tile, in the columns from y_offset on."""
        pointers, mask = rows(self, x_offsets, y_offset)
        ops.store(pointers, value, mask)

    def atomic_add(self, offsets: Any, value: Tile) -> None:
        """Adds a block to the array, elementwise and atomically; the others are likewise."""
        pointers, mask = elements(self, offsets)
        ops.atomic_add(pointers, value, mask)

    def atomic_min(self, offsets: Any, value: Tile) -> None:
        pointers, mask = elements(self, offsets)
        ops.atomic_min(pointers, value, mask)

    def atomic_max(self, offsets: Any, value: Tile) -> None:
        pointers, mask = elements(self, offsets)
        ops.atomic_max(pointers, value, mask)

    def atomic_and(self, offsets: Any, value: Tile) -> None:
        pointers, mask = elements(self, offsets)
        ops.atomic_and(pointers, value, mask)

    def atomic_or(self, offsets: Any, value: Tile) -> None:
        pointers, mask = elements(self, offsets)
        ops.atomic_or(pointers, value, mask)

    def atomic_xor(self, offsets: Any, value: Tile) -> None:
        pointers, mask = elements(self, offsets)
        ops.atomic_xor(pointers, value, mask)


_descriptor: Any = tensor_descriptor  # a class with the fields as parameters, which type checkers cannot see


class TensorDescriptor:
    """A tensor descriptor made outside of kernels, to be passed as an argument.

    Parameters
    ----------
    base : array
        A numpy array or a tensor, of any layout that `shape` and `strides` describe.
    shape, strides : sequence of int
        Of the array; strides in elements.
    block_shape : sequence of int
        Sizes of the blocks that a kernel loads and stores.
    padding : str
        What elements beyond the array are when they are loaded: "zero" or "nan".

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.jit
    ... def double(x, y):
    ...     i = pto.program_id(0) * 4
    ...     y.store([i], x.load([i]) * 2)
    >>> x, y = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    >>> double[2](pto.TensorDescriptor.from_tensor(x, [4]), pto.TensorDescriptor.from_tensor(y, [4]))
    >>> y
    array([ 0.,  2.,  4.,  6.,  8., 10.], dtype=float32)
    """

    def __init__(self, base: Any, shape: Any, strides: Any, block_shape: Any, padding: str = "zero") -> None:
        if not len(shape) == len(strides) == len(block_shape):
            ranks = f"{len(shape)}, {len(strides)} and {len(block_shape)}"
            raise ValueError(f"shape, strides and block_shape have one entry per dimension, not {ranks} entries")
        self.base, self.shape, self.strides = base, shape, strides
        self.block_shape, self.padding = block_shape, padding

    @classmethod
    def from_tensor(cls, tensor: Any, block_shape: Any, padding: str = "zero") -> TensorDescriptor:
        """The descriptor of a whole array."""
        bytes_or_elements = tensor.stride() if callable(getattr(tensor, "stride", None)) else tensor.strides
        size = 1 if callable(getattr(tensor, "stride", None)) else tensor.itemsize
        return cls(tensor, tuple(tensor.shape), tuple(s // size for s in bytes_or_elements), block_shape, padding)

    def as_argument(self) -> Any:
        """What a kernel gets."""
        block = tuple(map(int, self.block_shape))
        return _descriptor(self.base, tuple(self.shape), tuple(self.strides), block, self.padding)

    def __repr__(self) -> str:
        return f"TensorDescriptor(shape={self.shape}, strides={self.strides}, block_shape={self.block_shape})"


def make_tensor_descriptor(base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero") -> Any:
    """A tensor descriptor, whose methods `load`, `store`, `gather`, `scatter` and `atomic_…` work on blocks.

    Parameters
    ----------
    base : pointer or array
        Address of the array's first element.
    shape, strides : tuple of int
        Of the array; strides in elements. May be run-time values.
    block_shape : tuple of int
        Sizes of the blocks, of any size; constants.
    padding_option : str
        What elements beyond the array are when they are loaded: "zero" or "nan".

    Examples
    --------
        desc = pto.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
        t = desc.load([i, j])
    """
    rank = len(block_shape)
    assert len(shape) == rank and len(strides) == rank, (
        f"shape, strides and block_shape of a tensor descriptor have one entry per dimension, here {rank}"
    )
    sizes, steps = _indices(shape, "shape"), _indices(strides, "strides")
    return _descriptor(base + 0, sizes, steps, tuple(block_shape), padding_option)


def load_tensor_descriptor(desc: Any, offsets: Any) -> Tile:
    """The block of a tensor descriptor at the offsets."""
    return desc.load(offsets)


def store_tensor_descriptor(desc: Any, offsets: Any, value: Tile) -> None:
    """Writes a block of a tensor descriptor at the offsets."""
    desc.store(offsets, value)


def placed(desc: Any, offsets: Any) -> Any:
    assert len(offsets) == len(desc.block_shape), f"one offset per dimension, here {len(desc.block_shape)}"
    return _indices(offsets, "offsets")


def rows(desc: Any, x_offsets: Any, y_offset: Any) -> Any:
    """Pointers to whole rows of the block, and which of them exist."""
    assert len(desc.block_shape) == 2, "`gather` and `scatter` take a descriptor of two dimensions"
    (height, width), (down, right) = _indices(desc.shape, "shape"), _indices(desc.strides, "strides")
    i = ops.cast(x_offsets, int64)[:, None]
    j = (y_offset + ops.cast(ops.arange(0, desc.block_shape[1]), int64))[None, :]
    return desc.base + (i * down + j * right), (i >= 0) & (i < height) & (j >= 0) & (j < width)


def elements(desc: Any, offsets: Any) -> Any:
    """Pointers to the elements of a block, and which of them exist."""
    pointers, mask, rank = desc.base, True, len(desc.block_shape)
    sizes, steps = _indices(desc.shape, "shape"), _indices(desc.strides, "strides")
    dims = zip(placed(desc, offsets), desc.block_shape, sizes, steps)  # noqa: B905
    for d, (offset, size, extent, stride) in enumerate(dims):
        line = ops.cast(ops.arange(0, size), int64)
        i = offset + ops.reshape(line, (1,) * d + (size,) + (1,) * (rank - 1 - d))
        pointers = pointers + i * stride
        mask = mask & ((i >= 0) & (i < extent))
    return pointers, mask
