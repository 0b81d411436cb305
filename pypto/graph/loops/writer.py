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
_WIDE = 8  # bytes of an integer of Python


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


@dataclass(frozen=True, slots=True)
class Check:
    """A test in the kernel of what numpy refuses.

    Parameters
    ----------
    axis : int or None
        The axis whose index it tests, or None for the test that an integer of Python fits into `dtype`.
    dtype : numpy dtype or None
    function, file : str
    line, column : int
    """

    axis: int | None
    dtype: np.dtype[Any] | None
    function: str
    file: str
    line: int
    column: int


class Writer:
    """Writes the lines of a kernel."""

    def __init__(self, function: str = "", file: str = "") -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.parameters: list[Parameter] = []
        self.written: set[str] = set()  # arguments that are stored to
        self.first: list[str] = []  # the first lines: loads of arguments that are numbers
        self.bounds: dict[str, Bounds] = {}  # of the symbols of linear forms
        self.common: dict[str, str] = {}  # variables by their text, as far as they hold at the next line
        self.stores: dict[object, int] = {}  # how often memory is stored to
        self.under: list[str] = []  # conditions under which Python evaluates the expression
        self.checks: list[Check] = []
        self.fault: Parameter | None = None  # the array that receives the number of a check, and what failed it
        self.function, self.file = function, file
        self.place: Any = None  # the syntax tree node whose line a check names

    def new(self, stem: str) -> str:
        """Return a new name."""
        self.count += 1
        return f"{stem}_{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)
        if text.startswith("pto.store("):
            self.forget_loads()
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
        return list(self.lines), self.count, list(self.parameters), dict(self.bounds), list(self.checks), self.fault

    def restore(self, state: tuple[Any, ...]) -> None:
        """Forget what was written since the writer had a state."""
        self.lines[:], self.count, self.parameters[:], self.bounds, self.checks[:], self.fault = state
        self.common = {}

    def at(self, place: Any) -> None:
        """Note the syntax tree node whose line a check names."""
        self.place = place

    @contextmanager
    def function_of(self, function: str, file: str) -> Iterator[None]:
        """Write lines of another function."""
        caller = self.function, self.file
        self.function, self.file = function, file
        try:
            yield
        finally:
            self.function, self.file = caller

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Write what Python evaluates under the conditions that are added to `under` meanwhile."""
        count, bounds = len(self.under), dict(self.bounds)
        try:
            yield
        finally:
            del self.under[count:]
            self.bounds = bounds

    def check(self, wrong: str, value: str, size: str, axis: int | None, dtype: np.dtype[Any] | None = None) -> None:
        """Write a test that ends the kernel where a condition holds, and stores what the error says."""
        if self.fault is None:
            self.fault = self.parameter("fault", (3,), np.dtype(np.int64), "fault")
        self.checks.append(Check(axis, dtype, self.function, self.file, self.place.lineno, self.place.col_offset))
        common = dict(self.common)  # what holds behind the test is as before it
        with self.block(f"if {' & '.join([*self.under, f'({wrong})'])}:"):
            for number, text in enumerate((f"{len(self.checks)}", value, size)):
                self.line(f"pto.store({self.fault.name} + {number}, pto.cast({text}, pto.int64))")
            self.line("return")
        self.common = common

    def forget_loads(self) -> None:
        """Forget the variables that hold elements of arrays, as a store may change those."""
        self.common = {text: name for text, name in self.common.items() if "pto.load(" not in text}

    def fitting(self, number: Number, dtype: np.dtype[Any]) -> Number:
        """Return a number that is stored in a type; numpy refuses an integer of Python that it does not hold."""
        if number.kind is not int or number.is_known or dtype.kind not in "iu":
            return number
        info, (low, high) = np.iinfo(dtype), self.range_of(number)
        number = self.stored(number)
        is_narrow = dtype.itemsize < _WIDE
        tests = [f"({number.text} < ({info.min}))"] * (low < info.min and (is_narrow or dtype.kind == "u"))
        tests += [f"({number.text} > {info.max})"] * (high > info.max and is_narrow)
        if tests:
            self.check(" | ".join(tests), number.text, "0", None, dtype)
        return number

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Write a compound statement; bounds and shared expressions inside end with it."""
        self.line(header)
        self.depth += 1
        bounds, common, before = dict(self.bounds), self.common, len(self.lines)
        self.common = dict(common)
        is_loop = header.startswith(("for ", "while "))
        if is_loop:
            self.forget_loads()
        try:
            yield
            if len(self.lines) == before:
                self.line("pass")
        finally:
            self.depth -= 1
            self.bounds, self.common = bounds, common
            if is_loop or any(line.lstrip().startswith("pto.store(") for line in self.lines[before:]):
                self.forget_loads()

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
