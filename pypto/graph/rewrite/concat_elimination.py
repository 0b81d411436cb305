"""Concat elimination: products of concatenated arrays, and slices of padded ones, read the parts, which saves a copy.

A slice of an array that is padded with zeros is a window: a kernel reads the array itself, and elements outside of it
read as 0. A product whose contracted axis is a concatenation is a sum of products:

    concat(x, y) @ w  ->  x @ w[:k] + y @ w[k:]

A convolution that is written as patches times weights therefore reads the image.
"""

from __future__ import annotations

import math
from typing import Final

from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import Graph, Node
from pypto.graph.rewrite.node_rule import Inputs, NodeRule

_MOST_PARTS: Final = 64


def is_window(node: Node, inputs: Inputs) -> bool:
    """Whether a node pads an array with zeros, or slices a window."""
    if any(step != 1 for step in node.attr("steps")):
        return False
    base = inputs[0]
    if node.is_movement:
        return base.has("shifted")
    if not base.is_constant or base.type.dtype.is_bool:
        return False
    number, value = base.attr("value"), inputs[1]
    fixed = all(map(is_fixed, (*base.shape, *value.shape, *node.attr("starts"))))
    return number == 0 and math.copysign(1, number) > 0 and fixed and value.type.size > 0


def window_of(graph: Graph, node: Node, inputs: Inputs) -> Node:
    """Replace a zero-padded array by a window of the array, and a slice of a window by a window."""
    starts = node.attr("starts")
    if node.has("update"):
        starts, source = tuple(-s for s in starts), inputs[1]
    else:
        window = inputs[0]
        starts, source = tuple(a + b for a, b in zip(window.attr("starts"), starts, strict=True)), window.inputs[0]
    return graph.add("window", source, place=node.place, starts=starts, shape=node.shape)


pad_windows: Final = NodeRule(frozenset({"place", "slice"}), is_window, window_of)


def is_joined_in_product(node: Node, consumers: list[Node]) -> bool:
    """Whether a product is the only reader of a concatenation, and contracts the concatenated axis."""
    if not is_joined_last(node):
        return False
    (reader, *others) = consumers or [node]
    return not others and reader.is_product and reader.inputs[0] is node and reader.inputs[1] is not node


def is_joined_last(node: Node) -> bool:
    """Whether a node concatenates a few arrays of fixed sizes along their last axis."""
    if not node.has("parts") or len(node.shape) < 2 or node.attr("axis") != len(node.shape) - 1:
        return False
    return all(map(is_fixed, node.shape)) and 2 <= len(node.inputs) <= _MOST_PARTS
