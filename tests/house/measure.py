"""Counts what the house is measured by: token lines of files, lines of functions, imports of modules.

`python -m tests.house.measure` prints the figures of the package.
"""

from __future__ import annotations

import ast
import gc
import importlib.util
import io
import statistics
import token
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pypto"

SILENT = frozenset(
    {token.NEWLINE, tokenize.NL, tokenize.COMMENT, token.INDENT, token.DEDENT, token.ENDMARKER, tokenize.ENCODING}
)
Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class FunctionSize:
    """One function: all its lines from `def` on, and those of its body without the docstring."""

    file: str
    name: str
    line: int
    lines: int
    body: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.name}: {self.lines} lines"


@dataclass(frozen=True)
class Import:
    """One imported module, with the line that asks for it."""

    module: str
    line: int


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def token_lines(text: str) -> int:
    """Lines that hold a token other than a comment, a docstring or a line end."""
    with without_collector():
        docstrings = {(node.lineno, node.col_offset) for node in ast.walk(ast.parse(text)) if is_docstring(node)}
    lines: set[int] = set()
    for tok in tokenize.generate_tokens(io.StringIO(text).readline):
        if tok.type not in SILENT and tok.start not in docstrings:
            lines.update(range(tok.start[0], tok.end[0] + 1))
    return len(lines)


def is_docstring(node: ast.AST) -> TypeGuard[ast.Expr]:
    """Whether a statement is a bare string: it says something and does nothing."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@cache
def syntax(path: Path) -> ast.Module:
    """The syntax of a file; several tests of a process look at the same files."""
    with without_collector():
        return ast.parse(path.read_text(encoding="utf-8"))


@contextmanager
def without_collector() -> Iterator[None]:
    """Make objects without the garbage collector, which takes four times as long as the parser."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@cache
def functions(path: Path) -> tuple[FunctionSize, ...]:
    """The functions and methods of a file, without declarations whose body is only a docstring or `...`."""
    return tuple(function_sizes(path))


def function_sizes(path: Path) -> Iterator[FunctionSize]:
    for node in ast.walk(syntax(path)):
        if not isinstance(node, Definition):
            continue
        body = [statement for statement in node.body if not is_docstring(statement)]
        if body and not is_ellipsis(body[0]):
            yield FunctionSize(relative(path), node.name, node.lineno, extent(node, node), extent(body[0], body[-1]))


def is_ellipsis(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def extent(first: ast.stmt, last: ast.stmt) -> int:
    return (last.end_lineno or last.lineno) - first.lineno + 1


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path: Path, modules: frozenset[str]) -> tuple[Import, ...]:
    """Every module that a file imports, at its top or inside a function, by statement or by `import_module`.

    `from package import name` counts as the module `package.name` where `modules` has one.
    """
    return tuple(
        Import(name, getattr(node, "lineno", 0))
        for node in ast.walk(syntax(path))
        for name in imported_names(node, path, modules)
    )


def imported_names(node: ast.AST, path: Path, modules: frozenset[str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = absolute(node, path)
        full = [f"{base}.{alias.name}" for alias in node.names]
        return [name if name in modules else base for name in full]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return [str(node.args[0].value)] if called in ("import_module", "__import__") else []
    return []


def absolute(node: ast.ImportFrom, path: Path) -> str:
    name = "." * node.level + (node.module or "")
    package = ".".join(path.relative_to(ROOT).parent.parts)
    return importlib.util.resolve_name(name, package) if node.level else name


def main() -> None:
    files = python_files("pypto")
    sizes = sorted((size for path in files for size in functions(path)), key=lambda size: size.body)
    bodies = [size.body for size in sizes]
    per_room: dict[str, int] = {}
    for path in files:
        room = "/".join(path.relative_to(PACKAGE).parts[:-1]) or "(top)"
        per_room[room] = per_room.get(room, 0) + token_lines(path.read_text(encoding="utf-8"))
    for room, lines in sorted(per_room.items()):
        print(f"{lines:6} token lines  {room}")
    print(f"{sum(per_room.values()):6} token lines  all")
    nine_of_ten = bodies[int(len(bodies) * 0.9)]
    print(f"{len(bodies)} functions: median {statistics.median(bodies)}, nine of ten <= {nine_of_ten}")
    for size in sizes[:-11:-1]:
        print(f"  {size}, {size.body} of body")


if __name__ == "__main__":
    main()
