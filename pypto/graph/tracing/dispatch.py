"""Dispatch of numpy protocols on traced arrays: finds the tracer of each ufunc, function, method and index."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.graph import NotTraced
from pypto.graph.capture.scalars import number_of
from pypto.graph.ir.node import here
from pypto.graph.tracing import methods, ordering, products, reductions, ufuncs
from pypto.graph.tracing.arguments import keyword_meant
from pypto.graph.tracing.boolean_indexing import MaskedElements, select
from pypto.graph.tracing.complex_numbers import arrays as complex_arrays
from pypto.graph.tracing.complex_numbers.fourier import TRANSFORMS
from pypto.graph.tracing.complex_numbers.pairs import is_complex
from pypto.graph.tracing.concrete import as_constant
from pypto.graph.tracing.decompositions import DERIVED
from pypto.graph.tracing.functions import FUNCTIONS
from pypto.graph.tracing.indexing import by_places, index_of, refuse, view
from pypto.graph.tracing.numerical import NUMERICAL, TWO_RESULTS, outer
from pypto.graph.tracing.numpy_steps import STEPS, UFUNCS, by_numpy
from pypto.graph.tracing.standard import STANDARD
from pypto.graph.tracing.tensor import Tensor, TensorGraph, untraced
from pypto.graph.tracing.ufuncs import assign, call, lift, where
from pypto.graph.tracing.values.words import IN_NUMPY, words

ARRAYS: Final = (  # functions whose result is an array without dimensions, and no number
    "where", "select", "copy", "zeros_like", "ones_like", "full_like", "empty_like", "broadcast_to",
    "tensordot", "roll",
)  # fmt: skip
COUNTING: Final = (
    "nonzero", "flatnonzero", "argwhere", "extract", "compress", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "union1d", "intersect1d", "setdiff1d", "setxor1d", "trim_zeros",
)  # fmt: skip
_OUTSIDE: Final = "compute it outside of the function"
REASONS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(  # why a function is refused, and the way out
    {
        **dict.fromkeys(COUNTING, ("how many elements it gives depends on their values", _OUTSIDE)),
        **dict.fromkeys(
            ("linalg.eig", "linalg.eigvals"),
            ("whether its results are complex depends on values", f"use `np.linalg.eigh`, or {_OUTSIDE}"),
        ),
        **dict.fromkeys(
            ("apply_along_axis", "apply_over_axes"),
            ("it calls a function for each slice", "use `pto.vmap(function, in_axes=…)`"),
        ),
    }
)
METHODS_WITH_STEPS: Final = ("var", "std")  # methods with arguments for which numpy is a step
LIKE_FUNCTIONS: Final = ("searchsorted", "repeat", "choose", "argpartition", "nonzero", "put")  # methods, too

_PRODUCTS: Final = ("matmul", "vecdot", "matvec", "vecmat")
UNLOWERED: Final = (*UFUNCS, *TWO_RESULTS)  # ufuncs that are steps of numpy, or have two results
_ALLOWED: Final = {"out", "dtype", "casting", "axis", "keepdims", "where", "initial"}


def ufunc_result(graph: TensorGraph, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of `__array_ufunc__`."""
    refuse_float_errors()
    if is_complex((*inputs, kwargs.get("dtype"))):
        return complex_arrays.ufunc_of(ufunc, method, inputs, kwargs)
    if ufunc.__name__ in UNLOWERED or method in ("at", "outer", "reduceat", "accumulate"):
        return unlowered(graph, ufunc, method, inputs, kwargs)
    if not kwargs and method == "__call__" and ufunc.__name__ not in _PRODUCTS:
        return call(graph, ufunc, inputs)
    refuse_strange(ufunc, kwargs)
    out = kwargs.get("out")
    targets = out if isinstance(out, tuple) else (out,)
    if method == "reduce":
        result = reductions.of_ufunc(graph, ufunc, method, inputs, kwargs)
    elif ufunc.__name__ in _PRODUCTS:
        result = products.of_ufunc(graph, ufunc.__name__, inputs, kwargs)
    else:
        result = call(graph, ufunc, inputs, kwargs.get("dtype"))
    if method == "__call__" and kwargs.get("where", True) is not True:
        result = chosen(ufunc, kwargs["where"], result, targets[0])
    if targets[0] is None:
        return result
    if not isinstance(targets[0], Tensor):
        way = "let it return a new array, or make the array that is written by `np.zeros_like(x, shape=…)`"
        raise untraced(ufunc.__name__, "`out` is an array that is not traced", way)
    if targets[0].is_number:  # `x += 1` gives a new number
        return result
    assign(targets[0], result, kwargs.get("casting", "same_kind"))
    return targets[0]


