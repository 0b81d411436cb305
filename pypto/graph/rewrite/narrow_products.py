"""Narrow products: a product of widened int8 operands reads the 8-bit operands, because such products are faster.

A product of the kernel language accumulates 8-bit integers in 32 bits, so the casts change no result:

    cast(a, int32) @ cast(b, int32)  ->  a @ b
"""

from __future__ import annotations

from typing import Final

from pypto.graph.ir.node import Graph, Node
from pypto.graph.rewrite.node_rule import Inputs, NodeRule
from pypto.ir.types import int32
from pypto.ops.table import MOVEMENT_OPS


def fits(node: Node, inputs: Inputs) -> bool:
    """Whether both operands of a product are casts to int32 from one 8-bit type."""
    a, b = inputs
    if a.type.dtype != int32:
        return False
    left, right = widened(a), widened(b)
    if left is None or right is None:
        return False
    return left.type.dtype == right.type.dtype and left.type.dtype.bits == 8


def narrow_product(graph: Graph, node: Node, inputs: Inputs) -> Node:
    """Build the product of the operands before their casts."""
    sources = [x for x in map(widened, inputs) if x is not None]
    operands = (moved_alike(graph, x, source) for x, source in zip(inputs, sources, strict=True))
    return graph.add("dot", *operands, place=node.place)


def widened(node: Node) -> Node | None:
    """Return the integers before a widening cast, if only movements follow the cast, or None."""
    while node.op in MOVEMENT_OPS:
        node = node.inputs[0]
    return node.inputs[0] if node.op == "cast" and node.inputs[0].type.dtype.is_int else None


def moved_alike(graph: Graph, node: Node, source: Node) -> Node:
    """Apply the movements after a cast to the operand of the cast."""
    if node.op == "cast":
        return source
    return graph.add(node.op, moved_alike(graph, node.inputs[0], source), place=node.place, **dict(node.attrs))


narrow_products: Final = NodeRule(frozenset({"dot"}), fits, narrow_product)
