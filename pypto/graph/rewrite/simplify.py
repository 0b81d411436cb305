"""Simplification while a graph is built, and rewrite rules on the nodes of a graph.

A graph folds chains of movements, casts without effect, and constants while nodes are added to it. A rewrite rule
replaces each node of certain ops that satisfies its condition. If no node does, the graph is returned unchanged.
Otherwise a new graph is built in the order of the old one, and the replacement has the position of the node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.movements import MOVEMENTS
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.reference import apply
from pypto.graph.ir.types import PARTS, TensorType
from pypto.ir.types import DType
from pypto.ops.table import REDUCTIONS, TABLE

Inputs = tuple[Node, ...]


class SimplifiedGraph(Graph):
    """A graph that simplifies every node that is added; tracing records a function in such a graph.

    Examples
    --------
    >>> from pypto.ir.types import float32
    >>> graph = SimplifiedGraph("same")
    >>> x = graph.input("x", TensorType((2, 3), float32))
    >>> graph.add("reshape", x, shape=(2, 3)) is x
    True
    """

    __slots__ = ()

    def simplified(self, op: str, inputs: Inputs, attrs: dict[str, Any], type: TensorType, place: Any) -> Node | None:
        return fold(self, op, inputs, attrs, type, place)


def fold(graph: Graph, op: str, inputs: Inputs, attrs: dict[str, Any], type: TensorType, place: Any) -> Node | None:
    """Return an equivalent simpler node, or None."""
    if op in MOVEMENTS:
        return moved(graph, op, inputs, attrs, type, place)
    if op in FOLDS:
        folded: Node | None = FOLDS[op](graph, inputs, attrs, type, place)
        if folded is not None:
            return folded
    if op in REDUCTIONS:
        is_number = inputs[0].is_constant and all(map(is_fixed, inputs[0].shape))
        make = reduced_number if is_number else reduced_before
        return make(graph, op, inputs, attrs, type, place)
    if inputs and not inputs[-1].is_constant:
        return None
    row = TABLE.get(op)
    if row is not None and row.elementwise and all(x.is_constant for x in inputs):
        return of_numbers(graph, op, inputs, attrs, type, place)
    return None


def of_numbers(graph: Graph, op: str, inputs: Inputs, attrs: dict[str, Any], type: TensorType, place: Any) -> Node:
    """Constant folding: evaluate an elementwise op on numbers by the reference of its row."""
    numbers = [np.asarray(x.attr("value"), x.type.dtype.numpy) for x in inputs]
    result = apply(op, numbers, attrs, TensorType((), type.dtype))
    return graph.constant(result.item() if type.dtype.bits != 16 else float(result), type, place)


def moved(graph: Graph, op: str, inputs: Inputs, attrs: dict[str, Any], type: TensorType, place: Any) -> Node | None:
    """A movement that moves nothing, two of one kind as one, and one of a number."""
    (x,), row = inputs, MOVEMENTS[op]
    if op in PARTS:
        return part_of(graph, op, x, type, place)
    if row.is_identity(x.shape, attrs):
        return x
    if x.op == op and row.composed is not None:
        return graph.add(op, *x.inputs, place=place, **row.composed(dict(x.attrs), attrs))
    return graph.constant(x.attr("value"), type, place) if x.is_constant else None


def part_of(graph: Graph, op: str, x: Node, type: TensorType, place: Any) -> Node | None:
    """The part of a pair, of a number, and of a movement, whose part is moved instead."""
    if x.has("pair"):
        source = x.inputs[PARTS.index(op)]
        return source if source.shape == type.shape else graph.add("broadcast_to", source, shape=type.shape)
    if x.is_constant:
        return graph.constant(getattr(x.attr("value"), op), type, place)
    if x.is_movement:
        return graph.add(x.op, graph.add(op, *x.inputs, place=place), place=x.place, **dict(x.attrs))
    return None


def fold_complex(graph: Graph, inputs: Inputs, attrs: dict[str, Any], type: TensorType, place: Any) -> Node | None:
    """Fold a pair of the two parts of one array into the array."""
    real, imag = inputs
    if all(x.is_constant and repr(x.attr("value")) == "0.0" for x in inputs):
        return graph.constant(0, type, place)
    if (real.op, imag.op) == PARTS and real.inputs == imag.inputs:
        return real.inputs[0]
    if real.is_movement and real.op == imag.op and real.attrs == imag.attrs and real.op not in PARTS:
        array = fold_complex(graph, (real.inputs[0], imag.inputs[0]), attrs, type, place)
        return None if array is None else graph.add(real.op, array, place=real.place, **dict(real.attrs))
    return None


def fold_cast(graph: Graph, inputs: Inputs, attrs: dict[str, Any], type: TensorType, place: Any) -> Node | None:
    """Fold casts without effect, casts that undo a lossless cast, and casts of a choice between numbers."""
    (x,) = inputs
    if x.type == type:
        return x
    if x.op == "cast" and x.inputs[0].type == type and widens(type.dtype, x.type.dtype):
        return x.inputs[0]
    if x.op == "where" and any(y.is_constant for y in x.inputs[1:]):
        condition, *values = x.inputs
        casts = [graph.add("cast", y, place=place, **attrs) for y in values]
        return graph.add("where", condition, *casts, place=x.place)
    return None


def fold_take(graph: Graph, inputs: Inputs, attrs: dict[str, Any], type: TensorType, place: Any) -> Node | None:
    """Fold a gather along an axis of one element into a broadcast of that element."""
    source, index = inputs
    axis, batch = attrs["axis"], attrs.get("batch", 0)
    if source.is_constant:
        return graph.constant(source.attr("value"), type, place)
    if not is_fixed(source.shape[axis]) or source.shape[axis] != 1:
        return None
    ones = (1,) * (len(index.shape) - batch)
    shape = (*source.shape[:axis], *ones, *source.shape[axis + 1 :])
    return graph.add(
        "broadcast_to", graph.add("reshape", source, place=place, shape=shape), place=place, shape=type.shape
    )


def fold_place(graph: Graph, inputs: Inputs, attrs: dict[str, Any], type: TensorType, place: Any) -> Node | None:
    value = inputs[1]
    if value.shape == type.shape and all(step == 1 for step in attrs["steps"]):
        return value
    return None


def fold_window(graph: Graph, inputs: Inputs, attrs: dict[str, Any], type: TensorType, place: Any) -> Any:
    """Fold a window inside its array into a slice, and a window outside of it into a constant."""
    (x,) = inputs
    parts = zip(attrs["starts"], type.shape, x.shape, strict=True)
    spans = [(a, a + n, size) for a, n, size in parts if a or n != size]
    if all(first >= 0 and last <= size for first, last, size in spans):
        return graph.add("slice", x, place=place, starts=attrs["starts"], shape=type.shape, steps=(1,) * len(x.shape))
    if type.size and any(last <= 0 or first >= size for first, last, size in spans):
        return graph.constant(attrs.get("fill", 0), type, place)
    return None


def fold_concat(graph: Graph, inputs: Inputs, attrs: dict[str, Any], type: TensorType, place: Any) -> Any:
    """Fold a concatenation of one array into that array."""
    return inputs[0] if len(inputs) == 1 else None


def reduced_before(
    graph: Graph, op: str, inputs: Inputs, attrs: dict[str, Any], type: TensorType, place: Any
) -> Node | None:
    """Reuse an existing reduction that differs only in `keep_dims`."""
    other = {**attrs, "keep_dims": not attrs["keep_dims"]}
    twin = graph.find(op, inputs, other)
    return None if twin is None else graph.add("reshape", twin, place=place, shape=type.shape)


def reduced_number(
    graph: Graph, op: str, inputs: Inputs, attrs: dict[str, Any], type: TensorType, place: Any
) -> Node | None:
    """Fold the reduction of an array that has one number in all elements."""
    (x,) = inputs
    array = np.broadcast_to(np.asarray(x.attr("value"), x.type.dtype.numpy), x.shape)
    if not array.size:
        return None
    result = apply(op, [array], attrs, type)
    number = result.flat[0].item() if result.size else 0
    return graph.constant(float(number) if type.dtype.is_float else number, type, place)


def widens(a: DType, b: DType) -> bool:
    """Whether a cast from one type to another is lossless."""
    return a != b and bool(np.can_cast(a.numpy, b.numpy, "safe"))


FOLDS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "cast": fold_cast,
        "complex": fold_complex,
        "take": fold_take,
        "place": fold_place,
        "window": fold_window,
        "concat": fold_concat,
    }
)


@dataclass(frozen=True, slots=True)
class NodeRule:
    """A rewrite rule: if `fits` accepts a node and its operands, `build` makes the replacement.

    Parameters
    ----------
    ops : frozenset of str
    fits : callable
        Takes a node and its operands, some of which may already be rewritten.
    build : callable
        Takes the new graph, the node of the old graph, and its operands in the new graph.
    with_any : frozenset of str, optional
        Ops of which a graph must have one for any node to fit: graphs without them are left at once.
    """

    ops: frozenset[str]
    fits: Callable[[Node, Inputs], bool]
    build: Callable[[Graph, Node, Inputs], Node]
    with_any: frozenset[str] = frozenset()

    def __call__(self, graph: Graph) -> Graph:
        """Return the rewritten graph."""
        nodes = graph.live()
        if self.with_any and not any(node.op in self.with_any for node in nodes):
            return graph
        if not any(node.op in self.ops and self.fits(node, node.inputs) for node in nodes):
            return graph
        target = SimplifiedGraph(graph.name, dims=graph.dims, guards=graph.guards)
        of: dict[Node, Node] = {}
        for node in nodes:
            inputs = tuple([of[x] for x in node.inputs])
            is_rewritten = node.op in self.ops and self.fits(node, inputs)
            of[node] = self.build(target, node, inputs) if is_rewritten else copied(target, node, inputs)
        target.inputs[:] = [of[x] for x in graph.inputs]
        for x in graph.outputs:
            target.outputs.append(own_array(target, of[x]) if of[x].op != x.op else of[x])
        return target


def copied(graph: Graph, node: Node, inputs: Inputs) -> Node:
    """Copy a node of another graph onto operands in this graph; `copy` nodes are not merged."""
    attrs = dict(node.attrs)
    if node.is_input:
        return graph.input(attrs["name"], node.type, node.place)
    if node.op == "copy":
        return graph.append(node.op, inputs, attrs, node.type, node.place)
    return graph.add(node.op, *inputs, place=node.place, type=node.type, **attrs)


def own_array(graph: Graph, node: Node) -> Node:
    """Copy a rewritten result that became a constant, an input or another result, since results share no memory."""
    is_there = node.is_source or node in graph.outputs
    return graph.append("copy", (node,), {}, node.type, node.place) if is_there else node
