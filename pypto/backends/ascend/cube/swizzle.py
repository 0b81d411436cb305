"""Program swizzling: renumbers programs so that cores that run at the same time share rows and columns in L2.

Programs go through bands of `BAND_WIDTH` rows, down the rows first. 24 cores then work on 8 by 3 blocks, which are
nearly a square of the result where blocks are 128 by 256; along one axis they would read 25 rows and columns of blocks.
It is legal because the programs of a grid are independent.
"""

from __future__ import annotations

from typing import Final

from pypto.backends.ascend.blockir.ir import Expr, Scalar, fold
from pypto.backends.ascend.tile.cube_regions import CubeRegions
from pypto.backends.ascend.vector.builder import Lowering
from pypto.ir.types import int32

BAND_WIDTH: Final = 8  # rows of blocks in a band: 24 cores are 8 by 3 blocks


def is_swizzled(regions: CubeRegions) -> bool:
    """Whether a kernel has products and a grid of two axes."""
    axes = {op.attrs["axis"] for op in regions.function.walk() if op.name == "program_id"}
    return {0, 1} <= axes and bool(regions.dots)


def swizzled_id(low: Lowering, axis: int) -> Scalar:
    """Return the number of a program along the first or the second axis."""
    x, y = "grid_x", "grid_y"
    position: Scalar = Expr("%", ("program", Expr("*", (Expr("i64", (x,)), y))))
    band = low.let("band", int32, Expr("i32", (Expr("//", (position, fold("*", Expr("i64", (y,)), BAND_WIDTH))),)))
    in_band = low.let("in_band", int32, Expr("i32", (Expr("%", (position, fold("*", Expr("i64", (y,)), BAND_WIDTH))),)))
    rows = low.let("band_rows", int32, fold("min", BAND_WIDTH, fold("-", x, fold("*", band, BAND_WIDTH))))
    if axis == 0:
        return fold("+", fold("*", band, BAND_WIDTH), Expr("%", (in_band, rows)))
    return Expr("//", (in_band, rows))
