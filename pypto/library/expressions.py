"""Arithmetic of signatures: expressions over the sizes, and over the integers in index arrays.

An expression has Python's syntax. It is parsed once and becomes a function of the names' values. It may contain only
the operations in `OPERATIONS` and the functions below; Python never evaluates it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

Names = Mapping[str, Any]
Function = Callable[[Names], Any]


def remainder(a: Any, b: Any) -> Any:
    """Computes the remainder; division by 0 gives the number itself, since only 0 is a multiple of 0."""
    return a % b if np.all(b) else a


def quotient(a: Any, b: Any) -> Any:
    """Computes the quotient, rounded down; division by 0 gives 0."""
    return a // b if np.all(b) else a * 0


OPERATIONS: Final[Mapping[type[ast.AST], Callable[[Any, Any], Any]]] = MappingProxyType(
    {
        ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: quotient,
        ast.Mod: remainder, ast.Pow: operator.pow, ast.BitAnd: operator.and_,
        ast.Lt: operator.lt, ast.LtE: operator.le, ast.Eq: operator.eq,
    }
)  # fmt: skip


def steps(names: Names, x: Any) -> Any:
    """Computes the differences of adjacent elements."""
    return np.diff(np.asarray(x, np.int64))


def tokens(names: Names, x: Any) -> Any:
    """Repeats a number of each sequence for its t tokens; all sequences have the same number of tokens."""
    return np.repeat(x, quotient(names["t"], len(x)))


def seen(names: Names, x: Any) -> Any:
    """Computes how many of a sequence's x rows each token sees: the last token all, each earlier one a row less."""
    each = quotient(names["t"], len(x))
    return tokens(names, x) - each + 1 + np.arange(len(x) * each) % max(each, 1)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "steps": steps,
        "tokens": tokens,
        "seen": seen,
        "cdiv": lambda names, a, b: quotient(a + b - 1, b),
        "max": lambda names, a, b: np.maximum(a, b),
        "min": lambda names, a, b: np.minimum(a, b),
    }
)


def compiled(node: ast.expr) -> Function:
    """Compiles an expression to a function of the values of its names.

    Raises
    ------
    ValueError
        If the expression contains anything that the tables here do not have.

    Examples
    --------
    >>> compiled(ast.parse("(n + 63) // 64", mode="eval").body)({"n": 65})
    2
    """
    match node:
        case ast.Constant(value=int(value)):
            return lambda _: value
        case ast.Name(id=name):
            return lambda names: names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = compiled(operand)
            return lambda names: -inner(names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            return _binary(OPERATIONS[type(op)], compiled(left), compiled(right))
        case ast.BoolOp(op=ast.Or(), values=parts):
            return _either([compiled(part) for part in parts])
        case ast.Compare(left=left, ops=ops, comparators=rest) if {*map(type, ops)} <= OPERATIONS.keys():
            return _chain([compiled(part) for part in (left, *rest)], [OPERATIONS[type(op)] for op in ops])
        case ast.Subscript(value=ast.Name(id=name), slice=slice) if not isinstance(slice, ast.Slice):
            return _element(name, compiled(slice))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return _call(FUNCTIONS[name], [compiled(arg) for arg in args])
    raise ValueError(f"`{ast.unparse(node)}` is nothing that a signature can compute")


def _binary(operation: Callable[[Any, Any], Any], left: Function, right: Function) -> Function:
    return lambda names: operation(left(names), right(names))


def _either(parts: list[Function]) -> Function:
    def first(names: Names) -> Any:
        """Returns the first value that is not 0, else the last."""
        for part in parts[:-1]:
            if value := part(names):
                return value
        return parts[-1](names)

    return first


def _chain(parts: list[Function], operations: list[Callable[[Any, Any], Any]]) -> Function:
    def holds(names: Names) -> bool:
        values = [part(names) for part in parts]
        return all(op(a, b) for a, op, b in zip(values, operations, values[1:], strict=False))

    return holds


def _element(name: str, place: Function) -> Function:
    def value(names: Names) -> int:
        """Returns an element of a one-dimensional array; of an empty array, 0."""
        array = names[name]
        return int(array[place(names)]) if len(array) else 0

    return value


def _call(function: Callable[..., Any], args: list[Function]) -> Function:
    return lambda names: function(names, *(arg(names) for arg in args))
