"""`for` and `while`, and loops at compile time."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pypto.errors.frontend import EndlessLoop, LoopBound, TooManyIterations, UnknownSyntax, ZeroStep
from pypto.frontend.assign import LIMIT, assign, items_of
from pypto.frontend.carry import Body, Loop, Variables, after, carried_type, enter, following, initial, settle
from pypto.frontend.flow import as_truth, block
from pypto.frontend.merge import UNDEF, VALUE, conform, is_pure
from pypto.frontend.scope import Binding, Scope
from pypto.frontend.values import Range, describe, is_scalar, leaves, rebuild
from pypto.ir.core import Region, Value
from pypto.ir.types import DType, int1, int32, int64, scalar

LEAVES = (".break", ".return")


def run_for(scope: Scope, node: ast.For) -> None:
    no_else(scope, node)
    items = scope.eval(node.iter)
    if isinstance(items, Range):
        run_range(scope, node, items)
    else:
        unroll(scope, node, items)


def no_else(scope: Scope, node: Loop) -> None:
    if node.orelse:
        way = "set a flag before `break` and test it after the loop"
        raise UnknownSyntax(scope.loc(node.orelse[0]), what="`else` after a loop", way=way)


def unroll(scope: Scope, node: ast.For, items: Any) -> None:
    """A loop at compile time: one copy of the body per item."""

    def iteration(item: Any) -> Callable[[], None]:
        def step() -> None:
            scope.session.unrolled += 1
            if scope.session.unrolled > LIMIT:
                raise TooManyIterations(scope.loc(node.iter), limit=f"{LIMIT:,}")
            assign(scope, node.target, item)
            block(scope, scope.steps(node.body))
            scope.vars.pop(".continue", None)

        return step

    block(scope, [iteration(item) for item in items_of(scope, node.iter, items)])
    scope.vars.pop(".break", None)


def build_body(scope: Scope, node: Loop, region: Region, variables: Variables, head: Callable[[], None]) -> Body:
    """One build of the statements of a loop."""
    outer = scope.pending, scope.rest, scope.live_out
    scope.pending, scope.rest, scope.live_out = [], deque(), frozenset((*variables, *LEAVES, VALUE))
    try:
        with scope.builder.inside(region), scope.variables(enter(scope, region, variables)):
            head()
            block(scope, scope.steps(node.body))
            return Body(region, scope.vars)
    finally:
        scope.pending, scope.rest, scope.live_out = outer


def index_type(scope: Scope, node: ast.expr, loop: Range) -> DType:
    """int32, unless a bound needs more."""
    wide = False
    for what, bound in (("the start", loop.start), ("the stop", loop.stop), ("the step", loop.step)):
        if isinstance(bound, Value) and is_scalar(bound) and not bound.tile.is_ptr and bound.dtype.is_int:
            wide |= bound.dtype.bits == 64 or bound.dtype.name == "u32"
        elif isinstance(bound, int):
            wide |= not -(2**31) <= bound < 2**31
        else:
            raise LoopBound(scope.loc(node), what=what, given=describe(bound))
    return int64 if wide else int32


def run_range(scope: Scope, node: ast.For, loop: Range) -> None:
    dtype = index_type(scope, node.iter, loop)
    if isinstance(loop.step, int) and loop.step == 0:
        raise ZeroStep(scope.loc(node.iter))
    b = scope.at(node.iter)
    bounds = [b.cast(b.value(x, dtype), dtype) for x in (loop.start, loop.stop, loop.step)]

    def build(variables: Variables) -> Body:
        index = Value(scalar(dtype), node.target.id if isinstance(node.target, ast.Name) else "")
        return build_body(scope, node, Region([index]), variables, lambda: assign(scope, node.target, index))

    variables, body = settle(scope, node, build)
    scope.at(node.iter)
    if any(name in body.ends for name in LEAVES):
        leaving_for(scope, node, loop.step, bounds, variables, body)
        return
    inits = initial(scope, variables)
    with b.inside(body.region):
        b.op("yield", *following(scope, variables, body))
    op = b.create("for", (*bounds, *inits), {}, tuple(v.type for v in inits), (body.region,))
    after(scope, node, variables, body, list(op.results))


def leaving_for(
    scope: Scope, node: ast.For, constant: Any, bounds: list[Value], variables: Variables, body: Body
) -> None:
    """A `for` that can be left becomes a `while` that carries its index."""
    b, (low, high, step) = scope.builder, bounds
    with b.inside(body.region):
        index = b.emit("add", body.region.args[0], step)

    def test(args: list[Value]) -> Value:
        if isinstance(constant, int):
            return b.emit("lt" if constant > 0 else "gt", args[0], high)
        up, down = (b.emit(name, args[0], high) for name in ("lt", "gt"))
        return b.emit("where", b.emit("gt", step, b.constant(0, step.dtype)), up, down)

    make_while(scope, node, WhileParts(variables, body, test, [low], [index]))


@dataclass(frozen=True, slots=True)
class WhileParts:
    """A `while` before it is made; `inits` and `nexts` are of values that it carries besides the variables."""

    variables: Variables
    body: Body
    test: Callable[[list[Value]], Value]
    inits: list[Value]
    nexts: list[Value]


def make_while(scope: Scope, node: Loop, parts: WhileParts) -> None:
    """Carried are: what the parts add, the variables, the flags that end the loop, and what is returned."""
    b, body, variables = scope.builder, parts.body, parts.variables
    flags = [name for name in LEAVES if name in body.ends]
    kept = [x for x in leaves(body.ends[VALUE].value) if carried_type(x)] if ".return" in flags else []
    inits = parts.inits + initial(scope, variables)
    first, last = len(inits), len(inits) + len(flags)
    inits += [b.constant(False, int1) for _ in flags]
    inits += [conform(b, UNDEF, x.tile) for x in kept]
    with b.inside(body.region):
        stops = [b.value(body.ends[name].value, int1) for name in flags]
        b.op("yield", *parts.nexts, *following(scope, variables, body), *stops, *kept)
    body.region.args += [Value(v.type) for v in inits[len(body.region.args) :]]
    tester = Region([Value(a.type, a.hint) for a in body.region.args])
    with b.inside(tester):
        b.op("yield", guarded_test(scope, tester.args[first:last], lambda: parts.test(tester.args)))
    types = tuple(v.type for v in inits)
    results = list(b.create("while", tuple(inits), {}, types, (tester, body.region)).results)
    after(scope, node, variables, body, results[len(parts.inits) : first])
    if ".return" in flags:
        still_returning(scope, body, results[last - 1], results[last:])


def still_returning(scope: Scope, body: Body, flag: Value, kept: list[Value]) -> None:
    """A `return` in a loop goes on after it."""
    end, items = body.ends[VALUE], iter(kept)
    value = rebuild(end.value, iter([next(items) if carried_type(x) else x for x in leaves(end.value)]))
    scope.vars[".return"] = Binding(flag, body.ends[".return"].loc)
    scope.vars[VALUE] = Binding(value, end.loc)


def guarded_test(scope: Scope, flags: list[Value], test: Callable[[], Value]) -> Value:
    """The loop's condition, which is not computed any more once a flag is set."""
    b, region = scope.builder, Region()
    with b.inside(region):
        going = test()
    if not flags:
        b.region.ops += region.ops
        return going
    stop = flags[0] if len(flags) == 1 else b.emit("or_", flags[0], flags[1])
    if is_pure(region):
        b.region.ops += region.ops
        return b.emit("and_", going, b.emit("not_", stop))
    stopped = Region()
    with b.inside(stopped):
        b.op("yield", b.constant(False, int1))
    with b.inside(region):
        b.op("yield", going)
    return b.create("if", (stop,), {}, (scalar(int1),), (stopped, region)).result


