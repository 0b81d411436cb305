"""The index space of a group: the axes of each of its arrays, and the axes that it reduces over.

The index space decides whether nodes fit into one kernel. Axes that all outputs have and that nothing is reduced over
are parallel: they become the grid. The other axes lie within a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pypto.graph.ir.node import Node
from pypto.graph.schedule.axes import Axes, Dim, Dims, FusionConflict
from pypto.ops.table import MOVEMENT_OPS, REDUCTIONS, TABLE

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


def reduced_axes(node: Node, values: Mapping[Node, Dims], reads: Mapping[Use, Dims]) -> Dim:
    """Return the axes that a node itself reduces or contracts."""
    if node.op in REDUCTIONS:
        dims = operand(node, 0, values, reads)
        return tuple(a for d in node.attr("axes") for a in dims[d])
    if node.is_product:
        return operand(node, 0, values, reads)[-1]
    if node.has("selection"):
        return (*operand(node, 0, values, reads)[node.attr("axis")], *values[node][node.attr("axis")])
    return scanned(node, values)


def ordered(node: Node, values: Mapping[Node, Dims], reads: Mapping[Use, Dims]) -> tuple[Dim, ...]:
    """Return the axes that a scan, sort or selection orders: one, or for a selection the operand's and the result's."""
    if node.has("selection"):
        at = node.attr("axis")
        return operand(node, 0, values, reads)[at], values[node][at]
    line = scanned(node, values)
    return (line,) if line else ()


def scanned(node: Node, values: Mapping[Node, Dims]) -> Dim:
    """Return the axis of a scan or sort, or an empty tuple."""
    return values[node][node.attr("axis")] if node.has("scan", "sort") else ()


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
        row = TABLE.get(node.op)
        if (row is not None and row.elementwise) or node.op == "copy":
            self.values[node] = self.elementwise(node, operands)
        elif node.has("scan", "sort", "selection"):
            self.values[node] = self.in_order(node, operands[0])
        elif node.op in REDUCTIONS:
            self.values[node] = self.reduction(node, operands[0])
        elif node.is_product:
            self.values[node] = self.product(node, *operands)
        elif node.op in MOVEMENT_OPS:
            self.values[node] = self.movement(node, operands[0])
        elif node.op == "arange":
            self.values[node] = self.axes.fresh(node.shape)
        elif node.has("parts"):
            self.values[node] = self.joined(node, operands)
        elif node.has("indexed"):
            source, index = operands
            self.values[node] = self.picked(dict(node.attrs), source, index)
        else:
            raise FusionConflict(f"{node.op} has no form in a kernel of several nodes")

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

    def elementwise(self, node: Node, operands: list[Dims]) -> Dims:
        rank = len(node.shape)
        result: list[Dim] = []
        for d in range(rank):
            axes: Dim = ()
            for dims in operands:
                at = d - rank + len(dims)
                if at >= 0 and dims[at]:
                    if axes:
                        self.axes.unify(axes, dims[at])
                    else:
                        axes = dims[at]
            result.append(axes if axes or node.shape[d] == 1 else self.axes.new(node.shape[d]))
        return tuple(result)

    def reduction(self, node: Node, source: Dims) -> Dims:
        gone = node.attr("axes")
        if node.attr("keep_dims"):
            return tuple(() if d in gone else dim for d, dim in enumerate(source))
        return tuple(dim for d, dim in enumerate(source) if d not in gone)

    def in_order(self, node: Node, source: Dims) -> Dims:
        """A scan or sort keeps its operand's axes; a selection replaces one of them by a new axis."""
        if not node.has("selection"):
            return source
        at = node.attr("axis")
        return (*source[:at], self.axes.new(node.attr("count")), *source[at + 1 :])

    def product(self, node: Node, a: Dims, b: Dims) -> Dims:
        self.axes.unify(a[-1], b[-2])
        batch: list[Dim] = []
        for d in range(len(node.shape) - 2):
            sides = [dims[d - len(node.shape) + len(dims)] for dims in (a, b) if d - len(node.shape) + len(dims) >= 0]
            full = [dim for dim in sides if dim]
            if len(full) == 2:
                self.axes.unify(*full)
            batch.append(full[0] if full else ())
        return (*batch, a[-2], b[-1])

    def window(self, node: Node) -> None:
        """A window has new axes: the kernel reads the array at these indices plus constant offsets."""
        if node.inputs[0] in self.members:
            raise FusionConflict("a slice of it is read")
        self.values[node] = self.reads[node, 0] = self.axes.fresh(node.shape)

    def joined(self, node: Node, parts: list[Dims]) -> Dims:
        """A concatenation along the contracted axis of a product: its other axes are those of each part."""
        first, *others = parts
        for dims in others:
            for a, b in zip(first[:-1], dims[:-1], strict=True):
                self.axes.unify(a, b)
        return (*first[:-1], self.axes.new(node.shape[-1]))

    def picked(self, attrs: Mapping[str, Any], source: Dims, index: Dims) -> Dims:
        axis, batch = attrs["axis"], attrs.get("batch", 0)
        for a, b in zip(source[:batch], index[:batch], strict=True):
            self.axes.unify(a, b)
        return (*source[:axis], *index[batch:], *source[axis + 1 :])

    def movement(self, node: Node, source: Dims) -> Dims:
        if node.op == "permute":
            return tuple(source[d] for d in node.attr("dims"))
        if node.op == "broadcast_to":
            lead = len(node.shape) - len(source)
            dims = (*((),) * lead, *source)
            return tuple(dim or self.axes.new(n) for dim, n in zip(dims, node.shape, strict=True))
        target = self.axes.fresh(node.shape)
        self.axes.unify_reshaped(source, target)
        return target
