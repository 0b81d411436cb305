"""Fusion: the partition of a graph into groups, each of which becomes one kernel.

Every operation begins as a group of its own. In order, the group of each node is merged with the groups of its
operands, where that is legal: no cycle arises, the index spaces agree, no parallel axis is lost except to a
reduction, no product or long reduction is computed twice, no long reduction is left to a single program, and a program
of the merged group fits the caches. A merge saves storing an array, or at least reading it. A refused merge is
recorded with its reason, which `pto.explain` shows.

Movements are views of stored arrays. Between members of a group they only rename axes. A movement that is no view,
such as the reshape of a transpose, joins the group whose result it moves, or is a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pypto.graph.ir.dims import hint
from pypto.graph.ir.node import Graph, Node, moved_from
from pypto.graph.ir.types import contiguous
from pypto.graph.rewrite.concat_elimination import is_joined_in_product
from pypto.graph.rewrite.pipeline import LONG_REDUCTION
from pypto.graph.schedule.group import Check, Group, Layouts, Order, Programs, Unit
from pypto.graph.schedule.index_space import FusionConflict
from pypto.graph.schedule.tiling import Program
from pypto.ops.table import MOVEMENT_OPS

FEW = 256  # elements that are reduced again rather than stored


@dataclass(frozen=True, slots=True)
class Context:
    """The inputs of the scheduling passes: array layouts, the number of threads, and the disabled passes."""

    layouts: Layouts
    threads: int
    disabled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused merge, with its reason."""

    producer: Node
    consumer: Node
    reason: str


@dataclass(slots=True)
class Partition:
    """The groups of a graph, and the reasons why arrays between them are stored.

    Parameters
    ----------
    graph : Graph
    programs : Programs
        The tilings that were chosen.
    groups : list of Group
        The groups in the order of their first nodes.
    refused : list of Refused
    owner : mapping from Node to Group
        The group that computes a node.
    consumers : mapping from Node to list of Node
        The nodes that read a node.
    results : set of Node
        The outputs of the graph.
    """

    graph: Graph
    programs: Programs
    groups: list[Group] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    owner: dict[Node, Group] = field(default_factory=dict)
    consumers: dict[Node, list[Node]] = field(default_factory=dict)
    results: set[Node] = field(default_factory=set)

    def refreshed(self, groups: Iterable[Group]) -> Partition:
        """Return the partition with the distinct non-empty groups among those given."""
        return replace(self, groups=[group for group in dict.fromkeys(groups) if group.nodes])

    def settle(self, group: Group) -> None:
        """Choose the tiling of a group for its current nodes."""
        group.is_stale = False
        try:
            group.program = self.program(group.nodes)
            self.become(group)
        except FusionConflict as conflict:
            group.problem = str(conflict)

    def become(self, group: Group) -> None:
        """Make a group the owner of its nodes."""
        assert group.program is not None
        group.dims = dict(group.program.space.values)
        shape = group.nodes[0].shape
        group.is_pointwise = all(n.is_elementwise and n.shape == shape for n in group.nodes)
        for n in group.nodes:
            self.owner[n] = group

    def program(self, nodes: list[Node], check: Check | None = None) -> Program:
        return self.programs.of(nodes, self.outputs(nodes), check)

    def outputs(self, nodes: list[Node]) -> list[Node]:
        """Return the members that a kernel stores: other groups read them, or views of them."""
        members = set(nodes)
        outputs: dict[Node, None] = {}
        for node in nodes:
            n = node
            readers = self.consumers[n]
            if n in self.results or not readers or not members.issuperset(readers):
                while n.is_movement and n.inputs[0] in members and self.programs.layouts.is_view(n):
                    n = n.inputs[0]
                outputs[n] = None
        return list(outputs)


