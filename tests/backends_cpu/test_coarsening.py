"""Merged programs of products with few rows: the same numbers whatever the grid, and only where programs are alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.base import Locality
from pypto.ir.core import ProgramMap
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.passes.coarsening import coarsen_programs
from tests.backends_cpu.lowering import fixed_target, lowered, optimized
from tests.conformance.cases import Launch
from tests.conformance.fences import Fences

Array = np.ndarray[Any, Any]


@pto.jit
def product(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc += pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN])
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def fused(a, b, bias, c, BN: pto.constexpr, BK: pto.constexpr):
    """One axis, an epilogue, and a sum that starts from the bias."""
    j = BN * pto.program_id(0)
    acc = pto.broadcast_to(bias[j : j + BN], (2, BN))
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[0:2, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[0:2, j : j + BN] = pto.maximum(acc * 2, bias[None, j : j + BN])


@pto.jit
def batched(a, b, c, BN: pto.constexpr, BK: pto.constexpr):
    j, h = pto.program_id(1) * BN, pto.program_id(2)
    acc = pto.zeros((1, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[h : h + 1, k : k + BK], b[h, k : k + BK, j : j + BN], acc)
    c[h : h + 1, j : j + BN] = acc


@pto.jit
def numbered(a, b, c, BN: pto.constexpr, BK: pto.constexpr):
    """The result depends on the program itself."""
    p = pto.program_id(0)
    acc = pto.zeros((1, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[0:1, k : k + BK], b[k : k + BK, p * BN : p * BN + BN], acc)
    c[0:1, p * BN : p * BN + BN] = acc + p


@pto.jit
def spread(a, b, c, BN: pto.constexpr, BK: pto.constexpr):
    """Between the columns of neighbours lie some of nobody."""
    j = pto.program_id(0) * (BN + 8)
    acc = pto.zeros((1, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[0:1, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[0:1, j : j + BN] = acc


@pto.jit
def largest(a, b, c, BN: pto.constexpr, BK: pto.constexpr):
    """A number for every program."""
    p = pto.program_id(0)
    acc = pto.zeros((1, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[0:1, k : k + BK], b[k : k + BK, p * BN : p * BN + BN], acc)
    c[0:1, p : p + 1] = pto.max(acc, axis=1)[:, None]


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32)


def programs(kernel: Any, **arguments: Any) -> int:
    return lowered(Launch(kernel, (1, 1), arguments, {})).locality.encoded


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize(("n", "columns"), [(4096, 128), (2048, 64), (1000, 32), (33, 16), (4100, 300)])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("m", "rows"), [(1, 1), (4, 4), (3, 2)])
def test_products(m: int, rows: int, n: int, columns: int, threads: int, level: str) -> None:
    a, b = numbers(m, 70), numbers(70, n)
    with Fences() as fences:
        c = fences.around(np.zeros((m, n), np.float32))
        kernel = pto.jit(level=level, num_threads=threads)(product.function)
        kernel[-(-m // rows), -(-n // columns)](fences.around(a), fences.around(b), c, rows, columns, 32)
        np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize(("m", "rows", "n"), [(16, 16, 2100), (20, 9, 1000)])
def test_more_rows(m: int, rows: int, n: int, level: str) -> None:
    a, b = numbers(m, 70), numbers(70, n)
    with Fences() as fences:
        c = fences.around(np.zeros((m, n), np.float32))
        grid = -(-m // rows), -(-n // 64)
        pto.jit(level=level)(product.function)[grid](fences.around(a), fences.around(b), c, rows, 64, 32)
        np.testing.assert_array_equal(c, a @ b)


def test_only_the_grid_counts(level: str) -> None:
    """Columns for which no program runs stay as they are."""
    a, b, c = numbers(1, 40), numbers(40, 512), np.full((1, 512), 7, np.float32)
    pto.jit(level=level)(product.function)[1, 3](a, b, c, 1, 64, 32)
    np.testing.assert_array_equal(c, np.concatenate([(a @ b)[:, :192], c[:, 192:]], axis=1))
    assert (c[:, 192:] == 7).all()


@pytest.mark.parametrize("n", [64, 1000, 2500])
def test_other_forms(n: int, level: str) -> None:
    a, b, bias, c = numbers(2, 50), numbers(50, n), numbers(n), np.zeros((2, n), np.float32)
    pto.jit(level=level)(fused.function)[-(-n // 64)](a, b, bias, c, 64, 16)
    np.testing.assert_array_equal(c, np.maximum((a @ b + bias) * 2, bias))
    a, b, c = numbers(5, 50), numbers(5, 50, n), np.zeros((5, n), np.float32)
    pto.jit(level=level)(batched.function)[1, -(-n // 64), 5](a, b, c, 64, 16)
    np.testing.assert_array_equal(c, np.einsum("hk,hkn->hn", a, b))


FORMS = [(numbered, False), (spread, False), (largest, False), (fused, True)]


@pytest.mark.parametrize(("kernel", "merged"), FORMS)
def test_programs_that_differ_stay_alone(kernel: Any, merged: bool, level: str) -> None:
    arrays = {"a": numbers(2, 50), "b": numbers(50, 256), "bias": numbers(256), "c": np.zeros((2, 256), np.float32)}
    if not merged:
        del arrays["bias"]
    assert (programs(kernel, **arrays, BN=64, BK=16) > 1) == merged
    found, expected = arrays["c"].copy(), arrays["c"].copy()
    pto.jit(level=level)(kernel.function)[4](**arrays | {"c": found}, BN=64, BK=16)
    pto.interpret(kernel)[4](**arrays | {"c": expected}, BN=64, BK=16)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("rows", "columns"), [(1, 4096), (2, 1024), (16, 1024)])
def test_columns_of_merged_programs(rows: int, columns: int) -> None:
    """One row has longer stretches of B."""
    arrays = {"a": numbers(rows, 50), "b": numbers(50, 256), "c": np.zeros((rows, 256), np.float32)}
    launch = Launch(product, (1, 4), {**arrays, "BM": rows, "BN": 64, "BK": 16}, {})
    merged, _ = coarsen_programs(optimized(launch), fixed_target())
    assert merged.programs.factor == columns // 64


def test_programs_behind_others_in_the_grid_have_two_functions() -> None:
    """One for a grid of one row, whose programs are merged; one for more rows, which share panels."""
    a, b, c = numbers(16, 50), numbers(50, 256), np.zeros((16, 256), np.float32)
    launch = Launch(product, (1, 4), {"a": a, "b": b, "c": c, "BM": 4, "BN": 64, "BK": 16}, {})
    merged, apart = coarsen_programs(optimized(launch), fixed_target())
    assert (merged.programs, apart.programs) == (ProgramMap(1, 16), ProgramMap(has_coarsened_version=True))
    found = lowered(launch, fixed_target())
    assert found.locality == Locality("row", 16)
    assert found.text.count("define internal void @stream_") == 1
    verify(merged, TABLE)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("grid", [(1, 5), (3, 5), (5, 1), (1, 1), (1, 33)])
def test_both_functions_run_the_same_kernel(grid: tuple[int, int], threads: int, level: str) -> None:
    kernel = pto.jit(level=level, num_threads=threads)(product.function)
    for rows in (1, 4, 7, 16):
        m, n = grid[0] * rows - (rows > 4), grid[1] * 32 - 5
        a, b, c = numbers(m, 70), numbers(70, n), np.zeros((m, n), np.float32)
        kernel[grid](a, b, c, rows, 32, 32)
        np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("grid", [(3, 5), (1, 5)])
def test_profiled_programs_are_not_merged_where_others_lie_between(grid: tuple[int, int]) -> None:
    a, b, c = numbers(grid[0] * 4, 70), numbers(70, 160), np.zeros((grid[0] * 4, 160), np.float32)
    with pto.profile():
        pto.jit(product.function)[grid](a, b, c, 4, 32, 32)
    np.testing.assert_array_equal(c, a @ b)
