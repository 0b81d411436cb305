"""Torch's words in functions that are traced for tensors: methods, functions of its modules, dtypes, and creation.

A word is a row of `torch_methods` or `torch_functions`. A word without a row is refused at the user's line.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Any, Final, NoReturn

import numpy as np

from pypto.arrays.torch_functions import FUNCTIONS, NEURAL
from pypto.arrays.torch_methods import METHODS, UPDATES, Word, dtype_of, sizes_in
from pypto.errors import Diagnostic
from pypto.errors.graph import NotTraced
from pypto.graph.ir.node import here
from pypto.graph.tracing.tensor import Tensor, TensorGraph
from pypto.runtime.launches import HOST

OF_NUMPY: Final = frozenset(("axis", "axes", "axis1", "axis2", "keepdims", "ddof", "out", "kind", "order", "decimals"))
TABLES: Final[Mapping[str, Mapping[str, Word]]] = MappingProxyType(
    {
        "torch": {**METHODS, **FUNCTIONS, **{name: NEURAL[name] for name in ("rms_norm", "layer_norm", "dropout")}},
        "torch.nn.functional": NEURAL,
        "torch.special": {**METHODS, "softmax": METHODS["softmax"], "expit": METHODS["sigmoid"]},
    }
)
MODULES: Final = (*TABLES, "torch.nn")
CREATED: Final = ("zeros", "ones", "empty", "full", "eye", "arange", "linspace", "tensor", "as_tensor", "scalar_tensor")


def refuse(what: str, problem: str = "it is not offered on tensors in a fused function") -> NoReturn:
    way = "write it with words that are (docs/arrays.md), or compute it outside of the function"
    raise NotTraced(here().loc(), what=f"`{what}`", problem=problem, way=way)


def called(what: str, word: Word, args: Any, kwargs: Any) -> Any:
    """Call a word; arguments that it does not take are an error at the user's line.

    Raises
    ------
    NotTraced
    """
    try:
        return word(*args, **kwargs)
    except TypeError as error:
        if isinstance(error, Diagnostic):
            raise
        problem = re.sub(r"^[\w.<>]+\(\)", "it", str(error))
    refuse(what, problem)


def method(tensor: Tensor, name: str, plain: Any) -> Any:
    """Return torch's method of a tensor, or None; `plain` is numpy's of that name, which keywords of numpy choose."""
    if name in UPDATES or (name.endswith("_") and name[:-1] in METHODS):
        return functools.partial(in_place, tensor, name)
    word = METHODS.get(name)
    if word is None:
        return None

    def chosen(*args: Any, **kwargs: Any) -> Any:
        is_numpy = not OF_NUMPY.isdisjoint(kwargs) or (name in ("cumsum", "cumprod") and not args and not kwargs)
        if plain is not None and is_numpy:
            return plain(*args, **kwargs)
        return called(f".{name}", word, (tensor, *args), kwargs)

    return chosen


def in_place(tensor: Tensor, name: str, *args: Any, **kwargs: Any) -> Tensor:
    """Write the result of a word to the tensor that it is called on."""
    value = called(f".{name}", UPDATES.get(name) or METHODS[name[:-1]], (tensor, *args), kwargs)
    shape = getattr(value, "shape", ())
    if isinstance(value, tuple) or (name != "copy_" and len(shape) > tensor.ndim):
        refuse(f".{name}", "it changes the shape of a tensor")
    tensor[...] = value
    return tensor


def torch_function(function: Any, args: Any, kwargs: Any) -> Any:
    """Return the result of a function of torch that is called on a traced tensor."""
    name, module = getattr(function, "__name__", "function"), getattr(function, "__module__", None) or "torch"
    graph = next(x.graph for x in flat((*args, *kwargs.values())) if isinstance(x, Tensor))
    if graph.library != "torch":
        problem = "the array is one of numpy"
        way = f"write numpy's words, as `np.{name}` or `x.{name}(…, axis=…)`, or pass tensors to the function"
        raise NotTraced(here().loc(), what=f"`torch.{name}`", problem=problem, way=way)
    word = NEURAL.get(name) if module in ("torch.nn.functional", "torch._C._nn") else TABLES["torch"].get(name)
    word = word or NEURAL.get(name)
    if word is None:
        refuse(f"{module.replace('torch._C._nn', 'torch.nn.functional')}.{name}")
    return called(f"torch.{name}", word, *with_input(args, kwargs))


def with_input(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return arguments with `input=`, torch's name of the first one, in its place."""
    if "input" not in kwargs:
        return args, kwargs
    return (kwargs["input"], *args), {name: x for name, x in kwargs.items() if name != "input"}


def flat(values: Any) -> list[Any]:
    """Return the leaves of nested sequences."""
    return [x for v in values for x in (flat(v) if isinstance(v, tuple | list) else (v,))]


class TorchModule:
    """The stand-in for a module of torch in a function that is traced for tensors."""

    def __init__(self, graph: TensorGraph, module: ModuleType) -> None:
        self._seen = graph, module

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return ModuleType

    def __getattr__(self, name: str) -> Any:
        graph, module = self._seen
        value = getattr(module, name)
        stand_in = substitute(graph, value)
        if stand_in is not None:
            return stand_in
        if module.__name__ == "torch" and name in CREATED:
            return functools.partial(created, graph, name)
        word = TABLES.get(module.__name__, {}).get(name)
        if word is None:
            return value
        return lambda *args, **kwargs: called(f"{module.__name__}.{name}", word, *with_input(args, kwargs))


def substitute(graph: TensorGraph, value: Any) -> Any:
    """Return the stand-in for a module or a dtype of torch, or None."""
    if isinstance(value, ModuleType):
        return TorchModule(graph, value) if value.__name__ in MODULES else None
    if type(value).__name__ == "dtype" and type(value).__module__ == "torch":
        known = dtype_of(value)
        return known if isinstance(known, np.dtype) else None
    return None


def created(graph: TensorGraph, name: str, *args: Any, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    """Create a tensor in the traced function, whose dtype is torch's default for its numbers."""
    if device is not None and not str(device).startswith(HOST.name):
        refuse(f"torch.{name}", f"a fused function has no tensors on {device}")
    if name in ("zeros", "ones", "empty"):
        args = (sizes_in(args),)
    numbers = args[1:] if name == "full" else args
    wanted = default_type(name, numbers) if dtype is None else dtype_of(dtype)
    ours: Any = {"tensor": np.array, "as_tensor": np.asarray, "scalar_tensor": np.array}.get(name) or getattr(np, name)
    return (graph.substitute(ours) or ours)(*args, dtype=wanted)


def default_type(name: str, numbers: Any) -> Any:
    """Return torch's dtype for new numbers: float32 for Python floats, int64 for integers; None keeps an array's."""
    if name in ("zeros", "ones", "empty", "eye", "linspace"):
        return numpy_default()
    leaves = flat(numbers)
    if any(hasattr(x, "dtype") for x in leaves):
        return None
    if any(type(x) is float for x in leaves):
        return numpy_default()
    return np.dtype(np.bool_) if leaves and all(type(x) is bool for x in leaves) else np.dtype(np.int64)


def numpy_default() -> Any:
    return dtype_of(sys.modules["torch"].get_default_dtype())
