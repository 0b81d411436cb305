"""The named passes in their order."""

import pytest

from pypto.ir.parser import parse_function
from pypto.ir.printer import print_function
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.passes import optimize, prepare
from pypto.passes.manager import observed, run
from pypto.passes.optimizing import OPTIMIZE
from pypto.passes.preparing import PREPARE

SOFTMAX = """
kernel @softmax(%x: array<f32, 2>, %out: array<f32, 2>, %cols: i32) {
  %row: i32 = program_id {axis = 0}
  %base: ptr<f32> = array_ptr %x
  %stride: i64 = array_stride %x {dim = 0}
  %row64: i64 = cast %row {dtype = i64}
  %skip: i64 = mul %row64, %stride
  %first: ptr<f32> = addptr %base, %skip
  %offs: tile<1024xi32> = arange {start = 0, end = 1024}
  %zero: i32 = constant {value = 0}
  %start: tile<1024xi32> = broadcast_to %zero {shape = [1024]}
  %cols_tile: tile<1024xi32> = broadcast_to %cols {shape = [1024]}
  %where_to: tile<1024xi32> = add %offs, %start
  %mask: tile<1024xi1> = lt %where_to, %cols_tile
  %ptrs: tile<1024xptr<f32>> = broadcast_to %first {shape = [1024]}
  %each: tile<1024xptr<f32>> = addptr %ptrs, %where_to
  %other: tile<1024xf32> = constant {value = -inf}
  %v: tile<1024xf32> = load %each, %mask, %other
  %top: f32 = max %v {axes = [0], keep_dims = false}
  %tops: tile<1024xf32> = broadcast_to %top {shape = [1024]}
  %d: tile<1024xf32> = sub %v, %tops
  %total: f32 = sum %d {axes = [0], keep_dims = false}
  %totals: tile<1024xf32> = broadcast_to %total {shape = [1024]}
  %r: tile<1024xf32> = div %d, %totals
  %base2: ptr<f32> = array_ptr %out
  %stride2: i64 = array_stride %x {dim = 0}
  %row642: i64 = cast %row {dtype = i64}
  %skip2: i64 = mul %row642, %stride2
  %first2: ptr<f32> = addptr %base2, %skip2
  %ptrs2: tile<1024xptr<f32>> = broadcast_to %first2 {shape = [1024]}
  %each2: tile<1024xptr<f32>> = addptr %ptrs2, %where_to
  store %each2, %r, %mask
  yield
}
"""


@pytest.mark.parametrize("passes", [PREPARE, OPTIMIZE, PREPARE + OPTIMIZE], ids=["prepare", "optimize", "both"])
def test_valid_after_each_pass(passes):
    seen = []

    def check(step, _, function):
        verify(function, TABLE)
        text = print_function(function, locations=True)
        assert print_function(parse_function(text), locations=True) == text
        seen.append(step)

    with observed(check):
        run(parse_function(SOFTMAX), passes)
    assert tuple(seen) == tuple(passes)


def test_same_text_every_time():
    assert print_function(optimize(prepare(parse_function(SOFTMAX)))) == print_function(
        optimize(prepare(parse_function(SOFTMAX)))
    )


def test_prepare_is_stable():
    once = prepare(parse_function(SOFTMAX))
    assert print_function(prepare(once)) == print_function(once)


def test_every_pass_says_why():
    assert all(step.name and len(step.reason) > 10 for step in PREPARE + OPTIMIZE)
