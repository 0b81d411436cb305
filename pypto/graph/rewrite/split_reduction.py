"""Split reduction: a full reduction becomes per-program partial results and one small final reduction.

The partial results fuse into the kernel that computes the array. Their order does not depend on the number of threads.
"""

from __future__ import annotations

import math
from typing import Final

from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.op_facts import is_in_pieces
from pypto.graph.rewrite.node_rule import Inputs, NodeRule
from pypto.ops.table import TABLE

LONG: Final = 1 << 17  # elements that are reduced in parts
_LEAST_PART: Final = 1 << 10
_FEW_PARTS: Final = 8
_MOST_PARTS: Final = 256


def fits(node: Node, inputs: Inputs) -> bool:
    """Whether a node reduces a long array to one element."""
    shape = inputs[0].shape
    if any(n != 1 for n in node.shape) or not all(map(is_fixed, shape)):
        return False
    return part_of(shape) is not None


def by_parts(graph: Graph, node: Node, inputs: Inputs) -> Node:
    """Build the reductions of the parts, and the reduction of their results."""
    cut = part_of(inputs[0].shape)
    assert cut is not None
    shape, axes = cut
    full = graph.add("reshape", inputs[0], place=node.place, shape=shape)
    attrs = {**dict(node.attrs), "keep_dims": False}
    parts = graph.add(node.op, full, place=node.place, **{**attrs, "axes": axes})
    number = graph.add(node.op, parts, place=node.place, **{**attrs, "axes": tuple(range(len(parts.shape)))})
    return graph.add("reshape", number, place=node.place, shape=node.shape)


def part_of(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Choose how to split an array: return its shape, with a dimension split if necessary, and a part's axes."""
    size = math.prod(shape)
    if size < LONG:
        return None
    for first in reversed(range(1, len(shape))):
        part = math.prod(shape[first:])
        if part >= _LEAST_PART:
            if size // part >= _FEW_PARTS:
                return shape, tuple(range(first, len(shape)))
            break
    for parts in range(min(size // _LEAST_PART, _MOST_PARTS), _FEW_PARTS - 1, -1):
        if shape[0] % parts == 0:
            cut = (parts, shape[0] // parts, *shape[1:])
            return cut, tuple(range(1, len(cut)))
    return None


split_reductions: Final = NodeRule(frozenset(op for op in TABLE if is_in_pieces(op)), fits, by_parts)
