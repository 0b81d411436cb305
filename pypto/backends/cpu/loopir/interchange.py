"""Loop interchange: gives producer and reduction one loop order, so that they fuse and the tile needs no memory.

A sum over rows has the lanes' loop outside and runs down the rows for each chunk of columns. Its producer runs row
by row; in that order the two share no loop. With the producer's loops interchanged they fuse, and `contract_arrays`
keeps the tile in registers. It pays for tiles in scratch only: array rows are read in memory order.

Legal for statements of kind `compute`, whose elements do not depend on one another.

    nest sharing 2
      - compute exp -> b1 [for d0<32 lanes d1<64]
    nest sharing 2
      - reduce sum -> b2 [lanes d1<64 for d0<32*]
becomes
    nest sharing 2
      - compute exp -> b1 [lanes d1<64 for d0<32]
      | reduce sum -> b2 [lanes d1<64 for d0<32*]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.loopir.ir import Nest, Stmt
from pypto.backends.cpu.loopir.use_sets import use_set_of

if TYPE_CHECKING:
    from pypto.backends.cpu.loopir.fusion import LoopFuser

_MAX_SHORT_ROW: Final = 512  # elements of a row whose reduction is bound by latency


def interchange(fuser: LoopFuser, nest: Nest, stmt: Stmt) -> bool:
    """Interchange the loops of a producer nest to those of a reduction `stmt`, or those of `stmt` to the nest's.

    Gives whether loops were changed.
    """
    if not can_interchange(fuser, nest, stmt):
        return False
    body = nest.bodies[0]
    kinds = {s.kind for s in body}
    if stmt.kind == "reduce" and kinds == {"compute"}:
        loops = stmt.loops
        changed = body
    elif stmt.kind == "compute" and kinds == {"compute", "reduce"} and has_full_chunks(stmt):
        loops = body[0].loops
        changed = [*body, stmt]
    else:
        return False
    for s in changed:
        s.loops = loops
        s.forced_width = stmt.forced_width
        fuser.use_sets[s] = use_set_of(s, fuser.storage.buffer_of)
    return True


def can_interchange(fuser: LoopFuser, nest: Nest, stmt: Stmt) -> bool:
    """Whether `stmt` reads what the nest writes, over the same domain and lanes, and neither reads arrays."""
    body = nest.bodies[0]
    if len(nest.bodies) > 1 or any(fuser.use_sets[s].loads for s in (*body, stmt)):
        return False
    if any((s.domain, s.lanes, s.forced_width) != (stmt.domain, stmt.lanes, 0) for s in body):
        return False
    written = {s.buffer.memory for s in nest.stmts if s.buffer is not None}
    return not written.isdisjoint(buffer.memory for buffer, _ in fuser.use_sets[stmt].buffers)


def has_full_chunks(stmt: Stmt) -> bool:
    """Whether chunks of the forced width divide the tile.

    The statements of the nest take that width, too; a remainder chunk would write beyond the buffers of these.
    """
    return not stmt.forced_width or stmt.domain[stmt.lanes] % stmt.forced_width == 0


def is_fusion_profitable(fuser: LoopFuser, nest: Nest, stmt: Stmt) -> bool:
    """Whether sharing outer loops with a nest brings reuse: of a buffer, of a load, or of rows that are stored."""
    if delays_consumers(fuser, nest, stmt):
        return False
    if any(s.kind == "store" for s in (stmt, *nest.stmts)):
        return True
    memories = {b.memory for b, _ in fuser.buffers_used(stmt)}
    loads = {op for op, _ in fuser.use_sets[stmt].loads}
    shares_buffer = any(not memories.isdisjoint(b.memory for b, _ in fuser.buffers_used(s)) for s in nest.stmts)
    return shares_buffer or any(op in loads for s in nest.stmts for op, _ in fuser.use_sets[s].loads)


def delays_consumers(fuser: LoopFuser, nest: Nest, stmt: Stmt) -> bool:
    """Whether fusion would put the latency of a short row's reduction before its consumer, once for every row.

    The reorder buffer holds only one or two such rows, so that the consumer stalls. In loops of their own, the
    reductions of all rows overlap.
    """
    if any(s.kind != "reduce" for s in nest.stmts) or any(fuser.use_sets[s].loads for s in (*nest.stmts, stmt)):
        return False
    return all(s.lanes in s.reduced and len(s.loops) > 1 and s.domain[s.lanes] <= _MAX_SHORT_ROW for s in nest.stmts)
