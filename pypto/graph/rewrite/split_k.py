"""Split-K: a product with few results over a long contracted axis becomes a sum of products over pieces of the axis.

If the result has only one or two tiles, as a Gram matrix has, splitting its rows makes every thread pack the full
other operand. Splitting the contracted axis divides that work. The pieces do not depend on the number of threads, so
the sums do not either.
"""

from __future__ import annotations

from typing import Final

from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import Graph, Node
from pypto.graph.rewrite.node_rule import Inputs, NodeRule
from pypto.ops.table import MOVEMENT_OPS

LONG: Final = 1 << 12  # elements of the axis
_LEAST_PART: Final = 1 << 10
_MOST_PARTS: Final = 16
_FEW_PARTS: Final = 4
_MOST_RESULTS: Final = 1 << 16


def parts_of(a: Node, b: Node) -> int:
    """Choose the number of pieces of the contracted axis of a product; 0 means that it is not split."""
    shapes = (*a.shape, *b.shape)
    if len(shapes) != 4 or not all(map(is_fixed, shapes)) or not lie_in_memory(a, b):
        return 0
    if min(a.type.dtype.bits, b.type.dtype.bits) < 32:
        return 0  # sums of parts would be rounded to few bits
    (rows, depth), columns = a.shape, b.shape[1]
    if depth < LONG or not 0 < rows * columns <= _MOST_RESULTS:
        return 0
    most = min(_MOST_PARTS, depth // _LEAST_PART)
    return next((n for n in range(most, _FEW_PARTS - 1, -1) if depth % n == 0), 0)


def product_by_parts(graph: Graph, node: Node, inputs: Inputs) -> Node:
    """Build the sum of the products over the pieces."""
    a, b = inputs
    parts, place = parts_of(a, b), node.place
    (rows, depth), columns = a.shape, b.shape[1]
    left = graph.add("reshape", a, place=place, shape=(rows, parts, depth // parts))
    left = graph.add("permute", left, place=place, dims=(1, 0, 2))
    right = graph.add("reshape", b, place=place, shape=(parts, depth // parts, columns))
    each = graph.add("dot", left, right, place=place)
    return graph.add("sum", each, place=place, axes=(0,), keep_dims=False)


def lie_in_memory(a: Node, b: Node) -> bool:
    """Whether the operands are in memory: arguments, or one array in two layouts, which must be stored anyway.

    The rewrite does not split an axis that a reshape merges from permuted axes, because a piece may end inside one.
    """
    bases = [a, b]
    for n in (0, 1):
        if bases[n].is_reshape and bases[n].inputs[0].op in MOVEMENT_OPS:
            return False
        while bases[n].op in MOVEMENT_OPS:
            bases[n] = bases[n].inputs[0]
    return bases[0] is bases[1] or all(x.is_input for x in bases)


split_products: Final = NodeRule(frozenset({"dot"}), lambda node, inputs: parts_of(*inputs) > 0, product_by_parts)
