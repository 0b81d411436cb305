"""Statements of traced functions: a copy of the function's code hands each loop and some branches to the trace first.

The copy evaluates what a loop runs over, and gives it with the function's variables to `LoopStatement.enter`. If the
trace compiles the loop, the answer has the new values of variables. Otherwise the loop runs in Python, statement by
statement, and is unrolled into the graph. Branches whose sides only assign are `branch_statements`.
"""

from __future__ import annotations

import ast
import copy
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.advice import LoopUnrolled
from pypto.graph.capture.branch_statements import is_joined, statement_of, with_branches
from pypto.graph.capture.guards import graph_of
from pypto.graph.loops.exits import PREFIX, with_exits
from pypto.graph.loops.stepping import KINDS, Stepper
from pypto.graph.loops.syntax import function_tree, live_after, loaded_names, stored_names
from pypto.loc import Loc

_FUTURE: Final = 0x1FE0000  # flags of `from __future__` in code objects
_LONG: Final = 1.0  # seconds of a loop that runs in Python
_MARK: Final = "statement of pypto "  # a constant of the rewritten code, in whose place a statement stands
MARK: Final = "MARK"  # its name in templates
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(eq=False, slots=True)
class LoopStatement:
    """A `for` or `while` statement of a traced function.

    Parameters
    ----------
    node : ast.For or ast.While
    function : ast.FunctionDef
        The function that has it.
    file : str
    names : tuple of str
        The variables that may have new values after it.
    """

    node: Any
    function: ast.FunctionDef
    file: str
    names: tuple[str, ...]
    start: float = 0.0
    reason: str = ""

    def enter(self, items: Any, variables: dict[str, Any], outer: dict[str, Any]) -> dict[str, Any] | None:
        """Return the new values of variables after the compiled loop, or None if Python runs it."""
        graph = next(filter(None, map(graph_of, variables.values())), None)
        self.start, self.reason = time.perf_counter(), ""
        compiled = getattr(graph, "loop", None)
        return None if compiled is None else compiled(self, items, variables, outer)

    def explain(self, reason: str, line: int) -> None:
        """Note why the loop has no kernel."""
        self.reason = f"{reason} (line {line or self.node.lineno})"

    def iterate(self) -> None:
        """Warn once if the loop has run in Python for a long time."""
        if self.start and time.perf_counter() - self.start > _LONG:
            self.start = 0.0
            way = f": {self.reason}" if self.reason else ""
            warnings.warn(LoopUnrolled(self.loc, function=self.function.name, reason=way), stacklevel=3)

    @property
    def loc(self) -> Loc:
        """The location of the statement's first line."""
        node = self.node
        return Loc(self.file, node.lineno, node.col_offset, node.lineno, node.col_offset, self.function.name, None)


@dataclass(frozen=True, slots=True)
class UnrolledLoop:
    """A loop that is traced iteration by iteration, with the reason why it has no kernel.

    Parameters
    ----------
    file : str
    first, last : int
        Its lines.
    reason : str
    """

    file: str
    first: int
    last: int
    reason: str

    @staticmethod
    def of(statement: LoopStatement) -> UnrolledLoop:
        return UnrolledLoop(statement.file, statement.node.lineno, statement.node.end_lineno, statement.reason)

    def has(self, loc: Loc) -> bool:
        """Whether a place is inside of the loop."""
        return loc.file == self.file and self.first <= loc.line <= self.last

    def __str__(self) -> str:
        return f"the loop in line {self.first} is unrolled, and no kernel: {self.reason}"


@dataclass(slots=True)
class Rewritten:
    """The rewritten code of a function, once there is one."""

    code: CodeType | None = None


@lru_cache(maxsize=1024)
def rewritten_of(code: CodeType, file: str) -> Rewritten:
    """Return where the rewritten code of a function is stored."""
    return Rewritten()


def with_statements(function: FunctionType) -> CodeType:
    """Return the code of a function whose loops and branches go to the trace first, or its code as it is."""
    code = function.__code__
    known = rewritten_of(code, code.co_filename)
    if known.code is None:
        known.code = rewritten(function) or code
    return known.code


def is_rewritable(code: CodeType, tree: ast.FunctionDef) -> bool:
    """Whether a function's code can be compiled from its tree alone: without its class and outer functions."""
    is_private = any(name.startswith("__") and not name.endswith("__") for name in (*code.co_names, *code.co_varnames))
    outside = any(isinstance(n, ast.Global | ast.Nonlocal | ast.Await | ast.NamedExpr) for n in ast.walk(tree))
    return not is_private and not outside and "__class__" not in code.co_freevars


