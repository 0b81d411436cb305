"""Elementwise ops: numbers by the scalar unit, tiles by what `lanes` makes of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pypto.backends.ascend.blockir.ir import Expr, Item, Scalar, View
from pypto.backends.ascend.rules.lane_rules import NO_FLOAT64, Lanes, elementwise, refused
from pypto.backends.ascend.rules.scalars import NotScalar, apply
from pypto.backends.ascend.vector.broadcast_operands import broadcast_operand_op
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.masks import nonzero
from pypto.backends.ascend.vector.naming import name_hint
from pypto.backends.ascend.vector.narrow_int64 import low_words
from pypto.backends.ascend.vector.shape import ensure
from pypto.backends.ascend.vector.values import AnyTile, Deferred, Splat, Tile
from pypto.errors.ascend import NotOnAscend
from pypto.ir.core import Op
from pypto.ir.types import DType, TileType, float16, float64
from pypto.ops.row import ViaScalarUnit
from pypto.ops.table import TABLE

MOST: Final = 16  # ops that several users of a tile do again, each for itself


@dataclass
class TileSink:
    """Takes the instructions of an op on whole tiles."""

    low: Lowering
    count: int

    @property
    def line(self) -> int:
        return self.low.line

    def emit(self, item: Item) -> None:
        self.low.items.append(item)

    def temporary(self, dtype: DType, count: int = 0) -> View:
        return self.low.new((count or self.count,), dtype).view

    def filled(self, value: Scalar, dtype: DType, count: int = 0) -> View:
        return self.low.made(Splat((count or self.count,), dtype, value)).view

    def name(self, hint: str) -> str:
        return self.low.name(hint)

    @contextmanager
    def nested(self) -> Iterator[list[Item]]:
        with self.low.block() as items:
            yield items


def lower_elementwise(low: Lowering, op: Op) -> None:
    shape = op.result.shape
    if shape and (found := low_words(low, op)) is not None:
        low.env[op.result] = found
    elif shape:
        held = tuple(low.held(v) for v in op.operands)
        low.env[op.result] = Deferred(shape, op, held) if may_wait(low, op, held) else computed(low, op, held, shape)
    if shape:
        return
    try:
        value = apply(low, op, [low.number(v) for v in op.operands])
    except NotScalar:
        low.env[op.result] = computed(low, op, tuple(low.made(low.held(v)) for v in op.operands), shape)
        return
    keeps = low.uses[op.result] > 1 or op.result.hint
    low.env[op.result] = low.let(op.result.hint, op.result.dtype, value) if keeps else value


def may_wait(low: Lowering, op: Op, held: Sequence[AnyTile]) -> bool:
    """Whether an op is best done where an element of its result is asked for."""
    users, region = low.users.get(op.result, []), low.places[op][0]
    is_choice = has_doubles(op) and op.result.dtype.is_bool and all(map(has_doubles, users))
    if op.result.dtype.bits != 64 and not is_choice and not any(isinstance(x, Deferred) for x in held):
        return False
    once = len(users) < 2 and all(low.places[user][0] is region for user in users)
    return (once or (not has_doubles(op) and sum(map(ops_of, held)) < MOST)) and does(low, op)


def ops_of(held: AnyTile) -> int:
    """How many ops an element of a tile takes that nothing has made yet."""
    return 1 + sum(map(ops_of, held.operands)) if isinstance(held, Deferred) else 0


def does(low: Lowering, op: Op) -> bool:
    """Whether the scalar unit has what an op needs."""
    names = low.taken.copy()
    try:
        with low.block():
            apply(low, op, ["program"] * len(op.operands))
    except NotScalar:
        return False
    finally:
        low.taken = names
    return True


def has_doubles(op: Op) -> bool:
    values = (*op.operands, *op.results)
    return any(isinstance(v.type, TileType) and v.tile.elem == float64 for v in values)


def computed(low: Lowering, op: Op, held: Sequence[AnyTile], shape: tuple[int, ...]) -> Tile | Splat:
    """The result of an op on tiles."""
    dtype, low.hint = op.result.dtype, name_hint(op, low.users)
    if all(isinstance(x, Splat) for x in held):
        try:
            return Splat(
                shape,
                dtype,
                low.let(op.result.hint, dtype, apply(low, op, [x.value for x in held if isinstance(x, Splat)])),
            )
        except NotScalar:
            held = (low.made(held[0]), *held[1:])
    if has_doubles(op) or isinstance(TABLE[op.name].ascend, ViaScalarUnit):
        return one_by_one(low, op, held, shape, refused(op, NO_FLOAT64))
    if (made_at_once := broadcast_operand_op(low, op, held, shape)) is not None:
        return made_at_once
    lanes = [Lanes(x.dtype, x.value if isinstance(x, Splat) else low.made(x).view) for x in held]
    layout = low.grain.layout(shape)
    try:
        (made,) = elementwise(op, lanes, TileSink(low, layout.count))
    except NotOnAscend as error:
        if not shape:
            raise
        return one_by_one(low, op, held, shape, error)
    return Tile(shape, dtype, made.at, layout) if isinstance(made.at, View) else Splat(shape, dtype, made.at)


def one_by_one(low: Lowering, op: Op, held: Sequence[AnyTile], shape: tuple[int, ...], problem: NotOnAscend) -> Tile:
    """An op that the vector unit has not, by the scalar unit.

    Raises
    ------
    NotOnAscend
        The `problem`, when the scalar unit has it not, either.
    """
    dtype = op.result.dtype
    made = low.new(shape, float16 if dtype.is_bool else dtype)
    ensure(low, made)
    with low.each(shape) as index:
        try:
            value = apply(low, op, [low.element(x, index) for x in held])
        except NotScalar:
            raise problem from None
        low.put(made, index, Expr("f16", (value,)) if dtype.is_bool else value)
    return nonzero(low, made, low.new(shape, dtype)) if dtype.is_bool else made
