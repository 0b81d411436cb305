"""Which groups come before which: kept while groups merge, so that a cycle is seen before it is made."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Unit:
    """What runs at once: a group, or an assembly between kernels.

    `bits` are the numbers of the units that it was made of, `above` those of all that come before it, as sets of bits.
    """

    bits: int
    above: int = 0
    sources: set[Unit] = field(default_factory=set)  # those that it reads from, as they were
    into: Unit | None = None  # what it has been merged into


def found(unit: Unit) -> Unit:
    """The unit that one has become."""
    while unit.into is not None:
        unit = unit.into
    return unit


@dataclass(slots=True)
class Order:
    """All units.

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
        """A unit that reads from some others."""
        current = {found(s) for s in sources}
        above = 0
        for s in current:
            above |= s.bits | s.above
        unit = Unit(1 << self.count, above, current)
        self.count += 1
        self.units.append(unit)
        return unit

    def is_cyclic(self, a: Unit, b: Unit) -> bool:
        """Whether something runs after one of two units and before the other, so that they cannot be one."""
        a, b = found(a), found(b)
        for unit, other in ((a, b), (b, a)):
            between = {found(s) for s in unit.sources} - {a, b}
            if any(s.above & other.bits for s in between):
                return True
        return False

    def merge(self, a: Unit, b: Unit) -> Unit:
        """Make one unit of two."""
        a, b = found(a), found(b)
        bits = a.bits | b.bits
        merged = Unit(bits, (a.above | b.above) & ~bits, ({found(s) for s in a.sources | b.sources}) - {a, b})
        a.into = b.into = merged
        self.units = [u for u in self.units if u is not a and u is not b]
        for u in self.units:
            if u.above & bits:
                u.above |= bits | merged.above
        self.units.append(merged)
        return merged
