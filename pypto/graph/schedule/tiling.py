"""Tiling: which axes of a group the grid splits, which lie in tiles, and which axis a program loops over.

Axes that are adjacent in every array are collapsed first, so a pointwise group on arrays of one layout has a single,
flat axis. Then:

* Without a product, a tile has all inner axes, and as many elements of the last parallel axes as make a program worth
  its launch: whole rows for reductions, flat blocks for pointwise groups.
* With products, a tile is a block of rows by a block of columns, and the contracted axis is a loop. If columns are
  inner (a row reduction follows), a program has whole rows. If a second product contracts them, the loop is over
  them, and the array between the products is never stored.

A dynamic dimension is never a tile extent. It is split over programs, looped over, or padded to its upper bound and
masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pypto.graph.ir.dims import bounds, hint, is_fixed, quotient
from pypto.graph.ir.node import Node
from pypto.graph.ir.node_table import SELECTION, SORTS
from pypto.graph.ir.tile_limits import COLUMNS_BLOCK, MOST_WHOLE
from pypto.graph.schedule.axes import Dim, FusionConflict
from pypto.graph.schedule.dim_collapsing import Strides, chain, every_dims, heads, neighbours
from pypto.graph.schedule.even_sizes import even_block, even_piece
from pypto.graph.schedule.index_space import IndexSpace, Use, flat, ordered
from pypto.graph.schedule.online_softmax import Online, online_of
from pypto.ops.table import ARG_REDUCTIONS, REDUCTIONS, SCANS

POINTWISE_BLOCK = 4096  # elements of a tile without reductions
ROWS_BLOCK = 1024  # elements that a tile of rows has at least
MOST_COLUMNS = 512  # columns of a product that a program has as a whole
ROW_BLOCKS = (256, 128, 64, 32, 16)
UNKNOWN_ROWS = 32  # of a block where rows are not fixed: few rows cost little more than they must, many lose little
UNKNOWN_PIECE = 64  # of a contracted axis that is not fixed
DEPTH_BLOCK, CHAIN_BLOCK = 128, 128
TILE_BYTES = 1 << 20  # of all accumulators and intermediate tiles of a program


@dataclass(frozen=True, slots=True)
class Program:
    """A group's kernel, as decisions.

    Parameters
    ----------
    space : IndexSpace
    sizes : mapping from int to int
        Of the axes, after neighbours became one.
    values, reads : mappings to tuples of axes
        In the order of the array's dimensions.
    blocks : mapping from int to int
        Elements of a parallel axis in one program; 1 is an index, not a tile.
    whole : tuple of int
        Inner axes, of which a program has all.
    loop : int or None
        The axis that a program goes through by chunks.
    chunk : int
    form : str
        What this is called where decisions are explained.
    most : mapping from int to int
        Elements of inner axes in a tile, where they are fewer than the size may be.
    """

    space: IndexSpace
    sizes: Mapping[int, int]
    values: Mapping[Node, Dim]
    reads: Mapping[Use, Dim]
    blocks: Mapping[int, int]
    whole: tuple[int, ...]
    loop: int | None
    chunk: int
    form: str
    online: Online | None = None
    most: Mapping[int, int] = field(default_factory=dict)

    def is_shared(self, axis: int) -> bool:
        """Whether programs share an axis out."""
        if axis in self.blocks and not is_fixed(self.sizes[axis]):
            return True
        return self.blocks.get(axis, self.sizes[axis]) < self.sizes[axis]

    def tile_size(self, axis: int) -> int:
        """Elements of an axis in a tile."""
        if axis == self.loop:
            return self.chunk
        return self.blocks[axis] if axis in self.blocks else self.most.get(axis, bounds(self.sizes[axis])[1])

    def has_rest(self, axis: int) -> bool:
        """Whether tiles reach behind the end of an axis that a program has all of."""
        if axis == self.loop:
            return quotient(self.sizes[axis], self.chunk) is None
        return axis in self.whole and not is_fixed(self.sizes[axis])


def program_of(space: IndexSpace, strides: Strides, threads: int) -> Program:
    """The program of a group.

    Raises
    ------
    FusionConflict
        With a sentence, when there is no form that fits.
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
    choice = TilingChoice(space, sizes, values, reads, parallel, head, threads)
    return choice.with_products() if choice.dots else choice.without_products()


