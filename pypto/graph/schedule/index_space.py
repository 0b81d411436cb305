"""The index space of a group: the axes of each of its arrays, and the axes that it reduces over.

The index space decides whether nodes fit into one kernel. Axes that all outputs have and that nothing is reduced over
are parallel: they become the grid. The other axes lie within a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pypto.graph.ir.node import Node
from pypto.graph.schedule.axes import Axes, Dim, Dims, FusionConflict
from pypto.graph.schedule.dim_relations import RESULT, Place, dims_of

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
    relation = None if node.is_movement else dims_of(node)
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
        relation = dims_of(node)
        if relation is None or (node.is_movement and not node.has("movement")):
            raise FusionConflict(f"{node.op} has no form in a kernel of several nodes")
        self.unified([operands[n][d] for n, d in relation.contracted])
        lines = ([operands[n][d] for n, d in places] for places in relation.parallel)
        dims = (self.unified(line) or self.axes.new(n) for line, n in zip(lines, node.shape, strict=True))
        self.values[node] = tuple(dims)

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
