"""Panels that stay for the programs that follow: right in every order of programs, and only where they are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.base import Locality
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.loopir.ir import walk
from tests.backends_cpu.lowering import lowered
from tests.conformance.cases import Launch

Array = np.ndarray[Any, Any]


@pto.jit
def product(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def lower_triangle(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """The last programs need more steps than the first."""
    i, j = (pto.num_programs(0) - 1 - pto.program_id(0)) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, min(i + BM, a.shape[1]), BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def ever_deeper(a, b, c, first, more, K, BK: pto.constexpr):
    """Later programs' left sides reach further along K than the first's, and than the right side."""
    rows, inner = pto.program_id(0) * 8 + pto.arange(0, 8), pto.arange(0, BK)
    wide, end, acc = pto.arange(0, 32), first + more * pto.program_id(0), pto.zeros((8, 32), pto.float32)
    for k in range(0, 2 * K, BK):
        left = pto.load(a + rows[:, None] * (2 * K) + (k + inner)[None, :], (k + inner)[None, :] < end, 0.0)
        right = pto.load(b + (k + inner)[:, None] * 32 + wide[None, :], (k + inner)[:, None] < K, 0.0)
        acc = pto.dot(left, right, acc)
    pto.store(c + rows[:, None] * 32 + wide[None, :], acc)


@pto.jit
def in_groups(a, b, c, GROUP: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """A grid of one axis: programs go down a group of rows, and then to the next column."""
    down, right = pto.cdiv(c.shape[0], BM), pto.cdiv(c.shape[1], BN)
    group, rest = pto.program_id(0) // (GROUP * right), pto.program_id(0) % (GROUP * right)
    high = min(down - group * GROUP, GROUP)
    i, j = (group * GROUP + rest % high) * BM, rest // high * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def row_by_row(a, b, c, GROUP: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """Every program has columns that its neighbour does not have."""
    right = pto.cdiv(c.shape[1], BN)
    i, j = pto.program_id(0) // right * BM, pto.program_id(0) % right * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def some_rest(a, b, c, GROUP: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """Some programs of a group do nothing, some stop early."""
    right, rest = pto.cdiv(c.shape[1], BN), pto.program_id(0)
    down = pto.cdiv(c.shape[0], BM)
    i, j = rest % down * BM, rest // down * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, min(a.shape[1], rest % 4 * right * BK), BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def own_matrices(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """The right side moves with the first axis, the left one does not."""
    i, j = pto.program_id(1) * BM, pto.program_id(0) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def downward(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """Its steps come in the other order."""
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(a.shape[1] - BK, -BK, -BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def downward_at_run_time(a, b, c, depth, by, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(depth + by, by, by):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def sometimes(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        if (k // BK + pto.program_id(0)) % 2 == 0:
            acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def written(a, b, BK: pto.constexpr):
    """Every program multiplies by what the one before has left."""
    i = pto.program_id(0) * 8
    product = pto.dot(a[i : i + 8, 0:BK], b[0:BK, 0:16])
    b[0:8, 0:16] = product


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(np.float32)


def stays(kernel: Any, **arguments: Any) -> list[bool]:
    schedule = lowered(Launch(pto.jit(kernel.function), (4, 4), arguments, {})).schedule
    return [item.panel_cache is not None for item in walk(schedule.items) if isinstance(item, Gemm)]


def expected(kernel: Any, a: Array, b: Array, rows: int, step: int) -> Array:
    out = np.zeros((len(a), b.shape[1]), np.float32)
    for n, i in enumerate(range(0, len(a), rows)):
        stop = min(i + rows, a.shape[1]) if kernel is lower_triangle else a.shape[1]
        steps = [k for k in range(0, stop, step) if kernel is not sometimes or (k // step + n) % 2 == 0]
        out[i : i + rows] = sum(a[i : i + rows, k : k + step] @ b[k : k + step] for k in steps)
    return out


KERNELS = [(product, True), (lower_triangle, True), (own_matrices, False), (sometimes, False)]


@pytest.mark.parametrize("depth", [64, 70, 5000])
def test_loops_that_count_down(depth: int, level: str) -> None:
    a, b, c = numbers(90, depth), numbers(depth, 70), np.zeros((90, 70), np.float32)
    pto.jit(level=level)(downward.function)[3, 2](a, b, c, 32, 64, 32)
    np.testing.assert_array_equal(c, a @ b)
    c[:] = 0
    pto.jit(level=level)(downward_at_run_time.function)[3, 2](a, b, c, -(-depth // 32) * 32, -32, 32, 64, 32)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize(("kernel", "stay"), KERNELS)
@pytest.mark.parametrize("shape", [(64, 32, 96), (100, 70, 131), (17, 40, 300), (16, 16, 16), (130, 20, 40)])
def test_products(shape: tuple[int, int, int], kernel: Any, stay: bool, level: str) -> None:
    m, n, k = shape
    a, b, c = numbers(m, k), numbers(k, n), np.zeros((m, n), np.float32)
    blocks = {"BM": 16, "BN": 16, "BK": 16}
    grid = (-(-m // 16), -(-n // 16))
    pto.jit(level=level)(kernel.function)[grid[::-1] if kernel is own_matrices else grid](a, b, c, **blocks)
    np.testing.assert_array_equal(c, expected(kernel, a, b, 16, 16))
    once = k <= 16  # then no loop may leave a step out
    assert all(found == (stay or (kernel is sometimes and once)) for found in stays(kernel, a=a, b=b, c=c, **blocks))


def test_more_steps_than_places(level: str) -> None:
    a, b, c = numbers(48, 20000), numbers(20000, 128), np.zeros((48, 128), np.float32)
    pto.jit(level=level)(product.function)[3, 1](a, b, c, BM=16, BN=128, BK=256)
    np.testing.assert_array_equal(c, a @ b)


def test_what_programs_write_does_not_stay() -> None:
    a, b = numbers(24, 16), numbers(16, 16)
    wanted = b.copy()
    for i in range(0, 24, 8):
        wanted[:8] = a[i : i + 8] @ wanted
    assert stays(written, a=a, b=b, BK=16) == [False]
    written[3](a, b, BK=16)
    np.testing.assert_array_equal(b, wanted)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((300, 700)).astype(np.float32), rng.standard_normal((700, 200)).astype(np.float32)
    results = []
    for threads in (1, 2):
        pto.set_num_threads(threads)
        out = np.zeros((300, 200), np.float32)
        product[10, 7](a, b, out, BM=32, BN=32, BK=64)
        results.append(out.tobytes())
    pto.set_num_threads(2)
    assert results[0] == results[1]


@pytest.mark.parametrize(("first", "more"), [(100, 20), (3, 39), (200, 0), (150, -30)])
def test_left_sides_may_reach_further_than_panels(first: int, more: int, level: str) -> None:
    kernel = pto.jit(level=level)(ever_deeper.function)
    a, b, c = numbers(48, 200), numbers(100, 32), numbers(48, 32)
    kernel[6](np.full_like(a, 3), np.full((200, 32), 7, np.float32), c, 200, 0, 100, 64)  # what it leaves in scratch
    kernel[6](a, b, c, first, more, 100, 64)
    ends = np.minimum(first + more * np.arange(6), 100).repeat(8)
    np.testing.assert_array_equal(c, np.where(np.arange(100) < ends[:, None], a[:, :100], 0) @ b)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("group", [1, 3, 8])
@pytest.mark.parametrize("kernel", [in_groups, row_by_row, some_rest])
@pytest.mark.parametrize(("m", "n", "k"), [(150, 170, 70), (16, 32, 16), (33, 300, 1), (300, 31, 130)])
def test_grids_of_one_axis(kernel: Any, m: int, n: int, k: int, group: int, threads: int, level: str) -> None:
    a, b, c, expected = numbers(m, k), numbers(k, n), np.zeros((m, n), np.float32), np.zeros((m, n), np.float32)
    compiled, grid = pto.jit(level=level, num_threads=threads)(kernel.function), -(-m // 16) * -(-n // 32)
    for right in (b, b[::-1].copy()):  # what the first launch leaves in scratch is not the second's
        compiled[grid](a, right, c, group, 16, 32, 16)
        pto.interpret(kernel)[grid](a, right, expected, group, 16, 32, 16)
        np.testing.assert_array_equal(c, expected)


def test_panels_stay_where_neighbours_often_share_them() -> None:
    blocks = {"GROUP": 8, "BM": 16, "BN": 32, "BK": 16}
    given = {"a": numbers(64, 70), "b": numbers(70, 64), "c": numbers(64, 64), **blocks}
    for kernel, keys in ((in_groups, True), (some_rest, True), (row_by_row, False)):
        made = lowered(Launch(pto.jit(kernel.function), 8, given, {}))
        (item,) = [x for x in walk(made.schedule.items) if isinstance(x, Gemm)]
        assert (item.panel_cache is not None and bool(item.panel_cache.keys)) == keys
        assert made.locality == Locality("programs", 8 if keys else 1)
