"""Random functions on arrays: kernels compute what numpy computes, whatever is fused with whatever."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pypto as pto

SIZES = (1, 2, 3, 5, 8, 17)
UNARY: tuple[Any, ...] = (
    np.tanh,
    np.abs,
    np.negative,
    lambda x: np.exp(-np.abs(x)),
    lambda x: np.sqrt(np.abs(x)),
    lambda x: x * 2 + 1,
    lambda x: (x > 0) * x,
    lambda x: np.where(x > 0.5, x, 0),
)
BINARY: tuple[Any, ...] = (np.add, np.subtract, np.multiply, np.maximum, lambda x, y: x / (1 + np.abs(y)))
REDUCE: tuple[Any, ...] = (np.sum, np.max, np.mean, np.min)


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


def steps(data: Any, values: list[Any]) -> list[tuple[Any, tuple[int, ...]]]:
    """Functions with the numbers of their operands; every value so far may be one. Shapes are followed with numpy."""
    values = list(values)
    found: list[tuple[Any, tuple[int, ...]]] = []
    for _ in range(data.draw(st.integers(2, 7))):
        n = data.draw(st.integers(0, len(values) - 1))
        function, numbers = step(data, values, n)
        found.append((function, numbers))
        with np.errstate(all="ignore"):
            values.append(function(*(values[k] for k in numbers)))
    return found


def order(data: Any, x: Any) -> Any:
    """A sort, or positions of one, along an axis."""
    axis = data.draw(st.integers(0, x.ndim - 1))
    if data.draw(st.booleans()):
        return lambda v: np.sort(v, axis=axis)
    return lambda v: np.take_along_axis(v, np.argsort(v, axis=axis, kind="stable"), axis=axis) * 2


def scan(data: Any, x: Any) -> Any:
    """A running sum along an axis, or over all elements."""
    axis = data.draw(st.sampled_from((None, *range(x.ndim))))
    return lambda v: np.cumsum(v, axis=axis) / 4


def pick(data: Any, x: Any) -> Any:
    """Elements by an array of indices, some from the end."""
    axis, seed = data.draw(st.integers(0, x.ndim - 1)), data.draw(st.integers(0, 9))
    size = x.shape[axis]
    index = np.random.default_rng(seed).integers(-size, max(1, size), 3 if size else 0)
    return lambda v: np.take(v, index, axis=axis)


def write(data: Any, x: Any) -> Any:
    """Updates in place of a copy, through views of views."""
    start, seed = data.draw(st.integers(0, max(0, x.shape[0] - 1))), data.draw(st.integers(0, 9))
    index = np.random.default_rng(seed).permutation(x.shape[-1])[:2]
    by_index = x.ndim > 1 and data.draw(st.booleans())

    def written(v: Any) -> Any:
        result = v.copy()
        part = result[start:][::-1]
        if by_index:
            part[..., index] = 3
        else:
            part.T[:1] += 1
        return result + v

    return written


def join(data: Any, x: Any) -> Any:
    axis, by = data.draw(st.integers(0, x.ndim - 1)), data.draw(st.integers(-2, 2))
    if data.draw(st.booleans()):
        return lambda v: np.roll(v, by, axis)
    return lambda v: np.concatenate([v, v * 2], axis=axis)


SPECIAL: dict[str, Any] = {"order": order, "scan": scan, "pick": pick, "write": write, "join": join}


def step(data: Any, values: list[Any], n: int) -> tuple[Any, tuple[int, ...]]:
    x = values[n]
    kinds = ("unary", "binary", "reduce", "move", "product", "slice", "order", "scan", "pick", "write", "join")
    kind = data.draw(st.sampled_from(kinds))
    if kind in SPECIAL and x.ndim:
        return SPECIAL[kind](data, x), (n,)
    if kind == "binary":
        others = [k for k, y in enumerate(values) if broadcasts(x.shape, y.shape) and max(x.ndim, y.ndim) <= 4]
        return data.draw(st.sampled_from(BINARY)), (n, data.draw(st.sampled_from(others)))
    if kind == "reduce" and x.ndim:
        axis, keep = data.draw(st.integers(0, x.ndim - 1)), data.draw(st.booleans())
        fn = data.draw(st.sampled_from(REDUCE if x.shape[axis] else (np.sum,)))
        return (lambda v: fn(v, axis=axis, keepdims=keep)), (n,)
    if kind == "move" and x.ndim:
        dims = data.draw(st.permutations(range(x.ndim)))
        flat = data.draw(st.booleans())
        if flat:
            return (lambda v: v.transpose(dims).reshape(v.size // max(1, v.shape[dims[-1]]), v.shape[dims[-1]])), (n,)
        return (lambda v: v.transpose(dims)), (n,)
    if kind == "slice" and x.ndim:
        start, step_ = data.draw(st.integers(0, max(0, x.shape[0] - 1))), data.draw(st.sampled_from((1, 2, -1)))
        return (lambda v: v[start::step_]), (n,)
    others = [k for k, y in enumerate(values) if x.ndim > 1 and y.ndim > 1 and y.ndim + x.ndim < 6]
    fitting = [
        k for k in others if values[k].shape[-2] == x.shape[-1] and broadcasts(x.shape[:-2], values[k].shape[:-2])
    ]
    if kind == "product" and fitting:
        return (lambda v, w: v @ w / max(1, v.shape[-1])), (n, data.draw(st.sampled_from(fitting)))
    return data.draw(st.sampled_from(UNARY)), (n,)


def check(data: Any, dtype: Any, sizes_of: tuple[int, ...] = SIZES) -> None:
    sizes = data.draw(st.lists(st.sampled_from(sizes_of), min_size=2, max_size=3))
    shapes = [tuple(sizes), tuple(sizes[::-1]), (sizes[-1],)]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    program = steps(data, arrays)
    outputs = data.draw(st.sets(st.integers(0, len(program) - 1), max_size=2)) | {len(program) - 1}

    def function(*given: Any) -> Any:
        values = list(given)
        for fn, numbers in program:
            values.append(fn(*(values[k] for k in numbers)))
        return [values[len(given) + k] for k in sorted(outputs)]

    tolerance = 1e-9 if dtype is np.float64 else 1e-4
    for found, wanted in zip(pto.fuse(function)(*arrays), function(*arrays), strict=True):
        assert found.shape == np.shape(wanted)
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_random_graphs(data: Any) -> None:
    check(data, np.float32)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_many_random_graphs(data: Any) -> None:
    check(data, data.draw(st.sampled_from((np.float32, np.float64))))


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_random_graphs_with_arrays_of_no_elements(data: Any) -> None:
    check(data, np.float32, (0, 1, 3))
