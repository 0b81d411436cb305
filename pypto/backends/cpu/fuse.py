"""Fuses neighbouring statements into nests: all loops where they can, or the outer loops.

Two statements share a loop when everything that flows between them stays at one index of it, and no reduction over
it lies between. Chains such as load, maximum, exponential, sum, division then run row by row in cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pypto.backends.cpu.interchange import interchanged, related
from pypto.backends.cpu.loopir import CellItem, Control, Item, Nest, Scalar, Stmt
from pypto.backends.cpu.plan import Plan, may_alias, same_place
from pypto.backends.cpu.pull import ELSEWHERE, IndexMap, is_tile
from pypto.backends.cpu.reads import Reads, Uses, reads_of
from pypto.backends.cpu.storage import Storage
from pypto.ir.core import Op, Value
from pypto.ops.row import Effect
from pypto.ops.table import TABLE

MOST: Final = 128  # statements in open nests: each new one is compared with all of them


@dataclass
class Fuser:
    """Items of one region under construction; `nests` are those that may still grow, in program order."""

    plan: Plan
    storage: Storage
    items: list[Item] = field(default_factory=list)
    nests: list[Nest] = field(default_factory=list)
    reads: dict[Stmt, Reads] = field(default_factory=dict)

    def finish(self) -> list[Item]:
        self.close()
        return self.items

    def barrier(self, item: Item) -> None:
        self.close()
        self.items.append(item)

    def store(self, stmt: Stmt) -> None:
        """A store right after a cell that may do it itself; else like every other statement."""
        last = self.last()
        within = last.regions[-1] if isinstance(last, Control) else [last] if last is not None else []
        cell = next((item for item in reversed(within) if not is_pure(item)), None)
        self.add(stmt)
        if last is None or not isinstance(cell, CellItem):
            return
        read = self.reads[stmt].buffers
        if cell.stores(stmt, self.plan, last.op) or cell.finishes(self.nests[-1], read, self.plan, last.op):
            self.items.append(self.items.pop(self.items.index(last)))  # the scalars between are of the store
            self.nests[-1].spare = cell
            self.close()

    def last(self) -> CellItem | Control | None:
        """What came before some pure scalars, if nothing else did, and none of them is its own."""
        last = next((item for item in reversed([] if self.nests else self.items) if not is_pure(item)), None)
        after = self.items[self.items.index(last) + 1 :] if last is not None else []
        read = {v for item in after if isinstance(item, Scalar) for v in item.op.operands}
        return last if isinstance(last, CellItem | Control) and read.isdisjoint(last.op.results) else None

    def scalar(self, op: Op) -> None:
        """A scalar op goes before the open nests, unless it waits for one (it may read a tile of one element)."""
        early = TABLE[op.name].effect is Effect.PURE and not any(map(is_tile, op.operands))
        if not early or any(self.makes(nest, set(op.operands)) for nest in self.nests):
            self.close()
        self.items.append(Scalar(op))

    def makes(self, nest: Nest, values: set[Value]) -> bool:
        """True when the nest gives one of these scalars."""
        return any(s.result in values for s in nest.stmts if s.kind in ("reduce", "arg"))

    def add(self, stmt: Stmt) -> None:
        """Into the last nest that takes the statement, past nests that have nothing to do with it."""
        self.reads[stmt] = reads_of(stmt, self.storage.of)
        if sum(len(nest.stmts) for nest in self.nests) >= MOST:
            self.close()
        for nest in reversed(self.nests):
            if self.waits(nest, stmt):
                break
            if self.join(nest, stmt) or (interchanged(self, nest, stmt) and self.join(nest, stmt)):
                return
            if any(writes(a, self.used(b)) for o in nest.stmts for a, b in ((o, stmt), (stmt, o))):
                break
        self.nests.append(Nest([[stmt]], len(stmt.loops)))

    def waits(self, nest: Nest, stmt: Stmt) -> bool:
        """True when the statement needs the nest to have run, or may not run within it or before it."""
        return self.makes(nest, self.reads[stmt].scalars) or any(self.conflict(o, stmt) for o in nest.stmts)

    def used(self, stmt: Stmt) -> Uses:
        """Buffers that the statement reads or writes, with the loop positions that index them."""
        return self.reads[stmt].buffers + ([(stmt.buffer, stmt.written)] if stmt.buffer is not None else [])

    def close(self) -> None:
        for nest in self.nests:
            self.shrink(nest)
            self.items.append(nest)
        self.nests = []

    # --- legality -----------------------------------------------------------------------------------------------

    def join(self, nest: Nest, stmt: Stmt) -> bool:
        """Put the statement into the nest, if that is right."""
        last, earlier = nest.bodies[-1], [s for body in nest.bodies[:-1] for s in body]
        if last[0].signature == stmt.signature and last[0].kind != "scan":
            whole = len(stmt.loops)
            read = self.reads[stmt].buffers
            fits = all(self.common(o, stmt) >= whole and not (o.reduced and writes(o, read)) for o in last)
            fits = fits and not (earlier and set(stmt.loops[: nest.shared]) & set(stmt.reduced))
            if fits and all(self.common(o, stmt) >= nest.shared for o in earlier):
                last.append(stmt)
                return True
        shared = min(
            [
                nest.shared if len(nest.bodies) > 1 else len(stmt.loops),
                *(self.common_outer(o, stmt) for o in nest.stmts),
            ]
        )
        if shared < 1 or (len(nest.bodies) > 1 and shared < nest.shared) or not related(self, nest, stmt):
            return False
        nest.shared = shared
        nest.bodies.append([stmt])
        return True

    def common_outer(self, a: Stmt, b: Stmt) -> int:
        """Number of outer loops, none of them along the lanes or reduced, that both may share."""
        count = 0
        for x, y in zip(a.loops, b.loops, strict=False):
            special = x == a.lanes or y == b.lanes or x in a.reduced or y in b.reduced
            if special or a.domain[x] != b.domain[y] or "scan" in (a.kind, b.kind):
                break
            count += 1
        return min(count, self.common(a, b))

    def common(self, a: Stmt, b: Stmt) -> int:
        """Number of outer loops over which what flows between the two stays at one index."""
        limit = min(len(a.loops), len(b.loops))
        for writer, other in ((a, b), (b, a)):
            for buffer, index in self.used(other):
                if writer.buffer is not None and buffer.memory is writer.buffer.memory:
                    limit = min(limit, agreement(writer.written, index) if buffer is writer.buffer else 0)
        return limit

    def conflict(self, a: Stmt, b: Stmt) -> bool:
        """True when one writes memory that the other may touch elsewhere."""
        for x, y in ((a, b), (b, a)):
            if x.kind != "store":
                continue
            if y.kind == "store" and may_alias(self.plan.function, y.does, x.does):
                return True
            if any(self.meets(op, index, x) for op, index in self.reads[y].loads):
                return True
        return False

    def meets(self, load: Op, index: IndexMap, store: Stmt) -> bool:
        """True when a load may touch what a store writes, other than the same element at the same time."""
        in_step = index == store.index and same_place(load, store.does)
        return not in_step and may_alias(self.plan.function, load, store.does)

    # --- memory that fusion saves -------------------------------------------------------------------------------

    def shrink(self, nest: Nest) -> None:
        """Drop memory that lives only inside: whole buffers, or the dimensions of shared loops."""
        inside = nest.stmts
        low, high = min(s.position for s in inside), max(s.position for s in inside)
        for stmt in inside:
            for buffer in [stmt.buffer, *(b for b, _ in self.reads[stmt].buffers)]:
                if buffer is not None:
                    buffer.start, buffer.end = min(buffer.start, low), max(buffer.end, high)
        for body, stmt in ((b, s) for b in nest.bodies for s in b):
            v = stmt.value
            if v is None or v.op is None or not self.is_private(v, stmt, inside):
                continue
            others = (b for s in inside if s not in body for b, _ in self.reads[s].buffers)
            if not any(b is stmt.buffer for b in others):
                stmt.into.unused = True
                for s in (s for s in body if s.source is stmt.buffer):
                    s.source = None
            elif nest.shared and len(nest.bodies) > 1 and not stmt.into.dense:
                stmt.into.dropped = dropped_dims(stmt, nest.shared)

    def is_private(self, v: Value, stmt: Stmt, inside: list[Stmt]) -> bool:
        """True when the statement makes a value that is its buffer's only one, for readers in this nest alone."""
        if self.storage.of.get(v) is not stmt.buffer or len(self.storage.group[v]) != 1:
            return False
        fed = ((s.feeds, v is s.value) for s in inside if s.feeds is not None)
        ops = {s.op for s in inside} | {cell for cell, own in fed if cell.operands.count(v) == own}
        if any(b is stmt.buffer and ELSEWHERE in index for s in inside for b, index in self.reads[s].buffers):
            return False  # other elements of it are read, from memory
        views = any(b.view_of is stmt.buffer for b in self.storage.buffers)
        return not views and all(r in ops for r in self.plan.readers[v])


def writes(stmt: Stmt, used: Uses) -> bool:
    """True when a statement writes some of the memory that is used."""
    return stmt.buffer is not None and any(stmt.buffer.memory is buffer.memory for buffer, _ in used)


def is_pure(item: Item) -> bool:
    return isinstance(item, Scalar) and TABLE[item.op.name].effect is Effect.PURE


def agreement(written: IndexMap, read: IndexMap) -> int:
    """Number of outer loops that index both sides alike."""
    count = 0
    positions = {p for p in written if p is not None}
    while count in positions and read[written.index(count)] == count:
        count += 1
    return count


def dropped_dims(stmt: Stmt, shared: int) -> int:
    """Leading dimensions of the statement's buffer that run with the shared loops."""
    inner = (d for d, p in enumerate(stmt.written) if p is not None and p >= shared)
    return next(inner, len(stmt.written))
