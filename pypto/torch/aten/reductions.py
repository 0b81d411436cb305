"""Rows of reductions, scans, softmax and sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from pypto import arrays
from pypto.graph.ir.types import is_floating
from pypto.torch.aten.row import NotLowered, Result, Row, opmath


def axes_of(x: Any, dim: Any) -> tuple[int, ...] | None:
    """Return the axes of a reduction as numpy takes them; no axes are all axes."""
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return None
    return tuple(dim) if isinstance(dim, Sequence) else (dim,)


def accumulated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a row of a sum, mean or product: narrow floats accumulate in float32, and are rounded once."""

    def lower(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None, results: Any = ()) -> Any:
        wanted = results[0].dtype
        x = x.astype(opmath(wanted))
        if not x.ndim:
            return x.astype(wanted)
        return function(x, axis=axes_of(x, dim), keepdims=keepdim).astype(wanted)

    return lower


def product(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None, results: Any = ()) -> Any:
    return accumulated(np.prod)(x, dim, keepdim, dtype, results)


def extremum(function: Callable[..., Any]) -> Callable[..., Any]:
    def lower(x: Any, dim: Any = (), keepdim: bool = False) -> Any:
        return x if not x.ndim else function(x, axis=axes_of(x, dim), keepdims=keepdim)

    return lower


def with_indices(function: Callable[..., Any], places: Callable[..., Any]) -> Callable[..., Any]:
    """Make a row of `max` or `min`: along a dimension it gives indices, too."""

    def lower(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if not x.ndim:
            raise NotLowered("a tensor without dimensions")
        if dim is None:
            return function(x)
        return function(x, axis=dim, keepdims=keepdim), places(x, axis=dim, keepdims=keepdim)

    return lower


def place(function: Callable[..., Any]) -> Callable[..., Any]:
    def lower(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if not x.ndim or (dim is None and keepdim):
            raise NotLowered("all dimensions are kept")
        return function(x, axis=dim, keepdims=keepdim) if dim is not None else function(x.reshape(-1), axis=0)

    return lower


def logical(function: Callable[..., Any]) -> Callable[..., Any]:
    def lower(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        x = x.astype(np.bool_)
        return x if not x.ndim else function(x, axis=axes_of(x, dim), keepdims=keepdim)

    return lower


def variance(x: Any, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Any:
    inner = x.astype(opmath(x.dtype))
    correction = 1 if correction is None else correction
    return np.var(inner, axis=axes_of(x, dim), ddof=correction, keepdims=keepdim).astype(x.dtype)


def var_mean(x: Any, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Any:
    inner = x.astype(opmath(x.dtype))
    mean = np.mean(inner, axis=axes_of(x, dim), keepdims=keepdim)
    return variance(x, dim, correction, keepdim), mean.astype(x.dtype)


def softmax(function: Callable[..., Any]) -> Callable[..., Any]:
    def lower(x: Any, dim: int, half_to_float: bool = False, results: tuple[Result, ...] = ()) -> Any:
        if not x.ndim:
            raise NotLowered("a tensor without dimensions")
        return function(x.astype(results[0].dtype), axis=dim)

    return lower


def softmax_backward(gradient: Any, output: Any, dim: int, dtype: Any, results: tuple[Result, ...] = ()) -> Any:
    wanted = results[0].dtype
    g, y = (v.astype(opmath(v.dtype)) for v in (gradient, output))
    return (y * (g - (g * y).sum(axis=dim, keepdims=True))).astype(wanted)


def log_softmax_backward(gradient: Any, output: Any, dim: int, dtype: Any, results: tuple[Result, ...] = ()) -> Any:
    wanted = results[0].dtype
    g, y = (v.astype(opmath(v.dtype)) for v in (gradient, output))
    return (g - np.exp(y) * g.sum(axis=dim, keepdims=True)).astype(wanted)


def cumsum(x: Any, dim: int, dtype: Any = None, results: tuple[Result, ...] = ()) -> Any:
    wanted = results[0].dtype
    if not x.ndim:
        return x.astype(wanted)
    return np.cumsum(x.astype(opmath(wanted)), axis=dim).astype(wanted)


def sort(x: Any, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Any:
    if not x.ndim:
        raise NotLowered("a tensor without dimensions")
    if descending:
        raise NotLowered("a descending order")
    if is_floating(x.dtype) and opmath(x.dtype) != x.dtype:
        raise NotLowered("a sort of narrow floats")
    places = np.argsort(x, axis=dim, kind="stable")
    return np.take_along_axis(x, places, axis=dim), places


def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if not largest or not x.ndim or not is_floating(x.dtype):
        raise NotLowered("the least elements, or integers")
    return arrays.topk(x, k, axis=dim)


def norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None, results: Any = ()) -> Any:
    if ord != 2:
        raise NotLowered("a norm other than the Euclidean one")
    wanted = results[0].dtype
    inner = x.astype(opmath(wanted))
    return np.sqrt(np.sum(inner * inner, axis=axes_of(x, dim), keepdims=keepdim)).astype(wanted)


ROWS: Final = (
    Row("sum", accumulated(np.sum), wants=("results",)),
    Row("mean", accumulated(np.mean), wants=("results",)),
    Row("prod", product, wants=("results",)),
    Row("amax", extremum(np.max)),
    Row("amin", extremum(np.min)),
    Row("max", with_indices(np.max, np.argmax)),
    Row("min", with_indices(np.min, np.argmin)),
    Row("argmax", place(np.argmax)),
    Row("argmin", place(np.argmin)),
    Row("any", logical(np.any)),
    Row("all", logical(np.all)),
    Row("var", variance),
    Row("var_mean", var_mean),
    Row("_softmax", softmax(arrays.softmax), wants=("results",)),
    Row("_log_softmax", softmax(arrays.log_softmax), wants=("results",)),
    Row("_softmax_backward_data", softmax_backward, wants=("results",)),
    Row("_log_softmax_backward_data", log_softmax_backward, wants=("results",)),
    Row("cumsum", cumsum, wants=("results",)),
    Row("sort", sort),
    Row("topk", topk),
    Row("linalg_vector_norm", norm, wants=("results",)),
)
