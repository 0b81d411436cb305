"""Products of two panels in L1, in steps through L0.

L0A and L0B are double buffered: one step is loaded while the one before is multiplied. The panels in L1 are double
buffered, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pypto.backends.ascend.blockir.ir import Buffer, Expr, Item, Let, Loop, Scalar, View, fold
from pypto.backends.ascend.cube.layout import Panel, round_up
from pypto.backends.ascend.cube.moves import LAST, MORE, load_l0, mmad, zero_fill
from pypto.backends.ascend.cube.moves import LOOP_NAMES as MOVES
from pypto.backends.ascend.tile.fractals import STAGES, Blocking, Side, lanes, room, sum_type
from pypto.ir.types import int32

_STEP, _PART = "step", "part"
BUFFER_NAMES: Final = ("a1", "b1", "a2", "b2", "sums")
NAMES: Final = (
    *MOVES,
    _STEP,
    _PART,
    *BUFFER_NAMES,
)  # of buffers and loops of a product; no other name may be one of them


@dataclass(frozen=True, slots=True)
class Product:
    """The buffers of products of one blocking."""

    left: Side  # the left operand
    right: Side  # the right operand
    blocking: Blocking  # its block sizes
    left_l1: Buffer  # panels of the left operand
    right_l1: Buffer  # panels of the right operand
    left_l0: Buffer  # steps of the left operand
    right_l0: Buffer  # steps of the right operand
    sums: Buffer  # the accumulator

    @staticmethod
    def of(left: Side, right: Side, blocking: Blocking, name: str = "", stages: int = 1) -> Product:
        """Allocate the buffers of a product."""
        b, dtype = blocking, left.dtype
        m = -(-b.m // left.unit) * left.unit
        n = -(-b.n // right.unit) * right.unit

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
        """All its buffers."""
        return self.left_l1, self.right_l1, self.left_l0, self.right_l0, self.sums

    def sharing(self, other: Product) -> Product:
        """Return the product with another one's buffers where they are large enough; only one of both may run."""
        pairs = zip(self.buffers, other.buffers, strict=True)
        buffers = (theirs if has_room(theirs, mine) else mine for mine, theirs in pairs)
        return Product(self.left, self.right, self.blocking, *buffers)

    def panels(self, stage: Scalar) -> tuple[Panel, Panel]:
        """Return the two panels in one stage of L1."""
        b = self.blocking
        return (
            Panel(self.left, View(self.left_l1, stage=stage), b.m, b.depth),
            Panel(self.right, View(self.right_l1, stage=stage), b.n, b.depth),
        )

    def rounded(self, m: Scalar, n: Scalar) -> tuple[Scalar, Scalar]:
        """Return the rows and columns that are computed for those that are wanted."""
        return round_up(m, self.left.unit), round_up(n, self.right.unit)

    def emit_panels(
        self,
        panels: tuple[Panel, Panel],
        size: tuple[Scalar, Scalar, Scalar],
        first: Scalar,
        last: Scalar | None,
        panel_number: Scalar,
        line: int,
        to: View | None = None,
        starts: tuple[Scalar, Scalar] = (0, 0),
    ) -> Iterator[Item]:
        """Yield the steps of one panel.

        `size` is M and N as they are computed, and the valid part of K, which begins at `starts` in the panels. The sum
        begins with the `first` panel. With the `last` one it is complete, which the fixpipe is told, unless `last` is
        None.
        """
        b = self.blocking
        step = _STEP
        to = to or View(self.sums)
        step_count = fold("//", fold("+", size[2], b.k - 1), b.k)
        if step_count == 1 or b.steps == 1:
            stage = fold("%", panel_number, STAGES)
            yield from self.emit_step(panels, size, 0, (first, last), stage, to, line, starts)
            return
        steps_before = fold("*", panel_number, b.steps) if b.steps % STAGES else 0
        conditions = (
            folded_and(first, fold("==", step, 0)),
            None if last is None else folded_and(last, Expr("==", (step, fold("-", step_count, 1)))),
        )
        stage = fold("%", fold("+", steps_before, step), STAGES)
        body = tuple(self.emit_step(panels, size, step, conditions, stage, to, line, starts))
        yield Loop(step, 0, step_count, 1, body, line, int32)

    def emit_zeros(self, to: View, size: tuple[int, int], line: int) -> Iterator[Item]:
        """Yield a product of zeros, which clears an accumulator."""
        left = View(self.left_l0)
        right = View(self.right_l0)
        depth = lanes(self.left.dtype)
        for panel, l0, outer in zip(self.panels(0), (left, right), size, strict=True):
            if panel.side.target.loads_panels:  # this chip cannot fill L0
                yield zero_fill(panel.view, panel.rows * panel.cols, line)
                yield from load_l0(panel, l0, 0, outer, panel.side.depth_unit, line)
            else:
                yield zero_fill(l0, outer * depth, line)
        yield mmad(to, left, right, (*size, depth), True, 0, False, line)

    def emit_step(
        self,
        panels: tuple[Panel, Panel],
        size: tuple[Scalar, Scalar, Scalar],
        step: Scalar,
        conditions: tuple[Scalar, Scalar | None],
        stage: Scalar,
        sums: View,
        line: int,
        starts: tuple[Scalar, Scalar],
    ) -> Iterator[Item]:
        """Yield the loads and the product of one step through L0."""
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
            k = fold("+", starts[i], at_k)
            yield from load_l0(panels[i], to[i], k, size[i], round_up(depth, panels[i].side.depth_unit), line)
        first, last = conditions
        flag = 0 if last is None else LAST if last is True else Expr("?:", (last, LAST, MORE))
        aligned = self.left.in_strips
        yield mmad(sums, *to, (size[0], size[1], depth), first, flag, aligned, line)


def has_room(buffer: Buffer, wanted: Buffer) -> bool:
    """Whether a buffer can stand for another one."""
    alike = all(getattr(buffer, name) == getattr(wanted, name) for name in ("space", "dtype", "stages", "layout"))
    return alike and buffer.elements >= wanted.elements


def folded_and(a: Scalar, b: Scalar) -> Scalar:
    """Return the conjunction of two conditions, without constants."""
    if a is True:
        return b
    if b is True:
        return a
    return False if a is False or b is False else Expr("&&", (a, b))


def buffer_suffix(buffers: list[Buffer], taken: Counter[str]) -> str:
    """Return a suffix that distinguishes the buffers of a product from all other names."""
    number = sum(b.space == "L0C" for b in buffers) + 1
    while number > 1 and any(f"{name}_{number}" in taken for name in BUFFER_NAMES):
        number += 1
    ending = f"_{number}" if number > 1 else ""
    taken.update(f"{name}{ending}" for name in BUFFER_NAMES)
    return ending
