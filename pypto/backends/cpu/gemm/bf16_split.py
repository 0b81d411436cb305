"""Split of float32 into terms of bfloat16: products of tiles use bfloat16 instructions, where `input_precision` allows.

Each term is the rounded residual of the terms before it: two hold 16 bits of a number, three all 24. A product of terms
i and j counts where i + j is less than the number of terms; what is left out is as small as the rounding error. Sums
are in float32, small products first. It pays where AMX multiplies bfloat16 sixteen times as fast as float32.

c = a * b becomes, with two terms each, c = (a1 * b0 + a0 * b1) + a0 * b0
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pypto.backends.cpu.peepholes.bf16_rounding import bits
from pypto.backends.llvm.value import VectorValue
from pypto.ir.types import float32, uint32

if TYPE_CHECKING:
    from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter


def split_bf16(e: CpuLaneEmitter, a: VectorValue, count: int) -> list[VectorValue]:
    """Two registers of float32 as one register of bfloat16 for each term."""
    lanes = a.width // 2
    terms: list[VectorValue] = []
    for n in range(count):
        a = rounding_residual(e, a, terms[-1]) if n else a
        terms.append(bits(e, e.part(a, 0, lanes), e.part(a, lanes, lanes)))
    return terms


def rounding_residual(e: CpuLaneEmitter, a: VectorValue, rounded: VectorValue) -> VectorValue:
    """What rounding to bfloat16 leaves of numbers; 0 of infinities."""
    term = e.change("bitcast", e.shl(e.change("zext", rounded, uint32), e.const(16, uint32)), float32)
    is_finite = e.cmp("lt", e.abs(term), e.const(math.inf, float32))
    return e.select(is_finite, e.sub(a, term), e.const(0.0, float32))


def term_products(count: int) -> list[tuple[int, list[int]]]:
    """Terms of the right side, each with those of the left side that it is multiplied by, the smallest first."""
    return [(n, list(range(count - 1 - n, -1, -1))) for n in range(count - 1, -1, -1)]
