"""Concat elimination: products of concatenated arrays, and slices of padded ones, read the parts, which saves a copy.

A slice of an array that is padded with one number is a window: a kernel reads the array itself, and elements outside of
it read as that number. A slice with steps is a window of a strided view:

    pad(x, 1)[0::2]  ->  window of x[1::2] from -1 on

A product whose contracted axis is a concatenation is a sum of products:

    concat(x, y) @ w  ->  x @ w[:k] + y @ w[k:]

A convolution that is written as patches times weights therefore reads the image.

Late reshape: a product reads the parts of a concatenation along its contracted axis if the concatenation is its direct
operand. A reshape that joins only the other dimensions moves after the product, which then multiplies a stack of
matrices:

    reshape(concat(x, y), (-1, k)) @ w  ->  reshape(concat(x, y) @ w, (-1, n))

If the channels of the windows are not last, the rewrite transposes the parts and the rows of the weights (`'`):

    reshape(permute(stack(x, y), (…, channels, taps)), (-1, k)) @ w
        ->  reshape(concat(x', y') @ w', (-1, n))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pypto.graph.ir.dims import ceil_div, is_fixed
from pypto.graph.ir.node import Graph, Node, moved_from
from pypto.graph.rewrite.simplify import Inputs, NodeRule

_MOST_PARTS: Final = 64


def is_window(node: Node, inputs: Inputs) -> bool:
    """Whether a node pads an array with one number, or slices a window."""
    base, steps = inputs[0], node.attr("steps")
    if node.is_movement:
        full = map(is_full, base.shape, node.shape, node.attr("starts"))
        known = all(fixed or is_fixed(n) for n, fixed in zip(node.shape, full, strict=True))
        return known and base.has("shifted") and min(steps, default=1) >= 1
    value = inputs[1]
    if not base.is_constant or base.type.dtype.is_bool or any(step != 1 for step in steps):
        return False
    spans = zip(base.shape, value.shape, node.attr("starts"), strict=True)
    if not all(all(map(is_fixed, span)) or is_full(*span) for span in spans):
        return False
    return all(n > 0 for n in value.shape if is_fixed(n))


def is_full(size: int, count: int, start: int) -> bool:
    """Whether a window has all of a dimension and no more, which may be one by name."""
    return is_fixed(start) and start == 0 and count == size


def window_of(graph: Graph, node: Node, inputs: Inputs) -> Node:
    """Replace a padded array by a window of the array, and a slice of a window by a window of a strided view."""
    starts, place = node.attr("starts"), node.place
    if node.has("update"):
        fill = inputs[0].attr("value")
        more = {} if fill == 0 and math.copysign(1, fill) > 0 else {"fill": fill}
        return graph.add("window", inputs[1], place=place, starts=tuple(-s for s in starts), shape=node.shape, **more)
    (source,), attrs = inputs[0].inputs, dict(inputs[0].attrs)
    firsts = [a + b for a, b in zip(attrs["starts"], starts, strict=True)]
    steps = tuple(node.attr("steps"))
    spans = zip(firsts, steps, source.shape, strict=True)
    counts = tuple(n if step == 1 else ceil_div(n - a % step, step) for a, step, n in spans)
    if min(filter(is_fixed, counts), default=1) < 1:  # the window lies between the elements of the array
        return graph.constant(attrs.get("fill", 0), node.type, place)
    first = tuple(a % step for a, step in zip(firsts, steps, strict=True))
    strided = graph.add("slice", source, place=place, starts=first, shape=counts, steps=steps)
    attrs |= {"starts": tuple(a // step for a, step in zip(firsts, steps, strict=True)), "shape": node.shape}
    return graph.add("window", strided, place=place, **attrs)


def pad_windows(graph: Graph) -> Graph:
    """Make windows of padded arrays, but of slices that a concatenation copies, which are views of one padded array."""
    copied = {x for node in graph.live() if node.has("parts") and not is_joined_last(node) for x in slices_of(node)}
    if not copied:
        return PAD_WINDOWS(graph)
    rule = NodeRule(PAD_WINDOWS.ops, lambda node, inputs: node not in copied and is_window(node, inputs), window_of)
    return rule(graph)


def slices_of(joined: Node) -> list[Node]:
    """Return the slices, and the padded arrays that they show, which are parts of a concatenation."""
    slices = []
    for part in joined.inputs:
        base, path = moved_from(part)
        slices += [base, *path] if any(node.op in PAD_WINDOWS.ops for node in path) else []
    return slices


PAD_WINDOWS: Final = NodeRule(frozenset({"place", "slice"}), is_window, window_of)


def is_joined_in_product(node: Node, consumers: list[Node]) -> bool:
    """Whether a product is the only reader of a concatenation, and contracts the concatenated axis."""
    if not is_joined_last(node):
        return False
    (reader, *others) = consumers or [node]
    return not others and reader.is_product and reader.inputs[0] is node and reader.inputs[1] is not node


def is_joined_last(node: Node) -> bool:
    """Whether a node concatenates a few arrays of fixed sizes along their last axis."""
    if not node.has("parts") or len(node.shape) < 2 or node.attr("axis") != len(node.shape) - 1:
        return False
    return is_fixed(node.shape[-1]) and 2 <= len(node.inputs) <= _MOST_PARTS


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


def are_patches(node: Node, inputs: Inputs) -> bool:
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


reshape_late: Final = NodeRule(frozenset({"dot"}), are_patches, reshaped_late, frozenset({"concat"}))
