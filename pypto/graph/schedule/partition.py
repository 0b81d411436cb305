"""The partition of a graph: groups of nodes, each with the tiling of its kernel, and the refused merges.

The legality checks of a merge are here as well: a merge loses no parallel axis except to a reduction, computes no
product or long reduction twice, and leaves no long reduction to a single program.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from pypto.graph.ir.dims import hint
from pypto.graph.ir.node import Graph, Node
from pypto.graph.rewrite.split_reduction import LONG
from pypto.graph.schedule.axes import FusionConflict
from pypto.graph.schedule.group import Group
from pypto.graph.schedule.layout import Layouts
from pypto.graph.schedule.region_dedup import Check, Programs
from pypto.graph.schedule.tiling import Program
from pypto.ops.table import TABLE

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
        group.is_pointwise = all(n.op in TABLE and TABLE[n.op].elementwise and n.shape == shape for n in group.nodes)
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
    if hint(node.inputs[0].type.size) >= LONG and results and not any(map(program.is_shared, program.blocks)):
        raise FusionConflict("a long reduction would be made by one program")
