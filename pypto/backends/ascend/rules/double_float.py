"""Double-float arithmetic: a float64 of a rule is the unevaluated sum of two float32, with 48 bits and float32's range.

The chips have no float64. Rules that need more than 24 bits in between take 10 to 30 instructions per operation here,
where the scalar unit with software float64 would take hundreds of cycles per element. It is legal where 48 bits are
enough for the rule's error bound; others are `ViaScalarUnit`.

    add:   s = a + b;  t = s - a;  rest = (a - (s - t)) + (b - t) + a.low + b.low;  (s + rest, what rounding took)


The algorithms are Dekker's ("A floating-point technique for extending the available precision", 1971) and Knuth's. The
second part is 0 where the first one is infinite or NaN.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.backends.ascend.blockir.ir import View
from pypto.backends.ascend.rules.operand import Lanes, NoInstruction, lanes_of
from pypto.ir.types import DType, float32, float64, int32
from pypto.ops.math.pair import maybe, total
from pypto.ops.math.soft import two_sum
from pypto.ops.math.term import Term, where

if TYPE_CHECKING:
    from collections.abc import Callable

    from pypto.backends.ascend.rules.emitter import VectorEmitter

_LARGEST = 3.4028234663852886e38
_NEAR_OVERFLOW = 2.0**100
_UPPER = -(1 << 12)  # bits of a float32 without its lower 12


# --- parts ------------------------------------------------------------------------------------------------------------


def number(value: float) -> Lanes:
    """Return a constant as a double-float; beyond float32's range it is the largest number, or 0."""
    if not math.isfinite(value):
        return Lanes(float64, value)
    high = float(np.float32(min(max(value, -_LARGEST), _LARGEST)))
    low = float(np.float32(value - high)) if abs(value) < _LARGEST else 0.0
    return Lanes(float64, high, low or None)


def high(a: Lanes) -> Lanes:
    """Return the first part; a float32 is its own."""
    return Lanes(float32, a.at) if a.dtype == float64 else a


def low(a: Lanes) -> Lanes | None:
    """Return the second part, None where it is 0."""
    return None if a.low is None else Lanes(float32, a.low)


def join_pair(first: Lanes, second: Lanes | None) -> Lanes:
    """Make a double-float of two parts."""
    return Lanes(float64, first.at, None if second is None else second.at)


def split_pair(e: VectorEmitter, a: Lanes) -> tuple[Term, Term | None]:
    """Return both parts as terms."""
    second = low(a)
    return e.term(high(a)), None if second is None else e.term(second)


def normalize(first: Term, rest: Term) -> Lanes:
    """Renormalise: bring the second part below half an ulp of the first; it is 0 for infinite and NaN sums."""
    e, s = emitter_of(first), first + rest
    left = lanes_of(rest - (s - first))
    usual = e.compare("eq", left, left)
    return join_pair(e.selected(usual, lanes_of(s), lanes_of(first)), e.selected(usual, left, e.const(0.0, float32)))


def emitter_of(x: Term) -> VectorEmitter:
    """Return the emitter of a term."""
    e: Any = x.e
    made: VectorEmitter = e
    return made


def finite(x: Term) -> Term:
    """Return x, and 0 where it is NaN."""
    e, a = emitter_of(x), lanes_of(x)
    return x if a.is_scalar else x.new(e.selected(e.compare("eq", a, a), a, e.const(0.0, float32)))


def halves(x: Term) -> tuple[Term, Term]:
    """Split into upper and lower 12 bits (Dekker), whose products are exact; the upper part is rounded to nearest."""
    value = lanes_of(x).at
    if isinstance(value, float):
        scaled = np.float32(value) * np.float32(4097.0)
        upper = float(scaled - (scaled - np.float32(value)))
        return x.number(upper), x.number(value - upper)
    e, key = emitter_of(x), lanes_of(x).at
    if key not in e.halves:
        top = (x.bits() + (1 << 11) & _UPPER).bits(float32)
        e.halves[key] = lanes_of(top), lanes_of(x - top)
    first, second = e.halves[key]
    return x.new(first), x.new(second)


def two_product(a: Term, b: Term) -> tuple[Term, Term]:
    """Return the rounded product and its rounding error (Dekker)."""
    p = a * b
    (a1, a2), (b1, b2) = halves(a), halves(b)
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


# --- arithmetic -------------------------------------------------------------------------------------------------------


def add(e: VectorEmitter, a: Lanes, b: Lanes) -> Lanes:
    """Add with an error of a few units of 2**-48."""
    (x, x2), (y, y2) = split_pair(e, a), split_pair(e, b)
    s, rest = two_sum(x, y)
    rest = total(rest, maybe(x2, y2))
    return normalize(s, rest)


def mul(e: VectorEmitter, a: Lanes, b: Lanes) -> Lanes:
    """Multiply; powers of two are exact."""
    a, b = (b, a) if a.is_scalar else (a, b)
    if power_of_two(b):
        return Lanes(float64, e.mul(high(a), high(b)).at, map_low(a, lambda x: e.mul(x, high(b))))
    (x, x2), (y, y2) = split_pair(e, a), split_pair(e, b)
    p, rest = two_product(x, y)
    return normalize(p, total(rest, x2 and x2 * y, y2 and x * y2))


