"""Arg-reductions: the index of the greatest or least element along an axis, the lowest index of equals.

On the vector unit: reduce to the extreme, compare every element with it, select the indices of equal ones, and reduce
those to the least. Indices are float32, so it is exact for axes of up to 2**24 elements of floats; all else goes
through the scalar unit. NaN is never the best unless there is nothing else: then the index is 0.
"""

from __future__ import annotations

from typing import Final

from pypto.backends.ascend.blockir.ir import Expr, Word
from pypto.backends.ascend.rules.scalars import Number, ScalarEmitter
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.handlers.reduce import in_float32, reduce_axes, replace_nan
from pypto.backends.ascend.vector.handlers.shape import index_vector, initialise_padding
from pypto.backends.ascend.vector.values import Broadcast, Tile
from pypto.ir.core import Op
from pypto.ir.types import float32, float64, int1, int32
from pypto.ops.row import Search
from pypto.ops.table import TABLE

_NO_INDEX: Final = float(1 << 24)  # float32 is exact for all integers below it
_SELECT_SCALAR: Final = Word("VSEL_TENSOR_SCALAR_MODE")


def arg_reduction(low: Lowering, op: Op) -> None:
    """Lower `argmax` or `argmin`."""
    tile, (axis,) = low.tile(op.operands[0]), op.attrs["axes"]
    on_vectors = tile.dtype.is_float and tile.dtype.bits in (16, 32) and 1 < tile.shape[axis] < _NO_INDEX
    result = (
        argreduce_vector(low, op, in_float32(low, tile), axis) if on_vectors else argreduce_scalar(low, op, tile, axis)
    )
    low.env[op.result] = result.reshaped(op.result.shape, low.grain.layout(op.result.shape))


def comparison_of(op: Op) -> str:
    """The comparison of a better element with another one."""
    rule = TABLE[op.name].lane_rule
    assert isinstance(rule, Search)
    return rule.better


def argreduce_vector(low: Lowering, op: Op, tile: Tile, axis: int) -> Tile:
    """Return the least index whose element equals the extreme, 0 where there is none."""
    kind = "max" if comparison_of(op) == "gt" else "min"
    count = tile.layout.count
    no_nan, _ = replace_nan(low, tile, kind)
    extreme = reduce_axes(low, kind, no_nan, (axis,))
    equal = low.new_tile(tile.shape, int1, "equal")
    candidates = low.new_tile(tile.shape, float32, "where")
    indices = index_along(low, tile.shape, axis)
    low.instr("Compare", equal.view, tile.view, low.materialize(Broadcast(tile.shape, extreme)).view, Word("EQ"), count)
    low.instr("Select", candidates.view, equal.view, indices.view, _NO_INDEX, _SELECT_SCALAR, count)
    least = reduce_axes(low, "min", candidates, (axis,))
    is_found = low.new_tile(least.shape, int1)
    index_or_zero = low.new_tile(least.shape, float32)
    low.instr("CompareScalar", is_found.view, least.view, _NO_INDEX, Word("LT"), least.layout.count)
    low.instr("Select", index_or_zero.view, is_found.view, least.view, 0.0, _SELECT_SCALAR, least.layout.count)
    result = low.new_tile(least.shape, int32)
    low.instr("Cast", result.view, index_or_zero.view, Word("CAST_RINT"), least.layout.count)
    return result


def index_along(low: Lowering, shape: tuple[int, ...], axis: int) -> Tile:
    """Return the index of each element along an axis, as float32."""
    vector_shape = tuple(n if d == axis else 1 for d, n in enumerate(shape))
    layout = low.grain.layout(vector_shape)
    vector = Tile(vector_shape, float32, index_vector(low, 0, layout.count, float32), layout)
    return vector if vector.shape == shape else low.materialize(Broadcast(shape, vector))


def argreduce_scalar(low: Lowering, op: Op, tile: Tile, axis: int) -> Tile:
    """Search each row element by element, on the scalar unit."""
    result_shape = tuple(1 if d == axis else n for d, n in enumerate(tile.shape))
    result = low.new_tile(result_shape, int32)
    initialise_padding(low, result)
    dtype = tile.dtype
    better = comparison_of(op)
    e = ScalarEmitter(low, dtype == float64)
    with low.loop_nest(result_shape) as index:
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
        low.set_element(result, index, at)
    return result
