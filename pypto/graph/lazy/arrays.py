"""Lazy arrays record the operations on them, and fused kernels compute them when a value is needed.

A lazy array is a tensor of a graph that can be computed at any time, so everything that a fused function traces works
on it. Each call of `lazy` begins a new graph; an operation on arrays of two graphs copies the nodes of one graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from pypto.arguments import BOUNDARY
from pypto.errors.graph import NotTraced
from pypto.graph.ir.node import Node, here
from pypto.graph.plan.foreign_call import foreign_call
from pypto.graph.plan.plan import Plan
from pypto.graph.rewrite.pipeline import rewritten
from pypto.graph.rewrite.simplify import SimplifiedGraph
from pypto.graph.schedule.group import Layouts
from pypto.graph.tracing.dispatch import COUNTING
from pypto.graph.tracing.tensor import Tensor, tensor_type
from pypto.graph.tracing.trace import TracedGraph
from pypto.graph.tracing.values.storage import Storage

VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
Array = np.ndarray[Any, Any]


class LazyGraph(TracedGraph):
    """A graph that computes an array when its value is first needed."""

    __slots__ = ("foreign", "plans", "values")
    is_lazy = True

    def __init__(self, library: str = "") -> None:
        super().__init__("lazy")
        self.library = library
        self.values: dict[Node, Array] = {}
        self.plans: dict[Node, Plan] = {}
        self.foreign: dict[Node, Node] = {}  # nodes of other lazy graphs, and what they are here

    def computed(self, node: Node) -> Array:
        """Return the array of a node; it is read-only, because other nodes depend on it."""
        if node.is_input:
            array = self.arrays[self.inputs.index(node)].view()
            array.flags.writeable = False
            return array
        if node not in self.values:
            self.values[node] = self.compute(node)
            self.values[node].flags.writeable = False
        return self.values[node]

    def compute(self, node: Node) -> Array:
        """Compute an array by a plan of all uncomputed nodes that it depends on."""
        from pypto.graph.plan.pipeline import plan_of, strides_in

        target = SimplifiedGraph(self.name)
        here_of: dict[Node, Node] = {}
        arrays: list[Array] = []
        for x in self.pending(node):
            if x.is_input or x in self.values:
                here_of[x] = target.input(f"array{len(arrays)}", x.type, x.place)
                arrays.append(self.computed(x))
            else:
                operands = (here_of[y] for y in x.inputs)
                here_of[x] = target.add(x.op, *operands, place=x.place, type=x.type, **dict(x.attrs))
        target.outputs.append(here_of[node])
        graph = rewritten(target)
        layouts = Layouts({x: strides_in(x, a) for x, a in zip(graph.inputs, arrays, strict=True)})
        plan = plan_of(graph, layouts, {}, "")
        self.plans[node] = plan
        return plan.run(arrays)[0].view()

    def pending(self, node: Node) -> list[Node]:
        """Return the nodes that an array depends on, in order, back to inputs and computed arrays."""
        needed: set[Node] = set()
        stack = [node]
        while stack:
            x = stack.pop()
            if x not in needed:
                needed.add(x)
                stack += () if x in self.values else x.inputs
        return sorted(needed, key=lambda x: x.number)

    @property
    def restored(self) -> Callable[[Any], Tensor]:
        return lazy

    def namespace(self, version: Any) -> Any:
        from pypto.graph.lazy import namespace

        if version not in (None, *VERSIONS):
            raise ValueError(f"the versions of the array API standard are {', '.join(VERSIONS)}, and not {version!r}")
        return namespace

    def function(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Trace a function; where values decide how many elements there are, it is computed at once."""
        name = function.__name__
        if name in COUNTING or (name == "where" and len(args) == 1):
            return as_lazy(function(*computed_in(args), **computed_in(kwargs)))
        return super().function(function, args, kwargs)

    def read(self, tensor: Tensor, key: Any) -> Any:
        """``tensor[key]``; a mask picks at once."""
        if has_mask(key):
            return lazy(self.computed(tensor.node)[computed_in(key)])
        return super().read(tensor, key)

    def write(self, tensor: Tensor, key: Any, value: Any) -> None:
        """``tensor[key] = value``; an array that is written where a mask is true is so at once."""
        if not has_mask(key) or np.ndim(value) == 0:
            super().write(tensor, key, value)
            return
        array = self.computed(tensor.node).copy()
        array[computed_in(key)] = computed_in(value)
        tensor.write(self.adopted(lazy(array)).node)

    def card(self, tensor: Tensor) -> str:
        from pypto.graph.views.tensors import tensor_card

        self.computed(tensor.node)
        return tensor_card(tensor, self.plans.get(tensor.node))

    def adopted(self, tensor: Tensor) -> Tensor:
        """Copy a lazy array of another graph into this graph."""
        source = tensor.graph
        if not isinstance(source, LazyGraph):
            raise NotTraced(
                here().loc(), what="a lazy array", problem="it meets an array of a traced function",
                way="compute it before, by `np.asarray(…)`, or pass it as an argument",
            )  # fmt: skip
        for node in source.pending(tensor.node):
            if node in self.foreign:
                continue
            if node.is_input or node in source.values:
                self.foreign[node] = self.argument(f"array{len(self.inputs)}", source.computed(node)).node
            else:
                operands = (self.foreign[x] for x in node.inputs)
                copy = self.add(node.op, *operands, place=node.place, type=node.type, **dict(node.attrs))
                self.foreign[node] = copy
        return Tensor.fresh(self, self.foreign[tensor.node])


