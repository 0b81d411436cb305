"""The emitter of portable C: the arithmetic of the op table's lane rules, one element at a time.

A value of a rule is a C variable. Every operation writes one statement that declares its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from pypto.ir.types import DType, float64, int1

C_TYPES: Final = MappingProxyType({
    "i1": "bool", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "u8": "uint8_t",
    "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "f32": "float", "f64": "double",
})  # fmt: skip
_COMPARISONS: Final = MappingProxyType({"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="})
_ROUNDED: Final = MappingProxyType({"floor": "floor", "ceil": "ceil", "trunc": "trunc", "even": "nearbyint"})
PRELUDE: Final = """#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static double scaled(double a, double n) { return ldexp(a, n < -5000 ? -5000 : n > 5000 ? 5000 : (int)n); }
static int popcount(uint64_t a) { int n = 0; for (; a; a &= a - 1) n++; return n; }
static uint64_t reversed(uint64_t a, int bits) {
    uint64_t found = 0;
    for (int i = 0; i < bits; i++) found |= (a >> i & 1) << (bits - 1 - i);
    return found;
}
"""


@dataclass(frozen=True)
class Element:
    """One element of a value: a C expression without side effects."""

    text: str
    dtype: DType


def literal(value: float | int | bool, dtype: DType) -> str:
    """A constant in C."""
    if not dtype.is_float:
        suffix = "ULL" if value >= 1 << 63 else "LL"
        text = "(-9223372036854775807LL - 1)" if value == -(1 << 63) else f"{int(value)}{suffix}"
    elif math.isnan(value):
        text = "NAN"
    elif math.isinf(value):
        text = "INFINITY" if value > 0 else "(-INFINITY)"
    else:
        text = float(value).hex()
    return f"(({C_TYPES[dtype.mnemonic]}){text})"


@dataclass
class CEmitter:
    """Implements `pypto.ops.emitter.Emitter`."""

    line: Callable[[str], None]
    count: int = 0
    tables: dict[str, str] = field(default_factory=dict)
    paired: bool = False

    def new(self, dtype: DType, text: str) -> Element:
        self.count += 1
        self.line(f"{C_TYPES[dtype.mnemonic]} t{self.count} = {text};")
        return Element(f"t{self.count}", dtype)

    def cast(self, dtype: DType, text: str) -> Element:
        return self.new(dtype, f"({C_TYPES[dtype.mnemonic]})({text})")

    def call(self, name: str, *a: Element) -> Element:
        suffix = "" if a[0].dtype == float64 else "f"
        return self.new(a[0].dtype, f"{name}{suffix}({', '.join(x.text for x in a)})")

    def const(self, value: float | int | bool, dtype: DType) -> Element:
        return Element(literal(value, dtype), dtype)

    def add(self, a: Element, b: Element) -> Element:
        return self.cast(a.dtype, f"{a.text} + {b.text}")

    def sub(self, a: Element, b: Element) -> Element:
        return self.cast(a.dtype, f"{a.text} - {b.text}")

    def mul(self, a: Element, b: Element) -> Element:
        wide = "(uint32_t)" if a.dtype.bits == 16 else ""  # two uint16_t multiply as int, which overflows
        return self.cast(a.dtype, f"{wide}{a.text} * {b.text}")

    def div(self, a: Element, b: Element) -> Element:
        if a.dtype.is_float:
            return self.new(a.dtype, f"{a.text} / {b.text}")
        least = f"{b.text} == -1 ? -{a.text} : " if a.dtype.kind == "int" else ""
        return self.cast(a.dtype, f"{b.text} == 0 ? 0 : {least}{a.text} / {b.text}")

    def fmod(self, a: Element, b: Element) -> Element:
        return self.call("fmod", a, b)

    def neg(self, a: Element) -> Element:
        return self.cast(a.dtype, f"-{a.text}")

    def fma(self, a: Element, b: Element, c: Element) -> Element:
        return self.call("fma", a, b, c)

    def multiply_add(self, a: Element, b: Element, c: Element) -> Element:
        return self.new(a.dtype, f"{a.text} * {b.text} + {c.text}")

    def and_(self, a: Element, b: Element) -> Element:
        return self.cast(a.dtype, f"{a.text} & {b.text}")

    def or_(self, a: Element, b: Element) -> Element:
        return self.cast(a.dtype, f"{a.text} | {b.text}")

    def xor(self, a: Element, b: Element) -> Element:
        return self.cast(a.dtype, f"{a.text} ^ {b.text}")

    def shl(self, a: Element, b: Element) -> Element:
        return self.cast(a.dtype, f"(uint64_t){a.text} << ({b.text} & {a.dtype.bits - 1})")

    def shr(self, a: Element, b: Element) -> Element:
        return self.cast(a.dtype, f"{a.text} >> ({b.text} & {a.dtype.bits - 1})")

    def cmp(self, predicate: str, a: Element, b: Element) -> Element:
        return self.new(int1, f"{a.text} {_COMPARISONS[predicate]} {b.text}")

    def select(self, cond: Element, a: Element, b: Element) -> Element:
        return self.new(a.dtype, f"{cond.text} ? {a.text} : {b.text}")

    def isnan(self, a: Element) -> Element:
        return self.new(int1, f"{a.text} != {a.text}")

    def abs(self, a: Element) -> Element:
        if a.dtype.is_float:
            return self.call("fabs", a)
        return self.cast(a.dtype, f"{a.text} < 0 ? -{a.text} : {a.text}" if a.dtype.kind == "int" else a.text)

    def sqrt(self, a: Element) -> Element:
        return self.call("sqrt", a)

    def round(self, a: Element, mode: str) -> Element:
        return self.call(_ROUNDED[mode], a)

    def convert(self, a: Element, dtype: DType) -> Element:
        if dtype.is_bool:
            return self.new(dtype, f"{a.text} != 0")
        if not a.dtype.is_float or dtype.is_float:
            return self.cast(dtype, a.text)
        low, high = dtype.integer_range
        above, below = f"{a.text} >= {float(high + 1).hex()}", f"{a.text} <= {float(low).hex()}"
        ends = f"{below} ? {literal(low, dtype)} : {above} ? {literal(high, dtype)}"
        return self.cast(dtype, f"{a.text} != {a.text} ? 0 : {ends} : ({C_TYPES[dtype.mnemonic]}){a.text}")

    def bitcast(self, a: Element, dtype: DType) -> Element:
        held, made = self.new(a.dtype, a.text), self.new(dtype, "0")
        self.line(f"memcpy(&{made.text}, &{held.text}, sizeof {made.text});")
        return made

    def ldexp(self, a: Element, n: Element) -> Element:
        return self.cast(a.dtype, f"scaled({a.text}, {n.text})")

    def saturates(self, a: Element) -> bool:
        return False

    def split_integer(self, a: Element) -> tuple[Element, Element]:
        """Never called: `ldexp` does not saturate."""
        raise NotImplementedError

    def two_product(self, a: Element, b: Element) -> tuple[Element, Element]:
        product = self.mul(a, b)
        return product, self.new(float64, f"fma({a.text}, {b.text}, -{product.text})")

    def popcount(self, a: Element) -> Element:
        return self.cast(a.dtype, f"popcount((uint{a.dtype.bits}_t){a.text})")

    def reverse_bits(self, a: Element) -> Element:
        return self.cast(a.dtype, f"reversed((uint{a.dtype.bits}_t){a.text}, {a.dtype.bits})")

    def lookup(self, name: str, table: Callable[[], Sequence[float]], index: Element) -> Element:
        if name not in self.tables:
            entries = ", ".join(literal(x, float64) for x in table())
            self.tables[name] = f"static const double table{len(self.tables)}[] = {{{entries}}};"
        return self.new(float64, f"table{[*self.tables].index(name)}[{index.text}]")

    def rarely(self, condition: Any, usual: Sequence[Any], rare: Callable[[], Sequence[Any]]) -> list[Any]:
        return [self.select(condition, a, b) for a, b in zip(rare(), usual, strict=True)]
