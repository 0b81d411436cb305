"""A dot in Loop IR."""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.cpu.loopir import Buffer, CellItem, Stmt
from pypto.backends.cpu.memory import memory_dtype
from pypto.backends.cpu.operands import Direct
from pypto.backends.cpu.plan import Plan, may_alias
from pypto.backends.cpu.pull import is_tile
from pypto.ir.core import Op
from pypto.ops.memory import Access
from pypto.passes.pattern import constant_of


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
    store: Op | None = None  # that it does itself where all of the tile exists

    def stores(self, stmt: Stmt, plan: Plan) -> bool:
        """True for a plain store of whole panels, which writes nothing that is multiplied and needs no checks."""
        if plan.function.attrs.get("checked"):
            return False
        access, value = Access.of(stmt.does), self.op.results[0]
        plain = access.value is value and access.mask is None and not is_tile(access.base) and len(value.shape) == 2
        if not plain or not self.fresh or len(plan.uses[value]) > 1 or value.shape[-1] % self.b.panel:
            return False
        sides = [side for side in (self.a, self.source) if isinstance(side, Direct)]
        apart = not any(side.turned or may_alias(plan.function, side.load, stmt.does) for side in sides)
        if apart and constant_of(access.strides[-1]) == 1 and memory_dtype(value.dtype) == self.c.elem:
            self.store = stmt.does
        return self.store is not None

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
