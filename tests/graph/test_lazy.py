"""Lazy arrays: computed when asked for, once, by fused kernels; and what traced arrays show of themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.errors.graph import NeedsValue, NotTraced
from pypto.errors.launch import ReadOnlyArgument
from pypto.graph.lazy import LazyGraph
from pypto.graph.tracing.tensor import Tensor

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 64), np.float32)
Y = RNG.standard_normal((64, 40), np.float32)


def graph_of(x: Any) -> LazyGraph:
    assert isinstance(x, Tensor)
    assert isinstance(x.graph, LazyGraph)
    return x.graph


CASES = {
    "operators": lambda x, y: (x * 2 - 1) / (y.T + 10),
    "product": lambda x, y: x @ y,
    "product with an array": lambda x, y: x @ np.float32(Y) + X[0, :40],
    "functions": lambda x, y: np.where(x > 0, np.exp(-x), y.T),
    "einsum": lambda x, y: np.einsum("ij,ji->i", x, y),
    "joined": lambda x, y: np.concatenate([x, y.T], axis=1)[:, ::3],
    "network": lambda x, y: pt.softmax(pt.gelu(x) @ y),
    "reductions": lambda x, y: x.mean(axis=0) + y.max(axis=1),
    "gather": lambda x, y: x[np.argsort(y[0])],
    "integers": lambda x, y: (x * 10).astype(np.int32) // 3,
    "half": lambda x, y: x.astype(np.float16) @ y.astype(np.float16),
}


@pytest.mark.parametrize("name", CASES)
def test_lazy_arrays_compute_what_numpy_does(name: str) -> None:
    case: Any = CASES[name]
    found, expected = case(pt.lazy(X), pt.lazy(Y)), np.asarray(case(X, Y))
    assert isinstance(found, Tensor)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    tolerance = 2e-2 if expected.dtype == np.float16 else 1e-4
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


def test_a_value_is_computed_once_and_only_what_it_needs() -> None:
    x = pt.lazy(X)
    y = np.exp(x)
    unused = x @ Y
    total = y.sum()
    assert graph_of(y).values == {}
    first = float(total)
    assert first == pytest.approx(np.exp(X).sum(), rel=1e-4)
    assert set(graph_of(y).values) == {total.node}
    assert float(total) == first
    np.asarray(y)
    product = np.asarray(y / 2)
    plan = graph_of(y).plans[(y / 2).node]
    assert [n.op for n in plan.graph.live() if n.op not in ("input", "constant")] == ["div"]
    np.testing.assert_allclose(product, np.exp(X) / 2, rtol=1e-5)
    assert unused.node not in graph_of(y).values


def test_what_asks_for_values() -> None:
    x = pt.lazy(np.float32([1, 2, 3]))
    assert bool(x.sum() > 5)
    assert int(x.max()) == 3
    assert x.sum().item() == 6
    assert (x * 2).tolist() == [2, 4, 6]
    assert "abc"[pt.lazy(np.int64(1))] == "b"
    assert np.asarray(x, np.float64).dtype == np.float64
    np.testing.assert_array_equal(np.asarray(x), [1, 2, 3])
    np.testing.assert_array_equal([float(v) for v in x], [1, 2, 3])


def test_a_kernel_reads_a_lazy_array_and_may_not_write_it() -> None:
    @pto.jit
    def double(x: Any, y: Any) -> None:
        y[:] = x[:] * 2

    x = np.exp(pt.lazy(X[0]))
    out = np.empty(64, np.float32)
    double[1](x, out)
    np.testing.assert_allclose(out, np.exp(X[0]) * 2, rtol=1e-5)
    with pytest.raises(ReadOnlyArgument):
        double[1](out, x)
    assert not np.asarray(x).flags.writeable
    assert not hasattr(x, "data_ptr")


def test_updates_in_place_leave_the_array_as_it_is() -> None:
    array = X.copy()
    x = pt.lazy(array)
    x[1:] += 1
    view = x[0]
    view *= 0
    np.testing.assert_array_equal(array, X)
    np.testing.assert_allclose(np.asarray(x), np.concatenate([X[:1] * 0, X[1:] + 1]))
    np.testing.assert_allclose(np.asarray(x + array), np.asarray(x) + X)


def test_a_fused_function_on_lazy_arrays_is_lazy_and_within_another_a_part_of_it() -> None:
    inner = pto.fuse(lambda x: np.exp(x) + 1)
    found = inner(pt.lazy(X))
    assert isinstance(found, Tensor)
    np.testing.assert_allclose(np.asarray(found), np.exp(X) + 1, rtol=1e-5)
    outer = pto.fuse(lambda x: inner(x) @ Y)
    np.testing.assert_allclose(outer(X), (np.exp(X) + 1) @ Y, rtol=1e-4, atol=1e-4)
    assert len(outer.plan(X).kernels) == 1
    with pytest.raises(TypeError, match=r"pass `np\.asarray"):
        inner.plan(pt.lazy(X))


def test_a_lazy_array_outside_of_a_fused_function_is_read() -> None:
    scale = pt.lazy(X[0]) * 2
    fused = pto.fuse(lambda x: np.multiply(x, 1) + np.asarray(scale))
    np.testing.assert_allclose(fused(X), X + X[0] * 2, rtol=1e-6)
    mixed = pto.fuse(lambda x: x + scale)
    np.testing.assert_allclose(mixed(X), X + X[0] * 2, rtol=1e-6)
    with pytest.raises(NotTraced, match="it meets an array of a traced function"):
        pto.fuse(lambda x: scale + x)(X)


def test_arrays_of_a_trace_still_have_no_values() -> None:
    for ask in (bool, float, int, np.asarray, lambda x: x.item(), lambda x: [0, 1][x]):
        with pytest.raises(NeedsValue):
            pto.fuse(lambda x, ask=ask: ask(x.sum()) and x)(X)


def test_a_lazy_array_shows_itself() -> None:
    x = pt.lazy(X)
    assert repr(x).startswith("<lazy array: f32[40, 64], input array0, test_lazy.py:")
    y = np.exp(x).sum(axis=0)
    text = repr(y)
    assert "f32[64]" in text
    assert "= sum %" in text
    assert "{axes = [0], keep_dims = false}" in text
    assert graph_of(y).values == {}
    html = y._repr_html_()
    assert str(np.asarray(y)[0])[:5] in html
    assert "1 step, 1 kernel" in html
    assert "y = np." in html.replace("<span", "").replace('class="', "")


def test_a_traced_array_shows_itself() -> None:
    @pto.fuse
    def f(x: Any) -> Any:
        y = np.tanh(x) * 2
        return repr(x), repr(y), y._repr_html_()

    shown = f(X)
    assert shown[0] == "<array of a traced function: f32[40, 64], input x>"
    assert shown[1].startswith("<array of a traced function: f32[40, 64], %3 = mul %1, %2, test_lazy.py:")
    assert "only its type is known" in shown[2]
    assert "np.tanh(x)" in shown[2].replace('<span class="n">2</span>', "2")
