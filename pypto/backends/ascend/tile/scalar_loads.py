"""Scalarization of loads: a tile of one element becomes a number, which the scalar unit of every core can read.

`page = table[b, j]` loads a tile of size 1 and reshapes it. On a cube core there is no memory for tiles of numbers, so
a product whose operand lies at such an index would have to leave it. Elementwise ops on such tiles follow.

It is always legal: a `load` of a scalar reads the same element, under the condition that it exists.

    %t: tile<1xi32> = tile_load %p, %i, %one, %n                  %q = addptr %p, %i
    %w: tile<1xi64> = cast %t                            ->       %t: i32 = load %q, %i < %n
    %e: i64 = reshape %w                                          %e: i64 = cast %t
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter
from pypto.ir.types import TileType, int64
from pypto.ops.memory import UNBOUNDED, Access
from pypto.ops.table import MOVEMENT_OPS, TABLE
from pypto.passes.analysis.ranges import is_nonnegative
from pypto.passes.canonicalize import Simplifier
from pypto.passes.dce import dce
from pypto.passes.pattern import constant_of


def scalarize_loads(function: Function) -> Function:
    """The function with scalars in the place of loaded tiles of size 1, where there are any."""
    if not any(is_single_load(op) for op in function.walk()):
        return function
    return dce(_Scalarizer(Simplifier(Region()), _rule).function(function))


def is_single_load(op: Op) -> bool:
    """Whether an op loads a tile of one element from a plain address."""
    if op.name != "tile_load" or not op.result.shape or op.result.tile.size != 1:
        return False
    access = Access.of(op)
    return access.mask is None and access.other is None and not access.base.shape


@dataclass
class _Scalarizer(Rewriter[Simplifier]):
    scalars: dict[Value, Value] = field(default_factory=dict)  # the number in each new tile of size 1


def _rule(rewriter: _Scalarizer, op: Op) -> Sequence[Value] | None:
    if is_single_load(op):
        return [_as_tile(rewriter, _load(rewriter, op), op.result)]
    if len(op.results) != 1 or not isinstance(op.result.type, TileType):
        return None
    values = [rewriter.value(v) for v in op.operands]
    if op.result.tile.size != 1 or not any(v in rewriter.scalars for v in values):
        return None
    if not all(v in rewriter.scalars or (isinstance(v.type, TileType) and not v.shape) for v in values):
        return None
    numbers = [rewriter.scalars.get(v, v) for v in values]
    if op.name in MOVEMENT_OPS:
        return [_as_tile(rewriter, numbers[0], op.result)]
    if TABLE[op.name].elementwise and op.name != "constant":
        return [_as_tile(rewriter, rewriter.builder.emit(op.name, *numbers, **op.attrs), op.result)]
    return None


def _load(rewriter: _Scalarizer, op: Op) -> Value:
    """The number that a load reads; 0 where the element does not exist."""
    b, access = rewriter.builder, Access.of(op)
    zero = b.constant(0, int64)
    at, exists = zero, list[Value]()
    for offset, stride, extent in zip(access.offsets, access.strides, access.extents, strict=True):
        start, end = rewriter.value(offset), rewriter.value(extent)
        at = b.emit("add", at, b.emit("mul", start, rewriter.value(stride)))
        exists += [] if constant_of(end) == UNBOUNDED else [b.emit("lt", start, end)]
        exists += [] if is_nonnegative(start) else [b.emit("ge", start, zero)]
    pointer = b.emit("addptr", rewriter.value(access.base), at)
    unknown = [v for v in exists if constant_of(v) is not True]
    return b.emit("load", pointer, *([reduce(lambda x, y: b.emit("and_", x, y), unknown)] if unknown else []))


def _as_tile(rewriter: _Scalarizer, number: Value, old: Value) -> Value:
    """A number in the shape of the tile that it was."""
    if not old.shape:
        return number
    tile = rewriter.builder.emit("broadcast_to", number, shape=old.shape)
    rewriter.scalars[tile] = number
    return tile
