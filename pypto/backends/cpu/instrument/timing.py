"""Timing for the profiler: what a kernel under a profile notes of itself, statement by statement.

Every item of Loop IR but the single scalars is a site. Code of it stands between two readings of the machine's counter,
and `timing.ll` adds the difference to tables at the end of each thread's scratch: totals that are always complete, and
as many events (for the timeline) and programs (for minimum and median) as the launch has given memory for. Where a nest
runs statements under different labels row by row, each body is a site of its own, without events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
from pypto.backends.sites import Site, area_bytes
from pypto.ir.core import Op, Value
from pypto.ir.types import DType, PtrType
from pypto.loc import UNKNOWN, Loc
from pypto.ops.table import TABLE
from pypto.passes.dot_facts import InPlaceOperand
from pypto.passes.memory_effects import accesses_memory, is_atomic

if TYPE_CHECKING:
    from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
    from pypto.backends.cpu.llvm.value import VectorValue

CLOCK: Final = "profile_clock"


def aligned(size: int) -> int:
    return -(-size // 64) * 64


def counter(triple: str) -> tuple[str, str]:
    """What reads a counter that runs evenly and alike on all cores, and its declaration.

    On ARM the counter of cycles is closed to users, and the one that is open is a register with a name.
    """
    if triple.startswith(("aarch64", "arm64")):
        declared = 'declare i64 @llvm.read_volatile_register.i64(metadata)\n!9 = !{!"cntvct_el0"}\n'
        return "call i64 @llvm.read_volatile_register.i64(metadata !9)", declared
    return "call i64 @llvm.readcyclecounter()", "declare i64 @llvm.readcyclecounter()\n"


def clock_text(triple: str) -> str:
    """A module with a function that gives the counter."""
    read, declared = counter(triple)
    return f"define i64 @{CLOCK}() {{\n  %t = {read}\n  ret i64 %t\n}}\n{declared}"


class Untimed:
    """The timer of a kernel that is not profiled: nothing is emitted."""

    sites: tuple[Site, ...] = ()

    def enter(self, own: VectorValue, scratch_bytes: int) -> None:
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
    """The timer of a profiled kernel. `ops` tells what ops a statement computes."""

    def __init__(self, e: LaneEmitter, schedule: Schedule, ops: Callable[[Stmt], list[Op]]) -> None:
        self.makers = makers(schedule)
        self.w = e.w
        self.read, self.declared = counter(e.target.triple)
        self.ops = ops
        self.sites: list[Site] = []
        self.open = [-1]  # numbers of the sites around
        self.bodies: dict[int, int] = {}  # site by the body of a nest, which is emitted several times
        self.area = self.number = ""

    def enter(self, own: VectorValue, scratch_bytes: int) -> None:
        """Take the area behind a thread's scratch."""
        address = self.w.raw(f"add i64 {own.text}, {aligned(scratch_bytes)}", 0)
        self.area = self.w.raw(f"inttoptr i64 {address} to ptr", 0)

    def with_area(self, scratch_bytes: int) -> int:
        """Scratch of a thread in bytes, with the area, once all sites are known."""
        return aligned(scratch_bytes) + area_bytes(len(self.sites))

    @contextmanager
    def program(self, number: VectorValue, loc: Loc) -> Iterator[None]:
        self.number = number.text
        with self.timed(Site("program", -1, (), (loc,)), "program"):
            yield

    @contextmanager
    def site(self, item: Item) -> Iterator[None]:
        if isinstance(item, Scalar):
            yield
            return
        with self.timed(self.described(item), "event"):
            yield

    @contextmanager
    def body(self, nest: Nest, body: list[Stmt]) -> Iterator[None]:
        """One of several bodies of a nest, where their labels differ."""
        if not self.differ(nest.bodies):
            yield
            return
        with self.timed(self.nest([body]), "add", self.bodies.get(id(body))):
            self.bodies.setdefault(id(body), self.open[-1])
            yield

    @contextmanager
    def timed(self, site: Site, note: str, number: int | None = None) -> Iterator[None]:
        """Code between two readings of the counter, and a call of ``profile.NOTE`` with them."""
        if number is None:
            number = len(self.sites)
            self.sites.append(replace(site, parent=self.open[-1]))
        self.open.append(number)
        begin = self.w.raw(self.read)
        yield
        end = self.w.raw(self.read)
        self.open.pop()
        where = f"i64 {number}" if note == "add" else f"i64 {number}, i64 {self.number}"
        self.w.line(f"call void @profile.{note}(ptr {self.area}, {where}, i64 {begin}, i64 {end})")

    def text(self) -> str:
        text = Path(__file__).with_suffix(".ll").read_text(encoding="utf-8")
        for name, value in (("sites", len(self.sites)), ("row", len(self.sites) + 1)):
            text = text.replace(f"<{name}>", str(value))
        return text + self.declared

    # --- what a site says ----------------------------------------------------------------------------------------

    def described(self, item: Nest | Control | LibraryOp) -> Site:
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
        ops = [op for body in bodies for op in self.computed(body)]
        accesses = (op for op in dict.fromkeys(ops) if accesses_memory(op) and not is_atomic(op))
        locs = tuple(sorted({op.loc for op in ops if op.loc != UNKNOWN}, key=place))
        labels = () if self.differ(bodies) else self.labels(ops)
        return Site("nest", 0, labels, locs, sum(map(bytes_of, accesses)))

    def differ(self, bodies: list[list[Stmt]]) -> bool:
        """Whether bodies stand under different labels."""
        return len({self.labels(self.computed(b)) for b in bodies} - {()}) > 1

    def computed(self, body: list[Stmt]) -> list[Op]:
        """The ops of a body that make an effort; any that it has where none does."""
        ops = [op for stmt in body for op in self.ops(stmt)]
        made = [self.makers[stmt.buffer] for stmt in body if stmt.buffer in self.makers]
        return [op for op in ops if TABLE[op.name].cost and op.name != "cast"] or ops or made

    def labels(self, ops: Iterable[Op]) -> tuple[str, ...]:
        """In the order of the source."""
        return tuple(dict.fromkeys(loc.label for loc in sorted((op.loc for op in ops), key=place) if loc.label))


def makers(schedule: Schedule) -> dict[Buffer, Op]:
    """The op for whose sake a buffer is filled: the dot that reads an operand in its own form, or what is computed."""
    from pypto.backends.cpu.gemm.ir import Gemm

    found = {buffer: v.op for v, buffer in schedule.buffer_of.items() if v.op is not None}
    for item in reversed(list(walk(schedule.items))):
        if isinstance(item, Gemm):
            found |= {side: item.op for side in (item.a, item.b, item.b_source) if isinstance(side, Buffer)}
    return found


def place(loc: Loc) -> tuple[Any, ...]:
    return loc.file, loc.line, loc.col, loc.end_line, loc.end_col, loc.function, str(loc.call_site), loc.label


def bytes_of(op: Op) -> int:
    """Bytes of a whole tile that an op loads or stores."""
    shape: tuple[int, ...] = op.attrs.get("shape", op.operands[0].shape)
    return math.prod(shape) * item_bytes(op.results[0].dtype if op.results else pointee(op.operands[0]))


def pointee(pointer: Value) -> DType:
    assert isinstance(pointer.tile.elem, PtrType)
    return pointer.tile.elem.pointee


def flops(op: Op) -> int:
    a, b = (v.shape for v in op.operands[:2])
    return 2 * math.prod(a) * b[-1]
