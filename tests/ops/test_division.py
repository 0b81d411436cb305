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
