"""Kernels at random sizes and blocks: what is left over at the edges is where they go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from tests.conformance import kernels, networks
from tests.conformance.fences import Fences
from tests.conformance.running import at_level
from tests.conftest import LEVELS

QUICK: dict[str, Any] = {"max_examples": 12, "derandomize": True}
LONG: dict[str, Any] = {"max_examples": 150}
COMMON: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
EXACT = (np.float32, np.float64, np.float16, bfloat16, np.int8, np.int32)
Draw = Callable[[Any], Any]
New = Callable[[Any], Any]  # an array as a copy in fenced memory


def small(draw: Draw, *shape: int, dtype: Any = np.float32) -> Any:
    """Small whole numbers, whose sums and products every type holds."""
    return np.random.default_rng(draw(st.integers(0, 9))).integers(-2, 3, shape).astype(dtype)


def edge(draw: Draw, most: int) -> int:
    """A size, often beside a multiple of the lanes."""
    near = st.builds(lambda n, d: max(1, min(most, 8 * n + d)), st.integers(1, most // 8), st.integers(-1, 1))
    return int(draw(st.one_of(st.integers(1, most), near)))


def matmul(draw: Draw, new: New, level: str) -> None:
    m, n, k = (edge(draw, 70) for _ in range(3))
    blocks = [edge(draw, 48) for _ in range(3)]
    dtype = draw(st.sampled_from(EXACT[:4]))
    a, b, bias = small(draw, m, k, dtype=dtype), small(draw, k, n, dtype=dtype), small(draw, n)
    a = a if draw(st.booleans()) else np.ascontiguousarray(a.T).T
    b = b if draw(st.booleans()) else np.ascontiguousarray(b.T).T
    c = new(np.full((m, n), 77, np.float64 if dtype == np.float64 else np.float32))
    kernel = networks.matmul_native if c.dtype == np.float32 else networks.matmul_f64
    at_level(kernel, level)[-(-m // blocks[0]), -(-n // blocks[1])](a, b, bias, c, None, *blocks)
    np.testing.assert_array_equal(c, a.astype(int) @ b.astype(int) + bias)


def attention(draw: Draw, new: New, level: str) -> None:
    """Against a second version with blocks as large as the whole."""
    heads, rows, width = 2, edge(draw, 50), edge(draw, 40)
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    q, k, v = rng.standard_normal((3, heads, rows, width), np.float32)
    causal, (bm, bn) = draw(st.booleans()), (edge(draw, 32), edge(draw, 32))
    found, whole = new(q), new(q)
    kernel = at_level(networks.attention, level)
    kernel[-(-rows // bm), heads](q, k, v, found, 0.2, causal, bm, bn)
    kernel[1, heads](q, k, v, whole, 0.2, causal, rows, rows)
    np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-5)


def reductions(draw: Draw, new: New, level: str) -> None:
    shape = tuple(edge(draw, 24) for _ in range(3))
    x = small(draw, *shape, dtype=draw(st.sampled_from(EXACT)))
    x = x.transpose(2, 0, 1) if draw(st.booleans()) else x
    total = np.int32 if x.dtype.kind == "i" else x.dtype
    wide = x.astype(np.int64)
    sums = [wide.sum(0), wide.sum(1), wide.sum(2, keepdims=True), wide.sum((0, 2))]
    outputs = [new(np.zeros(s.shape, total)) for s in sums]
    most, least = new(np.zeros((x.shape[0], x.shape[2]), x.dtype)), new(np.zeros(1, x.dtype))
    at_level(kernels.reduce_axes, level)[1](x, *outputs, most, least)
    for output, expected in zip(outputs, sums, strict=True):
        np.testing.assert_array_equal(output.astype(np.int64), expected.astype(total).astype(np.int64))
    np.testing.assert_array_equal(most, x.max(1))
    assert least[0] == x.min()


def positions(draw: Draw, new: New, level: str) -> None:
    x = small(draw, edge(draw, 40), edge(draw, 70), dtype=draw(st.sampled_from(EXACT)))
    outputs = [new(np.zeros(n, np.int32)) for n in (x.shape[1], x.shape[0], (x.shape[0], 1), 1)]
    at_level(kernels.arg_extremes, level)[1](x, *outputs)
    wide = x.astype(np.float64)
    expected = [wide.argmax(0), wide.argmax(1), wide.argmin(1)[:, None], wide.argmax()]
    for output, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(output, wanted)


def scans(draw: Draw, new: New, level: str) -> None:
    x = small(draw, 2, edge(draw, 40), edge(draw, 70), dtype=draw(st.sampled_from((np.float32, np.int32, np.float64))))
    forward, backward = new(x), new(x)
    at_level(kernels.running_sums, level)[2](x, forward, backward)
    np.testing.assert_array_equal(forward, np.cumsum(x, 1, dtype=x.dtype))
    np.testing.assert_array_equal(backward, np.cumsum(x[:, :, ::-1], 2, dtype=x.dtype)[:, :, ::-1])


def transposes(draw: Draw, new: New, level: str) -> None:
    x = small(draw, edge(draw, 70), edge(draw, 70), dtype=draw(st.sampled_from((*EXACT, bool))))
    blocks = edge(draw, 64), edge(draw, 64)
    y = new(np.zeros(x.shape[::-1], x.dtype))
    grid = tuple(-(-n // b) for n, b in zip(x.shape, blocks, strict=True))
    at_level(networks.transpose, level)[grid](x, y, *blocks)
    np.testing.assert_array_equal(y, x.T)


def rows(draw: Draw, new: New, level: str) -> None:
    x = np.random.default_rng(3).standard_normal((3, edge(draw, 300)), np.float32)
    y, online = new(x), new(x)
    at_level(networks.softmax_native, level)[3](x, y)
    at_level(networks.softmax_online, level)[3](x, online, edge(draw, 100))
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(online, y, rtol=1e-5, atol=1e-7)


CHECKS = (matmul, attention, reductions, positions, scans, transposes, rows)
every_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)


@every_check
@settings(**QUICK, **COMMON)
@given(data=st.data(), level=st.sampled_from(LEVELS))
def test_sizes(check: Callable[[Draw, New, str], None], data: st.DataObject, level: str) -> None:
    with Fences() as fences:
        check(data.draw, fences.around, level)


@pytest.mark.first
@pytest.mark.slow
@every_check
@settings(**LONG, **COMMON)
@given(data=st.data(), level=st.sampled_from(LEVELS))
def test_many_sizes(check: Callable[[Draw, New, str], None], data: st.DataObject, level: str) -> None:
    with Fences() as fences:
        check(data.draw, fences.around, level)
