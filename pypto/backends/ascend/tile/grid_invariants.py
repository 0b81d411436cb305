"""What is the same for all programs, and done once before a core's first one."""

from __future__ import annotations

from typing import Final

from pypto.ir.core import Function, Op, Value
from pypto.ir.types import TileType
from pypto.ops.memory import Access
from pypto.passes.analysis.memory_effects import accessed_array, is_never_written, is_pure, written_arrays

MAX_TILE_BYTES: Final = 16 << 10  # bytes of a tile that may stay in memory for all programs
MAX_HOISTED_BYTES: Final = 32 << 10


def grid_invariant_ops(function: Function) -> frozenset[Op]:
    """Ops of the kernel's own sequence that no program changes: as many as there is memory to spare for."""
    known, room, found = set(function.args), MAX_HOISTED_BYTES, set()
    written = written_arrays(function)
    for op in function.body.body:
        size = sum(map(tile_bytes, op.results))
        if (
            size > min(room, MAX_TILE_BYTES)
            or not known.issuperset(op.operands)
            or not is_speculatable(function, op, written)
        ):
            continue
        room -= size
        known.update(op.results)
        found.add(op)
    return frozenset(found)


def tile_bytes(v: Value) -> int:
    if not isinstance(v.type, TileType) or not v.shape or v.tile.is_ptr or (v.op and v.op.name == "constant"):
        return 0
    return v.tile.size * v.dtype.itemsize


def is_speculatable(function: Function, op: Op, written: frozenset[Value | None]) -> bool:
    """Whether it makes no difference when, and how often, an op runs."""
    if op.regions or op.name == "program_id":
        return False
    if op.name == "tile_load":
        return Access.of(op).mask is None and is_never_written(function, accessed_array(op), written)
    return is_pure(op)
