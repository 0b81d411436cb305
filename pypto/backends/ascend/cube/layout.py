"""Views of matrices in L1, and arithmetic on sizes that may be known only at run time.

Sizes in fractals are folded while code is generated: a product with a constant is divided exactly, so that loops over
fractals have constant bounds wherever possible. `tile/fractals.py` has the layouts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pypto.backends.ascend.blockir.ir import Expr, Scalar, View, fold
from pypto.backends.ascend.tile.fractals import SIDE, Side, lanes, room


def view_at(view: View, offset: Scalar) -> View:
    """Return a view that begins some elements later."""
    return replace(view, offset=fold("+", view.offset, offset))


def scaled(value: Scalar, factor: Scalar) -> Scalar:
    """Multiply a number by a factor, with constant factors merged."""
    if isinstance(factor, int) and isinstance(value, Expr) and value.op == "*" and isinstance(value.args[1], int):
        return fold("*", value.args[0], value.args[1] * factor)
    return fold("*", value, factor)


def in_units(value: Scalar, unit: int, rounding: int = 0) -> Scalar:
    """Divide a number by a unit that it is a multiple of; with `rounding`, add that first."""
    if isinstance(value, Expr) and value.op == "*" and isinstance(value.args[1], int) and value.args[1] % unit == 0:
        return fold("*", value.args[0], value.args[1] // unit)
    return fold("//", fold("+", value, rounding), unit)


def ceil_div(value: Scalar, unit: int) -> Scalar:
    """Return the number of units that cover a value."""
    return in_units(value, unit, unit - 1)


def round_up(value: Scalar, unit: int) -> Scalar:
    """Round a value up to a multiple of a unit."""
    return fold("*", ceil_div(value, unit), unit)


@dataclass(frozen=True, slots=True)
class Panel:
    """A tile of an operand in L1."""

    side: Side  # which operand it is
    view: View  # where it lies
    outer: int  # room along M or N
    depth: int  # room along K

    @property
    def rows(self) -> int:
        """Rows that it has room for."""
        return room(self.side, self.outer, self.depth)[0]

    @property
    def cols(self) -> int:
        """Columns that it has room for."""
        return room(self.side, self.outer, self.depth)[1]

    def row_view(self, index: Scalar) -> View:
        """Return the view of a row."""
        lane_count = lanes(self.side.dtype)
        if not self.side.in_strips:
            return view_at(self.view, scaled(index, lane_count))
        strip = fold("*", fold("//", index, SIDE), SIDE * self.cols)
        return view_at(self.view, fold("+", strip, fold("*", fold("%", index, SIDE), lane_count)))

    def depth_view(self, k: Scalar) -> View:
        """Return the view of depth `k`, which is a multiple of whole fractals."""
        if self.side.in_strips:
            return view_at(self.view, scaled(k, self.cols))
        return self.row_view(k) if self.side.k_down else view_at(self.view, scaled(k, self.rows))
