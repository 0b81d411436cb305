"""What the model predicts for attention against published figures, and what bounds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.target import ascend_target
from pypto.backends.ascend.timing import prediction
from tests.backends_ascend.test_cube_mixed import attention

PUBLISHED = {1024: 20.96, 2048: 32.5, 4096: 88.9, 8192: 292.6, 16384: 909.0, 32768: 3262.6}  # µs, on 910B2


PRODUCTS = {1536: 38.8, 3072: 206.7, 6144: 1506.0, 7680: 3168.0}  # µs for n x n x n, on 24 cube cores of 910C


@pto.jit
def matmul(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc += pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN])
    c[i : i + BM, j : j + BN] = acc.to(pto.float16)


def product(n: int, chip: str) -> Any:
    a, b, c = (np.empty((n, n), np.float16) for _ in range(3))
    return pto.simulate(matmul, chip)[n // 128, n // 256](a, b, c, BM=128, BN=256, BK=64)


@pytest.mark.parametrize("n", PRODUCTS)
def test_products_against_published_figures(n: int) -> None:
    assert 1.0 <= PRODUCTS[n] / (1e6 * product(n, "ascend910c").seconds) <= 1.4


@pytest.mark.parametrize("n", [6144, 8192])
def test_large_products_keep_the_cube_busy(n: int) -> None:
    target = ascend_target("ascend910b2")
    peak = 2 * 16**3 * target.cube_cores * target.mhz * 1e6
    assert 0.8 <= 2 * n**3 / product(n, "ascend910b2").seconds / peak <= 0.95


@pto.jit
def quarter(x, y, BLOCK: pto.constexpr):
    """Each block is read by four programs, and a short piece written."""
    start = pto.program_id(0) // 4 * BLOCK
    y[pto.program_id(0)] = pto.max(x[start : start + BLOCK], 0)


def test_what_l2_has_comes_at_the_published_rate() -> None:
    """302 MB, of which HBM brings a quarter: 3.4 TB/s."""
    size, block = 302_000_000 // 8, 16384
    x, y = np.empty(size, np.float16), np.empty(4 * (size // block), np.float16)
    found = pto.simulate(quarter, "ascend910b1")[4 * (size // block)](x, y, BLOCK=block)
    seconds = found.memory_cycles / (ascend_target("ascend910b1").mhz * 1e6)
    assert 0.9 <= found.bytes["GM read"] / seconds / 3.4e12 <= 1.05


def predicted(n: int, BM: int, BN: int) -> Any:
    q, k, v, out = (np.empty((1, n, 128), np.float16) for _ in range(4))
    return pto.simulate(attention, "ascend910b2")[1, -(-n // BM)](q, k, v, out, CAUSAL=False, BM=BM, BN=BN)


@pytest.mark.parametrize(("n", "BM", "BN", "least", "most"), [
    (1024, 64, 256, 1.2, 1.4), (2048, 96, 256, 1.1, 1.25), (4096, 88, 256, 1.0, 1.15),
])  # fmt: skip
def test_attention_against_published_figures(n: int, BM: int, BN: int, least: float, most: float) -> None:
    found = predicted(n, BM, BN)
    assert least <= PUBLISHED[n] / (1e6 * found.seconds) <= most
    assert found.assumed  # that every row has a number


@pytest.mark.first
@pytest.mark.slow
@pytest.mark.parametrize(("n", "BM", "BN", "least", "most"), [
    (8192, 116, 256, 1.1, 1.25), (16384, 120, 512, 1.0, 1.1), (32768, 128, 512, 1.0, 1.1),
])  # fmt: skip
def test_long_attention_waits_for_scores(n: int, BM: int, BN: int, least: float, most: float) -> None:
    """The unit that takes float32 scores out of L0C is busy nearly all the time."""
    found = predicted(n, BM, BN)
    assert found.utilisation["FIX"] > 0.8
    assert least <= PUBLISHED[n] / (1e6 * found.seconds) <= most
    assert found.limit == "FIX"
    assert found.bytes["GM read"] + found.bytes["GM written"] > 12 * n * n


def test_rounds_that_are_left_out_of_mixed_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    short = predicted(2048, 128, 64)
    monkeypatch.setattr(prediction, "skip_together", lambda cores, flags: None)
    whole = predicted(2048, 128, 64)
    assert short.cycles == pytest.approx(whole.cycles, rel=1e-3)
    assert short.bytes == whole.bytes
    assert short.lines == pytest.approx(whole.lines, rel=1e-3)
