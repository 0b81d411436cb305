"""The last step on the CPU: Loop IR to the text of one LLVM function that runs a range of programs."""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto.backends.base import Slot
from pypto.backends.cpu.access import MemoryEmitter
from pypto.backends.cpu.dot import DotEmitter
from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.lanes import Lanes, memory_type
from pypto.backends.cpu.legalize import legalize
from pypto.backends.cpu.loopir import Buffer, Control, Item, Matmul, Nest, Pack, Scalar, Schedule
from pypto.backends.cpu.nest import NestEmitter, address
from pypto.backends.cpu.pull import is_tile
from pypto.backends.cpu.schedule import make_schedule
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.writer import Carried, Writer
from pypto.errors import CompilerBug
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import ArrayType, DType, PtrType, int32, int64

FIXED_SLOTS = 5  # three grid sizes, scratch, scratch bytes per thread


@dataclass(frozen=True, slots=True)
class Lowered:
    """What a kernel became.

    `abi` says what the slots after the fixed ones hold; `scratch_bytes` is what each thread needs.
    """

    text: str
    name: str
    abi: tuple[Slot, ...]
    scratch_bytes: int
    schedule: Schedule


def lower(function: Function, target: CpuTarget) -> Lowered:
    function = legalize(function)
    schedule = make_schedule(function, target)
    return FunctionEmitter(function, schedule, target).run()


