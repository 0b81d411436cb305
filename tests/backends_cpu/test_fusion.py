"""Statements share loops only where that is right: kernels that were once fused too far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import pypto as pto
from pypto.backends.cpu.loopir.printer import print_schedule
from tests.backends_cpu.lowering import lowered
from tests.conformance.cases import Launch


@pto.jit
def rows_then_all(x, near, far, twice, M: pto.constexpr, N: pto.constexpr):
    """The greatest of all comes after two statements that share the loop over the rows."""
    t = x[:M, :N]
    shifted = pto.argmax(t, axis=1, keep_dims=True) + (t + t)
    near[:M, :N] = t + pto.max(t, axis=None)
    far[:M, :N] = shifted
    twice[:M, :N] = pto.exp(shifted)


def test_a_reduction_over_shared_loops_has_a_nest_of_its_own() -> None:
    x = np.random.default_rng(1).standard_normal((6, 20)).astype(np.float32)
    near, far, twice = (np.empty_like(x) for _ in range(3))
    rows_then_all[1,](x, near, far, twice, M=6, N=20)
    expected = x.argmax(1, keepdims=True).astype(np.float32) + (x + x)
    np.testing.assert_array_equal(near, x + x.max())
    np.testing.assert_array_equal(far, expected)
    np.testing.assert_allclose(twice, np.exp(expected), rtol=3e-7)


@pto.jit
def exchanged(x, N: pto.constexpr):
    """In place, with the lanes where they were."""
    x[:N, :N, :] = pto.permute(x[:N, :N, :], (1, 0, 2)) + 1


@pto.jit
def exchanged_after(x, out, N: pto.constexpr):
    """What has just been written is read in another order."""
    x[:N, :N, :] = x[:N, :N, :] * 2
    out[:N, :N, :] = pto.permute(x[:N, :N, :], (1, 0, 2))


def test_elements_that_change_places() -> None:
    x = np.arange(5 * 5 * 24, dtype=np.float32).reshape(5, 5, 24)
    before, out = x.copy(), np.empty_like(x)
    exchanged[1,](x, N=5)
    np.testing.assert_array_equal(x, before.transpose(1, 0, 2) + 1)
    before = x.copy()
    exchanged_after[1,](x, out, N=5)
    np.testing.assert_array_equal(x, before * 2)
    np.testing.assert_array_equal(out, before.transpose(1, 0, 2) * 2)


@pto.jit
def picked_by_what_was_stored(x, near, far, M: pto.constexpr, N: pto.constexpr):
    """The second load's pointers come from a load that comes after a store."""
    i, j = pto.arange(0, M)[:, None], pto.arange(0, N)[None, :]
    pto.store(near + i * N + j, pto.load(x + i * N + j) + 1)
    rows = pto.load(near + i * N + j) % M
    pto.store(far + i * N + j, pto.load(x + rows * N + j))


def test_pointers_from_memory_that_was_just_written() -> None:
    x = np.random.default_rng(3).integers(0, 50, (4, 32)).astype(np.int32)
    near, far = np.zeros_like(x), np.zeros_like(x)
    picked_by_what_was_stored[1,](x, near, far, M=4, N=32)
    np.testing.assert_array_equal(near, x + 1)
    np.testing.assert_array_equal(far, x[(x + 1) % 4, np.arange(32)])


@pto.jit
def weighted(q, k, v, out, sums, M: pto.constexpr, N: pto.constexpr, D: pto.constexpr):
    """Exponentials that are added up and multiplied: of scores that are computed turned."""
    total, acc, queries = pto.zeros((M,), pto.float32), pto.zeros((M, D), pto.float32), q[:M, :D]
    for j in range(0, k.shape[0], N):
        p = pto.exp2(pto.dot(queries, pto.trans(k[j : j + N, :D])))
        total += pto.sum(p, axis=1)
        acc = pto.dot(p.to(v.dtype), v[j : j + N, :D], acc)
    out[:M, :D] = acc
    sums[:M] = total


@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
@pytest.mark.parametrize(("m", "n", "d"), [(64, 32, 16), (40, 24, 20), (33, 50, 32), (128, 128, 64)])
def test_sums_beside_what_is_multiplied(m: int, n: int, d: int, dtype: Any, level: str) -> None:
    """Chunks of rows that are no whole panels, too."""
    rng = np.random.default_rng(m)
    q, k, v = (rng.standard_normal((rows, d)).astype(dtype) / 4 for rows in (m, 2 * n, 2 * n))
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    out, sums = np.zeros((m, d), np.float32), np.zeros(m, np.float32)
    pto.jit(level=level)(weighted.function)[1](q, k, v, out, sums, m, n, d)
    p = np.exp2(q.astype(float) @ k.astype(float).T)
    np.testing.assert_allclose(sums, p.sum(1), rtol=2e-6)
    p = p.astype(np.float32).astype(dtype).astype(float)
    np.testing.assert_allclose(out, p @ v.astype(float), rtol=1e-5 if dtype is np.float32 else 5e-3, atol=1e-4)


def schedule(dtype: Any) -> str:
    """The loop of the kernel above, for a machine that is the same everywhere."""
    shapes = {"q": (64, 32), "k": (128, 32), "v": (128, 32), "out": (64, 32), "sums": (64,)}
    arrays = {name: np.zeros(s, np.float32 if name in ("out", "sums") else dtype) for name, s in shapes.items()}
    launch = Launch(weighted, (1,), {**arrays, "M": 64, "N": 64, "D": 32}, {})
    return print_schedule(lowered(launch).schedule)


