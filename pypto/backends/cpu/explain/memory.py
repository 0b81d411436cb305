"""Materialisation: which tiles have scratch memory, and why they are not inlined or in registers."""

from __future__ import annotations

from collections.abc import Iterator

from pypto.backends.cpu.loopir.allocate import BufferAllocation, is_view
from pypto.backends.cpu.loopir.index_maps import is_inlinable
from pypto.backends.cpu.loopir.ir import item_bytes
from pypto.backends.cpu.loopir.materialize import Materialization, is_load_clobbered, requires_buffer
from pypto.backends.findings import Finding, byte_text, op_text
from pypto.ir.core import Op, Value
from pypto.ir.types import TileType


def memory_findings(plan: Materialization, storage: BufferAllocation) -> Iterator[Finding]:
    """Findings about tiles in scratch memory."""
    for v in plan.readers:
        if (
            v.op is None
            or v not in plan.materialized
            or is_view(v)
            or v not in storage.buffer_of
            or storage.buffer_of[v].contracted
        ):
            continue
        if isinstance(v.type, TileType) and is_inlinable(v.op):
            size = byte_text(storage.buffer_of[v].elements * item_bytes(v.tile.elem))
            text = f"the tile that `{v.op.name}` makes takes {size} of memory: {materialization_reason(plan, v.op, v)}"
            yield Finding("memory", v.op.loc, text)


def materialization_reason(plan: Materialization, op: Op, v: Value) -> str:
    """The reason of `plan.decide`, in words."""
    user = next((user for user in plan.uses[v] if requires_buffer(user, v)), None)
    if user is not None:
        how = "needs it whole" if user.name == "dot" else "reads it in another order than it is made in"
        return f"{op_text(user)} {how}"
    if is_load_clobbered(plan, op, v):
        return "a store may change what it was loaded from before its last use"
    if len(plan.readers[v]) > 1:
        return f"{len(plan.readers[v])} statements read it, and making it again would take longer"
    return "it is made once and read in every round of a loop"
