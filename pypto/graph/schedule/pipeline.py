"""The pass list of the schedule: from a graph to groups of nodes, each with the tiling of its kernel."""

from __future__ import annotations

from typing import Final

from pypto.graph.ir.node import Graph
from pypto.graph.schedule.code_sinking import sink
from pypto.graph.schedule.fusion import fuse_groups
from pypto.graph.schedule.partition import Context, Partition
from pypto.graph.schedule.rematerialize import rematerialize
from pypto.passes.manager import DISABLE, Pass, run_unverified


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
