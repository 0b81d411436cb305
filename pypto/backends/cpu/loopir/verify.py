"""The verifier of Loop IR: every read of scratch finds the right value, in the layout that it was written in.

A forward data-flow analysis over the schedule: what each buffer holds is followed through nests, cells, branches and
loops. A write destroys what buffers at the same addresses held. Statements that share loops are also compared pair by
pair: what flows between them has to stay at one index of these loops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from pypto.backends.cpu.loopir.index_maps import IndexMap, inlined_operands, operand_reads
from pypto.backends.cpu.loopir.ir import Buffer, Control, Item, LibraryOp, Nest, Scalar, Schedule, Stmt, item_bytes
from pypto.backends.cpu.loopir.use_sets import UseSet, use_set_of
from pypto.errors import CompilerBug
from pypto.ir.core import Value
from pypto.passes.carried import carried, initial, yields

LayoutKey = tuple[object, ...]


def verify(schedule: Schedule, name: str) -> None:
    """Check the schedule of a kernel.

    Raises
    ------
    CompilerBug
        With every read that would not find what it needs: it was our scheduling that broke it, never the user.
    """
    found = violations(schedule)
    if found:
        raise CompilerBug(f"the Loop IR of {name} reads what was not written so:\n  " + "\n  ".join(found))


def violations(schedule: Schedule) -> list[str]:
    """The reads that would not find what they need, in the order of the items."""
    checker = ScheduleVerifier(schedule)
    checker.check_items(schedule.items, ScratchState(checker.extents))
    for nest in nests(schedule.items):
        checker.check_nest_pairs(nest)
    return list(dict.fromkeys(checker.violations))


def nests(items: Iterable[Item]) -> Iterator[Nest]:
    """The nests among items, those inside of control flow too."""
    for item in items:
        if isinstance(item, Nest):
            yield item
        for region in item.regions if isinstance(item, Control) else ():
            yield from nests(region)


def layout_key(b: Buffer) -> LayoutKey:
    """What two views of one memory have to agree in."""
    padding = ("dense",) if b.unpadded else (b.shape, tuple(b.sizes))
    return b.elem, b.in_memory_format, b.panel, b.contracted_dims, *padding


def byte_range(b: Buffer) -> tuple[int, int]:
    """The bytes of a buffer in scratch, from one to before another; none where it lies in registers."""
    memory = b.memory
    if b.contracted or memory.contracted:
        return 0, 0
    return memory.offset, memory.offset + memory.elements * item_bytes(memory.elem, memory.in_memory_format)


@dataclass(frozen=True, slots=True)
class BufferContent:
    """What a buffer holds: one value under all of these names, in a layout."""

    values: frozenset[Value]
    layout: LayoutKey


@dataclass(slots=True)
class ScratchState:
    """What is in scratch at a point of the schedule, by the buffer whose memory it is."""

    extents: Mapping[Buffer, tuple[int, int]]
    contents: dict[Buffer, BufferContent] = field(default_factory=dict)

    def copy(self) -> ScratchState:
        return ScratchState(self.extents, dict(self.contents))

    def write(self, b: Buffer, value: Value) -> None:
        first, end = self.extents[b]
        met = [x for x in self.contents if self.extents[x][0] < end and first < self.extents[x][1]]
        for other in met:
            del self.contents[other]
        self.contents[b.memory] = BufferContent(frozenset({value}), layout_key(b))

    def rename(self, b: Buffer | None, old: Value, new: Value, only: bool = False) -> None:
        """What a buffer holds has another name, too, or `only` that."""
        content = self.contents.get(b.memory) if b is not None else None
        if b is not None and content is not None and old in content.values:
            names = frozenset({new}) if only else content.values | {new}
            self.contents[b.memory] = BufferContent(names, content.layout)

    def meet(self, other: ScratchState) -> ScratchState:
        """What is there whichever of two ways was taken."""
        both = {}
        for b, content in self.contents.items():
            found = other.contents.get(b)
            if found is not None and found.layout == content.layout and found.values & content.values:
                both[b] = BufferContent(found.values & content.values, content.layout)
        return ScratchState(self.extents, both)


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A statement of a nest reads or writes a buffer, at an index."""

    stmt: Stmt
    body: int
    buffer: Buffer
    index: IndexMap
    writes: bool


