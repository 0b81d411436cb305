"""Reductions over the next program's row: the same bits, whoever runs which programs."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pypto as pto
from pypto.backends.cpu.codegen.function import FunctionEmitter
from pypto.backends.cpu.pipeline import lower_to_loops
from pypto.backends.cpu.runtime.engine import Engine
from pypto.backends.cpu.runtime.pool import KERNEL
from pypto.backends.cpu.target import host_target
from pypto.backends.llvm.writer import Writer
from tests.backends_cpu.lowering import fixed_target, lowered, optimized
from tests.backends_cpu.pages import Pages
from tests.conformance.cases import Launch

LEVELS = ("x86-64-v3", "host")


@pto.jit
def softmax(x, y):
    row = pto.program_id(0)
    t = x[row, :]
    e = pto.exp(t - pto.max(t))
    y[row, :] = e / pto.sum(e)


@pto.jit
def loss(x, y):
    row = pto.program_id(0)
    t = x[row, :]
    m = pto.max(t)
    y[row, 0] = pto.log(pto.sum(pto.exp(t - m))) + m


@pto.jit
def spread(x, y):
    """Two results of the first loop as they are: the sum shows the order of addition, the maximum of NaN its care."""
    row = pto.program_id(0)
    t = x[row, :]
    most, total = pto.max(t), pto.sum(t)
    y[row, 0] = pto.sum(pto.exp(t - most) + total)
    y[row, 1] = most
    y[row, 2] = total


@pto.jit
def plane(x, y):
    """A grid of two axes, with programs beyond the rows."""
    row = pto.program_id(1) * 4 + pto.program_id(0)
    t = x[row, :]
    y[row, 0] = pto.sum(pto.exp(t - pto.max(t)))


@pto.jit
def back(x, y):
    """What is read is written."""
    row = pto.program_id(0)
    t = x[row, :]
    x[row, :] = pto.exp(t - pto.max(t)) + y[row, 0]


@pto.jit
def same(x, y):
    """All programs reduce the same row."""
    t = x[0, :]
    y[pto.program_id(0), 0] = pto.sum(pto.exp(t - pto.max(t)))


@pto.jit
def picked(x, y):
    """The next program's row is not known before it runs."""
    row = pto.cast(y[pto.program_id(0), 1], pto.int32)
    t = x[row, :]
    y[pto.program_id(0), 0] = pto.sum(pto.exp(t - pto.max(t)))


def arguments(rows: int, columns: int, seed: int = 0) -> dict[str, Any]:
    x = (np.random.default_rng(seed).random((rows, columns), np.float32) - 0.5) * 20
    return {"x": x, "y": np.zeros_like(x)}


def is_early(kernel: Any, columns: int = 200) -> bool:
    function, target = optimized(Launch(kernel, 4, arguments(4, columns), {})), fixed_target()
    schedule = lower_to_loops(function, target)
    return FunctionEmitter(function, schedule, target, Writer(), {}).pipelined is not None


@pytest.mark.parametrize("kernel", [softmax, loss, spread, plane])
def test_what_is_reduced_early(kernel: Any) -> None:
    assert is_early(kernel)


@pytest.mark.parametrize("kernel", [back, same, picked])
def test_what_is_not(kernel: Any) -> None:
    assert not is_early(kernel)


def test_what_a_program_keeps_has_to_find_room() -> None:
    assert not is_early(softmax, 4096)
    assert is_early(loss, 4096)


class Ranges:
    """A kernel's code, run on ranges of programs."""

    def __init__(self, kernel: Any, grid: tuple[int, int], given: dict[str, Any], level: str) -> None:
        target = host_target(level)
        low, engine = lowered(Launch(kernel, grid[0], given, {}), target), Engine(target)
        self.loaded = engine.load(engine.compile(low.text), low.name)
        self.scratch = np.zeros(low.scratch_bytes + 64, np.uint8)
        slots = [*grid, 1, self.scratch.ctypes.data + -self.scratch.ctypes.data % 64, low.scratch_bytes]
        for slot in low.abi:
            x = given[slot.arg]
            facts = {"ptr": x.ctypes.data, "shape": x.shape[slot.dim], "stride": x.strides[slot.dim] // 4}
            slots.append(facts[slot.kind])
        self.block = (ctypes.c_int64 * len(slots))(*slots)

    def run(self, first: int, last: int) -> None:
        KERNEL(self.loaded.address)(first, last, 0, ctypes.addressof(self.block))


ODD = st.tuples(st.integers(0, 9), st.sampled_from([np.nan, np.inf, -np.inf, -0.0]))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kernel", [softmax, loss, spread, plane])
@given(
    cuts=st.sets(st.integers(1, 11), max_size=4),
    columns=st.sampled_from([5, 16, 100, 128, 333]),
    odd=st.lists(ODD, max_size=3),
)
@example(cuts=set(), columns=333, odd=[(4, np.nan)])
@settings(max_examples=6, deadline=None)
def test_ranges_of_programs_give_the_same_bits(kernel: Any, level: str, cuts: set[int], columns: int, odd: Any) -> None:
    """Rows of NaN and of infinities among them, and for `plane` a grid that goes beyond the rows."""
    given = arguments(10 if kernel is plane else 12, columns)
    for row, number in odd:
        given["x"][row] = number
    code = Ranges(kernel, (4, 3) if kernel is plane else (12, 1), given, level)
    for program in range(12):
        code.run(program, program + 1)
    one_by_one = given["y"].copy()
    given["y"][...] = 0
    for first, last in itertools.pairwise([0, *sorted(cuts), 12]):
        code.run(first, last)
    np.testing.assert_array_equal(given["y"].view(np.int32), one_by_one.view(np.int32))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kernel", [softmax, loss, plane])
@pytest.mark.parametrize("at_end", [False, True])
def test_nothing_beyond_the_rows_is_touched(kernel: Any, level: str, at_end: bool) -> None:
    """Pages that nobody may touch lie on either side, and `plane` has programs beyond the rows."""
    pages, given = Pages(), arguments(10, 77)
    expected = {name: array.copy() for name, array in given.items()}
    guarded = {name: pages.array(array, at_end) for name, array in given.items()}
    grid = (4, 3) if kernel is plane else (10, 1)
    Ranges(kernel, grid, expected, level).run(0, grid[0] * grid[1])
    Ranges(kernel, grid, guarded, level).run(0, grid[0] * grid[1])
    np.testing.assert_array_equal(guarded["y"], expected["y"])


@pytest.mark.parametrize("kernel", [softmax, loss])
def test_in_place(kernel: Any) -> None:
    x = arguments(9, 128)["x"]
    expected = np.zeros_like(x)
    kernel[(9,)](x, expected)
    if kernel is loss:
        expected[:, 1:] = x[:, 1:]
    kernel[(9,)](x, x)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("kernel", [softmax, loss, plane])
def test_against_numpy(kernel: Any) -> None:
    given = arguments(12, 300)
    x, y = given["x"], given["y"]
    kernel[(4, 3) if kernel is plane else (12,)](x, y)
    most = x.max(1, keepdims=True).astype(np.float64)
    e = np.exp(x - most)
    total = e.sum(1, keepdims=True)
    expected = {softmax: e / total, loss: np.log(total) + most, plane: total}[kernel]
    np.testing.assert_allclose(y[:, : expected.shape[1]], expected, rtol=2e-6)
