"""Kernels with bodies for few elements, where how many there are is known at the launch only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.arrays import Dim, attention, softmax

RNG = np.random.default_rng(8)
N, M = Dim("n", 1, 300), Dim("m", 1, 300)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "product": lambda x, y, w: np.tanh(x @ w) + 1,
    "rows of a product": lambda x, y, w: (z := x @ w) / np.sqrt((z * z).sum(axis=-1, keepdims=True) + 1),
    "chain": lambda x, y, w: np.maximum(x @ w, 0) @ w.T,
    "attention": lambda x, y, w: attention(x, y, y + 1),
    "scores": lambda x, y, w: softmax(x @ y.T),
    "gram": lambda x, y, w: x.T @ x,
    "whole columns": lambda x, y, w: np.sort(x @ y.T, axis=1)[:, ::-1],
    "along": lambda x, y, w: softmax(y.T * 2, axis=1) + y.T.max(axis=1, keepdims=True),
}
SIZES = (1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 48, 63, 64, 65, 129, 300)


LONG = ("attention", "along")  # to compile; attention is tried in fewer sizes below


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in LONG)) for n in FUNCTIONS])
def test_all_sizes_compute_the_same(name: str) -> None:
    fused = pto.fuse(FUNCTIONS[name], dims={"x": (N, None), "y": (M, None)})
    w = RNG.standard_normal((24, 24), np.float32)
    for n in SIZES:
        for m in (1, 16, n, 301 - n):
            x, y = RNG.standard_normal((n, 24), np.float32), RNG.standard_normal((m, 24), np.float32)
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(fused(x, y, w), FUNCTIONS[name](x, y, w), rtol=1e-3, atol=1e-4)
    (version,) = fused.versions
    assert all(len(kernel.kernel.specializations) == 1 for kernel in version.plan.kernels)


def test_a_body_for_few_rows_stands_in_the_text() -> None:
    fused = pto.fuse(FUNCTIONS["chain"], dims={"x": (Dim("rows", 1, 4096), None)})
    (kernel,) = fused.plan(np.ones((3, 24), np.float32), np.ones(1), np.ones((24, 24), np.float32)).kernels
    assert "if n0 - i0 <= 8:" in kernel.source and "elif n0 - i0 <= 16:" in kernel.source
    plain = pto.fuse(FUNCTIONS["chain"]).plan(np.ones((3, 24), np.float32), np.ones(1), np.ones((24, 24), np.float32))
    assert " if " not in plain.kernels[0].source


def test_nothing_behind_the_end_is_read_or_written() -> None:
    fused = pto.fuse(FUNCTIONS["attention"], dims={"x": (N, None), "y": (M, None)})
    w = np.ones((24, 24), np.float32)
    with pto.checked():
        for n, m in ((1, 1), (8, 16), (16, 16), (17, 15), (5, 70)):
            x, y = RNG.standard_normal((n, 24), np.float32), RNG.standard_normal((m, 24), np.float32)
            np.testing.assert_allclose(fused(x, y, w), FUNCTIONS["attention"](x, y, w), rtol=1e-3, atol=1e-4)


def test_what_lies_in_other_elements_does_not_matter() -> None:
    fused = pto.fuse(FUNCTIONS["scores"], dims={"x": (N, None), "y": (M, None)})
    w, memory = np.ones((24, 24), np.float32), np.full((2, 400 * 24), np.nan, np.float32)
    for n, m in ((3, 5), (12, 14), (20, 50)):
        x, y = memory[0, : n * 24].reshape(n, 24), memory[1, : m * 24].reshape(m, 24)
        x[:], y[:] = RNG.standard_normal((n, 24), np.float32), RNG.standard_normal((m, 24), np.float32)
        np.testing.assert_allclose(fused(x, y, w), FUNCTIONS["scores"](x, y, w), rtol=1e-3, atol=1e-5)
        memory[:] = np.nan


@pytest.mark.parametrize("high", [1, 8, 17, 64, 65])
def test_attention_over_few_keys(high: int) -> None:
    fused = pto.fuse(FUNCTIONS["attention"], dims={"x": (Dim("n", 1, high), None), "y": (Dim("m", 1, high), None)})
    w = np.ones((24, 24), np.float32)
    for n, m in ((1, 1), (high, 1), (1, high), (high, high)):
        x, y = RNG.standard_normal((n, 24), np.float32), RNG.standard_normal((m, 24), np.float32)
        np.testing.assert_allclose(fused(x, y, w), FUNCTIONS["attention"](x, y, w), rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_a_device_runs_them() -> None:
    w = RNG.standard_normal((24, 24), np.float32)
    for name in ("chain", "attention"):
        fused = pto.fuse(FUNCTIONS[name], dims={"x": (Dim("n", 1, 64), None), "y": (Dim("m", 1, 64), None)})
        with pto.device("ascend-sim"):
            for n, m in ((3, 5), (40, 20)):
                x, y = RNG.standard_normal((n, 24), np.float32), RNG.standard_normal((m, 24), np.float32)
                np.testing.assert_allclose(fused(x, y, w), FUNCTIONS[name](x, y, w), rtol=1e-3, atol=1e-3)
