"""Blocks and branches: structured control flow out of `if`, `return`, `break` and `continue`."""

from __future__ import annotations

import ast
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any

from pypto.errors.frontend import AssertionFailed, ReturnInKernel, TileCondition, UnknownSyntax
from pypto.frontend.arrays import shaped
from pypto.frontend.merge import RESULT, Merge, Path
from pypto.frontend.ones import known_number
from pypto.frontend.scope import EXITS, SKIP, VALUE, Binding, Scope, Step
from pypto.frontend.values import constant, describe, has_values, is_array, tile_type
from pypto.ir.builder import temporarily
from pypto.ir.core import Region, Value
from pypto.ir.types import int1


@dataclass(frozen=True, slots=True)
class Label:
    """What `with pto.label(text):` names a part of the kernel."""

    text: str


def block(scope: Scope, steps: list[Step]) -> None:
    """Run steps in order. After one that may leave the block, what remains is built under a guard."""
    with temporarily(scope, remaining_steps=deque(steps)):
        while scope.remaining_steps:
            skipped = scope.vars.get(SKIP)
            if skipped is None:
                scope.remaining_steps.popleft()()
            elif skipped.value is True:
                break
            else:
                guard(scope, skipped.value)


def guard(scope: Scope, left: Value) -> None:
    """Build the rest of the block for the programs that have not left it."""
    state = {name: scope.vars.pop(name) for name in (*EXITS, VALUE) if name in scope.vars}

    def gone() -> None:
        scope.vars.update({n: Binding(True, b.loc) if b.value is left else b for n, b in state.items()})

    branch(scope, left, gone, lambda: None)


def branch(scope: Scope, condition: Value, then: Step, orelse: Step, select: bool = False) -> None:
    """Build both outcomes. Where just one of them leaves the block, what remains of the block belongs to the other."""
    loc, arms = scope.builder.loc, (Path(Region(), dict(scope.vars)), Path(Region(), dict(scope.vars)))
    for arm, build in zip(arms, (then, orelse), strict=True):
        with scope.inside(arm.region, arm.vars):
            build()
    leaves = [arm.ends_with(SKIP) for arm in arms]
    if leaves[0] != leaves[1]:
        live, steps = arms[leaves[0]], list(scope.remaining_steps)
        scope.remaining_steps.clear()
        with scope.inside(live.region, live.vars):
            block(scope, steps)
    with scope.builder.at(loc):
        merged = Merge(scope.builder, condition, arms)
        bindings = {name: merged.variable(name) for name in dict.fromkeys([*arms[0].vars, *arms[1].vars])}
        scope.vars.update({name: b for name, b in bindings.items() if b})
        merged.finish(select)


def run_if(scope: Scope, node: ast.If) -> None:
    where = "for each element, use `pto.where(condition, a, b)`"
    way = f"{where}; for one decision, reduce it: `pto.max({ast.unparse(node.test)})`"
    condition = as_truth(scope, scope.eval(node.test), node.test, "`if`", way)
    then, orelse = (partial(block, scope, scope.steps(body)) for body in (node.body, node.orelse))
    if isinstance(condition, Value):
        branch(scope, condition, then, orelse)
    else:
        (then if condition else orelse)()


def choose(scope: Scope, node: ast.expr, condition: Value, then: Step, orelse: Step) -> Any:
    """The value of one of two expressions, of which only the chosen one is computed."""
    loc = scope.loc(node)

    def result(build: Step) -> None:
        scope.vars[RESULT] = Binding(build(), loc)

    scope.at(node)
    branch(scope, condition, partial(result, then), partial(result, orelse), select=True)
    return scope.vars.pop(RESULT).read(loc)


def as_truth(scope: Scope, value: Any, node: ast.expr, where: str, way: str) -> Any:
    """A condition: a Python bool, or a run-time i1 scalar; Triton takes the one element of a tile, too."""
    if not has_values(value):
        return bool(value)
    type = tile_type(value)
    if scope.source.lenient and (is_array(value) or (type and type.is_ptr and not type.shape)):
        return True  # what is None where there is no array
    if type is None or type.is_ptr or (type.shape and (type.size > 1 or not scope.source.lenient)):
        raise TileCondition(scope.loc(node), where=where, type=describe(value), way=way)
    known = known_number(scope, value)
    if known is not None:
        return bool(known)
    return shaped(scope.at(node), scope.at(node).cast(value, int1), ())


def leave(levels: int, scope: Scope, node: ast.stmt) -> None:
    """A statement that leaves the block, the loop or the function: as many of `EXITS`."""
    scope.vars.update({name: Binding(True, scope.loc(node)) for name in EXITS[:levels]})


def arrive(scope: Scope, level: int) -> None:
    """Behind an iteration or a loop: what left more than that is still leaving, the rest is back."""
    still = scope.vars.get(EXITS[level])
    for name in EXITS[:level]:
        scope.vars.pop(name, None)
        if still:
            scope.vars[name] = still


def run_return(scope: Scope, node: ast.Return) -> None:
    value = scope.eval(node.value) if node.value else None
    if scope.depth == 0 and value is not None:
        raise ReturnInKernel(scope.loc(node), what=describe(value))
    scope.vars[VALUE] = Binding(value, scope.loc(node))
    leave(len(EXITS), scope, node)


def run_with(scope: Scope, node: ast.With) -> None:
    """`with pto.label(name):` names a part of the kernel; its ops have the name in their location."""
    outer, names = scope.session.label, [scope.eval(item.context_expr) for item in node.items]
    if not all(isinstance(name, Label) for name in names) or any(item.optional_vars for item in node.items):
        raise UnknownSyntax(scope.loc(node), what="`with`", way="only `with pto.label(name):` has a meaning here")
    with temporarily(scope.session, label="/".join(filter(None, [outer, *(name.text for name in names)]))):
        block(scope, scope.steps(node.body))


def run_assert(scope: Scope, node: ast.Assert) -> None:
    condition = scope.eval(node.test)
    message = scope.eval(node.msg) if node.msg else ""
    constant(message, "the message of an assertion", scope.loc(node))
    if has_values(condition):
        b = scope.at(node)
        b.op("assert_", b.cast(b.value(condition), int1), message=str(message), wraps="")
    elif not condition:
        raise AssertionFailed(scope.loc(node), message=f": {message}" if message else "")
