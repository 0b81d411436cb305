"""The test for NaN behind a maximum is left out where every result is NaN without it, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt

REDUNDANT: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: pt.softmax(x * 2 + 1),
    "columns": lambda x: pt.softmax(x, axis=0),
    "middle axis": lambda x: pt.softmax(x.reshape(2, 4, 8), axis=1),
    "logarithm": pt.log_softmax,
    "one number": pt.logsumexp,
    "whole array": lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(),
    "minimum": lambda x: (x - x.min(axis=1)[:, None]) / (x - x.min(axis=1)[:, None]).sum(axis=1)[:, None],
}
NEEDED: dict[str, Callable[[Any], Any]] = {
    "maximum itself": lambda x: (pt.softmax(x), x.max(axis=1)),
    "differences": lambda x: x - x.max(axis=1)[:, None],
    "exponentials": lambda x: np.exp(x - x.max(axis=1)[:, None]),
    "sum of another row": lambda x: x - x.max(axis=1)[:, None] + x.sum(axis=1)[None, :],
    "sum along the other axis": lambda x: (x - x.max(axis=1)[:, None]).sum(axis=0),
    "choice": lambda x: np.where(x.sum(axis=1)[:, None] > 0, 1, x - x.max(axis=1)[:, None]),
    "maximum of sums": lambda x: np.maximum(x.sum(axis=1)[:, None], x - x.max(axis=1)[:, None]) * 0 + x[:, :1] * 0,
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [*REDUNDANT, *NEEDED])
def test_nan_is_where_numpy_has_it(name: str) -> None:
    function = (REDUNDANT | NEEDED)[name]
    x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    x[3, 5], x[6, 2], x[7] = np.nan, np.inf, -np.inf
    fused = pto.fuse(function)
    found, wanted = fused(x), function(x)
    for got, right in zip(*((a if isinstance(a, tuple) else (a,)) for a in (found, wanted)), strict=True):
        np.testing.assert_allclose(got, right, rtol=2e-5, atol=1e-6)
    text = "".join(kernel.source for kernel in fused.plan(x).kernels)
    assert ("reduce_or" in text) == (name in NEEDED)


@pytest.mark.parametrize("shape", [(8, 8), (3, 70_000), (5, 3, 7)])
@pytest.mark.parametrize("axis", [-1, 0, None])
def test_the_largest_magnitude_is_found_on_bits_without_a_test(shape: tuple[int, ...], axis: int | None) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x[1, 2], x[2, 0], x[0, 1] = -np.inf, np.nan, -0.0
    fused = pto.fuse(lambda x: np.abs(x).max(axis=axis) * 1)
    for signs in (1, -1):
        np.testing.assert_array_equal(fused(x * signs), np.abs(x).max(axis=axis))
    text = "".join(kernel.source for kernel in fused.plan(x).kernels)
    assert "reduce_or" not in text
    assert "bitcast" in text


def test_the_largest_magnitude_of_narrow_floats_and_integers() -> None:
    for dtype in ("f2", "f8", "i4"):
        x = np.random.default_rng(0).standard_normal((4, 9)).astype(dtype)
        if x.dtype.kind == "f":
            x[1, 2] = np.nan
        np.testing.assert_array_equal(pto.fuse(lambda x: np.abs(x).max(axis=1) * 1)(x), np.abs(x).max(axis=1))
