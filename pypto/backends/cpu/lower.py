"""The last step on the CPU: Loop IR to the text of one LLVM function that runs a range of programs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from pypto.backends.base import Print, Slot, mangled
from pypto.backends.cpu.access import AccessEmitter
from pypto.backends.cpu.cells import atomics, used
from pypto.backends.cpu.checks import checks_of, guarded
from pypto.backends.cpu.convert import from_memory
from pypto.backends.cpu.cost import minor
from pypto.backends.cpu.early import find
from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.lanes import Lanes, memory_type
from pypto.backends.cpu.legalize import legalize, prepared
from pypto.backends.cpu.loopir import Buffer, CellItem, Control, Item, Nest, Scalar, Schedule
from pypto.backends.cpu.memory import Chunk, memory_dtype, register_dtype
from pypto.backends.cpu.merging import Merged, choose
from pypto.backends.cpu.nest import NestEmitter
from pypto.backends.cpu.outline import LARGE, PART, SELDOM, Outliner, parts, weight
from pypto.backends.cpu.plan import REDUCTIONS
from pypto.backends.cpu.prefetch import asking, level
from pypto.backends.cpu.prints import BUFFER, with_prints
from pypto.backends.cpu.pull import is_tile
from pypto.backends.cpu.schedule import make_schedule
from pypto.backends.cpu.strips import in_turns, merged_or_stripped, step_from
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.timing import Timer
from pypto.backends.cpu.turns import turn
from pypto.backends.cpu.verify import verify
from pypto.backends.cpu.writer import Carried, Writer
from pypto.backends.sites import Check, Site
from pypto.ir.builder import temporarily
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import ArrayType, DType, int32, int64
from pypto.ops.row import Effect
from pypto.ops.table import TABLE

FIXED_SLOTS = 5  # three grid sizes, scratch, scratch bytes per thread
_SLOT_KINDS = {"array_ptr": "ptr", "array_shape": "shape", "array_stride": "stride"}


@dataclass(frozen=True, slots=True)
class Lowered:
    """What a kernel became.

    `abi` says what the slots after the fixed ones hold; `scratch_bytes` is what each thread needs; `sites` are what a
    profile times; `masked` says why ops run with masks in all of a tile at an edge. See `Artifact` for `group`.
    """

    text: str
    name: str
    abi: tuple[Slot, ...]
    scratch_bytes: int
    schedule: Schedule
    sites: tuple[Site, ...] = ()
    group: int = 1
    checks: tuple[Check, ...] = ()
    prints: tuple[Print, ...] = ()
    masked: tuple[tuple[Op, str], ...] = ()


def lower(function: Function, target: CpuTarget, emitter: type[FunctionEmitter] | None = None) -> Lowered:
    kind, made, order = emitter or FunctionEmitter, list[FunctionEmitter](), dict[Slot, int]()
    function, prints = with_prints(replace(function, name=mangled(function.name) or "kernel"))
    writer = kind.writer_kind()
    for merged in merged_or_stripped(prepared(function), target):
        legal = guarded(legalize(merged.function, target))
        schedule = make_schedule(legal, target)
        verify(schedule, function.name)
        made.append(kind(legal, schedule, target, merged, writer, order))
        made[-1].write()
    group, last = (in_turns if made[0].merged.strips > 1 else choose)(made, function.name), made[-1]
    scratch = last.timer.with_area(max(one.schedule.scratch_bytes for one in made))
    tail = f"attributes #0 = {{ nounwind {target.attributes} }}\n!0 = !{{i32 1}}\n"
    text = f"{writer.text()}{last.timer.text()}{last.checks.text()}{tail}"
    return Lowered(
        text,
        function.name,
        tuple(order),
        scratch,
        last.schedule,
        tuple(last.timer.sites),
        group,
        last.checks.found,
        prints,
        tuple(last.nests.masked.items()),
    )


@dataclass
class FunctionEmitter:
    """Emits one kernel function; one that emits more about it derives from this and from `NestEmitter`."""

    function: Function
    schedule: Schedule
    target: CpuTarget
    merged: Merged
    nest_emitter: ClassVar[type[NestEmitter]] = NestEmitter
    writer_kind: ClassVar[type[Writer]] = Writer
    writer: Writer
    order: dict[Slot, int]  # places in the argument block, behind what is always there
    env: dict[Value, Lanes] = field(default_factory=dict)
    slots: dict[Slot, Lanes] = field(default_factory=dict)
    bases: dict[int, Lanes] = field(default_factory=dict)
    done: dict[CellItem, Lanes] = field(default_factory=dict)  # whether it has done what a nest is there for

    def __post_init__(self) -> None:
        self.e = LaneEmitter(self.writer, self.target)
        self.nests = self.nest_emitter(self.e, self.function, self.env, self.schedule.of, self.base)
        self.nests.minor = minor(self.schedule.items, self.target.vector_bytes // 4)
        self.memory = AccessEmitter(self.e, self.env.__getitem__)
        self.cells = {name: cell.emitter(self) for name, cell in used(self.function).items()}
        if self.function.attrs.get("profile"):
            self.nests.timer = Timer(self.e, self.schedule, self.nests.ops)
        self.timer = self.nests.timer
        self.checks = self.nests.checks = checks_of(self)
        self.outliner = Outliner(self.writer, self.function.name, self.env, {})
        self.is_large = weight(self.schedule.items) > LARGE and not self.function.attrs.get("profile")
        self.has_seldom, self.is_seldom = bool(self.function.attrs.get("twice")), False  # whether it is emitted now
        self.early = None if {"profile", "checked"} & self.function.attrs.keys() else find(self)
        # The program's number and the grid's sizes; its place in the grid; how many places there are.
        self.here, self.ids, self.counts = list[Lanes](), list[Lanes](), list[Lanes]()

    def write(self) -> None:
        w = self.writer
        grid = [self.slot_at(i) for i in range(3)]
        scratch, size = self.slot_at(3), self.slot_at(4)
        own = self.e.add(scratch, self.e.mul(Lanes("%thread", int64, 1, 0), size))
        for buffer in self.schedule.buffers:
            self.bases[buffer.id] = self.e.add(own, self.e.const(buffer.offset, int64)) if buffer.offset else own
        self.timer.enter(own, self.schedule.scratch_bytes)
        self.checks.enter()
        self.parameters()
        step, rows = "1" if self.merged.is_one else "%" + w.name("step"), Carried("%" + w.name("rows"), "i64", "1")
        handed = (*(self.early.begin() if self.early is not None else ()), *[rows][: self.merged.strips - 1])
        with w.loop("%first", "%last", step, carried=handed, forward=True) as program:
            self.here = [program, *grid]
            ids = self.places(program)
            self.ids = [self.e.convert(v, int32) for v in ids]
            self.counts = [self.e.convert(v, int32) for v in grid]
            self.nests.programs = self.e.mul(self.e.mul(grid[0], grid[1]), grid[2])
            self.nests.repeated = self.schedule.items
            if not self.merged.is_one:
                number, ends = step_from(self.e, self.merged, rows, program, ids, grid)
                w.line(f"{step} = add i64 {number.text}, 0")
                self.counts = [ends.get(axis, count) for axis, count in enumerate(self.counts)]
            nests = [item for item in self.schedule.items if isinstance(item, Nest)]
            self.nests.asking = asking(nests, self.nests.ops)
            self.nests.asked_to = level(self.nests.asking, self.schedule.scratch_bytes, self.target)
            if all(isinstance(item, Nest | Scalar) for item in self.schedule.items):
                self.nests.live.read_by(stmt for nest in nests for stmt in nest.stmts)
            self.checks.program(program)
            for cell in self.cells.values():
                cell.begin(program, ids, grid)
            shared = (*self.ids, *self.counts, self.nests.programs, *self.slots.values(), *self.bases.values())
            self.outliner.known |= {"%last": "i64", **{x.text: x.type for x in shared}, **self.checks.known}
            with self.timer.program(program, self.function.loc):
                self.items(self.schedule.items)
        if self.nests.streams:  # such stores are ordered with nothing that follows
            w.line("fence seq_cst")
        w.line("ret void")
        self.checks.finish()
        w.end_kernel(self.function.name)

    def places(self, program: Lanes) -> list[Lanes]:
        """Where in the grid a program is."""
        e, (_, first, second, _) = self.e, self.here
        return [
            e.binary("urem", program, first),
            e.binary("urem", e.binary("udiv", program, first), second),
            e.binary("udiv", program, e.mul(first, second)),
        ]

    def base(self, buffer: Buffer) -> Lanes:
        return self.bases[buffer.id]

    def slot_at(self, index: int, dtype: DType = int64) -> Lanes:
        pointer = self.writer.raw(f"getelementptr i64, ptr %args, i64 {index}", 0)
        return self.writer.instr(f"load {memory_type(dtype)}, ptr {pointer}", dtype, 1, 0)

    def argument(self, kind: str, arg: Value, dim: int = 0, dtype: DType = int64) -> Lanes:
        """A slot of the argument block, loaded once at the entry."""
        return self.slot_of(Slot(kind, arg.hint, dim, dtype))

    def slot_of(self, slot: Slot) -> Lanes:
        if slot not in self.slots:
            place, dtype = self.order.setdefault(slot, len(self.order)), slot.dtype
            loaded = self.slot_at(FIXED_SLOTS + place, dtype)
            self.slots[slot] = from_memory(self.e, loaded.as_dtype(memory_dtype(dtype)), dtype)
        return self.slots[slot]

    # --- items --------------------------------------------------------------------------------------------------

    def items(self, items: list[Item]) -> None:
        once = items is self.nests.repeated
        if not self.is_large or weight(items) <= PART:
            self.in_order(items, once, id(items))
            return
        for part in parts(items):
            self.outliner.run(functools.partial(self.in_order, part, once, id(items)))
            self.checks.after_part()

    def in_order(self, items: Sequence[Item], once: bool, region: int) -> None:
        for item in items:
            self.checks.ready(region)
            with self.timer.site(item):
                self.item(item, once)
        self.checks.ready(region)

    def item(self, item: Item, once: bool) -> None:
        if isinstance(item, Nest) and item.spare is not None:
            self.writer.branch(self.done[item.spare].text, [list, lambda: self.nests.emit(item, once)])
        elif isinstance(item, Nest):
            (self.early or self.nests).emit(item, once)
        elif isinstance(item, CellItem):
            self.cells[item.op.name].emit(item)
        elif isinstance(item, Scalar):
            self.scalar(item.op)
        else:
            self.control(item)

    def scalar(self, op: Op) -> None:
        """An op on scalars, in program order."""
        if op.name == "store":
            pointer, value, *mask = (self.env[v] for v in op.operands)
            self.checks.element(op, pointer, mask[0] if mask else None)
            self.memory.store_scalar(value, pointer, mask[0] if mask else None)
        elif op.results:
            self.env[op.results[0]] = self.scalar_result(op)

    def scalar_result(self, op: Op) -> Lanes:
        if op.name in _SLOT_KINDS:
            return self.argument(_SLOT_KINDS[op.name], op.operands[0], op.attrs.get("dim", 0))
        if op.name in ("program_id", "num_programs"):
            numbers = self.ids if op.name == "program_id" else self.counts
            axis: int = op.attrs["axis"]
            return numbers[axis]
        if op.name in REDUCTIONS and not is_tile(op.operands[0]):  # a scalar is its own sum
            return self.env[op.operands[0]]
        if TABLE[op.name].effect is Effect.ATOMIC:
            self.checks.atomic(op, operands := [self.env[v] for v in op.operands])
            return atomics()(self.e, op, operands)
        if op.name == "load":
            pointer, *rest = (self.env[v] for v in op.operands)
            mask, other = (*rest, None, None)[:2]
            self.checks.element(op, pointer, mask)
            return self.memory.load_scalar(pointer, op.results[0].dtype, mask, other, self.writer.depth)
        if any(map(is_tile, op.operands)):  # a tile of one element under no dimensions is that element
            with self.writer.based():
                return self.nests.computed(op, (), Chunk([], -1, 1))
        return self.nests.computed(op, (), Chunk([], -1, 1))

    def parameters(self) -> None:
        """Scalar arguments, as far as they are read."""
        read = {v for op in self.function.walk() for v in op.operands}
        for v in self.function.args:
            if v in read and not isinstance(v.type, ArrayType):
                self.env[v] = self.argument("prints" if v.hint == BUFFER else "scalar", v, 0, v.dtype)
        for op in self.function.walk() if self.is_large or self.has_seldom else ():  # every part may read them
            if op.name in _SLOT_KINDS:
                self.scalar_result(op)

    # --- control flow -------------------------------------------------------------------------------------------

    def control(self, item: Control) -> None:
        {"if": self.branch, "for": self.for_loop, "while": self.while_loop}[item.op.name](item)

    def yielded(self, region: Region) -> list[Lanes]:
        return [self.env[v] for v in region.terminator.operands if not is_tile(v)]

    def branch(self, item: Control) -> None:
        def side(k: int) -> list[Lanes]:
            self.is_seldom = bool(k and self.has_seldom and item in self.schedule.items)
            if self.is_seldom:
                self.outliner.run(functools.partial(self.items, item.regions[k]), SELDOM)
            else:
                self.items(item.regions[k])
            return self.yielded(item.op.regions[k])

        values = self.writer.branch(self.env[item.op.operands[0]].text, [lambda: side(0), lambda: side(1)])
        self.env.update(zip((v for v in item.op.results if not is_tile(v)), values, strict=True))

    def bind(self, values: Sequence[Value], phis: list[Carried]) -> None:
        """Names of the scalars among the values; tiles are carried in their buffers."""
        for v, phi in zip((v for v in values if not is_tile(v)), phis, strict=True):
            self.env[v] = Lanes(phi.name, register_dtype(v.tile.elem), 1, self.writer.depth)

    def carried(self, inits: Sequence[Value], args: Sequence[Value]) -> list[Carried]:
        """Phis for the scalars that a loop carries."""
        values = [self.env[init] for init, arg in zip(inits, args, strict=True) if not is_tile(arg)]
        return [Carried("%" + self.writer.name("c"), value.type, value.text) for value in values]

    def for_loop(self, item: Control) -> None:
        op, region = item.op, item.op.regions[0]
        self.checks.loop(item)
        start, end, step = (self.env[v] for v in op.operands[:3])
        phis = self.carried(op.operands[3:], region.args[1:])
        with self.writer.loop(start.text, end.text, step.text, start.dtype, tuple(phis)) as index:
            self.env[region.args[0]] = index
            self.bind(region.args[1:], phis)
            with temporarily(self.nests, **turn(self, item)):
                self.items(item.regions[0])
            for phi, value in zip(phis, self.yielded(region), strict=True):
                phi.next = value.text
        self.bind(op.results, phis)

    def while_loop(self, item: Control) -> None:
        w, op, (before, body) = self.writer, item.op, item.op.regions
        phis = self.carried(op.operands, body.args)
        names = [w.name(p) for p in ("pre", "head", "body", "latch", "out")]
        with w.frame() as frame:
            for region, items in zip((before, body), item.regions, strict=True):
                self.bind(region.args, phis)
                self.items(items)
                if region is before:
                    condition = self.yielded(before)[0]
                    w.line(f"br i1 {condition.text}, label %{names[2]}, label %{names[4]}")
                    w.label(names[2])
            for phi, value in zip(phis, self.yielded(body), strict=True):
                phi.next = value.text
        w.goto(names[0])
        w.cycle(names, phis, frame.lines)
        self.bind(op.results, phis)
