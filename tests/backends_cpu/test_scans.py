"""Scans along the lanes and across them, on every kind of machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pypto as pto
from tests.conformance.running import at_level

SHAPES = ((1, 37), (5, 64), (3, 17), (16, 2), (1, 1), (40, 3), (2, 300))


@pto.jit
def running_sum(x, out, M: pto.constexpr, N: pto.constexpr, AXIS: pto.constexpr, REVERSE: pto.constexpr):
    out[:M, :N] = pto.cumsum(x[:M, :N], AXIS, reverse=REVERSE)


@pto.jit
def running_max(x, out, N: pto.constexpr):
    out[:N] = pto.cummax(x[:N], 0)


def flipped(x: Any, axis: int, reverse: bool) -> Any:
    return np.flip(x, axis) if reverse else x


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "host"])
@given(
    shape=st.sampled_from(SHAPES), axis=st.integers(0, 1), reverse=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64, np.float16, np.int32, np.int64, np.int8]),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_running_sums(level: str, shape: tuple[int, int], axis: int, reverse: bool, dtype: Any) -> None:
    x = np.random.default_rng(shape[1]).integers(-3, 9, shape).astype(dtype)
    expected = flipped(np.cumsum(flipped(x, axis, reverse), axis, dtype=np.float64), axis, reverse)
    out = np.zeros(shape, np.float32 if dtype is np.float16 else np.int32 if dtype is np.int8 else dtype)
    at_level(running_sum, level)[1,](x, out, M=shape[0], N=shape[1], AXIS=axis, REVERSE=reverse)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "host"])
@pytest.mark.parametrize("n", [1, 5, 16, 75])
def test_running_greatest(level: str, n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    x[n // 2] = np.nan
    out = np.zeros_like(x)
    at_level(running_max, level)[1,](x, out, N=n)
    np.testing.assert_array_equal(out, np.fmax.accumulate(x))


def test_negative_zeros_add_up_to_zero() -> None:
    """A sum begins with 0, as numpy's does for whole arrays."""
    x, out = np.full((1, 20), -0.0, np.float32), np.ones((1, 20), np.float32)
    running_sum[1,](x, out, M=1, N=20, AXIS=1, REVERSE=False)
    np.testing.assert_array_equal(out, 0)
