"""Code generation for a kernel: Loop IR to the text of one LLVM function that runs a range of programs.

The function loops over the programs that a launch gives to a thread, and emits the items of the schedule into that
loop. Loads of the argument block, addresses of buffers and scalar parameters are loop-invariant and stand before it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from pypto.backends.base import FIXED_SLOTS, NO_LOCALITY, Locality, Print, Slot, mangled
from pypto.backends.cpu.codegen.dispatch import dispatch_coarsened, dispatch_strips, next_program
from pypto.backends.cpu.codegen.memory import Chunk, memory_dtype, register_dtype
from pypto.backends.cpu.codegen.nest import NestEmitter
from pypto.backends.cpu.codegen.outlining import (
    COLD,
    OUTLINE_ABOVE,
    PART_SIZE,
    Outliner,
    outlined_parts,
    statement_count,
)
from pypto.backends.cpu.codegen.persistent_loops import persistent_loop_context
from pypto.backends.cpu.codegen.pipelined_reduction import find_pipelined_reduction
from pypto.backends.cpu.codegen.prefetch import loads_to_prefetch, target_level
from pypto.backends.cpu.codegen.tile_access import AccessEmitter
from pypto.backends.cpu.instrument.hooks import checks_of
from pypto.backends.cpu.instrument.printing import BUFFER, lower_prints
from pypto.backends.cpu.instrument.timing import Timer
from pypto.backends.cpu.library.registry import atomics, used_library_ops
from pypto.backends.cpu.loopir.cost import negligible_nests
from pypto.backends.cpu.loopir.index_maps import is_tile
from pypto.backends.cpu.loopir.ir import Buffer, Control, Item, LibraryOp, Nest, Scalar, Schedule
from pypto.backends.cpu.loopir.verify import verify
from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.cpu.pipeline import before_coarsening, coarsen, enabled_target, legalize, lower_to_loops
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.techniques import is_enabled
from pypto.backends.llvm.conversions import from_memory
from pypto.backends.llvm.value import VectorValue, memory_type
from pypto.backends.llvm.writer import Carried, Writer
from pypto.backends.sites import Check, Site
from pypto.ir.builder import temporarily
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import ArrayType, DType, int32, int64
from pypto.ops.table import REDUCTIONS
from pypto.passes.analysis.memory_effects import is_atomic
from pypto.passes.manager import disabled
from pypto.passes.target_facts import with_overrides

_SLOT_KINDS = {"array_ptr": "ptr", "array_shape": "shape", "array_stride": "stride"}


@dataclass(frozen=True, slots=True)
class Lowered:
    """The LLVM text of a kernel, with what a launch, a profile and a checked run have to know of it."""

    text: str
    name: str
    abi: tuple[Slot, ...]  # contents of the argument block behind the fixed slots
    scratch_bytes: int  # of each thread
    schedule: Schedule
    sites: tuple[Site, ...] = ()  # what a profile times
    locality: Locality = NO_LOCALITY
    checks: tuple[Check, ...] = ()
    prints: tuple[Print, ...] = ()
    masked: tuple[tuple[Op, str], ...] = ()  # why ops run with masks in all of a tile at an edge


def lower(function: Function, target: CpuTarget, emitter: type[FunctionEmitter] | None = None) -> Lowered:
    """Lower optimised Tile IR to the LLVM text of one kernel.

    Program coarsening may give two versions of the kernel; both are emitted, with a dispatch between them.
    """
    emitter = emitter or FunctionEmitter
    function, prints = lower_prints(replace(function, name=mangled(function.name) or "kernel"))
    target = enabled_target(function, with_overrides(target, function))
    writer = emitter.writer_kind()
    slot_order = dict[Slot, int]()
    versions = list[FunctionEmitter]()
    for version in coarsen(before_coarsening(function, target), target):
        legal = legalize(version, target)
        schedule = lower_to_loops(legal, target)
        verify(schedule, function.name)
        versions.append(emitter(legal, schedule, target, writer, slot_order))
        versions[-1].write()
    last = versions[-1]
    dispatch = dispatch_strips if versions[0].function.programs.second_factor > 1 else dispatch_coarsened
    locality = dispatch(versions, function.name)
    scratch_bytes = last.timer.with_area(max(version.schedule.scratch_bytes for version in versions))
    tail = f"attributes #0 = {{ nounwind {target.attributes} }}\n!0 = !{{i32 1}}\n"
    return Lowered(
        text=f"{writer.text()}{last.timer.text()}{last.checks.text()}{tail}",
        name=function.name,
        abi=tuple(slot_order),
        scratch_bytes=scratch_bytes,
        schedule=last.schedule,
        sites=tuple(last.timer.sites),
        locality=locality,
        checks=last.checks.places,
        prints=prints,
        masked=tuple(last.nests.mask_reasons.items()),
    )


@dataclass
class FunctionEmitter:
    """Emits one version of a kernel. Instrumentation that emits more derives from this class and from `NestEmitter`."""

    function: Function
    schedule: Schedule
    target: CpuTarget
    nest_emitter: ClassVar[type[NestEmitter]] = NestEmitter
    writer_kind: ClassVar[type[Writer]] = Writer
    writer: Writer
    slot_order: dict[Slot, int]  # places in the argument block, behind the fixed slots
    env: dict[Value, VectorValue] = field(default_factory=dict)
    slots: dict[Slot, VectorValue] = field(default_factory=dict)
    buffer_bases: dict[int, VectorValue] = field(default_factory=dict)
    epilogue_done: dict[LibraryOp, VectorValue] = field(default_factory=dict)  # whether the fused epilogue has run

    def __post_init__(self) -> None:
        self.e = CpuLaneEmitter(self.writer, self.target, disabled(self.function.attrs))
        self.nests = self.nest_emitter(self.e, self.function, self.env, self.schedule.buffer_of, self.buffer_base)
        self.nests.negligible = negligible_nests(self.schedule.items, self.target.vector_bytes // 4)
        self.memory = AccessEmitter(self.e, self.env.__getitem__)
        self.library_emitters = {name: op.emitter(self) for name, op in used_library_ops(self.function).items()}
        if self.function.attrs.get("profile"):
            self.nests.timer = Timer(self.e, self.schedule, self.nests.computed_ops)
        self.timer = self.nests.timer
        self.checks = self.nests.checks = checks_of(self)
        self.outliner = Outliner(self.writer, self.function.name, self.env, {})
        is_outlined = is_enabled(self.function, "outlining")
        self.is_large = is_outlined and statement_count(self.schedule.items) > OUTLINE_ABOVE
        self.has_cold_version = self.function.programs.has_cold_version
        self.in_cold_version = False  # the cold version is emitted now
        is_pipelined = is_enabled(self.function, "pipelined_reduction")
        self.pipelined = find_pipelined_reduction(self) if is_pipelined else None
        self.program_index = list[VectorValue]()  # the program's number, then the grid's sizes
        self.program_ids = list[VectorValue]()  # the program's position in the grid, by axis
        self.program_counts = list[VectorValue]()  # what `num_programs` gives, by axis

    def write(self) -> None:
        """Emit the function: what all programs share, then the loop over the range of programs."""
        w = self.writer
        programs = self.function.programs
        grid = [self.grid_size(axis) for axis in range(3)]
        self.bind_scratch()
        self.checks.enter()
        self.load_parameters()
        step = "%" + w.name("step") if programs.is_coarsened else "1"
        strip_rows = Carried("%" + w.name("rows"), "i64", "1")
        carried = self.pipelined.loop_carried() if self.pipelined is not None else ()
        if programs.second_factor > 1:
            carried = (*carried, strip_rows)
        with w.loop("%first", "%last", step, carried=carried, forward=True) as program:
            ids = self.bind_program(program, grid)
            if programs.is_coarsened:
                number, ends = next_program(self.e, programs, strip_rows, program, ids, grid)
                w.line(f"{step} = add i64 {number.text}, 0")
                self.program_counts = [ends.get(axis, count) for axis, count in enumerate(self.program_counts)]
            self.set_program_facts()
            self.checks.program(program)
            for library_op in self.library_emitters.values():
                library_op.begin(program, ids, grid)
            self.outliner.live_in_types |= {"%last": "i64", **self.shared_types(), **self.checks.known}
            with self.timer.program(program, self.function.loc):
                self.emit_items(self.schedule.items)
        if self.nests.has_nontemporal:  # non-temporal stores are weakly ordered
            w.line("fence seq_cst")
        w.line("ret void")
        self.checks.finish()
        self.e.end_kernel(self.function.name)

    def bind_scratch(self) -> None:
        """Compute the addresses of all buffers in the scratch memory of this thread."""
        scratch = self.slot_at(3)
        size = self.slot_at(4)
        base = self.e.add(scratch, self.e.mul(VectorValue("%thread", int64, 1, 0), size))
        for buffer in self.schedule.buffers:
            offset = self.e.const(buffer.offset, int64)
            self.buffer_bases[buffer.id] = self.e.add(base, offset) if buffer.offset else base
        self.timer.enter(base, self.schedule.scratch_bytes)

    def bind_program(self, program: VectorValue, grid: list[VectorValue]) -> list[VectorValue]:
        """Compute the program's position in the grid; gives it in 64 bits."""
        self.program_index = [program, *grid]
        ids = self.grid_position(program)
        self.program_ids = [self.e.convert(v, int32) for v in ids]
        self.program_counts = [self.e.convert(v, int32) for v in grid]
        self.nests.program_count = self.e.mul(self.e.mul(grid[0], grid[1]), grid[2])
        return ids

    def set_program_facts(self) -> None:
        """Tell the emitter of nests what runs once per program: items, prefetched loads, readers of buffers."""
        nests = [item for item in self.schedule.items if isinstance(item, Nest)]
        self.nests.per_program_items = self.schedule.items
        self.nests.loads_by_nest = loads_to_prefetch(self.function, nests, self.nests.computed_ops)
        self.nests.prefetch_level = target_level(self.nests.loads_by_nest, self.schedule.scratch_bytes, self.target)
        if all(isinstance(item, Nest | Scalar) for item in self.schedule.items):
            self.nests.trip_counts.record_readers(stmt for nest in nests for stmt in nest.stmts)

    def shared_types(self) -> dict[str, str]:
        """LLVM types, by name, of the values that every outlined part may read."""
        per_program = (*self.program_ids, *self.program_counts, self.nests.program_count)
        shared = (*per_program, *self.slots.values(), *self.buffer_bases.values())
        return {value.text: value.type for value in shared}

    def grid_position(self, program: VectorValue) -> list[VectorValue]:
        """The position of a program in the grid, by axis: the first axis runs fastest."""
        e = self.e
        _, first, second, _ = self.program_index
        return [
            e.binary("urem", program, first),
            e.binary("urem", e.binary("udiv", program, first), second),
            e.binary("udiv", program, e.mul(first, second)),
        ]

    def buffer_base(self, buffer: Buffer) -> VectorValue:
        """Address of a buffer."""
        return self.buffer_bases[buffer.id]

    def slot_at(self, index: int, dtype: DType = int64) -> VectorValue:
        """Load the argument block at an index."""
        pointer = self.writer.raw(f"getelementptr i64, ptr %args, i64 {index}", 0)
        return self.writer.instr(f"load {memory_type(dtype)}, ptr {pointer}", dtype, 1, 0)

    def grid_size(self, axis: int) -> VectorValue:
        """The size of the grid along an axis of the body; axis 0 runs fastest."""
        return self.slot_at(self.function.programs.order[axis])

    def argument(self, kind: str, arg: Value, dim: int = 0, dtype: DType = int64) -> VectorValue:
        """A slot of the argument block for an argument, loaded once at the entry."""
        return self.slot_of(Slot(kind, arg.hint, dim, dtype))

    def slot_of(self, slot: Slot) -> VectorValue:
        """The value of a slot, loaded at its first use; the slot gets its place in the block then."""
        if slot not in self.slots:
            place = self.slot_order.setdefault(slot, len(self.slot_order))
            loaded = self.slot_at(FIXED_SLOTS + place, slot.dtype)
            self.slots[slot] = from_memory(self.e, loaded.as_dtype(memory_dtype(slot.dtype)), slot.dtype)
        return self.slots[slot]

    # --- items --------------------------------------------------------------------------------------------------

    def emit_items(self, items: list[Item]) -> None:
        """Emit items in order; those of a large kernel are outlined in parts, which bounds LLVM's time."""
        once = items is self.nests.per_program_items
        if not self.is_large or statement_count(items) <= PART_SIZE:
            self.emit_in_order(items, once, id(items))
            return
        for part in outlined_parts(items):
            self.outliner.run(functools.partial(self.emit_in_order, part, once, id(items)))
            self.checks.after_part()

    def emit_in_order(self, items: Sequence[Item], once: bool, region: int) -> None:
        """Emit items one by one. `once` says that each runs once per program."""
        for item in items:
            self.checks.ready(region)
            with self.timer.site(item):
                self.emit_item(item, once)
        self.checks.ready(region)

    def emit_item(self, item: Item, once: bool) -> None:
        """Emit one item; a nest that is the fallback of a fused epilogue runs only where the epilogue did not."""
        if isinstance(item, Nest) and item.fallback_of is not None:
            self.writer.branch(self.epilogue_done[item.fallback_of].text, [list, lambda: self.nests.emit(item, once)])
        elif isinstance(item, Nest):
            (self.pipelined or self.nests).emit(item, once)
        elif isinstance(item, LibraryOp):
            self.library_emitters[item.op.name].emit(item)
        elif isinstance(item, Scalar):
            self.emit_scalar(item.op)
        else:
            self.emit_control(item)

    def emit_scalar(self, op: Op) -> None:
        """Emit an op on scalars, in program order."""
        if op.name == "store":
            pointer, value, *mask = (self.env[v] for v in op.operands)
            self.checks.element(op, pointer, mask[0] if mask else None)
            self.memory.store_scalar(value, pointer, mask[0] if mask else None)
        elif op.results:
            self.env[op.results[0]] = self.scalar_result(op)

    def scalar_result(self, op: Op) -> VectorValue:
        """The result of an op on scalars."""
        if op.name in _SLOT_KINDS:
            return self.argument(_SLOT_KINDS[op.name], op.operands[0], op.attrs.get("dim", 0))
        if op.name in ("program_id", "num_programs"):
            numbers = self.program_ids if op.name == "program_id" else self.program_counts
            axis: int = op.attrs["axis"]
            return numbers[axis]
        if op.name in REDUCTIONS and not is_tile(op.operands[0]):  # a reduction of one element
            return self.env[op.operands[0]]
        if is_atomic(op):
            operands = [self.env[v] for v in op.operands]
            self.checks.atomic(op, operands)
            return atomics()(self.e, op, operands)
        if op.name == "load":
            pointer, *optional = (self.env[v] for v in op.operands)
            mask, other = (*optional, None, None)[:2]
            self.checks.element(op, pointer, mask)
            return self.memory.load_scalar(pointer, op.results[0].dtype, mask, other, self.writer.depth)
        if any(map(is_tile, op.operands)):  # the operand is a tile of one element
            with self.writer.isolated():
                return self.nests.compute(op, (), Chunk([], -1, 1))
        return self.nests.compute(op, (), Chunk([], -1, 1))

    def load_parameters(self) -> None:
        """Load the scalar arguments that the kernel reads.

        Outlined parts may read shapes and strides too: in a kernel with such parts they are loaded here, ahead of all
        parts.
        """
        used = {v for op in self.function.walk() for v in op.operands}
        for v in self.function.args:
            if v in used and not isinstance(v.type, ArrayType):
                self.env[v] = self.argument("prints" if v.hint == BUFFER else "scalar", v, 0, v.dtype)
        if self.is_large or self.has_cold_version:
            for op in self.function.walk():
                if op.name in _SLOT_KINDS:
                    self.scalar_result(op)

    # --- control flow -------------------------------------------------------------------------------------------

    def emit_control(self, item: Control) -> None:
        """Emit an `if`, `for` or `while`."""
        {"if": self.emit_if, "for": self.emit_for, "while": self.emit_while}[item.op.name](item)

    def yielded_scalars(self, region: Region) -> list[VectorValue]:
        """The scalars that a region yields; tiles are in the buffers of their results."""
        return [self.env[v] for v in region.terminator.operands if not is_tile(v)]

    def emit_if(self, item: Control) -> None:
        """Emit an `if`; the cold version of an unswitched loop is outlined and not optimised."""

        def side(k: int) -> list[VectorValue]:
            self.in_cold_version = bool(k and self.has_cold_version and item in self.schedule.items)
            if self.in_cold_version:
                self.outliner.run(functools.partial(self.emit_items, item.regions[k]), COLD)
            else:
                self.emit_items(item.regions[k])
            return self.yielded_scalars(item.op.regions[k])

        values = self.writer.branch(self.env[item.op.operands[0]].text, [lambda: side(0), lambda: side(1)])
        self.env.update(zip((v for v in item.op.results if not is_tile(v)), values, strict=True))

    def bind_scalars(self, values: Sequence[Value], phis: list[Carried]) -> None:
        """Bind the scalars among the values to phis; tiles are carried in their buffers."""
        for v, phi in zip((v for v in values if not is_tile(v)), phis, strict=True):
            self.env[v] = VectorValue(phi.name, register_dtype(v.tile.elem), 1, self.writer.depth)

    def loop_phis(self, inits: Sequence[Value], args: Sequence[Value]) -> list[Carried]:
        """A phi for each scalar that a loop carries."""
        values = [self.env[init] for init, arg in zip(inits, args, strict=True) if not is_tile(arg)]
        return [Carried("%" + self.writer.name("c"), value.type, value.text) for value in values]

    def emit_for(self, item: Control) -> None:
        """Emit a `for`; a loop of nests alone is a persistent loop, with facts of its own."""
        op = item.op
        region = op.regions[0]
        self.checks.loop(item)
        start, end, step = (self.env[v] for v in op.operands[:3])
        phis = self.loop_phis(op.operands[3:], region.args[1:])
        with self.writer.loop(start.text, end.text, step.text, start.dtype, tuple(phis)) as index:
            self.env[region.args[0]] = index
            self.bind_scalars(region.args[1:], phis)
            with temporarily(self.nests, **persistent_loop_context(self, item)):
                self.emit_items(item.regions[0])
            for phi, value in zip(phis, self.yielded_scalars(region), strict=True):
                phi.next = value.text
        self.bind_scalars(op.results, phis)

    def emit_while(self, item: Control) -> None:
        """Emit a `while`: the condition's region is the head of the loop."""
        w = self.writer
        op = item.op
        condition_region, body = op.regions
        phis = self.loop_phis(op.operands, body.args)
        names = [w.name(p) for p in ("pre", "head", "body", "latch", "out")]
        with w.frame() as frame:
            for region, items in zip((condition_region, body), item.regions, strict=True):
                self.bind_scalars(region.args, phis)
                self.emit_items(items)
                if region is condition_region:
                    condition = self.yielded_scalars(region)[0]
                    w.line(f"br i1 {condition.text}, label %{names[2]}, label %{names[4]}")
                    w.label(names[2])
            for phi, value in zip(phis, self.yielded_scalars(body), strict=True):
                phi.next = value.text
        w.goto(names[0])
        w.while_loop(names, phis, frame.lines)
        self.bind_scalars(op.results, phis)
