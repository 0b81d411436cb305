"""Decompositions: numpy functions as compositions of other numpy functions, which are traced instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.graph import WrongShapes
from pypto.graph.ir.node import here
from pypto.graph.ir.types import accumulator, is_floating
from pypto.graph.tracing import methods
from pypto.graph.tracing.tensor import place_of
from pypto.graph.tracing.ufuncs import to_out

# --- comparisons and choices -----------------------------------------------------------------------------------------


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    if len(condlist) != len(choicelist) or not len(condlist):
        problem = f"{len(condlist)} conditions for {len(choicelist)} choices"
        raise WrongShapes(here().loc(), what="`np.select`", problem=problem)
    numbers = [x if type(x) in (int, float, bool) else x.dtype for x in (*choicelist, default)]
    result = np.asarray(default, np.result_type(*numbers)) if not hasattr(default, "dtype") else default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = np.where(condition, choice, result)
    return result


def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    is_close = (np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b)
    result = is_close | np.equal(a, b)
    return result | (np.isnan(a) & np.isnan(b)) if equal_nan else result


def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    return np.all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    if np.shape(a1) != np.shape(a2):
        return False
    same = np.equal(a1, a2)
    return np.all(same | (np.isnan(a1) & np.isnan(a2)) if equal_nan else same)


# --- statistics ------------------------------------------------------------------------------------------------------


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    result: Any = np.max(a, axis=axis, keepdims=keepdims) - np.min(a, axis=axis, keepdims=keepdims)
    return to_out(result, out)


def ignoring_nan(reduction: Callable[..., Any], neutral: float) -> Callable[..., Any]:
    """Return a reduction that replaces NaN by its neutral element."""

    def function(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        numbers = np.where(np.isnan(a), np.asarray(neutral, a.dtype), a) if is_floating(a.dtype) else a
        result = reduction(numbers, axis=axis, keepdims=keepdims, **({} if dtype is None else {"dtype": dtype}))
        return to_out(result, out)

    return function


def extreme_of_numbers(reduction: Callable[..., Any], neutral: float) -> Callable[..., Any]:
    """Compute `nanmax` or `nanmin`; the result is NaN if all elements are."""

    def function(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        if not is_floating(a.dtype):
            return to_out(reduction(a, axis=axis, keepdims=keepdims), out)
        is_nan = np.isnan(a)
        result: Any = reduction(np.where(is_nan, np.asarray(neutral, a.dtype), a), axis=axis, keepdims=keepdims)
        result = np.where(np.all(is_nan, axis=axis, keepdims=keepdims), np.asarray(np.nan, a.dtype), result)
        return to_out(result, out)

    return function


def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    if not is_floating(a.dtype):
        return to_out(np.mean(a, axis=axis, dtype=dtype, keepdims=keepdims), out)
    result: Any = wide_nanmean(a, axis, accumulator(np.dtype(dtype or a.dtype)), keepdims).astype(dtype or a.dtype)
    return to_out(result, out)


def wide_nanmean(a: Any, axis: Any, dtype: Any, keepdims: bool) -> Any:
    """Compute `nanmean` in the accumulator's dtype."""
    numbers = np.where(np.isnan(a), 0, a.astype(dtype))
    count: Any = np.sum(~np.isnan(a), axis=axis, keepdims=keepdims)
    return (np.sum(numbers, axis=axis, keepdims=keepdims) / count).astype(dtype)


def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False
) -> Any:
    if not is_floating(a.dtype):
        return to_out(np.var(a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims), out)
    variance: Any = wide_nanvar(a, axis, accumulator(np.dtype(dtype or a.dtype)), ddof, keepdims)
    return to_out(variance.astype(dtype or a.dtype), out)


