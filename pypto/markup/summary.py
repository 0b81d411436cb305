"""Summaries of records that hold arrays: element type and shape in place of the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from pypto.markup import Shown, card, table, tag

_LONG: Final = 80  # characters of a value
_MANY: Final = 4  # elements of a sequence that are named one by one


class Summary(Shown):
    """Base of a dataclass with ``repr=False`` whose fields may be large: its repr has a few words for each.

    Examples
    --------
    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, repr=False)
    ... class Pair(Summary):
    ...     codes: object
    ...     scale: float
    >>> Pair(np.zeros((3, 4), np.int8), 0.5)
    Pair(codes=int8[3, 4], scale=0.5)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self.summary())})"

    def headline(self) -> str:
        """One line about the whole, for a card."""
        return ""

    def summary(self) -> Iterator[tuple[str, str]]:
        """The fields that hold something, each with its value in a few words."""
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, field.name)
            if field.repr and value is not None:
                yield field.name, brief(value)

    def _repr_html_(self) -> str:
        rows = [(name, tag("code", value)) for name, value in self.summary()]
        return card(type(self).__name__, table(("field", "value"), rows), note=self.headline())


def brief(value: Any) -> str:
    """A value in a few words.

    Examples
    --------
    >>> brief([1, 2]), brief([0.5] * 9), brief({"a": 1}), brief(brief)
    ('[1, 2]', '9 of float', '1 of int by name', 'brief')
    """
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return array_text(value)
    if isinstance(value, Mapping):
        return f"{several(list(value.values()))} by name" if value else "{}"
    if isinstance(value, list | tuple):
        simple = len(value) <= _MANY and all(isinstance(x, int | float | str) for x in value)
        return repr(value) if simple else several(value)
    if isinstance(value, Summary):
        headline = value.headline()
        return f"{type(value).__name__}({headline})" if headline else type(value).__name__
    if callable(value):
        return str(getattr(value, "__name__", type(value).__name__))
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _LONG else f"{text[: _LONG - 2]} …"


def several(values: list[Any] | tuple[Any, ...]) -> str:
    """How many values there are, and of what."""
    kinds = dict.fromkeys(type(value).__name__ for value in values)
    return f"{len(values)} of {' and '.join(kinds)}" if values else "none"


def array_text(x: Any) -> str:
    """Element type and shape of an array or tensor; of a small one, its numbers, too."""
    shown = f"{str(x.dtype).removeprefix('torch.')}[{', '.join(map(str, x.shape))}]"
    count = 1
    for size in x.shape:
        count *= size
    return f"{shown} {x.tolist()}" if 0 < count <= _MANY and hasattr(x, "tolist") else shown
