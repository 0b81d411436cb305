"""The order of steps: a topological sort of groups and assemblies, so that each step runs after its operands.

The results of one launch of a kernel are one step.
"""

from __future__ import annotations

from typing import Any

from pypto.graph.ir.node import Graph, Node
from pypto.graph.schedule.fusion import is_assembled
from pypto.graph.schedule.group import Group
from pypto.graph.schedule.incremental_toposort import Unit
from pypto.graph.schedule.partition import Partition
from pypto.graph.tracing.launches import launch_of


def steps_of(graph: Graph, parts: Partition) -> list[Group]:
    """Sort groups and assemblies so that each follows its operands."""
    owner: dict[Node, Group] = {n: g for g in reversed(parts.groups) for n in g.nodes}
    launches: dict[tuple[Any, ...], Group] = {}
    for node in graph.live():
        if is_assembled(node) and node not in owner:
            launch = launch_of(node)
            group = (
                Group([], Unit(0)) if launch is None else launches.setdefault((launch, node.inputs), Group([], Unit(0)))
            )
            group.nodes.append(node)
            owner[node] = group
    done: dict[Group, None] = {}
    for node in graph.live():
        if node in owner and owner[node] not in done:
            visit(owner[node], owner, done)
    return list(done)


def visit(group: Group, owner: dict[Node, Group], done: dict[Group, None]) -> None:
    """Place a group after the groups that it reads; a stack replaces recursion, because graphs are deep."""
    stack = [(group, sources(group, owner))]
    entered = {group}
    while stack:
        current, pending = stack[-1]
        if current in done:
            stack.pop()
        elif pending:
            source = pending.pop()
            if source not in done and source not in entered:
                entered.add(source)
                stack.append((source, sources(source, owner)))
        else:
            done[current] = None
            stack.pop()


def sources(group: Group, owner: dict[Node, Group]) -> list[Group]:
    """Return the groups whose arrays a group reads."""
    groups: dict[Group, None] = {}
    stack = [x for n in group.nodes for x in n.inputs]
    seen = set(group.nodes)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in owner:
            groups[owner[node]] = None
        else:
            stack += node.inputs
    return list(groups)
