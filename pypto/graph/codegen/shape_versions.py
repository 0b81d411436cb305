"""Shape versions: a kernel with a dynamic dimension has a second body with smaller tiles, for few rows.

The tile of a dynamic dimension suits many elements. For few elements most of the tile is masked, but its products take
the full time. So the program tests the size, and has a body with smaller tiles for the last rows of a product, a short
axis of a softmax, or both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pypto.graph.ir.dims import is_fixed
from pypto.graph.schedule.tiling import Program

ROWS: Final = (8, 16)  # of the tiles of products
SHORT: Final = 16  # elements of a loop's axis
WHOLE: Final = 64  # elements of an axis that a program has as a whole
MOST_NODES: Final = 48  # of a kernel with several bodies


@dataclass(frozen=True, slots=True)
class Version:
    """A program for few elements, with the most elements per axis; a grid axis counts from the program's start."""

    most: Mapping[int, int]
    program: Program


def versions_of(program: Program) -> list[Version]:
    """Return programs with smaller tiles, those for the fewest elements first; none if all sizes are fixed."""
    if len(program.space.nodes) > MOST_NODES or all(map(is_fixed, program.sizes.values())):
        return []
    if any(node.is_product for node in program.space.nodes):
        return of_products(program)
    most = {a: WHOLE for a in program.full_axes if not is_fixed(program.sizes[a]) and program.tile_size(a) > WHOLE}
    return [Version(most, replace(program, most=most))] if most else []


def of_products(program: Program) -> list[Version]:
    """Return versions for few rows of a product, and for a short axis."""
    rows = [a for a, block in program.blocks.items() if block > ROWS[0] and not is_fixed(program.sizes[a])]
    if len(rows) != 1:
        return []
    (axis,) = rows
    blocks = {n: {**program.blocks, axis: n} for n in ROWS if n < program.blocks[axis]}
    versions = [Version({axis: n}, replace(program, blocks=changed)) for n, changed in blocks.items()]
    loop = program.loop
    if loop is None or is_fixed(program.sizes[loop]) or program.chunk <= SHORT or SHORT not in blocks:
        return versions
    short = Version({axis: SHORT, loop: SHORT}, replace(program, blocks=blocks[SHORT], chunk=SHORT))
    return [short, *versions[:1]]
