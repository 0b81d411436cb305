"""Blocks and branches: structured control flow out of `if`, `return`, `break` and `continue`."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable
from typing import Any

from pypto.errors.frontend import AssertionFailed, ReturnInKernel, TileCondition
from pypto.frontend.merge import EXITS, RESULT, VALUE, Arm, build_arm, is_true, merge
from pypto.frontend.scope import Binding, Poison, Scope, Step
from pypto.frontend.values import constant, describe, has_values, is_array
from pypto.ir.core import Value
from pypto.ir.types import int1


def block(scope: Scope, steps: list[Step]) -> None:
    """Run steps in order. After one that may leave the block, what remains is built under a guard."""
    scope.pending.append(scope.rest)
    outer, scope.rest = scope.rest, deque(steps)
    try:
        while scope.rest:
            scope.rest.popleft()()
            if any(is_true(scope.vars, name) for name in EXITS):
                break
            if scope.rest and any(name in scope.vars for name in EXITS):
                guard(scope)
    finally:
        scope.pending.pop()
        scope.rest = outer


def take_rest(scope: Scope) -> list[Step]:
    steps = list(scope.rest)
    scope.rest.clear()
    return steps


def guard(scope: Scope) -> None:
    """Build the rest of the block for the programs that have not left it."""
    b, steps = scope.builder, take_rest(scope)
    flags = [name for name in EXITS if name in scope.vars]
    gone, here = dict(scope.vars), {n: v for n, v in scope.vars.items() if n not in (*EXITS, VALUE)}
    left = scope.vars[flags[0]].value
    for name in flags[1:]:
        left = b.emit("or_", left, scope.vars[name].value)
    if len(flags) == 1:
        gone[flags[0]] = Binding(True, gone[flags[0]].loc)
    arms = build_arm(scope, gone, lambda: None), build_arm(scope, here, lambda: block(scope, steps))
    for name in flags:
        del scope.vars[name]
    merge(scope, left, arms)


def run_if(scope: Scope, node: ast.If) -> None:
    way = "reduce it, for instance `pto.max(t) > 0`, or use `pto.where`"
    condition = as_truth(scope, scope.eval(node.test), node.test, "`if`", way)
    if not isinstance(condition, Value):
        block(scope, scope.steps(node.body if condition else node.orelse))
        return
    then = build_arm(scope, scope.vars, lambda: block(scope, scope.steps(node.body)))
    orelse = build_arm(scope, scope.vars, lambda: block(scope, scope.steps(node.orelse)))
    if then.left != orelse.left and scope.rest:
        live = orelse if then.left else then
        steps = take_rest(scope)
        extend(scope, live, steps)
    scope.at(node.test)
    merge(scope, condition, (then, orelse))


def extend(scope: Scope, arm: Arm, steps: list[Step]) -> None:
    """The other path leaves the block, so what remains of it belongs to this one."""
    with scope.builder.inside(arm.region), scope.variables(arm.vars):
        if any(name in scope.vars for name in EXITS):
            scope.rest.extend(steps)
            guard(scope)
        else:
            block(scope, steps)


def choose(scope: Scope, node: ast.expr, condition: Value, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """The value of one of two expressions, of which only the chosen one is computed."""

    def result(build: Callable[[], Any]) -> Callable[[], None]:
        def assign() -> None:
            scope.vars[RESULT] = Binding(build(), scope.loc(node))

        return assign

    arms = build_arm(scope, scope.vars, result(then)), build_arm(scope, scope.vars, result(orelse))
    scope.at(node)
    merge(scope, condition, arms, select=True)
    binding = scope.vars.pop(RESULT)
    if isinstance(binding.value, Poison):
        raise binding.value.reason(scope.loc(node))
    return binding.value


def as_truth(scope: Scope, value: Any, node: ast.expr, where: str, way: str) -> Any:
    """A condition: a Python bool, or a run-time i1 scalar."""
    if not has_values(value):
        return bool(value)
    if not isinstance(value, Value) or is_array(value) or value.shape or value.tile.is_ptr:
        raise TileCondition(scope.loc(node), where=where, type=describe(value), way=way)
    return scope.at(node).cast(value, int1)


def leave(name: str) -> Callable[[Scope, ast.stmt], None]:
    """Handler of `break` and `continue`."""

    def handler(scope: Scope, node: ast.stmt) -> None:
        scope.vars[name] = Binding(True, scope.loc(node))

    return handler


def run_return(scope: Scope, node: ast.Return) -> None:
    value = scope.eval(node.value) if node.value else None
    if scope.call_site is None and scope.depth == 0 and value is not None:
        raise ReturnInKernel(scope.loc(node), what=describe(value))
    scope.vars[VALUE] = Binding(value, scope.loc(node))
    scope.vars[".return"] = Binding(True, scope.loc(node))


def run_assert(scope: Scope, node: ast.Assert) -> None:
    condition = scope.eval(node.test)
    message = constant(scope.eval(node.msg), "the message of an assertion", scope.loc(node.msg)) if node.msg else ""
    check(scope, node, condition, str(message))


def check(scope: Scope, node: ast.AST, condition: Any, message: str) -> None:
    """An assertion: decided here when it can be, else an op."""
    if not has_values(condition):
        if not condition:
            raise AssertionFailed(scope.loc(node), message=f": {message}" if message else "")
        return
    b = scope.at(node)
    b.op("assert_", b.cast(b.value(condition), int1), message=message)
