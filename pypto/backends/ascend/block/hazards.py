"""What of a sequence of items must wait for what, and the fewest waits that see to it.

Units work side by side, each in order. Where one touches memory after another did, and one of the two writes, the
second waits: for an event that the first unit signals, or, within one unit, at a barrier. A wait tells more than it was
made for, since the unit that signalled had waited itself. A walk with clocks, which know for each unit up to where the
others are done, adds a wait only where nothing before it says enough. Of loops it walks several iterations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pypto.backends.ascend.block.dependences import Meeting, Touch, phase
from pypto.backends.ascend.blockir.affine import AffineExpr
from pypto.backends.ascend.blockir.instructions import EVENTS, EVENTS_EACH, PIPES
from pypto.backends.ascend.blockir.ir import Buffer, Loop, Param, Scalar
from pypto.backends.ascend.target import AscendTarget

IN_ORDER: Final = ("S", "M", "FIX")  # units whose instructions see what the ones before them wrote
ALL: Final = "ALL"


@dataclass(frozen=True, slots=True)
class Edge:
    """Unit `to` waits before item `wait` for what unit `of` did up to item `set`, `distance` iterations earlier.

    Where both are the same unit it is a barrier before `wait`; the unit ``ALL`` stands for all of them. `stages` is the
    number of events that take turns, by the stages of the buffers that it is about. With `adjacent`, the event is set
    right before the wait.
    """

    of: str
    to: str
    set: int
    wait: int
    distance: int = 0
    stages: int = 1
    set_stage: Scalar = 0
    wait_stage: Scalar = 0
    adjacent: bool = False

    @property
    def is_barrier(self) -> bool:
        return self.of == self.to


@dataclass(frozen=True, slots=True)
class Need:
    """What unit `of` did up to item `set`, `distance` iterations earlier, must be done."""

    of: str
    set: int
    distance: int
    first: Touch
    second: Touch


Pair = tuple[str, str]


@dataclass
class Run:
    """A sequence of items as hazards see it: what each touches, the loop that repeats it, and how.

    Of items with others inside, `told` are the pairs of units of which the second knows at the end that all the first
    one did is done, `inside` those where it knows so of what lies inside of the item. `fenced` are units that meet a
    barrier of their own in an item before anything else. Of loops whose events live on from one run of them to the
    next, `settled` are the pairs of units that these order. With `restarts` it is such a loop itself: what takes turns
    in it begins anew with each run.
    """

    touches: Sequence[Sequence[Touch]]
    target: AscendTarget
    meeting: Meeting
    loop: Loop | None = None
    repeats: bool = False
    adjacent: bool = False
    bound: frozenset[str] = frozenset()
    told: Mapping[int, frozenset[Pair]] = field(default_factory=dict)
    inside: Mapping[int, frozenset[Pair]] = field(default_factory=dict)
    fenced: Mapping[int, frozenset[str]] = field(default_factory=dict)
    settled: Mapping[int, frozenset[Pair]] = field(default_factory=dict)
    restarts: bool = False

    @property
    def units(self) -> list[list[str]]:
        return [sorted({t.pipe for t in touches}, key=PIPES.index) for touches in self.touches]


@dataclass(frozen=True)
class Order:
    """The waits of a sequence.

    `at_end` are the pairs of units of which the second knows at its end that all the first one did in it is done.
    `loose` are pairs that touch the same memory, but never within the iterations of its loop.
    """

    edges: list[Edge]
    at_end: frozenset[Pair]
    loose: frozenset[Pair]


def ordered(run: Run) -> Order:
    """The waits that a sequence needs."""
    needs, loose = _needs(run)
    edges: list[Edge] = []
    walk = _Walk(run, needs, edges, adds=True)
    walk.walk()
    if len(edges) * len(run.touches) < 4000:  # what came later may say what an earlier one was made for
        for edge in list(edges):
            fewer = _Walk(run, needs, [e for e in walk.edges if e != edge], adds=False)
            if fewer.walk():
                walk = fewer
    return Order(_thrifty(walk.edges), walk.at_end(), loose)


def _thrifty(edges: list[Edge]) -> list[Edge]:
    """The waits with fewer events where a loop would hold too many: set behind the last, waited for at the first."""
    many = Counter((e.of, e.to) for e in edges if e.distance for _ in range(e.stages))
    found: dict[object, Edge] = {}
    for e in edges:
        alike = (e.of, e.to, e.distance, e.stages, e.set_stage, e.wait_stage)
        key = alike if e.distance and many[e.of, e.to] > EVENTS_EACH - 2 else e
        known = found.get(key, e)
        found[key] = replace(e, set=max(e.set, known.set), wait=min(e.wait, known.wait))
    return list(found.values())


Needs = dict[tuple[int, str], list[Need]]


def _needs(run: Run) -> tuple[Needs, frozenset[Pair]]:
    """For each item and unit, what each unit did last that it must not overtake; and pairs that are loose."""
    history: dict[str, list[tuple[int, Touch]]] = {}
    same: dict[Touch, Touch] = {}  # of touches that are alike the first one, so that two are compared once
    for i, touches in enumerate(run.touches):
        for touch in touches:
            history.setdefault(touch.of.name, []).append((i, same.setdefault(touch, touch)))
    found: dict[tuple[int, str, str, int], dict[int, Need]] = {}
    loose: set[Pair] = set()
    for second in history.values():
        for first in history.values():
            if run.meeting.same_memory(first[0][1], second[0][1]):
                loose.update(_pairs(run, first, second, found))
    needs: Needs = {}
    for (j, unit, *_), mine in found.items():
        needs.setdefault((j, unit), []).extend(_latest(run, mine))
    return needs, frozenset(loose)


def _pairs(run: Run, firsts: list[tuple[int, Touch]], seconds: list[tuple[int, Touch]],
           found: dict[tuple[int, str, str, int], dict[int, Need]]) -> Iterator[Pair]:  # fmt: skip
    """Notes what touches of one memory need of each other; gives the pairs of units that are loose."""
    known: dict[tuple[int, int, bool], int | None] = {}
    for j, b in seconds:
        for i, a in firsts:
            key = id(a), id(b), i < j
            if key not in known:
                known[key] = _iterations(run, a, b, i < j)
            distance = known[key]
            if distance is None:
                yield a.pipe, b.pipe
            elif distance >= 0 and (i != j or (a.pipe, b.pipe) not in run.settled.get(j, frozenset())):
                mine = found.setdefault((j, b.pipe, a.pipe, distance), {})
                if i not in mine:
                    mine[i] = Need(a.pipe, i, distance, a, b)


def _iterations(run: Run, a: Touch, b: Touch, follows: bool) -> int | None:
    """After how many iterations `b` needs what `a` did: -1 where nothing need be done, None where they never meet."""
    if a.at_once or not (a.writes or b.writes) or not _needs_order(a, b, run.target):
        return -1
    return 0 if follows and run.meeting.now(a, b) else _distance(run, a, b)


def _latest(run: Run, needs: dict[int, Need]) -> Iterator[Need]:
    """The last ones, from the last on: what lies inside of an item may be done while what came before it is not."""
    for at in sorted(needs, reverse=True):
        yield needs[at]
        if not run.inside.get(needs[at].set):
            return


def _needs_order(a: Touch, b: Touch, target: AscendTarget) -> bool:
    """Whether the units' own order is not enough.

    What instructions of one kind write to a cube core's memories one after the other are parts of one operand, strip by
    strip: nothing is written twice before it was read, and the unit that reads it orders the two.
    """
    if a.pipe != b.pipe:
        return True
    in_order = a.pipe in IN_ORDER or (a.pipe == "V" and target.orders_vector)
    strips = b.writes and a.by == b.by and getattr(a.of, "space", "") in ("L1", "L0A", "L0B")
    return a.writes and not in_order and not strips


def _distance(run: Run, a: Touch, b: Touch) -> int | None:
    """After how many iterations `b` meets what `a` touched. Programs of the grid do not order their accesses to GM."""
    if not run.repeats:
        return None
    if run.loop is None:
        return 1 if run.meeting.same_memory(a, b) else None
    if run.loop.step == "blocks" and isinstance(a.of, Param) and not (a.atomic and b.atomic):
        return None
    return run.meeting.later(a, b, run.loop, run.bound)


def edge_for(need: Need, wait: int, unit: str, run: Run) -> Edge:
    """The wait for a need: with events in turns where a loop's stages are what it is about."""
    if need.of == unit:
        return Edge(unit, unit, need.set, wait)
    if f"{need.of}_{unit}" not in EVENTS:
        return Edge(ALL, ALL, need.set, wait)
    if run.adjacent:
        return Edge(need.of, unit, need.set, wait, adjacent=True)
    # What is set before the wait in each iteration would be set twice if the wait were for an earlier iteration's.
    distance = need.distance if need.set >= wait else 0
    a, b = need.first, need.second
    stages = a.of.stages if isinstance(a.of, Buffer) and a.of.name == b.of.name else 1
    # Also where nothing repeats: a loop around it may, and a unit may be so many iterations ahead of another.
    turns = stages > 1 and _has_turn(a) and _has_turn(b)
    if turns and (distance == stages or (distance == 0 and a.stage == b.stage) or _is_fixed(need, run)):
        return Edge(need.of, unit, need.set, wait, distance, stages, a.place, b.place)
    return Edge(need.of, unit, need.set, wait, min(distance, 1))


