"""The emitter of the scalar unit: a rule of the op table on one number becomes a C++ expression.

It serves addresses, loop bounds, and elements that the vector unit cannot compute. Constants are folded. float64 is
software, by functions of `blockir/softfloat64.h`.

    row * 2 + 1   ->   Expr("+", (Expr("*", ("row", 2)), 1))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pypto.backends.ascend.blockir.conditions import compared, conjunction
from pypto.backends.ascend.blockir.ir import Expr, Scalar, fold
from pypto.backends.ascend.blockir.softfloat64 import code
from pypto.backends.ascend.rules import bits
from pypto.backends.ascend.rules.kinds import ViaScalarUnit
from pypto.backends.ascend.rules.table import rule_for
from pypto.errors import CompilerBug
from pypto.ir.core import Op
from pypto.ir.types import DType, float32, float64, int1, int64, uint32, uint64
from pypto.ops.casts import convert
from pypto.ops.math.term import Term
from pypto.ops.row import Reduction, Structural, Unsupported
from pypto.ops.table import TABLE

_SHORT: Final = 4  # operations in an expression that may stand inside of another one
_SIGN: Final = 1 << 63
_DOUBLES: Final = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "%": "Rem"}
_ORDERS: Final = {"eq": "EqualDouble", **dict.fromkeys(("lt", "gt"), "LessDouble"),
                  **dict.fromkeys(("le", "ge"), "LessEqualDouble")}  # fmt: skip
_MODES: Final = {"trunc": 0, "floor": 1, "ceil": 2, "even": 3}
_COMPARES: Final = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class ScalarContext(Protocol):
    """The part of a lowering that the emitter needs: it names numbers and opens branches."""

    def let(self, hint: str, dtype: DType, value: Scalar) -> Scalar: ...

    def variable(self, hint: str, dtype: DType, value: Scalar) -> str: ...

    def assign(self, name: str, value: Scalar) -> None: ...

    def when(self, condition: Scalar) -> AbstractContextManager[object]: ...

    def bug(self, op: Op) -> CompilerBug: ...


class NotScalar(Exception):
    """The scalar unit has no instruction for a rule."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number and what it is; what the rules call lanes."""

    value: Scalar
    dtype: DType


def in_range(value: int, dtype: DType) -> int:
    """Return an integer as it is in a dtype, which wraps around; Python's integers grow without end."""
    low, high = dtype.integer_range
    return (value - low) % (high - low + 1) + low


