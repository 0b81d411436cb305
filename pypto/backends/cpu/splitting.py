"""Numbers of float32 as sums of two or three of bfloat16, for products of tiles where `input_precision` allows it.

Each is rounded from what those before it leave: two hold 16 bits of a number, three all 24. Of the products of one
side's parts with the other's those count whose places add up to less than there are parts; what is left out is as small
as what rounding has lost. Sums are in float32, the small ones first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.rounding import bits
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Op
from pypto.ir.types import float32, uint32

if TYPE_CHECKING:
    from pypto.backends.cpu.emitter import LaneEmitter

_LANES: Final = 16  # of a register
_FEW: Final = 16  # rows for which the right side is read but once: more bytes of it take longer


def parts_of(dot: Op, target: CpuTarget) -> int:
    """How many numbers of bfloat16 stand for each of float32 in a product; 1 where they are multiplied as they are."""
    pays = target.has_tiles and target.has_bf16_round and dot.results[0].shape[-2] > _FEW
    parts = dot.attrs.get("parts", 1) if pays else 1
    assert isinstance(parts, int)
    return parts


def split(e: LaneEmitter, a: Lanes, parts: int) -> list[Lanes]:
    """Two registers of float32 as one of bfloat16 for each part."""
    found: list[Lanes] = []
    for n in range(parts):
        a = left(e, a, found[-1]) if n else a
        found.append(bits(e, e.part(a, 0, _LANES), e.part(a, _LANES, _LANES)))
    return found


def left(e: LaneEmitter, a: Lanes, rounded: Lanes) -> Lanes:
    """What rounding leaves of numbers; nothing of infinite ones."""
    part = e.change("bitcast", e.shl(e.change("zext", rounded, uint32), e.const(16, uint32)), float32)
    finite = e.cmp("lt", e.abs(part), e.const(math.inf, float32))
    return e.select(finite, e.sub(a, part), e.const(0.0, float32))


def pairs(parts: int) -> list[tuple[int, list[int]]]:
    """Parts of the right side, each with those of the left side that it is multiplied by: the smallest first."""
    return [(n, list(range(parts - 1 - n, -1, -1))) for n in range(parts - 1, -1, -1)]
