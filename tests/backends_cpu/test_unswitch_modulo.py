"""Products of blocks whose index wraps around: without gathers where nothing of those is stored, right where it is."""

# ruff: noqa: PLR0913, PLR0917

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.loopir.ir import walk
from pypto.ir.core import Op, Region
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.passes.analysis.dot_facts import InPlaceOperand
from pypto.passes.unswitch_modulo import unswitch_modulo
from tests.backends_cpu.lowering import lowered, optimized
from tests.conformance.cases import Launch
from tests.conformance.fences import Fences

Array = np.ndarray[Any, Any]


@pto.jit
def remainders(a, b, c, M, N, K, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr, GROUP: pto.constexpr):
    """Triton's matrix product, as its tutorial has it."""
    down, right = pto.cdiv(M, BM), pto.cdiv(N, BN)
    group, rest = pto.program_id(0) // (GROUP * right), pto.program_id(0) % (GROUP * right)
    high = min(down - group * GROUP, GROUP)
    rows = (group * GROUP + rest % high) * BM + pto.arange(0, BM)
    columns = rest // high * BN + pto.arange(0, BN)
    inner = pto.arange(0, BK)
    left = a + (rows % M)[:, None] * K + inner[None, :]
    right_side = b + inner[:, None] * N + (columns % N)[None, :]
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, pto.cdiv(K, BK)):
        x = pto.load(left, inner[None, :] < K - k * BK, 0.0)
        y = pto.load(right_side, inner[:, None] < K - k * BK, 0.0)
        acc = pto.dot(x, y, acc)
        left += BK
        right_side += BK * N
    pto.store(c + rows[:, None] * N + columns[None, :], acc, (rows[:, None] < M) & (columns[None, :] < N))


@pto.jit
def clamped(a, b, c, M, N, K, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr, GROUP: pto.constexpr):
    """The last row and the first column stand for those beyond; something is done with the sums, too."""
    rows = pto.program_id(0) // pto.cdiv(N, BN) * BM + pto.arange(0, BM)
    columns = pto.program_id(0) % pto.cdiv(N, BN) * BN + pto.arange(0, BN)
    near, wide = pto.minimum(rows, M - 1), pto.where(columns < N, columns, 0)
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, K, BK):
        inner = k + pto.arange(0, BK)
        x = pto.load(a + near[:, None] * K + inner[None, :], inner[None, :] < K, 0.0)
        y = pto.load(b + inner[:, None] * N + wide[None, :], inner[:, None] < K, 0.0)
        acc += pto.dot(x, y)
    acc = pto.maximum(acc * 2.0, 1.0)
    pto.store(c + rows[:, None] * N + columns[None, :], acc, (rows[:, None] < M) & (columns[None, :] < N))


@pto.jit
def all_stored(a, b, c, M, N, K, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr, GROUP: pto.constexpr):
    """What has wrapped around is stored: the result has whole blocks."""
    rows = pto.program_id(0) // pto.cdiv(N, BN) * BM + pto.arange(0, BM)
    columns = pto.program_id(0) % pto.cdiv(N, BN) * BN + pto.arange(0, BN)
    wide = pto.cdiv(N, BN) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, K, BK):
        inner = k + pto.arange(0, BK)
        x = pto.load(a + (rows % M)[:, None] * K + inner[None, :], inner[None, :] < K, 0.0)
        y = pto.load(b + inner[:, None] * N + (columns % N)[None, :], inner[:, None] < K, 0.0)
        acc = pto.dot(x, y, acc)
    pto.store(c + rows[:, None] * wide + columns[None, :], acc)


