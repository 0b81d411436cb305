"""Redundant NaN test elimination: omits the test after a maximum if every result is NaN without it.

numpy's maximum is NaN if any element is, which a node says by `propagate_nan`; the maximum of the kernel language
ignores NaN. So a kernel tests for NaN beside the maximum. In a softmax the test is redundant: the sum of the
exponentials is NaN in such a row, and so is every quotient.

Legality: each array that the group stores, and that depends on the maximum, is NaN in all its elements of such a row.
Two properties prove this. An array is *strict* if it is NaN where the operand of the maximum is. It is *poisoned* if
it is NaN in whole rows: the sum of a strict array along a row is poisoned, and so is the result of arithmetic on a
poisoned array.
"""

from __future__ import annotations

from typing import Final

from pypto.graph.ir.node import Node
from pypto.graph.ir.op_facts import is_strict
from pypto.graph.schedule.index_space import IndexSpace, flat, operand, reduced_axes
from pypto.ops.table import TABLE

RENAMING: Final = frozenset({"reshape", "broadcast_to", "copy"})  # elements stay at their axes


def propagates_nan(node: Node) -> bool:
    """Whether a reduction propagates NaN although the reduction of the kernel language ignores it."""
    return bool(dict(node.attrs).get("propagate_nan")) and "reduction" in TABLE[node.op].traits


def is_redundant(space: IndexSpace, extreme: Node) -> bool:
    """Whether a NaN test is redundant: without it, all stored arrays that depend on the result are NaN as well."""
    row = set(reduced_axes(extreme, space.values, space.reads))
    line = flat(operand(extreme, 0, space.values, space.reads))
    source = extreme.inputs[0]
    dependent, strict, poisoned = {extreme}, set[Node](), set[Node]()
    for node in space.nodes:
        if any(x in dependent for x in node.inputs):
            dependent.add(node)
        if node.op == "sum":
            along = set(reduced_axes(node, space.values, space.reads))
            if along == row and node.inputs[0] in strict:
                poisoned.add(node)
        elif node.op in RENAMING or is_strict_node(node):
            if any(x in poisoned for x in node.inputs):
                poisoned.add(node)
            reads_source = any(
                x is source and flat(operand(node, n, space.values, space.reads)) == line
                for n, x in enumerate(node.inputs)
            )
            if reads_source or any(x in strict for x in node.inputs):
                strict.add(node)
    return all(node in poisoned for node in space.outputs if node in dependent)


def is_strict_node(node: Node) -> bool:
    """Whether a node is NaN if any operand is NaN."""
    is_rounding = node.op == "cast" and node.type.dtype.is_float and node.inputs[0].type.dtype.is_float
    return is_rounding or is_strict(node.op)
