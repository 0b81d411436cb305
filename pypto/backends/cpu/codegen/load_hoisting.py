"""Load hoisting: all loads of a chunk are emitted before its first store.

A load that follows a store waits for it where both addresses agree in their low 12 bits (4K aliasing); arrays of one
alignment often agree. Legal for loads of what the nest does not write. It pays where several statements store.

store %a to x; %b = load y; store %b to z becomes %b = load y; store %a to x; store %b to z
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.backends.cpu.codegen.memory import Chunk
from pypto.backends.cpu.codegen.register_transpose import values_written
from pypto.backends.cpu.loopir.index_maps import UNKNOWN_POSITION
from pypto.backends.cpu.loopir.ir import Stmt
from pypto.backends.cpu.techniques import is_enabled

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.nest import NestEmitter


def hoist_loads_above_stores(nest: NestEmitter, body: list[Stmt], at: Chunk) -> None:
    """Emit the loads of a chunk, where several statements of the body store."""
    if sum(s.kind == "store" for s in body) < 2 or not is_enabled(nest.function, "load_hoisting"):
        return
    sources = [source for s in body for source in values_written(s)]
    for v, index in nest.transposes.memory_operands(sources):
        is_load = v.op is not None and v.op.name == "tile_load" and UNKNOWN_POSITION not in index
        if is_load and not nest.is_overwritten(v):
            nest.value(v, index, at)
