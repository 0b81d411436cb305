"""One core in time: the scalar unit hands instructions to queues, which work side by side and wait for events.

A queue is in order and holds 32 instructions. An event is set when what stands before it in its queue is done. A vector
instruction may begin while the one before it is on its way, and after a barrier when that has arrived.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pypto.backends.ascend.blockir import (
    Argument,
    Assign,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Param,
    Read,
    Record,
    Scalar,
    View,
    While,
    Word,
)
from pypto.backends.ascend.facts import memory_reads, pipe_of, scalars, views
from pypto.backends.ascend.instructions import PIPES
from pypto.backends.ascend.timing.costs import GM_SCALAR, ISSUE, SCALAR_ACCESS, Cost, cost_of, is_event
from pypto.backends.ascend.walk import value_of

DEPTH: Final = 32
STEP: Final = 2.0  # cycles of the scalar unit for an operation on numbers
BRANCH: Final = 6.0
CROSS: Final = 500.0  # cycles of a flag from core to core, one way
_MOST_SLICES: Final = 4000
_MOST_ROUNDS: Final = 100_000  # of a loop whose end depends on data
_SAME: Final = 3  # periods that must be alike before the rest of a loop is taken for more of them


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of a unit's time."""

    pipe: str
    name: str
    line: int
    start: float
    end: float


@dataclass
class Flags:
    """Flags between the cores of a block: when each was set."""

    set_at: dict[tuple[str, int], deque[float]] = field(default_factory=lambda: defaultdict(deque))


