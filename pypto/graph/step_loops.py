"""`fori_loop`, `while_loop` and `scan`: loops of a plan whose body is traced once, and runs as steps between kernels.

The state of a loop is an array, or a tuple, list or dict of arrays; numbers in it become arrays without dimensions. The
body is a function of the state that returns a new state of equal structure, shapes and types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.errors.graph import NotTraced, WrongShapes
from pypto.graph.cond import branch_of, fused, slot_of, types_of
from pypto.graph.fused import Fused
from pypto.graph.ir.node import Node, here
from pypto.graph.ir.types import TensorType
from pypto.graph.tracing.arguments import Slot, leaves, mapped
from pypto.graph.tracing.numpy_steps import results_of
from pypto.graph.tracing.tensor import Tensor, TensorGraph, tensor_type
from pypto.graph.tracing.trace import Traced
from pypto.graph.tracing.ufuncs import lift
from pypto.graph.vmap import mapped_over

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


class Repeated:
    """A step that runs a body once for each index of a range; it takes the bounds and the arrays of the state."""

    def __init__(self, body: Fused, state: Any) -> None:
        self.body = body
        self.state = state  # with slots for arrays
        self.__qualname__ = f"loop of {body.__name__}"  # type: ignore[attr-defined]

    def __call__(self, lower: Array, upper: Array, *arrays: Array) -> Sequence[Array]:
        state = filled(self.state, arrays)
        for index in range(int(lower), int(upper)):
            state = as_arrays(self.body(np.asarray(index), state))
        return flat(state)

    def batched(self, types: Sequence[TensorType], stacks: Sequence[bool], size: int) -> Any:
        """Return the loop on stacks of all states, and which operands it takes as stacks; None for several bounds."""
        if any(stacks[:2]):
            return None
        body = mapped_over(self.body, self.state, first=(None,))
        return Repeated(body, self.state), [False, False, *(True for _ in types[2:])]


class RepeatedWhile:
    """A step that runs a body as long as a condition on the state holds; it takes the arrays of the state."""

    def __init__(self, condition: Fused, body: Fused, state: Any) -> None:
        self.condition = condition
        self.body = body
        self.state = state
        self.__qualname__ = f"loop of {body.__name__}"  # type: ignore[attr-defined]

    def __call__(self, *arrays: Array) -> Sequence[Array]:
        state = filled(self.state, arrays)
        while self.condition(state):
            state = as_arrays(self.body(state))
        return flat(state)


class Scanned:
    """A step that runs a body for each element of an array's first axis, and joins its second results."""

    def __init__(self, body: Fused, state: Any, types: Sequence[TensorType], axis: int = 0) -> None:
        self.body = body
        self.state = state
        self.types = types  # of what an iteration gives
        self.axis = axis  # that the elements are along
        self.__qualname__ = f"scan of {body.__name__}"  # type: ignore[attr-defined]

    def __call__(self, elements: Array, *arrays: Array) -> Sequence[Array]:
        state = filled(self.state, arrays)
        elements = np.moveaxis(elements, self.axis, 0)
        outputs = [np.empty((len(elements), *t.shape), t.dtype.numpy) for t in self.types]
        for number, element in enumerate(elements):
            state, results = self.body(state, np.asarray(element))
            state = as_arrays(state)
            for output, result in zip(outputs, flat(results), strict=True):
                output[number] = result
        return [*flat(state), *(np.moveaxis(x, 0, self.axis) for x in outputs)]

    def batched(self, types: Sequence[TensorType], stacks: Sequence[bool], size: int) -> Any:
        """Return the scan on stacks of elements and states, and which operands it takes as stacks."""
        rows = [TensorType((size, *t.shape), t.dtype) for t in self.types]
        body = mapped_over(self.body, self.state, Slot(0))
        return Scanned(body, self.state, rows, self.axis + 1), [True] * len(types)


def filled(tree: Any, arrays: Sequence[Array]) -> Any:
    """Return a state with arrays in place of its slots."""
    return mapped(tree, lambda _, x: arrays[x.number] if isinstance(x, Slot) else x)


def flat(tree: Any) -> list[Array]:
    return [np.asarray(leaf) for _, leaf in leaves(tree)]


def as_arrays(tree: Any) -> Any:
    """Return a state with arrays in place of its numbers."""
    return mapped(tree, lambda _, x: x if isinstance(x, Tensor | np.ndarray) else np.asarray(x))


def fori_loop(lower: Any, upper: Any, body: Function, state: Any) -> Any:
    """Run a body for each index of a range, as ``for i in range(lower, upper): state = body(i, state)``.

    Parameters
    ----------
    lower, upper : int or array without dimensions
    body : callable
        A function of the index, which is an array of int64 without dimensions, and of the state.
    state : Any
        Arrays, or tuples, lists or dicts of them.

    Returns
    -------
    Any
        The last state.

    Raises
    ------
    WrongShapes
        When the new state has another structure, or other shapes or types.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> pto.fuse(lambda x: fori_loop(0, 100_000, lambda i, x: x + 2.0, x))(np.zeros(2))
    array([200000., 200000.])
    """
    state = as_arrays(state)
    graph = graph_among((lower, upper, state))
    if graph is None:
        for index in range(int(lower), int(upper)):
            state = as_arrays(body(np.asarray(index), state))
        return state
    given: list[Node] = []
    slots = mapped(state, lambda _, leaf: slot_of(graph, leaf, given))
    types = [node.type for node in given]
    number = graph.constant(0, tensor_type((), np.int64), here())
    traced = branch_of(graph, body, (Slot(len(given)), slots), [*given, number])
    check_state("fori_loop", slots, types, traced.result, types_of(traced))
    bounds = [lift(graph, x, np.int64).node for x in (lower, upper)]
    results = results_of(graph, Repeated(fused(body), slots), [*bounds, *given], types)
    return mapped(slots, lambda _, slot: results[slot.number].marked(True))


