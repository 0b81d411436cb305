"""Where the extremes of a tile are."""

from __future__ import annotations

from typing import Final

from pypto.backends.ascend.blockir.ir import Expr, Word
from pypto.backends.ascend.rules.scalars import Number, ScalarEmitter
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.reduce import axis_by_axis, in_float32, numbers_of
from pypto.backends.ascend.vector.shape import ensure, numbers
from pypto.backends.ascend.vector.values import Broadcast, Tile
from pypto.ir.core import Op
from pypto.ir.types import float32, float64, int1, int32

_NO_INDEX: Final = float(1 << 24)  # up to which float32 has all integers
_SELECT_SCALAR: Final = Word("VSEL_TENSOR_SCALAR_MODE")


def arg_reduction(low: Lowering, op: Op) -> None:
    """The index of the best number, the lowest one of equals."""
    tile, (axis,) = low.tile(op.operands[0]), op.attrs["axes"]
    on_vectors = tile.dtype.is_float and tile.dtype.bits in (16, 32) and 1 < tile.shape[axis] < _NO_INDEX
    made = (
        argreduce_vector(low, op, in_float32(low, tile), axis) if on_vectors else argreduce_scalar(low, op, tile, axis)
    )
    low.env[op.result] = made.reshaped(op.result.shape, low.grain.layout(op.result.shape))


def argreduce_vector(low: Lowering, op: Op, tile: Tile, axis: int) -> Tile:
    """The least index among those whose element equals the extreme; 0 where there is none."""
    kind, count = op.name.removeprefix("arg"), tile.layout.count
    numbers, _ = numbers_of(low, tile, kind)
    best = axis_by_axis(low, kind, numbers, (axis,))
    equal, where = low.new(tile.shape, int1, "equal"), low.new(tile.shape, float32, "where")
    places = index_along(low, tile.shape, axis)
    low.instr("Compare", equal.view, tile.view, low.made(Broadcast(tile.shape, best)).view, Word("EQ"), count)
    low.instr("Select", where.view, equal.view, places.view, _NO_INDEX, _SELECT_SCALAR, count)
    first = axis_by_axis(low, "min", where, (axis,))
    some, known = low.new(first.shape, int1), low.new(first.shape, float32)
    low.instr("CompareScalar", some.view, first.view, _NO_INDEX, Word("LT"), first.layout.count)
    low.instr("Select", known.view, some.view, first.view, 0.0, _SELECT_SCALAR, first.layout.count)
    made = low.new(first.shape, int32)
    low.instr("Cast", made.view, known.view, Word("CAST_RINT"), first.layout.count)
    return made


def index_along(low: Lowering, shape: tuple[int, ...], axis: int) -> Tile:
    """Each element's index along an axis, as float32."""
    along = tuple(n if d == axis else 1 for d, n in enumerate(shape))
    layout = low.grain.layout(along)
    line = Tile(along, float32, numbers(low, 0, layout.count, float32), layout)
    return line if line.shape == shape else low.made(Broadcast(shape, line))


def argreduce_scalar(low: Lowering, op: Op, tile: Tile, axis: int) -> Tile:
    """One after the other, by the scalar unit."""
    kept = tuple(1 if d == axis else n for d, n in enumerate(tile.shape))
    made = low.new(kept, int32)
    ensure(low, made)
    dtype = tile.dtype
    better, e = "gt" if op.name == "argmax" else "lt", ScalarEmitter(low, dtype == float64)
    with low.each(kept) as index:
        at = low.variable("at", int32, 0)
        best = low.variable("best", dtype, 0)
        found = low.variable("found", int1, False)
        with low.loop("i", tile.shape[axis], dtype=int32) as i:
            value = low.let("v", dtype, low.element(tile, tuple(i if d == axis else j for d, j in enumerate(index))))
            wins = e.cmp(better, Number(value, dtype), Number(best, dtype)).value
            known = Expr("||", (found, e.isnan(Number(value, dtype)).value)) if dtype.is_float else found
            with low.when(Expr("||", (wins, Expr("not", (known,))))):
                low.assign(at, i)
                low.assign(best, value)
                low.assign(found, True)
        low.put(made, index, at)
    return made
