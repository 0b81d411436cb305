"""Explanation of loop fusion: why two neighbouring nests were not fused."""

from __future__ import annotations

from collections.abc import Iterator

from pypto.backends.cpu.loopir.fusion import LoopFuser, writes
from pypto.backends.cpu.loopir.ir import Control, Item, Nest, Scalar, Stmt
from pypto.backends.cpu.loopir.use_sets import use_set_of
from pypto.backends.findings import Finding
from pypto.ir.core import Op
from pypto.loc import UNKNOWN, Loc
from pypto.passes.analysis.memory_effects import may_alias


def fusion_findings(fuser: LoopFuser, items: list[Item]) -> Iterator[Finding]:
    """Findings about neighbouring nests that were not fused."""
    before: Nest | None = None
    scalars: list[Op] = []  # since that nest
    for item in items:
        if isinstance(item, Scalar):
            scalars.append(item.op)
            continue
        if isinstance(item, Nest) and before is not None:
            yield from separate_nests(fuser, before, scalars, item)
        before = item if isinstance(item, Nest) else None
        scalars = []
        for region in item.regions if isinstance(item, Control) else ():
            yield from fusion_findings(fuser, region)


def separate_nests(fuser: LoopFuser, a: Nest, scalars: list[Op], b: Nest) -> Iterator[Finding]:
    """Why the first statement of a nest was not fused into the nest before."""
    for stmt in (*a.stmts, *b.stmts):
        fuser.use_sets[stmt] = use_set_of(stmt, fuser.storage.buffer_of)
    stmt = b.stmts[0]
    reason = fusion_obstacle(fuser, a, scalars, stmt)
    if reason:
        text = f"not in one loop with line {place_of(a.stmts[-1]).user.line}: {reason}"
        yield Finding("fusion", place_of(stmt), text)


def fusion_obstacle(fuser: LoopFuser, nest: Nest, scalars: list[Op], stmt: Stmt) -> str:
    """Why a statement cannot join a nest, by the first legality check that fails; empty where they are independent."""
    numbers = {s.result for s in nest.stmts if s.kind in ("reduce", "arg")}
    for op in scalars:
        if numbers.intersection(op.operands):
            numbers.update(op.results)
    if numbers & fuser.use_sets[stmt].scalars:
        return "it needs the number that a reduction there gives at its end"
    for other in nest.stmts:
        if fuser.has_memory_conflict(other, stmt):
            store = other if other.kind == "store" else stmt
            shared = store.op is not None and any(may_alias(fuser.plan.function, op, store.op)
                for op, _ in fuser.use_sets[stmt if store is other else other].loads)  # fmt: skip
            return "one stores to memory that the other may touch" + (" (arrays that may overlap)" if shared else "")
    met = [o for o in nest.stmts if writes(o, fuser.buffers_used(stmt)) or writes(stmt, fuser.buffers_used(o))]
    return next((why for why in (domain_mismatch(fuser, other, stmt) for other in met) if why), "")


def domain_mismatch(fuser: LoopFuser, a: Stmt, b: Stmt) -> str:
    """Why two statements have no loop in common; empty where they could."""
    if fuser.max_outer_fusable_depth(a, b) > 0:
        return ""
    if a.reduced and writes(a, fuser.use_sets[b].buffers):
        return "it needs the whole of a reduction"
    if "scan" in (a.kind, b.kind):
        return "a scan runs in a nest of its own"
    if not a.loops or not b.loops or a.domain[a.loops[0]] != b.domain[b.loops[0]]:
        sizes = ("x".join(map(str, s.sizes)) or "one element" for s in (b, a))
        return "their loops differ: " + " and ".join(sizes)
    if fuser.max_fusable_depth(a, b) < 1:
        return "it reads elements that are made in other rounds of the loop (another order, or a shared buffer)"
    return "their only common loop runs along the lanes of registers"


def place_of(stmt: Stmt) -> Loc:
    op = stmt.op or (stmt.value.op if stmt.value is not None else None)
    return op.loc if op is not None else UNKNOWN