@dataclass
class CoreTime:
    """The clocks of a core. `kind` is ``cube`` or ``vector``; `run` is a generator that gives way where it waits."""

    kind: str
    values: dict[str, int | None]
    flags: Flags
    free: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PIPES, 0.0))
    arrived: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PIPES, 0.0))
    queues: dict[str, deque[float]] = field(default_factory=lambda: {p: deque(maxlen=DEPTH) for p in PIPES})
    events: dict[tuple[str, int], float] = field(default_factory=dict)
    busy: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PIPES, 0.0))
    lines: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    bytes: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    copies: dict[tuple[int, bool], float] = field(default_factory=lambda: defaultdict(float))
    slices: list[Slice] = field(default_factory=list)
    assumed: set[int] = field(default_factory=set)
    trace: list[Any] = field(default_factory=list)

    @property
    def end(self) -> float:
        return max(*self.free.values(), *self.arrived.values())

    def scalar(self, cycles: float) -> None:
        self.free["S"] += cycles
        self.busy["S"] += cycles

    def number(self, value: Scalar, line: int, usual: int = 0) -> int:
        """A number; what depends on data is taken for `usual`, and remembered."""
        if isinstance(value, float):  # an operand of an instruction, whose time does not depend on it
            return 0
        found = value_of(value, self.values)
        if found is None:
            self.assumed.add(line)
            return usual
        return found

    def items(self, items: tuple[Item, ...]) -> Iterator[None]:
        for item in items:
            for value in scalars(item):
                self.scalar(STEP if isinstance(value, Expr) else 0)
                for view in memory_reads(value):
                    self.scalar(GM_SCALAR if view.space == "GM" else SCALAR_ACCESS)
            yield from self.item(item)

    def item(self, item: Item) -> Iterator[None]:
        match item:
            case Instr():
                yield from self.instruction(item)
            case Let() | Assign():
                self.values[item.name] = value_of(item.value, self.values)
            case Loop():
                yield from self.loop(item)
            case While():
                yield from self.endless(item)
            case If():
                self.scalar(BRANCH)
                holds = self.number(item.condition, item.line, 1)
                self.trace.append(bool(holds))
                yield from self.items(item.body if holds else item.orelse)

    # --- loops -----------------------------------------------------------------------------------------------------

    def endless(self, item: While) -> Iterator[None]:
        """What goes on as data says is taken for one round."""
        for _ in range(_MOST_ROUNDS):
            yield from self.items(item.test)
            self.scalar(BRANCH)
            known = value_of(item.condition, self.values)
            if known is None:
                self.assumed.add(item.line)
                yield from self.items(item.body)
                return
            if not known:
                return
            yield from self.items(item.body)

    def loop(self, item: Loop) -> Iterator[None]:
        start, stop = self.number(item.start, item.line), self.number(item.stop, item.line, 1)
        step = self.number(item.step, item.line, 1) or 1
        rounds, history, at = range(start, stop, step), [], 0
        while at < len(rounds):
            self.values[item.name] = rounds[at]
            before, outer = self.snapshot(), self.trace
            self.trace = []
            self.scalar(BRANCH)
            yield from self.items(item.body)
            history.append((self.change(before), tuple(self.trace)))
            outer.append(history[-1][1])
            self.trace = outer
            at += 1
            at += self.skip(history, len(rounds) - at)

    def snapshot(self) -> dict[str, Any]:
        return {"free": dict(self.free), "arrived": dict(self.arrived), "busy": dict(self.busy),
                "lines": dict(self.lines), "bytes": dict(self.bytes), "copies": dict(self.copies)}  # fmt: skip

    def change(self, before: dict[str, Any]) -> dict[str, dict[Any, float]]:
        """What one round added to every clock and counter."""
        return {name: {k: round(v - before[name].get(k, 0.0), 3) for k, v in getattr(self, name).items()}
                for name in before}  # fmt: skip

    def skip(self, history: list[Any], left: int) -> int:
        """Where rounds repeat themselves, take the rest for more of the same, but for the last two periods."""
        for period in (1, 2, 4):
            if len(history) < _SAME * period or left < 3 * period or self.flags.set_at:
                continue
            last = history[-period:]
            alike = all(same(history[-(n + 1) * period + i], last[i]) for n in range(1, _SAME) for i in range(period))
            if not alike:
                continue
            times = (left - 2 * period) // period
            for name in history[-1][0]:
                clock = getattr(self, name)
                for key in clock:
                    clock[key] += times * sum(change[name].get(key, 0.0) for change, _ in last)
            ahead = times * sum(change["free"]["S"] for change, _ in last)
            self.events = {k: t + ahead for k, t in self.events.items()}
            for queue in self.queues.values():
                queue.clear()
            history.clear()
            return times * period
        return 0

    # --- instructions ----------------------------------------------------------------------------------------------

    def instruction(self, instr: Instr) -> Iterator[None]:
        name = instr.name
        if name in ("SetFlag", "WaitFlag"):
            self.event(instr)
        elif name == "PipeBarrier":
            self.barrier(instr)
        elif name.startswith("CrossCore"):
            yield from self.cross(instr)
        elif name == "SyncAll":
            self.scalar(2 * CROSS)
        elif name.startswith("SetAtomic"):
            self.scalar(ISSUE)
        else:
            numbers = tuple(self.argument(x, instr.line) for x in instr.args)
            self.work(instr, pipe_of(instr), cost_of(instr, numbers))

    def argument(self, value: Argument, line: int) -> Any:
        if isinstance(value, View):
            return self.number(value.stage, line), self.number(value.offset, line)
        if isinstance(value, Record):
            return tuple(None if isinstance(x, Word) else self.number(x, line) for x in value.fields)
        return value.text if isinstance(value, Word) else None if isinstance(value, Read) else self.number(value, line)

    def work(self, instr: Instr, pipe: str, cost: Cost) -> None:
        if pipe == "S":
            self.scalar(cost.busy)
            return
        self.hand_over(pipe)
        start = max(self.free["S"], self.free[pipe])
        end = start + cost.busy
        self.free[pipe] = end
        self.arrived[pipe] = max(self.arrived[pipe], start + cost.latency)
        self.queues[pipe].append(end)
        self.busy[pipe] += cost.busy
        self.lines[instr.line] += cost.busy
        if cost.gm_bytes:
            self.bytes["GM read" if pipe == "MTE2" else "GM written"] += cost.gm_bytes
            self.copies[cost.gm_bytes, streams(instr)] += cost.gm_bytes
        if len(self.slices) < _MOST_SLICES:
            self.slices.append(Slice(pipe, instr.name, instr.line, start, start + max(cost.busy, cost.latency)))

    def hand_over(self, pipe: str) -> None:
        """The scalar unit issues, and waits where the queue is full."""
        queue = self.queues[pipe]
        if len(queue) == DEPTH:
            self.free["S"] = max(self.free["S"], queue[0])
        self.scalar(ISSUE)

    def event(self, instr: Instr) -> None:
        of, to = is_event(instr.args[0])
        number = instr.args[1]
        key = f"{of}_{to}", self.number(number, instr.line) if isinstance(number, int | str | Expr) else 0
        self.scalar(STEP)
        if instr.name == "SetFlag":
            self.events[key] = max(self.free[of], self.arrived[of], self.free["S"])
        else:
            self.free[to] = max(self.free[to], self.events.pop(key, 0.0))

    def barrier(self, instr: Instr) -> None:
        word = instr.args[0]
        pipe = word.text.removeprefix("PIPE_") if isinstance(word, Word) else "ALL"
        self.scalar(STEP)
        if pipe == "ALL":
            self.free = dict.fromkeys(PIPES, self.end)
        else:
            self.free[pipe] = max(self.free[pipe], self.arrived[pipe])

    def cross(self, instr: Instr) -> Iterator[None]:
        """A flag to or from the other kind of core."""
        numbers = [x for x in instr.args if not isinstance(x, View | Record | Word)]
        number = self.number(numbers[-1], instr.line)
        words = [x.text.removeprefix("PIPE_") for x in instr.args if isinstance(x, Word)]
        pipe = next((w for w in words if w in PIPES), "S")
        if instr.name == "CrossCoreSetFlag":
            at = max(self.free[pipe], self.arrived[pipe], self.free["S"])
            self.flags.set_at[self.kind, number].append(at + CROSS)
            return
        other = "vector" if self.kind == "cube" else "cube"
        while not self.flags.set_at[other, number]:
            yield
        self.free[pipe] = max(self.free[pipe], self.flags.set_at[other, number].popleft())


def streams(instr: Instr) -> bool:
    """Whether a copy passes L2 by."""
    return any(isinstance(view.of, Param) and view.of.streams for view in views(instr))


def same(a: Any, b: Any) -> bool:
    """Whether two rounds went the same way and took as long."""
    return bool(a[1] == b[1] and a[0] == b[0])
