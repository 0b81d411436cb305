"""Indices as sums of values with factors, so that two of them can be compared."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from pypto.ir.core import Value
from pypto.passes.pattern import constant_of


@dataclass(frozen=True, slots=True)
class Linear:
    """A number, and values with their factors."""

    number: int
    terms: frozenset[tuple[Value, int]]

    @property
    def is_natural(self) -> bool:
        """Whether it is a number of 0 or more."""
        return not self.terms and self.number >= 0

    def __sub__(self, other: Linear) -> Linear:
        return combined((self, 1), (other, -1))


ONE: Final = Linear(1, frozenset())


def combined(*parts: tuple[Linear, int]) -> Linear:
    terms: Counter[Value] = Counter()
    for part, factor in parts:
        for v, n in part.terms:
            terms[v] += n * factor
    return Linear(sum(p.number * f for p, f in parts), frozenset((v, n) for v, n in terms.items() if n))


def linear(v: Value) -> Linear:
    """The form of an integer, through sums, products with constants and casts to more bits."""
    number = constant_of(v)
    if number is not None:
        return Linear(int(number), frozenset())
    op = v.op
    if op is not None and v.dtype.bits == 64 and op.name in ("add", "sub"):
        return combined((linear(op.operands[0]), 1), (linear(op.operands[1]), -1 if op.name == "sub" else 1))
    if op is not None and op.name == "cast" and op.operands[0].dtype.bits <= v.dtype.bits:
        return linear(op.operands[0])
    if op is not None and v.dtype.bits == 64 and op.name == "mul":
        for x, y in (op.operands, op.operands[::-1]):
            if (factor := constant_of(y)) is not None:
                return combined((linear(x), int(factor)))
    return Linear(0, frozenset(((v, 1),)))
