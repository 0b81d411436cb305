"""Products of few results over a long axis, which are made by parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto

PROGRAMS: dict[str, Any] = {
    "a Gram matrix": lambda x, y: x.T @ x,
    "two arguments": lambda x, y: x.T @ y / x.shape[0],
    "correlations": lambda x, y: ((x - x.mean(axis=0)) / x.std(axis=0)).T @ ((x - x.mean(axis=0)) / x.std(axis=0)),
    "einsum": lambda x, y: np.einsum("ki,kj->ij", x, y),
    "rows": lambda x, y: y[:, :5].T @ x,
}


@pytest.mark.parametrize(("name", "depth"), [
    *((name, 5000) for name in PROGRAMS), *(("a Gram matrix", depth) for depth in (4096, 4099, 20_000)),
])  # fmt: skip
def test_long_products(name: str, depth: int) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((depth, 40)), rng.standard_normal((depth, 24))
    for dtype in (np.float64, np.float32):
        given = x.astype(dtype), y.astype(dtype)
        tolerance = 1e-9 if dtype is np.float64 else 2e-3
        wanted = PROGRAMS[name](x, y)
        np.testing.assert_allclose(
            pto.fuse(PROGRAMS[name])(*given), wanted, rtol=tolerance, atol=tolerance * depth**0.5
        )


def test_threads_share_the_axis_of_a_gram_matrix() -> None:
    x = np.ones((20_000, 64), np.float32)
    plan = pto.fuse(lambda x: x.T @ x).plan(x)
    assert max(plan.steps[0].grid) >= 4
    small = pto.fuse(lambda x: x.T @ x).plan(np.ones((1000, 64), np.float32))
    assert len(small.steps) == 1
