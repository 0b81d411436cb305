"""Grids on the command line: numbers, or arithmetic over a kernel's arguments, which is never run as Python."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from pypto.cli.specs import UsageError

GRID: Final = (
    "Programs: a number, or up to three with commas. They may be made of the arguments, as in 'cdiv(x.size, BLOCK)' "
    "or 'x.shape[0]'."
)
_BINARY: Final = MappingProxyType[type[ast.operator], Callable[[Any, Any], Any]]({
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
})  # fmt: skip
_CALLS: Final = MappingProxyType[str, Callable[..., Any]](
    {"cdiv": lambda a, b: -(-a // b), "min": min, "max": max, "len": len}
)
_FIELDS: Final = ("shape", "size", "ndim")

Grid = tuple[int, ...] | Callable[[Mapping[str, Any]], tuple[int, ...]]


def grid_of(text: str) -> Grid:
    """A grid; where it names arguments, a function of them.

    Raises
    ------
    UsageError
        When it is none.

    Examples
    --------
    >>> grid_of("8,4")
    (8, 4)
    >>> grid_of("cdiv(n, BLOCK)")({"n": 1000, "BLOCK": 256})
    (4,)
    """
    try:
        tree = ast.parse(f"({text},)" if text.strip() else "", mode="eval").body
    except SyntaxError:
        raise UsageError(f"--grid {text} is no grid. {GRID}") from None
    assert isinstance(tree, ast.Tuple)
    sizes = tree.elts
    if all(isinstance(size, ast.Constant) for size in sizes):
        return computed(text, sizes, {})
    return lambda given: computed(text, sizes, given)


def computed(text: str, sizes: list[ast.expr], given: Mapping[str, Any]) -> tuple[int, ...]:
    try:
        return tuple(operator.index(value(size, given)) for size in sizes)
    except (KeyError, TypeError, ZeroDivisionError, IndexError, AttributeError) as error:
        raise UsageError(f"--grid {text} is no grid here ({type(error).__name__}: {error}). {GRID}") from None


def value(node: ast.expr, given: Mapping[str, Any]) -> Any:
    """A number, a shape or an array."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return given[node.id]
        case ast.BinOp() if type(node.op) in _BINARY:
            return _BINARY[type(node.op)](value(node.left, given), value(node.right, given))
        case ast.Attribute() if node.attr in _FIELDS:
            return getattr(value(node.value, given), node.attr)
        case ast.Subscript():
            return value(node.value, given)[value(node.slice, given)]
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS and not node.keywords:
            return _CALLS[name](*(value(x, given) for x in node.args))
    raise TypeError(f"{ast.unparse(node)} is not understood")
