"""The emitter of the vector unit: each operation of a lane rule becomes one or a few instructions on chunks in UB.

Integers of up to 32 bits are held as int32 (those without sign by their bits), bools as packed bits, float16 as such,
and all other floats as float32. A float64 is a sum of two float32 (`pairs`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pypto.backends.ascend.blockir.ir import Argument, Expr, Instr, Record, Scalar, View, Word, fold
from pypto.backends.ascend.rules import control, conversions, double_float, integers
from pypto.backends.ascend.rules.fmod import remainder
from pypto.backends.ascend.rules.operand import (
    InstructionSink,
    Lanes,
    NoInstruction,
    as_dtype,
    as_int32,
    held,
    lanes_of,
)
from pypto.ir.types import DType, float16, float32, float64, int1, int32, uint16
from pypto.ops.math.term import Term

_SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/",
              "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}  # fmt: skip
_ROUND = {"floor": "CAST_FLOOR", "ceil": "CAST_CEIL", "trunc": "CAST_TRUNC", "even": "CAST_RINT"}
_ROUNDED: Mapping[str, Callable[[float], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "even": round,
}
_BITS_OF_FLOATS = {32: float32, 16: float16}


def total(a: Lanes) -> Scalar:
    """Return a constant double-float as one number."""
    if isinstance(a.at, float) and isinstance(a.low, float):
        return a.at + a.low
    assert not isinstance(a.at, View)
    return a.at


def single(value: float) -> float:
    """Round a number to float32, as the vector unit would."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


