"""One kernel per rule that breaks it."""

import pytest

from pypto.errors import CompilerBug
from pypto.errors.ir import InvalidIR
from pypto.ir.core import Function, Region, Value, make_op
from pypto.ir.parser import parse_function
from pypto.ir.types import int32, scalar
from pypto.loc import Loc
from pypto.ops.table import TABLE
from pypto.ops.verify import verify

VALID = """
kernel @f(%x: array<f32, 1>, %n: i32) {
  %p: ptr<f32> = array_ptr %x
  %zero: i32 = constant {value = 0}
  %one: i32 = constant {value = 1}
  %sum: i32 = for %zero, %n, %one, %zero { (%i: i32, %s: i32)
    %c: i1 = lt %s, %n
    %t: i32 = if %c {
      %u: i32 = add %s, %i
      yield %u
    } {
      yield %s
    }
    yield %t
  }
  %last: i32 = while %sum { (%a: i32)
    %d: i1 = lt %a, %n
    yield %d
  } { (%b: i32)
    yield %one
  }
  %m: f32 = load %p
  store %p, %m
  yield
}"""

ARGS = "%n: i32, %k: i64, %b: i1, %f: f32, %x: array<f32, 1>, %t: ptr<const f32>"
BROKEN = {
    "unknown op": ("foo", "there is no op of this name"),
    "operand of another region": (
        'if %b { %1: i32 = add %n, %n yield } { yield } print_ %1 {hex = false, prefix = ""}',
        "only inside another region",
    ),
    "operand of a later op": ("%1: i32 = add %1, %n", "is not defined before this op"),
    "result type": ("%1: i64 = add %n, %n", "gives (i64), but its type rule gives (i32)"),
    "result count": ("%1: i32, %2: i32 = add %n, %n", "gives (i32, i32), but its type rule gives (i32)"),
    "operand types": ("%1: i32 = add %n, %k", "they must have one type"),
    "too few operands": ("%1: i32 = add %n", "has 1 operands, but takes 2"),
    "too many operands": ("store %t, %f, %b, %b", "has 4 operands, but takes 2 to 3"),
    "missing attribute": ("%1: i32 = constant", "the attribute value is missing"),
    "unknown attribute": ("%1: i32 = add %n, %n {axis = 0}", "there is no attribute axis"),
    "kind of an attribute": ("%1: i32 = program_id {axis = 0.0}", "the attribute axis is 0.0, which is no int"),
    "shape attribute": ("%1: i32 = reshape %n {shape = [true]}", "is [true], which is no shape"),
    "region without control flow": ("%1: i32 = add %n, %n { yield }", "has a region, but is no control flow"),
    "no terminator": ("if %b { yield } { }", "a region does not end in a terminator"),
    "other last op": ("if %b { yield } { %1: i32 = add %n, %n }", "a region does not end in a terminator"),
    "early terminator": ("yield yield", "stands before the end of its region"),
    "array as a result": ("%1: array<f32, 1> = if %b { yield %x } { yield %x }", "gives an array"),
    "array as region argument": ("while { (%1: array<f32, 1>) yield %b } { yield }", "a region takes an array"),
    "array as operand": ("%1: f32 = neg %x", "needs a tile or scalar, not array<f32, 1>"),
    "store to const": ("store %t, %f", "Cannot store to a constant pointer (ptr<const f32>)"),
    "if: condition": ("if %n { yield } { yield }", "takes one bool scalar"),
    "if: regions": ("if %b { yield }", "has 1 regions, but needs one for each outcome"),
    "if: arguments": ("if %b { (%1: i32) yield } { yield }", "a region takes (i32), but gets ()"),
    "if: yields": ("%1: i32 = if %b { yield %n } { yield %f }", "yields (f32), but (i32) is needed"),
    "for: bounds": ("for %n, %n, %k { (%1: i32) yield }", "all i32 or all i64"),
    "for: float bounds": ("for %f, %f, %f { (%1: f32) yield }", "all i32 or all i64"),
    "for: too few operands": ("for %n, %n { (%1: i32) yield }", "takes lower bound, upper bound and step"),
    "for: regions": ("for %n, %n, %n", "has 0 regions, but needs one"),
    "for: index": ("for %n, %n, %n { (%1: i64) yield }", "a region takes (i64), but gets (i32)"),
    "for: carried": (
        "%1: f32 = for %n, %n, %n, %f { (%2: i32) yield %f }",
        "a region takes (i32), but gets (i32, f32)",
    ),
    "for: yields": ("%1: f32 = for %n, %n, %n, %f { (%2: i32, %3: f32) yield }", "yields (), but (f32) is needed"),
    "for: results": ("for %n, %n, %n, %f { (%2: i32, %3: f32) yield %3 }", "its type rule gives (f32)"),
    "while: regions": ("while { yield %b }", "has 1 regions, but needs one for the condition and one for the body"),
    "while: condition": ("while { yield %n } { yield }", "yields (i32), but (i1) is needed"),
    "while: carried": ("%1: f32 = while %f { yield %b } { (%2: f32) yield %2 }", "a region takes (), but gets (f32)"),
    "while: yields": (
        "%1: f32 = while %f { (%2: f32) yield %b } { (%3: f32) yield %b }",
        "yields (i1), but (f32) is needed",
    ),
    "constant: kind": ("%1: f32 = constant {value = 1}", "the value 1 is no float"),
    "constant: range": ("%1: i8 = constant {value = 128}", "128 does not fit into i8"),
    "constant: pointer": ("%1: ptr<f32> = constant {value = 0}", "there are no constant pointers"),
}


