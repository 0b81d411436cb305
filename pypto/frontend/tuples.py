"""Tuples of tuples, as what they are made of: the leaves, in order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, TypeGuard

from pypto.ir.types import DType, PtrType


def leaves(x: Any) -> Iterator[Any]:
    """The values in a tuple of tuples, in order."""
    if isinstance(x, tuple):
        for item in x:
            yield from leaves(item)
    else:
        yield x


def alike(a: Any, b: Any) -> bool:
    """Whether tuples are nested alike in both, and their classes do not differ; a plain tuple stands for any."""
    if not (isinstance(a, tuple) and isinstance(b, tuple)):
        return not isinstance(a, tuple) and not isinstance(b, tuple)
    kinds = {type(a), type(b)} - {tuple}
    return len(kinds) < 2 and len(a) == len(b) and all(map(alike, a, b))


def rebuild(like: Any, items: Iterator[Any]) -> Any:
    """A structure like `like`, with other leaves."""
    return remade(like, [rebuild(x, items) for x in like]) if isinstance(like, tuple) else next(items)


def remade(like: tuple[Any, ...], items: Iterable[Any]) -> Any:
    """A tuple with other items; a named one stays what it is."""
    return getattr(like, "_make", tuple)(items)


def same(a: Any, b: Any) -> bool:
    """Whether two leaves are one value on every path."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, int | float | str | DType | PtrType):
        return False
    return bool(a == b) and (not isinstance(a, float) or math.copysign(1.0, a) == math.copysign(1.0, b))


def is_named(kind: Any) -> TypeGuard[type[Any]]:
    """Whether this is a class of named tuples; aggregates are such."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")
