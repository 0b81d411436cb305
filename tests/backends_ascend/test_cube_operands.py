"""Operands of products at places that data, edges or wrapped indices decide: they stay on the cube core."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import pypto as pto
from benchmarks.kernels.cube import by_expert, by_groups, convolution, dequantised, paged_attention, routed
from pypto.backends.ascend.block.race_checker import races
from pypto.backends.ascend.blockir.printer import listing
from pypto.backends.ascend.pipeline import lower_kernel, lower_to_text
from pypto.backends.ascend.target import AscendTarget, ascend_target
from tests.backends_ascend.simulated import B2, function_of, run
from tests.sim.device import needs_compiler

pytestmark = needs_compiler
Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)
A5 = ascend_target("ascend950")
CHIPS = pytest.mark.parametrize("chip", [B2, pytest.param(A5, marks=pytest.mark.slow)], ids=["b2", "a5"])


def halves(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float16)


def near(found: Array, wanted: Array) -> None:
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=4e-3, atol=4e-2)


def check(kernel: Any, grid: tuple[int, ...], chip: AscendTarget, kind: str, **arguments: Any) -> None:
    """Run on the simulated device, with the form of kernel that is asked for, without races."""
    block, _ = lower_to_text(function_of(kernel, arguments), chip)
    assert races(block, chip) == []
    run(kernel, grid, lower_kernel, kind=kind, chip=chip, **arguments)


# --- operands at numbers that are loaded ------------------------------------------------------------------------------


@CHIPS
def test_experts(chip: AscendTarget) -> None:
    x, weights, y = halves(72, 80), halves(3, 80, 40), halves(72, 40)
    experts = np.array([2, 0, -1, 1, 9], np.int32)
    check(by_expert, (5, 2), chip, "cube", x=x, weights=weights, experts=experts, y=y, BM=16, BN=32, BK=32)
    for n, e in enumerate(experts):
        rows = slice(16 * n, 16 * n + 16)
        wanted = x[rows].astype(np.float64) @ weights[e].astype(np.float64) if 0 <= e < 3 else np.zeros_like(y[rows])
        near(y[rows], wanted)


@CHIPS
def test_paged_attention(chip: AscendTarget) -> None:
    q, keys, values = halves(3, 16, 64), halves(9, 32, 64), halves(9, 32, 64)
    lengths, out = np.array([70, 32, 97], np.int32), halves(3, 16, 64)
    pages = RNG.permutation(9)[np.arange(12) % 9].reshape(3, 4).astype(np.int32)
    check(paged_attention, (3,), chip, "mix", q=q, keys=keys, values=values, pages=pages, lengths=lengths, out=out,
          PAGE=32)  # fmt: skip
    for b, n in enumerate(lengths):
        k, v = (x[pages[b]].reshape(-1, 64)[:n].astype(np.float64) for x in (keys, values))
        p = np.exp(0.125 * q[b].astype(np.float64) @ k.T)
        near(out[b], p / p.sum(axis=1, keepdims=True) @ v)


@CHIPS
def test_groups(chip: AscendTarget) -> None:
    x, weights, y = halves(70, 80), halves(3, 80, 40), np.full((70, 40), 7, np.float16)
    starts = np.array([0, 13, 13, 50], np.int32)
    check(by_groups, (3, 2), chip, "cube", x=x, weights=weights, starts=starts, y=y, BM=32, BN=32, BK=32)
    for g, (start, end) in enumerate(pairwise(starts)):
        near(y[start:end], x[start:end].astype(np.float64) @ weights[g].astype(np.float64))
    assert (y[50:] == 7).all()


@pto.jit
def from_rows(x, w, firsts, y, BM: pto.constexpr, BK: pto.constexpr):
    """Rows from a place on that was loaded, to a place that was loaded."""
    acc = pto.zeros((BM, w.shape[1]), pto.float32)
    i = firsts[2 * pto.program_id(0)]
    o = firsts[2 * pto.program_id(0) + 1]
    for k in range(0, x.shape[1], BK):
        acc = pto.dot(x[i : i + BM, k : k + BK], w[k : k + BK, :], acc)
    y[o : o + BM, :] = acc


@CHIPS
def test_rows_before_the_array(chip: AscendTarget) -> None:
    """What lies before the first row is zero, and is not stored where the target has no such rows, either."""
    x, w, y = halves(40, 48), halves(48, 32), np.full((200, 32), 7, np.float16)
    firsts = np.array([-5, 3, 33, 40, -40, 80, 4, -9, 7, 190], np.int32)
    check(from_rows, (5,), chip, "cube", x=x, w=w, firsts=firsts, y=y, BM=32, BK=32)
    wanted = np.full((264, 32), 7.0)  # with 32 rows before, and behind
    for i, o in firsts.reshape(-1, 2):
        for row in range(32):
            exists = 0 <= i + row < 40
            wanted[32 + o + row] = x[i + row].astype(np.float64) @ w.astype(np.float64) if exists else 0
    near(y, wanted[32:232])


# --- bounds that change from step to step -----------------------------------------------------------------------------


@CHIPS
def test_convolution(chip: AscendTarget) -> None:
    x, w, y = halves(2, 3, 20, 40), halves(3, 3, 40, 24), halves(2, 3, 20, 24)
    check(convolution, (6, 2), chip, "cube", x=x, w=w, y=y, BP=16, BC=32)
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    wanted = sum(padded[:, r : r + 3, s : s + 20] @ w[r, s].astype(np.float64) for r in range(3) for s in range(3))
    near(y, wanted)


# --- indices that wrap around, and pointers that move -----------------------------------------------------------------


@pto.jit
def wrapped(a, b, c, M, N, K, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):  # noqa: PLR0913, PLR0917
    """A product as Triton's tutorial has it, with programs along two axes."""
    i, j = pto.program_id(0) * BM + pto.arange(0, BM), pto.program_id(1) * BN + pto.arange(0, BN)
    ks = pto.arange(0, BK)
    x, y = a + (i % M)[:, None] * K + ks[None, :], b + ks[:, None] * N + (j % N)[None, :]
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, pto.cdiv(K, BK)):
        left = pto.load(x, mask=ks[None, :] < K - k * BK, other=0.0)
        acc = pto.dot(left, pto.load(y, mask=ks[:, None] < K - k * BK, other=0.0), acc)
        x += BK
        y += BK * N
    pto.store(c + i[:, None] * N + j[None, :], acc.to(pto.float16), mask=(i < M)[:, None] & (j < N)[None, :])


