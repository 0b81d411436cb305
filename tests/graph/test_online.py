"""A softmax along an axis that is too long for a tile: one loop, and a second one for what follows along the axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.graph.tracing.arguments import leaves


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def log_softmax(x: Any) -> Any:
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def of_log_softmax(x: Any, labels: Any) -> Any:
    return -np.take_along_axis(log_softmax(x), labels[:, None], axis=1).mean()


def of_one_hot(x: Any, labels: Any) -> Any:
    hits = (labels[:, None] == np.arange(x.shape[-1])).astype(x.dtype)
    return -(log_softmax(x) * hits).sum(axis=-1).mean()


def of_pairs(x: Any, labels: Any) -> Any:
    return -log_softmax(x)[np.arange(len(labels)), labels].mean()


def entropy(x: Any, labels: Any) -> Any:
    return -(softmax(x) * log_softmax(x)).sum(axis=-1)


SECOND: dict[str, tuple[Any, int]] = {  # and how many kernels they are
    "log_softmax": (lambda x, labels: log_softmax(x), 1),
    "softmax": (lambda x, labels: softmax(x) * 2, 1),
    "entropy": (entropy, 1),
    "cross-entropy": (of_log_softmax, 2),
    "cross-entropy by hits": (of_one_hot, 2),
    "cross-entropy by pairs": (of_pairs, 2),
}


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("words", [40_000, 40_961])
@pytest.mark.parametrize("name", SECOND)
def test_what_follows_a_softmax_over_many_words_is_a_second_loop(name: str, words: int) -> None:
    function, kernels = SECOND[name]
    rng = np.random.default_rng(8)
    x = rng.standard_normal((6, words)).astype(np.float32) * 5
    x[0] += np.linspace(0, 90, words, dtype=np.float32)
    labels = np.array([-5, 1, words - 1, 0, 9, words - 3])
    fused = pto.fuse(function)
    wanted = function(x.astype(np.float64), labels)
    for a, b in zip(leaves(fused(x, labels)), leaves(wanted), strict=True):
        np.testing.assert_allclose(a[1], b[1], rtol=3e-6, atol=1e-30)
    plan = fused.plan(x, labels)
    assert plan.kernels[0].form == "online"
    assert len(plan.steps) == kernels
    assert plan.arena_bytes < 1000


def test_rows_of_a_softmax_in_two_loops_are_numpys_where_they_are_special() -> None:
    x = np.zeros((5, 50_001), np.float32)
    x[0, 30_000], x[1], x[2, :40_000], x[3, 7] = np.nan, -np.inf, -np.inf, np.inf

    def function(x: Any) -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    with np.errstate(all="ignore"):
        np.testing.assert_allclose(pto.fuse(function)(x), function(x), rtol=1e-5)
    one = x[2:3]  # a single row has more to do for each thread than there are rows, and is several kernels
    np.testing.assert_allclose(pto.fuse(function)(one), function(one), rtol=1e-5)
