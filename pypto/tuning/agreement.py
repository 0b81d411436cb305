"""Majority vote on results: configurations with equal results form a group, and a majority group is correct.

The coverage of a result, which is the set of stored elements, counts as well. A configuration that stores fewer
elements than another one is never correct, however many agree with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
Constants = Mapping[str, Any]
# Results of two right configurations may differ by the order of their sums: relatively, for floats of so many bits.
_TOLERANCE: Final = {64: 1e-9, 32: 1e-3, 16: 3e-2, 8: 2e-1}
_NAMED: Final = 4  # configurations that a sentence names


@dataclass(frozen=True, slots=True)
class Output:
    """The contents of an array after a run.

    `stored` is true for the elements that the run changed. It is `exact` where the kernel does not read the array: then
    the array was filled with something else before the run, and no stored element is missed.
    """

    name: str
    values: Array
    stored: Array
    exact: bool

    def like(self, other: Output) -> bool:
        """Whether two runs agree, up to the rounding of sums.

        Where one of them is not exact, as split-K is with its atomic sums, the sets of stored elements say nothing: an
        element that was stored and did not change is in one of them only.
        """
        if not (self.exact and other.exact):
            return alike(self.values, other.values)
        if not np.array_equal(self.stored, other.stored):
            return False
        if self.stored.all():
            return alike(self.values, other.values)
        return alike(self.values[self.stored], other.values[self.stored])

    def covers(self, other: Output) -> bool:
        """Whether this run stores every element that the other run stores. Equal ones count where it is not exact."""
        missing = other.stored & ~self.stored
        if self.exact or not missing.any():
            return not missing.any()
        return alike(self.values[missing], other.values[missing])


@dataclass(slots=True)
class Group:
    """Candidates whose results agree; `outputs` are those of the first."""

    outputs: list[Output]
    members: list[Any] = field(default_factory=list)

    @property
    def stored(self) -> int:
        return sum(int(np.count_nonzero(output.stored)) for output in self.outputs)

    def covers(self, other: Group) -> bool:
        """Whether this group stores every element that the other group stores."""
        return all(ours.covers(theirs) for ours, theirs in zip(self.outputs, other.outputs, strict=True))

    def coverage(self) -> str:
        """Describe how much of each array the group stores."""
        parts = (f"{np.count_nonzero(o.stored)} of {o.stored.size} elements of `{o.name}`" for o in self.outputs)
        return " and ".join(parts) or "nothing"

    def difference(self, other: Group) -> str:
        """Describe how the results differ from those of another group."""
        if self.stored != other.stored and not (self.covers(other) and other.covers(self)):
            return f"it stores {self.coverage()}, not {other.coverage()}"
        pairs = [(a, b) for a, b in zip(self.outputs, other.outputs, strict=True) if not a.like(b)]
        worst = max((largest_difference(a.values, b.values, a.stored | b.stored) for a, b in pairs), default=math.nan)
        return f"the results differ by up to {worst:.3g}"


def count_members(group: Group) -> int:
    """Return the number of candidates in a group, as its votes."""
    return len(group.members)


@dataclass
class Groups:
    """All groups of a search, in the order in which they were found."""

    groups: list[Group] = field(default_factory=list)

    def join(self, outputs: list[Output], member: Any) -> None:
        """Add a candidate to the group that it agrees with; its arrays are copied where it is the first of one."""
        for group in self.groups:
            if all(a.like(b) for a, b in zip(group.outputs, outputs, strict=True)):
                group.members.append(member)
                return
        copies = [Output(o.name, o.values.copy(), o.stored, o.exact) for o in outputs]
        self.groups.append(Group(copies, [member]))

    def right(self, votes: Callable[[Group], int] = count_members) -> Group | None:
        """Return the group with an absolute majority that stores every element that any group stores, or None."""
        if len(self.groups) == 1:
            return self.groups[0]
        total = sum(map(votes, self.groups))
        return next((g for g in self.groups if 2 * votes(g) > total and all(map(g.covers, self.groups))), None)

    def likeliest(self, votes: Callable[[Group], int]) -> Group:
        """Return the group that stores most, and of those the one with most votes."""
        return max(self.groups, key=lambda group: (group.stored, votes(group)))


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Counts independent witnesses of a group, because a wrong grid can make many configurations fail alike.

    A grid that depends on none of the tuned constants gives each block size another part of the work. All
    configurations of one block size then make the same mistake, so they are one witness, not several.

    Parameters
    ----------
    constants : function
        Gives the tuned constants of a member of a group.
    free : sequence of str
        The tuned constants that the grid does not depend on.
    bound : bool
        Whether it depends on another one.
    """

    constants: Callable[[Any], Constants]
    free: Sequence[str]
    bound: bool

    def suspects(self, groups: Groups) -> list[str]:
        """Return the `free` constants on which the result depends."""
        rows = [(n, self.constants(m)) for n, group in enumerate(groups.groups) for m in group.members]
        return [name for name in self.free if decides(name, rows)] or self.all_varying(rows)

    def all_varying(self, rows: Sequence[tuple[int, Constants]]) -> list[str]:
        """Return all varying constants, if no two rows differ in one constant only and the grid depends on none."""
        return [] if self.bound else [name for name in self.free if len({repr(c.get(name)) for _, c in rows}) > 1]

    def votes(self, groups: Groups) -> Callable[[Group], int]:
        suspects = [] if self.bound else self.suspects(groups)
        if not suspects:
            return count_members

        def count(group: Group) -> int:
            return len({tuple(repr(self.constants(m).get(name)) for name in suspects) for m in group.members})

        return count


