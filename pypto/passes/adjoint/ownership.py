"""Ownership: how the gradient of an array is accumulated, so that no two programs write one element.

An axis of the grid owns elements of an array where programs that differ in their place on it read different ones. If
all axes do, each program writes its own part of the gradient. If some do, the derived kernel runs the others one after
another in one program. If none does, programs are summed in blocks: each block has a partial gradient of its own, and a
second kernel adds up the partial gradients. Nothing depends on the number of threads.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pypto.ir.core import Op, Region
from pypto.passes.adjoint.footprint import AffineNumbers, Digit, Dimension, Footprint, footprint


class Accumulation(enum.Enum):
    """How a load's gradient gets to memory."""

    STORE = "store"  # each element is met once
    ADD = "add"  # read, add, write: an element is met by several loads or trips of one program
    ATOMIC = "atomic"  # addresses may be equal within a tile


@dataclass(frozen=True)
class Ownership:
    """How the gradient of one array is accumulated.

    `axes` own elements; `covers` says that every element of the array is met, so that nothing is to be zeroed. The load
    `first`, where there is one, meets all elements that its program owns: what it contributes is stored, and what the
    loads after it contribute is added later.
    """

    axes: frozenset[int]
    accumulation: Accumulation
    covers: bool = False
    first: Op | None = None


def accesses_of(
    region: Region, names: tuple[str, ...], loops: tuple[Op, ...] = ()
) -> Iterator[tuple[Op, tuple[Op, ...]]]:
    """The ops of some names in a region, each with the loops around it, outermost first."""
    for op in region.ops:
        if op.name in names:
            yield op, loops
        for inner in op.regions:
            yield from accesses_of(inner, names, (*loops, op) if op.name in ("for", "while") else loops)


def ownership(loads: Sequence[tuple[Op, tuple[Op, ...]]], shape: Sequence[int], numbers: AffineNumbers) -> Ownership:
    """How the gradient of an array is accumulated, from all loads of it."""
    grid = numbers.launch.grid
    footprints = [footprint(op, loops, numbers) for op, loops in loads]
    known = [x for x in footprints if x is not None]
    if len(known) < len(footprints):
        return Ownership(frozenset(), Accumulation.ATOMIC)
    counts: dict[Digit, int] = dict(enumerate(grid))
    counts.update((op.regions[0].args[0], numbers.trips(op)) for _, loops in loads for op in loops)
    axes = owning_axes(known, counts, grid)
    once = len(known) == 1 and len(axes) == 3 and meets_once(known[0], counts)
    if once:
        return Ownership(axes, Accumulation.STORE, covers(known[0], shape, counts))
    ordered = reversed(known) if len(axes) == 3 else iter(())
    unconditional = itertools.takewhile(lambda x: x.op in numbers.unconditional, ordered)
    first = next((x.op for x in unconditional if meets_once(x, counts) and covers(x, shape, counts)), None)
    return Ownership(axes, Accumulation.ADD, first is not None, first)


def owning_axes(loads: Sequence[Footprint], counts: Mapping[Digit, int], grid: Sequence[int]) -> frozenset[int]:
    """The axes that own elements. Axes of one program own what others do; where no other axis owns, none does."""
    trivial = frozenset(a for a in range(3) if grid[a] <= 1)
    owning = frozenset(a for a in range(3) if a not in trivial and owns(a, loads, counts))
    return owning | trivial if owning or len(trivial) == 3 else frozenset()


def owns(axis: int, loads: Sequence[Footprint], counts: Mapping[Digit, int]) -> bool:
    """Whether programs that differ in their place on an axis read different elements, in all loads together."""
    tables = [separable_dimensions(x, counts) for x in loads]
    first = tables[0]
    for d, dimension in first.items():
        tells_apart = axis in dimension.index.coefficients and dimension.is_injective(counts)
        if tells_apart and all(table.get(d) == dimension for table in tables):
            return True
    return False


def separable_dimensions(x: Footprint, counts: Mapping[Digit, int]) -> dict[int, Dimension]:
    """Dimensions, by their stride's place, such that different indices in one of them are different elements.

    The base of a pointer counts as dimension -1, whose elements are as large as all that lies behind it.
    """
    if x.is_native:
        return dict(enumerate(x.dimensions))
    spans = [span(dimension, counts) for dimension in x.dimensions]
    order = sorted(range(len(spans)), key=lambda d: abs(x.strides[d]))
    reach = 1
    table: dict[int, Dimension] = {}
    for d in order:
        if abs(x.strides[d]) < reach:
            return {}
        table[d] = x.dimensions[d]
        reach += abs(x.strides[d]) * (spans[d] - 1)
    return {-1: Dimension(x.base, reach, 0), **table}


def span(dimension: Dimension, counts: Mapping[Digit, int]) -> int:
    """How many indices of a dimension there are at most, from the first that exists to the last."""
    last = dimension.index.constant + dimension.size
    last += sum(n * (counts[digit] - 1) for digit, n in dimension.index.coefficients.items() if n > 0)
    return max(1, min(dimension.extent, last))


def meets_once(x: Footprint, counts: Mapping[Digit, int]) -> bool:
    """Whether one program meets no element twice: each loop around a load moves it on."""
    table = separable_dimensions(x, counts)
    moving = {digit for dimension in table.values() for digit in dimension.index.coefficients}
    injective = all(dimension.is_injective(counts) for dimension in table.values())
    return bool(table) and injective and all(op.name == "for" and op.regions[0].args[0] in moving for op in x.loops)


def covers(x: Footprint, shape: Sequence[int], counts: Mapping[Digit, int]) -> bool:
    """Whether a load meets every element of its array."""
    if not x.is_native or x.is_partial:
        return False
    for dimension, size in zip(x.dimensions, shape, strict=True):
        reach = dimension.reach(counts)
        if dimension.index.constant or reach is None or reach < size:
            return False
    return True
