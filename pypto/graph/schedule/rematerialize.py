"""Rematerialisation: cheap arrays are computed again instead of stored, after all groups are made.

A reduction cuts a graph: what depends on it is another kernel, which reads the reduced array from memory. If that
array is a few operations on stored arrays, the second kernel computes it from these, and it is not stored.

Legality and cost: the second kernel reads no more bytes than before, and no array lives longer than the one that is
saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pypto.graph.ir.dims import hint
from pypto.graph.ir.node import Node, base_of
from pypto.graph.schedule.axes import FusionConflict
from pypto.graph.schedule.group import Group
from pypto.graph.schedule.partition import Partition, check_parallel
from pypto.ops.table import TABLE

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
    readers = {owner.get(c) for c in consumers[node]} - {group}
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
