"""Functions of numpy by a table: each row has numpy's values and dtypes for arrays of many types, shapes and axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view as windows

import pypto as pto
import pypto.arrays as pt

Function = Callable[[Any], Any]
SOME = ("int8", "int64", "float32")
OTHERS = ("uint8", "int16", "int32", "uint64", "float16", "float64", "bool")
LINE, MATRIX, SQUARE, CUBE, LONG, NONE = (7,), (3, 7), (5, 5), (3, 7, 2), (40_001,), (0,)


def small(x: Any) -> Any:
    """Counts below 7."""
    return np.abs(x.astype(int)) % 7


def after(change: Callable[[Any], None]) -> Function:
    """A function that changes a copy."""

    def function(x: Any) -> Any:
        result = x.copy()
        change(result)
        return result

    return function


def of(name: str, *args: Any, **how: Any) -> Function:
    """A function of numpy by its name."""
    module, _, method = name.rpartition(".")
    function = getattr(getattr(np, module) if module else np, method)
    return lambda x: function(x, *args, **how)


# Name: the function, and the shape of its argument.
ROWS: dict[str, tuple[Function, tuple[int, ...]]] = {
    "convolve": (lambda x: np.convolve(x, x[:3]), (17,)),
    "convolve of equal size": (lambda x: np.convolve(x, x[:4], "same"), (17,)),
    "convolve of full overlap": (lambda x: np.convolve(x[:3], x, "valid"), (17,)),
    "correlate": (lambda x: np.correlate(x, x[:3]), (17,)),
    "correlate at all shifts": (lambda x: np.correlate(x, x[:3], "full"), (17,)),
    "bincount": (lambda x: np.bincount(small(x), minlength=7), (17,)),
    "bincount of weights": (lambda x: np.bincount(small(x), weights=x, minlength=7), (17,)),
    "bincount of nothing": (lambda x: np.bincount(small(x), minlength=7), NONE),
    "histogram": (lambda x: np.histogram(x, 5), (17,)),
    "histogram of weights": (lambda x: np.histogram(x, 5, weights=x, range=(-3, 3)), (3, 5)),
    "histogram with edges": (lambda x: np.histogram(x, np.array([-3.0, 0, 1, 9]), density=True), (17,)),
    "histogram of nothing": (lambda x: np.histogram(x, 5), NONE),
    "histogram2d": (lambda x: np.histogram2d(x, x[::-1], 4), (17,)),
    "histogram2d with edges": (lambda x: np.histogram2d(x, x[::-1], [np.array([-3.0, 0, 3]), 3]), (17,)),
    "histogramdd": (lambda x: np.histogramdd(x, 3), (17, 2)),
    "histogram_bin_edges": (lambda x: np.histogram_bin_edges(x, 4), (17,)),
    "digitize": (lambda x: np.digitize(x, np.array([-2, 0, 2])), MATRIX),
    "digitize, falling": (lambda x: np.digitize(x, np.array([2.0, 0, -2]), right=True), MATRIX),
    "interp": (lambda x: np.interp(x, np.array([-1.0, 0, 2]), np.array([3.0, 4, 9])), MATRIX),
    "interp with ends": (lambda x: np.interp(x, [-1.0, 0, 2], [3.0, 4, 9], left=-1, right=7), LINE),
    "interp with a period": (lambda x: np.interp(x, [-1.0, 0, 2], [3.0, 4, 9], period=4), LINE),
    "searchsorted": (lambda x: np.searchsorted(np.sort(x), x[:5]), (17,)),
    "searchsorted on the right": (lambda x: np.searchsorted(np.sort(x), x[:5], side="right"), (17,)),
    "searchsorted with an order": (lambda x: np.searchsorted(x, x[:5], sorter=np.argsort(x)), (17,)),
    "searchsorted of a number": (lambda x: np.searchsorted(np.sort(x), 3), (17,)),
    "searchsorted of a matrix": (lambda x: np.searchsorted(np.sort(x[0]), x), MATRIX),
    "searchsorted, the method": (lambda x: x.searchsorted(2), NONE),
    "quantile": (of("quantile", 0.3), (17,)),
    "quantiles": (of("quantile", [0.3, 0.5], axis=-1), MATRIX),
    "quantile of axes": (of("quantile", 0.3, axis=(0, 2)), CUBE),
    "quantile, kept": (of("quantile", 0.3, axis=0, keepdims=True), MATRIX),
    "quantile by a method": (of("quantile", 0.3, method="lower"), MATRIX),
    "percentile": (of("percentile", 30), MATRIX),
    "percentiles": (of("percentile", [25, 75], axis=0), MATRIX),
    "median": (of("median"), MATRIX),
    "median of an axis": (of("median", axis=-1), MATRIX),
    "median of axes": (of("median", axis=(0, 1)), CUBE),
    "median of axes, kept": (of("median", axis=(0, -1), keepdims=True), CUBE),
    "median of many": (of("median", axis=0), LONG),
    "cov": (of("cov"), MATRIX),
    "cov of columns": (of("cov", rowvar=False, bias=True), MATRIX),
    "corrcoef": (of("corrcoef"), MATRIX),
    "cumsum": (of("cumsum"), MATRIX),
    "cumsum of an axis": (of("cumsum", axis=-1), MATRIX),
    "cumsum in a dtype": (of("cumsum", dtype=np.float64), MATRIX),
    "cumsum of many": (of("cumsum"), LONG),
    "cumprod": (of("cumprod", axis=0), MATRIX),
    "sort": (of("sort", axis=None), MATRIX),
    "sort of many": (of("sort"), LONG),
    "sort of many rows": (of("sort", axis=0), (40_001, 2)),
    "argsort of many": (of("argsort", kind="stable"), LONG),
    "add.outer": (lambda x: np.add.outer(x, x[0]), MATRIX),
    "maximum.outer": (lambda x: np.maximum.outer(x, x), LINE),
    "less.outer": (lambda x: np.less.outer(x, x), LINE),
    "add.accumulate": (of("add.accumulate", axis=-1), MATRIX),
    "multiply.accumulate": (of("multiply.accumulate"), MATRIX),
    "maximum.accumulate": (of("maximum.accumulate", axis=1), MATRIX),
    "minimum.accumulate": (of("minimum.accumulate"), LINE),
    "subtract.accumulate": (lambda x: np.subtract.accumulate(x.astype(float)), LINE),
    "logical_and.accumulate": (of("logical_and.accumulate"), LINE),
    "add.reduceat": (of("add.reduceat", [0, 3, 5]), LINE),
    "add.reduceat of an axis": (of("add.reduceat", [0, 3, 1], axis=1), MATRIX),
    "maximum.reduceat": (of("maximum.reduceat", [0, 3]), LINE),
    "add.at": (after(lambda y: np.add.at(y, [0, 0, 2], y[:3].copy())), LINE),
    "add.at of a mask": (after(lambda y: np.add.at(y, y > 0, y.dtype.type(1))), LINE),
    "maximum.at": (after(lambda y: np.maximum.at(y, [0, 0, 2], y[3:6].copy())), LINE),
    "multiply.at": (after(lambda y: np.multiply.at(y, [0, 0, 2], y[3:6].copy())), LINE),
    "subtract.at of pairs": (after(lambda y: np.subtract.at(y, ([0, 0], [1, 1]), 1)), MATRIX),
    "negative.at": (after(lambda y: np.negative.at(y, [0, 2])), LINE),
    "power.at": (after(lambda y: np.power.at(y, [0, 0], 2)), LINE),
    "divide.at": (lambda x: after(lambda y: np.divide.at(y, [0, 0], 2))(x.astype(float)), LINE),
    "add.reduce": (of("add.reduce", axis=None), MATRIX),
    "add.reduce of axes": (of("add.reduce", axis=(0, -1)), CUBE),
    "add.reduce of a part": (lambda x: np.add.reduce(x, where=x > 0, initial=5), MATRIX),
    "add.reduce of nothing": (of("add.reduce"), NONE),
    "multiply.reduce": (of("multiply.reduce", axis=-1, initial=2), MATRIX),
    "maximum.reduce of a part": (lambda x: np.maximum.reduce(x, axis=1, where=x > 0, initial=0), MATRIX),
    "sum of a part": (lambda x: np.sum(x, axis=0, where=x > 0), MATRIX),
    "prod of a part": (lambda x: np.prod(x, where=x > 0, axis=1), MATRIX),
    "mean of a part": (lambda x: np.mean(x, where=x > 0, axis=1), MATRIX),
    "std of a part": (lambda x: np.std(x, where=x > 0), MATRIX),
    "std of a part, the method": (lambda x: x.std(axis=1, where=x > 0), MATRIX),
    "any of a part": (lambda x: np.any(x, where=x > 0, axis=0), MATRIX),
    "all of a part": (lambda x: np.all(x, where=x > 0), MATRIX),
    "max with a number": (of("max", initial=50), MATRIX),
    "max of nothing with a number": (of("max", axis=0, initial=1), (0, 7)),
    "logical_and.reduce": (of("logical_and.reduce", axis=None), MATRIX),
    "logical_or.reduce": (of("logical_or.reduce"), MATRIX),
    "subtract.reduce": (lambda x: np.subtract.reduce(x.astype(int)), LINE),
    "bitwise_and.reduce": (lambda x: np.bitwise_and.reduce(x.astype(int)), LINE),
    "bitwise_xor.reduce": (lambda x: np.bitwise_xor.reduce(x.astype(int), axis=1), MATRIX),
    "hypot.reduce": (lambda x: np.hypot.reduce(x.astype(float)), LINE),
    "logaddexp.reduce": (lambda x: np.logaddexp.reduce(x.astype(float)), LINE),
    "fmax.reduce": (lambda x: np.fmax.reduce(x.astype(float)), LINE),
    "add where": (lambda x: np.add(x, x, out=x.copy(), where=x > 0), MATRIX),
    **{
        f"pad {mode}": (of("pad", ((1, 2), (3, 0)), mode=mode), SQUARE)
        for mode in (
            "constant",
            "edge",
            "linear_ramp",
            "maximum",
            "mean",
            "median",
            "minimum",
            "reflect",
            "symmetric",
            "wrap",
        )
    },
    "pad with numbers": (of("pad", 2, constant_values=((1, 2), (3, 4))), SQUARE),
    "pad to numbers": (of("pad", 2, "linear_ramp", end_values=(5, -4)), LINE),
    "pad with the maximum of some": (of("pad", 2, "maximum", stat_length=3), LINE),
    "pad reflect, odd": (of("pad", 3, "reflect", reflect_type="odd"), LINE),
    "pad symmetric, odd": (of("pad", 3, "symmetric", reflect_type="odd"), LINE),
    "pad of one axis": (of("pad", {-1: (1, 2)}), SQUARE),
    "sliding_window_view": (lambda x: windows(x, 3), LINE),
    "sliding_window_view of a matrix": (lambda x: windows(x, (2, 3)).sum((-1, -2)), SQUARE),
    "sliding_window_view of an axis": (lambda x: windows(x, 3, axis=-1).max(-1), SQUARE),
    "divmod": (lambda x: np.divmod(x, x.dtype.type(3)), MATRIX),
    "divmod by an array": (lambda x: divmod(x, x[::-1]), LINE),
    "divmod by a number": (lambda x: divmod(x, 3), LINE),
    "divmod of a number": (lambda x: divmod(7, x), LINE),
    "logaddexp2": (lambda x: np.logaddexp2(x, x[::-1]), LINE),
    **{
        name: (of(name, axis=-1), MATRIX)
        for name in (
            "nansum",
            "nanprod",
            "nanmax",
            "nanmin",
            "nanmean",
            "nanstd",
            "nanvar",
            "nanmedian",
            "nanargmax",
            "nanargmin",
            "nancumsum",
            "nancumprod",
        )
    },
    **{
        f"{name} of axes": (of(name, axis=(0, 2), keepdims=True), CUBE)
        for name in ("nansum", "nanmax", "nanmean", "nanstd", "nanmedian")
    },
    **{f"{name} of nothing": (of(name), NONE) for name in ("nansum", "nanprod", "nancumsum", "nanmean")},
    "nanquantile": (of("nanquantile", 0.4, axis=0), MATRIX),
    "nanpercentile": (of("nanpercentile", 40), MATRIX),
    "nan_to_num": (lambda x: np.nan_to_num(x / x[::-1]), MATRIX),
    "repeat": (of("repeat", 3), (3, 5)),
    "repeat with counts": (of("repeat", [1, 2, 0]), (3,)),
    "repeat of rows with counts": (of("repeat", [1, 2, 0], axis=0), (3, 5)),
    "repeat, the method": (lambda x: x.repeat(2, axis=-1), (3, 5)),
    "einsum": (lambda x: np.einsum("ij,kj->ik", x, x), MATRIX),
    "einsum of one": (lambda x: np.einsum("ij->j", x), MATRIX),
    "einsum of three": (lambda x: np.einsum("ij,ij,ij->i", x, x, x), MATRIX),
    "einsum of a diagonal": (lambda x: np.einsum("ii", x), SQUARE),
    "einsum in some order": (lambda x: np.einsum("ij,jk,kl->il", x, x, x, optimize=True), SQUARE),
    "vecdot": (lambda x: np.vecdot(x, x), MATRIX),
    "tensordot": (lambda x: np.tensordot(x, x, 2), MATRIX),
    "tensordot of axes": (lambda x: np.tensordot(x, x, ([1], [1])), MATRIX),
    "matmul": (lambda x: x @ x.T, MATRIX),
    "matmul of stacks": (lambda x: x @ x.swapaxes(1, 2), (2, 3, 7)),
    "matmul by a vector": (lambda x: x @ x[0], MATRIX),
    "matmul of vectors": (lambda x: x @ x, LINE),
    "matmul of nothing": (lambda x: x @ x.T, (3, 0)),
    "matvec": (lambda x: np.matvec(x, x[0]), MATRIX),
    "vecmat": (lambda x: np.vecmat(x[:, 0], x), MATRIX),
    "inner": (lambda x: np.inner(x, x), MATRIX),
    "outer": (lambda x: np.outer(x, x), LINE),
    "kron": (lambda x: np.kron(x, x[:2, :2]), (3, 4)),
    "dot": (lambda x: np.dot(x, x.T), MATRIX),
    "vdot": (lambda x: np.vdot(x, x), MATRIX),
    "cross": (lambda x: np.cross(x, x[::-1]), (4, 3)),
    "trace": (of("trace"), SQUARE),
    "matrix_power": (of("linalg.matrix_power", 3), SQUARE),
    "multi_dot": (lambda x: np.linalg.multi_dot([x, x, x]), SQUARE),
}
STEPS = frozenset(  # rows that are steps of numpy, for float32
    (
        "convolve", "convolve of equal size", "convolve of full overlap", "correlate", "correlate at all shifts",
        "bincount", "bincount of weights", "bincount of nothing", "histogram", "histogram of weights",
        "histogram with edges", "histogram of nothing", "histogram2d", "histogram2d with edges", "histogramdd",
        "histogram_bin_edges", "digitize", "digitize, falling", "interp", "interp with ends",
        "interp with a period", "quantile", "quantiles", "quantile of axes", "quantile, kept",
        "quantile by a method", "percentile", "percentiles", "median of many", "cov", "cov of columns", "corrcoef",
        "sort of many", "sort of many rows", "argsort of many", "maximum.accumulate", "minimum.accumulate",
        "subtract.accumulate", "logical_and.accumulate", "add.reduceat", "add.reduceat of an axis",
        "maximum.reduceat", "add.at of a mask", "negative.at", "power.at", "divide.at", "std of a part",
        "std of a part, the method", "subtract.reduce", "bitwise_and.reduce", "bitwise_xor.reduce", "hypot.reduce",
        "logaddexp.reduce", "fmax.reduce", "pad linear_ramp", "pad maximum", "pad mean", "pad median",
        "pad minimum", "pad with numbers", "pad to numbers", "pad with the maximum of some", "pad reflect, odd",
        "pad symmetric, odd", "nanmedian", "nanargmax", "nanargmin", "nanmedian of axes", "nanquantile",
        "nanpercentile", "multi_dot",
    )
)  # fmt: skip


def argument(shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(0)
    if dtype == "bool":
        return rng.random(shape) > 0.5
    if dtype.startswith("float"):
        return (rng.standard_normal(shape) * 3).astype(dtype)
    return rng.integers(0 if dtype.startswith("u") else -100, 100, shape).astype(dtype)


def check(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple | list):
        assert len(found) == len(wanted)
        for pair in zip(found, wanted, strict=True):
            check(*pair)
        return
    a, b = np.asarray(found), np.asarray(wanted)
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    tolerance = {"f": {2: 2e-2, 4: 1e-4, 8: 1e-8}.get(b.dtype.itemsize, 0)}.get(b.dtype.kind, 0)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1, len(np.atleast_1d(b)) // 2000))


def is_as_in_numpy(name: str, dtype: str) -> None:
    """Compare a row with numpy; what numpy refuses is an error, too."""
    function, shape = ROWS[name]
    x = argument(shape, dtype)
    try:
        wanted = function(x.copy())
    except (TypeError, ValueError):
        with pytest.raises((TypeError, ValueError)):
            pto.fuse(function)(x.copy())
        return
    if dtype == "float16" and name == "cumsum of many":  # numpy rounds each sum, and its errors add up
        wanted = function(x.astype(np.float32)).astype(x.dtype)
    check(pto.fuse(function)(x.copy()), wanted)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str) -> None:
    for dtype in SOME:
        is_as_in_numpy(name, dtype)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", OTHERS)
def test_rows_of_other_types(dtype: str) -> None:
    for name in ROWS:
        is_as_in_numpy(name, dtype)


@pytest.mark.filterwarnings("ignore")
def test_steps_of_numpy_are_counted() -> None:
    for name, (function, shape) in ROWS.items():
        assert (" run by numpy" in pt.explain(function, argument(shape, "float32"))) == (name in STEPS), name
