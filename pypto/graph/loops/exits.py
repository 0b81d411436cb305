"""Exits of loops: `return` inside of a loop, and `else` after it, become a flag, a `break` and a branch behind it.

So a loop ends in one place, as its kernel does, and the trace chooses behind it whether the function has returned. The
rewritten statements mean in Python what the original ones mean.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from typing import Any, Final

Loop = ast.For | ast.While
PREFIX: Final = "pypto_"  # of the names of added variables


def with_exits(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Return a function whose loops have neither `return` nor `else`.

    Examples
    --------
    >>> tree = ast.parse("def f(x):\\n    for i in x:\\n        if i: return i\\n    return 0").body[0]
    >>> print(ast.unparse(with_exits(tree).body[2]))
    for i in x:
        if i:
            pypto_value_1 = i
            pypto_left_1 = True
            break
    """
    loops = [node for node in ast.walk(tree) if isinstance(node, Loop)]
    if not any(loop.orelse or any(parts_of(loop.body, ast.Return, True)) for loop in loops):
        return tree
    return Exits().visit(copy.deepcopy(tree))  # type: ignore[no-any-return]


def parts_of(body: Sequence[ast.stmt], kind: Any, below: bool) -> Iterator[Any]:
    """Return statements of a kind in a loop's body, or also in the loops in it; those of nested functions are left."""
    for node in body:
        if isinstance(node, kind):
            yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or (
            isinstance(node, Loop) and not below
        ):
            continue
        for part in ("body", "orelse", "finalbody", "handlers"):
            for each in getattr(node, part, []):
                if isinstance(each, ast.stmt):
                    yield from parts_of([each], kind, below)
                elif isinstance(each, ast.ExceptHandler):
                    yield from parts_of(each.body, kind, below)


class Exits(ast.NodeTransformer):
    """Rewrites loops, the inner ones first."""

    def __init__(self) -> None:
        self.count = 0

    def visit_For(self, node: ast.For) -> Any:
        return self.rewritten(node)

    def visit_While(self, node: ast.While) -> Any:
        return self.rewritten(node)

    def rewritten(self, node: Loop) -> Any:
        """Return the statements of a loop with one exit."""
        self.generic_visit(node)
        before: list[ast.stmt] = []
        after: list[ast.stmt] = []
        returns = list(parts_of(node.body, ast.Return, False))
        is_endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        is_endless = is_endless and not any(parts_of(node.body, ast.Break, False))
        orelse = list(node.orelse)
        node.orelse.clear()
        if orelse:
            ends = self.named("ends")
            before += located(f"{ends} = True", node)
            Replaced(ast.Break, lambda each: [*located(f"{ends} = False", each), each]).of(node)
            after += branch(ends, orelse, node)
        if returns:
            left, values = self.named("left"), self.values(returns)
            before += located("\n".join(f"{name} = {start}" for name, start in values.items()), node)
            before += located(f"{left} = False", node)
            Replaced(ast.Return, lambda each: returned(each, left, list(values))).of(node)
            last = located(f"return {', '.join(values)}", returns[0])
            after = [*(last if is_endless else branch(left, last, returns[0])), *after]
        return [*before, node, *after]

    def named(self, stem: str) -> str:
        self.count += 1
        return f"{PREFIX}{stem}_{self.count}"

    def values(self, returns: Sequence[ast.Return]) -> dict[str, str]:
        """Return the names of what a loop returns, with first values of the likely type."""
        lists = [parts(node) for node in returns]
        if len({len(x) for x in lists}) > 1:
            lists = [[node.value or ast.Constant(None)] for node in returns]
        names = [f"{PREFIX}value_{self.count}" + (f"_{n}" if n else "") for n in range(len(lists[0]))]
        return {name: str(first_of(each)) for name, each in zip(names, lists[0], strict=True)}


def parts(node: ast.Return) -> list[ast.expr]:
    if isinstance(node.value, ast.Tuple) and not any(isinstance(x, ast.Starred) for x in node.value.elts):
        return node.value.elts or [node.value]
    return [node.value or ast.Constant(None)]


def first_of(node: ast.expr) -> int | bool:
    """Return a number of the type that an expression likely has."""
    is_bool = isinstance(node, ast.Compare | ast.BoolOp) or (
        isinstance(node, ast.Constant) and type(node.value) is bool
    )
    return False if is_bool or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)) else 0


def returned(node: ast.Return, left: str, names: Sequence[str]) -> list[ast.stmt]:
    """Return the statements that keep a result and leave the loop."""
    values = parts(node) if len(names) > 1 else [node.value or ast.copy_location(ast.Constant(None), node)]
    targets = [ast.copy_location(ast.Name(name, ast.Store()), node) for name in names]
    pair: tuple[ast.expr, ast.expr] = (targets[0], values[0])
    if len(names) > 1:
        pair = ast.copy_location(ast.Tuple([*targets], ast.Store()), node), node.value or values[0]
    assignment = ast.copy_location(ast.Assign([pair[0]], pair[1]), node)
    return [assignment, *located(f"{left} = True\nbreak", node)]


def located(text: str, source: ast.stmt) -> list[ast.stmt]:
    """Return statements at the place of another one."""
    (outer,) = ast.parse("def f():\n    while True:\n        " + text.replace("\n", "\n        ")).body
    assert isinstance(outer, ast.FunctionDef) and isinstance(outer.body[0], ast.While)
    for line in outer.body[0].body:
        for part in ast.walk(line):
            ast.copy_location(part, source)
    return list(outer.body[0].body)


def branch(name: str, body: list[ast.stmt], source: ast.stmt) -> list[ast.stmt]:
    test = ast.copy_location(ast.Name(name, ast.Load()), source)
    return [ast.copy_location(ast.If(test, body, []), source)]


class Replaced(ast.NodeTransformer):
    """Replaces the statements of a kind that belong to a loop."""

    def __init__(self, kind: type[ast.stmt], change: Any) -> None:
        self.kind = kind
        self.change = change

    def of(self, loop: Loop) -> None:
        loop.body[:] = [line for node in loop.body for line in self.lines(node)]

    def lines(self, node: ast.stmt) -> list[ast.stmt]:
        result = self.visit(node)
        return result if isinstance(result, list) else [result]

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, self.kind):
            return self.change(node)
        if isinstance(node, Loop | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            return node
        return self.generic_visit(node)
