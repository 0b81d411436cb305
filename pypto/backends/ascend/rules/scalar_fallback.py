"""Scalarisation: ops that the vector unit lacks run in a loop over elements on the scalar unit.

It is some 100 times slower and the last resort before a refusal. Bools share bytes, so their loop writes whole bytes.

    for i in range(count):   y.SetValue(i, x.GetValue(i) // 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pypto.backends.ascend.blockir.ir import Assign, Expr, Instr, Let, Loop, Read, Scalar, View, fold
from pypto.backends.ascend.rules.operand import Lanes, NoInstruction
from pypto.backends.ascend.rules.scalars import NotScalar, apply
from pypto.backends.ascend.rules.temporaries import Scratch
from pypto.errors import CompilerBug
from pypto.ir.core import Op
from pypto.ir.types import DType, int32


@dataclass
class Numbers:
    """What the scalar unit's emitter asks for: names of numbers."""

    sink: Scratch

    def let(self, hint: str, dtype: DType, value: Scalar) -> Scalar:
        if not isinstance(value, Expr | Read):
            return value
        name = self.sink.name(hint)
        self.sink.emit(Let(name, dtype, value, self.sink.line))
        return name

    def bug(self, op: Op) -> CompilerBug:
        return CompilerBug(f"{op.name} at {op.loc} has no rule for a number")


def emit_scalar_loop(op: Op, operands: Sequence[Lanes], sink: Scratch) -> Lanes:
    """Emit the loop over elements, or over bytes of eight bools."""
    dtype, target, name = op.result.dtype, sink.temporary(op.result.dtype), sink.name("i")
    with sink.nested() as body:
        if dtype.is_bool:
            packed_bits(op, operands, sink, target, name)
        else:
            sink.emit(Instr("SetValue", (View(target.of, name), element(op, operands, sink, name)), sink.line))
    count = sink.count // 8 if dtype.is_bool else sink.count
    sink.emit(Loop(name, 0, count, 1, tuple(body), sink.line, int32))
    return Lanes(dtype, target)


def packed_bits(op: Op, operands: Sequence[Lanes], sink: Scratch, target: View, byte: str) -> None:
    bits, bit = sink.name("bits"), sink.name("j")
    sink.emit(Let(bits, int32, 0, sink.line))
    with sink.nested() as body:
        value = element(op, operands, sink, Expr("+", (Expr("*", (byte, 8)), bit)))
        shifted = Expr("<<", (Expr(int32.mnemonic, (value,)), bit))
        sink.emit(Assign(bits, Expr("|", (bits, shifted)), sink.line))
    sink.emit(Loop(bit, 0, 8, 1, tuple(body), sink.line, int32))
    sink.emit(Instr("SetValue", (View(target.of, byte), bits), sink.line))


def element(op: Op, operands: Sequence[Lanes], sink: Scratch, at: Scalar) -> Scalar:
    """The result for one element."""
    low: Any = Numbers(sink)  # all that numbers ask of a lowering
    try:
        return apply(low, op, [operand(x, sink, at) for x in operands])
    except NotScalar as lacking:
        raise NoInstruction(f"the scalar unit has no {lacking}") from None


def operand(x: Lanes, sink: Scratch, at: Scalar) -> Scalar:
    if not isinstance(x.at, View):
        return x.at
    if not x.dtype.is_bool:
        return Numbers(sink).let("x", x.dtype, Read(View(x.at.of, fold("+", x.at.offset, at), x.at.stage, x.at.dtype)))
    byte = Read(View(x.at.of, fold("+", x.at.offset, fold("//", at, 8)), x.at.stage, x.at.dtype))
    return Numbers(sink).let("x", x.dtype, Expr("!=", (Expr("&", (Expr(">>", (byte, fold("%", at, 8))), 1)), 0)))
