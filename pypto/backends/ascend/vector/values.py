"""Lowered values: the form of a Tile IR value in the lowering, from a scalar to a tile in UB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pypto.backends.ascend.blockir.ir import Param, Scalar, View, fold
from pypto.backends.ascend.tile.ub_layout import Layout
from pypto.ir.core import Op
from pypto.ir.types import DType


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile in UB; a tile of bools has one bit for each element."""

    shape: tuple[int, ...]  # its shape
    dtype: DType  # its elements
    view: View  # where it lies
    layout: Layout  # rows and padding

    def reshaped(self, shape: tuple[int, ...], layout: Layout) -> Tile:
        """Return the same memory under another shape."""
        return replace(self, shape=shape, layout=layout)


@dataclass(frozen=True, slots=True)
class Splat:
    """One number in every element; it takes no memory."""

    shape: tuple[int, ...]  # its shape
    dtype: DType  # its elements
    value: Scalar  # the number


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A tile repeated along its dimensions of size 1."""

    shape: tuple[int, ...]  # its shape
    source: Tile  # the tile

    @property
    def dtype(self) -> DType:
        """Its elements."""
        return self.source.dtype


@dataclass(frozen=True, slots=True)
class Deferred:
    """An op that has not been computed: readers compute single elements, or the whole tile if they need it."""

    shape: tuple[int, ...]  # its shape
    op: Op  # the op
    operands: tuple[AnyTile, ...]  # its lowered operands

    @property
    def dtype(self) -> DType:
        """Its elements."""
        return self.op.result.dtype


@dataclass(frozen=True, slots=True)
class DeferredLoad:
    """A load that its only reader does, a chunk of rows at a time."""

    shape: tuple[int, ...]  # its shape
    dtype: DType  # its elements
    region: object  # the `AccessRegion` of the load
    other: Splat | None  # default of elements that do not exist


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address: an offset in elements into an array."""

    array: Param  # the array
    offset: Scalar = 0  # elements from its start

    def advanced(self, by: Scalar) -> Pointer:
        """Return the address some elements further."""
        return Pointer(self.array, fold("+", self.offset, by))


@dataclass(frozen=True, slots=True)
class Pointers:
    """A tile of addresses in one array; the offsets are added up."""

    array: Param  # the array
    offsets: tuple[AnyTile, ...]  # tiles of offsets

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.offsets[0].shape

    def each(self, change: Callable[[AnyTile], AnyTile]) -> Pointers:
        """Return pointers with each tile of offsets changed."""
        return Pointers(self.array, tuple(map(change, self.offsets)))


@dataclass(frozen=True, slots=True)
class SelectedPointer:
    """A pointer into one of several arrays."""

    which: str  # variable that says which one
    choices: tuple[Pointer | Pointers, ...]  # the pointer into each array


AnyTile = Tile | Splat | Broadcast | Deferred
LoweredValue = Scalar | AnyTile | Pointer | Pointers | SelectedPointer | DeferredLoad
