"""`pypto.arrays`: functions as people expect them, alone and in fused functions, and the standard's names."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.arrays.names import ELEMENTWISE, ELSEWHERE, OTHERS, OUTSIDE, REFUSED
from pypto.errors.graph import WrongKeyword
from pypto.graph import evaluate, trace
from pypto.graph.lazy import namespace

RNG = np.random.default_rng(2)
X = RNG.standard_normal((6, 10))
MASK = RNG.random((6, 6)) > 0.3
ERF = np.vectorize(math.erf)


def reference_attention(q: Any, k: Any, v: Any, mask: Any = True) -> Any:
    s = np.where(mask, q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]), -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "softmax": (pt.softmax, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "log_softmax": (pt.log_softmax, lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
    "logsumexp": (pt.logsumexp, lambda x: np.log(np.exp(x).sum(-1))),
    "relu": (pt.relu, lambda x: x * (x > 0)),
    "silu": (pt.silu, lambda x: x / (1 + np.exp(-x))),
    "softplus": (pt.softplus, lambda x: np.log(1 + np.exp(x))),
    "gelu": (pt.gelu, lambda x: 0.5 * x * (1 + ERF(x / math.sqrt(2)))),
    "erf": (pt.erf, ERF),
    "sigmoid": (pt.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "layer_norm": (pt.layer_norm, lambda x: (x - x.mean(-1)[:, None]) / np.sqrt(x.var(-1)[:, None] + 1e-5)),
    "rms_norm": (pt.rms_norm, lambda x: x / np.sqrt((x * x).mean(-1)[:, None] + 1e-6)),
    "attention": (
        lambda x: pt.attention(x, x, x, MASK),
        lambda x: reference_attention(x, x, x, MASK),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_alone_and_fused(name: str) -> None:
    function, reference = FUNCTIONS[name]
    wanted = reference(X)
    for found in (function(X), pto.fuse(function)(X)):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_a_layer_of_these_is_few_kernels() -> None:
    def block(x: Any, w: Any) -> Any:
        return pt.layer_norm(pt.gelu(x @ w) + x)

    x, w = (RNG.standard_normal(shape).astype(np.float32) for shape in ((50, 64), (64, 64)))
    assert len(pto.fuse(block).plan(x, w).steps) == 1


@pytest.mark.parametrize("length", [24, 700])
def test_attention_is_one_kernel_at_any_length(length: int) -> None:
    q, k, v = (RNG.standard_normal((2, length, 16)).astype(np.float32) for _ in range(3))
    fused = pto.fuse(pt.attention)
    np.testing.assert_allclose(fused(q, k, v), reference_attention(q, k, v), rtol=1e-4, atol=1e-5)
    plan = fused.plan(q, k, v)
    assert [kernel.form for kernel in plan.kernels] == ["chain" if length == 24 else "online"]
    assert plan.arena_bytes == 0


def test_rows_of_a_softmax_that_are_masked_as_a_whole_are_nan_as_in_numpy() -> None:
    q, k, v = (RNG.standard_normal((4, n, 8)).astype(np.float32) for n in (3, 700, 700))
    mask = np.ones((3, 700), bool)
    mask[1] = False
    mask[2, :600] = False
    with np.errstate(invalid="ignore"):
        wanted = reference_attention(q, k, v, mask)
    np.testing.assert_allclose(pt.attention(q, k, v, mask), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [*ELEMENTWISE, *OTHERS])
def test_names_of_the_standard_are_traced(name: str) -> None:
    function = getattr(pt, name)
    x = np.abs(X) + 0.5
    integers = np.arange(60).reshape(6, 10)
    special: dict[str, tuple[Any, ...]] = {
        "broadcast_to": (x, (2, 6, 10)), "concat": ([x, x],), "expand_dims": (x, 0), "full_like": (x, 2.0),
        "matmul": (x, x.T), "moveaxis": (x, 0, 1), "permute_dims": (x, (1, 0)), "reshape": (x, (10, 6)),
        "roll": (x, 2), "stack": ([x, x],), "where": (x > 1, x, x), "take": (x, np.array([1, 2])), "clip": (x, 1, 2),
        "tensordot": (x, x.T, 1), "bitwise_invert": (integers,), "flip": (x,), "cumulative_sum": (x[0],),
        "take_along_axis": (x, np.argsort(x, axis=1), 1), "meshgrid": (x[0], x[1]), "broadcast_arrays": (x, x[0]),
        "repeat": (x, 2), "tile": (x, 2), "searchsorted": (np.sort(x[0]), x), "cumulative_prod": (x[0],),
    }  # fmt: skip
    if name in special:
        args = special[name]
    elif name.startswith("bitwise"):
        args = (integers, integers % 7)
    else:
        args = (x,) * (function.nin if isinstance(function, np.ufunc) else 2 if name == "vecdot" else 1)
    if name == "diff":
        args = (x,)
    traced = trace(function, *args)
    with np.errstate(all="ignore"):
        wanted = function(*args)
    found = evaluate(traced.graph, traced.arrays)[0]
    wanted = wanted[0] if isinstance(wanted, tuple) else wanted
    assert found.dtype == np.asarray(wanted).dtype
    if name != "empty_like":
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize("name", (*REFUSED, *ELSEWHERE))
def test_what_is_not_offered_says_why(name: str) -> None:
    reason = REFUSED.get(name) or ELSEWHERE[name]
    with pytest.raises(AttributeError, match=rf"has no '{name}': {re.escape(reason)}"):
        getattr(pt, name)


def test_names_from_outside_are_numpys() -> None:
    assert all(getattr(pt, name) is getattr(np, name) for name in OUTSIDE)


WORDS: dict[str, tuple[Any, str]] = {
    "axis": (lambda x: pt.softmax(x, dim=1), "`pypto.arrays.softmax` has no argument `dim`: it takes `x`, `axis`"),
    "keepdims": (lambda x: pt.logsumexp(x, axis=1, keepdim=True), "no argument `keepdim`"),
    "eps": (lambda x: pt.rms_norm(x, epsilon=1e-3), "no argument `epsilon`"),
    "mask": (lambda x: pt.attention(x, x, x, attn_mask=MASK), "no argument `attn_mask`"),
    "weight": (lambda x: pt.layer_norm(x, wieght=x), "no argument `wieght`"),
    "help(pypto.arrays.erf)": (lambda x: pt.erf(x, whatever=1), "no argument `whatever`: it takes `x`"),
}


@pytest.mark.parametrize("way", WORDS)
def test_keywords_that_functions_do_not_have(way: str) -> None:
    function, problem = WORDS[way]
    for call in (function, pto.fuse(function)):
        with pytest.raises(WrongKeyword) as caught:
            call(X)
        text = str(caught.value)
        assert problem in text
        assert way in text
        assert "test_namespace.py" in text


def test_arrays_of_traced_functions_and_lazy_arrays_are_of_the_standard() -> None:
    def standardised(x: Any) -> Any:
        xp = x.__array_namespace__()
        assert x.device == "cpu" and x.to_device("cpu") is x
        result = xp.zeros(x.shape, dtype=x.dtype)
        result[...] = (x - xp.mean(x)) / xp.std(x)
        return result

    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(pto.fuse(standardised)(x), standardised(x))
    lazy = pt.lazy(x) * 2
    assert lazy.__array_namespace__(api_version="2022.12") is namespace
    np.testing.assert_array_equal(np.from_dlpack(lazy), x * 2)
    with pytest.raises(ValueError, match="'cpu' alone"):
        lazy.to_device("gpu")
