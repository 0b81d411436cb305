"""The graph compiler reads facts about ops from their rows, and refuses by name an op whose row tells too little."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.graph import InvalidGraph, NoKernel
from pypto.graph import trace
from pypto.graph.codegen.kernel_text import texts_of
from pypto.graph.codegen.op_text import name_of, neutral
from pypto.graph.ir import type_rules
from pypto.graph.ir.node import TRAITS
from pypto.graph.ir.reference import apply
from pypto.graph.ir.types import TensorType
from pypto.graph.ir.verify import verify
from pypto.graph.plan.pipeline import groups_of, surroundings_of
from pypto.graph.schedule.index_space import FusionConflict
from pypto.ir.types import DType, float32, int1, int32
from pypto.ops.reduce import arg_row
from pypto.ops.row import STRUCTURAL
from pypto.ops.table import REDUCTIONS, TABLE

BY_MAGNITUDE = arg_row(
    "argmax_magnitude", lambda x, **how: np.max(np.abs(x), **how), "gt", "Index of the greatest size."
)


def takes(op: str, dtype: DType) -> bool:
    return op == "reduce_or" if dtype.is_bool else not (dtype.is_float and TABLE[op].dtypes == "int")


CASES = [(op, dtype) for op in REDUCTIONS for dtype in (float32, int32, int1) if takes(op, dtype)]


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_a_neutral_element_changes_no_result(op: str, dtype: DType) -> None:
    values = np.array([-7, 5, 3, 0] if not dtype.is_bool else [True, False, True, True], dtype.numpy)
    longer = np.append(values, np.asarray(neutral(op, dtype), dtype.numpy))
    attrs = {"axes": (0,), "keep_dims": False}
    found = [apply(op, [x], attrs, TensorType((), int32 if "arg" in op else dtype)) for x in (values, longer)]
    assert found[0] == found[1]


def test_a_reduction_whose_row_tells_no_order_is_refused_by_name() -> None:
    row = replace(BY_MAGNITUDE, lane_rule=STRUCTURAL)
    with pytest.raises(LookupError, match="the row of argmax_magnitude tells no neutral element"):
        type_rules.neutral(row, float32)


def test_an_arg_reduction_that_the_language_does_not_have_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    (rows,) = gc.get_referents(TABLE)
    (traits,) = gc.get_referents(TRAITS)
    monkeypatch.setitem(rows, BY_MAGNITUDE.name, BY_MAGNITUDE)
    monkeypatch.setitem(traits, BY_MAGNITUDE.name, frozenset(BY_MAGNITUDE.traits))
    traced = trace(lambda x: np.exp(x) + 1, np.zeros((4, 8), np.float32))
    graph = traced.graph
    graph.outputs[:] = [graph.add(BY_MAGNITUDE.name, graph.outputs[0], axes=(1,), keep_dims=False)]
    with pytest.raises(NoKernel, match="argmax_magnitude"):
        texts_of(groups_of(graph, surroundings_of(traced)[0]))


def test_ops_are_strict_as_their_references_are() -> None:
    assert all(
        type_rules.is_strict(op) for op in ("add", "mul", "div", "exp", "sqrt", "tanh", "sigmoid", "floor", "fma")
    )
    assert not any(type_rules.is_strict(op) for op in ("maximum", "where", "pow", "hypot", "and_", "eq", "sum", "cast"))


@pytest.mark.parametrize("name", ["max", "min"])
def test_an_extreme_of_numpy_is_one_node_that_propagates_nan(name: str) -> None:
    def function(x: Any) -> Any:
        return getattr(np, name)(x, axis=1)

    x = np.array([[1, np.nan, 2], [3, 4, 5]], np.float32)
    traced = trace(function, x)
    assert [n.op for n in traced.graph.nodes] == ["input", name]
    np.testing.assert_array_equal(pto.fuse(function)(x), function(x))
    assert "propagate_nan = true" in str(traced.graph)


def test_a_long_extreme_with_nan_is_made_in_two_kernels() -> None:
    x = np.zeros((512, 512), np.float32)
    x[300, 7] = np.nan
    fused = pto.fuse(lambda x: np.max(x + 1))
    assert np.isnan(fused(x))
    assert len(fused.plan(x).steps) == 2


def test_only_extremes_have_the_attribute() -> None:
    graph = trace(lambda x: x.sum(axis=0), np.zeros((4, 8), np.float32)).graph
    node = graph.append("sum", (graph.inputs[0],), {"axes": (0,), "keep_dims": False, "propagate_nan": True},
                        graph.outputs[0].type, None)  # fmt: skip
    graph.outputs[:] = [node]
    with pytest.raises(InvalidGraph, match="propagate_nan"):
        verify(graph)


def test_a_name_that_the_language_lacks_is_no_text() -> None:
    with pytest.raises(FusionConflict, match="argmax_magnitude has no name in the kernel language"):
        name_of("argmax_magnitude", True)
