"""Levels of a multi-pass reduction: which pass over a dimension computes what, and whether passes may repeat loads.

A tile that has the dimension exists as a part only. It is computed again (rematerialised) in each pass that needs it.
What an op along the dimension needs decides about its level, the number of the pass that does its work: one more than
that of the reductions behind its operands. What has no such dimension runs once, between two passes.

It is legal if all ops along which elements meet are reductions, and if a load that several passes repeat gives the same
each time: no store may reach its array, except one to the same elements in the last pass that loads them.

    m = max(t)                 level 0        t: in passes 0, 1 and 2
    s = sum(exp(t - m))        level 1
    y = exp(t - m) / s         level 2
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Final

from pypto.ir.core import Function, Op, Region, Value, walk
from pypto.ops.dims import Dim, Role, rank
from pypto.ops.table import ARG_REDUCTIONS, TABLE
from pypto.passes.analysis.carried import LAYOUTS
from pypto.passes.analysis.dimensions import DimensionClasses, relation_of
from pypto.passes.analysis.memory_effects import (
    accesses_memory,
    has_side_effects,
    is_load,
    is_same_access,
    may_alias,
    writes_memory,
)

_WAY_OF_TRAIT: Final = {
    "scan": "scan blocks in a loop, and carry the last element",
    "": "work on smaller rows, or on blocks in a loop",
}


class NotSplittable(Exception):
    """A dimension that cannot be processed in parts: the place that is against it, the reason, and a way out."""

    def __init__(self, op: Op, reason: str, way: str) -> None:
        super().__init__(reason)
        self.loc = op.loc.user
        self.reason = reason
        self.way = way


def is_reduction(op: Op) -> bool:
    """Whether an op folds a dimension, to a number or to an index."""
    return "reduction" in TABLE[op.name].traits or op.name in ARG_REDUCTIONS


def ops_of(op: Op) -> Iterator[Op]:
    """Yield an op and all ops in its regions."""
    yield op
    for region in op.regions:
        yield from walk(region)


def used_values(op: Op) -> list[Value]:
    """Return the values from outside that an op or its regions use."""
    if not op.regions:
        return list(op.operands)
    inner = list(ops_of(op))
    local = {v for x in inner[1:] for v in x.results} | {a for x in inner for r in x.regions for a in r.args}
    return list(dict.fromkeys(v for x in inner for v in x.operands if v not in local))


@dataclass(frozen=True)
class ReducedDimension:
    """A dimension of a kernel that is to be processed in parts."""

    function: Function  # the kernel
    classes: DimensionClasses  # its dimension classes
    dimension: Dim  # root of the class

    def has(self, v: Value) -> bool:
        """Whether a value is a tile with the dimension."""
        return rank(v) > 0 and bool(self.classes.dims_of(v, self.dimension))

    def is_reduced_by(self, op: Op) -> bool:
        """Whether an op folds the dimension."""
        return is_reduction(op) and self.has(op.operands[0]) and not self.has(op.results[0])

    def is_repeated(self, op: Op) -> bool:
        """Whether every pass that needs an op computes it again."""
        return any(map(self.has, op.results)) and not has_side_effects(op)

    def is_pass_work(self, op: Op) -> bool:
        """Whether an op runs once for each part: a reduction of the dimension, or a store of a part."""
        return not op.regions and not self.is_repeated(op) and any(map(self.has, (*op.operands, *op.results)))

    @cached_property
    def position(self) -> dict[Op, int]:
        """The place of each op in the order of the program."""
        return {op: i for i, op in enumerate(self.function.walk())}

    @cached_property
    def region_of(self) -> dict[Op, Region]:
        """The region that each op stands in."""
        regions = [self.function.body, *(r for op in self.function.walk() for r in op.regions)]
        return {op: region for region in regions for op in region.ops}

    def repeated_ops(self, op: Op) -> list[Op]:
        """Return the ops that a pass computes again for an op, in the order of the program."""
        needed: dict[Op, None] = {}
        pending = [op]
        while pending:
            for v in used_values(pending.pop()):
                if v.op is not None and v.op not in needed and self.is_repeated(v.op):
                    needed[v.op] = None
                    pending.append(v.op)
        return sorted(needed, key=self.position.__getitem__)

    def check(self) -> None:
        """Raise `NotSplittable` if parts of the dimension cannot be processed one after the other."""
        used = {v for op in self.function.walk() for v in op.operands}
        for op in self.function.walk():
            if op.name not in LAYOUTS:
                self.check_meeting(op)
            if any(len(self.classes.dims_of(v, self.dimension)) > 1 for v in op.results if rank(v)):
                raise NotSplittable(op, f"{op.name} pairs each element of the row with each other one",
                                    _WAY_OF_TRAIT[""])  # fmt: skip
            if has_side_effects(op) and any(self.has(v) and v in used for v in op.results):
                raise NotSplittable(op, f"what {op.name} returns would be needed in several passes",
                                    _WAY_OF_TRAIT[""])  # fmt: skip
            if op.regions and self.is_repeated(op) and any(
                has_side_effects(x) or self.is_reduced_by(x) for x in ops_of(op)
            ):  # fmt: skip
                raise NotSplittable(op, "a loop or branch hands on a row that it also reduces or stores",
                                    _WAY_OF_TRAIT[""])  # fmt: skip

    def check_meeting(self, op: Op) -> None:
        """Refuse an op that combines elements along the dimension and is no reduction."""
        relation = relation_of(op)
        meeting = [dim for dim in relation.meeting if self.classes.root(dim) == self.dimension]
        if not meeting or (is_reduction(op) and all(relation.role(dim) is Role.REDUCED for dim in meeting)):
            return
        trait = next((t for t in _WAY_OF_TRAIT if t in TABLE[op.name].traits), "")
        raise NotSplittable(op, f"{op.name} needs the whole row", _WAY_OF_TRAIT[trait])


@dataclass
class PassLevels:
    """The level of each op of a region that is not repeated."""

    reduced: ReducedDimension
    region: Region
    level: dict[Op, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.level = {op: 0 for op in self.region.body if not self.reduced.is_repeated(op)}
        orders = [*self.orders_of_effects(), *self.orders_of_repeated_loads()]
        for _ in range(len(self.level) + 1):
            before = dict(self.level)
            self.raise_to_operands()
            for first, second, distance in orders:
                self.level[second] = max(self.level[second], self.level[first] + distance)
            if self.level == before:
                return
        first, second, _ = orders[-1]
        raise NotSplittable(first, f"it would have to run before and after line {second.loc.user.line}",
                            "store to an array that the kernel does not read")  # fmt: skip

    @property
    def count(self) -> int:
        """Number of levels."""
        return 1 + max(self.level.values(), default=-1)

    def raise_to_operands(self) -> None:
        """Raise each level to that of the operands."""
        ready: dict[Value, int] = {}  # level from which on a value of the region is there
        for op in self.region.body:
            needed = max((ready.get(v, 0) for v in used_values(op)), default=0)
            if op in self.level:
                self.level[op] = max(self.level[op], needed)
                needed = self.level[op] + self.reduced.is_pass_work(op)
            ready.update(dict.fromkeys(op.results, needed))

    def orders_of_effects(self) -> Iterator[tuple[Op, Op, int]]:
        """Yield pairs of ops that access the same memory, and by how much their levels must differ."""
        function, is_pass_work = self.reduced.function, self.reduced.is_pass_work
        items = [(op, accesses) for op in self.level if (accesses := list(filter(accesses_memory, ops_of(op))))]
        for (a, firsts), (b, seconds) in combinations(items, 2):
            pairs = [(x, y) for x in firsts for y in seconds if writes_memory(x) or writes_memory(y)]
            meeting = [(x, y) for x, y in pairs if may_alias(function, x, y)]
            if not meeting:
                continue
            follows = is_pass_work(b) and all(is_same_access(x, y) for x, y in meeting)
            yield a, b, int(is_pass_work(a) and not follows)

    def orders_of_repeated_loads(self) -> Iterator[tuple[Op, Op, int]]:
        """Yield pairs of an op that needs a repeated load, and a store to the elements that are loaded.

        Raises
        ------
        NotSplittable
            When a later pass could load what an earlier one has stored.
        """
        function, reduced = self.reduced.function, self.reduced
        writes = [op for op in function.walk() if writes_memory(op)]
        for user, load in self.repeated_loads():
            for write in (w for w in writes if may_alias(function, load, w)):
                is_behind = write in self.level and user in self.level and reduced.is_pass_work(write)
                is_here = reduced.region_of[load] is self.region
                if not (is_behind and is_here and is_same_access(load, write) and self.is_before(load, write)):
                    raise NotSplittable(
                        load,
                        f"several passes load the row, and line {write.loc.user.line} may store to it",
                        "store to an array of its own, which overlaps no other one",
                    )
                yield user, write, 0

    def repeated_loads(self) -> Iterator[tuple[Op, Op]]:
        """Yield the loads that are repeated for an op; those of a loop's own passes are no matter of this region."""
        for item in self.level:
            inner = dict.fromkeys(ops_of(item))
            for user in inner:
                repeated = [x for op in self.reduced.repeated_ops(user) for x in ops_of(op) if is_load(x)]
                yield from ((user, load) for load in repeated if load not in inner)

    def is_before(self, a: Op, b: Op) -> bool:
        """Whether an op stands before another one."""
        return self.reduced.position[a] < self.reduced.position[b]
