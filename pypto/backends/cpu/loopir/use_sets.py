"""Use sets: what a statement of Loop IR reads, in scratch, in arrays and among the scalars.

Fusion compares the use sets of statements to find the dependences between them; the verifier checks reads against
what the buffers hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pypto.backends.cpu.loopir.index_maps import IndexedValue, IndexMap, inlined_operands, is_tile, operand_reads
from pypto.backends.cpu.loopir.ir import Buffer, Stmt
from pypto.ir.core import Op, Value

BufferUses = list[tuple[Buffer, IndexMap]]


@dataclass
class UseSet:
    """What one statement reads, after all inlinable ops are inlined into it."""

    buffers: BufferUses = field(default_factory=list)  # buffers, with the loop positions that index them
    buffer_values: list[Value | None] = field(default_factory=list)  # the value read from each; None: any contents
    loads: list[tuple[Op, IndexMap]] = field(default_factory=list)  # `tile_load`s that are inlined, with index maps
    scalars: set[Value] = field(default_factory=set)


def use_set_of(stmt: Stmt, buffer_of: Mapping[Value, Buffer]) -> UseSet:
    """The use set of a statement; `buffer_of` maps materialised values to their buffers.

    A statement that computes a value into the value's buffer does not read that buffer.
    """
    use_set = UseSet()
    roots: list[IndexedValue] = []
    computed: Value | None = None  # the value that the statement computes into its buffer
    if stmt.source is not None:
        use_set.buffers.append((stmt.source, stmt.index))
        use_set.buffer_values.append(stmt.value)
    elif stmt.kind == "compute" and stmt.value is not None:
        roots = [(stmt.value, stmt.index)]
        computed = stmt.value if buffer_of.get(stmt.value) is stmt.buffer else None
    elif stmt.op is not None:
        use_set.scalars.update(v for v in stmt.op.operands if not is_tile(v))
        roots = operand_reads(stmt.op, stmt.index)
    for v, index in inlined_operands(roots, lambda v: v in buffer_of and v is not computed):
        if v in buffer_of and v is not computed:
            use_set.buffers.append((buffer_of[v], index))
            use_set.buffer_values.append(v)
            continue
        assert v.op is not None
        use_set.scalars.update(x for x in v.op.operands if not is_tile(x))
        if v.op.name == "tile_load":
            use_set.loads.append((v.op, index))
    return use_set
