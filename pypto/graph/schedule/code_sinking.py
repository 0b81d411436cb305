"""Code sinking: a cheap operation moves into the group of its only reader, so that its array is not stored.

An elementwise operation joins the group of its operands first. If the group that reads it could not join that group,
the operation would be stored, although its reader has the operands too: a multiple of an array that a stencil reads,
or a test for NaN.
"""

from __future__ import annotations

from collections.abc import Mapping

from pypto.graph.ir.node import Node, base_of
from pypto.graph.schedule.axes import FusionConflict
from pypto.graph.schedule.group import Group
from pypto.graph.schedule.partition import Partition, check_parallel
from pypto.ops.table import TABLE


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
    readers = {owner.get(c) for c in consumers[node]}
    reader = readers.pop() if len(readers) == 1 else None
    return None if reader is None or reader is group or reader.program is None else reader


def reads_operands(node: Node, group: Group, reader: Group) -> bool:
    """Whether the operands of an operation are in memory, and a group already reads them."""
    operands = [base_of(x) for x in node.inputs if not x.is_constant]
    assert group.program is not None
    members = set(group.nodes).difference(group.program.space.outputs)
    read = {base_of(x) for n in reader.nodes for x in n.inputs}
    return bool(operands) and not any(x in members or x not in read for x in operands)
