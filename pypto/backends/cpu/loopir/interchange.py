"""Statements over scratch in the order of loops in which they run side by side, so that nothing of them is stored.

What a tile is computed from may be in any order. A sum of its rows, with columns along the lanes, goes down the rows
for each chunk of columns; so do then the exponentials that are added up, and the panels of a product that they become.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.loopir.ir import Nest, Stmt
from pypto.backends.cpu.loopir.use_sets import use_set_of

if TYPE_CHECKING:
    from pypto.backends.cpu.loopir.fusion import LoopFuser

_MAX_SHORT_ROW: Final = 512  # elements of a row


def interchange(fuser: LoopFuser, nest: Nest, stmt: Stmt) -> bool:
    """Have a nest go as a reduction does that reads what it makes, or a statement as such a nest; whether that was.

    What reads arrays keeps its order, in which their rows come as a whole.
    """
    body, made = nest.bodies[0], {s.buffer.memory for s in nest.stmts if s.buffer is not None}
    alike = all((s.domain, s.lanes, s.forced_width) == (stmt.domain, stmt.lanes, 0) for s in body)
    near = len(nest.bodies) == 1 and not any(fuser.use_sets[s].loads for s in (*body, stmt))
    if not alike or not near or made.isdisjoint(buffer.memory for buffer, _ in fuser.use_sets[stmt].buffers):
        return False
    kinds = {s.kind for s in body}
    if stmt.kind == "reduce" and kinds == {"compute"}:
        order, changed = stmt.loops, body
    elif stmt.kind == "compute" and kinds == {"compute", "reduce"} and has_full_chunks(stmt):
        order, changed = body[0].loops, [*body, stmt]
    else:
        return False
    for s in changed:
        s.loops, s.forced_width = order, stmt.forced_width
        fuser.use_sets[s] = use_set_of(s, fuser.storage.buffer_of)
    return True


def has_full_chunks(stmt: Stmt) -> bool:
    """True where chunks of a forced width write nothing beyond the tile, as others of that width would, too."""
    return not stmt.forced_width or stmt.domain[stmt.lanes] % stmt.forced_width == 0


def is_fusion_profitable(fuser: LoopFuser, nest: Nest, stmt: Stmt) -> bool:
    """True when a statement uses some of the memory that a nest does; nothing else is worth sharing loops for."""
    if delays_consumers(fuser, nest, stmt):
        return False
    used, loads = {b.memory for b, _ in fuser.buffers_used(stmt)}, {op for op, _ in fuser.use_sets[stmt].loads}
    near = any(not used.isdisjoint(b.memory for b, _ in fuser.buffers_used(s)) for s in nest.stmts)
    stores = any(s.kind == "store" for s in (stmt, *nest.stmts))
    return near or stores or any(op in loads for s in nest.stmts for op, _ in fuser.use_sets[s].loads)


def delays_consumers(fuser: LoopFuser, nest: Nest, stmt: Stmt) -> bool:
    """True when a nest gives but results of short rows in scratch, on which what comes after it has to wait.

    Row by row, a processor has room for one or two of them, and waits. The results of all rows come without waiting.
    """
    short = all(s.lanes in s.reduced and len(s.loops) > 1 and s.domain[s.lanes] <= _MAX_SHORT_ROW for s in nest.stmts)
    loads = any(fuser.use_sets[s].loads for s in (*nest.stmts, stmt))
    return short and not loads and all(s.kind == "reduce" for s in nest.stmts)
