"""Reduction splitting: rows that do not fit UB are reduced in parts, in one pass or several."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
from pypto import interp
from pypto.backends.ascend.pipeline import lower_kernel
from pypto.backends.ascend.target import ascend_target
from pypto.backends.ascend.tile.reduction_levels import ReducedDimension
from pypto.backends.ascend.tile.reduction_splitting import part_sizes, split_reductions
from pypto.errors.ascend import NoRoomOnAscend
from pypto.ir.core import Function
from pypto.ir.parser import parse_function
from pypto.ir.printer import print_function
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.passes.analysis.dimensions import dimension_classes
from pypto.passes.cse import cse
from pypto.runtime.arrays import array_info
from tests.backends_ascend.simulated import function_of

Array = np.ndarray[Any, Any]
f16, f32 = np.dtype(np.float16), np.dtype(np.float32)
bf16 = np.dtype(ml_dtypes.bfloat16)

# --- the pass: text in, text out ------------------------------------------------------------------------------------

SHIFTED = """
kernel @f(%x: array<f16, 1>, %y: array<f16, 1>) attributes {noalias = true} {
  %p: ptr<f16> = array_ptr %x
  %q: ptr<f16> = array_ptr %y
  %0: i64 = constant {value = 0}
  %1: i64 = constant {value = 1}
  %n: i64 = constant {value = 100}
  %t: tile<100xf16> = tile_load %p, %0, %1, %n {masked = false, shape = [100]}
  %best: f16 = max %t {axes = [0], keep_dims = false}
  %all: tile<100xf16> = broadcast_to %best {shape = [100]}
  %d: tile<100xf16> = sub %t, %all
  tile_store %q, %0, %1, %n, %d {masked = false, shape = [100]}
  yield
}
"""
SHIFTED_IN_PARTS = """
kernel @f(%x: array<f16, 1>, %y: array<f16, 1>) attributes {noalias = true} {
  %p: ptr<f16> = array_ptr %x
  %q: ptr<f16> = array_ptr %y
  %0: i64 = constant {value = 0}
  %1: i64 = constant {value = 1}
  %n: i64 = constant {value = 100}
  %2: f16 = constant {value = nan}
  %3: i64 = constant {value = 96}
  %4: i64 = constant {value = 32}
  %5: f16 = for %0, %3, %4, %2 { (%part: i64, %6: f16)
    %7: i64 = add %0, %part
    %t: tile<32xf16> = tile_load %p, %7, %1, %n {masked = false, shape = [32]}
    %8: f16 = max %t {axes = [0], keep_dims = false}
    %9: f16 = maximum %6, %8 {propagate_nan = false}
    yield %9
  }
  %10: i64 = add %0, %3
  %t_1: tile<4xf16> = tile_load %p, %10, %1, %n {masked = false, shape = [4]}
  %11: f16 = max %t_1 {axes = [0], keep_dims = false}
  %best: f16 = maximum %5, %11 {propagate_nan = false}
  for %0, %3, %4 { (%part_1: i64)
    %12: i64 = add %0, %part_1
    %t_2: tile<32xf16> = tile_load %p, %12, %1, %n {masked = false, shape = [32]}
    %all: tile<32xf16> = broadcast_to %best {shape = [32]}
    %d: tile<32xf16> = sub %t_2, %all
    tile_store %q, %12, %1, %n, %d {masked = false, shape = [32]}
    yield
  }
  %t_3: tile<4xf16> = tile_load %p, %10, %1, %n {masked = false, shape = [4]}
  %all_1: tile<4xf16> = broadcast_to %best {shape = [4]}
  %d_1: tile<4xf16> = sub %t_3, %all_1
  tile_store %q, %10, %1, %n, %d_1 {masked = false, shape = [4]}
  yield
}
"""
INDEX = """
kernel @f(%x: array<f32, 1>, %y: array<i32, 1>) attributes {noalias = true} {
  %p: ptr<f32> = array_ptr %x
  %q: ptr<i32> = array_ptr %y
  %0: i64 = constant {value = 0}
  %1: i64 = constant {value = 1}
  %n: i64 = constant {value = 96}
  %t: tile<96xf32> = tile_load %p, %0, %1, %n {masked = false, shape = [96]}
  %at: i32 = argmax %t {axes = [0], keep_dims = false}
  store %q, %at
  yield
}
"""
INDEX_IN_PARTS = """
kernel @f(%x: array<f32, 1>, %y: array<i32, 1>) attributes {noalias = true} {
  %p: ptr<f32> = array_ptr %x
  %q: ptr<i32> = array_ptr %y
  %0: i64 = constant {value = 0}
  %1: i64 = constant {value = 1}
  %n: i64 = constant {value = 96}
  %2: f32 = constant {value = nan}
  %3: i32 = constant {value = 0}
  %4: i64 = constant {value = 32}
  %5: f32, %at: i32 = for %0, %n, %4, %2, %3 { (%part: i64, %6: f32, %7: i32)
    %8: i64 = add %0, %part
    %t: tile<32xf32> = tile_load %p, %8, %1, %n {masked = false, shape = [32]}
    %9: f32 = max %t {axes = [0], keep_dims = false}
    %10: f32 = maximum %6, %9 {propagate_nan = false}
    %11: i1 = ne %10, %6
    %12: i1 = eq %9, %9
    %13: i1 = and_ %11, %12
    %14: i32 = cast %part {dtype = i32}
    %15: i32 = argmax %t {axes = [0], keep_dims = false}
    %16: i32 = add %15, %14
    %17: i32 = where %13, %16, %7
    yield %10, %17
  }
  store %q, %at
  yield
}
"""


def in_parts(function: Function, size: int) -> Function:
    """The function with its only reduced dimension in parts."""
    classes = dimension_classes(function)
    (row,) = (op.operands[0] for op in function.walk() if op.name in ("max", "argmax"))
    result = cse(split_reductions(ReducedDimension(function, classes, classes.root((row, 0))), size))
    verify(result, TABLE)
    return result


@pytest.mark.parametrize(
    ("before", "after"), [(SHIFTED, SHIFTED_IN_PARTS), (INDEX, INDEX_IN_PARTS)], ids=["shifted", "index"]
)
def test_text(before: str, after: str) -> None:
    assert print_function(in_parts(parse_function(before), 32)).strip() == after.strip()


def interpret(function: Function, *arrays: Array) -> None:
    """Run one program."""
    interp.run(function, [array_info(x, "kernel", "x") for x in arrays], (1, 1, 1))


@pytest.mark.parametrize("size", [1, 7, 32, 64, 99])
def test_parts_mean_the_same_in_the_interpreter(size: int) -> None:
    x = np.random.default_rng(size).standard_normal(100).astype(f16)
    found, expected = np.zeros_like(x), np.zeros_like(x)
    interpret(parse_function(SHIFTED), x, expected)
    interpret(in_parts(parse_function(SHIFTED), size), x, found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("numbers", "index"),
    [
        ([0, 1, 5, 5, 5, 2], 2),  # the first of equals, within a part and across parts
        ([np.nan, np.nan, np.nan, -np.inf, np.nan, -np.inf], 3),
        ([np.nan] * 6, 0),
        ([-np.inf] * 6, 0),
        ([-0.0, -0.0, -0.0, 0.0, 0.0, 0.0], 0),  # zeros are equal
        ([np.nan, 1, 2, 3, np.nan, np.inf], 5),
    ],
)
def test_index_of_the_first_extreme(numbers: list[float], index: int) -> None:
    x, y = np.array(numbers, f32), np.full(1, 7, np.int32)
    text = INDEX.replace("96", "6")
    interpret(in_parts(parse_function(text), 2), x, y)
    assert y[0] == index


def test_sizes_of_parts_are_aligned() -> None:
    assert list(part_sizes(50_000, 64))[:5] == [25088, 12800, 6656, 3584, 2048]
    assert list(part_sizes(100, 1)) == [50, 25, 13, 7, 4, 2, 1]
    assert min(part_sizes(50_021, 64)) == 64


# --- what the rest of the pipeline does with it ---------------------------------------------------------------------


@pto.jit
def softmax(x, y):
    i = pto.program_id(0)
    y[i] = pto.softmax(x[i].to(pto.float32), 0).to(y.dtype)


def normal(*shape: int, dtype: Any = f16) -> Array:
    return np.random.default_rng(shape[-1]).standard_normal(shape).astype(dtype)


def test_rows_that_are_read_again_stay_in_l2() -> None:
    x = np.zeros((4096, 65_536), f16)
    launched = pto.simulate(softmax, "ascend910b2")[4096](x, x.copy())
    lowered = lower_kernel(function_of(softmax, {"x": x[:2], "y": x[:2].copy()}), ascend_target("ascend910b2"))
    assert lowered.streams == ()
    assert launched.seconds < 1.5 * 4 * x.nbytes / 1.6e12  # three reads and one write at the speed of memory


def test_rows_that_fit_are_read_once() -> None:
    x = normal(2, 4096)
    lowered = lower_kernel(function_of(softmax, {"x": x, "y": x.copy()}), ascend_target("ascend910b2"))
    assert lowered.streams == ("x",)


# --- what cannot be split -------------------------------------------------------------------------------------------


@pto.jit
def scanned(x, y):
    i = pto.program_id(0)
    y[i] = pto.cumsum(x[i] - pto.max(x[i]), axis=0)


@pto.jit
def loaded_again(x, y):
    i = pto.program_id(0)
    x[i] = x[i] - pto.max(x[i])
    y[i] = x[i] / pto.sum(x[i])


@pto.jit
def carried(x, y):
    total = pto.zeros((50_000,), pto.float32)
    for i in range(x.shape[0]):
        t = x[i]
        total += t / pto.sum(t)
    y[:] = total


def refusal_of(kernel: Any, *arrays: Array) -> str:
    with pytest.raises(NoRoomOnAscend) as caught:
        kernel.compile(*arrays, target="ascend910b2")
    return str(caught.value)


def test_a_scan_needs_the_whole_row() -> None:
    text = refusal_of(scanned, normal(2, 50_000, dtype=f32), normal(2, 50_000, dtype=f32))
    assert "the row cannot be processed in parts, since cumsum needs the whole row" in text
    assert "y[i] = pto.cumsum(x[i] - pto.max(x[i]), axis=0)" in text
    assert "otherwise scan blocks in a loop, and carry the last element" in text


def test_a_row_that_is_stored_and_loaded_again() -> None:
    text = refusal_of(loaded_again, normal(2, 50_000, dtype=f32), normal(2, 50_000, dtype=f32))
    assert "several passes load the row, and line" in text


def test_a_sum_of_rows_that_are_reduced() -> None:
    text = refusal_of(carried, normal(2, 50_000, dtype=f32), normal(50_000, dtype=f32))
    assert "a loop or branch hands on a row that it also reduces or stores" in text


def test_arrays_that_may_overlap() -> None:
    x = normal(3, 50_000)
    text = refusal_of(softmax, x[:2], x[1:])
    assert "several passes load the row, and line" in text
    assert "store to an array of its own, which overlaps no other one" in text


def test_disabled() -> None:
    x = normal(2, 50_000)
    kernel = pto.jit(softmax.function, disable=("reduction_splitting",))
    assert "cannot be processed in parts" not in refusal_of(kernel, x, x.copy())
