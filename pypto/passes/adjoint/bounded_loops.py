"""Bounded loops: a loop that may run any number of times becomes a `for` with a bound.

The reverse sweep runs loops backwards, and keeps what they carry trip by trip; so it must know how many trips there are
at most. A `while` becomes a `for` with as many trips as its bound, each under the loop's condition; one that a `for`
with `break` was made of has the range of that `for`. A `for` whose bounds depend on memory ends at its bound. Legal
where the loop ends within the bound. A loop that does not stores 1 to the array `unfinished`, which a launch of the
derived kernel looks at.

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

from pypto.ir.core import Function, Op, Region, Value, walk
from pypto.ir.rewrite import Rewriter
from pypto.ir.types import ArrayType, int32
from pypto.ops.build import OpBuilder
from pypto.passes.analysis.memory_effects import is_pure

UNFINISHED: Final = "unfinished"


def bound_loops(function: Function, bound: int | None) -> Function:
    """The function with a `for` in place of each `while`, where there is a bound for it.

    It has one more argument, where a loop may not end within `bound`.
    """
    flag = Value(ArrayType(int32, 1), UNFINISHED)
    unbounded = [op for op in function.walk() if op.name == "while" or depends_on_memory(op)]
    ranges = {op: span for op in unbounded if (span := range_of(op)) is not None}
    bounded_loops = frozenset(unbounded) if bound is not None else frozenset(ranges)
    if not bounded_loops:
        return function

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        if op not in bounded_loops:
            return None
        if op in ranges:
            return guarded_loop(rewriter, op, tuple(rewriter.value(v) for v in ranges[op])).results
        assert bound is not None
        return bounded_for(rewriter, op, bound, flag) if op.name == "for" else bounded(rewriter, op, bound, flag)

    copy = Rewriter(OpBuilder(Region()), rule).function(function)
    if bounded_loops - ranges.keys():
        copy.body.args.append(flag)
    return copy


def depends_on_memory(op: Op) -> bool:
    """Whether a `for` has bounds that no numbers of a launch give: loaded ones, or such that a region has made."""
    pending, seen = list(op.operands[:3]) if op.name == "for" else [], set[Value]()
    while pending:
        x = pending.pop()
        if x in seen or x.op is None:
            continue  # arguments, and indices of loops around it
        seen.add(x)
        if x.op.regions or not is_pure(x.op):
            return True
        pending.extend(x.op.operands)
    return False


def range_of(op: Op) -> tuple[Value, Value, Value] | None:
    """The range of the `for` with `break` that a `while` was made of: start, stop and step.

    Its first carried value is the index, which has no name: the condition compares it, and each trip adds the step.
    """
    if op.name != "while" or not op.operands or op.regions[0].args[0].hint:
        return None
    index, following = op.regions[0].args[0], op.regions[1].terminator.operands[0].op
    tests = [x for x in op.regions[0].ops if x.name in ("lt", "gt") and x.operands[0] is index]
    if following is None or following.name != "add" or following.operands[0] is not op.regions[1].args[0]:
        return None
    stop = tests[0].operands[1] if len(tests) == 1 else None
    step = following.operands[1]
    inside = {v for region in op.regions for x in walk(region) for v in x.results}
    number = step.op.attrs["value"] if step.op is not None and step.op.name == "constant" else 0
    if stop is None or stop in inside or (number > 0) != (tests[0].name == "lt") or not number:
        return None
    return (op.operands[0], stop, step) if step not in inside else None


def bounded(rewriter: Rewriter[OpBuilder], op: Op, bound: int, flag: Value) -> tuple[Value, ...]:
    """The results of a bounded `while`."""
    b = rewriter.builder
    loop = guarded_loop(rewriter, op, tuple(b.constant(n, int32) for n in (0, bound, 1)))
    report_unfinished(b, condition(rewriter, op, loop.results), flag)
    return loop.results


def bounded_for(rewriter: Rewriter[OpBuilder], op: Op, bound: int, flag: Value) -> tuple[Value, ...] | None:
    """The results of a `for` that makes no more trips than a bound; None where its step is not known."""
    b = rewriter.builder
    low, high, step = (rewriter.value(v) for v in op.operands[:3])
    number = step.op.attrs["value"] if step.op is not None and step.op.name == "constant" else 0
    if not number:
        return None
    end = b.emit("add", low, b.constant(bound * number, low.dtype))
    names = ("minimum", "gt") if number > 0 else ("maximum", "lt")
    report_unfinished(b, b.emit(names[1], high, end), flag)
    region = op.regions[0]
    body = Region([Value(a.type, a.hint) for a in region.args])
    rewriter.mapping.update(zip(region.args, body.args, strict=True))
    with b.inside(body):
        for x in region.body:
            rewriter.visit(x)
        b.create("yield", tuple(rewriter.value(v) for v in region.terminator.operands))
    initial = tuple(rewriter.value(v) for v in op.operands[3:])
    last = b.emit(names[0], high, end, propagate_nan=False)
    return b.create("for", (low, last, step, *initial), {}, tuple(v.type for v in op.results), (body,)).results


def guarded_loop(rewriter: Rewriter[OpBuilder], op: Op, bounds: tuple[Value, ...]) -> Op:
    """A `while` as a `for`, each of whose trips is made under the condition."""
    b = rewriter.builder
    initial = rewriter.operands(op)
    body = Region([Value(bounds[0].type, "trip"), *(Value(v.type, a.hint) for v, a in carried(op, initial))])
    with b.inside(body):
        b.create("yield", guarded_trip(rewriter, op, body.args[1:]))
    return b.create("for", (*bounds, *initial), {}, tuple(v.type for v in initial), (body,))


def report_unfinished(b: OpBuilder, is_unfinished: Value, flag: Value) -> None:
    """Say that a loop has not ended within its bound."""
    report, nothing = Region(), Region()
    with b.inside(report):
        b.op("store", b.emit("array_ptr", flag), b.constant(1, int32))
        b.create("yield")
    with b.inside(nothing):
        b.create("yield")
    b.create("if", (is_unfinished,), {}, (), (report, nothing))


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
