"""Loops of a traced function: a loop that has a kernel becomes one launch, which updates the function's arrays."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from pypto.errors import Diagnostic
from pypto.errors.graph import REFUSALS, IndexOutside, IntegerOutside
from pypto.graph.capture.guards import is_array, is_scalar
from pypto.graph.capture.loop_statements import LoopStatement
from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.movements import MOVEMENTS
from pypto.graph.ir.node import here
from pypto.graph.ir.types import contiguous
from pypto.graph.loops.numbers import NotCompiled, known
from pypto.graph.loops.stepping import Steps
from pypto.graph.loops.syntax import loaded_names, stands_alone, stored_names
from pypto.graph.loops.translate import LoopKernel, Part, Result, translated
from pypto.graph.loops.writer import Check
from pypto.graph.tracing.concrete import ConcreteArray
from pypto.graph.tracing.launches import launched
from pypto.graph.tracing.tensor import Tensor, TensorGraph, tensor_type
from pypto.graph.tracing.ufuncs import captured
from pypto.graph.tracing.values.storage import Storage
from pypto.jit.generated import kernel_of
from pypto.loc import Loc

_WIDE: Final = 8  # bytes of the types in which numbers of Python are held
UNROLLED: Final = 16  # iterations that are traced one by one
Variables = dict[str, Any]


def run_loop(
    graph: TensorGraph, statement: LoopStatement, items: Any, variables: Variables, outer: Variables
) -> Variables | None:
    """Compile a loop to a kernel and launch it; return the variables with new values, or None if it is unrolled."""
    node = statement.node
    if not is_worthwhile(statement, items, variables):
        if items is not None and not isinstance(items, range | Steps | Tensor | np.ndarray):
            statement.explain(f"it runs over a {type(items).__name__}, and neither over a range nor over an array", 0)
        return None
    given = dict(variables)
    if isinstance(node, ast.For):
        node = ast.copy_location(ast.For(node.target, items_node(items, given), node.body, []), node)
    name = f"{statement.function.name.strip('<>')}_loop_{node.lineno}"
    refusals = REFUSALS.get() or []
    count = len(refusals)
    try:
        about = Described(graph)
        wanted, file = statement.names, statement.file
        loop, values = translated(node, statement.function, given, outer, about, wanted, name, file)
        arrays = Arguments(graph, loop, values, variables)
        arrays.check()
        check_numbers(statement, loop)
        tensors = arrays.tensors()
        launched(
            kernel_of(loop.source, name), (1,), tensors, arrays.memory.get(loop.fault), tuple(map(refusal, loop.checks))
        )
    except NotCompiled as error:
        del refusals[count:]
        statement.explain(error.reason, error.line)
        return None
    except (ArithmeticError, AttributeError, Diagnostic, LookupError, TypeError, ValueError) as error:
        del refusals[count:]
        statement.explain(f"its kernel is not compiled, {type(error).__name__}: {error}".splitlines()[0], 0)
        return None
    return arrays.results()


def check_numbers(statement: LoopStatement, loop: LoopKernel) -> None:
    """Refuse numbers of Python after a loop that would meet arrays of narrow types, where they promote weakly.

    Raises
    ------
    NotCompiled
    """
    weak = [name for name, x in loop.results.items() if any(kind in (int, float) for kind in kinds_of(x))]
    narrow = any(x.dtype.itemsize < _WIDE and x.dtype != np.bool_ for x in loop.parameters)
    if weak and narrow and not stands_alone(statement.function, statement.node, weak):
        raise NotCompiled(f"`{weak[0]}` is a number of Python that meets other values after the loop")


def refusal(check: Check) -> Callable[[int, int], Diagnostic]:
    """Return the function that makes the error of a check from what failed it."""
    place = Loc(check.file, check.line, check.column, check.line, check.column, check.function)
    if check.axis is None:
        return lambda value, _: IntegerOutside(place, value=value, dtype=check.dtype)
    return lambda index, size: IndexOutside(place, index=index, axis=check.axis, size=size)


def kinds_of(result: Any) -> list[Any]:
    """Return the types of the numbers in a variable after a loop."""
    if isinstance(result, tuple):
        return [kind for x in result for kind in kinds_of(x)]
    return [result.kind] if isinstance(result, Result) else []


ITEMS: Final = "pypto items"


def items_node(items: Any, given: Variables) -> ast.expr:
    """Return the expression of what a loop runs over; arrays become variables."""
    if isinstance(items, Steps):
        parts = [items_node(x, given) for x in items.parts]
        more = [ast.Constant(items.start)] if items.kind == "enumerate" else []
        return ast.Call(ast.Name(items.kind, ast.Load()), [*parts, *more], [])
    if isinstance(items, range):
        bounds: list[ast.expr] = [ast.Constant(n) for n in (items.start, items.stop, items.step)]
        return ast.Call(ast.Name("range", ast.Load()), bounds, [])
    name = f"{ITEMS} {len(given)}"
    given[name] = items
    return ast.Name(name, ast.Load())


def is_worthwhile(statement: LoopStatement, items: Any, variables: Variables) -> bool:
    """Whether a loop works on traced arrays, and has more iterations than those that are traced one by one."""
    names = loaded_names(statement.node)
    if not any(is_traced(x) for x in (*rows_of(items), *(variables.get(name) for name in names))):
        return False
    if isinstance(statement.node, ast.While):
        return True
    if not all(isinstance(x, range | Tensor | np.ndarray) for x in rows_of(items)):
        return False
    count = len(items)
    return count > 0 and (count * inner_iterations(statement.node.body) >= UNROLLED or has_branch(statement, variables))


def rows_of(items: Any) -> list[Any]:
    """Return the ranges and arrays that a loop runs over."""
    return [row for x in items.parts for row in rows_of(x)] if isinstance(items, Steps) else [items]


def has_branch(statement: LoopStatement, variables: Variables) -> bool:
    """Whether a loop has a condition or an index that may be traced, which Python could not evaluate."""
    assigned = set(stored_names(ast.Module(statement.node.body, [])))
    for node in ast.walk(statement.node):
        is_choice = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max")
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.BoolOp) or is_choice:
            test = node.test if isinstance(node, ast.If | ast.IfExp | ast.While) else node
            if any(name in assigned or is_traced(variables.get(name)) for name in loaded_names(test)):
                return True
        parts = ast.walk(node.slice) if isinstance(node, ast.Subscript) else ()
        names = [name for part in parts if isinstance(part, ast.Subscript) for name in loaded_names(part)]
        if any(is_traced(variables.get(name)) for name in names):
            return True
    return False


def is_traced(value: Any) -> bool:
    """Whether a value is an array whose elements are not known during the trace."""
    return isinstance(value, Tensor) and not (isinstance(value, ConcreteArray) and value.is_concrete)


def inner_iterations(body: list[ast.stmt]) -> int:
    """Return a lower bound for the iterations of the loops inside of a loop, as far as they are known."""
    counts = [1]
    for node in body:
        if isinstance(node, ast.For | ast.While):
            counts.append(UNROLLED * inner_iterations(node.body))
        elif isinstance(node, ast.If):
            counts.append(max(inner_iterations(node.body), inner_iterations(node.orelse)))
    return max(counts)


class Described:
    """Describes the values of a traced function for its loops."""

    def __init__(self, graph: TensorGraph) -> None:
        self.graph = graph

    def __call__(self, value: Any) -> Any:
        if is_scalar(value):
            if type(value.value) is not float or value.reads.graph is not self.graph:
                return known(value.pin())
            return (), np.dtype(np.float64), id(value), float
        if isinstance(value, Tensor):
            if value.graph is not self.graph or not all(map(is_fixed, value.node.shape)):
                raise NotCompiled("an array has dimensions by name")
            return value.node.shape, value.dtype, id(value.storage), value.dtype
        if is_array(value) and isinstance(value, np.ndarray):
            return value.shape, value.dtype, id(value), value.dtype
        return None


class Arguments:
    """The arguments of a loop's kernel as tensors, and the variables after the loop."""

    def __init__(self, graph: TensorGraph, loop: LoopKernel, values: Mapping[str, Any], variables: Variables) -> None:
        self.graph = graph
        self.loop = loop
        self.values = values
        self.variables = variables
        self.memory: dict[str, Tensor] = {}

    def check(self) -> None:
        """Refuse updates that the trace cannot follow.

        Raises
        ------
        NotCompiled
        """
        for name in self.loop.written & set(self.values):
            value = self.values[name]
            if not isinstance(value, Tensor):
                raise NotCompiled("an array from outside is updated")
            if value.storage.shared or any(MOVEMENTS[op].inverse is None for op, _ in value.steps):
                raise NotCompiled("an array is updated that may be a view or a copy")

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the arguments in order."""
        for x in self.loop.parameters:
            self.memory[x.name] = self.argument(x.name) if x.name in self.values else self.blank(x.shape, x.dtype)
        return tuple(self.memory.values())

    def argument(self, name: str) -> Tensor:
        value = self.values[name]
        if is_scalar(value):
            value = value.given(np.dtype(np.float64))
        elif not isinstance(value, Tensor):
            value = captured(self.graph, value)
        tensor: Tensor = value
        return tensor if tensor.node.shape else tensor.moved("reshape", shape=(1,))

    def blank(self, shape: tuple[int, ...], dtype: Any) -> Tensor:
        """Return an array of arbitrary content."""
        storage = Storage(self.graph.constant(0, tensor_type(shape, dtype), here()))
        storage.clear()
        return Tensor(self.graph, storage, (), contiguous(shape), True)

    def results(self) -> Variables:
        """Return the variables that have new values after the loop."""
        return {name: self.result(x) for name, x in self.loop.results.items()}

    def result(self, x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(map(self.result, x))
        if isinstance(x, Result):
            return Tensor.fresh(self.graph, self.memory[x.parameter].moved("reshape", shape=()).node)
        if isinstance(x, Part):
            full = self.memory[x.parameter]
            key = tuple(n if isinstance(n, int) else slice(n[0], None, n[1]) for n in x.key)
            return full[tuple(key)] if x.key else full
        return x
