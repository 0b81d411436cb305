"""The table is complete: each row says all that is needed of it, and each cell is filled or says why not."""

from __future__ import annotations

import ast
import inspect

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.rules.kinds import ViaFormula, ViaInstruction, ViaLaneRule, ViaScalarUnit
from pypto.backends.ascend.rules.table import rule_for
from pypto.ir.types import DTYPES, DType
from pypto.ops.row import Effect, OpRow, Reduction, Structural, Unsupported
from pypto.ops.table import ROWS, TABLE
from tests.ops.rows import COMPUTING, FITTING, SYMBOLS, Call, calls, is_hidden, takes

TEN = ("add", "exp", "cast", "where", "sum", "argmax", "dot", "load", "permute", "cumsum")
KINDS = ("tile", "int", "bool", "str", "dtype", "elem", "shape", "axis", "any")
TRIED = {
    "all": lambda d: True,
    "float": lambda d: d.is_float,
    "int": lambda d: d.is_int,
    "bool": lambda d: d.is_bool,
    "number": lambda d: not d.is_bool,
}
every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def test_names_are_unique() -> None:
    assert len(TABLE) == len(ROWS)
    hidden = {row.name for row in ROWS if row.elementwise and not row.public and not is_hidden(row)}
    assert hidden == set(SYMBOLS), "each elementwise row has a public name, one in `libdevice`, or an operator"


@pytest.mark.parametrize("name", TEN)
def test_ten_families(name: str) -> None:
    """Ops of ten families fit into one form of row, on both backends."""
    row = TABLE[name]
    assert isinstance(row.lane_rule, Structural | Reduction) or callable(row.lane_rule)
    assert isinstance(rule_for(row), ViaInstruction | ViaFormula | ViaLaneRule | Structural)
    assert row.doc and (row.public or name in SYMBOLS)


@every_row
def test_cells(row: OpRow) -> None:
    rule = rule_for(row)
    assert callable(row.lane_rule) or isinstance(row.lane_rule, Structural | Reduction | Unsupported)
    assert isinstance(rule, ViaInstruction | ViaFormula | ViaScalarUnit | ViaLaneRule | Structural | Unsupported)
    for cell in (row.lane_rule, rule):
        if isinstance(cell, Unsupported):
            assert len(cell.reason) > 10, "a reason says what to write instead"
        if isinstance(cell, ViaInstruction | ViaFormula | ViaLaneRule):
            assert row.elementwise and callable(row.lane_rule), "the lane rule covers what is not one instruction"


@every_row
def test_texts(row: OpRow) -> None:
    assert len(row.doc.split()) >= 2
    assert all(p.kind in KINDS for p in row.params)
    assert not row.public or row.example or row.name in ("program_id", "num_programs")


@every_row
def test_ranges_and_tolerances(row: OpRow) -> None:
    low, high = row.domain
    assert low < high and row.dtypes in TRIED
    assert all(0 < ulp <= 4 and name in ("f32", "f64") for name, ulp in row.ulp.items())


@every_row
def test_what_has_no_meaning_is_left_to_the_interpreter(row: OpRow) -> None:
    from pypto.interp.run import HANDLERS

    handled = row.name in HANDLERS or row.name == "yield"
    assert handled != (row.reference is not None)
    assert row.effect is Effect.PURE or row.reference is None


@every_row
def test_public_names(row: OpRow) -> None:
    assert hasattr(pto, row.name) == row.public
    if not row.public:
        return
    function = getattr(pto, row.name)
    assert {p.name for p in row.params} <= set(inspect.signature(function).parameters)
    assert function.__doc__.startswith(row.doc)


@pytest.mark.parametrize("row", COMPUTING, ids=lambda row: row.name)
def test_accepted_dtypes_are_those_that_it_states(row: OpRow) -> None:
    stated = [d for d in DTYPES if TRIED[row.dtypes](d)]
    assert set(stated) <= set(takes(row)), "the row refuses a dtype that it says is tried"


@pytest.mark.parametrize("row", [r for r in COMPUTING if r.traits & {"commutative"}], ids=lambda row: row.name)
def test_commutative_means_it(row: OpRow) -> None:
    for dtype in takes(row):
        op = calls(row, dtype)[0].op
        a, b = (np.arange(3 * i, 701 + 3 * i).astype(op.operands[0].dtype.numpy) for i in range(2))
        np.testing.assert_array_equal(row.reference(op, a, b), row.reference(op, b, a))


@pytest.mark.parametrize("row", COMPUTING, ids=lambda row: row.name)
def test_type_rule_agrees_with_numpy(row: OpRow) -> None:
    """Shape and kind of what the meaning gives are those of the type rule; integers keep their values."""
    for call in (call for dtype in DTYPES for call in calls(row, dtype)):
        op = call.op
        arrays = [np.ones(v.shape, v.dtype.numpy) for v in op.operands]
        result, kind = np.asarray(row.reference(op, *arrays)), op.result.tile
        assert result.shape == kind.shape, str(call)
        assert is_kind(result, kind.dtype), f"{call} is {kind}, but numpy gives {result.dtype}"
        if kind.dtype.is_int:
            assert np.array_equal(result, result.astype(kind.dtype.numpy)), str(call)


def is_kind(result: np.ndarray, dtype: DType) -> bool:
    if dtype.is_float:
        return result.dtype.kind in "fV"
    return result.dtype.kind == "b" if dtype.is_bool else result.dtype.kind in "iu"


def test_every_row_is_tried() -> None:
    """A new row gets its tests by being there: with operands of one shape, or with an entry of `FITTING`."""
    untried = [row.name for row in COMPUTING if not any(calls(row, d) for d in DTYPES)]
    assert not untried
    assert set(FITTING) <= set(TABLE)


def test_calls_are_python() -> None:
    for row in COMPUTING:
        for call in calls(row, takes(row)[0]):
            assert isinstance(call, Call)
            names = [f"x{i}" for i in range(len(call.types))]
            assert ast.parse(call.text(*names), mode="eval")
