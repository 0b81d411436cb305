"""Methods and properties of traced arrays, with numpy's meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.graph import NotTraced
from pypto.graph.ir.node import here
from pypto.graph.ir.types import contiguous
from pypto.graph.tracing import ordering, products, reductions
from pypto.graph.tracing.movement import copy, diagonal, ravel, reshape, squeeze, swapaxes, transpose
from pypto.graph.tracing.numpy_steps import by_numpy
from pypto.graph.tracing.tensor import Tensor
from pypto.graph.tracing.ufuncs import assign, call, cast, to_out


def untraced(what: str, way: str = "compute it outside of the function, or in a kernel") -> NotTraced:
    return NotTraced(here().loc(), what=what, problem="it is not offered", way=way)


def flatten(x: Tensor, order: str = "C") -> Tensor:
    return copy(ravel(x, order))


def astype(
    x: Tensor, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
) -> Any:
    result = cast(x, dtype)
    return Tensor.fresh(x.graph, x.node) if result is x and copy else result


def fill(x: Tensor, value: Any) -> None:
    assign(x, value)


def clip(
    x: Tensor, min: Any = None, max: Any = None, out: Tensor | None = None, *, a_min: Any = None, a_max: Any = None
) -> Tensor:
    min, max = (a_min if min is None else min), (a_max if max is None else max)
    result = x if min is None else call(x.graph, np.maximum, (x, min))
    result = result if max is None else call(x.graph, np.minimum, (result, max))
    return to_out(result, out)


def round_(x: Tensor, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    if x.dtype.kind in "iu" and decimals >= 0:
        return to_out(copy(x), out)
    if not decimals:
        return to_out(call(x.graph, np.rint, (x,)), out)
    scale = 10.0 ** abs(decimals)
    first, last = (np.multiply, np.true_divide) if decimals > 0 else (np.true_divide, np.multiply)
    result = call(x.graph, last, (call(x.graph, np.rint, (call(x.graph, first, (x, scale)),)), scale))
    return to_out(cast(result, x.dtype), out)


def argument(name: str) -> Callable[..., Tensor]:
    def method(x: Tensor, axis: Any = None, out: Tensor | None = None, *, keepdims: bool = False) -> Tensor:
        return to_out(ordering.arg(x, name, axis, bool(keepdims)), out)

    return method


def asks(name: str) -> Callable[..., Any]:
    """Return a method that needs values, which tracing refuses."""

    def method(x: Tensor, *args: Any) -> Any:
        way = "leave it an array: one without dimensions computes like a number"
        return getattr(x.needs_value(f"`.{name}()`", way), name)(*args)

    return method


def take(x: Tensor, indices: Any, axis: Any = None, out: Tensor | None = None, mode: str = "raise") -> Tensor:
    return to_out(ordering.take(x, indices, axis, mode), out)


def trace(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Tensor:
    result = reductions.reduce(diagonal(x, offset, axis1, axis2), "sum", -1, False, dtype)
    return to_out(result, out)


def partition_in_place(x: Tensor, kth: Any, axis: int = -1) -> None:
    x.write(by_numpy(np.partition)(x, kth, axis).node)


METHODS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "reshape": reshape, "transpose": transpose, "swapaxes": swapaxes, "squeeze": squeeze, "ravel": ravel,
        "flatten": flatten, "copy": copy, "astype": astype, "fill": fill, "clip": clip, "round": round_,
        "dot": products.dot, "take": take, "conj": copy, "conjugate": copy, "partition": partition_in_place,
        "compress": lambda x, condition, axis=None, out=None: np.compress(condition, x, axis=axis, out=out),
        **{name: reductions.method_of(name) for name in ("sum", "prod")},
        **{name: reductions.plain_method_of(name) for name in ("max", "min", "any", "all")},
        **{name: argument(name) for name in ("argmax", "argmin")},
        **{name: reductions.scan_method(name) for name in ("cumsum", "cumprod")},
        "mean": reductions.mean,
        **{name: reductions.spread_method(f) for name, f in (("var", reductions.var), ("std", reductions.std))},
        "sort": ordering.sort_in_place, "argsort": ordering.argsort,
        "diagonal": diagonal, "trace": trace, "item": asks("item"), "tolist": asks("tolist"),
    }
)  # fmt: skip
SHAPING: Final = (  # an array of an array without dimensions, and a number of a number
    "reshape", "copy", "astype", "transpose", "squeeze", "swapaxes", "conj", "conjugate", "T", "mT", "real",
)  # fmt: skip


def like_numpy(name: str, result: Tensor, source: Tensor) -> Tensor:
    """The result of a method; without dimensions it is an array or a number, as numpy gives it."""
    if name in SHAPING and result is not source:
        result.marked(not source.is_number)
    return result


def matrix_transpose(x: Tensor) -> Any:
    if x.ndim < 2:
        raise ValueError("matrix transpose with ndim < 2 is undefined")
    return swapaxes(x, -1, -2)


def strides_in_bytes(x: Tensor) -> tuple[int, ...]:
    """Return the strides of an array whose memory layout is known.

    Raises
    ------
    NotTraced
    """
    if x.layout is None:
        raise NotTraced(
            here().loc(), what="`.strides`", problem="the order in memory is not known", way="copy it first"
        )
    return tuple(n * x.dtype.itemsize for n in x.layout)


def imaginary(x: Tensor) -> Any:
    """Return the imaginary part of a real array."""
    return x.graph.function(np.zeros_like, (x,), {})


def flat(x: Tensor) -> Tensor:
    """Return the elements of an array in C order, as a view of it.

    Raises
    ------
    NotTraced
        Where they are no view.
    """
    if x.layout != contiguous(x.node.shape):
        problem = "the array is not in C order"
        raise NotTraced(here().loc(), what="`.flat`", problem=problem, way="write `x.reshape(-1)`, which is a copy")
    return reshape(x, -1)


PROPERTIES: Final[Mapping[str, Callable[[Tensor], Any]]] = MappingProxyType(
    {
        "T": transpose, "mT": matrix_transpose, "nbytes": lambda x: x.type.nbytes,
        "itemsize": lambda x: x.dtype.itemsize, "real": lambda x: x, "imag": imaginary, "strides": strides_in_bytes,
        "flat": flat,
    }
)  # fmt: skip