@pto.jit
def wrapped_in_groups(a, b, c, M, N, K, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):  # noqa: PLR0913, PLR0917
    """The same with its order of programs, whose numbers nothing shows to be 0 or more."""
    pid, across = pto.program_id(0), pto.cdiv(N, BN)
    group = pid // (2 * across)
    size = pto.minimum(pto.cdiv(M, BM) - 2 * group, 2)
    i = (2 * group + pid % (2 * across) % size) * BM + pto.arange(0, BM)
    j = pid % (2 * across) // size * BN + pto.arange(0, BN)
    ks = pto.arange(0, BK)
    x, y = a + (i % M)[:, None] * K + ks[None, :], b + ks[:, None] * N + (j % N)[None, :]
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, pto.cdiv(K, BK)):
        left = pto.load(x, mask=ks[None, :] < K - k * BK, other=0.0)
        acc = pto.dot(left, pto.load(y, mask=ks[:, None] < K - k * BK, other=0.0), acc)
        x += BK
        y += BK * N
    pto.store(c + i[:, None] * N + j[None, :], acc.to(pto.float16), mask=(i < M)[:, None] & (j < N)[None, :])


@CHIPS
@pytest.mark.parametrize(("kernel", "grid", "kind"), [(wrapped, (3, 2), "cube"), (wrapped_in_groups, (6,), "mix")])
def test_wrapped_indices(kernel: Any, grid: tuple[int, ...], kind: str, chip: AscendTarget) -> None:
    a, b, c = halves(70, 90), halves(90, 50), np.full((70, 50), 7, np.float16)
    check(kernel, grid, chip, kind, a=a, b=b, c=c, M=70, N=50, K=90, BM=32, BN=32, BK=32)
    near(c, a.astype(np.float64) @ b.astype(np.float64))


