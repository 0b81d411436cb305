"""Strength reduction of interleaving: pairs are split and joined by strides along rows, without a dimension of pairs.

Rows of a tile begin at whole blocks of UB. A tile whose last dimension has two elements takes a block for each pair,
and goes through the scalar unit pair by pair. A slice with a step is one instruction instead, and neighbours are put
side by side by a gather of each row.

Legal as both forms name the same elements. It applies to dimensions of pairs, and of as many elements as are less than
a block.

    %p = reshape %x {shape = (r, n, 2)}
    %a = slice %p {starts = (0, 0, 1), shape = (r, n, 1)}    ->    %a = slice %x {starts = (0, 1), steps = (1, 2)}

    %p = where (arange(0, 2) == 0), %a, %b                         %i = arange(0, 2 n)
    %y = reshape %p {shape = (r, 2 n)}                       ->    %y = where (%i & 1 == 0), %a[%i >> 1], %b[%i >> 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter
from pypto.ir.types import int32
from pypto.ops.build import OpBuilder
from pypto.passes.dce import dce
from pypto.passes.pattern import constant_of

_BLOCK: Final = 32  # bytes of UB that a row begins at a multiple of
_GATHERED: Final = (2, 4)  # bytes of elements that the vector unit gathers
_MOVES: Final = ("reshape", "broadcast_to")


def reduce_interleaving(function: Function) -> Function:
    """The function with strided slices and gathers for pairs, where it has any."""
    if not any(is_split(op) or is_join(op) for op in function.walk()):
        return function
    return dce(Rewriter(OpBuilder(Region()), _rule).function(function))


def _rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
    if is_split(op):
        return [_strided(rewriter, op)]
    if is_join(op):
        return [_gathered(rewriter, op)]
    return None


# --- splitting --------------------------------------------------------------------------------------------------------


def is_split(op: Op) -> bool:
    """Whether an op takes one element of each group of neighbours, which a reshape has made a dimension."""
    if op.name != "slice" or op.operands[0].op is None or op.operands[0].op.name != "reshape":
        return False
    groups, result = op.operands[0], op.result
    if groups.tile.is_ptr or groups.dtype.is_bool or len(groups.shape) < 2:
        return False
    size, source = groups.shape[-1], groups.op.operands[0]  # type: ignore[union-attr]  # asked for above
    takes_one = result.shape[:-1] == groups.shape[:-1] and result.shape[-1] == 1 and set(op.attrs["steps"]) == {1}
    is_short = size > 1 and size * groups.dtype.itemsize < _BLOCK
    return takes_one and is_short and _wide(source.shape) == _wide(_merged(groups.shape)) and groups.shape[-2] > 1


def _strided(rewriter: Rewriter[OpBuilder], op: Op) -> Value:
    reshape = op.operands[0].op
    assert reshape is not None
    (source,), size = reshape.operands, op.operands[0].shape[-1]
    last = max(d for d, n in enumerate(source.shape) if n != 1)

    def along(n: int, others: Sequence[int]) -> tuple[int, ...]:
        return tuple(n if d == last else m for d, m in enumerate(others))

    once = (1,) * len(source.shape)
    shape = along(source.shape[last] // size, source.shape)
    starts, steps = along(op.attrs["starts"][-1], (0,) * len(shape)), along(size, once)
    taken = rewriter.builder.emit("slice", rewriter.value(source), starts=starts, shape=shape, steps=steps)
    return rewriter.builder.emit("reshape", taken, shape=op.result.shape)


# --- joining ----------------------------------------------------------------------------------------------------------


def is_join(op: Op) -> bool:
    """Whether an op makes rows of pairs whose elements come from two tiles in turn."""
    pairs = op.operands[0].op if op.name == "reshape" else None
    if pairs is None or pairs.name != "where" or pairs.result.dtype.itemsize not in _GATHERED:
        return False
    shape = pairs.result.shape
    if len(shape) < 2 or shape[-1] != 2 or shape[-2] == 1 or _wide(op.result.shape) != _wide(_merged(shape)):
        return False
    return _is_first_of_two(pairs.operands[0]) and all(_part(v) is not None for v in pairs.operands[1:])


def _gathered(rewriter: Rewriter[OpBuilder], op: Op) -> Value:
    pairs, b = op.operands[0].op, rewriter.builder
    assert pairs is not None
    shape = _merged(pairs.result.shape)
    numbers = b.emit("arange", start=0, end=shape[-1])
    half = b.broadcast(b.emit("shr", numbers, b.constant(1, int32, numbers.shape)), shape)
    odd = b.emit("and_", numbers, b.constant(1, int32, numbers.shape))
    is_even = b.broadcast(b.emit("eq", odd, b.constant(0, int32, numbers.shape)), shape)
    parts = []
    for v in pairs.operands[1:]:
        part = _part(v)
        assert part is not None
        flat = b.emit("reshape", rewriter.value(part), shape=part.shape[:-1])
        parts.append(b.emit("gather", flat, half, axis=len(shape) - 1))
    return b.emit("reshape", b.emit("where", is_even, *parts), shape=op.result.shape)


def _is_first_of_two(condition: Value) -> bool:
    """Whether a condition holds for the first of two elements along the last dimension, whatever the others are."""
    while condition.op is not None and condition.op.name in _MOVES:
        if set(condition.op.operands[0].shape[:-1]) - {1}:
            return False
        condition = condition.op.operands[0]
    op = condition.op
    if op is None or op.name != "eq" or condition.shape[-1:] != (2,):
        return False
    numbers, zero = op.operands
    is_range = numbers.op is not None and numbers.op.name == "arange" and numbers.op.attrs["start"] == 0
    return is_range and constant_of(zero) == 0


def _part(v: Value) -> Value | None:
    """The tile with a last dimension of 1 that a value repeats along a dimension of 2."""
    op = v.op
    if op is None or op.name != "broadcast_to" or op.operands[0].shape != (*v.shape[:-1], 1):
        return None
    return op.operands[0]


def _merged(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape with its last two dimensions as one."""
    return (*shape[:-2], shape[-2] * shape[-1])


def _wide(shape: tuple[int, ...]) -> list[int]:
    """The dimensions that have more than one element."""
    return [n for n in shape if n != 1]
