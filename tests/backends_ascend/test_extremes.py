"""Extremes of rows with NaN: a NaN gives way to a number, a row of NaN alone gives NaN, with no question in a loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.target import ascend_target
from pypto.debug.simulate import function_of
from tests.sim.device import needs_compiler

WIDTHS = (1024, 256, 72, 7)  # bits of a row as words, as bytes, and one by one


@pto.jit
def extremes(x, most, least, columns):
    t = x[:, :]
    most[:] = pto.max(t, axis=1)
    least[:] = pto.min(t, axis=1)
    columns[:] = pto.max(t, axis=0)


@pto.jit
def one_row(x, out):
    out[0] = pto.max(x[:])
    out[1] = pto.min(x[:])


@pto.jit
def softmax(x, y):
    t = x[:, :]
    e = pto.exp(t - pto.max(t, axis=1, keep_dims=True))
    y[:, :] = e / pto.sum(e, axis=1, keep_dims=True)


@pto.jit
def across(x, y):
    """The maximum of each row is taken from a column: no softmax."""
    t = x[:, :]
    y[:, :] = t - pto.max(t, axis=1)[None, :]


@pto.jit
def running(x, first, y):
    """The greatest so far of each row, in blocks: `first` may be NaN, -inf is not."""
    most = pto.full((16,), -float("inf"), pto.float32)
    other = first[:]
    for j in range(0, x.shape[1], 64):
        e = pto.max(x[:, j : j + 64], axis=1)
        most = pto.maximum(most, e)
        other = pto.maximum(other, pto.max(x[:, j : j + 64] * 2, axis=1))
    y[0, :] = most
    y[1, :] = other


def rows(width: int, dtype: Any) -> np.ndarray[Any, Any]:
    x = np.random.default_rng(width).standard_normal((16, width)).astype(dtype)
    x[0] = np.nan
    x[1] = -np.inf
    x[2] = np.inf
    x[3, ::2], x[3, 1::2] = np.nan, -np.inf
    x[4, ::2], x[4, 1::2] = -np.inf, np.nan
    x[5, :-1] = np.nan
    x[6, 1:] = np.nan
    x[7, width // 2] = np.nan
    return x


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rows_with_nan(dtype: Any) -> None:
    with pto.device("ascend-sim"), np.errstate(invalid="ignore"):
        for width in WIDTHS:
            x = rows(width, dtype)
            most, least, columns = (np.zeros(n, dtype) for n in (16, 16, width))
            extremes[1](x, most, least, columns)
            np.testing.assert_array_equal(most, np.fmax.reduce(x, axis=1))
            np.testing.assert_array_equal(least, np.fmin.reduce(x, axis=1))
            np.testing.assert_array_equal(columns, np.fmax.reduce(x, axis=0))


@needs_compiler
def test_one_row_and_differences() -> None:
    x = rows(16, np.float32)
    with pto.device("ascend-sim"), np.errstate(invalid="ignore"):
        for row in x[:8]:
            out = np.zeros(2, np.float32)
            one_row[1](row.copy(), out)
            np.testing.assert_array_equal(out, [np.fmax.reduce(row), np.fmin.reduce(row)])
        y = np.zeros_like(x)
        across[1](x, y)
        np.testing.assert_array_equal(y, x - np.fmax.reduce(x, axis=1)[None, :])
        softmax[1](x, y)
        e = np.exp(x - np.fmax.reduce(x, axis=1)[:, None])
        np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def text(kernel: Any, *shapes: tuple[int, ...]) -> str:
    arrays = tuple(np.zeros(shape, np.float32) for shape in shapes)
    return lower_to_text(function_of(kernel, kernel.signature.bind(arrays, {})), ascend_target("ascend910b2"))[1]


def test_no_question_to_the_scalar_unit() -> None:
    made = text(extremes, (16, 1024), (16,), (16,), (1024,))
    assert "GetValue" not in made
    assert "Abs(" in made  # bits as words
    assert "anyNumber" not in text(softmax, (16, 1024), (16, 1024))
    assert "anyNumber" in text(across, (16, 16), (16, 16))


@pytest.mark.slow
def test_a_mixed_kernel_has_room_for_large_tiles() -> None:
    """Blocks of 64 by 512, which fit with instructions in their own order."""
    import ml_dtypes

    from benchmarks.kernels.attention import forward_kernel

    q, k, v, out = (np.zeros((1, 2048, 64), ml_dtypes.bfloat16) for _ in range(4))
    blocks = {"GROUP": 1, "CAUSAL": True, "BM": 64, "BN": 512, "PRECISION": "ieee"}
    made = forward_kernel.compile(q, k, v, out, np.zeros((1, 2048), np.float32), **blocks, target="ascend950")
    assert made.simulate(q, k, v, out, np.zeros((1, 2048), np.float32), grid=(32, 1), **blocks).seconds > 0


@pto.jit
def extremes_of_products(a, b, most, least, BN: pto.constexpr):
    """Extremes of scores, which no running maximum takes in."""
    i = pto.program_id(0) * 16
    j = pto.program_id(1) * BN
    s = pto.dot(a[i : i + 16, :], b[:, j : j + BN])
    most[pto.program_id(1), i : i + 16] = pto.max(s, axis=1)
    least[pto.program_id(1), i : i + 16] = pto.min(s, axis=1)


@pytest.mark.parametrize("width", [64, 128, 256])
def test_mixed_kernels_ask_the_scalar_unit_nothing(width: int) -> None:
    a, b = np.zeros((16, 32), np.float16), np.zeros((32, width), np.float16)
    outs = np.zeros((1, 16), np.float32), np.zeros((1, 16), np.float32)
    function = function_of(extremes_of_products, extremes_of_products.signature.bind((a, b, *outs), {"BN": width}))
    made = lower_to_text(function, ascend_target("ascend910b2"))[1]
    assert "anyNumber" in made
    assert "worst" not in made
    assert "GetValue" not in made


@needs_compiler
@pytest.mark.parametrize("width", [64, 128, 256])
def test_extremes_of_products_with_nan(width: int) -> None:
    a = np.random.default_rng(width).integers(-2, 3, (16, 32)).astype(np.float16)
    b = np.eye(32, width, dtype=np.float16)
    a[0], a[1, 0], a[2, 0] = np.nan, np.nan, np.inf
    b[0, : width // 2] = 1
    most, least = np.zeros((1, 16), np.float32), np.zeros((1, 16), np.float32)
    with np.errstate(invalid="ignore"):
        scores = np.array([[np.sum(row * column) for column in b.T.astype(np.float64)] for row in a.astype(np.float64)])
    with pto.device("ascend-sim"):
        extremes_of_products[1, 1](a, b, most, least, BN=width)
    assert np.isnan(scores[0]).all()
    np.testing.assert_array_equal(most[0], np.fmax.reduce(scores, axis=1))
    np.testing.assert_array_equal(least[0], np.fmin.reduce(scores, axis=1))


@pto.jit
def scaled_running(x, y):
    """The greatest so far of each row's multiple, as attention has it."""
    most = pto.full((16,), -float("inf"), pto.float32)
    for j in range(0, x.shape[1], 64):
        most = pto.maximum(most, pto.max(x[:, j : j + 64], axis=1) * 0.125)
    y[:] = most


