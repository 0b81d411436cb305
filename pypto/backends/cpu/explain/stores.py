"""Explanation of non-temporal stores: when the stores of a kernel bypass the caches, or why they never do."""

from __future__ import annotations

from collections.abc import Iterator

from pypto.backends.cpu.codegen.nontemporal import (
    arrays_read,
    is_written_once,
    loaded_bytes,
    moved_bytes,
    nontemporal_alignment,
    why_not_nontemporal,
)
from pypto.backends.cpu.codegen.outlining import OUTLINE_ABOVE, statement_count
from pypto.backends.cpu.codegen.persistent_loops import is_nests_only
from pypto.backends.cpu.loopir.cost import negligible_nests
from pypto.backends.cpu.loopir.ir import Control, Item, Nest
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.findings import Finding, byte_text
from pypto.ir.core import Function, Op, Value
from pypto.ops.memory import Access
from pypto.passes.analysis.memory_effects import root


def store_findings(function: Function, items: list[Item], target: CpuTarget) -> Iterator[Finding]:
    """Findings about stores: when they bypass the caches, or why they never do."""
    last_level = target.caches[-1]
    read = arrays_read(function)[0]
    quick = {s.op for nest in negligible_nests(items, target.vector_bytes // 4) for s in nest.stmts}
    in_parts = statement_count(items) > OUTLINE_ABOVE or function.programs.has_cold_version
    bodies = [(items, None)] if in_parts else loop_bodies(items)
    places = {s.op: ([o.the_op for o in nest.stmts if o.kind == "store"], loop) for part, loop in bodies
              for nest in part if isinstance(nest, Nest) for s in nest.stmts}  # fmt: skip
    for op in function.walk():
        if op.name != "tile_store" or Access.of(op).shape == (1,) * len(Access.of(op).shape):
            continue
        access, place = Access.of(op), places.get(op)
        reason = "it takes next to no time beside a loop or product" if op in quick else cache_reason(op, place, read)
        if reason or place is None:
            yield Finding("stream", op.loc, f"the store goes through the caches: {reason}")
            continue
        loop = place[1]
        loaded = arrays_read(function)[1] if loop is None else loaded_bytes(loop.regions[0].ops, loop)
        count = last_level // moved_bytes(access, loaded)
        moved = f"which load and store {byte_text(last_level)} in all"
        where = "in grids of more than {:,} programs" if loop is None else "in loops of more than {:,} turns in all"
        way = f"its rows must then begin at multiples of {nontemporal_alignment(access)} bytes"
        yield Finding("stream", op.loc, f"the store goes past the caches {where.format(count)}, {moved}", way)


def loop_bodies(items: list[Item], loop: Op | None = None) -> Iterator[tuple[list[Item], Op | None]]:
    """The items that a program runs once, and those of each iteration of a persistent loop."""
    yield items, loop
    for item in (x for x in items if isinstance(x, Control)):
        for region in item.regions:
            inner = list(loop_bodies(region, item.op))
            yield from inner if item.op.name == "for" and is_nests_only(region) else inner[1:]


def cache_reason(op: Op, place: tuple[list[Op], Op | None] | None, read: frozenset[Value | None]) -> str:
    """Why a store never bypasses the caches; `place` are its nest's stores and loop, None where a branch decides."""
    if place is None:
        return "it is in a branch, in a loop around products, or in a loop of a kernel that is compiled in parts"
    if not is_written_once(Access.of(op), place[1]):
        return "its loop stores to one place again and again"
    if root(op.operands[0]) in read:
        return "the kernel reads that array, too"
    other = next((o for o in place[0] if o is not op and why_not_nontemporal(Access.of(o))), None)
    beside = f"the one in line {other.loc.user.line}, in the same loop, does" if other is not None else ""
    return why_not_nontemporal(Access.of(op)) or beside