class ScalarEmitter:
    """`pypto.ops.emitter.Emitter` for the scalar unit. What it lacks raises `NotScalar`.

    It computes with float64 only where there is no other way: where `doubles` is set.
    """

    paired = False

    def __init__(self, low: ScalarContext, doubles: bool = False) -> None:
        self.low = low
        self.doubles = doubles

    def double(self, name: str, *args: Scalar, dtype: DType = float64) -> Number:
        """What a function of `doubles` gives."""
        if not self.doubles:
            raise NotScalar(name)
        return Number(self.low.let("d", dtype, Expr(name, args)), dtype)

    def const(self, value: float | int | bool, dtype: DType) -> Number:
        if dtype == float64 and not self.doubles:
            raise NotScalar("float64")
        if dtype == float64:
            return Number(code(value), dtype)
        kind = float if dtype.is_float else bool if dtype.is_bool else int
        return Number(kind(value), dtype)

    def named(self, a: Number) -> Number:
        """Bind a number to a variable, so that expressions may use it twice."""
        return Number(self.low.let("v", a.dtype, a.value), a.dtype)

    def wrapped(self, op: str, a: Number, *more: Number) -> Number:
        """An operation in the operands' dtype; C++ computes small integers in more bits. Long operands get names."""
        if a.dtype == float64:
            return self.double(f"{_DOUBLES[op]}Double", a.value, *(x.value for x in more))
        values = [(x if size(x.value) <= _SHORT else self.named(x)).value for x in (a, *more)]
        if a.dtype.is_int and a.dtype.bits >= 32 and op in "+-*":
            made = fold(op, *values)
            return Number(in_range(made, a.dtype) if isinstance(made, int) else made, a.dtype)
        made = Expr(op, tuple(values))
        small = a.dtype.is_int and a.dtype.bits < 32
        return Number(Expr(a.dtype.mnemonic, (made,)) if small else made, a.dtype)

    def add(self, a: Number, b: Number) -> Number:
        return self.wrapped("+", a, b)

    def sub(self, a: Number, b: Number) -> Number:
        return self.wrapped("-", a, b)

    def mul(self, a: Number, b: Number) -> Number:
        return self.wrapped("*", a, b)

    def div(self, a: Number, b: Number) -> Number:
        if a.dtype.is_float:
            return self.wrapped("/", a, b)
        if isinstance(b.value, int) and b.value > 0:
            return Number(fold("//", a.value, b.value), a.dtype)
        a, b = self.named(a), self.named(b)
        quotient = self.wrapped("//", a, b).value
        if a.dtype.kind == "int":
            quotient = Expr("?:", (Expr("==", (b.value, -1)), self.neg(a).value, quotient))
        return Number(Expr("?:", (Expr("==", (b.value, 0)), 0, quotient)), a.dtype)

    def fmod(self, a: Number, b: Number) -> Number:
        return self.wrapped("%" if a.dtype == float64 else lacking("fmod"), a, b)

    def neg(self, a: Number) -> Number:
        if a.dtype == float64:
            return Number(a.value ^ _SIGN if isinstance(a.value, int) else Expr("^", (a.value, _SIGN)), float64)
        return self.mul(a, Number(-1.0, a.dtype)) if a.dtype.is_float else self.sub(Number(0, a.dtype), a)

    def fma(self, a: Number, b: Number, c: Number) -> Number:
        if a.dtype != float64:
            raise NotScalar("fma")
        return self.double("FmaDouble", a.value, b.value, c.value)

    def multiply_add(self, a: Number, b: Number, c: Number) -> Number:
        return self.fma(a, b, c) if a.dtype == float64 else self.add(self.mul(a, b), c)

    def two_product(self, a: Number, b: Number) -> tuple[Number, Number]:
        product = self.mul(a, b)
        return product, self.fma(a, b, self.neg(product))

    def sqrt(self, a: Number) -> Number:
        return self.double("SqrtDouble" if a.dtype == float64 else lacking("sqrt"), a.value)

    def round(self, a: Number, mode: str) -> Number:
        return self.double("IntegralDouble" if a.dtype == float64 else lacking("round"), a.value, _MODES[mode])

    def saturates(self, a: Number) -> bool:
        return False

    def ldexp(self, a: Number, n: Number) -> Number:
        by = self.convert(n, int64).value
        return self.double("ScaleDouble" if a.dtype == float64 else lacking("ldexp"), a.value, by)

    def lookup(self, name: str, table: Callable[[], Sequence[float]], index: Number) -> Number:
        """Choices between halves of the table."""
        i = self.named(index).value

        def among(entries: Sequence[float], first: int) -> Scalar:
            half = len(entries) // 2
            if not half:
                return self.const(entries[0], float64).value
            sides = among(entries[:half], first), among(entries[half:], first + half)
            return sides[0] if sides[0] == sides[1] else Expr("?:", (Expr("<", (i, first + half)), *sides))

        return Number(self.low.let("entry", float64, among(table(), 0)), float64)

    def bitcast(self, a: Number, dtype: DType) -> Number:
        if (float32, dtype.bits) == (a.dtype, 32):
            return self.convert(self.double("BitsOfFloat", a.value, dtype=uint32), dtype)
        if dtype == float32 and a.dtype.bits == 32:
            return self.double("FloatOfBits", self.convert(a, uint32).value, dtype=float32)
        if a.dtype.bits != dtype.bits or any(d.is_float and d.bits != 64 for d in (a.dtype, dtype)):
            raise NotScalar("bitcast")
        kinds = [uint64 if d == float64 else d for d in (a.dtype, dtype)]
        return Number(self.convert(Number(a.value, kinds[0]), kinds[1]).value, dtype)

    def and_(self, a: Number, b: Number) -> Number:
        return Number(conjunction(a.value, b.value), a.dtype) if a.dtype.is_bool else self.wrapped("&", a, b)

    def or_(self, a: Number, b: Number) -> Number:
        return self.wrapped("||" if a.dtype.is_bool else "|", a, b)

    def xor(self, a: Number, b: Number) -> Number:
        return self.wrapped("!=" if a.dtype.is_bool else "^", a, b)

    def shl(self, a: Number, b: Number) -> Number:
        if isinstance(a.value, int):  # C++ shifts a constant in the bits that it has by itself
            a = self.named(Number(Expr(a.dtype.mnemonic, (a.value,)), a.dtype))
        return self.wrapped("<<", a, b)

    def shr(self, a: Number, b: Number) -> Number:
        return self.wrapped(">>", a, b)

    def cmp(self, predicate: str, a: Number, b: Number) -> Number:
        if a.dtype == float64 and predicate == "ne":
            return Number(Expr("not", (self.cmp("eq", a, b).value,)), int1)
        if a.dtype == float64:
            a, b = (b, a) if predicate in ("gt", "ge") else (a, b)
            return self.double(_ORDERS[predicate], a.value, b.value, dtype=int1)
        return Number(compared(_COMPARES[predicate], a.value, b.value), int1)

    def popcount(self, a: Number) -> Number:
        return self.by_bits(bits.popcount, a)

    def reverse_bits(self, a: Number) -> Number:
        return self.by_bits(bits.reversed_bits, a)

    def by_bits(self, fn: Callable[[Term, int], Term], a: Number) -> Number:
        e: Any = self
        term = Term(e, self.convert(a, bits.unsigned(a.dtype)))
        made: Any = fn(term, a.dtype.bits).lanes
        return self.convert(made, a.dtype)

    def select(self, cond: Number, a: Number, b: Number) -> Number:
        if isinstance(cond.value, bool):
            return a if cond.value else b
        cond, a, b = (x if size(x.value) <= _SHORT else self.named(x) for x in (cond, a, b))
        return a if a == b else Number(Expr("?:", (cond.value, a.value, b.value)), a.dtype)

    def isnan(self, a: Number) -> Number:
        if a.dtype == float64:
            return self.double("IsNanDouble", a.value, dtype=int1)
        if isinstance(a.value, float):
            return Number(math.isnan(a.value), int1)
        a = self.named(a)
        return Number(Expr("!=", (a.value, a.value)), int1)

    def abs(self, a: Number) -> Number:
        if a.dtype == float64:
            return Number(a.value & ~_SIGN if isinstance(a.value, int) else Expr("&", (a.value, _SIGN - 1)), float64)
        a = self.named(a)
        zero = self.const(0, a.dtype)
        if a.dtype.is_float:  # -0.0 < 0 is false, and 0.0 - -0.0 is 0.0
            return self.select(self.cmp("gt", a, zero), a, self.sub(zero, a))
        return self.select(self.cmp("lt", a, zero), self.neg(a), a)

    def convert(self, a: Number, dtype: DType) -> Number:
        if a.dtype == dtype:
            return a
        if any(d.is_narrow and d.bits == 8 for d in (a.dtype, dtype)):  # C++ has bytes for them, and no arithmetic
            raise NotScalar("float8")
        if float64 in (a.dtype, dtype):
            return self.to_double(a) if dtype == float64 else self.from_double(a, dtype)
        if dtype.is_bool:
            return Number(compared("!=", a.value, 0.0 if a.dtype.is_float else 0), int1)
        if a.dtype.is_float and dtype.is_int:
            return self.saturated(a, dtype)
        if dtype.is_narrow and a.dtype != float32:
            a = self.convert(a, float32)
        if isinstance(a.value, int) and dtype.is_int:
            return Number(in_range(a.value, dtype), dtype)
        if isinstance(a.value, int) and dtype == float32:
            return Number(float(a.value), dtype)
        if a.dtype.is_int and dtype.is_narrow:
            a = self.convert(a, float32)
        return Number(Expr(dtype.mnemonic, (a.value,)), dtype)

    def to_double(self, a: Number) -> Number:
        if isinstance(a.value, int | float):
            return self.const(float(a.value), float64)
        if a.dtype.is_bool:
            return Number(Expr("?:", (a.value, code(1.0), 0)), float64)
        if a.dtype.is_float:
            return self.double("DoubleOfFloat", Expr("f32", (a.value,)) if a.dtype.is_narrow else a.value)
        wide = self.convert(a, uint64 if a.dtype.kind == "uint" else int64)
        return self.double("DoubleOfUint" if wide.dtype == uint64 else "DoubleOfInt", wide.value)

    def from_double(self, a: Number, dtype: DType) -> Number:
        if isinstance(a.value, int):
            return Number(cast_of(a.value, dtype), dtype)
        if dtype.is_bool:
            return Number(Expr("!=", (Expr("<<", (a.value, 1)), 0)), int1)
        if dtype.is_float:  # what is rounded twice must not lose what is between
            made = self.double("FloatOfDouble", a.value, dtype.is_narrow, dtype=float32)
            return Number(Expr(dtype.mnemonic, (made.value,)), dtype) if dtype.is_narrow else made
        if dtype == uint64:
            return self.double("UintOfDouble", a.value, dtype=uint64)
        whole = self.double("IntOfDouble", a.value, dtype=int64)
        if dtype == int64:
            return whole
        low, high = dtype.integer_range
        return Number(Expr(dtype.mnemonic, (fold("min", fold("max", whole.value, low), high),)), dtype)

    def saturated(self, a: Number, dtype: DType) -> Number:
        a = self.named(a)
        low, high = dtype.integer_range
        inside = Expr("?:", (Expr(">=", (a.value, float(high) + 1.0)), high, Expr(dtype.mnemonic, (a.value,))))
        below = Expr("?:", (Expr("<", (a.value, float(low))), low, inside))
        return Number(Expr("?:", (Expr("!=", (a.value, a.value)), 0, below)), dtype)

    def rarely(self, condition: Number, usual: Sequence[Number], rare: Callable[[], Sequence[Number]]) -> list[Number]:
        if self.doubles:
            made = [Number(self.low.variable("d", u.dtype, u.value), u.dtype) for u in usual]
            with self.low.when(condition.value):
                for to, r in zip(made, rare(), strict=True):
                    self.low.assign(str(to.value), r.value)
            return made
        return [self.select(condition, r, u) for u, r in zip(usual, rare(), strict=True)]


