"""Tiling: which axes of a group the grid splits, which lie in tiles, and which axis a program loops over.

Axes that are adjacent in every array are collapsed first, so a pointwise group on arrays of one layout has a single,
flat axis. Then:

* Without a product, a tile has all inner axes, and as many elements of the last parallel axes as make a program worth
  its launch: whole rows for reductions, flat blocks for pointwise groups.
* With products, a tile is a block of rows by a block of columns, and the contracted axes are loops
  (`product_tiling`). If columns are inner (a row reduction follows), a program has whole rows. If a second product
  contracts them, the loop is over them, and the array between the products is never stored.

A dynamic dimension is never a tile extent. It is split over programs, looped over, or padded to its upper bound and
masked. A tile that suits many elements of it wastes most of its time on few. So a kernel with a dynamic dimension tests
the size, and has a second body with smaller tiles for the last rows of a product, a short axis of a softmax, or both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pypto.graph.ir.dims import bounds, hint, is_fixed, quotient
from pypto.graph.ir.node import Node
from pypto.graph.ir.type_rules import is_in_pieces
from pypto.graph.schedule.index_space import Dim, FusionConflict, IndexSpace, Strides, Use, steps_of
from pypto.graph.schedule.online_softmax import Online, online_of
from pypto.tuning.tile_sizes import TILES

POINTWISE_BLOCK: Final = TILES.l1_bytes // 2 // 4  # elements of a tile without reductions
WINDOW_BLOCK: Final = 512  # elements of a tile of windows, many of which are read at once, unless a row has more
SHORT_SLICE: Final = 256  # elements of a slice that an index reads; shorter ones are gathered by pointers
GATHER_BLOCK: Final = 2048  # elements of a tile that is gathered by pointers
FEW: Final = 64  # elements of a block, up to which a partial one at the end counts
ROWS_BLOCK: Final = TILES.l1_bytes // 8 // 4  # elements that a tile of rows has at least


@dataclass(frozen=True, slots=True)
class Program:
    """The tiling of a group's kernel, as data.

    Parameters
    ----------
    space : IndexSpace
    sizes : mapping from int to int
        The sizes of the axes after dimension collapsing.
    values, reads : mappings to tuples of axes
        The axes of each node and operand, in the order of its dimensions.
    blocks : mapping from int to int
        Elements of a parallel axis in one program; 1 is an index, not a tile.
    full_axes : tuple of int
        Inner axes that lie in a program in full.
    loop : int or None
        The axis that a program loops over in chunks.
    chunk : int
    form : str
        The name of this kind of kernel, such as ``rows``, ``product`` or ``online``.
    most : mapping from int to int
        Tile extents of inner axes that are smaller than the largest size of the axis.
    outer : tuple of int
        Axes of the loops around that of `loop`, the outermost first; their step is one element.
    adjacent : frozenset of operands
        Complex arrays, and parts of them, whose pairs lie one behind the other along the last axis.
    """

    space: IndexSpace
    sizes: Mapping[int, int]
    values: Mapping[Node, Dim]
    reads: Mapping[Use, Dim]
    blocks: Mapping[int, int]
    full_axes: tuple[int, ...]
    loop: int | None
    chunk: int
    form: str
    online: Online | None = None
    most: Mapping[int, int] = field(default_factory=dict)
    outer: tuple[int, ...] = ()
    adjacent: frozenset[Use] = frozenset()

    @property
    def loops(self) -> tuple[int, ...]:
        """Return the axes of all loops, the outermost first."""
        return self.outer if self.loop is None else (*self.outer, self.loop)

    def is_shared(self, axis: int) -> bool:
        """Whether the grid splits an axis over several programs."""
        if axis in self.blocks and not is_fixed(self.sizes[axis]):
            return True
        return self.blocks.get(axis, self.sizes[axis]) < self.sizes[axis]

    def tile_size(self, axis: int) -> int:
        """Return the tile extent along an axis."""
        if axis == self.loop:
            return self.chunk
        if axis in self.outer:
            return 1
        return self.blocks[axis] if axis in self.blocks else self.most.get(axis, bounds(self.sizes[axis])[1])

    def has_rest(self, axis: int) -> bool:
        """Whether a loop or full axis needs a mask, because tiles reach beyond its end."""
        if axis == self.loop:
            return quotient(self.sizes[axis], self.chunk) is None
        return axis in self.full_axes and not is_fixed(self.sizes[axis])


@dataclass(frozen=True, slots=True)
class TilingChoice:
    """Chooses the tiling of a group without products."""

    space: IndexSpace
    sizes: Mapping[int, int]
    values: Mapping[Node, Dim]
    reads: Mapping[Use, Dim]
    parallel: tuple[int, ...]
    head: Mapping[int, int]  # maps every axis to the axis that it was collapsed into
    threads: int
    strides: Strides
    allows_online: bool = True  # whether a softmax along a long axis may become an online softmax

    def operand(self, node: Node, number: int) -> Dim:
        axes = self.reads.get((node, number))
        return self.values[node.inputs[number]] if axes is None else axes

    def inner(self) -> tuple[int, ...]:
        """Return the axes that lie within a program, except those that a gather selects along."""
        picked = {a for n in self.space.nodes if n.has("indexed") for a in self.reads[n, 0] if a not in self.values[n]}
        every = dict.fromkeys(a for line in (*self.values.values(), *self.reads.values()) for a in line)
        return tuple(a for a in every if a not in self.parallel and a not in picked)

    def without_products(self) -> Program:
        inner = self.inner()
        elements = self.elements(inner)
        columns = self.columns(inner)
        loop, chunk, online = None, 0, None
        if elements * columns > TILES.most_whole or not all(is_fixed(self.sizes[a]) for a in inner):
            loop, chunk, online = self.long_loop(inner, columns)
            elements = self.elements(tuple(a for a in inner if a != loop)) * max(1, chunk)
        if columns > 1:
            blocks = {**dict.fromkeys(self.parallel, 1), self.parallel[-1]: columns}
            return self.tiled_program(blocks, tuple(a for a in inner if a != loop), loop, chunk, "columns", online)
        target = ROWS_BLOCK if inner else POINTWISE_BLOCK
        if any(n.has("indexed") for n in self.space.nodes):
            target = self.gather_target()
        elif not inner and self.parallel and any(n.has("shifted") for n in self.space.nodes):
            target = min(target, max(WINDOW_BLOCK, hint(self.sizes[self.parallel[-1]])))
        blocks = self.spread(elements, target)
        full_axes = tuple(a for a in inner if a != loop)
        form = "online" if online else "rows" if self.space.reduced else "pointwise"
        return self.tiled_program(blocks, full_axes, loop, chunk, form, online)

    def gather_target(self) -> int:
        """Return the elements of a tile that gathers: an index of one number reads a slice, many indices need pointers.

        Pointers are slower than slices, and a program for each slice is slower still where slices are short.
        """
        gathers = ((self.reads[n, 0], self.values[n]) for n in self.space.nodes if n.has("indexed"))
        places = ((line, next((d for d, a in enumerate(line) if a not in values), -1)) for line, values in gathers)
        shortest = min((self.product(line[place + 1 :]) for line, place in places if place >= 0), default=SHORT_SLICE)
        return 1 if shortest >= SHORT_SLICE else GATHER_BLOCK

    def elements(self, inner: tuple[int, ...]) -> int:
        """Count the elements of a tile; no tile has both the operand's and the result's axis of a selection."""
        if not any(node.has("selection") for node in self.space.nodes):
            return self.product(inner)
        lines = {*self.values.values(), *self.reads.values()}
        return max(self.product(tuple(a for a in line if a in inner)) for line in lines)

    def columns(self, inner: tuple[int, ...]) -> int:
        """Choose the block of columns for reductions over slower axes than the contiguous one; 1 means no columns."""
        if not self.space.reduced or not self.parallel:
            return 1
        last = self.parallel[-1]
        lines = [
            (u, line) for u, line in self.reads.items() if last in line and not self.space.reduced.isdisjoint(line)
        ]
        if not lines or any(line[-1] != last or self.is_turned(use) for use, line in lines):
            return 1
        size = hint(self.sizes[last])
        share = -(-size // max(1, 2 * self.threads // self.product(self.parallel[:-1])))
        return min(size, max(64, min(share, TILES.most_columns)))

    def is_turned(self, use: Use) -> bool:
        """Whether an operand is a transposed view, whose contiguous axis is not its last."""
        steps = steps_of(*use, self.strides)
        return steps is not None and steps[-1] != 1 and 1 in steps[:-1]

    def product(self, axes: tuple[int, ...]) -> int:
        total = 1
        for a in axes:
            total *= hint(self.sizes[a])
        return total

    def spread(self, elements: int, target: int) -> dict[int, int]:
        """Choose blocks of the parallel axes, the last one first, so that a tile has about `target` elements."""
        programs = self.product(self.parallel)
        least = 2 * self.threads
        blocks = dict.fromkeys(self.parallel, 1)
        for axis in reversed(self.parallel):
            size = hint(self.sizes[axis])
            room = max(1, target // max(1, elements))
            if room == 1:
                break
            block = even_part(size, room) if is_fixed(self.sizes[axis]) else min(size, room)
            while block > 64 and programs // block < least:
                block //= 2
            blocks[axis] = block
            elements *= block
            programs //= max(1, block)
            if block < size or not is_fixed(self.sizes[axis]):
                break
        return blocks

    def long_loop(self, inner: tuple[int, ...], columns: int) -> tuple[int | None, int, Online | None]:
        """Choose the axis to loop over because it is long or dynamic, and its chunk; None if all axes fit a tile."""
        unknown = [a for a in inner if not is_fixed(self.sizes[a])]
        most = 1
        for a in inner:
            most *= bounds(self.sizes[a])[1]
        try:
            axis = self.looped(inner, unknown)
            online = self.online_along(axis)
        except FusionConflict:
            if unknown and most * columns <= TILES.most_whole:
                return None, 0, None
            raise
        return axis, min(hint(self.sizes[axis]), max(8, POINTWISE_BLOCK // columns)), online

    def online_along(self, axis: int) -> Online | None:
        """Return None if a plain loop along an axis is legal, otherwise the online softmax of the loop."""
        try:
            self.check_loop(axis)
        except FusionConflict:
            if not self.allows_online:
                raise
            lines = {**self.values, **{n.inputs[k]: line for (n, k), line in self.reads.items()}}
            online = online_of(self.space, axis, lines)
            if online.second and self.product(self.parallel) < self.threads:
                raise FusionConflict(
                    "a second loop over a long axis would have fewer programs than there are threads"
                ) from None
            return online
        return None

    def looped(self, inner: tuple[int, ...], unknown: list[int]) -> int:
        """Choose the reduced axis that becomes a loop."""
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
        """Refuse a loop along an axis if a node on this axis depends on a reduction along it."""
        late: set[Node] = set()
        for node in self.space.nodes:
            along = any(
                axis in self.operand(node, n) for n in range(len(node.inputs)) if not node.inputs[n].is_constant
            )
            if node.has("scan", "sort", "selection"):
                raise FusionConflict("a running result or an order is not made by pieces")
            folds = node.is_product or node.has("reduction", "arg_reduction")
            reduces = folds and along and axis not in self.values[node]
            if reduces and not node.is_product and not is_in_pieces(node.op):
                raise FusionConflict("a position cannot be found by pieces")
            if reduces or any(x in late for x in node.inputs):
                if axis in self.values[node]:
                    raise FusionConflict("a long axis would be gone through twice")
                late.add(node)

    def tiled_program(
        self,
        blocks: dict[int, int],
        full_axes: tuple[int, ...],
        loop: int | None,
        chunk: int,
        form: str,
        online: Online | None = None,
        outer: Dim = (),
    ) -> Program:
        values, reads = self.values, self.reads
        return Program(self.space, self.sizes, values, reads, blocks, full_axes, loop, chunk, form, online, outer=outer)


VERSION_ROWS: Final = (8, 16)  # of the tiles of products
SHORT_AXIS: Final = 16  # elements of a loop's axis
WHOLE_AXIS: Final = 64  # elements of an axis that a program has as a whole
MOST_VERSION_NODES: Final = 48  # of a kernel with several bodies


@dataclass(frozen=True, slots=True)
class Version:
    """A program for few elements, with the most elements per axis; a grid axis counts from the program's start."""

    most: Mapping[int, int]
    program: Program


