"""`triton.tools.ragged_tma`: parts of an array, of any size each, whose blocks are loaded and stored by a descriptor.

A part is rows `slice_off` to before `slice_off + slice_size` along one dimension. Nothing beyond it is touched.
"""

from __future__ import annotations

from typing import Any

from pypto.language import ops
from pypto.language.aggregates import aggregate_replace
from pypto.language.descriptors import TensorDescriptor

Tile = Any  # a tile or scalar; annotations in here are for readers


def create_ragged_descriptor(T: Any, block_shape: Any, ragged_dim: int = 0) -> TensorDescriptor:
    """A descriptor of a whole array, whose parts lie along `ragged_dim`; not along the last dimension.

    Parameters
    ----------
    T : array
        Of two or three dimensions, as Triton has it, or of more.
    block_shape : sequence of int
    ragged_dim : int
    """
    rank = len(T.shape)
    if len(block_shape) != rank or not -rank <= ragged_dim < rank or ragged_dim % rank == rank - 1:
        raise AssertionError(f"a ragged descriptor of rank {rank} has {rank} sizes, and parts along no last dimension")
    return TensorDescriptor.from_tensor(T, list(block_shape))


def _part(desc: Any, slice_off: Any, slice_size: Any, coords: Any, dim: Any) -> Any:
    """The descriptor that ends where a part does, and the place of a block in it."""
    last, at = slice_off + slice_size, slice_off + coords[dim]
    shape = (*desc.shape[:dim], last, *desc.shape[dim + 1 :])
    return aggregate_replace(desc, shape=shape), (*coords[:dim], at, *coords[dim + 1 :])


def load_ragged(TMA: Any, slice_off: Any, slice_size: Any, coords: Any, ragged_dim: Any = 0) -> Tile:
    """The block of a part at `coords`, which count from the part's first row; 0 beyond its end."""
    desc, at = _part(TMA, slice_off, slice_size, coords, ragged_dim)
    return desc.load(at)


def store_ragged(TMA: Any, slice_off: Any, slice_size: Any, coords: Any, data: Tile, ragged_dim: Any = 0) -> None:
    """Writes a block of a part, as far as the part goes."""
    desc, at = _part(TMA, slice_off, slice_size, coords, ragged_dim)
    desc.store(at, ops.cast(data, desc.dtype))


def atomic_add_ragged(TMA: Any, slice_off: Any, slice_size: Any, coords: Any, data: Tile, ragged_dim: Any = 0) -> None:
    """Adds to a block of a part, as far as the part goes, each element as a whole."""
    desc, at = _part(TMA, slice_off, slice_size, coords, ragged_dim)
    desc.atomic_add(at, data)


def names() -> dict[str, Any]:
    functions = (create_ragged_descriptor, load_ragged, store_ragged, atomic_add_ragged)
    return {x.__name__: x for x in functions}