def rewritten(function: FunctionType) -> CodeType | None:
    """Rewrite a function's statements; return None if there is none, or if its code cannot be rebuilt from its text."""
    code = function.__code__
    tree = function_tree(function)
    if tree is None or not is_rewritable(code, tree):
        return None
    rewriting = Rewriting(function, Creations(function).visit(with_branches(with_exits(tree))))
    body = rewriting.replaced(copy.deepcopy(rewriting.tree).body, rewriting.tree.body)
    if ast.dump(ast.Module(body, [])) == ast.dump(ast.Module(tree.body, [])):
        return None
    first = code.co_firstlineno  # lines of the code count from it
    definition = ast.FunctionDef(tree.name, tree.args, body, [], lineno=first, col_offset=0)
    definition.end_lineno, definition.end_col_offset = first, 0
    inner = compiled(definition, code)
    names = slice(code.co_argcount + code.co_kwonlyargcount)
    if inner.co_freevars != code.co_freevars or inner.co_varnames[names] != code.co_varnames[names]:
        return None
    return rewriting.marked(inner).replace(co_qualname=code.co_qualname)


def compiled(tree: ast.FunctionDef, code: CodeType) -> CodeType:
    """Compile a function with the free variables and the file of another code object."""
    free = (ast.parse(f"{name} = None").body[0] for name in code.co_freevars)
    outer = ast.FunctionDef("outer", ast.arguments([], [], None, [], [], None, []), [*free, tree], [])
    module = ast.fix_missing_locations(ast.Module([outer], []))
    outermost = compile(module, code.co_filename, "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)
    inner = next(x for x in outermost.co_consts if isinstance(x, CodeType))
    return next(x for x in inner.co_consts if isinstance(x, CodeType) and x.co_name == code.co_name)


class Creations(ast.NodeTransformer):
    """Makes `np.empty(…)` of `np.ndarray(…)`, whose elements are as arbitrary."""

    def __init__(self, function: FunctionType) -> None:
        self.outer = function.__globals__

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        function, count = node.func, len(node.args) + len(node.keywords)
        if isinstance(function, ast.Attribute) and function.attr == "ndarray" and isinstance(function.value, ast.Name):
            named = {keyword.arg for keyword in node.keywords}
            if self.outer.get(function.value.id) is np and count <= 2 and named <= {"shape", "dtype"}:
                empty = ast.copy_location(ast.Attribute(function.value, "empty", function.ctx), function)
                return ast.copy_location(ast.Call(empty, node.args, node.keywords), node)
        return node


class Rewriting:
    """The rewriting of a function, with the statements that stand in place of constants of its code.

    Parameters
    ----------
    function : function
    tree : ast.FunctionDef
    """

    def __init__(self, function: FunctionType, tree: ast.FunctionDef) -> None:
        self.function = function
        self.tree = tree
        self.code = function.__code__
        added = (name for name in stored_names(tree) if name.startswith(PREFIX))
        self.local = frozenset((*self.code.co_varnames, *self.code.co_cellvars, *self.code.co_freevars, *added))
        self.statements: list[Any] = []

    def replaced(self, body: Sequence[ast.stmt], original: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return statements with every loop or branch in them preceded by its question to the trace."""
        lines: list[ast.stmt] = []
        for node, source in zip(body, original, strict=True):
            for part in ("body", "orelse", "finalbody"):
                below = getattr(node, part, None)
                if below and not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                    setattr(node, part, self.replaced(below, getattr(source, part)))
            if isinstance(node, ast.For | ast.While) and not node.orelse:
                lines += self.loop(node, source)
            elif isinstance(source, ast.If) and isinstance(node, ast.If) and is_joined(source, self.function):
                lines += self.branch(node, source)
            else:
                lines.append(node)
        return lines

    def loop(self, node: ast.For | ast.While, source: Any) -> list[ast.stmt]:
        """Return the statements that ask the trace about a loop, and run it in Python otherwise."""
        local = self.local.difference(self.code.co_freevars)
        stored = set(stored_names(source))
        names = [n for n in dict.fromkeys((*stored_names(source), *loaded_names(source))) if n in local]
        live = live_after(self.tree, source)
        names = [n for n in names if n not in stored or n in live]
        statement = LoopStatement(source, self.tree, self.code.co_filename, tuple(names))
        given = None if isinstance(node, ast.While) else self.stepped(node.iter)
        lines = self.question(node, source, given, statement, names)
        number = self.statements.index(statement)
        node.body[:0] = self.at(source, ast.parse(f"{MARK}.iterate()").body, statement)
        if isinstance(node, ast.For):
            node.iter = ast.copy_location(ast.Name(f"pypto given {number}", ast.Load()), source)
        return lines

    def stepped(self, node: ast.expr) -> ast.expr:
        """Return what a loop runs over, with a stand-in for `zip`, `enumerate` and `reversed`."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in KINDS:
            return node
        if node.func.id in self.local or node.func.id in self.function.__globals__:
            return node
        self.statements.append(Stepper(node.func.id))
        mark = ast.copy_location(ast.Constant(f"{_MARK}{len(self.statements) - 1}"), node.func)
        make = ast.copy_location(ast.Attribute(mark, "of", ast.Load()), node.func)
        return ast.copy_location(ast.Call(make, [self.stepped(x) for x in node.args], node.keywords), node)

    def branch(self, node: ast.If, source: ast.If) -> list[ast.stmt]:
        """Return the statements that ask the trace about a branch, and run one side in Python otherwise."""
        statement = statement_of(node, source, self.tree, self.code.co_filename, self.side)
        lines = self.question(node, source, node.test, statement, statement.live)
        node.test = ast.copy_location(ast.Name(f"pypto given {len(self.statements) - 1}", ast.Load()), source)
        return lines

    def question(
        self, node: ast.stmt, source: ast.stmt, given: ast.expr | None, statement: Any, names: Sequence[str]
    ) -> list[ast.stmt]:
        """Return the statements that give a value to a statement, and run a node if that has no answer."""
        number = len(self.statements)
        self.statements.append(statement)
        text = [
            f"GIVEN = None\nNEW = {MARK}.enter(GIVEN, locals(), globals())\nif NEW is None:\n    pass\nelse:\n    pass",
            *(f"    if {n!r} in NEW: {n} = NEW[{n!r}]" for n in names),
        ]
        renamed = {"GIVEN": f"pypto given {number}", "NEW": f"pypto new {number}"}
        lines = self.at(source, ast.parse("\n".join(text)).body, statement, renamed)
        assert isinstance(lines[0], ast.Assign) and isinstance(lines[2], ast.If)
        lines[0].value = lines[0].value if given is None else given
        lines[2].body[:] = [node]
        return lines

    def at(
        self, source: ast.stmt, lines: list[ast.stmt], statement: Any, renamed: Mapping[str, str] = _NO_NAMES
    ) -> list[ast.stmt]:
        """Give added statements the position of a statement's first line, and put the statement in its place."""
        place = Marked(f"{_MARK}{self.statements.index(statement)}", renamed)
        for line in lines:
            place.visit(line)
            for part in ast.walk(line):
                ast.copy_location(part, source)
                if isinstance(part, ast.stmt | ast.expr):
                    part.end_lineno, part.end_col_offset = source.lineno, source.col_offset
        return lines

    def side(self, body: list[ast.stmt]) -> CodeType:
        """Compile a side of a branch, which runs on a dict of variables."""
        module = ast.fix_missing_locations(ast.Module(body, []))
        file, flags = self.code.co_filename, self.code.co_flags & _FUTURE
        code = compile(module, file, "exec", flags=flags, dont_inherit=True)
        return self.marked(code).replace(co_name=self.code.co_name, co_qualname=self.code.co_qualname)

    def marked(self, code: CodeType) -> CodeType:
        """Put statements in place of their constants."""
        is_mark = [isinstance(x, str) and x.startswith(_MARK) for x in code.co_consts]
        consts = (
            self.statements[int(x.removeprefix(_MARK))] if marked else x
            for x, marked in zip(code.co_consts, is_mark, strict=True)
        )
        return code.replace(co_consts=tuple(consts))


class Marked(ast.NodeTransformer):
    """Puts the constant of a statement in place of its name, and renames variables of a template."""

    def __init__(self, mark: str, renamed: Mapping[str, str]) -> None:
        self.mark = mark
        self.renamed = renamed

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.renamed.get(node.id, node.id)
        return ast.Constant(self.mark) if node.id == MARK else node
