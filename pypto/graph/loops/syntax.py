"""Facts of a function's syntax tree: the names that a loop assigns and reads, and where it reads them first."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from types import FunctionType

from pypto.errors.frontend import NoSource
from pypto.frontend.source import KernelSource


def function_tree(function: FunctionType) -> ast.FunctionDef | None:
    """Return the syntax tree of a function, or None if its text is not available."""
    try:
        node = KernelSource.of(function).node
    except NoSource:
        return None
    return node if isinstance(node, ast.FunctionDef) else None


def stored_names(node: ast.AST) -> list[str]:
    """Return the names that a statement assigns, in order."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return list(dict.fromkeys(n.id for n in names))


def loaded_names(node: ast.AST) -> list[str]:
    """Return the names that a statement reads."""
    return list(dict.fromkeys(name for name, _ in loads(node)))


def loads(node: ast.AST) -> list[tuple[str, int]]:
    rows = []
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
            rows.append((each.id, id(each)))
        elif isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name):
            rows.append((each.target.id, id(each)))
    return rows


def live_after(function: ast.FunctionDef, loop: ast.AST) -> set[str]:
    """Return the names whose values a function may read after a loop, before it assigns them.

    Examples
    --------
    >>> tree = ast.parse("def f(x):\\n    for i in x:\\n        y = i\\n        z = i\\n    return y").body[0]
    >>> live_after(tree, tree.body[0])
    {'y'}
    """
    names: set[str] = set()
    follow(function.body, loop, names)
    return names


def follow(body: Sequence[ast.stmt], loop: ast.AST, names: set[str]) -> bool:
    """Collect what is read after a loop that is in some statements; return whether it is there."""
    for number, node in enumerate(body):
        if node is loop:
            walk(body[number + 1 :], set(), names)
            return True
        blocks = [getattr(node, part, []) for part in ("body", "orelse", "finalbody")]
        blocks += [handler.body for handler in getattr(node, "handlers", [])]
        if any(follow(block, loop, names) for block in blocks):
            if isinstance(node, ast.For | ast.While):
                names |= exposed(node)
            walk(body[number + 1 :], set(), names)
            return True
    return False


def stands_alone(function: ast.AST, loop: ast.AST, names: Iterable[str]) -> bool:
    """Whether each statement outside of a loop that reads some names reads no other name."""
    inside = {place for _, place in loads(loop)}
    known = set(names)
    for node in ast.walk(function):
        if not isinstance(node, ast.stmt) or any(isinstance(part, ast.stmt) for part in ast.iter_child_nodes(node)):
            continue
        outside = {name for name, place in loads(node) if place not in inside}
        if outside & known and outside - known:
            return False
    return True


def exposed(loop: ast.For | ast.While) -> set[str]:
    """Return the names whose values of the iteration before a loop's body may read."""
    names: set[str] = set()
    if isinstance(loop, ast.While):
        names |= set(loaded_names(loop.test))
    walk(loop.body, set(stored_names(loop.target)) if isinstance(loop, ast.For) else set(), names)
    return names


def walk(body: Iterable[ast.stmt], assigned: set[str], names: set[str]) -> set[str]:
    """Collect the names that statements read before they assign them, and return those that they surely assign."""
    for node in body:
        if isinstance(node, ast.If):
            names |= set(loaded_names(node.test)) - assigned
            ends = [walk(part, set(assigned), names) for part in (node.body, node.orelse)]
            assigned = ends[0] & ends[1]
        elif isinstance(node, ast.For | ast.While):
            names |= set(loaded_names(node.iter if isinstance(node, ast.For) else node.test)) - assigned
            targets = set(stored_names(node.target)) if isinstance(node, ast.For) else set()
            walk(node.body, assigned | targets, names)
        else:
            names |= set(loaded_names(node)) - assigned
            assigned = assigned | set(stored_names(node))
    return assigned


def with_last_returns(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return a function's body in which each `return` is the last statement of its branch.

    Examples
    --------
    >>> tree = ast.parse("if x:\\n    return 1\\nreturn 2")
    >>> print(ast.unparse(ast.Module(with_last_returns(tree.body), [])))
    if x:
        return 1
    else:
        return 2
    """
    for number, node in enumerate(body):
        if isinstance(node, ast.Return):
            return list(body[: number + 1])
        if isinstance(node, ast.If) and any(isinstance(n, ast.Return) for n in ast.walk(node)):
            after = list(body[number + 1 :])
            ends = [part if is_left(part) else [*part, *after] for part in (node.body, node.orelse)]
            branch = ast.If(node.test, with_last_returns(ends[0]) or [ast.Pass()], with_last_returns(ends[1]))
            return [*body[:number], ast.fix_missing_locations(ast.copy_location(branch, node))]
    return list(body)


def is_left(body: Sequence[ast.stmt]) -> bool:
    """Whether control never reaches the end of a block."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return is_left(last.body) and is_left(last.orelse)
    return isinstance(last, ast.Return)
