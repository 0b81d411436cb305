"""A product of two tiles in L1, in steps through L0: one is loaded while the one before it is multiplied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pypto.backends.ascend.blockir.ir import Buffer, Expr, Item, Let, Loop, Scalar, View, fold
from pypto.backends.ascend.cube.layout import Panel, round_up
from pypto.backends.ascend.cube.moves import LAST, MORE, fill, load, multiply
from pypto.backends.ascend.cube.moves import NAMES as MOVES
from pypto.backends.ascend.tile.fractals import STAGES, Blocking, Side, lanes, room, sum_type
from pypto.ir.types import int32

_STEP, _PART = "step", "part"
BUFFERS: Final = ("a1", "b1", "a2", "b2", "sums")
NAMES: Final = (*MOVES, _STEP, _PART, *BUFFERS)  # of what products have; nothing else has these


@dataclass(frozen=True, slots=True)
class Product:
    """The buffers of products of one blocking."""

    left: Side
    right: Side
    blocking: Blocking
    left_l1: Buffer
    right_l1: Buffer
    left_l0: Buffer
    right_l0: Buffer
    sums: Buffer

    @staticmethod
    def of(left: Side, right: Side, blocking: Blocking, name: str = "", stages: int = 1) -> Product:
        b, dtype = blocking, left.dtype
        m, n = -(-b.m // left.unit) * left.unit, -(-b.n // right.unit) * right.unit

        def l1(side: Side, outer: int, title: str) -> Buffer:
            rows, cols = room(side, outer, b.depth)
            return Buffer(f"{title}1{name}", "L1", dtype, rows * cols, STAGES, layout=side.layout)

        def l0(side: Side, outer: int, title: str) -> Buffer:
            depth = -(-b.k // side.depth_unit) * side.depth_unit
            space = f"L0{title.upper()}"
            return Buffer(f"{title}2{name}", space, dtype, outer * depth, STAGES, layout=side.target.layout(space))

        sums = Buffer(f"sums{name}", "L0C", sum_type(dtype), m * n, stages, layout=left.target.layout("L0C"))
        return Product(
            left, right, b, l1(left, b.m, "a"), l1(right, b.n, "b"), l0(left, m, "a"), l0(right, n, "b"), sums
        )

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return self.left_l1, self.right_l1, self.left_l0, self.right_l0, self.sums

    def panels(self, stage: Scalar) -> tuple[Panel, Panel]:
        b = self.blocking
        return (Panel(self.left, View(self.left_l1, stage=stage), b.m, b.depth),
                Panel(self.right, View(self.right_l1, stage=stage), b.n, b.depth))  # fmt: skip

    def rounded(self, m: Scalar, n: Scalar) -> tuple[Scalar, Scalar]:
        """Rows and columns that are computed, for those that are wanted."""
        return round_up(m, self.left.unit), round_up(n, self.right.unit)

    def items(
        self,
        panels: tuple[Panel, Panel],
        size: tuple[Scalar, Scalar, Scalar],
        first: Scalar,
        last: Scalar | None,
        turn: Scalar,
        line: int,
        to: View | None = None,
    ) -> Iterator[Item]:
        """The sums of a panel's products.

        `size` is M and N as they are computed, and what exists of K. The sums begin with the `first` panel and are
        whole with the `last` one, which the fixpipe is told of, unless that is None. `turn` counts the panels.
        """
        b, step, to = self.blocking, _STEP, to or View(self.sums)
        count = fold("//", fold("+", size[2], b.k - 1), b.k)
        if count == 1 or b.steps == 1:
            yield from self.step(panels, size, 0, (first, last), fold("%", turn, STAGES), to, line)
            return
        before = fold("*", turn, b.steps) if b.steps % STAGES else 0
        ends = (
            both(first, fold("==", step, 0)),
            None if last is None else both(last, Expr("==", (step, fold("-", count, 1)))),
        )
        body = tuple(self.step(panels, size, step, ends, fold("%", fold("+", before, step), STAGES), to, line))
        yield Loop(step, 0, count, 1, body, line, int32)

    def zeros(self, to: View, size: tuple[int, int], line: int) -> Iterator[Item]:
        """Sums of no products, where M and N are computed: a product of zeros."""
        left, right = View(self.left_l0), View(self.right_l0)
        deep = lanes(self.left.dtype)
        for panel, l0, outer in zip(self.panels(0), (left, right), size, strict=True):
            if panel.side.target.loads_panels:  # nothing fills L0 there
                yield fill(panel.view, panel.rows * panel.cols, line)
                yield from load(panel, l0, 0, outer, panel.side.depth_unit, line)
            else:
                yield fill(l0, outer * deep, line)
        yield multiply(to, left, right, (*size, deep), True, 0, False, line)

    def step(
        self,
        panels: tuple[Panel, Panel],
        size: tuple[Scalar, Scalar, Scalar],
        step: Scalar,
        ends: tuple[Scalar, Scalar | None],
        stage: Scalar,
        sums: View,
        line: int,
    ) -> Iterator[Item]:
        b = self.blocking
        at_k = fold("*", step, b.k)
        depth = size[2] if step == 0 else fold("min", b.k, fold("-", size[2], at_k))
        if isinstance(size[2], int) and size[2] % b.k == 0:
            depth = min(b.k, size[2])
        elif isinstance(depth, Expr):
            yield Let(_PART, int32, depth, line)
            depth = _PART
        to = View(self.left_l0, stage=stage), View(self.right_l0, stage=stage)
        for i in range(2):
            yield from load(panels[i], to[i], at_k, size[i], round_up(depth, panels[i].side.depth_unit), line)
        first, last = ends
        flag = 0 if last is None else LAST if last is True else Expr("?:", (last, LAST, MORE))
        aligned = self.left.in_strips
        yield multiply(sums, *to, (size[0], size[1], depth), first, flag, aligned, line)


def both(a: Scalar, b: Scalar) -> Scalar:
    """a and b, with what is known left out."""
    if a is True:
        return b
    if b is True:
        return a
    return False if a is False or b is False else Expr("&&", (a, b))


def suffix(buffers: list[Buffer], taken: Counter[str]) -> str:
    """What tells the buffers of a product from those of the ones before it, and from all else."""
    number = sum(b.space == "L0C" for b in buffers) + 1
    while number > 1 and any(f"{name}_{number}" in taken for name in BUFFERS):
        number += 1
    made = f"_{number}" if number > 1 else ""
    taken.update(f"{name}{made}" for name in BUFFERS)
    return made
