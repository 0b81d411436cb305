"""Branches on values whose sides are assignments: a copy of the function's code asks the trace to join the sides.

Each side of such an `if` statement is compiled on its own, as code that runs on a copy of the function's variables. If
the condition is a value that the trace does not know, the trace runs both sides, and `where` chooses for each variable
and each update in place. So the cost is linear in the number of branches. Otherwise Python runs one side.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from pypto.graph.capture.guards import graph_of, is_library
from pypto.graph.loops.syntax import live_after, stored_names
from pypto.loc import Loc

_FUNCTIONS: Final = frozenset(("abs", "min", "max", "float", "int", "bool", "len", "sum", "round", "complex", "pow"))
_METHODS: Final = frozenset(
    (
        "sum", "prod", "mean", "std", "var", "max", "min", "any", "all", "argmax", "argmin", "cumsum", "dot", "copy",
        "astype", "reshape", "ravel", "flatten", "transpose", "conj", "conjugate", "clip", "round", "trace", "item",
    )
)  # fmt: skip
_WRITING: Final = frozenset(("copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "at", "shuffle"))
_STATEMENTS: Final = (ast.Assign, ast.AugAssign, ast.If, ast.Pass)
_REFUSED: Final = (
    ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr, ast.Await, ast.Yield,
    ast.YieldFrom, ast.Starred, ast.JoinedStr,
)  # fmt: skip


@dataclass(eq=False, slots=True)
class BranchStatement:
    """An `if` statement of a traced function whose sides only assign.

    Parameters
    ----------
    node : ast.If
    function : str
    file : str
    live : tuple of str
        The variables that the sides assign, and that are read after it.
    sides : tuple of CodeType
        The code of both sides.
    writes : bool
        Whether a side may update an array in place.
    """

    node: ast.If
    function: str
    file: str
    live: tuple[str, ...]
    sides: tuple[CodeType, CodeType]
    writes: bool

    def enter(self, condition: Any, variables: dict[str, Any], outer: dict[str, Any]) -> dict[str, Any] | None:
        """Return the new values of variables after both sides, or None if Python runs one side."""
        join = getattr(graph_of(condition), "join", None)
        new: dict[str, Any] | None = None if join is None else join(self, condition, variables, outer)
        return new

    @property
    def loc(self) -> Loc:
        node = self.node
        return Loc(self.file, node.lineno, node.col_offset, node.lineno, node.col_offset, self.function, None)


def is_joined(node: ast.If, function: FunctionType) -> bool:
    """Whether the sides of an `if` statement only assign, and call nothing that has an effect."""
    return all(
        isinstance(stmt, _STATEMENTS) and all(is_pure(part, function) for part in ast.walk(stmt))
        for side in (node.body, node.orelse)
        for stmt in side
    )


def is_pure(part: ast.AST, function: FunctionType) -> bool:
    """Whether a part of a side has no effect except on variables, and on the arrays that they name."""
    if isinstance(part, ast.stmt):
        targets = part.targets if isinstance(part, ast.Assign) else [getattr(part, "target", ast.Tuple([]))]
        return isinstance(part, _STATEMENTS) and all(map(is_target, targets))
    if isinstance(part, ast.Call):
        return is_pure_call(part, function)
    return not isinstance(part, _REFUSED)


def is_target(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple | ast.List):
        return all(map(is_target, node.elts))
    return isinstance(node, ast.Name) or (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name))


def is_pure_call(call: ast.Call, function: FunctionType) -> bool:
    """Whether a call is one of a pure builtin, of a library's function that writes no argument, or of a pure method."""
    code = function.__code__
    local = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    if any(keyword.arg in (None, "out") for keyword in call.keywords):
        return False
    if isinstance(call.func, ast.Name):
        name = call.func.id
        return name in _FUNCTIONS and name not in local and name not in function.__globals__ and hasattr(builtins, name)
    if not isinstance(call.func, ast.Attribute):
        return False
    root = call.func.value
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(root, ast.Name) and root.id not in local:
        module = function.__globals__.get(root.id)
        if isinstance(module, ModuleType):
            return is_library(module.__name__) and call.func.attr not in _WRITING
    return call.func.attr in _METHODS


def with_branches(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Return a copy of a function in which ``x = a if c else b`` is a branch of two assignments."""
    return Choices().visit(copy.deepcopy(tree))  # type: ignore[no-any-return]


class Choices(ast.NodeTransformer):
    """Makes branches of assigned conditional expressions, outside of loops."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if not isinstance(node.value, ast.IfExp):
            return node
        yes, no = (self.assigned(node, x) for x in (node.value.body, node.value.orelse))
        return ast.copy_location(ast.If(node.value.test, [yes], [no]), node)

    def assigned(self, node: ast.Assign, value: ast.expr) -> ast.stmt:
        return ast.copy_location(ast.Assign(copy.deepcopy(node.targets), value), node)

    def skipped(self, node: ast.AST) -> ast.AST:
        return node

    visit_For = visit_While = visit_Lambda = visit_ClassDef = visit_AsyncFunctionDef = skipped


def statement_of(
    node: ast.If, source: ast.If, tree: ast.FunctionDef, file: str, compiled: Callable[[list[ast.stmt]], CodeType]
) -> BranchStatement:
    """Return the facts of a branch, whose rewritten sides are compiled."""
    live = live_after(tree, source)
    names = tuple(name for name in stored_names(source) if name in live)
    parts = [part for side in (source.body, source.orelse) for stmt in side for part in ast.walk(stmt)]
    writes = any(
        isinstance(part, ast.AugAssign) or (isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store))
        for part in parts
    )
    sides = compiled(copy.deepcopy(node.body)), compiled(copy.deepcopy(node.orelse) or [ast.Pass()])
    return BranchStatement(source, tree.name, file, names, sides, writes)
