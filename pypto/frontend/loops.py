"""`for` and `while`.

Which variables a loop carries, and in which types, is found by building its body. Variables that hold run-time values
are carried in their type from the start. Constants stay constants until a build shows that they change; then they are
carried in the type that they and their next value have in common, and the body is built again. What an inner loop
found out is kept as a hint for the rebuilds of the outer ones, so that the number of builds adds up rather than multiplies.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pypto.errors import Diagnostic
from pypto.errors.frontend import EndlessLoop, LoopBound, TooManyIterations, UnknownSyntax, ZeroStep
from pypto.frontend.assign import LIMIT, assign, items_of
from pypto.frontend.flow import as_truth, block
from pypto.frontend.merge import EXITS, VALUE, clashing, conform, is_pure, join, join_types, unassigned, weakly
from pypto.frontend.scope import Binding, Poison, Scope
from pypto.frontend.values import Range, describe, is_number, is_scalar, leaves, rebuild, same
from pypto.ir.core import Region, Value
from pypto.ir.types import DType, TileType, int1, int32, int64, scalar
from pypto.ops.build import weak_dtype

LEAVES = (".break", ".return")


@dataclass(slots=True)
class Variable:
    """A variable that the body assigns: its state before, and per leaf the carried type (None: not carried)."""

    init: Binding
    types: list[TileType | None]
    poison: Poison | None = None


Variables = dict[str, Variable]


@dataclass(slots=True)
class Body:
    """One build of a body: its region, and the variables at its end."""

    region: Region
    ends: dict[str, Binding] = field(default_factory=dict)


def candidates(scope: Scope, node: ast.For | ast.While) -> Variables:
    """Variables of before the loop that its body assigns."""
    found = {}
    for name in assigned(node):
        binding = scope.vars.get(name)
        if binding is not None and not isinstance(binding.value, Poison):
            found[name] = Variable(binding, [carried_type(x) for x in leaves(binding.value)])
    return found


def assigned(node: ast.AST) -> list[str]:
    """Names that a loop assigns, in order."""
    names: dict[str, None] = {}
    todo = [node]
    while todo:
        item = todo.pop(0)
        if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store | ast.Del):
            names[item.id] = None
        if isinstance(item, ast.FunctionDef):
            names[item.name] = None
        elif not isinstance(item, ast.Lambda):
            todo += ast.iter_child_nodes(item)
    return list(names)


def carried_type(x: Any) -> TileType | None:
    return x.type if isinstance(x, Value) and isinstance(x.type, TileType) else None


def enter(scope: Scope, region: Region, variables: Variables) -> dict[str, Binding]:
    """The variables at the head of a region, for which it gets arguments."""
    entry = {n: b for n, b in scope.vars.items() if n not in (*EXITS, VALUE)}
    for name, variable in variables.items():
        items = []
        for x, type in zip(leaves(variable.init.value), variable.types, strict=True):
            if type is not None and not variable.poison:
                x = Value(type, name)
                region.args.append(x)
            items.append(x)
        value = variable.poison or rebuild(variable.init.value, iter(items))
        entry[name] = Binding(value, variable.init.loc)
    return entry


def grow(variables: Variables, ends: dict[str, Binding]) -> bool:
    """Compare the end of a body with its head; true when it has to be built again."""
    changed = False
    for name, variable in variables.items():
        end = ends.get(name)
        if variable.poison or end is None:
            continue
        if isinstance(end.value, Poison):
            variable.poison, changed = end.value, True
            continue
        types = grown(variable, end.value)
        if types is None:
            variable.poison, changed = clashing(name, variable.init, end), True
        elif types != variable.types:
            variable.types, changed = types, True
    return changed


def grown(variable: Variable, end: Any) -> list[TileType | None] | None:
    """The carried types after another build, or None where start and end have nothing in common."""
    starts, ends = list(leaves(variable.init.value)), list(leaves(end))
    if len(starts) != len(ends):
        return None
    types: list[TileType | None] = []
    for start, stop, type in zip(starts, ends, variable.types, strict=True):
        if type is None and same(start, stop):
            types.append(None)
            continue
        joined = join(start, stop) if type is None else widened(start, type, stop)
        if joined is None:
            return None
        types.append(joined)
    return types


def widened(start: Any, type: TileType, end: Any) -> TileType | None:
    """A carried type that holds `end` too. Only what started as a constant may grow."""
    if is_number(end):
        return weakly(type, end) or (join_types(type, scalar(weak_dtype(end))) if is_number(start) else None)
    if not isinstance(end, Value) or not isinstance(end.type, TileType):
        return None
    if end.type == type:
        return type
    return join_types(type, end.type) if is_number(start) else None


def settle(scope: Scope, node: ast.For | ast.While, build: Callable[[Variables], Body]) -> tuple[Variables, Body]:
    """Build the body until what it carries stays as it is."""
    variables, unrolled, key = candidates(scope, node), scope.session.unrolled, (node, scope.call_site)
    use_hints(variables, scope.session.hints.get(key, {}))
    failure: Diagnostic | None = None
    while True:
        scope.session.unrolled = unrolled
        try:
            body = build(variables)
        except Diagnostic as error:
            if failure or not carry_all(variables):
                raise failure or error from None
            failure = error
            continue
        if not grow(variables, body.ends):
            scope.session.hints[key] = {n: v.types for n, v in variables.items() if not v.poison}
            return variables, body


def use_hints(variables: Variables, hints: dict[str, list[TileType | None]]) -> None:
    """Start constants in the types that an earlier build of this loop gave them."""
    for name, types in hints.items():
        variable = variables.get(name)
        if variable is None:
            continue
        starts = list(leaves(variable.init.value))
        if len(starts) == len(types) and all(is_number(x) and t and weakly(t, x) for x, t in zip(starts, types, strict=True)):
            variable.types = types


def carry_all(variables: Variables) -> bool:
    """Carry every number from the start: a body may make sense only when a counter is no constant. False: they all were."""
    changed = False
    for variable in variables.values():
        for n, x in enumerate(leaves(variable.init.value)):
            if is_number(x) and variable.types[n] is None:
                type = join(x, x)
                variable.types[n], changed = type, True
    return changed


def build_body(scope: Scope, node: ast.For | ast.While, region: Region, variables: Variables, head: Callable[[], None]) -> Body:
    """One build of the statements of a loop."""
    outer = scope.pending, scope.rest, scope.live_out
    scope.pending, scope.rest, scope.live_out = [], type(scope.rest)(), frozenset((*variables, *LEAVES, VALUE))
    try:
        with scope.builder.inside(region), scope.variables(enter(scope, region, variables)):
            head()
            block(scope, scope.steps(node.body))
            return Body(region, scope.vars)
    finally:
        scope.pending, scope.rest, scope.live_out = outer


def run_for(scope: Scope, node: ast.For) -> None:
    no_else(scope, node)
    items = scope.eval(node.iter)
    if isinstance(items, Range):
        run_range(scope, node, items)
    else:
        unroll(scope, node, items)


def no_else(scope: Scope, node: ast.For | ast.While) -> None:
    if node.orelse:
        raise UnknownSyntax(scope.loc(node.orelse[0]), what="`else` after a loop", way="set a flag before `break` and test it after the loop")


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
    for name in (".break", ".continue"):
        scope.vars.pop(name, None)


def index_type(scope: Scope, node: ast.expr, loop: Range) -> DType:
    """int32, unless a bound needs more."""
    wide = False
    for what, bound in (("the start", loop.start), ("the stop", loop.stop), ("the step", loop.step)):
        if is_scalar(bound) and isinstance(bound, Value) and not bound.tile.is_ptr and bound.dtype.is_int:
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
        region = Region([index])
        return build_body(scope, node, region, variables, lambda: assign(scope, node.target, index))

    variables, body = settle(scope, node, build)
    scope.at(node.iter)
    if any(name in body.ends for name in LEAVES):
        leaving_for(scope, node, bounds, variables, body)
        return
    inits = initial(scope, variables)
    with b.inside(body.region):
        b.op("yield", *final(scope, variables, body))
    op = b.create("for", (*bounds, *inits), {}, tuple(v.type for v in inits), (body.region,))
    after(scope, node, variables, body, list(op.results))


def leaving_for(scope: Scope, node: ast.For, bounds: list[Value], variables: Variables, body: Body) -> None:
    """A `for` that can be left becomes a `while` that carries its index."""
    b, (low, high, step) = scope.builder, bounds
    with b.inside(body.region):
        following = b.emit("add", body.region.args[0], step)

    def test(args: list[Value]) -> Value:
        up = b.emit("lt", args[0], high)
        number = constant_of(step)
        if number is not None:
            return up if number > 0 else b.emit("gt", args[0], high)
        positive = b.emit("gt", step, b.constant(0, step.dtype))
        return b.emit("where", positive, up, b.emit("gt", args[0], high))

    leaving_while(scope, node, variables, body, [low], [following], test)


def constant_of(value: Value) -> int | None:
    if value.op is None or value.op.name != "constant":
        return None
    number = value.op.attrs["value"]
    return number if isinstance(number, int) else None


def leaving_while(scope: Scope, node: ast.For | ast.While, variables: Variables, body: Body, extra: list[Value], following: list[Value],
                  test: Callable[[list[Value]], Value]) -> None:
    """Make a `while` whose carried values are: extra ones, the variables, the flags that end it, and what is returned."""
    b = scope.builder
    flags = [name for name in LEAVES if name in body.ends]
    returned = body.ends[VALUE].value if ".return" in flags else None
    kept = [x for x in leaves(returned) if carried_type(x) is not None]
    inits = extra + initial(scope, variables)
    inits += [b.constant(False, int1) for _ in flags] + [conform_undef(scope, x) for x in kept]
    with b.inside(body.region):
        stops = [b.cast(b.value(body.ends[name].value, int1), int1) for name in flags]
        b.op("yield", *following, *final(scope, variables, body), *stops, *kept)
    body.region.args += [Value(v.type) for v in inits[len(body.region.args) :]]
    tester = Region([Value(v.type, a.hint) for v, a in zip(inits, body.region.args, strict=True)])
    first = len(inits) - len(kept) - len(flags)
    with b.inside(tester):
        going = guarded_test(scope, tester.args[first : first + len(flags)], lambda: test(tester.args))
        b.op("yield", going)
    op = b.create("while", tuple(inits), {}, tuple(v.type for v in inits), (tester, body.region))
    results = list(op.results)
    after(scope, node, variables, body, results[len(extra) : first])
    leave_flags(scope, flags, results[first : first + len(flags)], body, results[first + len(flags) :])


def conform_undef(scope: Scope, like: Value) -> Value:
    return scope.builder.create("undef", (), {}, (like.type,)).result


def leave_flags(scope: Scope, flags: list[str], values: list[Value], body: Body, kept: list[Value]) -> None:
    """After the loop, a `return` in it is still on its way."""
    if ".return" not in flags:
        return
    scope.vars[".return"] = Binding(values[flags.index(".return")], body.ends[".return"].loc)
    end = body.ends[VALUE]
    items = iter(kept)
    scope.vars[VALUE] = Binding(rebuild(end.value, iter([next(items) if carried_type(x) is not None else x for x in leaves(end.value)])), end.loc)


def guarded_test(scope: Scope, flags: list[Value], test: Callable[[], Value]) -> Value:
    """The loop's condition, which is not computed any more once a flag is set."""
    b = scope.builder
    region = Region()
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
    for arm, value in ((stopped, None), (region, going)):
        with b.inside(arm):
            b.op("yield", value if value is not None else b.constant(False, int1))
    return b.create("if", (stop,), {}, (scalar(int1),), (stopped, region)).result


