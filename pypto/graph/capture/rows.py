"""The read program: before its launches, a plan repeats the reads that its function made while it was traced.

Each row reads one value, from an earlier row's value or from a root, and checks it. A value is identified by its path
and no object is kept alive, so one plan serves a model that is replaced by another model of equal structure.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pypto.graph.capture.kinds import bytes_of, same
from pypto.graph.ir.node import key_of

Array = np.ndarray[Any, Any]
Get = Callable[[list[Any], "Roots"], Any]
Check = Callable[[Any, list[Any]], bool]
Path = tuple[Any, ...]
_GONE = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, ReferenceError)


@dataclass(slots=True)
class Roots:
    """The roots of a call's reads: the traced function, and the arrays and other leaves of its arguments."""

    function: Any
    arrays: Sequence[Any] = ()
    others: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One read, with the check of its value.

    Parameters
    ----------
    path : tuple
        The identity of the read, equal from call to call.
    text : str
        The value as the user would write it.
    get : callable
        Returns the value.
    check : callable
        Whether the plan is valid for the value.
    number : type, optional
        The type of a pinned number, which another plan may take as a run-time scalar.
    """

    path: Path
    text: str
    get: Get
    check: Check
    number: type | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """A plan input that a row reads: an array, or a number with an element type."""

    row: int
    dtype: Any = None


@dataclass(slots=True)
class Outside:
    """The read program of a traced function."""

    rows: list[Row] = field(default_factory=list)
    given: tuple[Given, ...] = ()
    pinned: frozenset[Path] = frozenset()  # numbers whose value was asked for
    steps: tuple[tuple[Get, Check], ...] = ()

    def __post_init__(self) -> None:
        self.steps = tuple((row.get, row.check) for row in self.rows)

    def read(self, roots: Roots) -> list[Array] | None:
        """Run all reads, and return the arrays for the plan's further inputs, or None if a check fails."""
        values: list[Any] = []
        try:
            for get, check in self.steps:
                value = get(values, roots)
                if not check(value, values):
                    return None
                values.append(value)
        except _GONE:
            return None
        return [values[g.row] if g.dtype is None else np.array(values[g.row], g.dtype) for g in self.given]

    def changed(self, roots: Roots) -> list[Path] | None:
        """Return the numbers that changed, or None if any other value changed."""
        values: list[Any] = []
        paths: list[Path] = []
        try:
            for row in self.rows:
                value = row.get(values, roots)
                if not row.check(value, values):
                    if type(value) is not row.number:
                        return None
                    paths.append(row.path)
                values.append(value)
        except _GONE:
            return None
        return paths


# --- what values are compared by -----------------------------------------------------------------------------------


def anything(value: Any, values: list[Any]) -> bool:
    return True


def equal(value: Any) -> Check:
    """Return a check that a plain value is equal, including its type and the sign of zero."""
    key = key_of(value)
    return lambda x, values: x is value or same(x, key)


def equal_set(value: set[Any]) -> Check:
    copy = frozenset(value)
    return lambda x, values: type(x) is set and x == copy


def of_type(kind: type) -> Check:
    return lambda x, values: type(x) is kind


def one_of(known: int) -> Check:
    """Return a check that a value is identical to an earlier row's value."""
    return lambda x, values: x is values[known]


def array_like(array: Array) -> Check:
    kind, shape, dtype, strides = type(array), array.shape, array.dtype, array.strides
    return lambda x, values: type(x) is kind and x.shape == shape and x.dtype == dtype and x.strides == strides


def array_equal(array: Array) -> Check:
    """Return a check that an array has equal elements, because numpy may have read them during the trace."""
    like, copy = array_like(array), array.copy()
    return lambda x, values: like(x, values) and x.tobytes() == copy.tobytes()


def identical(value: Any) -> Check:
    """Return a check of an object's identity, which does not keep the object alive."""
    try:
        reference = weakref.ref(value)
    except TypeError:
        return lambda x, values: x is value
    return lambda x, values: x is reference()


def same_memory(kind: type, memory: bytes) -> Check:
    return lambda x, values: type(x) is kind and bytes_of(x) == memory


def container_like(value: Any) -> Check:
    """Return a check of a container's type, length and keys."""
    kind = type(value)
    if isinstance(value, dict):
        keys = list(value)
        return lambda x, values: type(x) is kind and list(x) == keys
    if not hasattr(value, "__len__"):
        names = list(vars(value))
        return lambda x, values: type(x) is kind and list(vars(x)) == names
    count = len(value)
    return lambda x, values: type(x) is kind and len(x) == count
