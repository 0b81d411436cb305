"""From a Python function to its syntax tree, with every position as in the user's file."""

from __future__ import annotations

import ast
import hashlib
import linecache
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final

from pypto.errors.frontend import NoSource
from pypto.loc import Loc

FunctionNode = ast.FunctionDef | ast.Lambda
REWRITTEN: Final = "__pypto_rewritten__"  # of a function: the text that is read in place of its own
_INSIDE: Final = (*" \t\f\r\n#)]}", "")  # what the lines of a function may begin with, after the first


@dataclass(frozen=True, slots=True, eq=False)
class KernelSource:
    """A Python function as the front end reads it.

    `library` marks functions that pypto itself is made of: their ops have the location of the call. `lenient` ones are
    read as Triton reads them: `and`, `or` and `not` of tiles are elementwise, arrays are true, and what calls them may
    give run-time values for constants.
    """

    function: FunctionType
    node: FunctionNode
    file: str
    library: bool
    lenient: bool = False

    @staticmethod
    def of(function: Any, call_site: Loc | None = None) -> KernelSource:
        """The source of a function from a file, a notebook, a REPL or `exec` with `linecache`.

        Raises
        ------
        NoSource
            When the text of the function cannot be had.
        """
        if not isinstance(function, FunctionType):
            name = getattr(function, "__name__", type(function).__name__)
            raise NoSource(call_site, name=name, file="this program", reason="it is no Python function")
        if REWRITTEN in vars(function):
            return rewritten(function, vars(function)[REWRITTEN])
        code, file = function.__code__, function.__code__.co_filename
        linecache.checkcache(file)
        lines = tuple(linecache.getlines(file, function.__globals__))
        node = parse(code, file, lines)
        if node is None or is_another(node, code):
            reason = "its text has changed since it was defined" if lines else "its text cannot be had"
            raise NoSource(call_site, name=function.__name__.strip("<>"), file=file, reason=reason)
        return KernelSource(function, node, file, is_library(function.__module__ or ""))

    @property
    def name(self) -> str:
        return self.function.__name__

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


def rewritten(function: FunctionType, text: str) -> KernelSource:
    """A function that is read from another text than its own, which stands as a file of its own in errors."""
    name = function.__name__
    node = next((n for n in parse_file(text).body if isinstance(n, ast.FunctionDef)), None)
    if node is None:
        raise NoSource(None, name=name, file="this program", reason="the text that it was given has no function")
    file = f"<{name}, rewritten {hashlib.sha256(text.encode()).hexdigest()[:8]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return KernelSource(function, node, file, False)


def is_another(node: FunctionNode, code: CodeType) -> bool:
    """Whether a tree has names or constants that a code object lacks: then it was edited since.

    The code may have more, as of assertions that a test runner rewrote.
    """
    bare: ast.stmt = ast.copy_location(ast.Expr(node), node) if isinstance(node, ast.Lambda) else copy(node)
    if isinstance(bare, ast.FunctionDef):
        bare.decorator_list = []
    try:
        module = compile(ast.Module([bare], []), code.co_filename, "exec", dont_inherit=True)
    except RecursionError:  # of a tree, Python takes fewer levels than of a text
        return False
    compiled = next((c for c in module.co_consts if isinstance(c, CodeType) and c.co_name == code.co_name), code)
    return not contents(compiled) <= contents(code)


def contents(code: CodeType) -> set[tuple[type, str]]:
    names = (*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars)
    numbers = (c for c in code.co_consts if type(c) in (int, float))
    return {(str, name) for name in names} | {(type(c), repr(c)) for c in numbers}


def is_library(module: str) -> bool:
    """Whether pypto itself is made of a module's functions, in the language."""
    return module.startswith(("pypto.language", "pypto.compat"))


@lru_cache(maxsize=512)
def parse(code: CodeType, file: str, lines: tuple[str, ...]) -> FunctionNode | None:
    """The tree of one function. `file` is a key of its own: code objects of two files may be equal.

    Where a function does not stand at the left margin, the whole file is parsed: taking its indentation away would move
    columns.
    """
    for text in (own_lines(code.co_firstlineno - 1, lines), "".join(lines)):
        with suppress(SyntaxError):
            tree = parse_file(text)
            for nodes in (tree.body, ast.walk(tree)):  # at the top level most are found at once
                matches = [n for n in nodes if isinstance(n, FunctionNode) and is_of(n, code)]
                if matches:
                    return matches[-1]  # of lambdas in lambdas the innermost: outer nodes come first
    return None


def own_lines(start: int, lines: tuple[str, ...]) -> str:
    """The lines of a function at the left margin, on as many empty ones as stand before them; else nothing.

    They end before the next line that begins there with anything but a comment or a closing bracket. Should that be
    too early, inside of brackets or of a string, then they do not parse.
    """
    if not "".join(lines[start : start + 1]).startswith(("def ", "@")):
        return ""
    head = next((n for n in range(start, len(lines)) if lines[n].startswith("def ")), len(lines))
    end = next((n for n in range(head + 1, len(lines)) if lines[n][:1] not in _INSIDE), len(lines))
    return "\n" * start + "".join(lines[start:end])


@lru_cache(maxsize=8)
def parse_file(text: str) -> ast.Module:
    return ast.parse(text)


def is_of(node: FunctionNode, code: CodeType) -> bool:
    """Whether a code object can be that of a function: by name and first line, or because it lies in a lambda's body.

    Not all of the body need have code: Python leaves out what constants decide.
    """
    if isinstance(node, ast.FunctionDef):
        first = node.decorator_list[0] if node.decorator_list else node
        return (node.name, first.lineno) == (code.co_name, code.co_firstlineno)
    if code.co_name != "<lambda>" or code.co_firstlineno != node.lineno:
        return False
    start, end = (node.body.lineno, node.body.col_offset), (node.body.end_lineno or 0, node.body.end_col_offset or 0)
    spans = [((line, column), (last, after)) for line, last, column, after in code.co_positions() if after]
    return bool(spans) and all(start <= first and last <= end for first, last in spans)
