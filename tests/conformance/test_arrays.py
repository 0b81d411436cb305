"""Arrays of unusual layouts: empty, overlapping, misaligned, larger than 2**31 elements."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest

import pypto as pto
from tests.conformance import kernels, networks
from tests.conformance.flow_cases import far_away
from tests.conformance.running import at_level

VIEWS = {
    "plain": np.s_[:37, :53],
    "every other": np.s_[: 2 * 37 : 2, : 2 * 53 : 2],
    "backwards": np.s_[36::-1, 52::-1],
    "steps down": np.s_[2 * 36 :: -2, 3 * 52 :: -3],
    "offset": np.s_[1:38, 3:56],
}


def view(name: str, dtype: Any) -> np.ndarray[Any, Any]:
    memory = np.arange(80 * 160).reshape(80, 160) % 113
    return memory.astype(dtype)[VIEWS[name]]


@pytest.mark.parametrize("target", VIEWS)
@pytest.mark.parametrize("source", VIEWS)
def test_layouts(source: str, target: str) -> None:
    for kernel in (networks.transpose, pto.interpret(networks.transpose)):
        x, out = view(source, np.float32), view(target, np.float32)
        expected = out.base.copy()
        expected[VIEWS[target]] = x
        kernel[4, 4](x, out.T, 10, 16)
        np.testing.assert_array_equal(out.base, expected)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_arrays(shape: tuple[int, ...]) -> None:
    @pto.jit
    def fill(x, out):
        if pto.program_id(0) < x.shape[0]:
            out[0] = x.shape[0] * 10 + x.ndim

    x, out = np.zeros(shape, np.float32), np.zeros(1, np.int32)
    fill[1](x, out)
    assert out[0] == (shape[0] * 10 + len(shape) if shape[0] else 0)


@pytest.mark.parametrize("grid", [0, (0,), (3, 0), (2, 0, 2)])
def test_empty_grids(grid: Any) -> None:
    x, out = np.ones(5, np.float32), np.zeros(5, np.float32)
    for kernel in (kernels.add_native, pto.interpret(kernels.add_native)):
        kernel[grid](x, x, out, 5)
        assert not out.any()


def test_slices_of_empty_arrays_touch_nothing() -> None:
    x, out = np.zeros(0, np.float32), np.zeros(0, np.float32)
    for kernel in (kernels.add_native, pto.interpret(kernels.add_native)):
        kernel[3](x, x, out, 8)
    assert out.shape == (0,)


@pytest.mark.parametrize("offset", [1, 2, 3, 7, 13, 31, 33, 63])
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64])
def test_base_pointers_of_any_alignment(offset: int, dtype: Any) -> None:
    """Arrays that begin at any byte."""
    size = 301 * np.dtype(dtype).itemsize
    x, out = (np.zeros(size + 64, np.uint8)[at : at + size].view(dtype) for at in (offset, 64 - offset))
    x[:] = np.arange(301) % 100
    kernels.add_native[4](x, x, out, 90)
    np.testing.assert_array_equal(out, x + x)


def test_arrays_of_rank_zero_and_one_element() -> None:
    @pto.jit
    def scalars(x, y, out):
        pto.store(out + 0, pto.load(x) + y[0, 0, 0])

    out = np.zeros((), np.float32)
    for kernel in (scalars, pto.interpret(scalars)):
        kernel[1](np.array(2.5, np.float32), np.full((1, 1, 1), 4, np.float32), out)
        assert out == 6.5


def test_slices_of_rank_zero(level: str) -> None:
    @pto.jit
    def scalars(x, out):
        out[()] = x[()] * 2
        out[...] += x[...]
        pto.store(out, (), pto.load(x, (), ()) + out[()])

    for kernel in (at_level(scalars, level), pto.interpret(scalars)):
        out = np.zeros((), np.float32)
        kernel[1](np.array(2.5, np.float32), out)
        assert out == 10


@pytest.mark.parametrize("row", [0, 2**20 + 1, 2**31 // 1500, 2**31 // 1500 + 1])
def test_more_than_2_to_the_31_elements(row: int, level: str) -> None:
    """Anonymous memory of 2.3 GB, of which a few pages are touched. The interpreter would need a copy of its size."""
    array = np.frombuffer(mmap.mmap(-1, 1500 * (2**31 // 1500 + 100_000)), np.int8).reshape(-1, 1500)
    launch = far_away(array, row)
    at_level(launch.kernel, level)[launch.grid](**launch.arguments)
    np.testing.assert_array_equal(launch.arguments["out"], launch.expected["out"])
    assert array[row, :2].tolist() == [9, 1]


@pytest.mark.parametrize("row", [5, 2**32 + 5])
def test_strides_of_0_reach_far(row: int) -> None:
    x = np.lib.stride_tricks.as_strided(np.arange(7, dtype=np.int32), (2**33, 7), (0, 4))

    @pto.jit
    def pick(x, out, row):
        out[0, :] = x[row, :]
        out[1, :] = x[x.shape[0] - 1, :]
        out[2, :] = pto.load(x + row * x.strides[0] + pto.arange(0, 7))

    for kernel in (pick, pto.interpret(pick)):
        out = np.zeros((3, 7), np.int32)
        kernel[1](x, out, row)
        np.testing.assert_array_equal(out, np.tile(np.arange(7), (3, 1)))
