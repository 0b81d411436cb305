"""A dot in Loop IR."""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.cpu.loopir import Buffer, CellItem
from pypto.backends.cpu.operands import Direct
from pypto.ir.core import Op


@dataclass(frozen=True, slots=True)
class Stay:
    """How many steps of a loop have panels that stay; where there are more steps, the rest shares one more place.

    Panels are `common` to all programs, or to those along the grid's first axis.
    """

    loop: Op | None
    steps: int
    places: int
    common: bool = False


@dataclass(eq=False, slots=True)
class Matmul(CellItem):
    """A dot; `c` is read and written, or only written where it is `fresh`.

    Rows of `a` are copied into `block`, a few at a time, unless that is None. The panels `b` are filled from `source`
    (`turned`: with its rows as columns), unless that is None. With `words`, so many numbers are multiplied at once.
    """

    a: Buffer | Direct
    b: Buffer
    c: Buffer
    words: int = 0
    block: Buffer | None = None
    source: Buffer | Direct | None = None
    turned: bool = False
    fresh: bool = False
    stay: Stay | None = None  # where the panels outlast a program

    @property
    def is_shared(self) -> bool:
        return self.stay is not None

    def __str__(self) -> str:
        words = f" in words of {self.words}" if self.words else ""
        block = f" by b{self.block.id}" if self.block is not None else ""
        source = f" from {side(self.source)}{' turned' * self.turned}" if self.source is not None else ""
        into = f"->{' fresh' * self.fresh} b{self.c.id}"
        return f"matmul{words} {side(self.a)}{block}, b{self.b.id}{source} {into}"


def side(operand: Buffer | Direct) -> str:
    return f"b{operand.id}" if isinstance(operand, Buffer) else "memory"
