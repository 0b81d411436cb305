"""Updates by arrays of indices: kernels, with numpy's results to the bit, whatever the indices and layouts are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.errors.graph import NotTraced
from pypto.graph import Graph, TensorType
from pypto.graph.ir.reference import evaluate
from pypto.graph.ir.types import contiguous
from pypto.graph.plan.pipeline import plan_of
from pypto.graph.plan.plan_text import parse_plan, plan_text
from pypto.graph.schedule.group import Layouts
from pypto.ir.types import DType, float32, float64, int8, int32, int64

RNG = np.random.default_rng(4)


def update(shape: tuple[int, ...], index: tuple[int, ...], axis: int, how: str, dtype: DType) -> tuple[Graph, Any]:
    """A graph with one update, and its arrays, where many indices are equal."""
    graph = Graph("update")
    wanted = (*shape[:axis], *index, *shape[axis + 1 :])
    base = graph.input("x", TensorType(shape, dtype))
    at = graph.input("at", TensorType(index, int64))
    value = graph.input("value", TensorType(wanted, dtype))
    graph.outputs.append(graph.add("put", base, at, value, axis=axis, how=how))
    arrays = [
        (RNG.standard_normal(shape) * 50).astype(dtype.numpy),
        RNG.integers(0, shape[axis], index),
        (RNG.standard_normal(wanted) * 50).astype(dtype.numpy),
    ]
    return graph, arrays


@pytest.mark.parametrize("how", ["", "add", "subtract", "maximum"])
@pytest.mark.parametrize(
    ("shape", "index", "axis"),
    [
        ((7,), (40,), 0),
        ((5, 1500), (9,), 0),
        ((33, 6), (20,), 1),
        ((3, 4, 5), (2, 6), 1),
        ((4, 3), (), 0),
        ((1, 1), (8,), 1),
    ],
)
@pytest.mark.parametrize("dtype", [float32, float64, int8, int32], ids=str)
def test_an_update_is_numpys_to_the_bit(
    shape: tuple[int, ...], index: tuple[int, ...], axis: int, how: str, dtype: DType
) -> None:
    graph, arrays = update(shape, index, axis, how, dtype)
    layouts = Layouts({x: contiguous(x.shape) for x in graph.inputs})
    plan = plan_of(graph, layouts, {}, "")
    (expected,) = evaluate(graph, arrays)
    before = [a.copy() for a in arrays]
    for _ in range(2):
        np.testing.assert_array_equal(plan.run(arrays)[0], expected)
    for a, b in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(a, b)
    by_rows = axis < len(shape) - 1 and shape[-1] >= 4
    assert [k.form for k in plan.kernels] == (["scatter"] if by_rows else [])
    assert plan_text(parse_plan(plan_text(plan))) == plan_text(plan)


def put(x: Any, at: Any, values: Any) -> Any:
    y = x * 2
    y[at] = values
    np.put_along_axis(y, at[:, None] + np.zeros((1, 3), np.int64), np.float32(7), axis=1)
    y[:, at] = y[:1, :1]
    return y + 1


def test_updates_in_a_function_run_as_kernels_in_one_array() -> None:
    x, at = RNG.standard_normal((12, 12), np.float32), RNG.integers(-12, 12, 12)
    values = np.asfortranarray(RNG.standard_normal((12, 12), np.float32))
    fused = pto.fuse(put)
    np.testing.assert_array_equal(fused(x, at, values), put(x, at, values))
    plan = fused.plan(x, at, values)
    assert sum(k.form == "scatter" for k in plan.kernels) == 1
    assert plan.buffer_aliases
    with pto.interpreter():
        np.testing.assert_array_equal(pto.fuse(put)(x, at, values), put(x, at, values))
    assert pto.fuse(put).tune(x, at, values, budget=0.1).function == "put"


@pytest.mark.parametrize("shape", [(5,), (5, 4)], ids=["elements", "rows"])
def test_an_index_out_of_range_is_an_error_before_anything_is_written(shape: tuple[int, ...]) -> None:
    def write(x: Any, at: Any) -> None:
        x[at] = 0

    x = np.ones(shape, np.float32)
    fused = pto.fuse(write)
    fused(x, np.array([1, 2]))
    for wrong in (5, -6):
        with pytest.raises(IndexError, match="out of bounds"):
            fused(x, np.array([0, wrong]))
    np.testing.assert_array_equal(x.reshape(5, -1)[:, 0], [1, 0, 0, 1, 1])


def several(x: Any, a: Any, b: Any, v: Any) -> Any:
    y = x.copy()
    y[a, b] = v
    y[1:, a[:, None], b] += 2
    return y, x[a, b], (x * 2 + x[:, :1])[a, b], x[:, a, 0].max(axis=1), x[..., a, b]


def test_arrays_of_indices_for_neighbouring_dimensions() -> None:
    x, v = RNG.standard_normal((6, 6, 6)), RNG.standard_normal((9, 6))
    a, b = RNG.integers(-6, 6, 9), RNG.integers(-6, 6, (9,)).astype(np.int32)
    fused = pto.fuse(several)
    for found, wanted in zip(fused(x, a, b, v), several(x, a, b, v), strict=True):
        np.testing.assert_array_equal(found, wanted)
    b[3] = 6  # behind the end of its dimension, and within the array
    with pytest.raises(IndexError, match="out of bounds"):
        fused(x, a, b, v)


UPDATES: dict[str, Any] = {
    "rows": lambda x, i, v: np.add.at(x, i, v * 2),
    "numbers": lambda x, i, v: np.subtract.at(x, i, 3),
    "a view": lambda x, i, v: np.maximum.at(x[::-1, 1:], i, v[:, 1:]),
    "elements": lambda x, i, v: np.multiply.at(x, (i, 0), v[:, 0]),
    "columns": lambda x, i, v: np.minimum.at(x, (slice(None), i % 5), v.T[:1]),
    "a slice": lambda x, i, v: np.add.at(x, slice(1, 5), v[0]),
    "all elements": lambda x, i, v: np.add.at(x[:, 0], i, v[:, 1]),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("name", UPDATES)
def test_updates_at_equal_indices_all_count_in_their_order(name: str, dtype: Any) -> None:
    # Products of 200 values stay far from the largest float32 if the values are near 1, and integers wrap around.
    draws, scale = np.random.default_rng(17), 50 if dtype == np.int32 else 1
    x, v = (
        (draws.standard_normal((12, 5)) * scale).astype(dtype),
        (draws.standard_normal((200, 5)) * scale).astype(dtype),
    )
    if dtype != np.int32:
        v[7] = np.nan
    i = draws.integers(-12, 12, 200)
    wanted, found = x.copy(), [x.copy(), x.copy()]
    UPDATES[name](wanted, i, v)
    fused = pto.fuse(UPDATES[name])
    for each in found:
        fused(each, i, v)
        np.testing.assert_array_equal(each, wanted)
    with pto.interpreter():
        pto.fuse(UPDATES[name])(x, i, v)
    np.testing.assert_array_equal(x, wanted)


STEPS: dict[str, Any] = {
    "power": lambda x, i, v: np.power.at(x, i, v * 2),
    "in a wider type": lambda x, i, v: np.add.at(x, i, v.astype(np.float64)),
    "by a mask": lambda x, i, v: np.add.at(x, x > 0, 1),
    "without a value": lambda x, i, v: np.negative.at(x, i),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STEPS)
def test_other_updates_are_steps_of_numpy(name: str) -> None:
    x, v = RNG.standard_normal((2, 8)).astype(np.float32)
    i = RNG.integers(0, 4, 8)
    wanted = x.copy()
    STEPS[name](wanted, i, v)
    assert ".at, run by numpy" in pt.explain(STEPS[name], x, i, v)
    pto.fuse(STEPS[name])(x, i, v)
    np.testing.assert_array_equal(x, wanted)


def test_an_update_of_an_array_from_outside_is_refused() -> None:
    with pytest.raises(NotTraced, match="pass the array as an argument"):
        pto.fuse(lambda i, v: np.add.at(np.frombuffer(bytearray(8)), i, v))(np.arange(2), np.ones(2))