def has_mask(key: Any) -> bool:
    """Whether an index has a mask."""
    if type(key) is tuple:
        return any(map(has_mask, key))
    return type(key) is bool or getattr(key, "dtype", None) == np.bool_


def computed_in(value: Any) -> Any:
    """Return containers with numpy's arrays in place of lazy ones."""
    kind = type(value)
    if kind in (list, tuple):
        return kind(map(computed_in, value))
    if kind is dict:
        return {name: computed_in(x) for name, x in value.items()}
    return np.asarray(value) if kind is Tensor else value


def as_lazy(result: Any) -> Any:
    """Return numpy's result with lazy arrays."""
    if isinstance(result, tuple):
        parts = map(as_lazy, result)
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    return lazy(result) if isinstance(result, np.ndarray) else result


def lazy(array: Any) -> Tensor:
    """Make a lazy array, which records operations and computes them together when a value is needed.

    Functions of numpy and of `pypto.arrays`, operators and methods return lazy arrays in turn. ``np.asarray(x)``,
    ``float(x)``, ``if x:``, ``x.item()``, a kernel that reads the array and a notebook that shows it need its value.
    Then one plan of fused kernels computes everything that the array depends on. It is computed once, so the resulting
    numpy array is read-only.

    Parameters
    ----------
    array : array_like
        The plan reads this array when it runs; it is not copied. An update in place of the lazy array does not
        change it. ``torch.from_dlpack(y)`` computes the tensor of a lazy array that comes from tensors.

    Returns
    -------
    Tensor
        A lazy array with the shape and dtype of `array`.

    Examples
    --------
    >>> import numpy as np, pypto.arrays as pt
    >>> x = pt.lazy(np.ones((2, 3), np.float32))
    >>> y = np.exp(x - 1).sum(axis=0)
    >>> y.shape, y.dtype
    ((3,), dtype('float32'))
    >>> np.asarray(y)
    array([2., 2., 2.], dtype=float32)
    """
    with BOUNDARY:
        call = foreign_call(lazy, (array,), {})
    graph, values = LazyGraph(call.name), np.asarray(call.args[0])
    type = tensor_type(tuple(values.shape), values.dtype)
    node = graph.input("array0", type, here())
    graph.arrays.append(values)
    strides = tuple(s // max(1, values.itemsize) for s in values.strides)
    return Tensor(graph, Storage(node), (), strides, True)
