"""Groups of nodes: each group becomes one kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto.graph.ir.node import Node
from pypto.graph.schedule.axes import Dims
from pypto.graph.schedule.incremental_toposort import Unit
from pypto.graph.schedule.tiling import Program


@dataclass(eq=False, slots=True)
class Group:
    """The nodes of one kernel, with its tiling once it is chosen."""

    nodes: list[Node]
    unit: Unit
    program: Program | None = None
    problem: str = ""  # why there is no kernel
    dims: dict[Node, Dims] = field(default_factory=dict)  # axes of its nodes, where they are known
    is_stale: bool = False  # whether nodes were added after the program was chosen
    is_pointwise: bool = False  # whether all nodes are elementwise, of one shape
