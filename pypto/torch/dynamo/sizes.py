"""Symbolic sizes of torch as named dimensions: a SymInt becomes a polynomial over `Dim`s."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pypto.graph.ir.dims import Dim, size_of
from pypto.torch.aten.row import NotLowered

torch: Any = importlib.import_module("torch")
LEAST: Final = 1
MOST: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Source:
    """Where the size of a dimension is sources in a call: an argument, or an axis of it."""

    name: str
    argument: int
    axis: int | None

    def read(self, args: Sequence[Any]) -> int:
        value = args[self.argument]
        return int(value if self.axis is None else value.shape[self.axis])


def symbol_of(value: Any) -> str | None:
    """Return the name of a size that is one symbol, or None."""
    if not isinstance(value, torch.SymInt) or not value.node.expr.is_symbol:
        return None
    return str(value.node.expr)


def sources_of(values: Sequence[Any]) -> tuple[Source, ...]:
    """Return one source for each symbol among the sizes of a graph's inputs."""
    sources: dict[str, Source] = {}
    for number, value in enumerate(values):
        name = symbol_of(value)
        if name is not None:
            sources.setdefault(name, Source(name, number, None))
    for number, value in enumerate(values):
        for axis, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            name = symbol_of(size)
            if name is not None:
                sources.setdefault(name, Source(name, number, axis))
    return tuple(sources.values())


class Symbols:
    """The dimensions of a graph's symbols, with the sizes of a call as hints.

    Raises
    ------
    NotLowered
        When a size is 0: the dimension is then a number of this plan.
    """

    def __init__(self, sizes: dict[str, int]) -> None:
        self.dims = {name: Dim(name, LEAST, MOST, size) for name, size in sizes.items() if size >= LEAST}
        self.fixed = {name: size for name, size in sizes.items() if size < LEAST}

    def size(self, value: Any) -> Any:
        """Return a number or polynomial for a size of torch."""
        if not isinstance(value, torch.SymInt):
            return int(value)
        return self.of(value.node.expr)

    def shape(self, value: Any) -> tuple[Any, ...]:
        return tuple(map(self.size, value.shape))

    def of(self, expression: Any) -> Any:
        """Return a sympy expression over dims."""
        name = type(expression).__name__
        if expression.is_Integer:
            return int(expression)
        if expression.is_Symbol:
            if str(expression) in self.fixed:
                return self.fixed[str(expression)]
            if str(expression) not in self.dims:
                raise NotLowered(f"the size {expression} is known only when the graph runs")
            return size_of(self.dims[str(expression)])
        parts = [self.of(x) for x in expression.args]
        result = parts[0]
        if name == "Add":
            for x in parts[1:]:
                result = result + x
        elif name == "Mul":
            for x in parts[1:]:
                result = result * x
        elif name in ("FloorDiv", "CleanDiv", "PythonMod", "Mod", "Pow") and isinstance(parts[1], int):
            a, b = parts
            result = a // b if "Div" in name else a % b if "Mod" in name else a**b
        else:
            raise NotLowered(f"the size {expression}")
        return result
