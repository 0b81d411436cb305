"""Tile IR to Loop IR: statements in program order, fused into nests that share what loops they can."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from pypto.backends.cpu.fuse import Fuser
from pypto.backends.cpu.loopir import Buffer, Control, Item, Matmul, Nest, Schedule, Sort, Stay, Stmt
from pypto.backends.cpu.operands import Direct, direct_of, dot_dtype, words_of
from pypto.backends.cpu.plan import REDUCTIONS, SCANS, Plan, is_transposed, make_plan
from pypto.backends.cpu.pull import PICKS, IndexMap, can_pull, is_tile, operand_map, pulled_operands
from pypto.backends.cpu.sharing import stay
from pypto.backends.cpu.storage import Storage, is_view, item_bytes, make_storage, maps_to, padded, place
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import int32
from pypto.ops.memory import Access
from pypto.ops.row import Effect
from pypto.ops.table import TABLE
from pypto.passes.pattern import constant_of

_ENOUGH = 16  # elements that lanes along another dimension than the last need


def make_schedule(function: Function, target: CpuTarget) -> Schedule:
    plan = make_plan(function, target)
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
            shape = Access.of(op).shape
            fuser.add(nest_stmt("store", op, None, shape, self.plan.position[op], lanes=self.orientation(op, shape)))
        elif not op.results or not is_tile(op.results[0]):
            fuser.scalar(op)
        elif op.results[0] in self.plan.kept and not is_view(op.results[0]):
            fuser.add(self.compute(op.results[0], self.storage.of[op.results[0]], self.plan.position[op]))

    def compute(self, v: Value, buffer: Buffer, position: int) -> Stmt:
        stmt = nest_stmt("compute", v.op, v, v.shape, position, buffer)
        stmt.width = buffer.panel
        return stmt

    def one_by_one(self, op: Op, fuser: Fuser) -> None:
        """Element by element: no two lanes touch memory at the same time; what they count is found for many at once."""
        counts, result, position = op.name == "histogram", op.results[0], self.plan.position[op]
        buffer, over = self.storage.of[result], op.operands[0] if counts else result
        if counts:
            fuser.add(nest_stmt("zero", None, None, result.shape, position, buffer))
        stmt = nest_stmt("count" if counts else "atomic", op, None, over.shape, position, buffer)
        stmt.lanes = stmt.lanes if counts else -1
        fuser.barrier(Nest([[stmt]], 0))

    def reduction(self, op: Op) -> Stmt:
        axes: Any = op.attrs["axes"]
        kind, buffer = "arg" if op.name.startswith("arg") else "reduce", self.storage.of.get(op.results[0])
        shape = op.operands[0].shape
        lanes = self.orientation(op, shape)
        return nest_stmt(kind, op, None, shape, self.plan.position[op], buffer, axes, lanes)

    def orientation(self, op: Op, shape: tuple[int, ...]) -> int:
        """Dimension for the lanes: that in which a store's elements are neighbours, or most of what is read."""
        usual = max((d for d, n in enumerate(shape) if n > 1), default=-1)
        found: Counter[int | None] = Counter()
        if op.name == "tile_store":
            found.update(d for d, s in enumerate(Access.of(op).strides) if constant_of(s) == 1 and shape[d] > 1)
        if not found:
            identity = tuple(range(len(shape)))
            seen = {(v, operand_map(op, v, identity)): None for v in pulled_operands(op)}
            found.update(d for v, index in list(seen) for d in self.neighbours(v, index, seen))
        best = max(range(len(shape)), key=lambda d: found[d], default=usual)
        return best if found[best] > found[usual] and shape[best] >= min(_ENOUGH, shape[usual]) else usual

    def neighbours(self, v: Value, index: IndexMap, seen: dict[tuple[Value, IndexMap], None]) -> list[int | None]:
        """For each place that computing a value reads from, the dimension along which its elements are neighbours."""
        if v in self.storage.of:
            return [p for p, n in zip(index, v.shape, strict=True) if n > 1][-1:]
        if v.op is None or v.op.name in PICKS:
            return []
        if v.op.name == "tile_load":
            strides = Access.of(v.op).strides
            return [p for p, s, n in zip(index, strides, v.shape, strict=True) if constant_of(s) == 1 and n > 1]
        new = [(x, operand_map(v.op, x, index)) for x in pulled_operands(v.op)]
        new = [leaf for leaf in dict.fromkeys(new) if leaf not in seen]
        seen.update(dict.fromkeys(new))
        return [d for x, i in new for d in self.neighbours(x, i, seen)]

    def scan(self, op: Op) -> Stmt:
        axis: Any = op.attrs["axis"]
        buffer, position = self.storage.of[op.results[0]], self.plan.position[op]
        stmt = nest_stmt("scan", op, None, op.operands[0].shape, position, buffer, (axis,))
        stmt.reduced = (axis,)
        if op.attrs["reverse"] or axis != stmt.lanes:
            kept = [d for d in stmt.loops if d != axis]
            stmt.lanes = kept[-1] if kept else -1
        return stmt

    def dot(self, op: Op, fuser: Fuser) -> None:
        position, per = self.plan.position[op], words_of(op, self.storage.target)
        (a, b, *_), c = op.operands, self.storage.of[op.results[0]]
        fresh = len(op.operands) < 3 or constant_of(op.operands[2]) == 0
        if not fresh and self.storage.of.get(op.operands[2]) is not c:
            fuser.add(self.compute(op.operands[2], c, position))
        left = self.direct(a) or self.storage.of[a]
        block = None
        source, turned, panels = self.right(b, per, fuser, position)
        if isinstance(left, Direct) or per == 4:  # of bytes, the signs are flipped on the way
            shape = self.storage.target.registers, a.shape[-1]
            block = self.storage.new(a.tile.elem, shape, position, position, whole_rows=True, compact=True)
        fuser.barrier(Matmul(op, left, panels, c, per, block, source, turned, fresh, self.keep(op, source, panels)))

    def keep(self, op: Op, source: Buffer | Direct | None, panels: Buffer) -> Stay | None:
        """Room for the panels of all steps, where other programs can use them, too."""
        size = panels.elements * item_bytes(panels.elem)
        found = stay(self.plan, op, source, size) if isinstance(source, Direct) else None
        if found is not None:
            panels.places, panels.start, panels.end = found.places, -1, len(self.plan.position)
        return found

    def direct(self, v: Value) -> Direct | None:
        """Where a dot reads its operand itself."""
        found = direct_of(v) if v in self.plan.direct else None
        return found[0] if found is not None and self.plan.kept.isdisjoint(found[1]) else None

    def right(self, b: Value, per: int, fuser: Fuser, position: int) -> tuple[Buffer | Direct | None, bool, Buffer]:
        """What the panels of the right operand are filled from, whether its rows are their columns, and the panels."""
        panels = self.panels(b, per, position)
        direct = self.direct(b)
        if direct is not None:
            return direct, direct.turned, panels
        if is_transposed(b) and b.op is not None and (per or is_held_as_is(b)):
            source = self.storage.of[b.op.operands[0]]
            if not source.dense and source.view_of is None:
                return source, True, panels
        if not per:
            fuser.add(self.compute(b, panels, position))
            return None, False, panels
        source = self.storage.new(b.tile.elem, b.shape, position, position, whole_rows=True, compact=True)
        fuser.add(self.compute(b, source, position))
        return source, False, panels

    def panels(self, b: Value, per: int, position: int) -> Buffer:
        """Memory for the right operand; below the words of bytes stands what the signs of the left one add."""
        *stack, rows, columns = b.shape
        lanes = self.storage.lanes(dot_dtype(b.dtype))
        width = lanes * (2 if columns > lanes else 1)
        elem, words = (int32, rows // per) if per else (b.tile.elem, rows)
        panels = self.storage.new(elem, (*stack, words, columns), position, position, width)
        panels.sizes[-2] = padded(words, lanes) + (per == 4)
        return panels

    def control(self, op: Op, fuser: Fuser) -> None:
        results = [self.storage.of.get(v) for v in op.results]
        if op.name == "if":
            regions = [self.region(r, list(zip(r.terminator.operands, results, strict=True))) for r in op.regions]
            fuser.barrier(Control(op, regions))
            return
        inits = op.operands[3:] if op.name == "for" else op.operands
        last = op.regions[-1]
        args = last.args[len(last.args) - len(inits) :]
        homes = [self.storage.of.get(v) for v in args]
        self.move(fuser, list(zip(inits, homes, strict=True)), self.plan.position[op])
        before = [self.region(r) for r in op.regions[:-1]]
        body = self.region(last, list(zip(last.terminator.operands, homes, strict=True)))
        fuser.barrier(Control(op, [*before, body]))
        for arg, home, result in zip(args, homes, results, strict=True):
            if result is not None and home is not None and result is not home:
                fuser.add(copy(arg, result, self.plan.end[op]))

    def move(self, fuser: Fuser, pairs: list[tuple[Value, Buffer | None]], position: int) -> None:
        """Values into buffers as if all at once: what reads another target goes through memory of its own first."""
        moves = [(v, b) for v, b in pairs if b is not None and self.storage.of.get(v) is not b]
        targets = {b for _, b in moves}
        ready: list[Stmt] = []
        for v, b in moves:
            made = v.op is not None and v not in self.plan.kept
            stmt = self.compute(v, b, position) if made else copy(v, b, position)
            if self.reads(v) & (targets - {b}) or self.reads_askew(v, b):
                stmt.buffer = self.storage.new(v.tile.elem, v.shape, position, position)
                fuser.add(stmt)
                stmt = copy(v, b, position, stmt.buffer)
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


def is_held_as_is(v: Value) -> bool:
    """True when registers and scratch hold a value as a dot multiplies it."""
    return item_bytes(v.tile.elem) == dot_dtype(v.dtype).itemsize


def nest_stmt(kind: str, op: Op | None, value: Value | None, domain: tuple[int, ...], position: int,
              buffer: Buffer | None = None, reduced: tuple[int, ...] = (), lanes: int = -1) -> Stmt:
    """A statement with its loops in order: kept dimensions, then reduced ones, the lanes innermost of their kind."""
    dims = [d for d, n in enumerate(domain) if n > 1]
    lanes = lanes if lanes >= 0 or not dims else dims[-1]
    dims.sort(key=lambda d: d == lanes)
    kept = [d for d in dims if d not in reduced]
    inner = [d for d in dims if d in reduced]
    return Stmt(kind, op, value, domain, (*kept, *inner), lanes, tuple(inner), buffer, position=position)


def copy(v: Value, buffer: Buffer, position: int, source: Buffer | None = None) -> Stmt:
    """A value from its memory, or another one, into a buffer."""
    stmt = nest_stmt("compute", None, v, v.shape, position, buffer)
    stmt.source = source
    return stmt
