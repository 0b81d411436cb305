"""Loops that move pointers along K: counted along K where that is all they do, and right either way."""

# ruff: noqa: PLR0913, PLR0917

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.loopir.ir import walk
from pypto.backends.cpu.pipeline import before_coarsening
from pypto.ir.core import Op
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.passes.normalize_loops import normalize_pointer_loops
from pypto.passes.pattern import constant_of
from tests.backends_cpu.lowering import fixed_target, lowered, optimized
from tests.conformance.cases import Launch
from tests.conformance.fences import Fences

Array = np.ndarray[Any, Any]


@pto.jit
def moved_pointers(a, b, c, M, N, K, pitch_a, pitch_b, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    rows, columns = pto.program_id(0) * BM + pto.arange(0, BM), pto.program_id(1) * BN + pto.arange(0, BN)
    inner = pto.arange(0, BK)
    left = a + rows[:, None] * pitch_a + inner[None, :]
    right = b + inner[:, None] * pitch_b + columns[None, :]
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, pto.cdiv(K, BK)):
        x = pto.load(left, (rows[:, None] < M) & (inner[None, :] < K - k * BK), 0.0)
        y = pto.load(right, (inner[:, None] < K - k * BK) & (columns[None, :] < N), 0.0)
        acc = pto.dot(x, y, acc)
        left += BK
        right += BK * pitch_b
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    pto.store(c + rows[:, None] * pitch_b + columns[None, :], acc, mask)


@pto.jit
def computed_pointers(a, b, c, M, N, K, pitch_a, pitch_b, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    rows, columns = pto.program_id(0) * BM + pto.arange(0, BM), pto.program_id(1) * BN + pto.arange(0, BN)
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, K, BK):
        inner = k + pto.arange(0, BK)
        x = pto.load(a + rows[:, None] * pitch_a + inner[None, :], (rows[:, None] < M) & (inner[None, :] < K), 0.0)
        mask = (inner[:, None] < K) & (columns[None, :] < N)
        y = pto.load(b + inner[:, None] * pitch_b + columns[None, :], mask, 0.0)
        acc += pto.dot(x, y)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    pto.store(c + rows[:, None] * pitch_b + columns[None, :], acc, mask)


