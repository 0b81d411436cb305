"""Hazard detection: which accesses of memory in a sequence must wait for which earlier ones.

The units of a core run side by side, each in program order. Two accesses of the same memory, of which one writes, are a
hazard (read after write, write after read, write after write) where the order of the units does not already hold them
apart. A hazard between two units asks for an event, one within a unit for a barrier. `vector_clocks` chooses the fewest
waits that satisfy all hazards.

    DataCopy(a[0], x[0], ...)      # MTE2 writes a
    Muls(b[0], a[0], 2.0, 64)      # V reads a: hazard MTE2 -> V, distance 0
    # in the next iteration MTE2 writes a again: hazard V -> MTE2, distance 1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pypto.backends.ascend.block.dependences import AliasAnalysis, MemoryAccess, stage_phase
from pypto.backends.ascend.blockir.affine import AffineExpr
from pypto.backends.ascend.blockir.instructions import EVENTS, PIPES
from pypto.backends.ascend.blockir.ir import Buffer, Loop, Param, Scalar
from pypto.backends.ascend.target import AscendTarget

IN_ORDER: Final = ("S", "M", "FIX")  # units whose instructions see the results of those before them
ALL: Final = "ALL"


@dataclass(frozen=True, slots=True)
class Edge:
    """A wait: before item `wait_at`, the consumer waits for what the producer did up to item `set_at`.

    Where both are the same unit it is a barrier before `wait_at`. The unit ``ALL`` stands for all units.
    """

    producer: str  # unit that sets the event
    consumer: str  # unit that waits for it
    set_at: int  # item behind which the event is set
    wait_at: int  # item before which it is waited for
    distance: int = 0  # iterations between both
    stages: int = 1  # number of events, one for each stage of the buffer
    set_stage: Scalar = 0  # stage, which chooses the event that is set
    wait_stage: Scalar = 0  # stage, which chooses the event that is waited for
    adjacent: bool = False  # the event is set right before the wait

    @property
    def is_barrier(self) -> bool:
        """Whether it is a barrier within one unit."""
        return self.producer == self.consumer


@dataclass(frozen=True, slots=True)
class Hazard:
    """The producer's work up to item `set_at`, `distance` iterations earlier, must be complete."""

    producer: str  # unit that touches the memory first
    set_at: int  # item that touches it first
    distance: int  # iterations between both accesses
    first: MemoryAccess  # the earlier access
    second: MemoryAccess  # the later access


Pair = tuple[str, str]  # a producer and a consumer


@dataclass
class HazardRegion:
    """A sequence of items with all that decides about its hazards.

    A pair of units (a, b) in a set says that unit b knows all work of unit a there to be complete.
    """

    accesses: Sequence[Sequence[MemoryAccess]]  # of each item, those of inner items included
    target: AscendTarget  # the chip
    aliases: AliasAnalysis  # compares accesses
    loop: Loop | None = None  # the loop whose body this is
    repeats: bool = False  # whether it is the body of a loop
    adjacent: bool = False  # events are set right before their waits
    bound_names: frozenset[str] = frozenset()  # names with another value in each iteration
    signalled_behind: Mapping[int, frozenset[Pair]] = field(default_factory=dict)  # pairs ordered behind an inner loop
    completed_inside: Mapping[int, frozenset[Pair]] = field(default_factory=dict)  # pairs ordered inside an item
    barrier_first: Mapping[int, frozenset[str]] = field(default_factory=dict)  # units that begin an item with a barrier
    ordered_by_inner_loop: Mapping[int, frozenset[Pair]] = field(default_factory=dict)  # by its events
    stages_restart: bool = False  # whether each run of the loop begins with the first stage

    @property
    def units(self) -> list[list[str]]:
        """Return the units that are active in each item."""
        return [sorted({access.pipe for access in accesses}, key=PIPES.index) for accesses in self.accesses]


HazardTable = dict[tuple[int, str], list[Hazard]]  # by item and consumer


def find_hazards(region: HazardRegion) -> tuple[HazardTable, frozenset[Pair]]:
    """Return the hazards by item and consumer, and the pairs of units that share memory but never meet."""
    history: dict[str, list[tuple[int, MemoryAccess]]] = {}
    first_equal: dict[MemoryAccess, MemoryAccess] = {}  # one object for equal accesses: each pair is compared once
    for i, accesses in enumerate(region.accesses):
        for access in accesses:
            history.setdefault(access.memory.name, []).append((i, first_equal.setdefault(access, access)))
    collected: dict[tuple[int, str, str, int], dict[int, Hazard]] = {}
    independent: set[Pair] = set()
    for later in history.values():
        for earlier in history.values():
            if region.aliases.may_share_memory(earlier[0][1], later[0][1]):
                independent.update(_collect_hazards(region, earlier, later, collected))
    hazards: HazardTable = {}
    for (j, unit, *_), by_item in collected.items():
        hazards.setdefault((j, unit), []).extend(_last_sources(region, by_item))
    return hazards, frozenset(independent)


def _collect_hazards(
    region: HazardRegion,
    earlier: list[tuple[int, MemoryAccess]],
    later: list[tuple[int, MemoryAccess]],
    collected: dict[tuple[int, str, str, int], dict[int, Hazard]],
) -> Iterator[Pair]:
    """Collect the hazards between accesses of one memory; yield the pairs of units that never meet."""
    known: dict[tuple[int, int, bool], int | None] = {}
    for j, b in later:
        for i, a in earlier:
            key = id(a), id(b), i < j
            if key not in known:
                known[key] = _hazard_distance(region, a, b, i < j)
            distance = known[key]
            if distance is None:
                yield a.pipe, b.pipe
            elif distance >= 0 and (i != j or (a.pipe, b.pipe) not in region.ordered_by_inner_loop.get(j, frozenset())):
                by_item = collected.setdefault((j, b.pipe, a.pipe, distance), {})
                if i not in by_item:
                    by_item[i] = Hazard(a.pipe, i, distance, a, b)


