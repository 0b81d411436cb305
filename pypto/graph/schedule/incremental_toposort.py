"""Incremental topological order of groups: follows merges, so that a merge that makes a cycle is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import or_


@dataclass(eq=False, slots=True)
class Unit:
    """A vertex of the order: a group, or an assembly between kernels.

    `bits` has the numbers of the units that were merged into it, and `above` those of its predecessors, as bit sets.
    """

    bits: int
    above: int = 0
    sources: set[Unit] = field(default_factory=set)  # those that it reads from, as they were
    into: Unit | None = None  # what it has been merged into


def root_of(unit: Unit) -> Unit:
    """Return the unit that a unit was merged into."""
    while unit.into is not None:
        unit = unit.into
    return unit


def union(bits: Iterable[int]) -> int:
    """Return the union of some bit sets."""
    return reduce(or_, bits, 0)


@dataclass(slots=True)
class Order:
    """The partial order of all units.

    Examples
    --------
    >>> order = Order()
    >>> a = order.new([])
    >>> b = order.new([a])
    >>> c = order.new([a, b])
    >>> order.is_cyclic(a, c), order.is_cyclic(a, b)
    (True, False)
    """

    units: list[Unit] = field(default_factory=list)
    count: int = 0

    def new(self, sources: list[Unit]) -> Unit:
        """Add a unit that reads from some others."""
        current = {root_of(s) for s in sources}
        above = 0
        for s in current:
            above |= s.bits | s.above
        unit = Unit(1 << self.count, above, current)
        self.count += 1
        self.units.append(unit)
        return unit

    def is_cyclic(self, *units: Unit) -> bool:
        """Whether another unit lies between some units, so that merging them would make a cycle."""
        members = {root_of(u) for u in units}
        bits = union(u.bits for u in members)
        return any(s.above & bits for u in members for s in {root_of(s) for s in u.sources} - members)

    def merge(self, *units: Unit) -> Unit:
        """Merge several units into one."""
        members = {root_of(u) for u in units}
        bits = union(u.bits for u in members)
        sources = {root_of(s) for u in members for s in u.sources} - members
        merged = Unit(bits, union(u.above for u in members) & ~bits, sources)
        for u in members:
            u.into = merged
        self.units = [u for u in self.units if u not in members]
        for u in self.units:
            if u.above & bits:
                u.above |= bits | merged.above
        self.units.append(merged)
        return merged
