"""Slices of arrays: structured loads and stores."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from pypto.errors.frontend import (
    BadIndex,
    EmptySlice,
    IndexCount,
    NegativePosition,
    SliceExtent,
    StoreShape,
    WrongArgument,
)
from pypto.frontend.affine import difference
from pypto.frontend.scope import Scope
from pypto.frontend.values import Dims, Number, constant, describe, is_number, is_scalar
from pypto.ir.core import Value
from pypto.ir.types import ArrayType, TileType, int64
from pypto.ops.build import OpBuilder, merge_shapes

FULL = slice(None)


@dataclass(frozen=True, slots=True)
class Access:
    """A slice of an array: first position and size per dimension. `shape` lacks integer positions, has new axes."""

    array: Value
    offsets: tuple[Value | int, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def type(self) -> ArrayType:
        assert isinstance(self.array.type, ArrayType)
        return self.array.type


def dimension(scope: Scope, dims: Dims, dim: int) -> Value | int:
    """An entry of `shape` or `strides`: a constant where the launch's facts make it one."""
    name, facts = scope.session.arguments[dims.array], scope.session.facts
    known = facts.stride(name, dim) if dims.strides else facts.shape(name, dim)
    if known is not None:
        if not dims.strides:
            scope.session.shapes[name, dim] = known
        return known
    return scope.builder.emit("array_stride" if dims.strides else "array_shape", dims.array, dim=dim)


def required(scope: Scope, array: Value, dim: int) -> int:
    """The size of a dimension that a tile covers whole."""
    name = scope.session.arguments[array]
    size = scope.session.facts.require_shape(name, dim)
    scope.session.shapes[name, dim] = size
    return size


def access(scope: Scope, node: ast.Subscript, array: Value) -> Access:
    """What `array[...]` names. Slice bounds are evaluated here: a slice object cannot hold where they stand."""
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    assert isinstance(array.type, ArrayType)
    entries = [(item, index_entry(scope, item)) for item in items]
    entries = fill(scope, node, array, entries)
    offsets: list[Value | int] = []
    sizes: list[int] = []
    shape: list[int] = []
    for item, entry in entries:
        if entry is None:
            shape.append(1)
            continue
        offset, size = extent(scope, item, array, len(offsets), entry)
        offsets.append(offset)
        sizes.append(size or 1)
        shape += [size] if size else []
    return Access(array, tuple(offsets), tuple(sizes), tuple(shape))


def index_entry(scope: Scope, item: ast.expr) -> Any:
    """A slice of values, a position, None or `...`."""
    if not isinstance(item, ast.Slice):
        value = scope.eval(item)
        allowed = value is None or value is Ellipsis or is_position(value)
        if not allowed:
            gather = isinstance(value, Value) and not is_scalar(value)
            way = "gather with pointers: `pto.load(x + offsets, mask=...)`" if gather else "use integers and slices"
            raise BadIndex(scope.loc(item), what="an array", index=describe(value), way=way)
        return value
    if item.step is not None and scope.eval(item.step) not in (None, 1):
        way = "use pointers: `pto.load(x + pto.arange(0, n) * step)`"
        raise BadIndex(scope.loc(item.step), what="an array", index="a step", way=way)
    low, high = (None if bound is None else position(scope, bound) for bound in (item.lower, item.upper))
    return slice(low, high)


def is_position(x: Any) -> bool:
    if isinstance(x, int) and not isinstance(x, bool):
        return True
    return is_scalar(x) and not x.tile.is_ptr and x.dtype.is_int


def position(scope: Scope, node: ast.expr) -> Any:
    value = scope.eval(node)
    if value is not None and not is_position(value):
        raise BadIndex(scope.loc(node), what="an array", index=describe(value), way="bounds of a slice are integers")
    return value


def fill(scope: Scope, node: ast.AST, array: Value, entries: list[tuple[ast.expr, Any]]) -> list[tuple[ast.expr, Any]]:
    """One entry per dimension: `...` and missing ones are full slices."""
    assert isinstance(array.type, ArrayType)
    given = sum(e is not None and e is not Ellipsis for _, e in entries)
    missing = array.type.ndim - given
    if missing < 0:
        raise IndexCount(scope.loc(node), given=given, what=describe(array), ndim=array.type.ndim)
    at = next((n for n, (_, e) in enumerate(entries) if e is Ellipsis), len(entries))
    where = entries[at][0] if at < len(entries) else entries[-1][0]
    return [*entries[:at], *[(where, FULL)] * missing, *entries[at + 1 :]]


