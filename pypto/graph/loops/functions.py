"""numpy's functions and methods, and Python's, as a loop's kernel computes them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import FunctionType, MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.graph.loops import masks
from pypto.graph.loops.arrays import (
    Axis,
    Counting,
    Elementwise,
    Filled,
    Permuted,
    Reduced,
    View,
    broadcast,
)
from pypto.graph.loops.expressions import Constant, Expressions, Method, is_array
from pypto.graph.loops.indexing import as_index, difference
from pypto.graph.loops.masks import Masked
from pypto.graph.loops.numbers import NotCompiled, Number, cast, known, storage_type
from pypto.graph.loops.products import dot
from pypto.graph.loops.stepping import backwards, counted, numbered, together
from pypto.graph.loops.store import copied
from pypto.graph.loops.writer import ONE, ZERO

_RENAMED: Final = MappingProxyType({"abs": "absolute", "true_divide": "divide", "mod": "remainder", "pow": "power"})


def called(e: Expressions, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Return the result of a call.

    Raises
    ------
    NotCompiled
        When the function, or an argument of it, is not offered in loops.
    """
    if isinstance(function, Method):
        handler, args = FUNCTIONS.get(function.name), [function.owner, *args]
        if isinstance(function.owner, Masked):
            return masks.called(e, function.name, args, kwargs)
        if handler is None:
            raise NotCompiled(f"`.{function.name}()`")
        return checked_call(function.name, handler, e, args, kwargs)
    if not isinstance(function, Constant):
        raise NotCompiled("a call of what is no function")
    name = getattr(function.value, "__name__", "")
    if any(isinstance(x, Masked) for x in args) and getattr(np, name, len) in (function.value, len):
        return e.apply(name, *args) if isinstance(function.value, np.ufunc) else masks.called(e, name, args, kwargs)
    plain = getattr(function.value, "__wrapped__", None)  # what a trace puts another function in place of
    value = plain if plain is not None and plain is getattr(np, name, None) else function.value
    if isinstance(value, FunctionType) and getattr(np, name, None) is not value:
        return e.inline(value, args, kwargs)
    if isinstance(value, type) and issubclass(value, np.generic):
        return converted(e, args[0], np.dtype(value))
    of_python = BUILTINS.get(name, (None, None))
    if of_python[0] is value:
        return checked_call(name, of_python[1], e, args, kwargs)
    if getattr(np, name, None) is value and name in FUNCTIONS:
        return checked_call(name, FUNCTIONS[name], e, args, kwargs)
    return call_of_ufunc(e, value, name, args, kwargs)


