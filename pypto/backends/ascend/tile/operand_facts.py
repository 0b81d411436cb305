"""Facts about the operands of products: which way round they lie in memory, and how much of them exists.

They are facts about Tile IR alone; the lowering of products and the blocking along K both ask for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.cube_regions import Source
from pypto.backends.ascend.tile.fractals import Side
from pypto.ir.core import Op, Value
from pypto.ops.memory import Access
from pypto.passes.analysis.scalar_evolution import ONE, AffineExpr, add_affine, affine_of
from pypto.passes.pattern import constant_of


@dataclass(frozen=True, slots=True)
class Span:
    """A loop's index, which stays below `stop` and is a multiple of `unit`."""

    index: Value
    stop: Value
    unit: int = 1

    @staticmethod
    def of(loop: Op) -> Span:
        """Return the span of a loop."""
        start, step = constant_of(loop.operands[0]), constant_of(loop.operands[2])
        unit = 1 if start is None or step is None else math.gcd(int(start), int(step))
        return Span(loop.regions[0].args[0], loop.operands[1], unit)


def side_of(source: Source, is_left: bool, target: AscendTarget) -> Side:
    """Return which way round an operand lies: K runs along rows of memory unless its neighbours along K lie apart."""
    return Side(source.load.result.dtype, is_left, source.runs_down(1 if is_left else 0), target)


def reaches_end(access: Access, d: int, loop: Span | None) -> bool:
    """Whether some of a dimension exists in every iteration of a loop."""
    remaining = affine_of(access.extents[d]) - affine_of(access.offsets[d])
    if loop is None or (remaining - ONE).is_natural:
        return (remaining - ONE).is_natural
    return any(ends_with(remaining, stop, loop, exactly=False) for stop in upper_bounds(loop.stop))


def ends_with(remaining: AffineExpr, stop: Value, loop: Span, exactly: bool = True) -> bool:
    """Whether a dimension is used up when a loop's index gets to `stop`; if not `exactly`, then or later."""
    index = affine_of(loop.index)
    excess = remaining - (affine_of(stop) - affine_of(loop.index))
    if not excess.terms and (excess.number == 0 if exactly else excess.number >= 0):
        return True
    multiple = rounded_up_multiple(stop)
    if multiple is not None and loop.unit % multiple[1] == 0 and remaining == multiple[0] - index:
        return True  # range(0, cdiv(dividend, size) * size, size), or in steps of several times that
    rounded = rounded_up_quotient(stop)
    if rounded is None:
        return False
    dividend, size = rounded  # range(0, cdiv(dividend, size)), with `size` elements in each iteration
    return remaining == add_affine((dividend, 1), (index, -size))


def rounded_up_quotient(stop: Value) -> tuple[AffineExpr, int] | None:
    """Match a quotient that is rounded up; return its dividend and its divisor."""
    while stop.op is not None and stop.op.name == "cast":
        stop = stop.op.operands[0]
    if stop.op is None or stop.op.name != "floordiv":
        return None
    numerator = stop.op.operands[0]
    size = constant_of(stop.op.operands[1])
    addends = numerator.op.operands if numerator.op is not None and numerator.op.name == "add" else ()
    for dividend, rounding in (addends, addends[::-1]) if addends else ():
        if size is not None and constant_of(rounding) == int(size) - 1:
            return affine_of(dividend), int(size)
    return None


def rounded_up_multiple(stop: Value) -> tuple[AffineExpr, int] | None:
    """Match a number that is rounded up to a multiple of a constant; return the number and the constant."""
    while stop.op is not None and stop.op.name == "cast":
        stop = stop.op.operands[0]
    if stop.op is None or stop.op.name != "mul":
        return None
    size, rounded = constant_of(stop.op.operands[1]), rounded_up_quotient(stop.op.operands[0])
    return rounded if rounded is not None and size == rounded[1] else None


def upper_bounds(v: Value) -> Iterator[Value]:
    """Yield upper bounds of a number."""
    yield v
    if v.op is not None and v.op.name in ("cast", "minimum"):
        for operand in v.op.operands:
            yield from upper_bounds(operand)
