"""Sums of two float64 in the place of one: about 106 bits, for what must not be lost on the way to a rounded result.

The algorithms are Dekker's ("A floating-point technique for extending the available precision", 1971) and Knuth's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pypto.ops.math.term import Operand, Term, polynomial, where


@dataclass(frozen=True, slots=True)
class Pair:
    """hi + lo, with lo below an ulp of hi; None is a lo of 0. Short terms get none."""

    hi: Term
    lo: Term | None = None

    @property
    def value(self) -> Term:
        return total(self.hi, self.lo)

    @property
    def normal(self) -> Pair:
        return renormal(self.hi, self.lo)

    def __add__(self, other: Pair | Operand) -> Pair:
        b = pair(other, self.hi)
        s = two_sum(self.hi, b.hi)
        return renormal(s.hi, maybe(s.lo, self.lo, b.lo))

    def __sub__(self, other: Pair) -> Pair:
        return self + -other

    def __neg__(self) -> Pair:
        return Pair(-self.hi, None if self.lo is None else -self.lo)

    def __mul__(self, other: Pair | Operand) -> Pair:
        b = pair(other, self.hi)
        p = product(self.hi, b.hi)
        cross = maybe(b.lo and self.hi * b.lo, self.lo and self.lo * b.hi)
        return renormal(p.hi, maybe(p.lo, cross))

    def __truediv__(self, other: Pair) -> Pair:
        q = self.hi / other.hi
        if q.short:
            return Pair(q)
        p = product(q, other.hi)
        assert p.lo is not None
        remainder = total(self.hi - p.hi - p.lo, self.lo)
        return renormal(q, (remainder - q * other.lo if other.lo else remainder) / other.hi)

    def sqrt(self) -> Pair:
        root = self.hi.sqrt()
        if root.short:
            return Pair(root)
        p = product(root, root)
        assert p.lo is not None
        remainder = total(self.hi - p.hi - p.lo, self.lo) * 0.5
        return renormal(root, where(root > 0.0, remainder / root, 0.0))

    def scaled(self, factor: Operand) -> Pair:
        """Times a power of two."""
        return Pair(self.hi * factor, self.lo and self.lo * factor)


def maybe(*terms: Term | None) -> Term | None:
    """Sum of those that are there."""
    present = [t for t in terms if t is not None]
    return total(*present) if present else None


def total(first: Term, *terms: Term | None) -> Term:
    for t in terms:
        first = first if t is None else first + t
    return first


def pair(x: Pair | Operand, like: Term) -> Pair:
    return x if isinstance(x, Pair) else Pair(x if isinstance(x, Term) else like.number(x))


def constant(like: Term, parts: tuple[float, float]) -> Pair:
    """A constant of two parts."""
    return Pair(like.number(parts[0]), None if like.short else like.number(parts[1]))


def two_sum(a: Term, b: Operand, keep: bool = False) -> Pair:
    """The rounded sum and what rounding took from it (Knuth); `keep`: for short terms, too."""
    s = a + b
    if a.short and not keep:
        return Pair(s)
    part = s - a
    return Pair(s, (a - (s - part)) + (b - part))


def renormal(hi: Term, lo: Term | None) -> Pair:
    """Renormalise a sum whose lo is below hi, so that lo is below half an ulp of hi."""
    if lo is None or hi.short:
        return Pair(total(hi, lo))
    s = hi + lo
    return Pair(s, lo - (s - hi))


def choose(condition: Term, a: Pair, b: Pair) -> Pair:
    if a.lo is None and b.lo is None:
        return Pair(where(condition, a.hi, b.hi))
    return Pair(where(condition, a.hi, b.hi), where(condition, a.lo or a.hi.number(0.0), b.lo or 0.0))


def refined(x: Term, coefficients: Sequence[float], lows: Sequence[float]) -> Pair:
    """A polynomial whose first coefficients have second parts: those steps keep what rounding takes."""
    if x.short:
        return Pair(polynomial(x, coefficients))
    value = Pair(polynomial(x, coefficients[len(lows) :]))
    for parts in reversed(list(zip(coefficients, lows, strict=False))):
        value = value * x + constant(x, parts)
    return value


def product(a: Term, b: Term) -> Pair:
    """The rounded product and what rounding took from it."""
    if a.short:
        return Pair(a * b)
    hi, lo = a.e.two_product(a.lanes, b.lanes)
    return Pair(a.new(hi), a.new(lo))