@dataclass
class FunctionEmitter:
    """Emits one kernel function."""

    function: Function
    schedule: Schedule
    target: CpuTarget
    writer: Writer = field(default_factory=Writer)
    env: dict[Value, Lanes] = field(default_factory=dict)
    slots: dict[Slot, Lanes] = field(default_factory=dict)
    bases: dict[int, Lanes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.e = LaneEmitter(self.writer, self.target)
        self.nests = NestEmitter(self.e, self.env, self.schedule.of, self.base)
        self.dots = DotEmitter(self.e, self.target)
        self.memory = MemoryEmitter(self.e, self.env.__getitem__)

    def run(self) -> Lowered:
        w = self.writer
        grid = [self.slot_at(i) for i in range(3)]
        scratch, size = self.slot_at(3), self.slot_at(4)
        own = self.e.add(scratch, self.e.mul(Lanes("%thread", int64, 1, 0), size))
        for buffer in self.schedule.buffers:
            self.bases[buffer.id] = self.e.add(own, self.e.const(buffer.offset, int64)) if buffer.offset else own
        self.parameters()
        with w.loop("%first", "%last", "1") as program:
            plane = self.e.mul(grid[0], grid[1])
            rest = self.e.binary("urem", program, plane)
            ids = [self.e.binary("urem", rest, grid[0]), self.e.binary("udiv", rest, grid[0]),
                self.e.binary("udiv", program, plane)]
            self.ids = [self.e.convert(v, int32) for v in ids]
            self.counts = [self.e.convert(v, int32) for v in grid]
            self.nests.programs = self.e.mul(plane, grid[2])
            self.items(self.schedule.items)
        if self.nests.streams:  # such stores are ordered with nothing that follows
            w.line("fence seq_cst")
        w.line("ret void")
        header = f"void @{self.function.name}(i64 %first, i64 %last, i64 %thread, ptr noalias %args) #0"
        w.finish_function(header, w.frames[0].lines)
        text = w.text() + f"attributes #0 = {{ nounwind {self.target.attributes} }}\n!0 = !{{i32 1}}\n"
        return Lowered(text, self.function.name, tuple(self.slots), self.schedule.scratch_bytes, self.schedule)

    def base(self, buffer: Buffer) -> Lanes:
        return self.bases[buffer.id]

    def slot_at(self, index: int) -> Lanes:
        pointer = self.writer.raw(f"getelementptr i64, ptr %args, i64 {index}", 0)
        return self.writer.instr(f"load i64, ptr {pointer}", int64, 1, 0)

    def argument(self, kind: str, arg: Value, dim: int = 0, dtype: DType = int64) -> Lanes:
        """A slot of the argument block, loaded once at the entry."""
        slot = Slot(kind, arg.hint, dim, dtype)
        if slot not in self.slots:
            pointer = self.writer.raw(f"getelementptr i64, ptr %args, i64 {FIXED_SLOTS + len(self.slots)}", 0)
            loaded = self.writer.instr(f"load {memory_type(dtype)}, ptr {pointer}", dtype, 1, 0)
            from pypto.backends.cpu.access import memory_dtype
            from pypto.backends.cpu.convert import from_memory

            self.slots[slot] = from_memory(self.e, loaded.as_dtype(memory_dtype(dtype)), dtype)
        return self.slots[slot]

    # --- items --------------------------------------------------------------------------------------------------

    def items(self, items: list[Item]) -> None:
        for item in items:
            if isinstance(item, Nest):
                self.nests.emit(item, items is self.schedule.items)
            elif isinstance(item, Matmul):
                self.dots.emit(item, self.bases)
            elif isinstance(item, Pack):
                self.dots.pack(item, self.bases)
            elif isinstance(item, Scalar):
                self.scalar(item.op)
            else:
                self.control(item)

    def scalar(self, op: Op) -> None:
        """An op on scalars, in program order."""
        special = getattr(self, f"op_{op.name}", None)
        if special is not None:
            special(op)
        elif op.results:
            self.env[op.results[0]] = self.nests.apply(op, tuple(self.scalar_value(v) for v in op.operands))

    def scalar_value(self, v: Value) -> Lanes:
        if v not in self.env and isinstance(v.type, ArrayType):
            raise CompilerBug(f"array argument {v.hint} is used as a value")
        return self.env[v]

    def parameters(self) -> None:
        """Scalar arguments, as far as they are read."""
        read = {v for op in self.function.walk() for v in op.operands}
        for v in self.function.args:
            if v in read and not isinstance(v.type, ArrayType):
                self.env[v] = self.argument("scalar", v, 0, v.dtype)

    def op_constant(self, op: Op) -> None:
        value = op.attrs["value"]
        assert isinstance(value, int | float)
        self.env[op.results[0]] = self.e.const(value, op.results[0].dtype)

    def op_undef(self, op: Op) -> None:
        elem = op.results[0].tile.elem
        self.env[op.results[0]] = self.e.const(0, int64 if isinstance(elem, PtrType) else elem)

    def op_program_id(self, op: Op) -> None:
        self.env[op.results[0]] = self.ids[op.attrs["axis"]]

    def op_num_programs(self, op: Op) -> None:
        self.env[op.results[0]] = self.counts[op.attrs["axis"]]

    def op_array_ptr(self, op: Op) -> None:
        self.env[op.results[0]] = self.argument("ptr", op.operands[0])

    def op_array_shape(self, op: Op) -> None:
        self.env[op.results[0]] = self.argument("shape", op.operands[0], op.attrs["dim"])

    def op_array_stride(self, op: Op) -> None:
        self.env[op.results[0]] = self.argument("stride", op.operands[0], op.attrs["dim"])

    def op_addptr(self, op: Op) -> None:
        self.env[op.results[0]] = address(self.e, op, *(self.scalar_value(v) for v in op.operands))

    def op_broadcast_to(self, op: Op) -> None:
        self.env[op.results[0]] = self.scalar_value(op.operands[0])

    def op_reshape(self, op: Op) -> None:
        """A tile of one element under no dimensions is that element."""
        source = op.operands[0]
        if not is_tile(source):
            self.env[op.results[0]] = self.scalar_value(source)
            return
        from pypto.backends.cpu.access import Chunk

        with self.writer.based():
            value = self.nests.value(source, (None,) * len(source.shape), Chunk([], -1, 1))
        self.env[op.results[0]] = value

    def reduce_scalar(self, op: Op) -> None:
        self.env[op.results[0]] = self.scalar_value(op.operands[0])

    op_sum = op_max = op_min = reduce_scalar

    def op_load(self, op: Op) -> None:
        values = [self.scalar_value(v) for v in op.operands]
        mask, other = (values[1] if len(values) > 1 else None), (values[2] if len(values) > 2 else None)
        self.env[op.results[0]] = self.memory.load_scalar(values[0], op.results[0].dtype, mask, other,
            self.writer.depth)

    def op_store(self, op: Op) -> None:
        values = [self.scalar_value(v) for v in op.operands]
        self.memory.store_scalar(values[1], values[0], values[2] if len(values) > 2 else None)

    def op_assert_(self, op: Op) -> None:
        """Asserts are checked in the interpreter and in checked mode."""

    op_print_ = op_breakpoint_ = op_assert_

    # --- control flow -------------------------------------------------------------------------------------------

    def control(self, item: Control) -> None:
        {"if": self.branch, "for": self.for_loop, "while": self.while_loop}[item.op.name](item)

    def yielded(self, region: Region) -> list[Lanes]:
        return [self.scalar_value(v) for v in region.terminator.operands if not is_tile(v)]

    def branch(self, item: Control) -> None:
        def side(k: int) -> list[Lanes]:
            self.items(item.regions[k])
            return self.yielded(item.op.regions[k])

        values = self.writer.branch(self.scalar_value(item.op.operands[0]).text, [lambda: side(0), lambda: side(1)])
        self.env.update(zip((v for v in item.op.results if not is_tile(v)), values, strict=True))

    def bind(self, values: list[Value], texts: list[str]) -> None:
        for v, text in zip(values, texts, strict=True):
            elem = v.tile.elem
            self.env[v] = Lanes(text, int64 if isinstance(elem, PtrType) else elem, 1, self.writer.depth)

    def carried(self, inits: list[Value], args: list[Value]) -> list[Carried]:
        """Phis for the scalars that a loop carries; tiles are carried in their buffers."""
        phis = []
        for init, arg in zip(inits, args, strict=True):
            if not is_tile(arg):
                value = self.scalar_value(init)
                phis.append(Carried("%" + self.writer.name("c"), value.type, value.text))
        return phis

    def for_loop(self, item: Control) -> None:
        op, region = item.op, item.op.regions[0]
        start, end, step = (self.scalar_value(v) for v in op.operands[:3])
        args = region.args[1:]
        phis = self.carried(list(op.operands[3:]), args)
        scalars = [v for v in args if not is_tile(v)]
        with self.writer.loop(start.text, end.text, step.text, start.dtype, tuple(phis)) as index:
            self.env[region.args[0]] = index
            self.bind(scalars, [p.name for p in phis])
            self.items(item.regions[0])
            for phi, value in zip(phis, self.yielded(region), strict=True):
                phi.next = value.text
        self.bind([v for v in op.results if not is_tile(v)], [p.name for p in phis])

    def while_loop(self, item: Control) -> None:
        op, (before, body) = item.op, item.op.regions
        phis = self.carried(list(op.operands), body.args)
        w = self.writer
        pre, head, inside, latch, out = (w.name(p) for p in ("pre", "head", "body", "latch", "out"))
        with w.frame() as frame:
            for region, items in zip((before, body), item.regions, strict=True):
                self.bind([v for v in region.args if not is_tile(v)], [p.name for p in phis])
                self.items(items)
                if region is before:
                    condition = self.yielded(before)[0]
                    w.line(f"br i1 {condition.text}, label %{inside}, label %{out}")
                    w.label(inside)
            for phi, value in zip(phis, self.yielded(body), strict=True):
                phi.next = value.text
        w.line(f"br label %{pre}")
        w.label(pre)
        w.line(f"br label %{head}")
        w.label(head)
        for phi in phis:
            w.line(f"{phi.name} = phi {phi.kind} [ {phi.init}, %{pre} ], [ {phi.next}, %{latch} ]")
        w.frames[-1].lines += [*frame.lines, f"  br label %{latch}", f"{latch}:", f"  br label %{head}", f"{out}:"]
        self.bind([v for v in op.results if not is_tile(v)], [p.name for p in phis])

