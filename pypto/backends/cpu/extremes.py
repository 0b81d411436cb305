"""Greatest and least floats as if no NaN were among them: one instruction for each, not four.

Where a result, of a row too, is no better than that of nothing, all may be NaN. Then a version that looks decides.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.loopir import Nest, Stmt
from pypto.backends.cpu.memory import Chunk
from pypto.backends.cpu.parts import lane_parts
from pypto.backends.cpu.reductions import Joining, joining
from pypto.ir.core import Op

if TYPE_CHECKING:
    from pypto.backends.cpu.nest import NestEmitter


def has_extreme(op: Op) -> bool:
    """Whether an op looks for the greatest or least of floats, among which NaN does not count."""
    return op.name in ("max", "min") and op.operands[0].dtype.is_float


def can_trust(nest: Nest) -> bool:
    """Whether a nest does nothing but reduce to scalars, so that it can run twice, and looks for an extreme."""
    scalars = all(s.kind == "reduce" and s.buffer is None for s in nest.stmts)
    return scalars and any(has_extreme(s.does) for s in nest.stmts)


def trusting(op: Op) -> Joining:
    """How partial results become one; of anything but numbers, an extreme is what it is of nothing."""
    how = joining(op)
    if not has_extreme(op):
        return how
    predicate, worst = ("gt", -math.inf) if op.name == "max" else ("lt", math.inf)
    return Joining(how.dtypes, (worst,), lambda e, a, b: (e.select(e.cmp(predicate, b[0], a[0]), b[0], a[0]),))


def trusted(emitter: NestEmitter, nest: Nest, inside: Lanes) -> list[Lanes]:
    """The results of a nest whose elements exist where a condition holds."""
    e, w, ops = emitter.e, emitter.w, [s.does for s in nest.stmts]
    nothing = [e.const(how.start[0], how.dtypes[0]) for how in map(trusting, ops)]
    emitter.joining = trusting
    if emitter.split:
        first = emitter.version(nest, True)
        emitter.most |= dict.fromkeys((body[0] for body in nest.bodies), 1)  # what is left is rare
    else:
        first = w.branch(inside.text, [lambda: emitter.version(nest, False), lambda: nothing])
    emitter.joining, emitter.split = joining, False
    again = [e.cmp("eq", a, b) for op, a, b in zip(ops, first, nothing, strict=True) if has_extreme(op)]
    return w.branch(functools.reduce(e.or_, again).text, [lambda: emitter.version(nest, True), lambda: first])


def can_trust_rows(emitter: NestEmitter, body: list[Stmt], begun: list[Stmt], at: Chunk) -> bool:
    """Whether the loop does nothing but look for extremes along lanes, each of which goes to a place of its own."""
    plain = not at.masked and at.across < 0 and emitter.block is None and emitter.joining is joining
    rows = all(s.buffer is not None and s.lanes in s.reduced and len(s.loops) > 1 for s in begun)
    wide = not any(s.does.operands[0].dtype.is_narrow for s in begun)
    return plain and rows and begun == body and wide and all(has_extreme(s.does) for s in begun)


def trusted_rows(emitter: NestEmitter, body: list[Stmt], begun: list[Stmt], at: Chunk) -> list[Lanes]:
    """The extremes of a row; those of rows without any number are looked for again."""
    e = emitter.e
    emitter.joining = trusting
    first = emitter.joined(body, begun, at)
    emitter.joining, parts = joining, emitter.parts
    again = [e.cmp("eq", x, e.const(trusting(s.does).start[0], x.dtype)) for s, x in zip(begun, first, strict=True)]
    emitter.parts = lane_parts(body, emitter.side, 1)  # what is rare is to take little room
    sides = [lambda: emitter.joined(body, begun, at), lambda: first]
    found = emitter.w.branch(functools.reduce(e.or_, again).text, sides)
    emitter.parts = parts
    return found
