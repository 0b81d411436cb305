"""The plan of a fused function on a simulated Ascend device: the same steps, that chip's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x, w: np.exp(x) * 2 + 1,
    "rows": lambda x, w: pt.layer_norm(x) + x.max(axis=1, keepdims=True),
    "a product and a norm": lambda x, w: pt.rms_norm(np.tanh(x @ w)),
    "attention": lambda x, w: pt.attention(x, x, x + 1),
    "columns": lambda x, w: (x * w[0]).sum(axis=0),
    "joined": lambda x, w: np.concatenate([x[1:], x[:1] * 2]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_plan_runs_on_a_simulated_device(name: str) -> None:
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal((40, 48), np.float32), rng.standard_normal((48, 48), np.float32)
    fused = pto.fuse(FUNCTIONS[name])
    with pto.device("ascend-sim"):
        plan = fused.plan(x, w)
        found = fused(x, w)
    np.testing.assert_allclose(found, FUNCTIONS[name](x, w), rtol=1e-3, atol=1e-4)
    assert fused.plan(x, w) is plan
    np.testing.assert_allclose(fused(x, w), found, rtol=1e-3, atol=1e-4)
