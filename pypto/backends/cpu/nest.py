"""Emits a nest: loops over chunks of lanes, what is read computed where it is read, reductions in registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pypto.backends.cpu.cells import atomics, histograms
from pypto.backends.cpu.crosswise import LEAST_SIDE, steps
from pypto.backends.cpu.edges import at_edge, settle, split_chunks, unsplit
from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.extremes import can_trust, can_trust_rows, trusted, trusted_rows
from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.live import Live, same
from pypto.backends.cpu.loads import load_first
from pypto.backends.cpu.loopir import Buffer, Item, Nest, Stmt
from pypto.backends.cpu.memory import Chunk, scratch_dtype
from pypto.backends.cpu.parts import Part, block_parts, lane_parts, lanes_of
from pypto.backends.cpu.pull import IndexMap, is_tile
from pypto.backends.cpu.reductions import Accumulator, Partial, finished, joining
from pypto.backends.cpu.rest import Area
from pypto.backends.cpu.stream import past_caches, reads
from pypto.backends.cpu.timing import Timer, Untimed
from pypto.backends.cpu.values import ValueEmitter
from pypto.ir.core import Function, Op, Value
from pypto.ir.types import float32, int32, int64
from pypto.ops.memory import Access
from pypto.ops.table import TABLE

_MUCH: Final = 8  # values that a body computes side by side


class NestEmitter(ValueEmitter):
    """Emits nests."""

    def __init__(
        self,
        e: LaneEmitter,
        function: Function,
        env: dict[Value, Lanes],
        buffers: dict[Value, Buffer],
        base: Callable[[Buffer], Lanes],
    ) -> None:
        super().__init__(e, function, env, buffers, base)
        self.timer: Timer | Untimed = Untimed()
        self.live = Live(self)
        self.end: Lanes | None = None  # of the running body's lanes, where that is known
        self.settled: Lanes | None = None  # whether the chunk that runs has changed nothing, where that matters
        self.programs = e.const(0, int64)  # of the whole grid, or turns of the loop in all of them
        self.repeated: list[Item] = []  # what they run once each
        self.streaming = False  # the nest's stores may go past the caches
        self.streams = False  # some store of the kernel may
        self.read, self.loaded = reads(function)
        self.asking: dict[Op, list[Nest]] = {}  # who loads; the last one asks for what the next program will load
        self.parts: list[Part] = []  # of the running body's lanes, with its reductions, and those that have ended
        self.running: dict[Stmt, list[Accumulator]] = {}
        self.done: list[Lanes] = []
        self.joining = joining  # how the running version joins partial results
        self.minor: set[Nest] = set()  # that take next to no time
        self.most: dict[Stmt, int] = {}  # registers per chunk of the bodies that begin with these
        self.block: Area | None = None  # what a nest runs on, where that is not all
        self.split = False  # chunks that exist as a whole run without masks, in the version that has them
        self.masked: dict[Op, str] = {}  # why ops run with masks in all of a tile at an edge; empty where they do not
        self.at_edge = False  # the version for tiles at an edge runs, with rows that are split
        self.rough = False  # tiles of the nest may exist in part, not only as a whole

    def emit(self, nest: Nest, once: bool = False) -> list[Lanes]:
        """All versions of a nest: with masks at the edges, without inside, streaming for outputs beyond the caches.

        One that takes next to no time has masks everywhere, and small chunks: LLVM is done with it sooner.
        `once` says that a program runs the nest once, so that its stores and the grid tell how much it writes.
        """
        stmts, is_minor = nest.stmts, nest in self.minor
        self.ahead = {op: x[0] is nest for op, x in self.asking.items() if once and x[-1] is nest}
        accesses = [Access.of(op) for s in stmts for op in self.ops(s) if op.name in ("tile_load", "tile_store")]
        self.memory.written = self.memory.writes(stmts)
        self.stores = [s.does for s in stmts if s.kind == "store"]
        with self.w.based():
            inside = self.memory.interior(*accesses)
        self.streaming = once and not is_minor and (self.block is None or not self.block.width)  # whole lines in one go
        known = [(n, self.memory.known(a, d)) for a in accesses for d, n in enumerate(a.shape)]
        self.rough = any(n > 1 and not whole for n, whole in known) and not is_minor
        self.split = self.rough and inside is not None and not unsplit(self, nest)
        if inside is None or is_minor:
            results = self.version(nest, is_minor)
        elif any(whole is False for _, whole in known):
            results = self.version(nest, True) if self.split else self.edge(nest)
        elif can_trust(nest):
            results = trusted(self, nest, inside)
        elif self.split:
            results = self.version(nest, True)
        else:
            is_store = not self.rough and len(accesses) == len(stmts) == len(self.stores) == 1  # all of it, or nothing
            sides = [lambda: self.version(nest, False), list if is_store else lambda: self.edge(nest)]
            results = self.w.branch(inside.text, sides)
        finals = [s.does.results[0] for s in stmts if s.kind in ("reduce", "arg") and s.buffer is None]
        self.env.update(zip(finals, results, strict=True))
        return []

    def edge(self, nest: Nest) -> list[Lanes]:
        """The version for tiles that exist in part; chunks that exist as a whole run without masks here, too."""
        self.streaming = False
        reason = unsplit(self, nest, edge=True) if self.rough else ""
        self.masked |= dict.fromkeys((op for s in nest.stmts for op in self.ops(s)), reason)
        self.split = self.at_edge = self.rough and not reason
        results = self.version(nest, True)
        self.split = self.at_edge = False
        return results

    def versions(self, body: list[Stmt], at: Chunk, emit: Callable[[list[Stmt], Chunk], list[Lanes]]) -> list[Lanes]:
        """The body, or what its loops run; where it may store past the caches, both ways."""
        may = self.streaming and not at.masked and any(s.kind == "store" for s in body)
        streaming = past_caches(self) if may else None
        if streaming is None:
            return emit(body, at)
        self.streams = True
        sides = [lambda: emit(body, replace(at, streaming=True)), lambda: emit(body, at)]
        return self.w.branch(streaming.text, sides)

    def ops(self, stmt: Stmt) -> list[Op]:
        """The ops that the statement computes where its loads exist as a whole, and read no `other`."""
        found: dict[Op, None] = {}

        def walk(v: Value, inside: bool) -> None:
            if not is_tile(v) or v.op is None or (v in self.buffers and not inside) or v.op in found:
                return
            found[v.op] = None
            whole = v.op.name == "tile_load" and not v.op.attrs["masked"]
            for operand in v.op.operands[:1] if whole else v.op.operands:
                walk(operand, False)

        if stmt.value is not None and stmt.source is None:
            walk(stmt.value, self.buffers.get(stmt.value) is stmt.buffer)
        elif stmt.kind not in ("compute", "zero"):
            found[stmt.does] = None
            for v in stmt.does.operands:
                walk(v, False)
        return list(found)

    def version(self, nest: Nest, masked: bool) -> list[Lanes]:
        shared = nest.shared if len(nest.bodies) > 1 else 0
        results: list[Lanes] = []
        with self.w.based():
            self.outer(nest, nest.bodies[0][0].sizes[:shared], Chunk([], -1, 1, 0, masked), results)
        return results

    def outer(self, nest: Nest, sizes: tuple[int, ...], at: Chunk, results: list[Lanes]) -> None:
        """The shared loops, then every body in turn."""
        if sizes:
            with self.w.loop("0", str(sizes[0]), "1") as i:
                self.outer(nest, sizes[1:], replace(at, index=[*at.index, i]), results)
            return
        for body in nest.bodies:
            self.memory.written = self.memory.writes(nest.stmts, self.w.depth) | self.memory.writes(body)
            self.own = {s.value for s in body if s.value is not None and self.buffers.get(s.value) is s.buffer}
            with self.timer.body(nest, body):
                results += self.body(body, at)

    # --- one body -----------------------------------------------------------------------------------------------

    def body(self, body: list[Stmt], at: Chunk) -> list[Lanes]:
        """All remaining loops around the statements; gives the scalars that reductions end in.

        Squares are loaded and transposed once, whichever way they are stored.
        """
        lanes = body[0].loops.index(body[0].lanes) if body[0].lanes in body[0].loops else -1
        self.side = lanes_of(self.e.target, body) if lanes >= 0 else 1
        across = self.crossing.loop(body) if self.side >= LEAST_SIDE and self.block is None else -1
        at = replace(at, lanes=lanes, across=across)
        return self.within(body, at) if across >= 0 else self.versions(body, at, self.within)

    def within(self, body: list[Stmt], at: Chunk) -> list[Lanes]:
        registers = self.registers(body) if at.across < 0 and (self.rough or not at.masked) else 1
        registers = at_edge(self, body, self.side) if self.at_edge else registers
        self.parts = lane_parts(body, self.side, registers) if at.lanes >= 0 else []
        self.running, self.done = {}, []
        self.end = self.live.end(body, at.lanes) if at.masked and at.lanes >= 0 else None
        self.loops(body, at)
        return self.done

    def registers(self, body: list[Stmt]) -> int:
        """Registers per chunk: several hide latencies, but much that is computed at once has enough to do in few.

        So has mathematics where registers are few, or beside other statements, where it would take long to compile. So
        have stores that take turns with reductions: from memory, fewer lines at a time are faster.
        """
        kinds = {s.kind for s in body}
        if body[0] in self.most or len(body) > _MUCH or "scan" in kinds:
            return self.most.get(body[0], 1)
        long = self.is_long(body) and (len(body) > 1 or self.e.target.registers < 32)
        return 2 if kinds >= {"store", "reduce"} or long else 4

    def is_long(self, body: list[Stmt]) -> bool:
        """True where mathematics is computed."""
        return any(TABLE[op.name].ulp for s in body for op in self.ops(s))

    def loops(self, body: list[Stmt], at: Chunk) -> None:
        """Open the next loop; reductions begin before their first loop and end after it."""
        position = len(at.index)
        begun = [s for s in body if s.kind in ("reduce", "arg", "scan") and self.begins(s) == position]
        run = trusted_rows if can_trust_rows(self, body, begun, at) else NestEmitter.joined
        totals = run(self, body, begun, at)
        for stmt, total in zip((s for s in begun if s.kind != "scan"), totals, strict=True):
            if stmt.buffer is None:
                self.done.append(total)
            else:
                self.memory.write(total, stmt.buffer, self.base(stmt.buffer), stmt.written, at)

    def joined(self, body: list[Stmt], begun: list[Stmt], at: Chunk) -> list[Lanes]:
        """Run the next loop; gives the results of the reductions that begin before it."""
        position = len(at.index)
        for stmt in begun:
            widths = sorted({p.width for p in self.parts}) if stmt.lanes in stmt.reduced else [at.width]
            self.running[stmt] = [Accumulator.begin(self.e, self.joining(stmt.does), w) for w in widths]
        if position == len(body[0].loops):
            self.versions(body, at, self.chunk) if at.across >= 0 else self.chunk(body, at)
        elif position == at.across:
            for part in block_parts(body[0].sizes[position], self.side // 2):
                self.chunks(body, replace(at, height=part.tail or part.width), part)
        elif position == at.lanes and self.block is not None and self.block.width:
            self.loops(body, replace(at, width=self.block.width, index=[*at.index, self.block.column]))
        elif position == at.lanes:
            for part in self.parts:
                self.chunks(body, replace(at, width=part.width, tail=part.tail), part)
        else:
            first, stop = ("0", str(body[0].sizes[position])) if self.block is None else self.block.rows
            with self.w.loop(first, stop, "1") as i:
                self.loops(body, replace(at, index=[*at.index, i]))
        return [self.total(s, self.running[s]) for s in begun if s.kind != "scan"]

    def begins(self, stmt: Stmt) -> int:
        """The loop that a reduction begins before."""
        return next((i for i, d in enumerate(stmt.loops) if d in stmt.reduced), len(stmt.loops))

    def chunks(self, body: list[Stmt], at: Chunk, part: Part) -> None:
        if part.stop - part.start <= part.width:
            with self.w.frame() as inner:
                self.loops(body, replace(at, index=[*at.index, Lanes(str(part.start), int64, 1, 0)]))
            self.w.frames[-1].lines += inner.lines
            return
        stop, end = self.e.const(part.stop, int64), self.end if len(at.index) == at.lanes else None
        live = stop if end is None else self.e.minimum(end, stop)
        if self.split and at.masked and part is self.parts[0]:
            i = split_chunks(self, body, at, part, live)
        else:
            with self.w.loop(str(part.start), live.text, str(part.width)) as i:
                self.loops(body, replace(at, index=[*at.index, i]))
        if end is not None and any(s.kind in ("reduce", "arg") for s in body):
            settle(self, body, at, part, i)

    def total(self, stmt: Stmt, accumulators: list[Accumulator]) -> Lanes:
        along = stmt.lanes in stmt.reduced
        return finished(self.e, stmt.does, accumulators[-1].total(accumulators[:-1], along))

    # --- one chunk ----------------------------------------------------------------------------------------------

    def chunk(self, body: list[Stmt], at: Chunk) -> list[Lanes]:
        for step in steps(self.e, at):
            self.statements(body, step)
        return []

    def statements(self, body: list[Stmt], at: Chunk) -> None:
        load_first(self, body, at)
        for stmt in body:
            if stmt.kind == "store":
                self.store(stmt, at)
            elif stmt.kind in ("compute", "zero"):
                self.compute(stmt, at)
            elif stmt.kind in ("atomic", "count"):
                self.one_by_one(stmt, at)
            else:
                self.accumulate(stmt, at, self.running[stmt])

    def one_by_one(self, stmt: Stmt, at: Chunk) -> None:
        operands = [self.operand(v, stmt.does, stmt.index, at) for v in stmt.does.operands]
        if stmt.kind == "atomic":
            self.checks.atomic(stmt.does, operands)
            self.write_chunk(atomics()(self.e, stmt.does, operands), stmt.into, stmt.index, at)
        else:
            histograms()(self.memory, stmt.into, self.base(stmt.into), at, *operands)

    def compute(self, stmt: Stmt, at: Chunk) -> None:
        if stmt.source is not None:
            value = self.memory.read(stmt.source, self.base(stmt.source), stmt.index, at)
        elif stmt.value is not None:
            value = self.value(stmt.value, stmt.index, at)
        else:
            value = self.e.const(0, scratch_dtype(stmt.into))
        if not stmt.into.unused:
            self.write_chunk(value, stmt.into, stmt.index, at)

    def write_chunk(self, value: Lanes, buffer: Buffer, index: IndexMap, at: Chunk) -> None:
        if at.lanes >= 0 and at.lanes in index:
            value = self.e.splat(value, at.width)
        self.memory.write(value, buffer, self.base(buffer), index, at)

    def store(self, stmt: Stmt, at: Chunk) -> None:
        op, access = stmt.does, Access.of(stmt.does)
        assert access.value is not None
        value, mask = self.value(access.value, stmt.index, at), self.optional(access.mask, op, stmt.index, at)
        base = self.operand(access.base, op, stmt.index, at)
        self.checks.lanes(op, base, stmt.index, at, mask)
        self.memory.store_tile(access, access.value.dtype, base, stmt.index, at, value, mask)

    def accumulate(self, stmt: Stmt, at: Chunk, accumulators: list[Accumulator]) -> None:
        if stmt.kind == "scan" and stmt.does.attrs["reverse"]:
            at = self.reversed(stmt, at)
        accumulator = next(a for a in accumulators if a.width == at.width)
        along = stmt.lanes in stmt.reduced
        values = self.terms(stmt, at, along)
        if stmt.kind != "scan":
            before, after = accumulator.load(), accumulator.add(values, self.memory.tail_mask(at) if along else None)
            if self.settled is not None:
                self.settled = self.e.and_(self.settled, same(self.e, before, after))
            return
        state = finished(self.e, stmt.does, accumulator.scan(values) if along else accumulator.add(values, None))
        self.memory.write(state, stmt.into, self.base(stmt.into), stmt.index, at)

    def terms(self, stmt: Stmt, at: Chunk, along: bool) -> Partial:
        """What a chunk adds to a reduction: its values, and their places where these matter."""
        value = self.value(stmt.does.operands[0], stmt.index, at)
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
