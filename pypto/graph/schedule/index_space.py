"""The index space of a group: the axes of each of its arrays, and the axes that it reduces over.

A dimension is a tuple of atomic axes, the slowest first; a dimension of size 1 has none. Unification makes equal
sizes one axis. Where one size is a multiple of the other, it splits the greater axis. So a reshape that joins or
splits dimensions, a transpose and a broadcast only rename axes. The rule of each op tells which dimensions of its
result and operands belong together.

The index space decides whether nodes fit into one kernel. Axes that all outputs have and that nothing is reduced over
are parallel: they become the grid. The other axes lie within a program. Axes that are adjacent and contiguous in every
array of a group collapse to one axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from pypto.graph.ir.dims import quotient
from pypto.graph.ir.node import Attrs, Node
from pypto.graph.ir.node_table import NODES
from pypto.graph.ir.types import Shape
from pypto.ir.core import Value, make_op
from pypto.ir.types import TileType, int32
from pypto.ops.table import TABLE

Dim = tuple[int, ...]
Dims = tuple[Dim, ...]


class FusionConflict(Exception):
    """Nodes that cannot be fused into one kernel; the text is the reason that `pto.explain` shows."""


@dataclass(slots=True)
class Axes:
    """Union-find over axes: unification makes two axes one, or splits an axis into parts."""

    sizes: list[int] = field(default_factory=list)
    same: dict[int, Dim] = field(default_factory=dict)  # what an axis has become

    def new(self, size: int) -> Dim:
        """Add a dimension with an axis that no other dimension has."""
        if size == 1:
            return ()
        self.sizes.append(size)
        return (len(self.sizes) - 1,)

    def fresh(self, shape: Sequence[int]) -> Dims:
        return tuple(self.new(n) for n in shape)

    def resolve(self, dim: Iterable[int]) -> Dim:
        """Return the current atomic axes of a dimension, after all unifications so far."""
        same = self.same
        if type(dim) is tuple and same.keys().isdisjoint(dim):
            return dim
        axes: list[int] = []
        for axis in dim:
            if axis in same:
                same[axis] = self.resolve(same[axis])
                axes += same[axis]
            else:
                axes.append(axis)
        return tuple(axes)

    def size(self, dim: Iterable[int]) -> int:
        total = 1
        for axis in self.resolve(dim):
            total *= self.sizes[axis]
        return total

    def unify(self, a: Dim, b: Dim) -> None:
        """Unify two dimensions of one size, so that they have the same index.

        Raises
        ------
        FusionConflict
            When their parts do not fit together.
        """
        while a != b:
            left, right = self.resolve(a), self.resolve(b)
            pair = next(((x, y) for x, y in zip(left, right, strict=False) if x != y), None)
            if pair is None:
                if len(left) != len(right):
                    raise FusionConflict("sizes differ")
                return
            self._join(*pair)

    def _join(self, x: int, y: int) -> None:
        if self.sizes[x] == self.sizes[y]:
            self.same[max(x, y)] = (min(x, y),)
            return
        for big, small in ((x, y), (y, x)):
            outer = quotient(self.sizes[big], self.sizes[small])
            if outer is not None:
                self.same[big] = (small, *self.new(outer))
                return
        raise FusionConflict("one dimension is cut in two ways")

    def unify_reshaped(self, source: Dims, target: Dims) -> None:
        """Unify the dimensions before and after a reshape, in row-major order."""
        flat = [tuple(axis for dim in dims for axis in dim) for dims in (source, target)]
        self.unify(*flat)


RESULT: Final = -1
Place = tuple[int, int]  # an operand by its number, or `RESULT`, and a dimension of it


@dataclass(frozen=True, slots=True)
class NodeDims:
    """A `DimRelation` of a node.

    Parameters
    ----------
    parallel : tuple of tuple of Place
        For each dimension of the result the dimensions of operands that are parallel to it, in order.
    reduced, contracted, mixed : tuple of Place
    """

    parallel: tuple[tuple[Place, ...], ...]
    reduced: tuple[Place, ...]
    contracted: tuple[Place, ...]
    mixed: tuple[Place, ...]


def dims_of(node: Node) -> NodeDims | None:
    """Return the relation of a node's dimensions, or None where no rule tells one."""
    attrs: Attrs = () if node.is_elementwise else node.attrs
    broadcasts = node.has("elementwise", "movement") or node.is_product
    return relation_of(node.op, tuple(x.shape for x in node.inputs), node.shape, attrs, broadcasts)


