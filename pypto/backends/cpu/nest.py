"""Emits a nest: loops over chunks of lanes, what is read computed where it is read, reductions in registers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pypto.backends.cpu.access import AccessEmitter
from pypto.backends.cpu.atomics import atomic
from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.loopir import Buffer, Nest, Stmt
from pypto.backends.cpu.memory import Chunk
from pypto.backends.cpu.plan import may_alias
from pypto.backends.cpu.pull import PICKS, IndexMap, is_tile, operand_map
from pypto.backends.cpu.reductions import Accumulator, Partial, finished, joining
from pypto.backends.cpu.storage import item_bytes
from pypto.errors import CompilerBug
from pypto.ir.core import Function, Op, Value
from pypto.ir.types import DType, PtrType, float32, int32, int64
from pypto.ops.memory import Access
from pypto.ops.table import TABLE

_AS_IS = ("where", "neg", "maximum", "minimum", "cast", "bitcast")  # results of these need no rounding to 16 bits


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of the lanes' loop that runs with one width."""

    start: int
    stop: int
    width: int
    tail: int = 0


class NestEmitter:
    """Emits nests over an environment of scalars and the addresses of buffers."""

    def __init__(self, e: LaneEmitter, function: Function, env: dict[Value, Lanes], buffers: dict[Value, Buffer],
                 base: Callable[[Buffer], Lanes]) -> None:
        self.e = e
        self.w = e.w
        self.function = function
        self.env = env
        self.buffers = buffers
        self.base = base
        self.memory = AccessEmitter(e, env.__getitem__)
        self.own: set[Value] = set()  # values that the running body computes, not reads
        self.stores: list[Op] = []  # of the running nest
        self.programs = e.const(0, int64)  # of the whole grid
        self.streaming: Lanes | None = None  # condition under which the nest's stores go past the caches
        self.streams = False  # some store of the kernel may
        self.last: dict[Op, Nest] = {}  # where a program's loads are computed for the last time
        self.prefetching: Nest | None = None  # the running nest, if a program runs it once
        self.rough = False  # tiles of the nest may exist in part, not only as a whole

    def emit(self, nest: Nest, once: bool = False) -> None:
        """All versions of a nest: with masks at the edges, without inside, streaming for outputs beyond the caches.

        `once` says that a program runs the nest once, so that its stores and the grid tell how much it writes.
        """
        stmts = [s for body in nest.bodies for s in body]
        self.prefetching = nest if once else None
        accesses = [Access.of(op) for s in stmts for op in self.ops(s) if op.name in ("tile_load", "tile_store")]
        self.memory.written = {s.buffer.view_of or s.buffer for s in stmts if s.buffer is not None}
        self.stores = [s.op for s in stmts if s.kind == "store" and s.op is not None]
        with self.w.based():
            inside = self.all_of([c for c in map(self.memory.interior, accesses) if c is not None])
            self.streaming = self.far() if once else None
        self.rough = any(n > 1 and not self.memory.inside(a, d) for a in accesses for d, n in enumerate(a.shape))
        if inside is None or any(map(self.memory.outside, accesses)):
            results = self.version(nest, inside is not None)
        else:
            results = self.w.branch(inside.text, [lambda: self.version(nest, False), lambda: self.version(nest, True)])
        ended = (s for s in stmts if s.kind in ("reduce", "arg") and s.buffer is None)
        finals = [s.op.results[0] for s in ended if s.op is not None]
        self.env.update(zip(finals, results, strict=True))

    def prefetch_in(self, nests: Iterable[Nest]) -> None:
        """Say which nests a program runs once: the last to load a tile asks for the next program's, too."""
        stmts = [(nest, stmt) for nest in nests for body in nest.bodies for stmt in body]
        self.last = {op: nest for nest, stmt in stmts for op in self.ops(stmt) if op.name == "tile_load"}

    def all_of(self, conditions: list[Lanes]) -> Lanes | None:
        return functools.reduce(self.e.and_, conditions) if conditions else None

    def far(self) -> Lanes | None:
        """Condition under which stores go past the caches: all aligned, and more of them than the last level holds."""
        conditions = [self.memory.streamable(Access.of(op), self.programs) for op in self.stores]
        return self.all_of([c for c in conditions if c is not None]) if None not in conditions else None

    def versions(self, body: list[Stmt], at: Chunk) -> list[Lanes]:
        """The body; where it may store past the caches, both ways."""
        if self.streaming is None or at.masked or not any(s.kind == "store" for s in body):
            return self.body(body, at)
        self.streams = True
        sides = [lambda: self.body(body, replace(at, streaming=True)), lambda: self.body(body, at)]
        return self.w.branch(self.streaming.text, sides)

    def ops(self, stmt: Stmt) -> list[Op]:
        """The ops that the statement computes."""
        found: dict[Op, None] = {}

        def walk(v: Value, inside: bool) -> None:
            if not is_tile(v) or v.op is None or (v in self.buffers and not inside) or v.op in found:
                return
            found[v.op] = None
            for operand in v.op.operands:
                walk(operand, False)

        if stmt.value is not None and stmt.source is None:
            walk(stmt.value, stmt.op is not None and self.buffers.get(stmt.value) is stmt.buffer)
        elif stmt.op is not None and stmt.kind != "compute":
            found[stmt.op] = None
            for v in stmt.op.operands:
                walk(v, False)
        return list(found)

    def version(self, nest: Nest, masked: bool) -> list[Lanes]:
        with self.w.based():
            at = Chunk([], -1, 1, 0, masked)
            shared = nest.shared if len(nest.bodies) > 1 else 0
            sizes = nest.bodies[0][0].sizes[:shared]
            results: list[Lanes] = []
            self.outer(nest, sizes, at, results)
            return results

    def outer(self, nest: Nest, sizes: tuple[int, ...], at: Chunk, results: list[Lanes]) -> None:
        """The shared loops, then every body in turn."""
        if sizes:
            with self.w.loop("0", str(sizes[0]), "1") as i:
                self.outer(nest, sizes[1:], replace(at, index=[*at.index, i]), results)
            return
        for body in nest.bodies:
            self.own = {s.value for s in body if s.kind == "compute" and s.op is not None and s.value is not None
                        and self.buffers.get(s.value) is s.buffer}
            results += self.versions(body, at)

    # --- one body -----------------------------------------------------------------------------------------------

    def body(self, body: list[Stmt], at: Chunk) -> list[Lanes]:
        """All remaining loops around the statements; gives the scalars that reductions end in."""
        first = body[0]
        lanes = first.loops.index(first.lanes) if first.lanes in first.loops else -1
        parts = self.parts(body, self.registers(body) if self.rough or not at.masked else 1) if lanes >= 0 else []
        done: list[Lanes] = []
        self.loops(body, replace(at, lanes=lanes), parts, {}, done)
        return done

    def registers(self, body: list[Stmt]) -> int:
        """Registers per chunk: several hide latencies, but long chains of mathematics have enough to do in few."""
        return 2 if any(TABLE[op.name].ulp for s in body for op in self.ops(s)) else 4

    def parts(self, body: list[Stmt], registers: int) -> list[Part]:
        """The lanes' loop in chunks of several registers, then one register, then a masked rest."""
        size = body[0].domain[body[0].lanes]
        lanes = self.target_lanes(body)
        while lanes > 1 and lanes // 2 >= size:
            lanes //= 2
        wide = body[0].width or lanes * registers
        main = size // wide * wide
        full = main + (size - main) // lanes * lanes
        if body[0].width:  # panels are written whole; what lies past the tile is never read
            parts = [Part(0, main, wide), Part(main, size, wide, size - main)]
        else:
            parts = [Part(0, main, wide), Part(main, full, lanes), Part(full, size, lanes, size - full)]
        return [p for p in parts if p.stop > p.start]

    def target_lanes(self, body: list[Stmt]) -> int:
        """Lanes of one register for the widest values that the body computes with."""
        size = max(self.widest(s) for s in body)
        return self.e.target.vector_bytes // max(4, size)

    def widest(self, stmt: Stmt) -> int:
        values = [stmt.value] if stmt.value is not None else list(stmt.op.operands) if stmt.op is not None else []
        return max((min(8, item_bytes(v.tile.elem)) for v in values if v is not None and is_tile(v)
            and not v.tile.is_ptr), default=4)

    def loops(self, body: list[Stmt], at: Chunk, parts: list[Part], running: dict[Stmt, list[Accumulator]],
            done: list[Lanes]) -> None:
        """Open the next loop; reductions begin before their first loop and end after it."""
        position = len(at.index)
        stmts = [s for s in body if s.kind in ("reduce", "arg", "scan") and s not in running
            and self.begins(s, position)]
        for stmt in stmts:
            widths = sorted({p.width for p in parts}) if stmt.lanes in stmt.reduced else [at.width]
            assert stmt.op is not None
            running = {**running, stmt: [Accumulator.begin(self.e, joining(stmt.op), w) for w in widths]}
        if position == len(body[0].loops):
            self.statements(body, at, running)
        elif position == at.lanes:
            for part in parts:
                self.chunks(body, replace(at, width=part.width, tail=part.tail), part, parts, running, done)
        else:
            with self.w.loop("0", str(body[0].sizes[position]), "1") as i:
                self.loops(body, replace(at, index=[*at.index, i]), parts, running, done)
        for stmt in stmts:
            self.finish(stmt, running[stmt], at, done)

    def begins(self, stmt: Stmt, position: int) -> bool:
        reduced = [i for i, d in enumerate(stmt.loops) if d in stmt.reduced]
        return position == (reduced[0] if reduced else len(stmt.loops))

    def chunks(self, body: list[Stmt], at: Chunk, part: Part, parts: list[Part], running: dict[Stmt, list[Accumulator]],
               done: list[Lanes]) -> None:
        if part.stop - part.start <= part.width:
            with self.w.frame() as inner:
                index = Lanes(str(part.start), int64, 1, 0)
                self.loops(body, replace(at, index=[*at.index, index]), parts, running, done)
            self.w.frames[-1].lines += inner.lines
            return
        with self.w.loop(str(part.start), str(part.stop), str(part.width)) as i:
            self.loops(body, replace(at, index=[*at.index, i]), parts, running, done)

    def finish(self, stmt: Stmt, accumulators: list[Accumulator], at: Chunk, done: list[Lanes]) -> None:
        if stmt.kind == "scan":
            return
        assert stmt.op is not None
        total = finished(self.e, stmt.op, accumulators[-1].total(accumulators[:-1], stmt.lanes in stmt.reduced))
        if stmt.buffer is None:
            done.append(total)
        else:
            index = self.result_map(stmt)
            self.memory.write(total, stmt.buffer, self.base(stmt.buffer), index, at)

    def result_map(self, stmt: Stmt) -> IndexMap:
        from pypto.backends.cpu.fuse import write_map

        return write_map(stmt)

    # --- one chunk ----------------------------------------------------------------------------------------------

    def statements(self, body: list[Stmt], at: Chunk, running: dict[Stmt, list[Accumulator]]) -> None:
        for stmt in body:
            index: IndexMap = tuple(stmt.loops.index(d) if d in stmt.loops else None for d in range(len(stmt.domain)))
            if stmt.kind == "store":
                self.store(stmt, index, at)
            elif stmt.kind == "atomic" and stmt.op is not None and stmt.buffer is not None:
                operands = [self.operand(v, stmt.op, index, at) for v in stmt.op.operands]
                self.write_chunk(atomic(self.e, stmt.op, operands), stmt.buffer, index, at)
            elif stmt.kind == "count" and stmt.op is not None and stmt.buffer is not None:
                operands = [self.operand(v, stmt.op, index, at) for v in stmt.op.operands]
                self.memory.count(stmt.buffer, self.base(stmt.buffer), *operands)
            elif stmt.kind in ("compute", "zero"):
                self.compute(stmt, index, at)
            else:
                self.accumulate(stmt, index, at, running[stmt])

    def compute(self, stmt: Stmt, index: IndexMap, at: Chunk) -> None:
        assert stmt.buffer is not None
        if stmt.kind == "zero":
            assert isinstance(stmt.buffer.elem, DType)
            value = self.e.const(0, stmt.buffer.elem)
        elif stmt.source is not None:
            value = self.memory.read(stmt.source, self.base(stmt.source), index, at)
        else:
            assert stmt.value is not None
            value = self.value(stmt.value, index, at)
        if not stmt.buffer.unused:
            self.write_chunk(value, stmt.buffer, index, at)

    def write_chunk(self, value: Lanes, buffer: Buffer, index: IndexMap, at: Chunk) -> None:
        if at.lanes >= 0 and at.lanes in index:
            value = self.e.splat(value, at.width)
        self.memory.write(value, buffer, self.base(buffer), index, at)

    def store(self, stmt: Stmt, index: IndexMap, at: Chunk) -> None:
        assert stmt.op is not None
        access = Access.of(stmt.op)
        assert access.value is not None
        value, mask = self.value(access.value, index, at), self.optional(access.mask, stmt.op, index, at)
        base = self.operand(access.base, stmt.op, index, at)
        self.memory.store_tile(access, access.value.dtype, base, index, at, value, mask)

    def accumulate(self, stmt: Stmt, index: IndexMap, at: Chunk, accumulators: list[Accumulator]) -> None:
        assert stmt.op is not None
        if stmt.kind == "scan" and stmt.op.attrs["reverse"]:
            at = self.reversed(stmt, at)
        accumulator = next(a for a in accumulators if a.width == at.width)
        along = stmt.lanes in stmt.reduced
        values = self.terms(stmt, index, at, along)
        joined = accumulator.add(values, self.memory.tail_mask(at) if along else None)
        if stmt.kind == "scan":
            assert stmt.buffer is not None
            state = finished(self.e, stmt.op, joined)
            self.memory.write(state, stmt.buffer, self.base(stmt.buffer), index, at)

    def terms(self, stmt: Stmt, index: IndexMap, at: Chunk, along: bool) -> Partial:
        """What a chunk adds to a reduction: its values, and their places where these matter."""
        assert stmt.op is not None
        value = self.value(stmt.op.operands[0], index, at)
        value = value.as_dtype(float32) if value.dtype.is_narrow else value
        value = self.e.splat(value, at.width)
        if stmt.kind != "arg":
            return (value,)
        axis = stmt.reduced[0] if stmt.reduced else -1
        place = self.e.convert(at.at(stmt.loops.index(axis)) if axis in stmt.loops else self.e.const(0, int64), int32)
        if along and at.width > 1:
            place = self.e.add(place, self.e.iota(at.width, int32))
        return value, self.e.splat(place, at.width)

    def reversed(self, stmt: Stmt, at: Chunk) -> Chunk:
        axis = stmt.reduced[0]
        if axis not in stmt.loops:
            return at
        p = stmt.loops.index(axis)
        flipped = self.e.sub(self.e.const(stmt.domain[axis] - 1, int64), at.index[p])
        return replace(at, index=[flipped if q == p else i for q, i in enumerate(at.index)])

    # --- values -------------------------------------------------------------------------------------------------

    def operand(self, v: Value, op: Op, index: IndexMap, at: Chunk) -> Lanes:
        return self.value(v, operand_map(op, v, index), at)

    def optional(self, v: Value | None, op: Op, index: IndexMap, at: Chunk) -> Lanes | None:
        return None if v is None else self.operand(v, op, index, at)

    def value(self, v: Value, index: IndexMap, at: Chunk) -> Lanes:
        """Lanes of a value at an index map: known already, read from scratch, or computed here."""
        if not is_tile(v):
            return self.env[v]
        key = (v, tuple((p, at.index[p].text) if p is not None else None for p in index), at.width, at.tail)
        for frame in reversed(self.w.frames[self.w.base :]):
            if key in frame.memo:
                return frame.memo[key]
        if v in self.buffers and v not in self.own:
            result = self.memory.read(self.buffers[v], self.base(self.buffers[v]), index, at)
        else:
            if v.op is None:
                raise CompilerBug(f"a value of type {v.type} has no memory")
            result = self.computed(v.op, index, at)
        self.w.frames[max(result.level, self.w.base)].memo[key] = result
        return result

    def computed(self, op: Op, index: IndexMap, at: Chunk) -> Lanes:
        if op.name in ("broadcast_to", "reshape", "permute", "ptr_cast"):  # an address is the pointer itself
            return self.operand(op.operands[0], op, index, at)
        if op.name == "constant":
            value = op.attrs["value"]
            assert isinstance(value, int | float)
            return self.e.const(value, op.results[0].dtype)
        if op.name == "undef":
            elem = op.results[0].tile.elem
            return self.e.const(0, int64 if isinstance(elem, PtrType) else elem)
        if op.name == "arange":
            return self.arange(op, index, at)
        if op.name == "addptr":
            return address(self.e, op, *(self.operand(v, op, index, at) for v in op.operands))
        if op.name in PICKS:
            return self.picked(op, index, at)
        if op.name == "tile_load":
            access = Access.of(op)
            base = self.operand(access.base, op, index, at)
            mask, other = self.optional(access.mask, op, index, at), self.optional(access.other, op, index, at)
            if self.prefetching is not None and self.last.get(op) is self.prefetching:
                self.memory.prefetch(access, op.results[0].dtype, base, index, at)
            changed = any(may_alias(self.function, op, store) for store in self.stores)
            level = self.w.depth if changed else self.w.base
            return self.memory.load_tile(access, op.results[0].dtype, base, index, at, mask, other, level)
        return self.apply(op, tuple(self.operand(v, op, index, at) for v in op.operands))

    def apply(self, op: Op, operands: tuple[Lanes, ...]) -> Lanes:
        """An elementwise op through the rule of its row; 16-bit floats compute in float32 and are rounded."""
        elem = op.results[0].tile.elem
        result = int64 if isinstance(elem, PtrType) else elem
        if op.name not in ("cast", "bitcast"):
            operands = tuple(v.as_dtype(float32) if v.dtype.is_narrow else v for v in operands)
        rule = TABLE[op.name].cpu
        if not callable(rule):
            raise CompilerBug(f"{op.name} has no rule for lanes")
        lanes: Lanes = rule(self.e, op, *operands)
        if result.is_narrow and (op.name not in _AS_IS or (op.name == "neg" and result.bits == 8)):  # not all have -0
            return self.e.round_to(lanes, result)
        return lanes.as_dtype(result)

    def picked(self, op: Op, index: IndexMap, at: Chunk) -> Lanes:
        """Elements of a kept tile at other places than the result's."""
        source = self.buffers[op.operands[0]]
        if op.name == "slice":
            return self.memory.read(source, self.base(source), index, at, op.attrs["starts"], op.attrs["steps"])
        where = self.operand(op.operands[1], op, index, at)
        return self.memory.pick(source, self.base(source), index, at, where, op.attrs["axis"])

    def arange(self, op: Op, index: IndexMap, at: Chunk) -> Lanes:
        dtype, start = op.results[0].dtype, op.attrs["start"]
        assert isinstance(start, int)
        p = index[0]
        first = self.e.add(self.e.convert(at.at(p), dtype), self.e.const(start, dtype))
        return first if p is None or p != at.lanes or at.width == 1 else self.e.add(first, self.e.iota(at.width, dtype))


def address(e: LaneEmitter, op: Op, base: Lanes, offset: Lanes) -> Lanes:
    """Pointer plus a number of elements."""
    elem = op.results[0].tile.elem
    assert isinstance(elem, PtrType)
    wide = e.convert(offset, int64)
    return e.add(base, e.mul(wide, e.const(elem.pointee.itemsize, int64)))
