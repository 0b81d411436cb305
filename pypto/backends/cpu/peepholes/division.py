"""Peephole: division by reciprocal (float32) and through float64 (integers), in place of the divide instruction.

A division of 16 float32 lanes takes as long as some thirty fused multiply-adds; integer division has no vector form at
all. Both replacements give the correctly rounded, or truncated, quotient.

%q = fdiv <64 x float> %a, splat(%b) becomes if all operands are in range: %y = 1 / %b; %q = %a * %y; two Markstein
steps on %q else: %q = fdiv
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import numpy as np

from pypto.backends.llvm.value import VectorValue
from pypto.ir.types import float32, float64, int32, uint32

if TYPE_CHECKING:
    from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter

_LANES: Final = 16  # of a register; in registers of 8 lanes, the divide instruction is as fast
_DIVIDENDS: Final = 2.0**-100, 2.0**100  # dividends whose remainders and quotients are normal numbers
_DIVISORS: Final = 2.0**-25, 2.0**25


def can_use_reciprocal(e: CpuLaneEmitter, a: VectorValue, b: VectorValue) -> bool:
    """Whether whole registers of float32 are divided by one number, on a target with FMA and AVX-512."""
    has_registers = e.target.has_fma and e.target.vector_bytes == 4 * _LANES
    return has_registers and a.dtype == b.dtype == float32 and b.width == 1 and a.width % _LANES == 0


def divide_by_reciprocal(e: CpuLaneEmitter, a: VectorValue, b: VectorValue) -> VectorValue:
    """The correctly rounded quotient.

    With y the correctly rounded reciprocal of b, q = a y is within 1.5 units in the last place of a / b, and q + (a - b
    q) y within one unit. By Markstein's theorem (Computation of elementary functions on the IBM RISC System/6000
    processor, 1990), one more such step rounds correctly where nothing overflows or underflows, since the remainder is
    exact. Where an operand is out of range, zeros among them, the instruction divides.
    """
    bits = e.change("bitcast", a, uint32)
    divisor_bits = e.change("bitcast", b, uint32)
    in_range = within(e, e.add(bits, bits), *_DIVIDENDS, 1)
    lanes = functools.reduce(e.and_, [e.part(in_range, i, _LANES) for i in range(0, a.width, _LANES)])
    name = f"llvm.vector.reduce.and.v{_LANES}i1"
    reduced = e.w.call("i1", name, ((lanes.type, lanes.text),), lanes.hoist_depth)
    all_in_range = VectorValue(reduced, lanes.dtype, 1, lanes.hoist_depth)
    reciprocal = e.binary("fdiv", e.const(1.0, float32), b)
    is_legal = e.and_(within(e, divisor_bits, *_DIVISORS, 0), all_in_range)

    def refined() -> list[VectorValue]:
        q = e.mul(a, reciprocal)
        for _ in range(2):
            q = e.fma(e.fma(e.neg(q), b, a), reciprocal, q)
        return [q]

    return e.w.branch(is_legal.text, [refined, lambda: [e.binary("fdiv", a, b)]])[0]


def within(e: CpuLaneEmitter, bits: VectorValue, least: float, most: float, shift: int) -> VectorValue:
    """Whether positive floats lie between two limits, compared by their bits."""
    low, high = (int(np.float32(x).view(np.uint32)) << shift for x in (least, most))
    return e.cmp("le", e.sub(bits, e.const(low, uint32)), e.const(high - low, uint32))


def fits_float64(a: VectorValue, b: VectorValue) -> bool:
    """Whether integers in lanes have quotients that float64 holds."""
    return max(a.width, b.width) > 1 and a.dtype.bits <= 32


def float64_quotient(e: CpuLaneEmitter, a: VectorValue, b: VectorValue) -> VectorValue:
    """The quotient of integers of at most 32 bits by nonzero ones; undefined where it is out of range.

    The 53 bits of float64 are enough for truncation to be exact. A divisor that all lanes share becomes a factor: (|a|
    + ½) / |b| is at least ½ / |b| away from an integer, and two roundings move (|a| + ½) · (1 / |b|) by at most 2⁻²⁰ /
    |b|.
    """
    dividend = e.convert(a, float64)
    divisor = e.convert(b, float64)
    half = e.const(0.5, float64)
    if a.dtype.kind == "int":
        half = e.select(e.cmp("lt", a, e.const(0, a.dtype)), e.neg(half), half)
    if b.width > 1:
        quotient = e.div(dividend, divisor)
    else:
        quotient = e.mul(e.add(dividend, half), e.div(e.const(1.0, float64), divisor))
    truncated = e.change("fptoui", quotient, uint32) if a.dtype == uint32 else e.change("fptosi", quotient, int32)
    return e.convert(truncated, a.dtype)
