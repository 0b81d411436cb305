"""`vmap`: maps a function over an axis of its arguments, and computes all elements of the axis together.

The function is traced once, on arrays of one element. Then each node that depends on them becomes one of stacks, by the
rules of `ir.batching`. A call between kernels has a rule of its own, or runs once for each element.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from pypto.arguments import BOUNDARY
from pypto.errors.graph import NotTraced, WrongShapes
from pypto.graph.capture.attributes import part_as_seen
from pypto.graph.fused import Fused
from pypto.graph.ir.batching import batched, stacked
from pypto.graph.ir.dims import is_fixed, unasked
from pypto.graph.ir.node import Node, here
from pypto.graph.ir.types import TensorType
from pypto.graph.lazy.arrays import as_lazy, computed_in
from pypto.graph.tracing.arguments import Slot, check_fusable, children, leaves, mapped, path_of, positional
from pypto.graph.tracing.numpy_steps import results_of
from pypto.graph.tracing.tensor import Tensor, place_of
from pypto.graph.tracing.trace import TracedGraph
from pypto.graph.tracing.ufuncs import lift
from pypto.graph.tracing.values.storage import SCOPE, Storage

Array = np.ndarray[Any, Any]


@overload
def vmap(function: Callable[..., Any], /, in_axes: Any = 0, out_axes: Any = 0) -> Fused: ...
@overload
def vmap(*, in_axes: Any = 0, out_axes: Any = 0) -> Callable[[Callable[..., Any]], Fused]: ...
def vmap(function: Callable[..., Any] | None = None, /, in_axes: Any = 0, out_axes: Any = 0) -> Any:
    """Map a function on arrays over an axis of its arguments, as one fused function.

    The result is that of a loop over the axis whose results are stacked. The function is traced once, for one element,
    and kernels compute all elements together. An ``if`` on values chooses for each element.

    Parameters
    ----------
    function : callable
        A function that `pto.fuse` takes.
    in_axes : int, None, or nested tuples, lists, dicts and dataclasses of them
        The axis of each positional argument that the function is mapped over, or None for an argument that is the same
        for all elements. One entry for a nested argument stands for all arrays in it. Arrays among keyword arguments
        are mapped over their first axis, and other values are the same for all elements.
    out_axes : int, None, or nested tuples, lists, dicts and dataclasses of them
        Where the mapped axis is in each result. None is for a result that is the same for all elements.

    Returns
    -------
    Fused
        The mapped function. It has `plan`, `tune` and the other methods of fused functions, and composes with
        `pto.fuse` and with itself.

    Raises
    ------
    WrongShapes
        When arguments have different sizes along the mapped axis, or an entry of the axes does not fit.
    NotTraced
        When the function writes to an array that is not mapped.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> distance = pto.vmap(lambda x, y: np.sqrt(((x - y) ** 2).sum()), in_axes=(0, None))
    >>> distance(np.array([[3.0, 4.0], [0.0, 1.0]]), np.zeros(2))
    array([5., 1.])
    >>> distances = pto.vmap(distance, in_axes=(None, 0), out_axes=1)
    >>> distances(np.eye(2), np.eye(2)).round(2)
    array([[0.  , 1.41],
           [1.41, 0.  ]])
    """
    if function is None:
        return functools.partial(vmap, in_axes=in_axes, out_axes=out_axes)
    with BOUNDARY:
        check_fusable(function)
        return Fused(MappedFunction(function, in_axes, out_axes))


def mapped_over(body: Fused, *arguments: Any, first: tuple[None, ...] = ()) -> Fused:
    """Return the body of a step between kernels on stacks of the arrays that stand as slots in its arguments."""
    of_arrays = mapped(arguments, lambda _, x: 0 if isinstance(x, Slot) else None)
    return Fused(MappedFunction(body.function, (*first, *of_arrays)))


class MappedFunction:
    """The function that `vmap` fuses: on traced arrays, it maps another function over an axis of them.

    Parameters
    ----------
    function : callable
    in_axes, out_axes : Any
        See `vmap`.
    """

    is_fused = True  # so that what `function` reads from outside is recorded

    def __init__(self, function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.in_axes = in_axes
        self.out_axes = out_axes

    def __reduce__(self) -> Any:
        return type(self), (self.function, self.in_axes, self.out_axes)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        graph = next((x.graph for _, x in leaves((args, kwargs)) if isinstance(x, Tensor)), None)
        if graph is not None and graph.is_lazy:
            return as_lazy(Fused(self)(*computed_in(args), **computed_in(kwargs)))
        axes = self.axes_of_arguments(args, kwargs)
        size = mapped_size(args, kwargs, axes, positional(self.function))
        assert isinstance(graph, TracedGraph)
        mapping = Mapping(graph, size)
        function = part_as_seen(self, "function")
        result = mapping.run(function, (args, kwargs), axes)
        places = iter(axes_of(result, self.out_axes, "out_axes"))
        return mapped(result, lambda path, leaf: mapping.outcome(leaf, next(places), path))

    def axes_of_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int | None]:
        """Return the axis of each leaf of ``(args, kwargs)``."""
        of_arrays = mapped(kwargs, lambda _, x: 0 if isinstance(x, Tensor | np.ndarray) else None)
        given = tuple(self.in_axes) if isinstance(self.in_axes, list) else self.in_axes
        return axes_of(args, given, "in_axes") + axes_of(kwargs, of_arrays, "in_axes")


def axes_of(tree: Any, axes: Any, what: str, path: str = "") -> list[int | None]:
    """Return the axis of each leaf of a tree; an axis stands for all leaves below it.

    Raises
    ------
    WrongShapes
    """
    if axes is None or (isinstance(axes, int) and not isinstance(axes, bool)):
        return [axes] * len(leaves(tree))
    below, of_axes = children(tree), children(axes)
    names = [[name for name, _ in parts[1]] if parts else None for parts in (below, of_axes)]
    if below is None or of_axes is None or names[0] != names[1]:
        texts = ["one array" if x is None else f"a container of {', '.join(x) or 'nothing'}" for x in names]
        at = f" at `{path}`" if path else ""
        raise WrongShapes(here().loc(), what=f"`{what}` of `vmap`", problem=f"it is {texts[1]} for {texts[0]}{at}")
    pairs = zip(below[1], of_axes[1], strict=True)
    return [axis for (name, x), (_, y) in pairs for axis in axes_of(x, y, what, f"{path}.{name}" if path else name)]


def mapped_size(
    args: tuple[Any, ...], kwargs: dict[str, Any], axes: Sequence[int | None], parameters: list[str]
) -> Any:
    """Return the size of the mapped axis, which all mapped arguments share.

    Raises
    ------
    WrongShapes
    """
    sizes: list[tuple[str, int, Any]] = []
    for (path, x), axis in zip(leaves((args, kwargs)), axes, strict=True):
        name = path_of(path, parameters)
        if axis is None or x is None:
            continue
        if not isinstance(x, Tensor | np.ndarray) or not x.shape:
            given = "an array without dimensions" if hasattr(x, "shape") else repr(x)
            problem = f"`{name}` has no axis {axis}: it is {given}; `in_axes` is None for what is not mapped"
            raise WrongShapes(here().loc(), what="`vmap`", problem=problem)
        sizes.append((name, axis, x.shape[place_of(axis, x.ndim)]))
    if not sizes:
        raise WrongShapes(here().loc(), what="`vmap`", problem="no argument has an axis to map over")
    if any(size != sizes[0][2] for _, _, size in sizes[1:]):
        texts = ", ".join(f"`{name}` has {size} along axis {axis}" for name, axis, size in sizes)
        raise WrongShapes(here().loc(), what="`vmap`", problem=f"the sizes of the mapped axis differ: {texts}")
    return unasked(sizes[0][2])


class Mapping:
    """One call of a mapped function during a trace.

    Parameters
    ----------
    graph : TracedGraph
    size : int
        The size of the mapped axis.
    """

    def __init__(self, graph: TracedGraph, size: Any) -> None:
        self.graph = graph
        self.size = size
        self.stacks: dict[Node, Node] = {}  # of the nodes that depend on elements
        self.first = len(graph.nodes)

    def run(self, function: Callable[..., Any], arguments: Any, axes: Sequence[int | None]) -> Any:
        """Trace the function on elements, and return its result, whose arrays are those of one element."""
        sources: list[tuple[Tensor, Tensor]] = []
        places = iter(axes)
        args, kwargs = mapped(arguments, lambda _, leaf: self.element(leaf, next(places), sources))
        inputs = [(element, element.node) for _, element in sources]
        token = SCOPE.set(self)
        try:
            result = self.graph.all_ways(lambda: function(*args, **kwargs), lambda: inputs)
        finally:
            SCOPE.reset(token)
        for (source, element), (_, node) in zip(sources, inputs, strict=True):
            if element.storage.node is not node:
                source.write(self.stack_of(element.storage.node))
        return result

    def element(self, leaf: Any, axis: int | None, sources: list[tuple[Tensor, Tensor]]) -> Any:
        """Return what the function gets of an argument: an array of one element of the axis, or the argument."""
        if axis is None or leaf is None:
            return leaf
        source = lift(self.graph, leaf)
        at = place_of(axis, source.ndim)
        front = source.moved("permute", dims=(at, *(d for d in range(source.ndim) if d != at)))
        type, strides = front.type, front.layout
        node = self.graph.append("input", (), {"name": "element"}, TensorType(type.shape[1:], type.dtype), here())
        self.graph.elements.add(node)
        self.stacks[node] = front.node
        element = Tensor(self.graph, Storage(node, self), (), None if strides is None else strides[1:])
        sources.append((front, element))
        return element

    # --- from elements to stacks -----------------------------------------------------------------------------------

    def outcome(self, leaf: Any, axis: int | None, path: str) -> Any:
        """Return a result of all elements."""
        if leaf is None:
            return None
        if not isinstance(leaf, Tensor | np.ndarray | np.generic | int | float | complex):
            raise NotTraced(
                here().loc(), what=f"the result {path or ''}".strip(), problem=f"it is a {type(leaf).__name__}",
                way="return arrays and numbers from a function that is mapped",
            )  # fmt: skip
        tensor = lift(self.graph, leaf)
        node = tensor.node
        if axis is None:
            if self.is_stack(node):
                problem = "it is None for a result that depends on mapped arguments"
                raise WrongShapes(here().loc(), what="`out_axes` of `vmap`", problem=problem)
            return Tensor.fresh(self.graph, node).marked(tensor.is_array)
        stack = Tensor.fresh(self.graph, self.stack_of(node))
        at = place_of(axis, stack.ndim)
        others = range(1, stack.ndim)
        return Tensor.fresh(
            stack.graph, stack.moved("permute", dims=(*others[:at], 0, *others[at:])).node, ordered=at == 0
        )

    def is_stack(self, node: Node) -> bool:
        """Whether a node depends on an element."""
        return node in self.stacks or self.batch([node])

    def stack_of(self, node: Node) -> Node:
        """Return the stack of a node of an element; one that depends on none is broadcast."""
        self.batch([node])
        return stacked(self.graph, self.stacks.get(node, node), node in self.stacks, self.size)

    def batch(self, roots: list[Node]) -> bool:
        """Find the stacks of nodes and of all that they depend on, and tell whether the first one is a stack."""
        needed: set[Node] = set()
        pending = list(roots)
        while pending:
            node = pending.pop()
            if node.number >= self.first and node not in needed and node not in self.stacks:
                needed.add(node)
                pending += node.inputs
        for node in sorted(needed, key=lambda x: x.number):
            if node not in self.stacks and any(x in self.stacks for x in node.inputs):
                self.stacks[node] = self.stack_made(node)
        return roots[0] in self.stacks

    def stack_made(self, node: Node) -> Node:
        """Return the stack of a node that depends on an element."""
        stacks = [x in self.stacks for x in node.inputs]
        inputs = [self.stacks.get(x, x) for x in node.inputs]
        if node.is_call:
            self.call(node, inputs, stacks)
            return self.stacks[node]
        result = batched(self.graph, node, inputs, stacks, self.size)
        assert result is not None, f"{node.op} has no batching rule"
        return result

    def call(self, node: Node, inputs: list[Node], stacks: list[bool]) -> None:
        """Add the call of all elements: by a rule of its function, or a loop over the mapped axis."""
        function = node.attr("function")
        if not is_fixed(self.size):
            raise NotTraced(
                node.loc, what=f"`{function.__qualname__}`", problem="the mapped axis has a dimension by name",
                way="leave this dimension without a name",
            )  # fmt: skip
        calls = [x for x in self.graph.nodes if x.is_call and x.inputs == node.inputs]
        results = [x for x in calls if x.attr("function") is function]
        make = getattr(function, "batched", None)
        new = make([x.type for x in node.inputs], stacks, self.size) if make is not None else None
        if new is not None:
            rows = zip(inputs, stacks, new[1], strict=True)
            inputs = [stacked(self.graph, x, s, self.size) if is_taken else x for x, s, is_taken in rows]
        types = [TensorType((self.size, *x.type.shape), x.type.dtype) for x in results]
        call = EachElement(function, tuple(stacks), types) if new is None else new[0]
        for x, tensor in zip(results, results_of(self.graph, call, inputs, types), strict=True):
            self.stacks[x] = tensor.node


class EachElement:
    """A step that runs a call between kernels once for each element of the mapped axis, and stacks its results."""

    def __init__(
        self, function: Callable[..., Sequence[Any]], stacks: tuple[bool, ...], types: list[TensorType]
    ) -> None:
        self.function = function
        self.stacks = stacks
        self.types = types
        self.may_raise = getattr(function, "may_raise", True)
        self.__qualname__ = f"a loop over the mapped axis of {function.__qualname__}"

    def __call__(self, *arrays: Array) -> Sequence[Array]:
        results = [np.empty(t.shape, t.dtype.numpy) for t in self.types]
        for number in range(self.types[0].shape[0]):
            given = [x[number, ...] if s else x for x, s in zip(arrays, self.stacks, strict=True)]
            for result, part in zip(results, self.function(*given), strict=True):
                result[number] = part
        return results