def extent(scope: Scope, node: ast.expr, array: Value, dim: int, entry: Any) -> tuple[Value | int, int]:
    """First position and size along a dimension; size 0 stands for a single position."""
    if not isinstance(entry, slice):
        not_negative(scope, node, entry)
        return entry, 0
    low = 0 if entry.start is None else entry.start
    if entry.stop is None:
        not_negative(scope, node, low)
        whole = required(scope, array, dim)
        return low, checked(scope, node, constant_extent(scope, node, whole, low))
    if entry.start is None:
        not_negative(scope, node, entry.stop)
    return low, checked(scope, node, constant_extent(scope, node, entry.stop, low))


def constant_extent(scope: Scope, node: ast.expr, high: Value | int, low: Value | int) -> int:
    size = difference(scope.session.numbers, high, low)
    if size is not None:
        return size
    raise SliceExtent(scope.loc(node), bound=extent_text(node, high, low))


def extent_text(node: ast.AST, high: Value | int, low: Value | int) -> str:
    """The extent in the words of the source: the bound that is no constant, or both."""
    assert isinstance(node, ast.Slice)
    upper, lower = (f"`{ast.unparse(x)}`" if x else "" for x in (node.upper, node.lower))
    if isinstance(low, int):
        return upper
    return f"{upper or 'the size'} minus {lower}" if isinstance(high, Value) or not upper else lower


def checked(scope: Scope, node: ast.AST, size: int) -> int:
    if size < 1:
        raise EmptySlice(scope.loc(node), extent=size)
    return size


def not_negative(scope: Scope, node: ast.AST, x: Any) -> None:
    if isinstance(x, int) and x < 0:
        raise NegativePosition(scope.loc(node), position=x)


def operands(scope: Scope, node: ast.AST, where: Access) -> list[Value]:
    """Base, offsets, strides and extents of a structured access."""
    b, name = scope.at(node), scope.session.arguments[where.array]
    offsets, strides, extents = [], [], []
    for dim, offset in enumerate(where.offsets):
        offsets.append(b.cast(b.value(offset, int64), int64))
        stride = scope.session.facts.stride(name, dim)
        strides.append(b.emit("array_stride", where.array, dim=dim) if stride is None else b.constant(stride, int64))
        size = scope.session.shapes.get((name, dim))
        extents.append(b.emit("array_shape", where.array, dim=dim) if size is None else b.constant(size, int64))
    return [b.emit("array_ptr", where.array), *offsets, *strides, *extents]


def array_load(scope: Scope, node: ast.AST, where: Access, pad: Number) -> Value:
    inputs, b = operands(scope, node, where), scope.builder
    if pad:
        inputs.append(b.constant(pad, where.type.elem, where.sizes))
    tile = b.emit("tile_load", *inputs, shape=where.sizes, masked=False)
    return shaped(b, tile, where.shape)


def shaped(b: OpBuilder, v: Value, shape: tuple[int, ...]) -> Value:
    return v if v.shape == shape else b.emit("reshape", v, shape=shape)


def array_store(scope: Scope, node: ast.AST, where: Access, value: Any) -> None:
    inputs, b = operands(scope, node, where), scope.builder
    if not is_number(value) and not (
        isinstance(value, Value) and isinstance(value.type, TileType) and not value.tile.is_ptr
    ):
        fields: dict[str, Any] = {"function": "a store", "name": "value", "wanted": "a tile or a number"}
        raise WrongArgument(scope.loc(node), **fields, given=describe(value), way="")
    if is_number(value):
        data = b.constant(value, where.type.elem, where.sizes)
    else:
        extra = max(0, len(value.shape) - len(where.shape))
        fitting = value.shape[extra:] if set(value.shape[:extra]) <= {1} else value.shape
        if merge_shapes(fitting, where.shape) != where.shape:
            raise StoreShape(scope.loc(node), value=value.shape, target=where.shape)
        value = shaped(b, b.cast(value, where.type.elem), fitting)
        data = shaped(b, b.broadcast(value, where.shape), where.sizes)
    b.op("tile_store", *inputs, data, shape=where.sizes, masked=False)


def function_access(scope: Scope, node: ast.AST, array: Value, offsets: Any, shape: Any) -> Access:
    """What `pto.load(array, offsets, shape)` names: one offset and one size per dimension."""
    assert isinstance(array.type, ArrayType)
    starts = offsets if isinstance(offsets, tuple) else (offsets,)
    sizes = constant(shape if isinstance(shape, tuple) else (shape,), "the shape of a tile", scope.loc(node))
    for count in (len(starts), len(sizes)):
        if count != array.type.ndim:
            raise IndexCount(scope.loc(node), given=count, what=describe(array), ndim=array.type.ndim)
    for x in starts:
        if not is_position(x):
            raise BadIndex(scope.loc(node), what="an array", index=describe(x), way="offsets are integers")
    return Access(array, starts, tuple(checked(scope, node, n) for n in sizes), tuple(sizes))
