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

from pypto.backends.cpu.loopir import Buffer, CellItem, Control, Item, Nest, Scalar, Schedule, Stmt, item_bytes
from pypto.backends.cpu.pull import IndexMap, pulled, read_by
from pypto.backends.cpu.reads import Reads, reads_of
from pypto.errors import CompilerBug
from pypto.ir.core import Value
from pypto.passes.carried import carried, initial, yields

Layout = tuple[object, ...]


def verify(schedule: Schedule, name: str) -> None:
    """Check the schedule of a kernel.

    Raises
    ------
    CompilerBug
        With every read that would not find what it needs: it was our scheduling that broke it, never the user.
    """
    found = problems(schedule)
    if found:
        raise CompilerBug(f"the Loop IR of {name} reads what was not written so:\n  " + "\n  ".join(found))


def problems(schedule: Schedule) -> list[str]:
    """The reads that would not find what they need, in the order of the items."""
    checker = Checker(schedule)
    checker.items(schedule.items, State(checker.extents))
    for nest in nests(schedule.items):
        checker.compare(nest)
    return list(dict.fromkeys(checker.found))


def nests(items: Iterable[Item]) -> Iterator[Nest]:
    """The nests among items, those inside of control flow too."""
    for item in items:
        if isinstance(item, Nest):
            yield item
        for region in item.regions if isinstance(item, Control) else ():
            yield from nests(region)


def layout_of(b: Buffer) -> Layout:
    """What two views of one memory have to agree in."""
    padding = ("dense",) if b.dense else (b.shape, tuple(b.sizes))
    return b.elem, b.compact, b.panel, b.dropped, *padding


def extent(b: Buffer) -> tuple[int, int]:
    """The bytes of a buffer in scratch, from one to before another; none where it lies in registers."""
    memory = b.memory
    if b.unused or memory.unused:
        return 0, 0
    return memory.offset, memory.offset + memory.elements * item_bytes(memory.elem, memory.compact)


@dataclass(frozen=True, slots=True)
class Content:
    """What a buffer holds: one value under all of these names, in a layout."""

    values: frozenset[Value]
    layout: Layout


@dataclass(slots=True)
class State:
    """What is in scratch at a point of the schedule, by the buffer whose memory it is."""

    extents: Mapping[Buffer, tuple[int, int]]
    held: dict[Buffer, Content] = field(default_factory=dict)

    def copy(self) -> State:
        return State(self.extents, dict(self.held))

    def write(self, b: Buffer, value: Value) -> None:
        first, end = self.extents[b]
        met = [x for x in self.held if self.extents[x][0] < end and first < self.extents[x][1]]
        for other in met:
            del self.held[other]
        self.held[b.memory] = Content(frozenset({value}), layout_of(b))

    def rename(self, b: Buffer | None, old: Value, new: Value, only: bool = False) -> None:
        """What a buffer holds has another name, too, or `only` that."""
        content = self.held.get(b.memory) if b is not None else None
        if b is not None and content is not None and old in content.values:
            names = frozenset({new}) if only else content.values | {new}
            self.held[b.memory] = Content(names, content.layout)

    def met(self, other: State) -> State:
        """What is there whichever of two ways was taken."""
        both = {}
        for b, content in self.held.items():
            found = other.held.get(b)
            if found is not None and found.layout == content.layout and found.values & content.values:
                both[b] = Content(found.values & content.values, content.layout)
        return State(self.extents, both)


@dataclass(frozen=True, slots=True)
class Touch:
    """A statement of a nest reads or writes a buffer, at an index."""

    stmt: Stmt
    body: int
    buffer: Buffer
    index: IndexMap
    writes: bool


