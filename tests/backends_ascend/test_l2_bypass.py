"""Which arrays pass L2 by, and what that is worth: the published addition of two large arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.blockir.parser import parse
from pypto.backends.ascend.blockir.printer import listing
from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.target import ascend_target
from pypto.debug.simulate import function_of

B2 = ascend_target("ascend910b2")
HINT = ".SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);"


@pto.jit
def add(x, y, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = x[i : i + BLOCK] + y[i : i + BLOCK]


@pto.jit
def add_by_pointers(x, y, out, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    mask = i < n
    pto.store(out + i, pto.load(x + i, mask=mask) + pto.load(y + i, mask=mask), mask=mask)


@pto.jit
def weighted(x, weight, out):
    """`weight` is every program's."""
    row = pto.program_id(0)
    out[row, :] = x[row, :] * weight[:]


@pto.jit
def twice(x, out):
    """`x` is loaded twice."""
    row = pto.program_id(0)
    out[row, :] = x[row, :] / pto.sum(x[row, :])


@pto.jit
def in_place(x):
    row = pto.program_id(0)
    x[row, :] = pto.exp(x[row, :])


@pto.jit
def parts(x, out, B: pto.constexpr, N: pto.constexpr):
    """A row in parts, of which each round takes one."""
    row = pto.program_id(0)
    for i in range(0, N, B):
        out[row, i : i + B] = x[row, i : i + B] * 2


@pto.jit
def halves(x, out, B: pto.constexpr):
    """Of the programs along the second axis, all take the same of `x`."""
    i, j = pto.program_id(0) * B, pto.program_id(1)
    out[j, i : i + B] = x[i : i + B]


@pto.jit
def quarters(x, out, BLOCK: pto.constexpr):
    """Four programs read a block."""
    start = pto.program_id(0) // 4 * BLOCK
    out[pto.program_id(0)] = pto.max(x[start : start + BLOCK], 0)


@pto.jit
def wrapped(x, out):
    """Every eighth program reads a row."""
    out[pto.program_id(0), :] = x[pto.program_id(0) % 8, :] * 2


@pto.jit
def tiles(x, out, B: pto.constexpr):
    """Row and column of a program's tile are quotient and remainder of its number."""
    per_row = pto.cdiv(x.shape[1], B)
    i, j = pto.program_id(0) // per_row, pto.program_id(0) % per_row * B
    out[i, j : j + B] = x[i, j : j + B] * 2


@pto.jit
def apart(x, out, B: pto.constexpr):
    """Quotient and remainder of different divisors: programs 0 and 8 read one tile."""
    i, j = pto.program_id(0) // 16, pto.program_id(0) % 4 * B
    out[pto.program_id(0), :] = x[i, j : j + B] * 2


def block_ir(kernel: Any, *args: Any, **given: Any) -> tuple[BlockKernel, str]:
    return lower_to_text(function_of(kernel, kernel.signature.bind(args, given)), B2)


def half(*shape: int) -> Any:
    return np.empty(shape, np.float16)


@pytest.mark.parametrize("block", [4096, 8192, 16384, 32768])
def test_the_published_addition(block: int) -> None:
    """184.5 µs on 48 vector cores, by an expert's hand."""
    n = 8192 * 8192
    x, y, out = half(n), half(n), half(n)
    by_slices = pto.simulate(add, "ascend910b1")[n // block](x, y, out, BLOCK=block)
    by_pointers = pto.simulate(add_by_pointers, "ascend910b1")[n // block](x, y, out, n, BLOCK=block)
    for found in (by_slices, by_pointers):
        assert abs(1e6 * found.seconds / 184.52 - 1) <= 0.15
        assert found.levels["L2"] == pytest.approx(2.0 * n)


def test_what_fits_in_l2_goes_through_it() -> None:
    x, y, out = half(1 << 22), half(1 << 22), half(1 << 22)
    found = pto.simulate(add)[512](x, y, out, BLOCK=8192)
    assert found.levels["L2"] == pytest.approx(out.nbytes)  # what is written stays there
    kernel, text = block_ir(add, x, y, out, BLOCK=8192)
    assert kernel.streams == ("x", "y")
    assert kernel.streams_from == (192 << 20) // (3 * 2 * 8192) + 1
    assert f"grid_z >= {kernel.streams_from})" in text
    assert text.count(HINT) == 2
    assert parse(listing(kernel)) == kernel


X = half(64, 8192)
CASES: Any = [
    (weighted, (X, half(8192), half(64, 8192)), {}, ("x",)),
    (twice, (X, half(64, 8192)), {}, ()),
    (in_place, (X,), {}, ()),
    (parts, (X, half(64, 8192)), {"B": 2048, "N": 8192}, ("x",)),
    (halves, (half(8192), half(64, 8192)), {"B": 2048}, ()),
    (quarters, (half(1 << 20), half(256)), {"BLOCK": 1 << 14}, ()),
    (wrapped, (X, half(64, 8192)), {}, ()),
    (tiles, (X, half(64, 8192)), {"B": 2048}, ("x",)),
    (apart, (X, half(64, 2048)), {"B": 2048}, ()),
    (add, (X[0], X[1], X[1]), {"BLOCK": 2048}, ()),  # what is stored is what is loaded
    (add, (X[0], X[1], X[2]), {"BLOCK": 64}, ()),  # too small for it to matter
]


@pytest.mark.parametrize(("kernel", "args", "given", "streams"), CASES)
def test_what_is_loaded_once_passes_by(kernel: Any, args: Any, given: Any, streams: tuple[str, ...]) -> None:
    found, text = block_ir(kernel, *args, **given)
    assert found.streams == streams
    assert text.count(HINT) == len(streams)
