"""What a fused function reads besides its arguments: nothing is as it was in the first call."""

# ruff: noqa: PLW0108  # a lambda looks up a global that the test replaces

from __future__ import annotations

import argparse
import functools
import gc
import os
import random
import sys
import time
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.graph import NotTraced, OutsideWritten

X = np.arange(1, 4, dtype=np.float32)
W = np.ones(3, np.float32)
SCALE = 2.0
TABLE = {"w": np.ones(3, np.float32), "n": [1, 2]}


def helper(x: Any) -> Any:
    return x * SCALE + np.sqrt(W)


class Space:
    rate = 2.0
    table = np.ones(3, np.float32)


class Layer:
    def __init__(self, w: Any, act: Callable[[Any], Any] = np.tanh) -> None:
        self.w = w
        self.act = act
        self.inputs: Any = None

    def __call__(self, x: Any) -> Any:
        return self.act(x * self.w) * SCALE

    def forward(self, x: Any) -> Any:
        return self(x)

    @property
    def doubled(self) -> Any:
        return self.w * 2 * SCALE

    @functools.cached_property
    def tripled(self) -> Any:
        return self.w * 3


class Model(Layer):
    eps = 0.5

    def __init__(self, *layers: Layer) -> None:
        super().__init__(np.full(3, 0.4, np.float32))
        self.layers = list(layers)
        self.rate = 0.1
        self.name = "relu"
        self.config = types.SimpleNamespace(scale=3.0, w=np.ones(3, np.float32))
        self.options = argparse.Namespace(shift=1.0)
        self.params = {"b": np.ones(3, np.float32)}

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        x = super().forward(x) + self.doubled + self.tripled + self.params["b"] * self.eps
        x = x * self.rate + self.config.scale * self.config.w + self.options.shift
        return np.maximum(x, 0) if self.name == "relu" else x


def model() -> Model:
    return Model(Layer(np.full(3, 0.2, np.float32)), Layer(np.full(3, 0.3, np.float32)))


def set_layer(m: Model) -> None:
    m.layers[0].w = np.full(3, 0.5, np.float32)


def put_layer(m: Model) -> None:
    m.layers[1] = Layer(np.full(3, 0.7, np.float32))


def more_layers(m: Model) -> None:
    m.layers.append(Layer(np.full(3, 0.1, np.float32)))


CHANGES: dict[str, Callable[[Model], Any]] = {
    "an array of an attribute": set_layer,
    "an array in place": lambda m: m.layers[0].w.__imul__(3),
    "an object in a list": put_layer,
    "a longer list": more_layers,
    "a number": lambda m: setattr(m, "rate", -0.4),
    "a text": lambda m: (setattr(m, "name", "none"), setattr(m, "rate", -1.0)),
    "a function": lambda m: setattr(m.layers[0], "act", np.exp),
    "a lambda": lambda m: setattr(m.layers[0], "act", lambda x: x + 1),
    "a namespace": lambda m: setattr(m.config, "scale", 4.0),
    "an array of a namespace": lambda m: setattr(m.config, "w", np.full(3, 9, np.float32)),
    "options": lambda m: setattr(m.options, "shift", 9.0),
    "an array in a dict": lambda m: m.params.update(b=np.full(3, 9, np.float32)),
    "a class attribute": lambda m: setattr(m, "eps", 7.0),
    "a method": lambda m: setattr(m.layers[0], "forward", lambda x: x),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_model_is_noticed(name: str) -> None:
    fused = pto.fuse(Model.forward)
    m = model()
    for _ in range(2):
        np.testing.assert_allclose(fused(m, X), Model.forward(m, X), rtol=1e-5)
        m.__dict__.pop("tripled", None)
    before = Model.forward(m, X)
    CHANGES[name](m)
    m.__dict__.pop("tripled", None)
    wanted = Model.forward(m, X)
    if name != "a method":
        assert not np.allclose(before, wanted)
    m.__dict__.pop("tripled", None)
    for _ in range(3):
        np.testing.assert_allclose(fused(m, X), wanted, rtol=1e-5)


def test_models_of_one_form_share_a_plan_and_none_is_kept() -> None:
    fused = pto.fuse(Model.forward)
    kept = []
    for n in range(3):
        m = model()
        m.layers[0].w *= n
        np.testing.assert_allclose(fused(m, X), Model.forward(m, X), rtol=1e-5)
        kept += [weakref.ref(m), weakref.ref(m.layers[0])]
    del m
    gc.collect()
    assert [r() for r in kept] == [None] * 6
    assert len(fused.versions) == 1


def test_a_class_is_as_it_was_after_a_trace() -> None:
    before = {kind: dict(vars(kind)) for kind in (Layer, Model)}
    pto.fuse(Model.forward)(model(), X)
    with pytest.raises(OutsideWritten):
        pto.fuse(lambda m: setattr(m, "rate", 3))(model())
    assert {kind: dict(vars(kind)) for kind in before} == before


def outside_values(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]]:
    module = types.ModuleType("settings_of_a_program")
    module.__dict__.update(scale=1.0, w=np.ones(3, np.float32))
    rows, numbers = deque([np.ones(3, np.float32)]), [1.0, 2.0]
    array, memory, holder = np.ones(3, np.float32), bytearray(b"\x01"), OrderedDict(w=np.ones(3, np.float32))

    def closed(x: Any) -> Any:
        return x + numbers[0] + np.exp(array)

    def with_default(x: Any, w: Any = array) -> Any:
        return x + w

    partly = functools.partial(lambda a, x: x * a, array)
    here = sys.modules[__name__]
    return {
        "a global of a helper": (lambda x: helper(x), lambda: monkeypatch.setattr(here, "SCALE", 5.0)),
        "an array of a helper": (lambda x: helper(x), lambda: monkeypatch.setattr(here, "W", W * 4)),
        "an array of a helper in place": (lambda x: helper(x) * np.sqrt(W), lambda: W.__imul__(4)),
        "a helper": (lambda x: helper(x), lambda: monkeypatch.setattr(here, "helper", lambda x: x * 9)),
        "a global container": (
            lambda x: x * TABLE["w"] + TABLE["n"][1],
            lambda: monkeypatch.setitem(TABLE, "n", [1, 5]),
        ),
        "a class": (lambda x: x * Space.rate, lambda: monkeypatch.setattr(Space, "rate", 5.0)),
        "an array of a class": (
            lambda x: x * np.sqrt(Space.table), lambda: monkeypatch.setattr(Space, "table", W * 9),
        ),
        "a module": (lambda x: x * module.scale, lambda: setattr(module, "scale", 4.0)),
        "an array of a module": (lambda x: x * np.exp(module.w), lambda: setattr(module, "w", W * 4)),
        "a list of a closure": (lambda x: closed(x), lambda: numbers.__setitem__(0, 7.0)),
        "an array of a closure": (lambda x: closed(x), lambda: array.__iadd__(1)),
        "a default": (with_default, lambda: array.__iadd__(1)),
        "a partial call": (lambda x: partly(x), lambda: array.__iadd__(1)),
        "a deque": (lambda x: x + rows[0], lambda: rows.__setitem__(0, W * 6)),
        "an ordered dict": (lambda x: x + holder["w"], lambda: holder.__setitem__("w", W * 6)),
        "bytes": (lambda x: x + memory[0], lambda: memory.__setitem__(0, 9)),
        "the environment": (
            lambda x: x + float(os.environ.get("PYPTO_TEST_SCALE", "1")),
            lambda: monkeypatch.setenv("PYPTO_TEST_SCALE", "5"),
        ),
    }  # fmt: skip


