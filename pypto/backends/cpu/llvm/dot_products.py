"""Dot-product instructions of narrow numbers, as a table by packing factor: how many numbers a 32-bit word holds.

Each row names the target feature, the intrinsic for vector registers, and the one for AMX tiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
from pypto.backends.cpu.llvm.value import VectorValue


@dataclass(frozen=True, slots=True)
class DotProduct:
    """An instruction that adds, in each 32-bit lane, the products of the numbers in a word of a and a word of
    b to c.
    """

    feature: str  # of the target, as LLVM names it
    intrinsic: str
    tile_intrinsic: str
    element: str = ""  # LLVM type of the numbers, where the intrinsic takes no words
    unsigned_first: bool = False  # the first factor is unsigned: b with flipped signs, see `packing.bias_signs`


DOT_PRODUCTS: Final[Mapping[int, DotProduct]] = MappingProxyType({
    2: DotProduct("avx512bf16", "llvm.x86.avx512bf16.dpbf16ps.512", "llvm.x86.tdpbf16ps", element="bfloat"),
    4: DotProduct("avx512vnni", "llvm.x86.avx512.vpdpbusd.512", "llvm.x86.tdpbssd", unsigned_first=True),
})  # fmt: skip


def word_dot_product(
    e: LaneEmitter, packing_factor: int, a: VectorValue, b: VectorValue, c: VectorValue
) -> VectorValue:
    """c plus the dot product of each word of `a` and `b`."""
    row = DOT_PRODUCTS[packing_factor]
    factors = [(v.type, v.text) for v in ((b, a) if row.unsigned_first else (a, b))]
    if row.element:
        kind = f"<{packing_factor * c.width} x {row.element}>"
        factors = [(kind, e.w.raw(f"bitcast {v.typed} to {kind}", v.hoist_depth)) for v in (a, b)]
    result = e.w.call(c.type, row.intrinsic, ((c.type, c.text), *factors))
    return VectorValue(result, c.dtype, c.width, c.hoist_depth)
