"""Concrete arrays: arrays that a traced function makes itself, whose values are known during the trace.

`np.zeros(n)` inside of a traced function gives a `ConcreteArray`. As long as all operands are concrete, numpy computes,
and nothing enters the graph. The first traced value that is stored into a concrete array makes its memory a storage of
the graph; all views of it follow.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

from pypto.errors.graph import NotTraced
from pypto.graph.capture.scalars import pinned
from pypto.graph.ir.node import Node, here
from pypto.graph.ir.types import TensorType
from pypto.graph.tracing.tensor import Steps, Tensor, TensorGraph, tensor_type
from pypto.graph.tracing.ufuncs import captured
from pypto.graph.tracing.values.storage import SCOPE, Storage

Array = np.ndarray[Any, Any]
Operation = Callable[..., Any]

KINDS: Final = "biufcV"  # of dtypes that are traced
_PURE: Final = ("__getitem__", "__call__", "reduce", "accumulate", "outer", "reduceat")  # write `out` alone
_MUTATING: Final = frozenset(
    (
        "__setitem__", "fill", "sort", "partition", "put", "resize", "at", "copyto", "place", "putmask",
        "put_along_axis", "fill_diagonal",
    )
)  # fmt: skip  # they write their first operand


class ConcreteStorage(Storage):
    """The memory of a concrete array.

    Parameters
    ----------
    graph : TensorGraph
    value : ndarray
    fill : scalar or None
        The number that all elements have, as long as nothing else was written.
    is_blank : bool
        Whether the content is arbitrary, as that of `np.empty`.

    Attributes
    ----------
    value : ndarray or None
        None as soon as a traced value is in it.
    is_used : bool
        Whether a node of the graph reads it, so that a later update must be one of the graph.
    """

    __slots__ = ("_node", "fill", "graph", "is_blank", "is_used", "value")

    def __init__(self, graph: TensorGraph, value: Array, fill: Any = None, is_blank: bool = False) -> None:
        self.graph = graph
        self.scope = SCOPE.get()
        self.value: Array | None = value
        self.fill = fill
        self.is_blank = is_blank
        self.is_used = False
        self.blank: Node | None = None
        self.shared = False
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]  # made when the graph first needs it
        """The node that holds the memory at this point of the function."""
        if self._node is None:
            assert self.value is not None
            self.is_used = True
            if self.fill is None or self.value.dtype.kind == "c":
                self._node = captured(self.graph, self.value).node
            else:
                number = np.asarray(self.fill).astype(self.value.dtype).item()
                type = tensor_type(self.value.shape, self.value.dtype)
                self._node = self.graph.constant(number, type, here())
                self.blank = self._node if self.is_blank else None
        return self._node

    def clear(self) -> None:
        self.blank = self.node

    def hold(self, node: Node) -> None:
        self._node, self.value = node, None

    def overwritten(self) -> None:
        """Note that numpy wrote into the memory."""
        self.check_scope()
        self.fill, self.is_blank = None, False


class ConcreteArray(Tensor):
    """An array of a traced function whose elements are known, until a traced value is stored into it.

    Parameters
    ----------
    storage : ConcreteStorage
    values : ndarray
        The array itself: the memory of the storage, or a view of it.
    origin : (ConcreteArray, callable), optional
        For a view: the array that it is taken from, and how.
    """

    def __init__(
        self, storage: ConcreteStorage, values: Array, origin: tuple[ConcreteArray, Operation] | None = None
    ) -> None:
        self.graph = storage.graph
        self.storage: ConcreteStorage = storage
        self.values = values
        self.origin = origin
        self.is_array = True
        self._traced: Tensor | None = None
        self._seen: tuple[Any, Any] = (None, None)

    @property
    def is_concrete(self) -> bool:
        """Whether numpy still knows the elements."""
        return self.storage.value is not None

    @property
    def traced(self) -> Tensor:
        """This array as one of the graph, in the same storage."""
        if self._traced is None:
            if self.origin is None:
                strides = tuple(s // max(1, self.values.itemsize) for s in self.values.strides)
                self._traced = Tensor(self.graph, self.storage, (), strides, True)
            else:
                source, replay = self.origin
                self._traced = replay(source.traced)
        return self._traced

    @property
    def steps(self) -> Steps:  # type: ignore[override]  # found when they are first needed
        return self.traced.steps

    @property
    def layout(self) -> tuple[int, ...] | None:  # type: ignore[override]  # found when it is first needed
        return self.traced.layout

    @property
    def node(self) -> Node:
        return self.traced.node

    @property
    def type(self) -> TensorType:
        return tensor_type(self.values.shape, self.values.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.values.dtype
        return dtype

    @property
    def ndim(self) -> int:
        return self.values.ndim

    @property
    def size(self) -> int:
        return self.values.size

    def __repr__(self) -> str:
        return repr(self.values) if self.is_concrete else super().__repr__()

    def __str__(self) -> str:
        return str(self.values) if self.is_concrete else super().__repr__()

    def needs_value(self, what: str, way: str) -> Any:
        return self.values if self.is_concrete else super().needs_value(what, way)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the elements as they are now, which nobody may write to behind the trace's back."""
        array = super().__array__(dtype, True)
        array.flags.writeable = copy is True
        return array

    # --- what numpy does, as long as it can ------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        return run("__getitem__", operator.getitem, Tensor.__getitem__, (self, key), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        run("__setitem__", operator.setitem, Tensor.__setitem__, (self, key, value), {})

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        def traced(*args: Any, **how: Any) -> Any:
            return self.graph.ufunc(ufunc, method, args, how)

        return run(method, getattr(ufunc, method), traced, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        def traced(*args: Any, **how: Any) -> Any:
            if has_tensor((args, how)):
                return self.graph.function(function, args, how)
            return function(*pinned(args), **pinned(how))

        at = place_of_out(function)
        if at is not None and len(args) > at:
            names = tuple(inspect.signature(function).parameters)
            args, kwargs = args[:at], {**dict(zip(names[at:], args[at:], strict=False)), **kwargs}
        return run(function.__name__, function, traced, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not self.is_concrete or name in ("base", "ctypes", "data"):
            return super().__getattr__(name)
        if name == "flat" and self.values.flags.c_contiguous:
            return self.reshape(-1)
        if not callable(getattr(self.values, name)):
            return run(name, lambda x: getattr(x, name), lambda x: x.graph.attribute(x, name), (self,), {})

        def method(*args: Any, **kwargs: Any) -> Any:
            def call(x: Any, *args: Any, **kwargs: Any) -> Any:
                return getattr(x, name)(*args, **kwargs)

            def traced(x: Any, *args: Any, **kwargs: Any) -> Any:
                return x.graph.attribute(x, name)(*args, **kwargs)

            return run(name, call, traced, (self, *args), kwargs)

        return method


@lru_cache(maxsize=256)
def place_of_out(function: Operation) -> int | None:
    """Return the number of a function's parameter `out`, which may be given by position, or None."""
    try:
        names = list(inspect.signature(function).parameters)
    except ValueError:
        return None
    return names.index("out") if "out" in names else None


def run(name: str, function: Operation, traced: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Let numpy compute if all operands are concrete, and trace the operation otherwise.

    Parameters
    ----------
    name : str
        numpy's name, which tells whether the first operand is written.
    function, traced : callable
        The operation on arrays, and on traced arrays.
    """
    out = kwargs.get("out")
    targets = list(out) if type(out) is tuple else [out]
    if name in _MUTATING:
        targets.append(args[0])
    written = [x for x in targets if type(x) is ConcreteArray]
    if any(x.storage.is_used for x in written) or not is_concrete((*args, *kwargs.values())):
        passed = [*targets, args[0]] if name == "__getitem__" else targets
        operands = [x if any(x is t for t in passed) else as_operand(x) for x in args]
        return traced(*operands, **{k: x if k == "out" else as_operand(x) for k, x in kwargs.items()})
    result = by_numpy(name, function, args, kwargs, written)
    for x in written:
        x.storage.overwritten()
    if written and out is not None:
        return out[0] if type(out) is tuple and len(out) == 1 else out
    sources = concrete_in([*args, *kwargs.values()])
    return wrapped(result, sources, lambda x, by: traced(*(by if a is x else a for a in args), **kwargs))


def by_numpy(name: str, function: Operation, args: Any, kwargs: Any, written: list[ConcreteArray]) -> Any:
    """Return numpy's result for concrete arrays; only those that are known to be written are writable.

    Raises
    ------
    NotTraced
        When the operation writes another one.
    """
    how = {k: unwrapped(x) for k, x in kwargs.items()}
    if name in _PURE:
        return function(*map(unwrapped, args), **how)
    try:
        result = function(*(unwrapped(x) if any(x is w for w in written) else locked(x) for x in args), **how)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        way = "give the array that is written as `out=`, or write `x[...] = …`"
        raise NotTraced(here().loc(), what=f"`{name}`", problem="it writes to an argument", way=way) from None
    is_view = type(result) in (list, tuple) or (type(result) is np.ndarray and not result.flags.owndata)
    return function(*map(unwrapped, args), **how) if is_view else result  # a view, with memory that may be written


def wrapped(result: Any, sources: list[ConcreteArray], replay: Callable[[Any, Any], Any]) -> Any:
    """Return numpy's result as concrete arrays; `replay` traces the operation with another array for a source."""
    if type(result) in (list, tuple):
        parts = [wrapped(x, sources, part_of(replay, number)) for number, x in enumerate(result)]
        return type(result)(parts)
    if type(result) is not np.ndarray or result.dtype.kind not in KINDS:
        return result
    for x in sources:
        if np.may_share_memory(result, x.values):
            return ConcreteArray(x.storage, result, (x, partial(replay, x)))
    return ConcreteArray(ConcreteStorage(sources[0].graph, result), result)


def part_of(replay: Callable[[Any, Any], Any], number: int) -> Callable[[Any, Any], Any]:
    return lambda x, by: replay(x, by)[number]


def is_concrete(value: Any) -> bool:
    """Whether an operand, and all that it contains, is known during the trace."""
    kind = type(value)
    if kind in (list, tuple):
        return all(map(is_concrete, value))
    if kind is dict:
        return is_concrete(list(value.values()))
    if kind is slice:
        return is_concrete([value.start, value.stop, value.step])
    if kind is ConcreteArray:
        return bool(value.is_concrete)
    return not getattr(kind, "stands_in", False)


def concrete_in(value: Any) -> list[ConcreteArray]:
    """Return the concrete arrays in an operand, or in the lists and tuples that it contains."""
    if type(value) in (list, tuple):
        return [x for part in value for x in concrete_in(part)]
    return [value] if type(value) is ConcreteArray else []


def has_tensor(value: Any) -> bool:
    """Whether an operand, or something that it contains, is an array of the graph."""
    kind = type(value)
    if kind in (list, tuple, dict):
        return any(map(has_tensor, value.values() if kind is dict else value))
    return issubclass(kind, Tensor)


def unwrapped(value: Any) -> Any:
    """Return an operand with numpy's arrays in place of concrete arrays."""
    kind = type(value)
    if kind in (list, tuple):
        return kind(map(unwrapped, value))
    if kind is dict:
        return {k: unwrapped(x) for k, x in value.items()}
    if kind is slice:
        return slice(unwrapped(value.start), unwrapped(value.stop), unwrapped(value.step))
    return value.values if kind is ConcreteArray and value.is_concrete else value


def locked(value: Any) -> Any:
    """Return an operand with read-only arrays of numpy in place of concrete arrays."""
    kind = type(value)
    if kind in (list, tuple):
        return kind(map(locked, value))
    if kind is not ConcreteArray or not value.is_concrete:
        return unwrapped(value)
    array = value.values.view()
    array.flags.writeable = False
    return array


def as_operand(value: Any) -> Any:
    """Return an operand of a traced operation: a constant array in place of a concrete one.

    An array that has one number in all elements stays a tensor, since its node is that number.
    """
    kind = type(value)
    if kind in (list, tuple):
        return kind(map(as_operand, value))
    is_uniform = kind is ConcreteArray and value.is_concrete and value.storage.fill is not None
    is_uniform = is_uniform and value.dtype == value.storage.value.dtype
    return value if is_uniform else as_constant(value)


def as_constant(value: Any) -> Any:
    """Return a constant array in place of a concrete one, whose memory numpy leaves as it is from now on."""
    kind = type(value)
    if kind in (list, tuple):
        return kind(map(as_constant, value))
    if kind is ConcreteArray and value.is_concrete:
        value.storage.is_used = True
        return value.values
    return np.asarray(value) if kind is range else value
