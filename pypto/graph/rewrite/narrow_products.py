"""Narrow products: a product of integers that were widened reads them as they are, in 8 bits.

The product of the kernel language adds up integers of 8 bits in 32, so the casts change no result, and the instructions
for 8 bits are several times as fast:

    cast(a, int32) @ cast(b, int32)  ->  a @ b
"""

from __future__ import annotations

from typing import Final

from pypto.graph.ir.node import Graph, Node
from pypto.graph.rewrite.node_rule import Inputs, NodeRule
from pypto.ir.types import int32
from pypto.ops.table import MOVEMENT_OPS


def fits(node: Node, inputs: Inputs) -> bool:
    """Whether a product is of two arrays of one type of 8 bits that casts widen to 32."""
    a, b = inputs
    if a.type.dtype != int32:
        return False
    left, right = widened(a), widened(b)
    if left is None or right is None:
        return False
    return left.type.dtype == right.type.dtype and left.type.dtype.bits == 8


def narrow_product(graph: Graph, node: Node, inputs: Inputs) -> Node:
    """The product of what the casts widen."""
    sources = [x for x in map(widened, inputs) if x is not None]
    operands = (moved_alike(graph, x, source) for x, source in zip(inputs, sources, strict=True))
    return graph.add("dot", *operands, place=node.place)


def widened(node: Node) -> Node | None:
    """The integers that a cast widens, where nothing but movements is behind it."""
    while node.op in MOVEMENT_OPS:
        node = node.inputs[0]
    return node.inputs[0] if node.op == "cast" and node.inputs[0].type.dtype.is_int else None


def moved_alike(graph: Graph, node: Node, source: Node) -> Node:
    """The movements behind a cast, on what it casts."""
    if node.op == "cast":
        return source
    return graph.add(node.op, moved_alike(graph, node.inputs[0], source), place=node.place, **dict(node.attrs))


narrow_products: Final = NodeRule(frozenset({"dot"}), fits, narrow_product)
