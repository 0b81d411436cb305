"""What a value of Tile IR is while it is lowered: a number, a tile in UB, or a tile that nothing has made yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pypto.backends.ascend.blockir.ir import Param, Scalar, View, fold
from pypto.backends.ascend.tile.ub_layout import Layout
from pypto.ir.core import Op
from pypto.ir.types import DType


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile in UB. One of bools has a bit for each element, in bytes."""

    shape: tuple[int, ...]
    dtype: DType
    view: View
    layout: Layout

    def reshaped(self, shape: tuple[int, ...], layout: Layout) -> Tile:
        return replace(self, shape=shape, layout=layout)


@dataclass(frozen=True, slots=True)
class Splat:
    """One number in every element."""

    shape: tuple[int, ...]
    dtype: DType
    value: Scalar


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A tile repeated along its dimensions of size 1."""

    shape: tuple[int, ...]
    of: Tile

    @property
    def dtype(self) -> DType:
        return self.of.dtype


@dataclass(frozen=True, slots=True)
class Deferred:
    """What an op will make of its operands: each element where it is asked for, or the tile where that is needed."""

    shape: tuple[int, ...]
    op: Op
    operands: tuple[AnyTile, ...]

    @property
    def dtype(self) -> DType:
        return self.op.result.dtype


@dataclass(frozen=True, slots=True)
class Later:
    """A load that its only reader does, a stretch at a time; `area` is what `region.area_of` says of it."""

    shape: tuple[int, ...]
    dtype: DType
    area: object
    other: Splat | None


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address: so many elements from the start of an array."""

    array: Param
    offset: Scalar = 0

    def moved(self, by: Scalar) -> Pointer:
        return Pointer(self.array, fold("+", self.offset, by))


@dataclass(frozen=True, slots=True)
class Pointers:
    """A tile of addresses in one array: the sum of offsets, all of one shape."""

    array: Param
    offsets: tuple[AnyTile, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.offsets[0].shape

    def each(self, change: Callable[[AnyTile], AnyTile]) -> Pointers:
        return Pointers(self.array, tuple(map(change, self.offsets)))


@dataclass(frozen=True, slots=True)
class SelectedPointer:
    """Pointers into several arrays, of which the variable `which` tells the one."""

    which: str
    choices: tuple[Pointer | Pointers, ...]


AnyTile = Tile | Splat | Broadcast | Deferred
Held = Scalar | AnyTile | Pointer | Pointers | SelectedPointer | Later
