"""Every row of the library: interpreter, CPU and simulated Ascend device agree with the float64 reference."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from pypto import library as lib
from pypto.errors.library import ReferenceDiffers
from pypto.library.items import sample_items
from pypto.library.row import MODEL, SMALL
from pypto.library.tolerance import MostlyClose
from pypto.runtime.arrays import array_info

NAMES = tuple(lib.rows)
ASCEND = ("ascend", "any backend")
ON_ASCEND = tuple(name for name, row in lib.rows.items() if any(i.where in ASCEND for i in row.implementations))
CASES = [(name, case) for name in NAMES for case in lib.rows[name].cases]


COMPILED = [("cpu", *at) for at in CASES]
INTERPRETED = [("interpreter", name, SMALL) for name in NAMES]


@pytest.mark.parametrize(("platform", "name", "case"), [*COMPILED, *INTERPRETED])
def test_row_agrees_with_its_reference(platform: str, name: str, case: str) -> None:
    """In all dtypes where it is compiled for its smallest case, else in the first one."""
    row = lib.rows[name]
    checked = row.check(platform, case, dtype="" if (platform, case) == ("cpu", SMALL) else first_dtype(name))
    assert {one.version for one in checked} <= {i.version for i in row.implementations}
    assert checked


def first_dtype(name: str) -> str:
    return str(lib.rows[name].signature.main_dtypes[0])


OTHER_CASES = [(platform, *at) for platform, at in product(("cpu", "interpreter"), CASES)]


@pytest.mark.slow
@pytest.mark.parametrize(("platform", "name", "case"), [at for at in OTHER_CASES if (at[0], at[2]) != ("cpu", SMALL)])
def test_row_agrees_with_its_reference_in_all_dtypes(platform: str, name: str, case: str) -> None:
    assert lib.rows[name].check(platform, case)


@pytest.mark.parametrize("name", ["quantize_per_token", "attention"])
def test_row_agrees_on_the_simulated_device(name: str) -> None:
    row = lib.rows[name]
    assert row.check("ascend-sim", SMALL, dtype=first_dtype(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_ASCEND)
def test_row_agrees_on_the_simulated_device_in_all_cases(name: str) -> None:
    assert lib.rows[name].check("ascend-sim")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [1, 2])
def test_row_agrees_for_other_numbers(name: str, seed: int) -> None:
    assert lib.rows[name].check("cpu", SMALL, seed=seed)


@pytest.mark.parametrize("name", NAMES)
def test_row_is_described(name: str) -> None:
    row = lib.rows[name]
    assert row.name == name
    assert row.doc and row.formula and row.source and not row.doc.endswith(".")
    assert set(row.sizes) >= {"small", "model"}
    assert set(row.effects) <= {spec.name for spec in row.signature.inputs}
    assert set(row.tolerance) <= {spec.name for spec in (*row.signature.outputs, *row.signature.inputs)}
    assert row.flops is not None


@pytest.mark.parametrize("name", NAMES)
def test_arguments_other_than_effects_are_not_written(name: str) -> None:
    row = lib.rows[name]
    values = row.sample(np.random.default_rng(0))
    before = {key: value.copy() for key, value in values.items() if isinstance(value, np.ndarray)}
    row(**values)
    changed = {key for key, value in before.items() if value.tobytes() != values[key].tobytes()}
    assert changed <= set(row.effects)


@pytest.mark.parametrize("name", NAMES)
def test_results_have_the_dtypes_of_the_signature(name: str) -> None:
    row = lib.rows[name]
    values = row.sample(np.random.default_rng(0))
    found = row.results(values)
    first = row.signature.main_dtypes[0]
    for spec in row.signature.outputs:
        info = array_info(found[spec.name], name, spec.name)
        assert info is not None
        assert info.dtype == (spec.dtypes or (first,))[0]


WITH_ITEMS = tuple(name for name, row in lib.rows.items() if row.items)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_row_agrees_at_its_size_in_models(name: str) -> None:
    row = lib.rows[name]
    assert row.check("cpu", MODEL, dtype=first_dtype(name), items=64)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", WITH_ITEMS)
def test_all_items_of_a_row_agree_at_its_size_in_models(name: str) -> None:
    row = lib.rows[name]
    assert row.check("cpu", MODEL, dtype=first_dtype(name))


@pytest.mark.parametrize("name", WITH_ITEMS)
def test_items_of_a_row_are_independent(name: str) -> None:
    row, rng = lib.rows[name], np.random.default_rng(0)
    values = row.sample(rng)
    sample = sample_items(row, values, 2, rng)
    assert sample is not None and len(sample.numbers) == 2
    all_items = sample.of((*row.signature.outputs, *row.signature.inputs), row.expected(values))
    for key, right in row.expected(sample.of(row.signature.inputs, values)).items():
        np.testing.assert_allclose(all_items[key], right, 1e-12, 1e-12)


def test_a_wrong_item_is_found_among_those_that_are_compared() -> None:
    row = replace(lib.rows["silu"], reference=lambda x: x.astype(np.float64))
    with pytest.raises(ReferenceDiffers, match="silu on cpu, case small"):
        row.check(items=2)


def test_a_small_part_may_be_farther_off() -> None:
    tolerance = MostlyClose(0.0, 1.0, part=0.01)
    right = np.zeros(200)
    one_off, two_off, far_off = right.copy(), right.copy(), right.copy()
    one_off[3], two_off[[3, 4, 5]], far_off[3] = 3.9, 3.9, 4.1
    assert tolerance.problem(one_off, right) == ""
    assert tolerance.problem(two_off, right) and tolerance.problem(far_off, right)
    assert tolerance.problem(one_off[:9], right[:9])  # so few elements have no part that may be


def test_halves_go_to_even() -> None:
    x = np.array([[0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 127, 0]], np.float32)
    q, scale = lib.quantize_per_token(x)
    assert q.tolist() == [[0, 2, 2, 0, -2, -2, 127, 0]]
    assert scale.tolist() == [1]
    assert (lib.quantize_per_channel(np.ascontiguousarray(x.T))[0] == q.T).all()
    assert (lib.quantize_static(x, np.ones(8, np.float32), np.zeros(8, np.float32)) == q).all()
    assert (lib.fake_quantize(x, np.ones(1, np.float32)) == q).all()


def test_a_wrong_reference_is_found() -> None:
    row = replace(lib.rows["rms_norm"], reference=lambda x, g, eps: x.astype(np.float64))
    with pytest.raises(ReferenceDiffers, match="rms_norm on cpu, case small bf16: y differs") as error:
        row.check()
    assert "worst at" in str(error.value)
