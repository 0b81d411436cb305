"""Stores past the caches: wherever rows begin, all of them are written, and nothing beside them."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pypto as pto
from pypto.backends.cpu.codegen.nontemporal import arrays_read, moved_bytes
from pypto.backends.cpu.runtime.engine import Engine
from pypto.backends.cpu.runtime.pool import KERNEL
from pypto.backends.cpu.target import CpuTarget, host_target
from pypto.ops.memory import Access
from tests.backends_cpu.lowering import lowered, optimized
from tests.conformance.cases import Array, Launch
from tests.conformance.running import at_level

PROGRAMS, PAGE = 3, 4096


@pto.jit
def scaled(x, out, more):
    row = pto.program_id(0)
    out[row, :] = pto.cast(x[row, :] * 2, out.dtype)


@pto.jit
def softmax(x, out, more):
    row = pto.program_id(0)
    e = pto.exp(x[row, :] - pto.max(x[row, :]))
    out[row, :] = pto.cast(e / pto.sum(e) * 100, out.dtype)


@pto.jit
def blocks(x, out, more):
    """Two rows of each program, column by column of the grid."""
    i = pto.program_id(0) * 2
    out[i : i + 2, :] = pto.cast(x[i : i + 2, :] + 1, out.dtype)


@pto.jit
def two(x, out, more):
    """Two stores in one loop."""
    row = pto.program_id(0)
    t = x[row, :]
    out[row, :] = pto.cast(t, out.dtype)
    more[row, :] = pto.cast(-t, out.dtype)


KERNELS = {"scaled": scaled, "softmax": softmax, "blocks": blocks, "two": two}
DTYPES = (np.float32, np.float64, np.float16, np.int8)


def streaming_target(level: str) -> CpuTarget:
    """A machine whose caches hold nothing."""
    return replace(host_target(level), caches=(0, 0, 0))


def at(phase: int, shape: tuple[int, int], dtype: Any) -> tuple[Array, Array]:
    """An array that begins at an address of that phase, and all bytes around it."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    around = np.full(count + 2 * PAGE, 85, np.uint8)
    start = -around.ctypes.data % 64 + 64 + phase
    return around[start : start + count].view(dtype).reshape(shape), around


def launch_streaming(launch: Launch, level: str) -> None:
    """Run a kernel's code for a machine without caches."""
    target = streaming_target(level)
    low, engine = lowered(launch, target), Engine(target)
    loaded, scratch = engine.load(engine.compile(low.text), low.name), np.zeros(low.scratch_bytes + 64, np.uint8)
    slots = [launch.grid, 1, 1, scratch.ctypes.data + -scratch.ctypes.data % 64, low.scratch_bytes]
    for slot in low.abi:
        x = launch.arguments[slot.arg]
        slots.append({
            "ptr": x.ctypes.data, "shape": x.shape[slot.dim], "stride": x.strides[slot.dim] // x.itemsize,
        }[slot.kind])  # fmt: skip
    block = (ctypes.c_int64 * len(slots))(*slots)
    KERNEL(loaded.address)(0, launch.grid, 0, ctypes.addressof(block))


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "host"])
@pytest.mark.parametrize("name", KERNELS)
@given(phase=st.integers(0, 15), pieces=st.integers(0, 20), dtype=st.sampled_from(DTYPES))
@settings(max_examples=5, deadline=None)
@pytest.mark.skipif(sys.platform != "linux", reason="wants the levels of x86-64")
def test_rows_that_begin_anywhere(name: str, level: str, phase: int, pieces: int, dtype: Any) -> None:
    """Rows of 2048 bytes and a few pieces of 16, at any multiple of 4 bytes: the plain code gives the same."""
    columns = (2048 + 16 * pieces) // np.dtype(dtype).itemsize
    x = (np.random.default_rng(columns).random((2 * PROGRAMS, columns), np.float32) - 0.5) * 20
    out, around = at(phase * 4 if dtype == np.float32 else phase // 2 * 8, x.shape, dtype)
    more, out[...] = np.zeros_like(out), 0
    expected, before = np.zeros_like(out), around.copy()
    at_level(KERNELS[name], level)[(PROGRAMS,)](x, expected, np.zeros_like(out))
    launch_streaming(Launch(KERNELS[name], PROGRAMS, {"x": x, "out": out, "more": more}, {}), level)
    np.testing.assert_array_equal(out, expected)
    out[...] = 0
    np.testing.assert_array_equal(around, before)


def stores_of(name: str, columns: int, level: str) -> set[str]:
    """The alignments of the stores past the caches."""
    x = np.zeros((2 * PROGRAMS, columns), np.float32)
    launch = Launch(KERNELS[name], PROGRAMS, {"x": x, "out": x.copy(), "more": x.copy()}, {})
    text = lowered(launch, streaming_target(level)).text
    lines = [line.split(", ") for line in text.splitlines() if "!nontemporal" in line]
    return {next(part for part in line if part.startswith("align")) for line in lines}


def test_stores_past_the_caches_are_aligned_as_arrays_are() -> None:
    for name in KERNELS:
        assert stores_of(name, 1024, "host") == {"align 16"}
    assert stores_of("scaled", 1000, "host") == {"align 16"}
    assert stores_of("scaled", 510, "host") == set()
    assert stores_of("scaled", 256, "host") == {"align 16"}
    assert stores_of("scaled", 100, "host") == set()


@pto.jit
def filled(x, out, more):
    out[pto.program_id(0), :] = pto.cast(x[0, :], out.dtype)


@pto.jit
def neighbours(x, out, more):
    """An array that counts once, though a program loads two rows of it."""
    row = pto.program_id(0)
    out[row, :] = pto.cast(x[row, :] + x[row + 1, :], out.dtype)


@pto.jit
def product(x, out, more):
    row = pto.program_id(0) * 16
    out[row : row + 16, :] = pto.dot(x[row : row + 16, :], more[:, :])


@pytest.mark.parametrize(
    ("kernel", "rows"), [(scaled, 2), (softmax, 2), (filled, 1), (neighbours, 2), (two, 2), (product, 16)]
)
def test_what_a_program_moves(kernel: Any, rows: int) -> None:
    """Rows of 4096 bytes: what is stored, and what others load other parts of; for products, what is stored."""
    x = np.zeros((32, 1024), np.float32)
    function = optimized(Launch(kernel, 2, {"x": x, "out": x.copy(), "more": np.zeros((1024, 1024), np.float32)}, {}))
    stores = [Access.of(op) for op in function.walk() if op.name == "tile_store"]
    assert {moved_bytes(access, arrays_read(function)[1]) for access in stores} == {rows * 4096}


def test_narrow_elements_count_alone() -> None:
    x = np.zeros((32, 1024), np.float32)
    narrow = np.zeros(x.shape, np.int8)
    function = optimized(Launch(scaled, 2, {"x": x, "out": narrow, "more": narrow}, {}))
    (store,) = [Access.of(op) for op in function.walk() if op.name == "tile_store"]
    assert moved_bytes(store, arrays_read(function)[1]) == 1024
