"""The cell of `dot`: its operands as panels and blocks of rows, and where it reads them itself."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pypto.backends.cpu.amx import sides_as_bfloat
from pypto.backends.cpu.counting import counted
from pypto.backends.cpu.dot import DotEmitter
from pypto.backends.cpu.fuse import Fuser
from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.loopir import Buffer, CellItem, item_bytes
from pypto.backends.cpu.lower import FunctionEmitter
from pypto.backends.cpu.matmul import Matmul, Stay
from pypto.backends.cpu.operands import (
    Direct,
    direct_of,
    dot_dtype,
    may_stream,
    packs_transposed,
    panel_width,
    tile_words,
    words_of,
)
from pypto.backends.cpu.orient import oriented
from pypto.backends.cpu.plan import Plan
from pypto.backends.cpu.restep import restep
from pypto.backends.cpu.schedule import Scheduler
from pypto.backends.cpu.sharing import stay
from pypto.backends.cpu.splitting import parts_of
from pypto.backends.cpu.storage import Storage, padded
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.timing import walk
from pypto.backends.cpu.turning import turned_loops
from pypto.backends.cpu.windows import join
from pypto.backends.cpu.wrapping import unwrapped
from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import float32, int32, int64
from pypto.ops.build import OpBuilder
from pypto.passes.pattern import constant_of
from pypto.passes.products import accumulated


def prepare(function: Function) -> Function:
    """Blocks that wrap around are read in place where that is right, and loops count along K."""
    return counted(unwrapped(function))


def legalize(function: Function, target: CpuTarget) -> Function:
    """Integer dots multiply in int32.

    A sum with a dot that nothing else reads is the dot's accumulator: `acc += dot(a, b)` is `acc = dot(a, b, acc)`.
    Products turn around where that spares packing; loops that add up products get steps that suit the machine.
    """

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        return widened(rewriter, op) if op.name == "dot" and not words_of(op, target) else None

    turned = turned_loops(sides_as_bfloat(accumulated(function), target), target)
    return rewrite(restep(oriented(turned, target), target), rule, OpBuilder)


def widened(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
    builder, wide = rewriter.builder, dot_dtype(op.operands[0].dtype)
    if op.operands[0].dtype.is_float or op.operands[0].dtype == wide:
        return None
    a, b, *acc = rewriter.operands(op)
    return (builder.emit("dot", builder.cast(a, wide), builder.cast(b, wide), *acc),)


def schedule(op: Op, scheduler: Scheduler, fuser: Fuser) -> None:
    plan, storage = scheduler.plan, scheduler.storage
    position, per = plan.position[op], words_of(op, storage.target)
    (a, b, *_), c = op.operands, storage.of[op.results[0]]
    fresh = len(op.operands) < 3 or constant_of(op.operands[2]) == 0
    if not fresh and storage.of.get(op.operands[2]) is not c:
        fuser.add(scheduler.compute(op.operands[2], c, position))
    left = direct(plan, a) or storage.of[a]
    block = None
    in_place = isinstance(left, Direct) and not left.turned and not per
    parts = parts_of(op, storage.target) if per else 1
    filled = panels(storage, b, per, position, in_place, parts)
    source, turned = right(op, b, filled, per, scheduler, fuser)
    if parts > 1 or isinstance(left, Direct):
        shape = storage.target.registers, a.shape[-1]
        if parts > 1:
            shape = storage.target.registers, parts * padded(a.shape[-1] // per, storage.lanes(float32))
        elif isinstance(left, Direct) and left.turned:
            shape = a.shape[-1], storage.lanes(a.tile.elem)
        block = storage.new(a.tile.elem, shape, position, position, whole_rows=True, compact=True)
    stays = keep(plan, op, left, source, filled, storage.target)
    apart = stays is not None and "apart" in plan.function.attrs
    step = tile_words(a.shape[-1] // per) if per and storage.target.has_tiles else 0
    item = Matmul(op, left, filled, c, per, step, parts, block, source, turned, fresh, stays, apart)
    before = fuser.last()
    if isinstance(before, Matmul) and item.follows(before, plan):
        fuser.items.remove(before)
        item.before = before
        join(item, storage)
        for x in item.chain:
            if x.window is not None:
                x.window.buffer.end = position
            elif x.block is not None:
                x.block.end = position
    fuser.barrier(item)


def keep(
    plan: Plan, op: Op, left: Buffer | Direct, source: Buffer | Direct | None, panels: Buffer, target: CpuTarget
) -> Stay | None:
    """Room for the panels of all steps, where other programs can use them, too."""
    size = panels.elements * item_bytes(panels.elem)
    streamed = "merged" in plan.function.attrs and may_stream(op, target)
    if not isinstance(source, Direct) or (streamed and not source.turned):
        return None
    found = stay(plan, op, left, source, size)
    if found is not None:
        panels.places, panels.start, panels.end = found.places, -1, len(plan.position)
    return found


def direct(plan: Plan, v: Value) -> Direct | None:
    """Where a dot reads its operand itself."""
    found = direct_of(v) if v in plan.direct else None
    return found[0] if found is not None else None


def right(
    op: Op, b: Value, filled: Buffer, per: int, scheduler: Scheduler, fuser: Fuser
) -> tuple[Buffer | Direct | None, bool]:
    """What the panels of the right operand are filled from, and whether its rows are their columns."""
    storage, plan, position = scheduler.storage, scheduler.plan, scheduler.plan.position[op]
    read = direct(plan, b)
    if read is not None:
        return read, read.turned
    loop = next((loop for loop in plan.loops[op] if loop not in plan.enclosing(b)), None)
    if loop is not None and not per:  # the same in every step
        filled.start, filled.end = plan.position[loop], plan.end[loop]
        scheduler.before[loop].add(scheduler.compute(b, filled, plan.position[loop]))
        return None, False
    if packs_transposed(op, storage.target) and b.op is not None:
        source = storage.of.get(b.op.operands[0])  # none for what has no numbers
        if source is not None and not source.dense and source.view_of is None:
            return source, True
    if not per:
        stmt = scheduler.compute(b, filled, position)
        stmt.source, stmt.feeds = storage.of.get(b), op
        fuser.add(stmt)
        return None, False
    source = storage.new(b.tile.elem, b.shape, position, position, whole_rows=True, compact=True)
    stmt = scheduler.compute(b, source, position)
    stmt.feeds = op
    fuser.add(stmt)
    return source, False


def panels(storage: Storage, b: Value, per: int, position: int, in_place: bool, parts: int) -> Buffer:
    """Memory for the right operand."""
    *stack, rows, columns = b.shape
    lanes = storage.lanes(dot_dtype(b.dtype))
    elem, words = (int32, rows // per) if per else (b.tile.elem, rows)
    filled = storage.new(elem, (*stack, words, columns), position, position, panel_width(b, storage.target, in_place))
    filled.sizes[-2] = parts * padded(words, lanes)
    return filled


class Products:
    """The dots of one kernel, emitted."""

    def __init__(self, function: FunctionEmitter) -> None:
        self.function = function
        self.dots = DotEmitter(function.e, function.target, function.nests)

    def begin(self, program: Lanes, ids: Sequence[Lanes], grid: Sequence[Lanes]) -> None:
        """Panels that stay are there from the second program of a row of the grid on."""
        e, dots, known = self.function.e, self.dots, self.function.outliner.known
        items = [x for item in walk(self.function.schedule.items) if isinstance(item, Matmul) for x in item.chain]
        dots.several = e.cmp("gt", grid[0], e.const(1, int64))
        begins = e.cmp("eq", program, Lanes("%first", int64, 1, 0))
        dots.begin(items, begins, e.or_(e.cmp("eq", ids[0], e.const(0, int64)), begins))
        slots = *dots.filled.values(), *itertools.chain(*dots.keys.values())
        known |= {dots.several.text: dots.several.type, **dict.fromkeys(slots, "ptr")}

    def emit(self, item: CellItem) -> None:
        assert isinstance(item, Matmul)
        self.dots.seldom = self.function.is_seldom
        self.dots.may_store = not self.function.is_large  # the nest in its place could be in another part
        self.dots.emit(item, self.function.bases)
        self.function.done.update(self.dots.done)


emitter = Products
