"""Assignment: targets, unpacking, augmented forms, `del`, and functions defined inside a kernel."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from pypto.errors import frontend as errors
from pypto.frontend.arrays import Access, access, array_load, array_store, dimension
from pypto.frontend.operators import constant_result, operate
from pypto.frontend.scope import Binding, Poison, Scope
from pypto.frontend.source import FunctionNode
from pypto.frontend.tuples import remade
from pypto.frontend.values import Dims, Inlined, Method, Range, constant, describe, has_values, is_array, source_of
from pypto.ir.builder import temporarily
from pypto.ir.core import Value

LIMIT = 10_000


def items_of(scope: Scope, node: ast.AST, items: Any) -> tuple[Any, ...]:
    """What a loop at compile time or an unpacking goes through."""
    if isinstance(items, Range) and not has_values((items.start, items.stop, items.step)):
        items = constant_result(scope, node, range, items.start, items.stop, items.step)
    if isinstance(items, Dims):
        return tuple(dimension(scope, items, d) for d in range(len(items)))
    if not isinstance(items, tuple | range):
        way = "iterate over `range(...)`, `pto.static_range(...)` or a tuple"
        if is_array(items):
            name = source_of(items)
            way = f"loop over positions: `for i in range({name}.shape[0])`, and read `{name}[i]`"
        raise errors.NotIterable(scope.loc(node), what=describe(items), way=way)
    if len(items) > LIMIT:
        raise errors.TooManyIterations(scope.loc(node), limit=f"{LIMIT:,}")
    return tuple(items)


def elements(scope: Scope, nodes: Iterable[ast.expr]) -> list[Any]:
    """The values of expressions in a row, some of which may be starred."""
    star = ast.Starred
    parts = (items_of(scope, n, scope.eval(n.value)) if isinstance(n, star) else (scope.eval(n),) for n in nodes)
    return [x for part in parts for x in part]


def assign(scope: Scope, target: ast.expr, value: Any) -> None:
    if isinstance(target, ast.Name):
        scope.assign(target.id, value, scope.loc(target))
    elif isinstance(target, ast.Tuple | ast.List):
        unpack(scope, target, items_of(scope, target, value))
    elif isinstance(target, ast.Attribute) and scope.source.name == "__init__":
        set_field(scope, target, value)
    else:
        array_store(scope, target, place(scope, target), value)


def set_field(scope: Scope, target: ast.Attribute, value: Any) -> None:
    """`self.name = …` while an aggregate is made: the variable becomes one with that field."""
    aggregate, fields = scope.eval(target.value), getattr(scope.eval(target.value), "_fields", ())
    if not isinstance(target.value, ast.Name) or target.attr not in fields:
        raise errors.AssignTarget(scope.loc(target), what=f"`{ast.unparse(target)}`", way=f"its fields are {fields}")
    items = zip(fields, aggregate, strict=True)
    assign(scope, target.value, remade(aggregate, [value if name == target.attr else x for name, x in items]))


def unpack(scope: Scope, target: ast.Tuple | ast.List, items: tuple[Any, ...]) -> None:
    """Assigns items to names. Under Triton's rules more names than items is an error, and surplus items are dropped."""
    first = next((n for n, t in enumerate(target.elts) if isinstance(t, ast.Starred)), None)
    wanted = len(target.elts)
    items = items[:wanted] if first is None and scope.source.lenient else items
    if len(items) < wanted - 1 or (first is None and len(items) != wanted):
        raise errors.UnpackMismatch(scope.loc(target), given=f"{len(items)} values", wanted=f"{wanted} names")
    if first is not None:
        behind = first + 1 + len(items) - wanted
        items = (*items[:first], items[first:behind], *items[behind:])
    for element, part in zip(target.elts, items, strict=True):
        assign(scope, element.value if isinstance(element, ast.Starred) else element, part)


def place(scope: Scope, target: ast.expr) -> Access:
    """The slice of an array that is assigned to."""
    if not isinstance(target, ast.Subscript):
        way = "a value cannot be changed: make a new one, use a variable, or store into an array"
        raise errors.AssignTarget(scope.loc(target), what="an attribute", way=way)
    array = scope.eval(target.value)
    if not is_array(array):
        way = "a tile is a value: compute a new one, for instance with `pto.where`" if isinstance(array, Value) else ""
        raise errors.AssignTarget(scope.loc(target), what=f"an element of {describe(array)}", way=way)
    return access(scope, target, array)


def run_assign(scope: Scope, node: ast.Assign) -> None:
    value = scope.eval(node.value)
    for target in node.targets:
        assign(scope, target, value)


def run_annotated(scope: Scope, node: ast.AnnAssign) -> None:
    if node.value is not None:
        assign(scope, node.target, scope.eval(node.value))


def run_augmented(scope: Scope, node: ast.AugAssign) -> None:
    target = node.target
    if isinstance(target, ast.Name):
        assign(scope, target, operate(scope, node, node.op, scope.lookup(target), scope.eval(node.value)))
        return
    where = place(scope, target)
    old = array_load(scope, target, where, 0)
    array_store(scope, target, where, operate(scope, node, node.op, old, scope.eval(node.value)))


def run_walrus(scope: Scope, node: ast.NamedExpr) -> Any:
    value = scope.eval(node.value)
    assign(scope, node.target, value)
    return value


def run_comprehension(scope: Scope, node: ast.ListComp | ast.GeneratorExp) -> tuple[Any, ...]:
    """A comprehension over what is known at compile time is a tuple; its variables are its own."""

    def results(depth: int) -> Iterator[Any]:
        if depth == len(node.generators):
            yield scope.eval(node.elt)
            return
        part = node.generators[depth]
        for item in items_of(scope, part.iter, scope.eval(part.iter)):
            assign(scope, part.target, item)
            tests = [constant(scope.eval(test), "the `if` of a comprehension", scope.loc(test)) for test in part.ifs]
            yield from results(depth + 1) if all(tests) else ()

    with temporarily(scope, vars=dict(scope.vars)):
        return tuple(results(0))


def run_expression(scope: Scope, node: ast.Expr) -> None:
    value = scope.eval(node.value)
    if isinstance(value, Method):
        raise errors.UnknownSyntax(scope.loc(node), what="a method without a call", way=f"write `.{value.name}()`")


def run_delete(scope: Scope, node: ast.Delete) -> None:
    for target in node.targets:
        loc = scope.loc(target)
        if not isinstance(target, ast.Name):
            raise errors.AssignTarget(loc, what="`del` of anything but a variable", way="")
        scope.lookup(target)
        scope.vars[target.id] = Binding(deleted(target.id, loc), loc)


def deleted(name: str, loc: Any) -> Poison:
    return Poison(lambda use: errors.MaybeUnassigned(use, (("deleted here", loc),), name=name, why="it is deleted"))


def run_def(scope: Scope, node: ast.FunctionDef) -> None:
    if node.decorator_list:
        what, way = "a decorator on a function inside a kernel", "define the function outside of the kernel"
        raise errors.UnknownSyntax(scope.loc(node.decorator_list[0]), what=what, way=way)
    scope.vars[node.name] = Binding(local_function(scope, node), scope.loc(node))


def local_function(scope: Scope, node: FunctionNode) -> Inlined:
    """A `def` or `lambda` inside a kernel: its defaults are evaluated now."""
    pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    keyword = {a.arg: scope.eval(d) for a, d in pairs if d is not None}
    defaults = tuple(scope.eval(d) for d in node.args.defaults)
    return Inlined(getattr(node, "name", "lambda"), node, scope.source, scope, defaults, keyword)