def _hazard_distance(region: HazardRegion, a: MemoryAccess, b: MemoryAccess, follows: bool) -> int | None:
    """Return the distance of a hazard in iterations: -1 where the units' order suffices, None where they never meet."""
    if a.immediate or not (a.writes or b.writes) or not _is_unordered(a, b, region.target):
        return -1
    return 0 if follows and region.aliases.may_overlap(a, b) else _carried_distance(region, a, b)


def _last_sources(region: HazardRegion, by_item: dict[int, Hazard]) -> Iterator[Hazard]:
    """Yield the last producer items, up to the first one that completes as a whole.

    An item with others inside may have completed one of its accesses while an earlier item has not.
    """
    for index in sorted(by_item, reverse=True):
        yield by_item[index]
        if not region.completed_inside.get(by_item[index].set_at):
            return


def _is_unordered(a: MemoryAccess, b: MemoryAccess, target: AscendTarget) -> bool:
    """Whether the units do not already run two accesses one after the other.

    Instructions of one kind that write to a cube core's memory one after the other fill strips of one operand. They
    overwrite nothing before it is read, and the unit that reads the operand orders them. A product and a Fixpipe that
    have unit flags are ordered by these.
    """
    if a.pipe != b.pipe:
        return not (a.by_units and b.by_units)
    in_order = a.pipe in IN_ORDER or (a.pipe == "V" and target.orders_vector)
    if a.writes and not b.writes and is_small_product(a.fractals, target):
        return True
    strips = b.writes and a.instruction == b.instruction and getattr(a.memory, "space", "") in ("L1", "L0A", "L0B")
    return a.writes and not in_order and not strips


def is_small_product(fractals: int | None, target: AscendTarget) -> bool:
    """Whether a matrix product may still be at work when the next one reads its result, to add to it.

    The cube unit begins a product before the one before it has ended. One with many fractals has written each of them
    long before the next product comes to it.
    """
    return fractals is not None and fractals < target.ordered_product_fractals


def _carried_distance(region: HazardRegion, a: MemoryAccess, b: MemoryAccess) -> int | None:
    """Return the distance of a loop-carried hazard; programs of a grid do not order their accesses of GM."""
    if not region.repeats:
        return None
    if region.loop is None:
        return 1 if region.aliases.may_share_memory(a, b) else None
    if region.loop.step == "blocks" and isinstance(a.memory, Param) and not (a.atomic and b.atomic):
        return None
    return region.aliases.dependence_distance(a, b, region.loop, region.bound_names)


def edge_for(hazard: Hazard, wait_at: int, unit: str, region: HazardRegion) -> Edge:
    """Return the wait for a hazard, with one event for each stage where the hazard is about one stage of a buffer."""
    if hazard.producer == unit:
        return Edge(unit, unit, hazard.set_at, wait_at)
    if f"{hazard.producer}_{unit}" not in EVENTS:
        return Edge(ALL, ALL, hazard.set_at, wait_at)
    if region.adjacent:
        return Edge(hazard.producer, unit, hazard.set_at, wait_at, adjacent=True)
    # An event that is set before its wait in each iteration cannot have a distance: it would be set twice in a row.
    distance = hazard.distance if hazard.set_at >= wait_at else 0
    a, b = hazard.first, hazard.second
    stages = a.memory.stages if isinstance(a.memory, Buffer) and a.memory.name == b.memory.name else 1
    # Stages matter even outside of a repeating sequence: an outer loop may repeat it.
    varies = stages > 1 and _has_variable_stage(a) and _has_variable_stage(b)
    if varies and (distance == stages or (distance == 0 and a.stage == b.stage) or _is_single_stage(hazard, region)):
        return Edge(hazard.producer, unit, hazard.set_at, wait_at, distance, stages, a.stage_expr, b.stage_expr)
    return Edge(hazard.producer, unit, hazard.set_at, wait_at, min(distance, 1))


def _is_single_stage(hazard: Hazard, region: HazardRegion) -> bool:
    """Whether a hazard is about one stage of a buffer, and only an outer loop changes the stage."""
    a, b = hazard.first, hazard.second
    return (
        hazard.distance == 1 and a.stage is not None and a.stage == b.stage and not _stage_varies_with(a, region.loop)
    )


def stages_advance_together(region: HazardRegion) -> bool:
    """Whether events may stay set from one run of a loop to the next: all its stages change in step."""
    stages = [
        access.stage
        for accesses in region.accesses
        for access in accesses
        if access.stage is not None and _stage_varies_with(access, region.loop)
    ]
    return region.loop is not None and all(_are_paired_stages(stages[0], stage) for stage in stages[1:])


def _are_paired_stages(a: AffineExpr, b: AffineExpr) -> bool:
    """Whether two stages are always equal, or always the two of a pair: then what meets once meets always."""
    (phase_a, stages_a), (phase_b, stages_b) = stage_phase(a), stage_phase(b)
    return a == b or (stages_a == stages_b == 2 and not phase_a.plus(phase_b, -1).terms)


def _stage_varies_with(access: MemoryAccess, loop: Loop | None) -> bool:
    """Whether the stage of an access depends on a loop's variable."""
    return loop is not None and access.stage is not None and loop.name in access.stage.names()


def _has_variable_stage(access: MemoryAccess) -> bool:
    """Whether the stage of an access is known and no constant."""
    return access.stage is not None and not isinstance(access.stage_expr, int)
