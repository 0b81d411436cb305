"""Functions of numpy, traced: the graph means what numpy computes, for types, views and updates in place."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import pypto as pto
from pypto.errors.graph import NeedsValue, NotTraced, SharedMemory, WrongShapes
from pypto.graph import evaluate, parse_graph, text, trace, verify
from pypto.graph.tracing.arguments import mapped

RNG = np.random.default_rng(5)
X = RNG.standard_normal((3, 4)).astype(np.float32)
Y = RNG.standard_normal((3, 4)).astype(np.float32)
V = RNG.standard_normal(4).astype(np.float32)
N = RNG.integers(-5, 6, (3, 4)).astype(np.int32)
J = np.array([2, 0, -1], np.int32)
W = RNG.standard_normal((2, 4, 3)).astype(np.float64)


def views_of_views(x: Any) -> Any:
    z = x * 1
    part = z[1:, ::2]
    part.T[0] += 10
    z[0, 1:3][:] = -1
    return z, part


def unpacked(x: Any) -> Any:
    a, b, c = x
    return a + b * c


def updates(x: Any, y: Any) -> Any:
    z = x.copy()
    z += y
    z[:, 1] *= 2
    z[z > 1] = 0
    np.exp(z, out=z)
    z -= z.max(axis=1, keepdims=True)
    return z


def reshaped_update(x: Any) -> Any:
    z = x * 2
    flat = z.reshape(-1)
    flat[2:5] = 7
    turned = z.T.reshape(-1)  # a copy
    turned += 100
    return z, flat, turned


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "arithmetic": (lambda x, y: (x + y * 2 - 1 / (1 + x * x)) ** 2, (X, Y)),
    "integers": (lambda i: (i // 3, i % 3, i / 2, -i, abs(i), i << 1, i & 3, ~i, i // -2, i % -2), (N,)),
    "mixed types": (lambda x, i, w: (x + i, x + w[0].T, i + 1, i * 1.5, x * np.float64(2), i > 0.5), (X, N, W)),
    "floor of floats": (lambda x, y: (x // y, x % y, np.fmod(x, y)), (X, Y)),
    "tests": (lambda x: (np.isnan(x / 0), np.isfinite(x), np.isinf(1 / (x * 0)), np.sign(x), np.signbit(x)), (X,)),
    "copysign": (lambda x, y: np.copysign(x, -y), (X, Y)),
    "transcendental": (lambda x: (np.exp(x), np.log1p(np.abs(x)), np.tanh(x), np.sin(x), np.arctan2(x, 2)), (X,)),
    "extremes": (lambda x, y: (np.maximum(x, y), np.minimum(x, 0), np.clip(x, -1, 1), x.clip(None, 0)), (X, Y)),
    "logic": (lambda x, y: (x > 0) & ~(y < 0) | (x == y), (X, Y)),
    "logical": (lambda x, i: (np.logical_and(x, i), np.logical_not(i), np.logical_xor(x > 0, i)), (X, N)),
    "sums": (lambda x, i: (x.sum(), x.sum(0), np.sum(x, axis=-1, keepdims=True), i.sum(), (i > 0).sum(1)), (X, N)),
    "means": (lambda x, i: (x.mean(), x.var(0), x.std(axis=1, ddof=1), i.mean(1), np.mean(x, (0, 1))), (X, N)),
    "extremes along axes": (lambda x: (x.max(), x.min(0), np.amax(x, 1), x.argmax(1), np.argmin(x)), (X,)),
    "any and all": (lambda x: ((x > 0).any(1), np.all(x > -9), x.any()), (X,)),
    "scans": (lambda x, i: (x.cumsum(1), np.cumprod(x, axis=0), i.cumsum()), (X, N)),
    "reduce of a ufunc": (lambda x: (np.add.reduce(x, axis=1), np.maximum.reduce(x), np.add.accumulate(x)), (X,)),
    "where": (lambda x, i: (np.where(x > 0, x, 0), np.where(i > 0, 0, -np.inf).astype(np.float32)), (X, N)),
    "shapes": (lambda x: (x.T, x.reshape(2, -1), x[None].squeeze(0), x.ravel(), np.expand_dims(x, (0, 2))), (X,)),
    "moves": (lambda w: (w.transpose(2, 0, 1), w.swapaxes(0, 1), np.moveaxis(w, 0, -1), w.mT), (W,)),
    "indices": (lambda x: (x[1], x[-1, 1:], x[..., None], x[:, ::-2], x[1:, None, 2], x[5:]), (X,)),
    "gathers": (lambda x, j: (x[j], x[:, j], np.take(x, j, axis=1), x[j][:, 1]), (X, J)),
    "joins": (lambda x, y: (np.concatenate([x, y], 1), np.stack([x, y]), np.vstack([x, y[0]])), (X, Y)),
    "gathers of one": (lambda x, j: (x[:1][j * 0], np.take(x[:, :1], j * 0, 1), np.take(x[0, :1], j * 0 - 1)), (X, J)),
    "repeats": (lambda x: (np.repeat(x, 3), np.repeat(x, 2, axis=-1), np.repeat(x[:, None], 2, 1), np.repeat(x, 0, 0)),
                (X,)),
    "rolls": (lambda x: (np.roll(x, 1, 0), np.roll(x, -3), np.flip(x, 1), np.diff(x), np.pad(x, 1)), (X,)),
    "products": (lambda x, v, w: (x @ v, v @ x.T, x @ w, np.dot(x, x.T), np.outer(v, v), np.vdot(v, v)), (X, V, W)),
    "einsum": (lambda x, w: (np.einsum("ij,bjk->bik", x, w), np.einsum("ij,ij->i", x, x)), (X, W)),
    "einsum of one": (lambda x: (np.einsum("ij->ji", x), np.einsum("ij->", x), np.einsum("...j->...", x)), (X,)),
    "einsum of three": (lambda x, y, v: np.einsum("ij,kj,j->ik", x, y, v), (X, Y, V)),
    "tensordot": (lambda x, w: (np.tensordot(x, w, axes=([1], [1])), np.inner(x, x)), (X, W)),
    "unpacking": (unpacked, (X,)),
    "views of views": (views_of_views, (X,)),
    "updates": (updates, (X, Y)),
    "reshaped update": (reshaped_update, (X,)),
    "like": (lambda x: (np.zeros_like(x) + x, np.ones_like(x), np.full_like(x, 3)), (X,)),
    "an array from outside": (lambda x: x + Y, (X,)),
    "numbers of the shape": (lambda x: x.sum(1) / x.shape[1] + math.sqrt(len(x)) + x.ndim + x.size, (X,)),
    "norm": (lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=1, keepdims=True)), (X,)),
    "no elements": (lambda x: (x[:0].sum(0), x[:0] * 2, x[:0].T @ x[:0]), (X,)),
    "half": (lambda x: (x.astype(np.float16) * 2, x.astype(np.float16).mean()), (X,)),
}  # fmt: skip


def run(traced: Any) -> Any:
    """The result of a traced function, node by node."""
    outputs = evaluate(traced.graph, traced.arrays)
    return mapped(traced.result, lambda _, leaf: outputs[leaf.number] if hasattr(leaf, "number") else leaf)


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            same(a, b)
        return
    wanted = np.asarray(wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    tolerance = {"float16": 2e-3, "float32": 2e-6}.get(str(wanted.dtype), 1e-12)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_graph_means_what_numpy_computes(name: str) -> None:
    function, arrays = FUNCTIONS[name]
    traced = trace(function, *arrays)
    verify(traced.graph)
    kept = [a.copy() for a in arrays]
    with np.errstate(all="ignore"):
        same(run(traced), function(*arrays))
    assert all(np.array_equal(a, b) for a, b in zip(arrays, kept, strict=True))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_printed_and_read_again_it_is_the_same(name: str) -> None:
    function, arrays = FUNCTIONS[name]
    graph = trace(function, *arrays).graph
    again = parse_graph(text(graph))
    verify(again)
    assert text(again) == text(graph)
    assert text(parse_graph(text(graph, locations=True)), locations=True) == text(graph, locations=True)


@dataclass(frozen=True)
class Pair:
    weight: Any
    bias: Any


class Both(NamedTuple):
    first: Any
    second: Any


def test_arguments_and_results_are_trees() -> None:
    def f(layers: Any, scale: Any, *, name: str) -> Any:
        x = layers[0].weight * scale["by"] + layers[0].bias
        return {"out": Both(x, name), "layers": [Pair(x, None)]}

    traced = trace(f, [Pair(X, V)], {"by": 2}, name="linear")
    assert [node.attr("name") for node in traced.graph.inputs] == ["layers.0.weight", "layers.0.bias"]
    found = run(traced)
    same(found["out"].first, X * 2 + V)
    assert (found["out"].second, type(found["layers"][0])) == ("linear", Pair)


def test_an_argument_that_is_written_is_an_output() -> None:
    def f(x: Any, y: Any) -> Any:
        x[0] = y
        x *= 2

    traced = trace(f, X, V)
    ((number, output),) = traced.updates
    assert number == 0
    wanted = X.copy()
    f(wanted, V)
    same(evaluate(traced.graph, traced.arrays)[output], wanted)


def test_the_same_array_twice_is_one_input() -> None:
    assert len(trace(lambda a, b: a + b, X, X).graph.inputs) == 1


def test_equal_computations_are_one_node() -> None:
    graph = trace(lambda x: np.exp(x + 1) * np.exp(x + 1), X).graph
    assert [node.op for node in graph.live()] == ["input", "constant", "add", "exp", "mul"]


def test_every_node_knows_the_users_line() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        return np.exp(y)

    graph = trace(f, X).graph
    places = {node.op: node.loc for node in graph.live()}
    first = f.__code__.co_firstlineno
    assert (places["add"].line, places["exp"].line) == (first + 1, first + 2)
    assert places["exp"].file == __file__


WRONG: dict[str, tuple[type[Exception], Callable[..., Any], str]] = {
    "if": (NeedsValue, lambda x: x if x > 0 else -x, "np.where"),
    "float": (NeedsValue, lambda x: math.exp(x[0, 0]), "leave it an array"),
    "index": (NeedsValue, lambda x: [1, 2][x.argmax()], "index with the array"),
    "item": (NeedsValue, lambda x: x[0, 0].item(), "leave it an array"),
    "asarray": (NeedsValue, np.asarray, "function of numpy that is traced"),
    "a mask picks": (NotTraced, lambda x: x[x > 0], "np.where"),
    "a function": (NotTraced, np.unique, "compute it outside"),
    "a method": (NotTraced, lambda x: x.tobytes(), "compute it outside"),
    "a ufunc": (NotTraced, np.isnat, "cast the operands"),
    "shapes": (WrongShapes, lambda x: x + x.T, ""),
    "a product": (WrongShapes, lambda x: x @ x, ""),
    "out of bounds": (WrongShapes, lambda x: x[3], ""),
    "casting": (NotTraced, lambda x: x.astype(np.int32).__iadd__(1.5), "make a new array"),
    "an update that does not fit": (WrongShapes, lambda x: x[0].__iadd__(x), ""),
    "a broadcast array is written": (NotTraced, lambda x: np.broadcast_to(x, (2, 3, 4)).__iadd__(1), "copy"),
    "an array from outside is written": (NotTraced, lambda x: np.exp(x, out=np.loadtxt(["1"])), "return a new array"),
    "a view or a copy": (SharedMemory, lambda x: (x.T * X.T).reshape(-1).__iadd__(1), ".copy()"),
    "objects": (NotTraced, lambda x: x * np.frombuffer(b"abc", "S1"), "an array of numbers"),
    "a result that is no array": (NotTraced, lambda x: {1, 2}, "return arrays"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_traced_is_an_error_at_its_line_with_a_way_out(name: str) -> None:
    kind, function, way = WRONG[name]
    with pytest.raises(kind) as caught:
        trace(function, X)
    assert way in str(caught.value)
    loc: Any = getattr(caught.value, "loc", None)
    assert name == "a result that is no array" or (loc is not None and loc.file == __file__)


def test_a_format_needs_the_value() -> None:
    """Text of an array would be that of its stand-in; `!r` asks for it."""

    def shown(x: Any) -> Any:
        y = x * 2
        return y if f"{y!r}" else x

    x = np.ones(3)
    np.testing.assert_array_equal(pto.fuse(shown)(x), x * 2)
    for function in (lambda x: x * len(f"{x}"), lambda x: x * len(f"{x.sum():.2f}"), lambda x: x * len(format(x))):
        with pytest.raises(NeedsValue, match="a format needs the value") as caught:
            pto.fuse(function)(x)
        assert "test_trace.py" in str(caught.value)


FACTOR: ContextVar[float] = ContextVar("factor", default=2.0)
HELD = SimpleNamespace(factor=FACTOR)


@pytest.mark.parametrize("function", [lambda x: x * FACTOR.get(), lambda x: x * HELD.factor.get()])
def test_a_context_variable_is_refused(function: Any) -> None:
    with pytest.raises(NotTraced, match=r"factor\.get\(\)") as caught:
        pto.fuse(function)(np.ones(3))
    assert "test_trace.py" in str(caught.value)