def chosen(ufunc: Any, mask: Any, result: Any, target: Any) -> Any:
    """Return the result of a ufunc where a mask is true, and what its target holds elsewhere.

    Raises
    ------
    NotTraced
        Without a target, where the other elements are arbitrary.
    """
    if not isinstance(target, Tensor):
        raise untraced(ufunc.__name__, "without `out`, `where` leaves elements arbitrary", "use `np.where(mask, a, b)`")
    return where(mask, ufuncs.cast(lift(target.graph, result), target.dtype), target)


def refuse_float_errors() -> None:
    """Refuse an operation whose errors of floats numpy would raise.

    Raises
    ------
    NotTraced
    """
    setting = next((f"{kind}={how!r}" for kind, how in np.geterr().items() if how in ("raise", "call")), None)
    if setting is not None:
        raise NotTraced(
            here().loc(), what=f"`np.errstate({setting})`", problem="kernels raise no errors of floats",
            way="leave it out, and test the values: `np.isfinite(x).all()` of the result",
        )  # fmt: skip


def refuse_strange(ufunc: Any, kwargs: dict[str, Any]) -> None:
    """Refuse arguments of a ufunc that have no meaning in a trace.

    Raises
    ------
    NotTraced
    """
    strange = {name for name, value in kwargs.items() if name not in _ALLOWED and not is_default(value)}
    if strange:
        raise untraced(ufunc.__name__, f"the argument `{min(strange)}` has no meaning here")


