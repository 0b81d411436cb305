"""Conditions of a call besides shapes and dtypes: relations of sizes, and ranges of the integers in arrays.

A signature states them after `where`, so that the call, the documentation and the tests read the same text:

``h % g == 0``
    A relation of sizes and numbers.
``0 <= labels < n``
    A range of all elements of an array.
``0 <= table[:cdiv(lengths, page)] < pages``
    A range of the first elements of each row; later elements may be anything.
``0 <= steps(starts) <= longest``, ``starts[-1] == t``
    A range of the differences of adjacent elements, and of one element.
``any(codes)``
    Every value of the array is allowed.
``contiguous(mask)``, ``contiguous_rows(keys)``
    All elements, or those of each row, are contiguous in memory, as the kernels assume.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pypto.library.expressions import OPERATIONS, Function, compiled

Array = np.ndarray[Any, Any]

# Conditions of many signatures: paged rows with a page table, and ragged sequences that lie one after the other.
PAGED: Final = "1 <= page, 0 <= lengths <= p*page, 0 <= table[:cdiv(lengths, page)] < pages, contiguous_rows(table)"
RAGGED: Final = "starts[0] == 0, starts[-1] == t"


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of sizes and numbers; `arrays` names the arrays of which it reads single elements."""

    text: str
    names: frozenset[str]
    arrays: frozenset[str]
    holds: Function

    def elements(self, values: Mapping[str, Any]) -> str:
        """Describes the arrays that it reads."""
        return ", ".join(
            f"`{name}` is {np.array2string(np.asarray(values[name]), threshold=6, separator=', ')}"
            for name in sorted(self.arrays)
        )


@dataclass(frozen=True, slots=True)
class Range:
    """Limits of the elements of an array, or of some of them.

    Parameters
    ----------
    text : str
    array : str
        The array whose elements are limited.
    names : frozenset of str
        The names that limits and slices read.
    arrays : frozenset of str
        All arrays that the condition reads.
    least, beyond : Function, optional
        The least allowed value, and the first that is too large.
    first, stop : Function, optional
        The first limited element of each row, and the one after the last.
    steps : bool
        Whether the differences of adjacent elements are limited instead of the elements.
    """

    text: str
    array: str
    names: frozenset[str]
    arrays: frozenset[str]
    least: Function | None
    beyond: Function | None
    first: Function | None = None
    stop: Function | None = None
    steps: bool = False

    def wrong(self, values: Mapping[str, Any]) -> str:
        """Describes the first element that is out of range; empty if all are in range.

        If the limits are numbers, the minimum and the maximum are compared first; every element is compared only if one
        of them is out of range.
        """
        x = np.asarray(values[self.array])
        if self.steps:
            x = np.diff(x.astype(np.int64))
        if not x.size:
            return ""
        least: Any = None if self.least is None else self.least(values)
        beyond: Any = None if self.beyond is None else self.beyond(values)
        if np.ndim(least) == np.ndim(beyond) == 0 and is_below(least, x) and is_above(beyond, x):
            return ""
        bad = np.zeros(x.shape, bool)
        if least is not None:
            bad |= x < aligned(least, x.ndim)
        if beyond is not None:
            bad |= x >= aligned(beyond, x.ndim)
        bad &= self.limited(x, values)
        if not bad.any():
            return ""
        place = tuple(map(int, np.unravel_index(int(bad.argmax()), bad.shape)))
        return " and ".join(
            f"`{self.array}[{', '.join(map(str, at))}]` is {values[self.array][at]}"
            for at in ([place, (place[0] + 1,)] if self.steps else [place])
        )

    def limited(self, x: Array, values: Mapping[str, Any]) -> Any:
        """Returns a mask of the elements that the range limits."""
        numbers: Any = np.arange(x.shape[-1])
        inside: Any = True
        if self.first is not None:
            inside = inside & (numbers >= aligned(self.first(values), x.ndim))
        if self.stop is not None:
            inside = inside & (numbers < aligned(self.stop(values), x.ndim))
        return inside


def is_below(least: Any, x: Array) -> bool:
    """Says whether the lower limit, if there is one, holds for all elements."""
    return least is None or bool(least <= np.minimum.reduce(x, axis=None))


def is_above(beyond: Any, x: Array) -> bool:
    """Says whether the upper limit, if there is one, holds for all elements."""
    return beyond is None or bool(np.maximum.reduce(x, axis=None) < beyond)


def aligned(limit: Any, ndim: int) -> Any:
    """Broadcasts a limit over an array: it has the array's leading axes."""
    limit = np.asarray(limit)
    return limit.reshape(limit.shape + (1,) * (ndim - limit.ndim)) if limit.ndim else limit