class Checker:
    """Follows a schedule and notes what goes wrong."""

    def __init__(self, schedule: Schedule) -> None:
        self.of: Mapping[Value, Buffer] = schedule.of
        self.extents = {b: extent(b) for b in schedule.buffers}
        self.found: list[str] = []
        self.reads: dict[Stmt, Reads] = {}
        self.ends: dict[Value, Value] = {}  # by the result of a loop, the argument that it is the last value of

    def items(self, items: Iterable[Item], state: State) -> State:
        for item in items:
            if isinstance(item, Nest):
                self.nest(item, state)
            elif isinstance(item, Control):
                state = self.control(item, state)
            elif isinstance(item, CellItem):
                self.cell(item, state)
            else:
                self.scalar(item, state)
        return state

    def expect(self, state: State, b: Buffer, value: Value, who: str) -> None:
        """Note a read that does not find a value in a buffer."""
        content = state.held.get(b.memory)
        if content is None:
            self.note(who, b, value, "has been overwritten, or was never written")
        elif content.values.isdisjoint(self.names(value)):
            self.note(who, b, value, "holds another value")
        elif content.layout != layout_of(b):
            self.note(who, b, value, "was written in another layout")

    def names(self, v: Value) -> set[Value]:
        """The names under which a buffer may hold a value: views are of another one, loops end with an argument."""
        found = {v}
        while v.op is not None and v in self.of and self.of[v].view_of is not None:
            v = v.op.operands[0]
            found.add(v)
        return found | {self.ends[x] for x in found if x in self.ends}

    def note(self, who: str, b: Buffer, value: Value, what: str) -> None:
        line = value.op.loc.user.line if value.op is not None else 0
        name = f"the `{value.op.name}` of line {line}" if value.op is not None else f"%{value.hint}"
        self.found.append(f"{who} reads {name} in b{b.id}, which {what}")

    def apart(self, buffers: Iterable[Buffer], who: str) -> None:
        """Note buffers at the same addresses; they are in use at the same time."""
        end, last = 0, None
        for b in sorted(buffers, key=self.extents.__getitem__):
            if self.extents[b][0] < end and last is not None:
                self.found.append(f"{who} has b{last.id} and b{b.id} at the same addresses")
            if self.extents[b][1] > end:
                end, last = self.extents[b][1], b

    def lasting(self, b: Buffer) -> None:
        """Note what lies where another program is to find the contents of a buffer."""
        first, end = self.extents[b]
        met = [x for x, (start, stop) in self.extents.items() if start < end and first < stop and x.memory is not b]
        self.found += [f"b{x.id} lies where the contents of b{b.id} outlast the program" for x in met]

    # --- nests and scalars ----------------------------------------------------------------------------------------

    def nest(self, nest: Nest, state: State) -> None:
        for body in nest.bodies:
            for stmt in body:
                self.stmt(stmt, state)
            for b in [s.buffer for s in body if s.buffer is not None and s.buffer.unused]:
                state.held.pop(b.memory, None)
        for b in [s.buffer for s in nest.stmts if s.buffer is not None and s.buffer.dropped]:
            state.held.pop(b.memory, None)  # only what the last round of the shared loops has written is there

    def compare(self, nest: Nest) -> None:
        """Pairs of statements that share loops and memory: what flows between them has to be of the same round."""
        used: dict[Buffer, list[Touch]] = defaultdict(list)
        for n, body in enumerate(nest.bodies):
            for stmt in body:
                for b, index in self.read(stmt).buffers:
                    used[b.memory].append(Touch(stmt, n, b, index, False))
                if stmt.buffer is not None:
                    used[stmt.buffer.memory].append(Touch(stmt, n, stmt.buffer, stmt.written, True))
        self.apart(used, "a nest")
        for touches in used.values():
            for writer in (x for x in touches if x.writes):
                for other in (x for x in touches if x.stmt is not writer.stmt):
                    self.beside(writer, other, nest.shared)

    def beside(self, writer: Touch, other: Touch, shared: int) -> None:
        shared = len(other.stmt.loops) if writer.body == other.body else shared
        if writer.buffer is not other.buffer or not in_step(writer.index, other.index, shared):
            self.found.append(
                f"{stmt_name(other.stmt)} uses b{other.buffer.id} in other rounds of the loops that it "
                f"shares with {stmt_name(writer.stmt)}"
            )

    def read(self, stmt: Stmt) -> Reads:
        if stmt not in self.reads:
            self.reads[stmt] = reads_of(stmt, self.of)
        return self.reads[stmt]

    def stmt(self, stmt: Stmt, state: State) -> None:
        who, reads = stmt_name(stmt), self.read(stmt)
        for (b, index), value in zip(reads.buffers, reads.held, strict=True):
            if value is None:
                continue
            self.expect(state, b, value, who)
            if b.panel:
                self.note(who, b, value, "is in panels")
            if b.unused and b is stmt.source:
                self.note(who, b, value, "is in registers")
            if stmt.buffer is not None and b.memory is stmt.buffer.memory and index != stmt.written:
                self.note(who, b, value, "it writes in another order")
        if stmt.buffer is not None and stmt.kind != "zero" and (result := stmt.result) is not None:
            state.write(stmt.buffer, result)

    def scalar(self, item: Scalar, state: State) -> None:
        for v, _ in pulled(read_by(item.op, ()), self.of.__contains__) if item.op.results else ():
            if v in self.of:
                self.expect(state, self.of[v], v, item.op.name)

    # --- cells ----------------------------------------------------------------------------------------------------

    def cell(self, item: CellItem, state: State) -> None:
        uses = list(item.uses())
        for use in uses:
            if use.reads is not None:
                self.expect(state, use.buffer, use.reads, item.op.name)
            if use.fault:
                self.found.append(f"{item.op.name} reads b{use.buffer.id}, {use.fault}")
            if use.stays:
                self.lasting(use.buffer)
        for a, b in combinations(uses, 2):
            if a.buffer.memory is b.buffer.memory and (a.writes is not None or b.writes is not None):
                self.found.append(f"{item.op.name} uses b{a.buffer.id} twice")
        self.apart(dict.fromkeys(use.buffer.memory for use in uses), item.op.name)
        for use in uses:
            if use.writes is not None:
                state.write(use.buffer, use.writes)

    # --- control flow ---------------------------------------------------------------------------------------------

    def control(self, item: Control, state: State) -> State:
        return self.branch(item, state) if item.op.name == "if" else self.loop(item, state)

    def branch(self, item: Control, state: State) -> State:
        ends = []
        for region, values in zip(item.regions, yields(item.op), strict=True):
            end = self.items(region, state.copy())
            self.hand(end, values, item.op.results, [self.of.get(v) for v in item.op.results], "if")
            ends.append(end)
        return ends[0].met(ends[1])

    def loop(self, item: Control, state: State) -> State:
        """Rounds until what holds at the beginning of each does not change; faults are those of the last one."""
        op = item.op
        args = carried(op, op.regions[-1])
        homes = [self.of.get(v) for v in args]
        state = state.copy()
        self.hand(state, initial(op), args, homes, op.name, only=False)
        before = len(self.found)
        while True:
            del self.found[before:]
            end, tested = self.round(item, state.copy(), args, homes)
            start = state.met(end)
            if start == state:
                break
            state = start
        for arg, result, home in zip(args, op.results, homes, strict=True):
            tested.rename(home, arg, result)
            self.ends[result] = arg
        return tested

    def round(self, item: Control, state: State, args: list[Value], homes: list[Buffer | None]) -> tuple[State, State]:
        """What is there after one round, and where the loop may end: before the body, or after the test of a while."""
        op = item.op
        for region, schedule in zip(op.regions[:-1], item.regions[:-1], strict=True):
            for arg, own, home in zip(args, carried(op, region), homes, strict=True):
                state.rename(home, arg, own)
            state = self.items(schedule, state)
        tested = state.copy()
        end = self.items(item.regions[-1], state)
        self.hand(end, op.regions[-1].terminator.operands, args, homes, op.name)
        return end, tested

    def hand(
        self,
        state: State,
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


def in_step(written: IndexMap, used: IndexMap, shared: int) -> bool:
    """True when the same round of each shared loop writes and uses an element."""
    return all(p in written and used[written.index(p)] == p for p in range(shared))


def stmt_name(stmt: Stmt) -> str:
    return stmt.op.name if stmt.op is not None else "copy" if stmt.kind == "compute" else stmt.kind
