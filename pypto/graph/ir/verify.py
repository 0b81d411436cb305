"""The verifier of Tensor graphs: every node has the type that its rule gives, and follows its inputs."""

from __future__ import annotations

from pypto.errors.graph import InvalidGraph
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.type_rules import infer, may_propagate_nan, rule_of
from pypto.ops.table import TABLE

DECLARED = ("input", "constant", "extent", "call")  # their type is given by who makes them


def verify(graph: Graph) -> None:
    """Refuse a graph that breaks a rule.

    Raises
    ------
    InvalidGraph
        With the node and its user's line.
    """
    seen = set[Node]()
    for node in graph.live():
        problem = problem_of(node, seen)
        if problem:
            raise InvalidGraph(node.loc if node.place else None, op=node.op, problem=problem)
        seen.add(node)
    missing = [node for node in graph.outputs if node not in seen]
    if missing:
        raise InvalidGraph(None, op=missing[0].op, problem="an output is no node of the graph")


def problem_of(node: Node, seen: set[Node]) -> str:
    """Return the violated rule of a node, or an empty string."""
    if rule_of(node.op) is None:
        return "there is no such op on arrays"
    if any(x not in seen for x in node.inputs):
        return "an input is defined after it"
    attrs = dict(node.attrs)
    extra = ("propagate_nan",) if may_propagate_nan(node.op) else ()
    unknown = attrs.keys() - {*TABLE[node.op].attributes, *TABLE[node.op].options, *extra} if node.op in TABLE else ()
    if unknown:
        return f"it has no attribute `{min(unknown)}`"
    if node.op in DECLARED:
        return ""
    try:
        expected = infer(node.op, [x.type for x in node.inputs], attrs)
    except (TypeError, KeyError, IndexError, ValueError) as error:
        return str(error)
    return "" if expected == node.type else f"it is {node.type}, but its rule gives {expected}"
