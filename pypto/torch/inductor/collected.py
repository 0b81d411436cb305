"""Collects the kernels of a compiled function: they are stored with its graphs, and found from the function."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from contextvars import ContextVar
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pypto.torch.inductor.generated import Generated

_MARK: Final = "pypto_kernels"  # on the function of a compiled graph


class Kernels(list["Generated"]):
    """The kernels of one graph, of its forward and backward pass, in the order of their definition."""

    def of(self, run: Any) -> Any:
        """Attaches the kernels to a compiled graph's function, inside of Dynamo's wrappers, and returns it."""
        setattr(innermost(run), _MARK, self)
        return run


# Where kernels of the graph go that is compiled.
COLLECTED: Final[ContextVar[Kernels | None]] = ContextVar("COLLECTED", default=None)


def kernels(compiled: Any) -> list[Generated]:
    """Returns the kernels that Inductor has written for a compiled function or module so far.

    Parameters
    ----------
    compiled : callable
        The result of ``torch.compile(…, backend="pypto-inductor")``.

    Returns
    -------
    list of Generated
        Each has a `name`, its `source`, the `lines` of the model that it computes, and as `kernel` a kernel with
        `inspect`, `explain` and `specializations`. Kernels of a backward pass are there once it has run.

    Examples
    --------
    >>> import torch, pypto.torch
    >>> fast = torch.compile(lambda x: torch.relu(x) * 2, backend="pypto-inductor")
    >>> fast(torch.ones(4))
    tensor([2., 2., 2., 2.])
    >>> [kernel.name for kernel in pypto.torch.kernels(fast)]
    ['triton_poi_fused_mul_relu_0']
    """
    backend, seen = backend_of(compiled), set[CodeType]()
    return [kernel for function in traced(compiled) for graph in graphs(function, backend, seen) for kernel in graph]


def backend_of(compiled: Any) -> Any:
    """Returns the backend object that torch.compile created for this function, which the entries of its cache name."""
    wrapper = getattr(compiled, "forward", compiled)
    if not hasattr(wrapper, "_torchdynamo_orig_callable"):
        raise TypeError(f"{compiled!r} is not what torch.compile gave")
    backend = inspect.getclosurevars(wrapper).nonlocals["callback"]
    while hasattr(backend, "_torchdynamo_orig_backend"):
        backend = backend._torchdynamo_orig_backend
    return backend


def traced(compiled: Any) -> list[FunctionType]:
    """Returns the functions in which Dynamo may have begun."""
    original = innermost(getattr(compiled, "forward", compiled))
    module = getattr(compiled, "_orig_mod", None)
    functions = [original, *([module.forward] if module is not None else [])]
    plain = (getattr(function, "__func__", function) for function in functions)
    return [function for function in plain if isinstance(function, FunctionType)]


def graphs(function: FunctionType, backend: Any, seen: set[CodeType]) -> Iterator[Kernels]:
    """Yields the kernels of each graph of a function, and of the functions that resume behind its graph breaks."""
    entries: Any = importlib.import_module("torch._dynamo.eval_frame")._debug_get_cache_entry_list
    if function.__code__ in seen:
        return
    seen.add(function.__code__)
    for entry in entries(function.__code__):
        if entry.backend is not backend:
            continue
        for name in entry.code.co_names:
            value = function.__globals__.get(name)
            if name.startswith("__compiled_fn"):
                yield marked(value)
            elif name.startswith("__resume_at") and isinstance(value, FunctionType):
                yield from graphs(value, backend, seen)


def marked(function: Any) -> Kernels:
    """Returns the kernels that are attached to the function of a compiled graph."""
    mark: Any = getattr(innermost(function), _MARK, None)
    return mark if isinstance(mark, Kernels) else Kernels()


def innermost(function: Any) -> Any:
    """Returns a function without Dynamo's wrappers, which Dynamo may replace."""
    return importlib.import_module("torch._dynamo.eval_frame").innermost_fn(function)