def _is_fixed(need: Need, run: Run) -> bool:
    """Whether a need is about one stage of a buffer, and a loop around this one goes through the stages."""
    a, b = need.first, need.second
    return need.distance == 1 and a.stage is not None and a.stage == b.stage and not _turns_in(a, run.loop)


def keeps_turns(run: Run) -> bool:
    """Whether events may live on from one run of a loop to the next: all that takes turns in it does so together."""
    turns = [t.stage for touches in run.touches for t in touches if t.stage is not None and _turns_in(t, run.loop)]
    return run.loop is not None and all(_together(turns[0], turn) for turn in turns[1:])


def _together(a: AffineExpr, b: AffineExpr) -> bool:
    """Whether two stages are always the same, or always the two of a pair: what meets in a pair does so next time."""
    (ours, n), (theirs, m) = phase(a), phase(b)
    return a == b or (n == m == 2 and not ours.plus(theirs, -1).terms)


def _turns_in(touch: Touch, loop: Loop | None) -> bool:
    return loop is not None and touch.stage is not None and loop.name in touch.stage.names()


def _has_turn(touch: Touch) -> bool:
    return touch.stage is not None and not isinstance(touch.place, int)


def _turns(run: Run, stages: int) -> Iterator[int]:
    """Whose turn it is in each iteration that is walked: some runs of a loop, if it has several, end amid the turns."""
    if not run.repeats:
        yield 0
        return
    lengths = [2 * stages + 2, *range(stages, 0, -1), 1, 2 * stages] if run.restarts else [2 * stages + 2]
    for length in lengths:
        yield from (i % max(1, stages) for i in range(length))


