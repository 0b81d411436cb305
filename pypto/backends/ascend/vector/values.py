"""What a value of Tile IR is while it is lowered: a number, a tile in UB, or a tile that nothing has made yet."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from pypto.backends.ascend.blockir.ir import Param, Scalar, View, fold
from pypto.ir.core import Op
from pypto.ir.types import DType

BLOCK = 32  # bytes in UB that an address, a row and a copy are multiples of


def rounded(n: int, to: int) -> int:
    return -(-n // to) * to


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tile lies in UB: rows one after the other, each at a multiple of `pitch` elements.

    Dimensions of size 1 do not count; all others but the last one are rows. `count` elements are there and have been
    written, in whole repeats, so that an elementwise instruction may run over all of them.
    """

    rows: int
    cols: int
    pitch: int
    count: int

    @property
    def is_dense(self) -> bool:
        return self.rows == 1 or self.pitch == self.cols


@dataclass(frozen=True, slots=True)
class Grain:
    """What layouts of a kernel round to, so that tiles of all its dtypes lie alike: elements of a row, and in all."""

    row: int
    total: int

    def layout(self, shape: tuple[int, ...]) -> Layout:
        sizes = [n for n in shape if n != 1] or [1]
        rows, cols = math.prod(sizes[:-1]), sizes[-1]
        pitch = cols if rows == 1 else rounded(cols, self.row)
        return Layout(rows, cols, pitch, rounded(rows * pitch, self.total))

    def strides(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Elements in UB from one index to the next, of each dimension; 0 for those of size 1."""
        strides, step, pitch = [], 1, self.layout(shape).pitch
        for n in reversed(shape):
            strides.append(step if n != 1 else 0)
            if n != 1:
                step = pitch if step == 1 else step * n
        return tuple(reversed(strides))


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
