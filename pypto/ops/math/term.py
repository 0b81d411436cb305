"""Terms: lanes with the operators of arithmetic, so that rules read like formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pypto.ir.types import DType, float32, float64, int1, int32, int64
from pypto.ops.emitter import Emitter, Lanes


def binary(method: str, swapped: bool = False) -> Callable[[Term, Operand], Term]:
    def operate(self: Term, other: Operand) -> Term:
        a, b = self.lanes, self.of(other)
        return self.new(getattr(self.e, method)(*((b, a) if swapped else (a, b))))

    return operate


def comparison(predicate: str) -> Callable[[Term, Operand], Term]:
    def compare(self: Term, other: Operand) -> Term:
        return self.new(self.e.cmp(predicate, self.lanes, self.of(other)))

    return compare


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """Lanes with the operators of arithmetic; a Python number takes the dtype of the term that it meets.

    `short` says that the result will be rounded to float32: polynomials may end early, and no second parts are kept.
    """

    e: Emitter
    lanes: Lanes
    short: bool = False

    @property
    def dtype(self) -> DType:
        return self.lanes.dtype

    @property
    def is_double(self) -> bool:
        return self.lanes.dtype == float64

    @property
    def is_paired(self) -> bool:
        """True for float64 without bits; `single` has the sign and the size."""
        return self.is_double and self.e.paired

    @property
    def single(self) -> Term:
        return self.to(float32) if self.is_paired else self

    def new(self, lanes: Lanes) -> Term:
        return replace(self, lanes=lanes)

    def of(self, other: Operand) -> Lanes:
        return other.lanes if isinstance(other, Term) else self.e.const(other, self.dtype)

    def number(self, value: float) -> Term:
        """A constant of the same dtype."""
        return self.new(self.e.const(value, self.dtype))

    __add__, __radd__, __sub__, __rsub__ = binary("add"), binary("add"), binary("sub"), binary("sub", True)
    __mul__, __rmul__, __truediv__, __rtruediv__ = binary("mul"), binary("mul"), binary("div"), binary("div", True)
    __and__, __or__, __xor__, __lshift__, __rshift__ = (binary(m) for m in ("and_", "or_", "xor", "shl", "shr"))
    __lt__, __le__, __gt__, __ge__, same, differs = map(comparison, ("lt", "le", "gt", "ge", "eq", "ne"))

    def __neg__(self) -> Term:
        return self.new(self.e.neg(self.lanes))

    def __abs__(self) -> Term:
        return self.new(self.e.abs(self.lanes))

    def __invert__(self) -> Term:
        return self ^ (True if self.dtype == int1 else -1)

    def sqrt(self) -> Term:
        return self.new(self.e.sqrt(self.lanes))

    def round(self, mode: str = "even") -> Term:
        return self.new(self.e.round(self.lanes, mode))

    def split_integer(self) -> tuple[Term, Term]:
        """The nearest integer, and the fraction."""
        if self.saturates:
            integer, fraction = map(self.new, self.e.split_integer(self.lanes))
            return integer, fraction
        integer = self.round()
        return integer, self - integer

    def scaled(self, n: Term) -> Term:
        """Times 2**n."""
        return self.new(self.e.ldexp(self.lanes, n.lanes))

    @property
    def saturates(self) -> bool:
        """True when `scaled` takes any exponent."""
        return self.e.saturates(self.lanes)

    def to(self, dtype: DType) -> Term:
        return self.new(self.e.convert(self.lanes, dtype))

    def bits(self, dtype: DType | None = None) -> Term:
        """Reinterpret the bits as an integer of that size, or as another dtype."""
        return self.new(self.e.bitcast(self.lanes, dtype or (int64 if self.dtype.bits == 64 else int32)))

    def is_nan(self) -> Term:
        return self.new(self.e.isnan(self.lanes))


Operand = Term | float


def where(condition: Term, a: Operand, b: Operand) -> Term:
    like = a if isinstance(a, Term) else b
    assert isinstance(like, Term)
    return like.new(like.e.select(condition.lanes, like.of(a), like.of(b)))


def rarely(condition: Term, usual: Sequence[Term], rare: Callable[[], Sequence[Term]]) -> list[Term]:
    """What `rare` gives where the condition holds in any lane, else the usual terms."""
    chosen = condition.e.rarely(condition.lanes, [t.lanes for t in usual], lambda: [t.lanes for t in rare()])
    return [t.new(lanes) for t, lanes in zip(usual, chosen, strict=True)]


def muladd(a: Term, b: Operand, c: Operand) -> Term:
    """a * b + c with one rounding or two."""
    return a.new(a.e.multiply_add(a.lanes, a.of(b), a.of(c)))


def polynomial(x: Term, coefficients: Sequence[float], reach: float = 1.0) -> Term:
    """Horner's scheme; coefficients from the constant one up. `reach` is the largest size that x may have."""
    if x.is_paired and x.short:
        return paired_polynomial(x, coefficients, reach)
    total = muladd(x, coefficients[-1], coefficients[-2])
    for c in reversed(coefficients[:-2]):
        total = muladd(total, x, c)
    return total


def paired_polynomial(x: Term, coefficients: Sequence[float], reach: float) -> Term:
    """With float32 for the terms that do not reach the upper bits."""
    sizes = [abs(c) * reach**k for k, c in enumerate(coefficients)]
    single = next(j for j in range(1, len(sizes) + 1) if sum(sizes[j:]) <= sizes[0] * 2.0**-10)
    left = coefficients[single:]
    total = (
        polynomial(x.single, left).to(float64)
        if len(left) > 1
        else x.number(left[0] if left else coefficients[single - 1])
    )
    for c in reversed(coefficients[: single if left else single - 1]):
        total = muladd(total, x, c)
    return total


def clamp(x: Term, low: float, high: float) -> Term:
    """Between two numbers; NaN passes."""
    x = where(x < low, low, x)
    return where(x > high, high, x)


def is_negative(x: Term) -> Term:
    """Whether the sign is set, of zeros too."""
    return x.single.bits() < 0


def copysign(size: Term, sign: Term) -> Term:
    """A non-negative size with the sign of another number, by bits."""
    if size.is_paired:
        return where(is_negative(sign), -size, size)
    bits = size.bits()
    return (bits | (sign.bits() & -(1 << bits.dtype.bits - 1))).bits(size.dtype)


def signed(value: Term, x: Term) -> Term:
    """A value with its sign turned where that of x is negative."""
    if value.is_paired:
        return where(is_negative(x), -value, value)
    return (value.bits() ^ (x.bits() & -(1 << x.dtype.bits - 1))).bits(x.dtype)


def scaling(size: Term) -> tuple[Term, Term]:
    """A power of two that brings a size near 1 (some way, for the least and the greatest), and its inverse."""
    if size.is_paired:
        shrink, grow = scaling(size.single)
        return shrink.to(float64), grow.to(float64)
    if not size.is_double:
        field = size.bits() >> 23
        field = where(field < 1, 1, where(field > 253, 253, field))
        return (254 - field << 23).bits(size.dtype), (field << 23).bits(size.dtype)
    field = size.bits() >> 52
    field = where(field < 1, 1, where(field > 2045, 2045, field))
    return (2046 - field << 52).bits(size.dtype), (field << 52).bits(size.dtype)
