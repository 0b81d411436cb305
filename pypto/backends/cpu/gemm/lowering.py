"""The cell of `dot`: its operands as panels and blocks of rows, and where it reads them itself."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

from pypto.backends.cpu.codegen.function import FunctionEmitter
from pypto.backends.cpu.gemm.amx import float8_as_bfloat16
from pypto.backends.cpu.gemm.blocking import choose_kc
from pypto.backends.cpu.gemm.conv_window import share_window
from pypto.backends.cpu.gemm.ir import Gemm, PanelCache
from pypto.backends.cpu.gemm.macro_kernel import MacroKernel
from pypto.backends.cpu.gemm.operands import choose_nr
from pypto.backends.cpu.gemm.panel_reuse import plan_panel_cache
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.loopir.allocate import BufferAllocation, round_up
from pypto.backends.cpu.loopir.build import LoopIRBuilder
from pypto.backends.cpu.loopir.fusion import LoopFuser
from pypto.backends.cpu.loopir.ir import Buffer, LibraryOp, item_bytes, walk
from pypto.backends.cpu.loopir.materialize import Materialization
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import float32, int32, int64
from pypto.ops.build import OpBuilder
from pypto.passes.dot_facts import (
    InPlaceOperand,
    amx_k_words,
    dot_dtype,
    in_place_operand,
    may_be_skinny,
    packing_factor,
    packs_transposed,
    split_terms,
)
from pypto.passes.k_blocking import retile_reductions
from pypto.passes.normalize_loops import normalize_pointer_loops
from pypto.passes.pattern import constant_of
from pypto.passes.products import accumulated
from pypto.passes.swap_operands import swap_operands
from pypto.passes.transpose_attention import transpose_attention
from pypto.passes.unswitch_modulo import unswitch_modulo


def prepare(function: Function) -> Function:
    """Blocks that wrap around are read in place where that is right, and loops count along K."""
    return normalize_pointer_loops(unswitch_modulo(function))


def legalize(function: Function, target: CpuTarget) -> Function:
    """Integer dots multiply in int32.

    A sum with a dot that nothing else reads is the dot's accumulator: `acc += dot(a, b)` is `acc = dot(a, b, acc)`.
    Products turn around where that spares packing; loops that add up products get steps that suit the machine.
    """

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        return widen_integers(rewriter, op) if op.name == "dot" and not packing_factor(op, target) else None

    turned = transpose_attention(float8_as_bfloat16(accumulated(function), target), target)
    return rewrite(retile_reductions(swap_operands(turned, target), partial(choose_kc, target=target)), rule, OpBuilder)


def widen_integers(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
    builder, wide = rewriter.builder, dot_dtype(op.operands[0].dtype)
    if op.operands[0].dtype.is_float or op.operands[0].dtype == wide:
        return None
    a, b, *acc = rewriter.operands(op)
    return (builder.emit("dot", builder.cast(a, wide), builder.cast(b, wide), *acc),)


def schedule(op: Op, scheduler: LoopIRBuilder, fuser: LoopFuser) -> None:
    plan, storage = scheduler.plan, scheduler.storage
    position, per = plan.position[op], packing_factor(op, storage.target)
    (a, b, *_), c = op.operands, storage.buffer_of[op.results[0]]
    fresh = len(op.operands) < 3 or constant_of(op.operands[2]) == 0
    if not fresh and storage.buffer_of.get(op.operands[2]) is not c:
        fuser.add(scheduler.compute_stmt(op.operands[2], c, position))
    left = operand_in_place(plan, a) or storage.buffer_of[a]
    block = None
    in_place = isinstance(left, InPlaceOperand) and not left.transposed and not per
    parts = split_terms(op, storage.target) if per else 1
    filled = panel_buffer(storage, b, per, position, in_place, parts)
    source, turned = right_operand(op, b, filled, per, scheduler, fuser)
    if parts > 1 or isinstance(left, InPlaceOperand):
        shape = storage.target.registers, a.shape[-1]
        if parts > 1:
            shape = storage.target.registers, parts * round_up(a.shape[-1] // per, storage.lanes_of(float32))
        elif isinstance(left, InPlaceOperand) and left.transposed:
            shape = a.shape[-1], storage.lanes_of(a.tile.elem)
        block = storage.new(a.tile.elem, shape, position, position, whole_rows=True, compact=True)
    stays = panel_cache(plan, op, left, source, filled, storage.target)
    apart = stays is not None and "apart" in plan.function.attrs
    step = amx_k_words(a.shape[-1] // per) if per and storage.target.has_amx else 0
    item = Gemm(op, left, filled, c, per, step, parts, block, source, turned, fresh, stays, apart)
    before = fuser.last_item()
    if isinstance(before, Gemm) and item.continues_chain(before, plan):
        fuser.items.remove(before)
        item.previous = before
        share_window(item, storage)
        for x in item.accumulation_chain:
            if x.conv_window is not None:
                x.conv_window.buffer.live_end = position
            elif x.left_block is not None:
                x.left_block.live_end = position
    fuser.barrier(item)


def panel_cache(
    plan: Materialization,
    op: Op,
    left: Buffer | InPlaceOperand,
    source: Buffer | InPlaceOperand | None,
    panels: Buffer,
    target: CpuTarget,
) -> PanelCache | None:
    """Room for the panels of all steps, where other programs can use them, too."""
    size = panels.elements * item_bytes(panels.elem)
    streamed = "merged" in plan.function.attrs and may_be_skinny(op, target)
    if not isinstance(source, InPlaceOperand) or (streamed and not source.transposed):
        return None
    found = plan_panel_cache(plan, op, left, source, size)
    if found is not None:
        panels.copies, panels.live_start, panels.live_end = found.slots, -1, len(plan.position)
    return found


def operand_in_place(plan: Materialization, v: Value) -> InPlaceOperand | None:
    """Where a dot reads its operand itself."""
    found = in_place_operand(v) if v in plan.read_in_place else None
    return found[0] if found is not None else None


def right_operand(
    op: Op, b: Value, filled: Buffer, per: int, scheduler: LoopIRBuilder, fuser: LoopFuser
) -> tuple[Buffer | InPlaceOperand | None, bool]:
    """What the panels of the right operand are filled from, and whether its rows are their columns."""
    storage, plan, position = scheduler.storage, scheduler.plan, scheduler.plan.position[op]
    read = operand_in_place(plan, b)
    if read is not None:
        return read, read.transposed
    loop = next((loop for loop in plan.enclosing_loops[op] if loop not in plan.enclosing(b)), None)
    if loop is not None and not per:  # the same in every step
        filled.live_start, filled.live_end = plan.position[loop], plan.end_position[loop]
        scheduler.preheaders[loop].add(scheduler.compute_stmt(b, filled, plan.position[loop]))
        return None, False
    if packs_transposed(op, storage.target) and b.op is not None:
        source = storage.buffer_of.get(b.op.operands[0])  # none for what has no numbers
        if source is not None and not source.unpadded and source.view_of is None:
            return source, True
    if not per:
        stmt = scheduler.compute_stmt(b, filled, position)
        stmt.source, stmt.packs_operand_of = storage.buffer_of.get(b), op
        fuser.add(stmt)
        return None, False
    source = storage.new(b.tile.elem, b.shape, position, position, whole_rows=True, compact=True)
    stmt = scheduler.compute_stmt(b, source, position)
    stmt.packs_operand_of = op
    fuser.add(stmt)
    return source, False


def panel_buffer(storage: BufferAllocation, b: Value, per: int, position: int, in_place: bool, parts: int) -> Buffer:
    """Memory for the right operand."""
    *stack, rows, columns = b.shape
    lanes = storage.lanes_of(dot_dtype(b.dtype))
    elem, words = (int32, rows // per) if per else (b.tile.elem, rows)
    filled = storage.new(elem, (*stack, words, columns), position, position, choose_nr(b, storage.target, in_place))
    filled.sizes[-2] = parts * round_up(words, lanes)
    return filled


class GemmEmitter:
    """The dots of one kernel, emitted."""

    def __init__(self, function: FunctionEmitter) -> None:
        self.function = function
        self.dots = MacroKernel(function.e, function.target, function.nests)

    def begin(self, program: VectorValue, ids: Sequence[VectorValue], grid: Sequence[VectorValue]) -> None:
        """Panels that stay are there from the second program of a row of the grid on."""
        e, dots, known = self.function.e, self.dots, self.function.outliner.live_in_types
        items = [
            x for item in walk(self.function.schedule.items) if isinstance(item, Gemm) for x in item.accumulation_chain
        ]
        dots.has_several_programs = e.cmp("gt", grid[0], e.const(1, int64))
        begins = e.cmp("eq", program, VectorValue("%first", int64, 1, 0))
        dots.begin(items, begins, e.or_(e.cmp("eq", ids[0], e.const(0, int64)), begins))
        slots = *dots.filled_steps.values(), *itertools.chain(*dots.cached_keys.values())
        known |= {dots.has_several_programs.text: dots.has_several_programs.type, **dict.fromkeys(slots, "ptr")}

    def emit(self, item: LibraryOp) -> None:
        assert isinstance(item, Gemm)
        self.dots.cold = self.function.in_cold_version
        self.dots.may_store = not self.function.is_large  # the nest in its place could be in another part
        self.dots.emit(item, self.function.buffer_bases)
        self.function.epilogue_done.update(self.dots.epilogue_done)


emitter = GemmEmitter