@lru_cache(maxsize=4096)
def relation_of(
    op: str, shapes: tuple[Shape, ...], shape: Shape, attrs: tuple[tuple[str, Any], ...], broadcasts: bool
) -> NodeDims | None:
    """Return what the rule of an op says of operands of some shapes; those that broadcast have equal rank for it."""
    rule = TABLE[op].dim_relation if op in TABLE else NODES[op].dims
    if rule is None:
        return None
    added = [max(0, len(shape) - len(s)) if broadcasts else 0 for s in shapes]
    operands = tuple(Value(TileType((1,) * n + s, int32)) for n, s in zip(added, shapes, strict=True))
    operation = make_op(op, operands, dict(attrs), (TileType(shape, int32),))
    relation = rule(operation)
    numbers = {**{v: n for n, v in enumerate(operands)}, operation.result: RESULT}

    def placed(dims: Iterable[tuple[Value, int]]) -> tuple[Place, ...]:
        pairs = [(numbers[v], d - (added[numbers[v]] if v is not operation.result else 0)) for v, d in dims]
        return tuple(pair for pair in pairs if pair[1] >= 0)

    result = [relation.partners((operation.result, d)) for d in range(len(shape))]
    return NodeDims(
        tuple(map(placed, result)), placed(relation.reduced), placed(relation.contracted), placed(relation.mixed)
    )


Use = tuple[Node, int]  # an operand of a node, by its number


@dataclass(frozen=True, slots=True)
class IndexSpace:
    """The axes of a group of nodes, by node and by operand.

    Parameters
    ----------
    nodes : tuple of Node
        The nodes in order.
    outputs : tuple of Node
        The nodes that the kernel stores.
    axes : Axes
    values : mapping from Node to dims
        The dimensions of each node.
    reads : mapping from (Node, int) to dims
        The dimensions of each operand from outside.
    reduced : frozenset of int
        Axes that a node reduces or contracts.
    parallel : tuple of int
        Axes that all outputs have and no node reduces, in the order of the first output.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]
    axes: Axes
    values: Mapping[Node, Dims]
    reads: Mapping[Use, Dims]
    reduced: frozenset[int]
    parallel: tuple[int, ...]

    def axes_of(self, node: Node) -> Dim:
        """Return all axes of a node, in order."""
        return flat(self.values[node])


def is_vector(node: Node) -> bool:
    """Whether exactly one dimension of an array is not 1."""
    return sum(1 for size in node.shape if size != 1) == 1


def flat(dims: Dims) -> Dim:
    return tuple(axis for dim in dims for axis in dim)


def space_of(nodes: Sequence[Node], outputs: Iterable[Node]) -> IndexSpace:
    """Compute the index space of some nodes.

    An array from outside has one index for all its elementwise uses, so that a reduction of it and its other readers
    share a loop. A vector may be read along two axes, such as a bias of two layers: then each use has its own index.

    Raises
    ------
    FusionConflict
        With the reason, when the nodes read one array in two orders.
    """
    try:
        return spaced(nodes, tuple(outputs), True)
    except FusionConflict:
        vectors = {x for n in nodes for x in n.inputs if is_vector(x)}
        if not vectors:
            raise
        return spaced(nodes, tuple(outputs), False)


def spaced(nodes: Sequence[Node], outputs: tuple[Node, ...], share_vectors: bool) -> IndexSpace:
    builder = _Builder(Axes(), set(nodes), {}, {}, {}, share_vectors)
    for node in nodes:
        builder.add(node)
    axes = builder.axes
    values = {n: tuple(map(axes.resolve, builder.values[n])) for n in nodes}
    reads = {use: tuple(map(axes.resolve, dims)) for use, dims in builder.reads.items()}
    for dims in {*values.values(), *reads.values()}:
        every = flat(dims)
        if len(set(every)) != len(every):
            raise FusionConflict("one array is needed in two orders at once")
    reduced = frozenset(a for n in nodes for a in reduced_axes(n, values, reads))
    stored = outputs
    common = set(flat(values[stored[0]])).intersection(*(flat(values[n]) for n in stored)) - reduced
    parallel = tuple(a for a in flat(values[stored[0]]) if a in common)
    return IndexSpace(tuple(nodes), stored, axes, values, reads, reduced, parallel)


def operand(node: Node, number: int, values: Mapping[Node, Dims], reads: Mapping[Use, Dims]) -> Dims:
    """Return the axes of an operand, which a member or an array from outside has."""
    return reads[node, number] if (node, number) in reads else values[node.inputs[number]]


def axes_at(places: Iterable[Place], node: Node, values: Mapping[Node, Dims], reads: Mapping[Use, Dims]) -> list[Dim]:
    """Return the axes of dimensions of a node's operands and result."""
    return [(values[node] if n == RESULT else operand(node, n, values, reads))[d] for n, d in places]


