"""The dependence of a grid on tuned constants: the constants that it reads, and its sizes for a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


class Meta(dict[str, Any]):
    """The arguments of a grid function; records the names that the function reads."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)

    def __iter__(self) -> Iterator[str]:
        self.read.update(super().keys())
        return super().__iter__()

    def items(self) -> Any:
        self.read.update(super().keys())
        return super().items()

    def values(self) -> Any:
        self.read.update(super().keys())
        return super().values()


def names_read(grid: Any, named: Mapping[str, Any]) -> frozenset[str]:
    """Return the names that a grid depends on, or all names if its function fails for these arguments."""
    if not callable(grid):
        return frozenset()
    meta = Meta(named)
    try:
        grid(meta)
    except Exception:  # the launch says what is wrong with a user's function
        return frozenset(named)
    return frozenset(meta.read)


def sizes(grid: Any, named: Mapping[str, Any]) -> Any:
    """Return a grid's sizes as a comparable value, or None if its function fails."""
    try:
        size = grid(dict(named)) if callable(grid) else grid
        return tuple(size) if isinstance(size, Iterable) else (size,)
    except Exception:  # as above
        return None
