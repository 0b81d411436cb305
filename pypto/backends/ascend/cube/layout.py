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

from pypto.backends.ascend.blockir.ir import Expr, Scalar, View, fold
from pypto.backends.ascend.tile.fractals import SIDE, Side, lanes, room


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
