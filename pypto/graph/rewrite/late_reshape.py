"""Late reshape: the patches of a convolution become rows behind the product, so that it can read the parts of each.

A product reads the parts of a concatenation along its contracted axis, if the concatenation is its operand as it is. A
reshape that joins only the other dimensions moves behind the product, which has a stack of matrices then:

    reshape(concat(x, y), (-1, k)) @ w  ->  reshape(concat(x, y) @ w, (-1, n))
"""

from __future__ import annotations

from typing import Final

from pypto.graph.ir.node import Graph, Node
from pypto.graph.rewrite.concat_elimination import is_joined_last
from pypto.graph.rewrite.node_rule import Inputs, NodeRule


def fits(node: Node, inputs: Inputs) -> bool:
    """Whether rows of a product are a joined array with its other dimensions as one."""
    rows, weights = inputs
    if rows.op != "reshape" or len(rows.shape) != 2 or len(weights.shape) != 2 or weights is rows:
        return False
    joined = rows.inputs[0]
    return len(joined.shape) > 2 and joined.shape[-1] == rows.shape[-1] and is_joined_last(joined)


def reshaped_late(graph: Graph, node: Node, inputs: Inputs) -> Node:
    """The product of the joined array, whose result is reshaped."""
    rows, weights = inputs
    made = graph.add("dot", rows.inputs[0], weights, place=node.place)
    return graph.add("reshape", made, place=node.place, shape=node.shape)


reshape_late: Final = NodeRule(frozenset({"dot"}), fits, reshaped_late)
