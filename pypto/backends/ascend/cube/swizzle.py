"""The order of programs: cores that work at the same time share rows and columns of operands in L2."""

from __future__ import annotations

from typing import Final

from pypto.backends.ascend.blockir.ir import Expr, Scalar, fold
from pypto.backends.ascend.tile.cube_regions import CubeRegions
from pypto.backends.ascend.vector.builder import Lowering
from pypto.ir.types import int32

BAND_WIDTH: Final = 4  # rows of blocks that go together: 24 cores are 4 by 6 blocks then


def is_swizzled(parts: CubeRegions) -> bool:
    """Whether blocks of results go along the first two axes of the grid, and operands along one of them each."""
    axes = {op.attrs["axis"] for op in parts.function.walk() if op.name == "program_id"}
    return {0, 1} <= axes and bool(parts.dots)


def swizzled_id(low: Lowering, axis: int) -> Scalar:
    """The number of a program along the first or the second axis: in bands of rows, along the columns of each.

    In a band of 4 rows, programs go down the rows first, so that 24 of them are 4 by 6 blocks: they read 10 rows and
    columns of blocks, where 24 programs along one axis would read 25.
    """
    x, y = "grid_x", "grid_y"
    inside: Scalar = Expr("%", ("program", Expr("*", (Expr("i64", (x,)), y))))
    band = low.let("band", int32, Expr("i32", (Expr("//", (inside, fold("*", Expr("i64", (y,)), BAND_WIDTH))),)))
    rest = low.let("in_band", int32, Expr("i32", (Expr("%", (inside, fold("*", Expr("i64", (y,)), BAND_WIDTH))),)))
    rows = low.let("band_rows", int32, fold("min", BAND_WIDTH, fold("-", x, fold("*", band, BAND_WIDTH))))
    if axis == 0:
        return fold("+", fold("*", band, BAND_WIDTH), Expr("%", (rest, rows)))
    return Expr("//", (rest, rows))