def reduced_axes(node: Node, values: Mapping[Node, Dims], reads: Mapping[Use, Dims]) -> Dim:
    """Return the axes that a node itself reduces or contracts, or orders."""
    if node.is_movement or node.is_elementwise:
        return ()
    relation = dims_of(node)
    folded = () if relation is None else (*relation.reduced, *(p for p in relation.contracted if p[0] == 0))
    return flat((*axes_at(folded, node, values, reads), *ordered(node, values, reads)))


def ordered(node: Node, values: Mapping[Node, Dims], reads: Mapping[Use, Dims]) -> tuple[Dim, ...]:
    """Return the axes that a scan, sort or selection orders: one, or for a selection the operand's and the result's."""
    relation = dims_of(node) if node.has("scan", "sort", "selection") else None
    return () if relation is None else tuple(filter(None, axes_at(relation.mixed, node, values, reads)))


@dataclass(slots=True)
class _Builder:
    axes: Axes
    members: set[Node]
    values: dict[Node, Dims]
    reads: dict[Use, Dims]
    outside: dict[Node, Dims]  # operands that come from outside, one index for all their elementwise uses
    share_vectors: bool

    def add(self, node: Node) -> None:
        if node.has("shifted"):
            self.window(node)
            return
        operands = [self.operand(node, n) for n in range(len(node.inputs))]
        if node.is_reshape:  # it regroups axes, and a relation tells only those of whole dimensions
            self.values[node] = self.axes.fresh(node.shape)
            self.axes.unify_reshaped(operands[0], self.values[node])
            return
        if node.is_elementwise and self.is_of_one_index(node, operands):
            self.values[node] = next(d for x, d in zip(node.inputs, operands, strict=True) if not x.is_constant)
            return
        relation = None if node.is_movement and not node.has("movement") else dims_of(node)
        if relation is None:
            raise FusionConflict(f"{node.op} has no form in a kernel of several nodes")
        self.unified([operands[n][d] for n, d in relation.contracted])
        lines = ([operands[n][d] for n, d in places] for places in relation.parallel)
        dims = (self.unified(line) or self.axes.new(n) for line, n in zip(lines, node.shape, strict=True))
        self.values[node] = tuple(dims)

    def is_of_one_index(self, node: Node, operands: Sequence[Dims]) -> bool:
        """Whether all operands but numbers have the shape of the result, and one index, so that nothing is unified."""
        pairs = [(x, dims) for x, dims in zip(node.inputs, operands, strict=True) if not x.is_constant]
        return bool(pairs) and all(x.shape == node.shape and dims == pairs[0][1] for x, dims in pairs)

    def unified(self, dims: Sequence[Dim]) -> Dim:
        """Make dimensions one, and return its axes; what repeats one element has none."""
        first, *others = [dim for dim in dims if dim] or [()]
        for dim in others:
            self.axes.unify(first, dim)
        return first

    def operand(self, node: Node, number: int) -> Dims:
        x = node.inputs[number]
        if x in self.members and node.has("indexed") and number == 0:
            raise FusionConflict("elements of it are picked by indices")
        if x in self.members:
            return self.values[x]
        if x.is_constant:
            if node.has("reduction", "arg_reduction", "sort", "selection", "indexed") or node.is_product:
                raise FusionConflict("a constant array has to be stored for this op")
            return ((),) * len(x.shape)
        if node.is_product or (node.has("indexed") and number == 0) or (is_vector(x) and not self.share_vectors):
            return self.reads_alone(node, number)
        if x not in self.outside:
            self.outside[x] = self.axes.fresh(x.shape)
        self.reads[node, number] = self.outside[x]
        return self.outside[x]

    def reads_alone(self, node: Node, number: int) -> Dims:
        self.reads[node, number] = self.axes.fresh(node.inputs[number].shape)
        return self.reads[node, number]

    def window(self, node: Node) -> None:
        """A window has new axes: the kernel reads the array at these indices plus constant offsets."""
        if node.inputs[0] in self.members:
            raise FusionConflict("a slice of it is read")
        self.values[node] = self.reads[node, 0] = self.axes.fresh(node.shape)


