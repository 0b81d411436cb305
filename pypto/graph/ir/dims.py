"""Named dimensions: sizes that are unknown until a plan runs are polynomials over dims.

The user names a `Dim`. A `Size` computes like an int, over dims instead of numbers: sums, products, and quotients
that are rounded down. It may stand wherever the graph has a size, so it is typed as int.

The graph compares sizes by their form: ``batch * length`` equals ``length * batch``, and differs from every number,
even from 1. Sizes that the user's function sees carry `Guards`. The range of the dims answers a comparison if it
decides it. Otherwise the hints of the dims answer it, and the answer becomes a guard of the plan, with its line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol, cast

import numpy as np

Sizes = Mapping[str, int]  # of dims by name


@dataclass(frozen=True, slots=True)
class Dim:
    """A named dimension, whose size differs from call to call.

    Parameters
    ----------
    name : str
        An identifier.
    low, high : int
        The least and the greatest size; the least is at least 1.
    hint : int, optional
        The size for which tiles are chosen; the default is a quarter of `high`.

    Raises
    ------
    ValueError
        When the name is no identifier, or the range is empty or begins below 1.

    Examples
    --------
    >>> Dim("batch", 1, 64).hint
    16
    """

    name: str
    low: int = 1
    high: int = 1 << 31
    hint: int = 0

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"the name of a dimension is an identifier, not {self.name!r}")
        if not 1 <= self.low <= self.high:
            raise ValueError(f"sizes of `{self.name}` are from 1 on, and {self.low} to {self.high} is no range")
        if self.hint == 0:
            object.__setattr__(self, "hint", max(self.low, self.high // 4 if self.high < 1 << 20 else 1024))
        if not self.low <= self.hint <= self.high:
            raise ValueError(f"the hint {self.hint} of `{self.name}` is not in {self.low} to {self.high}")

    def value(self, sizes: Sizes) -> int:
        return sizes[self.name]

    @property
    def text(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Floor:
    """Floor division by a positive number, which is an atom of polynomials."""

    inner: Size
    by: int

    def value(self, sizes: Sizes) -> int:
        return self.inner.at(sizes) // self.by

    @property
    def low(self) -> int:
        return bounds(self.inner)[0] // self.by

    @property
    def high(self) -> int:
        return bounds(self.inner)[1] // self.by

    @property
    def hint(self) -> int:
        return hint(self.inner) // self.by

    @property
    def text(self) -> str:
        return f"floor({self.inner}, {self.by})"


Atom = Dim | Floor
Terms = tuple[tuple[tuple[Atom, ...], int], ...]  # monomials, sorted, with their factors


class Asks(Protocol):
    """The protocol for answering the comparisons that a function makes on sizes."""

    def answer(self, difference: Any, word: str) -> bool:
        """Answer whether a difference of sizes is below 0, at most 0, or 0."""


def relation(value: int, word: str) -> bool:
    return value == 0 if word == "==" else value < 0 if word == "<" else value <= 0


def decided(difference: Any, word: str) -> bool | None:
    """Decide a comparison from the ranges of the dims, or return None."""
    low, high = bounds(difference)
    if word == "==":
        return False if low > 0 or high < 0 else True if low == high == 0 else None
    edge = 0 if word == "<=" else -1
    return True if high <= edge else False if low > edge else None


class Size:
    """A polynomial over dims, see the head of this file. A leaf in arguments and results, so it is no dataclass."""

    __slots__ = ("guards", "terms")

    stands_in = True

    def __init__(self, terms: Terms, guards: Asks | None = None) -> None:
        self.terms = terms
        self.guards = guards

    # --- arithmetic ------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        terms = terms_of(other)
        return NotImplemented if terms is None else from_terms((*self.terms, *terms), self.guards or guards_of(other))

    __radd__ = __add__

    def __neg__(self) -> Any:
        return from_terms(((m, -c) for m, c in self.terms), self.guards)

    def __sub__(self, other: Any) -> Any:
        return self + -other if terms_of(other) is not None else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        factors = terms_of(other)
        if factors is None:
            return NotImplemented
        terms = [(joined(a, b), x * y) for (a, x), (b, y) in product(self.terms, factors)]
        return from_terms(terms, self.guards or guards_of(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        exact = quotient(self, other) if terms_of(other) is not None else None
        if exact is not None:
            return seen_by(exact, self.guards)
        if isinstance(other, int) and other > 0:
            divisible = [(m, c // other) for m, c in self.terms if c % other == 0]
            remainder = from_terms(((m, c) for m, c in self.terms if c % other))
            atom = ((), remainder // other) if is_fixed(remainder) else ((Floor(remainder, other),), 1)
            return from_terms((*divisible, atom), self.guards)
        return self.__index__() // other

    def __rfloordiv__(self, other: Any) -> Any:
        return other // self.__index__()

    def __mod__(self, other: Any) -> Any:
        return self - (self // other) * other

    def __rmod__(self, other: Any) -> Any:
        return other % self.__index__()

    def __pow__(self, power: Any) -> Any:
        if isinstance(power, int) and 0 <= power <= 4:
            result: Any = 1
            for _ in range(power):
                result = self * result
            return result
        return self.__index__() ** power

    def __truediv__(self, other: Any) -> Any:
        return self.__index__() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.__index__()

    # --- questions -------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        terms = terms_of(other)
        if terms is None:
            return False
        if terms == self.terms:
            return True
        guards = self.guards or guards_of(other)
        return guards is not None and guards.answer(self - other, "==")

    def __hash__(self) -> int:
        return hash(self.terms)

    def __lt__(self, other: Any) -> bool:
        return self._asks(self - other, "<")

    def __le__(self, other: Any) -> bool:
        return self._asks(self - other, "<=")

    def __gt__(self, other: Any) -> bool:
        return self._asks(other - self, "<")

    def __ge__(self, other: Any) -> bool:
        return self._asks(other - self, "<=")

    def _asks(self, difference: Any, word: str) -> bool:
        guards = guards_of(difference)
        if guards is not None:
            return guards.answer(difference, word)
        known = decided(difference, word)
        return relation(hint(difference), word) if known is None else known

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        """Return the hinted size as a number, which specializes the plan for this size."""
        if self.guards is None:
            raise TypeError(f"the size {self} is not known before the plan runs")
        value = hint(self)
        self.guards.answer(self - value, "==")
        return value

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.__index__(), dtype)

    # --- what it is ------------------------------------------------------------------------------------------------

    def at(self, sizes: Sizes) -> int:
        """Evaluate the polynomial for sizes of the dims."""
        total = 0
        for atoms, factor in self.terms:
            total += factor * math.prod(atom.value(sizes) for atom in atoms)
        return total

    def __str__(self) -> str:
        return " + ".join(term_text(atoms, factor) for atoms, factor in self.terms)

    __repr__ = __str__


def term_text(atoms: tuple[Atom, ...], factor: int) -> str:
    names = [a.text for a in atoms]
    if not names:
        return str(factor)
    return "*".join(names if factor == 1 else [str(factor), *names])


def joined(a: tuple[Atom, ...], b: tuple[Atom, ...]) -> tuple[Atom, ...]:
    return tuple(sorted((*a, *b), key=lambda x: x.text))


def terms_of(value: Any) -> Terms | None:
    """Return the terms of a size or an integer."""
    if isinstance(value, Size):
        return value.terms
    if isinstance(value, int) or (hasattr(value, "__index__") and not hasattr(value, "needs_value")):
        number = int(value)
        return (((), number),) if number else ()
    return None


def guards_of(value: Any) -> Asks | None:
    return value.guards if isinstance(value, Size) else None


def from_terms(terms: Iterable[tuple[tuple[Atom, ...], int]], guards: Asks | None = None) -> Any:
    """Build the polynomial of some terms; the result is a plain int if no dim remains."""
    coefficients: dict[tuple[Atom, ...], int] = {}
    for atoms, factor in terms:
        coefficients[atoms] = coefficients.get(atoms, 0) + factor
    ordered = sorted(
        ((m, c) for m, c in coefficients.items() if c), key=lambda row: (-len(row[0]), [a.text for a in row[0]])
    )
    if not ordered:
        return 0
    return ordered[0][1] if not ordered[0][0] else Size(tuple(ordered), guards)


def size_of(dim: Dim) -> int:
    """Return the size that a dim denotes."""
    return cast("int", Size((((dim,), 1),)))


def seen_by(value: Any, guards: Asks | None) -> Any:
    """Return a size whose comparisons are recorded as guards."""
    return Size(value.terms, guards) if isinstance(value, Size) and guards is not None else value


def unasked(value: Any) -> Any:
    """Return a size, or a tuple of sizes, without guards, as the graph stores it."""
    if isinstance(value, Size):
        return value if value.guards is None else Size(value.terms)
    return tuple(unasked(x) for x in value) if isinstance(value, tuple) else value


def is_fixed(value: Any) -> bool:
    """Whether a size is a plain number."""
    return not isinstance(value, Size)


def hint(value: Any) -> int:
    """Return the hinted value of a size, for choices such as tile sizes that any number makes correct."""
    if not isinstance(value, Size):
        return int(value)
    total = 0
    for atoms, factor in value.terms:
        total += factor * math.prod(atom.hint for atom in atoms)
    return total


def bounds(value: Any) -> tuple[int, int]:
    """Return the lower and the upper bound of a size."""
    if not isinstance(value, Size):
        return int(value), int(value)
    least, most = 0, 0
    for atoms, factor in value.terms:
        low, high = factor, factor
        for atom in atoms:
            ends = [a * b for a in (low, high) for b in (atom.low, atom.high)]
            low, high = min(ends), max(ends)
        least += low
        most += high
    return least, most


def quotient(a: Any, b: Any) -> Any:
    """Return ``a / b`` if it is an integer for all sizes, otherwise None."""
    if not isinstance(a, Size) and not isinstance(b, Size):
        return a // b if b and a % b == 0 else None
    if isinstance(a, Size) and isinstance(b, Size) and a.terms == b.terms:
        return 1
    divisor = terms_of(b)
    if divisor is None or len(divisor) != 1:
        return None
    ((atoms, factor),) = divisor
    terms = []
    for monomial, c in terms_of(a) or ():
        left = list(monomial)
        if c % factor or any(left.count(x) < atoms.count(x) for x in atoms):
            return None
        for x in atoms:
            left.remove(x)
        terms.append((tuple(left), c // factor))
    return from_terms(terms)


def ceil_div(a: Any, b: int) -> Any:
    """Return the quotient rounded up, which is the number of blocks of a size."""
    return -(-a // b) if is_fixed(a) else (a + (b - 1)) // b


def value_of(value: Any, sizes: Sizes) -> Any:
    """Evaluate the sizes in an attribute or a tuple to numbers."""
    if isinstance(value, Size):
        return value.at(sizes)
    return tuple(value_of(x, sizes) for x in value) if isinstance(value, tuple) else value
