"""Lowering of Tile IR to Loop IR: a statement for each materialised tile, store and reduction, in program order.

Each statement is a nest of its own; `fusion` makes larger nests of them. Values that a loop carries in tiles are copied
in parallel at its edges, where coalescing could not put them into one buffer.

    %e = exp %x                                        nest sharing 1
    %s = sum %e                    becomes               - compute exp -> b0 [lanes d0<1000]
    tile_store %y, %e / %s                             nest sharing 1
                                                         - reduce sum [lanes d0<1000*]
                                                       nest sharing 1
                                                         - store tile_store [lanes d0<1000]
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from pypto.backends.cpu.library.registry import LIBRARY_OPS, SCALAR_LOOP_OPS
from pypto.backends.cpu.loopir.allocate import BufferAllocation, assign_offsets, index_maps_to, is_view
from pypto.backends.cpu.loopir.index_maps import GATHERING, IndexMap, inlined_operands, is_tile, operand_reads
from pypto.backends.cpu.loopir.ir import (
    Buffer,
    Control,
    Item,
    LibraryOp,
    Nest,
    Scalar,
    Schedule,
    Stmt,
    last_structured_item,
)
from pypto.backends.cpu.loopir.materialize import Materialization
from pypto.ir.core import Op, Region, Value
from pypto.ops.memory import Access
from pypto.ops.table import REDUCTIONS, SCANS
from pypto.passes.analysis.carried import carried, initial
from pypto.passes.pattern import constant_of

_MIN_LANE_EXTENT = 16  # elements from which a dimension before the last is worth having the lanes


def build_items(storage: BufferAllocation) -> Schedule:
    """Loop IR with a nest for each statement, in program order."""
    items = LoopIRBuilder(storage.plan, storage).build_region(storage.plan.function.body)
    return Schedule(items, storage.buffers, 0, storage.buffer_of, storage.plan.function, storage)


def place_buffers(schedule: Schedule) -> Schedule:
    """Offsets in scratch for all buffers, by their lifetimes."""
    return replace(schedule, scratch_bytes=assign_offsets(schedule.buffers), storage=None, use_sets={})


@dataclass
class ItemList:
    """Items of one region under construction, in program order; `fusion` makes larger nests of them."""

    items: list[Item] = field(default_factory=list)

    def add(self, stmt: Stmt) -> None:
        self.items.append(Nest([[stmt]], len(stmt.loops)))

    def barrier(self, item: Item) -> None:
        """What is an item of its own, and no nest that others may join."""
        self.items.append(item)

    def last_item(self) -> LibraryOp | Control | None:
        return last_structured_item(self.items)


@dataclass
class LoopIRBuilder:
    """Walks regions in program order and makes items of their ops."""

    plan: Materialization
    storage: BufferAllocation
    preheaders: dict[Op, ItemList] = field(default_factory=dict)  # what takes statements that come before a loop

    def build_region(self, region: Region, targets: list[tuple[Value, Buffer | None]] | None = None) -> list[Item]:
        """Items of a region; `targets` pair what it yields with the buffers that take it."""
        items = ItemList()
        for op in region.body:
            self.build_op(op, items)
        self.parallel_copy(items, targets or [], self.plan.position[region.terminator])
        return items.items

    def build_op(self, op: Op, items: ItemList) -> None:
        """Add the statement or item of one op; an op without a buffer, effect or scalar result has none."""
        if op.name == "assert_":  # emitted in checked mode only, by `instrument`
            return
        if op.regions:
            self.build_control(op, items)
        elif op.name in LIBRARY_OPS:
            LIBRARY_OPS[op.name]().schedule(op, self, items)
        elif op.name in REDUCTIONS and is_tile(op.operands[0]):
            items.add(self.reduction_stmt(op))
        elif op.name in SCANS:
            items.add(self.scan_stmt(op))
        elif op.name in SCALAR_LOOP_OPS and is_tile(op.results[0]):
            self.scalar_loop(op, items)
        elif op.name == "tile_store":
            shape = Access.of(op).shape
            items.add(make_stmt("store", op, None, shape, self.plan.position[op], lanes=self.lane_dimension(op, shape)))
        elif not op.results or not is_tile(op.results[0]):
            items.barrier(Scalar(op))
        elif op.results[0] in self.plan.materialized and not is_view(op.results[0]):
            items.add(self.compute_stmt(op.results[0], self.storage.buffer_of[op.results[0]], self.plan.position[op]))

    def compute_stmt(self, v: Value, buffer: Buffer, position: int) -> Stmt:
        """A statement that computes a value into a buffer; panels are written chunk by chunk."""
        stmt = make_stmt("compute", v.op, v, v.shape, position, buffer)
        stmt.forced_width = buffer.panel
        return stmt

    def scalar_loop(self, op: Op, items: ItemList) -> None:
        """A nest for an op whose elements may hit the same memory.

        Atomics go element by element; a histogram computes its bins in chunks and counts lane by lane.
        """
        result = op.results[0]
        position = self.plan.position[op]
        buffer = self.storage.buffer_of[result]
        if op.name == "histogram":
            items.add(make_stmt("zero", None, None, result.shape, position, buffer))
            stmt = make_stmt("count", op, None, op.operands[0].shape, position, buffer)
        else:
            stmt = make_stmt("atomic", op, None, result.shape, position, buffer)
            stmt.lanes = -1
        items.barrier(Nest([[stmt]], 0))

    def reduction_stmt(self, op: Op) -> Stmt:
        """A statement that reduces a tile to its buffer, or to a scalar."""
        kind = "arg" if op.name.startswith("arg") else "reduce"
        buffer = self.storage.buffer_of.get(op.results[0])
        shape = op.operands[0].shape
        lanes = self.lane_dimension(op, shape)
        return make_stmt(kind, op, None, shape, self.plan.position[op], buffer, op.attrs["axes"], lanes)

    def lane_dimension(self, op: Op, shape: tuple[int, ...]) -> int:
        """The dimension for the lanes: the contiguous one of a store, or of most operands in memory.

        The last dimension is taken unless another one is contiguous more often and long enough.
        """
        last = max((d for d, n in enumerate(shape) if n > 1), default=-1)
        votes: Counter[int | None] = Counter()
        if op.name == "tile_store":
            votes.update(d for d, s in enumerate(Access.of(op).strides) if constant_of(s) == 1 and shape[d] > 1)
        if not votes:
            operands = operand_reads(op, tuple(range(len(shape))))
            for v, index in inlined_operands(operands, self.is_memory_operand):
                votes.update(self.contiguous_dims(v, index))
        best = max(range(len(shape)), key=lambda d: votes[d], default=last)
        return best if votes[best] > votes[last] and shape[best] >= min(_MIN_LANE_EXTENT, shape[last]) else last

    def is_memory_operand(self, v: Value) -> bool:
        """Whether a value is read from a buffer or an array, so that its layout counts for the choice of the lanes."""
        return v in self.storage.buffer_of or (v.op is not None and v.op.name in ("tile_load", *GATHERING))

    def contiguous_dims(self, v: Value, index: IndexMap) -> list[int | None]:
        """Loop positions along which the elements of a memory operand are contiguous; empty for other values."""
        if v in self.storage.buffer_of:
            return [p for p, n in zip(index, v.shape, strict=True) if n > 1][-1:]
        if v.op is None or v.op.name != "tile_load":
            return []
        strides = Access.of(v.op).strides
        return [p for p, s, n in zip(index, strides, v.shape, strict=True) if constant_of(s) == 1 and n > 1]

    def scan_stmt(self, op: Op) -> Stmt:
        """A statement that scans along an axis; the lanes lie along the axis only when it is last and runs forward."""
        axis = op.attrs["axis"]
        buffer = self.storage.buffer_of[op.results[0]]
        stmt = make_stmt("scan", op, None, op.operands[0].shape, self.plan.position[op], buffer, (axis,))
        stmt.reduced = (axis,)
        if op.attrs["reverse"] or axis != stmt.lanes:
            others = [d for d in stmt.loops if d != axis]
            stmt.lanes = others[-1] if others else -1
        return stmt

    def build_control(self, op: Op, items: ItemList) -> None:
        """An item with the regions of a control op, and copies of the tiles that it passes on."""
        self.preheaders[op] = items
        if op.name == "if":
            results = [self.storage.buffer_of.get(v) for v in op.results]
            regions = [self.build_region(r, list(zip(r.terminator.operands, results, strict=True))) for r in op.regions]
            items.barrier(Control(op, regions))
            return
        last = op.regions[-1]
        args = carried(op, last)
        buffers = [self.storage.buffer_of.get(v) for v in args]
        self.parallel_copy(items, list(zip(initial(op), buffers, strict=True)), self.plan.position[op])
        conditions = [self.build_region(r) for r in op.regions[:-1]]  # that of a `while`
        body = self.build_region(last, list(zip(last.terminator.operands, buffers, strict=True)))
        items.barrier(Control(op, [*conditions, body]))
        for arg, buffer, result in zip(args, buffers, op.results, strict=True):
            target = self.storage.buffer_of.get(result)
            if target is not None and buffer is not None and target is not buffer:
                items.add(copy_stmt(arg, target, self.plan.end_position[op]))

    def parallel_copy(self, items: ItemList, pairs: list[tuple[Value, Buffer | None]], position: int) -> None:
        """Parallel copy: write all values to their buffers as if at once.

        A value that reads the buffer of another pair, or its own in another order, is computed into a temporary
        before any buffer is written.
        """
        copies = [(v, b) for v, b in pairs if b is not None and self.storage.buffer_of.get(v) is not b]
        targets = {b.memory for _, b in copies}
        last_stmts: list[Stmt] = []
        for v, b in copies:
            is_inlined = v.op is not None and v not in self.plan.materialized
            stmt = self.compute_stmt(v, b, position) if is_inlined else copy_stmt(v, b, position)
            if self.buffers_read(v) & (targets - {b.memory}) or self.reads_permuted(v, b):
                stmt.buffer = self.storage.new(v.tile.elem, v.shape, position, position)
                items.add(stmt)
                stmt = copy_stmt(v, b, position, stmt.buffer)
            last_stmts.append(stmt)
        for stmt in last_stmts:
            items.add(stmt)

    def buffers_read(self, v: Value) -> set[Buffer]:
        """Buffers whose memory the computation of a value reads."""
        operands = inlined_operands([(v, tuple(range(len(v.shape))))], self.storage.buffer_of.__contains__)
        return {self.storage.buffer_of[x].memory for x, _ in operands if x in self.storage.buffer_of}

    def reads_permuted(self, v: Value, buffer: Buffer) -> bool:
        """Whether an element of `v` is computed from other elements of `buffer` than the one that it overwrites."""
        if v in self.storage.buffer_of or v.op is None:
            return False
        identity = tuple(range(len(v.shape)))
        sharers = [(x, b) for x, b in self.storage.buffer_of.items() if b.memory is buffer.memory]
        reads = ((b, index) for x, b in sharers for index in index_maps_to(self.plan, v.op, x))
        return any(b is not buffer or index != identity for b, index in reads)


def make_stmt(
    kind: str,
    op: Op | None,
    value: Value | None,
    domain: tuple[int, ...],
    position: int,
    buffer: Buffer | None = None,
    reduced: tuple[int, ...] = (),
    lanes: int = -1,
) -> Stmt:
    """A statement with its loop order: parallel dimensions, then reduced ones, and the lanes last among either.

    Without `lanes`, the last dimension above 1 has the lanes.
    """
    dims = [d for d, n in enumerate(domain) if n > 1]
    if lanes < 0 and dims:
        lanes = dims[-1]
    dims.sort(key=lambda d: d == lanes)
    parallel = [d for d in dims if d not in reduced]
    inner = [d for d in dims if d in reduced]
    return Stmt(kind, op, value, domain, (*parallel, *inner), lanes, tuple(inner), buffer, position=position)


def copy_stmt(v: Value, buffer: Buffer, position: int, source: Buffer | None = None) -> Stmt:
    """A statement that copies a value to a buffer, from `source` or from the value's own buffer."""
    stmt = make_stmt("compute", None, v, v.shape, position, buffer)
    stmt.source = source
    return stmt
