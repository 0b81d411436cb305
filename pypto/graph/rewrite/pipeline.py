"""The pass list of rewrites, and the rules on products and long reductions.

Each pass replaces a traced graph by an equivalent, cheaper graph.

* Late division: the division of rows by their sums commutes with a product that contracts the rows, so that a softmax
  divides results instead of weights. It holds where `s` is the sum of `a` itself: the quotients are at most 1, so no
  result overflows that did not::

      (a / s) @ y  =  (a @ y) / s        where s has one element for each row

* Narrow products: a product of the kernel language accumulates 8-bit integers in 32 bits, so the casts change no
  result, and products of 8-bit operands are faster::

      cast(a, int32) @ cast(b, int32)  ->  a @ b

* Split-K: a product with few results over a long contracted axis becomes a sum of products over pieces of the axis. If
  the result has only one or two tiles, as a Gram matrix has, splitting its rows makes every thread pack the full other
  operand. Splitting the contracted axis divides that work.
* Split reduction: a full reduction becomes per-program partial results and one small final reduction. The partial
  results fuse into the kernel that computes the array.

The pieces of both do not depend on the number of threads, so the results do not either.
"""

from __future__ import annotations

import math
from typing import Final

from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.type_rules import is_in_pieces
from pypto.graph.ir.verify import verify
from pypto.graph.rewrite.concat_elimination import pad_windows, reshape_late
from pypto.graph.rewrite.gather_pushdown import push_down_gathers
from pypto.graph.rewrite.simplify import Inputs, NodeRule
from pypto.graph.rewrite.unpacking import unpack_by_choice
from pypto.ir.types import int32
from pypto.ops.table import MOVEMENT_OPS, TABLE
from pypto.passes.manager import DISABLE, Pass, run_unverified


def divides_by_sums(node: Node, inputs: Inputs) -> bool:
    """Whether the first operand of a product is a matrix whose rows are divided by their sums."""
    x = inputs[0]
    if x.op != "div" or x.inputs[0].type != x.type:
        return False
    a, b = x.inputs
    if len(b.shape) != len(x.shape) or b.shape[-1] != 1 or x.shape[-1] == 1 or node.type.dtype != x.type.dtype:
        return False
    total = b.inputs[0] if b.is_reshape else b
    return total.op == "sum" and total.inputs[0] is a


def divided_product(graph: Graph, node: Node, inputs: Inputs) -> Node:
    x, y = inputs
    a, total = x.inputs
    return graph.add("div", graph.add("dot", a, y, place=node.place), total, place=x.place)


divide_late: Final = NodeRule(frozenset({"dot"}), divides_by_sums, divided_product)


def is_widened(node: Node, inputs: Inputs) -> bool:
    """Whether both operands of a product are casts to int32 from one 8-bit type."""
    a, b = inputs
    if a.type.dtype != int32:
        return False
    left, right = widened(a), widened(b)
    if left is None or right is None:
        return False
    return left.type.dtype == right.type.dtype and left.type.dtype.bits == 8


def narrow_product(graph: Graph, node: Node, inputs: Inputs) -> Node:
    """Build the product of the operands before their casts."""
    sources = [x for x in map(widened, inputs) if x is not None]
    operands = (moved_alike(graph, x, source) for x, source in zip(inputs, sources, strict=True))
    return graph.add("dot", *operands, place=node.place)


def widened(node: Node) -> Node | None:
    """Return the integers before a widening cast, if only movements follow the cast, or None."""
    while node.op in MOVEMENT_OPS:
        node = node.inputs[0]
    return node.inputs[0] if node.op == "cast" and node.inputs[0].type.dtype.is_int else None


def moved_alike(graph: Graph, node: Node, source: Node) -> Node:
    """Apply the movements after a cast to the operand of the cast."""
    if node.op == "cast":
        return source
    return graph.add(node.op, moved_alike(graph, node.inputs[0], source), place=node.place, **dict(node.attrs))


narrow_products: Final = NodeRule(frozenset({"dot"}), is_widened, narrow_product)


_LONG_K: Final = 1 << 12  # elements of the axis
_LEAST_K: Final = 1 << 10
_MOST_K_PARTS: Final = 16
_FEW_K_PARTS: Final = 4
_MOST_RESULTS: Final = 1 << 16