def power_of_two(b: Lanes) -> bool:
    return isinstance(b.at, float) and b.low is None and abs(math.frexp(b.at)[0]) == 0.5


def div(e: VectorEmitter, a: Lanes, b: Lanes) -> Lanes:
    """Divide: a quotient of the first parts, corrected by its remainder."""
    (x, x2), (y, y2) = split_pair(e, a), split_pair(e, b)
    q = x / y
    p, error = two_product(q, y)
    rest = total(x - p - error, x2)
    return normalize(q, (rest if y2 is None else rest - q * y2) / y)


def sqrt(e: VectorEmitter, a: Lanes) -> Lanes:
    x, x2 = split_pair(e, a)
    root = x.sqrt()
    p, error = two_product(root, root)
    return normalize(root, total(x - p - error, x2) * 0.5 / root)


def fma(e: VectorEmitter, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Fused multiply-add of float32, right to about 48 bits. Operands with products near overflow are scaled."""
    x, y, z = map(e.term, (a, b, c))
    large = (abs(x * y) >= _NEAR_OVERFLOW) & (abs(x) < math.inf) & (abs(y) < math.inf)
    shrink = where(large, x.number(2.0**-64), 1.0)
    p, error = two_product(x * shrink, y * shrink)
    s, rest = two_sum(p, z * shrink * shrink)
    grow = where(large, x.number(2.0**64), 1.0)
    return lanes_of((s + finite(rest + finite(error))) * grow * grow)


def magnitude(e: VectorEmitter, a: Lanes) -> Lanes:
    """Return the absolute value."""
    negative = e.cmp("lt", high(a), e.const(0.0, float32))
    return Lanes(float64, e.abs(high(a)).at, map_low(a, lambda x: e.select(negative, e.neg(x), x)))


def round(e: VectorEmitter, a: Lanes, mode: str) -> Lanes:
    """Round to an integral value."""
    x, x2 = split_pair(e, a)
    whole = x.round(mode)
    if x2 is None:
        return join_pair(lanes_of(whole), None)
    rest = e.select(lanes_of(whole.same(x)), lanes_of(x2.round(mode)), e.const(0.0, float32))
    return normalize(whole, e.term(rest))


def scaled(e: VectorEmitter, a: Lanes, n: Lanes) -> Lanes:
    """Multiply by 2**n, in two steps of half the exponent each, so that both factors are normal and one step rounds."""
    whole = Lanes(float32, e.view(high(n)))
    limited = e.arithmetic("Max", e.arithmetic("Min", whole, e.const(254.0, float32)), e.const(-252.0, float32))
    exponent = e.term(limited).to(int32)
    half = exponent >> 1
    powers = [(part + 127 << 23).bits(float32) for part in (half, exponent - half)]

    def product(x: Lanes) -> Lanes:
        return lanes_of(e.term(x) * powers[0] * powers[1])

    return Lanes(a.dtype, product(high(a)).at, map_low(a, product))


def map_low(a: Lanes, fn: Callable[[Lanes], Lanes]) -> View | float | None:
    """Apply a step to the second part, if there is one."""
    second = low(a)
    if second is None:
        return None
    made = fn(second).at
    assert isinstance(made, View | float)
    return made


# --- choice and conversion --------------------------------------------------------------------------------------------


def cmp(e: VectorEmitter, predicate: str, a: Lanes, b: Lanes) -> Lanes:
    """Compare the first parts, and where they are equal the second ones."""
    first = e.cmp(predicate, high(a), high(b))
    zero = e.const(0.0, float32)
    second, other = low(a) or zero, low(b) or zero
    if a.low is None and b.low is None:
        return first
    if predicate == "ne":
        return e.or_(first, e.cmp("ne", second, other))
    equal = e.cmp("eq", high(a), high(b))
    if predicate == "eq":
        return e.and_(equal, e.cmp("eq", second, other))
    strict = first if predicate in ("lt", "gt") else e.cmp(f"{predicate[0]}t", high(a), high(b))
    return e.or_(strict, e.and_(equal, e.cmp(predicate, second, other)))


def select(e: VectorEmitter, cond: Lanes, a: Lanes, b: Lanes) -> Lanes:
    """Choose both parts."""
    first = e.selected(cond, high(a), high(b))
    if a.low is None and b.low is None:
        return join_pair(first, None)
    zero = e.const(0.0, float32)
    return join_pair(first, e.selected(cond, low(a) or zero, low(b) or zero))


def convert(e: VectorEmitter, a: Lanes, dtype: DType) -> Lanes:
    """Convert from or to a double-float: exact from float32 and int32; its first part is the nearest float32."""
    if a.dtype == float64 and dtype.is_float:
        return e.convert(high(a), dtype)
    if dtype == float64 and a.dtype.is_float:
        return join_pair(e.convert(a, float32), None)
    if dtype == float64 and a.dtype == int32:
        x = e.term(a)
        upper = x >> 16
        return normalize((upper << 16).to(float32), (x & 0xFFFF).to(float32))
    if a.dtype == float64 and dtype == int32:
        return e.convert(high(a), int32)
    raise NoInstruction(f"there is no cast from {a.dtype} to {dtype}")
