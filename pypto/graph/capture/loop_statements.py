"""Loop statements of traced functions: a copy of the function's code hands each of its loops to the trace first.

The copy evaluates what a loop runs over, and gives it with the function's variables to `LoopStatement.enter`. If the
trace compiles the loop, the answer has the new values of variables. Otherwise the loop runs in Python, statement by
statement, and is unrolled into the graph.
"""

from __future__ import annotations

import ast
import copy
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final

from pypto.errors.advice import LoopUnrolled
from pypto.graph.loops.syntax import function_tree, live_after, loaded_names, stored_names
from pypto.loc import Loc

_FUTURE: Final = 0x1FE0000  # flags of `from __future__` in code objects
_LONG: Final = 1.0  # seconds of a loop that runs in Python
_MARK: Final = "loop statement of pypto "  # a constant of the rewritten code, in whose place a `LoopStatement` stands


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


def graph_of(value: Any) -> Any:
    """Return the graph of an array that is traced, or None."""
    kind = type(value)
    is_tensor = getattr(kind, "stands_in", False) and not getattr(kind, "is_scalar", False)
    return getattr(value, "graph", None) if is_tensor else None


@dataclass(slots=True)
class Rewritten:
    """The rewritten code of a function, once there is one."""

    code: CodeType | None = None


@lru_cache(maxsize=1024)
def rewritten_of(code: CodeType, file: str) -> Rewritten:
    """Return where the rewritten code of a function is stored."""
    return Rewritten()


def with_loops(function: FunctionType) -> CodeType:
    """Return the code of a function whose loops go to the trace first, or its code as it is."""
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
    """Rewrite a function's loops; return None if there is none, or if its code cannot be rebuilt from its text."""
    code = function.__code__
    tree = function_tree(function)
    if tree is None or not is_rewritable(code, tree):
        return None
    statements: list[LoopStatement] = []
    body = replaced(copy.deepcopy(tree).body, tree.body, tree, code, statements)
    if not statements:
        return None
    first = code.co_firstlineno  # lines of the code count from it
    definition = ast.FunctionDef(tree.name, tree.args, body, [], lineno=first, col_offset=0)
    definition.end_lineno, definition.end_col_offset = first, 0
    inner = compiled(definition, code)
    names = slice(code.co_argcount + code.co_kwonlyargcount)
    if inner.co_freevars != code.co_freevars or inner.co_varnames[names] != code.co_varnames[names]:
        return None
    is_mark = [isinstance(x, str) and x.startswith(_MARK) for x in inner.co_consts]
    consts = (
        statements[int(x.removeprefix(_MARK))] if marked else x
        for x, marked in zip(inner.co_consts, is_mark, strict=True)
    )
    return inner.replace(co_consts=tuple(consts), co_qualname=code.co_qualname)


def compiled(tree: ast.FunctionDef, code: CodeType) -> CodeType:
    """Compile a function with the free variables and the file of another code object."""
    free = (ast.parse(f"{name} = None").body[0] for name in code.co_freevars)
    outer = ast.FunctionDef("outer", ast.arguments([], [], None, [], [], None, []), [*free, tree], [])
    module = ast.fix_missing_locations(ast.Module([outer], []))
    outermost = compile(module, code.co_filename, "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)
    inner = next(x for x in outermost.co_consts if isinstance(x, CodeType))
    return next(x for x in inner.co_consts if isinstance(x, CodeType) and x.co_name == code.co_name)


def replaced(
    body: Sequence[ast.stmt], original: Sequence[ast.stmt], tree: ast.FunctionDef, code: CodeType,
    statements: list[LoopStatement],
) -> list[ast.stmt]:  # fmt: skip
    """Return statements with every loop among them, or inside of them, preceded by its question to the trace."""
    lines: list[ast.stmt] = []
    for node, source in zip(body, original, strict=True):
        for part in ("body", "orelse", "finalbody"):
            below = getattr(node, part, None)
            if below and not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                setattr(node, part, replaced(below, getattr(source, part), tree, code, statements))
        if isinstance(node, ast.For | ast.While) and not node.orelse:
            lines += questioned(node, source, tree, code, statements)
        else:
            lines.append(node)
    return lines


def questioned(
    node: ast.For | ast.While, source: Any, tree: ast.FunctionDef, code: CodeType, statements: list[LoopStatement]
) -> list[ast.stmt]:
    """Return the statements that ask the trace about a loop, and run it in Python otherwise."""
    number, mark = len(statements), f"{_MARK}{len(statements)}"
    local = {*code.co_varnames, *code.co_cellvars}
    stored = set(stored_names(source))
    names = [n for n in dict.fromkeys((*stored_names(source), *loaded_names(source))) if n in local]
    live = live_after(tree, source)
    names = [n for n in names if n not in stored or n in live]
    statements.append(LoopStatement(source, tree, code.co_filename, tuple(names)))
    items, new = f"pypto items {number}", f"pypto new {number}"
    run_over = "None" if isinstance(node, ast.While) else "PYPTO_ITEMS"
    text = [f"NEW = MARK.enter({run_over}, locals(), globals())", "if NEW is None:\n    pass\nelse:\n    pass"]
    names_of = {"NEW": new, "PYPTO_ITEMS": items}
    question, branch = ast.parse("\n".join(text)).body
    assert isinstance(branch, ast.If)
    node.body = [*ast.parse("MARK.iterate()").body, *node.body]
    branch.body = [node]
    branch.orelse = [*ast.parse("\n".join(f"if {n!r} in NEW: {n} = NEW[{n!r}]" for n in names) or "pass").body]
    lines: list[ast.stmt] = [question, branch]
    if isinstance(node, ast.For):
        assignment = ast.Assign([ast.Name("PYPTO_ITEMS", ast.Store())], node.iter)
        node.iter = ast.Name("PYPTO_ITEMS", ast.Load())
        lines = [assignment, *lines]
    for line in lines:
        for part in ast.walk(line):
            if isinstance(part, ast.Name) and part.id in names_of:
                part.id = names_of[part.id]
        Marked(mark).visit(line)
        relocated(line, node, source)
    return lines


class Marked(ast.NodeTransformer):
    """Puts the constant of a loop statement in place of its name."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(self.mark) if node.id == "MARK" else node


def relocated(line: ast.stmt, node: ast.stmt, source: ast.stmt) -> None:
    """Give added statements the position of the loop's first line; those of the loop keep theirs."""
    inside = {id(n) for n in ast.walk(node)}
    for part in ast.walk(line):
        if id(part) not in inside or (isinstance(part, ast.stmt | ast.expr) and not hasattr(part, "end_lineno")):
            ast.copy_location(part, source)
            for name in ("end_lineno", "end_col_offset"):
                if hasattr(part, name):
                    setattr(part, name, getattr(source, "lineno" if name == "end_lineno" else "col_offset"))
