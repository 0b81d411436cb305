"""Formulas of sizes, as in ``cdiv(x.shape[0], BLOCK)``: translated to C++, and never run as Python."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

_SIGNS: Final = MappingProxyType[type[ast.operator], str]({ast.Add: "+", ast.Sub: "-", ast.Mult: "*"})
_CALLS: Final = MappingProxyType[type[ast.operator], str]({ast.FloorDiv: "floor_div", ast.Mod: "floor_mod"})


class NoFormula(ValueError):
    """The text is no formula of sizes; the message says which part is not understood."""


@dataclass(frozen=True)
class Spelling:
    """How C++ asks an array for a size and for the number of its elements, and takes the least of several numbers."""

    size: str
    elements: str
    extreme: str


CANN: Final = Spelling("GetDim", "GetShapeSize", "std::{name}<int64_t>({{{sizes}}})")
TORCH: Final = Spelling("sym_size", "sym_numel", "{name}_of({{{sizes}}})")


@dataclass(frozen=True)
class Names:
    """What names of a formula stand for: C++ variables with their ranks, and constants."""

    arrays: Mapping[str, tuple[str, int]]  # the variable of its shape, and its rank
    numbers: Mapping[str, str]  # scalars of a launch, as C++
    constants: Mapping[str, int]
    spelling: Spelling = CANN


def translated(text: str, names: Names) -> list[str]:
    """The sizes of a list of formulas as C++ expressions of 64-bit integers.

    Raises
    ------
    NoFormula
        When a part of it is none.

    Examples
    --------
    >>> translated("cdiv(x.shape[0], BLOCK), 2", Names({"x": ("x", 2)}, {}, {"BLOCK": 64}))
    ['ceil_div(x.GetDim(0), 64)', '2']
    """
    try:
        tree = ast.parse(f"({text},)" if text.strip() else "()", mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise NoFormula(text) from None
    if not isinstance(tree, ast.Tuple):
        raise NoFormula(text)
    return [_size(node, names) for node in tree.elts]


def _size(node: ast.expr, names: Names) -> str:
    """A size: a number, a name, arithmetic, a part of an array's shape, or a call."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return str(value)
        case ast.Name(id=name) if name in names.constants:
            return str(names.constants[name])
        case ast.Name(id=name) if name in names.numbers:
            return names.numbers[name]
        case ast.BinOp(op=op) if type(op) in _SIGNS:
            return f"({_size(node.left, names)} {_SIGNS[type(op)]} {_size(node.right, names)})"
        case ast.BinOp(op=op) if type(op) in _CALLS:
            return f"{_CALLS[type(op)]}({_size(node.left, names)}, {_size(node.right, names)})"
        case ast.Call(keywords=[]):
            return _call(node, names)
    return _shape(node, names)


def _shape(node: ast.expr, names: Names) -> str:
    """A size of an array, the number of its elements, or its rank."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="size") if name in names.arrays:
            return f"{names.arrays[name][0]}.{names.spelling.elements}()"
        case ast.Attribute(value=ast.Name(id=name), attr="ndim") if name in names.arrays:
            return str(names.arrays[name][1])
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape")) if name in names.arrays:
            return _dimension(node.slice, *names.arrays[name], names.spelling)
    raise NoFormula(ast.unparse(node))


def _call(node: ast.Call, names: Names) -> str:
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]) if name in names.arrays:
            return _dimension(ast.Constant(0), *names.arrays[name], names.spelling)
        case ast.Call(func=ast.Name(id="cdiv"), args=[a, b]):
            return f"ceil_div({_size(a, names)}, {_size(b, names)})"
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[_, _, *_]):
            return names.spelling.extreme.format(name=name, sizes=", ".join(_size(x, names) for x in node.args))
    raise NoFormula(ast.unparse(node))


def _dimension(index: ast.expr, variable: str, rank: int, spelling: Spelling) -> str:
    """The size of a dimension, whose number is a constant."""
    number: Any = None
    match index:
        case ast.Constant(value=int(value)):
            number = value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            number = rank - value
    if number is None or not 0 <= number < rank:
        raise NoFormula(f"shape[{ast.unparse(index)}]")
    return f"{variable}.{spelling.size}({number})"
