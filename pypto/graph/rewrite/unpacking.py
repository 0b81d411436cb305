"""Unpacking: equal parts that are computed from one array are joined by a choice, and no part is stored.

Codes of 4 bits lie two in a byte. The parts of such an array are elementwise functions of the same bytes, so an element
of the joined array is one of them, chosen by the index of the part:

    concat(c & 15, c >> 4)  ->  reshape(where(arange(2) == 0, c & 15, c >> 4))

The choice is elementwise, so it is computed in the kernel that reads the joined array.
"""

from __future__ import annotations

from typing import Final

from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.types import TensorType
from pypto.graph.rewrite.node_rule import Inputs, NodeRule
from pypto.ir.types import int32
from pypto.ops.table import MOVEMENT_OPS, TABLE

_MOST_PARTS: Final = 4
_MOST_NODES: Final = 4  # operations of a part


def fits(node: Node, inputs: Inputs) -> bool:
    """Whether a few equal parts that are joined are computed from one array."""
    shape = inputs[0].shape
    if not 2 <= len(inputs) <= _MOST_PARTS or any(x.shape != shape for x in inputs):
        return False
    if not all(map(is_fixed, shape)) or 0 in shape:
        return False
    base = source_of(inputs[0])
    return base is not None and all(source_of(x) is base for x in inputs)


def chosen(graph: Graph, node: Node, inputs: Inputs) -> Node:
    """The parts side by side on an axis of their own, of which the index on that axis chooses one."""
    place, axis, shape = node.place, node.attr("axis"), inputs[0].shape
    index = graph.add("arange", place=place, start=0, end=len(inputs))
    index = graph.add("reshape", index, place=place, shape=(len(inputs), *(1,) * len(shape[axis:])))
    *others, last = (graph.add("reshape", x, place=place, shape=(*shape[:axis], 1, *shape[axis:])) for x in inputs)
    for n, part in reversed(list(enumerate(others))):
        number = graph.constant(n, TensorType((), int32), place)
        last = graph.add("where", graph.add("eq", index, number, place=place), part, last, place=place)
    return graph.add("reshape", last, place=place, shape=node.shape)


def source_of(node: Node) -> Node | None:
    """The one array that a few elementwise operations with numbers compute a part from; None where it is no such part.

    A part that is only moved, as the slices of one array are, is none.
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