NAMES = list(outside_values(pytest.MonkeyPatch()))


@pytest.mark.parametrize("name", NAMES)
def test_a_change_outside_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "W", np.ones(3, np.float32))
    function, change = outside_values(monkeypatch)[name]
    fused = pto.fuse(function)
    before = function(X)
    for _ in range(2):
        np.testing.assert_allclose(fused(X), before, rtol=1e-5)
    change()
    wanted = function(X)
    assert not np.allclose(wanted, before)
    for _ in range(3):
        np.testing.assert_allclose(fused(X), wanted, rtol=1e-5)


class Adam:
    """As teaching repositories write it, with state that is updated in place."""

    def __init__(self, rate: float = 0.1) -> None:
        self.rate, self.b1, self.b2 = rate, 0.9, 0.99
        self.m, self.v, self.t = np.zeros(3), np.zeros(3), np.zeros(())

    def update(self, w: Any, grad: Any) -> Any:
        self.t += 1
        self.m *= self.b1
        self.m += (1 - self.b1) * grad
        self.v[...] = self.b2 * self.v + (1 - self.b2) * np.power(grad, 2)
        m, v = self.m / (1 - self.b1**self.t), self.v / (1 - self.b2**self.t)
        return w - self.rate * m / (np.sqrt(v) + 1e-8)


class FrozenAdam(Adam):
    def update(self, w: Any, grad: Any) -> Any:
        self.m = self.b1 * self.m + (1 - self.b1) * grad
        return w - self.rate * self.m


def test_an_optimizer_does_not_drift() -> None:
    plain, traced = Adam(), Adam()
    fused = pto.fuse(Adam.update)
    a = b = np.ones(3)
    for step in range(6):
        grad = np.cos(np.arange(3.0) + step)
        plain.rate = traced.rate = 0.1 / (step + 1)
        a, b = plain.update(a, grad), fused(traced, b, grad)
        np.testing.assert_allclose(b, a, rtol=1e-12)
    np.testing.assert_allclose(traced.m, plain.m, rtol=1e-12)
    assert len(fused.versions) == 2


COUNT = 0
HISTORY: list[Any] = []


def nonlocal_count() -> Callable[[Any], Any]:
    count = 0

    def f(x: Any) -> Any:
        nonlocal count
        count += 1
        return x + count

    return f


