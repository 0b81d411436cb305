"""Tile IR to Loop IR: statements in program order, fused into nests that share what loops they can."""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.cpu.fuse import Fuser
from pypto.backends.cpu.loopir import Buffer, Control, Item, Matmul, Nest, Pack, Schedule, Sort, Stmt, Words
from pypto.backends.cpu.plan import REDUCTIONS, SCANS, Plan, is_transposed, make_plan
from pypto.backends.cpu.pull import can_pull, is_tile
from pypto.backends.cpu.storage import Storage, dot_dtype, is_view, make_storage, maps_to, padded, place
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.words import words_of
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import int32
from pypto.ops.memory import Access
from pypto.ops.row import Effect
from pypto.ops.table import TABLE


def make_schedule(function: Function, target: CpuTarget) -> Schedule:
    plan = make_plan(function)
    storage = make_storage(plan, target)
    items = Scheduler(plan, storage).region(function.body)
    return Schedule(items, storage.buffers, place(storage.buffers), storage.of)


@dataclass
class Scheduler:
    """Walks regions in program order and hands statements to a `Fuser`."""

    plan: Plan
    storage: Storage

    def region(self, region: Region, targets: list[tuple[Value, Buffer | None]] | None = None) -> list[Item]:
        """Items of a region; `targets` pair what it yields with the buffers that take it."""
        fuser = Fuser(self.plan, self.storage)
        for op in region.body:
            self.visit(op, fuser)
        self.move(fuser, targets or [], self.plan.position[region.terminator])
        return fuser.finish()

    def visit(self, op: Op, fuser: Fuser) -> None:
        if op.regions:
            self.control(op, fuser)
        elif op.name == "dot":
            self.dot(op, fuser)
        elif op.name == "sort_keys":
            fuser.add(self.compute(op.operands[0], self.storage.of[op.results[0]], self.plan.position[op]))
            fuser.barrier(Sort(self.storage.of[op.results[0]]))
        elif op.name in REDUCTIONS and is_tile(op.operands[0]):
            fuser.add(self.reduction(op))
        elif op.name in SCANS:
            fuser.add(self.scan(op))
        elif op.name == "histogram" or (TABLE[op.name].effect is Effect.ATOMIC and is_tile(op.results[0])):
            self.one_by_one(op, fuser)
        elif op.name == "tile_store":
            fuser.add(nest_stmt("store", op, None, Access.of(op).shape, self.plan.position[op]))
        elif not op.results or not is_tile(op.results[0]):
            fuser.scalar(op)
        elif op.results[0] in self.plan.kept and not is_view(op.results[0]):
            fuser.add(self.compute(op.results[0], self.storage.of[op.results[0]], self.plan.position[op]))

    def compute(self, v: Value, buffer: Buffer, position: int) -> Stmt:
        stmt = nest_stmt("compute", v.op, v, v.shape, position)
        stmt.buffer = buffer
        stmt.width = buffer.panel
        return stmt

    def one_by_one(self, op: Op, fuser: Fuser) -> None:
        """Element by element: no two lanes touch memory at the same time."""
        counts, result, position = op.name == "histogram", op.results[0], self.plan.position[op]
        over = op.operands[0] if counts else result
        stmt = nest_stmt("count" if counts else "atomic", op, None, over.shape, position)
        stmt.lanes, stmt.buffer = -1, self.storage.of[result]
        if counts:
            fuser.add(nest_zero(result.shape, stmt.buffer, position))
        fuser.barrier(Nest([[stmt]], 0))

    def reduction(self, op: Op) -> Stmt:
        axes = op.attrs["axes"]
        assert isinstance(axes, tuple)
        kind = "arg" if op.name.startswith("arg") else "reduce"
        stmt = nest_stmt(kind, op, None, op.operands[0].shape, self.plan.position[op], axes)
        stmt.buffer = self.storage.of.get(op.results[0])
        return stmt

    def scan(self, op: Op) -> Stmt:
        axis = op.attrs["axis"]
        assert isinstance(axis, int)
        shape = op.operands[0].shape
        kept = [d for d in range(len(shape)) if shape[d] > 1 and d != axis]
        loops = (*kept, axis) if shape[axis] > 1 else tuple(kept)
        stmt = Stmt("scan", op, None, shape, loops, kept[-1] if kept else -1, (axis,), self.storage.of[op.results[0]])
        stmt.position = self.plan.position[op]
        return stmt

    def dot(self, op: Op, fuser: Fuser) -> None:
        position = self.plan.position[op]
        a, b = op.operands[:2]
        c = self.storage.of[op.results[0]]
        if len(op.operands) < 3:
            fuser.add(nest_zero(op.results[0].shape, c, position))
        elif self.storage.of.get(op.operands[2]) is not c:
            fuser.add(self.compute(op.operands[2], c, position))
        left, right, per = self.storage.of[a], self.packed(b, fuser, position), words_of(op, self.storage.target)
        if per:
            left, right = self.words(left, per, fuser, position), self.words(right, per, fuser, position)
        fuser.barrier(Matmul(op, left, right, c, per))

    def words(self, source: Buffer, per: int, fuser: Fuser, position: int) -> Buffer:
        """An operand in words of several numbers; a row below those of bytes takes what their signs add."""
        *stack, rows, columns = source.shape
        sizes = (-(-rows // per) + (per == 4), columns) if source.panel else (rows, -(-columns // per))
        target = self.storage.new(int32, (*stack, *sizes), position, position, source.panel, whole_rows=True)
        fuser.barrier(Words(source, target, per, not source.panel))
        return target

    def packed(self, b: Value, fuser: Fuser, position: int) -> Buffer:
        """The right operand in panels, made just before the dot."""
        dtype = dot_dtype(b.dtype)
        lanes = self.storage.lanes(dtype)
        width = lanes * (2 if b.shape[-1] > lanes else 1)
        target = self.storage.new(b.tile.elem, b.shape, position, position, width)
        target.sizes[-2] = padded(b.shape[-2], lanes)
        if is_transposed(b) and b.op is not None and len(b.shape) == 2 and self.storage.lanes(b.tile.elem) == lanes:
            source = self.storage.of[b.op.operands[0]]
            if not source.dense and source.view_of is None:
                source.sizes[-2] = padded(source.rows, lanes)
                fuser.barrier(Pack(source, target))
                return target
        fuser.add(self.compute(b, target, position))
        return target

    def control(self, op: Op, fuser: Fuser) -> None:
        results = [self.storage.of.get(v) for v in op.results]
        if op.name == "if":
            regions = [self.region(r, list(zip(r.terminator.operands, results, strict=True))) for r in op.regions]
            fuser.barrier(Control(op, regions))
            return
        inits = op.operands[3:] if op.name == "for" else op.operands
        args = op.regions[-1].args[len(op.regions[-1].args) - len(inits) :]
        homes = [self.storage.of.get(v) for v in args]
        self.move(fuser, list(zip(inits, homes, strict=True)), self.plan.position[op])
        last = op.regions[-1]
        regions = [self.region(r) for r in op.regions[:-1]]
        regions.append(self.region(last, list(zip(last.terminator.operands, homes, strict=True))))
        fuser.barrier(Control(op, regions))
        for v, home, result in zip(op.results, homes, results, strict=True):
            if result is not None and home is not None and result is not home:
                fuser.add(self.copy(args[op.results.index(v)], result, self.plan.end[op]))

    def copy(self, v: Value, buffer: Buffer, position: int) -> Stmt:
        stmt = nest_stmt("compute", None, v, v.shape, position)
        stmt.buffer = buffer
        return stmt

    def move(self, fuser: Fuser, pairs: list[tuple[Value, Buffer | None]], position: int) -> None:
        """Values into buffers as if all at once: what reads another target goes through memory of its own first."""
        moves = [(v, b) for v, b in pairs if b is not None and self.storage.of.get(v) is not b]
        targets = {b for _, b in moves}
        ready: list[Stmt] = []
        for v, b in moves:
            stmt = self.compute(v, b, position) if v.op is not None and v not in self.plan.kept else self.copy(v, b,
                position)
            if self.reads(v) & (targets - {b}) or self.reads_askew(v, b):
                temporary = self.storage.new(v.tile.elem, v.shape, position, position)
                stmt.buffer = temporary
                fuser.add(stmt)
                stmt = self.copy(v, b, position)
                stmt.source = temporary
            ready.append(stmt)
        for stmt in ready:
            fuser.add(stmt)

    def reads(self, v: Value) -> set[Buffer]:
        """Buffers that computing `v` reads."""
        if v in self.storage.of:
            return {self.storage.of[v]}
        found: set[Buffer] = set()
        for operand in v.op.operands if v.op is not None and can_pull(v.op) else ():
            found |= self.reads(operand)
        return found

    def reads_askew(self, v: Value, buffer: Buffer) -> bool:
        """True when computing `v` reads elements of `buffer` other than the one it would write there."""
        if v in self.storage.of or v.op is None:
            return False
        identity = tuple(range(len(v.shape)))
        members = [m for m, b in self.storage.of.items() if b is buffer]
        return any(index != identity for m in members for index in maps_to(self.plan, v.op, identity, m, {}))


def nest_stmt(kind: str, op: Op | None, value: Value | None, domain: tuple[int, ...], position: int,
              reduced: tuple[int, ...] = ()) -> Stmt:
    """A statement with its loops in order: kept dimensions, then reduced ones, the lanes innermost of their kind."""
    dims = [d for d, n in enumerate(domain) if n > 1]
    lanes = dims[-1] if dims else -1
    kept = [d for d in dims if d not in reduced]
    inner = [d for d in dims if d in reduced]
    return Stmt(kind, op, value, domain, (*kept, *inner), lanes, tuple(inner), position=position)


def nest_zero(shape: tuple[int, ...], buffer: Buffer, position: int) -> Stmt:
    stmt = nest_stmt("zero", None, None, shape, position)
    stmt.buffer = buffer
    return stmt