@pto.jit
def repeated(a, b, c, M, K, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """Rows that have wrapped around are stored, too."""
    i, j, ks = pto.arange(0, BM), pto.arange(0, BN), pto.arange(0, BK)
    x, y = a + (i % M)[:, None] * K + ks[None, :], b + ks[:, None] * BN + j[None, :]
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, pto.cdiv(K, BK)):
        left = pto.load(x, mask=ks[None, :] < K - k * BK, other=0.0)
        acc = pto.dot(left, pto.load(y, mask=ks[:, None] < K - k * BK, other=0.0), acc)
        x += BK
        y += BK * BN
    pto.store(c + i[:, None] * BN + j[None, :], acc.to(pto.float16))


@CHIPS
def test_rows_that_wrap_are_stored(chip: AscendTarget) -> None:
    a, b, c = halves(13, 40), halves(40, 32), np.full((32, 32), 7, np.float16)
    check(repeated, (1,), chip, "mix", a=a, b=b, c=c, M=13, K=40, BM=32, BN=32, BK=32)
    near(c, a[np.arange(32) % 13].astype(np.float64) @ b.astype(np.float64))


# --- weights that vector cores make -----------------------------------------------------------------------------------


@CHIPS
@pytest.mark.parametrize("last", [False, True])
def test_vector_cores_share_the_rows_of_weights_and_of_results(last: bool, chip: AscendTarget) -> None:
    a, scale, c = halves(50, 90), RNG.uniform(0.01, 0.02, 70).astype(np.float32), np.full((50, 70), 7, np.float16)
    b = RNG.integers(-100, 100, (90, 70)).astype(np.int8)
    check(dequantised, (2, 3), chip, "mix", a=a, b=b, scale=scale, c=c, BM=32, BN=32, BK=32, LAST=last)
    near(c, a.astype(np.float64) @ (b.astype(np.float64) * scale))
    arguments = {"a": a, "b": b, "scale": scale, "c": c, "BM": 32, "BN": 32, "BK": 32, "LAST": last}
    block, text = lower_to_text(function_of(dequantised, arguments), chip)
    assert "sub_block * 16" in listing(block) and "if sub_block == 0" not in listing(block)
    assert "__mix__" in text


@CHIPS
def test_routed_rows_are_copied_as_rows(chip: AscendTarget) -> None:
    x, w, y = halves(40, 80), halves(3, 80, 48), np.full((40, 48), 7, np.float16)
    tokens = np.full(64, 40, np.int32)
    tokens[:30], tokens[32:40] = RNG.permutation(40)[:30], np.arange(40)[-8:]
    tokens[32:40] = np.setdiff1d(np.arange(40), tokens[:30])[:8]
    experts = np.array([2, 0], np.int32)
    arguments = {"x": x, "w": w, "tokens": tokens, "experts": experts, "y": y, "COUNT": 40}
    arguments |= {"BM": 32, "BN": 48, "BK": 32}
    check(routed, (2,), chip, "mix", **arguments)
    for block, e in enumerate(experts):
        rows = tokens[32 * block : 32 * block + 32]
        rows = rows[rows < 40]
        near(y[rows], x[rows].astype(np.float64) @ w[e].astype(np.float64))
    assert (y[np.setdiff1d(np.arange(40), tokens)] == 7).all()
    assert "(1, 2, 0, 0, 0)" not in listing(lower_to_text(function_of(routed, arguments), chip)[0])  # of one element
