"""Integers of 8 bits as they lie in memory: bitwise ops on two of them at a time, and casts by way of half.

The vector unit has no arithmetic of 8 bits, so other rules widen bytes to int32 and narrow them again: six casts. Bits
need none of that, as instructions on words of 16 bits take two bytes at once. A shift by a constant is one of words,
whose bits from the other byte are cleared. Half holds every integer of 8 bits. A float that is cut to a half and then
to an integer is cut to that integer, and what is too large for a half is too large for 8 bits.

    x & 15    ->   And(y.u16, x.u16, 0x0F0F)
    x >> 4    ->   ShiftRight(y.u16, x.u16, 4), And(y.u16, y.u16, 0x0F0F)
    int8(x)   ->   Cast(half, x, CAST_TRUNC), Cast(y, half, CAST_TRUNC)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pypto.backends.ascend.blockir.ir import Instr, Record, Scalar, View
from pypto.backends.ascend.rules.conversions import cast
from pypto.backends.ascend.rules.operand import Lanes, as_dtype
from pypto.ir.types import DType, float16, float32, uint16

if TYPE_CHECKING:
    from pypto.backends.ascend.rules.emitter import VectorEmitter

_LOGIC: Final = ("And", "Or", "Not")
_SHIFTS: Final = ("ShiftRight", "ShiftLeft")
_WORDS, _REPEATS = 128, 255  # of 16 bits in a repeat, and repeats of an instruction


def on_bytes(e: VectorEmitter, instruction: str, operands: Sequence[Lanes], dtype: DType) -> Lanes | None:
    """Emit a bitwise op of integers of 8 bits on words; None where the op is another one."""
    if dtype.bits != 8 or not dtype.is_int or not isinstance(operands[0].at, View):
        return None
    if instruction in _LOGIC:
        return Lanes(dtype, as_dtype(logic(e, instruction, words_of(operands[0].at), operands[1:]), dtype))
    amount = operands[1].at if instruction in _SHIFTS else None
    if not isinstance(amount, int) or not 0 <= amount < 8 or (dtype.kind == "int" and instruction == "ShiftRight"):
        return None
    moved = e.sink.temporary(uint16, e.sink.count // 2)
    e.sink.emit(Instr(instruction, (moved, words_of(operands[0].at), amount, e.sink.count // 2), e.sink.line))
    kept = 0xFF >> amount if instruction == "ShiftRight" else 0xFF << amount & 0xFF
    return Lanes(dtype, as_dtype(logic(e, "And", moved, (Lanes(dtype, kept),)), dtype))


def words_of(view: View) -> View:
    """Return bytes as words of 16 bits."""
    return as_dtype(view, uint16)


def logic(e: VectorEmitter, instruction: str, a: View, others: Sequence[Lanes]) -> View:
    """Emit a bitwise instruction on words. A number takes one repeat of memory, if the chunk is whole repeats."""
    words = e.sink.count // 2
    target, repeats = e.sink.temporary(uint16, words), words // _WORDS
    b = others[0].at if others else None
    if b is None or isinstance(b, View):
        e.sink.emit(Instr(instruction, (target, a, *([] if b is None else [words_of(b)]), words), e.sink.line))
    elif words % _WORDS or repeats > _REPEATS:
        e.sink.emit(Instr(instruction, (target, a, e.sink.filled(twice(b), uint16, words), words), e.sink.line))
    else:
        number, strides = e.sink.filled(twice(b), uint16, _WORDS), Record((1, 1, 1, 8, 8, 0))
        e.sink.emit(Instr(instruction, (target, a, number, _WORDS, repeats, strides), e.sink.line))
    return target


def twice(number: Scalar) -> int:
    """Return a byte in both halves of a word."""
    assert isinstance(number, int)
    return (number & 0xFF) * 0x0101


def from_float(e: VectorEmitter, a: Lanes, dtype: DType) -> Lanes | None:
    """Convert floats to integers of 8 bits: towards zero, saturating, NaN to 0; None of other dtypes."""
    if dtype.bits != 8 or not dtype.is_int or not isinstance(a.at, View) or not a.dtype.is_float:
        return None
    if a.dtype.bits not in (16, 32):
        return None
    wide = a.at if a.dtype in (float16, float32) else cast(e, float32, a.at)
    half = wide if a.dtype == float16 else cast(e, float16, wide, "CAST_TRUNC")
    return Lanes(dtype, cast(e, dtype, half, "CAST_TRUNC"))


def is_constant(operands: Sequence[Lanes]) -> bool:
    """Whether all operands but the first are chunks or constants."""
    return all(isinstance(x.at, View) or type(x.at) is int for x in operands[1:])


def to_float(e: VectorEmitter, a: Lanes, dtype: DType) -> Lanes | None:
    """Convert integers of 8 bits to a float of 16 or 32 bits, exactly; None of other dtypes."""
    if a.dtype.bits != 8 or not a.dtype.is_int or not isinstance(a.at, View):
        return None
    if not dtype.is_float or dtype.bits not in (16, 32):
        return None
    half = cast(e, float16, a.at)
    if dtype == float16:
        return Lanes(dtype, half)
    wide = cast(e, float32, half)
    return Lanes(dtype, wide if dtype == float32 else cast(e, dtype, wide))
