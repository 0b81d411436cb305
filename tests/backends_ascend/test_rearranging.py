"""Sorting, slicing, turning and running sums on the vector cores: by vectors, where there are some."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.pipeline import lowered
from pypto.backends.ascend.target import ascend_target
from pypto.debug.simulate import function_of
from tests.sim.device import needs_compiler

B2 = ascend_target("ascend910b2")


@pto.jit
def sorted_rows(x, out, R: pto.constexpr, DESCENDING: pto.constexpr = False):
    row = pto.program_id(0) * R
    out[row : row + R, :] = pto.sort(x[row : row + R, :], descending=DESCENDING)


def numbers(dtype: Any, *shape: int) -> Any:
    rng = np.random.default_rng(shape[-1])
    if np.issubdtype(dtype, np.integer):
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True) // 3 * 3
    x = rng.normal(size=shape).astype(dtype)
    x[0, : shape[1] // 3] = rng.choice([np.inf, -np.inf, 0.0, -0.0, 1.0], shape[1] // 3)
    return x


@needs_compiler
@pytest.mark.parametrize(("dtype", "size", "rows", "descending"), [
    (np.int32, 40, 3, False), (np.int32, 64, 1, True), (np.float32, 1, 3, False), (np.float32, 3, 4, True),
    (np.float32, 100, 2, True), (np.float32, 1000, 1, False), (np.float16, 65, 2, False), (np.int8, 33, 2, True),
])  # fmt: skip
def test_rows_in_order(dtype: Any, size: int, rows: int, descending: bool) -> None:
    x = numbers(dtype, 2 * rows, size)
    out = np.zeros_like(x)
    with pto.device("ascend-sim"):
        sorted_rows[2](x, out, R=rows, DESCENDING=descending)
    np.testing.assert_array_equal(out, np.sort(x, axis=1)[:, :: -1 if descending else 1])


def text_of(x: Any) -> str:
    values = sorted_rows.signature.bind((x, x.copy()), {"R": 1})
    return lowered(function_of(sorted_rows, values), B2)[1]


def test_numbers_of_32_bits_are_exchanged_by_vectors() -> None:
    text = text_of(np.zeros((4, 1000), np.float32))
    assert text.count("Gather(partners, keys") == 1  # in loops, whatever the length
    assert "GetValue" not in text


def test_a_network_by_vectors_is_many_times_as_fast() -> None:
    """55 exchanges of 1024 numbers: the scalar unit takes some 512 times 30 cycles for each, vectors less than 600."""
    x = np.zeros((48, 1024), np.float32)
    found = pto.simulate(sorted_rows)[48](x, x.copy(), R=1)
    assert found.seconds < 55 * 600 / 1.8e9 + 6e-6


@pto.jit
def pieces(x, out, tail, middle):
    t = x[:, :] * 2
    out[:, :] = t[1:4, 8:27] + 1
    tail[:, :] = t[:, 24:30]
    middle[:, :] = t[2:3, 3:9]


@needs_compiler
def test_slices_at_blocks_and_elsewhere() -> None:
    x = numbers(np.float32, 5, 30)
    x[np.isinf(x)] = -0.0
    out, tail, middle = (np.zeros(shape, np.float32) for shape in ((3, 19), (5, 6), (1, 6)))
    with pto.device("ascend-sim"):
        pieces[1](x, out, tail, middle)
    np.testing.assert_array_equal(out, x[1:4, 8:27] * 2 + 1)
    np.testing.assert_array_equal(tail.view(np.int32), (x[:, 24:30] * 2).view(np.int32))
    np.testing.assert_array_equal(middle, x[2:3, 3:9] * 2)


@pto.jit
def alone(x, j, out):
    """Elements of a column, which lies as a row does, and of a row."""
    column, row = x[:, j : j + 1] * 2, x[1:2, :] * 2
    for k in pto.static_range(5):
        out[k] = column[k, 0] + 1
    out[5] = row[0, 8] + row[0, 7]


@needs_compiler
def test_slices_of_one_element() -> None:
    x, out = numbers(np.int32, 5, 12), np.zeros(6, np.int32)
    with pto.device("ascend-sim"):
        alone[1](x, 3, out)
    np.testing.assert_array_equal(out, [*(x[:, 3] * 2 + 1), np.sum(x[1, 7:9] * 2, dtype=np.int32)])


@pto.jit
def turned(x, out, every, cube):
    t = x[:, :]
    out[:, :] = t.T + t.T
    every[:, :] = t.T[0:8, 3:5]
    cube[:, :, :] = pto.permute(pto.reshape(t, (x.shape[0], 4, x.shape[1] // 4)), (2, 0, 1))


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8])
def test_transposes(dtype: Any) -> None:
    x = (np.arange(5 * 36).reshape(5, 36) % 60).astype(dtype)
    out, every, cube = np.zeros((36, 5), dtype), np.zeros((8, 2), dtype), np.zeros((9, 5, 4), dtype)
    with pto.device("ascend-sim"):
        turned[1](x, out, every, cube)
    np.testing.assert_array_equal(out, 2 * x.T)
    np.testing.assert_array_equal(every, x.T[:8, 3:5])
    np.testing.assert_array_equal(cube, x.reshape(5, 4, 9).transpose(2, 0, 1))


def test_a_transpose_is_a_gather_for_each_row() -> None:
    values = turned.signature.bind((np.zeros((16, 36), np.float32), np.zeros((36, 16), np.float32),
                                    np.zeros((8, 2), np.float32), np.zeros((9, 16, 4), np.float32)), {})  # fmt: skip
    text = lowered(function_of(turned, values), B2)[1]
    assert "GetValue" not in text
    loop = text[text.index("Gather(") :].split("}", 1)[0]
    assert "PipeBarrier" not in loop  # rows do not wait for each other


@pto.jit
def running(x, out, back, products):
    t = x[:, :]
    out[:, :] = pto.cumsum(t, 1)
    back[:, :] = pto.cumsum(t, 1, reverse=True)
    products[:, :] = pto.cumprod(t, 1)


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8])
def test_running_results_along_rows(dtype: Any) -> None:
    x = np.random.default_rng(0).choice([-2, -1, 1, 2], (3, 77)).astype(dtype)
    x[:, 4:] = np.sign(x[:, 4:])  # so that products stay small
    out, back, products = (np.zeros_like(x) for _ in range(3))
    with pto.device("ascend-sim"):
        running[1](x, out, back, products)
    np.testing.assert_array_equal(out, np.cumsum(x, 1, dtype))
    np.testing.assert_array_equal(back, np.cumsum(x[:, ::-1], 1, dtype)[:, ::-1])
    np.testing.assert_array_equal(products, np.cumprod(x, 1, dtype))


def test_running_sums_take_a_step_for_each_doubling() -> None:
    x = [np.zeros((4, 1000), np.float32) for _ in range(4)]
    text = lowered(function_of(running, running.signature.bind(tuple(x), {})), B2)[1]
    assert "GetValue" not in text
    assert text.count("Gather(") == 30


@pto.jit
def chosen(x, where, below, along, out):
    t = x[:, :]
    along[:, :] = pto.gather(t, where[:, :], 1)
    out[:, :] = pto.gather(t, below[:, :], 0)


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8])
def test_elements_at_indices(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-60, 60, (5, 37)).astype(dtype)
    where = rng.integers(0, 37, (5, 20)).astype(np.int32)
    below = rng.integers(0, 5, (3, 37)).astype(np.int32)
    along, out = np.zeros((5, 20), dtype), np.zeros((3, 37), dtype)
    with pto.device("ascend-sim"):
        chosen[1](x, where, below, along, out)
    np.testing.assert_array_equal(along, np.take_along_axis(x, where, 1))
    np.testing.assert_array_equal(out, np.take_along_axis(x, below, 0))


def test_elements_at_indices_come_row_by_row() -> None:
    arrays = np.zeros((5, 37), np.float32), np.zeros((5, 20), np.int32), np.zeros((3, 37), np.int32)
    values = chosen.signature.bind((*arrays, np.zeros((5, 20), np.float32), np.zeros((3, 37), np.float32)), {})
    text = lowered(function_of(chosen, values), B2)[1]
    assert "GetValue" not in text
    assert text.count("Gather(") == 2
