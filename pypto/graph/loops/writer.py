"""The lines of a loop's kernel, and what is known at the line that is written next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.graph.loops.numbers import Bounds, Kind, Linear, NotCompiled, Number, known, literal, storage_type, type_name

LANES = 128  # of a strip
MOST_LINES = 4000  # of a kernel


@dataclass(frozen=True, slots=True)
class Parameter:
    """An array argument of a loop's kernel.

    Parameters
    ----------
    name : str
    shape : tuple of int
    dtype : numpy dtype
    role : str
        ``array`` (of the function), ``number`` (an array of one number), ``scratch`` or ``result``.
    source : str
        The variable of the function that it is.
    memory : object
        What two parameters share if they are views of one array.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    role: str
    source: str = ""
    memory: object = None


class Writer:
    """Writes the lines of a kernel."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.parameters: list[Parameter] = []
        self.written: set[str] = set()  # arguments that are stored to
        self.first: list[str] = []  # the first lines: loads of arguments that are numbers
        self.bounds: dict[str, Bounds] = {}  # of the symbols of linear forms
        self.common: dict[str, str] = {}  # variables by their text, while a statement is written
        self.guards: list[str] = []  # conditions under which indices of the statement lie inside of their arrays

    def new(self, stem: str) -> str:
        """Return a new name."""
        self.count += 1
        return f"{stem}_{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)
        if len(self.lines) > MOST_LINES:
            raise NotCompiled("its kernel is too long")

    def variable(self, stem: str, text: str) -> str:
        """Write an assignment to a new variable, and return its name."""
        name = self.new(stem)
        self.line(f"{name} = {text}")
        return name

    def shared(self, text: str) -> str:
        """Return the variable of an expression, which is written once for each strip."""
        name = self.common.get(text)
        if name is None:
            name = self.common[text] = self.variable("t", text)
        return name

    def insert(self, at: int, depth: int, lines: Sequence[str]) -> None:
        """Insert lines before another line."""
        self.lines[at:at] = ["    " * depth + line for line in lines]

    @contextmanager
    def elsewhere(self) -> Iterator[list[str]]:
        """Write lines that do not stand here; they are the value of the context."""
        before = self.lines, self.depth, self.common
        self.lines, self.depth, self.common = [], 0, {}
        try:
            yield self.lines
        finally:
            self.lines, self.depth, self.common = before

    def state(self) -> tuple[Any, ...]:
        """Return the state of the writer, to which `restore` goes back."""
        return list(self.lines), self.count, list(self.parameters), dict(self.bounds)

    def restore(self, state: tuple[Any, ...]) -> None:
        """Forget what was written since the writer had a state."""
        self.lines[:], self.count, self.parameters[:], self.bounds = state

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Write a compound statement; bounds and shared expressions inside end with it."""
        self.line(header)
        self.depth += 1
        bounds, common, before = dict(self.bounds), self.common, len(self.lines)
        self.common = dict(common)
        try:
            yield
            if len(self.lines) == before:
                self.line("pass")
        finally:
            self.depth -= 1
            self.bounds, self.common = bounds, common

    def parameter(
        self, stem: str, shape: tuple[int, ...], dtype: np.dtype[np.generic], role: str, source: str = "",
        memory: object = None,
    ) -> Parameter:  # fmt: skip
        """Add an argument."""
        name = self.new(stem)
        parameter = Parameter(name, shape, np.dtype(dtype), role, source, name if memory is None else memory)
        self.parameters.append(parameter)
        return parameter

    # --- numbers -----------------------------------------------------------------------------------------------------

    def range_of(self, number: Number) -> Bounds:
        """Return the bounds of an integer."""
        if number.linear is not None:
            return number.linear.bounds(self.bounds)
        if isinstance(number.kind, np.dtype) and number.kind.kind in "iu":
            info = np.iinfo(number.kind)
            return float(info.min), float(info.max)
        return (0.0, 1.0) if storage_type(number.kind) == np.bool_ else (float("-inf"), float("inf"))

    def refine(self, form: Linear) -> None:
        """Note that a linear form is not positive: tighten the bounds of its symbols."""
        for name, count in form.terms.items():
            others = Linear({n: c for n, c in form.terms.items() if n != name}, form.constant)
            least = others.bounds(self.bounds)[0]  # count * name <= -least
            low, high = self.bounds.get(name, (float("-inf"), float("inf")))
            if count > 0:
                self.bounds[name] = low, min(high, -least // count if np.isfinite(least) else high)
            elif np.isfinite(least):
                self.bounds[name] = max(low, -(-least // -count)), high

    def index(self, text: str, bounds: Bounds) -> Number:
        """Return a new integer of Python with bounds, held in a variable of its own."""
        name = self.variable("i", text)
        self.bounds[name] = bounds
        return Number(name, int, Linear.symbol(name))

    def stored(self, number: Number, stem: str = "v") -> Number:
        """Write a number to a variable of its own, unless it is known."""
        if number.is_known or number.text.isidentifier():
            return number
        name = self.variable(stem, number.text)
        linear = Linear.symbol(name) if number.linear is None and number.kind is int else number.linear
        return Number(name, number.kind, linear)

    def typed(self, number: Number, kind: Kind) -> str:
        """Return a number's text as a value of a type, also where the number is known."""
        wanted = storage_type(kind)
        if number.is_known:
            return f"pto.full((), {literal(wanted.type(number.value).item())}, {type_name(kind)})"
        return number.text if storage_type(number.kind) == wanted else f"pto.cast({number.text}, {type_name(kind)})"


ZERO = known(0)
ONE = known(1)
