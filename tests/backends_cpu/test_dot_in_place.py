"""Dots that read rows of A where they lie, and store C themselves: the same numbers at every edge, never too soon."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.loopir.ir import Nest, walk
from pypto.compile import Session
from tests.backends_cpu.lowering import fixed_target, lowered
from tests.conformance.cases import Launch
from tests.conformance.fences import Fences

Array = np.ndarray[Any, Any]
WIDE = replace(fixed_target(), vector_bytes=64, registers=32)


@pto.jit
def product(a, b, c, ACC: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), ACC)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = pto.cast(acc, c.dtype)


@pto.jit
def single(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """All of K at once: the result can go straight to memory."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    c[i : i + BM, j : j + BN] = pto.dot(a[i : i + BM, 0:BK], b[0:BK, j : j + BN])


@pto.jit
def twice(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """The result is read once more."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.dot(a[i : i + BM, 0:BK], b[0:BK, j : j + BN])
    c[i : i + BM, j : j + BN] = acc
    c[i : i + BM, j : j + BN] = acc + 1


@pto.jit
def biased(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    c[i : i + BM, j : j + BN] = pto.dot(a[i : i + BM, 0:BK], b[0:BK, j : j + BN]) + 1


@pto.jit
def turned(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    c[j : j + BN, i : i + BM] = pto.trans(pto.dot(a[i : i + BM, 0:BK], b[0:BK, j : j + BN]))


@pto.jit
def scaled(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """Rows of the left side are made, and lie side by side in scratch."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    c[i : i + BM, j : j + BN] = pto.dot(a[i : i + BM, 0:BK] * 2, b[0:BK, j : j + BN])


@pto.jit
def over_itself(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """The whole of A is multiplied before any of it is overwritten."""
    a[0:BM, 0:BN] = pto.dot(a[0:BM, 0:BK], b[0:BK, 0:BN])


@pto.jit
def part_of_k(a, b, c, first, last, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """The last step of the loop stores the sum, if there is one."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(first, last, BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def moved(a, b, c, first, last, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """The loop counts how far to the right the sum goes, from where its last step is done."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc, right = pto.zeros((BM, BN), pto.float32), pto.int64(0)
    for k in range(first, last, BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
        right += 1
    c[i : i + BM, right : right + BN] = acc


@pto.jit
def from_ones(a, b, c, first, last, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """One sum follows another, and both are stored."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.full((BM, BN), 1, pto.float32)
    for k in range(first, last, BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc
    for k in range(first, last, BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, BN + j : j + 2 * BN] = acc


def numbers(dtype: Any, *shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(dtype)


def by_itself(kernel: Any, **arguments: Any) -> bool:
    """Whether a dot may store what it has made."""
    items = walk(lowered(Launch(kernel, (2, 2), arguments, {})).schedule.items)
    return any(
        isinstance(x, Nest) and isinstance(x.fallback_of, Gemm) and x.fallback_of.epilogue is None for x in items
    )


KERNELS = [(single, True), (twice, False), (biased, False), (turned, False)]
SHAPES = [(64, 64, 48), (70, 90, 48), (32, 33, 48), (20, 20, 41), (1, 64, 48)]


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize(("kernel", "direct"), KERNELS)
@pytest.mark.parametrize("shape", SHAPES)
def test_stores(shape: tuple[int, int, int], kernel: Any, direct: bool, level: str) -> None:
    m, n, k = shape
    blocks = {"BM": 32, "BN": 32, "BK": 48}
    wanted = numbers(np.float32, m, k) @ numbers(np.float32, k, n) + (kernel in (twice, biased))
    with Fences() as fences:
        a, b = fences.around(numbers(np.float32, m, k)), fences.around(numbers(np.float32, k, n))
        c = fences.around(np.zeros((n, m) if kernel is turned else (m, n), np.float32))
        pto.jit(level=level)(kernel.function)[-(-m // 32), -(-n // 32)](a, b, c, **blocks)
        np.testing.assert_array_equal(c, wanted.T if kernel is turned else wanted)
    direct |= kernel is turned and m == 1  # C has one column: they are rows, too
    assert by_itself(kernel, a=a, b=b, c=c, **blocks) == direct


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize(("first", "last"), [(0, 96), (0, 40), (16, 80), (0, 0), (48, 32)])
@pytest.mark.parametrize(("m", "n"), [(64, 64), (40, 70), (5, 32)])
def test_loops_store(m: int, n: int, first: int, last: int, level: str) -> None:
    blocks = {"BM": 32, "BN": 32, "BK": 16}
    with Fences() as fences:
        a, b = fences.around(numbers(np.float32, m, 96)), fences.around(numbers(np.float32, 96, n))
        c = fences.around(np.full((m, n), 7, np.float32))
        pto.jit(level=level)(part_of_k.function)[-(-m // 32), -(-n // 32)](a, b, c, first, last, **blocks)
        end = max(first, -(-(last - first) // 16) * 16 + first)
        np.testing.assert_array_equal(c, a[:, first:end] @ b[first:end])
    assert by_itself(part_of_k, a=a, b=b, c=c, first=first, last=last, **blocks)


def test_scalars_of_a_loop_come_before_the_store(level: str) -> None:
    a, b, c = numbers(np.float32, 32, 64), numbers(np.float32, 64, 32), np.zeros((32, 40), np.float32)
    arguments = {"a": a, "b": b, "c": c, "first": 0, "last": 64, "BM": 32, "BN": 32, "BK": 32}
    assert not by_itself(moved, **arguments)
    interpreted = np.zeros_like(c)
    pto.interpret(moved)[1](**arguments | {"c": interpreted})
    pto.jit(level=level)(moved.function)[1](**arguments)
    np.testing.assert_array_equal(c, interpreted)


def test_sums_that_go_on(level: str) -> None:
    a, b, c = numbers(np.float32, 32, 64), numbers(np.float32, 64, 32), np.zeros((32, 64), np.float32)
    pto.jit(level=level)(from_ones.function)[1, 1](a, b, c, 0, 64, BM=32, BN=32, BK=16)
    np.testing.assert_array_equal(c, np.concatenate((a @ b + 1, a @ b * 2 + 1), axis=1))


def test_what_is_still_multiplied_is_not_overwritten(level: str) -> None:
    a, b = numbers(np.float32, 32, 32), numbers(np.float32, 32, 32)
    blocks, wanted = {"BM": 32, "BN": 32, "BK": 32}, a @ b
    assert not by_itself(over_itself, a=a, b=b, c=b, **blocks)
    pto.jit(level=level)(over_itself.function)[1](a, b, b, **blocks)
    np.testing.assert_array_equal(a, wanted)


def test_one_array_under_two_names(level: str) -> None:
    a, b = numbers(np.float32, 32, 32), numbers(np.float32, 32, 32)
    blocks, wanted = {"BM": 32, "BN": 32, "BK": 32}, a @ b
    pto.jit(level=level)(single.function)[1, 1](a, b, a, **blocks)
    np.testing.assert_array_equal(a, wanted)


def test_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dot and the nest in its place may be in different functions."""
    a, b, c = numbers(np.float32, 64, 48), numbers(np.float32, 48, 64), np.zeros((64, 64), np.float32)
    for where, size in (
        ("codegen.function.OUTLINE_ABOVE", -1),
        ("codegen.function.PART_SIZE", 0),
        ("codegen.outlining.PART_SIZE", 1),
    ):
        monkeypatch.setattr(f"pypto.backends.cpu.{where}", size)
    monkeypatch.setattr(Session, "through_cache", lambda self, backend, parts, make: make())
    pto.jit(single.function)[2, 2](a, b, c, BM=32, BN=32, BK=48)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int8, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("m", "k", "apart"), [(40, 96, 96), (37, 95, 100), (33, 1024, 1024), (48, 70, 1024)])
def test_rows_of_a(m: int, k: int, apart: int, dtype: Any, level: str) -> None:
    """Rows at all distances, such among them as push one another out of the cache, and at odd addresses."""
    acc, out = (pto.int32, np.int32) if np.dtype(dtype).kind == "i" else (pto.float32, np.float32)
    acc, out = (pto.float64, np.float64) if dtype == np.float64 else (acc, out)
    b = numbers(dtype, k, 64)
    with Fences() as fences:
        a = fences.around(numbers(dtype, m, apart))[:, apart - k :]
        c = fences.around(np.zeros((m, 64), out))
        pto.jit(level=level)(product.function)[-(-m // 32), 2](a, b, c, acc, 32, 32, 64)
        np.testing.assert_array_equal(c, (a.astype(float) @ b.astype(float)).astype(out))


@pytest.mark.parametrize(
    ("kernel", "depth", "columns", "most"),
    [(single, 128, 128, (6, 64)), (single, 128, 96, (8, 32)), (single, 64, 32, (8, 32)), (single, 64, 16, (16, 16)),
     (scaled, 64, 128, (13, 32)), (single, 64, 128, (4, 64))],
)  # fmt: skip
def test_few_rows_where_they_may_push_one_another_out(
    kernel: Any, depth: int, columns: int, most: tuple[int, int]
) -> None:
    """Six by four registers where rows of A stay in place, which loads the least for what it multiplies.

    Four by four where that fills all blocks, along so few numbers that no more is gained: one kernel and not two.
    """
    n = 2 * columns
    a, b, c = numbers(np.float32, 256, 1024), numbers(np.float32, 1024, n), np.zeros((256, n), np.float32)
    launch = Launch(kernel, (2, 2), {"a": a, "b": b, "c": c, "BM": 128, "BN": columns, "BK": depth}, {})
    blocks = re.findall(r"define internal void @dot_f32_(\d+)_(\d+)_", lowered(launch, WIDE).text)
    assert max((int(rows), int(columns)) for rows, columns in blocks) == most


@pytest.mark.parametrize("n", [1, 31, 32, 33, 64, 65, 96, 97, 160, 200])
def test_of_a_wide_panel_only_the_half_that_exists_is_multiplied(n: int, level: str) -> None:
    a, b = numbers(np.float32, 70, 100), numbers(np.float32, 100, n)
    with Fences() as fences:
        c = fences.around(np.zeros((70, n), np.float32))
        pto.jit(level=level)(single.function)[2, -(-n // 128)](fences.around(a), fences.around(b), c, 64, 128, 128)
        np.testing.assert_array_equal(c, a @ b)
    launch = Launch(single, (2, 2), {"a": a, "b": b, "c": c, "BM": 64, "BN": 128, "BK": 128}, {})
    assert re.search(r"call void @dot_f32_6_32_64_", lowered(launch, WIDE).text)


@pytest.mark.parametrize(("depth", "far"), [(64, False), (512, True)])
def test_large_panels_are_asked_for_row_by_row(depth: int, far: bool) -> None:
    a, b, c = numbers(np.float32, 128, depth), numbers(np.float32, depth, 128), np.zeros((128, 128), np.float32)
    launch = Launch(scaled, (2, 2), {"a": a, "b": b, "c": c, "BM": 64, "BN": 64, "BK": depth}, {})
    kernel = re.search(r"define internal void @dot_.*?\n}", lowered(launch, WIDE).text, re.DOTALL)
    assert kernel is not None
    assert ("i32 0, i32 3, i32 1)" in kernel.group()) == far


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("more", [(0, 0), (9, 0), (0, 40), (70, 70)])
@pytest.mark.parametrize("shape", [(64, 64, 32), (65, 33, 20), (7, 129, 40), (130, 1, 3)])
def test_what_is_stored_is_multiplied(shape: tuple[int, int, int], more: tuple[int, int], level: str) -> None:
    """Blocks that lie beyond the result are left out; where the result goes beyond both sides, it has their zeros."""
    m, n, k = shape
    a, b = numbers(np.float32, m, k), numbers(np.float32, k, n)
    b[0, 0], a[0, 0] = np.inf, -2.0
    found, expected = (np.full((m + more[0], n + more[1]), 7, np.float32) for _ in range(2))
    grid = -(-found.shape[0] // 64), -(-found.shape[1] // 64)
    pto.jit(level=level)(product.function)[grid](a, b, found, pto.float32, 64, 64, 32)
    pto.interpret(product)[grid](a, b, expected, pto.float32, 64, 64, 32)
    np.testing.assert_array_equal(found, expected)
