"""Narrowing of comparisons: counting numbers plus an index of 64 bits are compared in 32 bits.

The vector unit compares no numbers of 64 bits. A mask such as ``j + arange(0, 256) < n`` is one of the counting numbers
with what is left, ``n - j``, which is a single number.

Legal as indices of 64 bits do not wrap around, and what is left is limited to numbers of 32 bits that no counting
number reaches.

    %o = add %j, (cast %r)                         %e = cast (minimum (maximum (sub %n, %j), -2147483648), 2147483647)
    %m = lt %o, %n                         ->      %m = lt %r, %e
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter
from pypto.ir.types import TileType, int32, int64
from pypto.ops.build import OpBuilder
from pypto.ops.table import TABLE
from pypto.passes.analysis.affine import lesser
from pypto.passes.canonicalize import canonicalize
from pypto.passes.dce import dce

_MOVES: Final = ("reshape", "broadcast_to")
_LEAST, _MOST = int32.integer_range


@dataclass(frozen=True, slots=True)
class Counted:
    """A tile of 64-bit numbers: counting numbers under some moves, plus `added` and `number`, less what is in `taken`.

    `moves` lead from the result to the counting numbers; without `numbers`, all elements are alike.
    """

    numbers: Value | None = None
    moves: tuple[Op, ...] = ()
    added: tuple[Value, ...] = ()
    taken: tuple[Value, ...] = ()
    number: int = 0


def narrow_comparisons(function: Function) -> Function:
    """The function with comparisons of 32 bits in the place of those of 64, where they are of counting numbers."""
    found = {op: sides for op in function.walk() if (sides := sides_of(op)) is not None}
    if not found:
        return function

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        return [narrowed(rewriter, op, found[op])] if op in found else None

    return dce(canonicalize(Rewriter(OpBuilder(Region()), rule).function(function)))


def sides_of(op: Op) -> tuple[Counted, Counted] | None:
    """Both sides of a comparison of 64 bits that can be one of 32, else None."""
    if len(op.results) != 1 or len(op.operands) != 2 or not TABLE[op.name].elementwise:
        return None
    if not op.result.shape or not op.result.dtype.is_bool or op.operands[0].dtype != int64:
        return None
    a, b = map(counted, op.operands)
    return (a, b) if a is not None and b is not None and (a.numbers is None) != (b.numbers is None) else None


def counted(v: Value) -> Counted | None:
    """What a value is the sum of; None where it is something else."""
    op = v.op
    if not v.shape:
        return Counted(added=(v,))
    if op is None or len(op.results) != 1:
        return None
    if op.name == "constant":
        return Counted(number=int(op.attrs["value"]))
    if op.name in _MOVES:
        inner = counted(op.operands[0])
        return inner and (inner if inner.numbers is None else replace(inner, moves=(op, *inner.moves)))
    if op.name == "cast" and op.operands[0].dtype == int32 and is_counting(op.operands[0]):
        return Counted(op.operands[0])
    if op.name not in ("add", "sub"):
        return None
    a, b = map(counted, op.operands)
    return None if a is None or b is None else combined(a, b, op.name == "sub")


def is_counting(v: Value) -> bool:
    """Whether a tile has counting numbers, in any order."""
    while v.op is not None and v.op.name in _MOVES:
        v = v.op.operands[0]
    return v.op is not None and v.op.name == "arange"


def combined(a: Counted, b: Counted, is_difference: bool) -> Counted | None:
    """The sum or difference of two tiles of which at most one has counting numbers; these are not taken away."""
    if b.numbers is not None and (a.numbers is not None or is_difference):
        return None
    added, taken = (b.taken, b.added) if is_difference else (b.added, b.taken)
    of = a if a.numbers is not None else b
    number = a.number - b.number if is_difference else a.number + b.number
    return Counted(of.numbers, of.moves, (*a.added, *added), (*a.taken, *taken), number)


def narrowed(rewriter: Rewriter[OpBuilder], op: Op, sides: tuple[Counted, Counted]) -> Value:
    """The comparison in 32 bits."""
    b, shape = rewriter.builder, op.result.shape
    is_left = sides[0].numbers is not None
    numbers, limit = sides if is_left else sides[::-1]
    assert numbers.numbers is not None
    left = b.constant(limit.number - numbers.number, int64)
    for v in (*limit.added, *numbers.taken):
        left = b.emit("add", left, rewriter.value(v))
    for v in (*limit.taken, *numbers.added):
        left = b.emit("sub", left, rewriter.value(v))
    left = b.emit("maximum", left, b.constant(_LEAST, int64), propagate_nan=False)
    left = lesser(b, left, b.constant(_MOST, int64))
    limits = b.broadcast(b.cast(left, int32), shape)
    v = rewriter.value(numbers.numbers)
    for move in reversed(numbers.moves):
        assert isinstance(move.result.type, TileType)
        v = b.emit(move.name, v, shape=move.result.shape)
    return b.emit(op.name, *((v, limits) if is_left else (limits, v)))
