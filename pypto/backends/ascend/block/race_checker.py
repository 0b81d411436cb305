"""A kernel run without data: clocks that know what each unit may rely on, for a few iterations of each loop.

Where a unit touches memory that another one, or an earlier instruction of its own, may still be at work on, and one of
the two writes, that is a race. Every event must be waited for as often as it is set.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from pypto.backends.ascend.block.dependences import BLOCK, Reader, extent, teeth_of
from pypto.backends.ascend.block.hazards import IN_ORDER
from pypto.backends.ascend.blockir.effects import memory_reads, pipe_of, reads, scalars, views, writes
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
from pypto.ir.types import named

Operand = tuple[View, bool, int | None, tuple[int, int] | None]  # whether it is written, its bytes, its teeth
WAYS: Final = ((3, (True,)), (3, (False,)), (4, (True, False)), (2, (False, True, True)), (1, (True,)), (0, (False,)))


@dataclass(frozen=True, slots=True)
class Done:
    """What an instruction did to bytes of a memory."""

    first: int
    last: int
    unit: int
    number: int
    writes: bool
    line: int
    by: str
    teeth: tuple[int, int] | None = None  # see `Touch`

    def meets(self, other: Done) -> bool:
        """Whether the bytes of both have some in common."""
        if not (self.first < other.last and other.first < self.last):
            return False
        if self.teeth is None or other.teeth is None or self.teeth[0] != other.teeth[0] or not self.teeth[0]:
            return True
        step, width = self.teeth
        return not width <= (other.first - self.first) % step <= step - other.teeth[1]

    def covers(self, other: Done) -> bool:
        """Whether all bytes of the other are bytes of this one."""
        if self.teeth is not None and (self.first, self.teeth) != (other.first, other.teeth):
            return False
        return self.first <= other.first and other.last <= self.last


@dataclass
class Walk:
    """One way through a kernel: how often loops run, and which conditions hold."""

    kernel: BlockKernel
    target: AscendTarget
    rounds: int
    holds: tuple[bool, ...]
    reader: Reader
    found: dict[int, tuple[list[View], list[Operand]]]  # of items, by `id`, which stay while a kernel is looked at
    values: dict[str, int | None] = field(default_factory=dict)
    asked: int = 0
    issued: list[int] = field(default_factory=lambda: [0] * len(PIPES))
    known: list[list[int]] = field(default_factory=lambda: [[0] * len(PIPES) for _ in PIPES])
    events: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    memory: dict[str, list[Done]] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)

    def say(self, text: str, line: int) -> None:
        self.problems[f"line {line}: {text}" if line else text] += 1

    # --- control flow ---------------------------------------------------------------------------------------------

    def items(self, items: tuple[Item, ...]) -> None:
        for item in items:
            for view in self.facts(item)[0]:
                self.touch(item, view, "S", False, view.elem.itemsize)
            self.item(item)

    def facts(self, item: Item) -> tuple[list[View], list[Operand]]:
        """What the scalar unit reads for an item, and an instruction's operands: the same in each round of a loop."""
        if (found := self.found.get(id(item))) is None:
            operands = list(operands_of(item, self.reader)) if isinstance(item, Instr) and views(item) else []
            found = [view for value in scalars(item) for view in memory_reads(value)], operands
            self.found[id(item)] = found
        return found

    def item(self, item: Item) -> None:
        match item:
            case Instr():
                self.instruction(item)
            case Let() | Assign():
                self.values[item.name] = value_of(item.value, self.values)
            case Loop():
                self.loop(item)
            case While():
                for _ in range(self.rounds):
                    self.items(item.test)
                    self.items(item.body)
                self.items(item.test)
            case If():
                self.asked += 1
                self.items(item.body if self.holds[self.asked % len(self.holds)] else item.orelse)

    def loop(self, item: Loop) -> None:
        start, step = (value_of(x, self.values) for x in (item.start, item.step))
        known = self.reader.steps(item)
        for i in range(self.rounds if known is None else min(self.rounds, known[2])):
            self.values[item.name] = None if start is None or step is None else start + i * step
            if item.step == "blocks":  # nothing orders the programs of a grid
                self.memory = {name: done for name, done in self.memory.items() if not name.startswith("GM ")}
            self.items(item.body)

    # --- units ----------------------------------------------------------------------------------------------------

    def instruction(self, item: Instr) -> None:
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
            self.touch(item, view, unit, is_write, size, teeth)

    def issue(self, unit: str) -> None:
        index = PIPES.index(unit)
        self.known[index] = list(map(max, self.known[index], self.known[0]))
        self.issued[index] += 1

    def barrier(self, name: str) -> None:
        if name == "PIPE_ALL":
            self.known = [list(self.issued) for _ in PIPES]
        else:
            unit = PIPES.index(name.removeprefix("PIPE_"))
            self.known[unit][unit] = self.issued[unit]

    def event(self, item: Instr) -> None:
        name, number = item.args[0], item.args[1]
        assert isinstance(name, Word)
        of, to = (PIPES.index(unit) for unit in name.text.split("_"))
        at = value_of(number, self.values) if isinstance(number, int | str | Expr) else None
        if at is None:
            return
        if not 0 <= at <= 7:
            self.say(f"the number of an event is between 0 and 7, not {at}", item.line)
        key = name.text, at
        if item.name == "SetFlag":
            if key in self.events:
                self.say(f"event {name.text} {at} is set twice and not waited for in between", item.line)
            clock = list(map(max, self.known[of], self.known[0]))
            clock[of] = self.issued[of]
            self.events[key] = clock
        elif key not in self.events:
            self.say(f"event {name.text} {at} is waited for and was not set", item.line)
        else:
            self.known[to] = list(map(max, self.known[to], self.events.pop(key)))

    # --- memory ---------------------------------------------------------------------------------------------------

    def touch(
        self, item: Item, view: View, unit: str, is_write: bool, size: int | None, teeth: tuple[int, int] | None = None
    ) -> None:
        if unit == "S" and not isinstance(item, Instr):
            self.issue("S")
        where, first, last = self.place(view, size)
        index = PIPES.index(unit)
        by = item.name if isinstance(item, Instr) else ""
        placed = teeth if value_of(view.offset, self.values) is not None else None
        mine = Done(first, last, index, self.issued[index], is_write, item.line, by, placed)
        kept = []
        for done in self.memory.get(where, ()):
            if done.first >= last or first >= done.last:  # apart, as most are
                kept.append(done)
                continue
            if done.meets(mine):
                self.check(done, mine, where)
            if not (mine.covers(done) and (is_write or (done.unit == index and not done.writes))):
                kept.append(done)
        self.memory[where] = kept if parts(item) else [*kept, mine]  # no way is taken before its condition is known

    def place(self, view: View, size: int | None) -> tuple[str, int, int]:
        """The memory of a view, and its bytes there."""
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

    def check(self, done: Done, mine: Done, where: str) -> None:
        if not (done.writes or mine.writes) or self.known[mine.unit][done.unit] >= done.number:
            return
        unit = PIPES[mine.unit]
        if done.unit == mine.unit:
            own = unit in IN_ORDER or (unit == "V" and self.target.orders_vector) or not done.writes
            strips = mine.writes and done.by == mine.by and where in ("L1", "L0A", "L0B")
            if own or done.number == mine.number or strips:
                return
        kind = "write" if mine.writes else "read"
        after = "write" if done.writes else "read"
        of = PIPES[done.unit]
        remedy = f"PipeBarrier<PIPE_{unit}>" if of == unit else f"an event {of}_{unit}"
        self.say(f"a {kind} of {where} after a {after} by line {done.line} needs {remedy}", mine.line)


