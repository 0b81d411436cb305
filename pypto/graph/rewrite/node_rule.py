"""A rewrite of a graph, one node at a time: what an op becomes where a condition holds.

A graph in which the condition holds nowhere stays as it is. Else a new graph is built in the order of the old one, so
that what a node becomes stands where the node stood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pypto.graph.ir.node import Graph, Node
from pypto.graph.rewrite.simplify import SimplifiedGraph

Inputs = tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class NodeRule:
    """Where `fits` holds for a node of one of some ops and for its operands, `build` gives what stands for it.

    Parameters
    ----------
    ops : frozenset of str
    fits : callable
        Takes a node and its operands, of which some may have been rewritten already.
    build : callable
        Takes the new graph, the node of the old one, and its operands in the new one.
    """

    ops: frozenset[str]
    fits: Callable[[Node, Inputs], bool]
    build: Callable[[Graph, Node, Inputs], Node]

    def __call__(self, graph: Graph) -> Graph:
        """The rewritten graph."""
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
    """A node of another graph on operands in this one; a copy of an array stays one, though there is another."""
    attrs = dict(node.attrs)
    if node.is_input:
        return graph.input(attrs["name"], node.type, node.place)
    if node.op == "copy":
        return graph.append(node.op, inputs, attrs, node.type, node.place)
    return graph.add(node.op, *inputs, place=node.place, type=node.type, **attrs)


def own_array(graph: Graph, node: Node) -> Node:
    """A result that has become a number or an array that is there, as an array of its own."""
    is_there = node.is_source or node in graph.outputs
    return graph.append("copy", (node,), {}, node.type, node.place) if is_there else node
