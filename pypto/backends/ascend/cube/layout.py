"""How matrices lie in the memories of the cube core.

All of it is made of fractals: 16 rows of 32 bytes, one after the other. In L1 fractals go down the rows first (NZ). An
operand whose rows have K down them (the right one as a matrix product has it, or a transposed left one) is brought into
order by loads that turn its fractals: on 3510 one load for all of them, on 2201 loads of strips of 16 rows or columns.

| memory | rows of a fractal | order of fractals |
|---|---|---|
| L0A (ZZ, of 3510: NZ) | M | along K, then M; of 3510: along M, then K |
| L0B (ZN) | N | along N, then K |
| L0C (NZ) | M | along M, then N |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pypto.backends.ascend.blockir.ir import Expr, Scalar, View, fold
from pypto.backends.ascend.target import AscendTarget
from pypto.ir.types import DType, bfloat16, float16, float32, int8, int32

SIDE: Final = 16  # rows of a fractal
BLOCK_BYTES: Final = 32  # of one row of a fractal
FRACTAL_BYTES: Final = SIDE * BLOCK_BYTES
OPERANDS: Final = (float16, bfloat16, float32, int8)


def lanes(dtype: DType) -> int:
    """Elements in a row of a fractal."""
    return BLOCK_BYTES // dtype.itemsize


def square(dtype: DType) -> int:
    """Sides of what a load turns: a fractal of 16-bit elements, two fractals of others."""
    return max(SIDE, lanes(dtype))


def sum_type(dtype: DType) -> DType:
    """What products of a dtype are added up in."""
    return int32 if dtype == int8 else float32


def at(view: View, offset: Scalar) -> View:
    """The view, begun so many elements later."""
    return replace(view, offset=fold("+", view.offset, offset))


def times(value: Scalar, factor: Scalar) -> Scalar:
    """A product whose constants are one."""
    if isinstance(factor, int) and isinstance(value, Expr) and value.op == "*" and isinstance(value.args[1], int):
        return fold("*", value.args[0], value.args[1] * factor)
    return fold("*", value, factor)


def in_units(value: Scalar, unit: int, rest: int = 0) -> Scalar:
    """How many units a multiple of them is; with a `rest`, how many are in that much more than any value."""
    if isinstance(value, Expr) and value.op == "*" and isinstance(value.args[1], int) and value.args[1] % unit == 0:
        return fold("*", value.args[0], value.args[1] // unit)
    return fold("//", fold("+", value, rest), unit)


def ceil_div(value: Scalar, unit: int) -> Scalar:
    """How many units cover a value."""
    return in_units(value, unit, unit - 1)


def round_up(value: Scalar, unit: int) -> Scalar:
    return fold("*", ceil_div(value, unit), unit)


@dataclass(frozen=True, slots=True)
class Side:
    """One operand of a product: left (M by K) or right (K by N), and whether K runs down its rows in memory."""

    dtype: DType
    is_left: bool
    k_down: bool
    target: AscendTarget

    @property
    def fractal(self) -> int:
        """Elements of a fractal."""
        return SIDE * lanes(self.dtype)

    @property
    def unit(self) -> int:
        """What M or N is rounded up to in L0."""
        return square(self.dtype) if self.k_down else SIDE

    @property
    def depth_unit(self) -> int:
        """What K is rounded up to in L0."""
        return square(self.dtype) if self.k_down else lanes(self.dtype)

    @property
    def layout(self) -> str:
        """Of the rows that GM has, in L1."""
        return "ZZ" if self.in_strips else "NZ"

    @property
    def in_strips(self) -> bool:
        """Whether it lies in L1 in strips of 16 rows: fractals that are turned together are neighbours then."""
        return self.k_down and self.dtype.itemsize == 4 and not self.target.loads_panels


@dataclass(frozen=True, slots=True)
class Panel:
    """A tile of an operand in L1: room for `outer` along M or N and `depth` along K."""

    side: Side
    view: View
    outer: int
    depth: int

    @property
    def rows(self) -> int:
        """Rows that it has room for."""
        return room(self.side, self.outer, self.depth)[0]

    @property
    def cols(self) -> int:
        return room(self.side, self.outer, self.depth)[1]

    def row(self, index: Scalar) -> View:
        """Where a row begins."""
        wide = lanes(self.side.dtype)
        if not self.side.in_strips:
            return at(self.view, times(index, wide))
        whole = fold("*", fold("//", index, SIDE), SIDE * self.cols)
        return at(self.view, fold("+", whole, fold("*", fold("%", index, SIDE), wide)))

    def step(self, k: Scalar) -> View:
        """Where depth `k` begins, which is a multiple of whole fractals."""
        if self.side.in_strips:
            return at(self.view, times(k, self.cols))
        return self.row(k) if self.side.k_down else at(self.view, times(k, self.rows))


def room(side: Side, outer: int, depth: int) -> tuple[int, int]:
    """Rows and columns of a panel in L1."""
    rows, cols = (depth, outer) if side.k_down else (outer, depth)
    wide = square(side.dtype) if side.k_down else lanes(side.dtype)
    return -(-rows // side.unit) * side.unit, -(-cols // wide) * wide
