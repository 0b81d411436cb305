"""Complex arrays: kernels have no complex type, so that numpy computes with them between kernels.

Views, copies, concatenations and updates of slices are those of other arrays. `explain` counts the steps of numpy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from pypto.graph.tracing import boolean_indexing, methods
from pypto.graph.tracing.numpy_steps import by_numpy, update_at
from pypto.graph.tracing.tensor import Tensor
from pypto.graph.tracing.ufuncs import to_out

_VIEWS: Final = (  # functions that have the meaning of real arrays
    "reshape", "transpose", "swapaxes", "squeeze", "ravel", "expand_dims", "moveaxis", "permute_dims",
    "matrix_transpose", "broadcast_to", "broadcast_arrays", "concatenate", "stack", "vstack", "hstack", "dstack",
    "column_stack", "split", "array_split", "hsplit", "vsplit", "flip", "fliplr", "flipud", "rot90", "full_like",
    "zeros_like", "ones_like", "empty_like", "copy", "copyto", "shape", "ndim", "size", "where", "atleast_1d",
    "atleast_2d", "atleast_3d", "tile", "unstack", "meshgrid", "append", "repeat", "result_type", "diagonal", "diff",
)  # fmt: skip
_METHODS: Final = (
    "reshape",
    "transpose",
    "swapaxes",
    "squeeze",
    "ravel",
    "flatten",
    "copy",
    "fill",
    "diagonal",
    "astype",
)


def is_view(name: str) -> bool:
    """Whether a function has one meaning for real and complex arrays."""
    return name in _VIEWS


def function_of(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a numpy function on complex arrays."""
    if name in ("iscomplexobj", "isrealobj"):
        return (name == "iscomplexobj") == (args[0].dtype.kind == "c")
    if name in ("real", "imag"):
        return part(args[0], name)
    out = kwargs.pop("out", None)
    result = by_numpy(function, f"np.{name}")(*args, **kwargs)
    return result if out is None else to_out(result, out)


def ufunc_of(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a ufunc, or of a method of it, on complex arrays."""
    if method == "at":
        update_at(ufunc, *inputs)
        return None
    (out,) = kwargs.pop("out", (None,))
    function = ufunc if method == "__call__" else getattr(ufunc, method)
    name = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    result = by_numpy(function, name)(*inputs, **kwargs)
    return result if out is None else to_out(result, out)


def part(x: Tensor, name: str) -> Tensor:
    """Return the real or the imaginary part; numpy gives a view, so that an update of it is refused."""
    copied: Tensor = by_numpy(lambda array: getattr(array, name).copy(), name)(x)
    copied.storage.share()
    return copied


def write_part(x: Tensor, name: str, value: Any) -> None:
    """Replace the real or the imaginary part."""

    def updated(array: Any, value: Any) -> Any:
        result = array.copy()
        setattr(result, name, value)
        return result

    x.write(by_numpy(updated, f".{name}")(x, value).node)


def attribute_of(x: Tensor, name: str) -> Any:
    """Return a method or property of a complex array by name."""
    if name in ("real", "imag"):
        return part(x, name)
    if name in methods.PROPERTIES or name in _METHODS or name in ("item", "tolist"):
        return None
    if name not in methods.METHODS and name not in ("conjugate", "conj"):
        raise methods.untraced(f"`.{name}` of a complex array")
    if name == "sort":
        return lambda axis=-1: x.write(by_numpy(np.sort)(x, axis=axis).node)

    def method(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        def call(array: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(array, name)(*args, **kwargs)

        result = by_numpy(call, name)(x, *args, **kwargs)
        return result if out is None else to_out(result, out)

    return method


def read(x: Tensor, key: Any) -> Tensor:
    """Return the elements that arrays of indices pick.

    Raises
    ------
    NotTraced
        For a mask, whose number of elements is not known.
    """
    if any(isinstance(k, Tensor) and k.dtype == np.bool_ for k in (key if type(key) is tuple else (key,))):
        raise boolean_indexing.refuse()
    picked: Tensor = by_numpy(operator.getitem, "getitem")(x, key)
    return picked


def write_at(x: Tensor, key: Any, value: Any) -> None:
    """Replace the elements that arrays of indices or a mask pick."""

    def updated(array: Any, key: Any, value: Any) -> Any:
        result = array.copy()
        result[key] = value
        return result

    x.write(by_numpy(updated, "setitem")(x, key, value).node)
