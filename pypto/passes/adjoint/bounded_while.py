"""Bounded while loops: a `while` becomes a `for` with as many trips as its bound, each under the loop's condition.

The reverse sweep runs loops backwards, and keeps what they carry trip by trip; so it must know how many trips there are
at most. Legal where the loop ends within the bound. A loop that does not stores 1 to the array `unfinished`, which a
launch of the derived kernel looks at.

    %y = while %x { (%a)  yield lt %a, %n } { (%a)  yield mul %a, %a }

    %y = for 0, bound, 1, %x { (%t, %a)
      %b = if lt %a, %n { yield mul %a, %a } { yield %a }
      yield %b
    }
    if lt %y, %n { store %unfinished, 1 }
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter
from pypto.ir.types import ArrayType, TileType, int32
from pypto.ops.build import OpBuilder

UNFINISHED: Final = "unfinished"


def bound_while_loops(function: Function, bound: int) -> Function:
    """The function with a `for` in place of each `while`, and one more argument, where there is one."""
    if not any(op.name == "while" for op in function.walk()):
        return function
    flag = Value(ArrayType(int32, 1), UNFINISHED)

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        return bounded(rewriter, op, bound, flag) if op.name == "while" else None

    copy = Rewriter(OpBuilder(Region()), rule).function(function)
    copy.body.args.append(flag)
    return copy


def bounded(rewriter: Rewriter[OpBuilder], op: Op, bound: int, flag: Value) -> tuple[Value, ...]:
    """The results of a bounded loop."""
    b = rewriter.builder
    initial = rewriter.operands(op)
    body = Region([Value(TileType((), int32), "trip"), *(Value(v.type, a.hint) for v, a in carried(op, initial))])
    with b.inside(body):
        b.create("yield", guarded_trip(rewriter, op, body.args[1:]))
    bounds = tuple(b.constant(n, int32) for n in (0, bound, 1))
    loop = b.create("for", (*bounds, *initial), {}, tuple(v.type for v in initial), (body,))
    report = Region()
    with b.inside(report):
        b.op("store", b.emit("array_ptr", flag), b.constant(1, int32))
        b.create("yield")
    nothing = Region()
    with b.inside(nothing):
        b.create("yield")
    b.create("if", (condition(rewriter, op, loop.results),), {}, (), (report, nothing))
    return loop.results


def carried(op: Op, initial: Sequence[Value]) -> list[tuple[Value, Value]]:
    """The initial values of a loop with the arguments of its body."""
    return list(zip(initial, op.regions[1].args, strict=True))


def condition(rewriter: Rewriter[OpBuilder], op: Op, state: Sequence[Value]) -> Value:
    """Whether a loop goes on in a state."""
    region = op.regions[0]
    rewriter.mapping.update(zip(region.args, state, strict=True))
    for x in region.body:
        rewriter.visit(x)
    return rewriter.value(region.terminator.operands[0])


def guarded_trip(rewriter: Rewriter[OpBuilder], op: Op, state: Sequence[Value]) -> tuple[Value, ...]:
    """The state after a trip; the same one where the loop has ended."""
    b, region = rewriter.builder, op.regions[1]
    goes_on = condition(rewriter, op, state)
    trip, ended = Region(), Region()
    with b.inside(trip):
        rewriter.mapping.update(zip(region.args, state, strict=True))
        for x in region.ops:
            rewriter.visit(x)
    with b.inside(ended):
        b.create("yield", tuple(state))
    return b.create("if", (goes_on,), {}, tuple(v.type for v in state), (trip, ended)).results
