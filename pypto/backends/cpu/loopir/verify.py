"""Verifier of Loop IR: every read of scratch finds the value that it needs, in the layout in which it was written.

This is a forward data-flow analysis of reaching definitions for buffers, through nests, library ops, branches and
loops (to a fixpoint). A write kills the contents of all buffers at the same addresses. In a nest, statements that
share loops are also compared pair by pair: dependences between them must have distance 0 in these loops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from pypto.backends.cpu.loopir.index_maps import IndexMap, inlined_operands, operand_reads
from pypto.backends.cpu.loopir.ir import Buffer, Control, Item, LibraryOp, Nest, Scalar, Schedule, Stmt
from pypto.backends.cpu.loopir.use_sets import UseSet, use_set_of
from pypto.errors import CompilerBug
from pypto.ir.core import Value
from pypto.passes.analysis.carried import carried, initial, yields

LayoutKey = tuple[object, ...]


def verify(schedule: Schedule, name: str) -> None:
    """Check the schedule of a kernel.

    Raises
    ------
    CompilerBug
        With all violations. A user cannot cause one.
    """
    lines = violations(schedule)
    if lines:
        raise CompilerBug(f"the Loop IR of {name} reads what was not written so:\n  " + "\n  ".join(lines))


def violations(schedule: Schedule) -> list[str]:
    """One line for each violation, in the order of the items."""
    checker = ScheduleVerifier(schedule)
    checker.check_items(schedule.items, ScratchState(checker.extents))
    for nest in nests(schedule.items):
        checker.check_nest_pairs(nest)
    return list(dict.fromkeys(checker.violations))


def nests(items: Iterable[Item]) -> Iterator[Nest]:
    """All nests among items and their regions."""
    for item in items:
        if isinstance(item, Nest):
            yield item
        for region in item.regions if isinstance(item, Control) else ():
            yield from nests(region)


def layout_key(b: Buffer) -> LayoutKey:
    """The layout of a buffer: two buffers of one memory read each other's contents only if their keys are equal."""
    padding = ("dense",) if b.unpadded else (b.shape, tuple(b.sizes))
    return b.elem, b.in_memory_format, b.panel, b.contracted_dims, *padding


def byte_range(b: Buffer) -> tuple[int, int]:
    """First byte of a buffer in scratch and the byte after its last; an empty range for one in registers."""
    memory = b.memory
    if b.contracted or memory.contracted:
        return 0, 0
    return memory.offset, memory.offset + memory.size_bytes


@dataclass(frozen=True, slots=True)
class BufferContent:
    """The reaching definition of a buffer."""

    values: frozenset[Value]  # SSA values that name the contents: control flow gives one tile several
    layout: LayoutKey  # in which it was written


@dataclass(slots=True)
class ScratchState:
    """The data-flow fact: reaching definitions at one point of the schedule."""

    extents: Mapping[Buffer, tuple[int, int]]  # byte ranges
    contents: dict[Buffer, BufferContent] = field(default_factory=dict)  # by the buffer that has the memory

    def copy(self) -> ScratchState:
        """A state that can be changed without this one."""
        return ScratchState(self.extents, dict(self.contents))

    def write(self, b: Buffer, value: Value) -> None:
        """A buffer gets a value; the contents of all buffers that overlap it are gone."""
        first, end = self.extents[b]
        overlapping = [x for x in self.contents if self.extents[x][0] < end and first < self.extents[x][1]]
        for x in overlapping:
            del self.contents[x]
        self.contents[b.memory] = BufferContent(frozenset({value}), layout_key(b))

    def rename(self, b: Buffer | None, old: Value, new: Value, only: bool = False) -> None:
        """Control flow passes a value on as `new`: the contents get that name too, or `only` that."""
        content = self.contents.get(b.memory) if b is not None else None
        if b is not None and content is not None and old in content.values:
            names = frozenset({new}) if only else content.values | {new}
            self.contents[b.memory] = BufferContent(names, content.layout)

    def meet(self, other: ScratchState) -> ScratchState:
        """The meet of two paths: contents that both have, in one layout and under common names."""
        common = {}
        for b, content in self.contents.items():
            other_content = other.contents.get(b)
            if other_content is None or other_content.layout != content.layout:
                continue
            values = other_content.values & content.values
            if values:
                common[b] = BufferContent(values, content.layout)
        return ScratchState(self.extents, common)


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """One use of a buffer by a statement of a nest."""

    stmt: Stmt
    body: int  # number of the body in its nest
    buffer: Buffer
    index: IndexMap
    writes: bool  # reads otherwise


