"""Redundant NaN test elimination: leaves out the test behind a maximum if every result is NaN without it.

numpy's maximum is NaN if any element is; the maximum of the kernel language is not. So a test and a select follow it.
In a softmax the test is redundant: the sum of the exponentials is NaN in such a row, and so is every quotient.

Legality: each array that the group stores, and that depends on the select, is NaN in all its elements of such a row.
Two properties prove this. An array is *strict* if it is NaN where the operand of the maximum is. It is *poisoned* if
it is NaN in whole rows: the sum of a strict array along a row is poisoned, and so is the result of arithmetic on a
poisoned array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pypto.graph.ir.node import Node
from pypto.graph.schedule.index_space import IndexSpace, flat, operand, reduced_axes
from pypto.graph.schedule.online_softmax import is_nan_test

STRICT: Final = frozenset({  # NaN for an operand that is NaN, whatever the others are
    "add", "sub", "mul", "div", "neg", "abs", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt",
    "tanh", "erf", "sigmoid", "sin", "cos",
})  # fmt: skip
RENAMING: Final = frozenset({"reshape", "broadcast_to", "copy"})  # elements stay at their axes


def redundant_tests(space: IndexSpace) -> Mapping[Node, Node]:
    """Choices of NaN that no result needs, each with the extreme that it stands for."""
    members = set(space.nodes)
    found = {}
    for node in space.nodes:
        if node.op != "where" or node in space.outputs:
            continue
        extreme = node.inputs[2]
        is_choice = extreme in members and extreme.op in ("max", "min") and is_nan_test(node, extreme)
        if is_choice and node.inputs[0] in members and is_redundant(space, node, extreme):
            found[node] = extreme
    return found


def is_redundant(space: IndexSpace, choice: Node, extreme: Node) -> bool:
    """Whether all stored arrays that depend on a choice are NaN without it, in the rows for which it is NaN."""
    row = set(reduced_axes(extreme, space.values, space.reads))
    line = flat(operand(extreme, 0, space.values, space.reads))
    source = extreme.inputs[0]
    dependent, strict, poisoned = {choice}, set[Node](), set[Node]()
    for node in space.nodes:
        if any(x in dependent for x in node.inputs):
            dependent.add(node)
        if node.op == "sum":
            along = set(reduced_axes(node, space.values, space.reads))
            if along == row and node.inputs[0] in strict:
                poisoned.add(node)
        elif node.op in RENAMING or is_strict(node):
            if any(x in poisoned for x in node.inputs):
                poisoned.add(node)
            reads_source = any(
                x is source and flat(operand(node, n, space.values, space.reads)) == line
                for n, x in enumerate(node.inputs)
            )
            if reads_source or any(x in strict for x in node.inputs):
                strict.add(node)
    return all(node in poisoned for node in space.outputs if node in dependent)


def is_strict(node: Node) -> bool:
    """Whether a node is NaN for an operand that is NaN, whatever the others are."""
    is_rounding = node.op == "cast" and node.type.dtype.is_float and node.inputs[0].type.dtype.is_float
    return node.op in STRICT or is_rounding


def unread(space: IndexSpace, choices: Mapping[Node, Node]) -> frozenset[Node]:
    """Tests of choices that are left out, which nothing else reads."""
    readers: dict[Node, set[Node]] = {}
    for node in space.nodes:
        for x in node.inputs:
            readers.setdefault(x, set()).add(node)
    gone = set(choices)
    for choice in choices:
        test = choice.inputs[0]
        for node in (test, test.inputs[0]):
            if node not in space.outputs and readers.get(node, set()) <= gone:
                gone.add(node)
    return frozenset(gone.difference(choices))
