"""Simulation of one core: the scalar unit issues instructions to the queues of the units, which run in parallel.

A queue is in order and holds 32 instructions. A set event carries the time at which the earlier instructions of its
queue end. A vector instruction begins while the one before it is still in the pipeline. After a barrier it begins when
that has ended.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pypto.backends.ascend.blockir.effects import memory_reads, pipe_of, scalars, views
from pypto.backends.ascend.blockir.evaluation import value_of
from pypto.backends.ascend.blockir.instructions import PIPES
from pypto.backends.ascend.blockir.ir import (
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
    walk,
)
from pypto.backends.ascend.timing.accesses import ReadNumber, usual_branch, usual_way
from pypto.backends.ascend.timing.costs import (
    GM_SCALAR,
    ISSUE,
    SCALAR_ACCESS,
    Cost,
    Source,
    cost_of,
    extra_bytes,
    is_event,
    operations_of,
    shape_of,
)
from pypto.backends.ascend.timing.rates import RATES_OF, MemoryRates
from pypto.backends.ascend.timing.rows import memory_view
from pypto.backends.ascend.timing.unit_times import interval

DEPTH: Final = 32
STEP: Final = 2.0  # cycles of the scalar unit for an operation on numbers
BRANCH: Final = 6.0
CROSS: Final = 500.0  # cycles of a flag from core to core, one way
_MOST_SLICES: Final = 4000
_MOST_ROUNDS: Final = 100_000  # of a loop whose end depends on data
_LONG: Final = 8  # rounds from which on a loop is asked whether they repeat themselves on both kinds of core
_SAME: Final = 3  # periods that must be alike before the rest of a loop is taken for more of them


def computing(item: Item) -> Iterator[float]:
    """Cycles of the scalar unit for the numbers of an item."""
    for value in scalars(item):
        if isinstance(value, Expr):
            yield STEP
        for view in memory_reads(value):
            yield GM_SCALAR if view.space == "GM" else SCALAR_ACCESS


@dataclass(frozen=True, slots=True)
class Slice:
    """An interval in which a unit is busy."""

    pipe: str
    name: str
    line: int
    start: float
    end: float


@dataclass
class Flags:
    """Flags between the cores of a block, with the times at which each was set."""

    set_at: dict[tuple[str, int], deque[float]] = field(default_factory=lambda: defaultdict(deque))
    known: dict[int, bool] = field(default_factory=dict)

    def has(self, item: Loop) -> bool:
        """Whether a loop sets or waits for flags."""
        if id(item) not in self.known:
            self.known[id(item)] = any(x.name.startswith("CrossCore") for x in walk(item.body))
        return self.known[id(item)]


@dataclass
class Rounds:
    """A loop at the end of a round: the change in each round, and the numbers after it. `jump` rounds are skipped."""

    left: int
    history: list[Any]
    numbers: list[dict[str, int | None]]
    jump: int = 0


@dataclass
class CoreTime:
    """The clocks of a core. `kind` is ``cube`` or ``vector``. `run` is a generator that yields while it waits."""

    kind: str
    values: dict[str, int | None]
    flags: Flags
    rates: MemoryRates = RATES_OF[2201]
    streams: frozenset[str] = frozenset()  # arrays whose copies pass L2 by
    hits: Mapping[int, float] = field(default_factory=dict)  # parts of copies that L2 has, by the instruction's id
    read: ReadNumber | None = None  # numbers in arrays, as far as they are known
    free: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PIPES, 0.0))
    arrived: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PIPES, 0.0))
    queues: dict[str, deque[float]] = field(default_factory=lambda: {p: deque(maxlen=DEPTH) for p in PIPES})
    events: dict[tuple[str, int], float] = field(default_factory=dict)
    units: dict[str, float] = field(default_factory=dict)  # times of accumulators in L0C
    busy: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PIPES, 0.0))
    lines: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    bytes: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    ways: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # bytes from and to GM, by L2's part
    costs: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # the same, with what they cost
    operations: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # of products, by dtype
    ends: dict[str, int] = field(default_factory=dict)  # where the last copy of an array has ended
    slices: list[Slice] = field(default_factory=list)
    assumed: set[int] = field(default_factory=set)
    trace: list[Any] = field(default_factory=list)
    computed: dict[int, tuple[float, ...]] = field(default_factory=dict)  # what the numbers of an item cost
    rounds: Rounds | None = None  # where it has given way at the end of a round

    @property
    def end(self) -> float:
        return max(*self.free.values(), *self.arrived.values())

    def scalar(self, cycles: float) -> None:
        self.free["S"] += cycles
        self.busy["S"] += cycles

    def number(self, value: Scalar, line: int, usual: int = 0) -> int:
        """A number; one that depends on data is assumed to be `usual`, and its line is recorded."""
        if isinstance(value, float):  # an operand of an instruction, whose time does not depend on it
            return 0
        found = self.evaluate(value, line)
        if found is None:
            self.assumed.add(line)
            return usual
        return found

    def evaluate(self, value: Scalar, line: int) -> int | None:
        """A number, or None where it depends on data; a condition that depends on data takes its usual value."""
        found = value_of(value, self.values, self.element)
        if found is None and isinstance(value, Expr) and value.op in ("?:", "min", "max"):
            self.assumed.add(line)
            args = [self.evaluate(x, line) for x in value.args]
            if value.op == "?:":
                return args[1 if usual_way(value.args[0]) else 2]
            return next((x for x in args if x is not None), None)
        return found

    def element(self, view: View) -> int | None:
        """The number in an array of GM that a scalar is loaded from."""
        at = value_of(view.offset, self.values, self.element)
        return self.read(view.of.name, at) if self.read is not None and view.space == "GM" and at is not None else None

    def items(self, items: tuple[Item, ...]) -> Iterator[None]:
        for item in items:
            if id(item) not in self.computed:
                self.computed[id(item)] = tuple(computing(item))
            for cycles in self.computed[id(item)]:
                self.scalar(cycles)
            yield from self.item(item)

    def item(self, item: Item) -> Iterator[None]:
        match item:
            case Instr():
                yield from self.instruction(item)
            case Let() | Assign():
                self.values[item.name] = self.evaluate(item.value, item.line)
            case Loop():
                yield from self.loop(item)
            case While():
                yield from self.endless(item)
            case If():
                self.scalar(BRANCH)
                holds = self.number(item.condition, item.line, usual_branch(item))
                self.trace.append(bool(holds))
                yield from self.items(item.body if holds else item.orelse)

    # --- loops -----------------------------------------------------------------------------------------------------

    def endless(self, item: While) -> Iterator[None]:
        """A `while` loop; one whose condition depends on data is assumed to run once."""
        for _ in range(_MOST_ROUNDS):
            yield from self.items(item.test)
            self.scalar(BRANCH)
            known = value_of(item.condition, self.values, self.element)
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
        meets = len(rounds) >= _LONG and self.flags.has(item)
        watched = meets or (len(rounds) >= 2 * _SAME and not self.flags.set_at)
        numbers: list[dict[str, int | None]] = []
        while at < len(rounds):
            self.values[item.name] = rounds[at]
            before, outer = self.snapshot() if watched else {}, self.trace
            self.trace = []
            self.scalar(BRANCH)
            yield from self.items(item.body)
            outer.append(tuple(self.trace))
            self.trace = outer
            at += 1
            if not watched:
                continue
            history.append((self.change(before), outer[-1]))
            if meets:
                numbers.append(dict(self.values))
                self.rounds = here = Rounds(len(rounds) - at, history, numbers)
                yield
                self.rounds = None
                at += here.jump
            else:
                at += self.skip(history, len(rounds) - at)

    def snapshot(self) -> dict[str, Any]:
        names = ("free", "arrived", "units", "busy", "lines", "bytes", "ways", "costs", "operations")
        return {name: dict(getattr(self, name)) for name in names}

    def change(self, before: dict[str, Any]) -> dict[str, dict[Any, float]]:
        """The change of every clock and counter in one round."""
        return {name: {k: round(v - before[name].get(k, 0.0), 3) for k, v in getattr(self, name).items()}
                for name in before}  # fmt: skip

    def skip(self, history: list[Any], left: int) -> int:
        """Extrapolate a loop in its steady state, but for the last two periods. Gives the count of skipped rounds."""
        for period in (1, 2, 4):
            if left < 3 * period or self.flags.set_at or not repeats(history, period):
                continue
            times = (left - 2 * period) // period
            self.forward(history[-period:], times)
            history.clear()
            return times * period
        return 0

    def forward(self, last: list[Any], times: int) -> float:
        """Advance all clocks and counters by repetitions of the last rounds. Gives the time of the scalar unit."""
        for name in last[-1][0]:
            clock = getattr(self, name)
            for key in clock:
                clock[key] += times * sum(change[name].get(key, 0.0) for change, _ in last)
        ahead = times * length(last)
        self.events = {k: t + ahead for k, t in self.events.items()}
        for queue in self.queues.values():
            queue.clear()
        return ahead

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
            source = self.source(instr)
            cost = cost_of(instr, numbers, self.rates, source)
            self.work(instr, pipe_of(instr), cost, numbers)
            if instr.name == "Mmad":
                self.operations[views(instr)[1].elem.mnemonic] += operations_of(numbers)
            if cost.bytes:
                self.moved(instr, numbers, cost.bytes, source)

    def argument(self, value: Argument, line: int) -> Any:
        if isinstance(value, View):
            return self.number(value.stage, line), self.number(value.offset, line)
        if isinstance(value, Record):
            return tuple(None if isinstance(x, Word) else self.number(x, line) for x in value.fields)
        return value.text if isinstance(value, Word) else None if isinstance(value, Read) else self.number(value, line)

    def work(self, instr: Instr, pipe: str, cost: Cost, numbers: tuple[Any, ...]) -> None:
        """Run an instruction on its unit."""
        if pipe == "S":
            self.scalar(cost.busy)
            return
        self.hand_over(pipe)
        start, end = interval(instr, numbers, max(self.free["S"], self.free[pipe]), cost.busy, self.units)
        self.free[pipe] = end
        self.arrived[pipe] = max(self.arrived[pipe], end + cost.latency - cost.busy)
        self.queues[pipe].append(end)
        self.busy[pipe] += cost.busy
        self.lines[instr.line] += cost.busy
        if len(self.slices) < _MOST_SLICES:
            self.slices.append(Slice(pipe, instr.name, instr.line, start, start + max(cost.busy, cost.latency)))

    def source(self, instr: Instr) -> Source:
        """The source of a copy: L2 for arrays in the workspace, else as the L2 model says."""
        view = memory_view(instr)
        if view is None or not isinstance(view.of, Param):
            return Source()
        usual = 0.0 if view.of.place is None else 1.0
        return Source(self.hits.get(id(instr), usual), view.of.name in self.streams and view is views(instr)[1])

    def moved(self, instr: Instr, numbers: tuple[Any, ...], size: int, source: Source) -> None:
        """Count the bytes of a copy by source and destination; of copies from and to GM, the L2 traffic too."""
        to, origin = views(instr)[:2]
        self.bytes[f"{origin.space} to {to.space}"] += size
        view = memory_view(instr)
        if view is None or not isinstance(view.of, Param):
            return
        way = "written" if view is to else "streamed" if source.bypasses else "read"
        way = way if view.of.place is None else f"kept {way}"
        start = numbers[instr.args.index(view)][1] * view.elem.itemsize
        jump = 0.0 if self.ends.get(view.of.name) == start else self.rates.jump
        self.ends[view.of.name] = start + size
        rows = shape_of(instr, numbers)[0] if view is origin else 0
        self.ways[way] += size
        self.costs[way] += size + jump + rows * extra_bytes(instr, numbers, self.rates, source)

    def hand_over(self, pipe: str) -> None:
        """Issue an instruction to a queue; the scalar unit waits while the queue is full."""
        queue = self.queues[pipe]
        if len(queue) == DEPTH:
            self.free["S"] = max(self.free["S"], queue[0])
        self.scalar(ISSUE)

    def event(self, instr: Instr) -> None:
        """Set an event, or wait for it."""
        of, to = is_event(instr.args[0])
        number = instr.args[1]
        key = f"{of}_{to}", self.number(number, instr.line) if isinstance(number, int | str | Expr) else 0
        self.scalar(STEP)
        if instr.name == "SetFlag":
            self.events[key] = max(self.free[of], self.arrived[of], self.free["S"])
        else:
            self.free[to] = max(self.free[to], self.events.pop(key, 0.0))

    def barrier(self, instr: Instr) -> None:
        """Wait until a unit, or all of them, have ended."""
        word = instr.args[0]
        pipe = word.text.removeprefix("PIPE_") if isinstance(word, Word) else "ALL"
        self.scalar(STEP)
        if pipe == "ALL":
            self.free = dict.fromkeys(PIPES, self.end)
        else:
            self.free[pipe] = max(self.free[pipe], self.arrived[pipe])

    def cross(self, instr: Instr) -> Iterator[None]:
        """Set a flag for the cores of the other kind, or wait for one of theirs."""
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


def repeats(history: list[Any], period: int) -> bool:
    """Whether the last rounds are periodic with this period."""
    if len(history) < _SAME * period:
        return False
    last = history[-period:]
    return all(same(history[-(n + 1) * period + i], last[i]) for n in range(1, _SAME) for i in range(period))


def length(rounds: list[Any]) -> float:
    """Cycles of the scalar unit for some rounds."""
    return float(sum(change["free"]["S"] for change, _ in rounds))


def same(a: Any, b: Any) -> bool:
    """Whether two rounds took the same branches and the same time."""
    return bool(a[1] == b[1] and a[0] == b[0])
