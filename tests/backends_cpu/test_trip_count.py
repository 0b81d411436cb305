"""Blocks that are mostly empty: their loops end early, and give what all chunks would have given."""

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


@pto.jit
def softmax(x, y, out, n, m, B: pto.constexpr):
    offs = pto.arange(0, B)
    t = pto.load(x + offs, mask=offs < n, other=-float("inf"))
    e = pto.exp(t - pto.max(t, axis=0))
    pto.store(y + offs, e / pto.sum(e, axis=0), mask=offs < n)


@pto.jit
def norm(x, y, out, n, m, B: pto.constexpr):
    offs = pto.arange(0, B)
    inside = offs < n
    t = pto.load(x + offs, mask=inside, other=0.0)
    centred = pto.where(inside, t - pto.sum(t, axis=0) / n, 0.0)
    pto.store(y + offs, centred * pto.rsqrt(pto.sum(centred * centred, axis=0) / n + 1e-5), mask=inside)


@pto.jit
def read_further(x, y, out, n, m, B: pto.constexpr):
    """The exponentials are kept, and stored as far as m, which may lie behind n."""
    offs = pto.arange(0, B)
    e = pto.exp(pto.load(x + offs, mask=offs < n, other=0.5))
    pto.store(out, pto.sum(e, axis=0))
    pto.store(y + offs, e * pto.sum(e, axis=0), mask=offs < m)


@pto.jit
def counted(x, y, out, n, m, B: pto.constexpr):
    """Elements that do not exist count, too; the second extent decides for some of them."""
    offs = pto.arange(0, B)
    a = pto.load(x + offs, mask=offs < n, other=1.0)
    b = pto.load(x + offs, mask=offs < m, other=2.0)
    pto.store(out, pto.sum(a * b, axis=0))
    pto.store(out + 1, pto.min(a + b, axis=0))
    pto.store(out + 2, pto.argmax(a - b, axis=0).to(pto.float32))
    pto.store(out + 3, pto.sum(offs.to(pto.float32) * a, axis=0))


@pto.jit
def moved(x, y, out, n, m, B: pto.constexpr):
    """Elements exist from the fifth on."""
    offs = pto.arange(0, B) - 5
    inside = (offs >= 0) & (offs < n)
    t = pto.load(x + offs, mask=inside, other=0.0)
    pto.store(y + offs, t * 2 + pto.sum(pto.abs(t), axis=0), mask=inside)


@pto.jit
def rows(x, y, out, n, m, B: pto.constexpr):
    i, j = pto.arange(0, 4)[:, None], pto.arange(0, B)[None, :]
    t = pto.load(x + i + j, mask=(j < n - i) & (i < m), other=0.0)
    pto.store(out + pto.arange(0, 4), pto.max(t, axis=1))
    pto.store(y + i + j, pto.sum(t) + i * 0, mask=(j < n - i) & (i < m) & (i < 1))


KERNELS = (softmax, norm, read_further, counted, moved, rows)


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "host"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.function.__name__)
@given(n=st.integers(1, 330), m=st.integers(0, 330), block=st.sampled_from([64, 256, 512]), at_end=st.booleans())
@settings(max_examples=12, deadline=None)
@pytest.mark.skipif(sys.platform != "linux", reason="protects pages")
def test_as_if_all_chunks_ran(kernel: Any, level: str, n: int, m: int, block: int, at_end: bool) -> None:
    pages = Pages()
    n, m = min(n, block), min(m, block)
    values = np.random.default_rng(n).standard_normal(max(n, m)).astype(np.float32)
    x = pages.array(values, at_end)
    results = []
    for version in (at_level(kernel, level), pto.interpret(kernel)):
        y = pages.array(np.zeros(max(n, m), np.float32), at_end)
        out = pages.array(np.zeros(4, np.float32), at_end)
        version[1,](x, y, out, n, m, B=block)
        results.append((y.copy(), out.copy()))
    for ours, expected in zip(*results, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=2e-5, atol=2e-5)


def test_an_empty_row_is_what_it_was() -> None:
    """No element at all: the greatest is -inf, and what follows from it NaN."""

    @pto.jit
    def total(x, out, n, B: pto.constexpr):
        offs = pto.arange(0, B)
        t = pto.load(x + offs, mask=offs < n, other=-float("inf"))
        pto.store(out, pto.sum(pto.exp(t - pto.max(t, axis=0)), axis=0))

    out = np.zeros(1, np.float32)
    total[1,](np.zeros(1, np.float32), out, 0, B=512)
    assert np.isnan(out[0])


def test_loops_end_at_run_time() -> None:
    x = np.zeros(512, np.float32)
    text = lowered(Launch(softmax, 1, {"x": x, "y": x.copy(), "out": x.copy(), "n": 5, "m": 5, "B": 512}, {})).text
    assert "%stop" in text


@pto.jit
def softmax_rows(x, y, rows, B: pto.constexpr):
    """Whether a row exists is known at run time; the elements of one that does all exist."""
    row = pto.program_id(0)
    t = x[row, :]
    e = pto.exp(t - pto.max(t, axis=0))
    y[row, :] = e / pto.sum(e, axis=0)


def test_a_loop_of_which_all_elements_exist_has_no_end_at_run_time() -> None:
    x = np.zeros((4, 512), np.float32)
    text = lowered(Launch(softmax_rows, 4, {"x": x, "y": x.copy(), "rows": 4, "B": 512}, {})).text
    assert "%stop" not in text
    assert "sub i64 512" not in text


@pto.jit
def gathered_too(x, y, z, n, B: pto.constexpr):
    """The stores end at n, but a gather reads elements behind it, which are all 1."""
    offs = pto.arange(0, B)
    e = pto.exp(pto.load(x + offs, mask=offs < n, other=0.0))
    pto.store(y + offs, e / pto.max(e), mask=offs < n)
    pto.store(z + offs, pto.gather(e, B - 1 - offs, axis=0))


def test_what_a_gather_reads_is_computed_to_the_end() -> None:
    """The kernel runs first over a whole block, so that scratch holds other numbers."""
    x = np.linspace(-1, 1, 1024, dtype=np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    gathered_too[1,](x, y, z, 1024, B=1024)
    gathered_too[1,](x, y, z, 300, B=1024)
    expected = np.where(np.arange(1024) < 300, np.exp(x), 1)
    np.testing.assert_allclose(z, expected[::-1], rtol=1e-6)