def call_of_ufunc(e: Expressions, value: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Return the result of a ufunc, or of its outer form."""
    owner = getattr(value, "__self__", None)
    if name == "outer" and isinstance(owner, np.ufunc) and not kwargs:
        return outer(e, args[0], args[1], owner.__name__)
    if not isinstance(value, np.ufunc) or kwargs:
        raise NotCompiled(f"a call of `{name or value}`")
    return e.apply(_RENAMED.get(name, name), *args)


def checked_call(name: str, handler: Any, e: Expressions, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call the handler of a function; an argument that it does not take is refused."""
    try:
        return handler(e, *args, **kwargs)
    except TypeError as error:
        raise NotCompiled(f"`{name}`: {error}") from None


def attribute(e: Expressions, x: Any, name: str) -> Any:
    """Return an attribute of an array."""
    if name == "shape":
        return x.extents
    if name == "ndim":
        return known(len(x.extents))
    if name == "dtype":
        return Constant(x.dtype)
    if name == "size":
        size: Any = ONE
        for extent in x.extents:
            size = e.apply("multiply", size, extent)
        return size
    if name == "T":
        return transpose(e, x)
    return Method(x, name)


# --- types and shapes -------------------------------------------------------------------------------------------------


def converted(e: Expressions, x: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number or an array in another type."""
    if dtype.kind not in "biuf":
        raise NotCompiled(f"numbers of type {dtype}")
    if isinstance(x, Number):
        return known(dtype.type(x.value)) if x.is_known else Number(e.w.variable("v", cast(x, dtype)), dtype)
    return Elementwise("cast", (x.dtype,), (x,), x.extents, dtype)


def dtype_of(x: Any, default: Any) -> np.dtype[Any]:
    """Return the type that an argument `dtype` names."""
    if x is None or (isinstance(x, Constant) and x.value is None):
        return storage_type(default)
    if not isinstance(x, Constant):
        raise NotCompiled("a type that is not known")
    dtype = storage_type(x.value)
    if dtype.kind not in "biuf":
        raise NotCompiled(f"arrays of type {dtype}")
    return dtype


def astype(e: Expressions, x: Any, dtype: Any) -> Any:
    return copied(e.w, converted(e, x, dtype_of(dtype, None)))


def shape_of(shape: Any) -> tuple[Number, ...]:
    """Return the extents that an argument `shape` states."""
    rows = shape if isinstance(shape, tuple) else (shape,)
    if not all(isinstance(x, Number) and storage_type(x.kind).kind in "iu" for x in rows):
        raise NotCompiled("a shape that is no tuple of integers")
    return tuple(map(as_index, rows))


def filled(e: Expressions, number: Any, shape: Any, dtype: Any) -> Any:
    return copied(e.w, Filled(e.w.stored(number), shape_of(shape), dtype))


def zeros(e: Expressions, shape: Any, dtype: Any = None) -> Any:
    return filled(e, ZERO, shape, dtype_of(dtype, np.float64))


def ones(e: Expressions, shape: Any, dtype: Any = None) -> Any:
    return filled(e, ONE, shape, dtype_of(dtype, np.float64))


def full(e: Expressions, shape: Any, value: Number, dtype: Any = None) -> Any:
    return filled(e, value, shape, dtype_of(dtype, storage_type(value.kind)))


def zeros_like(e: Expressions, x: Any, dtype: Any = None) -> Any:
    return filled(e, ZERO, x.extents, dtype_of(dtype, x.dtype))


def ones_like(e: Expressions, x: Any, dtype: Any = None) -> Any:
    return filled(e, ONE, x.extents, dtype_of(dtype, x.dtype))


def arange(e: Expressions, *bounds: Number) -> Any:
    start, stop, step = counted(e, *bounds).start, counted(e, *bounds).stop, counted(e, *bounds).step
    if step != 1 or any(storage_type(x.kind).kind not in "iu" for x in bounds):
        raise NotCompiled("`np.arange` of floats, or with a step")
    return Counting(start, ONE, (difference(stop, start),), np.dtype(np.int64))


def copy(e: Expressions, x: Any) -> Any:
    return copied(e.w, x)


def flip(e: Expressions, x: Any, axis: Any = None) -> Any:
    reversed_axes = axes_of(x, axis)
    flags = tuple(n in reversed_axes for n in range(len(x.extents)))
    return Permuted(x, tuple(range(len(x.extents))), flags)


def transpose(e: Expressions, x: Any, axes: Any = None) -> Any:
    rank = len(x.extents)
    order = tuple(reversed(range(rank))) if axes is None else tuple(n.value for n in axes)
    if isinstance(x, View):
        return View(x.base, x.starts, tuple(x.axes[n] for n in order))
    return Permuted(x, order, (False,) * rank)


def where(e: Expressions, condition: Any, yes: Any, no: Any) -> Any:
    if isinstance(condition, Number):
        condition = e.truth(condition)
    elif condition.dtype != np.bool_:
        condition = e.apply("not_equal", condition, ZERO)
    types = [x.kind if isinstance(x, Number) else x.dtype for x in (yes, no)]
    if all(isinstance(t, type) for t in types):
        types = [storage_type(t) for t in types]
    result = np.result_type(*(t if isinstance(t, np.dtype) else t(0) for t in types))
    if all(isinstance(x, Number) for x in (condition, yes, no)):
        text = f"pto.where({condition.text}, {e.w.typed(yes, result)}, {e.w.typed(no, result)})"
        if condition.is_known:
            return converted(e, yes if condition.value else no, result)
        return Number(e.w.variable("v", text), result)
    rows = [Filled(x, (), result) if isinstance(x, Number) and x.is_known else x for x in (yes, no)]
    extents = broadcast([x for x in (condition, *rows) if is_array(x)])
    return Elementwise("where", (bool, result, result), (condition, *rows), extents, result)


# --- reductions and products ------------------------------------------------------------------------------------------


def axes_of(x: Any, axis: Any) -> tuple[int, ...]:
    """Return the axes that an argument `axis` names."""
    rank = len(x.extents)
    if axis is None or (isinstance(axis, Constant) and axis.value is None):
        return tuple(range(rank))
    rows = axis if isinstance(axis, tuple) else (axis,)
    if not all(isinstance(n, Number) and n.is_known for n in rows):
        raise NotCompiled("an axis that is not known")
    return tuple(operator.index(n.value) % rank for n in rows)


def reduction(name: str) -> Callable[..., Any]:
    def reduced(e: Expressions, x: Any, axis: Any = None, dtype: Any = None, keepdims: Any = None) -> Any:
        if isinstance(x, Number):
            return x
        kind = dtype_of(dtype, x.dtype)
        if name in ("sum", "prod") and dtype is None and kind.kind in "biu":
            kind = np.dtype(np.uint64 if kind.kind == "u" else np.int64)
        if kind == np.bool_:
            raise NotCompiled(f"`{name}` of bools")
        if name in ("max", "min") and any(x.extents[n].value == 0 for n in axes_of(x, axis)):
            raise NotCompiled("a reduction of no elements")
        keeps = keepdims is not None and bool(keepdims.value)
        return e.loaded(Reduced(name, x, axes_of(x, axis), kind, keeps))

    return reduced


def mean(e: Expressions, x: Any, axis: Any = None, keepdims: Any = None) -> Any:
    if x.dtype.kind != "f":
        x = converted(e, x, np.dtype(np.float64))
    count: Any = ONE
    for n in axes_of(x, axis):
        count = e.apply("multiply", count, x.extents[n])
    total = reduction("sum")(e, x, axis, None, keepdims)
    dtype = storage_type(total.kind if isinstance(total, Number) else total.dtype)
    return e.apply("divide", total, converted(e, count, dtype))


def outer(e: Expressions, a: Any, b: Any, name: str = "multiply") -> Any:
    first = View(a.base, a.starts, (*a.axes, Axis(None, 1, ONE))) if isinstance(a, View) else None
    if first is None or len(a.extents) != 1 or len(b.extents) != 1:
        raise NotCompiled("`np.outer` of what is no vector")
    return e.apply(name, first, b)


def clip(e: Expressions, x: Any, low: Any, high: Any) -> Any:
    return e.apply("minimum", e.apply("maximum", x, low), high)


# --- Python's functions -----------------------------------------------------------------------------------------------


def extreme(name: str) -> Callable[..., Any]:
    """`max` or `min` of numbers: the first one, unless a later one is greater or less."""

    def chosen(e: Expressions, *numbers: Any) -> Any:
        rows = numbers[0] if len(numbers) == 1 and isinstance(numbers[0], tuple) else numbers
        if not rows or not all(isinstance(x, Number) for x in rows):
            raise NotCompiled(f"`{name}` of what is no number")
        result = rows[0]
        for x in rows[1:]:
            better = e.apply("greater" if name == "max" else "less", x, result)
            known_best = x if better.value else result
            result = known_best if better.is_known else e.choose(e.truth(better), x, result)
        return result

    return chosen


def length(e: Expressions, x: Any) -> Any:
    return known(len(x)) if isinstance(x, tuple) else x.extents[0]


def to_int(e: Expressions, x: Any) -> Any:
    if not isinstance(x, Number):
        raise NotCompiled("`int` of an array")
    if x.is_known:
        return known(int(x.value))
    return Number(e.w.variable("v", f"pto.cast({x.text}, pto.int64)"), int, x.linear)


def to_float(e: Expressions, x: Any) -> Any:
    if not isinstance(x, Number):
        raise NotCompiled("`float` of an array")
    return known(float(x.value)) if x.is_known else Number(e.w.variable("v", cast(x, float)), float)


def to_bool(e: Expressions, x: Any) -> Any:
    return e.truth(x)


def absolute(e: Expressions, x: Any) -> Any:
    return e.apply("absolute", x)


BUILTINS: Final[Mapping[str, tuple[Any, Callable[..., Any]]]] = MappingProxyType(
    {
        "range": (range, counted), "max": (max, extreme("max")), "min": (min, extreme("min")), "len": (len, length),
        "int": (int, to_int), "float": (float, to_float), "bool": (bool, to_bool), "abs": (abs, absolute),
        "zip": (zip, together), "enumerate": (enumerate, numbered), "reversed": (reversed, backwards),
    }
)  # fmt: skip
FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        **{name: reduction(name) for name in ("sum", "prod", "max", "min")},
        "amax": reduction("max"), "amin": reduction("min"), "mean": mean, "dot": dot, "outer": outer, "clip": clip,
        "zeros": zeros, "empty": zeros, "ndarray": zeros, "ones": ones, "full": full, "zeros_like": zeros_like,
        "arange": arange,
        "empty_like": zeros_like, "ones_like": ones_like, "copy": copy, "flip": flip, "transpose": transpose,
        "where": where, "astype": astype,
    }
)  # fmt: skip
