"""Contraction: classifies the axes of a product as rows, columns or contracted, and nests loops over the contracted.

A product may contract a tuple of axes, because a reshape splits its K axis: a scale for each group of K, or a sum over
pieces of K. The innermost axes form the tile of K; the axes outside of them become loops over single elements. A sum
over the results of a stack of products is the same nest of loops, with the sum as its accumulator:

    y[m, n] = sum(x[m, g, k] * w[n, g, k] * s[n, g] for g, k)

    for g in range(0, G):
        y += x[:, g, :] @ (w[:, g, :] * s[:, g]).T
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pypto.graph.ir.dims import hint, is_fixed
from pypto.graph.schedule.axes import Dim, FusionConflict
from pypto.graph.schedule.even_sizes import even_piece

DEPTH_BLOCK = 128  # elements of the contracted axis in a tile
LEAST_DEPTH = 16  # elements of K of which a product of tiles is worth its launch of the micro-kernel
UNKNOWN_PIECE = 64  # of a contracted axis that is not fixed
MOST_DEPTH = 2 * DEPTH_BLOCK  # elements of K that a program takes at once


@dataclass(frozen=True, slots=True)
class Contraction:
    """The axes of a product by role: rows, columns, stack or contracted.

    Parameters
    ----------
    rows, columns : int or None
        The axes of the matrix that is the result; None where it has one row or column.
    stack : tuple of int
        Axes of the result that a reduction after the product sums: each becomes a loop over its elements.
    contracted : tuple of int
        Axes that the product sums over, in the order of its first operand, the innermost last.
    """

    rows: int | None
    columns: int | None
    stack: Dim
    contracted: Dim


@dataclass(frozen=True, slots=True)
class ContractionLoops:
    """The loop nest of a contraction around its tile of K.

    Parameters
    ----------
    outer : tuple of int
        Axes of loops over single elements, the outermost first.
    axis : int or None
        The axis of the innermost loop, whose step is `chunk`.
    chunk : int
    depth : tuple of int
        Axes of the tile of K; all but the first lie in the tile in full.
    """

    outer: Dim
    axis: int | None
    chunk: int
    depth: Dim


def contraction_of(
    operands: tuple[Dim, Dim], result: Dim, rows: Dim, columns: Dim, parallel: Dim, reduced: frozenset[int]
) -> Contraction:
    """Classify the axes of a product whose result has `rows` and `columns` as its last two dimensions.

    Raises
    ------
    FusionConflict
        When no supported form of product has these axes.
    """
    left, right = operands
    contracted = tuple(a for a in left if a in right and a not in result)
    if not contracted:
        raise FusionConflict("a product is over no axis")
    extra = tuple(a for a in result if a not in columns and a not in rows[-1:])
    stack = tuple(a for a in extra if a not in parallel)
    if any(a not in reduced for a in stack):
        raise FusionConflict("a product has a stack within a program")
    if columns[:-1]:
        raise FusionConflict("the columns of a product do not lie in one piece")
    return Contraction(rows[-1] if rows else None, columns[-1] if columns else None, stack, contracted)


def contraction_loops(contraction: Contraction, sizes: Mapping[int, int], piece: int) -> ContractionLoops:
    """Choose the loop nest over the contracted axes, with a tile of `piece` elements of K where it can choose."""
    *outside, last = contraction.contracted
    stack, size = contraction.stack, sizes[last]
    piece = even_piece(size, piece) if is_fixed(size) else UNKNOWN_PIECE
    if not is_fixed(size) or size > 2 * piece:
        return ContractionLoops((*stack, *outside), last, piece, (last,))
    depth: Dim = (last,)
    elements = size
    while outside and elements < LEAST_DEPTH:
        axis = outside.pop()
        chunk = chunk_of(sizes[axis], DEPTH_BLOCK // elements)
        depth = (axis, *depth)
        if chunk != sizes[axis]:
            return ContractionLoops((*stack, *outside), axis, chunk, depth)
        elements *= chunk
    if math.prod(hint(sizes[a]) for a in outside) * elements <= MOST_DEPTH and all(is_fixed(sizes[a]) for a in outside):
        return ContractionLoops(stack, None, 0, (*outside, *depth))
    return ContractionLoops((*stack, *outside), None, 0, depth)


def chunk_of(size: int, most: int) -> int:
    """Return the largest tile extent of an outer axis that divides its size, or nearly does."""
    if not is_fixed(size):
        return most
    if size <= most:
        return size
    return next((n for n in range(most, most // 2, -1) if size % n == 0), most)
