"""The printer of a partition: which nodes are one kernel, how it is tiled, and which merges were refused.

The form, with the numbers that nodes have in the graph's text::

    schedule @softmax
      group %1-%5 stores %5: rows, parallel 64 by 1, whole 300
      refused %2 into %6: a slice of it is read
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto.graph.ir.node import Node, sorted_inputs_first
from pypto.graph.schedule.fusion import Partition
from pypto.graph.schedule.group import Group
from pypto.graph.schedule.tiling import Program


def schedule_text(partition: Partition) -> str:
    """Print a partition."""
    graph = partition.graph
    numbers = {node: n for n, node in enumerate(sorted_inputs_first(graph, graph.live()))}
    lines = [f"schedule @{graph.name}"]
    lines += [f"  {group_text(group, numbers)}" for group in partition.groups]
    for merge in partition.refused:
        lines.append(f"  refused %{numbers[merge.producer]} into %{numbers[merge.consumer]}: {merge.reason}")
    return "".join(f"{line}\n" for line in lines)


def group_text(group: Group, numbers: dict[Node, int]) -> str:
    """Print a group: its nodes, its stored arrays, and its tiling."""
    nodes = names(group.nodes, numbers)
    if group.program is None:
        return f"group {nodes}: {group.problem or 'no tiling yet'}"
    if group.is_stale:
        return f"group {nodes}: no tiling yet"
    return f"group {nodes} stores {names(group.program.space.outputs, numbers)}: {tiling_text(group.program)}"


def names(nodes: Iterable[Node], numbers: dict[Node, int]) -> str:
    return ", ".join(f"%{numbers[node]}" for node in nodes)


def tiling_text(program: Program) -> str:
    """Print the tiling of a kernel: its form, and how each axis is split, tiled or looped over."""
    sizes = program.sizes
    parts = [program.form]
    parts += [f"parallel {sizes[a]} by {block}" for a, block in program.blocks.items()]
    parts += [f"loop {sizes[a]} by {program.tile_size(a)}" for a in program.loops]
    parts += [f"whole {sizes[a]}" for a in program.full_axes]
    return ", ".join(parts)
