"""Fuses neighbouring statements into nests: all loops where they can, or the outer loops.

Two statements share a loop when everything that flows between them stays at one index of it, and no reduction over
it lies between. Chains such as load, maximum, exponential, sum, division then run row by row in cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto.backends.cpu.loopir import Buffer, Item, Nest, Scalar, Stmt
from pypto.backends.cpu.plan import Plan, may_alias, same_place
from pypto.backends.cpu.pull import ELSEWHERE, IndexMap, can_pull, is_tile, operand_map, pulled_operands
from pypto.backends.cpu.storage import Storage
from pypto.ir.core import Op, Value
from pypto.ops.row import Effect
from pypto.ops.table import TABLE


@dataclass
class Reads:
    """What a statement reads: buffers with the loop positions that index them, memory, and scalars."""

    buffers: list[tuple[Buffer, IndexMap]] = field(default_factory=list)
    loads: list[Op] = field(default_factory=list)
    scalars: set[Value] = field(default_factory=set)
    values: set[Value] = field(default_factory=set)


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

    def scalar(self, op: Op) -> None:
        """A scalar op goes before the open nests, unless it waits for one (it may read a tile of one element)."""
        early = TABLE[op.name].effect is Effect.PURE and not any(map(is_tile, op.operands))
        if not early or any(self.makes(nest, set(op.operands)) for nest in self.nests):
            self.close()
        self.items.append(Scalar(op))

    def makes(self, nest: Nest, values: set[Value]) -> bool:
        """True when the nest gives one of these scalars."""
        return any(s.result in values for s in statements(nest) if s.kind in ("reduce", "arg"))

    def add(self, stmt: Stmt) -> None:
        """Into the last nest that takes the statement, past nests that have nothing to do with it."""
        self.reads[stmt] = self.all_reads(stmt)
        for nest in reversed(self.nests):
            if self.join(nest, stmt):
                return
            if not self.independent(nest, stmt):
                break
        self.nests.append(Nest([[stmt]], len(stmt.loops)))

    def independent(self, nest: Nest, stmt: Stmt) -> bool:
        if self.makes(nest, self.reads[stmt].scalars) or any(self.memory_conflict(o, stmt) for o in statements(nest)):
            return False
        return not any(self.touches(a, b) for o in statements(nest) for a, b in ((o, stmt), (stmt, o)))

    def touches(self, a: Stmt, b: Stmt) -> bool:
        """True when `b` reads or writes what `a` writes."""
        used = [buffer for buffer, _ in self.reads[b].buffers] + ([b.buffer] if b.buffer is not None else [])
        return a.buffer is not None and any(same_memory(a.buffer, buffer) for buffer in used)

    def close(self) -> None:
        for nest in self.nests:
            self.shrink(nest)
            self.items.append(nest)
        self.nests = []

    # --- legality -----------------------------------------------------------------------------------------------

    def join(self, nest: Nest, stmt: Stmt) -> bool:
        """Put the statement into the nest, if that is right."""
        others = statements(nest)
        if self.makes(nest, self.reads[stmt].scalars) or any(self.memory_conflict(o, stmt) for o in others):
            return False
        last = nest.bodies[-1]
        earlier = [s for body in nest.bodies[:-1] for s in body]
        if last[0].signature == stmt.signature and last[0].kind != "scan":
            whole = len(stmt.loops)
            fits = all(self.common(o, stmt) >= whole and not (o.reduced and self.depends(o, stmt)) for o in last)
            if fits and all(self.common(o, stmt) >= nest.shared for o in earlier):
                last.append(stmt)
                return True
        shared = min([nest.shared if len(nest.bodies) > 1 else len(stmt.loops),
            *(self.common_outer(o, stmt) for o in others)])
        if shared < 1 or (len(nest.bodies) > 1 and shared < nest.shared):
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
        for writer, reader in ((a, b), (b, a)):
            if writer.buffer is None:
                continue
            written = write_map(writer)
            for buffer, index in self.reads[reader].buffers:
                if same_memory(buffer, writer.buffer):
                    limit = min(limit, agreement(written, index) if buffer is writer.buffer else 0)
        if a.buffer is not None and b.buffer is not None and same_memory(a.buffer, b.buffer):
            limit = min(limit, agreement(write_map(a), write_map(b)) if a.buffer is b.buffer else 0)
        return limit

    def depends(self, a: Stmt, b: Stmt) -> bool:
        return a.buffer is not None and any(same_memory(a.buffer, buffer) for buffer, _ in self.reads[b].buffers)

    def memory_conflict(self, a: Stmt, b: Stmt) -> bool:
        """True when one writes memory that the other may touch elsewhere."""
        for x, y in ((a, b), (b, a)):
            if x.kind != "store" or x.op is None:
                continue
            touched = self.reads[y].loads + ([y.op] if y.kind == "store" and y.op is not None else [])
            if any(may_alias(self.plan.function, op, x.op) and not (op is not y.op and same_place(op, x.op))
                    for op in touched):
                return True
        return False

    # --- what a statement reads ---------------------------------------------------------------------------------

    def all_reads(self, stmt: Stmt) -> Reads:
        reads = Reads()
        index: IndexMap = tuple(stmt.loops.index(d) if d in stmt.loops else None for d in range(len(stmt.domain)))
        if stmt.source is not None:
            reads.buffers.append((stmt.source, index))
            return reads
        seen: set[tuple[Value, IndexMap]] = set()
        if stmt.kind == "compute" and stmt.value is not None:
            self.pull(stmt.value, index, reads, seen, stmt.op is not None and stmt.value in self.plan.kept
                      and self.storage.of[stmt.value] is stmt.buffer)
        elif stmt.op is not None:
            reads.scalars.update(v for v in stmt.op.operands if not is_tile(v))
            for v in pulled_operands(stmt.op):
                self.pull(v, tuple(None if n == 1 else i for n, i in zip(v.shape, index, strict=True)), reads, seen)
        return reads

    def pull(self, v: Value, index: IndexMap, reads: Reads, seen: set[tuple[Value, IndexMap]],
            inside: bool = False) -> None:
        """Follow a value down to buffers and loads; `inside` starts behind the value's own buffer."""
        if (v, index) in seen:
            return
        seen.add((v, index))
        if v in self.storage.of and not inside:
            reads.buffers.append((self.storage.of[v], index))
            reads.values.add(v)
            return
        op = v.op
        assert op is not None and can_pull(op)
        if op.name == "tile_load":
            reads.loads.append(op)
        reads.scalars.update(o for o in op.operands if not is_tile(o))
        for operand in pulled_operands(op):
            self.pull(operand, operand_map(op, operand, index), reads, seen)

    # --- memory that fusion saves -------------------------------------------------------------------------------

    def shrink(self, nest: Nest) -> None:
        """Drop memory that lives only inside: whole buffers, or the dimensions of shared loops."""
        inside = statements(nest)
        low, high = min(s.position for s in inside), max(s.position for s in inside)
        for stmt in inside:
            for buffer in [stmt.buffer, *(b for b, _ in self.reads[stmt].buffers)]:
                if buffer is not None:
                    buffer.start, buffer.end = min(buffer.start, low), max(buffer.end, high)
        for body in nest.bodies:
            for stmt in body:
                v = stmt.value
                if v is None or v.op is None or not self.is_private(v, stmt, inside):
                    continue
                assert stmt.buffer is not None
                if all(self.reads_value(s, v) is False for b in nest.bodies if b is not body for s in b):
                    stmt.buffer.unused = True
                elif nest.shared and len(nest.bodies) > 1 and not stmt.buffer.dense:
                    stmt.buffer.dropped = dropped_dims(stmt, nest.shared)

    def is_private(self, v: Value, stmt: Stmt, inside: list[Stmt]) -> bool:
        """True when the statement makes a value that is its buffer's only one, for readers in this nest alone."""
        if self.storage.of.get(v) is not stmt.buffer or len(self.storage.group[v]) != 1:
            return False
        ops = {s.op for s in inside}
        if any(b is stmt.buffer and ELSEWHERE in index for s in inside for b, index in self.reads[s].buffers):
            return False  # other elements of it are read, from memory
        views = any(b.view_of is stmt.buffer for b in self.storage.buffers)
        return not views and all(r in ops for r in self.plan.readers[v])

    def reads_value(self, stmt: Stmt, v: Value) -> bool:
        return v in self.reads[stmt].values


