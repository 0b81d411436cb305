"""Tiles that are read across their rows: blocks in registers give what single elements would, and touch no others."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pypto as pto
from tests.backends_cpu.lowering import lowered
from tests.backends_cpu.pages import Pages
from tests.conformance.cases import Launch
from tests.conformance.running import at_level

LEVELS = ("x86-64-v2", "x86-64-v3", "host")
BLOCKS = ((4, 4), (8, 32), (16, 16), (64, 8), (5, 9), (33, 17))
DTYPES = (np.float32, np.float64, np.float16, np.int8, np.int16, np.int64, np.bool_)


@pto.jit
def transpose(x, out, M: pto.constexpr, N: pto.constexpr):
    i, j = pto.program_id(0) * M, pto.program_id(1) * N
    out[j : j + N, i : i + M] = pto.trans(x[i : i + M, j : j + N])


@pto.jit
def copy(x, out, M: pto.constexpr, N: pto.constexpr):
    i, j = pto.program_id(0) * M, pto.program_id(1) * N
    out[i : i + M, j : j + N] = x[i : i + M, j : j + N]


@pto.jit
def mixed(x, y, out, M: pto.constexpr, N: pto.constexpr):
    i, j = pto.program_id(0) * M, pto.program_id(1) * N
    a, b = x[i : i + M, j : j + N], y[j : j + N, i : i + M]
    out[i : i + M, j : j + N] = a * 2 + pto.trans(b) - pto.trans(b * b)


@pto.jit
def turned(x, out, B: pto.constexpr):
    i = pto.program_id(0) * B
    out[:, :, i : i + B] = pto.permute(x[i : i + B, :, :], (2, 1, 0))


@pto.jit
def inner(x, y, out):
    """The left side of a dot in columns."""
    out[:, :] = pto.dot(pto.trans(x[:, :]), y[:, :])


@pto.jit
def in_place(x, N: pto.constexpr):
    x[:, :] = pto.trans(x[:N, :N])


@pto.jit
def chained(x, y, out, N: pto.constexpr):
    """Reads what it has just written, element by element; the columns of both lie apart."""
    y[:N, :N] = x[:N, :N] + 1
    out[:N, :N] = y[:N, :N] * 2


def numbers(rng: np.random.Generator, dtype: Any, *shape: int) -> np.ndarray[Any, Any]:
    return rng.integers(0, 2 if dtype is np.bool_ else 100, shape).astype(dtype)


def cells(n: int, block: int) -> int:
    return -(-n // block)


@given(
    m=st.integers(1, 70), n=st.integers(1, 70), block=st.sampled_from(BLOCKS),
    dtype=st.sampled_from(DTYPES), at_end=st.booleans(), level=st.sampled_from(LEVELS), by_strides=st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
@pytest.mark.skipif(sys.platform != "linux", reason="protects pages")
def test_transposes_touch_nothing_else(
    m: int, n: int, block: tuple[int, int], dtype: Any, at_end: bool, level: str, by_strides: bool
) -> None:
    pages, rng = Pages(), np.random.default_rng(m * 71 + n)
    x = pages.array(numbers(rng, dtype, m, n), at_end)
    out = pages.array(np.zeros((n, m), dtype), at_end)
    if by_strides:
        at_level(copy, level)[cells(n, block[1]), cells(m, block[0])](x.T, out, M=block[1], N=block[0])
    else:
        at_level(transpose, level)[cells(m, block[0]), cells(n, block[1])](x, out, M=block[0], N=block[1])
    np.testing.assert_array_equal(out, x.T)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("m", "n"), [(64, 64), (61, 47), (5, 70), (16, 3)])
def test_columns_meet_rows(level: str, m: int, n: int) -> None:
    rng = np.random.default_rng(5)
    x, y, out = numbers(rng, np.float32, m, n), numbers(rng, np.float32, n, m), np.empty((m, n), np.float32)
    at_level(mixed, level)[cells(m, 16), cells(n, 32)](x, y, out, M=16, N=32)
    np.testing.assert_array_equal(out, x * 2 + y.T - (y * y).T)


@pytest.mark.parametrize("level", LEVELS)
def test_dimensions_turned_around(level: str) -> None:
    x = np.arange(21 * 6 * 19, dtype=np.int32).reshape(21, 6, 19)
    out = np.zeros((19, 6, 21), np.int32)
    at_level(turned, level)[cells(21, 16),](x, out, B=16)
    np.testing.assert_array_equal(out, x.transpose(2, 1, 0))


@pytest.mark.parametrize("level", LEVELS)
def test_left_side_of_a_dot(level: str) -> None:
    rng = np.random.default_rng(6)
    x, y = numbers(rng, np.float32, 37, 29), numbers(rng, np.float32, 37, 41)
    out = np.empty((29, 41), np.float32)
    at_level(inner, level)[1,](x, y, out)
    np.testing.assert_array_equal(out, x.T @ y)


def test_in_place() -> None:
    x = np.arange(48 * 48, dtype=np.float32).reshape(48, 48)
    expected = x.T.copy()
    in_place[1,](x, N=48)
    np.testing.assert_array_equal(x, expected)


def test_what_a_nest_writes_is_read_in_order() -> None:
    x, y = np.arange(32 * 32, dtype=np.float32).reshape(32, 32), np.zeros((32, 32), np.float32)
    out = np.empty((32, 32), np.float32)
    chained[1,](x.T, y.T, out, N=32)
    np.testing.assert_array_equal(y.T, x.T + 1)
    np.testing.assert_array_equal(out, y.T * 2)


def test_no_gathers_are_left() -> None:
    x, out = np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)
    arguments = {"x": x, "out": out, "M": 32, "N": 32}
    assert "gather" not in lowered(Launch(transpose, (2, 2), arguments, {})).text
    assert "gather" not in lowered(Launch(copy, (2, 2), {**arguments, "x": x.T}, {})).text


@pto.jit
def row_sums(x, out, M: pto.constexpr, N: pto.constexpr):
    i = pto.program_id(0) * M
    out[i : i + M] = pto.sum(x[i : i + M, :N], axis=1)


@pto.jit
def row_softmax(x, out, place, M: pto.constexpr, N: pto.constexpr):
    i = pto.program_id(0) * M
    t = x[i : i + M, :N]
    e = pto.exp(t - pto.max(t, axis=1, keep_dims=True))
    out[i : i + M, :N] = e / pto.sum(e, axis=1, keep_dims=True)
    place[i : i + M] = pto.argmax(t, axis=1)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("m", "n"), [(64, 64), (61, 20), (5, 70), (33, 3)])
@pytest.mark.parametrize("order", ["CC", "FF", "CF", "FC"])
def test_lanes_lie_along_what_is_read(level: str, m: int, n: int, order: str) -> None:
    x = np.random.default_rng(m).standard_normal((m, n)).astype(np.float32).copy(order[0])
    sums, out, place = np.empty(m, np.float32), np.empty((m, n), np.float32, order[1]), np.empty(m, np.int32)
    at_level(row_sums, level)[cells(m, 32),](x, sums, M=32, N=n)
    np.testing.assert_allclose(sums, x.sum(1), rtol=1e-5, atol=1e-5)
    at_level(row_softmax, level)[cells(m, 32),](x, out, place, M=32, N=n)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(place, x.argmax(1))
