"""Numbers of float32 as sums of two or three of bfloat16, for products of tiles where `input_precision` allows it.

Each is rounded from what those before it leave: two hold 16 bits of a number, three all 24. Of the products of one
side's parts with the other's those count whose places add up to less than there are parts; what is left out is as small
as what rounding has lost. Sums are in float32, the small ones first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.llvm.bf16_rounding import bits
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.ir.types import float32, uint32

if TYPE_CHECKING:
    from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter

_REGISTER_LANES: Final = 16  # of a register


def split_bf16(e: LaneEmitter, a: VectorValue, parts: int) -> list[VectorValue]:
    """Two registers of float32 as one of bfloat16 for each part."""
    found: list[VectorValue] = []
    for n in range(parts):
        a = rounding_residual(e, a, found[-1]) if n else a
        found.append(bits(e, e.part(a, 0, _REGISTER_LANES), e.part(a, _REGISTER_LANES, _REGISTER_LANES)))
    return found


def rounding_residual(e: LaneEmitter, a: VectorValue, rounded: VectorValue) -> VectorValue:
    """What rounding leaves of numbers; nothing of infinite ones."""
    part = e.change("bitcast", e.shl(e.change("zext", rounded, uint32), e.const(16, uint32)), float32)
    finite = e.cmp("lt", e.abs(part), e.const(math.inf, float32))
    return e.select(finite, e.sub(a, part), e.const(0.0, float32))


def term_products(parts: int) -> list[tuple[int, list[int]]]:
    """Parts of the right side, each with those of the left side that it is multiplied by: the smallest first."""
    return [(n, list(range(parts - 1 - n, -1, -1))) for n in range(parts - 1, -1, -1)]
