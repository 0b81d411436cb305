"""Greatest and least floats as if no NaN were among them: one instruction for each, not four.

Where a result, of a row too, is no better than that of nothing, all may be NaN. Then a version that looks decides.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from pypto.backends.cpu.codegen.memory import Chunk
from pypto.backends.cpu.codegen.reductions import Combiner, combiner_of
from pypto.backends.cpu.codegen.strip_mining import strip_mine_lanes
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.loopir.ir import Nest, Stmt
from pypto.backends.cpu.techniques import is_enabled
from pypto.ir.core import Op

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.nest import NestEmitter


def is_float_extreme(op: Op) -> bool:
    """Whether an op looks for the greatest or least of floats, among which NaN does not count."""
    return op.name in ("max", "min") and op.operands[0].dtype.is_float


def can_speculate(emitter: NestEmitter, nest: Nest) -> bool:
    """Whether a nest does nothing but reduce to scalars, so that it can run twice, and looks for an extreme."""
    if not is_enabled(emitter.function, "nan_speculation"):
        return False
    scalars = all(s.kind == "reduce" and s.buffer is None for s in nest.stmts)
    return scalars and any(is_float_extreme(s.the_op) for s in nest.stmts)


def nan_free_combiner(op: Op) -> Combiner:
    """How partial results become one; of anything but numbers, an extreme is what it is of nothing."""
    how = combiner_of(op)
    if not is_float_extreme(op):
        return how
    predicate, worst = ("gt", -math.inf) if op.name == "max" else ("lt", math.inf)
    return Combiner(how.dtypes, (worst,), lambda e, a, b: (e.select(e.cmp(predicate, b[0], a[0]), b[0], a[0]),))


def speculate(emitter: NestEmitter, nest: Nest, inside: VectorValue) -> list[VectorValue]:
    """The results of a nest whose elements exist where a condition holds."""
    e, w, ops = emitter.e, emitter.w, [s.the_op for s in nest.stmts]
    nothing = [e.const(how.identity[0], how.dtypes[0]) for how in map(nan_free_combiner, ops)]
    emitter.reduction_of = nan_free_combiner
    if emitter.peel:
        first = emitter.emit_version(nest, True)
        emitter.unroll_override |= dict.fromkeys((body[0] for body in nest.bodies), 1)  # what is left is rare
    else:
        first = w.branch(inside.text, [lambda: emitter.emit_version(nest, False), lambda: nothing])
    emitter.reduction_of, emitter.peel = combiner_of, False
    again = [e.cmp("eq", a, b) for op, a, b in zip(ops, first, nothing, strict=True) if is_float_extreme(op)]
    return w.branch(functools.reduce(e.or_, again).text, [lambda: emitter.emit_version(nest, True), lambda: first])


def can_speculate_rows(emitter: NestEmitter, body: list[Stmt], begun: list[Stmt], at: Chunk) -> bool:
    """Whether the loop does nothing but look for extremes along lanes, each of which goes to a place of its own."""
    plain = (
        is_enabled(emitter.function, "nan_speculation")
        and not at.masked
        and at.transpose_axis < 0
        and emitter.epilogue_region is None
        and emitter.reduction_of is combiner_of
    )
    rows = all(s.buffer is not None and s.lanes in s.reduced and len(s.loops) > 1 for s in begun)
    wide = not any(s.the_op.operands[0].dtype.is_narrow for s in begun)
    return plain and rows and begun == body and wide and all(is_float_extreme(s.the_op) for s in begun)


def speculate_rows(emitter: NestEmitter, body: list[Stmt], begun: list[Stmt], at: Chunk) -> list[VectorValue]:
    """The extremes of a row; those of rows without any number are looked for again."""
    e = emitter.e
    emitter.reduction_of = nan_free_combiner
    first = emitter.emit_reductions(body, begun, at)
    emitter.reduction_of, parts = combiner_of, emitter.strips
    again = [
        e.cmp("eq", x, e.const(nan_free_combiner(s.the_op).identity[0], x.dtype))
        for s, x in zip(begun, first, strict=True)
    ]
    emitter.strips = strip_mine_lanes(body, emitter.vector_width, 1)  # what is rare is to take little room
    sides = [lambda: emitter.emit_reductions(body, begun, at), lambda: first]
    found = emitter.w.branch(functools.reduce(e.or_, again).text, sides)
    emitter.strips = parts
    return found
