"""Tile IR to Loop IR: statements in program order, fused into nests that share what loops they can."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pypto.backends.cpu.library.registry import LIBRARY_OPS, SCALAR_LOOP_OPS
from pypto.backends.cpu.loopir.allocate import (
    BufferAllocation,
    allocate_buffers,
    assign_offsets,
    index_maps_to,
    is_view,
)
from pypto.backends.cpu.loopir.fusion import LoopFuser
from pypto.backends.cpu.loopir.index_maps import GATHERING, IndexMap, inlined_operands, is_tile, operand_reads
from pypto.backends.cpu.loopir.ir import Buffer, Control, Item, Nest, Schedule, Stmt
from pypto.backends.cpu.loopir.materialize import Materialization, plan_materialization
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Function, Op, Region, Value
from pypto.ops.memory import Access
from pypto.ops.table import REDUCTIONS, SCANS
from pypto.passes.carried import carried, initial
from pypto.passes.pattern import constant_of

_MIN_LANE_EXTENT = 16  # elements that lanes along another dimension than the last need


def build_schedule(function: Function, target: CpuTarget) -> Schedule:
    plan = plan_materialization(function, target)
    storage = allocate_buffers(plan, target)
    items = LoopIRBuilder(plan, storage).build_region(function.body)
    return Schedule(items, storage.buffers, assign_offsets(storage.buffers), storage.buffer_of)


@dataclass
class LoopIRBuilder:
    """Walks regions in program order and hands statements to a `LoopFuser`."""

    plan: Materialization
    storage: BufferAllocation
    preheaders: dict[Op, LoopFuser] = field(default_factory=dict)  # what takes statements that come before a loop

    def build_region(self, region: Region, targets: list[tuple[Value, Buffer | None]] | None = None) -> list[Item]:
        """Items of a region; `targets` pair what it yields with the buffers that take it."""
        fuser = LoopFuser(self.plan, self.storage)
        for op in region.body:
            self.build_op(op, fuser)
        self.parallel_copy(fuser, targets or [], self.plan.position[region.terminator])
        return fuser.finish()

    def build_op(self, op: Op, fuser: LoopFuser) -> None:
        if op.name == "assert_":  # of checked kernels alone: see `checks`
            return
        if op.regions:
            self.build_control(op, fuser)
        elif op.name in LIBRARY_OPS:
            LIBRARY_OPS[op.name]().schedule(op, self, fuser)
        elif op.name in REDUCTIONS and is_tile(op.operands[0]):
            fuser.add(self.reduction_stmt(op))
        elif op.name in SCANS:
            fuser.add(self.scan_stmt(op))
        elif op.name in SCALAR_LOOP_OPS and is_tile(op.results[0]):
            self.scalar_loop(op, fuser)
        elif op.name == "tile_store":
            shape = Access.of(op).shape
            fuser.add_store(
                make_stmt("store", op, None, shape, self.plan.position[op], lanes=self.lane_dimension(op, shape))
            )
        elif not op.results or not is_tile(op.results[0]):
            fuser.add_scalar(op)
        elif op.results[0] in self.plan.materialized and not is_view(op.results[0]):
            fuser.add(self.compute_stmt(op.results[0], self.storage.buffer_of[op.results[0]], self.plan.position[op]))

    def compute_stmt(self, v: Value, buffer: Buffer, position: int) -> Stmt:
        stmt = make_stmt("compute", v.op, v, v.shape, position, buffer)
        stmt.forced_width = buffer.panel
        return stmt

    def scalar_loop(self, op: Op, fuser: LoopFuser) -> None:
        """Element by element: no two lanes touch memory at the same time; what they count is found for many at once."""
        counts, result, position = op.name == "histogram", op.results[0], self.plan.position[op]
        buffer, over = self.storage.buffer_of[result], op.operands[0] if counts else result
        if counts:
            fuser.add(make_stmt("zero", None, None, result.shape, position, buffer))
        stmt = make_stmt("count" if counts else "atomic", op, None, over.shape, position, buffer)
        stmt.lanes = stmt.lanes if counts else -1
        fuser.barrier(Nest([[stmt]], 0))

    def reduction_stmt(self, op: Op) -> Stmt:
        kind, buffer = "arg" if op.name.startswith("arg") else "reduce", self.storage.buffer_of.get(op.results[0])
        shape = op.operands[0].shape
        lanes = self.lane_dimension(op, shape)
        return make_stmt(kind, op, None, shape, self.plan.position[op], buffer, op.attrs["axes"], lanes)

    def lane_dimension(self, op: Op, shape: tuple[int, ...]) -> int:
        """Dimension for the lanes: that in which a store's elements are neighbours, or most of what is read."""
        usual = max((d for d, n in enumerate(shape) if n > 1), default=-1)
        found: Counter[int | None] = Counter()
        if op.name == "tile_store":
            found.update(d for d, s in enumerate(Access.of(op).strides) if constant_of(s) == 1 and shape[d] > 1)
        if not found:
            sources = operand_reads(op, tuple(range(len(shape))))
            found.update(
                d
                for v, index in inlined_operands(sources, self.is_memory_operand)
                for d in self.contiguous_dims(v, index)
            )
        best = max(range(len(shape)), key=lambda d: found[d], default=usual)
        return best if found[best] > found[usual] and shape[best] >= min(_MIN_LANE_EXTENT, shape[usual]) else usual

    def is_memory_operand(self, v: Value) -> bool:
        """True for what is read from memory, at the result's index or elsewhere."""
        return v in self.storage.buffer_of or (v.op is not None and v.op.name in ("tile_load", *GATHERING))

    def contiguous_dims(self, v: Value, index: IndexMap) -> list[int | None]:
        """The dimension along which elements of a value that is read from memory are neighbours."""
        if v in self.storage.buffer_of:
            return [p for p, n in zip(index, v.shape, strict=True) if n > 1][-1:]
        if v.op is None or v.op.name != "tile_load":
            return []
        strides = Access.of(v.op).strides
        return [p for p, s, n in zip(index, strides, v.shape, strict=True) if constant_of(s) == 1 and n > 1]

    def scan_stmt(self, op: Op) -> Stmt:
        axis, buffer = op.attrs["axis"], self.storage.buffer_of[op.results[0]]
        stmt = make_stmt("scan", op, None, op.operands[0].shape, self.plan.position[op], buffer, (axis,))
        stmt.reduced = (axis,)
        if op.attrs["reverse"] or axis != stmt.lanes:
            kept = [d for d in stmt.loops if d != axis]
            stmt.lanes = kept[-1] if kept else -1
        return stmt

    def build_control(self, op: Op, fuser: LoopFuser) -> None:
        results, self.preheaders[op] = [self.storage.buffer_of.get(v) for v in op.results], fuser
        if op.name == "if":
            regions = [self.build_region(r, list(zip(r.terminator.operands, results, strict=True))) for r in op.regions]
            fuser.barrier(Control(op, regions))
            return
        last = op.regions[-1]
        args = carried(op, last)
        homes = [self.storage.buffer_of.get(v) for v in args]
        self.parallel_copy(fuser, list(zip(initial(op), homes, strict=True)), self.plan.position[op])
        before = [self.build_region(r) for r in op.regions[:-1]]
        body = self.build_region(last, list(zip(last.terminator.operands, homes, strict=True)))
        fuser.barrier(Control(op, [*before, body]))
        for arg, home, result in zip(args, homes, results, strict=True):
            if result is not None and home is not None and result is not home:
                fuser.add(copy_stmt(arg, result, self.plan.end_position[op]))

    def parallel_copy(self, fuser: LoopFuser, pairs: list[tuple[Value, Buffer | None]], position: int) -> None:
        """Values into buffers as if all at once: what reads another target goes through memory of its own first."""
        moves = [(v, b) for v, b in pairs if b is not None and self.storage.buffer_of.get(v) is not b]
        targets = {b.memory for _, b in moves}
        ready: list[Stmt] = []
        for v, b in moves:
            made = v.op is not None and v not in self.plan.materialized
            stmt = self.compute_stmt(v, b, position) if made else copy_stmt(v, b, position)
            if self.buffers_read(v) & (targets - {b.memory}) or self.reads_permuted(v, b):
                stmt.buffer = self.storage.new(v.tile.elem, v.shape, position, position)
                fuser.add(stmt)
                stmt = copy_stmt(v, b, position, stmt.buffer)
            ready.append(stmt)
        for stmt in ready:
            fuser.add(stmt)

    def buffers_read(self, v: Value) -> set[Buffer]:
        """Buffers whose memory computing `v` reads."""
        found = inlined_operands([(v, tuple(range(len(v.shape))))], self.storage.buffer_of.__contains__)
        return {self.storage.buffer_of[x].memory for x, _ in found if x in self.storage.buffer_of}

    def reads_permuted(self, v: Value, buffer: Buffer) -> bool:
        """True when computing `v` reads elements of `buffer` other than the one it would write there."""
        if v in self.storage.buffer_of or v.op is None:
            return False
        identity = tuple(range(len(v.shape)))
        members = [(m, b) for m, b in self.storage.buffer_of.items() if b.memory is buffer.memory]
        read = ((b, index) for m, b in members for index in index_maps_to(self.plan, v.op, m))
        return any(b is not buffer or index != identity for b, index in read)


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
    """A statement with its loops in order: kept dimensions, then reduced ones, the lanes innermost of their kind."""
    dims = [d for d, n in enumerate(domain) if n > 1]
    lanes = lanes if lanes >= 0 or not dims else dims[-1]
    dims.sort(key=lambda d: d == lanes)
    kept = [d for d in dims if d not in reduced]
    inner = [d for d in dims if d in reduced]
    return Stmt(kind, op, value, domain, (*kept, *inner), lanes, tuple(inner), buffer, position=position)


def copy_stmt(v: Value, buffer: Buffer, position: int, source: Buffer | None = None) -> Stmt:
    """A value from its memory, or another one, into a buffer."""
    stmt = make_stmt("compute", None, v, v.shape, position, buffer)
    stmt.source = source
    return stmt