def decides(name: str, rows: Sequence[tuple[int, Constants]]) -> bool:
    """Whether two rows that differ in this constant only are in different groups."""
    seen: dict[str, int] = {}
    for group, constants in rows:
        other_constants = repr(sorted((n, repr(value)) for n, value in constants.items() if n != name))
        if seen.setdefault(other_constants, group) != group:
            return True
    return False


def changed(before: Array, after: Array, exact: bool) -> Array:
    """Return which elements a run changed, bitwise or by more than rounding."""
    if exact or before.dtype.kind in "iub":
        bits = f"u{before.dtype.itemsize}"
        different: Array = before.view(bits) != after.view(bits)
        return different
    return ~close(before, after)


def alike(a: Array, b: Array) -> bool:
    """Whether two results are equal, up to the rounding of sums.

    Most are so bit by bit, which is found out in a small part of the time.
    """
    if a.dtype.kind in "iub":
        return bool(np.array_equal(a, b))
    bits = f"u{a.dtype.itemsize}"
    if a.dtype == b.dtype and np.array_equal(a.view(bits), b.view(bits)):
        return True
    return bool(close(a, b).all())


def close(a: Array, b: Array) -> Array:
    """Return which elements of two float arrays are equal up to the rounding of sums."""
    tolerance = _TOLERANCE[8 * a.dtype.itemsize]
    x, y = a.astype(np.float64), b.astype(np.float64)
    scale = np.max(np.abs(x), initial=0.0, where=np.isfinite(x))
    return np.isclose(x, y, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def largest_difference(a: Array, b: Array, where: Array) -> float:
    """Return the largest difference of two arrays among some elements."""
    with np.errstate(all="ignore"):
        difference = np.abs(a.astype(np.float64) - b.astype(np.float64))[where]
    return float(np.max(difference)) if difference.size else math.nan


def listed(names: Iterable[str]) -> str:
    """List names in a sentence, shortened to the first few."""
    known = list(names)
    if len(known) > _NAMED:
        return f"{', '.join(known[: _NAMED - 1])} and {len(known) - _NAMED + 1} more"
    return " and ".join([", ".join(known[:-1]), known[-1]] if len(known) > 1 else known)
