"""What the model predicts for attention against published figures, and what bounds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from benchmarks.tutorials import load_tutorial
from pypto.backends.ascend.target import ascend_target
from pypto.backends.ascend.timing import prediction
from tests.backends_ascend.published import matmul, matmul_in_order, product

PUBLISHED = {1024: 20.96, 2048: 32.5, 4096: 88.9, 8192: 292.6, 16384: 909.0, 32768: 3262.6}  # µs, on 910B2
BM, BN = 108, 512  # of attention: one size for all lengths


@pytest.mark.parametrize("n", [6144, 8192])
def test_large_products_keep_the_cube_busy(n: int) -> None:
    target = ascend_target("ascend910b2")
    peak = 2 * 16**3 * target.cube_cores * target.mhz * 1e6
    assert 0.8 <= 2 * n**3 / product(n, "ascend910b2").seconds / peak <= 0.95


def test_a_product_keeps_the_cube_of_950_busy() -> None:
    target, n = ascend_target("ascend950"), 8192
    peak = 2 * 16**3 * target.cube_cores * target.mhz * 1e6
    assert 2 * n**3 / product(n, "ascend950", matmul, 256).seconds / peak >= 0.95


@pytest.mark.parametrize(("chip", "most"), [("ascend910b2", 0.75), ("ascend950", 0.75)])
def test_the_order_of_programs_decides_what_l2_has(chip: str, most: float) -> None:
    """A column of the result after the other reads the whole left matrix again for each; it does not fit in L2."""
    rows = 256 if chip == "ascend950" else 128
    bands, in_order = (product(16384, chip, kernel, rows) for kernel in (matmul, matmul_in_order))
    assert bands.seconds < most * in_order.seconds
    assert bands.levels["HBM"] < 0.5 * in_order.levels["HBM"]


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
    assert found.levels["HBM"] == pytest.approx(found.bytes["GM read"] / 4, rel=0.1)
    seconds = found.memory_cycles / (ascend_target("ascend910b1").mhz * 1e6)
    assert 0.85 <= found.bytes["GM read"] / seconds / 3.4e12 <= 1.2


def predicted(n: int, rows: int = BM, keys: int = BN) -> Any:
    q, k, v, out = (np.empty((n, 128), np.float16) for _ in range(4))
    attention = load_tutorial("09_attention_on_ascend").attention
    return pto.simulate(attention, "ascend910b2")[-(-n // rows)](q, k, v, out, BM=rows, BN=keys)


@pytest.mark.parametrize(("n", "most"), [(1024, 1.1), (2048, 1.3), (4096, 1.2)])
def test_attention_against_published_figures(n: int, most: float) -> None:
    assert 1.0 <= PUBLISHED[n] / (1e6 * predicted(n).seconds) <= most


@pytest.mark.first
@pytest.mark.slow
@pytest.mark.parametrize(("n", "most"), [(8192, 1.2), (16384, 1.1), (32768, 1.1)])
def test_long_attention_waits_for_scores(n: int, most: float) -> None:
    """The unit that takes float32 scores out of L0C is busy most of the time."""
    found = predicted(n)
    assert found.utilisation["FIX"] > 0.75
    assert 1.0 <= PUBLISHED[n] / (1e6 * found.seconds) <= most
    assert found.bytes["GM read"] + found.bytes["GM written"] > 12 * n * n


def test_rounds_that_are_left_out_of_mixed_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    short = predicted(2048, 128, 64)
    monkeypatch.setattr(prediction, "skip_together", lambda cores, flags: None)
    whole = predicted(2048, 128, 64)
    assert short.cycles == pytest.approx(whole.cycles, rel=1e-3)
    assert short.bytes == whole.bytes
    assert short.lines == pytest.approx(whole.lines, rel=1e-3)
