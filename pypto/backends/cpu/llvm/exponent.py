"""Powers of two by the instructions for them: numbers times one, and what lies between numbers and whole ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.llvm.value import VectorValue
from pypto.ir.types import float64

if TYPE_CHECKING:
    from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter

_NEAREST: Final = "8"  # how the instruction rounds: to even, and without a sign that it did
Operand = tuple[str, str]  # type and text


def lanes(e: LaneEmitter, a: VectorValue) -> int:
    """Lanes of one register, or as many as there are."""
    return min(a.width, e.target.vector_bytes // a.dtype.itemsize)


def scales(e: LaneEmitter, a: VectorValue) -> bool:
    """Whether there are instructions for whole registers, of which the numbers are some."""
    some = lanes(e, a)
    return e.target.has_scalef and some * a.dtype.bits in (128, 256, 512) and a.width % some == 0


def scaled(e: LaneEmitter, a: VectorValue, n: VectorValue) -> VectorValue:
    """a * 2**n, rounded once."""
    some, level = lanes(e, a), max(a.hoist_depth, n.hoist_depth)
    pairs = [(e.part(a, i, some), e.part(n, i, some)) for i in range(0, a.width, some)]
    return e.joined([register(e, "scalef", level, x, (k.type, k.text)) for x, k in pairs])


def parted(e: LaneEmitter, a: VectorValue) -> tuple[VectorValue, VectorValue]:
    """The nearest whole numbers, and what is left: of infinities nothing is.

    The latter comes by one instruction where the processor has a fast one, which rounding takes two for.
    """
    if e.target.cpu.startswith("znver"):
        whole = e.round(a, "even")
        return whole, e.sub(a, whole)
    parts = [e.part(a, i, lanes(e, a)) for i in range(0, a.width, lanes(e, a))]
    rest = e.joined([register(e, "reduce", a.hoist_depth, x, ("i32", _NEAREST)) for x in parts])
    return e.sub(a, rest), rest


def register(e: LaneEmitter, name: str, level: int, a: VectorValue, other: Operand) -> VectorValue:
    """One register by an instruction, in all of its lanes."""
    bits, mask = a.width * a.dtype.bits, f"i{max(8, a.width)}"
    name = f"llvm.x86.avx512.mask.{name}.{'pd' if a.dtype == float64 else 'ps'}.{bits}"
    rounding = (("i32", "4"),) if bits == 512 else ()
    operands = (a.type, a.text), other, (a.type, "zeroinitializer"), (mask, "-1")
    return e.call(name, a.dtype, a.width, level, *operands, *rounding)
