"""Emits a nest: loops over chunks of lanes, what is read computed where it is read, reductions in registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pypto.backends.cpu.codegen.load_hoisting import hoist_loads_above_stores
from pypto.backends.cpu.codegen.memory import Chunk, scratch_dtype
from pypto.backends.cpu.codegen.nan_speculation import can_speculate, can_speculate_rows, speculate, speculate_rows
from pypto.backends.cpu.codegen.nontemporal import arrays_read, nontemporal_condition
from pypto.backends.cpu.codegen.peeling import (
    edge_unroll_factor,
    emit_early_exit_remainder,
    emit_peeled_loop,
    why_not_peeled,
)
from pypto.backends.cpu.codegen.reductions import Accumulator, Partial, combiner_of, finalize
from pypto.backends.cpu.codegen.register_transpose import MIN_TILE_SIDE, row_chunks
from pypto.backends.cpu.codegen.strip_mining import Strip, strip_mine_lanes, strip_mine_rows, vector_width_of
from pypto.backends.cpu.codegen.trip_count import TripCounts, is_bitwise_equal
from pypto.backends.cpu.codegen.values import ValueEmitter
from pypto.backends.cpu.gemm.epilogue import EpilogueRegion
from pypto.backends.cpu.instrument.timing import Timer, Untimed
from pypto.backends.cpu.library.registry import atomics, histograms
from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.loopir.index_maps import IndexMap, is_tile
from pypto.backends.cpu.loopir.ir import Buffer, Item, Nest, Stmt
from pypto.backends.cpu.techniques import is_enabled
from pypto.ir.core import Function, Op, Value
from pypto.ir.types import float32, int32, int64
from pypto.ops.memory import Access
from pypto.ops.table import TABLE

_REGISTER_PRESSURE_LIMIT: Final = 8  # values that a body computes side by side


class NestEmitter(ValueEmitter):
    """Emits nests."""

    def __init__(
        self,
        e: LaneEmitter,
        function: Function,
        env: dict[Value, VectorValue],
        buffers: dict[Value, Buffer],
        base: Callable[[Buffer], VectorValue],
    ) -> None:
        super().__init__(e, function, env, buffers, base)
        self.timer: Timer | Untimed = Untimed()
        self.trip_counts = TripCounts(self)
        self.trip_count: VectorValue | None = None  # of the running body's lanes, where that is known
        self.is_fixpoint: VectorValue | None = (
            None  # whether the chunk that runs has changed nothing, where that matters
        )
        self.program_count = e.const(0, int64)  # of the whole grid, or turns of the loop in all of them
        self.per_program_items: list[Item] = []  # what they run once each
        self.may_stream = False  # the nest's stores may go past the caches
        self.has_nontemporal = False  # some store of the kernel may
        self.arrays_read, self.bytes_loaded = arrays_read(function)
        self.loads_by_nest: dict[
            Op, list[Nest]
        ] = {}  # who loads; the last one asks for what the next program will load
        self.strips: list[Strip] = []  # of the running body's lanes, with its reductions, and those that have ended
        self.accumulators: dict[Stmt, list[Accumulator]] = {}
        self.results: list[VectorValue] = []
        self.reduction_of = combiner_of  # how the running version joins partial results
        self.negligible: set[Nest] = set()  # that take next to no time
        self.unroll_override: dict[Stmt, int] = {}  # registers per chunk of the bodies that begin with these
        self.epilogue_region: EpilogueRegion | None = None  # what a nest runs on, where that is not all
        self.peel = False  # chunks that exist as a whole run without masks, in the version that has them
        self.mask_reasons: dict[
            Op, str
        ] = {}  # why ops run with masks in all of a tile at an edge; empty where they do not
        self.at_edge = False  # the version for tiles at an edge runs, with rows that are split
        self.may_be_partial = False  # tiles of the nest may exist in part, not only as a whole

    def emit(self, nest: Nest, once: bool = False) -> list[VectorValue]:
        """All versions of a nest: with masks at the edges, without inside, streaming for outputs beyond the caches.

        One that takes next to no time has masks everywhere, and small chunks: LLVM is done with it sooner.
        `once` says that a program runs the nest once, so that its stores and the grid tell how much it writes.
        """
        stmts, is_minor = nest.stmts, nest in self.negligible
        self.prefetched = {op: x[0] is nest for op, x in self.loads_by_nest.items() if once and x[-1] is nest}
        accesses = [
            Access.of(op) for s in stmts for op in self.computed_ops(s) if op.name in ("tile_load", "tile_store")
        ]
        self.memory.hoist_limits = self.memory.written_buffers(stmts)
        self.stores = [s.the_op for s in stmts if s.kind == "store"]
        with self.w.isolated():
            inside = self.memory.all_in_bounds(*accesses)
        self.may_stream = (
            once and not is_minor and (self.epilogue_region is None or not self.epilogue_region.width)
        )  # whole lines in one go
        known = [(n, self.memory.statically_in_bounds(a, d)) for a in accesses for d, n in enumerate(a.shape)]
        self.may_be_partial = any(n > 1 and not whole for n, whole in known) and not is_minor
        self.peel = self.may_be_partial and inside is not None and not why_not_peeled(self, nest)
        if inside is None or is_minor:
            results = self.emit_version(nest, is_minor)
        elif any(whole is False for _, whole in known):
            results = self.emit_version(nest, True) if self.peel else self.emit_edge_version(nest)
        elif can_speculate(self, nest):
            results = speculate(self, nest, inside)
        elif self.peel:
            results = self.emit_version(nest, True)
        else:
            is_store = (
                not self.may_be_partial and len(accesses) == len(stmts) == len(self.stores) == 1
            )  # all of it, or nothing
            sides = [lambda: self.emit_version(nest, False), list if is_store else lambda: self.emit_edge_version(nest)]
            results = self.w.branch(inside.text, sides)
        finals = [s.the_op.results[0] for s in stmts if s.kind in ("reduce", "arg") and s.buffer is None]
        self.env.update(zip(finals, results, strict=True))
        return []

    def emit_edge_version(self, nest: Nest) -> list[VectorValue]:
        """The version for tiles that exist in part; chunks that exist as a whole run without masks here, too."""
        self.may_stream = False
        reason = why_not_peeled(self, nest, edge=True) if self.may_be_partial else ""
        self.mask_reasons |= dict.fromkeys((op for s in nest.stmts for op in self.computed_ops(s)), reason)
        self.peel = self.at_edge = self.may_be_partial and not reason
        results = self.emit_version(nest, True)
        self.peel = self.at_edge = False
        return results

    def emit_store_versions(
        self, body: list[Stmt], at: Chunk, emit: Callable[[list[Stmt], Chunk], list[VectorValue]]
    ) -> list[VectorValue]:
        """The body, or what its loops run; where it may store past the caches, both ways."""
        may = self.may_stream and not at.masked and any(s.kind == "store" for s in body)
        may = may and is_enabled(self.function, "nontemporal_stores")
        streaming = nontemporal_condition(self) if may else None
        if streaming is None:
            return emit(body, at)
        self.has_nontemporal = True
        sides = [lambda: emit(body, replace(at, nontemporal=True)), lambda: emit(body, at)]
        return self.w.branch(streaming.text, sides)

    def computed_ops(self, stmt: Stmt) -> list[Op]:
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
            found[stmt.the_op] = None
            for v in stmt.the_op.operands:
                walk(v, False)
        return list(found)

    def emit_version(self, nest: Nest, masked: bool) -> list[VectorValue]:
        shared = nest.fused_depth if len(nest.bodies) > 1 else 0
        results: list[VectorValue] = []
        with self.w.isolated():
            self.emit_outer(nest, nest.bodies[0][0].sizes[:shared], Chunk([], -1, 1, 0, masked), results)
        return results

    def emit_outer(self, nest: Nest, sizes: tuple[int, ...], at: Chunk, results: list[VectorValue]) -> None:
        """The shared loops, then every body in turn."""
        if sizes:
            with self.w.loop("0", str(sizes[0]), "1") as i:
                self.emit_outer(nest, sizes[1:], replace(at, index=[*at.index, i]), results)
            return
        for body in nest.bodies:
            self.memory.hoist_limits = self.memory.written_buffers(
                nest.stmts, self.w.depth
            ) | self.memory.written_buffers(body)
            self.computed_here = {
                s.value for s in body if s.value is not None and self.buffers.get(s.value) is s.buffer
            }
            with self.timer.body(nest, body):
                results += self.emit_body(body, at)

    # --- one body -----------------------------------------------------------------------------------------------

    def emit_body(self, body: list[Stmt], at: Chunk) -> list[VectorValue]:
        """All remaining loops around the statements; gives the scalars that reductions end in.

        Squares are loaded and transposed once, whichever way they are stored.
        """
        lanes = body[0].loops.index(body[0].lanes) if body[0].lanes in body[0].loops else -1
        self.vector_width = vector_width_of(self.e.target, body) if lanes >= 0 else 1
        across = (
            self.transposes.transpose_axis(body)
            if self.vector_width >= MIN_TILE_SIDE and self.epilogue_region is None
            else -1
        )
        at = replace(at, lanes=lanes, transpose_axis=across)
        return (
            self.emit_lane_loops(body, at) if across >= 0 else self.emit_store_versions(body, at, self.emit_lane_loops)
        )

    def emit_lane_loops(self, body: list[Stmt], at: Chunk) -> list[VectorValue]:
        registers = self.unroll_factor(body) if at.transpose_axis < 0 and (self.may_be_partial or not at.masked) else 1
        registers = edge_unroll_factor(self, body, self.vector_width) if self.at_edge else registers
        self.strips = strip_mine_lanes(body, self.vector_width, registers) if at.lanes >= 0 else []
        self.accumulators, self.results = {}, []
        self.trip_count = self.trip_counts.bound(body, at.lanes) if at.masked and at.lanes >= 0 else None
        self.emit_loops(body, at)
        return self.results

    def unroll_factor(self, body: list[Stmt]) -> int:
        """Registers per chunk: several hide latencies, but much that is computed at once has enough to do in few.

        So has mathematics where registers are few, or beside other statements, where it would take long to compile. So
        have stores that take turns with reductions: from memory, fewer lines at a time are faster.
        """
        kinds = {s.kind for s in body}
        if body[0] in self.unroll_override or len(body) > _REGISTER_PRESSURE_LIMIT or "scan" in kinds:
            return self.unroll_override.get(body[0], 1)
        long = self.has_transcendentals(body) and (len(body) > 1 or self.e.target.registers < 32)
        return 2 if kinds >= {"store", "reduce"} or long else 4

    def has_transcendentals(self, body: list[Stmt]) -> bool:
        """True where mathematics is computed."""
        return any(TABLE[op.name].ulp for s in body for op in self.computed_ops(s))

    def emit_loops(self, body: list[Stmt], at: Chunk) -> None:
        """Open the next loop; reductions begin before their first loop and end after it."""
        position = len(at.index)
        begun = [s for s in body if s.kind in ("reduce", "arg", "scan") and self.reduction_position(s) == position]
        run = speculate_rows if can_speculate_rows(self, body, begun, at) else NestEmitter.emit_reductions
        totals = run(self, body, begun, at)
        for stmt, total in zip((s for s in begun if s.kind != "scan"), totals, strict=True):
            if stmt.buffer is None:
                self.results.append(total)
            else:
                self.memory.write_scratch(total, stmt.buffer, self.base_of(stmt.buffer), stmt.buffer_index, at)

    def emit_reductions(self, body: list[Stmt], begun: list[Stmt], at: Chunk) -> list[VectorValue]:
        """Run the next loop; gives the results of the reductions that begin before it."""
        position = len(at.index)
        for stmt in begun:
            widths = sorted({p.width for p in self.strips}) if stmt.lanes in stmt.reduced else [at.width]
            self.accumulators[stmt] = [Accumulator.create(self.e, self.reduction_of(stmt.the_op), w) for w in widths]
        if position == len(body[0].loops):
            self.emit_store_versions(body, at, self.emit_chunk) if at.transpose_axis >= 0 else self.emit_chunk(body, at)
        elif position == at.transpose_axis:
            for part in strip_mine_rows(body[0].sizes[position], self.vector_width // 2):
                self.emit_chunks(body, replace(at, transpose_rows=part.tail or part.width), part)
        elif position == at.lanes and self.epilogue_region is not None and self.epilogue_region.width:
            self.emit_loops(
                body, replace(at, width=self.epilogue_region.width, index=[*at.index, self.epilogue_region.column])
            )
        elif position == at.lanes:
            for part in self.strips:
                self.emit_chunks(body, replace(at, width=part.width, tail=part.tail), part)
        else:
            first, stop = (
                ("0", str(body[0].sizes[position])) if self.epilogue_region is None else self.epilogue_region.rows
            )
            with self.w.loop(first, stop, "1") as i:
                self.emit_loops(body, replace(at, index=[*at.index, i]))
        return [self.reduction_result(s, self.accumulators[s]) for s in begun if s.kind != "scan"]

    def reduction_position(self, stmt: Stmt) -> int:
        """The loop that a reduction begins before."""
        return next((i for i, d in enumerate(stmt.loops) if d in stmt.reduced), len(stmt.loops))

    def emit_chunks(self, body: list[Stmt], at: Chunk, part: Strip) -> None:
        if part.stop - part.start <= part.width:
            with self.w.frame() as inner:
                self.emit_loops(body, replace(at, index=[*at.index, VectorValue(str(part.start), int64, 1, 0)]))
            self.w.frames[-1].lines += inner.lines
            return
        stop, end = self.e.const(part.stop, int64), self.trip_count if len(at.index) == at.lanes else None
        live = stop if end is None else self.e.minimum(end, stop)
        if self.peel and at.masked and part is self.strips[0]:
            i = emit_peeled_loop(self, body, at, part, live)
        else:
            with self.w.loop(str(part.start), live.text, str(part.width)) as i:
                self.emit_loops(body, replace(at, index=[*at.index, i]))
        if end is not None and any(s.kind in ("reduce", "arg") for s in body):
            emit_early_exit_remainder(self, body, at, part, i)

    def reduction_result(self, stmt: Stmt, accumulators: list[Accumulator]) -> VectorValue:
        along = stmt.lanes in stmt.reduced
        return finalize(self.e, stmt.the_op, accumulators[-1].total(accumulators[:-1], along))

    # --- one chunk ----------------------------------------------------------------------------------------------

    def emit_chunk(self, body: list[Stmt], at: Chunk) -> list[VectorValue]:
        for step in row_chunks(self.e, at):
            self.emit_statements(body, step)
        return []

    def emit_statements(self, body: list[Stmt], at: Chunk) -> None:
        hoist_loads_above_stores(self, body, at)
        for stmt in body:
            if stmt.kind == "store":
                self.emit_store(stmt, at)
            elif stmt.kind in ("compute", "zero"):
                self.emit_compute(stmt, at)
            elif stmt.kind in ("atomic", "count"):
                self.emit_scalar_loop(stmt, at)
            else:
                self.emit_accumulate(stmt, at, self.accumulators[stmt])

    def emit_scalar_loop(self, stmt: Stmt, at: Chunk) -> None:
        operands = [self.operand(v, stmt.the_op, stmt.index, at) for v in stmt.the_op.operands]
        if stmt.kind == "atomic":
            self.checks.atomic(stmt.the_op, operands)
            self.write_chunk(atomics()(self.e, stmt.the_op, operands), stmt.the_buffer, stmt.index, at)
        else:
            histograms()(self.memory, stmt.the_buffer, self.base_of(stmt.the_buffer), at, *operands)

    def emit_compute(self, stmt: Stmt, at: Chunk) -> None:
        if stmt.source is not None:
            value = self.memory.read_scratch(stmt.source, self.base_of(stmt.source), stmt.index, at)
        elif stmt.value is not None:
            value = self.value(stmt.value, stmt.index, at)
        else:
            value = self.e.const(0, scratch_dtype(stmt.the_buffer))
        if not stmt.the_buffer.contracted:
            self.write_chunk(value, stmt.the_buffer, stmt.index, at)

    def write_chunk(self, value: VectorValue, buffer: Buffer, index: IndexMap, at: Chunk) -> None:
        if at.lanes >= 0 and at.lanes in index:
            value = self.e.splat(value, at.width)
        self.memory.write_scratch(value, buffer, self.base_of(buffer), index, at)

    def emit_store(self, stmt: Stmt, at: Chunk) -> None:
        op, access = stmt.the_op, Access.of(stmt.the_op)
        assert access.value is not None
        value, mask = self.value(access.value, stmt.index, at), self.optional_operand(access.mask, op, stmt.index, at)
        base = self.operand(access.base, op, stmt.index, at)
        self.checks.lanes(op, base, stmt.index, at, mask)
        self.memory.store_tile(access, access.value.dtype, base, stmt.index, at, value, mask)

    def emit_accumulate(self, stmt: Stmt, at: Chunk, accumulators: list[Accumulator]) -> None:
        if stmt.kind == "scan" and stmt.the_op.attrs["reverse"]:
            at = self.reversed_chunk(stmt, at)
        accumulator = next(a for a in accumulators if a.width == at.width)
        along = stmt.lanes in stmt.reduced
        values = self.reduction_terms(stmt, at, along)
        if stmt.kind != "scan":
            before, after = accumulator.load(), accumulator.add(values, self.memory.tail_mask(at) if along else None)
            if self.is_fixpoint is not None:
                self.is_fixpoint = self.e.and_(self.is_fixpoint, is_bitwise_equal(self.e, before, after))
            return
        state = finalize(self.e, stmt.the_op, accumulator.scan(values) if along else accumulator.add(values, None))
        self.memory.write_scratch(state, stmt.the_buffer, self.base_of(stmt.the_buffer), stmt.index, at)

    def reduction_terms(self, stmt: Stmt, at: Chunk, along: bool) -> Partial:
        """What a chunk adds to a reduction: its values, and their places where these matter."""
        value = self.value(stmt.the_op.operands[0], stmt.index, at)
        value = value.as_dtype(float32) if value.dtype.is_narrow else value
        value = self.e.splat(value, at.width)
        if stmt.kind != "arg":
            return (value,)
        axis = stmt.reduced[0] if stmt.reduced else -1
        place = self.e.convert(
            at.index_of(stmt.loops.index(axis)) if axis in stmt.loops else self.e.const(0, int64), int32
        )
        if along and at.width > 1:
            place = self.e.add(place, self.e.iota(at.width, int32))
        return value, self.e.splat(place, at.width)

    def reversed_chunk(self, stmt: Stmt, at: Chunk) -> Chunk:
        axis = stmt.reduced[0]
        if axis not in stmt.loops:
            return at
        p = stmt.loops.index(axis)
        flipped = self.e.sub(self.e.const(stmt.domain[axis] - 1, int64), at.index[p])
        return replace(at, index=[flipped if q == p else i for q, i in enumerate(at.index)])