def check_parallel(program: Program) -> None:
    """Refuse a merge that loses a parallel axis other than to a reduction, or computes a product twice."""
    space = program.space
    has_product = any(n.is_product for n in space.nodes)
    chained = program.form in ("chain", "online") and has_product  # all but whole columns is parallel by its making
    for node in space.outputs:
        if not chained and any(
            axis not in space.parallel and axis not in space.reduced for axis in space.axes_of(node)
        ):
            raise FusionConflict("programs would have to share an axis that each of them needs")
    for node in space.nodes:
        if node.has("reduction", "arg_reduction", "sort", "selection"):
            check_once(program, node)
            check_shared(program, node)
        if node.is_product:
            line = program.values[node]
            if not chained and any(a not in program.blocks and a not in space.reduced for a in line):
                raise FusionConflict("a product would have fewer programs")
            if any(a not in line for a in program.blocks if program.is_shared(a)):
                raise FusionConflict("a product would be computed more than once")


def check_once(program: Program, node: Node) -> None:
    """Refuse a merge after which each program recomputes a reduction of more than a few elements."""
    line = program.reads.get((node, 0), program.values.get(node.inputs[0], ()))
    elements = 1
    for a in line:
        elements *= hint(program.sizes[a])
    if elements > FEW and any(a not in line for a in program.blocks if program.is_shared(a)):
        raise FusionConflict("a reduction would be computed more than once")


def check_shared(program: Program, node: Node) -> None:
    """Refuse a merge that leaves a long reduction with several results to a single program."""
    results = [a for a in program.values[node] if a not in program.blocks]
    if hint(node.inputs[0].type.size) >= LONG_REDUCTION and results and not any(map(program.is_shared, program.blocks)):
        raise FusionConflict("a long reduction would be made by one program")


MOST_SPAN = 8  # groups that are merged at once
MOST_NODES = 256  # of a group: what a kernel costs to compile grows with them


def fuse_groups(graph: Graph, context: Context) -> Partition:
    """Partition a graph into groups; groups that gained elementwise operations get their tiling later."""
    partition = Partition(graph, Programs(context.layouts, context.threads, context.disabled))
    nodes = graph.live()
    partition.results.update(graph.outputs)
    partition.consumers.update((node, []) for node in nodes)
    for node in nodes:
        for x in node.inputs:
            partition.consumers[x].append(node)
    _Partitioner(partition, context.disabled).run(nodes)
    return partition.refreshed(partition.owner[n] for n in nodes if n in partition.owner)


