"""The pass list of rewrites: each pass replaces a traced graph by an equivalent, cheaper graph."""

from __future__ import annotations

from typing import Final

from pypto.graph.ir.node import Graph
from pypto.graph.ir.verify import verify
from pypto.graph.rewrite.concat_elimination import pad_windows
from pypto.graph.rewrite.gather_pushdown import push_down_gathers
from pypto.graph.rewrite.late_division import divide_late
from pypto.graph.rewrite.late_reshape import reshape_late
from pypto.graph.rewrite.narrow_products import narrow_products
from pypto.graph.rewrite.split_k import split_products
from pypto.graph.rewrite.split_reduction import split_reductions
from pypto.graph.rewrite.unpacking import unpack_by_choice
from pypto.passes.manager import DISABLE, Pass, run_unverified

REWRITES: Final = (
    Pass("padded_windows", pad_windows, "first: all others see an array and not its copy within zeros", "place",
        optional=True),
    Pass("gather_pushdown", push_down_gathers, "before reductions are split: the operands that are selected are those"
        " that the user wrote", "take", optional=True),
    Pass("split_reduction", split_reductions, "before late_division, which leaves alone sums that are made in parts",
        optional=True),
    Pass("late_division", divide_late, "before split_k, which then sees the product that remains", "dot",
        optional=True),
    Pass("narrow_products", narrow_products, "before split_k, which leaves alone products of few bits", "dot",
        optional=True),
    Pass("unpacking", unpack_by_choice, "after padded_windows, whose windows are no computed parts", "concat",
        optional=True),
    Pass("late_reshape", reshape_late, "after unpacking: a product reads only the parts that are still joined", "dot",
        optional=True),
    Pass("split_k", split_products, "last: it asks whether operands lie in memory", "dot", optional=True),
)  # fmt: skip


def rewritten(graph: Graph, disable: tuple[str, ...] = ()) -> Graph:
    """Run all rewrites that are not switched off, and return the graph."""
    result: Graph = run_unverified(graph, REWRITES, attrs={DISABLE: disable})
    if result is not graph:
        verify(result)
    return result
