"""Taking the arrays out of arguments that have the form of those of an earlier call, in the order that a plan has them.

A reader is made for the arguments of one call. It compares what a plan depends on beside arrays: containers, names and
constants; what arrays are like is compared where they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from pypto.graph.node import key_of
from pypto.graph.pytree import children

Array = np.ndarray[Any, Any]
Reader = Callable[[Any, list[Any]], bool]  # adds the arrays of a tree to a list; whether the tree has the form
CallReader = Callable[[tuple[Any, ...], dict[str, Any]], list[Any] | None]


def reader_of_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallReader:
    """Gives the arrays of arguments like those of a call; None for others."""
    count, readers = len(args), [reader_of(x) for x in args]
    named = reader_of(kwargs) if kwargs else None

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
        taken: list[Any] = []
        if len(args) != count or (named is None) is not (not kwargs):
            return None
        for reader, x in zip(readers, args, strict=True):
            if not reader(x, taken):
                return None
        return taken if named is None or named(kwargs, taken) else None

    return read


def reader_of(tree: Any) -> Reader:
    """The reader of trees like one.

    Examples
    --------
    >>> x, found = np.ones(2), []
    >>> read = reader_of({"x": x, "n": 3})
    >>> read({"x": x, "n": 3}, found), found[0] is x, read({"x": x, "n": 4}, [])
    (True, True, False)
    """
    if isinstance(tree, np.ndarray):
        return added
    found = children(tree)
    if found is None:
        return reader_of_constant(tree)
    values = [x for _, x in found[1]]
    if values and all(isinstance(x, np.ndarray) for x in values):
        return reader_of_arrays(tree, tuple(name for name, _ in found[1]))
    return reader_of_container(tree, tuple(name for name, _ in found[1]), [reader_of(x) for x in values])


def added(array: Any, into: list[Any]) -> bool:
    into.append(array)
    return True


def reader_of_constant(value: Any) -> Reader:
    key = key_of(value)
    return lambda x, into: x is value or key_of(x) == key


def reader_of_arrays(tree: Any, names: tuple[str, ...]) -> Reader:
    """The reader of a container of arrays and nothing else."""
    kind, count = type(tree), len(names)
    if isinstance(tree, dict):
        keys = list(tree)

        def of_dict(x: Any, into: list[Any]) -> bool:
            if type(x) is not kind or list(x) != keys:
                return False
            into += x.values()
            return True

        return of_dict
    if isinstance(tree, tuple | list):

        def of_sequence(x: Any, into: list[Any]) -> bool:
            if type(x) is not kind or len(x) != count:
                return False
            into += x
            return True

        return of_sequence

    fields = attrgetter(*names, names[0])  # of two names at least it gives a tuple

    def of_fields(x: Any, into: list[Any]) -> bool:
        if type(x) is not kind:
            return False
        into += fields(x)[:-1]
        return True

    return of_fields


def reader_of_container(tree: Any, names: tuple[str, ...], readers: list[Reader]) -> Reader:
    """The reader of a container that holds other things than arrays, too."""
    kind, count = type(tree), len(names)
    keys = tuple(tree) if isinstance(tree, dict) else ()
    is_sequence = isinstance(tree, tuple | list)

    def read(x: Any, into: list[Any]) -> bool:
        if type(x) is not kind:
            return False
        if is_sequence:
            if len(x) != count:
                return False
            values: Any = x
        elif isinstance(x, dict):
            if tuple(x) != keys:
                return False
            values = x.values()
        else:
            values = [getattr(x, name) for name in names]
        return all(reader(value, into) for reader, value in zip(readers, values, strict=True))

    return read
