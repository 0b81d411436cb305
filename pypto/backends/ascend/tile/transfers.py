"""Transfers between cores: the tiles that one side of a mixed kernel computes and the other one uses.

Transfers of one type share a channel where they pass in the same order, since flags between cores are few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pypto.backends.ascend.tile.cube_regions import CubeRegions, cube_ops
from pypto.ir.core import Function, Op, Region, Value, walk
from pypto.ir.types import DType


class NotPartitionable(Exception):
    """The reason why a kernel cannot be split."""


@dataclass(frozen=True)
class Transfer:
    """A tile that goes from one side to the other."""

    channel: int  # number of its channel
    value: Value  # the tile
    to_cube: bool  # whether the cube core receives it

    @property
    def name(self) -> str:
        """The name of its array in the workspace, after the tile or what the tile was cast or copied from."""
        op = self.value.op
        source = (
            op.operands[0].hint
            if op is not None and op.name in ("cast", "reshape")
            else op.name
            if op is not None
            else ""
        )
        return f"{self.value.hint or source or 'tile'}_slots_{self.channel}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.value.shape

    @property
    def dtype(self) -> DType:
        """Its elements."""
        return self.value.dtype

    @property
    def pitch(self) -> int:
        """Elements from one row to the next, in whole blocks of 32 bytes."""
        unit = 32 // self.dtype.itemsize
        return -(-self.shape[-1] // unit) * unit

    @property
    def access_operands(self) -> tuple[int, ...]:
        """Offsets, strides and extents of an access to it."""
        return (*(0 for _ in self.shape), *(self.elements for _ in self.shape[2:]), self.pitch, 1, *self.shape)

    @property
    def elements(self) -> int:
        """Elements of a slot."""
        return self.shape[-2] * self.pitch


def find_transfers(regions: CubeRegions) -> list[Transfer]:
    """Return the tiles that cross between the sides."""
    cube_work = cube_ops(regions)
    exchanged: list[tuple[Value, bool]] = []
    for dot in regions.dots:
        exchanged += [(v, True) for v in dot.operands[:2] if v not in regions.sources]
        if not regions.accumulates_on_cube(dot):
            raise NotPartitionable("a product is added to what the vector cores changed in a loop")
    exchanged += [
        (v, False)
        for v in regions.sums
        if any(not is_cube_use(regions, cube_work, op, v) for op in regions.users.get(v, []))
    ]
    order = {v: i for i, v in enumerate(all_values(regions.function.body))}
    sorted_pairs = sorted(dict.fromkeys(exchanged), key=lambda pair: (order[pair[0]], pair[1]))
    return assign_channels(regions, sorted_pairs)


def assign_channels(regions: CubeRegions, exchanged: list[tuple[Value, bool]]) -> list[Transfer]:
    """Assign a channel to each tile.

    Tiles of one type share a channel where they pass in the same order, one after the other. The cube core keeps the
    slot of a tile until its last use, so a tile that comes meanwhile needs another channel. So does a tile with several
    uses.
    """
    positions = top_level_positions(regions.function)
    channels: list[tuple[object, list[range]]] = []
    transfers = []
    for v, to_cube in exchanged:
        kind = (v.type, to_cube, v if to_cube and not has_single_use(regions, v) else None)
        first = positions.get(v, -1)
        last = max((positions[op] for op in regions.users.get(v, [])), default=first) if to_cube else first
        live = range(first, last + 1)
        free = (n for n, (k, used) in enumerate(channels) if k == kind and not overlap(live, used))
        number = next(free, len(channels))
        if number == len(channels):
            channels.append((kind, []))
        channels[number][1].append(live)
        transfers.append(Transfer(number, v, to_cube))
    return transfers


def top_level_positions(function: Function) -> dict[Op | Value, int]:
    """Return which op of the function's body each op and value belongs to."""
    positions: dict[Op | Value, int] = {}
    for i, op in enumerate(function.body.ops):
        positions.update(dict.fromkeys((op, *op.results), i))
        for region in op.regions:
            positions.update(dict.fromkeys((*walk(region), *all_values(region)), i))
    return positions


def overlap(live: range, used: list[range]) -> bool:
    """Whether a live range overlaps one of the others."""
    return any(live.start < other.stop and other.start < live.stop for other in used)


def has_single_use(regions: CubeRegions, v: Value) -> bool:
    """Whether a tile has one user, in the same sequence of ops."""
    users = regions.users.get(v, [])
    region = next((r for r in regions.regions() if v.op in r.ops), None)
    return len(users) == 1 and region is not None and users[0] in region.ops


def is_cube_use(regions: CubeRegions, cube_work: set[Op], op: Op, v: Value) -> bool:
    """Whether a use of a sum is the cube core's own."""
    if op.name in ("for", "yield"):
        return all(
            x in regions.sums for x in regions.carried_to.get((op, v), [v if op.name == "for" else Value(v.type)])
        )
    return (op in regions.dots and v not in op.operands[:2]) if op.name == "dot" else op in cube_work


def all_values(region: Region) -> Iterator[Value]:
    """Yield all values of a region and of those inside of it."""
    yield from region.args
    for op in region.ops:
        for inner in op.regions:
            yield from all_values(inner)
        yield from op.results
