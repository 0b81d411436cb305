"""NaN speculation: float maximum and minimum are computed as if no operand were NaN, and again if one may have been.

A compare and a select are one instruction, `vmaxps`; the handling of NaN makes four of it. It pays in every reduction
whose rows, or columns, mostly hold numbers. Legal for nests and loops that do nothing but reduce, since they may run
twice. A result equal to the identity (-inf of a maximum) is the sign that there was no number: then the exact version
decides.

%m = reduce max of %x becomes %f = nan-free reduce max of %x %m = (%f == -inf) ? reduce max of %x : %f
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from pypto.backends.cpu.codegen.memory import Chunk
from pypto.backends.cpu.codegen.reductions import Combiner, combiner_of
from pypto.backends.cpu.codegen.strip_mining import strip_mine_lanes
from pypto.backends.cpu.loopir.ir import Nest, Stmt
from pypto.backends.cpu.techniques import is_enabled
from pypto.backends.llvm.value import VectorValue
from pypto.ir.core import Op

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.nest import NestEmitter


def is_float_extreme(op: Op) -> bool:
    """Whether an op is the maximum or minimum of floats; it ignores NaN operands."""
    return op.name in ("max", "min") and op.operands[0].dtype.is_float


def can_speculate(emitter: NestEmitter, nest: Nest) -> bool:
    """Whether a nest consists of reductions to scalars, of which some are float extremes."""
    if not is_enabled(emitter.function, "nan_speculation"):
        return False
    scalars = all(s.kind == "reduce" and s.buffer is None for s in nest.stmts)
    return scalars and any(is_float_extreme(s.the_op) for s in nest.stmts)


def nan_free_combiner(op: Op) -> Combiner:
    """The combiner that speculates: of NaN operands alone, an extreme is the identity."""
    exact = combiner_of(op)
    if not is_float_extreme(op):
        return exact
    predicate, identity = ("gt", -math.inf) if op.name == "max" else ("lt", math.inf)
    return Combiner(exact.dtypes, (identity,), lambda e, a, b: (e.select(e.cmp(predicate, b[0], a[0]), b[0], a[0]),))


def speculate(emitter: NestEmitter, nest: Nest, in_bounds: VectorValue) -> list[VectorValue]:
    """Emit the speculative version of a nest, and the exact one behind a test of its results."""
    e = emitter.e
    w = emitter.w
    ops = [s.the_op for s in nest.stmts]
    identities = [e.const(combiner.identity[0], combiner.dtypes[0]) for combiner in map(nan_free_combiner, ops)]
    emitter.reduction_of = nan_free_combiner
    if emitter.peel:
        speculated = emitter.emit_version(nest, True)
        # The exact version seldom runs: it is not unrolled.
        emitter.unroll_override |= dict.fromkeys((body[0] for body in nest.bodies), 1)
    else:
        speculated = w.branch(in_bounds.text, [lambda: emitter.emit_version(nest, False), lambda: identities])
    emitter.reduction_of = combiner_of
    emitter.peel = False
    pairs = zip(ops, speculated, identities, strict=True)
    failed = functools.reduce(e.or_, [e.cmp("eq", x, identity) for op, x, identity in pairs if is_float_extreme(op)])
    return w.branch(failed.text, [lambda: emitter.emit_version(nest, True), lambda: speculated])


def can_speculate_rows(emitter: NestEmitter, body: list[Stmt], begun: list[Stmt], at: Chunk) -> bool:
    """Whether a loop does nothing but reduce rows, or a strip of columns, to float extremes in a buffer."""
    is_allowed = (
        is_enabled(emitter.function, "nan_speculation")
        and not at.masked
        and at.transpose_axis < 0
        and emitter.epilogue_region is None
        and emitter.reduction_of is combiner_of
    )
    if not is_allowed or begun != body or any(s.the_op.operands[0].dtype.is_narrow for s in begun):
        return False
    return all(s.buffer is not None and len(s.loops) > 1 and is_float_extreme(s.the_op) for s in begun)


def speculate_rows(emitter: NestEmitter, body: list[Stmt], begun: list[Stmt], at: Chunk) -> list[VectorValue]:
    """Emit the speculative reduction of a row, or of a strip of columns, and the exact one behind a test."""
    e = emitter.e
    emitter.reduction_of = nan_free_combiner
    speculated = emitter.emit_reductions(body, begun, at)
    emitter.reduction_of = combiner_of
    strips = emitter.strips
    identities = [nan_free_combiner(s.the_op).identity[0] for s in begun]
    pairs = zip(speculated, identities, strict=True)
    failed = e.any(functools.reduce(e.or_, [e.cmp("eq", x, e.const(identity, x.dtype)) for x, identity in pairs]))
    emitter.strips = strip_mine_lanes(body, emitter.vector_width, 1)  # the exact version seldom runs: little code
    results = emitter.w.branch(failed.text, [lambda: emitter.emit_reductions(body, begun, at), lambda: speculated])
    emitter.strips = strips
    return results
