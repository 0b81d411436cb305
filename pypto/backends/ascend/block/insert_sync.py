"""Event and barrier insertion: orders the units of a core, which otherwise run side by side.

Each sequence of items is planned by itself; an inner loop or branch counts as one item of the outer sequence. An event
is set right behind the producer and waited for right before the consumer. Where a later iteration waits for an earlier
one, the events are set once before the loop, waited for and set again in it, and waited for behind it. If the loop lies
in another loop, this happens around the outer one, so that work overlaps from one run of the inner loop to the next.

                                             SetFlag('V_MTE2', 0)
    for i in range(n):                       for i in range(n):
        DataCopy(a[0], x[i * 64], ...)           WaitFlag('V_MTE2', 0)
        Muls(b[0], a[0], 2.0, 64)      ->        DataCopy(a[0], x[i * 64], ...)
                                                 SetFlag('MTE2_V', 0)
                                                 WaitFlag('MTE2_V', 0)
                                                 Muls(b[0], a[0], 2.0, 64)
                                                 SetFlag('V_MTE2', 0)
                                             WaitFlag('V_MTE2', 0)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pypto.backends.ascend.block.dependences import AccessAnalysis, AliasAnalysis, MemoryAccess
from pypto.backends.ascend.block.hazards import Edge, HazardRegion, Pair, stages_advance_together
from pypto.backends.ascend.block.vector_clocks import find_waits
from pypto.backends.ascend.blockir.effects import items_of
from pypto.backends.ascend.blockir.instructions import EVENTS_EACH, PIPES
from pypto.backends.ascend.blockir.ir import BlockKernel, If, Instr, Item, Let, Loop, Scalar, While, Word, fold
from pypto.backends.ascend.target import AscendTarget

BusyIds = Mapping[tuple[str, str], frozenset[int]]
Path = tuple[int, ...]  # indices of nested items that lead to a loop
EventIds = dict[tuple[Path, Edge], range]  # an id for each stage
_ALL_PAIRS = frozenset((of, to) for of in PIPES for to in PIPES)
SPARE_ID = range(EVENTS_EACH - 1, EVENTS_EACH)  # for events that are set right before their wait
_FULL_BARRIER = Instr("PipeBarrier", (Word("PIPE_ALL"),))


@dataclass
class SyncPlan:
    """A sequence with its waits, and the plans of the sequences inside of its items."""

    items: tuple[Item, ...]  # the sequence
    edges: list[Edge]  # its waits
    inner_plans: list[tuple[SyncPlan, ...]]  # of each item, one for each inner sequence
    completed_at_end: frozenset[Pair]  # pairs of which the consumer knows at the end that the producer is done
    last_item_of_unit: Mapping[str, int]  # by unit
    barrier_first: frozenset[str]  # units that begin with a barrier
    independent: frozenset[Pair]  # pairs that never meet in the loop
    is_hoistable: bool  # whether an outer loop may hold its events
    hoisted: frozenset[int] = frozenset()  # items whose events this sequence, or one around it, holds

    def loop_carried_events(self) -> Iterator[tuple[Path, Edge]]:
        """Yield the events that are set while the loop begins and ends: its own, and those of hoisted inner loops."""
        yield from (((), edge) for edge in self.edges if edge.distance)
        for j in sorted(self.hoisted):
            yield from (((j, *path), edge) for path, edge in self.inner_plans[j][0].loop_carried_events())


@dataclass
class SyncContext:
    """What the sequences of a kernel share."""

    target: AscendTarget  # the chip
    analysis: AccessAnalysis  # lists accesses
    aliases: AliasAnalysis  # compares accesses
    access_cache: dict[int, list[MemoryAccess]] = field(default_factory=dict)  # accesses by the identity of an item

    def accesses(self, item: Item) -> list[MemoryAccess]:
        """Return the accesses of an item, analysed once."""
        if id(item) not in self.access_cache:
            self.access_cache[id(item)] = self.analysis.accesses(item)
        return self.access_cache[id(item)]


def sync(kernel: BlockKernel, target: AscendTarget) -> BlockKernel:
    """Return the kernel with all events and barriers."""
    context = SyncContext(target, AccessAnalysis.of(kernel), AliasAnalysis(kernel.noalias))
    body, cube_body = (_insert(_plan(items, context), {}, {}) for items in (kernel.body, kernel.cube_body))
    return replace(kernel, body=body, cube_body=cube_body)


def _plan(
    items: tuple[Item, ...],
    context: SyncContext,
    loop: Loop | None = None,
    is_while: bool = False,
    is_inner: bool = False,
) -> SyncPlan:
    """Plan the waits of a sequence, inner sequences first."""
    inner_plans = [_plan_inside(item, context, loop is not None) for item in items]
    loop_plans = {j: plan[0] for j, plan in enumerate(inner_plans) if isinstance(items[j], Loop)}
    hoistable = {j: plan for j, plan in loop_plans.items() if plan.is_hoistable}
    definitions = context.analysis.definitions
    completed = {
        j: _completed_inside(plan) for j, plan in enumerate(inner_plans) if plan and not isinstance(items[j], While)
    }
    region = HazardRegion(
        [context.accesses(item) for item in items],
        context.target,
        context.aliases,
        loop,
        repeats=loop is not None or is_while,
        adjacent=is_while,
        bound_names=frozenset(x.name for x in items_of(items) if isinstance(x, Let) and x.name not in definitions),
        signalled_behind={j: _signalled_behind(plan) for j, plan in loop_plans.items() if j not in hoistable},
        completed_inside=completed,
        barrier_first={j: _barrier_first(plan) for j, plan in enumerate(inner_plans) if plan},
        ordered_by_inner_loop={j: _ALL_PAIRS - plan.independent for j, plan in hoistable.items()},
    )
    is_hoistable = is_inner and stages_advance_together(region)
    waits = find_waits(replace(region, stages_restart=is_hoistable))
    units = {unit: j for j, active in enumerate(region.units) for unit in active}
    barrier_first = frozenset(_barrier_first_units(region, waits.edges))
    return SyncPlan(
        items,
        waits.edges,
        inner_plans,
        waits.completed_at_end,
        units,
        barrier_first,
        waits.independent,
        is_hoistable,
        frozenset(hoistable),
    )


def _barrier_first_units(region: HazardRegion, edges: list[Edge]) -> Iterator[str]:
    """Yield the units that have a barrier before the first item that uses them."""
    first_item: dict[str, int] = {}
    for j, units in enumerate(region.units):
        first_item |= {unit: j for unit in units if unit not in first_item}
    barriers = {(e.wait_at, e.consumer) for e in edges if e.is_barrier}
    yield from (unit for unit, j in first_item.items() if (j, unit) in barriers)


def _signalled_behind(plan: SyncPlan) -> frozenset[Pair]:
    """Return the pairs that the waits behind a loop order: the producer signals after its last item in the loop."""
    return frozenset(
        (e.producer, e.consumer) for e in plan.edges if e.distance and e.set_at == plan.last_item_of_unit[e.producer]
    )


def _completed_inside(plans: tuple[SyncPlan, ...]) -> frozenset[Pair]:
    """Return the pairs that are ordered on every path through an item."""
    pairs = _ALL_PAIRS
    for plan in plans:
        pairs &= plan.completed_at_end | {(of, to) for of in PIPES if of not in plan.last_item_of_unit for to in PIPES}
    used = frozenset(unit for plan in plans for unit in plan.last_item_of_unit)
    return frozenset(pair for pair in pairs if pair[0] in used)


def _barrier_first(plans: tuple[SyncPlan, ...]) -> frozenset[str]:
    """Return the units that begin an item with a barrier on every path through it."""
    used = frozenset(unit for plan in plans for unit in plan.last_item_of_unit)
    return frozenset(
        unit for unit in used if all(unit in plan.barrier_first or unit not in plan.last_item_of_unit for plan in plans)
    )


def _plan_inside(item: Item, context: SyncContext, in_loop: bool) -> tuple[SyncPlan, ...]:
    """Plan the sequences inside of an item."""
    match item:
        case Loop():
            return (_plan(item.body, context, item, is_inner=in_loop),)
        case While():
            condition = If(item.condition, ())  # stands for the condition, between test and body
            return (_plan((*item.test, condition, *item.body), context, is_while=True),)
        case If():
            return _plan(item.body, context), _plan(item.orelse, context)
    return ()


def _insert(plan: SyncPlan, busy: BusyIds, given_ids: EventIds) -> tuple[Item, ...]:
    """Return the items with events and barriers, numbered apart from the events that are busy around them."""
    ids = _assign_event_ids(plan, busy, given_ids)
    own_ids = {edge: number for (path, edge), number in ids.items() if not path}
    sets: dict[int, list[Item]] = {}
    for edge in plan.edges:
        if _has_event(edge, own_ids):
            sets.setdefault(edge.set_at, []).append(_event("SetFlag", edge, own_ids[edge], edge.set_stage))
    output: list[Item] = []
    for j in range(len(plan.items)):
        output += _waits_before(plan, own_ids, j)
        output += _item(plan, ids, busy, j)
        output += sets.get(j, ())
    return tuple(output)


def _item(plan: SyncPlan, ids: EventIds, busy: BusyIds, j: int) -> Iterator[Item]:
    """Yield an item with its own events inserted, and the events around a loop."""
    item = plan.items[j]
    inner_plans = plan.inner_plans[j]
    inner_busy = _busy_ids_at(ids, busy, j)
    given_ids = {(path[1:], edge): number for (path, edge), number in ids.items() if path[:1] == (j,)}
    holds_events = isinstance(item, Loop) and j not in plan.hoisted
    if holds_events:
        given_ids = _assign_event_ids(inner_plans[0], inner_busy, {}, only_held=True)
        yield from _events_around_loop(given_ids, "SetFlag")
    yield _with_bodies(item, [_insert(x, inner_busy, given_ids) for x in inner_plans], inner_plans)
    if holds_events:
        yield from _events_around_loop(given_ids, "WaitFlag")


def _has_event(edge: Edge, ids: Mapping[Edge, range]) -> bool:
    """Whether a wait has an event of its own, which is set where the producer is done."""
    return not edge.is_barrier and not edge.adjacent and ids[edge] != SPARE_ID


def _waits_before(plan: SyncPlan, ids: Mapping[Edge, range], j: int) -> Iterator[Item]:
    """Yield the waits and barriers before an item."""
    waits = [edge for edge in plan.edges if edge.wait_at == j]
    without_event = [edge for edge in waits if not edge.is_barrier and not _has_event(edge, ids)]
    yield from (_event("WaitFlag", edge, ids[edge], edge.wait_stage) for edge in waits if _has_event(edge, ids))
    if any(map(_needs_full_barrier, without_event)):
        yield _FULL_BARRIER
        return
    for edge in without_event:
        yield _event("SetFlag", edge, SPARE_ID, 0)
        yield _event("WaitFlag", edge, SPARE_ID, 0)
    for unit in dict.fromkeys(edge.producer for edge in waits if edge.is_barrier):
        yield Instr("PipeBarrier", (Word(f"PIPE_{unit}"),))


def _needs_full_barrier(edge: Edge) -> bool:
    """Whether an event that is set and waited for in one place must become a barrier of all units.

    The scalar unit waits at once, so that the event is free again. Another unit may still have the previous wait in its
    queue when the event is set anew.
    """
    return edge.consumer != "S"


def _event(name: str, edge: Edge, ids: range, stage: Scalar) -> Instr:
    """Build the instruction that sets or waits for an event, which the stage may choose."""
    return Instr(
        name, (Word(f"{edge.producer}_{edge.consumer}"), fold("+", stage, ids.start) if len(ids) > 1 else ids.start)
    )


def _events_around_loop(all_ids: EventIds, name: str) -> Iterator[Item]:
    """Yield the events before a loop, which its first iterations wait for, or behind it, which its last ones set."""
    for (_, edge), ids in all_ids.items():
        if ids != SPARE_ID:
            yield from (_event(name, edge, range(i, i + 1), 0) for i in ids)
        elif name == "WaitFlag":
            yield _FULL_BARRIER


def _with_bodies(item: Item, bodies: list[tuple[Item, ...]], inner_plans: tuple[SyncPlan, ...]) -> Item:
    """Return an item with new inner sequences."""
    match item:
        case Loop():
            return replace(item, body=bodies[0])
        case While():
            marker = next(i for i, x in enumerate(bodies[0]) if x is inner_plans[0].items[len(item.test)])
            return replace(item, test=bodies[0][:marker], body=bodies[0][marker + 1 :])
        case If() if item.body or item.orelse:
            return replace(item, body=bodies[0], orelse=bodies[1])
    return item


def _assign_event_ids(plan: SyncPlan, busy: BusyIds, given_ids: EventIds, only_held: bool = False) -> EventIds:
    """Return the ids of each event, `SPARE_ID` where none is left; with `only_held`, only events around this loop."""
    carried = sorted(plan.loop_carried_events(), key=lambda x: -len(x[0]))  # innermost loops choose first
    events = [*carried, *(((), e) for e in plan.edges if not e.is_barrier and not e.distance and not only_held)]
    ids = dict(given_ids)
    for path, edge in events:
        if (path, edge) not in ids:
            ids[path, edge] = _choose_event_id(path, edge, busy.get((edge.producer, edge.consumer), frozenset()), ids)
    return ids


def _choose_event_id(path: Path, edge: Edge, busy: frozenset[int], chosen: EventIds) -> range:
    """Return free ids for an event: never used ones first, else those that are free the soonest.

    Where no id for each stage is left, the event has a single one.
    """
    if edge.adjacent:
        return SPARE_ID
    same_pair = [
        (p, e, other_ids)
        for (p, e), other_ids in chosen.items()
        if other_ids != SPARE_ID and (e.producer, e.consumer) == (edge.producer, edge.consumer)
    ]
    for stages in dict.fromkeys((edge.stages, 1)):
        choices = []
        for first in range(SPARE_ID.start - stages + 1):
            ids = range(first, first + stages)
            sharing = [(p, e) for p, e, other_ids in same_pair if set(ids) & set(other_ids)]
            if not busy & set(ids) and not any(p or path or _may_overlap(edge, e) for p, e in sharing):
                choices.append((max((e.wait_at for _, e in sharing), default=-1), first))
        if choices:
            return range(min(choices)[1], min(choices)[1] + stages)
    return SPARE_ID


def _may_overlap(a: Edge, b: Edge) -> bool:
    """Whether two events may be set at the same time; events that a loop holds always may."""
    return bool(a.distance or b.distance) or (a.set_at < b.wait_at and b.set_at < a.wait_at)


def _busy_ids_at(all_ids: EventIds, busy: BusyIds, j: int) -> BusyIds:
    """Return the ids that are in use while an item runs."""
    result = dict(busy)
    for (path, edge), ids in all_ids.items():
        if ids != SPARE_ID and (path or edge.distance or edge.set_at < j < edge.wait_at):
            pair = (edge.producer, edge.consumer)
            result[pair] = result.get(pair, frozenset()) | frozenset(ids)
    return result
