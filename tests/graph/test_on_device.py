"""Fused functions on arrays of a simulated device: results lie there, and no array comes to the host in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.errors.launch import UnsupportedArgument
from pypto.runtime.device_arrays import DeviceArray

RNG = np.random.default_rng(11)
X, W = RNG.standard_normal((40, 48), np.float32), RNG.standard_normal((48, 48), np.float32)


@pto.jit
def scaled(x, y):  # type: ignore[no-untyped-def]
    i = pto.program_id(0)
    y[i, :] = x[i, :] * 3


def launched(x: Any, w: Any) -> Any:
    y = np.empty_like(x)
    scaled[40](np.tanh(x), y)
    return y + w[0]


OFFSET = np.float32(2) * np.ones(48, np.float32)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x, w: np.exp(x) * 2 + 1,
    "a product and a norm": lambda x, w: pt.rms_norm(np.tanh(x @ w)),
    "a launch": launched,
    "an array from outside": lambda x, w: {"sum": (x + OFFSET).sum(axis=1), "view": (x * 2).T, "total": x.max()},
}


def on_host(result: Any) -> Any:
    return {k: v.numpy() for k, v in result.items()} if isinstance(result, dict) else result.numpy()


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_lie_on_the_device_and_are_those_of_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fused = pto.fuse(FUNCTIONS[name])
    x, w = (pto.to_device(a, "ascend-sim") for a in (X, W))
    with monkeypatch.context() as patch:
        patch.setattr(DeviceArray, "fetch", None)
        for _ in range(2):
            result = fused(x, w)
    expected = FUNCTIONS[name](X, W)
    for got, wanted in zip(*(list(r.values()) if isinstance(r, dict) else [r] for r in (on_host(result), expected))):  # noqa: B905
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)
    np.testing.assert_equal(type(fused(X, W)), type(expected))


@pytest.mark.slow
def test_named_dimensions_and_updates_in_place() -> None:
    def function(x: Any) -> Any:
        x += 1

    fused = pto.fuse(lambda x: x * 2, dims={"x": (pt.Dim("n", 1, 64),)})
    for size in (3, 9):
        array = pto.to_device(np.ones(size, np.float32), "ascend-sim")
        np.testing.assert_array_equal(fused(array).numpy(), np.full(size, 2, np.float32))
    big = pto.to_device(np.zeros((512, 512), np.float32), "ascend-sim")
    assert pto.fuse(function)(big) is None
    np.testing.assert_array_equal(big.numpy(), 1)


def test_steps_of_the_host_and_arrays_elsewhere_are_refused_by_name() -> None:
    x = pto.to_device(X, "ascend-sim")
    joined = pto.fuse(lambda x: np.concatenate([x[1:], np.exp(x[:1])]))
    with pytest.raises(
        UnsupportedArgument, match=r"`x` is an array on the device .*step 1 of the plan, `concat`, runs"
    ):
        joined(x)
    with pytest.raises(UnsupportedArgument, match="another array of the call is elsewhere"):
        pto.fuse(lambda x, y: x + y)(x, X)
    with pytest.raises(UnsupportedArgument, match="an argument is not updated in place"):
        pto.fuse(lambda x: x.__iadd__(x.sum()))(x)


@pytest.mark.slow
def test_a_plan_whose_memory_a_fault_has_taken_is_bound_anew() -> None:
    fused, place = pto.fuse(lambda x, w: np.cumsum(pt.softmax(x @ w, axis=0), axis=0) @ w @ w), pto.device("ascend-sim")
    expected = fused(X, W)
    for _ in range(2):
        x, w = map(place.array, (X, W))
        np.testing.assert_allclose(fused(x, w).numpy(), expected, rtol=1e-3, atol=1e-4)
        place.acl.close()
