"""The tutorials with numpy's default arrays: right, or an error that names the dtype and the way out."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from benchmarks.tutorials import load_tutorial
from pypto.errors import Diagnostic

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 100))
A, B = RNG.standard_normal((2, 70, 70))
Q, K, V = RNG.standard_normal((3, 2, 100, 64))
W, C = RNG.standard_normal((2, 100))


def normed() -> Any:
    return (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 1e-5) * W + C


CALLS = {
    "add": ("01_vector_add", "vector_add", (X[0], X[1]), lambda: X[0] + X[1]),
    "softmax": ("02_fused_softmax", "softmax_rows", (X,), lambda: np.exp(X) / np.exp(X).sum(1, keepdims=True)),
    "matmul": ("03_matrix_multiplication", "matmul", (A, B), lambda: A @ B),
    "matmul_by_pointers": ("03_matrix_multiplication", "matmul_by_pointers", (A, B), lambda: A @ B),
    "layer_norm": ("04_layer_norm", "layer_norm", (X, W, C), normed),
    "attention": ("05_flash_attention", "flash_attention", (Q, K, V), None),
}


@pytest.mark.parametrize("name", CALLS)
def test_float64_arrays(name: str) -> None:
    tutorial, function, inputs, reference = CALLS[name]
    module = load_tutorial(tutorial)
    expected = reference() if reference is not None else module.attention_numpy(*inputs)
    out = np.full_like(expected, np.nan)
    try:
        getattr(module, function)(*inputs, out)
    except Diagnostic as error:
        assert re.search("f64|float64", str(error)) and "help:" in str(error)
        assert np.isnan(out).all()
    else:
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