class _Partitioner:
    def __init__(self, partition: Partition, disabled: Sequence[str]) -> None:
        self.partition = partition
        self.layouts = partition.programs.layouts
        self.consumers, self.results, self.group = partition.consumers, partition.results, partition.owner
        self.disabled = disabled
        self.order = Order()
        self.units: dict[Node, Unit] = {}  # of assemblies
        self.joined_by: dict[Node, Node] = {}  # the joined operand of a product, which no one makes

    def run(self, nodes: list[Node]) -> None:
        for node in nodes:
            if node.is_movement:
                self.movement(node)
            elif node.has("parts") and self.joins_in_product(node):
                continue  # the product reads the parts
            elif is_assembled(node):
                self.units[node] = self.order.new(self.sources(node))
            elif not node.is_source and not self.joined(node):
                self.computation(node)

    def joins_in_product(self, node: Node) -> bool:
        """Whether a product is the only reader of a concatenation, and reads its parts instead."""
        readers = [] if node in self.results or "product_of_concat" in self.disabled else self.consumers[node]
        if not is_joined_in_product(node, readers) or is_assembled(readers[0]):
            return False
        try:
            self.partition.programs.of([node, readers[0]], readers[:1])
        except FusionConflict:
            return False
        self.joined_by[readers[0]] = node
        return True

    def sources(self, node: Node) -> list[Unit]:
        """Return the units that compute the operands of a node."""
        bases = [self.source(x)[0] for x in node.inputs]
        units = [self.units.get(x) or (self.group[x].unit if x in self.group else None) for x in bases]
        return [u for u in units if u is not None]

    def joined(self, node: Node) -> bool:
        """Add an elementwise node to the group of its operands if they all have one index; this is always legal.

        In a pointwise group, arguments in C order also have that index.
        """
        if not node.is_elementwise:
            return False
        operands = [x for x in node.inputs if not x.is_constant]
        if any(x.shape != node.shape for x in operands):
            return False
        group = next((self.group[x] for x in operands if x in self.group), None)
        if group is None:
            return False
        if group.is_stale and group.program is None:
            self.partition.settle(group)
        if group.problem or len(group.nodes) >= MOST_NODES:
            return False
        inner = [x for x in operands if x in group.dims]
        dims = group.dims[inner[0]] if inner else None
        if dims is None or any(group.dims[x] != dims for x in inner):
            return False
        others = [x for x in operands if x not in group.dims]
        if others and not (group.is_pointwise and all(x.is_input and self.is_plain(x) for x in others)):
            return False
        group.nodes.append(node)
        group.dims[node] = dims
        group.is_stale = True
        self.group[node] = group
        return True

    def is_plain(self, node: Node) -> bool:
        """Whether an array is in C order, so that it adds no constraint to the axes of a pointwise group."""
        return self.layouts.strides(node) == contiguous(node.shape)

    def movement(self, node: Node) -> None:
        """Place a movement: a view needs no kernel; any other movement joins its source's group, or is a copy."""
        base, path = self.source(node)
        if self.layouts.is_view(node):
            return
        group = self.group.get(base)
        single = all(len(self.consumers[n]) == 1 for n in (base, *path[:-1]))
        if group is not None and single and self.extended(group, path):
            return
        self.alone(node)

    def extended(self, group: Group, path: list[Node]) -> bool:
        """Add a chain of movements to the group that computes their source, and tell whether that was legal."""
        try:
            if group.problem:
                raise FusionConflict(group.problem)
            nodes = self.closed([*group.nodes, *path])
            program = self.partition.program(nodes, check_parallel)
        except FusionConflict as conflict:
            self.partition.refused.append(Refused(path[0].inputs[0], path[-1], str(conflict)))
            return False
        self.partition.become(Group(nodes, group.unit, program))
        return True

    def computation(self, node: Node) -> None:
        self.alone(node)
        parts = self.joined_by[node].inputs if node in self.joined_by else ()
        for x in (*node.inputs, *parts):
            base, path = self.source(x)
            if base in self.group:
                fusible = all(n.op in MOVEMENT_OPS for n in path)
                if fusible and self.group[base] is not self.group[node]:
                    extra = [n for n in path if n not in self.group]
                    self.merge(self.group[base], self.group[node], base, node, extra)
                elif not fusible:
                    self.partition.refused.append(Refused(base, node, "a slice of it is read"))
        if node.is_product and "product_chains" not in self.disabled:
            self.merge_span(node)
        elif node.op == "sum" and self.source(node.inputs[0])[0].op == "exp":
            self.merge_softmax(node)

    def merge_span(self, node: Node) -> None:
        """Merge a product with all groups between it and an earlier product that its first operand depends on.

        Pairwise merges cannot reach this: a softmax over a long axis fuses only together with the products around
        it, as one loop.
        """
        home_group = self.group[node]
        groups, seen = [home_group], {node}
        stack = [node.inputs[0]]
        while stack and len(groups) < MOST_SPAN:
            base, _ = self.source(stack.pop())
            group = self.group.get(base)
            if group is None or base in seen:
                continue
            seen.add(base)
            if group is home_group:  # a softmax that the product is one kernel with already
                stack += base.inputs
            elif group not in groups:
                groups.append(group)
                if not any(n.is_product for n in group.nodes):
                    stack += [x for n in group.nodes for x in n.inputs]
        groups += self.read_beside(groups, node)
        if len(groups) < (3 if len(home_group.nodes) == 1 else 2) or any(g.problem for g in groups):
            return
        try:
            nodes = self.closed([n for g in groups for n in g.nodes])
            if len(nodes) > MOST_NODES or self.order.is_cyclic(*(g.unit for g in groups)):
                return
            program = self.partition.program(nodes, check_parallel)
        except FusionConflict as conflict:
            self.partition.refused.append(Refused(groups[-1].nodes[-1], node, str(conflict)))
            return
        self.partition.become(Group(nodes, self.order.merge(*(g.unit for g in groups)), program))

    def merge_softmax(self, node: Node) -> None:
        """Merge a sum of exponentials with the group of its maximum: along a long axis they become one loop."""
        groups = [self.group[node]]
        read = (self.source(x)[0] for n in groups[0].nodes for x in n.inputs)
        for group in dict.fromkeys(self.group[x] for x in read if x in self.group):
            if group not in groups and any(n.op == "max" for n in group.nodes):
                groups.append(group)
        if len(groups) == 2:
            self.merge(groups[1], groups[0], groups[1].nodes[-1], node)

    def read_beside(self, groups: list[Group], node: Node) -> list[Group]:
        """Return the product-free groups before a node that read some groups, such as the sums of a softmax."""
        read = (c for g in groups for n in g.nodes for c in self.consumers[n] if c in self.group)
        others = dict.fromkeys(self.group[c] for c in read)
        return [
            g for g in others if g not in groups and all(n.number < node.number and not n.is_product for n in g.nodes)
        ]

    def source(self, node: Node) -> tuple[Node, list[Node]]:
        """Return the array behind the ungrouped movements that end at a node, and these movements in order."""
        return moved_from(node, self.group)

    def alone(self, node: Node) -> None:
        """Make a node a separate group; an elementwise node always has a program, so its tiling is chosen later."""
        nodes = [self.joined_by[node], node] if node in self.joined_by else [node]
        group = Group(nodes, self.order.new([u for n in nodes for u in self.sources(n)]))
        self.group[node] = group
        if node.is_elementwise:
            group.is_stale = True
        else:
            self.partition.settle(group)

    def merge(self, a: Group, b: Group, producer: Node, consumer: Node, path: Iterable[Node] = ()) -> bool:
        """Merge two groups if that is legal; otherwise record the reason."""
        try:
            if a.problem or b.problem:
                raise FusionConflict(a.problem or b.problem)
            nodes = self.closed([*a.nodes, *b.nodes, *path])
            if len(nodes) > MOST_NODES:
                raise FusionConflict("a kernel would have too many statements")
            if self.order.is_cyclic(a.unit, b.unit):
                raise FusionConflict("something between them is computed elsewhere")
            program = self.partition.program(nodes, check_parallel)
        except FusionConflict as conflict:
            self.partition.refused.append(Refused(producer, consumer, str(conflict)))
            return False
        self.partition.become(Group(nodes, self.order.merge(a.unit, b.unit), program))
        return True

    def closed(self, nodes: Iterable[Node]) -> list[Node]:
        """Return nodes in order with all movements between them, so that no member is read from memory."""
        members = dict.fromkeys(nodes)
        for node in list(members):
            for x in node.inputs:
                if x in members:
                    continue
                base, path = self.source(x)
                if base not in members:
                    continue
                if not all(n.op in MOVEMENT_OPS for n in path):
                    raise FusionConflict("a slice of it is read")
                members.update(dict.fromkeys(path))
        return sorted(members, key=lambda n: n.number)


def is_assembled(node: Node) -> bool:
    """Whether numpy computes a node between kernels: it copies arrays, or its arrays have no elements."""
    if node.has("assembled"):
        return True
    if node.is_movement or node.is_source:
        return False
    return 0 in node.type.shape or any(0 in x.type.shape for x in node.inputs)
