"""Lowering of `dot`: Tile IR passes around it, its buffers in Loop IR, and its emitter. The entry to this folder."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pypto.backends.cpu.codegen.function import FunctionEmitter
from pypto.backends.cpu.gemm.blocking import Left, SkinnyBlocking, blocking_of, choose_skinny_blocking
from pypto.backends.cpu.gemm.conv_window import share_window
from pypto.backends.cpu.gemm.ir import ConvWindow, Gemm, PanelCache
from pypto.backends.cpu.gemm.macro_kernel import MacroKernel
from pypto.backends.cpu.gemm.panel_reuse import plan_panel_cache
from pypto.backends.cpu.loopir.allocate import BufferAllocation
from pypto.backends.cpu.loopir.build import ItemList, LoopIRBuilder
from pypto.backends.cpu.loopir.ir import Buffer, LibraryOp, item_bytes, walk
from pypto.backends.cpu.loopir.materialize import Materialization
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.techniques import is_enabled
from pypto.backends.llvm.value import VectorValue
from pypto.blocking import Blocking, round_up
from pypto.ir.core import Op, Value
from pypto.ir.types import float32, int32, int64
from pypto.passes.analysis.dot_facts import (
    InPlaceOperand,
    amx_k_words,
    dot_dtype,
    in_place_operand,
    may_be_skinny,
    packing_factor,
    packs_transposed,
    split_terms,
)
from pypto.passes.pattern import constant_of

RECORDS: Sequence[type] = (Gemm, InPlaceOperand, PanelCache, ConvWindow, Blocking, SkinnyBlocking)


def schedule(op: Op, scheduler: LoopIRBuilder, items: ItemList) -> None:
    """Append a `Gemm` for a `dot`, behind the nests that fill its operands and its accumulator."""
    plan, storage = scheduler.plan, scheduler.storage
    position = plan.position[op]
    factor = packing_factor(op, storage.target)
    (a, b, *_), c = op.operands, storage.buffer_of[op.results[0]]
    beta_zero = len(op.operands) < 3 or constant_of(op.operands[2]) == 0
    if not beta_zero and storage.buffer_of.get(op.operands[2]) is not c:
        items.add(scheduler.compute_stmt(op.operands[2], c, position))
    left = operand_in_place(plan, a) or storage.buffer_of[a]
    blocking = blocking_of(op, storage.target, left_kind(left))
    terms = split_terms(op, storage.target) if factor and is_enabled(plan.function, "bf16_split") else 1
    panels = panel_buffer(storage, b, factor, position, blocking.nr, terms)
    source, b_transposed = right_operand(op, b, panels, factor, scheduler, items)
    block = left_block(storage, a, left, factor, terms, position)
    cache = panel_cache(plan, op, left, source, panels, storage.target)
    is_coarsened_too = cache is not None and plan.function.programs.has_coarsened_version
    amx_k = amx_k_words(a.shape[-1] // factor) if factor and storage.target.has_amx else 0
    gemm = Gemm(
        op,
        left,
        panels,
        c,
        blocking,
        factor,
        amx_k,
        terms,
        block,
        source,
        b_transposed,
        beta_zero,
        cache,
        is_coarsened_too,
    )
    if is_enabled(plan.function, "skinny_gemm"):
        gemm.skinny = choose_skinny_blocking(op, storage.target)
    previous = items.last_item()
    if isinstance(previous, Gemm) and gemm.continues_chain(previous, plan):
        items.items.remove(previous)
        gemm.previous = previous
        if is_enabled(plan.function, "conv_window"):
            share_window(gemm, storage)
        extend_left_buffers(gemm, position)
    items.barrier(gemm)


def left_kind(left: Buffer | InPlaceOperand) -> Left:
    """Where A is read."""
    if not isinstance(left, InPlaceOperand):
        return "scratch"
    return "column_major" if left.transposed else "in_place"


def left_block(
    storage: BufferAllocation, a: Value, left: Buffer | InPlaceOperand, factor: int, terms: int, position: int
) -> Buffer | None:
    """Scratch for packed rows of A: a register tile's, or a register's columns of a column-major A; None for neither.

    A register tile has fewer rows than there are registers.
    """
    elem, shape = a.tile.elem, (storage.target.registers, a.shape[-1])
    if factor and factor * a.dtype.itemsize != item_bytes(float32):  # packing converts the numbers
        elem, shape = float32, (shape[0], terms * round_up(shape[1] // factor, storage.lanes_of(float32)))
    elif not isinstance(left, InPlaceOperand):
        return None
    elif left.transposed:
        shape = a.shape[-1], storage.lanes_of(elem)
    return storage.new(elem, shape, position, position, pad_columns=True, in_memory_format=True)


def extend_left_buffers(gemm: Gemm, position: int) -> None:
    """Keep the copies of A alive until the last product of a chain, which reads all of them."""
    for x in gemm.accumulation_chain:
        if x.conv_window is not None:
            x.conv_window.buffer.live_end = position
        if x.left_block is not None:
            x.left_block.live_end = position


def panel_cache(
    plan: Materialization,
    op: Op,
    left: Buffer | InPlaceOperand,
    source: Buffer | InPlaceOperand | None,
    panels: Buffer,
    target: CpuTarget,
) -> PanelCache | None:
    """Room for the panels of all steps along K, where other programs can read them too; see `panel_reuse`."""
    size = panels.elements * item_bytes(panels.elem)
    reads_b_in_place = plan.function.programs.is_coarsened and may_be_skinny(op, target)
    if not isinstance(source, InPlaceOperand) or (reads_b_in_place and not source.transposed):
        return None
    cache = plan_panel_cache(plan, op, left, source, size) if is_enabled(plan.function, "panel_reuse") else None
    if cache is not None:
        panels.copies, panels.live_start, panels.live_end = cache.slots, -1, len(plan.position)
    return cache


def operand_in_place(plan: Materialization, v: Value) -> InPlaceOperand | None:
    """The matrix in memory that is read in place of an operand, if that is planned."""
    operand = in_place_operand(v) if v in plan.read_in_place else None
    return operand[0] if operand is not None else None


def right_operand(
    op: Op, b: Value, panels: Buffer, factor: int, scheduler: LoopIRBuilder, items: ItemList
) -> tuple[Buffer | InPlaceOperand | None, bool]:
    """What the panels are packed from, and whether its rows are columns of B; None where a nest fills the panels."""
    storage = scheduler.storage
    plan = scheduler.plan
    position = scheduler.plan.position[op]
    in_place = operand_in_place(plan, b)
    if in_place is not None:
        return in_place, in_place.transposed
    loop = next((loop for loop in plan.enclosing_loops[op] if loop not in plan.enclosing(b)), None)
    if loop is not None and not factor:  # loop-invariant: the panels are filled in the preheader
        panels.live_start, panels.live_end = plan.position[loop], plan.end_position[loop]
        scheduler.preheaders[loop].add(scheduler.compute_stmt(b, panels, plan.position[loop]))
        return None, False
    if packs_transposed(op, storage.target) and b.op is not None:
        source = storage.buffer_of.get(b.op.operands[0])  # none for a constant
        if source is not None and not source.unpadded and source.view_of is None:
            return source, True
    if not factor:
        stmt = scheduler.compute_stmt(b, panels, position)
        stmt.source, stmt.packs_operand_of = storage.buffer_of.get(b), op
        items.add(stmt)
        return None, False
    source = storage.new(b.tile.elem, b.shape, position, position, pad_columns=True, in_memory_format=True)
    stmt = scheduler.compute_stmt(b, source, position)
    stmt.packs_operand_of = op
    items.add(stmt)
    return source, False


def panel_buffer(storage: BufferAllocation, b: Value, factor: int, position: int, nr: int, terms: int) -> Buffer:
    """Scratch for the panels of B."""
    *stack, rows, columns = b.shape
    lanes = storage.lanes_of(dot_dtype(b.dtype))
    elem, words = (int32, rows // factor) if factor else (b.tile.elem, rows)
    panels = storage.new(elem, (*stack, words, columns), position, position, nr)
    panels.sizes[-2] = terms * round_up(words, lanes)
    return panels


class GemmEmitter:
    """Emits the products of one kernel."""

    def __init__(self, function: FunctionEmitter) -> None:
        self.function = function
        self.macro = MacroKernel(function.e, function.target, function.nests)

    def begin(self, program: VectorValue, ids: Sequence[VectorValue], grid: Sequence[VectorValue]) -> None:
        """At the start of a program: which cached panels are there from programs before."""
        e = self.function.e
        panels = self.macro.panels
        known = self.function.outliner.live_in_types
        items = [item for item in walk(self.function.schedule.items) if isinstance(item, Gemm)]
        gemms = [gemm for item in items for gemm in item.accumulation_chain]
        has_several_programs = e.cmp("gt", grid[0], e.const(1, int64))
        begins = e.cmp("eq", program, VectorValue("%first", int64, 1, 0))
        begins_row = e.or_(e.cmp("eq", ids[0], e.const(0, int64)), begins)
        panels.begin(gemms, has_several_programs, begins, begins_row)
        slots = *panels.filled_steps.values(), *itertools.chain(*panels.cached_keys.values())
        known |= {has_several_programs.text: has_several_programs.type, **dict.fromkeys(slots, "ptr")}

    def emit(self, item: LibraryOp) -> None:
        assert isinstance(item, Gemm)
        function = self.function
        may_store = not function.is_large  # in a large kernel, the nest that stores instead may be in another part
        self.macro.emit(item, function.buffer_bases, function.in_cold_version, may_store)
        function.epilogue_done.update(self.macro.operands.epilogue_done)


emitter = GemmEmitter
