"""Updates by arrays of indices: kernels, with numpy's results to the bit, whatever the indices and layouts are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.graph import Graph, TensorType
from pypto.graph.layout import Layouts
from pypto.graph.meaning import evaluate
from pypto.graph.plan_text import parse_plan, plan_text
from pypto.graph.planning import plan_of
from pypto.graph.strides import contiguous
from pypto.ir.types import DType, float32, float64, int8, int32, int64

RNG = np.random.default_rng(4)


def update(shape: tuple[int, ...], index: tuple[int, ...], axis: int, add: bool, dtype: DType) -> tuple[Graph, Any]:
    """A graph with one update, and its arrays, where many indices are equal."""
    graph = Graph("update")
    wanted = (*shape[:axis], *index, *shape[axis + 1 :])
    base = graph.input("x", TensorType(shape, dtype))
    at = graph.input("at", TensorType(index, int64))
    value = graph.input("value", TensorType(wanted, dtype))
    graph.outputs.append(graph.add("put", base, at, value, axis=axis, add=add))
    arrays = [
        (RNG.standard_normal(shape) * 50).astype(dtype.numpy),
        RNG.integers(0, shape[axis], index),
        (RNG.standard_normal(wanted) * 50).astype(dtype.numpy),
    ]
    return graph, arrays


@pytest.mark.parametrize("add", [False, True], ids=["put", "add"])
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
    shape: tuple[int, ...], index: tuple[int, ...], axis: int, add: bool, dtype: DType
) -> None:
    graph, arrays = update(shape, index, axis, add, dtype)
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
    assert plan.homes
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
