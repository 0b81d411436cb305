"""Tensors: the tracer values that replace arrays while a function is traced.

A `Tensor` is a view of a `Storage`, as a numpy array is a view of memory: a path of movements. An update in place
makes a new node for the storage, so that all views see it; the graph itself has no updates.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from pypto.errors.graph import NeedsValue, NotTraced, SharedMemory, WrongShapes
from pypto.graph.capture.guards import of_dtype
from pypto.graph.ir.dims import seen_by, unasked
from pypto.graph.ir.movements import MOVEMENTS, strides_of
from pypto.graph.ir.node import Node, definition, here, line_of
from pypto.graph.ir.types import PARTS, TensorType, contiguous, element_type
from pypto.graph.rewrite.simplify import SimplifiedGraph
from pypto.graph.tracing.values.exchange import Exchanged
from pypto.graph.tracing.values.storage import Storage
from pypto.graph.tracing.values.words import counted, words
from pypto.runtime.arrays import ArrayInfo

_LEAVE: Final = (
    "leave it an array: one without dimensions computes like a number; an array that is to be filled is made by "
    "`np.zeros_like(x, shape=…)`"
)
_ASSIGNED: Final = frozenset(("real", "imag", "flat", "shape", "dtype", "strides", "data"))  # by functions of numpy
CHOOSE: Final = (
    "choose element by element with `np.where(condition, a, b)`, have one of two functions run with "
    "`pypto.arrays.cond(condition, a, b, …)`, or decide before the call"
)
Steps = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]
element_of = lru_cache(maxsize=64)(element_type)


def untraced(ufunc: str, problem: str, way: str = "compute it outside of the function, or in a kernel") -> NotTraced:
    return NotTraced(here().loc(), what=f"`np.{ufunc}`", problem=problem, way=way)


def place_of(axis: Any, rank: int) -> int:
    """Normalise an axis; one out of range is an error at the user's line."""
    number = operator.index(axis)
    if not -rank <= number < rank:
        problem = f"{number} is out of range for an array of {rank} dimensions"
        raise WrongShapes(here().loc(), what="axis", problem=problem)
    return number % rank


def tensor_type(shape: tuple[int, ...], dtype: Any) -> TensorType:
    """Return the type of an array of a numpy dtype."""
    element = element_of(np.dtype(dtype))
    if element is None:
        what, way = of_dtype(np.dtype(dtype)) or ("", "")
        raise NotTraced(here().loc(), what=what, problem="kernels have no such type", way=way)
    return TensorType(shape, element)