def unlowered(graph: TensorGraph, ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a ufunc without a row, or of a method that is composed or a step of numpy."""
    refuse_strange(ufunc, kwargs)
    name = ufunc.__name__
    if method == "at":
        return ordering.update_at(graph, ufunc, *inputs)
    if method == "outer":
        return outer(graph, ufunc, *inputs)
    if method == "accumulate" and name in reductions.SCANS:
        result = reductions.of_ufunc(graph, ufunc, method, inputs, kwargs)
        return ufuncs.to_out(result, *kwargs.get("out", (None,)))
    if method == "__call__" and name in TWO_RESULTS and not kwargs:
        return TWO_RESULTS[name](*inputs)
    function = ufunc if method == "__call__" else getattr(ufunc, method)
    return by_numpy(function, f"np.{name}" if method == "__call__" else f"np.{name}.{method}")(*inputs, **kwargs)


def is_default(value: Any) -> bool:
    """Whether an argument of a ufunc has its default value."""
    return value is None or value is True or (isinstance(value, str) and value == "K")


def function_result(graph: TensorGraph, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of `__array_function__`."""
    name = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
    if name in TRANSFORMS:
        return called(name, TRANSFORMS[name], args, kwargs, function)
    if is_complex((args, kwargs)) and not complex_arrays.is_generic(name):
        return complex_arrays.function_of(name, function, args, kwargs)
    implementation = FUNCTIONS.get(name) or STANDARD.get(name) or DERIVED.get(name) or NUMERICAL.get(name)
    if implementation is not None:
        return called(name, implementation, args, kwargs, function)
    if name in STEPS:
        return STEPS[name](*args, **kwargs)
    if name in methods.METHODS and args:
        return called(name, methods.METHODS[name], (lift(graph, args[0]), *args[1:]), kwargs, function)
    problem, way = REASONS.get(name, ("it is not offered", f"{_OUTSIDE}, or write it with functions that are"))
    raise NotTraced(here().loc(), what=f"`np.{name}`", problem=problem, way=way)


def like_numpy(name: str, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Mark a result without dimensions as an array or as a scalar, as numpy returns it."""
    if isinstance(result, Tensor) and not any(result is x for x in (*args, *kwargs.values())):
        of_number = isinstance(args[0], Tensor) and args[0].is_number if args else True
        result.marked(name in ARRAYS or (name in methods.SHAPING and not of_number))
    return result


def called(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], of_numpy: Any
) -> Any:
    """Call the tracer of a function; if it lacks an argument, numpy's function is a step between kernels."""
    try:
        return like_numpy(name, function(*args, **kwargs), args, kwargs)
    except TypeError:
        parameters = inspect.signature(function).parameters
        others = (
            []
            if any(p.kind is p.VAR_KEYWORD for p in parameters.values())
            else [k for k in kwargs if k not in parameters]
        )
        if not others:
            raise
    return by_numpy(of_numpy, f"np.{name}")(*args, **kwargs)


def attribute(tensor: Tensor, name: str) -> Any:
    """Return a method or property of arrays by name."""
    if tensor.graph.library == "torch":
        plain = methods.METHODS[name].__get__(tensor) if name in methods.METHODS else None
        word = words().method(tensor, name, plain)
        if word is not None:
            return word
    if tensor.dtype.kind == "c":
        value = complex_arrays.attribute_of(tensor, name)
        if value is not None:
            return value
    if name in methods.PROPERTIES:
        return methods.like_numpy(name, methods.PROPERTIES[name](tensor), tensor)
    if name in methods.METHODS:
        return method_of(tensor, name)
    if name in LIKE_FUNCTIONS:
        return lambda *args, **how: tensor.graph.function(getattr(np, name), (tensor, *args), how)
    if tensor.graph.is_lazy:
        raise AttributeError(name)
    if name in IN_NUMPY:
        problem = "it is a word of torch, and this is an array of numpy"
        raise NotTraced(here().loc(), what=f"`.{name}`", problem=problem, way=f"write `{IN_NUMPY[name]}`")
    raise methods.untraced(f"`.{name}`")


def method_of(tensor: Tensor, name: str) -> Callable[..., Any]:
    """Return a method of arrays."""
    tracer = methods.METHODS[name]
    if name in METHODS_WITH_STEPS:
        of_numpy = getattr(np.ndarray, name)
        step = lambda *args, **how: called(name, tracer, (tensor, *args), how, of_numpy)  # noqa: E731
        return lambda *args, **how: in_numpys_words(name, step, args, how)
    method = tracer.__get__(tensor)
    return lambda *args, **how: methods.like_numpy(name, in_numpys_words(name, method, args, how), tensor)


def in_numpys_words(name: str, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method of arrays; a keyword of another library is refused with numpy's.

    Raises
    ------
    NotTraced
    """
    try:
        return method(*args, **kwargs)
    except TypeError:
        meant = {k: keyword_meant(k, ("axis", "keepdims")) for k in kwargs if k in ("dim", "dims", "keepdim")}
        if not meant:
            raise
    keyword, ours = next(iter(meant.items()))
    problem = "it is a keyword of torch, and this is an array of numpy"
    raise NotTraced(here().loc(), what=f"`{keyword}=` of `.{name}`", problem=problem, way=f"write `{ours}=`")


def assign_attribute(tensor: Tensor, name: str, value: Any) -> None:
    """Handle ``tensor.name = value`` of a name that numpy's arrays have.

    Raises
    ------
    NotTraced
    """
    if name in ("real", "imag") and tensor.dtype.kind == "c":
        tensor.moved(name)[...] = value
    elif name == "real":
        tensor[...] = value
    else:
        way = "write `x = x.reshape(…)`" if name == "shape" else "write `x[...] = …`"
        raise NotTraced(here().loc(), what=f"an assignment to `.{name}`", problem="it is not offered", way=way)


def read(tensor: Tensor, key: Any) -> Any:
    """``tensor[key]``."""
    index = index_of(tensor, by_places(tensor, as_constant(key)))
    part = view(tensor, index)
    if index.array is None:
        return part
    if getattr(index.array, "dtype", None) == np.bool_:
        return select(part, index.array)
    if tensor.dtype.kind == "c":
        return complex_arrays.read(part, index)
    picked = (
        ordering.take_several(part, (index.array, *index.others), index.axis)
        if index.others
        else ordering.take(part, index.array, axis=index.axis)
    )
    if picked.ndim and not any(np.ndim(x) for x in (index.array, *index.others)):
        picked.storage.share()  # numpy gives a view where all indices are numbers
        tensor.storage.share()
    return picked


def write_at(tensor: Tensor, key: Any, value: Any) -> None:
    """``tensor[key] = value``."""
    key = as_constant(key)
    if type(value) is not MaskedElements and (
        type(value) in (list, tuple) or getattr(number_of(value), "shape", ()) != ()
    ):
        key = by_places(tensor, key)
    index = index_of(tensor, key)
    part = view(tensor, index)
    if index.array is None:
        assign(part, value)
        return
    if type(value) is MaskedElements:
        value = value.into(tensor, lift(tensor.graph, index.array))
    elif tensor.dtype.kind == "c" and getattr(index.array, "dtype", None) != np.bool_:
        complex_arrays.write_at(tensor, key, as_constant(value))
        return
    if getattr(index.array, "dtype", None) != np.bool_:
        ordering.put(part, (index.array, *index.others), index.axis, value)
        return
    if getattr(number_of(value), "shape", ()) not in ((), tensor.shape):
        raise refuse("what a mask picks is written with an array", "use `np.where(mask, a, b)`")
    mask = lift(tensor.graph, index.array)
    mask = mask.moved("reshape", shape=(*mask.shape, *(1,) * (tensor.ndim - mask.ndim)))
    assign(part, where(mask, value, part))
