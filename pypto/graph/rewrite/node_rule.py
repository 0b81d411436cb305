"""Rewrite rules on nodes: a rule replaces each node of certain ops that satisfies its condition.

If no node does, the graph is returned unchanged. Otherwise a new graph is built in the order of the old one, and the
replacement has the position of the node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pypto.graph.ir.node import Graph, Node
from pypto.graph.rewrite.simplify import SimplifiedGraph

Inputs = tuple[Node, ...]


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
    """

    ops: frozenset[str]
    fits: Callable[[Node, Inputs], bool]
    build: Callable[[Graph, Node, Inputs], Node]

    def __call__(self, graph: Graph) -> Graph:
        """Return the rewritten graph."""
        nodes = graph.live()
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