def operands_of(item: Instr, reader: Reader) -> Iterator[Operand]:
    """The views that an instruction's unit reads, then those that it writes."""
    sizes = {id(view): (extent(item, i, reader), teeth_of(item, i)) for i, view in enumerate(views(item))}
    for is_write, touched in ((False, reads(item)), (True, writes(item))):
        for view in touched:
            yield view, is_write, *sizes[id(view)]


_RESULTS: Final[Mapping[str, Callable[[int, int], int]]] = MappingProxyType({
    "+": operator.add, "-": operator.sub, "*": operator.mul, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "&&": lambda a, b: bool(a and b), "||": lambda a, b: bool(a or b), "min": min, "max": max,
})  # fmt: skip


def value_of(value: Scalar, values: dict[str, int | None]) -> int | None:
    """A number, None where it depends on data."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return values.get(value)
    if not isinstance(value, Expr):
        return None
    args = [value_of(x, values) for x in value.args]
    known = [x for x in args if x is not None]
    if len(known) < len(args):
        return None
    if named(value.op) is not None:
        return known[0]
    if value.op == "?:":
        return known[1] if known[0] else known[2]
    if value.op == "not":
        return int(not known[0])
    return _computed(value.op, *known) if len(known) == 2 else None


def _computed(op: str, a: int, b: int) -> int | None:
    if op in ("//", "%"):
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
        return quotient if op == "//" else a - quotient * b
    if op in ("<<", ">>"):
        return (a << b if op == "<<" else a >> b) if 0 <= b < 64 else None
    return None if op not in _RESULTS else int(_RESULTS[op](a, b))


def races(kernel: BlockKernel, target: AscendTarget) -> list[str]:
    """What is wrong with the order of a kernel's units, each thing once."""
    found: dict[str, None] = {}
    reader = Reader.of(kernel)
    facts: dict[int, tuple[list[View], list[Operand]]] = {}
    for items in (kernel.body, kernel.cube_body):
        for rounds, holds in WAYS:
            walk = Walk(kernel, target, rounds, holds, reader, facts, {"block": 0, "blocks": 1, "sub_block": 0})
            walk.values |= {p.name: 1 << 12 for p in kernel.params if not p.is_array and p.dtype.is_int}
            walk.items(items)
            for name, number in walk.events:
                walk.say(f"event {name} {number} is set and nothing waits for it", 0)
            found |= dict.fromkeys(walk.problems)
    return list(found)