@needs_compiler
def test_a_multiple_of_an_extreme_is_merged() -> None:
    x = np.concatenate([rows(64, np.float32), rows(64, np.float32)[::-1]], axis=1)
    found = np.full(16, 7, np.float32)
    assert "anyNumber" not in text(scaled_running, x.shape, found.shape)
    with pto.device("ascend-sim"):
        scaled_running[1](x, found)
    np.testing.assert_array_equal(found, np.fmax(np.fmax.reduce(x, axis=1) * np.float32(0.125), -np.inf))


@needs_compiler
def test_a_running_maximum_gives_way_where_a_block_is_nan_alone() -> None:
    x = np.concatenate([rows(64, np.float32), rows(64, np.float32)[::-1]], axis=1)
    first = np.where(np.arange(16) < 8, np.nan, np.float32(-1)).astype(np.float32)
    found, wanted = np.full((2, 2, 16), 7, np.float32)
    with pto.device("ascend-sim"):
        running[1](x, first, found)
    running[1](x, first, wanted)
    np.testing.assert_array_equal(found, wanted)


def test_a_running_maximum_is_one_instruction_where_it_is_never_nan() -> None:
    x, first, y = np.zeros((16, 128), np.float32), np.zeros(16, np.float32), np.zeros((2, 16), np.float32)
    _, text = lower_to_text(function_of(running, (x, first, y)), ascend_target("ascend910b2"))
    assert text.count("Max(most") == 1
    assert text.count("Max(other") == 0
    assert "anyNumber" in text
