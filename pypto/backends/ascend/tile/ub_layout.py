"""Layouts of tiles in UB: rows one after the other, padded so that tiles of all dtypes of a kernel lie alike.

A row begins at a whole block of 32 bytes, as copies need it. A tile as a whole is padded to whole repeats, so that an
elementwise instruction runs over it in one go, padding included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pypto.blocking import round_up
from pypto.ir.core import Function
from pypto.ir.types import TileType

BLOCK = 32  # bytes in UB that an address, a row and a copy are multiples of
LANES: Final = 128  # elements of the longest repeat: a tile of any dtype fills whole repeats


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tile lies in UB. Dimensions of size 1 do not count; all others but the last one are rows.

    All `count` elements are there and have been written, so that an elementwise instruction may run over them.
    """

    rows: int  # number of rows
    cols: int  # elements of a row
    pitch: int  # elements from one row to the next
    count: int  # elements of the tile in whole repeats

    @property
    def is_dense(self) -> bool:
        """Whether no padding lies between rows."""
        return self.rows == 1 or self.pitch == self.cols


@dataclass(frozen=True, slots=True)
class Grain:
    """The padding of a kernel's layouts."""

    row: int  # elements that a row is padded to
    total: int  # elements that a tile is padded to

    def layout(self, shape: tuple[int, ...]) -> Layout:
        """Return the layout of a tile of some shape."""
        sizes = [n for n in shape if n != 1] or [1]
        rows = math.prod(sizes[:-1])
        cols = sizes[-1]
        pitch = cols if rows == 1 else round_up(cols, self.row)
        return Layout(rows, cols, pitch, round_up(rows * pitch, self.total))

    def strides(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the elements from one index to the next in each dimension; 0 for dimensions of size 1."""
        strides = []
        step = 1
        pitch = self.layout(shape).pitch
        for n in reversed(shape):
            strides.append(step if n != 1 else 0)
            if n != 1:
                step = pitch if step == 1 else step * n
        return tuple(reversed(strides))


def grain_of(function: Function) -> Grain:
    """Return the padding of a function: rows of all its dtypes begin at whole blocks; bools come from bytes."""
    tiles = [
        v.tile
        for op in function.walk()
        for v in op.results
        if isinstance(v.type, TileType) and v.shape and not v.tile.is_ptr
    ]
    return Grain(BLOCK // min((t.dtype.itemsize for t in tiles), default=4), LANES)
