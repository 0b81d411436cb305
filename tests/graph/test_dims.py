"""Dimensions by name: one plan for all sizes, whose kernels are compiled once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pypto as pto
from pypto.arrays import Dim, attention, softmax
from pypto.errors.graph import NotTraced, WrongDims, WrongShapes
from pypto.graph import parse_graph, text, verify
from pypto.graph.ir.dims import Size, bounds, ceil_div, hint, quotient, seen_by, size_of
from pypto.graph.ir.node import Guards
from pypto.graph.plan.plan import MOST_SIZES

N, M = Dim("n", 1, 300, 20), Dim("m", 1, 40, 7)


def near(found: Any, wanted: Any) -> None:
    several = isinstance(wanted, tuple)
    for a, b in zip(found if several else [found], wanted if several else [wanted], strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (np.shape(b), np.asarray(b).dtype)
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x, w: np.tanh(x) * 2 + 1,
    "reshaped": lambda x, w: (x.reshape(-1, 8) + 1).reshape(x.shape[0] * x.shape[1], 2, 4).sum(axis=1),
    "rows": lambda x, w: x - x.mean(axis=-1, keepdims=True),
    "softmax along a dimension by name": lambda x, w: softmax(x, axis=0),
    "sums": lambda x, w: (x.sum(), x.sum(axis=0), x.max(axis=1), x.mean(axis=(0, 1))),
    "a product": lambda x, w: np.maximum(x @ w, 0) + 1,
    "rows and a norm": lambda x, w: (y := x @ w) / np.sqrt((y * y).sum(axis=-1, keepdims=True) + 1),
    "attention": lambda x, w: attention(x @ w, x, x + 1),
    "gram": lambda x, w: x[0].T @ x[0],
    "scores": lambda x, w: np.swapaxes(x, 0, 1) @ np.swapaxes(x, 0, 1).transpose(0, 2, 1),
    "transposed": lambda x, w: np.swapaxes(x, 0, 1).reshape(-1, 8) * 2,
    "slices": lambda x, w: (x[:, :-1] + x[:, 1:] if x.shape[1] > 1 else x, x[::2] * 2, x[-1] + x[0], x[:, ::-1] + 1),
    "numbers of the shape": lambda x, w: x / x.shape[0] + x.shape[1] * 2,
    "positions": lambda x, w: (x.argmax(axis=0), np.where(x > 0, x, x.shape[0])),
    "running sums": lambda x, w: x.cumsum(axis=1),
    "joined": lambda x, w: np.concatenate([x, x * 2], axis=1),
    "updated": lambda x, w: np.where(x > 0, x, 0) + np.pad(x, ((0, 0), (1, 1), (0, 0)))[:, 2:],
    "rolled": lambda x, w: np.roll(x * 1, 0, 1) - x,
    "rolled far": lambda x, w: np.roll(x, (700, -3), (0, 1)),
    "gathered": lambda x, w: w[(x[:, :, 0] > 0).astype(np.int32)],
}
SIZES = ((1, 1), (20, 7), (1, 5), (300, 1), (33, 40), (7, 2), (129, 3))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_plan_serves_all_sizes(name: str) -> None:
    function, rng = FUNCTIONS[name], np.random.default_rng(4)
    fused = pto.fuse(function, dims={"x": (M, N, None)})
    w = rng.standard_normal((8, 8), np.float32)
    plans = {}
    for n, m in SIZES:
        x = rng.standard_normal((m, n, 8), np.float32)
        near(fused(x, w), function(x, w))
        near(fused(x, w), function(x, w))
        plans[fused.plan(x, w)] = None
    assert len(plans) == (2 if name == "slices" else 1)
    for plan in plans:
        assert [len(kernel.kernel.specializations) for kernel in plan.kernels] == [1] * len(plan.kernels)


def test_a_question_about_a_size_is_a_guard_with_its_line() -> None:
    def halves(x: Any) -> Any:
        return x * 2 if x.shape[0] > 100 else x * 3

    fused = pto.fuse(halves, dims={"x": (N,)})
    short, long = (np.ones(n, np.float32) for n in (100, 101))
    assert (fused(short)[0], fused(long)[0]) == (3, 2)
    assert fused.plan(short) is fused.plan(np.ones(3, np.float32)) is not fused.plan(long)
    (line,) = (x for x in str(fused.plan(long)).splitlines() if "where" in x)
    assert "asked at" in line and f"test_dims.py:{halves.__code__.co_firstlineno + 1}" in line


def test_a_size_as_a_number_makes_the_plan_one_for_this_size() -> None:
    def unrolled(x: Any) -> Any:
        return sum(x[n] * n for n in range(x.shape[0]))

    fused = pto.fuse(unrolled, dims={"x": (Dim("k", 2, 9), None)})
    for k in (2, 5, 9):
        x = np.ones((k, 4), np.float32)
        near(fused(x), unrolled(x))


def test_results_may_tell_sizes() -> None:
    fused = pto.fuse(lambda x: {"count": x.shape[0] * 2, "x": x + 1}, dims={"x": (N,)})
    assert [fused(np.zeros(n, np.float32))["count"] for n in (3, 9)] == [6, 18]


def test_arguments_in_place_and_nested() -> None:
    def step(state: Any) -> None:
        state["u"][1:-1] += state["u"][2:]

    fused = pto.fuse(step, dims={"state.u": (Dim("n", 3, 99),)})
    for n in (3, 50, 99):
        u = np.arange(n, dtype=np.float32)
        wanted = u.copy()
        step({"u": wanted})
        fused({"u": u})
        near(u, wanted)


def test_arrays_of_the_hinted_size_need_no_memory() -> None:
    """A result of 4 TiB at the hint of its dimension is one of a few elements in this call."""
    n = Dim("n", 1, 4096)
    fused = pto.fuse(lambda x: (np.outer(x, x), np.outer(x, x)[1:] - 1), dims={"x": (n, n)})
    for size in (3, 5):
        x = np.arange(size * size, dtype=np.float32).reshape(size, size)
        near(fused(x)[0], np.outer(x, x))
        near(fused(x)[1], np.outer(x, x)[1:] - 1)


def test_a_number_among_the_dimensions_is_the_size_that_it_has() -> None:
    fused = pto.fuse(lambda k: k * 2, dims={"k": (2, np.int64(3), N, 16)})
    for n in (1, 4, 5):
        k = np.ones((2, 3, n, 16), np.float32)
        near(fused(k), k * 2)
        with pytest.raises(WrongDims, match="`k`: its dimension 0 has the size 2, not 3"):
            fused(np.ones((3, 3, n, 16), np.float32))
    with pytest.raises(WrongDims, match="its dimension 1 has the size 3, not 4"):
        fused(np.ones((2, 4, 5, 16), np.float32))
    assert len(fused.versions) == 1


def test_what_does_not_fit_is_refused() -> None:
    fused = pto.fuse(lambda x, y: x + y, dims={"x": (N, None), "y": (N, None)})
    x = np.ones((4, 6), np.float32)
    for bad, problem in (
        ((x, np.ones((5, 6), np.float32)), "`n` is 4 in one array and 5 in another"),
        ((x, np.ones(4, np.float32)), "1 dimensions"),
        ((np.ones((301, 6), np.float32), x), "from 1 to 300, not 301"),
        ((np.asfortranarray(x), x), "C order"),
        ((3, x), "no array"),
    ):
        with pytest.raises(WrongDims, match=problem):
            fused(*bad)
    with pytest.raises(WrongDims, match="no parameter `z`"):
        pto.fuse(lambda x: x, dims={"z": (N,)})
    with pytest.raises(WrongDims, match="two dimensions named `n`"):
        pto.fuse(lambda x: x, dims={"x": (N, Dim("n", 1, 2))})
    for row, problem in (
        ("n", "a tuple"),
        (3, "a tuple"),
        ((2.5,), "not 2.5"),
        ((True,), "not True"),
        ((-1,), "not -1"),
    ):
        with pytest.raises(WrongDims, match=problem):
            pto.fuse(lambda x: x, dims={"x": row})  # type: ignore[dict-item]
    with pytest.raises(WrongShapes, match="do not broadcast"):
        pto.fuse(lambda x: x + np.ones(5, np.float32), dims={"x": (N,)})(np.ones(5, np.float32))
    with pytest.raises(NotTraced, match="backwards"):
        pto.fuse(lambda x: x[5::-1], dims={"x": (N,)})(np.ones(5, np.float32))


@pytest.mark.parametrize("row", [("1x",), ("n", 0, 4), ("n", 5, 4), ("n", 1, 4, 9)])
def test_a_dim_is_a_name_and_a_range(row: Any) -> None:
    with pytest.raises(ValueError, match=r"hint|sizes|identifier"):
        Dim(*row)


def test_graphs_with_dims_are_printed_and_parsed() -> None:
    fused = pto.fuse(FUNCTIONS["slices"], dims={"x": (M, N, None)})
    graph = fused.plan(np.ones((3, 9, 8), np.float32), np.ones((8, 8), np.float32)).graph
    shown = text(graph)
    parsed = parse_graph(shown)
    verify(parsed)
    assert text(parsed) == shown
    assert "dims [m 1 40 7, n 1 300 20]" in shown
    assert "floor(" in shown


def polynomials() -> Any:
    atoms = st.sampled_from([size_of(N), size_of(M), 2, 3, 1])

    def joined(a: Any, b: Any, word: str) -> Any:
        return a + b if word == "+" else a - b if word == "-" else a * b if word == "*" else a // 3

    return st.recursive(atoms, lambda inner: st.builds(joined, inner, inner, st.sampled_from("+-*/")), max_leaves=5)


@given(polynomials(), polynomials(), st.integers(1, 300), st.integers(1, 40))
def test_sizes_compute_as_numbers_do(a: Any, b: Any, n: int, m: int) -> None:
    sizes = {"n": n, "m": m}

    def at(x: Any) -> int:
        return x.at(sizes) if isinstance(x, Size) else x

    assert at(a + b) == at(a) + at(b)
    assert at(a - b) == at(a) - at(b)
    assert at(a * b) == at(a) * at(b)
    assert at(a // 4) == at(a) // 4
    assert at(a % 4) == at(a) % 4
    assert at(ceil_div(a, 5)) == -(-at(a) // 5)
    low, high = bounds(a)
    assert low <= at(a) <= high
    exact = quotient(a, b)
    assert exact is None or at(exact) * at(b) == at(a)
    if a == b:
        assert at(a) == at(b)


def test_questions_that_the_range_answers_are_no_guards() -> None:
    guards = Guards()
    n = seen_by(size_of(N), guards)
    assert (n >= 1, n <= 300, n > 300, n == 0, n != 301) == (True, True, False, False, True)
    assert not guards.answered
    assert (n > 19, n == 20, int(n)) == (True, True, 20)
    assert [guards.hold({"n": size}) for size in (19, 20, 21)] == [False, True, False]
    assert hint(size_of(N) * 2 + 1) == 41
    with pytest.raises(TypeError, match="not known before the plan runs"):
        int(size_of(N))


def test_threads_share_a_plan_of_many_sizes() -> None:
    function = FUNCTIONS["rows and a norm"]
    fused = pto.fuse(function, dims={"x": (M, N, None)})
    rng = np.random.default_rng(4)
    w = rng.standard_normal((8, 8), np.float32)
    inputs = [rng.standard_normal((m, n, 8), np.float32) for n, m in [(3 + k, 1 + k % 4) for k in range(24)]]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(2):
            for found, x in zip(pool.map(lambda x: fused(x, w), inputs), inputs, strict=True):
                near(found, function(x, w))
    plan = fused.plan(inputs[0], w)
    assert len(plan.frames) <= MOST_SIZES
    assert [len(kernel.kernel.specializations) for kernel in plan.kernels] == [1] * len(plan.kernels)
