"""Quotients without the machine's division, which takes a register as long as some thirty multiply-adds do."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import numpy as np

from pypto.backends.cpu.llvm.value import VectorValue
from pypto.ir.types import float32, float64, int32, uint32

if TYPE_CHECKING:
    from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter

_LANES: Final = 16  # of a register: of half ones, the machine's own division is as fast
_LEAST, _MOST = 2.0**-100, 2.0**100  # dividends whose remainders and quotients are normal numbers
_DIVISORS: Final = 2.0**-25, 2.0**25


def has_factor(e: LaneEmitter, a: VectorValue, b: VectorValue) -> bool:
    """True for whole registers of float32 that are divided by one number."""
    wide = e.target.has_fma and e.target.vector_bytes == 4 * _LANES
    return wide and a.dtype == b.dtype == float32 and b.width == 1 and a.width % _LANES == 0


def by_factor(e: LaneEmitter, a: VectorValue, b: VectorValue) -> VectorValue:
    """The quotient, rounded correctly.

    With y the reciprocal of b, rounded correctly, q = a y is no further than 1.5 units in the last place from a / b,
    and q + (a - b q) y within one of it. By Markstein's theorem (Computation of elementary functions on the IBM RISC
    System/6000 processor, 1990), the same step once more rounds correctly, where nothing overflows or underflows: the
    remainder is exact. Where anything is out of range, zeros among it, the machine divides.
    """
    bits, divisor = e.change("bitcast", a, uint32), e.change("bitcast", b, uint32)
    inside = within(e, e.add(bits, bits), _LEAST, _MOST, 1)
    parts = [e.part(inside, i, _LANES) for i in range(0, a.width, _LANES)]
    every = functools.reduce(e.and_, parts)
    name = f"llvm.vector.reduce.and.v{_LANES}i1"
    all_inside = VectorValue(
        e.w.call("i1", name, ((every.type, every.text),), every.hoist_depth), every.dtype, 1, every.hoist_depth
    )
    factor = e.binary("fdiv", e.const(1.0, float32), b)
    good = e.and_(within(e, divisor, *_DIVISORS, 0), all_inside)

    def refined() -> list[VectorValue]:
        q = e.mul(a, factor)
        for _ in range(2):
            q = e.fma(e.fma(e.neg(q), b, a), factor, q)
        return [q]

    return e.w.branch(good.text, [refined, lambda: [e.binary("fdiv", a, b)]])[0]


def within(e: LaneEmitter, bits: VectorValue, least: float, most: float, shift: int) -> VectorValue:
    """True for positive floats between two others, by their bits."""
    low, high = (int(np.float32(x).view(np.uint32)) << shift for x in (least, most))
    return e.cmp("le", e.sub(bits, e.const(low, uint32)), e.const(high - low, uint32))


def is_narrow(a: VectorValue, b: VectorValue) -> bool:
    """True for integers in lanes whose quotients float64 holds."""
    return max(a.width, b.width) > 1 and a.dtype.bits <= 32


def in_lanes(e: LaneEmitter, a: VectorValue, b: VectorValue) -> VectorValue:
    """The quotient of integers of at most 32 bits, none of them by zero; anything where it is out of range.

    53 bits hold it exactly enough for truncation to be right. One divisor of all lanes is a factor: (|a| + ½) / |b|
    is no nearer to an integer than ½ / |b|, and two roundings move (|a| + ½) · (1 / |b|) by 2⁻²⁰ / |b| at most.
    """
    wide, divisor, half = e.convert(a, float64), e.convert(b, float64), e.const(0.5, float64)
    if a.dtype.kind == "int":
        half = e.select(e.cmp("lt", a, e.const(0, a.dtype)), e.neg(half), half)
    quotient = e.div(wide, divisor) if b.width > 1 else e.mul(e.add(wide, half), e.div(e.const(1.0, float64), divisor))
    whole = e.change("fptoui", quotient, uint32) if a.dtype == uint32 else e.change("fptosi", quotient, int32)
    return e.convert(whole, a.dtype)
