"""Replay: later calls launch what the first one found, on other arrays, and notice whatever is not as it was."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.arrays import Dim, explain
from pypto.errors.graph import WrongOut
from pypto.graph.fused import Fused
from pypto.graph.plan.execution_context import Frame
from pypto.runtime.launches import BoundLaunches

RNG = np.random.default_rng(3)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def views(x: Any, w: Any) -> Any:
    """Several kernels, some of them on views of arguments and of results, and one that has two results."""
    y = np.sort(x[1::2, 2:-1], axis=1)
    z = y.T[::-1] @ w[1:, :]
    return np.cumsum(z, axis=0)[:, ::2], y[:, 1:]


def frame_of(fused: Fused, *args: Any) -> Frame:
    (frame,) = fused.plan(*args).frames[()]
    return frame


@pytest.fixture
def is_native() -> None:
    fused = pto.fuse(lambda x: x + 1)
    x = np.ones(3, np.float32)
    if [fused(x) for _ in "abc"] and frame_of(fused, x).native is None:
        pytest.skip("no native launches here")


def test_calls_on_other_arrays_compute_what_numpy_does() -> None:
    fused = pto.fuse(views)
    for _ in range(5):
        x, w = floats(10, 9), floats(6, 7)
        for got, wanted in zip(fused(x, w), views(x, w), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    assert len(fused.plan(x, w).frames[()]) == 1


@pytest.mark.usefixtures("is_native")
def test_later_calls_look_up_nothing_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = pto.fuse(lambda x, w: np.tanh(np.sort(x, axis=1)[:, 2:] @ w).sum(axis=0))
    x, w = floats(8, 6), floats(4, 5)
    for _ in range(3):
        fused(x, w)
    monkeypatch.delattr(BoundLaunches, "run")
    x = floats(8, 6)
    np.testing.assert_allclose(fused(x, w), fused.function(x, w), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x.astype(np.float64),
        np.asfortranarray,
        lambda x: x[:, ::-1],
        lambda x: x[:3],
        lambda x: x[0],
        lambda x: x.astype(">f4"),
        lambda x: x.view(type("Sub", (np.ndarray,), {})),
    ],
    ids=["dtype", "order", "strides", "shape", "axes", "byte order", "class"],
)
def test_arrays_of_another_kind_are_not_replayed(other: Any) -> None:
    fused = pto.fuse(lambda x, y: x * 2 - y)
    x, y = floats(6, 8), floats(8)
    for _ in range(3):
        fused(x, y)
    try:
        wanted = other(x) * 2 - y
        np.testing.assert_array_equal(np.asarray(fused(other(x), y)), np.asarray(wanted))
    except TypeError:  # byte orders are refused as they are without a replay
        assert other(x).dtype.byteorder == ">"
    np.testing.assert_array_equal(fused(x, y), x * 2 - y)


def test_one_array_twice_is_not_two_arrays() -> None:
    def update(x: Any, y: Any) -> Any:
        x += y
        return x * y

    fused = pto.fuse(lambda x, y: x - y)
    x = floats(5)
    for _ in range(3):
        np.testing.assert_array_equal(fused(x, floats(5)).shape, (5,))
    np.testing.assert_array_equal(fused(x, x), np.zeros(5, np.float32))
    changed = pto.fuse(update)
    for _ in range(4):
        ours, theirs, y = x.copy(), x.copy(), floats(5)
        np.testing.assert_array_equal(changed(ours, y), update(theirs, y))
        np.testing.assert_array_equal(ours, theirs)
    ours, theirs = x.copy(), x.copy()
    np.testing.assert_array_equal(changed(ours, ours), update(theirs, theirs))


FACTOR = 2.0


def test_what_a_function_takes_from_outside_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    shift = 1.0
    fused = pto.fuse(lambda x: x * FACTOR + shift)
    x = floats(4)
    for _ in range(3):
        np.testing.assert_array_equal(fused(x), x * 2 + 1)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    np.testing.assert_array_equal(fused(x), x * 3 + 1)
    shift = 5.0
    np.testing.assert_array_equal(fused(x), x * 3 + 5)


SCALE = np.float32(2)
WINDOW = (1, 3)


def test_containers_from_outside_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    weights: dict[str, Any] = {"w": floats(4), "layers": [Pair(floats(4), 1.0)]}
    weights["itself"] = weights
    first, last = WINDOW

    def function(x: Any) -> Any:
        part = weights["layers"][0]
        return (x * weights["w"] + part.a * part.b)[WINDOW[0] : WINDOW[1]] * SCALE

    fused = pto.fuse(function)
    x = floats(4)
    changes = (
        lambda: weights.update(w=floats(4)),
        lambda: weights["layers"].__setitem__(0, Pair(floats(4), 3.0)),
        lambda: monkeypatch.setitem(globals(), "SCALE", np.float32(5)),
        lambda: monkeypatch.setitem(globals(), "WINDOW", (first - 1, last)),
    )
    for change in changes:
        for _ in range(3):
            np.testing.assert_allclose(fused(x), function(x), rtol=1e-5, atol=1e-6)
        change()
    np.testing.assert_allclose(fused(x), function(x), rtol=1e-5, atol=1e-6)


def test_steps_of_numpy_stand_between_launches() -> None:
    def joined(x: Any, y: Any) -> Any:
        z = np.concatenate([np.exp(x), np.cumsum(y, axis=0)])
        z[1:3] = np.sort(z[2:4], axis=1)
        return z.sum(axis=0), np.roll(z, 1, axis=0) * 2

    fused = pto.fuse(joined)
    for _ in range(4):
        x, y = floats(3, 40), floats(4, 40)
        for got, wanted in zip(fused(x, y), joined(x, y), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_modes_and_hooks_see_launches_after_a_replay() -> None:
    fused = pto.fuse(lambda x: np.cumsum(np.exp(x), axis=0).sum(axis=1))
    x = floats(9, 7)
    wanted = fused.function(x)
    for _ in range(3):
        fused(x)
    seen: list[Any] = []
    kernel = fused.plan(x).kernels[-1].kernel
    kernel.add_pre_run_hook(lambda *_, **__: seen.append(1))
    for n in (1, 2):
        np.testing.assert_allclose(fused(x), wanted, rtol=1e-5)
        assert len(seen) == n
    kernel.pre_run_hooks.clear()
    with pto.interpreter():
        np.testing.assert_allclose(fused(x), wanted, rtol=1e-5)
    np.testing.assert_allclose(fused(x), wanted, rtol=1e-5)


def test_threads_have_frames_of_their_own() -> None:
    fused = pto.fuse(lambda x, w: np.tanh(x @ w) @ w.T)
    w = floats(64, 300)
    inputs = [floats(50, 64) for _ in range(8)]
    wanted = [fused.function(x, w) for x in inputs]
    wrong: list[float] = []

    def work(n: int) -> None:
        wrong.extend(float(np.abs(fused(inputs[n], w) - wanted[n]).max()) for _ in range(30))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(wrong) == 240 and max(wrong) < 1e-3


def test_sizes_by_name_have_replays_of_their_own() -> None:
    fused = pto.fuse(lambda x: np.cumsum(x - x.mean(axis=0), axis=0), dims={"x": (Dim("n", 1, 50), None)})
    for size in (4, 1, 4, 50, 1, 4, 50, 1):
        x = floats(size, 6)
        np.testing.assert_allclose(fused(x), fused.function(x), rtol=1e-4, atol=1e-4)
    assert len(fused.versions) == 1


def test_sizes_of_arrays_in_containers_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = pto.fuse(lambda batch, n: batch["x"][:n] * 2, dims={"batch.x": (Dim("rows"), None), "n": Dim("n")})
    for _ in range(3):
        for rows in (5, 7):
            fused({"x": floats(rows, 8)}, 3)
    x = floats(7, 8)
    monkeypatch.setattr(Fused, "_called", None)
    np.testing.assert_array_equal(fused({"x": x}, 3), x[:3] * 2)


def test_calls_that_alternate_between_plans_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = pto.fuse(lambda x, scale: x * 2 if scale is None else x * scale["s"])
    given: list[Any] = [(floats(5, 8), None), (floats(5, 8), {"s": floats(8)}), (floats(5), None)]
    for args in given * 3:
        fused(*args)
    monkeypatch.setattr(Fused, "_called", None)
    for args in given * 2:
        np.testing.assert_array_equal(fused(*args), fused.function(*args))


def test_empty_arrays_and_numbers() -> None:
    fused = pto.fuse(lambda x, n: (x * n, x.sum()))
    for size in (0, 3, 0, 3, 0, 3):
        x, n = floats(size), np.array(2, np.float32)
        got = fused(x, n)
        np.testing.assert_array_equal(got[0], x * 2)
        assert isinstance(got[1], np.float32)
        np.testing.assert_allclose(got[1], x.sum(), rtol=1e-5, atol=1e-6)


def test_results_of_earlier_calls_stay() -> None:
    fused = pto.fuse(lambda x: x + 1)
    found = [fused(np.full(4, n, np.float32)) for n in range(5)]
    assert [float(x[0]) for x in found] == [1, 2, 3, 4, 5]


@dataclass(frozen=True)
class Pair:
    a: Any
    b: Any


FORMS: list[tuple[Any, Any]] = [
    (lambda d: d["a"] + d["b"], lambda a, b: (({"a": a, "b": b},), {})),
    (lambda rows, factor: rows[0] * factor - rows[1], lambda a, b: (([a, b], 2.0), {})),
    (lambda pair, more: pair.a - more["x"][0] * pair.b, lambda a, b: ((Pair(a, b),), {"more": {"x": (a * 2, 3)}})),
    (lambda x, y: x - y, lambda a, b: ((), {"y": a, "x": b})),
    (lambda x, y=1.0: x - y, lambda a, b: ((a,), {"y": -0.0})),
]


@pytest.mark.usefixtures("is_native")
@pytest.mark.parametrize("function, given", FORMS)
def test_arrays_within_arguments_are_replayed(function: Any, given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fused = pto.fuse(function)
    for _ in range(3):
        args, kwargs = given(floats(7), floats(7))
        fused(*args, **kwargs)
    monkeypatch.delattr(BoundLaunches, "run")
    args, kwargs = given(floats(7), floats(7))
    np.testing.assert_array_equal(fused(*args, **kwargs), function(*args, **kwargs))


def test_arguments_of_another_form_are_not_replayed() -> None:
    fused = pto.fuse(lambda tree, k: sum(x * (n + k) for n, x in enumerate(tree.values())))
    x, y, z = floats(4), floats(4), floats(4)
    trees = ({"a": x, "b": y}, {"b": x, "a": y}, {"a": x, "b": y, "c": z}, {"a": x}, {"a": x, "b": x})
    for _ in range(3):
        for k in (1, 2, True, 1.0):
            for tree in trees:
                np.testing.assert_allclose(fused(tree, k), fused.function(tree, k), rtol=1e-6)
    signed = pto.fuse(lambda x, k: np.copysign(x, k) * 1)
    for k in (0.0, -0.0, 0.0, -0.0, 0.0):
        np.testing.assert_array_equal(signed(x, k), np.copysign(x, np.float32(k)))


@pytest.mark.usefixtures("is_native")
def test_results_in_arrays_that_are_given_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    outside = floats(40)
    fused = pto.fuse(lambda x: x * 2 + outside[:4])
    memory = floats(3, 4)
    x, out = memory[0], memory[1]
    for _ in range(3):
        assert fused(x, out=out) is out
    with monkeypatch.context() as patch:
        patch.delattr(BoundLaunches, "run")
        fresh = floats(4)
        assert fused(fresh, out=out) is out
        np.testing.assert_array_equal(out, fresh * 2 + outside[:4])
        fused(fresh)
    for wrong in (x, outside[2:6], memory[:2].reshape(-1)[2:6], floats(5), floats(4).astype("f8")):
        kept = x.copy(), outside.copy()
        with pytest.raises(WrongOut):
            fused(x, out=wrong)
        np.testing.assert_array_equal(x, kept[0])
        np.testing.assert_array_equal(outside, kept[1])
    apart = np.empty(8, np.float32)[::2]
    assert fused(x, out=apart) is apart
    np.testing.assert_array_equal(apart, x * 2 + outside[:4])


shape = (3, 4)  # the name of an attribute, too


def test_a_global_with_the_name_of_an_attribute_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = pto.fuse(lambda x: x / x.shape[0])
    x = floats(4)
    for size in (3, 5):
        monkeypatch.setitem(globals(), "shape", (size, size))
        np.testing.assert_array_equal(fused(x), x / 4)
    assert len(fused.versions) == 1


@pto.jit
def doubled(a, out):  # type: ignore[no-untyped-def]
    out[:] = a[:] * 2


def launched(x: Any) -> Any:
    y = np.empty_like(x)
    doubled[1](x, y)
    return y + 1


def test_explain_takes_functions_as_they_are_and_names_the_lines_of_launches() -> None:
    line = launched.__code__.co_firstlineno + 2
    assert f"launch of doubled [1]: 1 ops, test_replay.py:{line}" in explain(launched, floats(8))
