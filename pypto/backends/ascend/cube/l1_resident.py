"""L1-resident operands: an operand that is loaded in one loop and used in an inner one stays in L1 meanwhile.

It saves a load in each iteration of the inner loop, as for the query tile of attention. It is legal if only products of
inner loops use the load, all in the same way. All residents together take at most a quarter of L1, so that panels still
fit.

    for i:                              for i:
        q = load(Q[i])                      q = load(Q[i])  -> L1
        for j:                  ->          for j:
            s = dot(q, k[j])                    s = dot(q in L1, k[j])
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pypto.backends.ascend.blockir.ir import Buffer, Scalar, View, fold
from pypto.backends.ascend.cube.layout import Panel
from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.blocking import has_l1_room, l1_bytes, panel_extent
from pypto.backends.ascend.tile.cube_regions import CubeRegions, Source
from pypto.backends.ascend.tile.fractals import Side, room
from pypto.backends.ascend.tile.operand_facts import side_of
from pypto.ir.core import Op

RESIDENT_STAGES: Final = 1  # the inner loop hides the wait for the next one


@dataclass
class L1Residents:
    """The loads whose operands stay in L1."""

    sources: dict[Op, tuple[Source, Side]] = field(default_factory=dict)  # each load with its operand
    panels: dict[Op, Panel] = field(default_factory=dict)  # the panels of those that have been loaded

    @property
    def bytes(self) -> int:
        """Bytes of L1 that all residents take."""
        return sum(RESIDENT_STAGES * l1_bytes(source, side) for source, side in self.sources.values())

    def place(self, load: Op, iteration: Scalar, name: str) -> tuple[Buffer, Panel]:
        """Allocate an operand; the iteration of its loop chooses the stage."""
        source, side = self.sources[load]
        outer, depth = panel_extent(source, side.is_left)
        rows, cols = room(side, outer, depth)
        buffer = Buffer(name, "L1", side.dtype, rows * cols, RESIDENT_STAGES, layout=side.layout)
        panel = self.panels[load] = Panel(side, View(buffer, stage=fold("%", iteration, RESIDENT_STAGES)), outer, depth)
        return buffer, panel


def l1_residents_of(regions: CubeRegions, target: AscendTarget) -> L1Residents:
    """Return the loads that may stay in L1."""
    region_of_op = {op: region for region in regions.regions() for op in region.ops}
    uses_of_load: dict[Op, list[tuple[Op, Source, bool]]] = {}
    for dot in regions.dots:
        for i, v in enumerate(dot.operands[:2]):
            if v in regions.sources:
                uses_of_load.setdefault(regions.sources[v].load, []).append((dot, regions.sources[v], i == 0))
    residents = L1Residents()
    for load, uses in uses_of_load.items():
        dots, (_, source, is_left) = [dot for dot, *_ in uses], uses[0]
        is_same_operand = all((x.dims, left) == (source.dims, is_left) for _, x, left in uses)
        if (
            is_same_operand
            and all(region_of_op[dot] is not region_of_op[load] for dot in dots)
            and is_only_used_by(regions, load, dots)
        ):
            residents.sources[load] = source, side_of(source, is_left, target)
            if not has_l1_room(residents.bytes, target):
                del residents.sources[load]
    return residents


def is_only_used_by(regions: CubeRegions, load: Op, dots: list[Op]) -> bool:
    """Whether nothing but some products uses a load, directly or transposed."""
    worklist = [load.result]
    while worklist:
        for user in regions.users.get(worklist.pop(), []):
            if user.name in ("permute", "reshape"):
                worklist.append(user.result)
            elif user not in dots:
                return False
    return True
