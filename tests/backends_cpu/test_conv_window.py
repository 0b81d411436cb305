"""Columns that several products read from the same rows: copied once, with zeros, and nothing beyond an array.

Rows of 512 numbers lie so that they share sets of a cache: only theirs are copied, others are read where they lie.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.loopir.ir import walk
from tests.backends_cpu.lowering import lowered
from tests.backends_cpu.test_swap_operands import WIDE, convolution, numbers
from tests.conformance.cases import Launch
from tests.conformance.fences import Fences


@pto.jit
def taps(x, weight, out, first, APART: pto.constexpr, BW: pto.constexpr):
    """A sum over shifted rows; `first` moves all of them."""
    n, w = pto.program_id(0), pto.program_id(1) * BW
    acc = pto.zeros((weight.shape[1], BW), pto.float32)
    for tap in pto.static_range(3):
        left = first + w + tap * APART
        acc = pto.dot(weight[tap, :, :], x[n, :, left : left + BW], acc)
    out[n, :, w : w + BW] = acc


@pto.jit
def halves(x, weight, out, BW: pto.constexpr):
    """Two pairs of rows of different arrays, and one product whose place is not known beforehand."""
    w = pto.program_id(0) * BW
    acc = pto.dot(weight[0, :, :], x[0, :, w : w + BW])
    acc = pto.dot(weight[1, :, :], x[1, :, w : w + BW], acc)
    acc = pto.dot(weight[2, :, :], x[0, :, w + 2 : w + 2 + BW], acc)
    acc = pto.dot(weight[3, :, :], x[1, :, w - 1 : w - 1 + BW], acc)
    acc = pto.dot(weight[4, :, :], x[1, :, w + 5 : w + 5 + BW], acc)
    acc = pto.dot(weight[5, :, :], x[0, :, w * w : w * w + BW], acc)
    out[:, w : w + BW] = acc


@pto.jit
def unsigned(x, weight, out, BW: pto.constexpr):
    """Below 0 such a place is far beyond the array."""
    w = pto.program_id(0).to(pto.uint32) * BW
    acc = pto.dot(weight[0, :, :], x[:, w - 1 : w - 1 + BW])
    out[:, w : w + BW] = pto.dot(weight[1, :, :], x[:, w : w + BW], acc)


@pto.jit
def some(x, weight, out, first, K: pto.constexpr, BW: pto.constexpr):
    """Of the K rows from `first` on not all may exist."""
    w, acc = pto.program_id(0) * BW, pto.zeros((weight.shape[1], BW), pto.float32)
    for tap in pto.static_range(3):
        acc = pto.dot(weight[tap, :, :], x[first : first + K, w + tap : w + tap + BW], acc)
    out[:, w : w + BW] = acc


def shared(kernel: Any, **arguments: Any) -> list[tuple[int, int] | None]:
    """For each product which window it reads, in their order, and from which column on."""
    items = walk(lowered(Launch(kernel, (1, 1, 1), arguments, {}), WIDE).schedule.items)
    chain = next(item.accumulation_chain for item in items if isinstance(item, Gemm))
    ids = list(dict.fromkeys(x.conv_window.buffer.id for x in chain if x.conv_window is not None))
    return [
        None if x.conv_window is None else (ids.index(x.conv_window.buffer.id), x.conv_window.offset) for x in chain
    ]


def test_which_products_share() -> None:
    arrays = {"x": numbers(1, 8, 3, 20), "weight": numbers(3, 3, 64, 8), "out": numbers(1, 64, 3, 20)}
    assert shared(convolution, **arrays, BW=32) == [(row, column) for row in range(3) for column in range(3)]
    x, weight, out = numbers(2, 32, 50), numbers(6, 32, 32), numbers(32, 50)
    assert shared(halves, x=x, weight=weight, out=out, BW=32) == [(0, 0), (1, 0), (0, 2), None, (1, 5), None]
    assert shared(unsigned, x=x[0], weight=weight, out=out, BW=32) == [None, None]


@pytest.mark.parametrize(
    ("apart", "wanted"),
    [(8, [(0, 0), (0, 8), (0, 16)]), (9, [(0, 0), (0, 9), None]), (17, [None] * 3), (-1, [None] * 3)],
)
def test_how_far_apart(apart: int, wanted: list[Any]) -> None:
    x, weight, out = numbers(1, 32, 50), numbers(3, 32, 32), numbers(1, 32, 50)
    assert shared(taps, x=x, weight=weight, out=out, first=0, APART=apart, BW=32) == wanted


@pytest.mark.parametrize("block", [32, 48, 64])
def test_rows_of_a_window_are_an_odd_number_of_cache_lines(block: int) -> None:
    """So that they lie in all sets of a cache."""
    arrays = {"x": numbers(1, 32, 200), "weight": numbers(3, 32, 32), "out": numbers(1, 32, 200)}
    items = walk(
        lowered(Launch(taps, (1, 1), {**arrays, "first": 0, "APART": 1, "BW": block}, {}), WIDE).schedule.items
    )
    (buffer,) = {item.conv_window.buffer for item in items if isinstance(item, Gemm) and item.conv_window is not None}
    assert buffer.sizes[-1] >= block + 16 and buffer.pitch * 4 // 64 % 2 == 1


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize(("width", "block"), [(7, 32), (56, 64), (57, 32), (100, 48), (33, 17), (512, 64), (512, 50)])
@pytest.mark.parametrize("apart", [1, 7, -1])
def test_rows_shifted(width: int, block: int, apart: int, level: str) -> None:
    """From before the first column, where nothing exists, to behind the last."""
    kernel = pto.jit(level=level)(taps.function)
    with Fences() as fences:
        x, weight = fences.around(numbers(2, 19, width)), fences.around(numbers(3, 33, 19))
        wide, beyond = np.pad(x, ((0, 0), (0, 0), (3 * width, 3 * width))), -(-width // block) + 1
        for first in (-width - 20, -width, -9, -1, 0, 1, 30, width - 1, width, width + 40):
            out = fences.around(np.full((2, 33, width), 9, np.float32))
            kernel[2, beyond](x, weight, out, first, APART=apart, BW=block)
            starts = [min(max(3 * width + first + tap * apart, 0), 6 * width) for tap in range(3)]
            parts = [np.einsum("oc,ncw->now", weight[tap], wide[:, :, s : s + width]) for tap, s in enumerate(starts)]
            np.testing.assert_array_equal(out, sum(parts), err_msg=f"from {first}")


@pytest.mark.parametrize(("width", "channels"), [(50, 32), (41, 17), (96, 5), (512, 17)])
def test_other_arrays_and_places(width: int, channels: int, level: str) -> None:
    with Fences() as fences:
        x, weight = fences.around(numbers(2, channels, width)), fences.around(numbers(6, 40, channels))
        out = fences.around(np.zeros((40, width), np.float32))
        pto.jit(level=level)(halves.function)[-(-width // 32),](x, weight, out, BW=32)
        wanted = np.zeros_like(out)
        pto.interpret(halves)[-(-width // 32),](x, weight, wanted, BW=32)
        np.testing.assert_array_equal(out, wanted)


def test_places_without_a_sign(level: str) -> None:
    x, weight, out, wanted = numbers(16, 50), numbers(2, 32, 16), *np.zeros((2, 32, 50), np.float32)
    pto.jit(level=level)(unsigned.function)[2,](x, weight, out, BW=32)
    pto.interpret(unsigned)[2,](x, weight, wanted, BW=32)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("width", [50, 512])
@pytest.mark.parametrize("first", [-40, -9, -1, 0, 3, 11, 30])
def test_rows_that_exist_in_part(first: int, width: int, level: str) -> None:
    with Fences() as fences:
        x, weight, out = (fences.around(a) for a in (numbers(19, width), numbers(3, 64, 16), numbers(64, width)))
        wanted = out.copy()
        pto.jit(level=level)(some.function)[-(-width // 48),](x, weight, out, first, K=16, BW=48)
        pto.interpret(some)[-(-width // 48),](x, weight, wanted, first, K=16, BW=48)
        np.testing.assert_array_equal(out, wanted)
    assert shared(some, x=x, weight=weight, out=out, first=0, K=16, BW=48) == [(0, 0), (0, 1), (0, 2)]


@pto.jit
def ranks(x, row, weight, out, BW: pto.constexpr):
    """Columns of a vector and of a matrix: they lie in no common window."""
    w = pto.program_id(0) * BW
    acc = pto.dot(weight[0, :, :], x[0:1, w : w + BW])
    acc = pto.dot(weight[1, :, :], row[w : w + BW][None, :], acc)
    out[:, w : w + BW] = pto.dot(weight[2, :, :], x[0:1, w + 1 : w + 1 + BW], acc)


def test_arrays_of_other_ranks_share_no_window() -> None:
    rng = np.random.default_rng(2)
    x, row = rng.standard_normal((2, 70), np.float32), rng.standard_normal(70, np.float32)
    weight, out = rng.standard_normal((3, 6, 1), np.float32), np.zeros((6, 70), np.float32)
    ranks[3](x, row, weight, out, BW=32)
    moved = np.append(x[0, 1:], np.float32(0))
    np.testing.assert_allclose(out, weight[0] * x[0] + weight[1] * row + weight[2] * moved, rtol=1e-5, atol=1e-5)
