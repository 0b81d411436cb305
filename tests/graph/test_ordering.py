"""Sorting, indices along an axis, branches and kernels of the user in traced functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.errors.graph import NeedsValue, NotTraced, WrongShapes
from pypto.graph import evaluate, trace
from tests.graph.test_trace import run, same

RNG = np.random.default_rng(9)
X = RNG.standard_normal((5, 37)).astype(np.float32)
X[1, 3] = np.nan
X[2] = np.round(X[2])
N = RNG.integers(-4, 4, (7, 3, 5)).astype(np.int32)
J = RNG.permutation(37)[:9].astype(np.int64)
ALONG = np.argsort(RNG.standard_normal((5, 37)), axis=1)[:, :6]


def assigned(x: Any, j: Any) -> Any:
    y = x.copy()
    y[:, j] = x[:, j] * 2
    y[3, -j] = 7
    part = y[1:, ::2]
    part[np.array([0, -1, 0])] = x[:3, ::2]
    return y


def put_along(x: Any, along: Any) -> Any:
    y = x * 1
    np.put_along_axis(y, along, np.float32(-3), axis=1)
    return y


def sorted_in_place(x: Any) -> Any:
    y = x.T.copy()
    y.sort(axis=0)
    return y


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sort": (lambda x: (np.sort(x), np.sort(x * 2, axis=0), np.sort(x, axis=None)), (X,)),
    "argsort": (lambda x: (np.argsort(x, kind="stable"), x.argsort(axis=0, kind="stable")), (X,)),
    "integers": (lambda n: (np.sort(n, axis=1), np.argsort(n, axis=1, kind="stable"), np.sort(n > 0, axis=0)), (N,)),
    "sort in a group": (lambda x: np.sort(np.tanh(x), axis=1)[:, 5:] + 1, (X,)),
    "median": (lambda x: np.sort(x, axis=1)[:, x.shape[1] // 2], (X,)),
    "one element": (lambda x: (np.sort(x[:, :1]), np.argsort(x[:, :1])), (X,)),
    "no elements": (lambda x: (np.sort(x[:, :0]), np.argsort(x[:0])), (X,)),
    "sort in place": (sorted_in_place, (X,)),
    "take along": (lambda x, a: np.take_along_axis(x, a, axis=1), (X, ALONG)),
    "take along, from the end": (lambda x, a: np.take_along_axis(x, a[:, :1] * 0 - 1, 1), (X, ALONG)),
    "ranks": (lambda x: np.take_along_axis(x, np.argsort(x, axis=1, kind="stable"), axis=1), (X,)),
    "put along": (put_along, (X, ALONG)),
    "assigned": (assigned, (X, J)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_and_the_graph_mean_what_numpy_computes(name: str) -> None:
    function, arrays = FUNCTIONS[name]
    wanted = function(*arrays)
    same(run(trace(function, *arrays)), wanted)
    fused = pto.fuse(function)
    same(fused(*arrays), wanted)
    same(fused(*arrays), wanted)


def test_a_sort_joins_what_makes_its_operand() -> None:
    plan = pto.fuse(lambda x: np.sort(np.tanh(x)) * 2).plan(X)
    assert [k.form for k in plan.kernels] == ["rows"]
    assert "pto.sort(" in plan.kernels[0].source


def test_sorts_of_a_dimension_by_name() -> None:
    fused = pto.fuse(lambda x: (np.sort(x), np.argsort(x, kind="stable")), dims={"x": (None, pt.Dim("n", 1, 100))})
    for n in (1, 37, 100):
        x = RNG.integers(0, 9, (3, n)).astype(np.float32)
        x[0, n // 2] = np.nan
        same(fused(x), (np.sort(x), np.argsort(x, kind="stable")))


@pytest.mark.parametrize("axis", [0, 1])
def test_topk(axis: int) -> None:
    values, indices = pt.topk(X, 4, axis=axis)
    order = np.argsort(-X, axis=axis, kind="stable")
    np.testing.assert_array_equal(indices, np.take(order, range(4), axis=axis))
    np.testing.assert_array_equal(values, np.take_along_axis(X, indices, axis=axis))
    with pytest.raises(ValueError, match="no 6 elements"):
        pt.topk(X, 6, axis=0)


def correlated(x: Any, w: Any, bias: Any, stride: Any, padding: Any) -> Any:
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2)).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, :: stride[0], :: stride[1]]
    return np.einsum("nchwij,ocij->nohw", windows, w) + (0 if bias is None else bias[:, None, None])


@pytest.mark.parametrize(("stride", "padding", "with_bias"), [(1, 0, False), (2, 1, True), ((2, 3), (0, 2), True)])
def test_conv2d(stride: Any, padding: Any, with_bias: bool) -> None:
    x, w = RNG.standard_normal((2, 3, 9, 11), np.float32), RNG.standard_normal((5, 3, 3, 2), np.float32)
    bias = RNG.standard_normal(5, np.float32) if with_bias else None
    both = [v if isinstance(v, tuple) else (v, v) for v in (stride, padding)]
    found = pt.conv2d(x, w, bias, stride=stride, padding=padding)
    np.testing.assert_allclose(found, correlated(x, w, bias, *both), rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="do not fit"):
        pt.conv2d(x, w[:, :2])


def test_put_adds_and_of_equal_indices_the_last_counts() -> None:
    graph = trace(lambda x: x + 0, np.zeros(4, np.float32)).graph
    base = graph.outputs[0]
    index = graph.input("i", trace(lambda i: i, np.zeros(3, np.int64)).graph.inputs[0].type)
    value = graph.input("v", trace(lambda v: v, np.zeros(3, np.float32)).graph.inputs[0].type)
    graph.outputs[:] = [graph.add("put", base, index, value, axis=0, how=how) for how in ("add", "")]
    given = [np.zeros(4, np.float32), np.array([1, 1, 3]), np.float32([5, 6, 7])]
    added, replaced = evaluate(graph, given)
    np.testing.assert_array_equal(added, [0, 11, 0, 7])
    np.testing.assert_array_equal(replaced, [0, 6, 0, 7])


# --- branches ------------------------------------------------------------------------------------------------------


def test_of_two_branches_one_runs() -> None:
    def step(x: Any, y: Any) -> Any:
        up, down = pt.cond(
            x.sum() > 0, lambda p: (p["x"] * 2, p["y"]), lambda p: (-p["x"], p["y"] + 1), {"x": x + 1, "y": y}
        )
        return up + 1, down

    fused = pto.fuse(step)
    for x in (np.ones(6, np.float32), -np.ones(6, np.float32)):
        positive = x.sum() > 0
        for _ in range(3):
            up, down = fused(x, x)
            np.testing.assert_array_equal(up, ((x + 1) * 2 if positive else -(x + 1)) + 1)
            np.testing.assert_array_equal(down, x if positive else x + 1)
    assert "<lambda> or <lambda>, run by numpy" in str(fused.plan(x, x))


def test_a_branch_that_does_not_run_costs_nothing_and_fails_not(capsys: pytest.CaptureFixture[str]) -> None:
    @pto.jit
    def spoil(x: Any, out: Any) -> None:
        out[:] = x[:] * 0

    def heavy(x: Any) -> Any:
        print("traced")
        out = np.zeros_like(x)
        spoil[1](x, out)
        return out

    fused = pto.fuse(lambda x, go: pt.cond(go, heavy, lambda x: x, x))
    x = np.ones(4, np.float32)
    np.testing.assert_array_equal(fused(x, np.array(False)), x)
    assert capsys.readouterr().out == "traced\n"
    np.testing.assert_array_equal(fused(x, np.array(True)), x * 0)
    assert pt.cond(True, lambda: 3, lambda: 4) == 3


def test_branches_are_alike() -> None:
    x = np.ones(4, np.float32)
    for true, false, error, problem in (
        (lambda x: x, lambda x: x[:2], WrongShapes, "its branches return"),
        (lambda x: (x, x), lambda x: x, WrongShapes, "its branches return"),
        (lambda x: 3, lambda x: 4, NotTraced, "no array"),
        (lambda x: x.fill(3), lambda x: None, NotTraced, "writes to its operands"),
    ):
        with pytest.raises(error, match=problem):
            pto.fuse(lambda x, t=true, f=false: pt.cond(x.sum() > 0, t, f, x))(x)
    with pytest.raises(WrongShapes, match="has dimensions"):
        pto.fuse(lambda x: pt.cond(x > 0, np.exp, np.log, x))(x)


def test_an_if_on_an_array_names_the_way_out() -> None:
    def chosen(x: Any) -> Any:
        if x.sum() > 0:
            raise ValueError("too much")
        return x

    with pytest.raises(NeedsValue) as caught:
        pto.fuse(chosen)(X)
    assert "pypto.arrays.cond" in str(caught.value)
    assert caught.value.loc.line == chosen.__code__.co_firstlineno + 1


# --- kernels of the user -------------------------------------------------------------------------------------------


@pto.jit
def scaled(x: Any, out: Any, factor: float) -> None:
    n = pto.program_id(0)
    out[n, :] = x[n, :] * factor


@pto.jit
def halves(x: Any, low: Any, high: Any) -> None:
    low[:] = x[:] * 0.5
    high[:] = high[:] + x[:]


def test_a_kernel_of_the_user_is_a_step() -> None:
    def function(x: Any) -> Any:
        y = np.tanh(x)
        out = np.empty_like(y)
        scaled[y.shape[0]](y, out, 3.0)
        return out + 1

    x = np.ascontiguousarray(X[3:])
    fused = pto.fuse(function)
    for scale in (1, 2):
        np.testing.assert_allclose(fused(x * scale), np.tanh(x * scale) * 3 + 1, rtol=1e-5)
    np.testing.assert_array_equal(x, X[3:])


def test_a_kernel_updates_what_it_writes_and_nothing_else() -> None:
    def function(x: Any, high: Any) -> Any:
        low, before = np.zeros_like(x), high.copy()
        halves[1](x, low, high)
        return low, before

    x, high = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    low, before = pto.fuse(function)(x, high)
    np.testing.assert_array_equal(low, x / 2)
    np.testing.assert_array_equal(before, np.ones(8))
    np.testing.assert_array_equal(high, x + 1)


def test_a_kernel_writes_to_an_array_from_outside() -> None:
    outside = np.zeros((2, 37), np.float32)
    x = np.ascontiguousarray(X[:2])
    fused = pto.fuse(lambda x: scaled[2](x, outside, 1.0))
    for _ in range(3):
        outside[:] = 7
        fused(x)
        np.testing.assert_array_equal(outside, x)
    with pytest.raises(NotTraced, match="from outside"):
        pto.fuse(lambda x: scaled[2](x, np.frombuffer(bytearray(296), np.float32).reshape(2, 37), 1.0))(x)
