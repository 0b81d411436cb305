"""A dot in Loop IR."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pypto.backends.cpu.loopir import Buffer, CellItem, Nest, Stmt, Use, item_bytes
from pypto.backends.cpu.memory import memory_dtype
from pypto.backends.cpu.operands import Direct, dot_dtype, origin
from pypto.backends.cpu.plan import Plan, may_alias
from pypto.backends.cpu.pull import IndexMap, is_tile
from pypto.backends.cpu.rest import may_finish
from pypto.ir.core import Op, Value
from pypto.ops.memory import Access
from pypto.passes.pattern import constant_of

_TOGETHER: Final = 8  # programs whose panels are those of the one before, for the most part


@dataclass(frozen=True, slots=True)
class Stay:
    """How many steps of a loop have panels that stay; where there are more steps, the rest shares one more place.

    Panels are `common` to all programs, or to those along the grid's first axis. They are `whole` where one of these
    programs may go deeper along K than the one that fills them. With `keys`, they are there for programs that have the
    same ones.
    """

    loop: Op | None
    steps: int
    places: int
    common: bool = False
    whole: bool = True
    keys: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """Columns that products read together, and how many of them lie before those of one product."""

    buffer: Buffer
    ahead: int


@dataclass(eq=False, slots=True)
class Matmul(CellItem):
    """A dot; `c` is read and written, or only written where it is `fresh`.

    With `before`, the sum of that product and those before it is what is added to, in the same registers. Rows of `a`
    are copied into `block`, a few at a time, unless that is None. The panels `b` are filled from `source`
    (`turned`: with its rows as columns), unless that is None. With `words`, so many numbers are multiplied at once.
    """

    a: Buffer | Direct
    b: Buffer
    c: Buffer
    words: int = 0
    step: int = 0  # words along K that one instruction multiplies, see amx.py
    parts: int = 1  # numbers that stand for one, see splitting.py
    block: Buffer | None = None
    source: Buffer | Direct | None = None
    turned: bool = False
    fresh: bool = False
    stay: Stay | None = None  # where the panels outlast a program
    apart: bool = False  # with several programs that use them
    before: Matmul | None = None
    loop: Op | None = None  # at the end of which it does so
    store: Direct | None = None  # what it stores itself, where all of the tile exists; turned, where all columns do
    window: Window | None = None  # that its left side is read from, see windows.py
    rest: Nest | None = None  # what it runs itself, on a few rows as soon as they are done

    def stores(self, stmt: Stmt, plan: Plan, last: Op) -> bool:
        """True for a plain store of whole panels, which writes nothing that is multiplied and needs no checks."""
        if plan.function.attrs.get("checked"):
            return False
        access, loop = Access.of(stmt.does), last if last is not self.op else None
        value = self.op.results[0] if loop is None else self.summed(loop, plan)
        assert access.value is not None
        scalars = (v for v in stmt.does.operands if not is_tile(v))
        if value is None or (loop is None and not self.chain[0].fresh) or any(v in last.results for v in scalars):
            return False
        source, dims, way = origin(access.value)
        plain = source is value and access.mask is None and not is_tile(access.base) and len(value.shape) == 2
        read = any(len(plan.uses[v]) > 1 for v in (*way, value))
        if not plain or read or value.shape[-1] % self.b.panel or not {0, 1} <= {*dims}:
            return False
        rows, columns = map(dims.index, (1, 0) if self.is_across else (0, 1))
        sides = [side for item in self.chain for side in (item.a, item.source) if isinstance(side, Direct)]
        apart = not any(may_alias(plan.function, side.load, stmt.does) for side in sides)
        if apart and constant_of(access.strides[columns]) == 1 and memory_dtype(value.dtype) == self.c.elem:
            self.store, self.loop = Direct(stmt.does, rows, columns, self.is_across), loop
        return self.store is not None

    def finishes(self, nest: Nest, read: Iterable[tuple[Buffer, IndexMap]], plan: Plan, last: Op) -> bool:
        if may_finish(self, nest, read, plan, last):
            self.store, self.loop = Direct(nest.stmts[0].does, 0, 1, False), last if last is not self.op else None
            self.rest = nest
        return self.rest is not None

    def summed(self, loop: Op, plan: Plan) -> Value | None:
        """What comes of a loop that does nothing with the sum but adding this product to it."""
        step = constant_of(loop.operands[2]) if loop.name == "for" else None
        body, value = loop.regions[0], self.op.results[0]
        if self.is_across or step is None or step <= 0 or value not in body.terminator.operands:
            return None
        n = body.terminator.operands.index(value)
        arg = body.args[1 + n]
        alone = self.op.operands[2:] == (arg,) and len(plan.uses[arg]) == 1 and len(plan.uses[value]) == 1
        return loop.results[n] if alone else None

    def uses(self) -> list[Use]:
        first = self.chain[0].op.operands[2:]
        before = first[0] if first and not self.chain[0].fresh else None
        found = [Use(self.c, before, self.op.results[0])]
        for item in self.chain:
            found += item.sides()
        windows = {item.window.buffer: item for item in self.chain[::-1] if item.window is not None}
        return [*found, *(Use(buffer, writes=first.op.operands[0]) for buffer, first in windows.items())]

    def sides(self) -> Iterator[Use]:
        """What a product of a chain does with the buffers of its operands, and with those of its own copies of them."""
        a, b = self.op.operands[:2]
        if isinstance(self.a, Buffer):
            yield Use(self.a, a, fault=self.fault(self.a))
        if isinstance(self.source, Buffer):
            held = b.op.operands[0] if self.turned and b.op is not None else b
            yield Use(self.source, held, fault=self.fault(self.source))
        yield Use(
            self.b, b if self.source is None else None, b if self.source is not None else None, self.stay is not None
        )
        if self.window is None and self.block is not None:
            yield Use(self.block, writes=a)

    def fault(self, side: Buffer) -> str:
        """Why a side cannot be read as it lies; empty where it can."""
        size = self.op.operands[0].dtype.itemsize if self.words else dot_dtype(self.op.operands[0].dtype).itemsize
        held = item_bytes(side.elem, side.compact)
        return "" if held == size else f"which holds {held} bytes of a number, not {size}"

    @property
    def chain(self) -> list[Matmul]:
        """The products that are added up in registers, the first of them first."""
        return [*(self.before.chain if self.before is not None else ()), self]

    @property
    def is_across(self) -> bool:
        """True where the left side is read column by column."""
        return isinstance(self.a, Direct) and self.a.turned

    def follows(self, other: Matmul, plan: Plan) -> bool:
        """True for a product that is added to the other's, alone, in the same way, with panels that stay."""
        value = other.op.results[0]
        alike = self.is_across and other.is_across and self.stay is not None and other.stay is not None
        added = self.c is other.c and self.op.operands[2:] == (value,) and plan.uses[value] == [self.op]
        return alike and added

    @property
    def together(self) -> int:
        return 1 if self.stay is None else _TOGETHER if self.stay.keys else 0

    def __str__(self) -> str:
        words = f" in words of {self.words}" if self.words else ""
        block = f" by b{self.block.id}" if self.block is not None else ""
        if self.window is not None:
            block = f" in b{self.window.buffer.id} from {self.window.ahead}"
        source = f" from {side(self.source)}{' turned' * self.turned}" if self.source is not None else ""
        into = f"->{' fresh' * self.fresh} b{self.c.id}"
        before = f"{self.before} + " if self.before is not None else ""
        return f"{before}matmul{words} {side(self.a)}{block}, b{self.b.id}{source} {into}"


def side(operand: Buffer | Direct) -> str:
    return f"b{operand.id}" if isinstance(operand, Buffer) else "memory"
