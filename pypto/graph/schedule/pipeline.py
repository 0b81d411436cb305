"""The pass list of the schedule: from a graph to groups of nodes, each with the tiling of its kernel.

Two passes of it follow fusion. Code sinking moves an elementwise operation into the group of its only reader, so that
its array is not stored. The operation joins the group of its operands first; if the group that reads it could not join
that group, the operation would be stored although its reader has the operands too: a multiple of an array that a
stencil reads, or a test for NaN.

Rematerialisation computes cheap arrays again instead of storing them, after all groups are made. A reduction cuts a
graph: what depends on it is another kernel, which reads the reduced array from memory. If that array is a few
operations on stored arrays, the second kernel computes it from these. Legality and cost: the second kernel reads no
more bytes than it did, and no array lives longer than the one that is saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pypto.graph.ir.dims import hint
from pypto.graph.ir.node import Graph, Node, base_of
from pypto.graph.schedule.fusion import Context, Partition, check_parallel, fuse_groups
from pypto.graph.schedule.group import Group
from pypto.graph.schedule.index_space import FusionConflict
from pypto.ops.table import TABLE
from pypto.passes.manager import DISABLE, Pass, run_unverified


def sink(partition: Partition, group: Group) -> None:
    """Sink operations of a group into the group that reads them; this may empty the group."""
    owner, consumers = partition.owner, partition.consumers
    for node in reversed(group.nodes):
        reader = None if node in partition.results else reader_of(node, group, owner, consumers)
        if reader is None or not reads_operands(node, group, reader):
            continue
        others = [n for n in group.nodes if n is not node]
        more = sorted([*reader.nodes, node], key=lambda n: n.number)
        owner[node] = reader
        try:
            left = partition.program(others, check_parallel) if others else None
            group.program, reader.program = left, partition.program(more, check_parallel)
        except FusionConflict:
            owner[node] = group
            continue
        group.nodes, reader.nodes = others, more


def reader_of(
    node: Node, group: Group, owner: Mapping[Node, Group], consumers: Mapping[Node, list[Node]]
) -> Group | None:
    """Return the only other group that reads an elementwise operation of a group, or None."""
    if node.op not in TABLE or not TABLE[node.op].elementwise or group.program is None:
        return None
    readers = readers_of(node, owner, consumers)
    reader = readers.pop() if len(readers) == 1 else None
    return None if reader is None or reader is group or reader.program is None else reader


def readers_of(node: Node, owner: Mapping[Node, Group], consumers: Mapping[Node, list[Node]]) -> set[Group | None]:
    """Return the groups that read an array, itself or by a movement, which is part of each group that reads it."""
    readers: set[Group | None] = set()
    waiting = [node]
    while waiting:
        for consumer in consumers[waiting.pop()]:
            readers.add(owner.get(consumer))
            if consumer.is_movement:
                waiting.append(consumer)
    return readers


def reads_operands(node: Node, group: Group, reader: Group) -> bool:
    """Whether the operands of an operation are in memory, and a group already reads them."""
    operands = [base_of(x) for x in node.inputs if not x.is_constant]
    assert group.program is not None
    members = set(group.nodes).difference(group.program.space.outputs)
    read = {base_of(x) for n in reader.nodes for x in n.inputs}
    return bool(operands) and not any(x in members or x not in read for x in operands)


MOST_COST: Final = 16  # of the operations that are made twice, in sums of two numbers
LEAST_BYTES: Final = 1 << 16  # of an array; a smaller one is still in a cache when it is read


def rematerialize(partition: Partition, group: Group) -> None:
    """Let the only other group that reads an array of this group recompute it; results stay stored."""
    owner, consumers, programs = partition.owner, partition.consumers, partition.programs
    for node in group.program.space.outputs if group.program else ():
        reader = None if node in partition.results else other_reader(node, group, owner, consumers)
        if reader is None or not is_worth_it(node, group, reader):
            continue
        assert group.program is not None and reader.program is not None
        cone = cone_of(node, group)
        outputs = [n for n in group.program.space.outputs if n is not node]
        more = sorted({*reader.nodes, *cone}, key=lambda n: n.number)
        try:
            first = programs.of(needed(group.nodes, outputs), outputs, check_parallel)
            second = programs.of(more, reader.program.space.outputs, check_parallel)
        except FusionConflict:
            continue
        group.program, group.nodes = first, list(first.space.nodes)
        reader.program, reader.nodes = second, more


def other_reader(
    node: Node, group: Group, owner: Mapping[Node, Group], consumers: Mapping[Node, list[Node]]
) -> Group | None:
    """Return the only other group that reads an array itself, or None if there are several."""
    readers = readers_of(node, owner, consumers) - {group}
    reader = readers.pop() if len(readers) == 1 else None
    return None if reader is None or reader.program is None else reader


def is_worth_it(node: Node, group: Group, reader: Group) -> bool:
    """Whether recomputing pays: the array is large and cheap, and its unread sources have no more bytes."""
    assert group.program is not None
    bytes = hint(node.type.nbytes)
    cone = cone_of(node, group)
    others = len(group.program.space.outputs) > 1
    if not others or bytes < LEAST_BYTES or not all(map(is_cheap, cone)) or any(n.is_product for n in reader.nodes):
        return False
    if sum(TABLE[n.op].cost for n in cone if n.op in TABLE and not n.is_movement) > MOST_COST:
        return False
    read = {base_of(x) for n in reader.nodes for x in n.inputs} - {node}
    leaves = {base_of(x) for n in cone for x in n.inputs if x not in cone and not x.is_constant}
    return sum(hint(x.type.nbytes) for x in leaves - read) <= bytes


def is_cheap(node: Node) -> bool:
    """Whether an operation moves elements, or computes each of them in a few instructions."""
    row = TABLE.get(node.op)
    if node.is_movement or node.has("shifted"):
        return True
    return row is not None and row.elementwise and not any(row.ulp.values())


def cone_of(node: Node, group: Group) -> set[Node]:
    """Return the members of a group that a node depends on, back to arrays in memory."""
    assert group.program is not None
    members, stored = set(group.nodes), group.program.space.outputs
    cone = {node}
    waiting = [node]
    while waiting:
        for x in waiting.pop().inputs:
            if x in members and x not in stored and x not in cone:
                cone.add(x)
                waiting.append(x)
    return cone


def needed(nodes: list[Node], outputs: list[Node]) -> list[Node]:
    """Return the nodes that outputs depend on, in order."""
    live = set(outputs)
    for node in reversed(nodes):
        if node in live:
            live.update(node.inputs)
    return [n for n in nodes if n in live]


def tile_groups(partition: Partition, context: Context) -> Partition:
    """Choose the tilings of the groups that gained elementwise operations during fusion."""
    for group in partition.groups:
        if group.is_stale:
            partition.settle(group)
    return partition.refreshed(partition.groups)


def sink_code(partition: Partition, context: Context) -> Partition:
    """Sink code, group by group."""
    for group in partition.groups:
        sink(partition, group)
    return partition.refreshed(partition.groups)


def rematerialize_arrays(partition: Partition, context: Context) -> Partition:
    """Rematerialise arrays, group by group."""
    for group in partition.groups:
        rematerialize(partition, group)
    return partition.refreshed(partition.groups)


# The first pass takes a graph and gives a partition; each later pass takes and gives a partition.
SCHEDULE: Final = (
    Pass("fusion", fuse_groups, "first: the others move nodes between its groups"),
    Pass("tiling", tile_groups, "after fusion, which leaves the tilings of elementwise groups open"),
    Pass("code_sinking", sink_code, "after tiling: a group that loses or gets a node needs a tiling that fits",
        optional=True),
    Pass("rematerialization", rematerialize_arrays, "last: it asks which arrays are stored", optional=True),
)  # fmt: skip
# Decisions within fusion and tiling, which may be switched off.
TECHNIQUES: Final = (
    Pass("product_of_concat", None, "in fusion: a product reads the parts of an operand that is joined for it alone",
        optional=True),
    Pass("product_chains", None, "in fusion: two products and what stands between them are merged at once",
        optional=True),
    Pass("online_softmax", None, "in tiling: a softmax along a long axis is one loop", optional=True),
    Pass("region_dedup", None, "in tiling: equal groups share one decision", optional=True),
)  # fmt: skip


def scheduled(graph: Graph, context: Context) -> Partition:
    """Run all passes that are not switched off, and return the partition of the graph."""
    partition: Partition = run_unverified(graph, SCHEDULE, context, attrs={DISABLE: context.disabled})
    return partition