def check(text):
    verify(parse_function(text), TABLE)


def test_valid():
    function = parse_function(VALID)
    assert verify(function, TABLE) is None


@pytest.mark.parametrize("rule", BROKEN)
def test_broken(rule):
    body, problem = BROKEN[rule]
    with pytest.raises(InvalidIR) as caught:
        check(f"kernel @f({ARGS}) {{ {body} yield }}")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kernel @f(%0: i32) { yield }", "arguments need different names"),
        ("kernel @f(%x: tile<2xi32>) { yield }", "argument x is tile<2xi32>; arguments are arrays and scalars"),
        ("kernel @f(%n: i32) { yield %n }", "the body of a kernel yields no values"),
        ("kernel @f() { }", "a region does not end in a terminator"),
    ],
)
def test_broken_function(text, problem):
    with pytest.raises(InvalidIR, match="invalid IR in `@f`") as caught:
        check(text)
    assert problem in str(caught.value)


def function_of(*ops):
    return Function("f", Region([Value(scalar(int32), "n")], [*ops, make_op("yield", (), {}, ())]))


def test_equal_argument_names():
    function = Function(
        "f", Region([Value(scalar(int32), "n"), Value(scalar(int32), "n")], [make_op("yield", (), {}, ())])
    )
    with pytest.raises(InvalidIR, match="arguments need different names, not n, n"):
        verify(function, TABLE)


def test_value_defined_twice():
    op = make_op("constant", (), {"value": 1}, (scalar(int32),))
    with pytest.raises(InvalidIR, match="already defined elsewhere"):
        verify(function_of(op, op), TABLE)


def test_attribute_that_has_no_text():
    op = make_op("constant", (), {"value": [1]}, (scalar(int32),))
    with pytest.raises(InvalidIR, match="cannot be an attribute"):
        verify(function_of(op), TABLE)


def test_function_attribute_that_has_no_text():
    function = function_of()
    function.attrs["noalias"] = {}
    with pytest.raises(InvalidIR, match="cannot be an attribute"):
        verify(function, TABLE)


def test_error_names_the_place_and_is_a_bug_of_ours():
    op = make_op("foo", (), {}, (), (), Loc("kernels.py", 3, 4, 3, 9))
    with pytest.raises(CompilerBug, match=r"(?s)`foo`.*kernels.py:3:5.*please report"):
        verify(function_of(op), TABLE)
