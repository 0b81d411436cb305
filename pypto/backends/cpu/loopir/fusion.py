"""Fuses neighbouring statements into nests: all loops where they can, or the outer loops.

Two statements share a loop when everything that flows between them stays at one index of it, and no reduction over
it lies between. Chains such as load, maximum, exponential, sum, division then run row by row in cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pypto.backends.cpu.loopir.allocate import BufferAllocation
from pypto.backends.cpu.loopir.index_maps import UNKNOWN_POSITION, IndexMap, is_tile
from pypto.backends.cpu.loopir.interchange import interchange, is_fusion_profitable
from pypto.backends.cpu.loopir.ir import Control, Item, LibraryOp, Nest, Scalar, Stmt
from pypto.backends.cpu.loopir.materialize import Materialization
from pypto.backends.cpu.loopir.use_sets import BufferUses, UseSet, use_set_of
from pypto.ir.core import Op, Value
from pypto.passes.memory_effects import is_pure, is_same_access, may_alias

MAX_OPEN_STATEMENTS: Final = 128  # statements in open nests: each new one is compared with all of them


@dataclass
class LoopFuser:
    """Items of one region under construction; `open_nests` are those that may still grow, in program order."""

    plan: Materialization
    storage: BufferAllocation
    items: list[Item] = field(default_factory=list)
    open_nests: list[Nest] = field(default_factory=list)
    use_sets: dict[Stmt, UseSet] = field(default_factory=dict)

    def finish(self) -> list[Item]:
        self.close_nests()
        return self.items

    def barrier(self, item: Item) -> None:
        self.close_nests()
        self.items.append(item)

    def add_store(self, stmt: Stmt) -> None:
        """A store right after a cell that may do it itself; else like every other statement."""
        last = self.last_item()
        within = last.regions[-1] if isinstance(last, Control) else [last] if last is not None else []
        cell = next((item for item in reversed(within) if not is_movable(item)), None)
        self.add(stmt)
        if last is None or not isinstance(cell, LibraryOp):
            return
        read = self.use_sets[stmt].buffers
        if cell.fuse_store(stmt, self.plan, last.op) or cell.fuse_epilogue(
            self.open_nests[-1], read, self.plan, last.op
        ):
            self.items.append(self.items.pop(self.items.index(last)))  # the scalars between are of the store
            self.open_nests[-1].fallback_of = cell
            self.close_nests()

    def last_item(self) -> LibraryOp | Control | None:
        """What came before some pure scalars, if nothing else did, and none of them is its own."""
        last = next((item for item in reversed([] if self.open_nests else self.items) if not is_movable(item)), None)
        after = self.items[self.items.index(last) + 1 :] if last is not None else []
        read = {v for item in after if isinstance(item, Scalar) for v in item.op.operands}
        return last if isinstance(last, LibraryOp | Control) and read.isdisjoint(last.op.results) else None

    def add_scalar(self, op: Op) -> None:
        """A scalar op goes before the open nests, unless it waits for one (it may read a tile of one element)."""
        early = is_pure(op) and not any(map(is_tile, op.operands))
        if not early or any(self.defines_scalar(nest, set(op.operands)) for nest in self.open_nests):
            self.close_nests()
        self.items.append(Scalar(op))

    def defines_scalar(self, nest: Nest, values: set[Value]) -> bool:
        """True when the nest gives one of these scalars."""
        return any(s.result in values for s in nest.stmts if s.kind in ("reduce", "arg"))

    def add(self, stmt: Stmt) -> None:
        """Into the last nest that takes the statement, past nests that have nothing to do with it."""
        self.use_sets[stmt] = use_set_of(stmt, self.storage.buffer_of)
        if sum(len(nest.stmts) for nest in self.open_nests) >= MAX_OPEN_STATEMENTS:
            self.close_nests()
        for nest in reversed(self.open_nests):
            if self.depends_on(nest, stmt):
                break
            if self.try_fuse(nest, stmt) or (interchange(self, nest, stmt) and self.try_fuse(nest, stmt)):
                return
            if any(writes(a, self.buffers_used(b)) for o in nest.stmts for a, b in ((o, stmt), (stmt, o))):
                break
        self.open_nests.append(Nest([[stmt]], len(stmt.loops)))

    def depends_on(self, nest: Nest, stmt: Stmt) -> bool:
        """True when the statement needs the nest to have run, or may not run within it or before it."""
        return self.defines_scalar(nest, self.use_sets[stmt].scalars) or any(
            self.has_memory_conflict(o, stmt) for o in nest.stmts
        )

    def buffers_used(self, stmt: Stmt) -> BufferUses:
        """Buffers that the statement reads or writes, with the loop positions that index them."""
        return self.use_sets[stmt].buffers + ([(stmt.buffer, stmt.buffer_index)] if stmt.buffer is not None else [])

    def close_nests(self) -> None:
        for nest in self.open_nests:
            self.contract_arrays(nest)
            self.items.append(nest)
        self.open_nests = []

    # --- legality -----------------------------------------------------------------------------------------------

    def try_fuse(self, nest: Nest, stmt: Stmt) -> bool:
        """Put the statement into the nest, if that is right."""
        last, earlier = nest.bodies[-1], [s for body in nest.bodies[:-1] for s in body]
        if last[0].signature == stmt.signature and last[0].kind != "scan":
            whole = len(stmt.loops)
            read = self.use_sets[stmt].buffers
            fits = all(self.max_fusable_depth(o, stmt) >= whole and not (o.reduced and writes(o, read)) for o in last)
            fits = fits and not (earlier and set(stmt.loops[: nest.fused_depth]) & set(stmt.reduced))
            if fits and all(self.max_fusable_depth(o, stmt) >= nest.fused_depth for o in earlier):
                last.append(stmt)
                return True
        shared = min(
            [
                nest.fused_depth if len(nest.bodies) > 1 else len(stmt.loops),
                *(self.max_outer_fusable_depth(o, stmt) for o in nest.stmts),
            ]
        )
        if (
            shared < 1
            or (len(nest.bodies) > 1 and shared < nest.fused_depth)
            or not is_fusion_profitable(self, nest, stmt)
        ):
            return False
        nest.fused_depth = shared
        nest.bodies.append([stmt])
        return True

    def max_outer_fusable_depth(self, a: Stmt, b: Stmt) -> int:
        """Number of outer loops, none of them along the lanes or reduced, that both may share."""
        count = 0
        for x, y in zip(a.loops, b.loops, strict=False):
            special = x == a.lanes or y == b.lanes or x in a.reduced or y in b.reduced
            if special or a.domain[x] != b.domain[y] or "scan" in (a.kind, b.kind):
                break
            count += 1
        return min(count, self.max_fusable_depth(a, b))

    def max_fusable_depth(self, a: Stmt, b: Stmt) -> int:
        """Number of outer loops over which what flows between the two stays at one index."""
        limit = min(len(a.loops), len(b.loops))
        for writer, other in ((a, b), (b, a)):
            for buffer, index in self.buffers_used(other):
                if writer.buffer is not None and buffer.memory is writer.buffer.memory:
                    limit = min(
                        limit, common_index_prefix(writer.buffer_index, index) if buffer is writer.buffer else 0
                    )
        return limit

    def has_memory_conflict(self, a: Stmt, b: Stmt) -> bool:
        """True when one writes memory that the other may touch elsewhere."""
        for x, y in ((a, b), (b, a)):
            if x.kind != "store":
                continue
            if y.kind == "store" and may_alias(self.plan.function, y.the_op, x.the_op):
                return True
            if any(self.conflicts(op, index, x) for op, index in self.use_sets[y].loads):
                return True
        return False

    def conflicts(self, load: Op, index: IndexMap, store: Stmt) -> bool:
        """True when a load may touch what a store writes, other than the same element at the same time."""
        in_step = index == store.index and is_same_access(load, store.the_op)
        return not in_step and may_alias(self.plan.function, load, store.the_op)

    # --- memory that fusion saves -------------------------------------------------------------------------------

    def contract_arrays(self, nest: Nest) -> None:
        """Drop memory that lives only inside: whole buffers, or the dimensions of shared loops."""
        inside = nest.stmts
        low, high = min(s.position for s in inside), max(s.position for s in inside)
        for stmt in inside:
            for buffer in [stmt.buffer, *(b for b, _ in self.use_sets[stmt].buffers)]:
                if buffer is not None:
                    buffer.live_start, buffer.live_end = min(buffer.live_start, low), max(buffer.live_end, high)
        for body, stmt in ((b, s) for b in nest.bodies for s in b):
            v = stmt.value
            if v is None or v.op is None or not self.is_private(v, stmt, inside):
                continue
            others = (b for s in inside if s not in body for b, _ in self.use_sets[s].buffers)
            if not any(b is stmt.buffer for b in others):
                stmt.the_buffer.contracted = True
                for s in (s for s in body if s.source is stmt.buffer):
                    s.source = None
            elif nest.fused_depth and len(nest.bodies) > 1 and not stmt.the_buffer.unpadded:
                stmt.the_buffer.contracted_dims = contracted_dims(stmt, nest.fused_depth)

    def is_private(self, v: Value, stmt: Stmt, inside: list[Stmt]) -> bool:
        """True when the statement makes a value that is its buffer's only one, for readers in this nest alone."""
        if self.storage.buffer_of.get(v) is not stmt.buffer or len(self.storage.sharers[v]) != 1:
            return False
        fed = ((s.packs_operand_of, v is s.value) for s in inside if s.packs_operand_of is not None)
        ops = {s.op for s in inside} | {cell for cell, own in fed if cell.operands.count(v) == own}
        if any(b is stmt.buffer and UNKNOWN_POSITION in index for s in inside for b, index in self.use_sets[s].buffers):
            return False  # other elements of it are read, from memory
        views = any(b.view_of is stmt.buffer for b in self.storage.buffers)
        return not views and all(r in ops for r in self.plan.readers[v])


def writes(stmt: Stmt, used: BufferUses) -> bool:
    """True when a statement writes some of the memory that is used."""
    return stmt.buffer is not None and any(stmt.buffer.memory is buffer.memory for buffer, _ in used)


def is_movable(item: Item) -> bool:
    return isinstance(item, Scalar) and is_pure(item.op)


def common_index_prefix(written: IndexMap, read: IndexMap) -> int:
    """Number of outer loops that index both sides alike."""
    count = 0
    positions = {p for p in written if p is not None}
    while count in positions and read[written.index(count)] == count:
        count += 1
    return count


def contracted_dims(stmt: Stmt, shared: int) -> int:
    """Leading dimensions of the statement's buffer that run with the shared loops."""
    inner = (d for d, p in enumerate(stmt.buffer_index) if p is not None and p >= shared)
    return next(inner, len(stmt.buffer_index))