def _tells(edge: Edge, need: Need, unit: str) -> bool:
    """Whether a wait for one stage, while a loop around goes through them, is what a need asks for."""
    same = (edge.of, edge.to, edge.distance, edge.set_stage) == (need.of, unit, need.distance, need.first.place)
    return same and need.first.stage == need.second.stage and need.set <= edge.set


@dataclass
class Clock:
    """Up to where each unit is done, and items inside of which one is."""

    upto: list[int] = field(default_factory=lambda: [-1] * len(PIPES))
    inside: set[tuple[int, str]] = field(default_factory=set)

    def join(self, other: Clock) -> None:
        self.upto[:] = map(max, self.upto, other.upto)
        self.inside |= other.inside

    def knows(self, unit: str, at: int) -> bool:
        return self.upto[PIPES.index(unit)] >= at or (at, unit) in self.inside

    def learn(self, unit: str, at: int) -> None:
        index = PIPES.index(unit)
        self.upto[index] = max(self.upto[index], at)

    def copy(self) -> Clock:
        return Clock(list(self.upto), set(self.inside))


@dataclass
class _Walk:
    """Clocks on their way through a sequence, several iterations of it where it repeats."""

    run: Run
    needs: dict[tuple[int, str], list[Need]]
    edges: list[Edge]
    adds: bool
    known: dict[str, Clock] = field(default_factory=lambda: {p: Clock() for p in PIPES})
    snapshots: dict[tuple[int, str], Clock] = field(default_factory=dict)
    turns: list[int] = field(default_factory=list)
    waits: dict[int, list[Edge]] = field(default_factory=dict)  # the edges, by the item that they are before

    def __post_init__(self) -> None:
        for edge in self.edges:
            self.waits.setdefault(edge.wait, []).append(edge)

    def walk(self) -> bool:
        """Whether all needs are met; where it adds, they are."""
        farthest = max((n.distance for needs in self.needs.values() for n in needs), default=0)
        self.turns = list(_turns(self.run, farthest))
        units = self.run.units
        for k in range(len(self.turns)):
            for j, present in enumerate(units):
                if not all(self._unit(k, j, unit) for unit in present):
                    return False
                self._leave(k * len(units) + j, j, present)
        return True

    def at_end(self) -> frozenset[Pair]:
        """The pairs of units of which the second knows that all the first one did is done."""
        did: dict[str, list[int]] = {}
        units = self.run.units * len(self.turns)
        for at, present in enumerate(units):
            for unit in present:
                did.setdefault(unit, []).append(at)
        known = {to: self.known[to].copy() for to in PIPES}
        for clock in known.values():
            clock.join(self.known["S"])
        return frozenset(
            (of, to) for of, places in did.items() for to in PIPES if all(known[to].knows(of, at) for at in places)
        )

    def _unit(self, k: int, j: int, unit: str) -> bool:
        """A unit comes to an item: first the waits that are there, then those that are missing."""
        size = len(self.run.touches)
        self.known[unit].join(self.known["S"])
        for edge in self.waits.get(j, ()):
            if edge.to in (unit, ALL):
                self._pass(edge, k)
        fenced = unit in self.run.fenced.get(j, frozenset())
        needs = [n for n in self.needs.get((j, unit), ()) if not (fenced and n.of == unit)]
        while missing := [n for n in needs if not self._met(n, k, j, unit)]:
            if not self.adds:
                return False
            latest = max(missing, key=lambda n: (n.set - n.distance * size, n.of))
            edge = edge_for(latest, j, unit, self.run)
            self.edges.append(edge)
            self.waits.setdefault(j, []).append(edge)
            self._pass(edge, k)
        return True

    def _met(self, need: Need, k: int, at: int, unit: str) -> bool:
        earlier = self._earlier(k, need.distance)
        if earlier is None or self.known[unit].knows(need.of, earlier * len(self.run.touches) + need.set):
            return True
        return need.distance == 1 and any(e.stages > 1 and e.wait <= at and _tells(e, need, unit) for e in self.edges)

    def _earlier(self, k: int, distance: int) -> int | None:
        """The iteration so many before, which is the last one of the same turn; None where there is none."""
        if distance > 1 and self.run.restarts:
            return next((i for i in range(k - 1, -1, -1) if self.turns[i] == self.turns[k]), None)
        return k - distance if k >= distance else None

    def _pass(self, edge: Edge, k: int) -> None:
        """What a wait makes known."""
        size = len(self.run.touches)
        now, clock = k * size + edge.wait, self.known.get(edge.to, Clock())
        if edge.of == ALL:
            for each in self.known.values():
                each.upto[:] = [now - 1] * len(PIPES)
        elif edge.is_barrier:
            clock.learn(edge.to, now - 1)
        elif edge.adjacent:
            clock.join(self.known[edge.of])
            clock.learn(edge.of, now - 1)
        elif edge.distance == 1 and edge.stages > 1:
            return  # it tells what was done in this stage, not what else was done before the last iteration
        elif (earlier := self._earlier(k, edge.distance)) is not None:
            at = earlier * size + edge.set
            clock.join(self.snapshots[at, edge.of])
            clock.learn(edge.of, at)

    def _leave(self, now: int, j: int, present: list[str]) -> None:
        """The end of an item: what it makes known goes on to whoever waits for it."""
        for of, to in self.run.inside.get(j, frozenset()):
            self.known[to].inside.add((now, of))
        for unit in present:
            self.known[unit].join(self.known["S"])
            self.snapshots[now, unit] = self.known[unit].copy()
        for of, to in sorted(self.run.told.get(j, ())):
            self.known[to].join(self.snapshots[now, of])
            self.known[to].learn(of, now)
        for unit in present:
            self.snapshots[now, unit] = self.known[unit].copy()