class ScheduleVerifier:
    """Runs the analysis over a schedule and collects violations."""

    def __init__(self, schedule: Schedule) -> None:
        self.buffer_of: Mapping[Value, Buffer] = schedule.buffer_of
        self.extents = {b: byte_range(b) for b in schedule.buffers}
        self.violations: list[str] = []
        self.use_sets: dict[Stmt, UseSet] = {}
        self.last_argument_of: dict[Value, Value] = {}  # by result of a loop: the argument whose last value it is

    def check_items(self, items: Iterable[Item], state: ScratchState) -> ScratchState:
        for item in items:
            if isinstance(item, Nest):
                self.check_nest(item, state)
            elif isinstance(item, Control):
                state = self.check_control(item, state)
            elif isinstance(item, LibraryOp):
                self.check_library_op(item, state)
            else:
                self.check_scalar(item, state)
        return state

    def expect(self, state: ScratchState, b: Buffer, value: Value, who: str) -> None:
        """Report a read of `value` that does not find it in a buffer."""
        content = state.contents.get(b.memory)
        if content is None:
            self.report(who, b, value, "has been overwritten, or was never written")
        elif content.values.isdisjoint(self.value_names(value)):
            self.report(who, b, value, "holds another value")
        elif content.layout != layout_key(b):
            self.report(who, b, value, "was written in another layout")

    def value_names(self, v: Value) -> set[Value]:
        """All SSA values that name the same contents: the operands of views, and the arguments of loops that ended."""
        names = {v}
        while v.op is not None and v in self.buffer_of and self.buffer_of[v].view_of is not None:
            v = v.op.operands[0]
            names.add(v)
        return names | {self.last_argument_of[x] for x in names if x in self.last_argument_of}

    def report(self, who: str, b: Buffer, value: Value, what: str) -> None:
        line = value.op.loc.user.line if value.op is not None else 0
        name = f"the `{value.op.name}` of line {line}" if value.op is not None else f"%{value.hint}"
        self.violations.append(f"{who} reads {name} in b{b.id}, which {what}")

    def expect_disjoint(self, buffers: Iterable[Buffer], who: str) -> None:
        """Report buffers that overlap, among those in use at the same time."""
        end = 0
        last: Buffer | None = None
        for b in sorted(buffers, key=self.extents.__getitem__):
            if self.extents[b][0] < end and last is not None:
                self.violations.append(f"{who} has b{last.id} and b{b.id} at the same addresses")
            if self.extents[b][1] > end:
                end = self.extents[b][1]
                last = b

    def expect_permanent(self, b: Buffer) -> None:
        """Report buffers that overlap one whose contents later programs read."""
        first, end = self.extents[b]
        for x, (start, stop) in self.extents.items():
            if start < end and first < stop and x.memory is not b:
                self.violations.append(f"b{x.id} lies where the contents of b{b.id} outlast the program")

    # --- nests and scalars ----------------------------------------------------------------------------------------

    def check_nest(self, nest: Nest, state: ScratchState) -> None:
        for body in nest.bodies:
            for stmt in body:
                self.check_stmt(stmt, state)
            for b in [s.buffer for s in body if s.buffer is not None and s.buffer.contracted]:
                state.contents.pop(b.memory, None)
        for b in [s.buffer for s in nest.stmts if s.buffer is not None and s.buffer.contracted_dims]:
            state.contents.pop(b.memory, None)  # only what the last round of the shared loops has written is there

    def check_nest_pairs(self, nest: Nest) -> None:
        """Report pairs of statements whose dependence is carried by a loop that they share."""
        used: dict[Buffer, list[MemoryAccess]] = defaultdict(list)
        for n, body in enumerate(nest.bodies):
            for stmt in body:
                for b, index in self.use_set(stmt).buffers:
                    used[b.memory].append(MemoryAccess(stmt, n, b, index, False))
                if stmt.buffer is not None:
                    used[stmt.buffer.memory].append(MemoryAccess(stmt, n, stmt.buffer, stmt.buffer_index, True))
        self.expect_disjoint(used, "a nest")
        for accesses in used.values():
            for writer in (x for x in accesses if x.writes):
                for other in (x for x in accesses if x.stmt is not writer.stmt):
                    self.check_pair(writer, other, nest.fused_depth)

    def check_pair(self, writer: MemoryAccess, other: MemoryAccess, shared: int) -> None:
        shared = len(other.stmt.loops) if writer.body == other.body else shared
        if writer.buffer is not other.buffer or not has_equal_indices(writer.index, other.index, shared):
            self.violations.append(
                f"{stmt_name(other.stmt)} uses b{other.buffer.id} in other rounds of the loops that it "
                f"shares with {stmt_name(writer.stmt)}"
            )

    def use_set(self, stmt: Stmt) -> UseSet:
        if stmt not in self.use_sets:
            self.use_sets[stmt] = use_set_of(stmt, self.buffer_of)
        return self.use_sets[stmt]

    def check_stmt(self, stmt: Stmt, state: ScratchState) -> None:
        who = stmt_name(stmt)
        reads = self.use_set(stmt)
        for (b, index), value in zip(reads.buffers, reads.buffer_values, strict=True):
            if value is None:
                continue
            self.expect(state, b, value, who)
            if b.panel:
                self.report(who, b, value, "is in panels")
            if b.contracted and b is stmt.source:
                self.report(who, b, value, "is in registers")
            if stmt.buffer is not None and b.memory is stmt.buffer.memory and index != stmt.buffer_index:
                self.report(who, b, value, "it writes in another order")
        if stmt.buffer is not None and stmt.kind != "zero" and (result := stmt.result) is not None:
            state.write(stmt.buffer, result)

    def check_scalar(self, item: Scalar, state: ScratchState) -> None:
        for v, _ in (
            inlined_operands(operand_reads(item.op, ()), self.buffer_of.__contains__) if item.op.results else ()
        ):
            if v in self.buffer_of:
                self.expect(state, self.buffer_of[v], v, item.op.name)

    # --- library ops ----------------------------------------------------------------------------------------------

    def check_library_op(self, item: LibraryOp, state: ScratchState) -> None:
        uses = list(item.uses())
        for use in uses:
            if use.reads is not None:
                self.expect(state, use.buffer, use.reads, item.op.name)
            if use.fault:
                self.violations.append(f"{item.op.name} reads b{use.buffer.id}, {use.fault}")
            if use.outlives_program:
                self.expect_permanent(use.buffer)
        for a, b in combinations(uses, 2):
            if a.buffer.memory is b.buffer.memory and (a.writes is not None or b.writes is not None):
                self.violations.append(f"{item.op.name} uses b{a.buffer.id} twice")
        self.expect_disjoint(dict.fromkeys(use.buffer.memory for use in uses), item.op.name)
        for use in uses:
            if use.writes is not None:
                state.write(use.buffer, use.writes)

    # --- control flow ---------------------------------------------------------------------------------------------

    def check_control(self, item: Control, state: ScratchState) -> ScratchState:
        return self.check_branch(item, state) if item.op.name == "if" else self.check_loop(item, state)

    def check_branch(self, item: Control, state: ScratchState) -> ScratchState:
        ends = []
        for region, values in zip(item.regions, yields(item.op), strict=True):
            end = self.check_items(region, state.copy())
            self.pass_values(end, values, item.op.results, [self.buffer_of.get(v) for v in item.op.results], "if")
            ends.append(end)
        return ends[0].meet(ends[1])

    def check_loop(self, item: Control, state: ScratchState) -> ScratchState:
        """Iterate to the fixpoint of the state at the loop header; violations are those of the last iteration."""
        op = item.op
        args = carried(op, op.regions[-1])
        buffers = [self.buffer_of.get(v) for v in args]
        state = state.copy()
        self.pass_values(state, initial(op), args, buffers, op.name, only=False)
        before = len(self.violations)
        while True:
            del self.violations[before:]
            end, tested = self.iteration(item, state.copy(), args, buffers)
            start = state.meet(end)
            if start == state:
                break
            state = start
        for arg, result, buffer in zip(args, op.results, buffers, strict=True):
            tested.rename(buffer, arg, result)
            self.last_argument_of[result] = arg
        return tested

    def iteration(
        self, item: Control, state: ScratchState, args: list[Value], buffers: list[Buffer | None]
    ) -> tuple[ScratchState, ScratchState]:
        """States after one iteration, and where the loop may exit: at its header, or after the test of a `while`."""
        op = item.op
        for region, schedule in zip(op.regions[:-1], item.regions[:-1], strict=True):
            for arg, argument, buffer in zip(args, carried(op, region), buffers, strict=True):
                state.rename(buffer, arg, argument)
            state = self.check_items(schedule, state)
        tested = state.copy()
        end = self.check_items(item.regions[-1], state)
        self.pass_values(end, op.regions[-1].terminator.operands, args, buffers, op.name)
        return end, tested

    def pass_values(
        self,
        state: ScratchState,
        values: Iterable[Value],
        names: Iterable[Value],
        buffers: Iterable[Buffer | None],
        who: str,
        only: bool = True,
    ) -> None:
        """Control flow passes values on as `names`: each must be in the buffer of its new name."""
        for v, name, buffer in zip(values, names, buffers, strict=True):
            if buffer is not None:
                self.expect(state, buffer, v, f"the end of `{who}`")
                state.rename(buffer, v, name, only)


def has_equal_indices(written: IndexMap, used: IndexMap, shared: int) -> bool:
    """Whether each shared loop indexes both uses in the same dimension: the dependence has distance 0."""
    return all(p in written and used[written.index(p)] == p for p in range(shared))


def stmt_name(stmt: Stmt) -> str:
    """A statement by its op, for messages."""
    return stmt.op.name if stmt.op is not None else "copy" if stmt.kind == "compute" else stmt.kind
