"""Conditions on values: a function is traced once for each way through its branches, and `where` chooses among results.

While a function is traced, `if x.sum() > 0:` has no answer. Sides that only assign are joined (`joins`). Otherwise the
trace takes one branch, and traces the function again for the other one, in the same graph, which merges equal nodes.
The results of both ways meet in a `where` on the condition. So all ways are computed in each call. This is legal only
if none of them can fail or has effects: a way with a step of numpy or a launch that the others lack, or one that
raises, is refused at the condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pypto.errors import Diagnostic
from pypto.errors.graph import NeedsValue
from pypto.graph.capture.scalars import plain
from pypto.graph.ir.node import Node, here
from pypto.graph.ir.types import is_floating
from pypto.graph.tracing.arguments import leaves, mapped
from pypto.graph.tracing.tensor import CHOOSE, Tensor, TensorGraph
from pypto.graph.tracing.ufuncs import lift, truth, where

MOST_CONDITIONS: Final = 16  # on one way
MOST_WAYS: Final = 32


@dataclass(frozen=True, slots=True)
class Way:
    """One way through a function: its conditions with their answers, its result, and the arrays that it leaves."""

    answers: tuple[tuple[Tensor, bool], ...]
    result: Any
    left: dict[int, Node]  # new values of inputs
    may_fail: bool  # whether a step behind a condition can fail, or have an effect


class Branches:
    """The conditions that a traced function asks for, and the answers of the way that is traced now.

    Parameters
    ----------
    graph : TensorGraph
    """

    def __init__(self, graph: TensorGraph) -> None:
        self.graph = graph
        self.forced: list[bool] = []
        self.answers: list[tuple[Tensor, bool]] = []
        self.first: tuple[Any, Any] | None = None  # the place of the first condition, and its type
        self.recorded: dict[Any, Any] = {}  # calls and constants of all ways, by what came earlier
        self.count = 0  # of these on this way
        self.constants: dict[int, Any] = {}  # of this way, by the `id` of an array that is kept
        self.ways = 1

    def once(self, fits: Callable[[Any], bool], make: Callable[[], Any]) -> Any:
        """Return what another way made at this point, if it fits, so that equal beginnings have equal nodes."""
        key = (self.count, *(answer for _, answer in self.answers))
        self.count += 1
        if key not in self.recorded or not fits(self.recorded[key]):
            self.recorded[key] = make()
        return self.recorded[key]

    def constant(self, array: Any, make: Callable[[], Tensor]) -> Tensor:
        """Return the tensor of a constant array, which another way may have made."""
        if id(array) not in self.constants:
            fits = lambda other: type(other[0]) is type(array) and same_elements(other[0], array)  # noqa: E731
            self.constants[id(array)] = array, self.once(fits, lambda: (array, make()))[1]
        tensor: Tensor = self.constants[id(array)][1]
        return tensor

    def decide(self, tensor: Tensor, condition: Tensor) -> bool | None:
        """Answer a condition; one that was answered on this way has that answer. There is none of too many."""
        known = next((answer for x, answer in self.answers if x.node is condition.node), None)
        if known is not None:
            return known
        number = len(self.answers)
        self.first = self.first or (here().loc(), tensor.type)
        if number == MOST_CONDITIONS:
            return None
        answer = self.forced[number] if number < len(self.forced) else True
        self.answers.append((condition, answer))
        return answer

    def refusal(self) -> NeedsValue:
        """Return the refusal of the first condition."""
        assert self.first is not None
        loc, type = self.first
        return NeedsValue(loc, what="a condition", type=type, way=CHOOSE)

    def __str__(self) -> str:
        line = f"first in line {self.first[0].line}, " if self.first and self.first[0] else ""
        return f"conditions on values, {line}are computed in all {self.ways} ways, and `where` chooses"

    def advance(self) -> bool:
        """Choose the next way, and return whether there is one."""
        given = [answer for _, answer in self.answers]
        while given and not given[-1]:
            given.pop()
        self.forced = [*given[:-1], False] if given else []
        self.answers = []
        self.count = 0
        self.constants = {}
        return bool(given)


def same_elements(a: Any, b: Any) -> bool:
    """Whether two arrays have one type, and elements of equal bytes."""
    return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())


Inputs = Callable[[], list[tuple[Tensor, Node]]]


def run_ways(graph: TensorGraph, branches: Branches, run: Callable[[], Any], inputs: Inputs) -> Any:
    """Trace a function once for each way through its branches, and return the merged result.

    Parameters
    ----------
    graph : TensorGraph
    branches : Branches
    run : callable
        Runs the function on tensors.
    inputs : callable
        Returns the arrays from outside, which grow in number during the trace, each with the node that it holds at the
        beginning of each way. Their memory ends with the merged values.

    Raises
    ------
    Diagnostic
        The refusal of the first condition, when the ways cannot be merged.
    """
    for tensor, node in inputs():
        tensor.storage.begin(node)
    ways: list[Way] = []
    while True:
        result = run_way(branches, run)
        ways.append(ended(graph, branches, result, inputs()))
        if not branches.advance():
            break
        if len(ways) == MOST_WAYS:
            raise branches.refusal()
    branches.ways = len(ways)
    if any(way.may_fail for way in ways):
        raise branches.refusal()
    arrays = inputs()
    merge = Merge(graph, branches.refusal, [node for _, node in arrays])
    result = merge.results(ways, 0)
    for number, node in merge.values(ways, 0).items():
        arrays[number][0].storage.hold(node)
    return result


def run_way(branches: Branches, run: Callable[[], Any]) -> Any:
    """Run the function; an error behind a condition would be one of every call."""
    try:
        return run()
    except Exception as error:
        if branches.answers and not isinstance(error, Diagnostic):
            raise branches.refusal() from error
        raise


def ended(graph: TensorGraph, branches: Branches, result: Any, inputs: list[tuple[Tensor, Node]]) -> Way:
    """Return the way that was traced, and give the inputs the memory that the call gives."""
    fixed = mapped(result, lambda _, x: Tensor.fresh(graph, x.node).marked(x.is_array) if isinstance(x, Tensor) else x)
    left = {}
    for number, (tensor, node) in enumerate(inputs):
        if tensor.storage.node is not node:
            left[number] = tensor.storage.node
        tensor.storage.begin(node)
    roots = [x.node for _, x in leaves(fixed) if isinstance(x, Tensor)] + [*left.values()]
    roots += [condition.node for condition, _ in branches.answers]
    common = [x for key, nodes in branches.recorded.items() if len(key) == 1 and type(nodes) is list for x in nodes]
    can_fail = any(may_fail(x) for x in nodes_behind(roots) if x not in common)
    return Way(tuple(branches.answers), fixed, left, can_fail)


def may_fail(node: Node) -> bool:
    """Whether a step can fail, or have an effect."""
    return node.is_call and bool(getattr(node.attr("function"), "may_raise", True))


def nodes_behind(roots: list[Node]) -> Iterator[Node]:
    """Return the nodes on which nodes depend."""
    seen, stack = set[Node](), list(roots)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += node.inputs
            yield node


class Merge:
    """Merges the ways through a function by choices on their conditions."""

    def __init__(self, graph: TensorGraph, refusal: Callable[[], Exception], inputs: list[Node]) -> None:
        self.graph = graph
        self.refusal = refusal
        self.inputs = inputs

    def halves(self, ways: list[Way], depth: int) -> tuple[Tensor, list[Way], list[Way]]:
        """Split the ways by the answers of one condition."""
        condition = ways[0].answers[depth][0]
        true, false = ([way for way in ways if way.answers[depth][1] is answer] for answer in (True, False))
        return truth(self.graph, condition), true, false

    def results(self, ways: list[Way], depth: int) -> Any:
        """Merge results, which have one structure."""
        if len(ways) == 1:
            return ways[0].result
        condition, *parts = self.halves(ways, depth)
        return self.joined(condition, *(self.results(part, depth + 1) for part in parts))

    def joined(self, condition: Tensor, true: Any, false: Any) -> Any:
        """Return one of two trees of one structure, leaf by leaf."""
        others = dict(leaves(false))
        if [path for path, _ in leaves(true)] != [*others]:
            raise self.refusal()
        return mapped(true, lambda path, x: self.chosen(condition, x, others[path]))

    def values(self, ways: list[Way], depth: int) -> dict[int, Node]:
        """Merge the new values of inputs."""
        if len(ways) == 1:
            return ways[0].left
        condition, *parts = self.halves(ways, depth)
        true, false = (self.values(part, depth + 1) for part in parts)
        merged = {}
        for number in sorted({*true, *false}):
            pair = (each.get(number, self.inputs[number]) for each in (true, false))
            merged[number] = self.chosen(condition, *(Tensor.fresh(self.graph, x) for x in pair)).node
        return merged

    def chosen(self, condition: Tensor, a: Any, b: Any) -> Any:
        """Return what one of two leaves of results is; a Python number takes the type of the other one."""
        a, b = plain(a), plain(b)
        if a is b or (type(a) is type(b) and not isinstance(a, Tensor | np.ndarray) and bool(a == b)):
            return a
        if not all(isinstance(x, Tensor | np.ndarray | np.generic | int | float | bool) for x in (a, b)):
            raise self.refusal()
        x, y = lift(self.graph, a), lift(self.graph, b)
        if x.node is y.node:
            return x
        numbers = [type(each) in (int, float, bool) for each in (a, b)]
        dtype = np.result_type(x.dtype if not numbers[0] else a, y.dtype if not numbers[1] else b)
        if x.node.shape != y.node.shape or (not any(numbers) and x.dtype != y.dtype):
            raise self.refusal()
        if not is_floating(dtype) and dtype != (y if numbers[0] else x).dtype:
            raise self.refusal()
        is_array = any(isinstance(each, Tensor) and not each.is_number for each in (a, b))
        choices = lift(self.graph, a, dtype), lift(self.graph, b, dtype)
        if dtype.kind == "c":
            return where(condition, *choices).marked(is_array)
        nodes = condition.node, *(each.node for each in choices)
        chosen = self.graph.add("where", *nodes, place=condition.node.place)
        return Tensor.fresh(self.graph, chosen).marked(is_array)