def even_part(size: int, most: int) -> int:
    """Return the number of elements in a block: of few, those that divide the size, so that no block is part empty.

    Examples
    --------
    >>> even_part(24, 16), even_part(23, 16), even_part(10, 16), even_part(5000, 2048)
    (12, 16, 10, 2048)
    """
    if size <= most or most > FEW:
        return min(size, most)
    return next((n for n in range(most, most // 2, -1) if size % n == 0), most)


def versions_of(program: Program) -> list[Version]:
    """Return programs with smaller tiles, those for the fewest elements first; none if all sizes are fixed."""
    if len(program.space.nodes) > MOST_VERSION_NODES or all(map(is_fixed, program.sizes.values())):
        return []
    if any(node.is_product for node in program.space.nodes):
        return of_products(program)
    most = {
        a: WHOLE_AXIS for a in program.full_axes if not is_fixed(program.sizes[a]) and program.tile_size(a) > WHOLE_AXIS
    }
    return [Version(most, replace(program, most=most))] if most else []


def of_products(program: Program) -> list[Version]:
    """Return versions for few rows of a product, and for a short axis."""
    rows = [a for a, block in program.blocks.items() if block > VERSION_ROWS[0] and not is_fixed(program.sizes[a])]
    if len(rows) != 1:
        return []
    (axis,) = rows
    blocks = {n: {**program.blocks, axis: n} for n in VERSION_ROWS if n < program.blocks[axis]}
    versions = [Version({axis: n}, replace(program, blocks=changed)) for n, changed in blocks.items()]
    loop = program.loop
    if loop is None or is_fixed(program.sizes[loop]) or program.chunk <= SHORT_AXIS or SHORT_AXIS not in blocks:
        return versions
    short = Version({axis: SHORT_AXIS, loop: SHORT_AXIS}, replace(program, blocks=blocks[SHORT_AXIS], chunk=SHORT_AXIS))
    return [short, *versions[:1]]
