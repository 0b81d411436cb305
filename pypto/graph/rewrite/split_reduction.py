"""Split reduction: a full reduction becomes partial sums, one for each program, and one small final sum.

The partial sums fuse into the kernel that makes the array. Their order does not depend on the number of threads.
"""

from __future__ import annotations

import math
from typing import Any, Final

from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.node_table import IN_PIECES
from pypto.graph.ir.types import TensorType

LONG: Final = 1 << 17  # elements that are reduced in parts
_LEAST_PART: Final = 1 << 10
_FEW_PARTS: Final = 8
_MOST_PARTS: Final = 256


def by_parts(graph: Graph, op: str, x: Node, type: TensorType, place: Any) -> Node | None:
    """A long reduction to one number as reductions of parts, and of their results."""
    if op not in IN_PIECES or any(n != 1 for n in type.shape) or not all(map(is_fixed, x.shape)):
        return None
    cut = part_of(x.shape)
    if cut is None:
        return None
    shape, axes = cut
    whole = graph.add("reshape", x, place=place, shape=shape)
    parts = graph.add(op, whole, place=place, axes=axes, keep_dims=False)
    found = graph.add(op, parts, place=place, axes=tuple(range(len(parts.shape))), keep_dims=False)
    return graph.add("reshape", found, place=place, shape=type.shape)


def part_of(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """How a long array falls into parts: its shape, where a dimension is cut if need be, and the axes of a part."""
    size = math.prod(shape)
    if size < LONG:
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
