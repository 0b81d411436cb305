"""Every case of every suite is right on small shapes: ours, numpy, and in the slow run whoever else is installed."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from benchmarks import arrays, attention, convolution, elementwise, gemm, launch, rows, stencil
from benchmarks.data import memory_limit
from benchmarks.numpy_programs import PROGRAMS
from benchmarks.peers import limited_threads
from benchmarks.runner import OURS, Case, Pace, Row, run_row

QUICK = Pace(rounds=1, seconds=0.0, gap=0.0)
BLOCK = (32, 32, 32)
CASES: dict[str, tuple[Any, tuple[Any, ...], float]] = {
    "add": (elementwise.add_case, (1000,), 3e-7),
    "gelu": (elementwise.gelu_case, (1000,), 1e-6),
    "swiglu": (elementwise.swiglu_case, (1000,), 2e-6),
    "chain": (elementwise.chain_case, (1000,), 2e-5),
    "adamw": (elementwise.adamw_case, (1000,), 1e-6),
    "transpose": (elementwise.transpose_case, (70, 33), 0.0),
    "split heads": (elementwise.head_split_case, (2, 33, 3, 8), 0.0),
    "embedding": (elementwise.embedding_case, (33, 50, 20), 0.0),
    "gather": (elementwise.take_case, (3000, 100), 0.0),
    **{p.name: (arrays.program_case, (p, False), 1e-4) for p in PROGRAMS if p.name != "Gram-Schmidt"},
    "shift": (stencil.shift_case, (5000, 7), 0.0),
    "five point": (stencil.five_point_case, (20, 70), 1e-6),
    "3x3 convolution": (stencil.convolution_case, (20, 70), 1e-6),
    "game of life": (stencil.life_case, (20, 70), 0.0),
    "softmax": (rows.softmax_case, (5, 70), 1e-6),
    "layer norm": (rows.layer_norm_case, (5, 70), 1e-5),
    "rms norm": (rows.rms_norm_case, (5, 70), 1e-5),
    "residual": (rows.residual_case, (5, 70), 1e-5),
    "cross entropy": (rows.cross_entropy_case, (5, 70), 1e-5),
    "quantise": (rows.quantise_case, (5, 70), 0.5 * 2 / 127 * 1.001),
    "cumsum": (rows.cumsum_case, (5, 70), 1e-4),
    "column sum": (rows.column_sum_case, (70, 33), 1e-4),
    "sort": (rows.sort_case, (5, 70), 0.0),
    "argsort": (rows.argsort_case, (5, 70), 0.0),
    "histogram": (rows.histogram_case, (1000, 30), 0.0),
    "topk": (rows.topk_case, (5, 70, 8), 0.0),
    **{f"matmul {d}": (gemm.matmul_case, (40, 33, 70, d, BLOCK), gemm.tolerance(d, 70)) for d in gemm.DTYPES},
    "matmul thin": (gemm.matmul_case, (1, 130, 70, "fp32", (1, 128, 128)), 1e-5),
    "batched": (gemm.batched_case, (3, 20, 33, 40), 1e-5),
    "linear": (gemm.linear_case, (20, 33, 40), 1e-4),
    "convolution": (gemm.convolution_case, (2, 8, 20, 16), 1e-4),
    "convolution 1 x 1": (convolution.convolution_case, (2, 8, 14, 16, 1), 1e-4),
    "convolution 3 x 3 stride 2": (convolution.convolution_case, (2, 8, 14, 16, 3, 2), 1e-4),
    "convolution 5 x 5": (convolution.convolution_case, (1, 3, 11, 5, 5), 1e-4),
    "conv2d of arrays": (convolution.array_case, (2, 8, 14, 16, 3, 2), 1e-4),
    "depthwise conv2d of arrays": (convolution.array_case, (2, 5, 11, 0, 3), 1e-5),
    "depthwise": (convolution.convolution_case, (2, 5, 11, 0, 3), 1e-5),
    "depthwise stride 2": (convolution.convolution_case, (2, 5, 12, 0, 5, 2), 1e-5),
    "attention": (attention.forward_case, (2, 150, 16), 1e-5),
    "causal": (attention.forward_case, (2, 150, 16, True), 1e-5),
    "bf16": (attention.forward_case, (2, 40, 16, False, ml_dtypes.bfloat16), 1.5e-2),
    "groups": (attention.forward_case, (4, 40, 16, False, np.float32, 2), 1e-5),
    "backward": (attention.backward_case, (2, 100, 16), 1e-5),
    "as written": (launch.as_written_case, (), 3e-7),
    "kept": (launch.kept_case, (), 3e-7),
    "many": (launch.many_case, (), 3e-6),
    "changing": (partial(launch.changing_case, 3), (), 1e-6),
    "small rows": (launch.row_case, (), 1e-6),
    "threads": (partial(launch.threaded_case, 1 << 12), (), 3e-7),
}


def row(name: str) -> Row:
    make, shape, tolerance = CASES[name]

    def build() -> Case:
        case: Case = make(*shape)
        return case

    return Row(name, "small", 1.0, "B", "", tolerance, build)


@pytest.mark.parametrize("name", CASES)
def test_ours_is_right(name: str) -> None:
    got = run_row(row(name), 1, limited_threads, QUICK)
    assert got.failed == {}
    assert OURS in got.timings
    assert all(reason for reason in got.missing.values())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the libraries warn of each other
@pytest.mark.parametrize("name", CASES)
def test_everybody_is_right(name: str, everybody: None) -> None:
    assert run_row(row(name), 2, limited_threads, QUICK).failed == {}


@pytest.mark.parametrize("size", [1 << 10, 1 << 18, 1 << 22, 1 << 26])
def test_every_memory_limit_is_measured(size: int) -> None:
    name, level = memory_limit("copy", size).split()
    assert name == "copy"
    assert level in ("L1", "L2", "L3", "DRAM")


def test_tolerance_is_half_a_step() -> None:
    assert gemm.tolerance("int8", 1024) == 0.0
    assert gemm.tolerance("bf16", 1024) == pytest.approx(0.5, rel=0.02)
    assert gemm.tolerance("fp16", 1024) < gemm.tolerance("bf16", 1024) / 4


def test_attention_by_numpy_has_the_gradients_that_differences_give() -> None:
    rng = np.random.default_rng(0)
    q, k, v, dout, step = rng.standard_normal((5, 1, 6, 4))
    gradient = attention.gradients(q, k, v, dout)
    for n in range(3):
        moved = [[x + side * 1e-6 * step * (i == n) for i, x in enumerate((q, k, v))] for side in (1, -1)]
        high, low = (attention.plain(a, b, c, False) for a, b, c in moved)
        assert np.sum((high - low) * dout) / 2e-6 == pytest.approx(np.sum(gradient[n] * step), rel=1e-6)
