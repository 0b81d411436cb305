"""From a Python function to its syntax tree, with every position as in the user's file."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import Any

from pypto.errors.frontend import NoSource
from pypto.loc import Loc

FunctionNode = ast.FunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True, eq=False)
class KernelSource:
    """A Python function as the front end reads it.

    `library` marks functions that pypto itself is made of: their ops have the location of the call.
    """

    function: FunctionType
    node: FunctionNode
    file: str
    library: bool

    @staticmethod
    def of(function: Any) -> KernelSource:
        """The source of a function from a file, a notebook, a REPL or `exec` with `linecache`.

        Raises
        ------
        NoSource
            When the text of the function cannot be had.
        """
        if not isinstance(function, FunctionType):
            name = getattr(function, "__name__", type(function).__name__)
            raise NoSource(name=name, file="this program", reason="it is no Python function")
        code = function.__code__
        node = parse(code, code.co_filename, tuple(linecache.getlines(code.co_filename, function.__globals__)))
        return KernelSource(function, node, code.co_filename, (function.__module__ or "").startswith("pypto.language"))

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def globals(self) -> dict[str, Any]:
        return self.function.__globals__

    @property
    def cells(self) -> dict[str, CellType]:
        """Closure variables."""
        return dict(zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True))

    def loc(self, node: ast.AST, call_site: Loc | None = None) -> Loc:
        """The span of a node, with columns in characters."""
        if self.library and call_site is not None:
            return call_site
        span: Any = node
        start, end = self.column(span.lineno, span.col_offset), self.column(span.end_lineno, span.end_col_offset)
        return Loc(self.file, span.lineno, start, span.end_lineno, end, self.name, call_site)

    def column(self, line: int, offset: int) -> int:
        """Characters before a byte offset of a line."""
        text = linecache.getline(self.file, line)
        return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))


@lru_cache(maxsize=512)
def parse(code: CodeType, file: str, lines: tuple[str, ...]) -> FunctionNode:
    """The tree of one function. `file` is a key of its own: code objects of two files may be equal."""
    if not lines:
        raise NoSource(name=code.co_name, file=file, reason="its text cannot be had")
    if code.co_name == "<lambda>":
        return find_lambda(code, file, lines)
    try:
        tree = parse_block(inspect.getblock(lines[code.co_firstlineno - 1 :]), code.co_firstlineno)
    except (SyntaxError, IndexError):
        raise NoSource(name=code.co_name, file=file, reason="its text has changed since it was defined") from None
    if not isinstance(tree, ast.FunctionDef) or tree.name != code.co_name:
        raise NoSource(name=code.co_name, file=file, reason="its text has changed since it was defined")
    return tree


def parse_block(lines: Sequence[str], first: int) -> ast.stmt:
    """The statement in these lines. An indented one is put under an `if`: removing indentation would move columns."""
    indented = lines[0][:1].isspace()
    tree = ast.parse("".join(["if 1:\n", *lines] if indented else lines))
    ast.increment_lineno(tree, first - 1 - indented)
    statement = tree.body[0]
    return statement.body[0] if indented and isinstance(statement, ast.If) else statement


def find_lambda(code: CodeType, file: str, lines: tuple[str, ...]) -> ast.Lambda:
    """The lambda whose body the code object has positions of."""
    try:
        tree = parse_file("".join(lines))
    except SyntaxError:
        raise NoSource(name="lambda", file=file, reason="its file cannot be parsed") from None
    spans = set(code.co_positions())
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            body = node.body
            if (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) in spans:
                return node
    raise NoSource(name="lambda", file=file, reason="its text has changed since it was defined")


@lru_cache(maxsize=8)
def parse_file(text: str) -> ast.Module:
    return ast.parse(text)
