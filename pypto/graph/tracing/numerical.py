"""Numerical functions of numpy as compositions: padding, polynomials, integrals, choices, elements by known places."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.graph import WrongShapes
from pypto.graph.ir.dims import is_fixed
from pypto.graph.ir.node import here
from pypto.graph.ir.types import is_floating
from pypto.graph.tracing import methods, movement, ordering
from pypto.graph.tracing.boolean_indexing import MaskedElements
from pypto.graph.tracing.concrete import as_constant
from pypto.graph.tracing.tensor import Tensor, TensorGraph, graph_of, place_of
from pypto.graph.tracing.ufuncs import call, lift, to_out

MODES: Final = ("edge", "reflect", "symmetric", "wrap", "empty")  # of `np.pad`, which read the array itself


def outer(graph: TensorGraph, ufunc: Any, a: Any, b: Any) -> Tensor:
    """Trace `ufunc.outer`: all pairs of elements."""
    x, y = lift(graph, a), lift(graph, b)
    return call(graph, ufunc, (movement.reshape(x, (*x.node.shape, *(1,) * y.ndim)), y))


def modf(x: Any) -> tuple[Any, Any]:
    """Return the fraction and the integer part, both with the sign of the number."""
    integers = np.trunc(x)
    fraction = np.where(np.isinf(x), np.zeros((), integers.dtype), x - integers)
    return np.copysign(fraction, x), integers


TWO_RESULTS: Final[Mapping[str, Callable[..., tuple[Any, Any]]]] = MappingProxyType(
    {"divmod": lambda x, y: (np.floor_divide(x, y), np.remainder(x, y)), "modf": modf}
)


# --- elements by known places ----------------------------------------------------------------------------------------


def pad(x: Tensor, pad_width: Any, mode: str) -> Tensor:
    """Take the elements of an array and of its padding by their places."""
    for axis, (before, after) in enumerate(np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()):
        size = x.shape[axis]
        if not is_fixed(size):
            raise methods.untraced("`np.pad` of a dimension by name", "give its size as a number")
        if before or after:
            place_mode: Any = "edge" if mode == "empty" else mode
            x = ordering.take(x, np.pad(np.arange(size), (before, after), place_mode), axis)
    return x


def repeat(a: Any, repeats: Any, axis: Any = None) -> Tensor:
    """Trace `np.repeat` with one count for all elements, or with known counts."""
    if isinstance(repeats, int | np.integer):
        return movement.repeat(a, repeats, axis)
    x = movement.ravel(a) if axis is None else a
    at = 0 if axis is None else place_of(axis, x.ndim)
    counts = known(repeats, "a count for each element")
    repeated: Any = np.take(x, np.repeat(np.arange(x.shape[at]), counts), at)
    return lift(x.graph, repeated)


def known(value: Any, what: str) -> Any:
    """Return the values of an argument that decides about a shape.

    Raises
    ------
    NeedsValue
        When they are known only when a plan runs.
    """
    value = as_constant(value)
    if isinstance(value, Tensor):
        value = value.needs_value(what, "give it as a constant: which elements remain depends on it")
    return np.asarray(value)


def by_places(change: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return the tracer of a function that leaves elements out, or repeats them, by known places along an axis."""

    def function(arr: Any, obj: Any, axis: Any = None) -> Tensor:
        x = movement.ravel(arr) if axis is None else arr
        at = 0 if axis is None else place_of(axis, x.ndim)
        places = obj if isinstance(obj, slice | int) else known(obj, "an index")
        return ordering.take(x, change(np.arange(x.shape[at]), places), at)

    return function


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Tensor:
    """Trace `np.insert` before one known place."""
    if not isinstance(obj, int | np.integer):
        raise methods.untraced("`np.insert` at several places", "join the parts by `np.concatenate`")
    x = movement.ravel(arr) if axis is None else arr
    at = 0 if axis is None else place_of(axis, x.ndim)
    given = lift(x.graph, values, x.dtype)
    full: Any = movement.reshape(given, (*(1,) * (x.ndim - given.ndim), *given.node.shape))
    value = np.moveaxis(full, 0, at)
    shape = tuple(value.shape[at] if d == at else n for d, n in enumerate(x.shape))
    place = int(obj) if obj >= 0 else int(obj) + x.shape[at]
    lead = (slice(None),) * at
    middle = movement.broadcast_to(value, shape)
    return movement.concatenate([x[(*lead, slice(None, place))], middle, x[(*lead, slice(place, None))]], at)


