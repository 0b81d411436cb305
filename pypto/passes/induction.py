"""Induction variable simplification: a loop that moves a tile by a uniform amount carries the scalar distance alone.

Triton-style loops advance a whole tile of pointers, ``pointers += K``. The tile is its initial value plus one number
for all elements. It is computed from that number, so that access analysis sees the affine form of its initial value.

Legality: every step from the argument to the yielded tile adds or subtracts a uniform amount.

    for %i iter(%p = %p0) {                             for %i iter(%d = 0) {
      load %p; yield addptr %p, splat(%k) }      ->       load (addptr %p0, splat(%d)); yield add %d, %k }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import DType, PtrType, int64
from pypto.ops.build import OpBuilder
from pypto.passes.analysis.carried import carried, initial, rebuild, yields
from pypto.passes.canonicalize import Simplifier
from pypto.passes.pattern import constant_of

_STEPS: Final = ("addptr", "add", "sub")


def induction(function: Function) -> Function:
    """Carry the distance of tiles that loops move as a whole."""
    return rewrite(function, _rule, Simplifier)


@dataclass(frozen=True, slots=True)
class Motion:
    """The step of a carried tile: the ops that add uniform amounts."""

    steps: tuple[Op, ...]  # in order of execution
    elem: DType  # of the distance


def _rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
    """Simplify the induction variables of one loop."""
    if op.name not in ("for", "while"):
        return None
    last = op.regions[-1]
    motions = [motion(a, y) for a, y in zip(carried(op, last), yields(op)[0], strict=True)]
    return move(rewriter, op, motions) if any(motions) else None


def motion(arg: Value, after: Value) -> Motion | None:
    """The motion of a carried tile; None where its elements move by different amounts."""
    elem = arg.tile.elem
    if not arg.tile.shape or not (isinstance(elem, PtrType) or elem.kind == "int"):
        return None
    steps: list[Op] = []
    v = after
    while v is not arg:
        if v.op is None or v.op.name not in _STEPS or not is_uniform(v.op.operands[1]):
            return None
        steps.append(v.op)
        v = v.op.operands[0]
    return Motion(tuple(reversed(steps)), int64 if isinstance(elem, PtrType) else elem) if steps else None


def is_uniform(v: Value) -> bool:
    """Whether all elements of a tile are equal."""
    spread = v.op is not None and v.op.name == "broadcast_to" and not v.op.operands[0].shape
    return spread or constant_of(v) is not None


def move(rewriter: Rewriter[OpBuilder], op: Op, motions: Sequence[Motion | None]) -> list[Value]:
    """Copy a loop that carries scalar distances in place of tiles with a motion."""
    b = rewriter.builder
    start = [rewriter.value(v) for v in initial(op)]

    def tiles(distances: Sequence[Value], _: object = None) -> list[Value]:
        return [moved(b, v, d) if m else d for m, v, d in zip(motions, start, distances, strict=True)]

    def after(before: list[Value], values: list[Value]) -> list[Value]:
        return [distance(rewriter, m, d) if m else v for m, d, v in zip(motions, before, values, strict=True)]

    distances = [b.constant(0, m.elem) if m else v for m, v in zip(motions, start, strict=True)]
    return tiles(rebuild(rewriter, op, [d.type for d in distances], distances, tiles, after))


def moved(b: OpBuilder, tile: Value, distance: Value) -> Value:
    """The tile at a distance from its initial value."""
    return b.emit("addptr" if tile.tile.is_ptr else "add", tile, b.broadcast(distance, tile.shape))


def distance(rewriter: Rewriter[OpBuilder], motion: Motion, before: Value) -> Value:
    """The distance at the end of an iteration."""
    b = rewriter.builder
    total = before
    for op in motion.steps:
        step = rewriter.value(op.operands[1])
        number = constant_of(step)
        if number is not None:
            amount = b.constant(int(number), motion.elem)
        else:
            assert step.op is not None
            amount = b.cast(step.op.operands[0], motion.elem)
        total = b.emit("sub" if op.name == "sub" else "add", total, amount)
    return total
