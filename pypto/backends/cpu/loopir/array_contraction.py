"""Array contraction: memory that fusion saves.

A buffer that only statements of one body use becomes registers. One that only bodies of one nest use loses the
dimensions of the loops that they share: it holds one turn of these. It pays always: scratch is smaller, and stays in
nearer caches. It is legal where all readers of the value are in the nest that computes it, and none of them reads
another element than the one of its own turn.

    compute exp -> b0 [for d0<64 lanes d1<64]          b0: 64x64xf32 (registers)
    | reduce sum -> b1 [for d0<64 lanes d1<64*]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pypto.backends.cpu.loopir.allocate import BufferAllocation
from pypto.backends.cpu.loopir.index_maps import UNKNOWN_POSITION
from pypto.backends.cpu.loopir.ir import Buffer, Control, Item, Nest, Schedule, Stmt
from pypto.backends.cpu.loopir.use_sets import UseSet, use_set_of
from pypto.ir.core import Value


def contract_arrays(schedule: Schedule) -> Schedule:
    """Loop IR without the memory that only single nests would use."""
    ArrayContraction(schedule.the_storage, schedule.use_sets).region(schedule.items)
    return schedule


@dataclass
class ArrayContraction:
    """The buffers of a kernel, and what its statements read."""

    storage: BufferAllocation
    use_sets: dict[Stmt, UseSet]

    def region(self, items: Iterable[Item]) -> None:
        for item in items:
            if isinstance(item, Nest):
                self.nest(item)
            elif isinstance(item, Control):
                for inner in item.regions:
                    self.region(inner)

    def nest(self, nest: Nest) -> None:
        """Drop buffers that live only inside, or their dimensions of shared loops."""
        inside = nest.stmts
        for body in nest.bodies:
            for stmt in body:
                if stmt.value is None or stmt.value.op is None or not self.is_private(stmt.value, stmt, inside):
                    continue
                others = (b for s in inside if s not in body for b in self.reads(s))
                if not any(b is stmt.buffer for b in others):
                    stmt.the_buffer.contracted = True
                    for s in (s for s in body if s.source is stmt.buffer):
                        s.source = None
                elif nest.fused_depth and len(nest.bodies) > 1 and not stmt.the_buffer.unpadded:
                    stmt.the_buffer.contracted_dims = contracted_dims(stmt, nest.fused_depth)

    def use_set(self, stmt: Stmt) -> UseSet:
        if stmt not in self.use_sets:
            self.use_sets[stmt] = use_set_of(stmt, self.storage.buffer_of)
        return self.use_sets[stmt]

    def reads(self, stmt: Stmt) -> list[Buffer]:
        return [buffer for buffer, _ in self.use_set(stmt).buffers]

    def is_private(self, v: Value, stmt: Stmt, inside: list[Stmt]) -> bool:
        """True when the statement makes a value that is its buffer's only one, for readers in this nest alone."""
        if self.storage.buffer_of.get(v) is not stmt.buffer or len(self.storage.sharers[v]) != 1:
            return False
        fed = ((s.packs_operand_of, v is s.value) for s in inside if s.packs_operand_of is not None)
        ops = {s.op for s in inside} | {cell for cell, is_value in fed if cell.operands.count(v) == is_value}
        indexed = (pair for s in inside for pair in self.use_set(s).buffers)
        if any(b is stmt.buffer and UNKNOWN_POSITION in index for b, index in indexed):
            return False  # other elements of it are read, from memory
        views = any(b.view_of is stmt.buffer for b in self.storage.buffers)
        return not views and all(r in ops for r in self.storage.plan.readers[v])


def contracted_dims(stmt: Stmt, shared: int) -> int:
    """Leading dimensions of the statement's buffer that run with the shared loops."""
    inner = (d for d, p in enumerate(stmt.buffer_index) if p is not None and p >= shared)
    return next(inner, len(stmt.buffer_index))
