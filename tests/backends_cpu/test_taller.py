"""Merged programs of products whose sum is deep: the same numbers whatever the grid, and only where rows differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.ir.core import Function
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.passes.coarsening import coarsen_programs
from tests.backends_cpu.lowering import fixed_target, optimized
from tests.backends_cpu.test_coarsening import numbers, product
from tests.conformance.cases import Launch
from tests.conformance.fences import Fences

Array = np.ndarray[Any, Any]
DEEP = 4200  # panels of 128 columns are more than 2 MB


@pto.jit
def other_axis(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """Neighbours differ in their columns."""
    i, j = pto.program_id(1) * BM, pto.program_id(0) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc += pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN])
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def linear(a, b, c, bias, rest, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """With what comes after it, and a right side that is turned."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], pto.trans(b[j : j + BN, k : k + BK]), acc)
    acc = pto.maximum(acc + bias[None, j : j + BN], 0) + rest[i : i + BM, j : j + BN]
    c[i : i + BM, j : j + BN] = acc / (1 + pto.abs(pto.max(acc, axis=1)[:, None]))


@pto.jit
def pointers(a, b, c, m, n, k, BM: pto.constexpr, BN: pto.constexpr):
    rows, columns = pto.program_id(0) * BM + pto.arange(0, BM), pto.program_id(1) * BN + pto.arange(0, BN)
    acc = pto.zeros((BM, BN), pto.float32)
    for start in range(0, k, 64):
        along = start + pto.arange(0, 64)
        left = pto.load(a + rows[:, None] * k + along[None, :], (rows[:, None] < m) & (along[None, :] < k), 0.0)
        right = pto.load(b + along[:, None] * n + columns[None, :], (along[:, None] < k) & (columns[None, :] < n), 0.0)
        acc += pto.dot(left, right)
    pto.store(c + rows[:, None] * n + columns[None, :], acc, (rows[:, None] < m) & (columns[None, :] < n))


def made(kernel: Any, m: int, n: int, k: int, rows: int, second: int = 1 << 20) -> list[Function]:
    target = replace(fixed_target(), caches=(32 << 10, second, 32 << 20))
    arrays = {"a": numbers(m, k), "b": numbers(k, n), "c": np.zeros((m, n), np.float32)}
    launch = Launch(kernel, (1, 1), {**arrays, "BM": rows, "BN": 128, "BK": 64}, {})
    return coarsen_programs(optimized(launch), target)


@pytest.mark.parametrize(("m", "n", "rows"), [(300, 200, 32), (1100, 140, 128), (17, 130, 100), (2049, 30, 512)])
@pytest.mark.parametrize("threads", [1, 2])
def test_products(m: int, n: int, rows: int, threads: int, level: str) -> None:
    a, b = numbers(m, DEEP), numbers(DEEP, n)
    with Fences() as fences:
        c = fences.around(np.zeros((m, n), np.float32))
        kernel = pto.jit(level=level, num_threads=threads)(product.function)
        kernel[-(-m // rows), -(-n // 128)](fences.around(a), fences.around(b), c, rows, 128, 64)
        np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("kernel", [product, other_axis])
def test_only_the_grid_counts(kernel: Any, level: str) -> None:
    """Rows for which no program runs stay as they are."""
    a, b, c = numbers(500, DEEP), numbers(DEEP, 256), np.full((500, 256), 7, np.float32)
    grid = (3, 1) if kernel is product else (1, 3)
    pto.jit(level=level)(kernel.function)[grid](a, b, c, 64, 128, 64)
    np.testing.assert_array_equal(c[:192, :128], (a @ b)[:192, :128])
    assert (c[192:] == 7).all()
    assert (c[:, 128:] == 7).all()


@pytest.mark.parametrize("m", [40, 300])
def test_what_comes_after_the_product(m: int, level: str) -> None:
    n = 150
    a, b, bias, rest = numbers(m, DEEP), numbers(n, DEEP), numbers(n), numbers(m, n)
    c, expected = np.zeros((m, n), np.float32), np.maximum(a @ b.T + bias, 0) + rest
    pto.jit(level=level)(linear.function)[-(-m // 32), 2](a, b, c, bias, rest, 32, 128, 64)
    whole = np.zeros((m, 256), np.float32)
    whole[:, :n] = expected
    largest = np.concatenate([np.tile(part.max(axis=1)[:, None], 128) for part in (whole[:, :128], whole[:, 128:])], 1)
    np.testing.assert_allclose(c, expected / (1 + np.abs(largest[:, :n])), rtol=1e-6)


def test_pointers_and_masks(level: str) -> None:
    m, n = 333, 140
    a, b, c = numbers(m, DEEP), numbers(DEEP, n), np.zeros((m, n), np.float32)
    pto.jit(level=level)(pointers.function)[-(-m // 64), 2](a, b, c, m, n, DEEP, 64, 128)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize(
    ("kernel", "k", "rows", "most"),
    [
        (product, 2048, 128, 8),
        (product, 2048, 500, 2),
        (product, 2048, 768, 1),
        (product, 512, 128, 1),
        (other_axis, 2048, 128, 1),
    ],
)
def test_which_programs_become_one(kernel: Any, k: int, rows: int, most: int) -> None:
    """Those of sums whose panels are more than half of a second-level cache, if their tiles are not tall already."""
    (found,) = made(kernel, 4096, 256, k, rows)
    assert (found.programs.axis, found.programs.factor) == (0, most)
    verify(found, TABLE)
    (dot,) = (op for op in found.walk() if op.name == "dot")
    assert dot.results[0].shape == (most * rows, 128)


@pytest.mark.parametrize(("second", "most"), [(256 << 10, 2), (512 << 10, 4), (128 << 10, 1)])
def test_the_result_stays_in_a_small_cache(second: int, most: int) -> None:
    (found,) = made(product, 4096, 256, 2048, 128, second)
    assert found.programs.factor == most
