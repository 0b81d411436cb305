"""Loads of a chunk that come before its stores.

A load waits for a store before it whose address it seems to share; addresses are compared by their last bits at first,
in which arrays of one alignment agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.backends.cpu.codegen.memory import Chunk
from pypto.backends.cpu.codegen.register_transpose import values_written
from pypto.backends.cpu.loopir.index_maps import IndexedValue
from pypto.backends.cpu.loopir.ir import Stmt
from pypto.backends.cpu.techniques import is_enabled

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.nest import NestEmitter


def hoist_loads_above_stores(nest: NestEmitter, body: list[Stmt], at: Chunk) -> None:
    """Emit what a chunk loads, where several statements store."""
    if sum(s.kind == "store" for s in body) < 2 or not is_enabled(nest.function, "load_hoisting"):
        return
    seen = set[IndexedValue]()
    for v, index in [
        leaf for s in body for source in values_written(s) for leaf in nest.transposes.memory_operands(*source, seen)
    ]:
        if v.op is not None and v.op.name == "tile_load" and not nest.is_overwritten(v):
            nest.value(v, index, at)