class TensorGraph(SimplifiedGraph):
    """A graph of tensors: a tensor delegates numpy's protocols to its graph."""

    __slots__ = ()
    library: str  # whose arrays the tensors stand for; empty for numpy

    @property
    def restored(self) -> Callable[[Any], Any]:
        """Return the function that restores such an array from its pickled value."""
        raise NotImplementedError

    def argument(self, name: str, array: Any, place: Any = None, shape: tuple[int, ...] | None = None) -> Tensor:
        """Return the tensor of an array that becomes an input; one array has one tensor."""
        raise NotImplementedError

    def adopted(self, tensor: Tensor) -> Tensor:
        """Convert a tensor of another graph to this graph."""
        raise NotImplementedError

    def way_out(self, way: str) -> str:
        """Return what to do about a value that is not known, with the reason why a loop around has no kernel."""
        return way

    def ufunc(self, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Trace a numpy ufunc on tensors of this graph."""
        raise NotImplementedError

    def function(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Trace another numpy function on tensors of this graph."""
        raise NotImplementedError

    def substitute(self, value: Any) -> Any:
        """Return what a traced function sees for a module of arrays or a function of it, or None for the value."""
        raise NotImplementedError

    def called(self, make: Callable[[], list[Node]], inputs: list[Node], types: list[TensorType]) -> list[Node]:
        """Return the nodes of a call between kernels, which `make` adds."""
        return make()

    def decide(self, condition: Tensor) -> bool | None:
        """Answer a condition on the value of a tensor, or return None if there is no answer without the value."""
        return None

    def namespace(self, version: Any) -> Any:
        """Return the namespace of the array API standard that its tensors name: numpy, as the function sees it."""
        return self.substitute(np.empty(0).__array_namespace__(api_version=version))

    def attribute(self, tensor: Tensor, name: str) -> Any:
        """Trace a method or property of numpy arrays."""
        raise NotImplementedError

    def assign(self, tensor: Tensor, name: str, value: Any) -> None:
        """Trace an assignment to an attribute of an array."""
        raise NotImplementedError

    def read(self, tensor: Tensor, key: Any) -> Any:
        """``tensor[key]``."""
        raise NotImplementedError

    def write(self, tensor: Tensor, key: Any, value: Any) -> None:
        """``tensor[key] = value``."""
        raise NotImplementedError

    def card(self, tensor: Tensor) -> str:
        """Return a tensor as HTML for a notebook's cell."""
        raise NotImplementedError


class Tensor(Exchanged, NDArrayOperatorsMixin):
    """An array of a traced function; its methods have numpy's meaning."""

    __array_priority__ = 1000
    stands_in = True
    graph: TensorGraph

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class of numpy's value, so that type checks in the user's function take their usual branch."""
        if self.graph.is_lazy:
            return Tensor
        return self.dtype.type if self.is_number else np.ndarray

    def __init__(
        self, graph: TensorGraph, storage: Storage, steps: Steps = (), layout: tuple[int, ...] | None = None,
        is_array: bool = False,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.storage = storage
        self.steps = steps
        self.layout = layout  # strides in elements; None where numpy alone knows
        self.is_array = is_array  # whether numpy gives an array where it has no dimensions
        self._seen: tuple[Any, Node] = (None, storage.node)

    @classmethod
    def fresh(cls, graph: TensorGraph, node: Node, ordered: bool = True) -> Tensor:
        """Return a new array that holds a node; `ordered` means that it is in C order."""
        return cls(graph, Storage(node), (), contiguous(node.shape) if ordered else None)

    def marked(self, is_array: bool) -> Tensor:
        """Return this tensor; without dimensions it counts as an array or as a scalar of numpy."""
        self.is_array = is_array
        return self

    @property
    def is_number(self) -> bool:
        """Whether numpy returns a scalar instead of an array, which shares no memory."""
        return not self.is_array and not self.node.shape

    def __pow__(self, other: Any) -> Any:
        """Trace ``x ** other``; numpy squares an array in the type of `np.square` instead of `np.power`."""
        is_square = type(other) is int and other == 2 and not self.is_number
        return np.square(self) if is_square else super().__pow__(other)

    @property
    def node(self) -> Node:
        """The node that this array holds at this point of the function."""
        known, node = self._seen
        if known is self.storage.node:
            return node
        known = node = self.storage.node
        for op, attrs in self.steps:
            node = self.graph.add(op, node, place=node.place, **dict(attrs))
        self._seen = known, node
        return node

    def moved(self, op: str, **attrs: Any) -> Tensor:
        """Return a view by one more movement."""
        if self.graph.guards is not None:
            attrs = {name: unasked(value) for name, value in attrs.items()}
        strides = strides_of(op, self.node.shape, self.layout, attrs)
        steps = (*self.steps, (op, tuple(attrs.items())))
        view = Tensor(self.graph, self.storage, steps, strides)
        source = self.node
        view._seen = self.storage.node, self.graph.add(op, source, place=here(), **attrs)
        return view

    def write(self, value: Node) -> None:
        """Replace the elements that this view shows."""
        if self.storage.shared:
            raise SharedMemory(here().loc(), what="a reshape")
        chain = [self.storage.node]
        for op, attrs in self.steps:
            chain.append(self.graph.add(op, chain[-1], **dict(attrs)))
        for (op, attrs), source in zip(reversed(self.steps), reversed(chain[:-1]), strict=True):
            value = self._inverse(op, dict(attrs), source, value)
        self.storage.replace(value)

    def _inverse(self, op: str, attrs: dict[str, Any], source: Node, value: Node) -> Node:
        """Return the source of a movement after its result is replaced."""
        inverse, at = MOVEMENTS[op].inverse, here()
        if op in PARTS:
            parts = (value if name == op else self.graph.add(name, source, place=at) for name in PARTS)
            return self.graph.add("complex", *parts, place=at)
        if inverse is None:
            problem = "a broadcast array is read-only"
            raise NotTraced(at.loc(), what="this update", problem=problem, way="write to a copy")
        back, options = inverse(source.shape, attrs)
        operands = (value,) if back in MOVEMENTS else (source, value)
        return self.graph.add(back, *operands, place=at, **options)

    # --- what an array knows -------------------------------------------------------------------------------------

    @property
    def type(self) -> TensorType:
        return self.node.type

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape as the traced function sees it: comparisons of named dimensions become guards."""
        guards = self.graph.guards
        return self.node.shape if guards is None else tuple(seen_by(n, guards) for n in self.node.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.type.dtype.numpy

    @property
    def ndim(self) -> int:
        return len(self.node.shape)

    @property
    def size(self) -> int:
        count: int = counted(self.shape) if self.graph.library else math.prod(self.shape)
        return count

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return operator.index(self.shape[0])

    def __repr__(self) -> str:
        kind = "lazy array" if self.graph.is_lazy else "array of a traced function"
        description = ", ".join(filter(None, (str(self.type), definition(self.node), line_of(self.node))))
        return f"<{kind}: {description}>"

    def _repr_html_(self) -> str:
        return self.graph.card(self)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[n] for n in range(len(self)))

    def __hash__(self) -> int:
        if self.graph.is_lazy:
            return object.__hash__(self)
        if not self.is_number:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return hash(self.needs_value("a hash", "use an array of numbers in place of a dict or a set")[()])

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            return round(self.needs_value("`round(…)`", "write `np.round(x)`, which gives a float"))
        return np.round(self, digits)

    # --- views ---------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tensor:
        item: Tensor = self.graph.read(self, key)
        item.is_array = key is Ellipsis or (type(key) is tuple and any(k is Ellipsis for k in key))
        is_element = isinstance(item, Tensor) and item.is_number  # which is no view
        return Tensor.fresh(self.graph, item.node) if is_element else item

    def __setitem__(self, key: Any, value: Any) -> None:
        self.graph.write(self, key, value)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self.graph.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self.graph.function(function, args, kwargs)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return words().torch_function(function, args, kwargs or {})

    def traced_info(self) -> ArrayInfo:
        """Return what checks of arguments look at; the array of a traced function has no address yet."""
        strides = contiguous(self.shape) if self.layout is None else self.layout
        return ArrayInfo(0, self.shape, strides, self.type.dtype, True, self)

    # --- what an array cannot tell while its function is traced ----------------------------------------------------

    def needs_value(self, what: str, way: str) -> Any:
        """Return the value of a lazy array; a traced array has no value yet, so the request is refused."""
        array = self.graph.computed(self.node)
        if array is None:
            raise NeedsValue(here().loc(), what=what, type=self.type, way=self.graph.way_out(way))
        return array

    def __bool__(self) -> bool:
        decided = self.graph.decide(self)
        return bool(self.needs_value("a condition", CHOOSE)) if decided is None else decided

    def __float__(self) -> float:
        return float(self.needs_value("`float(…)`", _LEAVE))

    def __format__(self, how: str) -> str:
        way = "print it behind the call, or return it; `print(x)` and `{x!r}` show its type"
        array = self.needs_value("a format", way)
        return format(array if array.ndim else array[()], how)

    def __complex__(self) -> complex:
        return complex(self.needs_value("`complex(…)`", _LEAVE))

    def __int__(self) -> int:
        return int(self.needs_value("`int(…)`", "use `.astype(…)`, or pass the number as an argument of its own"))

    def __index__(self) -> int:
        array = self.needs_value("an index or a size", "index with the array itself, or pass a number of its own")
        return operator.index(array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.needs_value(
            "a function that wants a numpy array",
            "use a function of numpy that is traced, or call it outside; an array to be written to is made by "
            "`np.zeros_like(x, shape=…)`",
        )
        return np.array(array, dtype=dtype, copy=copy)

    def __copy__(self) -> Tensor:
        return self.copy()  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self.copy()  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.graph.attribute(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _ASSIGNED:
            self.graph.assign(self, name, value)
        else:
            object.__setattr__(self, name, value)


def graph_of(*values: Any) -> TensorGraph:
    """Return the graph of some operands."""
    for value in values:
        if isinstance(value, Tensor):
            return value.graph
        if isinstance(value, list | tuple):
            graphs = [x.graph for x in value if isinstance(x, Tensor)]
            if graphs:
                return graphs[0]
    raise AssertionError("no operand is traced")
