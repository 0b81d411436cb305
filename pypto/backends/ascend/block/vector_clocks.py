"""Wait placement by vector clocks: the fewest events and barriers that satisfy all hazards of a sequence.

A clock says, for one unit, up to which item every unit is known to be complete. A wait merges the producer's clock into
the consumer's, so one wait often satisfies several hazards. The walk runs through the sequence, through several
iterations where it repeats, and adds a wait only where the clocks do not yet satisfy a hazard. A second round removes
every wait without which all hazards are still satisfied.

    MTE2: DataCopy(a, x)          V waits once, for the second copy: MTE2 runs in order, so
    MTE2: DataCopy(b, y)          the first one is complete, too
    V:    Add(c, a, b)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pypto.backends.ascend.block.hazards import ALL, Edge, Hazard, HazardRegion, Pair, edge_for, find_hazards
from pypto.backends.ascend.blockir.instructions import EVENTS_EACH, PIPES


@dataclass(frozen=True)
class WaitPlan:
    """The waits of a sequence."""

    edges: list[Edge]  # the waits
    completed_at_end: frozenset[Pair]  # pairs of which the consumer knows at the end that the producer is done
    independent: frozenset[Pair]  # pairs that share memory and never meet in this loop


def find_waits(region: HazardRegion) -> WaitPlan:
    """Return the waits that the hazards of a sequence need."""
    hazards, independent = find_hazards(region)
    edges: list[Edge] = []
    best = ClockWalk(region, hazards, edges, inserts=True)
    best.run()
    if len(edges) * len(region.accesses) < 4000:  # a later wait may satisfy the hazard of an earlier one
        for edge in list(edges):
            attempt = ClockWalk(region, hazards, [e for e in best.edges if e != edge], inserts=False)
            if attempt.run():
                best = attempt
    return WaitPlan(_merge_waits(best.edges), best.completed_at_end(), independent)


def _merge_waits(edges: list[Edge]) -> list[Edge]:
    """Merge waits where a loop needs more events than there are.

    The merged event is set behind the last producer item and waited for before the first consumer item.
    """
    event_counts = Counter((e.producer, e.consumer) for e in edges if e.distance for _ in range(e.stages))
    merged: dict[object, Edge] = {}
    for e in edges:
        group = (e.producer, e.consumer, e.distance, e.stages, e.set_stage, e.wait_stage)
        key = group if e.distance and event_counts[e.producer, e.consumer] > EVENTS_EACH - 2 else e
        other = merged.get(key, e)
        merged[key] = replace(e, set_at=max(e.set_at, other.set_at), wait_at=min(e.wait_at, other.wait_at))
    return list(merged.values())


def stage_sequence(region: HazardRegion, distance: int) -> Iterator[int]:
    """Yield the stage of each iteration that is walked.

    Where the stages restart with each run of the loop, the walk has runs of several lengths, which end amid the stages.
    """
    if not region.repeats:
        yield 0
        return
    run_lengths = (
        [2 * distance + 2, *range(distance, 0, -1), 1, 2 * distance] if region.stages_restart else [2 * distance + 2]
    )
    for run_length in run_lengths:
        yield from (i % max(1, distance) for i in range(run_length))


def _covers_stage(edge: Edge, hazard: Hazard, unit: str) -> bool:
    """Whether a wait for one stage, while an outer loop goes through the stages, satisfies a hazard."""
    is_same_event = (edge.producer, edge.consumer, edge.distance, edge.set_stage) == (
        hazard.producer,
        unit,
        hazard.distance,
        hazard.first.stage_expr,
    )
    return is_same_event and hazard.first.stage == hazard.second.stage and hazard.set_at <= edge.set_at


@dataclass
class Clock:
    """What one unit knows of the progress of all units."""

    completed: list[int] = field(default_factory=lambda: [-1] * len(PIPES))  # the last item of each unit
    completed_inside: set[tuple[int, str]] = field(default_factory=set)  # items inside of which a unit is done

    def join(self, other: Clock) -> None:
        """Take over what another clock knows."""
        self.completed[:] = map(max, self.completed, other.completed)
        self.completed_inside |= other.completed_inside

    def has_completed(self, unit: str, item: int) -> bool:
        """Whether a unit is known to have completed an item."""
        return self.completed[PIPES.index(unit)] >= item or (item, unit) in self.completed_inside

    def advance(self, unit: str, item: int) -> None:
        """Note that a unit has completed an item."""
        index = PIPES.index(unit)
        self.completed[index] = max(self.completed[index], item)

    def copy(self) -> Clock:
        """Return a copy that later changes do not reach."""
        return Clock(list(self.completed), set(self.completed_inside))


@dataclass
class ClockWalk:
    """A walk through a sequence with one clock for each unit."""

    region: HazardRegion  # the sequence
    hazards: dict[tuple[int, str], list[Hazard]]  # what must be satisfied
    edges: list[Edge]  # the waits, to which the walk may add
    inserts: bool  # whether it adds waits or stops at the first unsatisfied hazard
    clocks: dict[str, Clock] = field(default_factory=lambda: {p: Clock() for p in PIPES})  # one for each unit
    snapshots: dict[tuple[int, str], Clock] = field(default_factory=dict)  # clocks behind each item of each iteration
    stage_sequence: list[int] = field(default_factory=list)  # stage of each iteration
    waits: dict[int, list[Edge]] = field(default_factory=dict)  # the edges by the item that they stand before

    def __post_init__(self) -> None:
        for edge in self.edges:
            self.waits.setdefault(edge.wait_at, []).append(edge)

    def run(self) -> bool:
        """Walk through the sequence; whether all hazards are satisfied."""
        max_distance = max((n.distance for hazards in self.hazards.values() for n in hazards), default=0)
        self.stage_sequence = list(stage_sequence(self.region, max_distance))
        units = self.region.units
        for k in range(len(self.stage_sequence)):
            for j, active in enumerate(units):
                if not all(self._enter(k, j, unit) for unit in active):
                    return False
                self._leave(k * len(units) + j, j, active)
        return True

    def completed_at_end(self) -> frozenset[Pair]:
        """Return the pairs of units of which the consumer knows that all the producer's work is complete."""
        items_of_unit: dict[str, list[int]] = {}
        units = self.region.units * len(self.stage_sequence)
        for item, active in enumerate(units):
            for unit in active:
                items_of_unit.setdefault(unit, []).append(item)
        clocks = {consumer: self.clocks[consumer].copy() for consumer in PIPES}
        for clock in clocks.values():
            clock.join(self.clocks["S"])
        return frozenset(
            (producer, consumer)
            for producer, items in items_of_unit.items()
            for consumer in PIPES
            if all(clocks[consumer].has_completed(producer, item) for item in items)
        )

    def _enter(self, iteration: int, item: int, unit: str) -> bool:
        """Let a unit reach an item: apply the waits that stand there, then add those that are missing."""
        size = len(self.region.accesses)
        self.clocks[unit].join(self.clocks["S"])
        for edge in self.waits.get(item, ()):
            if edge.consumer in (unit, ALL):
                self._apply_wait(edge, iteration)
        begins_with_barrier = unit in self.region.barrier_first.get(item, frozenset())
        hazards = [n for n in self.hazards.get((item, unit), ()) if not (begins_with_barrier and n.producer == unit)]
        while unsatisfied := [n for n in hazards if not self._is_satisfied(n, iteration, item, unit)]:
            if not self.inserts:
                return False
            latest = max(unsatisfied, key=lambda n: (n.set_at - n.distance * size, n.producer))
            edge = edge_for(latest, item, unit, self.region)
            self.edges.append(edge)
            self.waits.setdefault(item, []).append(edge)
            self._apply_wait(edge, iteration)
        return True

    def _is_satisfied(self, hazard: Hazard, iteration: int, item: int, unit: str) -> bool:
        """Whether the clocks, or a wait for the same stage, satisfy a hazard."""
        source = self._source_iteration(iteration, hazard.distance)
        if source is None or self.clocks[unit].has_completed(
            hazard.producer, source * len(self.region.accesses) + hazard.set_at
        ):
            return True
        return hazard.distance == 1 and any(
            e.stages > 1 and e.wait_at <= item and _covers_stage(e, hazard, unit) for e in self.edges
        )

    def _source_iteration(self, iteration: int, distance: int) -> int | None:
        """Return the iteration at a distance before this one, None where there is none.

        Where stages restart, it is the last iteration with the same stage.
        """
        if distance > 1 and self.region.stages_restart:
            return next(
                (i for i in range(iteration - 1, -1, -1) if self.stage_sequence[i] == self.stage_sequence[iteration]),
                None,
            )
        return iteration - distance if iteration >= distance else None

    def _apply_wait(self, edge: Edge, iteration: int) -> None:
        """Merge what a wait makes known into the consumer's clock."""
        size = len(self.region.accesses)
        now = iteration * size + edge.wait_at
        clock = self.clocks.get(edge.consumer, Clock())
        if edge.producer == ALL:
            for each in self.clocks.values():
                each.completed[:] = [now - 1] * len(PIPES)
        elif edge.is_barrier:
            clock.advance(edge.consumer, now - 1)
        elif edge.adjacent:
            clock.join(self.clocks[edge.producer])
            clock.advance(edge.producer, now - 1)
        elif edge.distance == 1 and edge.stages > 1:
            return  # its event speaks of one stage, not of all that the iteration before did
        elif (earlier := self._source_iteration(iteration, edge.distance)) is not None:
            set_time = earlier * size + edge.set_at
            clock.join(self.snapshots[set_time, edge.producer])
            clock.advance(edge.producer, set_time)

    def _leave(self, now: int, item: int, active: list[str]) -> None:
        """Take snapshots at the end of an item, and pass on what it makes known."""
        for producer, consumer in self.region.completed_inside.get(item, frozenset()):
            self.clocks[consumer].completed_inside.add((now, producer))
        for unit in active:
            self.clocks[unit].join(self.clocks["S"])
            self.snapshots[now, unit] = self.clocks[unit].copy()
        for producer, consumer in sorted(self.region.signalled_behind.get(item, ())):
            self.clocks[consumer].join(self.snapshots[now, producer])
            self.clocks[consumer].advance(producer, now)
        for unit in active:
            self.snapshots[now, unit] = self.clocks[unit].copy()
