"""`for` and `while`, and loops at compile time."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from pypto.errors.frontend import EndlessLoop, LoopBound, TooManyIterations, TooManyOps, UnknownSyntax, ZeroStep
from pypto.frontend.assign import LIMIT, assign, items_of
from pypto.frontend.carry import INDEX, Carried, Loop, Variable
from pypto.frontend.flow import arrive, as_truth, block, choose
from pypto.frontend.merge import Path
from pypto.frontend.scope import BREAK, EXITS, RETURN, Binding, Scope, Step
from pypto.frontend.spec import Unrolled
from pypto.frontend.values import Range, describe, is_index
from pypto.ir.core import Region, Value
from pypto.ir.types import DType, int1, int32, int64, uint32
from pypto.ops.build import weak_dtype

_LEAVING = (ast.Break, ast.Return)


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

    def iteration(item: Any) -> None:
        scope.session.unrolled += 1
        if scope.session.unrolled > LIMIT:
            raise TooManyIterations(scope.loc(node.iter), limit=f"{LIMIT:,}")
        assign(scope, node.target, item)
        block(scope, scope.steps(node.body))
        arrive(scope, EXITS.index(BREAK))

    op_count = scope.session.builder.op_count
    steps: list[Step] = [partial(iteration, item) for item in items_of(scope, node.iter, items)]
    try:
        block(scope, steps)
    except TooManyOps as error:
        loops = (*error.others, ("unrolled here", scope.loc(node.iter)))
        raise TooManyOps(error.loc, loops, **error.fields) from None
    if not scope.source.library:
        text = f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
        ops = scope.session.builder.op_count - op_count
        scope.session.loops.append(Unrolled(scope.loc(node.iter), text, len(steps), ops))
    arrive(scope, EXITS.index(RETURN))


def index_type(scope: Scope, node: ast.expr, loop: Range) -> DType:
    """int32, unless a bound needs more."""
    dtypes = []
    for what, bound in (("the start", loop.start), ("the stop", loop.stop), ("the step", loop.step)):
        if not is_index(bound):
            raise LoopBound(scope.loc(node), what=what, given=describe(bound))
        dtypes.append(bound.dtype if isinstance(bound, Value) else weak_dtype(bound))
    return int64 if any(d.bits == 64 or d == uint32 for d in dtypes) else int32


def run_range(scope: Scope, node: ast.For, loop: Range) -> None:
    dtype = index_type(scope, node.iter, loop)
    if isinstance(loop.step, int) and loop.step == 0:
        raise ZeroStep(scope.loc(node.iter))
    b = scope.at(node.iter)
    low, high, step = (b.cast(b.value(x, dtype), dtype) for x in (loop.start, loop.stop, loop.step))
    for copies in unrolled(node, loop):
        start, end, stride = low, high, step
        if copies > 1 and isinstance(loop.step, int):
            stride = scope.at(node.iter).constant(copies * loop.step, dtype)
            span = b.emit("mul", b.emit("floordiv", b.emit("sub", high, low), stride), stride)
            end = b.emit("add", low, span)
            low = b.emit("maximum", low, end, propagate_nan=False)
        run_loop(scope, node, (start, end, stride), copies)


def unrolled(node: ast.For, loop: Range) -> tuple[int, ...]:
    """Iterations at once: as many as may be, then fewer, then one. What can be left is done one by one."""
    if not (isinstance(loop.step, int) and loop.step > 0) or any(isinstance(n, _LEAVING) for n in ast.walk(node)):
        return (1,)
    return (*sorted({n for n in loop.unroll if n > 1}, reverse=True), 1)


def run_loop(scope: Scope, node: ast.For, bounds: tuple[Value, Value, Value], copies: int) -> None:
    low, high, step = bounds
    carried = Carried(scope, node, {INDEX: Variable(Binding(low, scope.builder.loc), [low.tile])}, copies, step)
    body = carried.settle()
    scope.at(node.iter)
    if BREAK in body.vars:
        leaving_for(carried, body, high, step)
        return
    del carried.variables[INDEX]
    if copies == 1 and runs(*bounds) and not any(isinstance(n, (*_LEAVING, ast.Continue)) for n in ast.walk(node)):
        carried.add_last(body)
    carried.finish("for", (low, high, step), (body.region,), body)


def runs(low: Value, high: Value, step: Value) -> bool:
    """Whether a loop is known to run at least once."""
    if not all(v.op is not None and v.op.name == "constant" for v in (low, high, step)):
        return False
    return bool(range(*(v.op.attrs["value"] for v in (low, high, step) if v.op is not None)))


def leaving_for(carried: Carried, body: Path, high: Value, step: Value) -> None:
    """A `for` that can be left becomes a `while` that carries its index."""
    scope, b = carried.scope, carried.scope.builder
    with b.inside(body.region):
        body.vars[INDEX] = Binding(b.emit("add", body.region.args[0], step), b.loc)

    def test() -> Value:
        index = scope.vars[INDEX].value
        up, down = (b.emit(name, index, high) for name in ("lt", "gt"))
        return b.emit("where", b.emit("gt", step, b.constant(0, step.dtype)), up, down)

    make_while(carried, body, test)


def run_while(scope: Scope, node: ast.While) -> None:
    no_else(scope, node)
    if any(isinstance(n, ast.NamedExpr) for n in ast.walk(node.test)):
        way = "assign before the loop and in its body"
        raise UnknownSyntax(scope.loc(node.test), what="`:=` in the condition of a loop", way=way)
    carried = Carried(scope, node, {})
    body = carried.settle()

    def test() -> Any:
        way = f"reduce it to one: `pto.max({ast.unparse(node.test)})`"
        condition = as_truth(scope, scope.eval(node.test), node.test, "`while`", way)
        if condition is True and BREAK not in body.vars:
            raise EndlessLoop(scope.loc(node.test))
        return condition

    make_while(carried, body, test)


def make_while(carried: Carried, body: Path, test: Callable[[], Any]) -> None:
    """End a loop that tests its condition before each iteration, which is not computed any more once it is left."""
    scope, node, tester = carried.scope, carried.node, Region()
    place = node.iter if isinstance(node, ast.For) else node.test
    b = scope.at(place)
    carried.add_exits(body)
    with scope.inside(tester, carried.enter(tester)) as entry:
        stop = entry.get(BREAK)
        going = choose(scope, place, stop.value, lambda: False, test) if stop else test()
        b.op("yield", b.value(going, int1))
    scope.at(place)
    if going is not False:
        carried.finish("while", (), (tester, body.region), body)
        arrive(scope, EXITS.index(RETURN))
