"""What a statement of Loop IR reads: buffers and loads with their index maps, and scalars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pypto.backends.cpu.loopir.index_maps import IndexedValue, IndexMap, inlined_operands, is_tile, operand_reads
from pypto.backends.cpu.loopir.ir import Buffer, Stmt
from pypto.ir.core import Op, Value

BufferUses = list[tuple[Buffer, IndexMap]]


@dataclass
class UseSet:
    """What a statement reads: buffers with the loop positions that index them, memory, and scalars.

    `held[n]` is the value that is read from `buffers[n]`, None where a copy is of whatever is there.
    """

    buffers: BufferUses = field(default_factory=list)
    buffer_values: list[Value | None] = field(default_factory=list)
    loads: list[tuple[Op, IndexMap]] = field(default_factory=list)
    scalars: set[Value] = field(default_factory=set)


def use_set_of(stmt: Stmt, of: Mapping[Value, Buffer]) -> UseSet:
    """Buffers and loads behind what the statement computes; a value's own buffer is none of them.

    `of` gives the buffers of values that have memory.
    """
    reads, index, leaves, own = UseSet(), stmt.index, list[IndexedValue](), None
    if stmt.source is not None:
        reads.buffers.append((stmt.source, index))
        reads.buffer_values.append(stmt.value)
    elif stmt.kind == "compute" and stmt.value is not None:
        leaves = [(stmt.value, index)]
        own = stmt.value if of.get(stmt.value) is stmt.buffer else None
    elif stmt.op is not None:
        reads.scalars.update(v for v in stmt.op.operands if not is_tile(v))
        leaves = operand_reads(stmt.op, index)
    for v, at in inlined_operands(leaves, lambda v: v in of and v is not own):
        if v in of and v is not own:
            reads.buffers.append((of[v], at))
            reads.buffer_values.append(v)
            continue
        assert v.op is not None
        reads.scalars.update(x for x in v.op.operands if not is_tile(x))
        if v.op.name == "tile_load":
            reads.loads.append((v.op, at))
    return reads
