"""Tile candidates: the alternative tile sizes of a kernel that tuning measures.

A candidate names sizes: `block0`, `block1`, … of the axes that programs split, in their order, `piece` of the axis
that a program loops over, and fields of the blocking of matrix products. All candidates of a kernel compute the same,
up to the order of sums.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from pypto.blocking import Blocking
from pypto.graph.codegen.kernel_text import kernel_text
from pypto.graph.codegen.writer import KernelText
from pypto.graph.ir.dims import bounds, is_fixed
from pypto.graph.schedule.tiling import Program

Chosen = Mapping[str, int]
_FACTORS: Final = (1.0, 2.0, 0.5, 4.0, 0.25)  # of a size
_LEAST: Final = 8  # elements of a block or a piece
_MOST_GROWTH: Final = 4  # of a tile, either way
_MOST: Final = 24  # sizes of tiles that are tried
_FIELDS: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {"nr": (16, 32, 64), "kc": (128, 256, 512), "k_unroll": (2, 4, 8), "mc": (64, 128, 256), "nc": (128, 256, 512)}
)


def tiled_axes(program: Program) -> list[int]:
    """Return the axes of the grid along which a program may have a tile."""
    axes = [axis for axis, block in program.blocks.items() if block > 1]
    by_index = any(node.is_product or node.has("indexed") for node in program.space.nodes)
    return axes or ([] if by_index else [*program.blocks][-1:])


def tile_sizes(program: Program) -> dict[str, int]:
    """Return the tile sizes of a program, by name."""
    sizes = {f"block{n}": program.blocks[axis] for n, axis in enumerate(tiled_axes(program))}
    return sizes if program.loop is None else {**sizes, "piece": program.chunk}


def tile_candidates(program: Program) -> list[dict[str, int]]:
    """Return the tile sizes to measure: the default choice first, then sizes near it."""
    base = tile_sizes(program)
    axes = [*tiled_axes(program), *(() if program.loop is None else (program.loop,))]
    choices = [resized(size, program.sizes[axis]) for size, axis in zip(base.values(), axes, strict=True)]
    candidates = [sizes for sizes in itertools.product(*choices) if is_near(sizes, tuple(base.values()))]
    candidates.sort(key=lambda sizes: distance(sizes, tuple(base.values())))
    return [dict(zip(base, sizes, strict=True)) for sizes in candidates[:_MOST]]


def resized(size: int, extent: int) -> list[int]:
    """Return sizes near a size, not larger than the axis if its size is fixed."""
    most = extent if is_fixed(extent) else bounds(extent)[1]
    sizes = (min(most, int(size * factor)) for factor in _FACTORS)
    return [size, *dict.fromkeys(n for n in sizes if n >= min(_LEAST, size) and n != size)]


def is_near(sizes: tuple[int, ...], base: tuple[int, ...]) -> bool:
    """Whether a tile has a similar number of elements as another."""
    growth = math.prod(n / old for n, old in zip(sizes, base, strict=True))
    return 1 / _MOST_GROWTH <= growth <= _MOST_GROWTH


def distance(sizes: tuple[int, ...], base: tuple[int, ...]) -> float:
    """Count the doublings between two tiles."""
    return sum(abs(math.log2(n / old)) for n, old in zip(sizes, base, strict=True))


def blocking_candidates(program: Program) -> list[dict[str, int]]:
    """Return changes of one field of the products' blocking to measure; none for a kernel without products."""
    if not any(node.is_product for node in program.space.nodes):
        return []
    return [{field: value} for field, values in _FIELDS.items() for value in values]


def varied(program: Program, chosen: Chosen) -> Program:
    """Return a program with other tile sizes."""
    axes = {f"block{n}": axis for n, axis in enumerate(tiled_axes(program))}
    blocks = {**program.blocks, **{axes[name]: size for name, size in chosen.items() if name in axes}}
    return replace(program, blocks=blocks, chunk=chosen.get("piece", program.chunk))


def variant_text(program: Program, chosen: Chosen, precision: str) -> KernelText:
    """Write a program's kernel with other tile sizes."""
    blocking = Blocking(**{name: size for name, size in chosen.items() if name in _FIELDS})
    return kernel_text(varied(program, chosen), precision, blocking)
