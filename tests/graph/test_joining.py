"""Padded and joined arrays that are never made: windows beyond an array, and products that read the parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.graph import parse_graph, trace
from pypto.graph.ir.reference import evaluate
from pypto.graph.rewrite.pipeline import rewritten

RNG = np.random.default_rng(3)


def patches(x: Any, size: int) -> Any:
    h, w = x.shape[1] - size + 1, x.shape[2] - size + 1
    return np.concatenate([x[:, i : i + h, j : j + w] for i in range(size) for j in range(size)], axis=-1)


def convolution(x: Any, weight: Any) -> Any:
    size = math.isqrt(weight.shape[0] // x.shape[-1])
    side = size // 2
    return np.maximum(patches(np.pad(x, ((0, 0), (side, side), (side, side), (0, 0))), size) @ weight, 0)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "size", "outputs"),
    [((2, 9, 33, 5), 3, 7), ((1, 6, 6, 1), 5, 6), ((3, 1, 20, 2), 3, 1), ((2, 4, 1, 16), 3, 40), ((2, 5, 4, 8), 1, 3)],
)
def test_a_convolution_as_one_writes_it_reads_the_image(
    shape: tuple[int, ...], size: int, outputs: int, dtype: Any
) -> None:
    x = RNG.standard_normal(shape).astype(dtype)
    weight = RNG.standard_normal((size * size * shape[-1], outputs)).astype(dtype)
    fused = pto.fuse(convolution)
    wanted = convolution(x.astype(np.float64), weight.astype(np.float64))
    for _ in range(3):
        np.testing.assert_allclose(fused(x, weight), wanted, rtol=1e-4, atol=1e-4 if dtype == np.float32 else 1e-12)
    with pto.interpreter():
        np.testing.assert_allclose(pto.fuse(convolution)(x, weight), wanted, rtol=1e-4, atol=1e-4)
    plan = fused.plan(x, weight)
    if outputs > 1 and shape[2] > 1:
        assert plan.arena_bytes == 0
        assert [k.form for k in plan.kernels] == ["product"]


def test_layers_of_convolutions_store_what_is_between_them() -> None:
    x = RNG.standard_normal((2, 8, 8, 4), np.float32)
    weights = [RNG.standard_normal((36, 4), np.float32) * np.float32(0.3) for _ in range(3)]

    def layers(x: Any, weights: Any) -> Any:
        for weight in weights:
            x = x + convolution(x, weight)
        return x

    fused = pto.fuse(layers)
    np.testing.assert_allclose(fused(x, weights), layers(x, weights), rtol=1e-4, atol=1e-4)
    plan = fused.plan(x, weights)
    assert len(plan.steps) == 3
    assert plan.arena_bytes == 2 * x.nbytes


PADDED: dict[str, Any] = {
    "a stencil": lambda v, p: p[:-2, 1:-1] + p[2:, 1:-1] - 4 * v + p[1:-1, :-2] + p[1:-1, 2:],
    "all of it": lambda v, p: p,
    "sums": lambda v, p: (p.sum(axis=0), p.max(axis=1), p.mean()),
    "every second": lambda v, p: p[::2, ::-1] + 1,
    "zeros alone": lambda v, p: (p[:1] + v[:1, :1], p[:, -1:] * 2),
    "transposed": lambda v, p: p.T @ p,
    "joined": lambda v, p: np.concatenate([p[:, 1:], p[:, :-1]], axis=1),
    "updated": lambda v, p: np.add.at(p, [0, 0], 1) or p,
    "reshaped": lambda v, p: p.reshape(-1)[3:] * 2,
    "of itself": lambda v, p: np.pad(p, 2)[1:-1, 1:] - 1,
    "picked": lambda v, p: p[np.array([0, 2, 1])],
    "a special value": lambda v, p: 1 / p,
}


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("name", PADDED)
@pytest.mark.parametrize("shape", [(7, 9), (1, 1), (65, 130)])
def test_padded_arrays_are_what_they_are_in_numpy(name: str, shape: tuple[int, int]) -> None:
    v = RNG.standard_normal(shape)
    v[0, 0] = np.inf
    fused = pto.fuse(lambda v: PADDED[name](v, np.pad(v, 1)))
    with np.errstate(all="ignore"):
        wanted = PADDED[name](v, np.pad(v, 1))
    found = fused(v)
    several = isinstance(wanted, tuple)
    for a, b in zip(found if several else [found], wanted if several else [wanted], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_a_window_within_its_array_is_a_slice_and_one_beside_it_zeros() -> None:
    traced = trace(lambda x: (np.pad(x, 2)[3:5] + 0, np.pad(x, 2)[:2] + 0, np.pad(x, 2)[1:5] + 0), np.ones(6))
    ops = [x.op for n in rewritten(traced.graph).outputs for x in n.inputs if x.op != "constant"]
    assert ops == ["slice", "window"]
    for a, b in zip(evaluate(traced.graph, traced.arrays), ([1, 1], [0, 0], [0, 1, 1, 1]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert str(parse_graph(str(traced.graph))) == str(traced.graph)


def test_minus_zero_and_other_numbers_stay() -> None:
    def function(x: Any) -> Any:
        return 1 / np.pad(x, 1, constant_values=-0.0), np.pad(x, 1, constant_values=3)[1:]

    x = np.ones((3, 3))
    with np.errstate(all="ignore"):
        for a, b in zip(pto.fuse(function)(x), function(x), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("fill", [0.0, -0.0, 3.5, -math.inf, math.nan])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_windows_with_steps_of_an_array_padded_with_any_number_are_read_in_place(step: int, fill: float) -> None:
    def function(x: Any) -> Any:
        wide = np.pad(x, ((0, 0), (1, 2), (3, 1), (0, 0)), constant_values=fill)
        total = wide[:, 0:8:step, 0:9:step] * 2
        for i, j in ((0, 2), (1, 3), (2, 4)):
            total = np.maximum(total, 1 / wide[:, i : i + 8 : step, j : j + 9 : step])
        return total

    x = RNG.standard_normal((2, 7, 9, 5), np.float32)
    fused = pto.fuse(function)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(fused(x), function(x))
    plan = fused.plan(x)
    assert (len(plan.steps), plan.arena_bytes) == (1, 0)
    with pto.interpreter(), np.errstate(all="ignore"):
        np.testing.assert_array_equal(pto.fuse(function)(x), function(x))


@pytest.mark.parametrize("step", [1, 2])
def test_slices_that_a_concatenation_copies_are_views_of_one_padded_array(step: int) -> None:
    def columns(x: Any, w: Any) -> Any:
        wide = np.pad(x, ((0, 0), (1, 1), (1, 1)))
        taps = [wide[:, i : i + 8 : step, j : j + 8 : step] for i in range(3) for j in range(3)]
        return w @ np.stack(taps, axis=1).reshape(27, -1)

    x, w = RNG.standard_normal((3, 8, 8)), RNG.standard_normal((5, 27))
    fused = pto.fuse(columns)
    np.testing.assert_allclose(fused(x, w), columns(x, w), rtol=1e-12, atol=1e-12)
    assert len(fused.plan(x, w).steps) == 3


def test_a_window_between_the_elements_of_an_array_is_a_number() -> None:
    traced = trace(lambda x: np.pad(x, 3, constant_values=2)[::5] + 0, np.ones(1))
    assert {n.op for n in rewritten(traced.graph)} == {"input", "constant", "copy"}
    np.testing.assert_array_equal(pto.fuse(lambda x: np.pad(x, 3, constant_values=2)[::5] + 0)(np.ones(1)), [2, 2])
