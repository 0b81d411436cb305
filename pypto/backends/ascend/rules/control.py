"""Loops and branches in the code of one op, whose state lies in buffers.

The vector unit has no branches. The scalar unit runs the loop or asks the condition, and each iteration overwrites the
buffers of the state. A branch pays where its code is long and rarely needed, as for sines of large arguments.

    found = maximum of the condition     # WholeReduceMax, then a read by the scalar unit
    if found > 0: instructions of the rare case
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pypto.backends.ascend.blockir.ir import Expr, If, Instr, Item, Let, Loop, Read, Scalar, View, Word
from pypto.backends.ascend.rules.operand import Lanes, as_dtype, part_of
from pypto.ir.types import float32, int32

if TYPE_CHECKING:
    from pypto.backends.ascend.rules.emitter import VectorEmitter

_LANES, _REPEATS = 64, 248  # of a repeat of float32, and of an instruction whose result ends with a whole block
_BLOCK = 8  # float32 of a block


def loop_over_lanes(
    e: VectorEmitter, times: int, state: Sequence[Lanes], step: Callable[..., Sequence[Lanes]]
) -> list[Lanes]:
    """Emit a loop of `times` steps, each of which replaces the state; return the last state."""
    kept = [Lanes(x.dtype, copied(e, e.view(x))) for x in state]
    body = predicated(e, kept, lambda: step(*kept))
    e.sink.emit(Loop(e.sink.name("i"), 0, times, 1, body, e.sink.line, int32))
    return kept


def branch_if_any(
    e: VectorEmitter, condition: Lanes, usual: Sequence[Lanes], rare: Callable[[], Sequence[Lanes]]
) -> list[Lanes]:
    """Emit a branch that is taken if the condition holds in any lane; return the chosen lanes.

    `rare` makes lanes for all of the chunk, so it has to choose the usual ones where the condition is false.
    """
    kept = [Lanes(x.dtype, copied(e, e.view(x))) for x in usual]
    found = any_lane(e, condition)
    e.sink.emit(If(Expr(">", (found, 0.0)), predicated(e, kept, rare), (), e.sink.line))
    return kept


def predicated(e: VectorEmitter, kept: Sequence[Lanes], make: Callable[[], Sequence[Lanes]]) -> tuple[Item, ...]:
    """Return the body of a loop or branch: it computes new lanes and copies them over the kept ones."""
    known = dict(e.halves)
    with e.sink.nested() as body:
        for old, new in zip(kept, make(), strict=True):
            copy(e, e.view(old), e.view(new))
    e.halves = known
    return tuple(body)


def copied(e: VectorEmitter, source: View) -> View:
    """Return a copy in a buffer of its own."""
    target = e.sink.temporary(source.elem)
    copy(e, target, source)
    return target


def copy(e: VectorEmitter, target: View, source: View) -> None:
    """Copy 32-bit elements by adding the integer 0, which keeps all bits. Adding 0.0 would change -0.0."""
    e.sink.emit(Instr("Adds", (as_dtype(target, int32), as_dtype(source, int32), 0, e.sink.count), e.sink.line))


def any_lane(e: VectorEmitter, condition: Lanes) -> Scalar:
    """Return a number that is above 0 if the condition holds in any lane, by maxima over words of its bits."""
    line = e.sink.line
    source, count = words_of(e, e.view(condition))
    while count > 1:
        repeats = count // _LANES
        count = 1 if repeats == 1 else -(-repeats // _LANES) * _LANES
        target = e.sink.temporary(float32, max(count, _BLOCK))
        e.sink.emit(Instr("Duplicate", (target, 0.0, max(count, _BLOCK)), line))
        for first in range(0, repeats, _REPEATS):
            part = part_of(target, first), part_of(source, first * _LANES)
            sizes = _LANES, min(_REPEATS, repeats - first), 1, 1, 8
            e.sink.emit(Instr("WholeReduceMax", (*part, *sizes, Word("ORDER_ONLY_VALUE")), line))
        source = target
    name = e.sink.name("found")
    e.sink.emit(Let(name, float32, Read(source), line))
    return name


def words_of(e: VectorEmitter, bits: View) -> tuple[View, int]:
    """Return whole repeats of float32, and their size: above 0 where a word of 32 bits has one that is set."""
    line, words = e.sink.line, e.sink.count // 32
    count = -(-words // _LANES) * _LANES
    target = e.sink.temporary(float32, count)
    if count > words:
        e.sink.emit(Instr("Duplicate", (target, 0.0, count), line))
    e.sink.emit(Instr("Cast", (target, as_dtype(bits, int32), Word("CAST_RINT"), words), line))
    e.sink.emit(Instr("Abs", (target, target, count), line))
    return target, count
