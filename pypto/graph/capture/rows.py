"""The program that a plan runs before its launches: it reads again what its function read while it was traced.

Each row reads one value, from what an earlier row read or from a root, and says whether it is as it was. Values go by
the way to them and no object is kept: a model that is replaced by another one of the same form is served by one plan.
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
    """Where the reads of a call begin: the traced function, arrays in its arguments, and what is no container there."""

    function: Any
    arrays: Sequence[Any] = ()
    others: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One read.

    Parameters
    ----------
    path : tuple
        What tells reads apart, from call to call.
    text : str
        The value as the user would write it.
    get : callable
        Gives the value.
    check : callable
        Whether the value is as the plan needs it.
    number : type, optional
        The type of a number of which the plan is for one value, and that another plan may have as a run-time scalar.
    """

    path: Path
    text: str
    get: Get
    check: Check
    number: type | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """An input of a plan that a row reads: an array, or a number in a type."""

    row: int
    dtype: Any = None


@dataclass(slots=True)
class Outside:
    """The reads of a traced function."""

    rows: list[Row] = field(default_factory=list)
    given: tuple[Given, ...] = ()
    pinned: frozenset[Path] = frozenset()  # numbers whose value was asked for
    steps: tuple[tuple[Get, Check], ...] = ()

    def __post_init__(self) -> None:
        self.steps = tuple((row.get, row.check) for row in self.rows)

    def read(self, roots: Roots) -> list[Array] | None:
        """The arrays for inputs of the plan behind those of arguments; None where something is not as it was."""
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
        """The numbers that are not what they were; None where anything else is not."""
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
    """Plain values are as they were, type and sign of zero included."""
    key = key_of(value)
    return lambda x, values: x is value or same(x, key)


def equal_set(value: set[Any]) -> Check:
    copy = frozenset(value)
    return lambda x, values: type(x) is set and x == copy


def of_type(kind: type) -> Check:
    return lambda x, values: type(x) is kind


def one_of(known: int) -> Check:
    """The value is the one that an earlier row read."""
    return lambda x, values: x is values[known]


def array_like(array: Array) -> Check:
    kind, shape, dtype, strides = type(array), array.shape, array.dtype, array.strides
    return lambda x, values: type(x) is kind and x.shape == shape and x.dtype == dtype and x.strides == strides


def array_equal(array: Array) -> Check:
    """An array that numpy may have computed with while the function was traced: its elements are as they were."""
    like, copy = array_like(array), array.copy()
    return lambda x, values: like(x, values) and x.tobytes() == copy.tobytes()


def identical(value: Any) -> Check:
    """The same object, which is not kept alive."""
    try:
        reference = weakref.ref(value)
    except TypeError:
        return lambda x, values: x is value
    return lambda x, values: x is reference()


def same_memory(kind: type, memory: bytes) -> Check:
    return lambda x, values: type(x) is kind and bytes_of(x) == memory


def container_like(value: Any) -> Check:
    """The type of a container, how many elements it has, and their names."""
    kind = type(value)
    if isinstance(value, dict):
        keys = list(value)
        return lambda x, values: type(x) is kind and list(x) == keys
    if not hasattr(value, "__len__"):
        names = list(vars(value))
        return lambda x, values: type(x) is kind and list(vars(x)) == names
    count = len(value)
    return lambda x, values: type(x) is kind and len(x) == count
