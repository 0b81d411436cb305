"""Batching rules: what an op on arrays becomes for stacks of arrays, as a table by op and by trait of its row.

An operand is a stack if it has the mapped axis as its first dimension; other operands are equal for all elements of the
axis. Most ops get one more leading dimension, which changes some attributes: `ATTRIBUTES` has them, and other operands
are broadcast. `RULES` has the ops for which this is illegal or slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.graph.ir.movements import MOVEMENTS
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.node_table import NODES
from pypto.graph.ir.types import TensorType
from pypto.ir.types import int64
from pypto.ops.table import TABLE

Attrs = Mapping[str, Any]
Rule = Callable[[Graph, Node, Sequence[Node], Sequence[bool], Any], Node]


def move_axis(attrs: Attrs, size: Any) -> dict[str, Any]:
    return {"axis": attrs["axis"] + 1}


def move_axes(attrs: Attrs, size: Any) -> dict[str, Any]:
    return {"axes": tuple(axis + 1 for axis in attrs["axes"])}


def whole_axis(attrs: Attrs, size: Any) -> dict[str, Any]:
    """The whole mapped axis beside a slice, window or rotation of the others."""
    every = {"starts": 0, "steps": 1, "shape": size, "shifts": 0}
    return {name: (first, *attrs[name]) for name, first in every.items() if name in attrs}


# What changes in the attributes of an op whose operands are all stacks.
ATTRIBUTES: Final[Mapping[str, Callable[[Attrs, Any], dict[str, Any]]]] = MappingProxyType(
    {
        **dict.fromkeys(("scan", "argsort", "sort", "argtopk", "concat"), move_axis),
        **dict.fromkeys(("reduction", "arg_reduction"), move_axes),
        **dict.fromkeys(("slice", "window", "place", "roll", "reshape"), whole_axis),
        "permute": lambda attrs, size: {"dims": (0, *(d + 1 for d in attrs["dims"]))},
        "copy": lambda attrs, size: {},
    }
)


def stacked(graph: Graph, node: Node, is_stack: bool, size: Any, rank: int | None = None) -> Node:
    """Return a stack of an operand; `rank` is the number of dimensions of each element, with ones in front."""
    if is_stack:
        ones = (1,) * (0 if rank is None else rank - len(node.shape) + 1)
        return graph.add("reshape", node, shape=(node.shape[0], *ones, *node.shape[1:])) if ones else node
    ones = (1,) * (0 if rank is None else rank - len(node.shape))
    return graph.add("broadcast_to", node, shape=(size, *ones, *node.shape))


def batched(graph: Graph, node: Node, inputs: Sequence[Node], stacks: Sequence[bool], size: Any) -> Node | None:
    """Return the stack that an op gives for operands of which some are stacks, or None for an op without a rule."""
    names = (node.op, *sorted((NODES.get(node.op) or TABLE.get(node.op)).traits if node.op not in MOVEMENTS else ()))  # type: ignore[union-attr]
    rule = next((RULES[name] for name in names if name in RULES), None)
    if rule is not None:
        return rule(graph, node, inputs, stacks, size)
    change = next((ATTRIBUTES[name] for name in names if name in ATTRIBUTES), None)
    if change is None:
        return None
    attrs = dict(node.attrs)
    operands = [stacked(graph, x, is_stack, size) for x, is_stack in zip(inputs, stacks, strict=True)]
    return graph.add(node.op, *operands, place=node.place, **{**attrs, **change(attrs, size)})


def elementwise(graph: Graph, node: Node, inputs: Sequence[Node], stacks: Sequence[bool], size: Any) -> Node:
    """Align the dimensions of stacks behind the mapped axis; other operands broadcast as they are."""
    rank = len(node.shape)
    operands = [stacked(graph, x, True, size, rank) if s else x for x, s in zip(inputs, stacks, strict=True)]
    return graph.add(node.op, *operands, place=node.place, **dict(node.attrs))


def broadcast_to(graph: Graph, node: Node, inputs: Sequence[Node], stacks: Sequence[bool], size: Any) -> Node:
    source = stacked(graph, inputs[0], True, size, len(node.shape))
    return graph.add("broadcast_to", source, place=node.place, shape=(size, *node.shape))


def dot(graph: Graph, node: Node, inputs: Sequence[Node], stacks: Sequence[bool], size: Any) -> Node:
    """Multiply stacks; the rows of all elements are those of one product if the second operand is one matrix."""
    (x, y), shape = inputs, (size, *node.shape)
    if not stacks[1] and len(y.shape) == 2 and len(node.shape) == 2:
        rows = graph.add("reshape", x, shape=(size * x.shape[-2], x.shape[-1]))
        return graph.add("reshape", graph.add("dot", rows, y, place=node.place), shape=shape)
    return elementwise(graph, node, inputs, stacks, size)


def take(graph: Graph, node: Node, inputs: Sequence[Node], stacks: Sequence[bool], size: Any) -> Node:
    """Gather in each element: with equal indices along one axis more, else with the mapped axis as that of a batch."""
    (source, index), attrs = inputs, dict(node.attrs)
    axis, batch, add = attrs["axis"], attrs.get("batch", 0), partial(graph.add, "take", place=node.place)
    if batch == 0 and not stacks[1]:
        return add(source, index, axis=axis + 1)
    if batch == 0 and not stacks[0]:
        return moved(graph, add(source, index, axis=axis), axis, 0)
    source, index = (stacked(graph, x, s, size) for x, s in zip(inputs, stacks, strict=True))
    if batch == axis:
        return add(source, index, axis=axis + 1, batch=axis + 1)
    picked = add(moved(graph, source, axis + 1, 1), index, axis=1, batch=1)
    count = len(index.shape) - 1
    order = (0, *range(1 + count, 1 + count + axis), *range(1, 1 + count), *range(1 + count + axis, len(picked.shape)))
    return graph.add("permute", picked, dims=order)


def put(graph: Graph, node: Node, inputs: Sequence[Node], stacks: Sequence[bool], size: Any) -> Node:
    """Update all elements as one array, in which the indices of an element are moved by what stands ahead of it."""
    axis, rank = node.attr("axis"), len(node.inputs[1].shape)
    base, index, value = inputs
    base, value = stacked(graph, base, stacks[0], size), stacked(graph, value, stacks[2], size)
    attrs = {**dict(node.attrs), "axis": axis + 1}
    if not stacks[1]:
        return graph.add("put", base, index, value, place=node.place, **attrs)
    front = moved(graph, base, axis + 1, 1)
    count, remainder = front.shape[1], front.shape[2:]
    dims = len(value.shape)
    order = (0, *range(1 + axis, 1 + axis + rank), *range(1, 1 + axis), *range(1 + axis + rank, dims))
    values = graph.add("permute", value, dims=order)
    flat = graph.add("reshape", front, shape=(size * count, *remainder))
    result = graph.add(
        "put", flat, moved_indices(graph, index, count, size), values, place=node.place, axis=0, how=node.attr("how")
    )
    return moved(graph, graph.add("reshape", result, shape=front.shape), 1, axis + 1)


def moved_indices(graph: Graph, index: Node, count: Any, size: Any) -> Node:
    """Return indices into all elements as one array; one that is out of range in its element is so in the array."""
    add, number = graph.add, partial(graph.constant, type=TensorType((), int64))
    widened = add("cast", index, dtype=int64)
    first = add("mul", add("cast", add("arange", start=0, end=size), dtype=int64), number(count))
    start = add("reshape", first, shape=(size, *(1,) * (len(index.shape) - 1)))
    is_inside = add("and_", add("ge", widened, number(0)), add("lt", widened, number(count)))
    return add("where", is_inside, add("add", widened, start), number(np.iinfo(np.int32).max))


def moved(graph: Graph, node: Node, source: int, target: int) -> Node:
    """Move one dimension of an array to another place."""
    dims = [d for d in range(len(node.shape)) if d != source]
    dims.insert(target, source)
    return graph.add("permute", node, dims=tuple(dims))


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {"elementwise": elementwise, "broadcast_to": broadcast_to, "dot": dot, "take": take, "put": put}
)