@pto.jit
def block_pointers(a, b, c, M, N, K, pitch_a, pitch_b, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    left = pto.make_block_ptr(a, (M, K), (pitch_a, 1), (i, 0), (BM, BK), (1, 0))
    right = pto.make_block_ptr(b, (K, N), (pitch_b, 1), (0, j), (BK, BN), (1, 0))
    acc = pto.zeros((BM, BN), pto.float32)
    for _ in range(0, K, BK):
        acc = pto.dot(pto.load(left, boundary_check=(0, 1)), pto.load(right, boundary_check=(0, 1)), acc)
        left, right = pto.advance(left, (0, BK)), pto.advance(right, (BK, 0))
    out = pto.make_block_ptr(c, (M, N), (pitch_b, 1), (i, j), (BM, BN), (1, 0))
    pto.store(out, acc, boundary_check=(0, 1))


@pto.jit
def by_index(a, b, c, M, N, K, pitch_a, pitch_b, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """Arrays, but steps that are counted."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(pto.cdiv(K, BK)):
        acc = pto.dot(a[i : i + BM, k * BK : k * BK + BK], b[k * BK : k * BK + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


WALKS = [moved_pointers, computed_pointers, block_pointers, by_index]


def numbers(*shape: int) -> Array:
    """Whole numbers, so that every sum of their products is exact."""
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(np.float32)


def arguments(m: int, n: int, k: int, blocks: tuple[int, int, int]) -> dict[str, Any]:
    sizes = {"M": m, "N": n, "K": k, "pitch_a": k, "pitch_b": n}
    arrays = {"a": numbers(m, k), "b": numbers(k, n), "c": np.full((m, n), np.nan, np.float32)}
    return arrays | sizes | dict(zip(("BM", "BN", "BK"), blocks, strict=True))


def loops(function: Any) -> Iterator[Op]:
    return (op for op in function.walk() if op.name == "for")


@pytest.mark.parametrize("kernel", WALKS)
def test_walks_become_slices_that_move(kernel: Any) -> None:
    function = normalize_pointer_loops(
        optimized(Launch(pto.jit(kernel.function), (3, 4), arguments(90, 110, 70, (32, 32, 16)), {}))
    )
    verify(function, TABLE)
    (loop,) = loops(function)
    assert constant_of(loop.operands[2]) == 16
    index, *rest = loop.regions[0].args
    assert len(rest) == 1  # the sum
    for load in (op for op in loop.regions[0].ops if op.name == "tile_load"):
        access = Access.of(load)
        assert access.base.op not in loop.regions[0].ops
        assert index in access.offsets


@pytest.mark.parametrize("kernel", WALKS)
def test_their_panels_stay_and_their_steps_are_the_machine_s(kernel: Any) -> None:
    launch = Launch(pto.jit(kernel.function), (3, 4), arguments(90, 110, 70, (32, 32, 16)), {})
    (item,) = [x for x in walk(lowered(launch).schedule.items) if isinstance(x, Gemm)]
    assert item.panel_cache is not None
    assert item.op.operands[0].shape[-1] > 16


@pytest.mark.parametrize("kernel", WALKS)
@pytest.mark.parametrize(("m", "n", "k"), [(90, 110, 70), (32, 64, 128), (33, 1, 1), (1, 40, 600), (64, 64, 0)])
def test_walks_give_the_same_sums(kernel: Any, m: int, n: int, k: int, level: str) -> None:
    given = arguments(m, n, k, (32, 32, 16))
    with Fences() as fences:
        given["c"] = fences.around(given["c"])
        pto.jit(level=level)(kernel.function)[pto.cdiv(m, 32), pto.cdiv(n, 32)](**given)
    np.testing.assert_array_equal(given["c"], given["a"] @ given["b"])


@pto.jit
def other_steps(a, b, c, n, ahead, BK: pto.constexpr):
    """What is read next is not what comes next."""
    rows, inner = pto.arange(0, 16), pto.arange(0, BK)
    left = a + rows[:, None] * 128 + inner[None, :]
    acc = pto.zeros((16, 16), pto.float32)
    for k in range(0, n):
        acc = pto.dot(pto.load(left), b[k * BK : k * BK + BK, 0:16], acc)
        left += ahead
    c[:, :] = acc


@pto.jit
def counts_too(a, b, c, n, ahead, BK: pto.constexpr):
    """The index is a number, too."""
    acc = pto.zeros((16, 16), pto.float32)
    for k in range(0, n):
        acc = pto.dot(a[0:16, k * BK : k * BK + BK], b[k * BK : k * BK + BK, 0:16], acc) + pto.cast(k, pto.float32)
    c[:, :] = acc


@pto.jit
def used_after(a, b, c, n, ahead, BK: pto.constexpr):
    """Where the loop ended is where the next one begins."""
    rows, inner = pto.arange(0, 16), pto.arange(0, BK)
    left = a + rows[:, None] * 128 + inner[None, :]
    acc = pto.zeros((16, 16), pto.float32)
    for k in range(0, n):
        acc = pto.dot(pto.load(left), b[k * BK : k * BK + BK, 0:16], acc)
        left += BK
    c[:, :] = acc + pto.load(left - BK)


@pto.jit
def ends_short(a, b, c, n, ahead, BK: pto.constexpr):
    """Its ends do not come nearer."""
    rows, inner = pto.arange(0, 16), pto.arange(0, BK)
    left = a + rows[:, None] * 128 + inner[None, :]
    acc = pto.zeros((16, 16), pto.float32)
    for k in range(0, n):
        acc = pto.dot(pto.load(left, inner[None, :] < ahead, 0.0), b[k * BK : k * BK + BK, 0:16], acc)
        left += BK
    c[:, :] = acc


@pytest.mark.parametrize("ahead", [0, 5, 16])
@pytest.mark.parametrize("kernel", [other_steps, counts_too, used_after, ends_short])
def test_other_loops_stay_as_they_are(kernel: Any, ahead: int, level: str) -> None:
    given = {"a": numbers(16, 128), "b": numbers(128, 16), "n": 5, "ahead": ahead, "BK": 16}
    launch = Launch(pto.jit(kernel.function), 1, given | {"c": np.zeros((16, 16), np.float32)}, {})
    function = normalize_pointer_loops(optimized(launch))
    verify(function, TABLE)
    (loop,) = loops(function)
    assert constant_of(loop.operands[2]) == 1
    c, expected = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    pto.jit(level=level)(kernel.function)[1](c=c, **given)
    pto.interpret(kernel)[1](c=expected, **given)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize(("mode", "changes"), [("checked", False), ("profile", True)])
def test_checks_name_loops_as_they_were_written(mode: str, changes: bool) -> None:
    """A check names the loop of the source, so the pass does not run in checked mode; a timed loop may be counted."""
    function = optimized(Launch(moved_pointers, (3, 4), arguments(90, 110, 70, (32, 32, 16)), {}))
    instrumented = replace(function, attrs={**function.attrs, mode: True})
    assert (before_coarsening(instrumented, fixed_target()) is not instrumented) == changes