def lacking(name: str) -> str:
    raise NotScalar(name)


def cast_of(bits: int, dtype: DType) -> float | int | bool:
    """A constant of float64 as another dtype."""
    import numpy as np

    made: float | int | bool = convert(np.array([bits], np.uint64).view(np.float64), dtype).tolist()[0]
    return made


def size(value: Scalar) -> int:
    """Operations in an expression."""
    return 1 + sum(map(size, value.args)) if isinstance(value, Expr) else 0


def apply(low: ScalarContext, op: Op, operands: Sequence[Scalar]) -> Scalar:
    """An elementwise op on numbers, by its row's rule.

    Raises
    ------
    NotScalar
        When the scalar unit lacks something that the rule needs.
    """
    rule = TABLE[op.name].lane_rule
    if isinstance(rule, Structural | Unsupported | Reduction):
        raise low.bug(op)
    # To C++ floats of 8 bits are bytes: it would take their codes for numbers. A choice hands codes on as they are.
    if op.name != "where" and any(v.dtype.is_narrow and v.dtype.bits == 8 for v in (*op.operands, op.result)):
        raise NotScalar("float8")
    row, dtypes = TABLE[op.name], [v.dtype for v in (*op.operands, op.result)]
    e = ScalarEmitter(low, float64 in dtypes or isinstance(rule_for(row), ViaScalarUnit))
    numbers = [Number(x, v.dtype) for x, v in zip(operands, op.operands, strict=True)]
    if op.name == "cast" and (e.doubles or not any(dtype.is_narrow for dtype in dtypes)):
        return e.convert(numbers[0], op.attrs["dtype"]).value
    if op.name == "bitcast":
        return e.bitcast(numbers[0], op.result.dtype).value
    wide = [Number(Expr("f32", (n.value,)), float32) if n.dtype.is_narrow else n for n in numbers]
    made = rule(e, op, *wide)
    if op.result.dtype.is_narrow:
        return Expr(op.result.dtype.mnemonic, (made.value,))
    value: Scalar = made.value
    return value
