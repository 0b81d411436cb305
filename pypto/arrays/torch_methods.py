"""The methods of torch's tensors in traced functions, as functions of numpy: the rows that `x.name(…)` is looked up in.

Positional arguments and `dim=` have torch's meaning. A call with a keyword of numpy, such as `axis=`, is numpy's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from pypto.arrays import functions, operations
from pypto.graph.exchange.tensors import numpy_types
from pypto.graph.ir.types import is_floating
from pypto.graph.tracing.tensor import Tensor
from pypto.runtime.launches import HOST

Word = Callable[..., Any]


class Places(NamedTuple):
    """Values along a dimension, with their indices."""

    values: Any
    indices: Any


def dtype_of(dtype: Any) -> Any:
    """Return the numpy dtype of one of torch's; other dtypes stay as they are."""
    return numpy_types().get(dtype, dtype) if type(dtype).__module__ == "torch" else dtype


def sizes_in(sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Return sizes that are given one by one, or as one sequence."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else tuple(sizes)


def reducing(name: str) -> Word:
    def word(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        how = {} if dtype is None else {"dtype": dtype_of(dtype)}
        axis = tuple(dim) if isinstance(dim, list) else dim
        return getattr(np, name)(x, axis=axis, keepdims=keepdim, **how)

    return word


def extreme(name: str) -> Word:
    def word(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, Tensor):
            return getattr(np, f"{name}imum")(x, dim)
        if dim is None:
            return getattr(np, name)(x)
        values = getattr(np, name)(x, axis=dim, keepdims=keepdim)
        return Places(values, getattr(np, f"arg{name}")(x, axis=dim, keepdims=keepdim))

    return word


def spread(name: str) -> Word:
    def word(x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        ddof = int(unbiased) if correction is None else correction
        axis = tuple(dim) if isinstance(dim, list) else dim
        return getattr(np, name)(x, axis=axis, ddof=ddof, keepdims=keepdim)

    return word


def casting(dtype: Any) -> Word:
    return lambda x, **_: x.astype(dtype_named(dtype))


def dtype_named(name: str) -> Any:
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def elementwise(name: str) -> Word:
    def word(x: Any) -> Any:
        return getattr(np, name)(x)

    return word


def binary(name: str) -> Word:
    def word(x: Any, other: Any) -> Any:
        return getattr(np, name)(x, other)

    return word


def add(x: Any, other: Any, *, alpha: Any = 1) -> Any:
    return np.add(x, other if alpha == 1 else other * alpha)


def subtract(x: Any, other: Any, *, alpha: Any = 1) -> Any:
    return np.subtract(x, other if alpha == 1 else other * alpha)


def divide(x: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return np.true_divide(x, other)
    return np.floor_divide(x, other) if rounding_mode == "floor" else np.trunc(np.true_divide(x, other)).astype(x.dtype)


def to(x: Any, *args: Any, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    """Convert to a dtype, or to that of another tensor; a device can only be the CPU."""
    for value in args:
        if isinstance(value, Tensor):
            dtype = value.dtype
        elif isinstance(value, np.dtype) or type(value).__name__ == "dtype" or isinstance(value, type):
            dtype = value
        elif not isinstance(value, bool):
            device = value
    if device is not None and not str(device).startswith(HOST.name):
        raise ValueError(f"a traced tensor is on the cpu, and cannot move to {device}")
    return x if dtype is None else x.astype(dtype_of(dtype), copy=False)


def view(x: Any, *sizes: Any) -> Any:
    if len(sizes) == 1 and not isinstance(sizes[0], int | tuple | list) and not hasattr(sizes[0], "terms"):
        raise TypeError("`.view(dtype)` is not offered: convert by `.to(dtype)`")
    return x.reshape(sizes_in(sizes))


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    first, last = start_dim % max(1, x.ndim), end_dim % max(1, x.ndim)
    return x.reshape((*x.shape[:first], -1, *x.shape[last + 1 :]))


def unflatten(x: Any, dim: int, sizes: Sequence[Any]) -> Any:
    at = dim % x.ndim
    return x.reshape((*x.shape[:at], *sizes, *x.shape[at + 1 :]))


def squeeze(x: Any, dim: Any = None) -> Any:
    if dim is None:
        return np.squeeze(x)
    wanted = [n % x.ndim for n in (dim if isinstance(dim, tuple | list) else (dim,))] if x.ndim else []
    return np.squeeze(x, axis=tuple(n for n in wanted if x.shape[n] == 1))


def transpose(x: Any, *dims: Any) -> Any:
    return np.swapaxes(x, *dims) if len(dims) == 2 else np.transpose(x, sizes_in(dims) or None)


def permute(x: Any, *dims: Any) -> Any:
    return np.transpose(x, sizes_in(dims))


def expand(x: Any, *sizes: Any) -> Any:
    wanted = sizes_in(sizes)
    more = len(wanted) - x.ndim
    padded = (*(None,) * more, *x.shape)
    return np.broadcast_to(
        x, tuple(padded[n] if type(size) is int and size == -1 else size for n, size in enumerate(wanted))
    )


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    return x if min is None and max is None else np.clip(x, min, max)


def sort(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Places:
    places = argsort(x, dim, descending)
    return Places(np.take_along_axis(x, places, axis=dim), places)


def argsort(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    size = x.shape[dim]
    return size - 1 - np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)


def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Places:
    if largest:
        return Places(*functions.topk(x, k, axis=dim))
    places = np.take(np.argsort(x, axis=dim, kind="stable"), np.arange(k), axis=dim)
    return Places(np.take_along_axis(x, places, axis=dim), places)


def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return np.where(mask, value, x).astype(x.dtype, copy=False)


def narrow(x: Any, dim: int, start: Any, length: Any) -> Any:
    return x[(*(slice(None),) * (dim % x.ndim), slice(start, start + length))]


def select(x: Any, dim: int, index: Any) -> Any:
    return x[(*(slice(None),) * (dim % x.ndim), index)]


def split(x: Any, size: Any, dim: int = 0) -> tuple[Any, ...]:
    total = x.shape[dim]
    sizes = list(size) if isinstance(size, tuple | list) else [min(size, total - n) for n in range(0, total, size)]
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    return tuple(narrow(x, dim, start, n) for start, n in zip(starts, sizes, strict=True))


def chunk(x: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    return split(x, -(-x.shape[dim] // chunks), dim)


def unbind(x: Any, dim: int = 0) -> tuple[Any, ...]:
    return tuple(select(x, dim, n) for n in range(x.shape[dim]))


def norm(x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Any:
    if p not in (2, "fro", None, 1):
        raise TypeError(f"the norm of order {p!r} is not offered: write it by `abs` and `sum`")
    total = np.sum(np.abs(x) if p == 1 else x * x, axis=tuple(dim) if isinstance(dim, list) else dim, keepdims=keepdim)
    return total if p == 1 else np.sqrt(total)


def size(x: Any, dim: Any = None) -> Any:
    return x.shape if dim is None else x.shape[dim]


def numel(x: Any) -> Any:
    return int(x.size) if isinstance(x.size, int) else x.size


def filling(fill: Any) -> Word:
    def word(x: Any, *sizes: Any, dtype: Any = None, **_: Any) -> Any:
        wanted = x.dtype if dtype is None else dtype_of(dtype)
        return (x.graph.substitute(np.full) or np.full)(sizes_in(sizes), fill, dtype=wanted)

    return word


_SAME: Final = (  # of one operand, which numpy calls the same
    "abs", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "square", "sin", "cos", "tan", "sinh",
    "cosh", "tanh", "floor", "ceil", "trunc", "sign", "isnan", "isinf", "isfinite", "logical_not", "reciprocal",
    "positive", "signbit", "deg2rad", "rad2deg",
)  # fmt: skip
_RENAMED: Final = {
    "neg": "negative", "absolute": "abs", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "bitwise_not": "invert", "arcsin": "arcsin", "arctan": "arctan",
}  # fmt: skip
_BINARY: Final = {
    "mul": "multiply", "multiply": "multiply", "pow": "power", "maximum": "maximum", "minimum": "minimum",
    "fmod": "fmod", "remainder": "remainder", "atan2": "arctan2", "eq": "equal", "ne": "not_equal", "lt": "less",
    "le": "less_equal", "gt": "greater", "ge": "greater_equal", "logical_and": "logical_and", "fmax": "fmax",
    "logical_or": "logical_or", "logical_xor": "logical_xor", "bitwise_and": "bitwise_and", "fmin": "fmin",
    "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor", "matmul": "matmul", "mm": "matmul", "bmm": "matmul",
    "mv": "matmul", "dot": "dot", "inner": "inner", "outer": "outer", "floor_divide": "floor_divide",
    "hypot": "hypot", "logaddexp": "logaddexp", "copysign": "copysign", "not_equal": "not_equal", "equal": "equal",
    "less": "less", "greater": "greater", "less_equal": "less_equal", "greater_equal": "greater_equal",
}  # fmt: skip
_CASTS: Final = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "int": "int32", "long": "int64",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
}  # fmt: skip

METHODS: Final[Mapping[str, Word]] = MappingProxyType(
    {
        **{name: elementwise(name) for name in _SAME},
        **{name: elementwise(ours) for name, ours in _RENAMED.items()},
        **{name: binary(ours) for name, ours in _BINARY.items()},
        **{name: casting(dtype) for name, dtype in _CASTS.items()},
        **{name: reducing(name) for name in ("sum", "prod", "mean", "any", "all", "nansum", "nanmean")},
        "amax": reducing("max"), "amin": reducing("min"),
        "argmax": lambda x, dim=None, keepdim=False: np.argmax(x, axis=dim, keepdims=keepdim),
        "argmin": lambda x, dim=None, keepdim=False: np.argmin(x, axis=dim, keepdims=keepdim),
        "max": extreme("max"), "min": extreme("min"), "std": spread("std"), "var": spread("var"),
        "add": add, "sub": subtract, "subtract": subtract, "div": divide, "divide": divide, "true_divide": divide,
        "rsub": lambda x, other: other - x, "rsqrt": operations.rsqrt, "sigmoid": operations.sigmoid,
        "erf": operations.erf, "erfc": operations.erfc, "relu": functions.relu,
        "round": lambda x, *, decimals=0: np.round(x, decimals), "frac": lambda x: x - np.trunc(x),
        "softmax": lambda x, dim, dtype=None: functions.softmax(to(x, dtype=dtype), dim),
        "log_softmax": lambda x, dim, dtype=None: functions.log_softmax(to(x, dtype=dtype), dim),
        "logsumexp": lambda x, dim, keepdim=False: functions.logsumexp(x, dim, keepdim),
        "cumsum": lambda x, dim, *, dtype=None: np.cumsum(x, axis=dim, dtype=dtype_of(dtype)),
        "cumprod": lambda x, dim, *, dtype=None: np.cumprod(x, axis=dim, dtype=dtype_of(dtype)),
        "view": view, "flatten": flatten, "unflatten": unflatten, "squeeze": squeeze, "transpose": transpose,
        "swapaxes": transpose, "swapdims": transpose, "permute": permute, "expand": expand,
        "reshape": lambda x, *sizes: np.reshape(x, sizes_in(sizes)),
        "reshape_as": lambda x, other: x.reshape(other.shape), "view_as": lambda x, other: x.reshape(other.shape),
        "expand_as": lambda x, other: np.broadcast_to(x, other.shape), "t": transpose,
        "broadcast_to": lambda x, sizes: np.broadcast_to(x, tuple(sizes)),
        "unsqueeze": np.expand_dims, "contiguous": lambda x, **_: x, "detach": lambda x: x, "cpu": lambda x: x,
        "clone": lambda x, **_: x.copy(), "to": to, "type": to, "type_as": to,
        **dict.fromkeys(("repeat", "tile"), lambda x, *counts: np.tile(x, sizes_in(counts))),
        "repeat_interleave": lambda x, repeats, dim=None: np.repeat(x, repeats, axis=dim),
        "clamp": clamp, "clip": clamp, "clamp_min": clamp,
        "clamp_max": lambda x, max: clamp(x, None, max),
        "sort": sort, "argsort": argsort, "topk": topk, "masked_fill": masked_fill,
        "where": lambda x, condition, other: np.where(condition, x, other),
        "gather": lambda x, dim, index: np.take_along_axis(x, index, axis=dim),
        "take_along_dim": lambda x, index, dim: np.take_along_axis(x, index, axis=dim),
        "index_select": lambda x, dim, index: np.take(x, index, axis=dim),
        "narrow": narrow, "select": select, "split": split, "chunk": chunk, "unbind": unbind, "norm": norm,
        "tril": lambda x, diagonal=0: np.tril(x, diagonal), "triu": lambda x, diagonal=0: np.triu(x, diagonal),
        "flip": lambda x, *dims: np.flip(x, sizes_in(dims)), "diff": lambda x, n=1, dim=-1: np.diff(x, n, axis=dim),
        "roll": lambda x, shifts, dims=None: np.roll(x, shifts, axis=dims),
        "lerp": lambda x, end, weight: x + weight * (end - x),
        "addmm": lambda x, a, b, *, beta=1, alpha=1: beta * x + alpha * np.matmul(a, b),
        "baddbmm": lambda x, a, b, *, beta=1, alpha=1: beta * x + alpha * np.matmul(a, b),
        "addcmul": lambda x, a, b, *, value=1: x + value * a * b,
        "addcdiv": lambda x, a, b, *, value=1: x + value * a / b,
        "size": size, "numel": numel, "nelement": numel, "dim": lambda x: x.ndim,
        "ndimension": lambda x: x.ndim, "element_size": lambda x: x.dtype.itemsize, "is_contiguous": lambda x: True,
        "is_floating_point": lambda x: is_floating(x.dtype), "is_complex": lambda x: x.dtype.kind == "c",
        "new_zeros": filling(0), "new_ones": filling(1), "new_empty": filling(0),
        "new_full": lambda x, sizes, value, **how: filling(value)(x, sizes, **how),
    }
)  # fmt: skip
UPDATES: Final[Mapping[str, Word]] = MappingProxyType(  # methods that are in place only, by what they write
    {"copy_": lambda x, other, non_blocking=False: other, "fill_": lambda x, value: value, "zero_": lambda x: 0}
)
