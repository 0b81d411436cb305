"""Polynomials over values: the sums of products that a tree of additions and multiplications computes.

A factor is a value, or a polynomial where several terms have a common factor. Factors are in the order in which their
values are defined, so that equal products have one form.

    add (mul %g, %p), (mul (mul %d, %t), %t)      ->      %g %p + %d %t %t
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pypto.ir.core import Value


@dataclass(frozen=True, slots=True)
class Monomial:
    """A number times factors; a factor to a power stands there as often."""

    coefficient: float
    factors: tuple[Factor, ...] = ()


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of terms."""

    terms: tuple[Monomial, ...]


Factor = Value | Polynomial
Order = Callable[[Factor], tuple[int, int]]  # larger factors have a larger first number


def product(terms: Iterable[Monomial], others: Sequence[Monomial], order: Order) -> list[Monomial]:
    """Each term times each of some others."""
    return [
        Monomial(a.coefficient * b.coefficient, tuple(sorted((*a.factors, *b.factors), key=order)))
        for a in terms
        for b in others
    ]


def scaled(terms: Iterable[Monomial], number: float) -> list[Monomial]:
    return [Monomial(t.coefficient * number, t.factors) for t in terms]


def merged(terms: Iterable[Monomial]) -> list[Monomial]:
    """Terms of the same factors are one term, at the place of the first."""
    sums: dict[tuple[Factor, ...], float] = {}
    for t in terms:
        sums[t.factors] = sums.get(t.factors, 0.0) + t.coefficient
    return [Monomial(c, factors) for factors, c in sums.items()]


def factored(terms: Sequence[Monomial], order: Order, least: int = 0) -> list[Monomial]:
    """Terms, where those with a common factor are one term: the factors times a polynomial.

    The factor that most terms have goes first, of several the largest one that is defined first. Factors of fewer than
    `least` elements stay in their terms.
    """
    result = merged(terms)
    while True:
        counts = Counter(f for t in result for f in dict.fromkeys(t.factors))
        shared = [f for f, n in counts.items() if n > 1 and order(f)[0] >= least]
        if not shared:
            return result
        best = max(shared, key=lambda f: (counts[f], order(f)[0], -order(f)[1]))
        sharing = [t for t in result if best in t.factors]
        common = tuple(f for f in common_factors(sharing) if order(f)[0] >= least)
        inner = factored([Monomial(t.coefficient, without(t.factors, common)) for t in sharing], order, least)
        scale = common_coefficient(inner)
        inner = scaled(inner, 1 / scale)
        term = product([Monomial(scale, common)], [Monomial(1.0, (Polynomial(tuple(inner)),))], order)[0]
        place = result.index(sharing[0])
        others = [t for t in result if t not in sharing]
        result = [*others[:place], term, *others[place:]]


def common_factors(terms: Sequence[Monomial]) -> tuple[Factor, ...]:
    """The factors that all terms have, each as often as they all have it."""
    counts = Counter(terms[0].factors)
    for t in terms[1:]:
        counts &= Counter(t.factors)
    return tuple(f for f in dict.fromkeys(terms[0].factors) for _ in range(counts[f]))


def without(factors: Sequence[Factor], others: Sequence[Factor]) -> tuple[Factor, ...]:
    """Factors but for some others, each of which is left out once."""
    counts = Counter(others)
    result: list[Factor] = []
    for f in factors:
        if counts[f]:
            counts[f] -= 1
        else:
            result.append(f)
    return tuple(result)


def common_coefficient(terms: Sequence[Monomial]) -> float:
    """A number by which all coefficients may be divided exactly: what they all are but for the sign, or a sign."""
    sizes = {abs(t.coefficient) for t in terms}
    first = terms[0].coefficient
    size = sizes.pop() if len(sizes) == 1 else 1.0
    return math.copysign(size, first) if size else 1.0
