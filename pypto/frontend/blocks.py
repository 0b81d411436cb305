"""Structured accesses at computed places: what block pointers and tensor descriptors are made of.

These intrinsics are called by `pypto.language` alone, with all their arguments by position.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from pypto.errors.frontend import AssertionFailed, WrongArgument
from pypto.frontend.assign import items_of
from pypto.frontend.operators import one_if_known
from pypto.frontend.scope import Scope
from pypto.frontend.values import Dims, as_pointer, constant, describe, is_index, is_number
from pypto.ir.core import Value
from pypto.ir.types import int64
from pypto.ops.build import OpBuilder
from pypto.ops.memory import pointee

UNBOUNDED: Final = 2**62  # extent of a dimension in which every position exists


def indices(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A tuple of integers in 64 bits. Python's stay what they are, and so do arguments that are 1 at launch."""
    x, name = args
    items = items_of(scope, node, x) if isinstance(x, tuple | Dims) else (x,)
    for item in items:
        if not is_index(item):
            given, wanted = describe(item), "an integer, or a tuple of integers"
            raise WrongArgument(scope.loc(node), function="a block", name=name, wanted=wanted, given=given, way="")
    b = scope.at(node)
    return tuple(wide(b, x) if one_if_known(scope, node, x) is x else 1 for x in items)


def wide(b: OpBuilder, x: Any) -> Any:
    return b.cast(x, int64) if isinstance(x, Value) else x


def start(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Where a block is: run-time values, since loops move them."""
    items, b = indices(scope, node, [args[0], "offsets"], {}), scope.builder
    return tuple(b.value(x, int64) for x in items)


def moved(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Places, each of which is moved by a step; by 0 it stays the value that it is."""
    places, steps = args[0], indices(scope, node, [args[1], "offsets"], {})
    b = scope.builder
    check(scope, node, len(places) == len(steps), f"one offset per dimension, here {len(places)}")
    pairs = zip(places, steps, strict=True)
    return tuple(x if isinstance(s, int) and s == 0 else b.emit("add", x, b.value(s, int64)) for x, s in pairs)


def check(scope: Scope, node: ast.AST, holds: bool, message: str) -> None:
    if not holds:
        raise AssertionFailed(scope.loc(node), message=f": {message}")


def operands(scope: Scope, node: ast.Call, args: list[Any]) -> list[Value]:
    """Of `tile_load` and `tile_store`. Where a dimension is not checked every position exists: there the base moves."""
    base, offsets, strides, sizes, block, checked = args
    constant(block, "block_shape", scope.loc(node))
    dims = range(len(block)) if checked is None else checked if isinstance(checked, tuple) else (checked,)
    for d in dims:
        check(scope, node, d in range(len(block)), f"boundary_check: {d} is no dimension of a block with {len(block)}")
    b = scope.at(node)
    pointer, rows = as_pointer(b, base), []
    for d, numbers in enumerate(zip(offsets, strides, sizes, strict=True)):
        offset, stride, size = (b.value(wide(b, x), int64) for x in numbers)
        if d not in dims:
            pointer = b.emit("addptr", pointer, b.emit("mul", offset, stride))
            offset, size = b.constant(0, int64), b.constant(UNBOUNDED, int64)
        rows.append((offset, stride, size))
    return [pointer, *(x for column in zip(*rows, strict=True) for x in column)]


def load(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> Value:
    *where, padding = args
    check(scope, node, padding in ("", "zero", "nan", None), f"padding_option: {padding} is none of zero and nan")
    inputs, b, shape = operands(scope, node, where), scope.builder, where[4]
    if padding == "nan":
        inputs.append(b.constant(float("nan"), pointee(inputs[0].type).dtype, shape))
    return b.emit("tile_load", *inputs, shape=shape, masked=False)


def store(scope: Scope, node: ast.Call, args: list[Any], kwargs: dict[str, Any]) -> None:
    *where, value = args
    inputs, b, shape = operands(scope, node, where), scope.builder, where[4]
    elem = pointee(inputs[0].type).dtype
    data = b.constant(value, elem, shape) if is_number(value) else b.broadcast(b.cast(value, elem), shape)
    b.op("tile_store", *inputs, data, shape=shape, masked=False)
