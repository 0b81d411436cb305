"""Late division: `(a / sum(a)) @ y` becomes `(a @ y) / sum(a)`, so that a softmax divides results instead of weights.

The division of rows by their sums commutes with a product that contracts the rows:

    (a / s) @ y  =  (a @ y) / s        where s has one element for each row

It holds where `s` is the sum of `a` itself: the quotients are at most 1, so no result overflows that did not.
"""

from __future__ import annotations

from typing import Final

from pypto.graph.ir.node import Graph, Node
from pypto.graph.rewrite.node_rule import Inputs, NodeRule


def fits(node: Node, inputs: Inputs) -> bool:
    """Whether the first operand of a product is a matrix whose rows are divided by their sums."""
    x = inputs[0]
    if x.op != "div" or x.inputs[0].type != x.type:
        return False
    a, b = x.inputs
    if len(b.shape) != len(x.shape) or b.shape[-1] != 1 or x.shape[-1] == 1 or node.type.dtype != x.type.dtype:
        return False
    total = b.inputs[0] if b.is_reshape else b
    return total.op == "sum" and total.inputs[0] is a


def build(graph: Graph, node: Node, inputs: Inputs) -> Node:
    x, y = inputs
    a, total = x.inputs
    return graph.add("div", graph.add("dot", a, y, place=node.place), total, place=x.place)


divide_late: Final = NodeRule(frozenset({"dot"}), fits, build)