@dataclass(frozen=True, slots=True)
class Conditions:
    """All conditions after `where`, in order.

    Examples
    --------
    >>> found = Conditions.parse("h % g == 0, 0 <= labels < n", {"labels"})
    >>> [one.text for one in found.relations], [one.array for one in found.ranges]
    (['h % g == 0'], ['labels'])
    """

    relations: tuple[Relation, ...] = ()
    ranges: tuple[Range, ...] = ()
    open: frozenset[str] = frozenset()
    contiguous: frozenset[str] = frozenset()
    contiguous_rows: frozenset[str] = frozenset()

    @staticmethod
    def parse(text: str, arrays: Collection[str]) -> Conditions:
        """Parses conditions, which may name these arrays.

        Raises
        ------
        ValueError
            If a condition cannot be parsed.
        """
        conditions: list[Relation | Range] = []
        listed: dict[str, set[str]] = {kind: set() for kind in ("any", "contiguous", "contiguous_rows")}
        for node in parts(text):
            match node:
                case ast.Call(func=ast.Name(id=kind), args=args) if kind in listed:
                    listed[kind] |= {arg.id for arg in args if isinstance(arg, ast.Name)}
                case _:
                    conditions.append(condition(node, frozenset(arrays)))
        relations = tuple(one for one in conditions if isinstance(one, Relation))
        ranges = tuple(one for one in conditions if isinstance(one, Range))
        return Conditions(relations, ranges, *map(frozenset, listed.values()))

    @property
    def texts(self) -> tuple[str, ...]:
        """Returns the conditions that a call checks."""
        layouts = {"contiguous": self.contiguous, "contiguous_rows": self.contiguous_rows}
        texts = [f"{kind}({', '.join(sorted(names))})" for kind, names in layouts.items() if names]
        return (*(one.text for one in self.relations), *(one.text for one in self.ranges), *texts)

    @property
    def arrays(self) -> frozenset[str]:
        """Returns the arrays that a call reads to check them."""
        return frozenset().union(*(one.arrays for one in self.relations), *(one.arrays for one in self.ranges))


def parts(text: str) -> Iterator[ast.expr]:
    """Yields the conditions of a text, which commas separate."""
    if text.strip():
        try:
            node = ast.parse(f"({text},)", mode="eval").body
        except SyntaxError:
            raise ValueError(f"`{text}` is no list of conditions") from None
        assert isinstance(node, ast.Tuple)
        yield from node.elts


def names_in(*nodes: ast.expr | None) -> frozenset[str]:
    """Returns the names of sizes, numbers and arrays, without those of functions."""
    every = [node for one in nodes if one is not None for node in ast.walk(one)]
    functions = {id(node.func) for node in every if isinstance(node, ast.Call)}
    return frozenset(node.id for node in every if isinstance(node, ast.Name) and id(node) not in functions)


def condition(node: ast.expr, arrays: frozenset[str]) -> Relation | Range:
    """Parses a condition: a range if an array stands between limits, else a relation."""
    if isinstance(node, ast.Compare):
        terms = [node.left, *node.comparators]
        for at, term in enumerate(terms):
            name, slice, steps = subject(term, arrays)
            if name:
                return limits(node, terms, at, name, slice, steps, arrays)
    names = names_in(node)
    return Relation(ast.unparse(node), names, names & arrays, compiled(node))


def subject(term: ast.expr, arrays: frozenset[str]) -> tuple[str, ast.Slice | None, bool]:
    """Returns the array of a term, the slice of its rows, and whether the term means differences."""
    match term:
        case ast.Call(func=ast.Name(id="steps"), args=[ast.Name(id=name)]):
            return name, None, True
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Slice() as slice):
            return name, slice, False
        case ast.Name(id=name) if name in arrays:
            return name, None, False
    return "", None, False


def limits(  # parts of a comparison
    node: ast.Compare, terms: list[ast.expr], at: int, name: str, slice: ast.Slice | None, steps: bool,
    arrays: frozenset[str],
) -> Range:  # fmt: skip
    """Parses a comparison of an array with one limit or two."""
    if at > 1 or len(terms) > at + 2:
        raise ValueError(f"`{ast.unparse(node)}` is no range: an array has one limit below and one above")
    least = compiled(one_more(terms[0], node.ops[0], ast.LtE)) if at else None
    beyond = compiled(one_more(terms[at + 1], node.ops[at], ast.Lt)) if len(terms) > at + 1 else None
    first, stop = (slice.lower, slice.upper) if slice else (None, None)
    others = [*terms[:at], *terms[at + 1 :], first, stop]
    names = names_in(*others)
    begin, end = (compiled(x) if x is not None else None for x in (first, stop))
    return Range(ast.unparse(node), name, names | {name}, (names | {name}) & arrays, least, beyond, begin, end, steps)


def one_more(limit: ast.expr, op: ast.cmpop, exact: type[ast.cmpop]) -> ast.expr:
    """Adds 1 to an integer limit if needed, so that `exact` is the right comparison with it."""
    if isinstance(op, exact):
        return limit
    if type(op) not in OPERATIONS or isinstance(op, ast.Eq):
        raise ValueError(f"`{ast.unparse(limit)}` is no limit of a range: only < and <= compare with arrays")
    return ast.BinOp(limit, ast.Add(), ast.Constant(1))
