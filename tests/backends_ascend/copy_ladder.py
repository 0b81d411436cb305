"""The published ways to copy a matrix of half from global memory, as Block IR by hand, against the model.

`python -m tests.backends_ascend.copy_ladder` prints the table. The figures are the times of the copying units, without
the launch, in the documentation's guide to copies, for A2 (on a 910B1) and 950. Each core copies its part of the rows,
tile by tile; or each copies all of them, past L2: in the same order, or in an order of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.ascend.blockir.ir import (
    BlockKernel,
    Buffer,
    Instr,
    Item,
    Let,
    Loop,
    Param,
    Record,
    Scalar,
    View,
    fold,
)
from pypto.backends.ascend.target import ascend_target
from pypto.backends.ascend.timing.prediction import LAUNCH, Prediction, predict
from pypto.ir.types import float16, int32

SOURCE = Param("x", float16, True)
PAD = Record((False, 0, 0, 0))


@dataclass(frozen=True)
class Copies:
    """A way to copy: to which memory, in which tiles, on how many cores; what was published, in microseconds.

    `repeats` is how often the columns are copied, which are taken in `parts` of them. Each core copies `all_rows` in
    the same order, or from its own part on if they are `staggered`.
    """

    name: str
    published: float
    to: str
    tile: tuple[int, int]
    cores: int
    chip: str = "ascend910b1"
    shape: tuple[int, int] = (12288, 12288)
    parts: int = 1
    repeats: int = 1
    all_rows: bool = False
    staggered: bool = False

    @property
    def label(self) -> str:
        return f"{self.chip.removeprefix('ascend')}, GM to {self.to}, {self.name}"


def kernel(c: Copies) -> BlockKernel:
    (rows, columns), (tile_rows, tile_columns) = c.shape, c.tile
    own = rows // c.cores
    part = columns // c.parts
    buffer = Buffer("tile", c.to, float16, tile_rows * tile_columns, 1, 0, layout="NZ" if c.to == "L1" else "ND")
    place = fold("+", fold("*", fold("+", "start", "row"), columns), fold("+", fold("*", "part", part), "column"))
    width: Scalar = tile_columns if part % tile_columns == 0 else fold("min", tile_columns, fold("-", part, "column"))
    if c.to == "L1":
        shape = Record((1, tile_rows, width, 0, columns, -(-tile_rows // 16) * 16, 1, 0))
        copy = Instr("DataCopy", (View(buffer), View(SOURCE, place), shape), 1)
    else:
        gap = fold("*", fold("-", columns, width), 2)
        rows_of_tile = Record((tile_rows, fold("*", width, 2), gap, 0, 0))
        copy = Instr("DataCopyPad", (View(buffer), View(SOURCE, place), rows_of_tile, PAD), 1)
    inner: Item = Loop("column", 0, part, tile_columns, (copy,), 1)
    tiles: Item = Loop("row", 0, own, tile_rows, (inner,), 1)
    turn = fold("%", fold("+", "turn", "block"), c.cores) if c.staggered else "turn"
    start = fold("*", turn if c.all_rows else "block", own)
    body: tuple[Item, ...] = (Let("start", int32, start, 1), Loop("again", 0, c.repeats, 1, (tiles,), 1))
    body = (Loop("part", 0, c.parts, 1, body, 1),)
    if c.all_rows:
        body = (Loop("turn", 0, c.cores, 1, body, 1),)
    kind = "cube" if c.to == "L1" else "vector"
    streams = ("x",) if c.all_rows else ()
    return BlockKernel("copies", kind, (SOURCE,), (buffer,), body, file="ladder", streams=streams)


def a2(name: str, published: float, to: str, tile: tuple[int, int], **more: object) -> Copies:
    return Copies(name, published, to, tile, 24 if to == "L1" else 48, **more)  # type: ignore[arg-type]


def a5(name: str, published: float, to: str, tile: tuple[int, int], **more: object) -> Copies:
    return Copies(name, published, to, tile, 32 if to == "L1" else 64, "ascend950", **more)  # type: ignore[arg-type]


SMALL_A2, SMALL_A5 = (6144, 512), (8192, 512)
LADDER = (
    a2("128 bytes", 548.161, "UB", (1, 64)),
    a2("64 x 128 bytes", 220.772, "UB", (64, 64)),
    a2("64 x 2 KB", 202.657, "UB", (64, 1024)),
    a2("64 x 2 KB, pitch unaligned", 259.047, "UB", (64, 1024), shape=(12288, 12287)),
    a2("all four times", 816.05, "UB", (64, 1024), repeats=4),
    a2("each quarter four times", 354.56, "UB", (64, 1024), parts=4, repeats=4),
    a2("all cores in one order", 474.717, "UB", (128, 64), shape=SMALL_A2, all_rows=True),
    a2("cores staggered", 307.38, "UB", (128, 64), shape=SMALL_A2, all_rows=True, staggered=True),
    a2("64 x 128 bytes", 283.508, "L1", (64, 64)),
    a2("64 x 512 bytes", 214.519, "L1", (64, 256)),
    a2("64 x 512 bytes, pitch unaligned", 422.515, "L1", (64, 256), shape=(12288, 12287)),
    a2("all four times", 872.19, "L1", (64, 1024), repeats=4),
    a2("each quarter four times", 397.8, "L1", (64, 1024), parts=4, repeats=4),
    a2("all cores in one order", 240.198, "L1", (256, 64), shape=SMALL_A2, all_rows=True),
    a2("cores staggered", 209.8, "L1", (256, 64), shape=SMALL_A2, all_rows=True, staggered=True),
    a5("128 bytes", 881.13, "UB", (1, 64)),
    a5("64 x 128 bytes", 205.99, "UB", (64, 64)),
    a5("64 x 2 KB", 185.66, "UB", (64, 1024)),
    a5("64 x 2 KB, pitch unaligned", 189.16, "UB", (64, 1024), shape=(12288, 12287)),
    a5("all four times", 740.75, "UB", (64, 1024), repeats=4),
    a5("each quarter four times", 354.19, "UB", (64, 1024), parts=4, repeats=4),
    a5("all cores in one order", 339.38, "UB", (128, 64), shape=SMALL_A5, all_rows=True),
    a5("cores staggered", 333.08, "UB", (128, 64), shape=SMALL_A5, all_rows=True, staggered=True),
    a5("64 x 128 bytes", 241.56, "L1", (64, 64)),
    a5("64 x 512 bytes", 187.19, "L1", (64, 256)),
    a5("64 x 512 bytes, pitch unaligned", 202.97, "L1", (64, 256), shape=(12288, 12287)),
    a5("all four times", 732.11, "L1", (64, 1024), repeats=4),
    a5("each quarter four times", 389.64, "L1", (64, 1024), parts=4, repeats=4),
    a5("all cores in one order", 366.24, "L1", (256, 64), shape=SMALL_A5, all_rows=True),
    a5("cores staggered", 185.03, "L1", (256, 64), shape=SMALL_A5, all_rows=True, staggered=True),
)  # fmt: skip


def predicted(c: Copies) -> Prediction:
    return predict(kernel(c), ascend_target(c.chip), {}, (c.cores, 1, 1), c.cores)


def microseconds(c: Copies) -> float:
    """The predicted time without the launch."""
    return 1e6 * (predicted(c).seconds - ascend_target(c.chip).seconds(LAUNCH))


if __name__ == "__main__":
    for copies in LADDER:
        us = microseconds(copies)
        print(f"{copies.label:55} {copies.published:8.1f} µs published {us:8.1f} µs {us / copies.published - 1:+.1%}")