Strides = Callable[[Node], tuple[int, ...] | None]


def chain(axis: int, merged: Mapping[int, int]) -> Dim:
    """Return an axis with the axes that follow it in every array."""
    chain = [axis]
    while chain[-1] in merged:
        chain.append(merged[chain[-1]])
    return tuple(chain)


def heads(space: IndexSpace, merged: Mapping[int, int]) -> list[int]:
    followers = set(merged.values())
    every = dict.fromkeys(a for dims in every_dims(space) for a in flat(dims))
    return [a for a in every if a not in followers]


def every_dims(space: IndexSpace) -> list[Dims]:
    """Return the distinct dimensions of all arrays."""
    return list(dict.fromkeys((*space.values.values(), *space.reads.values())))


def neighbours(space: IndexSpace, strides: Strides) -> dict[int, int]:
    """Map each axis that has the same following axis in every array to that axis."""
    after: dict[int, set[int | None]] = {}
    before: dict[int, set[int | None]] = {}
    arrays: dict[tuple[Dims, tuple[int, ...] | None], None] = dict.fromkeys((d, None) for d in space.values.values())
    arrays.update(dict.fromkeys((dims, steps_of(node, n, strides)) for (node, n), dims in space.reads.items()))
    for dims, steps in arrays:
        line = flat(dims)
        breaks = breaks_of(dims, steps, space)
        for i, axis in enumerate(line):
            follower = line[i + 1] if i + 1 < len(line) and axis not in breaks else None
            after.setdefault(axis, set()).add(follower)
            leader = line[i - 1] if i and line[i - 1] not in breaks else None
            before.setdefault(axis, set()).add(leader)
    neighbours = {}
    lines = [set(line) for n in space.nodes for line in ordered(n, space.values, space.reads)]
    for axis, followers in after.items():
        (follower, *others) = followers
        if others or follower is None or before[follower] != {axis}:
            continue
        if any((axis in line) != (follower in line) for line in lines):  # a running result goes along one alone
            continue
        if (axis in space.parallel, axis in space.reduced) == (follower in space.parallel, follower in space.reduced):
            neighbours[axis] = follower
    return neighbours


def steps_of(node: Node, number: int, strides: Strides) -> tuple[int, ...] | None:
    """Return the strides of an operand; those of a window are all 1, so that its dimensions never collapse."""
    return (1,) * len(node.shape) if node.has("shifted") else strides(node.inputs[number])


def breaks_of(dims: Dims, steps: tuple[int, ...] | None, space: IndexSpace) -> set[int]:
    """Return the last axis of each dimension whose next dimension is not contiguous with it in memory."""
    if steps is None:
        return set()
    present = [(dim, step) for dim, step in zip(dims, steps, strict=True) if dim]
    pairs = pairwise(present)
    return {a[-1] for (a, step), (b, inner) in pairs if step != inner * space.axes.size(b)}
