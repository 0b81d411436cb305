"""What a loop carries from one iteration to the next.

Which variables those are, and their types, is found by building the loop's body. Variables that hold run-time values
are carried in their type from the start. Constants stay constants until a build shows that they change; then they are
carried in the type that they and their next value have in common, and the body is built again. What an inner loop
found out is a hint when the outer ones are built again, so that the numbers of builds add up rather than multiply.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pypto.errors import Diagnostic
from pypto.errors.frontend import TooManyOps
from pypto.frontend.assign import assign
from pypto.frontend.flow import arrive, block
from pypto.frontend.merge import UNDEF, NoJoin, Path, clashing, conform, join, kind, unassigned
from pypto.frontend.scope import BREAK, EXITS, RETURN, VALUE, Binding, Poison, Scope
from pypto.frontend.tuples import alike, leaves, rebuild, same
from pypto.frontend.values import is_number, tile_type
from pypto.ir.core import Region, Value
from pypto.ir.types import TileType, int1, scalar

Loop = ast.For | ast.While
Hints = dict[tuple[str, int], TileType | None]
_ONE_TYPE: Final = (
    "a loop keeps the type of a variable: cast or broadcast before it; a loop over `pto.static_range` "
    "is unrolled, and may change it"
)
INDEX: Final = ".index"  # the index of a `for`, besides the variable that gets it


@dataclass(slots=True)
class Variable:
    """What a loop carries: its state before, and per leaf the carried type (None: not carried)."""

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

    def meet(self, name: str, end: Binding) -> None:
        """Make the types hold what the variable is at the end of the body. Only what started as a number may grow."""
        try:
            if not alike(self.init.value, end.value):
                raise NoJoin
            rows = zip(leaves(self.init.value), self.types, leaves(end.value), strict=True)
            self.types = [next_type(*row) for row in rows]
        except NoJoin:
            self.poison = self.poison or clashing(name, self.init, end, _ONE_TYPE)

    def carry_numbers(self) -> None:
        """A body may make sense only when a counter is no constant."""
        pairs = zip(leaves(self.init.value), self.types, strict=True)
        self.types = [join(x, x, False) if t is None and is_number(x) else t for x, t in pairs]


def next_type(start: Any, type: TileType | None, end: Any) -> TileType | None:
    if type is None and same(start, end):
        return None
    return join(type or kind(start), kind(end), is_number(start))


@lru_cache(maxsize=4096)
def assigned(node: ast.AST) -> tuple[str, ...]:
    """Names that a statement assigns, some of them more than once."""
    return tuple(names_assigned(node))


def names_assigned(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load):
        yield node.id if isinstance(node, ast.Name) else getattr(node.value, "id", "")
    if isinstance(node, ast.FunctionDef):
        yield node.name
    elif not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from assigned(child) if isinstance(child, ast.stmt) else names_assigned(child)


@lru_cache(maxsize=512)
def reads(node: ast.AST) -> Counter[str]:
    """How often a statement reads each variable."""
    return Counter(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))


def candidates(scope: Scope, node: Loop, hints: Hints) -> dict[str, Variable]:
    """Variables of before the loop that its body assigns. A hint is the type of a constant in an earlier build."""
    variables = {}
    for name in assigned(node):
        binding = scope.vars.get(name)
        if binding and not isinstance(binding.value, Poison):
            types = [head_type(x, hints.get((name, n))) for n, x in enumerate(leaves(binding.value))]
            variables[name] = Variable(binding, types)
    return variables


def head_type(x: Any, hint: TileType | None) -> TileType | None:
    return join(hint, x, True) if hint and is_number(x) else tile_type(x)


@dataclass(slots=True)
class Carried:
    """The variables that a loop carries, by name."""

    scope: Scope
    node: Loop
    variables: dict[str, Variable]
    copies: int = 1  # of the body of a `for` in one iteration
    step: Value | None = None

    def settle(self) -> Path:
        """Build the body until what it carries stays as it is."""
        session, failure, unrolled = self.scope.session, None, self.scope.session.unrolled
        op_count = session.builder.op_count
        hints: Hints = session.hints.setdefault((self.node, self.scope.call_site, unrolled), {})
        self.variables.update(candidates(self.scope, self.node, hints))
        while True:
            before, session.unrolled, session.builder.op_count = self.state(), unrolled, op_count
            try:
                body = self.build()
            except TooManyOps:
                raise
            except Diagnostic as error:
                for v in self.variables.values():
                    v.carry_numbers()
                if failure or before == self.state():
                    raise failure or error from None
                failure = error
                continue
            for name, v in self.variables.items():
                v.meet(name, body.vars[name])
            if before == self.state():
                hints.update({(name, n): t for name, v in self.variables.items() for n, t in enumerate(v.types)})
                return body

    def state(self) -> list[Any]:
        return [(v.types, v.poison) for v in self.variables.values()]

    def build(self) -> Path:
        """One build of the statements of the loop."""
        region = Region()
        with self.scope.inside(region, self.enter(region)) as ends:
            for copy in range(self.copies):
                if isinstance(self.node, ast.For):
                    assign(self.scope, self.node.target, self.index(ends[INDEX].value, copy))
                block(self.scope, self.scope.steps(self.node.body))
                if self.copies > 1:
                    arrive(self.scope, EXITS.index(BREAK))
        return Path(region, ends)

    def index(self, first: Value, copy: int) -> Value:
        """The index of one of the copies of the body."""
        b = self.scope.at(self.node)
        if copy == 0 or self.step is None or self.step.op is None:
            return first
        step = self.step.op.attrs["value"] // self.copies
        return b.emit("add", first, b.constant(step * copy, first.dtype))

    def enter(self, region: Region) -> dict[str, Binding]:
        """The variables at the head of a region, for which it gets arguments."""
        entry = dict(self.scope.vars)
        for name, v in self.variables.items():
            args = [Value(t, "" if name == INDEX else name.strip(".")) for _, t in v.carried(v.init.value)]
            region.args += args
            entry[name] = Binding(v.at_head(iter(args)), v.init.loc)
        return entry

    def add_exits(self, body: Path) -> None:
        """A loop that is left early also carries the flags that end it, and what is returned."""
        flags = {name: b for name, b in body.vars.items() if name in (BREAK, RETURN)}
        added = {name: Variable(Binding(False, b.loc), [scalar(int1)]) for name, b in flags.items()}
        if RETURN in body.vars:
            value, loc = body.vars[VALUE].value, body.vars[VALUE].loc
            start = rebuild(value, iter([UNDEF if tile_type(x) else x for x in leaves(value)]))
            added[VALUE] = Variable(Binding(start, loc), [tile_type(x) for x in leaves(value)])
        Carried(self.scope, self.node, added).enter(body.region)
        self.variables.update(added)

    def add_last(self, body: Path) -> None:
        """A loop that runs at least once also hands over what its body assigns, where something outside reads it."""
        added, read = {}, reads(self.scope.source.node) - reads(self.node)
        for name in dict.fromkeys(assigned(self.node)):
            end = body.vars.get(name) if name in read and name not in self.variables else None
            if end and not isinstance(end.value, Poison):
                start = rebuild(end.value, iter([UNDEF if tile_type(x) else x for x in leaves(end.value)]))
                types = [tile_type(x) for x in leaves(end.value)]
                added[name] = Variable(Binding(start, end.loc), types)
        Carried(self.scope, self.node, added).enter(body.region)
        self.variables.update(added)

    def finish(self, op: str, lead: tuple[Value, ...], regions: tuple[Region, ...], body: Path) -> None:
        """End the body, make the loop and set the variables behind it."""
        b, carried = self.scope.builder, list(self.variables.items())
        inits = [conform(b, x, t) for _, v in carried for x, t in v.carried(v.init.value)]
        with b.inside(body.region):
            b.op("yield", *[conform(b, x, t) for name, v in carried for x, t in v.carried(body.vars[name].value)])
        results = iter(b.create(op, (*lead, *inits), {}, tuple(v.type for v in inits), regions).results)
        behind = {name: Binding(v.at_head(results), body.vars[name].loc) for name, v in carried}
        for name in assigned(self.node):
            if name not in self.variables and name in body.vars:
                poison = unassigned(name, body.vars[name], "it is assigned inside a loop, which may not run")
                behind[name] = Binding(poison, body.vars[name].loc)
        behind.pop(INDEX, None)
        self.scope.vars.update(behind)
