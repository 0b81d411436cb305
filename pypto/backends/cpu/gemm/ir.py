"""A matrix product in Loop IR: its operands and buffers, what is fused to it, and what it reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pypto.backends.cpu.codegen.memory import memory_dtype
from pypto.backends.cpu.gemm.blocking import FACTS, SkinnyBlocking
from pypto.backends.cpu.gemm.epilogue import can_fuse_epilogue
from pypto.backends.cpu.loopir.index_maps import IndexMap, is_tile
from pypto.backends.cpu.loopir.ir import Buffer, LibraryOp, Nest, Stmt, Use, item_bytes
from pypto.backends.cpu.loopir.materialize import Materialization
from pypto.backends.cpu.techniques import is_enabled
from pypto.blocking import AUTO, Blocking
from pypto.ir.core import Op, Value
from pypto.ir.types import DType
from pypto.ops.memory import Access
from pypto.passes.analysis.dot_facts import InPlaceOperand, dot_dtype, through_permutes
from pypto.passes.analysis.memory_effects import may_alias
from pypto.passes.pattern import constant_of


@dataclass(frozen=True, slots=True)
class PanelCache:
    """Packed panels that outlast a program, for others that multiply by the same matrix; see `panel_reuse`."""

    loop: Op | None  # the loop along K, each step of which has panels of its own
    steps: int  # steps whose panels are kept
    slots: int  # places for panels; where there are more steps, the others share the last one
    grid_invariant: bool = False  # whether all programs share them; else those along the grid's first axis
    full_depth: bool = True  # whether the whole depth is packed, as another program may go further along K
    keys: tuple[Value, ...] = ()  # scalars that must be equal in the programs that share them


@dataclass(frozen=True, slots=True)
class ConvWindow:
    """A copy of the columns that products read together; see `conv_window`."""

    buffer: Buffer
    offset: int  # columns before the first one of this product


@dataclass(eq=False, slots=True)
class Gemm(LibraryOp):
    """A product, `c = a @ b` where it is `beta_zero`, else `c += a @ b`."""

    a: Buffer | InPlaceOperand
    b: Buffer  # packed panels
    c: Buffer
    blocking: Blocking = AUTO
    packing_factor: int = 0  # numbers of a word that one instruction multiplies; 0 where they are multiplied alone
    amx_k: int = 0  # words along K of an AMX tile; 0 without AMX
    split_terms: int = 1  # bfloat16 numbers whose sum stands for one float32; see `bf16_split`
    left_block: Buffer | None = None  # for packed rows of A, a register tile's at a time; None where A is in scratch
    b_source: Buffer | InPlaceOperand | None = None  # what the panels are packed from; None where a nest fills them
    b_transposed: bool = False  # whether the source's rows are columns of B
    beta_zero: bool = False  # whether C is only written
    panel_cache: PanelCache | None = None  # where the panels outlast a program
    has_separate_version: bool = False  # whether coarsened programs have a kernel of their own
    previous: Gemm | None = None  # the product before it in an accumulation chain, added up in the same registers
    skinny: SkinnyBlocking | None = None  # of the kernel for few rows, where that may run it
    accumulating_loop: Op | None = None  # the loop that adds it up: the store or epilogue runs in its last step
    direct_store: InPlaceOperand | None = None  # where C is stored in place of scratch, if the tile exists there
    conv_window: ConvWindow | None = None  # the copy that A is read from where its rows share sets of a cache
    epilogue: Nest | None = None  # the nest that runs on each register tile as soon as it is done

    def fuse_store(self, stmt: Stmt, plan: Materialization, last: Op) -> bool:
        """Take over a plain store of the result, if that is legal; `last` is the product or the loop that adds it up.

        The store must have whole panels, no mask, contiguous rows and the result's dtype; nothing else may read the
        result, and the store may write nothing that the product reads.
        """
        if not is_enabled(plan.function, "direct_store"):
            return False
        access = Access.of(stmt.the_op)
        loop = last if last is not self.op else None
        value = self.op.results[0] if loop is None else self.loop_sum(loop, plan)
        assert access.value is not None
        if value is None or (loop is None and not self.accumulation_chain[0].beta_zero):
            return False
        if any(v in last.results for v in stmt.the_op.operands if not is_tile(v)):
            return False
        source, dims, permutes = through_permutes(access.value)
        is_plain = source is value and access.mask is None and not is_tile(access.base) and len(value.shape) == 2
        if not is_plain or any(len(plan.uses[v]) > 1 for v in (*permutes, value)):
            return False
        if value.shape[-1] % self.b.panel or not {0, 1} <= {*dims}:
            return False
        rows, columns = map(dims.index, (1, 0) if self.a_column_major else (0, 1))
        operands = [x for gemm in self.accumulation_chain for x in (gemm.a, gemm.b_source)]
        loads = [x.load for x in operands if isinstance(x, InPlaceOperand)]
        if any(may_alias(plan.function, load, stmt.the_op) for load in loads):
            return False
        if constant_of(access.strides[columns]) != 1 or memory_dtype(value.dtype) != self.c.elem:
            return False
        self.direct_store = InPlaceOperand(stmt.the_op, rows, columns, self.a_column_major)
        self.accumulating_loop = loop
        return True

    def fuse_epilogue(
        self, nest: Nest, reads: Iterable[tuple[Buffer, IndexMap]], plan: Materialization, last: Op
    ) -> bool:
        """Take over a nest that stores the result, computed on element by element, if that is legal."""
        if not can_fuse_epilogue(self, nest, reads, plan, last):
            return False
        self.direct_store = InPlaceOperand(nest.stmts[0].the_op, 0, 1, False)
        self.accumulating_loop = last if last is not self.op else None
        self.epilogue = nest
        return True

    def loop_sum(self, loop: Op, plan: Materialization) -> Value | None:
        """The result of a loop that only adds this product to it in each step; None for other loops."""
        step = constant_of(loop.operands[2]) if loop.name == "for" else None
        body = loop.regions[0]
        value = self.op.results[0]
        if self.a_column_major or step is None or step <= 0 or value not in body.terminator.operands:
            return None
        n = body.terminator.operands.index(value)
        arg = body.args[1 + n]
        is_only_use = len(plan.uses[arg]) == 1 and len(plan.uses[value]) == 1
        return loop.results[n] if is_only_use and self.op.operands[2:] == (arg,) else None

    def uses(self) -> list[Use]:
        chain = self.accumulation_chain
        accumulator = chain[0].op.operands[2:]
        old = accumulator[0] if accumulator and not chain[0].beta_zero else None
        uses = [Use(self.c, old, self.op.results[0])]
        for gemm in chain:
            uses += gemm.operand_uses()
        windows = {gemm.conv_window.buffer: gemm for gemm in chain[::-1] if gemm.conv_window is not None}
        return [*uses, *(Use(buffer, writes=first.op.operands[0]) for buffer, first in windows.items())]

    def operand_uses(self) -> Iterator[Use]:
        """What one product of a chain does with the buffers of its operands and of their packed copies."""
        a, b = self.op.operands[:2]
        is_packed_here = self.b_source is not None
        if isinstance(self.a, Buffer):
            yield Use(self.a, a, fault=self.fault(self.a))
        if isinstance(self.b_source, Buffer):
            source = b.op.operands[0] if self.b_transposed and b.op is not None else b
            yield Use(self.b_source, source, fault=self.fault(self.b_source))
        yield Use(self.b, None if is_packed_here else b, b if is_packed_here else None, self.panel_cache is not None)
        if self.left_block is not None:
            yield Use(self.left_block, writes=a)

    def fault(self, operand: Buffer) -> str:
        """Why a buffer cannot be read as an operand; empty where it can."""
        dtype = self.op.operands[0].dtype
        size = dtype.itemsize if self.packing_factor else dot_dtype(dtype).itemsize
        actual = item_bytes(operand.elem, operand.in_memory_format)
        return "" if actual == size else f"which holds {actual} bytes of a number, not {size}"

    @property
    def word_bytes(self) -> int:
        """Bytes of a packed word, or of a number that is multiplied alone; and of a number of C."""
        assert isinstance(self.c.elem, DType)
        return self.c.elem.itemsize

    @property
    def panel_dtype(self) -> DType:
        """Type of what the panels are made of; of packed words, that of what they are added up to."""
        return dot_dtype(self.op.operands[0].dtype)

    @property
    def accumulation_chain(self) -> list[Gemm]:
        """The products that are added up in the same registers, in their order."""
        return [*(self.previous.accumulation_chain if self.previous is not None else ()), self]

    @property
    def a_column_major(self) -> bool:
        """Whether A is read in place, column by column."""
        return isinstance(self.a, InPlaceOperand) and self.a.transposed

    def continues_chain(self, other: Gemm, plan: Materialization) -> bool:
        """Whether it can be added up in the registers of another product, which nothing else reads."""
        value = other.op.results[0]
        has_caches = self.panel_cache is not None and other.panel_cache is not None
        if not (self.a_column_major and other.a_column_major and has_caches):
            return False
        return self.c is other.c and self.op.operands[2:] == (value,) and plan.uses[value] == [self.op]

    @property
    def decisions(self) -> str:
        b = self.blocking
        tiles = f"register tiles of mr={b.mr} by nr={b.nr}, mc={b.mc} by nc={b.nc} in a program, kc={b.kc} along K"
        prefetches = f"panel_prefetch={b.panel_prefetch} bytes, pack_prefetch={b.pack_prefetch} rows"
        text = f"{tiles}; k_unroll={b.k_unroll} at most, {prefetches}"
        if self.skinny is not None:
            text += f"; where B lies row by row, it is read so: mr={self.skinny.mr}, k_unroll={self.skinny.k_unroll}"
        if self.panel_cache is not None:
            text += f"; packed panels of {self.panel_cache.slots} steps along K stay for later programs"
        return text

    @property
    def programs_sharing(self) -> int:
        if self.panel_cache is None:
            return 1
        return FACTS.local_programs if self.panel_cache.keys else 0

    def __str__(self) -> str:
        words = f" in words of {self.packing_factor}" if self.packing_factor else ""
        block = f" by b{self.left_block.id}" if self.left_block is not None else ""
        if self.conv_window is not None:
            block += f" or in b{self.conv_window.buffer.id} from {self.conv_window.offset}"
        source = ""
        if self.b_source is not None:
            source = f" from {operand_text(self.b_source)}{' turned' * self.b_transposed}"
        into = f"->{' fresh' * self.beta_zero} b{self.c.id}"
        previous = f"{self.previous} + " if self.previous is not None else ""
        return f"{previous}matmul{words} {operand_text(self.a)}{block}, b{self.b.id}{source} {into}"


def operand_text(operand: Buffer | InPlaceOperand) -> str:
    return f"b{operand.id}" if isinstance(operand, Buffer) else "memory"