def statements(nest: Nest) -> list[Stmt]:
    return [s for body in nest.bodies for s in body]


def write_map(stmt: Stmt) -> IndexMap:
    """Loop positions by dimension of the buffer that the statement writes."""
    full: list[int | None] = [stmt.loops.index(d) if d in stmt.loops else None for d in range(len(stmt.domain))]
    if stmt.kind in ("reduce", "arg") and stmt.op is not None:
        axes = stmt.op.attrs["axes"]
        assert isinstance(axes, tuple)
        if stmt.op.attrs["keep_dims"]:
            return tuple(None if d in axes else full[d] for d in range(len(full)))
        return tuple(full[d] for d in range(len(full)) if d not in axes)
    return tuple(full)


def same_memory(a: Buffer, b: Buffer) -> bool:
    return (a.view_of or a) is (b.view_of or b)


def agreement(written: IndexMap, read: IndexMap) -> int:
    """Number of outer loops that index both sides alike."""
    count = 0
    positions = {p for p in written if p is not None}
    while count in positions and read[written.index(count)] == count:
        count += 1
    return count


def dropped_dims(stmt: Stmt, shared: int) -> int:
    """Leading dimensions of the statement's buffer that run with the shared loops."""
    index = write_map(stmt)
    count = 0
    while count < len(index) and (index[count] is None or index[count] < shared):  # type: ignore[operator]
        count += 1
    return count