def global_count(x: Any) -> Any:
    global COUNT  # noqa: PLW0603
    COUNT += 1
    return x + COUNT


def put_into(params: Any) -> None:
    params["w"] = params["w"] * 2


@dataclass
class State:
    w: Any = field(default_factory=lambda: np.ones(3, np.float32))


WRITES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "an attribute": (FrozenAdam.update, (FrozenAdam(), np.ones(3), np.ones(3)), r"`self\.m` .*\n.*test_outside.py"),
    "a new attribute": (lambda m, x: setattr(m, "inputs", x), (model(), X), r"`m\.inputs`"),
    "an attribute that goes": (lambda m: delattr(m, "rate"), (model(),), r"`m\.rate`"),
    "a list": (lambda x: HISTORY.append(x), (X,), "`HISTORY`"),
    "a list of an object": (lambda m: m.layers.append(3), (model(),), r"`m\.layers`"),
    "a dict of an object": (lambda m, x: m.params.update(b=x), (model(), X), r"`m\.params`"),
    "the dict of an object": (lambda m, x: vars(m).update(b=x), (model(), X), r"`m\.__dict__`"),
    "an argument": (put_into, ({"w": X},), "`params`"),
    "a dataclass": (lambda s: setattr(s, "w", s.w * 2), (State(),), "`s`"),
    "a variable of the outer function": (nonlocal_count(), (X,), "`count`"),
    "a global": (global_count, (X,), "`COUNT`"),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_is_set_outside_is_refused(name: str) -> None:
    function, args, match = WRITES[name]
    with pytest.raises(OutsideWritten, match=match):
        pto.fuse(function)(*args)
    assert (HISTORY, COUNT) == ([], 0)


def test_objects_that_a_function_makes_are_its_own() -> None:
    def f(x: Any) -> Any:
        layer = Layer(x * 2)
        layer.inputs = x
        layer.act = lambda y: y + layer.inputs
        state = State(x)
        state.w = layer(x)
        return state.w

    np.testing.assert_allclose(pto.fuse(f)(X), f(X), rtol=1e-6)


def drawn(generator: Any) -> Callable[[Any], Any]:
    return lambda x: x + generator.random()


def following(numbers: Any) -> Callable[[Any], Any]:
    return lambda x: x * next(numbers)


AMBIENT: dict[str, tuple[Callable[[Any], Any], str]] = {
    "time": (lambda x: x * time.time(), r"`time\.time`"),
    "a clock": (lambda x: x * time.perf_counter(), "perf_counter"),
    "random": (lambda x: x * random.random(), "random"),
    "random.uniform": (lambda x: x * random.uniform(1, 2), "random"),
    "numpy's generator": (lambda x: x * np.random.rand(3), r"np\.random"),
    "a generator without a seed": (lambda x: x * np.random.default_rng().random(), "first call"),
    "a generator from outside": (drawn(np.random.default_rng(0)), "generator"),
    "a generator of Python": (drawn(random.Random(0)), "generator|random"),
    "an iterator": (following(iter([1.0, 2.0])), "iterator"),
}


@pytest.mark.parametrize("name", AMBIENT)
def test_what_differs_from_call_to_call_is_refused(name: str) -> None:
    function, match = AMBIENT[name]
    profile = sys.getprofile()
    with pytest.raises(NotTraced, match=match) as caught:
        pto.fuse(function)(X)
    assert "test_outside.py" in str(caught.value)
    assert sys.getprofile() is profile


def test_a_generator_with_a_seed_is_the_same_in_every_call() -> None:
    def f(x: Any) -> Any:
        return x * np.random.default_rng(3).random()

    np.testing.assert_allclose(pto.fuse(f)(X), f(X))


def asks(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return x * 100
    if type(x) is not np.ndarray or x.__class__ is not np.ndarray:
        return x * 50
    total = x.sum()
    if isinstance(total, np.ndarray) or not isinstance(total, np.floating) or type(total) is not np.float32:
        return x * 25
    return x * 2 if isinstance(x, np.ndarray | list) and not isinstance(x, np.generic) else x


def test_a_function_that_asks_for_the_class_goes_the_same_way() -> None:
    np.testing.assert_array_equal(pto.fuse(asks)(X), X * 2)


def test_threads_that_use_an_object_see_it_as_it_is() -> None:
    import threading

    m, seen, stop = model(), [], threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.append(type(m.w))

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(3):
        pto.fuse(Model.forward)(m, X)
        m.__dict__.pop("tripled", None)
    stop.set()
    thread.join()
    assert set(seen) == {np.ndarray}


def test_an_array_that_is_an_argument_too_is_one_array() -> None:
    fused = pto.fuse(lambda x: x.__iadd__(W[0]) * W)
    np.testing.assert_array_equal(fused(W), [4, 4, 4])
    W[:] = 1
    np.testing.assert_array_equal(fused(W.copy()), [2, 2, 2])
    np.testing.assert_array_equal(fused(W.copy()), [2, 2, 2])
    np.testing.assert_array_equal(W, 1)
