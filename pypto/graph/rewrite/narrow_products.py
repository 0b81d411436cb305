"""Narrow products: a product of integers that were widened reads them as they are, in 8 bits.

The product of the kernel language adds up integers of 8 bits in 32, so the casts change no result, and the instructions
for 8 bits are several times as fast:

    cast(a, int32) @ cast(b, int32)  ->  a @ b
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.ir.types import int32
from pypto.ops.table import MOVEMENT_OPS

if TYPE_CHECKING:
    from pypto.graph.ir.node import Graph, Node


def narrow_product(graph: Graph, a: Node, b: Node, place: Any) -> Node | None:
    """The product of two arrays of one type of 8 bits that casts widen to 32; None elsewhere."""
    if a.type.dtype != int32:
        return None
    left, right = widened(a), widened(b)
    if left is None or right is None or left.type.dtype != right.type.dtype or left.type.dtype.bits != 8:
        return None
    return graph.add("dot", moved_alike(graph, a, left), moved_alike(graph, b, right), place=place)


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
