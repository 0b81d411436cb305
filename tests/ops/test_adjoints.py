"""The column `adjoint`: against central differences of what an op means, in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from pypto.ir.core import Op, Region, Value, make_op
from pypto.ir.types import TileType, float32, float64, int1, int32
from pypto.ops.adjoint import BySweep, Expression, NoAdjoint, apply_adjoint
from pypto.ops.build import OpBuilder
from pypto.ops.table import ROWS, TABLE

Array = np.ndarray[Any, Any]
ELEMENTWISE = [row.name for row in ROWS if callable(row.adjoint) and row.elementwise]
SMALL = {"j0", "j1", "y0", "y1"}  # have no float64 rule; their meaning has
STEP = 3e-4
TOLERANCE = 1e-6
AWAY_FROM_ZERO = {"div", "rem", "atan2", "hypot"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_cell_is_empty(row: Any) -> None:
    assert isinstance(row.adjoint, NoAdjoint | BySweep) or callable(row.adjoint)
    if isinstance(row.adjoint, NoAdjoint):
        assert row.adjoint.reason.startswith(("it", "its"))


def op_of(name: str, arrays: list[Array], attrs: Mapping[str, Any]) -> Op:
    kinds = {"f": float64, "b": int1, "i": int32}
    operands = tuple(Value(TileType(a.shape, kinds[a.dtype.kind])) for a in arrays)
    types = tuple(v.type for v in operands)
    results = (types[0],) if name in SMALL else TABLE[name].infer(types, attrs)
    return make_op(name, operands, dict(attrs), results)


def meaning(op: Op, *arrays: Array) -> Array:
    if op.name == "constant":
        return np.full(op.result.shape, op.attrs["value"], op.result.dtype.numpy)
    if op.name == "cast":
        return arrays[0].astype(op.result.dtype.numpy)
    reference = TABLE[op.name].reference
    assert reference is not None
    return np.asarray(reference(op, *arrays))


class FloatBuilder(OpBuilder):
    """Gives functions without a float64 rule their type all the same: here only their meaning counts."""

    def op(self, name: str, *operands: Value, **attrs: Any) -> Op:
        if name in SMALL:
            return self.create(name, operands, attrs, (operands[0].type,))
        return super().op(name, *operands, **attrs)


def derived(op: Op, arrays: list[Array], gradient: Array) -> list[Array | None]:
    """What the rule gives, evaluated by the meaning of its ops."""
    rule: Any = TABLE[op.name].adjoint
    builder = FloatBuilder(Region())
    incoming = Value(op.result.type)
    known = {**dict(zip(op.operands, arrays, strict=True)), op.result: meaning(op, *arrays), incoming: gradient}
    found = apply_adjoint(rule, builder, op, (*op.operands, op.result, incoming))
    for made in builder.region.ops:
        known[made.result] = meaning(made, *(known[v] for v in made.operands))
    return [None if e is None else known[e.value] for e in found]


def differences(op: Op, arrays: list[Array], n: int, gradient: Array) -> Array:
    """The gradient of sum(result · gradient) by operand n, from central differences of fourth order."""
    x = arrays[n]
    result = np.zeros(x.shape)

    def loss(place: Any, by: float) -> float:
        moved = x.copy()
        moved[place] += by
        wide = meaning(op, *arrays[:n], moved, *arrays[n + 1 :]).astype(np.longdouble)
        return float((wide * gradient).sum() - base)

    base = (meaning(op, *arrays).astype(np.longdouble) * gradient).sum()
    for place in np.ndindex(*x.shape):
        near = loss(place, STEP) - loss(place, -STEP)
        far = loss(place, 2 * STEP) - loss(place, -2 * STEP)
        result[place] = (8 * near - far) / (12 * STEP)
    return result


def check(name: str, arrays: list[Array], attrs: Mapping[str, Any]) -> None:
    """Every gradient of an op is that of central differences."""
    op = op_of(name, arrays, attrs)
    rng = np.random.default_rng(1)
    gradient = rng.normal(size=op.result.shape)
    for n, found in enumerate(derived(op, arrays, gradient)):
        if arrays[n].dtype.kind != "f":
            assert found is None
            continue
        wanted = differences(op, arrays, n, gradient)
        given = np.zeros(arrays[n].shape) if found is None else found
        allowed = TOLERANCE * (np.abs(wanted).max() + 1e-3)
        np.testing.assert_allclose(given, wanted, rtol=TOLERANCE, atol=allowed, err_msg=f"{name}, operand {n}")


def sample(name: str, rng: np.random.Generator) -> tuple[list[Array], dict[str, Any]]:
    """Operands within the domain of an op and away from its kinks, and attributes."""
    row = TABLE[name]
    low, high = max(row.domain[0], -3.0), min(row.domain[1], 3.0)
    middle, half = (low + high) / 2, 0.9 * (high - low) / 2
    count = sum(p.is_operand for p in row.params)
    arrays = [middle + half * np.sort(rng.uniform(-1, 1, 11)) for _ in range(count)]
    arrays[1:] = [rng.permutation(a) for a in arrays[1:]]
    if name in AWAY_FROM_ZERO:
        arrays = [np.where(np.abs(a) < 0.5, 0.75, a) for a in arrays]
    if name == "pow":
        arrays[0] = np.abs(arrays[0]) + 0.5
    if name == "where":
        arrays[0] = arrays[0] > 0
    if name == "ldexp":
        arrays[1] = rng.integers(-2, 3, 11).astype(np.int32)
    attrs: dict[str, Any] = {"propagate_nan": False} if name in ("maximum", "minimum") else {}
    return arrays, attrs | ({"dtype": float32} if name == "cast" else {})


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_rules(name: str) -> None:
    arrays, attrs = sample(name, np.random.default_rng(3))
    if name == "cast":
        op = op_of(name, arrays, attrs)
        (found,) = derived(op, arrays, np.ones(11, np.float32))
        assert found is not None and found.dtype == np.float64 and (found == 1).all()
        return
    if name in ("floor", "ceil", "trunc", "rint", "round"):
        assert set(derived(op_of(name, arrays, attrs), arrays, np.ones(11))) == {None}
        return
    check(name, arrays, attrs)


X = np.random.default_rng(5).permutation(np.linspace(-2.0, 2.1, 24)).reshape(2, 3, 4)
ZEROS = np.where(np.arange(24).reshape(2, 3, 4) % 7 == 0, 0.0, X)
INDEX = np.random.default_rng(6).integers(0, 3, (2, 5, 4)).astype(np.int32)
TILES = [
    ("broadcast_to", [X[:, :1]], {"shape": (2, 5, 4)}),
    ("broadcast_to", [np.array(0.5)], {"shape": (2, 5)}),
    ("reshape", [X], {"shape": (6, 4)}),
    ("permute", [X], {"dims": (2, 0, 1)}),
    ("sum", [X], {"axes": (0, 2), "keep_dims": False}),
    ("sum", [X], {"axes": (1,), "keep_dims": True}),
    ("prod", [X], {"axes": (1,), "keep_dims": False}),
    ("prod", [ZEROS], {"axes": (0, 1), "keep_dims": True}),
    ("max", [X], {"axes": (1,), "keep_dims": False}),
    ("max", [X], {"axes": (0, 2), "keep_dims": True}),
    ("min", [X], {"axes": (0, 1, 2), "keep_dims": False}),
    ("cumsum", [X], {"axis": 1, "reverse": False}),
    ("cumsum", [X], {"axis": 2, "reverse": True}),
    ("cumprod", [X], {"axis": 1, "reverse": True}),
    ("cumprod", [ZEROS], {"axis": 2, "reverse": False}),
    ("cumprod", [ZEROS], {"axis": 1, "reverse": True}),
    ("cummax", [X], {"axis": 2, "reverse": False}),
    ("cummax", [X], {"axis": 2, "reverse": True}),
    ("cummin", [X], {"axis": 1, "reverse": False}),
    ("dot", [X[0], X[1].T.copy()], {}),
    ("dot", [X, np.moveaxis(X, 1, 2).copy(), np.ones((2, 3, 3))], {}),
    ("slice", [X], {"starts": (1, 2, 0), "shape": (1, 3, 2), "steps": (1, -1, 3)}),
    ("gather", [X, INDEX], {"axis": 1}),
    ("gather", [X, INDEX[:1, :, :2]], {"axis": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arrays", "attrs"), TILES, ids=[f"{n}{i}" for i, (n, *_) in enumerate(TILES)])
def test_rules_of_tiles(name: str, arrays: list[Array], attrs: dict[str, Any]) -> None:
    check(name, arrays, attrs)


def test_every_rule_of_tiles_is_tried() -> None:
    assert {row.name for row in ROWS if callable(row.adjoint) and not row.elementwise} == {name for name, *_ in TILES}


def test_narrow_floats_have_gradients_in_float32() -> None:
    from pypto.ir.types import float16

    x = Value(TileType((4,), float16))
    op = make_op("mul", (x, x), {}, (x.type,))
    builder = OpBuilder(Region())
    incoming = Value(TileType((4,), float32))
    found = apply_adjoint(TABLE["mul"].adjoint, builder, op, (x, x, op.result, incoming))  # type: ignore[arg-type]
    assert [e.dtype for e in found if isinstance(e, Expression)] == [float32, float32]