def wide_nanvar(a: Any, axis: Any, dtype: Any, ddof: float, keepdims: bool) -> Any:
    """Compute `nanvar` in the accumulator's dtype."""
    centred: Any = np.where(np.isnan(a), 0, a.astype(dtype) - wide_nanmean(a, axis, dtype, True))
    count = np.sum(~np.isnan(a), axis=axis, keepdims=keepdims) - ddof
    variance: Any = np.sum(centred * centred, axis=axis, keepdims=keepdims) / count
    return np.where(count > 0, variance, np.nan).astype(dtype)


def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False
) -> Any:
    if not is_floating(a.dtype):
        return to_out(np.std(a, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims), out)
    deviation: Any = np.sqrt(wide_nanvar(a, axis, accumulator(np.dtype(dtype or a.dtype)), ddof, keepdims))
    return to_out(deviation.astype(dtype or a.dtype), out)


def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """Compute the median from a sort; it is NaN if an element is, because NaN is sorted last."""
    if isinstance(axis, tuple | list):
        axes = [place_of(d, a.ndim) for d in axis]
        others = [d for d in range(a.ndim) if d not in axes]
        line, at = np.transpose(a, (*others, *axes)).reshape((*(a.shape[d] for d in others), -1)), len(others)
    else:
        axes = list(range(a.ndim)) if axis is None else [place_of(axis, a.ndim)]
        line, at = (np.ravel(a), 0) if axis is None else (a, axes[0])
    size = line.shape[at]
    if not size:
        raise WrongShapes(here().loc(), what="`np.median`", problem="there are no elements")
    rising = np.sort(line, axis=at)
    low, high, last = (np.take(rising, n, axis=at) for n in ((size - 1) // 2, size // 2, size - 1))
    dtype = accumulator(a.dtype) if is_floating(a.dtype) else np.float64
    middle: Any = (low if size % 2 else (low.astype(dtype) + high.astype(dtype)) / 2).astype(dtype) + 0  # no -0.0
    result: Any = np.where(np.isnan(last), np.asarray(np.nan, dtype), middle) if is_floating(a.dtype) else middle
    shape = tuple(1 if d in axes else n for d, n in enumerate(a.shape))
    result = result.astype(a.dtype if is_floating(a.dtype) else np.float64)
    return to_out(result.reshape(shape) if keepdims else result, out)


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    if weights is None:
        result = np.mean(a, axis=axis, keepdims=keepdims)
        return (result, np.full_like(result, a.size // max(1, result.size))) if returned else result
    shape = a.shape
    if np.shape(weights) != shape:
        if not isinstance(axis, int) or np.ndim(weights) != 1:
            problem = f"weights of shape {np.shape(weights)} for an array of shape {shape}"
            raise WrongShapes(here().loc(), what="`np.average`", problem=problem)
        weights = np.reshape(weights, (-1, *(1,) * (a.ndim - place_of(axis, a.ndim) - 1)))
    widened = np.result_type(a.dtype, weights.dtype, np.float64 if a.dtype.kind in "iub" else a.dtype)
    spread = np.broadcast_to(weights.astype(widened), shape)
    total = np.sum(spread, axis=axis, keepdims=keepdims)
    result = np.sum(a.astype(widened) * spread, axis=axis, keepdims=keepdims) / total
    return (result, total) if returned else result


def gradient(f: Any, *varargs: float, axis: Any = None, edge_order: int = 1) -> Any:
    """Compute central differences, with one-sided differences at the ends, for a scalar spacing."""
    axes = range(f.ndim) if axis is None else [place_of(d, f.ndim) for d in np.atleast_1d(axis)]
    steps = list(varargs) * (len(axes) if len(varargs) == 1 else 1) or [1.0] * len(axes)
    if edge_order != 1 or len(steps) != len(axes) or any(np.ndim(h) for h in steps):
        raise methods.untraced("`np.gradient` with places or a second-order edge", "give one spacing for each axis")
    x = f if is_floating(f.dtype) else f.astype(np.float64)
    gradients = [gradient_along(x, at, h) for at, h in zip(axes, steps, strict=True)]
    return gradients[0] if len(gradients) == 1 else tuple(gradients)


def gradient_along(x: Any, at: int, step: float) -> Any:
    def part(first: int | None, last: int | None) -> Any:
        return x[(*(slice(None),) * at, slice(first, last))]

    if x.shape[at] < 2:
        problem = f"a gradient needs two elements at least, not {x.shape[at]}"
        raise WrongShapes(here().loc(), what="`np.gradient`", problem=problem)
    inner = (part(2, None) - part(None, -2)) / (2 * step)
    ends = (part(1, 2) - part(None, 1)) / step, (part(-1, None) - part(-2, -1)) / step
    return np.concatenate([ends[0], inner, ends[1]], axis=at)


# --- shapes ----------------------------------------------------------------------------------------------------------


def atleast_2d(*arys: Any) -> Any:
    results = [x.reshape((1, 1) if not x.ndim else (1, *x.shape)) if x.ndim < 2 else x for x in arys]
    return results[0] if len(results) == 1 else tuple(results)


def atleast_3d(*arys: Any) -> Any:
    results = [x[..., None] if x.ndim == 2 else atleast_2d(x)[..., None] if x.ndim < 2 else x for x in arys]
    return results[0] if len(results) == 1 else tuple(results)


def column_stack(tup: Sequence[Any]) -> Any:
    return np.concatenate([x.reshape(-1, 1) if x.ndim < 2 else x for x in tup], axis=1)


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    if axis is None:
        return np.concatenate([np.ravel(arr), np.ravel(values)])
    return np.concatenate([arr, values], axis=axis)


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    first, second = axes
    quarters = k % 4
    if quarters == 0:
        return m[...]
    if quarters == 2:
        return np.flip(m, (first, second))
    return np.swapaxes(np.flip(m, second if quarters == 1 else first), first, second)


def diag(v: Any, k: int = 0) -> Any:
    """Copy the diagonal of a matrix, or build a matrix with a diagonal."""
    if v.ndim == 2:
        return np.diagonal(v, k).copy()
    if v.ndim != 1:
        problem = f"it is of one or two dimensions, not {v.ndim}"
        raise WrongShapes(here().loc(), what="`np.diag`", problem=problem)
    size = v.shape[0]
    rows, columns = size + max(0, -k), size + max(0, k)
    square = np.where(np.eye(size, dtype=np.bool_), v[None, :], np.zeros((), v.dtype))
    spare = abs(k)
    around = ((0, spare), (spare, 0)) if k > 0 else ((spare, 0), (0, spare))
    return np.pad(square, around) if rows + columns > 2 * size else square


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    if a.ndim != 2 or wrap or np.ndim(val):
        raise methods.untraced("`np.fill_diagonal` of more than one number in a matrix", "use `np.where(np.eye(n), …)`")
    np.copyto(a, val, where=np.eye(*a.shape, dtype=np.bool_))


DERIVED: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "select": select, "isclose": isclose, "allclose": allclose, "array_equal": array_equal, "ptp": ptp,
        "median": median, "average": average,
        "nansum": ignoring_nan(np.sum, 0), "nanprod": ignoring_nan(np.prod, 1), "nanmean": nanmean, "nanvar": nanvar,
        "nanstd": nanstd, "nanmax": extreme_of_numbers(np.max, -np.inf), "nanmin": extreme_of_numbers(np.min, np.inf),
        "gradient": gradient, "atleast_2d": atleast_2d, "atleast_3d": atleast_3d, "column_stack": column_stack,
        "append": append, "rot90": rot90, "diag": diag, "fill_diagonal": fill_diagonal,
        "fliplr": lambda m: m[:, ::-1], "flipud": lambda m: m[::-1],
        "dstack": lambda tup: np.concatenate([atleast_3d(x) for x in tup], axis=2),
        "hsplit": lambda ary, indices_or_sections: np.split(ary, indices_or_sections, axis=0 if ary.ndim == 1 else 1),
        "vsplit": lambda ary, indices_or_sections: np.split(ary, indices_or_sections, axis=0),
    }
)  # fmt: skip