class VectorEmitter:
    """Implements `pypto.ops.emitter.Emitter` over a `InstructionSink`."""

    paired = True

    def __init__(self, sink: InstructionSink) -> None:
        self.sink = sink
        self.halves: dict[object, tuple[Lanes, Lanes]] = {}  # of chunks that were multiplied exactly

    # --- instructions -------------------------------------------------------------------------------------------

    def const(self, value: float | int | bool, dtype: DType) -> Lanes:
        if dtype == float64:
            return double_float.number(float(value))
        if dtype.is_float:
            return Lanes(dtype, single(value) if held(dtype) == float32 else float(value))
        return Lanes(dtype, bool(value) if dtype.is_bool else as_int32(int(value)))

    def run(self, name: str, dtype: DType, *args: Argument, unit: DType | None = None) -> Lanes:
        """Emit an instruction into a new chunk, whose elements are of type `unit`."""
        target = self.sink.temporary(unit or held(dtype))
        self.sink.emit(Instr(name, (target, *args, self.sink.count), self.sink.line))
        return Lanes(dtype, target)

    def view(self, a: Lanes) -> View:
        """Return lanes as a chunk in UB; a number is filled in."""
        return a.at if isinstance(a.at, View) else self.sink.filled(a.at, held(a.dtype))

    def by_bits(self, name: str, dtype: DType, *args: View) -> Lanes:
        """Emit a bitwise instruction, which works on words of 16 bits."""
        target = self.sink.temporary(held(dtype))
        words = self.sink.count * held(dtype).bits // 16
        views = (as_dtype(v, uint16) for v in (target, *args))
        self.sink.emit(Instr(name, (*views, words), self.sink.line))
        return Lanes(dtype, target)

    def term(self, a: Lanes) -> Term:
        """Return lanes as a term."""
        e: Any = self  # an `Emitter` whose lanes are of one class
        return Term(e, a)

    def formula(self, fn: Callable[..., Term], *operands: Lanes, **more: object) -> Lanes:
        """Evaluate a formula of terms on lanes."""
        return lanes_of(fn(*map(self.term, operands), **more))

    def number(self, value: Scalar, dtype: DType) -> Scalar:
        """Convert a number to a dtype."""
        return total(self.const(value, dtype)) if isinstance(value, int | float) else Expr(dtype.mnemonic, (value,))

    def known(self, name: str, a: Lanes, b: Lanes) -> Lanes:
        """Compute with two numbers: folded if both are constants, else by the scalar unit."""
        x, y, dtype = total(a), total(b), int1 if name in _SWAPPED else a.dtype
        if not (isinstance(x, int | float) and isinstance(y, int | float)):
            return integers.wrapped(self, Lanes(dtype, Expr(_OPERATORS[name], (x, y))))
        if name == "div":
            return self.const(float(np.divide(np.float64(x), np.float64(y))), dtype)
        return integers.wrapped(self, self.const(getattr(operator, name)(x, y), dtype))

    # --- arithmetic ---------------------------------------------------------------------------------------------

    def arithmetic(self, name: str, a: Lanes, b: Lanes) -> Lanes:
        """Emit Add, Mul, Max or Min, in the scalar form (Adds, …) if an operand is a number."""
        a, b = (b, a) if a.is_scalar else (a, b)
        if not isinstance(a.at, View):
            return Lanes(a.dtype, fold(_OPERATORS.get(name.lower(), name.lower()), total(a), total(b)))
        result = self.run(name if isinstance(b.at, View) else f"{name}s", a.dtype, a.at, b.at)
        return integers.wrapped(self, result) if name in ("Add", "Mul") else result

    def add(self, a: Lanes, b: Lanes) -> Lanes:
        if a.is_scalar and b.is_scalar:
            return self.known("add", a, b)
        return double_float.add(self, a, b) if a.dtype == float64 else self.arithmetic("Add", a, b)

    def mul(self, a: Lanes, b: Lanes) -> Lanes:
        if a.is_scalar and b.is_scalar:
            return self.known("mul", a, b)
        return double_float.mul(self, a, b) if a.dtype == float64 else self.arithmetic("Mul", a, b)

    def sub(self, a: Lanes, b: Lanes) -> Lanes:
        if a.is_scalar and b.is_scalar:
            return self.known("sub", a, b)
        if a.dtype == float64 or a.is_scalar or b.is_scalar:
            return self.add(a, self.neg(b))
        return integers.wrapped(self, self.run("Sub", a.dtype, self.view(a), self.view(b)))

    def div(self, a: Lanes, b: Lanes) -> Lanes:
        if a.is_scalar and b.is_scalar:
            return self.known("div", a, b)
        if a.dtype == float64:
            return double_float.div(self, a, b)
        if not a.dtype.is_float:
            return integers.divided(self, a, b)
        lanes = 256 // held(a.dtype).itemsize
        repeats = self.sink.count // lanes
        if isinstance(a.at, View) or repeats > 255 or self.sink.count % lanes:
            return self.run("Div", a.dtype, self.view(a), self.view(b))
        # A number takes one repeat of memory, which a repeat stride of 0 reads again and again.
        target, number = self.sink.temporary(held(a.dtype)), self.sink.filled(a.at, held(a.dtype), lanes)
        strides = Record((1, 1, 1, 8, 0, 8))
        self.sink.emit(Instr("Div", (target, number, self.view(b), lanes, repeats, strides), self.sink.line))
        return Lanes(a.dtype, target)

    def neg(self, a: Lanes) -> Lanes:
        if a.is_scalar:
            return self.known("mul", a, self.const(-1, a.dtype))
        if a.dtype == float64:
            return Lanes(float64, self.neg(double_float.high(a)).at, double_float.map_low(a, self.neg))
        return integers.wrapped(self, self.run("Muls", a.dtype, self.view(a), -1.0 if a.dtype.is_float else -1))

    def fmod(self, a: Lanes, b: Lanes) -> Lanes:
        return remainder(self, a, b)

    def fma(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        return double_float.fma(self, a, b, c)

    def multiply_add(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        return self.add(self.mul(a, b), c)

    def two_product(self, a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
        raise NoInstruction("the chips have no float64, and sums of two float32 are not precise enough here")

    def abs(self, a: Lanes) -> Lanes:
        if a.dtype == float64:
            return double_float.magnitude(self, a)
        if a.dtype.is_float:
            return self.run("Abs", a.dtype, self.view(a))
        if a.dtype.kind != "int":
            return a
        if a.is_scalar:
            size = abs(a.at) if isinstance(a.at, int) else Expr("max", (total(a), Expr("-", (0, total(a)))))
            return Lanes(a.dtype, size)
        return self.arithmetic("Max", a, self.neg(a))

    def sqrt(self, a: Lanes) -> Lanes:
        return double_float.sqrt(self, a) if a.dtype == float64 else self.run("Sqrt", a.dtype, self.view(a))

    def exp(self, a: Lanes) -> Lanes:
        return self.run("Exp", a.dtype, self.view(a))

    def log(self, a: Lanes) -> Lanes:
        return self.run("Ln", a.dtype, self.view(a))

    def maximum(self, a: Lanes, b: Lanes) -> Lanes:
        return self.arithmetic("Max", a, b)

    def minimum(self, a: Lanes, b: Lanes) -> Lanes:
        return self.arithmetic("Min", a, b)

    def plus_multiple(self, total: Lanes, a: Lanes, factor: float) -> Lanes:
        args = self.view(total), self.view(a), float(factor), self.sink.count
        self.sink.emit(Instr("Axpy", args, self.sink.line))
        return total

    def round(self, a: Lanes, mode: str) -> Lanes:
        if a.dtype == float64:
            return double_float.round(self, a, mode)
        if isinstance(a.at, int | float) and math.isfinite(a.at):
            return self.const(_ROUNDED[mode](a.at), a.dtype)
        return self.run("Cast", float32, self.view(a), Word(_ROUND[mode]))

    def saturates(self, a: Lanes) -> bool:
        return False

    def ldexp(self, a: Lanes, n: Lanes) -> Lanes:
        return double_float.scaled(self, a, n)

    # --- bits ---------------------------------------------------------------------------------------------------

    def and_(self, a: Lanes, b: Lanes) -> Lanes:
        return self.bitwise("And", a, b)

    def or_(self, a: Lanes, b: Lanes) -> Lanes:
        return self.bitwise("Or", a, b)

    def bits_of_numbers(self, name: str, a: Lanes, b: Lanes) -> Lanes:
        """Compute And or Or of two numbers by the scalar unit."""
        x, y, is_and = total(a), total(b), name == "And"
        if isinstance(x, int) and isinstance(y, int):
            return self.const(x & y if is_and else x | y, a.dtype)
        if not a.dtype.is_bool:
            return Lanes(a.dtype, Expr("&" if is_and else "|", (x, y)))
        if isinstance(x, bool) or isinstance(y, bool):
            known, other = (x, y) if isinstance(x, bool) else (y, x)
            return Lanes(a.dtype, other if known == is_and else known)
        return Lanes(a.dtype, Expr("&&" if is_and else "||", (x, y)))

    def bitwise(self, name: str, a: Lanes, b: Lanes) -> Lanes:
        """Emit And or Or. A number takes one repeat of memory, which a repeat stride of 0 reads again and again."""
        if a.is_scalar and b.is_scalar:
            return self.bits_of_numbers(name, a, b)
        a, b = (b, a) if a.is_scalar else (a, b)
        repeats = self.sink.count // 64
        if isinstance(b.at, View) or not isinstance(a.at, View) or a.dtype.is_bool or repeats > 255:
            return self.by_bits(name, a.dtype, self.view(a), self.view(b))
        target, number = self.sink.temporary(int32), self.sink.filled(b.at, int32, 64)
        views = (as_dtype(v, uint16) for v in (target, a.at, number))
        self.sink.emit(Instr(name, (*views, 128, repeats, Record((1, 1, 1, 8, 8, 0))), self.sink.line))
        return Lanes(a.dtype, target)

    def not_(self, a: Lanes) -> Lanes:
        inverted = self.by_bits("Not", a.dtype, self.view(a))
        return inverted if a.dtype.kind in ("bool", "int") else integers.wrapped(self, inverted)

    def xor(self, a: Lanes, b: Lanes) -> Lanes:
        return integers.xor(self, a, b)

    def shl(self, a: Lanes, b: Lanes) -> Lanes:
        return integers.shifted(self, "ShiftLeft", a, b)

    def shr(self, a: Lanes, b: Lanes) -> Lanes:
        return integers.shifted(self, "ShiftRight", a, b)

    def popcount(self, a: Lanes) -> Lanes:
        return integers.popcount(self, a)

    def reverse_bits(self, a: Lanes) -> Lanes:
        return integers.reverse_bits(self, a)

    # --- choice and conversion ----------------------------------------------------------------------------------

    def cmp(self, predicate: str, a: Lanes, b: Lanes) -> Lanes:
        if a.is_scalar and b.is_scalar:
            return self.known(predicate, a, b)
        if a.is_scalar:
            return self.cmp(_SWAPPED[predicate], b, a)
        if a.dtype == float64:
            return double_float.cmp(self, predicate, a, b)
        if a.dtype.is_bool:
            return integers.cmp_bools(self, predicate, a, b)
        return self.compare(predicate, a, b) if a.dtype.is_float else integers.cmp(self, predicate, a, b)

    def compare(self, predicate: str, a: Lanes, b: Lanes) -> Lanes:
        """Emit the comparison of floats, or `eq` of int32."""
        name = "Compare" if isinstance(b.at, View) else "CompareScalar"
        return self.run(name, int1, self.view(a), b.at, Word(predicate.upper()))

    def isnan(self, a: Lanes) -> Lanes:
        if isinstance(a.at, View):
            return self.compare("ne", double_float.high(a), double_float.high(a))
        return self.known("ne", a, a)

    def select(self, cond: Lanes, a: Lanes, b: Lanes) -> Lanes:
        if isinstance(cond.at, bool):
            return a if cond.at else b
        if cond.is_scalar and a.is_scalar and b.is_scalar and a.dtype != float64:
            return Lanes(a.dtype, Expr("?:", (total(cond), total(a), total(b))))
        if a.dtype == float64:
            return double_float.select(self, cond, a, b)
        if a.dtype.is_bool:
            return self.or_(self.and_(cond, a), self.and_(self.not_(cond), b))
        return self.selected(cond, a, b)

    def selected(self, cond: Lanes, a: Lanes, b: Lanes) -> Lanes:
        """Emit Select on elements of 16 or 32 bits, whatever their dtype."""
        unit = a.at.elem if isinstance(a.at, View) else b.at.elem if isinstance(b.at, View) else held(a.dtype)
        as_float = _BITS_OF_FLOATS.get(unit.bits)
        if as_float is None:
            raise NoInstruction(f"there is no choice between lanes of {unit.bits} bits")
        if isinstance(b.at, View) and not isinstance(a.at, View) and unit == as_float:
            return self.selected(self.not_(cond), b, a)
        target, first = self.sink.temporary(unit), self.as_unit(a, unit, as_float)
        if isinstance(b.at, View) or unit != as_float:
            other: View | Scalar = self.as_unit(b, unit, as_float)
            mode = "VSEL_TENSOR_TENSOR_MODE"
        else:
            other, mode = b.at, "VSEL_TENSOR_SCALAR_MODE"
        args = as_dtype(target, as_float), self.view(cond), first, other, Word(mode), self.sink.count
        self.sink.emit(Instr("Select", args, self.sink.line))
        return Lanes(a.dtype, target)

    def as_unit(self, a: Lanes, unit: DType, dtype: DType) -> View:
        """Return lanes as a view with elements of a dtype of the same size."""
        return as_dtype(a.at if isinstance(a.at, View) else self.sink.filled(a.at, unit), dtype)

    def convert(self, a: Lanes, dtype: DType) -> Lanes:
        return conversions.convert(self, a, dtype)

    def bitcast(self, a: Lanes, dtype: DType) -> Lanes:
        return conversions.bitcast(self, a, dtype)

    def rarely(self, condition: Lanes, usual: Sequence[Lanes], rare: Callable[[], Sequence[Lanes]]) -> list[Lanes]:
        plain = all(isinstance(x.at, View) and x.low is None for x in usual) and not condition.is_scalar
        return control.branch_if_any(self, condition, usual, rare) if plain else list(rare())

    def lookup(self, name: str, table: Callable[[], Sequence[float]], index: Lanes) -> Lanes:
        raise NoInstruction("tables are not held in UB")
