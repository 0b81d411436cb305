"""Gather push-down: `f(x)[i]` becomes `f(x[i])`, so that only selected elements are computed.

``(x - y)[i] = x[i] - y[i]`` holds for every elementwise operation. Where an index selects few elements, the whole
array need not exist: a cross-entropy reads one logit of a row and not all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.types import TensorType
from pypto.graph.rewrite.simplify import Inputs, NodeRule
from pypto.ops.table import TABLE

_MOST: Final = 32  # operations that are computed for the picked elements
_FEWER: Final = 4  # how many times fewer these are


def is_computed_late(source: Node, elements: int) -> bool:
    """Whether a source's operations may run on the selected elements only."""
    if not is_elementwise(source) or elements * _FEWER > source.type.size:
        return False
    return len(ancestors(source)) <= _MOST


def computed_late(graph: Graph, source: Node, pick: Callable[[Node], Node]) -> Node:
    """Build a source's operations on the elements that `pick` selects from operands of the source's rank.

    A constant operand becomes a scalar, and an operand of lower rank gets dimensions of size 1.
    """
    members = ancestors(source)
    copies: dict[Node, Node] = {}
    rank = len(source.shape)
    for node in members:
        operands = []
        for x in node.inputs:
            if x.is_constant:
                copies[x] = graph.constant(x.attr("value"), TensorType((), x.type.dtype), x.place)
            elif x not in copies:
                aligned = graph.add("reshape", x, place=x.place, shape=(*(1,) * (rank - len(x.shape)), *x.shape))
                copies[x] = pick(aligned)
            operands.append(copies[x])
        copies[node] = graph.add(node.op, *operands, place=node.place, **dict(node.attrs))
    return copies[source]


def is_elementwise(node: Node) -> bool:
    return node.op in TABLE and TABLE[node.op].elementwise


def ancestors(source: Node) -> list[Node]:
    """Return the distinct elementwise operations behind a node in order, at most one more than the limit."""
    cone = {source}
    waiting = [source]
    while waiting and len(cone) <= _MOST:
        for x in waiting.pop().inputs:
            if is_elementwise(x) and x not in cone:
                cone.add(x)
                waiting.append(x)
    return sorted(cone, key=lambda node: node.number)


def take_where(graph: Graph, source: Node, indices: tuple[Node, ...], axis: int, place: Any) -> Node | None:
    """Build an elementwise operation on the operands' elements at several index arrays of one shape."""

    def pick(x: Node) -> Node:
        wanted = [(n, i) for n, i in zip(x.shape[axis : axis + len(indices)], indices, strict=True) if n != 1]
        shape = indices[0].shape if wanted else (1,) * len(indices[0].shape)
        trailing = x.shape[axis + len(indices) :]
        if not wanted:
            return graph.add("reshape", x, place=place, shape=(*x.shape[:axis], *shape, *trailing))
        flat = graph.add("reshape", x, place=place, shape=(*x.shape[:axis], math.prod(n for n, _ in wanted), *trailing))
        return graph.add("take", flat, flat_index(graph, wanted, place), place=place, axis=axis)

    shape = (*source.shape[:axis], *indices[0].shape, *source.shape[axis + len(indices) :])
    if not is_computed_late(source, math.prod(shape)):
        return None
    return graph.add("broadcast_to", computed_late(graph, source, pick), place=place, shape=shape)


def flat_index(graph: Graph, picked: list[tuple[int, Node]], place: Any) -> Node:
    """Flatten index arrays of adjacent dimensions to one index array of the merged dimension."""
    (_, total), *others = picked
    for size, index in others:
        step = graph.constant(size, TensorType((), total.type.dtype), place)
        total = graph.add("add", graph.add("mul", total, step, place=place), index, place=place)
    return total


def fits(node: Node, inputs: Inputs) -> bool:
    """Whether a gather selects few elements of an elementwise result."""
    source, index = inputs
    size = source.shape[node.attr("axis")]
    if not all(map(is_fixed, (*source.shape, *index.shape))) or size == 1:
        return False
    return is_computed_late(source, node.type.size)


def take_few(graph: Graph, node: Node, inputs: Inputs) -> Node:
    """Replace `take` of an elementwise operation by that operation on `take` of its operands."""
    source, index = inputs
    attrs = dict(node.attrs)
    axis, batch = attrs["axis"], attrs.get("batch", 0)

    def pick(x: Node) -> Node:
        if x.shape[axis] == 1:
            inner = (1,) * (len(index.shape) - batch)
            return graph.add("reshape", x, place=node.place, shape=(*x.shape[:axis], *inner, *x.shape[axis + 1 :]))
        if batch:
            x = graph.add("broadcast_to", x, place=node.place, shape=(*index.shape[:batch], *x.shape[batch:]))
        return graph.add("take", x, index, place=node.place, **attrs)

    result = computed_late(graph, source, pick)
    return (
        result if result.shape == node.shape else graph.add("broadcast_to", result, place=node.place, shape=node.shape)
    )


push_down_gathers: Final = NodeRule(frozenset({"take"}), fits, take_few)
