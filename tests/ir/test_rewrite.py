"""Rewriting: what a rule maps values to inside of a region does not reach the operands of the op around it."""

from __future__ import annotations

from collections.abc import Sequence

from pypto.ir.core import Op, Value
from pypto.ir.parser import parse_function
from pypto.ir.printer import print_function
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ops.build import OpBuilder

TEXT = """\
kernel @f(%n: i32) {
  %0: i32 = for %n, %n, %n, %c { (%i: i32, %k: i32)
    %1: i32 = add %k, %c
    yield %1
  }
  print_ %0 {hex = false, prefix = ""}
  yield
}
"""


def copied_constants(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value]:
    """A copy of each constant before each op that takes it."""
    for v in op.operands:
        if v.op is not None and v.op.name == "constant":
            rewriter.mapping[v] = rewriter.copy(v.op).result
    return rewriter.copy(op).results


def test_operands_are_those_before_the_regions() -> None:
    text = TEXT.replace("{\n  %0", "{\n  %c: i32 = constant {value = 3}\n  %0", 1)
    copy = rewrite(parse_function(text), copied_constants, OpBuilder)
    again = parse_function(print_function(copy))  # refuses a value that is used before it is there
    loop = next(op for op in again.walk() if op.name == "for")
    assert loop.operands[3].op in again.body.ops
    assert [op.name for op in loop.regions[0].ops] == ["constant", "add", "yield"]
