"""From a loop statement to its kernel: the record of a loop, and how it is written."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pypto.graph.loops.arrays import View, full_view
from pypto.graph.loops.expressions import Constant, is_array
from pypto.graph.loops.flow import Loops, is_fixed
from pypto.graph.loops.numbers import Kind, NotCompiled, Number, storage_type
from pypto.graph.loops.syntax import loaded_names
from pypto.graph.loops.writer import Check, Parameter, Writer


@dataclass(frozen=True, slots=True)
class Part:
    """An array after a loop: the argument of the kernel that it is, and the first index, step and size of each axis.

    An axis of the argument without a size is indexed by one number.
    """

    parameter: str
    key: tuple[Any, ...]
    order: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """A number after a loop: the argument of the kernel that receives it, and its type in numpy or Python."""

    parameter: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class LoopKernel:
    """A loop of a traced function as one kernel.

    Parameters
    ----------
    name : str
        The name of the kernel.
    source : str
        Its text, which can be pasted into a file.
    parameters : tuple of Parameter
    written : frozenset of str
        The parameters that it stores to.
    results : mapping from str to Any
        What the names that the loop assigns stand for after it: `Part`, `Result`, or a value of Python.
    checks : tuple of Check
        What numpy would refuse, in the order of the numbers in `fault`.
    fault : str
        The parameter that receives the number of the check that failed, or 0; empty if there are no checks.
    """

    name: str
    source: str
    parameters: tuple[Parameter, ...]
    written: frozenset[str]
    results: Mapping[str, Any]
    checks: tuple[Check, ...] = ()
    fault: str = ""

    def __str__(self) -> str:
        carried = ", ".join(f"{n} = {x.parameter}" for n, x in self.results.items() if isinstance(x, Part | Result))
        return f"loop {self.name} ({carried or 'arrays alone'})\n{self.source}"


class Failed:
    """A variable that has no meaning in a kernel; a loop that reads it is unrolled."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class Entering:
    """Converts the values of a traced function to what they are in the kernel, each of them once.

    Parameters
    ----------
    describe : callable
        Returns the shape, type, memory and type as a number of an array; a `Number`; or None for any other value.
    """

    def __init__(self, w: Writer, describe: Callable[[Any], Any]) -> None:
        self.w = w
        self.describe = describe
        self.known: dict[int, Any] = {}
        self.values: dict[str, Any] = {}  # of arguments, by parameter

    def __call__(self, name: str, value: Any) -> Any:
        if isinstance(value, Failed):
            raise NotCompiled(value.reason)
        if id(value) not in self.known:
            self.known[id(value)] = self.entered(name, value)
        return self.known[id(value)]

    def entered(self, name: str, value: Any) -> Any:
        described = self.describe(value)
        if described is None:
            return Constant(value)
        if isinstance(described, Number):
            return described
        shape, dtype, memory, kind = described
        if dtype.kind not in "biuf" or dtype.byteorder == ">":
            raise NotCompiled(f"`{name}` has elements of type {dtype}")
        stem = name if name.isidentifier() else "array"
        role = "array" if shape else "number"
        parameter = self.w.parameter(stem, shape or (1,), dtype, role, name, memory)
        self.values[parameter.name] = value
        if shape:
            return full_view(parameter)
        text = self.w.new("v")
        self.w.first.append(f"    {text} = pto.load({parameter.name})")
        return Number(text, kind)


def translated(
    node: ast.stmt,
    function: ast.FunctionDef,
    env: Mapping[str, Any],
    outer: Mapping[str, Any],
    describe: Callable[[Any], Any],
    wanted: Sequence[str],
    name: str,
    file: str,
) -> tuple[LoopKernel, dict[str, Any]]:
    """Translate a loop statement to a kernel, and return it with the values of its arguments.

    Parameters
    ----------
    node : ast.stmt
    function : ast.FunctionDef
        The function that has the loop.
    env, outer : mapping
        The function's variables and globals.
    describe : callable
        See `Entering`.
    wanted : sequence of str
        The names that are read after the loop.
    name : str
        The name of the kernel.
    file : str
        The function's file.

    Raises
    ------
    NotCompiled
        When a part of the loop has no form in a kernel.
    """
    w = Writer(function.name, file)
    enter = Entering(w, describe)
    inner = Loops(w, dict(env), outer, enter, function)
    for each in (*loaded_names(node), *wanted):
        if each in env:
            try:
                inner.env[each] = inner.value_of(each, env[each])
            except NotCompiled as error:
                inner.env[each] = Failed(error.reason)
    before = dict(inner.env)
    inner.run([node])
    results = {n: result_of(w, n, inner.env) for n in wanted if inner.env.get(n) is not before.get(n) or n not in env}
    head = ", ".join(x.name for x in w.parameters)
    fault = "" if w.fault is None else w.fault.name
    first = [f"    pto.store({fault}, pto.full((), 0, pto.int64))"] if fault else []
    lines = [f"def {name}({head}):", *first, *w.first, *w.lines]
    source = "import pypto as pto\n\n\n@pto.jit\n" + "\n".join(lines) + "\n"
    checks = tuple(w.checks) if fault else ()
    return LoopKernel(name, source, tuple(w.parameters), frozenset(w.written), results, checks, fault), enter.values


def result_of(w: Writer, name: str, env: Mapping[str, Any]) -> Any:
    """Return what a name stands for after the loop, and write the store of a number."""
    if name not in env:
        raise NotCompiled(f"`{name}` may have no value after the loop")
    return finished(w, name, env[name])


def finished(w: Writer, name: str, value: Any) -> Any:
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, tuple):
        return tuple(finished(w, name, x) for x in value)
    if isinstance(value, Number):
        if value.is_known:
            return value.value if isinstance(value.kind, type) else value.kind.type(value.value)
        parameter = w.parameter(f"{name}_after", (1,), storage_type(value.kind), "result", name)
        w.line(f"pto.store({parameter.name}, {w.typed(value, value.kind)})")
        return Result(parameter.name, value.kind)
    if isinstance(value, View) and is_fixed(value):
        return part_of(value)
    if is_array(value):
        raise NotCompiled(f"`{name}` is a part of an array that depends on the index")
    raise NotCompiled(f"`{name}` is no array and no number")


def part_of(view: View) -> Part:
    key: list[Any] = []
    for base, start in enumerate(view.starts):
        axis = next((x for x in view.axes if x.base == base), None)
        key.append(start.value if axis is None else (start.value, axis.step, axis.extent.value))
    return Part(view.base.name, tuple(key), tuple(x.base for x in view.axes))
