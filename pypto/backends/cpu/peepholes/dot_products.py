"""Dot products of narrow numbers, of which a 32-bit word holds two or four: one instruction adds up those of a word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.llvm.value import VectorValue
from pypto.ir.types import int16, int32

# AMX's intrinsics, by the numbers in a word.
TILE_INTRINSICS: Final[Mapping[int, str]] = MappingProxyType({2: "llvm.x86.tdpbf16ps", 4: "llvm.x86.tdpbssd"})


def word_dot_product(e: CpuLaneEmitter, factor: int, a: VectorValue, b: VectorValue, c: VectorValue) -> VectorValue:
    """c plus the dot product of each word of `a` and `b`, in which `factor` numbers lie: bfloat16, int16 or int8.

    Of bytes, the instruction takes those of `b` as unsigned: their signs are flipped, see `packing.bias_signs`.
    """
    if factor == 4:
        name, factors = f"llvm.x86.avx512.vpdpbusd.{32 * c.width}", [(v.type, v.text) for v in (b, a)]
    else:
        kind = f"<{2 * c.width} x {'i16' if c.dtype == int32 else 'bfloat'}>"
        factors = [(kind, e.w.raw(f"bitcast {v.typed} to {kind}", v.hoist_depth)) for v in (a, b)]
        if c.dtype == int32:
            return add_pairs(e, c, [VectorValue(x, int16, 2 * c.width, c.hoist_depth) for _, x in factors])
        name = "llvm.x86.avx512bf16.dpbf16ps.512"
    return VectorValue(e.w.call(c.type, name, ((c.type, c.text), *factors)), c.dtype, c.width, c.hoist_depth)


def add_pairs(e: CpuLaneEmitter, c: VectorValue, factors: list[VectorValue]) -> VectorValue:
    """c plus products of numbers of 16 bits, each added to its neighbour, for which LLVM finds an instruction.

    The empty assembly keeps sums in order. Added up in another, those of an unrolled loop need more registers than
    there are.
    """
    products = e.mul(*(e.convert(v, int32) for v in factors))
    pairs = e.add(*(e.shuffle(products, products, list(range(n, products.width, 2))) for n in (0, 1)))
    total = e.add(c, pairs)
    return replace(total, text=e.w.raw(f'call {total.type} asm "", "=v,0"({total.typed})', total.hoist_depth))
