"""Late reshape: a reshape of convolution patches moves after the product, so that the product can read their parts.

A product reads the parts of a concatenation along its contracted axis if the concatenation is its direct operand. A
reshape that joins only the other dimensions moves after the product, which then multiplies a stack of matrices:

    reshape(concat(x, y), (-1, k)) @ w  ->  reshape(concat(x, y) @ w, (-1, n))

If the channels of the windows are not last, the rewrite transposes the parts and the rows of the weights (`'`):

    reshape(permute(stack(x, y), (…, channels, taps)), (-1, k)) @ w
        ->  reshape(concat(x', y') @ w', (-1, n))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pypto.graph.ir.node import Graph, Node
from pypto.graph.rewrite.concat_elimination import is_joined_last
from pypto.graph.rewrite.node_rule import Inputs, NodeRule


@dataclass(frozen=True, slots=True)
class Patches:
    """A concatenated array that is reshaped to the rows of a matrix, as im2col patches are.

    Parameters
    ----------
    joined : Node
    shape : tuple of int
        The shape of the concatenated array; its last dimension may be split into several.
    dims : tuple of int
        The dimensions of `shape` in the order of the matrix.
    rows : int
        How many of these dimensions form the rows.
    """

    joined: Node
    shape: tuple[int, ...]
    dims: tuple[int, ...]
    rows: int

    @property
    def channels(self) -> tuple[int, ...]:
        """Return the contracted dimensions other than taps."""
        return tuple(d for d in self.dims[self.rows :] if d < len(self.joined.shape) - 1)


def patches_of(rows: Node) -> Patches | None:
    """Match a matrix whose rows are a concatenated array, or return None."""
    if not rows.is_reshape or len(rows.shape) != 2:
        return None
    moved = rows.inputs[0]
    cut = moved.inputs[0] if moved.op == "permute" else moved
    joined = cut.inputs[0] if cut.is_reshape else cut
    lead = len(joined.shape) - 1
    if not is_joined_last(joined) or cut.shape[:lead] != joined.shape[:lead] or 0 in joined.shape:
        return None
    dims = moved.attr("dims") if moved.op == "permute" else tuple(range(len(cut.shape)))
    count = next((n for n in range(len(dims)) if math.prod(moved.shape[:n]) == rows.shape[0]), 0)
    taps = [d for d in dims[count:] if d >= lead]
    if not count or taps != list(range(lead, len(cut.shape))):
        return None
    return Patches(joined, cut.shape, tuple(dims), count)


def fits(node: Node, inputs: Inputs) -> bool:
    """Whether the first operand of a product is a reshaped concatenation that the rewrite supports."""
    rows, weights = inputs
    patches = patches_of(rows) if len(weights.shape) == 2 and weights is not rows else None
    if patches is None:
        return False
    if not is_turned(patches):
        return True
    is_worth_it = weights.shape[1] <= rows.shape[0]  # the turned weights are no more than the patches
    return is_worth_it and all(x.shape[-1] == 1 for x in patches.joined.inputs)


def is_turned(patches: Patches) -> bool:
    """Whether the parts must be transposed, because other dimensions than the last are contracted or permuted."""
    return patches.dims[: patches.rows] != tuple(range(len(patches.joined.shape) - 1))


def reshaped_late(graph: Graph, node: Node, inputs: Inputs) -> Node:
    """Multiply the concatenated array itself, and reshape the result."""
    rows, weights = inputs
    patches = patches_of(rows)
    assert patches is not None
    joined = patches.joined
    if is_turned(patches):
        joined, weights = transposed_product(graph, patches, weights)
    product = graph.add("dot", joined, weights, place=node.place)
    return graph.add("reshape", product, place=node.place, shape=node.shape)


def transposed_product(graph: Graph, patches: Patches, weights: Node) -> tuple[Node, Node]:
    """Transpose the concatenated array so that channels follow each tap, and the rows of the weights alike."""
    joined, place = patches.joined, patches.joined.place
    front, inner = patches.dims[: patches.rows], patches.dims[patches.rows :]
    last = len(joined.shape) - 1
    shape = (*(joined.shape[d] for d in front), math.prod(joined.shape[d] for d in patches.channels))
    parts = []
    for x in joined.inputs:
        part = graph.add("permute", x, place=place, dims=(*front, *patches.channels, last))
        parts.append(graph.add("reshape", part, place=place, shape=shape))
    order = [*(inner.index(d) for d in inner if d >= last), *(inner.index(d) for d in patches.channels), len(inner)]
    split = graph.add("reshape", weights, place=place, shape=(*(patches.shape[d] for d in inner), weights.shape[1]))
    split = graph.add("permute", split, place=place, dims=tuple(order))
    column = graph.add("concat", *parts, place=place, axis=len(shape) - 1)
    return column, graph.add("reshape", split, place=place, shape=weights.shape)


reshape_late: Final = NodeRule(frozenset({"dot"}), fits, reshaped_late)
