"""Groups of nodes, each of which becomes one kernel: their order, the layout of their arrays, and their shared tilings.

The incremental topological order follows merges, so that a merge that makes a cycle is refused. Region deduplication
lets equal groups, such as the layers of a network, share one tiling decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any

from pypto.graph.ir.movements import strides_of
from pypto.graph.ir.node import Node, key_of, moved_from
from pypto.graph.ir.types import COMPLEX, PARTS, contiguous
from pypto.graph.schedule.index_space import Dims, FusionConflict, IndexSpace, Use, space_of
from pypto.graph.schedule.product_tiling import program_of
from pypto.graph.schedule.tiling import Program


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


@dataclass(eq=False, slots=True)
class Group:
    """The nodes of one kernel, with its tiling once it is chosen."""

    nodes: list[Node]
    unit: Unit
    program: Program | None = None
    problem: str = ""  # why there is no kernel
    dims: dict[Node, Dims] = field(default_factory=dict)  # axes of its nodes, where they are known
    is_stale: bool = False  # whether nodes were added after the program was chosen
    is_pointwise: bool = False  # whether all nodes are elementwise, of one shape


Strides = tuple[int, ...] | None


@dataclass(slots=True)
class Layouts:
    """The memory layout of every node, as strides in elements; a movement that is no view has none.

    Parameters
    ----------
    given : mapping from Node to tuple of int
        The strides of the inputs.
    updates : mapping from Node to Node
        The inputs in C order that the function updates, with their new values.
    """

    given: Mapping[Node, tuple[int, ...]]
    updates: Mapping[Node, Node] = field(default_factory=dict)
    known: dict[Node, Strides] = field(default_factory=dict)

    def strides(self, node: Node) -> tuple[int, ...]:
        """Return the strides of the array that a kernel reads for a node."""
        strides = self._of(node)
        return contiguous(node.shape) if strides is None else strides

    def is_view(self, node: Node) -> bool:
        """Whether a movement is a view of its source, so that it needs no copy."""
        return self._of(node) is not None

    def _of(self, node: Node) -> Strides:
        if node not in self.known:
            self.known[node] = self._compute(node)
        return self.known[node]

    def _compute(self, node: Node) -> Strides:
        if node in self.given:
            return self.given[node]
        if not node.is_movement:
            return contiguous(node.shape)
        source = node.inputs[0]
        return strides_of(node.op, source.shape, self.strides(source), dict(node.attrs))


Key = tuple[Any, ...]
Check = Callable[[Program], None]


@dataclass(frozen=True, slots=True)
class TilingDecision:
    """A cached tiling decision: the program and the arrays that it reads from outside, or the reason for none."""

    program: Program | None
    outside: tuple[Node, ...]
    problem: str = ""


@dataclass(slots=True)
class Programs:
    """A cache of tilings: equal groups share one decision."""

    layouts: Layouts
    threads: int
    disabled: tuple[str, ...] = ()
    kinds: dict[Any, int] = field(default_factory=dict)  # numbers of what nodes are alike by
    members: dict[Node, int] = field(default_factory=dict)  # the kind of a node as a member of a group
    outsiders: dict[Node, int] = field(default_factory=dict)  # and as an array from outside
    decided: dict[Key, TilingDecision] = field(default_factory=dict)
    checked: dict[Key, str] = field(default_factory=dict)

    def of(self, nodes: Sequence[Node], outputs: Iterable[Node], check: Check | None = None) -> Program:
        """Return the program of some nodes, of which other groups read only the outputs; `check` may refuse it.

        Raises
        ------
        FusionConflict
            With the reason, when no form of kernel fits.
        """
        stored = tuple(outputs)
        key, outside = self.key(nodes, stored)
        program = None if "region_dedup" in self.disabled else self.decided.get(key)
        if program is None:
            program = self.decided[key] = self.decide(nodes, stored, outside)
        if program.program is None:
            raise FusionConflict(program.problem)
        if check is not None:
            problem = self.checked.get(key)
            if problem is None:
                problem = self.checked[key] = problem_of(program.program, check)
            if problem:
                raise FusionConflict(problem)
        return exchanged(program.program, nodes)

    def decide(self, nodes: Sequence[Node], outputs: tuple[Node, ...], outside: tuple[Node, ...]) -> TilingDecision:
        try:
            allows_online = "online_softmax" not in self.disabled
            program = program_of(space_of(nodes, outputs), self.layouts.strides, self.threads, allows_online)
            adjacent = frozenset(use for use in program.reads if self.has_adjacent_pairs(use))
            program = replace(program, adjacent=adjacent) if adjacent else program
        except FusionConflict as conflict:
            return TilingDecision(None, outside, str(conflict))
        return TilingDecision(program, outside)

    def has_adjacent_pairs(self, use: Use) -> bool:
        """Whether an operand is a complex array, or a part of one, whose last axis goes from pair to pair."""
        x = use[0].inputs[use[1]]
        is_part = any(n.op in PARTS for n in moved_from(x)[1])
        if not is_part and x.type.dtype not in COMPLEX:
            return False
        steps = [step for n, step in zip(x.shape, self.layouts.strides(x), strict=True) if n != 1]
        return bool(steps) and steps[-1] == (2 if is_part else 1)

    def key(self, nodes: Sequence[Node], outputs: tuple[Node, ...]) -> tuple[Key, tuple[Node, ...]]:
        """Return a key that equal groups share, and the arrays from outside in the order of their reads."""
        numbers = {node: n for n, node in enumerate(nodes)}
        outside: dict[Node, int] = {}
        key: list[int] = []
        members, outsiders = self.members, self.outsiders
        for node in nodes:
            key.append(members[node] if node in members else self.member(node))
            for x in node.inputs:
                number = numbers.get(x)
                key.append(-1 - outside.setdefault(x, len(outside)) if number is None else number)
        key.append(-1)
        key += [numbers[n] for n in outputs]
        key.append(-1)
        key += [outsiders[x] if x in outsiders else self.outsider(x) for x in outside]
        return tuple(key), tuple(outside)

    def member(self, node: Node) -> int:
        """Return the number that equal member nodes share."""
        number = self.members[node] = self.number(("member", node.op, attrs_of(node), node.type))
        return number

    def outsider(self, node: Node) -> int:
        """Return the number that arrays from outside share if their types and layouts are equal."""
        constant = attrs_of(node) if node.is_constant else None
        number = self.outsiders[node] = self.number(("outside", constant, node.type, self.layouts.strides(node)))
        return number

    def number(self, kind: Any) -> int:
        return self.kinds.setdefault(kind, len(self.kinds))


def attrs_of(node: Node) -> Key:
    """Return the attributes of a node as a hashable key."""
    return tuple((name, key_of(value)) for name, value in node.attrs)


def problem_of(program: Program, check: Check) -> str:
    """Return the reason for which a check refuses a program, or an empty string."""
    try:
        check(program)
    except FusionConflict as conflict:
        return str(conflict)
    return ""


def exchanged(program: Program, nodes: Sequence[Node]) -> Program:
    """Rename the nodes of a program to those of an equal group."""
    space = program.space
    if space.nodes[0] is nodes[0]:
        return program
    other = dict(zip(space.nodes, nodes, strict=True))
    online = program.online
    if online is not None:
        online = replace(
            online,
            maximum=other[online.maximum],
            shapes=tuple(other[n] for n in online.shapes),
            difference=other[online.difference],
            sums=tuple(other[n] for n in online.sums),
            second=tuple(other[n] for n in online.second),
            repeated=tuple(other[n] for n in online.repeated),
        )
    renamed = IndexSpace(
        nodes=tuple(nodes),
        outputs=tuple(other[n] for n in space.outputs),
        axes=space.axes,
        values={other[n]: dims for n, dims in space.values.items()},
        reads={(other[n], k): dims for (n, k), dims in space.reads.items()},
        reduced=space.reduced,
        parallel=space.parallel,
    )
    values = {other[n]: line for n, line in program.values.items()}
    reads = {(other[n], k): line for (n, k), line in program.reads.items()}
    p = program
    adjacent = frozenset((other[n], k) for n, k in p.adjacent)
    return Program(
        renamed, p.sizes, values, reads, p.blocks, p.full_axes, p.loop, p.chunk, p.form, online, p.most, p.outer,
        adjacent,
    )  # fmt: skip
