"""Blocks that are never whole: their chunks that exist run without masks, and touch nothing that does not."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pypto as pto
from tests.backends_cpu.lowering import lowered
from tests.backends_cpu.pages import Pages
from tests.backends_cpu.test_nontemporal import PROGRAMS, at, launch_streaming
from tests.conformance.cases import Launch
from tests.conformance.running import at_level

ROWS = 4


@pto.jit
def scaled(x, scale, out, n, m, B: pto.constexpr):
    """Each row has a number of its own, which does not exist where the row does not."""
    i, j = pto.arange(0, 4)[:, None], pto.arange(0, B)[None, :]
    there = (i < m) & (j < n)
    s = pto.load(scale + i, mask=i < m, other=1.0)
    pto.store(out + i * n + j, pto.load(x + i * n + j, mask=there, other=0.0) * s + 1, mask=there)


@pto.jit
def summed(x, scale, out, n, m, B: pto.constexpr):
    """Sums and the greatest of each row, and of what comes of them in a loop of two statements."""
    i, j = pto.arange(0, 4)[:, None], pto.arange(0, B)[None, :]
    there = (i < m) & (j < n)
    t = pto.load(x + i * n + j, mask=there, other=-float("inf"))
    e = pto.exp(t - pto.max(t, axis=1)[:, None])
    pto.store(out + i * n + j, e / pto.sum(e, axis=1)[:, None], mask=there)


@pto.jit
def later(x, scale, out, n, m, B: pto.constexpr):
    """Blocks that begin before the array does, and inside of it."""
    for start in range(-B, n, B):
        j = start + 7 + pto.arange(0, B)
        there = (j >= 0) & (j < n)
        t = pto.load(x + j, mask=there, other=2.0)
        pto.store(out + j, t * 2 + pto.sum(t) * 0, mask=there)


@pto.jit
def in_place(x, scale, out, n, m, B: pto.constexpr):
    j = pto.arange(0, B)
    t = pto.load(out + j, mask=j < n, other=0.0)
    pto.store(out + j, t + 1, mask=j < n)
    pto.store(out + j, pto.load(out + j, mask=j < n, other=0.0) * 3, mask=j < n)


@pto.jit
def shorter(x, scale, out, n, m, B: pto.constexpr):
    """One side ends with n, the other with n * m // 4."""
    j = pto.arange(0, B)
    a = pto.load(x + j, mask=j < n, other=1.0)
    b = pto.load(x + j, mask=j < n * m // 4, other=-1.0)
    pto.store(out + j, a * b + pto.argmin(b), mask=j < n)


KERNELS = (scaled, summed, later, in_place, shorter)


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "host"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.function.__name__)
@given(n=st.integers(1, 700), m=st.integers(0, 4), block=st.sampled_from([256, 1024, 4096]), at_end=st.booleans())
@settings(max_examples=8, deadline=None)
@pytest.mark.skipif(sys.platform != "linux", reason="protects pages")
def test_as_with_masks_everywhere(kernel: Any, level: str, n: int, m: int, block: int, at_end: bool) -> None:
    pages, n = Pages(), min(n, block)
    values = np.random.default_rng(n).standard_normal((max(1, m), n)).astype(np.float32)
    x, scale = pages.array(values, at_end), pages.array(np.arange(max(1, m)).astype(np.float32), at_end)
    results = []
    for version in (at_level(kernel, level), pto.interpret(kernel)):
        out = pages.array(np.full((max(1, m), n), 0.5, np.float32), at_end)
        version[1,](x, scale, out, n, m, B=block)
        results.append(out.copy())
    np.testing.assert_allclose(*results, rtol=2e-5, atol=2e-5)


@pto.jit
def columns(x, out, B: pto.constexpr):
    row, j = pto.program_id(0), pto.arange(0, B)
    there = j < x.shape[1]
    pto.store(out + row * x.shape[1] + j, pto.load(x + row * x.shape[1] + j, mask=there) * 2, mask=there)


@pytest.mark.parametrize("level", ["x86-64-v3", "host"])
@given(phase=st.integers(0, 15), count=st.integers(600, 1024))
@settings(max_examples=12, deadline=None)
@pytest.mark.skipif(sys.platform != "linux", reason="wants the levels of x86-64")
def test_chunks_that_exist_go_past_the_caches(level: str, phase: int, count: int) -> None:
    x = np.random.default_rng(count).random((PROGRAMS, count // 4 * 4), np.float32)
    out, around = at(phase * 4, x.shape, np.float32)
    out[...] = 0
    before = around.copy()
    launch_streaming(Launch(columns, PROGRAMS, {"x": x, "out": out, "B": 1024}, {}), level)
    np.testing.assert_array_equal(out, x * 2)
    out[...] = 0
    np.testing.assert_array_equal(around, before)


def text_of(block: int) -> str:
    x = np.zeros((4, 781), np.float32)
    return lowered(Launch(columns, 4, {"x": x, "out": x.copy(), "B": block}, {})).text


def test_one_loop_with_masks_beside_those_without() -> None:
    """Of those, one stores through the caches and one past them."""
    text = text_of(1024)
    assert len(re.findall(r"load <32 x float>", text)) == 2
    assert len(re.findall(r"call <8 x float> @llvm.masked.load", text)) == 1


def test_short_blocks_are_whole_or_have_masks() -> None:
    assert [bool(re.search(r"and i64 %\w+, -32\b", text_of(block))) for block in (64, 1024)] == [False, True]


@pto.jit
def from_the_start(x, out, n, B: pto.constexpr):
    """Blocks that may end behind the array, but begin inside of it."""
    j = pto.arange(0, B)
    pto.store(out, pto.sum(pto.load(x + j, mask=j < n, other=0.0)))


@pto.jit
def from_anywhere(x, out, n, low, B: pto.constexpr):
    """Blocks that may begin before the array does."""
    j = pto.arange(0, B) - low
    pto.store(out, pto.sum(pto.load(x + j, mask=(j >= 0) & (j < n), other=0.0)))


def test_an_index_that_counts_from_0_is_not_compared_with_it() -> None:
    x, out = np.ones(200, np.float32), np.zeros(1, np.float32)
    near = lowered(Launch(from_the_start, 1, {"x": x, "out": out, "n": 200, "B": 256}, {})).text
    far = lowered(Launch(from_anywhere, 1, {"x": x, "out": out, "n": 200, "low": 7, "B": 256}, {})).text
    assert "icmp sge" not in near
    assert "icmp sge" in far
    for n in (0, 1, 63, 64, 200):
        from_the_start[1,](x, out, n=n, B=256)
        assert out[0] == n
        from_anywhere[1,](x, out, n=n, low=7, B=256)
        assert out[0] == n
