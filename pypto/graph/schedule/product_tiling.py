"""Product tiling: the tiles and loops of a group with matrix products.

A program has a block of rows by a block of columns. A product may contract a tuple of axes, because a reshape splits
its K axis: a scale for each group of K, or a sum over pieces of K. The innermost axes form the tile of K; the axes
outside of them become loops over single elements. A sum over the results of a stack of products is the same nest of
loops, with the sum as its accumulator:

    y[m, n] = sum(x[m, g, k] * w[n, g, k] * s[n, g] for g, k)

    for g in range(0, G):
        y += x[:, g, :] @ (w[:, g, :] * s[:, g]).T

With a second product that contracts the columns of the first, the loop is over these columns, and the array between
the products is never stored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pypto.graph.ir.dims import bounds, hint, is_fixed
from pypto.graph.ir.node import Node
from pypto.graph.schedule.index_space import (
    Dim,
    FusionConflict,
    IndexSpace,
    Strides,
    chain,
    every_dims,
    flat,
    heads,
    neighbours,
    ordered,
)
from pypto.graph.schedule.online_softmax import Online
from pypto.graph.schedule.tiling import Program, TilingChoice
from pypto.ops.table import ARG_REDUCTIONS
from pypto.tuning.tile_sizes import TILES


def even_piece(size: int) -> int:
    """Return a piece of K near the wanted one that divides it if possible: a partial last piece is slow to pack."""
    piece = TILES.depth
    candidates = sorted(range(3 * piece // 4, 3 * piece // 2 + 1, TILES.lanes), key=lambda n: abs(n - piece))
    return next((n for n in candidates if size % n == 0), piece)


def even_block(size: int) -> int:
    """Return the block of columns that wastes least in the last, partial block, which is slow as well.

    Examples
    --------
    >>> even_block(768), even_block(1024), even_block(900)
    (384, 256, 256)
    """
    return min(TILES.even_columns, key=lambda block: -(-size // block) * block)


UNKNOWN_PIECE: Final = TILES.depth // 2  # of a contracted axis that is not fixed
MOST_DEPTH: Final = 2 * TILES.depth  # elements of K that a program takes at once


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


def contraction_loops(contraction: Contraction, sizes: Mapping[int, int]) -> ContractionLoops:
    """Choose the loop nest over the contracted axes, with a tile of `TILES.depth` elements of K where it can choose."""
    *outside, last = contraction.contracted
    stack, size = contraction.stack, sizes[last]
    piece = even_piece(size) if is_fixed(size) else UNKNOWN_PIECE
    if not is_fixed(size) or size > 2 * piece:
        return ContractionLoops((*stack, *outside), last, piece, (last,))
    depth: Dim = (last,)
    elements = size
    while outside and elements < TILES.lanes:
        axis = outside.pop()
        chunk = chunk_of(sizes[axis], TILES.depth // elements)
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


UNKNOWN_ROWS: Final = TILES.panel  # of a block of unknown rows: few rows cost little more than they must
SUM_COLUMNS: Final = 2 * TILES.panel  # of a product that is added to a sum; panels of 8 bits are half as large
LONG_SUM: Final = 1 << 20  # multiplications of a sum of products that is left to a few programs


class ProductTiling(TilingChoice):
    """Chooses the tiling of a group with one or two products."""

    __slots__ = ()

    @property
    def dots(self) -> list[Node]:
        return [n for n in self.space.nodes if n.is_product]

    def with_products(self) -> Program:
        dots = self.dots
        if len(dots) > 2:
            raise FusionConflict("more than two products would be one program")
        parts = [self.contraction(dot) for dot in dots]
        chained = len(dots) == 2
        rows, columns = parts[-1].rows, parts[-1].columns
        if any(part.rows is not None and part.rows not in self.parallel for part in parts):
            raise FusionConflict("the rows of a product would have to be in one program")
        if chained:
            self.check_chained(*parts)
        loops, online = self.dot_loops(parts)
        inner = tuple(a for a in self.inner() if a != loops.axis and a not in loops.outer)
        if columns is not None and columns in inner and self.sizes[columns] > TILES.most_columns:
            raise FusionConflict("a program would have too many columns of a product")
        if any(not is_fixed(self.sizes[a]) for a in inner):
            raise FusionConflict("an axis whose size is not fixed would be in each program as a whole")
        blocks, stacked = dict.fromkeys(self.parallel, 1), bool(parts[-1].stack)
        if columns is not None and columns in blocks:
            blocks[columns] = self.columns_block(columns, chained, stacked)
        form = "online" if online else "chain" if chained else "product"
        if rows in blocks:
            width = 1 if columns is None else blocks.get(columns, 1)
            most = TILES.sum_tile // width if stacked else TILES.row_blocks[0]
            self.choose_rows(blocks, rows, inner, loops, most)
        if stacked:
            self.check_sum(blocks, dots[-1])
        return self.tiled_program(blocks, inner, loops.axis, loops.chunk, form, online, loops.outer)

    def check_chained(self, first: Contraction, second: Contraction) -> None:
        """Refuse two products unless the second contracts the columns of the first, for the same rows."""
        if first.rows != second.rows:
            raise FusionConflict("two products do not share their rows")
        if (first.columns,) != second.contracted or first.stack or second.stack:
            raise FusionConflict("the second product is not over the columns of the first")
        if any(first.columns in self.values[n] for n in self.space.outputs):
            raise FusionConflict("the array between two products is needed elsewhere")

    def check_sum(self, blocks: Mapping[int, int], dot: Node) -> None:
        """Refuse a long sum of products that has fewer programs than there are threads."""
        programs = math.prod(-(-hint(self.sizes[a]) // block) for a, block in blocks.items())
        if programs < self.threads and hint(dot.type.size) * hint(dot.inputs[0].shape[-1]) >= LONG_SUM:
            raise FusionConflict("a sum of products would have fewer programs than there are threads")

    def columns_block(self, columns: int, chained: bool, stacked: bool) -> int:
        """Choose how many columns a program has; with two products it has all."""
        most = bounds(self.sizes[columns])[1]
        if chained and (most > TILES.most_columns or not is_fixed(self.sizes[columns])):
            raise FusionConflict("a program would have too many columns of a product")
        if stacked:
            use = self.dots[-1], 1
            is_cheap = self.dots[-1].inputs[0].type.dtype.bits == 8 and use in self.reads and not self.is_turned(use)
            return min(most, 2 * SUM_COLUMNS if is_cheap else SUM_COLUMNS)
        return most if chained else min(most, even_block(most))

    def contraction(self, dot: Node) -> Contraction:
        """Classify the axes of a product as rows, columns, stack and contracted axes."""
        dims = self.space.values[dot]
        rows, columns = (tuple(dict.fromkeys(self.head[a] for a in dims[d])) for d in (-2, -1))
        operands = self.operand(dot, 0), self.operand(dot, 1)
        return contraction_of(operands, self.values[dot], rows, columns, self.parallel, self.space.reduced)

    def dot_loops(self, parts: list[Contraction]) -> tuple[ContractionLoops, Online | None]:
        """Choose the loops of the products, and the online softmax in them if there is one."""
        last, joined = parts[-1], self.dots[-1].inputs[0]
        axis = last.contracted[-1]
        if joined.has("parts") and joined in self.values:  # it goes through the parts
            self.check_joined(last)
            return ContractionLoops((), None, 0, last.contracted), None
        loops = contraction_loops(last, self.sizes)
        if last.stack and loops.axis is not None:
            raise FusionConflict("the products of a sum are long enough to be stored")
        for outer in loops.outer:
            self.check_loop(outer)
        if loops.axis is None:
            return loops, None
        try:
            self.check_loop(loops.axis)
        except FusionConflict:
            if loops.outer or loops.axis != axis:
                raise
            if is_fixed(self.sizes[axis]) and self.sizes[axis] <= TILES.most_columns:
                return ContractionLoops((), None, 0, last.contracted), None
            return loops, self.online_along(axis)
        return loops, None

    def check_joined(self, contraction: Contraction) -> None:
        """Refuse a product of concatenated arrays unless its second operand is a matrix in memory."""
        if (self.dots[-1], 1) not in self.reads:
            raise FusionConflict("a product of joined arrays is with an array in memory")
        if contraction.rows is None or contraction.columns is None:
            raise FusionConflict("a product of joined arrays has one row or one column")

    def choose_rows(
        self, blocks: dict[int, int], rows: int, inner: tuple[int, ...], loops: ContractionLoops, most: int
    ) -> None:
        """Choose the largest block of rows that fits the caches and keeps all threads busy."""
        others = 1
        for axis, block in blocks.items():
            others *= -(-hint(self.sizes[axis]) // block) if axis != rows else 1
        size, fixed = hint(self.sizes[rows]), is_fixed(self.sizes[rows])
        wanted = [x for x in TILES.row_blocks if x <= most and (fixed or x <= UNKNOWN_ROWS)]
        fitting = [block for block in wanted if self.tile_bytes({**blocks, rows: block}, loops) <= TILES.l2_bytes]
        if not fitting:
            raise FusionConflict("a program would need more than fits its caches")
        depth = loops.depth if loops.outer or loops.axis is not None else ()
        if any(a in inner and a not in depth for a in self.space.reduced):
            fitting = [block for block in fitting if block <= 128] or fitting

        def busiest(block: int) -> int:
            programs = -(-size // block) * others
            return -(-programs // self.threads) * (min(block, size) if fixed else block)

        least = min(map(busiest, fitting))
        chosen = next(block for block in fitting if busiest(block) <= 1.1 * least)
        blocks[rows] = min(size, chosen) if fixed else chosen

    def tile_bytes(self, blocks: Mapping[int, int], loops: ContractionLoops) -> int:
        """Estimate the bytes of live tiles: those of all products, and twice the largest of them."""

        tile_blocks = {**blocks, **dict.fromkeys(loops.outer, 1)}
        if loops.axis is not None:
            tile_blocks[loops.axis] = loops.chunk

        def size(line: Dim) -> int:
            return 4 * math.prod(tile_blocks.get(a, bounds(self.sizes[a])[1]) for a in line)

        products = [size(self.values[n]) for n in self.dots]
        return sum(products) + 2 * max(products)


def program_of(space: IndexSpace, strides: Strides, threads: int, allows_online: bool = True) -> Program:
    """Choose the program of a group.

    Raises
    ------
    FusionConflict
        With the reason, when no form of kernel fits.
    """
    merged = neighbours(space, strides)
    first = heads(space, merged)
    sizes = {axis: space.axes.size(chain(axis, merged)) for axis in first}
    along = (line for node in space.nodes for line in ordered(node, space.values, space.reads))
    if any(sum(a in sizes for a in line) > 1 for line in along):
        raise FusionConflict("a running result goes along one axis")
    lines = {dims: tuple(a for a in flat(dims) if a in sizes) for dims in every_dims(space)}
    values = {n: lines[dims] for n, dims in space.values.items()}
    reads = {use: lines[dims] for use, dims in space.reads.items()}
    for node in space.nodes:
        if node.op in ARG_REDUCTIONS:
            line = reads.get((node, 0), values.get(node.inputs[0], ()))
            if sum(a not in values[node] for a in line) > 1:
                raise FusionConflict("a position over several axes has no form")
    parallel = tuple(a for a in space.parallel if a in sizes)
    head = {a: axis for axis in first for a in chain(axis, merged)}
    choice = ProductTiling(space, sizes, values, reads, parallel, head, threads, strides, allows_online)
    return choice.with_products() if choice.dots else choice.without_products()
