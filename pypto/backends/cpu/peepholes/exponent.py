"""Peephole: scaling by powers of two, and the split into integer and fraction, by AVX-512's `vscalef` and `vreduce`.

`exp` and its relatives need 2**n times a polynomial. In plain instructions, that is two multiplications by numbers
whose exponents are built from bits, so that subnormal results are right; `vscalef` is one and rounds once. Legal for
whole registers of float32 or float64.

%t = mul %p, 2**(n/2); %r = mul %t, 2**(n - n/2) becomes %r = vscalefps %p, %n
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pypto.backends.llvm.value import VectorValue
from pypto.ir.types import float64

if TYPE_CHECKING:
    from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter

_NEAREST: Final = "8"  # rounding control: to nearest even, without an inexact exception
Operand = tuple[str, str]  # type and text


def lanes(e: CpuLaneEmitter, a: VectorValue) -> int:
    """Lanes of one register, or all lanes where these are fewer."""
    return min(a.width, e.target.vector_bytes // a.dtype.itemsize)


def has_scalef_form(e: CpuLaneEmitter, a: VectorValue) -> bool:
    """Whether the target has the instructions, and the value is whole registers."""
    width = lanes(e, a)
    return e.target.has_scalef and width * a.dtype.bits in (128, 256, 512) and a.width % width == 0


def scalef(e: CpuLaneEmitter, a: VectorValue, n: VectorValue) -> VectorValue:
    """a * 2**n, rounded once."""
    width = lanes(e, a)
    level = max(a.hoist_depth, n.hoist_depth)
    pairs = [(e.part(a, i, width), e.part(n, i, width)) for i in range(0, a.width, width)]
    return e.joined([register(e, "scalef", level, x, (k.type, k.text)) for x, k in pairs])


def split_integer(e: CpuLaneEmitter, a: VectorValue) -> tuple[VectorValue, VectorValue]:
    """The nearest integers, and the fractions; infinities have the fraction 0.

    `vreduce` gives the fraction at once, where it is fast; rounding takes two instructions.
    """
    if e.target.cpu.startswith("znver"):
        integer = e.round(a, "even")
        return integer, e.sub(a, integer)
    parts = [e.part(a, i, lanes(e, a)) for i in range(0, a.width, lanes(e, a))]
    fraction = e.joined([register(e, "reduce", a.hoist_depth, x, ("i32", _NEAREST)) for x in parts])
    return e.sub(a, fraction), fraction


def register(e: CpuLaneEmitter, name: str, level: int, a: VectorValue, other: Operand) -> VectorValue:
    """One instruction of AVX-512 on one register, in all lanes."""
    bits = a.width * a.dtype.bits
    mask = f"i{max(8, a.width)}"
    name = f"llvm.x86.avx512.mask.{name}.{'pd' if a.dtype == float64 else 'ps'}.{bits}"
    rounding = (("i32", "4"),) if bits == 512 else ()
    operands = (a.type, a.text), other, (a.type, "zeroinitializer"), (mask, "-1")
    return e.call(name, a.dtype, a.width, level, *operands, *rounding)