def run_while(scope: Scope, node: ast.While) -> None:
    no_else(scope, node)
    tested: list[tuple[Any, Region]] = []

    def build(variables: Variables) -> Body:
        tested.append(build_test(scope, node, variables))
        return build_body(scope, node, Region(), variables, lambda: None)

    variables, body = settle(scope, node, build)
    condition, region = tested[-1]
    if condition is False:
        return
    scope.at(node.test)
    if condition is True and not any(name in body.ends for name in LEAVES):
        raise EndlessLoop(scope.loc(node.test))

    def test(args: list[Value]) -> Value:
        # The condition was built on arguments of its own; they and its ops move into the region that the loop has.
        args[: len(region.args)] = region.args
        scope.builder.region.ops += region.ops
        return scope.builder.value(condition, int1)

    make_while(scope, node, WhileParts(variables, body, test, [], []))


def build_test(scope: Scope, node: ast.While, variables: Variables) -> tuple[Any, Region]:
    """One build of the condition: its value, and the region that computes it."""
    region = Region()
    with scope.builder.inside(region), scope.variables(enter(scope, region, variables)) as entry:
        before, way = dict(entry), "reduce it, for instance `pto.max(t) > 0`"
        condition = as_truth(scope, scope.eval(node.test), node.test, "`while`", way)
        if entry != before:
            way = "assign before the loop and in its body"
            raise UnknownSyntax(scope.loc(node.test), what="`:=` in the condition of a loop", way=way)
    return condition, region
