"""Integers divided by one number, which lanes do by a factor: exact for every integer of 32 bits and less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pypto as pto
from pypto.ops.arith import remainder, trunc_div
from tests.conformance.running import at_level

SIZE = 256
DTYPES = (np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.int64, np.uint64)


@pto.jit
def divided(x, d, quotient, rest, B: pto.constexpr):
    i = pto.arange(0, B)
    t = pto.load(x + i)
    pto.store(quotient + i, t // pto.load(d))
    pto.store(rest + i, t % pto.load(d))


@pto.jit
def dividing(x, d, quotient, B: pto.constexpr):
    i = pto.arange(0, B)
    pto.store(quotient + i, pto.load(d) // pto.load(x + i))


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_number_divided_by_many(dtype: Any) -> None:
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    x = np.resize(np.array([0, 1, 2, 3, 7, most, most - 1, least, least + 1], dtype), SIZE)
    for number in (0, 1, 100, most, least):
        d, quotient = np.array([number], dtype), np.empty_like(x)
        dividing[1,](x, d, quotient, B=SIZE)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(quotient, trunc_div(np.broadcast_to(d, x.shape), x))


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "host"])
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_quotients_near_whole_numbers(level: str, dtype: Any, data: st.DataObject) -> None:
    """Multiples of the divisor, and the numbers beside them."""
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    small = st.integers(max(least, -300), min(most, 300))
    number = data.draw(small | st.integers(least, most) | st.sampled_from([least, least + 1, most - 1, most]))
    ends = (least, least + 1, most - 1, most, 0, 1)
    span = min(max(1, most // max(1, abs(number))), 2**62)
    factors = np.random.default_rng(abs(number) % 2**32).integers(-span, span, 83, endpoint=True)
    near = [int(f) * number + k for f in factors for k in (-1, 0, 1)]
    x = np.resize(np.array([v for v in (*ends, *near) if least <= v <= most], dtype), SIZE)
    d, quotient, rest = np.array([number], dtype), np.empty_like(x), np.empty_like(x)
    at_level(divided, level)[1,](x, d, quotient, rest, B=SIZE)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(quotient, trunc_div(x, d))
        np.testing.assert_array_equal(rest, remainder(x, d))


@pto.jit
def shares(x, d, quotient, B: pto.constexpr):
    """Rows divided by one number each."""
    i = pto.program_id(0)
    quotient[i, 0:B] = x[i, 0:B] / d[i]


def dividends(rng: np.random.Generator, d: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers whose quotients lie next to the middle between two floats, and numbers of any size."""
    middles = (rng.integers(1 << 24, 1 << 25, (len(d), 448)) | 1) / 2.0**25
    with np.errstate(over="ignore"):
        near = (middles * d[:, None].astype(float)).astype(np.float32)
        others = np.exp(60 * rng.standard_normal((len(d), 64))) * rng.choice([-1.0, 1.0], (len(d), 64))
        return np.concatenate([near, others.astype(np.float32)], axis=1)


@pytest.mark.parametrize("level", ["x86-64-v3", "host"])
def test_floats_divided_by_one_number(level: str) -> None:
    """As IEEE divides, bit by bit; with what is out of the range of factors in some rows, or in some places."""
    rng = np.random.default_rng(2)
    below_two = np.float32(2) - rng.integers(1, 4096, 200).astype(np.float32) * np.float32(2.0**-23)
    special = np.array([0.0, -0.0, 1.0, -3.0, np.inf, np.nan, 1e-40, 3e38, 2.0**25, 2.0**-25], np.float32)
    d = np.concatenate([below_two, (1 + rng.random(200)).astype(np.float32), special])
    x = dividends(rng, d)
    x[::3, ::50], x[1::3, 7], x[4::9, 470], x[5::9, 3] = 0.0, -0.0, np.inf, np.nan
    quotient = np.empty_like(x)
    at_level(shares, level)[len(d),](x, d, quotient, B=512)
    with np.errstate(all="ignore"):
        expected = x / d[:, None]
    same = quotient.view(np.uint32) == expected.view(np.uint32)
    assert (same | (np.isnan(quotient) & np.isnan(expected))).all()
