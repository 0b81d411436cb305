"""A cell of kernels: its functions become kernels, its last line may be a launch, and its lines keep their numbers."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch that was written and is not made yet."""

    kernel: Any
    grid: Any
    args: tuple[Any, ...]
    given: dict[str, Any]
    at_its_line: Callable[[Callable[[], Any]], Any]  # calls a function from the line where the launch stands

    def __call__(self) -> Any:
        return self.at_its_line(lambda: self.kernel[self.grid](*self.args, **self.given))

    @property
    def chosen(self) -> Launch:
        """The launch of the kernel inside of a tuner, with what the tuner chose."""
        if not hasattr(self.kernel, "winner"):
            return self
        constants = self.kernel.winner(self.args, self.given).kwargs
        return replace(self, kernel=self.kernel.fn, given={**self.given, **constants}).chosen

    @property
    def named(self) -> dict[str, Any]:
        """Arguments by name."""
        return {**dict(zip(self.kernel.arg_names, self.args, strict=False)), **self.given}


def evaluated(shell: Any, first: str, cell: str) -> Launch | Any:
    """Run a cell up to its last expression; gives the launch that this is, or its value.

    `first` is the line of the magic itself: with it, lines count as the notebook shows them.
    """
    __tracebackhide__ = True
    empty = sum(1 for _ in itertools.takewhile(lambda line: not line.strip(), cell.splitlines()))
    text = f"# {first}\n" + "\n" * empty + shell.transform_cell(cell)  # which leaves empty lines at the head out
    number = max(1, len(shell.user_ns.get("In", ())) - 1)  # of this cell: the shell's own count is one ahead by now
    file = shell.compile.cache(text, number, raw_code=text)
    tree = ast.parse(text, file)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            node.decorator_list.append(jit_at(node))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    shell.user_ns.setdefault("pto", __import__("pypto"))
    exec(shell.compile(tree, file, "exec"), shell.user_ns)
    if not isinstance(last, ast.Expr):
        return None

    def value(node: ast.expr, **names: Any) -> Any:
        __tracebackhide__ = True
        return eval(shell.compile(ast.Expression(node), file, "eval"), shell.user_ns, names)

    return last_value(last.value, value)


def jit_at(node: ast.FunctionDef) -> ast.expr:
    """`@pto.jit`, in the line of the function."""
    return placed("__import__('pypto').jit", node)


def placed(text: str, at: ast.stmt | ast.expr) -> ast.expr:
    """An expression of ours in the user's line."""
    expression = ast.parse(text, mode="eval").body
    for part in ast.walk(expression):
        ast.copy_location(part, at)
    return expression


def last_value(node: ast.expr, value: Callable[..., Any]) -> Launch | Any:
    """The value of an expression; of ``kernel[grid](…)`` the launch, not yet made."""
    match node:
        case ast.Call(func=ast.Subscript(value=called, slice=grid)):
            kernel = value(called)
            if not (hasattr(kernel, "launch") and hasattr(kernel, "arg_names")):
                return value(node)
            catch = placed("lambda *args, **given: (args, given)", node)
            args, given = value(ast.copy_location(ast.Call(catch, node.args, node.keywords), node))
            return Launch(kernel, value(grid), args, given, lambda call: value(placed("call()", node), call=call))
    return value(node)
