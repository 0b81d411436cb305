"""A dot in Loop IR."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pypto.backends.cpu.codegen.memory import memory_dtype
from pypto.backends.cpu.gemm.epilogue import can_fuse_epilogue
from pypto.backends.cpu.loopir.index_maps import IndexMap, is_tile
from pypto.backends.cpu.loopir.ir import Buffer, LibraryOp, Nest, Stmt, Use, item_bytes
from pypto.backends.cpu.loopir.materialize import Materialization
from pypto.ir.core import Op, Value
from pypto.ops.memory import Access
from pypto.passes.dot_facts import InPlaceOperand, dot_dtype, through_permutes
from pypto.passes.memory_effects import may_alias
from pypto.passes.pattern import constant_of

_LOCAL_PROGRAMS: Final = 8  # programs whose panels are those of the one before, for the most part


@dataclass(frozen=True, slots=True)
class PanelCache:
    """How many steps of a loop have panels that stay; where there are more steps, the rest shares one more place.

    Panels are `grid_invariant` to all programs, or to those along the grid's first axis. They are `full_depth` where
    one of these programs may go deeper along K than the one that fills them. With `keys`, they are there for programs
    that have the same ones.
    """

    loop: Op | None
    steps: int
    slots: int
    grid_invariant: bool = False
    full_depth: bool = True
    keys: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class ConvWindow:
    """Columns that products read together, and how many of them lie before those of one product."""

    buffer: Buffer
    offset: int


@dataclass(eq=False, slots=True)
class Gemm(LibraryOp):
    """A dot; `c` is read and written, or only written where it is `beta_zero`.

    With `previous`, the sum of that product and those before it is what is added to, in the same registers. Rows of `a`
    are copied into `left_block`, a few at a time, unless that is None. The panels `b` are filled from `b_source`
    (`b_transposed`: with its rows as columns), unless that is None. With `packing_factor`, so many numbers are
    multiplied at once.
    """

    a: Buffer | InPlaceOperand
    b: Buffer
    c: Buffer
    packing_factor: int = 0
    amx_k: int = 0  # words along K that one instruction multiplies, see amx.py
    split_terms: int = 1  # numbers that stand for one, see splitting.py
    left_block: Buffer | None = None
    b_source: Buffer | InPlaceOperand | None = None
    b_transposed: bool = False
    beta_zero: bool = False
    panel_cache: PanelCache | None = None  # where the panels outlast a program
    has_separate_version: bool = False  # with several programs that use them
    previous: Gemm | None = None
    accumulating_loop: Op | None = None  # at the end of which it does so
    direct_store: InPlaceOperand | None = (
        None  # what it stores itself, where all of the tile exists; turned, where all columns do
    )
    conv_window: ConvWindow | None = None  # that its left side is read from, see windows.py
    epilogue: Nest | None = None  # what it runs itself, on a few rows as soon as they are done

    def fuse_store(self, stmt: Stmt, plan: Materialization, last: Op) -> bool:
        """True for a plain store of whole panels, which writes nothing that is multiplied and needs no checks."""
        if plan.function.attrs.get("checked"):
            return False
        access, loop = Access.of(stmt.the_op), last if last is not self.op else None
        value = self.op.results[0] if loop is None else self.loop_sum(loop, plan)
        assert access.value is not None
        scalars = (v for v in stmt.the_op.operands if not is_tile(v))
        if (
            value is None
            or (loop is None and not self.accumulation_chain[0].beta_zero)
            or any(v in last.results for v in scalars)
        ):
            return False
        source, dims, way = through_permutes(access.value)
        plain = source is value and access.mask is None and not is_tile(access.base) and len(value.shape) == 2
        read = any(len(plan.uses[v]) > 1 for v in (*way, value))
        if not plain or read or value.shape[-1] % self.b.panel or not {0, 1} <= {*dims}:
            return False
        rows, columns = map(dims.index, (1, 0) if self.a_column_major else (0, 1))
        sides = [
            side
            for item in self.accumulation_chain
            for side in (item.a, item.b_source)
            if isinstance(side, InPlaceOperand)
        ]
        apart = not any(may_alias(plan.function, side.load, stmt.the_op) for side in sides)
        if apart and constant_of(access.strides[columns]) == 1 and memory_dtype(value.dtype) == self.c.elem:
            self.direct_store, self.accumulating_loop = (
                InPlaceOperand(stmt.the_op, rows, columns, self.a_column_major),
                loop,
            )
        return self.direct_store is not None

    def fuse_epilogue(
        self, nest: Nest, read: Iterable[tuple[Buffer, IndexMap]], plan: Materialization, last: Op
    ) -> bool:
        if can_fuse_epilogue(self, nest, read, plan, last):
            self.direct_store, self.accumulating_loop = (
                InPlaceOperand(nest.stmts[0].the_op, 0, 1, False),
                last if last is not self.op else None,
            )
            self.epilogue = nest
        return self.epilogue is not None

    def loop_sum(self, loop: Op, plan: Materialization) -> Value | None:
        """What comes of a loop that does nothing with the sum but adding this product to it."""
        step = constant_of(loop.operands[2]) if loop.name == "for" else None
        body, value = loop.regions[0], self.op.results[0]
        if self.a_column_major or step is None or step <= 0 or value not in body.terminator.operands:
            return None
        n = body.terminator.operands.index(value)
        arg = body.args[1 + n]
        alone = self.op.operands[2:] == (arg,) and len(plan.uses[arg]) == 1 and len(plan.uses[value]) == 1
        return loop.results[n] if alone else None

    def uses(self) -> list[Use]:
        first = self.accumulation_chain[0].op.operands[2:]
        before = first[0] if first and not self.accumulation_chain[0].beta_zero else None
        found = [Use(self.c, before, self.op.results[0])]
        for item in self.accumulation_chain:
            found += item.sides()
        windows = {
            item.conv_window.buffer: item for item in self.accumulation_chain[::-1] if item.conv_window is not None
        }
        return [*found, *(Use(buffer, writes=first.op.operands[0]) for buffer, first in windows.items())]

    def sides(self) -> Iterator[Use]:
        """What a product of a chain does with the buffers of its operands, and with those of its own copies of them."""
        a, b = self.op.operands[:2]
        if isinstance(self.a, Buffer):
            yield Use(self.a, a, fault=self.fault(self.a))
        if isinstance(self.b_source, Buffer):
            held = b.op.operands[0] if self.b_transposed and b.op is not None else b
            yield Use(self.b_source, held, fault=self.fault(self.b_source))
        yield Use(
            self.b,
            b if self.b_source is None else None,
            b if self.b_source is not None else None,
            self.panel_cache is not None,
        )
        if self.conv_window is None and self.left_block is not None:
            yield Use(self.left_block, writes=a)

    def fault(self, side: Buffer) -> str:
        """Why a side cannot be read as it lies; empty where it can."""
        size = (
            self.op.operands[0].dtype.itemsize if self.packing_factor else dot_dtype(self.op.operands[0].dtype).itemsize
        )
        held = item_bytes(side.elem, side.in_memory_format)
        return "" if held == size else f"which holds {held} bytes of a number, not {size}"

    @property
    def accumulation_chain(self) -> list[Gemm]:
        """The products that are added up in registers, the first of them first."""
        return [*(self.previous.accumulation_chain if self.previous is not None else ()), self]

    @property
    def a_column_major(self) -> bool:
        """True where the left side is read column by column."""
        return isinstance(self.a, InPlaceOperand) and self.a.transposed

    def continues_chain(self, other: Gemm, plan: Materialization) -> bool:
        """True for a product that is added to the other's, alone, in the same way, with panels that stay."""
        value = other.op.results[0]
        alike = (
            self.a_column_major
            and other.a_column_major
            and self.panel_cache is not None
            and other.panel_cache is not None
        )
        added = self.c is other.c and self.op.operands[2:] == (value,) and plan.uses[value] == [self.op]
        return alike and added

    @property
    def programs_sharing(self) -> int:
        return 1 if self.panel_cache is None else _LOCAL_PROGRAMS if self.panel_cache.keys else 0

    def __str__(self) -> str:
        words = f" in words of {self.packing_factor}" if self.packing_factor else ""
        block = f" by b{self.left_block.id}" if self.left_block is not None else ""
        if self.conv_window is not None:
            block = f" in b{self.conv_window.buffer.id} from {self.conv_window.offset}"
        source = (
            f" from {operand_text(self.b_source)}{' turned' * self.b_transposed}" if self.b_source is not None else ""
        )
        into = f"->{' fresh' * self.beta_zero} b{self.c.id}"
        before = f"{self.previous} + " if self.previous is not None else ""
        return f"{before}matmul{words} {operand_text(self.a)}{block}, b{self.b.id}{source} {into}"


def operand_text(operand: Buffer | InPlaceOperand) -> str:
    return f"b{operand.id}" if isinstance(operand, Buffer) else "memory"
