"""Race detection by vector clocks: runs a kernel without data and reports accesses that no wait orders.

Two accesses of one memory race if one of them writes, and the later unit does not know the earlier one to be complete.
Loops run a few iterations, and branches take each side, along the paths in `EXECUTION_PATHS`. Each event must be set
and waited for alternately. The checker trusts the effects of instructions, but not the planner that inserted the
events: it finds what `insert_sync` missed. It may overlook races that only many iterations or other paths show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from pypto.backends.ascend.block.access_extents import BLOCK, access_bytes, repeat_stride_of
from pypto.backends.ascend.block.dependences import AccessAnalysis, is_fenced
from pypto.backends.ascend.block.hazards import IN_ORDER, is_small_product
from pypto.backends.ascend.blockir.effects import (
    memory_reads,
    names_in,
    pipe_of,
    product_fractals,
    reads,
    scalars,
    unit_flag,
    views,
    writes,
)
from pypto.backends.ascend.blockir.evaluation import value_of
from pypto.backends.ascend.blockir.instructions import PIPES
from pypto.backends.ascend.blockir.ir import (
    Assign,
    BlockKernel,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Param,
    Scalar,
    View,
    While,
    Word,
    parts,
)
from pypto.backends.ascend.target import AscendTarget

Operand = tuple[View, bool, int | None, tuple[int, int] | None]  # is written, bytes, stride of repeats
EXECUTION_PATHS: Final = (
    (3, (True,)),
    (3, (False,)),
    (4, (True, False)),
    (2, (False, True, True)),
    (1, (True,)),
    (0, (False,)),
    (3, ()),
)
VERSION_OUTCOMES: Final = ((True,), (False,), (True, False, False))


@dataclass(frozen=True, slots=True)
class RecordedAccess:
    """An access that has been issued."""

    first: int  # first byte
    last: int  # byte behind the last one
    unit: int  # index of the unit
    sequence_number: int  # number of the unit's instruction
    writes: bool  # whether it writes
    line: int  # the user's line
    instruction: str  # name of the instruction
    repeat_stride: tuple[int, int] | None = None  # see `MemoryAccess`
    fractals: int | None = None  # of a matrix product: the fractals of its result
    by_units: bool = False  # whether a unit flag orders it with the other unit that uses L0C

    def overlaps(self, other: RecordedAccess) -> bool:
        """Whether two accesses have bytes in common."""
        if not (self.first < other.last and other.first < self.last):
            return False
        if (
            self.repeat_stride is None
            or other.repeat_stride is None
            or self.repeat_stride[0] != other.repeat_stride[0]
            or not self.repeat_stride[0]
        ):
            return True
        step, width = self.repeat_stride
        return not width <= (other.first - self.first) % step <= step - other.repeat_stride[1]

    def covers(self, other: RecordedAccess) -> bool:
        """Whether all bytes of another access are bytes of this one."""
        if self.repeat_stride is not None and (self.first, self.repeat_stride) != (other.first, other.repeat_stride):
            return False
        return self.first <= other.first and other.last <= self.last


@dataclass
class Versions:
    """The names that decide whether a block has unit flags, and their values, in turn."""

    names: frozenset[str]
    outcomes: tuple[bool, ...]
    chosen: int = 0  # values so far

    def next(self) -> bool:
        """Return the next value."""
        self.chosen += 1
        return self.outcomes[(self.chosen - 1) % len(self.outcomes)]


@dataclass
class ClockExecution:
    """One execution of a kernel along one path."""

    kernel: BlockKernel  # the kernel
    target: AscendTarget  # the chip
    iterations: int  # iterations of loops with an unknown trip count
    branch_outcomes: tuple[bool, ...]  # outcomes of the branches, in turn; without any, all but rare cases are taken
    analysis: AccessAnalysis  # resolves names
    # reads and operands by the identity of an item, which the kernel keeps alive
    fact_cache: dict[int, tuple[list[View], list[Operand]]]
    versions: Versions  # what chooses between unit flags and events
    values: dict[str, int | None] = field(default_factory=dict)  # numbers by name, None where they depend on data
    branches_taken: int = 0  # branches so far
    issued: list[int] = field(default_factory=lambda: [0] * len(PIPES))  # instructions that each unit has begun
    # for each unit, the instructions of each unit known to be complete
    clocks: list[list[int]] = field(default_factory=lambda: [[0] * len(PIPES) for _ in PIPES])
    events: dict[tuple[str, int], list[int]] = field(default_factory=dict)  # clocks of the events that are set
    memory: dict[str, list[RecordedAccess]] = field(default_factory=dict)  # accesses that later ones may race with
    problems: Counter[str] = field(default_factory=Counter)  # texts of the races, counted

    def report(self, text: str, line: int) -> None:
        """Note a problem at a line."""
        self.problems[f"line {line}: {text}" if line else text] += 1

    # --- control flow ---------------------------------------------------------------------------------------------

    def items(self, items: tuple[Item, ...]) -> None:
        """Execute a sequence."""
        for item in items:
            for view in self.facts(item)[0]:
                self.access(item, view, "S", False, view.elem.itemsize)
            self.item(item)

    def facts(self, item: Item) -> tuple[list[View], list[Operand]]:
        """Return the scalar unit's reads for an item and the operands of an instruction, computed once."""
        if id(item) not in self.fact_cache:
            operands = list(operands_of(item, self.analysis)) if isinstance(item, Instr) and views(item) else []
            scalar_reads = [view for value in scalars(item) for view in memory_reads(value)]
            self.fact_cache[id(item)] = scalar_reads, operands
        return self.fact_cache[id(item)]

    def item(self, item: Item) -> None:
        """Execute an item."""
        match item:
            case Instr():
                self.instruction(item)
            case Let() if item.name in self.versions.names:
                self.values[item.name] = self.versions.next()
            case Let() | Assign():
                self.values[item.name] = value_of(item.value, self.values)
            case Loop():
                self.loop(item)
            case While():
                for _ in range(self.iterations):
                    self.items(item.test)
                    self.items(item.body)
                self.items(item.test)
            case If() if self.versions.names.intersection(names_in(item.condition)):
                self.items(item.body if value_of(item.condition, self.values) else item.orelse)
            case If():
                self.items(item.body if self.next_outcome(item) else item.orelse)

    def next_outcome(self, item: If) -> bool:
        """Return the outcome of the next branch."""
        self.branches_taken += 1
        if not self.branch_outcomes:
            return not is_fenced(item)
        return self.branch_outcomes[self.branches_taken % len(self.branch_outcomes)]

    def loop(self, item: Loop) -> None:
        """Execute some iterations of a loop; the programs of a grid do not order their accesses of GM."""
        start, step = (value_of(x, self.values) for x in (item.start, item.step))
        space = self.analysis.iteration_space(item)
        for i in range(self.iterations if space is None else min(self.iterations, space[2])):
            self.values[item.name] = None if start is None or step is None else start + i * step
            if item.step == "blocks":  # nothing orders the programs of a grid
                self.memory = {name: done for name, done in self.memory.items() if not name.startswith("GM ")}
            self.items(item.body)

    # --- units ----------------------------------------------------------------------------------------------------

    def instruction(self, item: Instr) -> None:
        """Execute an instruction: events and barriers first, then its operands."""
        if item.name in ("SetFlag", "WaitFlag"):
            self.event(item)
        elif item.name in ("PipeBarrier", "SyncAll"):
            self.barrier(item.args[0].text if item.args and isinstance(item.args[0], Word) else "PIPE_ALL")
        operands = self.facts(item)[1]
        if not operands:
            return
        unit = pipe_of(item)
        self.issue(unit)
        for view, is_write, size, teeth in operands:
            self.access(item, view, unit, is_write, size, teeth)

    def issue(self, unit: str) -> None:
        """Begin an instruction of a unit: it knows all that the scalar unit knew."""
        index = PIPES.index(unit)
        self.clocks[index] = list(map(max, self.clocks[index], self.clocks[0]))
        self.issued[index] += 1

    def barrier(self, name: str) -> None:
        """Let one unit, or all, know that a unit's earlier instructions are complete."""
        if name == "PIPE_ALL":
            self.clocks = [list(self.issued) for _ in PIPES]
        else:
            unit = PIPES.index(name.removeprefix("PIPE_"))
            self.clocks[unit][unit] = self.issued[unit]

    def event(self, item: Instr) -> None:
        """Set an event with the producer's clock, or merge it into the consumer's."""
        name = item.args[0]
        number = item.args[1]
        assert isinstance(name, Word)
        producer, consumer = (PIPES.index(unit) for unit in name.text.split("_"))
        event_id = value_of(number, self.values) if isinstance(number, int | str | Expr) else None
        if event_id is None:
            return
        if not 0 <= event_id <= 7:
            self.report(f"the number of an event is between 0 and 7, not {event_id}", item.line)
        key = name.text, event_id
        if item.name == "SetFlag":
            if key in self.events:
                self.report(f"event {name.text} {event_id} is set twice and not waited for in between", item.line)
            clock = list(map(max, self.clocks[producer], self.clocks[0]))
            clock[producer] = self.issued[producer]
            self.events[key] = clock
        elif key not in self.events:
            self.report(f"event {name.text} {event_id} is waited for and was not set", item.line)
        else:
            self.clocks[consumer] = list(map(max, self.clocks[consumer], self.events.pop(key)))

    # --- memory ---------------------------------------------------------------------------------------------------

    def access(
        self,
        item: Item,
        view: View,
        unit: str,
        is_write: bool,
        size: int | None,
        repeat_stride: tuple[int, int] | None = None,
    ) -> None:
        """Check an access against earlier ones, then record it."""
        if unit == "S" and not isinstance(item, Instr):
            self.issue("S")
        memory_name, first, last = self.place(view, size)
        index = PIPES.index(unit)
        by = item.name if isinstance(item, Instr) else ""
        known_stride = repeat_stride if value_of(view.offset, self.values) is not None else None
        fractals = product_fractals(item) if isinstance(item, Instr) else None
        by_units = view.space == "L0C" and isinstance(item, Instr) and is_flagged(unit_flag(item), self.values)
        record = RecordedAccess(
            first, last, index, self.issued[index], is_write, item.line, by, known_stride, fractals, by_units
        )
        kept = []
        for earlier in self.memory.get(memory_name, ()):
            if earlier.first >= last or first >= earlier.last:  # the common case first
                kept.append(earlier)
                continue
            if earlier.overlaps(record):
                self.check(earlier, record, memory_name)
            if not (record.covers(earlier) and (is_write or (earlier.unit == index and not earlier.writes))):
                kept.append(earlier)
        self.memory[memory_name] = kept if parts(item) else [*kept, record]  # a condition is known before it is used

    def place(self, view: View, size: int | None) -> tuple[str, int, int]:
        """Return the memory of a view and its byte range there."""
        offset = value_of(view.offset, self.values)
        first = None if offset is None else offset * view.elem.itemsize
        if isinstance(view.of, Param):
            end = 1 << 60 if first is None or size is None else first + size
            return f"GM {view.of.name}", first or 0, end
        stage = value_of(view.stage, self.values) or 0
        begin = (view.of.address or 0) + stage * view.of.stage_bytes
        end = begin + view.of.stage_bytes
        if first is None or not 0 <= first < view.of.stage_bytes:
            return view.space, begin, end
        last = end if size is None else min(end, begin + first + -(-size // BLOCK) * BLOCK)
        return view.space, begin + first // BLOCK * BLOCK, last

    def check(self, earlier: RecordedAccess, record: RecordedAccess, memory_name: str) -> None:
        """Report a race between two accesses that overlap."""
        if not (earlier.writes or record.writes) or self.clocks[record.unit][earlier.unit] >= earlier.sequence_number:
            return
        if earlier.unit != record.unit and earlier.by_units and record.by_units:
            return
        unit = PIPES[record.unit]
        if earlier.unit == record.unit:
            is_ordered = unit in IN_ORDER or (unit == "V" and self.target.orders_vector) or not earlier.writes
            strips = record.writes and earlier.instruction == record.instruction and memory_name in ("L1", "L0A", "L0B")
            if earlier.writes and not record.writes and is_small_product(earlier.fractals, self.target):
                is_ordered = False
            if is_ordered or earlier.sequence_number == record.sequence_number or strips:
                return
        kind = "write" if record.writes else "read"
        after = "write" if earlier.writes else "read"
        of = PIPES[earlier.unit]
        remedy = f"PipeBarrier<PIPE_{unit}>" if of == unit else f"an event {of}_{unit}"
        self.report(f"a {kind} of {memory_name} after a {after} by line {earlier.line} needs {remedy}", record.line)


def version_names(kernel: BlockKernel) -> Iterator[str]:
    """Yield the names that decide whether an instruction has a unit flag at all."""
    for instr in kernel.instructions():
        flag = unit_flag(instr)
        if isinstance(flag, Expr) and flag.op == "?:" and flag.args[2] == 0:
            yield from names_in(flag.args[0])


def is_flagged(flag: Scalar, values: dict[str, int | None]) -> bool:
    """Whether a unit flag is set, in both ways where its condition is not known."""
    if isinstance(flag, Expr) and flag.op == "?:":
        condition = value_of(flag.args[0], values)
        choices = flag.args[1:] if condition is None else (flag.args[1 if condition else 2],)
        return all(is_flagged(x, values) for x in choices)
    return value_of(flag, values) not in (0, None)


def operands_of(item: Instr, reader: AccessAnalysis) -> Iterator[Operand]:
    """Yield the operands that an instruction reads, then those that it writes."""
    sizes = {
        id(view): (access_bytes(item, i, reader.resolve), repeat_stride_of(item, i))
        for i, view in enumerate(views(item))
    }
    for is_write, touched in ((False, reads(item)), (True, writes(item))):
        for view in touched:
            yield view, is_write, *sizes[id(view)]


def races(kernel: BlockKernel, target: AscendTarget) -> list[str]:
    """Return the races and misused events of a kernel, each once."""
    problems: dict[str, None] = {}
    analysis = AccessAnalysis.of(kernel)
    fact_cache: dict[int, tuple[list[View], list[Operand]]] = {}
    names = frozenset(version_names(kernel))
    paths = list(product(EXECUTION_PATHS, VERSION_OUTCOMES if names else VERSION_OUTCOMES[:1]))
    for items in (kernel.body, kernel.cube_body):
        for (iterations, outcomes), chosen in paths:
            indices: dict[str, int | None] = {"block": 0, "blocks": 1, "sub_block": 0}
            execution = ClockExecution(
                kernel, target, iterations, outcomes, analysis, fact_cache, Versions(names, chosen), indices
            )
            execution.values |= {p.name: 1 << 12 for p in kernel.params if not p.is_array and p.dtype.is_int}
            execution.items(items)
            for name, number in execution.events:
                execution.report(f"event {name} {number} is set and nothing waits for it", 0)
            problems |= dict.fromkeys(execution.problems)
    return list(problems)
