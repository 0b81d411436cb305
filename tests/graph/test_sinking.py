"""What need not be stored: operations that their reader makes; long reductions that the maker of an array begins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto


def test_a_multiple_that_a_stencil_reads_is_made_by_the_stencil() -> None:
    def function(v: Any, w: Any) -> Any:
        for _ in range(2):
            v = np.tanh(v * w)
            p = np.pad(v, 1)
            v = 4 * v - p[2:, 1:-1] - p[1:-1, :-2]
        return v

    v, w = np.random.default_rng(0).standard_normal((2, 30, 40))
    fused = pto.fuse(function)
    np.testing.assert_allclose(fused(v, w), function(v, w), rtol=1e-12, atol=1e-12)
    plan = fused.plan(v, w)
    assert [len(step.writes) for step in plan.steps] == [1] * len(plan.steps)


def test_a_pool_looks_for_nan_itself() -> None:
    def function(x: Any, weight: Any) -> Any:
        y = np.maximum(x @ weight, 0)
        return y.reshape(4, 2, 5, 2, 8).max(axis=(1, 3))

    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((8, 10, 6)), rng.standard_normal((6, 8))
    x[1, 1, 1] = np.nan
    fused = pto.fuse(function)
    np.testing.assert_allclose(fused(x, weight), function(x, weight), rtol=1e-12)
    assert {str(node.type.dtype) for step in fused.plan(x, weight).steps for node in step.writes} == {"f64"}


LONG: dict[str, Any] = {
    "a sum of products": lambda x, y: (x * y).sum(),
    "an extreme": lambda x, y: (x.max(), y.min(), np.abs(x - y).max(keepdims=True)),
    "a mean": lambda x, y: (x * x).mean() + y.std(),
    "any": lambda x, y: ((x > 5).any(), (x < y).all()),
}


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("shape", [(600, 700), (3, 100_000), (500_000,), (400_009,), (300_000, 1, 2), (7, 9, 13, 1300)])
@pytest.mark.parametrize("name", LONG)
def test_long_reductions_to_one_number(name: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal(shape), rng.standard_normal(shape)
    for special in (0.5, np.nan):
        x.flat[17] = special
        found, wanted = pto.fuse(LONG[name])(x, y), LONG[name](x, y)
        several = isinstance(wanted, tuple)
        for a, b in zip(found if several else [found], wanted if several else [wanted], strict=True):
            assert np.shape(a) == np.shape(b)
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_the_maker_of_a_long_array_begins_its_sum() -> None:
    def function(x: Any, y: Any) -> Any:
        z = np.tanh(x) + y
        return z, (z * z).sum()

    x, y = np.ones((2, 1000, 1000), np.float32)
    plan = pto.fuse(function).plan(x, y)
    assert plan.arena_bytes < 10_000
    assert plan.steps[0].grid != (1,)


@pytest.mark.parametrize("shape", [(7,), (4, 4), (2, 3, 4), (3, 300)])
@pytest.mark.parametrize("op", [np.floor_divide, np.logaddexp, np.remainder])
def test_a_group_may_lose_all_its_operations_to_its_reader(op: Any, shape: tuple[int, ...]) -> None:
    """What is computed of a slice is made by its one reader, so that nothing is left to compute for it alone."""
    x = np.random.default_rng(0).integers(1, 99, shape).astype(np.float64)
    for function in (lambda x: op(x, x[:1] + 1), lambda x: op(x[..., :1] * 2, x), lambda x: op(x[(-1,) * x.ndim], x)):
        fused = pto.fuse(function)
        np.testing.assert_allclose(fused(x), function(x), rtol=1e-12)
        assert all(step.writes for step in fused.plan(x).steps)