def test_exponentials_become_panels_beside_their_sum() -> None:
    """One body for all three, so that exponentials are nowhere stored as they are."""
    lines = [line.strip() for line in schedule(np.float32).splitlines()]
    start = next(i for i, line in enumerate(lines) if "compute exp2" in line)
    assert [line.split()[1:3] for line in lines[start : start + 3]] == [
        ["compute", "exp2"], ["reduce", "sum"], ["compute", "exp2"]
    ]  # fmt: skip
    assert all(line.startswith("|") for line in lines[start + 1 : start + 3])


@pto.jit
def apart(x, y, a, b, M: pto.constexpr, N: pto.constexpr):
    """Two sums of rows that have nothing to do with one another."""
    a[:M] = pto.sum(x[:M, :N] * 2, axis=1)
    b[:M] = pto.sum(y[:M, :N] * 3, axis=1)


def test_what_is_not_related_has_loops_of_its_own() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 12, 40)).astype(np.float32)
    a, b = np.zeros((2, 12), np.float32)
    apart[1,](x, y, a, b, M=12, N=40)
    np.testing.assert_allclose(a, (x * 2).sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(b, (y * 3).sum(1), rtol=1e-5, atol=1e-5)


@pto.jit
def below_the_greatest(x, y, out, M: pto.constexpr, N: pto.constexpr):
    """Powers of scores, which lie in scratch memory, below the greatest one of their row, and the sums of those."""
    scores = pto.dot(x[0:M, :], y[:, 0:N])
    powers = pto.exp2(scores - pto.max(scores, axis=1)[:, None])
    out[0:M, 0:N] = powers / pto.sum(powers, axis=1)[:, None]


@pytest.mark.parametrize(("columns", "nests"), [(64, 2), (512, 2), (768, 1)])
def test_rows_that_are_short_wait_for_none_of_themselves(columns: int, nests: int) -> None:
    """The greatest numbers of all rows come before the first row's powers; long rows stay near instead."""
    x, y = (np.random.default_rng(s).standard_normal(s).astype(np.float32) for s in ((13, 8), (8, columns)))
    out = np.zeros((13, columns), np.float32)
    launch = Launch(below_the_greatest, 1, {"x": x, "y": y, "out": out, "M": 13, "N": columns}, {})
    lines = [line.strip() for line in print_schedule(lowered(launch).schedule).splitlines()]
    behind = lines[next(i for i, line in enumerate(lines) if "matmul" in line) :]
    assert sum(line.startswith("nest") for line in behind) == nests
    below_the_greatest[1,](x, y, out, M=13, N=columns)
    powers = np.exp2((scores := x.astype(float) @ y) - scores.max(1, keepdims=True))
    np.testing.assert_allclose(out, powers / powers.sum(1, keepdims=True), rtol=1e-5)


@pto.jit
def totals(x, out, n, N: pto.constexpr):
    """Running totals of two conditions: after each sum comes an addition that nothing in between reads."""
    above, below = 0, 0
    for i in range(0, n):
        t = x[i, :N]
        above += pto.sum(pto.cast(t > 0.5, pto.int32))
        below += pto.sum(pto.cast(t < -0.5, pto.int32))
    out[0] = above
    out[1] = below


def test_sums_share_a_loop_although_additions_stand_between_them() -> None:
    x = np.random.default_rng(0).standard_normal((5, 40)).astype(np.float32)
    out = np.zeros(2, np.int32)
    launch = Launch(totals, 1, {"x": x, "out": out, "n": 5, "N": 40}, {})
    text = print_schedule(lowered(launch).schedule)
    loop = text[text.index("for") :]
    assert [line.strip()[:8] for line in loop.splitlines() if " sum " in line] == ["- reduce", "| reduce"]
    totals[1,](x, out, n=5, N=40)
    np.testing.assert_array_equal(out, [(x > 0.5).sum(), (x < -0.5).sum()])


@pto.jit
def chained(x, out, N: pto.constexpr):
    """The second sum needs what comes of the first, and the third what comes of that."""
    t = x[:N]
    mean = pto.sum(t) / N
    spread = pto.sum((t - mean) * (t - mean)) / N
    out[0] = pto.sum((t - mean) / spread)
    out[1] = spread


def test_a_sum_waits_for_what_comes_of_another() -> None:
    x = np.random.default_rng(0).standard_normal(70).astype(np.float32)
    out = np.zeros(2, np.float32)
    chained[1,](x, out, N=70)
    np.testing.assert_allclose(out, [((x - x.mean()) / x.var()).sum(), x.var()], rtol=1e-5, atol=1e-4)


@pto.jit
def softplus_rows(x, step, out, M: pto.constexpr, N: pto.constexpr):
    """A function of every row's number, which all elements of the row share."""
    s = pto.log(1 + pto.exp(step[:M]))
    out[:M, :N] = x[:M, :N] * s[:, None]


@pytest.mark.parametrize(("rows", "along_lanes"), [(32, True), (4, False)])
def test_functions_of_a_column_are_computed_along_the_lanes(rows: int, along_lanes: bool) -> None:
    x, step = np.random.default_rng(0).standard_normal((rows, 16)).astype(np.float32), np.zeros(rows, np.float32)
    step += np.linspace(-2, 2, rows, dtype=np.float32)
    out = np.zeros_like(x)
    launch = Launch(softplus_rows, 1, {"x": x, "step": step, "out": out, "M": rows, "N": 16}, {})
    assert (f"compute log -> b0 [lanes d0<{rows}]" in print_schedule(lowered(launch).schedule)) == along_lanes
    softplus_rows[1,](x, step, out, M=rows, N=16)
    np.testing.assert_allclose(out, x * np.log1p(np.exp(step.astype(float)))[:, None], rtol=1e-5)
