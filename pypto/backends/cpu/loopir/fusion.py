"""Loop fusion and array contraction: statements share all loops, or their outer loops, and tiles in between shrink.

A chain such as maximum, exponential, sum and division then runs row by row, with the row in registers or the
first-level cache; unfused, each step would go through the whole tile in scratch.

Two statements may share a loop if every dependence between them has distance 0 in it: both use each buffer at the
same index of the loop, and neither is a reduction over it that the other reads. Array contraction then drops the
dimensions of shared loops from a buffer that no statement outside of the nest reads.

    b1: 8x64xf32                                       b1: 64xf32
    nest sharing 2                                     nest sharing 1
      - compute exp -> b1 [for d0<8 lanes d1<64]         - compute exp -> b1 [for d0<8 lanes d1<64]
    nest sharing 2                           becomes     | reduce sum -> b2 [for d0<8 lanes d1<64*]
      - reduce sum -> b2 [for d0<8 lanes d1<64*]         - store tile_store [for d0<8 lanes d1<64]
    nest sharing 2
      - store tile_store [for d0<8 lanes d1<64]
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from pypto.backends.cpu.loopir.allocate import BufferAllocation
from pypto.backends.cpu.loopir.index_maps import IndexMap, is_tile
from pypto.backends.cpu.loopir.interchange import interchange, is_fusion_profitable
from pypto.backends.cpu.loopir.ir import (
    Control,
    Item,
    LibraryOp,
    Nest,
    Scalar,
    Schedule,
    Stmt,
    is_movable,
    last_structured_item,
)
from pypto.backends.cpu.loopir.materialize import Materialization
from pypto.backends.cpu.loopir.use_sets import BufferUses, UseSet, use_set_of
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.techniques import is_enabled
from pypto.ir.core import Op, Value
from pypto.passes.analysis.memory_effects import is_pure, is_same_access, may_alias

ELEMENTWISE_KINDS: Final = ("atomic", "count")  # of statements that run element by element, in nests of their own
MAX_OPEN_STATEMENTS: Final = 128  # statements in open nests: each new one is compared with all of them


def fuse_loops(schedule: Schedule, target: CpuTarget) -> Schedule:
    """Loop IR whose neighbouring nests share the loops that they can."""
    use_sets: dict[Stmt, UseSet] = {}
    items = fuse_region(schedule.items, schedule.the_storage, use_sets)
    return replace(schedule, items=items, use_sets=use_sets)


def fuse_region(items: list[Item], storage: BufferAllocation, use_sets: dict[Stmt, UseSet]) -> list[Item]:
    """The items of a region, fused, with those of the regions inside."""
    fuser = LoopFuser(storage.plan, storage, use_sets=use_sets)
    for item in items:
        if isinstance(item, Control):
            item.regions = [fuse_region(region, storage, use_sets) for region in item.regions]
        if isinstance(item, Nest) and item.bodies[0][0].kind not in ELEMENTWISE_KINDS:
            fuser.add_store(item.bodies[0][0])
        elif isinstance(item, Scalar):
            fuser.add_scalar(item.op)
        else:
            fuser.barrier(item)
    return fuser.finish()


@dataclass
class LoopFuser:
    """Builds the items of one region by greedy fusion."""

    plan: Materialization
    storage: BufferAllocation
    items: list[Item] = field(default_factory=list)  # finished items, in program order
    open_nests: list[Nest] = field(default_factory=list)  # nests that may still take statements, in program order
    deferred: list[Op] = field(default_factory=list)  # pure scalar ops behind the open nests: these give their operands
    use_sets: dict[Stmt, UseSet] = field(default_factory=dict)

    def finish(self) -> list[Item]:
        """All items of the region, after its last statement."""
        self.close_nests()
        return self.items

    def barrier(self, item: Item) -> None:
        """Add an item that no statement may move across."""
        self.close_nests()
        self.items.append(item)

    def add_store(self, stmt: Stmt) -> None:
        """Add a statement; a store right after a library op becomes its epilogue if the op can fuse it."""
        last = last_structured_item(self.items) if stmt.kind == "store" and not self.open_nests else None
        tail = last.regions[-1] if isinstance(last, Control) else [last] if last is not None else []
        producer = next((item for item in reversed(tail) if not is_movable(item)), None)
        self.add(stmt)
        if last is None or not isinstance(producer, LibraryOp):
            return
        read = self.use_sets[stmt].buffers
        nest = self.open_nests[-1]
        if producer.fuse_store(stmt, self.plan, last.op) or producer.fuse_epilogue(nest, read, self.plan, last.op):
            self.items.append(self.items.pop(self.items.index(last)))  # the scalars between are of the store
            nest.fallback_of = producer
            self.close_nests()

    def add_scalar(self, op: Op) -> None:
        """Add a scalar op: before the open nests, or behind them if it reads a result of theirs.

        The nests stay open for statements that do not read what the op gives. An op that is not pure, or reads a tile,
        closes them.
        """
        if not is_pure(op) or any(map(is_tile, op.operands)):
            self.close_nests()
        operands = set(op.operands)
        if self.defers(operands) or any(self.defines_scalar(nest, operands) for nest in self.open_nests):
            self.deferred.append(op)
        else:
            self.items.append(Scalar(op))

    def defers(self, values: set[Value]) -> bool:
        """Whether a deferred scalar op gives one of these scalars."""
        return any(not values.isdisjoint(op.results) for op in self.deferred)

    def defines_scalar(self, nest: Nest, values: set[Value]) -> bool:
        """Whether a reduction of the nest gives one of these scalars."""
        return any(s.result in values for s in nest.stmts if s.kind in ("reduce", "arg"))

    def add(self, stmt: Stmt) -> None:
        """Add a statement to the last open nest that can take it, or in a nest of its own.

        It may move before open nests that it does not depend on.
        """
        self.use_sets[stmt] = use_set_of(stmt, self.storage.buffer_of)
        is_full = sum(len(nest.stmts) for nest in self.open_nests) >= MAX_OPEN_STATEMENTS
        if is_full or self.defers(self.use_sets[stmt].scalars):
            self.close_nests()
        for nest in reversed(self.open_nests):
            if self.depends_on(nest, stmt):
                break
            if self.try_fuse(nest, stmt) or (self.try_interchange(nest, stmt) and self.try_fuse(nest, stmt)):
                return
            if any(writes(s, self.buffers_used(stmt)) or writes(stmt, self.buffers_used(s)) for s in nest.stmts):
                break
        self.open_nests.append(Nest([[stmt]], len(stmt.loops)))

    def try_interchange(self, nest: Nest, stmt: Stmt) -> bool:
        """Change the order of loops, where that may let the nest take the statement."""
        return is_enabled(self.plan.function, "interchange") and interchange(self, nest, stmt)

    def depends_on(self, nest: Nest, stmt: Stmt) -> bool:
        """Whether a statement has to run after the nest: it reads a scalar result, or arrays conflict."""
        if self.defines_scalar(nest, self.use_sets[stmt].scalars):
            return True
        return any(self.has_memory_conflict(s, stmt) for s in nest.stmts)

    def buffers_used(self, stmt: Stmt) -> BufferUses:
        """Buffers that a statement reads or writes, with their index maps."""
        return self.use_sets[stmt].buffers + ([(stmt.buffer, stmt.buffer_index)] if stmt.buffer is not None else [])

    def close_nests(self) -> None:
        """Finish all open nests, and the scalar ops behind them."""
        for nest in self.open_nests:
            self.extend_lifetimes(nest)
            self.items.append(nest)
        self.items += map(Scalar, self.deferred)
        self.open_nests, self.deferred = [], []

    # --- legality -----------------------------------------------------------------------------------------------

    def try_fuse(self, nest: Nest, stmt: Stmt) -> bool:
        """Fuse a statement into a nest: into the last body at all loops, or as a new body at the outer loops.

        Gives whether it is legal, and profitable where only outer loops are shared.
        """
        if self.can_join_last_body(nest, stmt):
            nest.bodies[-1].append(stmt)
            return True
        has_bodies = len(nest.bodies) > 1
        depths = [self.max_outer_fusable_depth(s, stmt) for s in nest.stmts]
        depth = min(nest.fused_depth if has_bodies else len(stmt.loops), *depths)
        if depth < 1 or (has_bodies and depth < nest.fused_depth) or not is_fusion_profitable(self, nest, stmt):
            return False
        nest.fused_depth = depth
        nest.bodies.append([stmt])
        return True

    def can_join_last_body(self, nest: Nest, stmt: Stmt) -> bool:
        """Whether a statement may share all loops of the last body, and still the outer ones of the earlier bodies."""
        last = nest.bodies[-1]
        earlier = [s for body in nest.bodies[:-1] for s in body]
        if last[0].signature != stmt.signature or last[0].kind == "scan":
            return False
        if any(self.max_fusable_depth(s, stmt) < len(stmt.loops) for s in last):
            return False
        if any(s.reduced and writes(s, self.use_sets[stmt].buffers) for s in last):
            return False
        if earlier and set(stmt.loops[: nest.fused_depth]) & set(stmt.reduced):
            return False
        return all(self.max_fusable_depth(s, stmt) >= nest.fused_depth for s in earlier)

    def max_outer_fusable_depth(self, a: Stmt, b: Stmt) -> int:
        """Number of outer loops that two statements may share while their inner loops stay apart.

        The loop along the lanes and reduced loops are inner ones; a scan shares no loop.
        """
        count = 0
        for x, y in zip(a.loops, b.loops, strict=False):
            special = x == a.lanes or y == b.lanes or x in a.reduced or y in b.reduced
            if special or a.domain[x] != b.domain[y] or "scan" in (a.kind, b.kind):
                break
            count += 1
        return min(count, self.max_fusable_depth(a, b))

    def max_fusable_depth(self, a: Stmt, b: Stmt) -> int:
        """Number of outer loops in which all dependences between two statements have distance 0."""
        limit = min(len(a.loops), len(b.loops))
        for writer, other in ((a, b), (b, a)):
            for buffer, index in self.buffers_used(other):
                if writer.buffer is buffer:
                    limit = min(limit, common_index_prefix(writer.buffer_index, index))
                elif writer.buffer is not None and buffer.memory is writer.buffer.memory:  # a view
                    limit = 0
        return limit

    def has_memory_conflict(self, a: Stmt, b: Stmt) -> bool:
        """Whether one statement stores to an array that the other may load or store."""
        for store, other in ((a, b), (b, a)):
            if store.kind != "store":
                continue
            if other.kind == "store" and may_alias(self.plan.function, other.the_op, store.the_op):
                return True
            if any(self.conflicts(op, index, store) for op, index in self.use_sets[other].loads):
                return True
        return False

    def conflicts(self, load: Op, index: IndexMap, store: Stmt) -> bool:
        """Whether a load may read what a store writes, other than the same element in the same iteration."""
        has_distance_0 = index == store.index and is_same_access(load, store.the_op)
        return not has_distance_0 and may_alias(self.plan.function, load, store.the_op)

    def extend_lifetimes(self, nest: Nest) -> None:
        """Buffers of statements that run side by side are alive as long as all of these."""
        inside = nest.stmts
        low, high = min(s.position for s in inside), max(s.position for s in inside)
        for stmt in inside:
            for buffer in [stmt.buffer, *(b for b, _ in self.use_sets[stmt].buffers)]:
                if buffer is not None:
                    buffer.live_start, buffer.live_end = min(buffer.live_start, low), max(buffer.live_end, high)


def writes(stmt: Stmt, used: BufferUses) -> bool:
    """Whether a statement writes memory of one of the buffers."""
    return stmt.buffer is not None and any(stmt.buffer.memory is buffer.memory for buffer, _ in used)


def common_index_prefix(written: IndexMap, read: IndexMap) -> int:
    """Number of outer loops that index the written and the read buffer in the same dimensions."""
    count = 0
    positions = {p for p in written if p is not None}
    while count in positions and read[written.index(count)] == count:
        count += 1
    return count
