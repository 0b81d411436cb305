"""Unpacking: a concatenation of parts that are computed from one array becomes a `where`, so no part is stored.

A byte holds two 4-bit codes. The two parts of such an array are elementwise functions of the same bytes, so each
element of the concatenation is one of them, selected by the index of the part:

    concat(c & 15, c >> 4)  ->  reshape(where(arange(2) == 0, c & 15, c >> 4))

The `where` is elementwise, so it fuses into the kernel that reads the concatenation.
"""

from __future__ import annotations

from typing import Final

from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.types import TensorType
from pypto.graph.rewrite.simplify import Inputs, NodeRule
from pypto.ir.types import int32
from pypto.ops.table import MOVEMENT_OPS, TABLE

_MOST_PARTS: Final = 4
_MOST_NODES: Final = 4  # operations of a part


def fits(node: Node, inputs: Inputs) -> bool:
    """Whether a node concatenates a few parts of equal shape that are computed from one array."""
    shape = inputs[0].shape
    if not 2 <= len(inputs) <= _MOST_PARTS or any(x.shape != shape for x in inputs):
        return False
    if not all(map(is_fixed, shape)) or 0 in shape:
        return False
    base = source_of(inputs[0])
    return base is not None and all(source_of(x) is base for x in inputs)


def chosen(graph: Graph, node: Node, inputs: Inputs) -> Node:
    """Stack the parts along a new axis by a `where` on the index along it, and reshape."""
    place, axis, shape = node.place, node.attr("axis"), inputs[0].shape
    index = graph.add("arange", place=place, start=0, end=len(inputs))
    index = graph.add("reshape", index, place=place, shape=(len(inputs), *(1,) * len(shape[axis:])))
    *others, last = (graph.add("reshape", x, place=place, shape=(*shape[:axis], 1, *shape[axis:])) for x in inputs)
    for n, part in reversed(list(enumerate(others))):
        number = graph.constant(n, TensorType((), int32), place)
        last = graph.add("where", graph.add("eq", index, number, place=place), part, last, place=place)
    return graph.add("reshape", last, place=place, shape=node.shape)


def source_of(node: Node) -> Node | None:
    """Return the array from which a few elementwise operations with constants compute a part, or None.

    A part without any operation, such as a slice, gives None.
    """
    operations = 0
    while True:
        if node.op in MOVEMENT_OPS and node.op != "broadcast_to":
            node = node.inputs[0]
            continue
        row = TABLE.get(node.op)
        operands = [x for x in node.inputs if not x.is_constant]
        if row is None or not row.elementwise or len(operands) != 1 or operations == _MOST_NODES:
            return node if operations else None
        node = operands[0]
        operations += 1


unpack_by_choice: Final = NodeRule(frozenset({"concat"}), fits, chosen)
