"""Assignment: targets, unpacking, augmented forms, `del`, and functions defined inside a kernel."""

from __future__ import annotations

import ast
from typing import Any

from pypto.errors.frontend import (
    AssignTarget,
    MaybeUnassigned,
    NotIterable,
    TooManyIterations,
    UnknownSyntax,
    UnpackMismatch,
)
from pypto.frontend.access import Access, access, array_load, array_store, dimension
from pypto.frontend.operators import binary, constant_result
from pypto.frontend.scope import Binding, Poison, Scope
from pypto.frontend.values import Dims, LocalFunction, Method, Range, describe, has_values, is_array
from pypto.ir.core import Value

LIMIT = 10_000
_WAY_TILE = "a tile is a value: compute a new one, for instance with `pto.where`"


def items_of(scope: Scope, node: ast.AST, items: Any) -> tuple[Any, ...]:
    """What a loop at compile time or an unpacking goes through."""
    if isinstance(items, Range) and not has_values((items.start, items.stop, items.step)):
        items = constant_result(scope, node, range, items.start, items.stop, items.step)
    if isinstance(items, tuple | range):
        if len(items) > LIMIT:
            raise TooManyIterations(scope.loc(node), limit=f"{LIMIT:,}")
        return tuple(items)
    if isinstance(items, Dims):
        return tuple(dimension(scope, items, d) for d in range(len(items)))
    raise NotIterable(scope.loc(node), what=describe(items))


def assign(scope: Scope, target: ast.expr, value: Any) -> None:
    if isinstance(target, ast.Name):
        scope.assign(target.id, value, scope.loc(target))
    elif isinstance(target, ast.Tuple | ast.List):
        unpack(scope, target, items_of(scope, target, value))
    elif isinstance(target, ast.Subscript):
        array_store(scope, target, place(scope, target), value)
    else:
        raise AssignTarget(scope.loc(target), what="an attribute", way="use a variable, or store into an array")


def unpack(scope: Scope, target: ast.Tuple | ast.List, items: tuple[Any, ...]) -> None:
    stars = [n for n, t in enumerate(target.elts) if isinstance(t, ast.Starred)]
    wanted = len(target.elts)
    if len(items) < wanted - 1 or (not stars and len(items) != wanted):
        raise UnpackMismatch(scope.loc(target), given=f"{len(items)} values", wanted=f"{wanted} names")
    if not stars:
        parts: list[Any] = list(items)
    else:
        first, last = stars[0], wanted - stars[0] - 1
        parts = [*items[:first], items[first : len(items) - last], *items[len(items) - last :]]
    for element, part in zip(target.elts, parts, strict=True):
        assign(scope, element.value if isinstance(element, ast.Starred) else element, part)


def place(scope: Scope, target: ast.Subscript) -> Access:
    """The slice of an array that a subscript names."""
    array = scope.eval(target.value)
    if not is_array(array):
        way = _WAY_TILE if isinstance(array, Value) else ""
        raise AssignTarget(scope.loc(target), what=f"an element of {describe(array)}", way=way)
    return access(scope, target, array)


def run_assign(scope: Scope, node: ast.Assign) -> None:
    value = scope.eval(node.value)
    for target in node.targets:
        assign(scope, target, value)


def run_annotated(scope: Scope, node: ast.AnnAssign) -> None:
    if node.value is not None:
        assign(scope, node.target, scope.eval(node.value))


def run_augmented(scope: Scope, node: ast.AugAssign) -> None:
    if isinstance(node.target, ast.Name):
        name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        value = binary(scope, node, node.op, scope.lookup(name), scope.eval(node.value))
        assign(scope, node.target, value)
        return
    if not isinstance(node.target, ast.Subscript):
        raise AssignTarget(scope.loc(node.target), what="an attribute", way="use a variable, or store into an array")
    where = place(scope, node.target)
    old = array_load(scope, node.target, where, 0)
    array_store(scope, node.target, where, binary(scope, node, node.op, old, scope.eval(node.value)))


def run_walrus(scope: Scope, node: ast.NamedExpr) -> Any:
    value = scope.eval(node.value)
    assign(scope, node.target, value)
    return value


def run_expression(scope: Scope, node: ast.Expr) -> None:
    value = scope.eval(node.value)
    if isinstance(value, Method):
        raise UnknownSyntax(scope.loc(node), what="a method without a call", way=f"write `.{value.name}()`")


def run_delete(scope: Scope, node: ast.Delete) -> None:
    for target in node.targets:
        if not isinstance(target, ast.Name):
            raise AssignTarget(scope.loc(target), what="`del` of anything but a variable", way="")
        scope.lookup(ast.copy_location(ast.Name(target.id, ast.Load()), target))
        name, loc = target.id, scope.loc(target)
        scope.vars[name] = Binding(deleted(name, loc), loc)


def deleted(name: str, loc: Any) -> Poison:
    return Poison(lambda use: MaybeUnassigned(use, (("deleted here", loc),), name=name, why="it is deleted"))


def run_def(scope: Scope, node: ast.FunctionDef) -> None:
    if node.decorator_list:
        raise UnknownSyntax(
            scope.loc(node.decorator_list[0]),
            what="a decorator on a function inside a kernel",
            way="define the function outside of the kernel",
        )
    scope.vars[node.name] = Binding(local_function(scope, node), scope.loc(node))


def local_function(scope: Scope, node: ast.FunctionDef | ast.Lambda) -> LocalFunction:
    defaults = tuple(scope.eval(d) for d in node.args.defaults)
    pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return LocalFunction(node, scope, defaults, {a.arg: scope.eval(d) for a, d in pairs if d is not None})