def parts_of(a: Node, b: Node) -> int:
    """Choose the number of pieces of the contracted axis of a product; 0 means that it is not split."""
    shapes = (*a.shape, *b.shape)
    if len(shapes) != 4 or not all(map(is_fixed, shapes)) or not lie_in_memory(a, b):
        return 0
    if min(a.type.dtype.bits, b.type.dtype.bits) < 32:
        return 0  # sums of parts would be rounded to few bits
    (rows, depth), columns = a.shape, b.shape[1]
    if depth < _LONG_K or not 0 < rows * columns <= _MOST_RESULTS:
        return 0
    most = min(_MOST_K_PARTS, depth // _LEAST_K)
    return next((n for n in range(most, _FEW_K_PARTS - 1, -1) if depth % n == 0), 0)


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


LONG_REDUCTION: Final = 1 << 17  # elements that are reduced in parts
_LEAST_PART: Final = 1 << 10
_FEW_PARTS: Final = 8
_MOST_PARTS: Final = 256


def is_long(node: Node, inputs: Inputs) -> bool:
    """Whether a node reduces a long array to one element."""
    shape = inputs[0].shape
    if any(n != 1 for n in node.shape) or not all(map(is_fixed, shape)):
        return False
    return part_of(shape) is not None


def by_parts(graph: Graph, node: Node, inputs: Inputs) -> Node:
    """Build the reductions of the parts, and the reduction of their results."""
    cut = part_of(inputs[0].shape)
    assert cut is not None
    shape, axes = cut
    full = graph.add("reshape", inputs[0], place=node.place, shape=shape)
    attrs = {**dict(node.attrs), "keep_dims": False}
    parts = graph.add(node.op, full, place=node.place, **{**attrs, "axes": axes})
    number = graph.add(node.op, parts, place=node.place, **{**attrs, "axes": tuple(range(len(parts.shape)))})
    return graph.add("reshape", number, place=node.place, shape=node.shape)


def part_of(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Choose how to split an array: return its shape, with a dimension split if necessary, and a part's axes."""
    size = math.prod(shape)
    if size < LONG_REDUCTION:
        return None
    for first in reversed(range(1, len(shape))):
        part = math.prod(shape[first:])
        if part >= _LEAST_PART:
            if size // part >= _FEW_PARTS:
                return shape, tuple(range(first, len(shape)))
            break
    for parts in range(min(size // _LEAST_PART, _MOST_PARTS), _FEW_PARTS - 1, -1):
        if shape[0] % parts == 0:
            cut = (parts, shape[0] // parts, *shape[1:])
            return cut, tuple(range(1, len(cut)))
    return None


split_reductions: Final = NodeRule(frozenset(op for op in TABLE if is_in_pieces(op)), is_long, by_parts)


REWRITES: Final = (
    Pass("padded_windows", pad_windows, "first: all others see an array and not its copy within zeros", "place",
        optional=True),
    Pass("gather_pushdown", push_down_gathers, "before reductions are split: the operands that are selected are those"
        " that the user wrote", "take", optional=True),
    Pass("split_reduction", split_reductions, "before late_division, which leaves alone sums that are made in parts",
        optional=True),
    Pass("late_division", divide_late, "before split_k, which then sees the product that remains", "dot",
        optional=True),
    Pass("narrow_products", narrow_products, "before split_k, which leaves alone products of few bits", "dot",
        optional=True),
    Pass("unpacking", unpack_by_choice, "after padded_windows, whose windows are no computed parts", "concat",
        optional=True),
    Pass("late_reshape", reshape_late, "after unpacking: a product reads only the parts that are still joined", "dot",
        optional=True),
    Pass("split_k", split_products, "last: it asks whether operands lie in memory", "dot", optional=True),
)  # fmt: skip


def rewritten(graph: Graph, disable: tuple[str, ...] = ()) -> Graph:
    """Run all rewrites that are not switched off, and return the graph."""
    result: Graph = run_unverified(graph, REWRITES, attrs={DISABLE: disable})
    if result is not graph:
        verify(result)
    return result
