"""The printer of ops in the kernel language: the op table's rows give operators, functions and numbers."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from pypto.frontend.operators import OPERATORS
from pypto.graph.ir import op_facts
from pypto.graph.ir.node import Node
from pypto.graph.schedule.axes import FusionConflict
from pypto.ir.types import DType
from pypto.ops.row import Reduction
from pypto.ops.table import TABLE

_CASTS: Final = {"cast": "", "bitcast": ", bitcast=True"}  # what `to` is given besides the type
SYMBOLS: Final = {row: symbol for symbol, _, row in OPERATORS.values() if row}


def number_text(value: float | int | bool, dtype: DType) -> str:
    """Print a number as source of a kernel."""
    if dtype.is_float and not math.isfinite(value):
        return f'float("{value}")'
    if dtype.bits <= 32 and dtype.is_float:
        return str(np.float32(value))
    return repr(value)


def call_text(node: Node, operands: list[str]) -> str:
    """Print an elementwise op on the texts of its operands."""
    numbers = [x.is_constant for x in node.inputs]
    values = numbers[1:] if node.op == "where" else numbers
    if all(values) and values:  # a number alone has no type
        first = node.inputs[-1]
        operands = [*operands[:-1], f"pto.full((), {operands[-1]}, pto.{first.type.dtype.public})"]
    return rounded(node, written(node, operands))


def written(node: Node, operands: list[str]) -> str:
    row = TABLE[node.op]
    if node.op in _CASTS:
        return f"{operands[0]}.to(pto.{node.attr('dtype').public}{_CASTS[node.op]})"
    if node.op in SYMBOLS and len(operands) == 2:
        symbol = SYMBOLS[node.op]
        first = f"({operands[0]})" if symbol == "**" and operands[0].startswith("-") else operands[0]
        return f"{first} {symbol} {operands[1]}"  # `**` alone binds closer than the minus of a number
    if node.op in SYMBOLS:
        return f"{SYMBOLS[node.op]}{operands[0]}"
    options = [f"{name} = {value!r}".replace(" ", "") for name, value in node.attrs if value is not False]
    return f"{name_of(node.op, row.public)}({', '.join((*operands, *options))})"


def name_of(op: str, public: bool) -> str:
    """Return the name of an op in the kernel language."""
    from pypto import language
    from pypto.language import libdevice

    if public and hasattr(language, op):
        return f"pto.{op}"
    if hasattr(libdevice, op):
        return f"libdevice.{op}"
    raise FusionConflict(f"{op} has no name in the kernel language")


def rounded(node: Node, text: str) -> str:
    """Cast a result to the type of the node: the language divides narrow floats in float32."""
    if node.op == "div" and node.type.dtype.is_narrow:
        return f"({text}).to(pto.{node.type.dtype.public})"
    return text


def combined(op: str, a: str, b: str) -> str:
    """Print the combination of two partial results of a reduction."""
    rule = TABLE[op].lane_rule
    if not isinstance(rule, Reduction):
        raise FusionConflict(f"{op} cannot be computed by pieces")
    if rule.tile_op in SYMBOLS:
        return f"{a} {SYMBOLS[rule.tile_op]} {b}"
    return f"{name_of(rule.tile_op, TABLE[rule.tile_op].public)}({a}, {b})"


def neutral(op: str, dtype: DType) -> float | int | bool:
    """Return the neutral element with which a reduction begins."""
    try:
        return op_facts.neutral(TABLE[op], dtype)
    except LookupError as error:
        raise FusionConflict(str(error)) from None
