"""Operands that are loaded in one loop and used in another one inside of it: they stay in L1 meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pypto.backends.ascend.blockir.ir import Buffer, Scalar, View, fold
from pypto.backends.ascend.cube.layout import Panel
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.blocking import blocking_of
from pypto.backends.ascend.tile.cube_regions import CubeRegions, Source
from pypto.backends.ascend.tile.fractals import Side, room
from pypto.backends.ascend.tile.operand_facts import side_of
from pypto.ir.core import Op

L1_SHARE: Final = 4  # of L1, what all of them may take: one part in so many
STAGES: Final = 1  # events between units are few, and the loop inside hides the wait for the next one


@dataclass
class L1Residents:
    """The loads of such operands, and where they are once they have been loaded."""

    sources: dict[Op, tuple[Source, Side]] = field(default_factory=dict)
    panels: dict[Op, Panel] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Of L1, for all of them."""
        return sum(STAGES * size_of(source, side) for source, side in self.sources.values())

    def place(self, load: Op, turn: Scalar, name: str) -> tuple[Buffer, Panel]:
        """Memory for an operand, whose stage is that of a turn."""
        source, side = self.sources[load]
        outer, depth = extent(source, side.is_left)
        rows, cols = room(side, outer, depth)
        buffer = Buffer(name, "L1", side.dtype, rows * cols, STAGES, layout=side.layout)
        made = self.panels[load] = Panel(side, View(buffer, stage=fold("%", turn, STAGES)), outer, depth)
        return buffer, made


def l1_residents_of(parts: CubeRegions, target: AscendTarget) -> L1Residents:
    """Loads whose only users are products in loops inside of their own, which take all of their K at once."""
    deepest = depths(parts, target)
    homes = {op: region for region in parts.regions() for op in region.ops}
    users: dict[Op, list[tuple[Op, Source, bool]]] = {}
    for dot in parts.dots:
        for i, v in enumerate(dot.operands[:2]):
            if v in parts.sources:
                users.setdefault(parts.sources[v].load, []).append((dot, parts.sources[v], i == 0))
    found = L1Residents()
    for load, uses in users.items():
        dots, (_, source, is_left) = [dot for dot, *_ in uses], uses[0]
        alike = all((x.dims, left) == (source.dims, is_left) for _, x, left in uses)
        deep = all(deepest.get(dot, 0) >= extent(source, is_left)[1] for dot in dots)
        if alike and deep and all(homes[dot] is not homes[load] for dot in dots) and is_only_used_by(parts, load, dots):
            found.sources[load] = source, side_of(source, is_left, target)
            if found.bytes * L1_SHARE > target.memories["L1"].bytes:
                del found.sources[load]
    return found


def depths(parts: CubeRegions, target: AscendTarget) -> dict[Op, int]:
    """How much of K each product has in one panel."""
    found = {}
    for dot in parts.dots:
        if all(v in parts.sources for v in dot.operands[:2]):
            (m, k), n = dot.operands[0].shape[-2:], dot.operands[1].shape[-1]
            left, right = (side_of(parts.sources[v], i == 0, target) for i, v in enumerate(dot.operands[:2]))
            blocking = blocking_of(
                left, right, m, n, k, len(parts.dots), target, target.memories["L1"].bytes // L1_SHARE
            )
            found[dot] = blocking.depth if blocking else 0
    return found


def is_only_used_by(parts: CubeRegions, load: Op, dots: list[Op]) -> bool:
    """Whether nothing but some products takes a load, as it is or turned."""
    todo = [load.result]
    while todo:
        for user in parts.users.get(todo.pop(), []):
            if user.name in ("permute", "reshape"):
                todo.append(user.result)
            elif user not in dots:
                return False
    return True


def extent(source: Source, is_left: bool) -> tuple[int, int]:
    """Elements along M or N, and along K."""
    sizes = [1 if d is None else source.access.shape[d] for d in source.dims]
    return (sizes[0], sizes[1]) if is_left else (sizes[1], sizes[0])


def size_of(source: Source, side: Side) -> int:
    """Bytes of an operand in L1."""
    rows, cols = room(side, *extent(source, side.is_left))
    return rows * cols * side.dtype.itemsize
