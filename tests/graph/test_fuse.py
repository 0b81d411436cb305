"""Fused functions give what numpy gives: every function that is traced, as kernels."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.graph import NoKernel
from pypto.graph.fuse import explain
from pypto.graph.ir.dims import Dim
from tests.graph.test_trace import FUNCTIONS, same


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_compute_what_numpy_computes(name: str) -> None:
    function, arrays = FUNCTIONS[name]
    fused = pto.fuse(function)
    with np.errstate(all="ignore"):
        wanted = function(*arrays)
    same(fused(*arrays), wanted)
    same(fused(*[a.copy() for a in arrays]), wanted)


def mlp(x: Any, layers: Any) -> Any:
    for weight, bias in layers:
        h = x @ weight + bias
        x = h * (h > 0)
    return x


def normalized(x: Any) -> Any:
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = q @ np.swapaxes(k, -1, -2) / np.float32(q.shape[-1] ** 0.5)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (scores / scores.sum(axis=-1, keepdims=True)) @ v


def arrays(*shapes: tuple[int, ...], seed: int = 3) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def test_equal_layers_are_one_kernel() -> None:
    x, w, b = arrays((40, 64), (64, 64), (64,))
    fused = pto.fuse(mlp)
    layers = [(w + n, b) for n in range(4)]
    np.testing.assert_allclose(fused(x, layers), mlp(x, layers), rtol=1e-4)
    plan = fused.plan(x, layers)
    assert (len(plan.steps), [k.form for k in plan.kernels]) == (2, ["chain"])


def test_bias_activation_residual_and_norm_join_the_product() -> None:
    def layer(x: Any, w: Any, b: Any) -> Any:
        return normalized(np.tanh(x @ w + b) + x)

    x, w, b = arrays((70, 96), (96, 96), (96,))
    fused = pto.fuse(layer)
    np.testing.assert_allclose(fused(x, w, b), layer(x, w, b), rtol=2e-4, atol=1e-5)
    assert len(fused.plan(x, w, b).steps) == 1


def test_the_array_between_two_products_never_exists() -> None:
    def feed_forward(x: Any, up: Any, down: Any) -> Any:
        return np.tanh(x @ up) @ down + x

    x, up, down = arrays((70, 48), (48, 640), (640, 48))
    fused = pto.fuse(feed_forward)
    np.testing.assert_allclose(fused(x, up, down), feed_forward(x, up, down), rtol=2e-4, atol=1e-4)
    plan = fused.plan(x, up, down)
    assert ([k.form for k in plan.kernels], plan.arena_bytes) == (["chain"], 0)
    assert "for k in range(0, 640, 128):" in plan.kernels[0].source


def test_attention_is_one_kernel() -> None:
    q, k, v = arrays((2, 3, 20, 16), (2, 3, 24, 16), (2, 3, 24, 8))
    fused = pto.fuse(attention)
    np.testing.assert_allclose(fused(q, k, v), attention(q, k, v), rtol=1e-4, atol=1e-5)
    assert len(fused.plan(q, k, v).steps) == 1


def test_a_transposed_result_is_written_where_it_belongs() -> None:
    def heads(q: Any, k: Any) -> Any:
        return (q @ k).transpose(1, 0, 2).reshape(q.shape[1], -1)

    q, k = arrays((3, 20, 16), (3, 16, 8))
    fused = pto.fuse(heads)
    np.testing.assert_allclose(fused(q, k), heads(q, k), rtol=1e-4, atol=1e-5)
    assert len(fused.plan(q, k).steps) == 1


def test_a_softmax_over_a_nan_is_nan_as_in_numpy() -> None:
    q, k, v = arrays((4, 8), (6, 8), (6, 8))
    q[1, 2] = np.nan
    found = pto.fuse(attention)(q, k, v)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(attention(q, k, v)))


def test_another_shape_type_or_layout_is_another_plan() -> None:
    fused = pto.fuse(normalized)
    x, y = arrays((6, 10), (9, 10))
    plan = fused.plan(x)
    assert fused.plan(x * 2) is plan
    for other in (y, x.astype(np.float64), np.asfortranarray(x)):
        assert fused.plan(other) is not plan
        np.testing.assert_allclose(fused(other), normalized(other), rtol=1e-4, atol=1e-5)


def test_constants_from_outside_are_guarded() -> None:
    scale = 2.0

    def scaled(x: Any) -> Any:
        return x * scale

    fused = pto.fuse(scaled)
    (x,) = arrays((5,))
    np.testing.assert_allclose(fused(x), x * 2)
    scale = 3.0
    np.testing.assert_allclose(fused(x), x * 3)


def test_arguments_are_updated_in_place() -> None:
    def step(u: Any, rate: float) -> None:
        u[1:-1] += rate * (u[2:] - 2 * u[1:-1] + u[:-2])

    (u,) = arrays((50,))
    wanted = u.copy()
    fused = pto.fuse(step)
    for _ in range(3):
        step(wanted, 0.1)
        fused(u, 0.1)
    np.testing.assert_allclose(u, wanted, rtol=1e-5, atol=1e-6)


def test_results_are_arrays_of_their_own() -> None:
    fused = pto.fuse(normalized)
    x, y = arrays((6, 10), (6, 10))
    first, kept = fused(x), fused(x).copy()
    fused(y)
    np.testing.assert_array_equal(first, kept)


def test_what_numpy_copies_is_an_array_of_its_own() -> None:
    def copies(x: Any) -> Any:
        y = x + 1
        return x.copy(), y, y.copy(), y, np.ones_like(x), x

    fused = pto.fuse(copies)
    (x,) = arrays((6, 10))
    for _ in range(2):
        found, wanted = fused(x), copies(x)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
        shared = [[np.shares_memory(a, b) for b in (x, *found)] for a in found]
        assert shared == [[np.shares_memory(a, b) for b in (x, *wanted)] for a in wanted]
        found[4][:] = 9


def test_arguments_may_be_exchanged() -> None:
    def exchanged(x: Any, y: Any) -> Any:
        before = x.copy()
        x[:] = y
        y[:] = before
        return before

    x, y = arrays((5,), (5,))
    given = x.copy(), y.copy()
    before = pto.fuse(exchanged)(x, y)
    for a, b in ((x, given[1]), (y, given[0]), (before, given[0])):
        np.testing.assert_array_equal(a, b)


def test_arrays_may_change_from_call_to_call_or_stay() -> None:
    x, w, b = arrays((40, 64), (64, 64), (64,))
    fused = pto.fuse(mlp)
    others = [a * 2 for a in (x, w, b)]
    for given in ((x, w, b), (x, w, b), (others[0], w, b), (x, others[1], b), (x, w, others[2]), (x, w, b)):
        layers = [(given[1], given[2])] * 3
        np.testing.assert_allclose(fused(given[0], layers), mlp(given[0], layers), rtol=1e-3, atol=1e-2)
    w[:] = others[1]
    np.testing.assert_allclose(fused(x, [(w, b)] * 3), mlp(x, [(w, b)] * 3), rtol=1e-3, atol=1e-2)


def test_a_long_reduction_is_made_once() -> None:
    def projected(q: Any, v: Any) -> Any:
        return v - q @ (q.T @ v)

    q, v = arrays((3000, 3), (3000,))
    q /= np.sqrt((q * q).sum(axis=0))
    fused = pto.fuse(projected)
    np.testing.assert_allclose(fused(q, v), projected(q, v), rtol=1e-3, atol=1e-4)
    assert len(fused.plan(q, v).steps) == 2


def test_threads_share_a_plan() -> None:
    fused = pto.fuse(mlp)
    x, w, b = arrays((40, 64), (64, 64), (64,))
    layers = [(w, b), (w, b)]
    wanted = mlp(x, layers)
    fused(x, layers)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: fused(x, layers), range(40)):
            np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_the_source_pasted_into_a_file_is_the_same_kernel(tmp_path: Any) -> None:
    x, w, b = arrays((40, 64), (64, 64), (64,))
    (kernel,) = pto.fuse(mlp).plan(x, [(w, b)]).kernels
    path = tmp_path / "pasted.py"
    path.write_text(kernel.source, encoding="utf-8")
    spec = spec_from_file_location("pasted", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    pasted = getattr(module, kernel.name)
    out = np.empty((40, 64), np.float32)
    given = [x, w, b, out]
    texts = [str(k.inspect(*given)["tile-ir"]) for k in (kernel.kernel, pasted)]
    assert texts[0] == texts[1]
    pasted[2, 1](*given)


def test_kernels_run_in_the_interpreter_too() -> None:
    x, w, b = arrays((20, 16), (16, 16), (16,))
    fused = pto.fuse(mlp)
    with pto.interpreter():
        np.testing.assert_allclose(fused(x, [(w, b)]), mlp(x, [(w, b)]), rtol=1e-5)


def test_what_has_no_kernel_is_an_error_at_its_line() -> None:
    def running(x: Any) -> Any:
        return np.sort(x) + 1

    rows = Dim("rows", 1, 1 << 20)
    with pytest.raises(NoKernel, match="sort") as caught:
        pto.fuse(running, dims={"x": (rows,)})(np.ones(10**6, np.float32))
    assert caught.value.loc.line == running.__code__.co_firstlineno + 1


def test_a_plan_says_what_it_stores_and_why() -> None:
    def two(x: Any, w: Any) -> Any:
        h = np.exp(x) @ w
        return h[1:] + h[:-1]

    x, w = arrays((40, 64), (64, 64))
    text = explain(pto.fuse(two), x, w)
    assert "a slice of it is read" in text
    assert "test_fuse.py:" in text


def test_deep_chains_of_operations_are_several_kernels() -> None:
    def deep(x: Any) -> Any:
        for n in range(150):
            x = x * np.float32(0.99) + np.float32(n % 3)
        return x

    (x,) = arrays((100,))
    fused = pto.fuse(deep)
    np.testing.assert_allclose(fused(x), deep(x), rtol=1e-5)
    assert 2 <= len(fused.plan(x).steps) <= 5


def cross_entropy(x: Any, labels: Any) -> Any:
    most = x.max(axis=-1, keepdims=True)
    total = np.log(np.exp(x - most).sum(axis=-1, keepdims=True)) + most
    hit = np.arange(x.shape[-1]) == labels[:, None]
    return total[:, 0] - np.where(hit, x, 0).sum(axis=-1), most[:, 0]


@pytest.mark.parametrize("words", [40_000, 40_961])
def test_cross_entropy_over_many_words_is_one_loop(words: int) -> None:
    rng = np.random.default_rng(8)
    x = rng.standard_normal((6, words)).astype(np.float32) * 5
    x[0] += np.linspace(0, 90, words, dtype=np.float32)
    x[1, 30_000] = np.nan
    x[2, :35_000] = -np.inf
    x[3, 7] = np.inf
    labels = np.array([5, 1, words - 1, 0, 9, words - 3], np.int32)
    fused = pto.fuse(cross_entropy)
    with np.errstate(all="ignore"):
        wanted = cross_entropy(x, labels)
        found = fused(x, labels)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5)
    plan = fused.plan(x, labels)
    assert [k.form for k in plan.kernels] == ["online"]
    assert plan.arena_bytes == 0


LONG: dict[str, Any] = {
    "a sum of all": lambda x: x.sum(),
    "a mean of squares": lambda x: (x * x).mean(),
    "columns": lambda x: x.sum(axis=0),
    "an extreme": lambda x: (x.max(), x.min(axis=1)),
    "standard scores": lambda x: (x - x.mean(axis=0)) / x.std(axis=0),
    "rows and columns": lambda x: x.sum(0)[:, None] * x[0] + x.sum(1)[0],
}


@pytest.mark.parametrize("name", LONG)
def test_long_reductions(name: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((700, 301))
    found, wanted = pto.fuse(LONG[name])(x), LONG[name](x)
    several = isinstance(wanted, tuple)
    for a, b in zip(found if several else [found], wanted if several else [wanted], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.cumsum(np.sort(x, axis=1), axis=0),
        lambda x: np.cumsum(np.ones_like(x), axis=1) + x,
        lambda x: np.cumsum(np.cumsum(x, axis=1), axis=0),
        lambda x: np.sort(np.sort(x, axis=2), axis=1),
        lambda x: np.cumsum(np.argsort(x, axis=0), axis=2),
        lambda x: np.cumsum(np.cumsum(x, axis=0), axis=1) / x.max(axis=(1, 2), keepdims=True),
        lambda x: np.cumsum(np.cumsum(x, axis=1)) + 1,
    ],
)
def test_running_results_along_several_axes(function: Any) -> None:
    x = np.random.default_rng(3).standard_normal((3, 4, 5))
    np.testing.assert_allclose(pto.fuse(function)(x), function(x), rtol=1e-9, atol=1e-9)


def test_a_long_chain_is_not_decided_on_again_for_each_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    from pypto.graph.schedule import group

    decided: list[int] = []
    known = group.space_of
    monkeypatch.setattr(
        group, "space_of", lambda nodes, outputs: (decided.append(len(nodes)), known(nodes, outputs))[1]
    )

    def chain(x: Any, y: Any) -> Any:
        for n in range(60):
            x = np.sin(x * y + n) - y
        return x

    x, y = np.ones((2, 5, 6), np.float32)
    fused = pto.fuse(chain)
    np.testing.assert_allclose(fused(x, y), chain(x, y), rtol=1e-4, atol=1e-5)
    (step,) = fused.plan(x, y).steps
    assert sum(decided) <= 3 * len(step.nodes)
