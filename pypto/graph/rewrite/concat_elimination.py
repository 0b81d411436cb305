"""Concat elimination: padded windows and products of concatenated arrays read the parts, and no joined array is stored.

A slice of an array that is padded with zeros is a window: a kernel reads the array itself, and elements outside of it
read as 0. A product whose contracted axis is a concatenation is a sum of products:

    concat(x, y) @ w  ->  x @ w[:k] + y @ w[k:]

A convolution that is written as patches times weights therefore reads the image.
"""

from __future__ import annotations

import math
from typing import Any, Final

from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.types import TensorType

_MOST_PARTS: Final = 64


def window_of_place(graph: Graph, inputs: tuple[Node, ...], attrs: dict[str, Any], place: Any) -> Node | None:
    """An array within zeros as a window of it."""
    base, value = inputs
    if base.op != "constant" or base.type.dtype.is_bool or any(step != 1 for step in attrs["steps"]):
        return None
    number = base.attr("value")
    fixed = all(map(is_fixed, (*base.shape, *value.shape, *attrs["starts"])))
    if number != 0 or math.copysign(1, number) < 0 or not fixed or not value.type.size:
        return None
    return graph.add("window", value, place=place, starts=tuple(-s for s in attrs["starts"]), shape=base.shape)


def window_of_slice(graph: Graph, source: Node, attrs: dict[str, Any], place: Any) -> Node | None:
    """A part of a window is a window."""
    if source.op != "window" or any(step != 1 for step in attrs["steps"]):
        return None
    starts = tuple(a + b for a, b in zip(source.attr("starts"), attrs["starts"], strict=True))
    return graph.add("window", *source.inputs, place=place, starts=starts, shape=attrs["shape"])


def fold_window(graph: Graph, inputs: tuple[Node, ...], attrs: dict[str, Any], type: TensorType, place: Any) -> Any:
    """A window within its array is a slice, one beside it is zeros."""
    (x,) = inputs
    spans = [(a, a + n, size) for a, n, size in zip(attrs["starts"], type.shape, x.shape, strict=True)]
    if all(first >= 0 and last <= size for first, last, size in spans):
        return graph.add("slice", x, place=place, starts=attrs["starts"], shape=type.shape, steps=(1,) * len(spans))
    if type.size and any(last <= 0 or first >= size for first, last, size in spans):
        return graph.constant(0, type, place)
    return None


def fold_concat(graph: Graph, inputs: tuple[Node, ...], attrs: dict[str, Any], type: TensorType, place: Any) -> Any:
    """One array alone is joined with nothing."""
    return inputs[0] if len(inputs) == 1 else None


def is_joined_in_product(node: Node, consumers: list[Node]) -> bool:
    """Whether arrays are joined for a product alone, along the axis that it contracts."""
    if node.op != "concat" or len(node.shape) < 2 or node.attr("axis") != len(node.shape) - 1:
        return False
    if not all(map(is_fixed, node.shape)) or not 2 <= len(node.inputs) <= _MOST_PARTS:
        return False
    (reader, *others) = consumers or [node]
    return not others and reader.op == "dot" and reader.inputs[0] is node and reader.inputs[1] is not node
