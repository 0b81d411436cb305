"""Explanation of the compiler's decisions about a kernel: accesses, non-temporal stores, loop fusion, tiles in memory.

Each finding is asked of the part of the compiler that decides (access analysis, materialisation, fusion, code
generation), for the same IR and target; nothing is decided again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pypto.backends.cpu.codegen.function import lower
from pypto.backends.cpu.explain.fusion import fusion_findings
from pypto.backends.cpu.explain.memory import memory_findings
from pypto.backends.cpu.explain.stores import store_findings
from pypto.backends.cpu.loopir.fusion import LoopFuser
from pypto.backends.cpu.loopir.ir import Item, LibraryOp, walk
from pypto.backends.cpu.pipeline import before_coarsening, legalize, lower_to_loops, unplaced_loops
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.findings import Finding, Findings, access_findings, order_findings
from pypto.ir.core import Function
from pypto.passes import optimize
from pypto.passes.target_facts import with_overrides
from pypto.passes.unswitch_modulo import hot_version, wrapped_dims

_WRAPS: Final = (
    "its index wraps around, or stays at an end of the array: programs that store nothing of what comes of that read "
    "it where it lies, others find its elements one by one"
)


def explain(prepared: Function, target: CpuTarget) -> Findings:
    """All decisions about a prepared function that its user can see or change."""
    target = with_overrides(target, prepared)
    versioned = before_coarsening(optimize(prepared), target)
    function = legalize(hot_version(versioned), target)
    both = legalize(versioned, target)
    function.attrs["noalias"] = both.attrs["noalias"] = prepared.attrs["noalias"]
    loops = unplaced_loops(function, target)
    storage, items = loops.the_storage, loops.items
    wrapped = (op for op in versioned.walk() if versioned.programs.has_cold_version and wrapped_dims(op))
    findings = (
        *order_findings(optimize(prepared)),
        *access_findings(function),
        *mask_findings(prepared, target),
        *(Finding("access", op.loc, _WRAPS) for op in wrapped),
        *store_findings(function, items, target),
        *fusion_findings(LoopFuser(storage.plan, storage), items),
        *memory_findings(storage.plan, storage),
        *product_findings(items),
    )
    return Findings(findings, lower_to_loops(both, target).scratch_bytes)


def product_findings(items: list[Item]) -> Iterator[Finding]:
    """The blocking of each matrix product."""
    for item in walk(items):
        if isinstance(item, LibraryOp) and item.decisions:
            way = "`pto.jit(blocking=pto.Blocking(...))` sets others"
            yield Finding("product", item.op.loc, item.decisions, way)


def mask_findings(prepared: Function, target: CpuTarget) -> Iterator[Finding]:
    """Findings about accesses that have masks in all of a tile at an edge of its array."""
    if target.has_fast_masks:
        return
    function = optimize(prepared)
    function.attrs["noalias"] = prepared.attrs["noalias"]
    for op, reason in lower(function, target).masked:
        if op.name in ("tile_load", "tile_store") and reason:
            yield Finding("access", op.loc, f"all of a tile across an edge of the array runs with masks: {reason}")
