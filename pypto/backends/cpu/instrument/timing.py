"""Timing for the profiler: a profiled kernel reads the cycle counter before and after each item of Loop IR.

Each item but single scalars is a site. `timing.c` adds the difference of two readings to tables behind each thread's
scratch: totals, which are always complete; and events for the timeline and programs for minimum and median, as many as
the launch has memory for. Where a nest runs statements with different labels row by row, each body is a site of its
own, without events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pypto.backends.cpu.instrument.access_ranges import pointee_of
from pypto.backends.cpu.loopir.ir import (
    Buffer,
    Control,
    Item,
    LibraryOp,
    Nest,
    Scalar,
    Schedule,
    Stmt,
    item_bytes,
    walk,
)
from pypto.backends.llvm.compiled import helpers
from pypto.backends.sites import Site, area_bytes
from pypto.ir.core import Op
from pypto.loc import UNKNOWN, Loc
from pypto.ops.table import TABLE
from pypto.passes.analysis.dot_facts import InPlaceOperand
from pypto.passes.analysis.memory_effects import accesses_memory, is_atomic

if TYPE_CHECKING:
    from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
    from pypto.backends.llvm.value import VectorValue

CLOCK: Final = "profile_clock"


def aligned(size: int) -> int:
    """A size, rounded up to whole cache lines."""
    return -(-size // 64) * 64


def counter(triple: str) -> tuple[str, str]:
    """The call that reads a counter with a constant rate on all cores, and its declaration.

    On ARM user code may not read the cycle counter; the virtual timer is a register that it may read.
    """
    if triple.startswith(("aarch64", "arm64")):
        declared = 'declare i64 @llvm.read_volatile_register.i64(metadata)\n!9 = !{!"cntvct_el0"}\n'
        return "call i64 @llvm.read_volatile_register.i64(metadata !9)", declared
    return "call i64 @llvm.readcyclecounter()", "declare i64 @llvm.readcyclecounter()\n"


def clock_text(triple: str) -> str:
    """A module with a function that reads the counter."""
    read, declared = counter(triple)
    return f"define i64 @{CLOCK}() {{\n  %t = {read}\n  ret i64 %t\n}}\n{declared}"


class Untimed:
    """The timer of a kernel that is not profiled: it emits nothing."""

    sites: tuple[Site, ...] = ()

    def enter(self, scratch: VectorValue, scratch_bytes: int) -> None:
        pass

    def with_area(self, scratch_bytes: int) -> int:
        return scratch_bytes

    def program(self, number: VectorValue, loc: Loc) -> Any:
        return nullcontext()

    def site(self, item: Item) -> Any:
        return nullcontext()

    def body(self, nest: Nest, body: list[Stmt]) -> Any:
        return nullcontext()

    def text(self) -> str:
        return ""


class Timer:
    """The timer of a profiled kernel."""

    def __init__(self, e: CpuLaneEmitter, schedule: Schedule, ops: Callable[[Stmt], list[Op]]) -> None:
        self.op_of_buffer = ops_by_buffer(schedule)
        self.w = e.w
        self.read, self.declared = counter(e.target.triple)
        self.ops = ops  # the ops that a statement computes
        self.sites: list[Site] = []
        self.open = [-1]  # numbers of the enclosing sites
        self.bodies: dict[int, int] = {}  # sites by body: a body may be emitted in several versions
        self.area = self.number = ""

    def enter(self, scratch: VectorValue, scratch_bytes: int) -> None:
        """Compute the address of the tables, behind a thread's scratch."""
        address = self.w.raw(f"add i64 {scratch.text}, {aligned(scratch_bytes)}", 0)
        self.area = self.w.raw(f"inttoptr i64 {address} to ptr", 0)

    def with_area(self, scratch_bytes: int) -> int:
        """Bytes of scratch with the tables, once all sites are known."""
        return aligned(scratch_bytes) + area_bytes(len(self.sites))

    @contextmanager
    def program(self, number: VectorValue, loc: Loc) -> Iterator[None]:
        """Time a program."""
        self.number = number.text
        with self.timed(Site("program", -1, (), (loc,)), "program"):
            yield

    @contextmanager
    def site(self, item: Item) -> Iterator[None]:
        """Time an item."""
        if isinstance(item, Scalar):
            yield
            return
        with self.timed(self.described(item), "event"):
            yield

    @contextmanager
    def body(self, nest: Nest, body: list[Stmt]) -> Iterator[None]:
        """Time one of several bodies of a nest, where their labels differ."""
        if not self.differ(nest.bodies):
            yield
            return
        with self.timed(self.nest([body]), "add", self.bodies.get(id(body))):
            self.bodies.setdefault(id(body), self.open[-1])
            yield

    @contextmanager
    def timed(self, site: Site, note: str, number: int | None = None) -> Iterator[None]:
        """Time what is emitted within, and call ``profile_NOTE`` with both readings."""
        if number is None:
            number = len(self.sites)
            self.sites.append(replace(site, parent=self.open[-1]))
        self.open.append(number)
        begin = self.w.raw(self.read)
        yield
        end = self.w.raw(self.read)
        self.open.pop()
        where = f"i64 {number}" if note == "add" else f"i64 {number}, i64 {self.number}"
        self.w.line(f"call void @profile_{note}(ptr {self.area}, {where}, i64 {begin}, i64 {end})")

    def text(self) -> str:
        """The helper functions."""
        return helpers(Path(__file__).with_suffix(".c"), profile_sites=len(self.sites))[0] + self.declared

    # --- what a site says ----------------------------------------------------------------------------------------

    def described(self, item: Nest | Control | LibraryOp) -> Site:
        """The site of an item."""
        from pypto.backends.cpu.gemm.ir import Gemm

        if isinstance(item, Nest):
            return self.nest(item.bodies)
        if isinstance(item, Control):
            return Site("branch" if item.op.name == "if" else "loop", 0, self.labels([item.op]), (item.op.loc,))
        if not isinstance(item, Gemm):
            return Site("sort", 0, self.labels([item.op]), (item.op.loc,))
        loads = [side.load for side in (item.a, item.b_source) if isinstance(side, InPlaceOperand)]
        locs = tuple(sorted({op.loc for op in (item.op, *loads) if op.loc != UNKNOWN}, key=place))
        return Site("dot", 0, self.labels([item.op]), locs, sum(map(bytes_of, loads)), flops(item.op))

    def nest(self, bodies: list[list[Stmt]]) -> Site:
        """The site of bodies of a nest."""
        ops = [op for body in bodies for op in self.computed(body)]
        accesses = (op for op in dict.fromkeys(ops) if accesses_memory(op) and not is_atomic(op))
        locs = tuple(sorted({op.loc for op in ops if op.loc != UNKNOWN}, key=place))
        labels = () if self.differ(bodies) else self.labels(ops)
        return Site("nest", 0, labels, locs, sum(map(bytes_of, accesses)))

    def differ(self, bodies: list[list[Stmt]]) -> bool:
        """Whether bodies have different labels."""
        return len({self.labels(self.computed(b)) for b in bodies} - {()}) > 1

    def computed(self, body: list[Stmt]) -> list[Op]:
        """The ops of a body that take time; all of them where none does."""
        ops = [op for stmt in body for op in self.ops(stmt)]
        fillers = [self.op_of_buffer[stmt.buffer] for stmt in body if stmt.buffer in self.op_of_buffer]
        return [op for op in ops if TABLE[op.name].cost and op.name != "cast"] or ops or fillers

    def labels(self, ops: Iterable[Op]) -> tuple[str, ...]:
        """The labels of ops, in the order of the source."""
        return tuple(dict.fromkeys(loc.label for loc in sorted((op.loc for op in ops), key=place) if loc.label))


def ops_by_buffer(schedule: Schedule) -> dict[Buffer, Op]:
    """The op for which a buffer is filled: the product that reads it as a packed operand, or the op of its value."""
    from pypto.backends.cpu.gemm.ir import Gemm

    ops = {buffer: v.op for v, buffer in schedule.buffer_of.items() if v.op is not None}
    for item in reversed(list(walk(schedule.items))):
        if isinstance(item, Gemm):
            ops |= {side: item.op for side in (item.a, item.b, item.b_source) if isinstance(side, Buffer)}
    return ops


def place(loc: Loc) -> tuple[Any, ...]:
    """The order of places in the source."""
    return loc.file, loc.line, loc.col, loc.end_line, loc.end_col, loc.function, str(loc.call_site), loc.label


def bytes_of(op: Op) -> int:
    """Bytes of the tile that an op loads or stores."""
    shape: tuple[int, ...] = op.attrs.get("shape", op.operands[0].shape)
    return math.prod(shape) * item_bytes(op.results[0].dtype if op.results else pointee_of(op.operands[0]))


def flops(op: Op) -> int:
    """Floating-point operations of a matrix product."""
    a, b = (v.shape for v in op.operands[:2])
    return 2 * math.prod(a) * b[-1]
