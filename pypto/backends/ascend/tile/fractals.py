"""Fractals: the blocks that matrices are made of in the memories of a cube core, and what sizes round to.

A fractal has 16 rows of 32 bytes, one after the other. In L1 they are ordered down the rows first (NZ). An operand with
K down its rows (a right one as the product has it, or a transposed left one) is transposed by the loads to L0: on 3510
by one load, on 2201 by loads of strips of 16 rows or columns.

| memory | rows of a fractal | order of fractals |
|---|---|---|
| L0A (ZZ, of 3510: NZ) | M | along K, then M; of 3510: along M, then K |
| L0B (ZN) | N | along N, then K |
| L0C (NZ) | M | along M, then N |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pypto.backends.ascend.target import FRACTAL_ROWS, AscendTarget
from pypto.ir.types import DType, bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, int8, int32

SIDE: Final = FRACTAL_ROWS
BLOCK_BYTES: Final = 32  # of one row of a fractal
FRACTAL_BYTES: Final = SIDE * BLOCK_BYTES
OPERANDS: Final = (float16, bfloat16, float32, int8, float8_e4m3fn, float8_e5m2)  # of which a chip may lack some
STAGES: Final = 2  # of L1, L0A and L0B: one is filled while the other is in use


def lanes(dtype: DType) -> int:
    """Return the elements in a row of a fractal."""
    return BLOCK_BYTES // dtype.itemsize


def square(dtype: DType) -> int:
    """Return the side of the square that a transposing load works on: one fractal of 16-bit elements, two of others."""
    return max(SIDE, lanes(dtype))


def sum_type(dtype: DType) -> DType:
    """Return the dtype that products of a dtype are accumulated in."""
    return int32 if dtype == int8 else float32


@dataclass(frozen=True, slots=True)
class Side:
    """One operand of a product."""

    dtype: DType  # its elements
    is_left: bool  # M by K, otherwise K by N
    k_down: bool  # whether K runs down its rows in memory
    target: AscendTarget  # the chip

    @property
    def fractal(self) -> int:
        """Elements of a fractal."""
        return SIDE * lanes(self.dtype)

    @property
    def unit(self) -> int:
        """The size that M or N is rounded up to in L0."""
        return square(self.dtype) if self.k_down else SIDE

    @property
    def depth_unit(self) -> int:
        """The size that K is rounded up to in L0."""
        return square(self.dtype) if self.k_down else lanes(self.dtype)

    @property
    def layout(self) -> str:
        """Layout in L1 of the rows that GM has."""
        return "ZZ" if self.in_strips else "NZ"

    @property
    def in_strips(self) -> bool:
        """Whether it lies in L1 in strips of 16 rows: then fractals that are transposed together are neighbours."""
        return self.k_down and self.dtype.itemsize == 4 and not self.target.loads_panels


def room(side: Side, outer: int, depth: int) -> tuple[int, int]:
    """Return the rows and columns of a panel in L1, rounded up."""
    rows, cols = (depth, outer) if side.k_down else (outer, depth)
    column_unit = square(side.dtype) if side.k_down else lanes(side.dtype)
    return -(-rows // side.unit) * side.unit, -(-cols // column_unit) * column_unit


@dataclass(frozen=True, slots=True)
class Blocking:
    """Block sizes of a product."""

    m: int  # rows in L0C
    n: int  # columns in L0C
    k: int  # depth of one step through L0
    depth: int  # depth of one panel in L1

    @property
    def steps(self) -> int:
        """Steps through L0 in one panel."""
        return -(-self.depth // self.k)
