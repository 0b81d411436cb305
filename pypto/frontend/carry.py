"""What a loop carries from one iteration to the next.

Which variables those are, and their types, is found by building the loop's body. Variables that hold run-time values
are carried in their type from the start. Constants stay constants until a build shows that they change; then they are
carried in the type that they and their next value have in common, and the body is built again. What an inner loop
found out is a hint when the outer ones are built again, so that the numbers of builds add up rather than multiply.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pypto.errors import Diagnostic
from pypto.frontend.merge import EXITS, VALUE, clashing, conform, join, join_types, unassigned, weakly
from pypto.frontend.scope import Binding, Poison, Scope
from pypto.frontend.values import is_number, leaves, rebuild, same
from pypto.ir.core import Region, Value
from pypto.ir.types import TileType, scalar
from pypto.ops.build import weak_dtype

Loop = ast.For | ast.While


@dataclass(slots=True)
class Variable:
    """A variable that the body assigns: its state before, and per leaf the carried type (None: not carried)."""

    init: Binding
    types: list[TileType | None]
    poison: Poison | None = None

    def at_head(self, carried: Iterator[Value]) -> Any:
        """Its value where an iteration begins, or after the loop."""
        pairs = zip(leaves(self.init.value), self.types, strict=True)
        return self.poison or rebuild(self.init.value, iter([x if t is None else next(carried) for x, t in pairs]))

    def carried(self, value: Any) -> Iterator[tuple[Any, TileType]]:
        """The leaves of a state that are carried, with their types."""
        if not self.poison:
            yield from ((x, t) for x, t in zip(leaves(value), self.types, strict=True) if t is not None)


Variables = dict[str, Variable]


@dataclass(slots=True)
class Body:
    """One build of a body: its region, and the variables at its end."""

    region: Region
    ends: dict[str, Binding] = field(default_factory=dict)


def assigned(node: Loop) -> list[str]:
    """Names that a loop assigns."""
    names: dict[str, None] = {}
    todo: list[ast.AST] = [node]
    while todo:
        item = todo.pop()
        if isinstance(item, ast.Name) and not isinstance(item.ctx, ast.Load):
            names[item.id] = None
        if isinstance(item, ast.FunctionDef):
            names[item.name] = None
        elif not isinstance(item, ast.Lambda):
            todo += reversed(list(ast.iter_child_nodes(item)))
    return list(names)


def carried_type(x: Any) -> TileType | None:
    return x.type if isinstance(x, Value) and isinstance(x.type, TileType) else None


def candidates(scope: Scope, node: Loop) -> Variables:
    """Variables of before the loop that its body assigns."""
    found = {}
    for name in assigned(node):
        binding = scope.vars.get(name)
        if binding is not None and not isinstance(binding.value, Poison):
            found[name] = Variable(binding, [carried_type(x) for x in leaves(binding.value)])
    return found


def enter(scope: Scope, region: Region, variables: Variables) -> dict[str, Binding]:
    """The variables at the head of a region, for which it gets arguments."""
    entry = {n: b for n, b in scope.vars.items() if n not in (*EXITS, VALUE)}
    for name, variable in variables.items():
        args = [Value(t, name) for _, t in variable.carried(variable.init.value)]
        region.args += args
        entry[name] = Binding(variable.at_head(iter(args)), variable.init.loc)
    return entry


def grow(variables: Variables, ends: dict[str, Binding]) -> bool:
    """Compare the end of a body with its head; true when it has to be built again."""
    changed = False
    for name, variable in variables.items():
        if variable.poison:
            continue
        end = ends[name]
        types = None if isinstance(end.value, Poison) else grown(variable, end.value)
        if types is None:
            variable.poison = end.value if isinstance(end.value, Poison) else clashing(name, variable.init, end)
        changed |= types != variable.types
        variable.types = types or variable.types
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
        fits = weakly(type, end)
        return fits if fits or not is_number(start) else join_types(type, scalar(weak_dtype(end)))
    other = carried_type(end)
    if other is None or other == type:
        return other
    return join_types(type, other) if is_number(start) else None


def settle(scope: Scope, node: Loop, build: Callable[[Variables], Body]) -> tuple[Variables, Body]:
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
        if name not in variables:
            continue
        starts = list(leaves(variables[name].init.value))
        fit = (is_number(x) and t is not None and weakly(t, x) for x, t in zip(starts, types, strict=False))
        if len(starts) == len(types) and all(fit):
            variables[name].types = types


def carry_all(variables: Variables) -> bool:
    """Carry every number: a body may make sense only when a counter is no constant. False where they all were."""
    changed = False
    for variable in variables.values():
        for n, x in enumerate(leaves(variable.init.value)):
            if is_number(x) and variable.types[n] is None:
                variable.types[n], changed = join(x, x), True
    return changed


def initial(scope: Scope, variables: Variables) -> list[Value]:
    """The first state of what is carried, built before the loop."""
    pairs = (pair for v in variables.values() for pair in v.carried(v.init.value))
    return [conform(scope.builder, x, t) for x, t in pairs]


def following(scope: Scope, variables: Variables, body: Body) -> list[Value]:
    """The next state of what is carried, built at the end of the body."""
    pairs = (pair for name, v in variables.items() if not v.poison for pair in v.carried(body.ends[name].value))
    return [conform(scope.builder, x, t) for x, t in pairs]


def after(scope: Scope, node: Loop, variables: Variables, body: Body, results: list[Value]) -> None:
    """Set the variables behind the loop."""
    left = iter(results)
    for name, variable in variables.items():
        scope.vars[name] = Binding(variable.at_head(left), body.ends[name].loc)
    for name in assigned(node):
        end = body.ends.get(name)
        if name not in variables and end is not None:
            why = "it is assigned inside a loop, which may not run"
            poison = end.value if isinstance(end.value, Poison) else unassigned(name, end.loc, why)
            scope.vars[name] = Binding(poison, end.loc)
