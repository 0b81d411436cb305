"""Printing and parsing Tile IR."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypto.errors.ir import IRTextError
from pypto.ir.core import Function, ProgramMap, Region, Value, make_op
from pypto.ir.parser import parse_function, parse_type
from pypto.ir.printer import attr_text, print_function
from pypto.ir.types import DTYPES, ArrayType, PtrType, TileType, float32, int32, scalar
from pypto.loc import Loc

LOOP = """\
kernel @scale(%x: array<f32, 2>, %n: i32) attributes {noalias = true} {
  %p: ptr<f32> = array_ptr %x
  %lo: i32 = constant {value = 0}
  %step: i32 = constant {value = 1}
  %last: ptr<f32>, %0: i32 = for %lo, %n, %step, %p, %lo { (%i: i32, %q: ptr<f32>, %k: i32)
    %1: ptr<f32> = addptr %q, %step
    yield %1, %i
  }
  %done: i1 = constant {value = false}
  if %done {
    yield
  } {
    yield
  }
  %t: tile<4x5xptr<const f32>> = foo {a = [1, [-0.0, nan], "x\\"y {%1}", none, bf16, true], b = []}
  yield
}
"""
LOCATED = """\
kernel @"<lambda>"() loc("k.py":1:0-9:4) {
  yield loc("a \\"b\\".py":1:2-3:4 in f at "<cell 1>":5:6-7:8 in "g.<locals>.h" at "c.py":1:0-0:0)
}
"""


def test_round_trip_of_every_form():
    assert print_function(parse_function(LOOP)) == LOOP


def test_round_trip_of_the_programs_that_a_body_covers():
    programs = ProgramMap(axis=1, factor=16, has_cold_version=True)
    text = "kernel @f() programs {axis = 1, factor = 16, has_cold_version = true} {\n  yield\n}\n"
    function = parse_function(text)
    assert function.programs == programs and print_function(function) == text
    assert parse_function("kernel @f() {}").programs == ProgramMap()


def test_round_trip_of_locations():
    function = parse_function(LOCATED)
    assert print_function(function, locations=True) == LOCATED
    assert function.body.terminator.loc == Loc(
        'a "b".py', 1, 2, 3, 4, "f", Loc("<cell 1>", 5, 6, 7, 8, "g.<locals>.h", Loc("c.py", 1))
    )
    assert "loc" not in print_function(function)


def test_results_know_their_op():
    loop = parse_function(LOOP).body.ops[3]
    assert loop.name == "for" and [v.op for v in loop.results] == [loop, loop]


def test_comments_and_layout_mean_nothing():
    text = "kernel @f(%n: i32){%s: i32 = add %n,%n // twice\n yield}"
    assert print_function(parse_function(text)) == "kernel @f(%n: i32) {\n  %s: i32 = add %n, %n\n  yield\n}\n"


@given(st.lists(st.sampled_from(["", "x", "x_1", "x_1_1", "1", "é", "a b", "_1"]), max_size=8))
def test_names_are_unique_and_stable(hints):
    function = Function("f", Region([Value(scalar(int32), h) for h in hints], [make_op("yield", (), {}, ())]))
    text = print_function(function)
    again = parse_function(text)
    assert len(again.args) == len(hints)
    assert print_function(again) == text


numbers = st.integers() | st.floats() | st.booleans() | st.none() | st.text() | st.sampled_from(DTYPES)


@given(st.recursive(numbers, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6))
def test_attributes_keep_type_and_value(value):
    op = make_op("foo", (), {"a": value}, ())
    again = parse_function(print_function(Function("f", Region([], [op])))).body.ops[0].attrs["a"]
    assert type(again) is type(value) and attr_text(again) == attr_text(value)
    if isinstance(value, float) and not math.isnan(value):
        assert again == value and math.copysign(1, again) == math.copysign(1, value)


def test_attribute_of_no_known_type():
    with pytest.raises(TypeError, match="cannot be an attribute"):
        attr_text([1])


@pytest.mark.parametrize(
    "type_",
    [
        scalar(float32),
        TileType((2, 3), int32),
        TileType((1,), PtrType(float32, const=True)),
        scalar(PtrType(int32)),
        ArrayType(float32, 4),
    ],
)
def test_types(type_):
    assert parse_type(str(type_)) == type_


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("kernel f() {}", 1, "expected `@`, not `f`"),
        ("kernel @f() {\n  %0: i32 = foo %1\n}", 2, "%1 is not defined before this line"),
        ("kernel @f(%x: i32) {\n %x: i32 = foo\n}", 2, "%x is already defined"),
        ("kernel @f(%x: i33) {}", 1, "`i33` is no type"),
        ("kernel @f(%x: tile<4xi33>) {}", 1, "`tile<4xi33>` is no type"),
        ("kernel @f() {\n\n foo {a = b}\n}", 3, "`b` is no attribute value"),
        ("kernel @f() {\n foo {a = 1 b = 2}\n}", 2, "expected `,`, not `b`"),
        ("kernel @f() {\n yield", 2, "expected a word, not `the end of the text`"),
        ("kernel @f() programs {rows = 2} {}", 1, "a program map has no `rows`"),
        ("kernel @f() {\n ; }", 2, "';' has no meaning here"),
        ("kernel @f() {\n %x = foo }", 2, "expected `:`, not `=`"),
        ("kernel @f() {} yield", 1, "the kernel ends here, but the text goes on"),
        ("kernel @f() {\n foo loc(3) }", 2, "expected a span, not `3`"),
    ],
)
def test_errors_name_the_line(text, line, problem):
    with pytest.raises(IRTextError) as caught:
        parse_function(text)
    assert caught.value.fields["line"] == line
    assert problem in str(caught.value)
