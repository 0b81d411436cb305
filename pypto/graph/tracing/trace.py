"""Tracing: runs a function on tensors that record its operations, as the front end of the Tensor graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pypto.errors.graph import NotTraced, SharedMemory
from pypto.errors.launch import UnsupportedArgument
from pypto.graph.capture.guards import Path, ReadProgram, is_array, is_number, is_plain, objection
from pypto.graph.capture.loop_statements import UnrolledLoop
from pypto.graph.capture.reads import Reads, reading
from pypto.graph.capture.scalars import plain
from pypto.graph.exchange.call import OF_NUMPY, Call
from pypto.graph.ir.dims import Dim, Size, seen_by
from pypto.graph.ir.node import Graph, Guards, Node, base_of, here
from pypto.graph.ir.types import COMPLEX, PARTS, TensorType, contiguous
from pypto.graph.tracing import boolean_indexing, dispatch
from pypto.graph.tracing.arguments import Slot, containers_in, leaves, mapped, path_of, pinned, positional, random_state
from pypto.graph.tracing.boolean_indexing import MaskedElements
from pypto.graph.tracing.concrete import ConcreteArray
from pypto.graph.tracing.creation import substitute
from pypto.graph.tracing.launches import watched
from pypto.graph.tracing.loops import run_loop
from pypto.graph.tracing.tensor import Tensor, TensorGraph, tensor_type
from pypto.graph.tracing.ufuncs import captured, lift
from pypto.graph.tracing.values.branches import Branches, Inputs, run_ways
from pypto.graph.tracing.values.exchange import source_parts
from pypto.graph.tracing.values.joins import join
from pypto.graph.tracing.values.refusals import unhandled, unwrapped
from pypto.graph.tracing.values.storage import Storage
from pypto.loc import Caller, Loc
from pypto.markup import card
from pypto.runtime.mode import mode

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Traced:
    """A function as a graph.

    Parameters
    ----------
    graph : Graph
        Its outputs are the arrays of the result, then the new values of updated arguments.
    arrays : list of ndarray
        The inputs of the graph: arrays among the arguments, then arrays that each call reads from outside of the
        function, then constant arrays that the function made without tracing.
    given : int
        The number of inputs that a call provides.
    result : Any
        The function's result, with a `Slot` for each array.
    updates : list of (int, int)
        Inputs that the function updates, with the outputs that have their new values.
    notes : tuple of str
        Loops that have no kernel, and branches on values.
    """

    graph: Graph
    arrays: list[Array]
    given: int
    result: Any
    updates: list[tuple[int, int]] = field(default_factory=list)
    outside: ReadProgram = field(default_factory=ReadProgram)
    notes: tuple[str, ...] = ()


class FirstCondition(BaseException):
    """A condition on a value: the trace begins anew, for all ways. No handler of the function takes it."""


class TracedGraph(TensorGraph):
    """A graph during its trace: arrays from outside of the function become inputs when they are first used."""

    __slots__ = (
        "arrays", "branches", "elements", "joins", "library", "notes", "reads", "storages", "tensors", "unrolled",
    )  # fmt: skip

    def __init__(self, name: str, dims: tuple[Dim, ...] = ()) -> None:
        super().__init__(name, dims=dims, guards=Guards() if dims else None)
        self.arrays: list[Array] = []
        self.library = ""  # whose arrays the tensors stand for
        self.reads: Reads | None = None
        self.branches: Branches | None = None
        self.tensors: dict[int, Tensor] = {}
        self.elements: set[Node] = set()  # what functions that `vmap` maps get of their arguments
        self.unrolled: dict[UnrolledLoop, None] = {}  # in the order of their first iteration
        self.joins = True  # whether branches are joined
        self.notes: dict[str, None] = {}
        self.storages: dict[Node, Storage] = {}  # of results: whose memory the array of a node is

    def argument(
        self, name: str, array: Array, place: Loc | None = None, shape: tuple[int, ...] | None = None
    ) -> Tensor:
        """Return the tensor of an array; `shape` may have named dimensions."""
        if id(array) not in self.tensors and self.branches is not None and not self.is_outside(array):
            return self.branches.constant(array, lambda: self.entered(name, array, place, shape))
        return self.entered(name, array, place, shape)

    def is_outside(self, array: Array) -> bool:
        """Whether each call reads an array anew."""
        assert self.reads is not None
        return id(array) in self.reads.arguments or id(array) in self.reads.inputs

    def entered(self, name: str, array: Array, place: Loc | None, shape: tuple[int, ...] | None) -> Tensor:
        """Return the tensor of an array, which becomes an input if it is not one."""
        if id(array) not in self.tensors:
            node = self.input(name, tensor_type(tuple(array.shape) if shape is None else shape, array.dtype), place)
            in_memory = tuple(s // max(1, array.itemsize) for s in array.strides)
            strides = in_memory if shape is None else contiguous(shape)
            self.arrays.append(array)
            self.tensors[id(array)] = Tensor(self, Storage(node, None), (), strides, True)
        return self.tensors[id(array)]

    def add(
        self, op: str, *inputs: Node, place: Caller | Loc | None = None, type: TensorType | None = None, **attrs: Any
    ) -> Node:
        """Add a node; a run-time scalar among the attributes pins the plan to the number of this call."""
        if self.reads is not None and self.reads.varying:
            attrs = {name: pinned(value) for name, value in attrs.items()}
        return super().add(op, *inputs, place=place, type=type, **attrs)

    def all_ways(self, run: Callable[[], Any], inputs: Inputs) -> Any:
        """Trace a function once for each way through its conditions on values, and return the merged result."""
        outer, branches = self.branches, Branches(self)
        self.branches = branches
        try:
            return run_ways(self, branches, run, inputs)
        finally:
            self.branches = outer
            if branches.ways > 1:
                self.notes[str(branches)] = None

    def decide(self, condition: Tensor) -> bool | None:
        if self.reads is None or condition.size != 1:
            return None
        if self.branches is None:
            raise FirstCondition
        return self.branches.decide(condition, condition.reshape(()))

    def called(self, make: Callable[[], list[Node]], inputs: list[Node], types: list[TensorType]) -> list[Node]:
        if self.branches is None:
            return make()

        def fits(nodes: Any) -> bool:
            is_call = type(nodes) is list and [x.type for x in nodes] == types
            return is_call and all(list(x.inputs) == inputs for x in nodes)

        nodes: list[Node] = self.branches.once(fits, make)
        return nodes

    def release(self) -> None:
        """Keep no array and no object of the program alive."""
        self.reads, self.arrays, self.tensors, self.storages = None, [], {}, {}

    def is_given(self, node: Node) -> bool:
        """Whether an input is an argument or an array that each call reads, and not one that the function made."""
        if node in self.elements:
            return False
        array = self.arrays[self.inputs.index(node)]
        return self.reads is None or self.is_outside(array)

    def adopted(self, tensor: Tensor) -> Tensor:
        """Return a lazy array's value as an input; a tensor of another trace is refused."""
        array = tensor.graph.computed(tensor.node)
        if array is None:
            raise NotTraced(
                here().loc(), what="this array", problem="it belongs to another function that is traced",
                way="pass it as an argument",
            )  # fmt: skip
        return captured(self, array)

    def ufunc(self, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return dispatch.ufunc_result(self, ufunc, method, inputs, kwargs)

    def function(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return dispatch.function_result(self, function, args, kwargs)

    def substitute(self, value: Any) -> Any:
        return substitute(self, value)

    def attribute(self, tensor: Tensor, name: str) -> Any:
        return dispatch.attribute(tensor, name)

    def assign(self, tensor: Tensor, name: str, value: Any) -> None:
        dispatch.assign_attribute(tensor, name, value)

    def read(self, tensor: Tensor, key: Any) -> Any:
        return dispatch.read(tensor, key)

    def write(self, tensor: Tensor, key: Any, value: Any) -> None:
        dispatch.write_at(tensor, key, value)

    def loop(self, statement: Any, items: Any, variables: dict[str, Any], outer: dict[str, Any]) -> Any:
        """Return the variables after a compiled loop, or None if Python runs it."""
        result = run_loop(self, statement, items, variables, outer)
        if result is None and statement.reason:
            self.unrolled[UnrolledLoop.of(statement)] = None
        return result

    def join(self, statement: Any, condition: Tensor, variables: dict[str, Any], outer: dict[str, Any]) -> Any:
        """Return the variables after both sides of a branch, or None if Python runs one."""
        is_known = condition.size != 1 or (isinstance(condition, ConcreteArray) and condition.is_concrete)
        if is_known or not self.joins or self.reads is None:
            return None
        result = join(self, statement, condition, variables, outer)
        if result is not None:
            self.notes[f"`if` in line {statement.node.lineno}: both sides are computed, and `where` chooses"] = None
        return result

    def way_out(self, way: str) -> str:
        loc = here().loc()
        around = next((loop for loop in reversed(self.unrolled) if loop.has(loc)), None)
        return way if around is None else f"{way}; {around}"

    def card(self, tensor: Tensor) -> str:
        text = "an array of a function that is traced: only its type is known"
        return card(str(tensor.type), *source_parts(tensor.node), note=text)


def trace(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Traced:
    """Trace a function on arrays to a Tensor graph, for arguments of these shapes and types.

    Parameters
    ----------
    function : callable
        A function that uses numpy's ufuncs, operators, methods, slices and other functions.
    *args, **kwargs
        Arrays, or dicts, lists, tuples and dataclasses of them. Every other leaf is a constant of the graph.

    Returns
    -------
    Traced

    Raises
    ------
    NeedsValue, NotTraced, WrongShapes, SharedMemory
        At the line of the function that cannot be traced.

    Examples
    --------
    >>> import numpy as np
    >>> print(trace(lambda x: np.exp(x).sum(), np.ones(3, np.float32)).graph, end="")
    graph @lambda(%0: f32[3]) {
      %1: f32[3] = exp %0
      %2: f32[] = sum %1 {axes = [0], keep_dims = false}
      return %2
    }
    """
    return trace_by_name(function, args, kwargs, {}, ())


def trace_by_name(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    shapes: Mapping[int | str, tuple[int, ...]],
    dims: tuple[Dim, ...],
    varying: Collection[Path] = (),
    call: Call = OF_NUMPY,
) -> Traced:
    """Trace a function with named dimensions: arrays by their `id`, integers by their path; and run-time scalars."""
    graph = TracedGraph(getattr(function, "__name__", "function").strip("<>"), dims)
    graph.library, graph.reads = call.name, (reads := Reads(graph, varying, call))
    parameters = positional(function)
    others: list[Any] = []

    def enter(path: str, leaf: Any) -> Any:
        name = path_of(path, parameters)
        if (refused := objection(leaf)) is not None:
            raise UnsupportedArgument(kernel=graph.name, arg=name, got=refused[0], way=refused[1])
        if is_array(leaf):
            return reads.argument(name, leaf, shapes.get(id(leaf)))
        if is_plain(leaf) and not is_number(leaf):
            return leaf
        others.append(leaf)
        if name in shapes:
            return seen_by(shapes[name][0], graph.guards)
        return reads.other(len(others) - 1, name, leaf)

    drawn = random_state()
    with reading(reads):
        inner_args, inner_kwargs = mapped((args, kwargs), enter)
        given = list(graph.arrays)
        seen = reads.root(function)
        for name, copy in containers_in((inner_args, inner_kwargs), parameters):
            reads.stand_in(name, copy)
        with mode(watch=watched), unwrapped(), unhandled():
            try:
                tree = seen(*inner_args, **inner_kwargs)
            except (FirstCondition, SharedMemory) as error:
                if not isinstance(error, FirstCondition) and not graph.notes:
                    raise
                graph.joins, graph.notes = isinstance(error, FirstCondition), {}
                inputs = lambda: list(zip(graph.tensors.values(), graph.inputs, strict=True))  # noqa: E731
                tree = graph.all_ways(lambda: seen(*inner_args, **inner_kwargs), inputs)
        reads.check()
        result = mapped(tree, lambda path, leaf: leave(graph, path, leaf))
    if drawn is not None and random_state() != drawn:
        code = getattr(function, "__code__", None)
        raise NotTraced(
            None if code is None else Loc.of_code(code), what="`np.random`",
            problem="its numbers would be those of the first call in every call",
            way="draw them outside of the function, and pass them as an argument",
        )  # fmt: skip
    return arranged(graph, reads, given, result)


def arranged(graph: TracedGraph, reads: Reads, given: list[Array], result: Any) -> Traced:
    """Order the inputs of a traced function: arguments, arrays that each call reads, constant arrays."""
    left = next((x for x in graph.live() if x in graph.elements), None) if graph.elements else None
    if left is not None:
        raise NotTraced(
            left.loc, what="an array of a function that `vmap` maps", problem="it is used outside of this function",
            way="return it from the mapped function",
        )  # fmt: skip
    updated = {}
    for array, tensor, node in zip(graph.arrays, list(graph.tensors.values()), list(graph.inputs), strict=True):
        if tensor.storage.node is not node:
            updated[id(array)] = output(graph, own_node(graph, tensor))
    used = {x for node in graph.nodes for x in node.inputs}.union(graph.outputs)
    inputs = {id(array): node for array, node in zip(graph.arrays, graph.inputs, strict=True)}
    others = graph.arrays[len(given) :]
    constants = [
        array for array in others if inputs[id(array)] in used or (id(array) in updated and id(array) in reads.inputs)
    ]
    read = [array for array in constants if id(array) in reads.inputs]
    arrays = [*given, *read, *(array for array in constants if id(array) not in reads.inputs)]
    graph.inputs[:] = [inputs[id(array)] for array in arrays]
    updates = [(number, updated[id(array)]) for number, array in enumerate(arrays) if id(array) in updated]
    outside = reads.outside(read)
    graph.release()
    notes = (*map(str, graph.unrolled), *graph.notes)
    return Traced(graph, arrays, len(given) + len(read), result, updates, outside, notes)


def leave(graph: TensorGraph, path: str, leaf: Any) -> Any:
    """Return a leaf of the result: the slot of an array, or a constant."""
    if isinstance(leaf, Tensor):
        return Slot(output(graph, own_node(graph, leaf)), leaf.is_number)
    leaf = plain(leaf)
    if type(leaf) is MaskedElements:
        raise boolean_indexing.refuse()
    if is_array(leaf):
        return Slot(output(graph, own_node(graph, lift(graph, leaf))))
    if isinstance(leaf, Size):
        return leaf
    if leaf is None or isinstance(leaf, int | float | str | bool | complex | np.generic | np.dtype | type):
        return leaf
    raise NotTraced(
        None, what=f"the result {path or ''}".strip(), problem=f"it is a {type(leaf).__name__}",
        way="return arrays, numbers, and dicts, lists, tuples or dataclasses of them",
    )  # fmt: skip


def own_node(graph: Graph, tensor: Tensor) -> Node:
    """Return the node of a result, and copy it if numpy would return a new array."""
    assert isinstance(graph, TracedGraph)
    node, base = tensor.node, base_of(tensor.node)
    if base.is_input and not graph.is_given(base):  # each call of the function makes its constants anew
        storage = None
    elif base.is_input:
        storage = next(
            (t.storage for t, x in zip(graph.tensors.values(), graph.inputs, strict=True) if x is base), None
        )
    else:
        storage = graph.storages.setdefault(base, tensor.storage)
    is_left = not base.is_input or (
        storage is not None and storage.node is base
    )  # what is written is so after all steps
    if storage is tensor.storage and is_left and not base.is_number:
        return node
    if node.is_constant and node.type.dtype in COMPLEX:
        parts = tuple(graph.add(name, node, place=node.place) for name in PARTS)
        return graph.append("complex", parts, {}, node.type, node.place)
    return graph.append("copy", (node,), {}, node.type, node.place)


def output(graph: Graph, node: Node) -> int:
    """Return the number of an output, and add the output if it is new."""
    if node not in graph.outputs:
        graph.outputs.append(node)
    return graph.outputs.index(node)


__all__ = ["Slot", "Traced", "leaves", "trace"]
