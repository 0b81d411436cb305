"""Running a function on tensors, which note what it does: the front end of the Tensor graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pypto.errors.graph import NotTraced
from pypto.graph.dims import Dim, Size
from pypto.graph.guards import Guards
from pypto.graph.launches import watched
from pypto.graph.named import path_of, positional
from pypto.graph.node import Graph, Node
from pypto.graph.pytree import Slot, leaves, mapped
from pypto.graph.rules import MOVEMENT
from pypto.graph.strides import contiguous
from pypto.graph.tensor import Storage, Tensor
from pypto.graph.ufuncs import lift, tensor_type
from pypto.loc import Loc
from pypto.runtime.mode import mode

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Traced:
    """A function as a graph.

    Parameters
    ----------
    graph : Graph
        Its outputs are the arrays of the result, and then those that arguments are updated with.
    arrays : list of ndarray
        What the graph was traced with: arrays among the arguments, then arrays from outside of the function.
    given : int
        How many of these are arguments.
    result : Any
        The function's result, with the numbers of outputs as `Slot` for arrays.
    updates : list of (int, int)
        Inputs that the function writes to, and the outputs that they hold after it.
    """

    graph: Graph
    arrays: list[Array]
    given: int
    result: Any
    updates: list[tuple[int, int]] = field(default_factory=list)


class TracedGraph(Graph):
    """A graph that is being traced: arrays from outside of the function become inputs when they are met."""

    __slots__ = ("arrays", "held", "tensors")

    def __init__(self, name: str, dims: tuple[Dim, ...] = ()) -> None:
        super().__init__(name, dims=dims, guards=Guards() if dims else None)
        self.arrays: list[Array] = []
        self.tensors: dict[int, Tensor] = {}
        self.held: dict[Node, Storage] = {}  # of results: whose memory the array of a node is

    def argument(
        self, name: str, array: Array, place: Loc | None = None, shape: tuple[int, ...] | None = None
    ) -> Tensor:
        """A tensor for an array; the same array has the same one. `shape` is that with dimensions by name, if any."""
        if id(array) not in self.tensors:
            node = self.input(name, tensor_type(tuple(array.shape) if shape is None else shape, array.dtype), place)
            in_memory = tuple(s // max(1, array.itemsize) for s in array.strides)
            strides = in_memory if shape is None else contiguous(shape)
            self.arrays.append(array)
            self.tensors[id(array)] = Tensor(self, Storage(node), (), strides)
        return self.tensors[id(array)]


def captured(graph: Graph, array: Array) -> Tensor:
    """The input for an array from outside of the function, which it reads as it is at each call."""
    assert isinstance(graph, TracedGraph)
    return graph.argument(f"captured{len(graph.inputs)}", array)


def trace(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Traced:
    """The Tensor graph of a function on arrays, for arguments of these shapes and types.

    Parameters
    ----------
    function : callable
        On numpy arrays: ufuncs, operators, methods, `np.einsum`, slices, updates in place.
    *args, **kwargs
        Arrays, or dicts, lists, tuples and dataclasses of them. Everything else is a constant of the graph.

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
    shapes: Mapping[int, tuple[int, ...]],
    dims: tuple[Dim, ...],
) -> Traced:
    """`trace` where some arrays, by their `id`, have shapes with dimensions by name."""
    graph = TracedGraph(getattr(function, "__name__", "function").strip("<>"), dims)
    parameters = positional(function)

    def enter(path: str, leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray):
            return leaf
        return graph.argument(path_of(path, parameters), leaf, shape=shapes.get(id(leaf)))

    inner_args, inner_kwargs = mapped((args, kwargs), enter)
    before = {id(t.storage): t.storage.node for t in graph.tensors.values()}
    given = len(graph.inputs)
    drawn = random_state()
    with mode(watch=watched):
        tree = function(*inner_args, **inner_kwargs)
    if drawn is not None and random_state() != drawn:
        code = getattr(function, "__code__", None)
        raise NotTraced(
            None if code is None else Loc.of_code(code), what="`np.random`",
            problem="its numbers would be those of the first call in every call",
            way="draw them outside of the function, and pass them as an argument",
        )  # fmt: skip
    result = mapped(tree, lambda path, leaf: leave(graph, path, leaf))
    updates = []
    for number, tensor in enumerate(list(graph.tensors.values())):
        node = tensor.storage.node
        if node is not before.get(id(tensor.storage), graph.inputs[number]):
            updates.append((number, output(graph, own_node(graph, tensor))))
    return Traced(graph, graph.arrays, given, result, updates)


def random_state() -> Any:
    """Where numpy's own generator of random numbers is; None where nobody has loaded it."""
    module = sys.modules.get("numpy.random")
    if module is None:
        return None
    state = module.get_state(legacy=False)
    return state["state"]["pos"], int(state["state"]["key"][0]), state["has_gauss"]


def leave(graph: Graph, path: str, leaf: Any) -> Any:
    """A leaf of the result: the slot of an array, or a constant as it is."""
    if isinstance(leaf, Tensor):
        return Slot(output(graph, own_node(graph, leaf)))
    if isinstance(leaf, np.ndarray):
        return Slot(output(graph, lift(graph, leaf).node))
    if isinstance(leaf, Size):
        return leaf
    if leaf is None or isinstance(leaf, int | float | str | bool | complex | np.generic | np.dtype | type):
        return leaf
    raise NotTraced(
        None, what=f"the result {path or ''}".strip(), problem=f"it is a {type(leaf).__name__}",
        way="return arrays, numbers, and dicts, lists, tuples or dataclasses of them",
    )  # fmt: skip


def own_node(graph: Graph, tensor: Tensor) -> Node:
    """The node of a result: an array of its own wherever numpy would have made one, though its numbers are there."""
    assert isinstance(graph, TracedGraph)
    node = base = tensor.node
    while base.op in MOVEMENT:
        base = base.inputs[0]
    if base.op == "input":
        held = next((t.storage for t, x in zip(graph.tensors.values(), graph.inputs, strict=True) if x is base), None)
    else:
        held = graph.held.setdefault(base, tensor.storage)
    is_left = base.op != "input" or (held is not None and held.node is base)  # what is written is so after all steps
    if held is tensor.storage and is_left and base.op not in ("constant", "extent"):
        return node
    return graph.append("copy", (node,), {}, node.type, node.place)


def output(graph: Graph, node: Node) -> int:
    """The number of an output, made where there is none."""
    if node not in graph.outputs:
        graph.outputs.append(node)
    return graph.outputs.index(node)


__all__ = ["Slot", "Traced", "captured", "leaves", "trace"]