class ScheduleVerifier:
    """Follows a schedule and notes what goes wrong."""

    def __init__(self, schedule: Schedule) -> None:
        self.buffer_of: Mapping[Value, Buffer] = schedule.buffer_of
        self.extents = {b: byte_range(b) for b in schedule.buffers}
        self.violations: list[str] = []
        self.use_sets: dict[Stmt, UseSet] = {}
        self.last_argument_of: dict[
            Value, Value
        ] = {}  # by the result of a loop, the argument that it is the last value of

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
        """Note a read that does not find a value in a buffer."""
        content = state.contents.get(b.memory)
        if content is None:
            self.report(who, b, value, "has been overwritten, or was never written")
        elif content.values.isdisjoint(self.value_names(value)):
            self.report(who, b, value, "holds another value")
        elif content.layout != layout_key(b):
            self.report(who, b, value, "was written in another layout")

    def value_names(self, v: Value) -> set[Value]:
        """The names under which a buffer may hold a value: views are of another one, loops end with an argument."""
        found = {v}
        while v.op is not None and v in self.buffer_of and self.buffer_of[v].view_of is not None:
            v = v.op.operands[0]
            found.add(v)
        return found | {self.last_argument_of[x] for x in found if x in self.last_argument_of}

    def report(self, who: str, b: Buffer, value: Value, what: str) -> None:
        line = value.op.loc.user.line if value.op is not None else 0
        name = f"the `{value.op.name}` of line {line}" if value.op is not None else f"%{value.hint}"
        self.violations.append(f"{who} reads {name} in b{b.id}, which {what}")

    def expect_disjoint(self, buffers: Iterable[Buffer], who: str) -> None:
        """Note buffers at the same addresses; they are in use at the same time."""
        end, last = 0, None
        for b in sorted(buffers, key=self.extents.__getitem__):
            if self.extents[b][0] < end and last is not None:
                self.violations.append(f"{who} has b{last.id} and b{b.id} at the same addresses")
            if self.extents[b][1] > end:
                end, last = self.extents[b][1], b

    def expect_permanent(self, b: Buffer) -> None:
        """Note what lies where another program is to find the contents of a buffer."""
        first, end = self.extents[b]
        met = [x for x, (start, stop) in self.extents.items() if start < end and first < stop and x.memory is not b]
        self.violations += [f"b{x.id} lies where the contents of b{b.id} outlast the program" for x in met]

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
        """Pairs of statements that share loops and memory: what flows between them has to be of the same round."""
        used: dict[Buffer, list[MemoryAccess]] = defaultdict(list)
        for n, body in enumerate(nest.bodies):
            for stmt in body:
                for b, index in self.use_set(stmt).buffers:
                    used[b.memory].append(MemoryAccess(stmt, n, b, index, False))
                if stmt.buffer is not None:
                    used[stmt.buffer.memory].append(MemoryAccess(stmt, n, stmt.buffer, stmt.buffer_index, True))
        self.expect_disjoint(used, "a nest")
        for touches in used.values():
            for writer in (x for x in touches if x.writes):
                for other in (x for x in touches if x.stmt is not writer.stmt):
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
        who, reads = stmt_name(stmt), self.use_set(stmt)
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

    # --- cells ----------------------------------------------------------------------------------------------------

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
        """Rounds until what holds at the beginning of each does not change; faults are those of the last one."""
        op = item.op
        args = carried(op, op.regions[-1])
        homes = [self.buffer_of.get(v) for v in args]
        state = state.copy()
        self.pass_values(state, initial(op), args, homes, op.name, only=False)
        before = len(self.violations)
        while True:
            del self.violations[before:]
            end, tested = self.iteration(item, state.copy(), args, homes)
            start = state.meet(end)
            if start == state:
                break
            state = start
        for arg, result, home in zip(args, op.results, homes, strict=True):
            tested.rename(home, arg, result)
            self.last_argument_of[result] = arg
        return tested

    def iteration(
        self, item: Control, state: ScratchState, args: list[Value], homes: list[Buffer | None]
    ) -> tuple[ScratchState, ScratchState]:
        """What is there after one round, and where the loop may end: before the body, or after the test of a while."""
        op = item.op
        for region, schedule in zip(op.regions[:-1], item.regions[:-1], strict=True):
            for arg, own, home in zip(args, carried(op, region), homes, strict=True):
                state.rename(home, arg, own)
            state = self.check_items(schedule, state)
        tested = state.copy()
        end = self.check_items(item.regions[-1], state)
        self.pass_values(end, op.regions[-1].terminator.operands, args, homes, op.name)
        return end, tested

    def pass_values(
        self,
        state: ScratchState,
        values: Iterable[Value],
        names: Iterable[Value],
        homes: Iterable[Buffer | None],
        who: str,
        only: bool = True,
    ) -> None:
        """Values that control flow hands on, to be found under their new names in the buffers of these."""
        for v, name, home in zip(values, names, homes, strict=True):
            if home is not None:
                self.expect(state, home, v, f"the end of `{who}`")
                state.rename(home, v, name, only)


def has_equal_indices(written: IndexMap, used: IndexMap, shared: int) -> bool:
    """True when the same round of each shared loop writes and uses an element."""
    return all(p in written and used[written.index(p)] == p for p in range(shared))


def stmt_name(stmt: Stmt) -> str:
    return stmt.op.name if stmt.op is not None else "copy" if stmt.kind == "compute" else stmt.kind