@dataclass(frozen=True, slots=True)
class TilingChoice:
    """A program that is being decided on."""

    space: IndexSpace
    sizes: Mapping[int, int]
    values: Mapping[Node, Dim]
    reads: Mapping[Use, Dim]
    parallel: tuple[int, ...]
    head: Mapping[int, int]  # of every axis the one that it has become part of
    threads: int

    @property
    def dots(self) -> list[Node]:
        return [n for n in self.space.nodes if n.op == "dot"]

    def operand(self, node: Node, number: int) -> Dim:
        found = self.reads.get((node, number))
        return self.values[node.inputs[number]] if found is None else found

    def inner(self) -> tuple[int, ...]:
        """Axes that lie within a program, but for those that indices pick along."""
        picked = {a for n in self.space.nodes if n.op == "take" for a in self.reads[n, 0] if a not in self.values[n]}
        every = dict.fromkeys(a for line in (*self.values.values(), *self.reads.values()) for a in line)
        return tuple(a for a in every if a not in self.parallel and a not in picked)

    # --- without products ------------------------------------------------------------------------------------------

    def without_products(self) -> Program:
        inner = self.inner()
        elements = self.elements(inner)
        columns = self.columns(inner)
        loop, chunk, online = None, 0, None
        if elements * columns > MOST_WHOLE or not all(is_fixed(self.sizes[a]) for a in inner):
            loop, chunk, online = self.long_loop(inner, columns)
            elements = self.elements(tuple(a for a in inner if a != loop)) * max(1, chunk)
        if columns > 1:
            blocks = {**dict.fromkeys(self.parallel, 1), self.parallel[-1]: columns}
            return self.made(blocks, tuple(a for a in inner if a != loop), loop, chunk, "columns", online)
        target = ROWS_BLOCK if inner else POINTWISE_BLOCK
        if any(n.op == "take" for n in self.space.nodes):
            target = 1  # an index of one number reads a slice, an index of many needs pointers
        blocks = self.spread(elements, target)
        whole = tuple(a for a in inner if a != loop)
        form = "online" if online else "rows" if self.space.reduced else "pointwise"
        return self.made(blocks, whole, loop, chunk, form, online)

    def elements(self, inner: tuple[int, ...]) -> int:
        """Elements of a tile; no tile has both axes of a selection, that of its operand and that of its result."""
        if not any(node.op == SELECTION for node in self.space.nodes):
            return self.product(inner)
        lines = {*self.values.values(), *self.reads.values()}
        return max(self.product(tuple(a for a in line if a in inner)) for line in lines)

    def columns(self, inner: tuple[int, ...]) -> int:
        """Elements of the last parallel axis in a tile, where arrays lie along it and are reduced over slower axes."""
        if not self.space.reduced or not self.parallel:
            return 1
        last = self.parallel[-1]
        wide = [line for line in self.reads.values() if any(a in self.space.reduced for a in line) and last in line]
        if not wide or any(line[-1] != last for line in wide):
            return 1
        size = hint(self.sizes[last])
        share = -(-size // max(1, 2 * self.threads // self.product(self.parallel[:-1])))
        return min(size, max(64, min(share, COLUMNS_BLOCK)))

    def product(self, axes: tuple[int, ...]) -> int:
        total = 1
        for a in axes:
            total *= hint(self.sizes[a])
        return total

    def spread(self, elements: int, target: int) -> dict[int, int]:
        """Blocks of the parallel axes, from the last one on, so that a tile has about `target` elements."""
        programs = self.product(self.parallel)
        least = 2 * self.threads
        blocks = dict.fromkeys(self.parallel, 1)
        for axis in reversed(self.parallel):
            size = hint(self.sizes[axis])
            room = max(1, target // max(1, elements))
            if room == 1:
                break
            block = min(size, room)
            while block > 64 and programs // block < least:
                block //= 2
            blocks[axis] = block
            elements *= block
            programs //= max(1, block)
            if block < size or not is_fixed(self.sizes[axis]):
                break
        return blocks

    def long_loop(self, inner: tuple[int, ...], columns: int) -> tuple[int | None, int, Online | None]:
        """The axis that is too long for a tile or not fixed, and what is taken of it at a time; None where all fit."""
        unknown = [a for a in inner if not is_fixed(self.sizes[a])]
        most = 1
        for a in inner:
            most *= bounds(self.sizes[a])[1]
        try:
            axis = self.looped(inner, unknown)
            online = self.online_along(axis)
        except FusionConflict:
            if unknown and most * columns <= MOST_WHOLE:
                return None, 0, None
            raise
        return axis, min(hint(self.sizes[axis]), max(8, POINTWISE_BLOCK // columns)), online

    def online_along(self, axis: int) -> Online | None:
        """Nothing where one loop along an axis will do as it is, else the softmax that is made in it."""
        try:
            self.check_loop(axis)
        except FusionConflict:
            lines = {**self.values, **{n.inputs[k]: line for (n, k), line in self.reads.items()}}
            online = online_of(self.space, axis, lines)
            if online.second and self.product(self.parallel) < self.threads:
                raise FusionConflict(
                    "a second loop over a long axis would have fewer programs than there are threads"
                ) from None
            return online
        return None

    def looped(self, inner: tuple[int, ...], unknown: list[int]) -> int:
        """The axis of a loop."""
        reduced = [a for a in inner if a in self.space.reduced]
        if len(unknown) > 1:
            raise FusionConflict("a program would have several axes as a whole whose sizes are not fixed")
        sizes = {a: hint(self.sizes[a]) for a in reduced}
        if not reduced or (len(inner) > 1 and self.product(inner) // max(sizes.values()) > 512):
            raise FusionConflict("a program would need more than fits its caches")
        axis = unknown[0] if unknown else max(reduced, key=sizes.__getitem__)
        if axis not in sizes:
            raise FusionConflict("an axis whose size is not fixed would be in each program as a whole")
        return axis

    def check_loop(self, axis: int) -> None:
        """What depends on a reduction along an axis may not be looped over along it."""
        late: set[Node] = set()
        for node in self.space.nodes:
            along = any(
                axis in self.operand(node, n) for n in range(len(node.inputs)) if node.inputs[n].op != "constant"
            )
            if node.op in SCANS or node.op in SORTS or node.op == SELECTION:
                raise FusionConflict("a running result or an order is not made by pieces")
            reduces = along and axis not in self.values[node] and node.op in (*REDUCTIONS, "dot")
            if reduces and node.op in ("argmax", "argmin", "xor_sum"):
                raise FusionConflict("a position cannot be found by pieces")
            if reduces or any(x in late for x in node.inputs):
                if axis in self.values[node]:
                    raise FusionConflict("a long axis would be gone through twice")
                late.add(node)

    # --- with products ---------------------------------------------------------------------------------------------

    def with_products(self) -> Program:
        dots = self.dots
        if len(dots) > 2:
            raise FusionConflict("more than two products would be one program")
        parts = [self.parts(dot) for dot in dots]
        chained = len(dots) == 2
        rows, columns = parts[-1][0], parts[-1][1]
        if any(part[0] is not None and part[0] not in self.parallel for part in parts):
            raise FusionConflict("the rows of a product would have to be in one program")
        if chained and parts[0][0] != rows:
            raise FusionConflict("two products do not share their rows")
        if chained and parts[0][1] != parts[1][2]:
            raise FusionConflict("the second product is not over the columns of the first")
        if chained and any(parts[1][2] in self.values[n] for n in self.space.outputs):
            raise FusionConflict("the array between two products is needed elsewhere")
        loop, chunk, online = self.dot_loop(parts)
        inner = tuple(a for a in self.inner() if a != loop)
        if columns is not None and columns in inner and self.sizes[columns] > MOST_COLUMNS:
            raise FusionConflict("a program would have too many columns of a product")
        if any(not is_fixed(self.sizes[a]) for a in inner):
            raise FusionConflict("an axis whose size is not fixed would be in each program as a whole")
        blocks = dict.fromkeys(self.parallel, 1)
        if columns is not None and columns in blocks:
            blocks[columns] = self.columns_block(columns, chained)
        form = "online" if online else "chain" if chained else "product"
        if rows in blocks:
            self.choose_rows(blocks, rows, inner, loop, chunk)
        return self.made(blocks, inner, loop, chunk, form, online)

    def columns_block(self, columns: int, chained: bool) -> int:
        """How many columns a program has; with two products it has all."""
        most = bounds(self.sizes[columns])[1]
        if chained and (most > MOST_COLUMNS or not is_fixed(self.sizes[columns])):
            raise FusionConflict("a program would have too many columns of a product")
        return most if chained else min(most, even_block(most))

    def parts(self, dot: Node) -> tuple[int | None, int | None, int]:
        """Rows, columns and contracted axis of a product; other axes must be parallel."""
        a, b = self.operand(dot, 0), self.operand(dot, 1)
        both = [x for x in a if x in b]
        contracted = [x for x in both if x not in self.values[dot]]
        dims = self.space.values[dot]
        rows, columns = (tuple(dict.fromkeys(self.head[a] for a in flat((dims[d],)))) for d in (-2, -1))
        if len(contracted) != 1:
            raise FusionConflict("a product is over several axes, or over none")
        extra = [x for x in self.values[dot] if x not in columns and x not in rows[-1:]]
        if any(x not in self.parallel for x in extra):
            raise FusionConflict("a product has a stack within a program")
        if columns[:-1]:
            raise FusionConflict("the columns of a product do not lie in one piece")
        return (rows[-1] if rows else None), (columns[-1] if columns else None), contracted[0]

    def dot_loop(self, parts: list[tuple[int | None, int | None, int]]) -> tuple[int | None, int, Online | None]:
        """The axis that products go through in pieces."""
        axis = parts[-1][2]
        piece = CHAIN_BLOCK if len(parts) == 2 else DEPTH_BLOCK
        if self.dots[-1].inputs[0].op == "concat":
            return None, 0, None  # it goes through the parts
        fixed = is_fixed(self.sizes[axis])
        piece = even_piece(self.sizes[axis], piece) if fixed else UNKNOWN_PIECE
        if fixed and self.sizes[axis] <= 2 * piece:
            return None, 0, None
        try:
            self.check_loop(axis)
        except FusionConflict:
            if fixed and self.sizes[axis] <= MOST_COLUMNS:
                return None, 0, None
            return axis, piece, self.online_along(axis)
        return axis, piece, None

    def choose_rows(
        self, blocks: dict[int, int], rows: int, inner: tuple[int, ...], loop: int | None, chunk: int
    ) -> None:
        """As many rows as fit and leave all threads something to do."""
        others = 1
        for axis, block in blocks.items():
            others *= -(-hint(self.sizes[axis]) // block) if axis != rows else 1
        size = hint(self.sizes[rows])
        wanted = [x for x in ROW_BLOCKS if is_fixed(self.sizes[rows]) or x <= UNKNOWN_ROWS]
        fitting = [block for block in wanted if self.tile_bytes({**blocks, rows: block}, loop, chunk) <= TILE_BYTES]
        if not fitting:
            raise FusionConflict("a program would need more than fits its caches")
        if self.space.nodes and any(a in inner for a in self.space.reduced):
            fitting = [block for block in fitting if block <= 128] or fitting

        def busiest(block: int) -> int:
            programs = -(-size // block) * others
            return -(-programs // self.threads) * block

        least = min(map(busiest, fitting))
        chosen = next(block for block in fitting if busiest(block) <= 1.1 * least)
        blocks[rows] = min(size, chosen) if is_fixed(self.sizes[rows]) else chosen

    def tile_bytes(self, blocks: Mapping[int, int], loop: int | None, chunk: int) -> int:
        """Bytes of the largest tiles that are alive together: those of products, and twice the largest other one."""

        def size(line: Dim) -> int:
            total = 4
            for a in line:
                total *= chunk if a == loop else blocks.get(a, bounds(self.sizes[a])[1])
            return total

        products = [size(self.values[n]) for n in self.dots]
        return sum(products) + 2 * max(products)

    def made(
        self,
        blocks: dict[int, int],
        whole: tuple[int, ...],
        loop: int | None,
        chunk: int,
        form: str,
        online: Online | None = None,
    ) -> Program:
        return Program(self.space, self.sizes, self.values, self.reads, blocks, whole, loop, chunk, form, online)