# --- choices ---------------------------------------------------------------------------------------------------------


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **how: Any) -> Any:
    """Trace `np.piecewise`: each function gets the elements of its condition."""
    is_several = type(condlist) in (list, tuple) or condlist.ndim > x.ndim
    conditions = list(condlist) if is_several else [condlist]
    if len(funclist) == len(conditions) + 1:
        conditions.append(~functools.reduce(operator.or_, conditions))
    if len(funclist) != len(conditions):
        problem = f"{len(funclist)} functions for {len(conditions)} conditions"
        raise WrongShapes(here().loc(), what="`np.piecewise`", problem=problem)
    result: Any = np.zeros_like(x)
    for condition, value in zip(conditions, funclist, strict=True):
        result[condition] = value(x[condition], *args, **how) if callable(value) else value
    return result


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    if mode not in ("clip", "raise"):
        raise methods.untraced(f"`np.choose` with mode={mode!r}", "reduce the index by `%`")
    result: Any = choices[0]
    for number, choice in enumerate(list(choices)[1:], 1):
        result = np.where(a >= number, choice, result)
    return to_out(result, out)


def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    x = movement.ravel(a) if axis is None else a
    at = 0 if axis is None else place_of(axis, x.ndim)
    if not isinstance(condition, Tensor):  # what is missing at its end is false
        condition = np.flatnonzero(condition)
    return x[(*(slice(None),) * at, condition)]


def put(a: Tensor, ind: Any, v: Any, mode: str = "raise") -> None:
    """Trace `np.put`: replace elements by their places in C order; values are repeated as often as needed."""
    if mode != "raise":
        raise methods.untraced(f"`np.put` with mode={mode!r}", "bring the indices into range")
    places: Any = np.ravel(ind if isinstance(ind, Tensor) else np.asarray(ind))
    elements = movement.copy(movement.ravel(a))
    elements[places] = resize(lift(a.graph, v, a.dtype), places.shape)
    a[...] = movement.reshape(elements, a.shape)


def putmask(a: Tensor, mask: Any, values: Any) -> None:
    a[...] = np.where(np.reshape(mask, a.shape), resize(lift(a.graph, values, a.dtype), a.shape), a)


def place(arr: Tensor, mask: Any, vals: Any) -> None:
    """Trace `np.place`: the elements that a mask picks get the values in turn."""
    values = movement.ravel(lift(arr.graph, vals, arr.dtype))
    numbers = (np.cumsum(np.ravel(mask)) - 1) % values.shape[0]
    arr[...] = np.where(np.reshape(mask, arr.shape), movement.reshape(values[numbers], arr.shape), arr)


def resize(a: Any, new_shape: Any) -> Any:
    """Trace `np.resize`: the elements in C order, repeated as often as needed."""
    shape = (new_shape,) if isinstance(new_shape, int) else tuple(new_shape)
    elements = movement.ravel(a)
    return movement.reshape(ordering.take(elements, np.arange(math.prod(shape)) % elements.shape[0]), shape)


def angle(z: Any, deg: bool = False) -> Any:
    result: Any = np.arctan2(0, z)
    return result * (180 / np.pi) if deg else result


def extract(condition: Any, arr: Any) -> Tensor | MaskedElements:
    picked: Tensor | MaskedElements = movement.ravel(arr)[np.ravel(condition)]
    return picked


# --- numbers ---------------------------------------------------------------------------------------------------------


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    at = place_of(axis, y.ndim)
    lead = (slice(None),) * at
    widths: Any = dx if x is None else np.diff(x, axis=axis if np.ndim(x) == y.ndim else -1)
    if x is not None and np.ndim(x) == 1:
        widths = widths.reshape((*(1,) * at, -1, *(1,) * (y.ndim - at - 1)))
    return (widths * (y[(*lead, slice(1, None))] + y[(*lead, slice(None, -1))]) / 2.0).sum(axis=at)


def polyval(p: Any, x: Any) -> Any:
    """Evaluate a polynomial by Horner's rule, with the coefficient of the highest power first."""
    coefficients = p if isinstance(p, Tensor) else np.asarray(p)
    result: Any = np.zeros_like(x)
    for n in range(len(p)):
        result = result * x + coefficients[n]
    return result


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    count = x.shape[0] if N is None else N
    widened = x.astype(np.promote_types(x.dtype, int))
    powers = [np.ones_like(widened)]
    for _ in range(count - 1):
        powers.append(powers[-1] * widened)
    return np.stack(powers if increasing else powers[::-1], axis=1)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    parts = [np.diff(np.ravel(ary))]
    if to_begin is not None:
        parts.insert(0, np.ravel(lift(ary.graph, to_begin, ary.dtype)))
    if to_end is not None:
        parts.append(np.ravel(lift(ary.graph, to_end, ary.dtype)))
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def kron(a: Any, b: Any) -> Any:
    graph = graph_of(a, b)
    x, y = lift(graph, a), lift(graph, b)
    rank = max(x.ndim, y.ndim)
    first, second = ((*(1,) * (rank - t.ndim), *t.node.shape) for t in (x, y))
    left = movement.reshape(x, tuple(n for size in first for n in (size, 1)))
    right = movement.reshape(y, tuple(n for size in second for n in (1, size)))
    product = call(graph, np.multiply, (left, right))
    return movement.reshape(product, tuple(p * q for p, q in zip(first, second, strict=True)))