def while_loop(condition: Function, body: Function, state: Any) -> Any:
    """Run a body as long as a condition holds, as ``while condition(state): state = body(state)``.

    Parameters
    ----------
    condition : callable
        A function of the state that returns a bool without dimensions.
    body : callable
        A function of the state.
    state : Any
        Arrays, or tuples, lists or dicts of them.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> halved = pto.fuse(lambda x: while_loop(lambda x: x.max() > 1, lambda x: x / 2, x))
    >>> halved(np.array([8.0, 3.0]))
    array([1.   , 0.375])
    """
    state = as_arrays(state)
    graph = graph_among(state)
    if graph is None:
        while condition(state):
            state = as_arrays(body(state))
        return state
    given: list[Node] = []
    slots = mapped(state, lambda _, leaf: slot_of(graph, leaf, given))
    types = [node.type for node in given]
    test = types_of(branch_of(graph, condition, (slots,), given))
    if len(test) != 1 or test[0].shape != ():
        raise WrongShapes(here().loc(), what="the condition of `while_loop`", problem="it is no single number")
    traced = branch_of(graph, body, (slots,), given)
    check_state("while_loop", slots, types, traced.result, types_of(traced))
    results = results_of(graph, RepeatedWhile(fused(condition), fused(body), slots), given, types)
    return mapped(slots, lambda _, slot: results[slot.number].marked(True))


def scan(body: Function, state: Any, elements: Any) -> tuple[Any, Any]:
    """Run a body for each element along the first axis of an array, and join what it gives.

    Parameters
    ----------
    body : callable
        A function of the state and an element, which returns a new state and an array.
    state : Any
        Arrays, or tuples, lists or dicts of them.
    elements : array

    Returns
    -------
    tuple
        The last state, and the arrays of all iterations along a new first axis.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> pto.fuse(lambda x: scan(lambda s, x: (s + x, s * 2), np.zeros(()), x))(np.array([1.0, 2.0, 3.0]))
    (array(6.), array([0., 2., 6.]))
    """
    state = as_arrays(state)
    graph = graph_among((state, elements))
    if graph is None:
        rows = []
        for element in elements:
            state, row = body(state, np.asarray(element))
            state = as_arrays(state)
            rows.append(row)
        return state, joined_rows(rows)
    given: list[Node] = []
    slots = mapped(state, lambda _, leaf: slot_of(graph, leaf, given))
    types = [node.type for node in given]
    source = lift(graph, elements).node
    element = graph.constant(0, TensorType(source.shape[1:], source.type.dtype), here())
    traced = branch_of(graph, body, (slots, Slot(len(given))), [*given, element])
    if type(traced.result) is not tuple or len(traced.result) != 2:
        raise WrongShapes(here().loc(), what="`scan`", problem="its body returns no pair of a state and an array")
    new, row = traced.result
    rows_types = output_types(traced, row)
    check_state("scan", slots, types, new, output_types(traced, new))
    joined = [TensorType((source.shape[0], *t.shape), t.dtype) for t in rows_types]
    step = Scanned(fused(body), slots, rows_types)
    results = results_of(graph, step, [source, *given], [*types, *joined])
    outputs = iter(results[len(types) :])
    last = mapped(slots, lambda _, slot: results[slot.number].marked(True))
    return last, mapped(row, lambda _, leaf: next(outputs).marked(True))


def joined_rows(rows: list[Any]) -> Any:
    """Return the results of all iterations along a new first axis."""
    if not rows:
        raise WrongShapes(here().loc(), what="`scan`", problem="there is no element")
    parts = [flat(row) for row in rows]
    stacked = iter([np.stack(column) for column in zip(*parts, strict=True)])
    return mapped(rows[0], lambda _, leaf: next(stacked))


def output_types(traced: Traced, tree: Any) -> list[TensorType]:
    """Return the types of a part of a traced result."""
    return [traced.graph.outputs[leaf.number].type for _, leaf in leaves(tree) if isinstance(leaf, Slot)]


def graph_among(tree: Any) -> TensorGraph | None:
    """Return the graph of the traced arrays in a state."""
    return next((leaf.graph for _, leaf in leaves(tree) if isinstance(leaf, Tensor)), None)


def check_state(what: str, slots: Any, types: list[TensorType], new: Any, new_types: list[TensorType]) -> None:
    """Refuse a body whose state changes in structure, shape or type.

    Raises
    ------
    WrongShapes, NotTraced
    """
    if not all(isinstance(leaf, Slot) for _, leaf in leaves(new)):
        raise NotTraced(here().loc(), what=f"`{what}`", problem="its state has what is no array", way="return arrays")
    paths = [[path for path, _ in leaves(tree)] for tree in (slots, new)]
    if paths[0] != paths[1] or types != new_types:
        texts = [", ".join(map(str, row)) or "no array" for row in (types, new_types)]
        problem = f"its state is {texts[0]} before an iteration, and {texts[1]} after it"
        raise WrongShapes(here().loc(), what=f"`{what}`", problem=problem)
