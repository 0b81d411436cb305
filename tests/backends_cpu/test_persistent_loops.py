"""Programs that stay and take row after row: what they ask for ahead, and what they store past the caches."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pypto as pto
from pypto.backends.cpu.codegen.prefetch import address_step
from pypto.ops.memory import Access
from tests.backends_cpu.lowering import fixed_target, lowered, optimized
from tests.backends_cpu.test_nontemporal import PROGRAMS, at, launch_streaming, streaming_target
from tests.conformance.cases import Launch


@pto.jit
def softmax(x, out):
    """Triton's tutorial, with slices."""
    for row in range(pto.program_id(0), x.shape[0], pto.num_programs(0)):
        t = x[row, :]
        e = pto.exp(t - pto.max(t))
        out[row, :] = e / pto.sum(e)


@pto.jit
def carried(x, out):
    """Which row comes next is carried; nobody knows it."""
    row = pto.program_id(0)
    for _ in range(0, x.shape[0], pto.num_programs(0)):
        if row < x.shape[0]:
            out[row, :] = x[row, :] * 2
        row += pto.num_programs(0)


@pto.jit
def last(x, out):
    """A loop that stores in one place again and again."""
    for row in range(pto.program_id(0), x.shape[0], pto.num_programs(0)):
        t = x[row, :]
        out[pto.program_id(0), :] = t / pto.sum(t)


@pto.jit
def product(x, out):
    """A loop whose time is a product's."""
    for row in range(0, x.shape[0] - 15, 16):
        out[row : row + 16, :] = pto.dot(x[row : row + 16, :], x[:, :] * 2)


def launch(kernel: pto.Kernel, rows: int = 64, columns: int = 1024) -> Launch:
    x = np.ones((rows, columns), np.float32)
    return Launch(kernel, PROGRAMS, {"x": x, "out": np.zeros_like(x)}, {})


@pytest.mark.parametrize(("kernel", "asks"), [(softmax, True), (last, True), (carried, False)])
def test_rows_of_the_next_turn_are_asked_for(kernel: pto.Kernel, asks: bool) -> None:
    assert ("@llvm.prefetch" in lowered(launch(kernel)).text) == asks


def test_how_far_the_next_turn_s_row_is() -> None:
    """The loop's step times the stride of a row."""
    function = optimized(launch(softmax))
    (loop,) = (op for op in function.walk() if op.name == "for")
    (load,) = (Access.of(op) for op in loop.regions[0].ops if op.name == "tile_load")
    assert address_step(load, loop) == {(loop.operands[2], load.strides[0]): 1}
    assert address_step(load) is None or load.offsets[0] is not loop.regions[0].args[0]


@pytest.mark.parametrize(("kernel", "streams"), [(softmax, True), (last, False)])
def test_what_a_loop_stores_past_the_caches(kernel: pto.Kernel, streams: bool) -> None:
    assert ("!nontemporal" in lowered(launch(kernel), streaming_target("x86-64-v3")).text) == streams


def test_turns_of_all_programs_decide() -> None:
    """The condition has the number of turns in it: a division of the rows by the step. Products take their own way."""
    assert "sdiv i64" in lowered(launch(softmax), fixed_target()).text
    assert "sdiv i64" not in lowered(launch(product, 64, 64), fixed_target()).text


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "host"])
@given(phase=st.integers(0, 15), rows=st.integers(0, 9), pieces=st.integers(0, 20))
@settings(max_examples=6, deadline=None)
@pytest.mark.skipif(sys.platform != "linux", reason="wants the levels of x86-64")
def test_rows_that_begin_anywhere(level: str, phase: int, rows: int, pieces: int) -> None:
    columns = 512 + 4 * pieces
    x = np.random.default_rng(columns).random((rows, columns), np.float32)
    out, around = at(phase * 4, x.shape, np.float32)
    out[...] = 0
    before = around.copy()
    launch_streaming(Launch(softmax, PROGRAMS, {"x": x, "out": out}, {}), level)
    e = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=1e-5)
    out[...] = 0
    np.testing.assert_array_equal(around, before)