def without_nan(scan: Callable[..., Any], neutral: int) -> Callable[..., Any]:
    def function(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        numbers = np.where(np.isnan(a), np.asarray(neutral, a.dtype), a) if is_floating(a.dtype) else a
        return to_out(scan(numbers, axis=axis, dtype=dtype), out)

    return function


def sinc(x: Any) -> Any:
    y = np.pi * np.where(x == 0, np.asarray(1e-20, np.result_type(x.dtype, np.float32)), x)
    return np.where(x == 0, np.ones((), y.dtype), np.sin(y) / y)


def shifted_by_half(sign: int) -> Callable[..., Any]:
    """Return `fftshift` or `ifftshift`: rotate every axis by half of its size."""

    def shift(x: Any, axes: Any = None) -> Any:
        chosen = tuple(range(x.ndim)) if axes is None else (axes,) if isinstance(axes, int) else tuple(axes)
        half = [x.shape[d] // 2 if sign > 0 else -(x.shape[d] // 2) for d in chosen]
        return np.roll(x, half, chosen)

    return shift


def block(arrays: Any) -> Any:
    """Trace `np.block`: the innermost lists are joined along the last axis."""
    depth, inner = 0, arrays
    while type(inner) is list:
        depth, inner = depth + 1, inner[0]
    leaves: list[Any] = []

    def collect(part: Any) -> None:
        if type(part) is list:
            for x in part:
                collect(x)
        else:
            leaves.append(part)

    collect(arrays)
    graph = graph_of(leaves)
    rank = max(depth, *(np.ndim(x) for x in leaves))

    def joined(part: Any, level: int) -> Any:
        if type(part) is not list:
            x = lift(graph, part)
            return movement.reshape(x, (*(1,) * (rank - x.ndim), *x.node.shape))
        return movement.concatenate([joined(x, level + 1) for x in part], rank - depth + level)

    return joined(arrays, 0)


NUMERICAL: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "repeat": repeat, "delete": by_places(np.delete), "insert": insert, "piecewise": piecewise, "choose": choose,
        "put": put, "putmask": putmask, "place": place, "resize": resize, "angle": angle,
        "dsplit": lambda ary, indices_or_sections: np.split(ary, indices_or_sections, axis=2),
        "common_type": lambda *arrays: np.common_type(*(np.empty(0, x.dtype) for x in arrays)),
        "real_if_close": lambda a, tol=100: a,
        "compress": compress, "extract": extract, "trapezoid": trapezoid, "polyval": polyval, "vander": vander,
        "ediff1d": ediff1d, "kron": kron, "block": block, "sinc": sinc,
        "nancumsum": without_nan(np.cumsum, 0), "nancumprod": without_nan(np.cumprod, 1),
        "fix": lambda x, out=None: to_out(np.trunc(x), out),
        "isposinf": lambda x, out=None: to_out(np.isinf(x) & (x > 0), out),
        "isneginf": lambda x, out=None: to_out(np.isinf(x) & (x < 0), out),
        "real": lambda val: val, "imag": np.zeros_like,
        "isreal": lambda x: np.ones_like(x, dtype=np.bool_), "iscomplex": lambda x: np.zeros_like(x, dtype=np.bool_),
        "iscomplexobj": lambda x: False, "isrealobj": lambda x: True,
        "array_equiv": lambda a1, a2: np.all(np.equal(a1, a2)),
        "rollaxis": lambda a, axis, start=0: np.moveaxis(a, axis, start - (start > place_of(axis, a.ndim))),
        "diagflat": lambda v, k=0: np.diag(np.ravel(v), k),
        "tril_indices_from": lambda arr, k=0: np.tril_indices(arr.shape[-2], k, arr.shape[-1]),
        "triu_indices_from": lambda arr, k=0: np.triu_indices(arr.shape[-2], k, arr.shape[-1]),
        "diag_indices_from": lambda arr: np.diag_indices(arr.shape[0], arr.ndim),
        "fft.fftshift": shifted_by_half(1), "fft.ifftshift": shifted_by_half(-1),
    }
)  # fmt: skip