@pto.jit
def summed(a, b, c, M, N, K, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr, GROUP: pto.constexpr):
    """Rows are added up, those that have wrapped around with them."""
    rows = pto.program_id(0) // pto.cdiv(N, BN) * BM + pto.arange(0, BM)
    columns = pto.program_id(0) % pto.cdiv(N, BN) * BN + pto.arange(0, BN)
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, K, BK):
        inner = k + pto.arange(0, BK)
        x = pto.load(a + (rows % M)[:, None] * K + inner[None, :], inner[None, :] < K, 0.0)
        y = pto.load(b + inner[:, None] * N + (columns % N)[None, :], inner[:, None] < K, 0.0)
        acc = pto.dot(x, y, acc)
    acc += pto.sum(acc, 0)[None, :]
    pto.store(c + rows[:, None] * N + columns[None, :], acc, (rows[:, None] < M) & (columns[None, :] < N))


BLOCKS = {"BM": 16, "BN": 32, "BK": 16, "GROUP": 3}
SIZES = [(64, 64, 64), (70, 90, 33), (5, 7, 9), (33, 31, 1), (100, 40, 300)]


def numbers(*shape: int) -> Array:
    """Whole numbers, so that every sum of their products is exact."""
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(np.float32)


def launch(kernel: Any, m: int, n: int, k: int) -> Launch:
    shape = (-(-m // 16) * 16, -(-n // 32) * 32) if kernel is all_stored else (m, n)
    arrays = {"a": numbers(m, k), "b": numbers(k, n), "c": np.full(shape, np.nan, np.float32)}
    return Launch(pto.jit(kernel.function), -(-m // 16) * -(-n // 32), arrays | {"M": m, "N": n, "K": k} | BLOCKS, {})


def expected(kernel: Any, a: Array, b: Array) -> Array:
    if kernel is clamped:
        return np.maximum(a @ b * 2, 1)
    if kernel is remainders:
        return a @ b
    rows, columns = (np.arange(-(-n // size) * size) % n for n, size in ((len(a), 16), (b.shape[1], 32)))
    every = a[rows] @ b[:, columns]
    if kernel is all_stored:
        return every
    every = every.reshape(-1, 16, every.shape[1]) + every.reshape(-1, 16, every.shape[1]).sum(1, keepdims=True)
    return every.reshape(len(rows), -1)[: len(a), : b.shape[1]]


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("kernel", [remainders, clamped, all_stored, summed])
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
@pytest.mark.parametrize("threads", [1, 2])
def test_they_give_the_same_numbers(kernel: Any, m: int, n: int, k: int, threads: int, level: str) -> None:
    made = launch(kernel, m, n, k)
    with Fences() as fences:
        given = dict(made.arguments, c=fences.around(made.arguments["c"]))
        pto.jit(level=level, num_threads=threads)(kernel.function)[made.grid](**given)
    np.testing.assert_array_equal(given["c"], expected(kernel, given["a"], given["b"]))


def gathers(region: Region) -> list[Op]:
    found = [op for op in region.ops if op.name == "tile_load" and Access.of(op).base.shape]
    return found + [op for outer in region.ops for inner in outer.regions for op in gathers(inner)]


@pytest.mark.parametrize("kernel", [remainders, clamped, all_stored, summed])
def test_the_body_is_there_with_gathers_and_without(kernel: Any) -> None:
    function = unswitch_modulo(optimized(launch(kernel, 70, 90, 33)))
    verify(function, TABLE)
    (choice,) = [op for op in function.body.ops if op.name == "if"]
    without, with_them = choice.regions
    assert not gathers(without)
    assert len(gathers(with_them)) == 2


@pytest.mark.parametrize("kernel", [remainders, clamped])
def test_products_read_their_sides_themselves(kernel: Any) -> None:
    items = walk(lowered(launch(kernel, 70, 90, 33)).schedule.items)
    first, second = (x for x in items if isinstance(x, Gemm))
    assert isinstance(first.a, InPlaceOperand)
    assert isinstance(first.b_source, InPlaceOperand)
    assert not isinstance(second.a, InPlaceOperand)
    assert first.op.operands[0].shape[-1] > second.op.operands[0].shape[-1] == 16
