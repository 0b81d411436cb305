"""All suites by name; `core` holds every row that performance is promised for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from benchmarks import attention, gemm, growth, inductor, launch, probes, rows
from benchmarks.arrays import ARRAYS
from benchmarks.checks import CHECKED
from benchmarks.convolution import ARRAY_CONVOLUTION, CONVOLUTION
from benchmarks.elementwise import ROWS as ELEMENTWISE
from benchmarks.encoder import BATCH, LENGTHS, LONG, encoder_case, encoder_flops, long_batch, real_batch
from benchmarks.gradients import GRADIENTS
from benchmarks.library import LIBRARY
from benchmarks.library_calls import LIBRARY_CALLS
from benchmarks.runner import Bar, Row, Suite
from benchmarks.scaling import SCALING
from benchmarks.stencil import STENCIL
from benchmarks.triton_packages import TRITON


def encoder_row(shape: str, lengths: tuple[int, ...], make_batch: Callable[[], Any], precision: str) -> Row:
    """The sentence encoder of the tutorials on one of its batches."""
    bars = (Bar("numpy", 3.0), Bar("torch", 1.0), Bar("", 1.2))
    name, limit = ("sentence encoder ieee", "fma") if precision == "ieee" else ("sentence encoder", precision)
    build, work = partial(encoder_case, lengths, make_batch, precision), encoder_flops(sum(lengths))
    return Row(name, shape, work, "flop", limit, 1e-5, build, bars, (0,), name)


BARRED: Final = (
    *(row for row in ELEMENTWISE if row.name in ("vector add", "gelu", "chain of 15")),
    *rows.BARRED,
    *gemm.BARRED,
    *attention.BARRED,
    *launch.ROWS[:3],
    *(
        encoder_row(*batch, precision)
        for precision in ("bf16x3", "ieee")
        for batch in (("32 sentences", LENGTHS, real_batch), ("32 x 128 tokens", (LONG,) * BATCH, long_batch))
    ),
)
CORE: Final = Suite("core", BARRED, (*probes.PROBES, launch.THROUGH_POOL), 2.0, 0.95, memory=True)
COMPILE: Final = Suite("compile", (), (*probes.PROBES, *probes.PEERS), growths=growth.GROWTHS)
# What the charts of the site show: python -m benchmarks site --threads 1 --json docs/measured.json
SHOWN: Final = (
    "vector add 1M", "gelu 1M", "chain of 15 4M", "softmax 4096²", "layer norm 4096²", "cross entropy 4096²",
    "row sort 4096 x 2048", "topk 4096 x 2048 x 8", "matmul fp32 1024³", "convolution 3 x 3 8 x 64 x 56², 64",
    "attention 16 x 1024 x 64",
)  # fmt: skip
SITE: Final = Suite("site", tuple(replace(row, threads=(0,)) for row in BARRED if row.title in SHOWN))
ALL: Final = (
    CORE,
    SITE,
    gemm.GEMM,
    CONVOLUTION,
    ARRAY_CONVOLUTION,
    rows.ROWS,
    attention.ATTENTION,
    launch.LAUNCH,
    STENCIL,
    inductor.INDUCTOR,
    TRITON,
    COMPILE,
    SCALING,
    CHECKED,
    LIBRARY,
    LIBRARY_CALLS,
    ARRAYS,
    GRADIENTS,
)
SUITES: Final = MappingProxyType({suite.name: suite for suite in ALL})
