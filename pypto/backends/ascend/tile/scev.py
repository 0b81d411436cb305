"""Indices as sums of values with factors, so that two of them can be compared."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from pypto.ir.core import Value
from pypto.passes.pattern import constant_of


@dataclass(frozen=True, slots=True)
class AffineExpr:
    """A number, and values with their factors."""

    number: int
    terms: frozenset[tuple[Value, int]]

    @property
    def is_natural(self) -> bool:
        """Whether it is a number of 0 or more."""
        return not self.terms and self.number >= 0

    def __sub__(self, other: AffineExpr) -> AffineExpr:
        return add_affine((self, 1), (other, -1))


ONE: Final = AffineExpr(1, frozenset())


def add_affine(*parts: tuple[AffineExpr, int]) -> AffineExpr:
    terms: Counter[Value] = Counter()
    for part, factor in parts:
        for v, n in part.terms:
            terms[v] += n * factor
    return AffineExpr(sum(p.number * f for p, f in parts), frozenset((v, n) for v, n in terms.items() if n))


def affine_of(v: Value) -> AffineExpr:
    """The form of an integer, through sums, products with constants and casts to more bits."""
    number = constant_of(v)
    if number is not None:
        return AffineExpr(int(number), frozenset())
    op = v.op
    if op is not None and v.dtype.bits == 64 and op.name in ("add", "sub"):
        return add_affine((affine_of(op.operands[0]), 1), (affine_of(op.operands[1]), -1 if op.name == "sub" else 1))
    if op is not None and op.name == "cast" and op.operands[0].dtype.bits <= v.dtype.bits:
        return affine_of(op.operands[0])
    if op is not None and v.dtype.bits == 64 and op.name == "mul":
        for x, y in (op.operands, op.operands[::-1]):
            if (factor := constant_of(y)) is not None:
                return add_affine((affine_of(x), int(factor)))
    return AffineExpr(0, frozenset(((v, 1),)))
