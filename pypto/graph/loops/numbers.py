"""Scalars of a loop: their text in the kernel, numpy type, and what is known of their values.

The linear form of an integer over loop indices, with the bounds of each index, proves that an index lies inside an
array, that two slices have one length, and that two accesses are disjoint.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

Kind = Any  # a numpy dtype, or `int`, `float` or `bool` for a number of Python, which promotes weakly
Bounds = tuple[float, float]
ALL: Final[Bounds] = (-math.inf, math.inf)


class NotCompiled(Exception):
    """A loop that has no kernel, with the reason; the loop is unrolled."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line

    def at(self, line: int) -> NotCompiled:
        """Return this reason with a line, unless it has one."""
        return self if self.line else NotCompiled(self.reason, line)


@dataclass(frozen=True, slots=True)
class Linear:
    """An integer as a sum of multiples of symbols, and a constant.

    Examples
    --------
    >>> i = Linear.symbol("i")
    >>> (i.plus(Linear({}, 3), 2)).minus(i)
    Linear(terms={}, constant=6)
    """

    terms: Mapping[str, int] = field(default_factory=dict)
    constant: int = 0

    @staticmethod
    def symbol(name: str) -> Linear:
        return Linear({name: 1})

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """Add a multiple of another form."""
        terms = dict(self.terms)
        for name, count in other.terms.items():
            terms[name] = terms.get(name, 0) + factor * count
        return Linear({n: c for n, c in terms.items() if c}, self.constant + factor * other.constant)

    def minus(self, other: Linear) -> Linear:
        return self.plus(other, -1)

    def times(self, factor: int) -> Linear:
        return Linear().plus(self, factor) if factor else Linear()

    def bounds(self, known: Mapping[str, Bounds]) -> Bounds:
        """Return the least and greatest value for bounds of the symbols."""
        low = high = float(self.constant)
        for name, count in self.terms.items():
            least, greatest = known.get(name, ALL)
            ends = (count * least, count * greatest)
            low, high = low + min(ends), high + max(ends)
        return low, high


@dataclass(frozen=True, slots=True)
class Number:
    """A scalar of a loop.

    Parameters
    ----------
    text : str
        The expression that has its value in the kernel.
    kind : numpy dtype or type
        Its type in numpy, or `int`, `float` or `bool` for a number of Python.
    linear : Linear, optional
        Its value as a linear form, for integers.
    value : int or float or bool, optional
        Its value, if that is known.
    """

    text: str
    kind: Kind
    linear: Linear | None = None
    value: Any = None

    @property
    def is_known(self) -> bool:
        return self.value is not None


def known(value: Any) -> Number:
    """Return the number of a Python number or a numpy scalar."""
    if isinstance(value, np.generic):
        return Number(literal(value.item()), value.dtype, linear_of(value.item()), value.item())
    return Number(literal(value), type(value), linear_of(value), value)


def linear_form(name: str, operands: Sequence[Number]) -> Linear | None:
    """Return the result of an operation on integers as a linear form, if it is one."""
    first, second = operands[0].linear, operands[-1].linear
    if first is None or second is None:
        return None
    if name in ("add", "subtract"):
        return first.plus(second, 1 if name == "add" else -1)
    if name == "negative":
        return first.times(-1)
    if name == "multiply" and (operands[0].is_known or operands[1].is_known):
        return second.times(operands[0].value) if operands[0].is_known else first.times(operands[1].value)
    return None


def linear_of(value: Any) -> Linear | None:
    return Linear({}, value) if type(value) is int else None


def literal(value: Any) -> str:
    """Print a number as a literal of the kernel language."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return f"({value!r})" if value < 0 else repr(value)


def storage_type(kind: Kind) -> np.dtype[Any]:
    """Return the numpy type that holds a number in the kernel."""
    return np.dtype({int: np.int64, float: np.float64, bool: np.bool_}.get(kind, kind))


def type_name(kind: Kind) -> str:
    """Return the name of a type in the kernel language."""
    dtype = storage_type(kind)
    return "pto.int1" if dtype == np.bool_ else f"pto.{dtype.name}"


def cast(number: Number, kind: Kind) -> str:
    """Return a number's text in another type."""
    wanted = storage_type(kind)
    if number.is_known:
        return literal(wanted.type(number.value).item())
    return number.text if storage_type(number.kind) == wanted else f"pto.cast({number.text}, {type_name(kind)})"


def joined(a: Number, b: Number) -> Kind:
    """Return the type of a variable that is one of two numbers.

    Raises
    ------
    NotCompiled
        When no type holds both exactly.
    """
    if a.kind == b.kind:
        return a.kind
    for weak, other in ((a, b), (b, a)):
        if weak.kind is int and other.kind is float:
            return float
        if weak.kind in (int, float) and isinstance(other.kind, np.dtype) and fits(weak, other.kind):
            return other.kind
    raise NotCompiled(f"a variable is a {name_of(a.kind)} or a {name_of(b.kind)}")


def fits(weak: Number, dtype: np.dtype[Any]) -> bool:
    """Whether a type holds a number of Python exactly."""
    if dtype == np.float64:
        return True
    if weak.kind is int and dtype == np.int64:
        return True
    if not weak.is_known or dtype.kind not in "iuf":
        return False
    if dtype.kind in "iu":
        least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
        return type(weak.value) is int and int(least) <= weak.value <= int(greatest)
    return bool(dtype.type(weak.value) == weak.value)


def name_of(kind: Kind) -> str:
    return kind.name if isinstance(kind, np.dtype) else kind.__name__
