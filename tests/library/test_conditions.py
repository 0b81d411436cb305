"""Integers that are places in memory, sizes that must divide, and sums that must fit: all are checked by a call."""

from __future__ import annotations

import ast
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto import library as lib
from pypto.errors import Diagnostic
from pypto.errors.launch import UnsupportedArgument
from pypto.errors.library import OperandValue, ScatteredOperand, UnrelatedSizes, WrongOperands, WrongSignature
from pypto.library.conditions import Conditions, Range, aligned
from pypto.library.expressions import compiled
from pypto.library.signature import Signature
from pypto.runtime.arrays import array_info

F32 = np.float32
RANGES = [(name, one) for name, row in lib.rows.items() for one in row.signature.conditions.ranges]
ELEMENTS = [(n, one) for n, row in lib.rows.items() for one in row.signature.conditions.relations if one.arrays]
SIZES = [(n, one) for n, row in lib.rows.items() for one in row.signature.conditions.relations if not one.arrays]


def integer_operands(name: str) -> set[str]:
    signature = lib.rows[name].signature
    return {spec.name for spec in signature.inputs if any(d.is_int for d in spec.dtypes or signature.main_dtypes)}


def drawn(name: str, array: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments that have an array, and all that its conditions read."""
    row = lib.rows[name]
    for case in row.cases:
        values = row.sample(np.random.default_rng(1), case)
        if values.get(array) is not None and values[array].size:
            return values, {**row.bind((), values).dims, **values}
    raise AssertionError(f"no case of {name} has `{array}`")


def wrong_values(one: Range, known: dict[str, Any]) -> list[Any]:
    """The array with one element beside its range, and with one far away, below and above."""
    x = known[one.array]
    info = np.iinfo(x.dtype)
    if one.steps:
        return [np.r_[x[:1], x[0] - 1, x[2:]].astype(x.dtype)]
    inside = np.broadcast_to(one.limited(x, known), x.shape)
    place = tuple(map(int, np.argwhere(inside)[-1]))
    found = []
    for limit, off, far in ((one.least, -1, info.min), (one.beyond, 0, info.max)):
        if limit is not None:
            beside = int(np.broadcast_to(aligned(limit(known), x.ndim), x.shape)[place]) + off
            for value in {beside, int(far)}:
                changed = x.copy()
                changed[place] = value
                found.append(changed)
    return found


@pytest.mark.parametrize("name", lib.rows)
def test_every_integer_operand_has_a_range_or_takes_any_value(name: str) -> None:
    found = lib.rows[name].signature.conditions
    assert integer_operands(name) == found.arrays | found.open
    assert not found.arrays & found.open


@pytest.mark.parametrize(("name", "one"), RANGES, ids=lambda x: getattr(x, "text", x))
def test_values_outside_their_range_are_refused_before_anything_is_written(name: str, one: Range) -> None:
    row, (values, known) = lib.rows[name], drawn(name, one.array)
    effects = {key: values[key].tobytes() for key in row.effects}
    wrong = wrong_values(one, known)
    assert wrong
    for changed in wrong:
        with pytest.raises(OperandValue, match=f"{name}: `{one.array}"):
            row(**{**values, one.array: changed})
    assert effects == {key: values[key].tobytes() for key in row.effects}


@pytest.mark.parametrize(("name", "one"), ELEMENTS, ids=lambda x: getattr(x, "text", x))
def test_first_and_last_elements_are_held_to_their_sizes(name: str, one: Any) -> None:
    (array,) = one.arrays
    values, _ = drawn(name, array)
    for place in (0, -1):
        changed = values[array].copy()
        changed[place] = -1 if place == 0 else 10**6
        with pytest.raises(OperandValue, match=f"`{array}` is"):
            lib.rows[name](**{**values, array: changed})


@pytest.mark.parametrize(("name", "one"), SIZES, ids=lambda x: getattr(x, "text", x))
def test_relations_of_sizes_can_fail(name: str, one: Any) -> None:
    row = lib.rows[name]
    sizes = [row.bind((), row.sample(np.random.default_rng(0), case)).dims for case in row.cases]
    known = next(dims for dims in sizes if one.names <= dims.keys())
    assert one.holds(known)
    tried = [{**known, n: known[n] + d} for n in one.names for d in (1, -1, 2**31, -10 - known[n])]
    assert any(not one.holds(dims) for dims in tried)


X, Q = np.ones((8, 4), F32), np.ones((40, 4, 16), F32)
IMAGE = np.zeros((1, 2, 5, 4), np.int8)
FILTER = np.zeros((3, 3, 4, 2), np.int8)
STARTS = np.array([0, 7, 40], np.int32)
LINEAR = {"row_scale": np.ones(1, F32), "column_scale": np.ones(1, F32)}
LONG = {"a": np.zeros((1, 1 << 17), np.int8), "b": np.zeros((1 << 17, 1), np.int8)}
SHORT = {"a": np.zeros((1, 16), np.int8), "b": np.zeros((16, 1), np.int8)}
CALLS: list[tuple[str, dict[str, Any], type[Diagnostic], str]] = [
    ("varlen_attention", {"q": Q, "k": Q, "v": Q, "starts": np.array([0, 7, 500], np.int32)}, OperandValue, "500"),
    ("varlen_attention", {"q": Q, "k": Q, "v": Q, "starts": STARTS, "longest": 8}, OperandValue, "is 40, and the"),
    ("varlen_attention", {"q": Q[:, :3], "k": Q[:, :2], "v": Q[:, :2], "starts": STARTS}, UnrelatedSizes, "g = 2, h"),
    ("attention", {"q": Q[None, :3], "k": Q[None, :2], "v": Q[None, :2]}, UnrelatedSizes, "h % g == 0"),
    ("cross_entropy", {"logits": X, "labels": np.array([0, 1, -100, 3, 4, 0, 0, 0])}, OperandValue, "` is 4,"),
    ("grouped_matmul", {"x": X, "w": np.ones((2, 4, 4), F32), "ends": np.array([3, 7], np.int32)}, OperandValue, "t"),
    ("select_experts", {"logits": X, "k": 5}, UnrelatedSizes, "e = 4"),
    ("select_experts", {"logits": X, "k": 4, "groups": 4, "kept": 2}, UnrelatedSizes, "kept = 2"),
    ("permute_tokens", {"x": X, "ids": np.full((8, 2), 8, np.int32)}, OperandValue, "experts = 8"),
    ("combine_experts", {"y": X, "position": np.arange(8, dtype=np.int32), "weights": X}, UnrelatedSizes, "m == t . k"),
    ("swiglu", {"x": X[:, :3]}, UnrelatedSizes, "w % 2 == 0"),
    ("hadamard", {"x": X[:, :3]}, UnrelatedSizes, "d = 3"),
    ("rope_half", {"x": Q[..., :3], "cos": Q[:, 0, :3], "sin": Q[:, 0, :3]}, UnrelatedSizes, "d = 3"),
    ("quantize_per_group", {"x": X, "groups": 3}, UnrelatedSizes, "groups = 3"),
    ("quantize_per_group", {"x": X, "groups": 0}, UnrelatedSizes, "1 <= groups"),
    ("w8a8_linear", {**LONG, **LINEAR}, UnrelatedSizes, "k = 131072"),
    ("w8a8_matmul", {**LONG, **LINEAR}, UnrelatedSizes, "k = 131072"),
    ("w8a8_linear", {**SHORT, **LINEAR, "offset": np.array([2**31 - 9], np.int32)}, OperandValue, "2147483639"),
    ("w8a16_matmul", {"x": X, "codes": np.zeros((3, 2), np.int8), "scale": np.ones((1, 2), F32)}, UnrelatedSizes, "h"),
    ("adamw", {"w": X[0], "g": X[0], "m": X[0].copy(), "v": X[0].copy(), "t": 0}, UnrelatedSizes, "1 <= t"),
    ("topk", {"scores": X, "k": -1}, UnrelatedSizes, "k = -1"),
    ("topk", {"scores": X, "k": 2.0}, WrongOperands, "`k` is 2.0, and it must be an integer"),
    ("rms_norm", {"x": X, "g": X[0], "eps": "1"}, WrongOperands, "`eps` is '1', and it must be a number"),
    ("quantize_image", {"x": Q[None], "scale": np.ones(1, F32), "top": -5}, UnrelatedSizes, "top = -5"),
    ("conv_int8", {"x": IMAGE, "weight": FILTER, "scale": np.ones(2, F32)}, UnrelatedSizes, "h = 2, kh = 3"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "kind", "says"), CALLS, ids=[f"{c[0]} {c[3]}" for c in CALLS])
def test_calls_that_crashed_or_gave_wrong_numbers_are_refused(
    name: str, given: dict[str, Any], kind: type[Diagnostic], says: str
) -> None:
    with pytest.raises(kind, match=says):
        lib.rows[name](**given)


def test_numbers_of_numpy_are_sizes() -> None:
    ids, weights = lib.select_experts(X, k=np.int64(2))
    assert ids.shape == weights.shape == (8, 2)
    assert (lib.rms_norm(X, X[0], eps=np.float32(1e-6)) == lib.rms_norm(X, X[0], eps=float(F32(1e-6)))).all()


def test_negative_labels_are_left_out() -> None:
    loss = lib.cross_entropy(X, np.array([-1, -100, 0, 1, 2, 3, 3, -7], np.int32))
    assert (loss == 0).tolist() == [True, True, False, False, False, False, False, True]


def test_places_behind_the_end_of_a_sequence_may_be_anything() -> None:
    row = lib.rows["paged_attention"]
    values = row.sample(np.random.default_rng(0))
    page = values["keys"].shape[1]
    behind = np.arange(values["table"].shape[1]) >= -(-values["lengths"] // page)[:, None]
    values["lengths"][0] = page
    behind[0, 1:] = True
    right = row(**values)
    assert behind.any()
    values["table"][behind] = -1
    assert (row(**values) == right).all()


@pytest.mark.parametrize("device", ["interpreter", pytest.param("ascend-sim", marks=pytest.mark.slow)])
def test_integers_on_a_device_are_checked(device: str) -> None:
    labels: Any = np.array([0, 1, 4, 3, 0, 0, 0, 0], np.int32)
    place: Any = nullcontext()
    if device != "interpreter":
        labels, place = pto.to_device(labels, device), pto.device(device)
    with place, pytest.raises(OperandValue, match=r"labels\[2\]"):
        lib.cross_entropy(X, labels)


@pytest.mark.slow
def test_an_array_on_a_device_is_taken_inside_of_its_block_only() -> None:
    x, g = pto.to_device(X, "ascend-sim"), np.ones(X.shape[-1], np.float32)
    with pytest.raises(UnsupportedArgument, match=r"`x` is an array on ascend-sim\n.*with pto.device\('ascend-sim'\)"):
        lib.rms_norm(x, g)
    with pto.device("ascend-sim"):
        np.testing.assert_allclose(lib.rms_norm(x, g), lib.rms_norm(X, g), rtol=1e-5)


def test_strided_integers_are_checked() -> None:
    labels = np.array([0, 99, 1, 99, 4, 99, 3, 99] * 2, np.int32)[::2]
    with pytest.raises(OperandValue, match=r"labels\[2\]"):
        lib.cross_entropy(X, labels)


def test_sums_of_the_longest_rows_do_not_leave_int32() -> None:
    k = (1 << 17) - 1
    least = np.full((1, k), -128, np.int8)
    y = lib.w8a8_linear(least, np.ascontiguousarray(least.T), **LINEAR)
    assert y[0, 0] == F32(128 * 128 * k)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x[t] f32, i[t] i32 -> y[t] where i <", "no list of conditions"),
        ("x[t] f32, i[t] i32 -> y[t] where i < z", "`z`, which is not there"),
        ("x[t] f32, i[t] i32 -> y[t] where any(j)", "`j`, which is not there"),
        ("x[t] f32, i[t] i32 -> y[t] where i != 3", "no limit of a range"),
        ("x[t] f32, i[t] i32 -> y[t] where 1 < 2 < i < 9", "no range"),
        ("x[t] f32, i[t] i32 -> y[t] where i < open(t)", "nothing that a signature can compute"),
        ("x[t] f32, i[t] i32 -> y[t] where t is 3", "nothing that a signature can compute"),
    ],
)
def test_conditions_that_cannot_be_read_are_refused(text: str, says: str) -> None:
    with pytest.raises(WrongSignature, match=says):
        Signature.parse(text)


def test_a_row_of_a_table_has_limits_of_its_own() -> None:
    (one,) = Conditions.parse("0 <= i[:n] < m", {"i", "n", "m"}).ranges
    known = {"i": np.array([[5, 9, 9], [1, 0, -1]]), "n": np.array([1, 2]), "m": np.array([6, 2])}
    assert one.wrong(known) == ""
    assert one.wrong({**known, "m": np.array([5, 2])}) == "`i[0, 0]` is 5"
    assert one.wrong({**known, "n": np.array([1, 3])}) == "`i[1, 2]` is -1"


def test_only_zero_is_a_multiple_of_zero() -> None:
    remainder = compiled(ast.parse("t % b", mode="eval").body)
    assert [remainder({"t": t, "b": b}) for t, b in ((0, 0), (3, 0), (7, 4))] == [0, 3, 3]


LAYOUTS = [
    (name, array, kind)
    for name, row in lib.rows.items()
    for kind in ("contiguous", "contiguous_rows")
    for array in sorted(getattr(row.signature.conditions, kind))
]


@pytest.mark.parametrize(("name", "array", "kind"), LAYOUTS)
def test_operands_of_another_layout_are_refused_before_anything_is_written(name: str, array: str, kind: str) -> None:
    values, _ = drawn(name, array)
    x = values[array]
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    for other in (wide[..., ::2], np.ascontiguousarray(x[..., ::-1])[..., ::-1]):
        with pytest.raises(ScatteredOperand, match=rf"`{array}` has the strides .*{kind}\({array}\)"):
            lib.rows[name](**{**values, array: other})
    if kind == "contiguous" and x.ndim > 1:
        with pytest.raises(ScatteredOperand, match=array):
            lib.rows[name](**{**values, array: np.repeat(x, 2, axis=-2)[..., ::2, :]})


def laid_out(x: Any) -> list[Any]:
    """The same elements in other places: with gaps, backwards, by columns."""
    wide = np.zeros(tuple(2 * n for n in x.shape), x.dtype)
    gaps = wide[tuple(slice(None, None, 2) for _ in x.shape)]
    gaps[...] = x
    return [gaps, np.ascontiguousarray(x[..., ::-1])[..., ::-1], x.copy("F")]


@pytest.mark.slow
@pytest.mark.parametrize("name", lib.rows)
def test_every_layout_gives_the_same_or_is_refused(name: str) -> None:
    row = lib.rows[name]
    values = row.sample(np.random.default_rng(0), "small", str(row.signature.main_dtypes[-1]))
    right = row.results(values)
    for key, x in values.items():
        for other in laid_out(x) if isinstance(x, np.ndarray) else ():
            given = {**values, **{effect: values[effect].copy() for effect in row.effects}, key: other}
            try:
                found = row(**given)
            except ScatteredOperand:
                continue
            named = dict(
                zip(
                    [s.name for s in row.signature.outputs],
                    found if isinstance(found, tuple) else (found,),
                    strict=False,
                )
            )
            for result, expected in right.items():
                got = given[result] if result in row.effects else named[result]
                info = array_info(got, name, result)
                assert info is not None
                assert row.tolerance_of(result, info.dtype).problem(got, expected) == "", (key, other.strides, result)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", lib.rows)
def test_a_size_of_zero_gives_no_elements_or_is_refused_by_name(name: str) -> None:
    row = lib.rows[name]
    tried = 0
    for dim in row.sizes["small"]:
        sizes = SimpleNamespace(**{**row.sizes["small"], dim: 0})
        try:
            values = row.values(np.random.default_rng(0), sizes, row.signature.main_dtypes[-1])
        except (ValueError, IndexError, ZeroDivisionError):
            continue  # random numbers that no such size has
        tried += 1
        try:
            row.results(values)
        except Diagnostic as error:
            assert error.code in {"E364", "E365", "E371"}, (dim, str(error))
    assert tried
