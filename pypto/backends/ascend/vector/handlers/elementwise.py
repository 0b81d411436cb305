"""Elementwise ops: numbers on the scalar unit, tiles by the vector rules of the op table.

An op that the vector unit lacks goes through the scalar unit element by element. 64-bit ops are deferred where that
computes an element only once or cheaply: the reader of an element then computes it (`Deferred`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pypto.backends.ascend.blockir.ir import Expr, Item, Scalar, View
from pypto.backends.ascend.rules.kinds import ViaScalarUnit
from pypto.backends.ascend.rules.lane_rules import NO_FLOAT64, Lanes, elementwise, refused
from pypto.backends.ascend.rules.scalars import NotScalar, apply
from pypto.backends.ascend.rules.table import rule_for
from pypto.backends.ascend.techniques import is_enabled
from pypto.backends.ascend.vector.broadcast_operands import broadcast_operand_op
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.handlers.shape import initialise_padding, repeated_number
from pypto.backends.ascend.vector.masks import compare_nonzero
from pypto.backends.ascend.vector.naming import name_hint
from pypto.backends.ascend.vector.nan_facts import without_nan
from pypto.backends.ascend.vector.narrow_int64 import narrow_cast
from pypto.backends.ascend.vector.values import AnyTile, Deferred, Splat, Tile
from pypto.errors.ascend import NotOnAscend
from pypto.ir.core import Op
from pypto.ir.types import DType, TileType, float16, float64
from pypto.ops.table import TABLE

MAX_REPEATED: Final = 128  # elements of a repeat of 16 bits
MAX_RECOMPUTED_OPS: Final = 16  # ops that each of several users may compute again


@dataclass
class TileSink:
    """Receives the instructions of a rule on whole tiles."""

    low: Lowering  # the lowering
    count: int  # elements of a tile

    @property
    def line(self) -> int:
        """The user's line."""
        return self.low.line

    def emit(self, item: Item) -> None:
        """Append an item."""
        self.low.items.append(item)

    def temporary(self, dtype: DType, count: int = 0) -> View:
        """Allocate a temporary."""
        return self.low.new_tile((count or self.count,), dtype).view

    def filled(self, value: Scalar, dtype: DType, count: int = 0) -> View:
        """Return a tile with one number in every element; a few elements are the same for all programs."""
        if 0 < count <= MAX_REPEATED and dtype.bits in (16, 32) and isinstance(value, int | float):
            return repeated_number(self.low, value, dtype, count)
        return self.low.materialize(Splat((count or self.count,), dtype, value)).view

    def name(self, hint: str) -> str:
        """Return a name that nothing else has."""
        return self.low.name(hint)

    @contextmanager
    def nested(self) -> Iterator[list[Item]]:
        """Open a list of items."""
        with self.low.block() as items:
            yield items


def lower_elementwise(low: Lowering, op: Op) -> None:
    """Lower an elementwise op."""
    shape = op.result.shape
    if shape and (narrowed := narrow_cast(low, op)) is not None:
        low.env[op.result] = narrowed
    elif shape:
        operands = tuple(low.tile_value(v) for v in op.operands)
        low.env[op.result] = (
            Deferred(shape, op, operands) if can_defer(low, op, operands) else compute(low, op, operands, shape)
        )
    if shape:
        return
    try:
        value = apply(low, op, [low.number(v) for v in op.operands])
    except NotScalar:
        low.env[op.result] = compute(low, op, tuple(low.materialize(low.tile_value(v)) for v in op.operands), shape)
        return
    needs_name = low.use_counts[op.result] > 1 or op.result.hint
    low.env[op.result] = low.let(op.result.hint, op.result.dtype, value) if needs_name else value


def can_defer(low: Lowering, op: Op, operands: Sequence[AnyTile]) -> bool:
    """Whether an op is best computed where an element of its result is read."""
    users = low.users.get(op.result, [])
    region = low.positions[op][0]
    is_choice = has_float64(op) and op.result.dtype.is_bool and all(map(has_float64, users))
    if op.result.dtype.bits != 64 and not is_choice and not any(isinstance(x, Deferred) for x in operands):
        return False
    is_used_once = len(users) < 2 and all(low.positions[user][0] is region for user in users)
    return (
        is_used_once or (not has_float64(op) and sum(map(deferred_ops, operands)) < MAX_RECOMPUTED_OPS)
    ) and has_scalar_form(low, op)


def deferred_ops(value: AnyTile) -> int:
    """Return the number of ops that an element of a deferred value takes."""
    return 1 + sum(map(deferred_ops, value.operands)) if isinstance(value, Deferred) else 0


def has_scalar_form(low: Lowering, op: Op) -> bool:
    """Whether the scalar unit has all that an op needs."""
    used_names = low.used_names.copy()
    try:
        with low.block():
            apply(low, op, ["program"] * len(op.operands))
    except NotScalar:
        return False
    finally:
        low.used_names = used_names
    return True


def has_float64(op: Op) -> bool:
    """Whether an op has float64 operands or results."""
    values = (*op.operands, *op.results)
    return any(isinstance(v.type, TileType) and v.tile.elem == float64 for v in values)


def compute(low: Lowering, op: Op, operands: Sequence[AnyTile], shape: tuple[int, ...]) -> Tile | Splat:
    """Compute an op on tiles."""
    dtype = op.result.dtype
    low.hint = name_hint(op, low.users)
    if all(isinstance(x, Splat) for x in operands):
        try:
            return Splat(
                shape,
                dtype,
                low.let(op.result.hint, dtype, apply(low, op, [x.value for x in operands if isinstance(x, Splat)])),
            )
        except NotScalar:
            operands = (low.materialize(operands[0]), *operands[1:])
    if has_float64(op) or isinstance(rule_for(TABLE[op.name]), ViaScalarUnit):
        return compute_by_scalar_unit(low, op, operands, shape, refused(op, NO_FLOAT64))
    with_broadcast = broadcast_operand_op(low, op, operands, shape)
    if with_broadcast is not None:
        return with_broadcast
    lanes = [Lanes(x.dtype, x.value if isinstance(x, Splat) else low.materialize(x).view) for x in operands]
    layout = low.grain.layout(shape)
    try:
        exact = not is_enabled(low.function, "unit_functions")
        (result,) = elementwise(without_nan(low, op), lanes, TileSink(low, layout.count), exact)
    except NotOnAscend as error:
        if not shape:
            raise
        return compute_by_scalar_unit(low, op, operands, shape, error)
    return Tile(shape, dtype, result.at, layout) if isinstance(result.at, View) else Splat(shape, dtype, result.at)


def compute_by_scalar_unit(
    low: Lowering, op: Op, operands: Sequence[AnyTile], shape: tuple[int, ...], problem: NotOnAscend
) -> Tile:
    """Compute an op element by element on the scalar unit.

    Raises
    ------
    NotOnAscend
        The `problem`, if the scalar unit lacks the op, too.
    """
    dtype = op.result.dtype
    result = low.new_tile(shape, float16 if dtype.is_bool else dtype)
    initialise_padding(low, result)
    with low.loop_nest(shape) as index:
        try:
            value = apply(low, op, [low.element(x, index) for x in operands])
        except NotScalar:
            raise problem from None
        low.set_element(result, index, Expr("f16", (value,)) if dtype.is_bool else value)
    return compare_nonzero(low, result, low.new_tile(shape, dtype)) if dtype.is_bool else result
