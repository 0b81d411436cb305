"""Greatest and least elements: NaN counts only where nothing else is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pypto as pto
from tests.backends_cpu.lowering import lowered
from tests.conformance.cases import Launch
from tests.conformance.running import at_level

NAN, INF = float("nan"), float("inf")
NUMBERS = st.lists(st.sampled_from([NAN, NAN, NAN, INF, -INF, 0.0, 1.5, -2.0]), min_size=1, max_size=70)


@pto.jit
def extremes(x, out):
    """The first two are found in one loop, and the sum there, too."""
    t = x[pto.program_id(0), :]
    out[pto.program_id(0), 0] = pto.max(t)
    out[pto.program_id(0), 1] = pto.min(t)
    out[pto.program_id(0), 2] = pto.max(pto.abs(t)) + pto.sum(pto.where(t > 0, 1.0, 0.0))


@pto.jit
def block(x, out, n, B: pto.constexpr):
    """Elements past the end are NaN."""
    offs = pto.arange(0, B)
    t = pto.load(x + pto.program_id(0) * n + offs, mask=offs < n, other=float("nan"))
    pto.store(out + pto.program_id(0), pto.max(t, axis=0))


@pto.jit
def of_rows(x, greatest, least, M: pto.constexpr, N: pto.constexpr):
    t = x[0:M, 0:N]
    greatest[0:M] = pto.max(t, axis=1)
    least[0:M] = pto.min(t * 2, axis=1)


@pto.jit
def of_columns(x, greatest, least, M: pto.constexpr, N: pto.constexpr):
    """Used twice, so that the extremes lie in memory."""
    t = x[0:M, 0:N]
    high, low = pto.max(t, axis=0), pto.min(t * 2, axis=0)
    greatest[0:N] = pto.where(pto.sum(pto.where(t == high[None, :], 1, 0), axis=0) >= 0, high, 0)
    least[0:N] = pto.where(pto.sum(pto.where(t == low[None, :], 1, 0), axis=0) >= 0, low, 0)


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "host"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@given(numbers=NUMBERS, times=st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_of_any_numbers(level: str, dtype: Any, numbers: list[float], times: int) -> None:
    x = np.array(numbers * times, dtype).reshape(1, -1)
    out = np.zeros((1, 3), dtype)
    at_level(extremes, level)[(1,)](x, out)
    positive = (x > 0).sum()
    assert np.array_equal(out[0, :2], [np.fmax.reduce(x[0]), np.fmin.reduce(x[0])], equal_nan=True)
    assert np.array_equal(out[0, 2], np.fmax.reduce(np.abs(x[0])) + dtype(positive), equal_nan=True)


@given(numbers=NUMBERS)
@settings(max_examples=25, deadline=None)
def test_of_blocks_that_end_early(numbers: list[float]) -> None:
    x, out = np.array(numbers, np.float32), np.zeros(1, np.float32)
    block[(1,)](x, out, x.size, B=128)
    assert np.array_equal(out, [np.fmax.reduce(x)], equal_nan=True)


@pytest.mark.parametrize("last", [NAN, -INF, INF, 1.0])
@pytest.mark.parametrize("others", [NAN, -INF])
def test_rows_almost_without_a_number(others: float, last: float) -> None:
    numbers = [others] * 39 + [last]
    x, out = np.array([numbers, numbers[::-1]], np.float32), np.zeros((2, 3), np.float32)
    extremes[(2,)](x, out)
    expected = np.fmax.reduce(x, axis=1)
    np.testing.assert_array_equal(out[:, 0], expected)


def test_one_comparison_for_each_element_of_whole_rows() -> None:
    @pto.jit
    def greatest(x, out):
        out[pto.program_id(0)] = pto.max(x[pto.program_id(0), :])

    x = np.zeros((4, 256), np.float32)
    text = lowered(Launch(greatest, 4, {"x": x, "out": np.zeros(4, np.float32)}, {})).text
    assert text.count("fcmp ogt <32 x float>") == 1
    assert text.count("fcmp uno <32 x float>") == 0


def of_all_kinds(rows: int, columns: int, dtype: Any) -> Any:
    """Rows with some NaN, with one number at an end, with infinities, and without any number."""
    rng = np.random.default_rng(rows * columns)
    numbers = rng.integers(-9, 10, (rows, columns)).astype(dtype)
    kinds = rng.integers(0, 6, rows)
    numbers[(kinds == 1)[:, None] & (rng.random((rows, columns)) < 0.3)] = NAN
    numbers[kinds == 2] = NAN
    numbers[kinds == 3, 1:] = NAN
    numbers[kinds == 4, :-1] = -INF
    numbers[kinds == 5] = np.where(rng.random(columns) < 0.5, NAN, INF)
    return numbers


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "host"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "columns"), [(5, 64), (16, 200), (3, 17), (33, 129)])
@pytest.mark.parametrize("axis", [0, 1])
def test_of_rows_or_columns_beside_one_another(level: str, dtype: Any, rows: int, columns: int, axis: int) -> None:
    numbers = of_all_kinds(rows, columns, dtype)
    numbers = np.ascontiguousarray(numbers if axis else numbers.T)
    greatest, least = np.zeros(rows, dtype), np.zeros(rows, dtype)
    kernel = at_level(of_rows if axis else of_columns, level)
    kernel[(1,)](numbers, greatest, least, M=numbers.shape[0], N=numbers.shape[1])
    assert np.array_equal(greatest, np.fmax.reduce(numbers, axis), equal_nan=True)
    assert np.array_equal(least, np.fmin.reduce(numbers * 2, axis), equal_nan=True)


@pytest.mark.parametrize("kernel", [of_columns, of_rows])
def test_one_comparison_for_each_element_of_blocks(kernel: Any) -> None:
    x, out = np.zeros((64, 64), np.float32), [np.zeros(64, np.float32) for _ in range(2)]
    given = {"x": x, "greatest": out[0], "least": out[1], "M": 64, "N": 64}
    text = lowered(Launch(kernel, 1, given, {})).text
    exact = [line for line in text.splitlines() if "fcmp uno" in line]
    fast = [line for line in text.splitlines() if "fcmp ogt" in line or "fcmp olt" in line]
    assert len(fast) > len(exact) > 0


def test_one_comparison_for_each_element_of_blocks_of_rows() -> None:
    @pto.jit
    def least(x, out):
        out[:] = pto.min(x[:, :], axis=1)

    text = lowered(Launch(least, 1, {"x": np.zeros((8, 256), np.float32), "out": np.zeros(8, np.float32)}, {})).text
    assert text.count("fcmp olt <32 x float>") == 1
    assert text.count("fcmp uno <32 x float>") == 0
