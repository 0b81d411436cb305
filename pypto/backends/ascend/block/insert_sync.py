"""Events and barriers: what lets the units of a core work side by side, and no sooner than they may.

Every sequence of items is ordered by itself; what lies inside of an item is one with it. An event is set right behind
what made the data and waited for right before what needs them. Where an iteration needs what an earlier one left, the
events are set before the loop, waited for and set again in it, and waited for behind it; if the loop lies in another
one, that is done around the outer one, so that work goes on from one run of the inner loop to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pypto.backends.ascend.block.dependences import Meeting, Reader, Touch
from pypto.backends.ascend.block.hazards import Edge, Pair, Run, keeps_turns, ordered
from pypto.backends.ascend.blockir.effects import items_of
from pypto.backends.ascend.blockir.instructions import EVENTS_EACH, PIPES
from pypto.backends.ascend.blockir.ir import (
    BlockKernel,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Scalar,
    While,
    Word,
    fold,
)
from pypto.backends.ascend.target import AscendTarget

Busy = Mapping[tuple[str, str], frozenset[int]]
Path = tuple[int, ...]  # items of items that lead to a loop
Numbers = dict[tuple[Path, Edge], range]  # of one event for each stage
_ALL_PAIRS = frozenset((of, to) for of in PIPES for to in PIPES)
SPARE = range(EVENTS_EACH - 1, EVENTS_EACH)  # set and waited for in one place, where all others are taken
_ALL_WAIT = Instr("PipeBarrier", (Word("PIPE_ALL"),))


@dataclass
class Ordered:
    """A sequence with the waits that it needs, and the sequences inside of its items."""

    items: tuple[Item, ...]
    edges: list[Edge]
    inside: list[tuple[Ordered, ...]]
    at_end: frozenset[Pair]
    units: Mapping[str, int]  # with the last item of each
    fenced: frozenset[str]
    loose: frozenset[Pair]
    moves: bool  # whether its events may be set and waited for around an outer loop
    moved: frozenset[int] = frozenset()  # items inside of which that is so

    def held(self) -> Iterator[tuple[Path, Edge]]:
        """Events that are set while the loop begins and ends: its own, and those that loops inside leave to it."""
        yield from (((), edge) for edge in self.edges if edge.distance)
        for j in sorted(self.moved):
            yield from (((j, *path), edge) for path, edge in self.inside[j][0].held())


@dataclass
class Sync:
    """What the sequences of a kernel have in common."""

    target: AscendTarget
    reader: Reader
    meeting: Meeting
    seen: dict[int, list[Touch]] = field(default_factory=dict)

    def touches(self, item: Item) -> list[Touch]:
        if id(item) not in self.seen:
            self.seen[id(item)] = self.reader.touches(item)
        return self.seen[id(item)]


def sync(kernel: BlockKernel, target: AscendTarget) -> BlockKernel:
    """The kernel with all events and barriers."""
    work = Sync(target, Reader.of(kernel), Meeting(kernel.noalias))
    body, cube_body = (_inserted(_ordered(items, work), {}, {}) for items in (kernel.body, kernel.cube_body))
    return replace(kernel, body=body, cube_body=cube_body)


def _ordered(
    items: tuple[Item, ...], work: Sync, loop: Loop | None = None, is_while: bool = False, is_inner: bool = False
) -> Ordered:
    inside = [_inside(item, work, loop is not None) for item in items]
    loops = {j: inner[0] for j, inner in enumerate(inside) if isinstance(items[j], Loop)}
    moved = {j: inner for j, inner in loops.items() if inner.moves}
    run = Run(
        [work.touches(item) for item in items], work.target, work.meeting, loop, loop is not None or is_while, is_while,
        frozenset(x.name for x in items_of(items) if isinstance(x, Let) and x.name not in work.reader.meanings),
        {j: _told(inner) for j, inner in loops.items() if j not in moved},
        {j: _done(inner) for j, inner in enumerate(inside) if inner and not isinstance(items[j], While)},
        {j: _fenced(inner) for j, inner in enumerate(inside) if inner},
        {j: _ALL_PAIRS - inner.loose for j, inner in moved.items()},
    )  # fmt: skip
    moves = is_inner and keeps_turns(run)
    order = ordered(replace(run, restarts=moves))
    units = {unit: j for j, present in enumerate(run.units) for unit in present}
    opened = frozenset(_opened(run, order.edges))
    return Ordered(items, order.edges, inside, order.at_end, units, opened, order.loose, moves, frozenset(moved))


def _opened(run: Run, edges: list[Edge]) -> Iterator[str]:
    """The units of which the first item that has any work for them has a barrier before it."""
    first: dict[str, int] = {}
    for j, units in enumerate(run.units):
        first |= {unit: j for unit in units if unit not in first}
    barriers = {(e.wait, e.to) for e in edges if e.is_barrier}
    yield from (unit for unit, j in first.items() if (j, unit) in barriers)


def _told(inner: Ordered) -> frozenset[Pair]:
    """What the waits behind a loop say of units that signal behind the last thing they do in it."""
    return frozenset((e.of, e.to) for e in inner.edges if e.distance and e.set == inner.units[e.of])


def _done(sides: tuple[Ordered, ...]) -> frozenset[Pair]:
    """The pairs of units of which the second knows, on every way through an item, that the first one is done in it."""
    found = _ALL_PAIRS
    for side in sides:
        found &= side.at_end | {(of, to) for of in PIPES if of not in side.units for to in PIPES}
    used = frozenset(unit for side in sides for unit in side.units)
    return frozenset(pair for pair in found if pair[0] in used)


def _fenced(sides: tuple[Ordered, ...]) -> frozenset[str]:
    """The units that meet a barrier in an item, on every way through it, before they do anything."""
    used = frozenset(unit for side in sides for unit in side.units)
    return frozenset(x for x in used if all(x in side.fenced or x not in side.units for side in sides))


def _inside(item: Item, work: Sync, in_loop: bool) -> tuple[Ordered, ...]:
    match item:
        case Loop():
            return (_ordered(item.body, work, item, is_inner=in_loop),)
        case While():
            condition = If(item.condition, ())  # its place between the two parts
            return (_ordered((*item.test, condition, *item.body), work, is_while=True),)
        case If():
            return _ordered(item.body, work), _ordered(item.orelse, work)
    return ()


def _inserted(order: Ordered, busy: Busy, given: Numbers) -> tuple[Item, ...]:
    """The items with events, whose numbers nothing around them uses; some are given from outside."""
    numbers = _numbered(order, busy, given)
    own = {edge: number for (path, edge), number in numbers.items() if not path}
    sets: dict[int, list[Item]] = {}
    for e in order.edges:
        if _signals(e, own):
            sets.setdefault(e.set, []).append(_event("SetFlag", e, own[e], e.set_stage))
    found: list[Item] = []
    for j in range(len(order.items)):
        found += _waits(order, own, j)
        found += _item(order, numbers, busy, j)
        found += sets.get(j, ())
    return tuple(found)


def _item(order: Ordered, numbers: Numbers, busy: Busy, j: int) -> Iterator[Item]:
    """An item, and what stands around a loop."""
    item, inside = order.items[j], order.inside[j]
    inner_busy = _busy_at(numbers, busy, j)
    given = {(path[1:], edge): number for (path, edge), number in numbers.items() if path[:1] == (j,)}
    around = isinstance(item, Loop) and j not in order.moved
    if around:
        given = _numbered(inside[0], inner_busy, {}, held=True)
        yield from _around(given, "SetFlag")
    yield _with(item, [_inserted(x, inner_busy, given) for x in inside], inside)
    if around:
        yield from _around(given, "WaitFlag")


def _signals(edge: Edge, numbers: Mapping[Edge, range]) -> bool:
    return not edge.is_barrier and not edge.adjacent and numbers[edge] != SPARE


def _waits(order: Ordered, numbers: Mapping[Edge, range], j: int) -> Iterator[Item]:
    edges = [e for e in order.edges if e.wait == j]
    at_once = [e for e in edges if not e.is_barrier and not _signals(e, numbers)]
    yield from (_event("WaitFlag", e, numbers[e], e.wait_stage) for e in edges if _signals(e, numbers))
    if any(map(_needs_all, at_once)):
        yield _ALL_WAIT
        return
    for edge in at_once:
        yield _event("SetFlag", edge, SPARE, 0)
        yield _event("WaitFlag", edge, SPARE, 0)
    for unit in dict.fromkeys(e.of for e in edges if e.is_barrier):
        yield Instr("PipeBarrier", (Word(f"PIPE_{unit}"),))


def _needs_all(edge: Edge) -> bool:
    """Whether what is set and waited for in one place must be a barrier of all units.

    The scalar unit, which tells the others what to do, waits there and then. Another unit may still have the wait
    before it when the event is set anew.
    """
    return edge.to != "S"


def _event(name: str, edge: Edge, ids: range, stage: Scalar) -> Instr:
    return Instr(name, (Word(f"{edge.of}_{edge.to}"), fold("+", stage, ids.start) if len(ids) > 1 else ids.start))


def _around(numbers: Numbers, name: str) -> Iterator[Item]:
    """Before a loop, all events are set that its first iterations wait for; behind it, those of its last ones are."""
    for (_, edge), ids in numbers.items():
        if ids != SPARE:
            yield from (_event(name, edge, range(i, i + 1), 0) for i in ids)
        elif name == "WaitFlag":
            yield _ALL_WAIT


def _with(item: Item, parts: list[tuple[Item, ...]], inside: tuple[Ordered, ...]) -> Item:
    match item:
        case Loop():
            return replace(item, body=parts[0])
        case While():
            marker = next(i for i, x in enumerate(parts[0]) if x is inside[0].items[len(item.test)])
            return replace(item, test=parts[0][:marker], body=parts[0][marker + 1 :])
        case If() if item.body or item.orelse:
            return replace(item, body=parts[0], orelse=parts[1])
    return item


def _numbered(order: Ordered, busy: Busy, given: Numbers, held: bool = False) -> Numbers:
    """The numbers of each event; `SPARE` where none is left. `held`: only of those around a loop, which it is."""
    around = sorted(order.held(), key=lambda x: -len(x[0]))  # what runs most often has the choice
    events = [*around, *(((), e) for e in order.edges if not e.is_barrier and not e.distance and not held)]
    numbers = dict(given)
    for path, edge in events:
        if (path, edge) not in numbers:
            numbers[path, edge] = _number(path, edge, busy.get((edge.of, edge.to), frozenset()), numbers)
    return numbers


def _number(path: Path, edge: Edge, taken: frozenset[int], numbers: Numbers) -> range:
    """Those that nothing else has had, else those that were free first; only one if there are no several."""
    if edge.adjacent:
        return SPARE
    others = [(p, e, ids) for (p, e), ids in numbers.items() if ids != SPARE and (e.of, e.to) == (edge.of, edge.to)]
    for stages in dict.fromkeys((edge.stages, 1)):
        choices = []
        for first in range(SPARE.start - stages + 1):
            ids = range(first, first + stages)
            before = [(p, e) for p, e, theirs in others if set(ids) & set(theirs)]
            if not taken & set(ids) and not any(p or path or _overlap(edge, e) for p, e in before):
                choices.append((max((e.wait for _, e in before), default=-1), first))
        if choices:
            return range(min(choices)[1], min(choices)[1] + stages)
    return SPARE


def _overlap(a: Edge, b: Edge) -> bool:
    """Whether two events may be set at the same time; those that a loop holds always are."""
    return bool(a.distance or b.distance) or (a.set < b.wait and b.set < a.wait)


def _busy_at(numbers: Numbers, busy: Busy, j: int) -> Busy:
    """The numbers that are in use while an item runs."""
    found = dict(busy)
    for (path, edge), ids in numbers.items():
        if ids != SPARE and (path or edge.distance or edge.set < j < edge.wait):
            pair = (edge.of, edge.to)
            found[pair] = found.get(pair, frozenset()) | frozenset(ids)
    return found