def run_while(scope: Scope, node: ast.While) -> None:
    no_else(scope, node)
    conditions: list[Any] = []

    def build(variables: Variables) -> Body:
        tester, region = Region(), Region()
        with scope.builder.inside(tester), scope.variables(enter(scope, tester, variables)) as entry:
            conditions[:] = [as_truth(scope, scope.eval(node.test), node.test, "`while`", "reduce it, for instance `pto.max(t) > 0`"), tester]
            if any(entry.get(name) is not scope.vars[name] for name in scope.vars):
                raise UnknownSyntax(scope.loc(node.test), what="`:=` in the condition of a loop", way="assign before the loop and in its body")
        return build_body(scope, node, region, variables, lambda: None)

    variables, body = settle(scope, node, build)
    condition, tester = conditions
    if condition is False:
        return
    scope.at(node.test)
    if condition is True and not any(name in body.ends for name in LEAVES):
        raise EndlessLoop(scope.loc(node.test))

    def test(args: list[Value]) -> Value:
        # The condition was built on arguments of its own; the ops move into the final region, and so do these.
        b = scope.builder
        args[: len(tester.args)] = tester.args
        b.region.ops += tester.ops
        return b.value(condition, int1)

    leaving_while(scope, node, variables, body, [], [], test)


def initial(scope: Scope, variables: Variables) -> list[Value]:
    return [conform(scope.builder, x, t) for v in variables.values() if not v.poison
            for x, t in zip(leaves(v.init.value), v.types, strict=True) if t is not None]


def final(scope: Scope, variables: Variables, body: Body) -> list[Value]:
    """The next state of what is carried, built at the end of the body."""
    return [conform(scope.builder, x, t) for name, v in variables.items() if not v.poison
            for x, t in zip(leaves(body.ends[name].value), v.types, strict=True) if t is not None]


def after(scope: Scope, node: ast.For | ast.While, variables: Variables, body: Body, results: list[Value]) -> None:
    """The variables behind a loop."""
    left = iter(results)
    for name in assigned(node):
        end, variable = body.ends.get(name), variables.get(name)
        if variable is not None:
            items = [next(left) if t is not None and not variable.poison else x
                     for x, t in zip(leaves(variable.init.value), variable.types, strict=True)]
            value = variable.poison or rebuild(variable.init.value, iter(items))
            scope.vars[name] = Binding(value, end.loc if end else variable.init.loc)
        elif end is not None:
            poison = end.value if isinstance(end.value, Poison) else unassigned(name, end.loc, "it is assigned inside a loop, which may not run")
            scope.vars[name] = Binding(poison, end.loc)

