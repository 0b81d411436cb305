"""float16 and bfloat16: sums are kept in float32 and rounded once, and results have the type of the array."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt

DTYPES: Final = (ml_dtypes.bfloat16, np.float16)
EPS: Final = {ml_dtypes.bfloat16: 2.0**-8, np.float16: 2.0**-11}


def assert_rounded(found: Any, exact: Any, dtype: Any, units: float = 2) -> None:
    """A result in the type of the operand, as near as its rounding and one more."""
    assert found.dtype == dtype
    scale = np.abs(exact) + np.abs(exact).max() / 16
    np.testing.assert_array_less(np.abs(found.astype(np.float64) - exact), units * EPS[dtype] * scale)


REDUCTIONS: Final[dict[str, Any]] = {
    "sum": np.sum, "mean": np.mean, "var": np.var, "std": np.std, "max": np.max, "min": np.min, "nanmean": np.nanmean,
    "nansum": np.nansum, "nanstd": np.nanstd, "nanmax": np.nanmax, "average": np.average,
}  # fmt: skip


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, dtype: Any) -> None:
    function = REDUCTIONS[name]
    rng = np.random.default_rng(0)
    short, long, tall = (rng.random(shape).astype(dtype) for shape in ((40, 70), (70_000,), (5000, 33)))
    if name.startswith("nan"):
        short[3, 5] = np.nan
    for x, axis in ((short, None), (short, 0), (short, 1), (long / 4, None), (tall, 0)):
        exact = function(x.astype(np.float64), axis=axis)
        assert_rounded(pto.fuse(lambda x, axis=axis: function(x, axis=axis))(x), exact, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_positions_orders_and_running_sums(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x, long = rng.random((40, 70)).astype(dtype), rng.random(70_000).astype(dtype)
    for function in (np.argmax, np.argmin, lambda x: np.argmax(x, axis=0), lambda x: np.argmin(x, axis=1)):
        np.testing.assert_array_equal(pto.fuse(function)(x), function(x))
    np.testing.assert_array_equal(pto.fuse(np.argmax)(long), np.argmax(long))
    np.testing.assert_array_equal(pto.fuse(np.sort)(x), np.sort(x))
    assert_rounded(pto.fuse(lambda x: np.cumsum(x, axis=1))(x), np.cumsum(x.astype(float), axis=1), dtype)
    assert_rounded(pto.fuse(np.median)(x), np.median(x.astype(float)), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a, b, v, long = (rng.standard_normal(n).astype(dtype) for n in ((40, 70), (70, 30), (70,), (70_000,)))
    for function, operands in {
        lambda a, b: a @ b: (a, b), lambda a, v: a @ v: (a, v), lambda v, b: v @ b: (v, b), np.vecdot: (a, v),
        lambda a, b: np.einsum("ij,jk,j->ik", a, b, b[:, 0]): (a, b), np.outer: (v, v),
        lambda a, b: np.tensordot(a, b, 1): (a, b), lambda x, y: x @ y: (long / 2, long),
    }.items():  # fmt: skip
        exact = function(*(x.astype(np.float64) for x in operands))
        assert_rounded(pto.fuse(function)(*operands), exact, dtype)


FUNCTIONS: Final[dict[str, Any]] = {
    "softmax": pt.softmax, "log_softmax": pt.log_softmax, "logsumexp": pt.logsumexp, "layer_norm": pt.layer_norm,
    "rms_norm": pt.rms_norm, "gelu": pt.gelu, "silu": pt.silu, "softplus": pt.softplus, "relu": pt.relu,
}  # fmt: skip


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_networks(name: str, dtype: Any) -> None:
    for shape in ((5, 60), (2, 70_000)):
        x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
        assert_rounded(FUNCTIONS[name](x), FUNCTIONS[name](x.astype(np.float64)), dtype, 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_softmax_that_is_written_in_numpy(dtype: Any) -> None:
    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    for shape in ((70_000,), (5, 60), (3, 40_000)):
        x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
        assert_rounded(pto.fuse(softmax)(x), softmax(x.astype(np.float64)), dtype, 4)
        x[..., 7] = np.nan
        assert np.isnan(pto.fuse(softmax)(x)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    n = pt.Dim("n", 1, 4096)
    named = pto.fuse(pt.attention, dims={"k": (None, n, None), "v": (None, n, None)})
    for keys, attention in ((50, pt.attention), (1000, pt.attention), (50, named), (333, named)):
        q, k, v = (rng.standard_normal((3, size, 16)).astype(dtype) for size in (20, keys, keys))
        exact = pt.attention(*(x.astype(np.float64) for x in (q, k, v)))
        assert_rounded(attention(q, k, v), exact, dtype, 8)


def test_numbers_that_float16_has_not_between() -> None:
    """The sum of many small numbers does not stand still where the next one is less than half a unit of it."""
    x = np.full(20_000, 0.25, np.float16)
    assert pto.fuse(np.sum)(x) == 5000
    assert pto.fuse(lambda x: x @ x)(x) == 1250
    assert pto.fuse(lambda x: np.cumsum(x.reshape(20, 1000), axis=1)[:, -1])(x).tolist() == [250] * 20


ONCE: dict[str, Any] = {
    "logaddexp": np.logaddexp,
    "cube": lambda x, y: x**3,
    "fourth power": lambda x, y: x**4,
    "power of 1.5": lambda x, y: abs(x) ** 1.5,
    "radians": lambda x, y: np.deg2rad(x),
    "floor_divide": lambda x, y: x // y,
    "remainder": lambda x, y: x % y,
}


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_compositions_round_once(name: str, dtype: Any) -> None:
    """A function of several steps computes in float32 and rounds its result, as numpy's own loop does."""
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(-8, 8, 4000).astype(dtype) for _ in range(2))
    found = pto.fuse(ONCE[name])(x, y)
    with np.errstate(all="ignore"):
        wanted = ONCE[name](x, y).dtype  # `bfloat16 ** 1.5` is float32
        exact = ONCE[name](x.astype(np.float32), y.astype(np.float32)).astype(wanted)
    assert found.dtype == wanted
    assert np.mean(found == exact) > 0.998 or wanted == np.float32


def test_a_product_of_bfloat16_and_short_integers_is_float32() -> None:
    a, b = np.ones((3, 4)).astype(pto.bfloat16.numpy), np.full((4, 2), 300, np.uint16)
    for function in (lambda a, b: a @ b, lambda a, b: b.T @ a.T):
        found, wanted = pto.fuse(function)(a, b), function(a, b)
        assert found.dtype == wanted.dtype == np.float32
        np.testing.assert_array_equal(found, wanted)
