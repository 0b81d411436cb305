"""Array creation in traced functions: `np.zeros(…)` and the like give arrays that traced values can be stored into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from types import BuiltinFunctionType, FunctionType, MappingProxyType, ModuleType
from typing import Any, Final

import numpy as np

from pypto.graph.capture.scalars import pinned
from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import here
from pypto.graph.tracing import movement
from pypto.graph.tracing.concrete import KINDS, ConcreteArray, ConcreteStorage, is_concrete, unwrapped, wrapped
from pypto.graph.tracing.tensor import Tensor, TensorGraph, tensor_type
from pypto.graph.tracing.ufuncs import cast, lift
from pypto.graph.tracing.values.words import words

Create = Callable[..., Any]
_FILLS: Final[Mapping[str, int]] = MappingProxyType({"zeros": 0, "ones": 1, "empty": 0})
_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {**dict.fromkeys(_FILLS, ("shape", "dtype")), "full": ("shape", "fill_value", "dtype")}
)


def creating(graph: TensorGraph, function: Create) -> Create:
    """Return a function of numpy that creates an array, for functions that the graph traces.

    The result is a concrete array, or a tensor if an argument is traced or a size has a name.
    """
    name = function.__name__
    traced = _TRACED.get(name)

    @wraps(function)
    def create(*args: Any, **kwargs: Any) -> Any:
        if traced is not None and not is_concrete((*args, *kwargs.values())):
            result = traced(graph, *args, **kwargs)
            if result is not None:
                return result
        given, how = pinned(args), pinned(kwargs)
        args, kwargs = unwrapped(given), unwrapped(how)
        value = function(*args, **kwargs)
        sources = [x for x in (*given, *how.values()) if type(x) is ConcreteArray]
        if traced is not None and any(np.may_share_memory(value, x.values) for x in sources):
            return wrapped(value, sources, lambda x, by: traced(graph, *(by if a is x else a for a in given), **how))
        if type(value) is not np.ndarray or value.dtype.kind not in KINDS:
            return value
        fill: Any = _FILLS.get(name)
        if name == "full":
            fill = args[1] if len(args) > 1 else kwargs["fill_value"]
        is_uniform = fill is not None and np.ndim(fill) == 0
        storage = ConcreteStorage(graph, value, fill if is_uniform else None, name == "empty")
        return ConcreteArray(storage, value)

    return create


# --- of traced values and of sizes by name ----------------------------------------------------------------------------


def filled(name: str) -> Create:
    """Return the tracer of a function that fills an array of a shape with a number."""

    def create(graph: TensorGraph, *args: Any, **kwargs: Any) -> Tensor | None:
        given = dict(zip(_PARAMETERS[name], args, strict=False)) | kwargs
        sizes = movement.sizes_of(pinned(given["shape"]))
        value = given.get("fill_value", _FILLS.get(name))
        if not isinstance(value, Tensor) and all(map(is_fixed, sizes)):
            return None
        number = lift(graph, value)
        default = np.float64 if name in _FILLS else number.dtype
        number = cast(number, np.dtype(default if given.get("dtype") is None else given["dtype"]))
        if not number.node.is_constant:
            return movement.copy(movement.broadcast_to(number, sizes))
        type = tensor_type(sizes, number.dtype)
        return Tensor.fresh(graph, graph.constant(number.node.attr("value"), type, here()))

    return create


def array(graph: TensorGraph, value: Any, dtype: Any = None, copy: bool | None = True, **how: Any) -> Tensor | None:
    """Trace `np.array`: a copy of a traced array, or traced numbers and arrays that are joined."""
    if isinstance(value, Tensor):
        x = value if dtype is None else cast(value, np.dtype(dtype))
        return movement.copy(x) if copy and x is value else x
    if type(value) not in (list, tuple):
        return None
    parts = [array(graph, x) if type(x) in (list, tuple) else x for x in value]
    tensors = [lift(graph, x) for x in parts]
    joined = movement.stack(tensors)
    return joined if dtype is None else cast(joined, np.dtype(dtype))


def asarray(graph: TensorGraph, value: Any, dtype: Any = None, order: Any = None, **how: Any) -> Tensor | None:
    return array(graph, value, dtype, copy=how.get("copy", False))


_TRACED: Final[Mapping[str, Create]] = MappingProxyType(
    {
        **{name: filled(name) for name in ("zeros", "ones", "empty", "full")},
        "array": array, "asarray": asarray, "asanyarray": asarray, "ascontiguousarray": asarray,
    }
)  # fmt: skip
CREATORS: Final[Mapping[Any, str]] = MappingProxyType(
    {
        getattr(np, name): name
        for name in (
            "zeros", "ones", "empty", "full", "array", "asarray", "asanyarray", "ascontiguousarray", "arange", "eye",
            "identity", "linspace", "logspace", "geomspace", "tri", "indices", "zeros_like", "ones_like", "empty_like",
            "full_like", "hanning", "hamming", "blackman", "bartlett", "kaiser",
        )
    }
)  # fmt: skip


class Joiner:
    """The stand-in for `np.c_` and `np.r_` in a traced function."""

    def __init__(self, graph: TensorGraph, joiner: Any, is_columns: bool) -> None:
        self._seen = graph, joiner, is_columns

    def __getitem__(self, key: Any) -> Any:
        graph, joiner, is_columns = self._seen
        keys = key if type(key) is tuple else (key,)
        if is_concrete(keys):
            return creating(graph, joiner.__getitem__)(key)
        parts = [lift(graph, joiner[x] if isinstance(x, slice) else x) for x in keys]
        if is_columns:
            parts = [movement.reshape(x, (x.size, 1)) if x.ndim < 2 else x for x in parts]
            return movement.concatenate(parts, -1)
        return movement.concatenate([movement.reshape(x, (1,)) if not x.ndim else x for x in parts])


class ArrayModule:
    """The stand-in for numpy in a traced function, whose functions that create arrays give concrete arrays."""

    def __init__(self, graph: TensorGraph, module: ModuleType) -> None:
        self._seen = graph, module

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return ModuleType

    def __getattr__(self, name: str) -> Any:
        graph, module = self._seen
        value = getattr(module, name)
        stand_in = substitute(graph, value)
        return value if stand_in is None else stand_in


def substitute(graph: TensorGraph, value: Any) -> Any:
    """Return the stand-in for numpy, `pypto.arrays` or a function of them that creates an array, or else None."""
    if value is np.c_ or value is np.r_:
        return Joiner(graph, value, value is np.c_)
    if graph.library == "torch":
        stand_in = words().substitute(graph, value)
        if stand_in is not None:
            return stand_in
    if isinstance(value, ModuleType):
        return ArrayModule(graph, value) if value.__name__ in ("numpy", "pypto.arrays") else None
    if isinstance(value, FunctionType | BuiltinFunctionType) and value in CREATORS:
        return creating(graph, value)
    return None
