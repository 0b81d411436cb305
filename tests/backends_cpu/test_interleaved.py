"""Elements a small stride apart: loaded and stored by registers, and nothing between or behind them is touched."""

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

DTYPES = (np.float32, np.float64, np.float16, np.int8, np.int16, np.int64, np.bool_)


@pto.jit
def spaced(x, out, n, B: pto.constexpr, STEP: pto.constexpr, BACK: pto.constexpr):
    """From every `STEP`th element into every `BACK`th."""
    offs = pto.program_id(0) * B + pto.arange(0, B)
    values = pto.load(x + offs * STEP, mask=offs < n)
    pto.store(out + offs * BACK, values, mask=offs < n)


@pto.jit
def backwards(x, out, n, B: pto.constexpr):
    offs = pto.program_id(0) * B + pto.arange(0, B)
    pto.store(out + (n - 1 - offs), pto.load(x + (n - 1 - offs), mask=offs < n, other=0.0) * 3, mask=offs < n)


@pto.jit
def rotated(x, out, N: pto.constexpr):
    """Pairs of neighbours turned, as in rotary embeddings; all of them exist."""
    even = pto.arange(0, N) * 2
    a, b = pto.load(x + even), pto.load(x + even + 1)
    pto.store(out + even, a - b)
    pto.store(out + even + 1, a + b)


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "host"])
@given(
    n=st.integers(1, 300), block=st.sampled_from([16, 64, 256]), step=st.sampled_from([2, 3, 4]),
    back=st.sampled_from([1, 2, 4]), dtype=st.sampled_from(DTYPES), at_end=st.booleans(),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
@pytest.mark.skipif(sys.platform != "linux", reason="protects pages")
def test_only_every_so_many(level: str, n: int, block: int, step: int, back: int, dtype: Any, at_end: bool) -> None:
    pages, rng = Pages(), np.random.default_rng(n)
    x = pages.array(rng.integers(0, 2, (n - 1) * step + 1).astype(dtype), at_end)
    out = pages.array(np.ones((n - 1) * back + 1, dtype), at_end)
    expected = out.copy()
    expected[::back] = x[::step]
    at_level(spaced, level)[-(-n // block),](x, out, n, B=block, STEP=step, BACK=back)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "host"])
@pytest.mark.parametrize("n", [1, 15, 16, 64, 100, 257])
@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.skipif(sys.platform != "linux", reason="protects pages")
def test_backwards(level: str, n: int, at_end: bool) -> None:
    pages = Pages()
    x, out = pages.array(np.arange(n, dtype=np.float32), at_end), pages.array(np.zeros(n, np.float32), at_end)
    at_level(backwards, level)[-(-n // 64),](x, out, n, B=64)
    np.testing.assert_array_equal(out, x * 3)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "host"])
@pytest.mark.parametrize("n", [4, 16, 48, 128])
@pytest.mark.skipif(sys.platform != "linux", reason="protects pages")
def test_pairs(level: str, n: int) -> None:
    pages = Pages()
    x, out = pages.array(np.arange(2 * n, dtype=np.float32), True), pages.array(np.zeros(2 * n, np.float32), True)
    at_level(rotated, level)[1,](x, out, N=n)
    np.testing.assert_array_equal(out[::2], x[::2] - x[1::2])
    np.testing.assert_array_equal(out[1::2], x[::2] + x[1::2])


def test_no_gathers_are_left() -> None:
    arguments = {"x": np.zeros(256, np.float32), "out": np.zeros(256, np.float32), "N": 128}
    text = lowered(Launch(rotated, 1, arguments, {})).text
    assert "gather" not in text
    assert "scatter" not in text
