"""What the front end knows while it reads a function: variables, the place, and the build that it is part of."""

from __future__ import annotations

import ast
import builtins
import difflib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CellType
from typing import Any

from pypto.errors import Diagnostic
from pypto.errors.frontend import MaybeUnassigned, UndefinedName, UnknownSyntax
from pypto.frontend.source import KernelSource
from pypto.frontend.spec import Capture, Facts
from pypto.frontend.values import captured
from pypto.ir.core import Value
from pypto.loc import Loc
from pypto.ops.build import OpBuilder

Step = Callable[[], None]
Handler = Callable[["Scope", Any], Any]


@dataclass(slots=True)
class Binding:
    """What a variable holds, and the place of the assignment."""

    value: Any
    loc: Loc


@dataclass(frozen=True, slots=True)
class Poison:
    """Stands for a variable without one value; reading it raises the diagnostic that says why."""

    reason: Callable[[Loc], Diagnostic]


@dataclass(frozen=True, slots=True)
class Tables:
    """The handlers, by type of syntax node."""

    expressions: Mapping[type[ast.AST], Handler]
    statements: Mapping[type[ast.AST], Handler]
    ways: Mapping[type[ast.AST], tuple[str, str]]


@dataclass(slots=True)
class Session:
    """One build."""

    builder: OpBuilder
    facts: Facts
    tables: Tables
    methods: Mapping[str, Any]
    arguments: dict[Value, str] = field(default_factory=dict)
    shapes: dict[tuple[str, int], int] = field(default_factory=dict)
    captures: dict[tuple[int, str], Capture] = field(default_factory=dict)
    hints: dict[Any, Any] = field(default_factory=dict)
    numbers: dict[Any, int] = field(default_factory=dict)
    unrolled: int = 0

    def capture(self, owner: dict[str, Any] | CellType, name: str, value: Any, loc: Loc) -> Any:
        """Record that an outside variable was read, and give what it is in a kernel."""
        self.captures.setdefault((id(owner), name), Capture(owner, name, value))
        return captured(name, value, loc)


@dataclass(slots=True)
class Scope:
    """One function while it is read: the kernel itself, or a function inlined into it.

    Control flow keeps its state in `vars` as well: `.break`, `.continue` and `.return` tell whether the rest of a
    block still runs (absent: it does; True: it does not; a run-time value: it depends), `.value` is what is returned.
    `rest` are the steps that remain of the current block, `pending` those of the blocks around it, and `live_out` the
    variables that are read after the innermost loop's body.
    """

    session: Session
    source: KernelSource
    call_site: Loc | None = None
    parent: Scope | None = None
    depth: int = 0
    vars: dict[str, Binding] = field(default_factory=dict)
    rest: deque[Step] = field(default_factory=deque)
    pending: list[deque[Step]] = field(default_factory=list)
    live_out: frozenset[str] = frozenset()

    @property
    def builder(self) -> OpBuilder:
        return self.session.builder

    def loc(self, node: ast.AST) -> Loc:
        return self.source.loc(node, self.call_site)

    def at(self, node: ast.AST) -> OpBuilder:
        """The builder, stamping the place of this node."""
        self.builder.loc = self.loc(node)
        return self.builder

    def eval(self, node: ast.expr) -> Any:
        """The value of an expression: an `ir.Value` at run time, else a Python object."""
        handler = self.session.tables.expressions.get(type(node))
        return handler(self, node) if handler else self.refuse(node)

    def execute(self, node: ast.stmt) -> None:
        handler = self.session.tables.statements.get(type(node))
        if handler:
            handler(self, node)
        else:
            self.refuse(node)

    def refuse(self, node: ast.AST) -> Any:
        what, way = self.session.tables.ways.get(type(node), (f"this syntax ({type(node).__name__})", ""))
        raise UnknownSyntax(self.loc(node), what=what, way=way)

    def steps(self, statements: Iterable[ast.stmt]) -> list[Step]:
        def step(statement: ast.stmt) -> Step:
            return lambda: self.execute(statement)

        return [step(s) for s in statements]

    def assign(self, name: str, value: Any, loc: Loc) -> None:
        if isinstance(value, Value) and value.op is not None and not value.hint:
            value.hint = name
        self.vars[name] = Binding(value, loc)

    @contextmanager
    def variables(self, variables: dict[str, Binding]) -> Iterator[dict[str, Binding]]:
        """Read and assign another set of variables for the length of a `with` block."""
        outer, self.vars = self.vars, variables
        try:
            yield variables
        finally:
            self.vars = outer

    def lookup(self, node: ast.Name) -> Any:
        """The value of a name: variable, enclosing function, closure, global or builtin."""
        binding = self.find(node.id)
        if binding is None:
            return self.outside(node)
        if isinstance(binding.value, Poison):
            raise binding.value.reason(self.loc(node))
        return binding.value

    def find(self, name: str) -> Binding | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.vars:
                return scope.vars[name]
            scope = scope.parent
        return None

    def outside(self, node: ast.Name) -> Any:
        cells, variables, name = self.source.cells, self.source.globals, node.id
        if self.source.library and name in variables:
            return variables[name]
        if name in cells:
            return self.cell(cells[name], node)
        if name in variables:
            return self.session.capture(variables, name, variables[name], self.loc(node))
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise UndefinedName(self.loc(node), name=name, way=suggestion(name, [*self.vars, *cells, *variables], "`{}`"))

    def cell(self, cell: CellType, node: ast.Name) -> Any:
        try:
            value = cell.cell_contents
        except ValueError:
            raise MaybeUnassigned(self.loc(node), name=node.id, why="the enclosing function assigns it later") from None
        return self.session.capture(cell, node.id, value, self.loc(node))


def suggestion(name: str, names: Iterable[str], form: str) -> str:
    """A question after what was probably meant, or nothing."""
    close = difflib.get_close_matches(name, [n for n in names if not n.startswith((".", "__"))], 1)
    return f"did you mean {form.format(close[0])}?" if close else ""
