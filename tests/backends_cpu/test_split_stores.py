"""Stores in pieces: what is written is the same, and LLVM gets halves of registers where a machine wants them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.codegen.function import lower
from pypto.backends.cpu.target import describe
from pypto.passes import optimize
from tests.backends_cpu.lowering import fixed_target

WIDE = replace(fixed_target(), vector_bytes=64, registers=32)


@pto.jit
def doubled(x, y):
    i = pto.program_id(0) * 1024
    y[i : i + 1024] = x[i : i + 1024] * 2


@pytest.mark.parametrize("store_bytes", [32, 64])
def test_registers_are_stored_whole_or_in_halves(store_bytes: int) -> None:
    x = np.zeros(4096, np.float32)
    function = optimize(doubled.compile(x, x.copy()).program.function)
    text = lower(function, replace(WIDE, store_bytes=store_bytes)).text
    assert min(int(n) for n in re.findall(r"store <(\d+) x float> .*align 4$", text, re.MULTILINE)) == store_bytes // 4


def test_machines_that_have_no_advantage_of_halves_store_registers() -> None:
    present = {"avx512f", "avx512bw", "fma"}
    assert describe("znver4", "", "host", "x86_64-linux", present).store_bytes == 64
    assert describe("emeraldrapids", "", "host", "x86_64-linux", present).store_bytes == 32
    assert describe("x86-64-v3", "", "host", "x86_64-linux", {"avx2"}).store_bytes == 32


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_])
@pytest.mark.parametrize("shift", range(0, 64, 8))
def test_every_alignment_is_stored_alike(dtype: type, shift: int) -> None:
    @pto.jit
    def copied(x, y):
        y[:] = x[:]

    room = np.zeros(3000 * np.dtype(dtype).itemsize + 128, np.uint8)
    begin = -room.ctypes.data % 64 + shift
    out = room[begin : begin + 1001 * np.dtype(dtype).itemsize].view(dtype)
    x = np.random.default_rng(shift).integers(0, 2, 1001).astype(dtype)
    copied[1](x, out)
    np.testing.assert_array_equal(out, x)
    assert not room[:begin].any() and not room[begin + out.nbytes :].any()
