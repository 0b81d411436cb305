"""A search keeps no configuration of which it does not know that it does the whole work."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors import PyptoWarning
from pypto.errors.tuning import Disagreement
from pypto.tuning import Autotuner, Config, autotune
from pypto.tuning.agreement import Group, Groups, Output

N = 1024


@pto.jit
def double(x, o, n, BLOCK: pto.constexpr, PART: pto.constexpr = 1):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(o + i, pto.load(x + i, mask=i < n) * 2, mask=i < n)


@pto.jit
def in_place(x, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(x + i, pto.load(x + i, mask=i < n) * 2, mask=i < n)


@pto.jit
def total(x, o, n, BLOCK: pto.constexpr, PART: pto.constexpr = 1):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.atomic_add(o, pto.sum(pto.load(x + i, mask=i < n, other=0)))


@pto.jit
def shares(x, o, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(o + pto.program_id(0), pto.sum(pto.load(x + i, mask=i < n, other=0)))


def tuned(kernel: Any, *blocks: int, parts: tuple[int, ...] = (), **options: Any) -> Autotuner:
    configs = [Config({"BLOCK": b, "PART": p}) for b in blocks for p in parts] or [Config({"BLOCK": b}) for b in blocks]
    return autotune(configs, key=["n"], **options)(kernel)


def arrays() -> tuple[Any, Any]:
    return np.arange(N, dtype=np.float32), np.zeros(N, np.float32)


FLAT: list[Callable[[int], Any]] = [lambda size: pto.cdiv(N, size), lambda size: lambda meta: (pto.cdiv(N, size),)]


@pytest.mark.parametrize("grid", FLAT, ids=["number", "function"])
def test_a_grid_that_leaves_work_undone_is_an_error(grid: Callable[[int], Any]) -> None:
    """The fastest covers a quarter of the array, the second half of it."""
    x, o = arrays()
    kernel = tuned(double, 64, 128, 256)
    with pytest.raises(Disagreement, match="the grid does not depend on BLOCK") as caught:
        kernel[grid(256)](x, o, N)
    assert "BLOCK=64: 256 of 1024 elements of `o`" in str(caught.value)
    assert "BLOCK=128: 512 of 1024 elements of `o`" in str(caught.value)
    assert not o.any()
    assert not kernel.cache
    assert not kernel.chosen
    assert {row.status for row in kernel.tuning_report().sections[0].rows} == {"wrong"}
    later = tuned(double, 64, 128, 256)
    with pytest.raises(Disagreement):
        later[grid(256)](x, o, N)


def test_a_majority_that_covers_all_is_kept() -> None:
    x, o = arrays()
    kernel = tuned(double, 64, 128, 256)
    with pytest.warns(PyptoWarning, match=r"BLOCK=64 is left out.* 512 of 1024 .*; the grid does not depend on BLOCK"):
        kernel[pto.cdiv(N, 128)](x, o, N)
    np.testing.assert_array_equal(o, 2 * x)


def test_a_majority_that_covers_a_part_is_not() -> None:
    x, o = arrays()
    with pytest.raises(Disagreement):
        tuned(double, 32, 64, 128, parts=(1, 2))[pto.cdiv(N, 128)](x, o, N)
    with pytest.raises(Disagreement):  # three store a quarter and one stores all
        configs = [Config({"BLOCK": 64, "PART": n}) for n in range(3)] + [Config({"BLOCK": 256})]
        autotune(configs, key=["n"])(double)[pto.cdiv(N, 256)](x, o, N)


def test_what_an_array_holds_already_is_no_result() -> None:
    """After a right launch, all configurations leave the array right, those that store a part of it as well."""
    x, o = arrays()
    o[:] = 2 * x
    with pytest.raises(Disagreement):
        tuned(double, 64, 128, 256)[pto.cdiv(N, 256)](x, o, N)


@pytest.mark.parametrize(("kernel", "outputs"), [(total, 1), (shares, 4)], ids=["one sum", "a sum of each program"])
def test_coverage_that_no_store_shows(kernel: Any, outputs: int) -> None:
    x, o = np.ones(N, np.float32), np.zeros(outputs, np.float32)
    with pytest.raises(Disagreement, match="the grid does not depend on BLOCK"):
        tuned(kernel, 64, 128, 256)[pto.cdiv(N, 256)](x, o, N)


def test_configurations_of_one_block_size_are_one_witness() -> None:
    x, o = np.ones(N, np.float32), np.zeros(1, np.float32)
    configs = [Config({"BLOCK": 64, "PART": 1}), Config({"BLOCK": 64, "PART": 2}), Config({"BLOCK": 256, "PART": 1})]

    @pto.jit
    def parted(x, o, n, BLOCK: pto.constexpr, PART: pto.constexpr):
        i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
        pto.atomic_add(o, pto.sum(pto.load(x + i, mask=i < n, other=0)) * PART / PART)

    with pytest.raises(Disagreement):
        autotune(configs, key=["n"])(parted)[pto.cdiv(N, 256)](x, o, N)


def test_arrays_that_are_read_and_written() -> None:
    x, _ = arrays()
    before = x.copy()
    with pytest.raises(Disagreement, match="x"):
        tuned(in_place, 64, 128, 256)[pto.cdiv(N, 256)](x, N)
    np.testing.assert_array_equal(x, before)


def test_a_winner_of_another_grid_is_not_used() -> None:
    """What won where the grid depends on BLOCK may cover a part of the work where it does not."""
    x, o = arrays()
    kernel = tuned(double, 64, 128, 256)
    kernel[lambda meta: (pto.cdiv(N, meta["BLOCK"]),)](x, o, N)
    np.testing.assert_array_equal(o, 2 * x)
    for again in (kernel, tuned(double, 64, 128, 256)):
        with pytest.raises(Disagreement):
            again[pto.cdiv(N, 256)](x, o, N)


def test_a_grid_of_another_size_is_searched_anew_where_programs_depend_on_the_constants() -> None:
    x, o = arrays()
    kernel = tuned(double, 512, 1024, cache_results=False)
    kernel[pto.cdiv(N, 512)](x, o, N)
    np.testing.assert_array_equal(o, 2 * x)
    with pytest.raises(Disagreement):
        kernel[1](x, o, N)


@pto.jit
def rows(x, o, n, BLOCK: pto.constexpr):
    at = pto.program_id(0) * n
    for first in range(0, n, BLOCK):
        o[at + first : at + first + BLOCK] = x[at + first : at + first + BLOCK] * 2


def test_a_grid_of_another_size_is_not_searched_anew_where_programs_do_the_same() -> None:
    kernel = autotune([Config({"BLOCK": 8}), Config({"BLOCK": 16})], key=["n"], cache_results=False)(rows)
    for count in (3, 5):
        x = np.arange(count * 32, dtype=np.float32)
        o = np.zeros_like(x)
        kernel[count](x, o, 32)
        np.testing.assert_array_equal(o, 2 * x)
    assert len(kernel.tuning_report().sections) == 1
    assert kernel.inspect(x, o, 32) is not None


def test_a_users_own_measurement_is_checked_as_well() -> None:
    def measure(call: Any, quantiles: Any) -> list[float]:
        call()
        return [1.0, 1.0, 1.0]

    x, o = arrays()
    with pytest.raises(Disagreement):
        tuned(double, 64, 128, 256, do_bench=measure)[pto.cdiv(N, 256)](x, o, N)


def output(values: list[float], stored: list[int]) -> list[Output]:
    return [Output("o", np.array(values, np.float32), np.array(stored, bool), exact=True)]


def test_elements_that_nobody_stores_do_not_count() -> None:
    groups = Groups()
    groups.join(output([1, 2, 3e38], [1, 1, 0]), "a")
    groups.join(output([1, 2, np.nan], [1, 1, 0]), "b")
    groups.join(output([1, 3, 3e38], [1, 1, 0]), "c")
    assert [group.members for group in groups.groups] == [["a", "b"], ["c"]]
    right = groups.right()
    assert right is groups.groups[0]
    assert re.search("differ by up to 1$", groups.groups[1].difference(right))


@pytest.mark.parametrize(
    ("members", "right"), [("ab", None), ("aab", "a"), ("abb", "b"), ("abc", None), ("aabb", None)]
)
def test_a_majority_is_more_than_half(members: str, right: str | None) -> None:
    groups = Groups()
    for name in members:
        groups.join(output([float(ord(name))], [1]), name)
    found: Group | None = groups.right()
    assert (found and found.members[0]) == right
