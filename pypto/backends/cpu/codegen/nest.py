"""Code generation for one loop nest: loops over chunks of lanes, operands inlined, reductions in registers.

A nest is strip-mined along its lanes: full chunks of several registers, chunks of one register, a masked tail. It is
versioned where tiles may lie partly out of bounds. The statements of a body then run chunk by chunk:

nest - compute exp -> b0 [lanes d0<512] | reduce sum [lanes d0<512*] becomes for i in 0..512 step 64: %e = exp(load 64
lanes at i); store %e to b0; %acc = %acc + %e %sum = horizontal sum of %acc
"""

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
from pypto.backends.cpu.loopir.index_maps import IndexMap, is_tile
from pypto.backends.cpu.loopir.ir import Buffer, Item, Nest, Stmt
from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.cpu.techniques import is_enabled
from pypto.backends.llvm.value import VectorValue
from pypto.ir.core import Function, Op, Value
from pypto.ir.types import float32, int32, int64
from pypto.ops.memory import Access
from pypto.ops.table import TABLE

_REGISTER_PRESSURE_LIMIT: Final = 8  # statements of a body beyond which unrolling would spill registers


class NestEmitter(ValueEmitter):
    """Emits the nests of a function. Fields that say what runs now are set before each nest, version or body."""

    def __init__(
        self,
        e: CpuLaneEmitter,
        function: Function,
        env: dict[Value, VectorValue],
        buffers: dict[Value, Buffer],
        base: Callable[[Buffer], VectorValue],
    ) -> None:
        super().__init__(e, function, env, buffers, base)
        self.timer: Timer | Untimed = Untimed()
        self.trip_counts = TripCounts(self)
        self.mask_reasons: dict[Op, str] = {}  # why ops run with masks in all of a tile at an edge; "" where peeled
        self.negligible: set[Nest] = set()  # nests whose time does not matter beside that of the others
        self.unroll_override: dict[Stmt, int] = {}  # unroll factors by the first statement of a body
        # What runs once per program, or once per iteration of a persistent loop.
        self.program_count = e.const(0, int64)  # programs of the grid, times iterations of the persistent loop
        self.per_program_items: list[Item] = []
        self.loads_by_nest: dict[Op, list[Nest]] = {}  # nests by the load that they read; the last one prefetches
        self.arrays_read, self.bytes_loaded = arrays_read(function)
        # The version of a nest that is emitted.
        self.may_be_partial = False  # tiles may lie partly out of bounds
        self.peel = False  # full chunks are peeled off into a loop without masks
        self.at_edge = False  # the version for tiles at an edge
        self.may_stream = False  # stores may be non-temporal
        self.has_nontemporal = False  # some store of the kernel is
        self.reduction_of = combiner_of  # how partial results are combined
        self.epilogue_region: EpilogueRegion | None = None  # the block that a fused epilogue runs on
        # The body that is emitted.
        self.strips: list[Strip] = []  # of the lane loop
        self.accumulators: dict[Stmt, list[Accumulator]] = {}  # one for each width of a strip
        self.results: list[VectorValue] = []  # of finished reductions to scalars
        self.trip_count: VectorValue | None = None  # of the lane loop, where it is tightened
        self.is_fixpoint: VectorValue | None = None  # whether the chunk has changed no accumulator, where asked

    def emit(self, nest: Nest, once: bool = False) -> list[VectorValue]:
        """Emit a nest, versioned on whether all its elements are in bounds.

        The version for tiles that are in bounds has no masks. A negligible nest has one version only, with masks, whose
        chunks are one register wide: that takes LLVM less time. `once` says that the nest runs once per program, so
        that the number of programs tells how many bytes it stores.
        """
        stmts = nest.stmts
        is_minor = nest in self.negligible
        self.prefetched = {op: x[0] is nest for op, x in self.loads_by_nest.items() if once and x[-1] is nest}
        accesses = self.accesses_of(stmts)
        self.memory.hoist_limits = self.memory.written_buffers(stmts)
        self.stores = [s.the_op for s in stmts if s.kind == "store"]
        with self.w.isolated():
            in_bounds = self.memory.all_in_bounds(*accesses)
        stores_full_rows = self.epilogue_region is None or not self.epilogue_region.width
        self.may_stream = once and not is_minor and stores_full_rows
        bounds = [(n, self.memory.statically_in_bounds(a, d)) for a in accesses for d, n in enumerate(a.shape)]
        self.may_be_partial = any(n > 1 and not known for n, known in bounds) and not is_minor
        self.peel = self.may_be_partial and in_bounds is not None and not why_not_peeled(self, nest)
        if in_bounds is None or is_minor:
            results = self.emit_version(nest, is_minor)
        elif any(known is False for _, known in bounds):
            results = self.emit_version(nest, True) if self.peel else self.emit_edge_version(nest)
        elif can_speculate(self, nest):
            results = speculate(self, nest, in_bounds)
        elif self.peel:
            results = self.emit_version(nest, True)
        else:
            # A lone store whose dimensions above 1 are in bounds is in bounds as a whole or not at all.
            is_lone_store = not self.may_be_partial and len(accesses) == len(stmts) == len(self.stores) == 1
            edge = list if is_lone_store else lambda: self.emit_edge_version(nest)
            results = self.w.branch(in_bounds.text, [lambda: self.emit_version(nest, False), edge])
        finals = [s.the_op.results[0] for s in stmts if s.kind in ("reduce", "arg") and s.buffer is None]
        self.env.update(zip(finals, results, strict=True))
        return []

    def accesses_of(self, stmts: list[Stmt]) -> list[Access]:
        """The structured accesses that statements make."""
        ops = [op for s in stmts for op in self.computed_ops(s)]
        return [Access.of(op) for op in ops if op.name in ("tile_load", "tile_store")]

    def emit_edge_version(self, nest: Nest) -> list[VectorValue]:
        """The version for tiles that are partly out of bounds: masks, but for chunks that are peeled off."""
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
        """Emit a body or its loops; versioned on whether its stores are non-temporal, where they may be."""
        may_stream = self.may_stream and not at.masked and any(s.kind == "store" for s in body)
        may_stream = may_stream and is_enabled(self.function, "nontemporal_stores")
        streaming = nontemporal_condition(self) if may_stream else None
        if streaming is None:
            return emit(body, at)
        self.has_nontemporal = True
        sides = [lambda: emit(body, replace(at, nontemporal=True)), lambda: emit(body, at)]
        return self.w.branch(streaming.text, sides)

    def computed_ops(self, stmt: Stmt) -> list[Op]:
        """The ops that a statement computes in a tile that is in bounds, where `other` values of loads are not read."""
        ops: dict[Op, None] = {}

        def visit(v: Value, is_written: bool) -> None:
            if not is_tile(v) or v.op is None or (v in self.buffers and not is_written) or v.op in ops:
                return
            ops[v.op] = None
            is_unmasked = v.op.name == "tile_load" and not v.op.attrs["masked"]
            for operand in v.op.operands[:1] if is_unmasked else v.op.operands:
                visit(operand, False)

        if stmt.value is not None and stmt.source is None:
            visit(stmt.value, self.buffers.get(stmt.value) is stmt.buffer)
        elif stmt.kind not in ("compute", "zero"):
            ops[stmt.the_op] = None
            for v in stmt.the_op.operands:
                visit(v, False)
        return list(ops)

    def emit_version(self, nest: Nest, masked: bool) -> list[VectorValue]:
        """Emit one version of a nest, and give the results of its reductions to scalars."""
        shared = nest.fused_depth if len(nest.bodies) > 1 else 0
        results: list[VectorValue] = []
        with self.w.isolated():
            self.emit_outer(nest, nest.bodies[0][0].sizes[:shared], Chunk([], -1, 1, 0, masked), results)
        self.computed_here = set()  # scalars behind the nest read its tiles from memory
        return results

    def emit_outer(self, nest: Nest, sizes: tuple[int, ...], at: Chunk, results: list[VectorValue]) -> None:
        """Emit the loops that all bodies share, then the bodies in order."""
        if sizes:
            with self.w.loop("0", str(sizes[0]), "1") as i:
                self.emit_outer(nest, sizes[1:], replace(at, index=[*at.index, i]), results)
            return
        for body in nest.bodies:
            written_by_nest = self.memory.written_buffers(nest.stmts, self.w.depth)
            self.memory.hoist_limits = written_by_nest | self.memory.written_buffers(body)
            values = [(s.value, s.buffer) for s in body if s.value is not None]
            self.computed_here = {v for v, buffer in values if self.buffers.get(v) is buffer}
            with self.timer.body(nest, body):
                results += self.emit_body(body, at)

    # --- one body -----------------------------------------------------------------------------------------------

    def emit_body(self, body: list[Stmt], at: Chunk) -> list[VectorValue]:
        """Emit the remaining loops of one body; gives the results of its reductions to scalars.

        A body with a register transpose is versioned per chunk, so that a tile is loaded and transposed once.
        """
        lanes = body[0].loops.index(body[0].lanes) if body[0].lanes in body[0].loops else -1
        self.vector_width = vector_width_of(self.e.target, body) if lanes >= 0 else 1
        may_transpose = self.vector_width >= MIN_TILE_SIDE and self.epilogue_region is None
        axis = self.transposes.transpose_axis(body) if may_transpose else -1
        at = replace(at, lanes=lanes, transpose_axis=axis)
        if axis >= 0:
            return self.emit_lane_loops(body, at)
        return self.emit_store_versions(body, at, self.emit_lane_loops)

    def emit_lane_loops(self, body: list[Stmt], at: Chunk) -> list[VectorValue]:
        """Choose strips for the body, then emit its loops."""
        is_unrolled = at.transpose_axis < 0 and (self.may_be_partial or not at.masked)
        registers = self.unroll_factor(body) if is_unrolled else 1
        if self.at_edge:
            registers = edge_unroll_factor(self, body, self.vector_width)
        self.strips = strip_mine_lanes(body, self.vector_width, registers) if at.lanes >= 0 else []
        self.accumulators = {}
        self.results = []
        self.trip_count = self.trip_counts.bound(body, at.lanes) if at.masked and at.lanes >= 0 else None
        self.emit_loops(body, at)
        return self.results

    def unroll_factor(self, body: list[Stmt]) -> int:
        """Registers per chunk: 4 by default, so that independent instructions hide latency.

        One for bodies under register pressure, and for scans, which are one dependence chain. Two for transcendental
        functions where registers or compile time are short. Two for stores beside reductions: streams from memory are
        faster with fewer lines at a time.
        """
        kinds = {s.kind for s in body}
        if body[0] in self.unroll_override or len(body) > _REGISTER_PRESSURE_LIMIT or "scan" in kinds:
            return self.unroll_override.get(body[0], 1)
        is_long = self.has_transcendentals(body) and (len(body) > 1 or self.e.target.registers < 32)
        return 2 if kinds >= {"store", "reduce"} or is_long else 4

    def has_transcendentals(self, body: list[Stmt]) -> bool:
        """Whether the body computes transcendental functions."""
        return any(TABLE[op.name].ulp for s in body for op in self.computed_ops(s))

    def emit_loops(self, body: list[Stmt], at: Chunk) -> None:
        """Emit the next loop of a body; reductions that end with this loop write their results after it."""
        position = len(at.index)
        begun = [s for s in body if s.kind in ("reduce", "arg", "scan") and self.reduction_position(s) == position]
        emit = speculate_rows if can_speculate_rows(self, body, begun, at) else NestEmitter.emit_reductions
        totals = emit(self, body, begun, at)
        for stmt, total in zip((s for s in begun if s.kind != "scan"), totals, strict=True):
            if stmt.buffer is None:
                self.results.append(total)
            else:
                self.memory.write_scratch(total, stmt.buffer, self.base_of(stmt.buffer), stmt.buffer_index, at)

    def emit_reductions(self, body: list[Stmt], begun: list[Stmt], at: Chunk) -> list[VectorValue]:
        """Create the accumulators of `begun`, emit the next loop, and give the results of these reductions."""
        position = len(at.index)
        for stmt in begun:
            widths = sorted({p.width for p in self.strips}) if stmt.lanes in stmt.reduced else [at.width]
            self.accumulators[stmt] = [Accumulator.create(self.e, self.reduction_of(stmt.the_op), w) for w in widths]
        if position == len(body[0].loops):
            self.emit_store_versions(body, at, self.emit_chunk) if at.transpose_axis >= 0 else self.emit_chunk(body, at)
        elif position == at.transpose_axis:
            for strip in strip_mine_rows(body[0].sizes[position], self.vector_width // 2):
                self.emit_chunks(body, replace(at, transpose_rows=strip.tail or strip.width), strip)
        elif position == at.lanes and self.epilogue_region is not None and self.epilogue_region.width:
            region = self.epilogue_region
            self.emit_loops(body, replace(at, width=region.width, index=[*at.index, region.column]))
        elif position == at.lanes:
            for strip in self.strips:
                self.emit_chunks(body, replace(at, width=strip.width, tail=strip.tail), strip)
        else:
            rows = ("0", str(body[0].sizes[position]))
            first, stop = rows if self.epilogue_region is None else self.epilogue_region.rows
            with self.w.loop(first, stop, "1") as i:
                self.emit_loops(body, replace(at, index=[*at.index, i]))
        return [self.reduction_result(s, self.accumulators[s]) for s in begun if s.kind != "scan"]

    def reduction_position(self, stmt: Stmt) -> int:
        """Position of the outermost loop that a reduction reduces: its accumulator is created before that loop."""
        return next((i for i, d in enumerate(stmt.loops) if d in stmt.reduced), len(stmt.loops))

    def emit_chunks(self, body: list[Stmt], at: Chunk, strip: Strip) -> None:
        """Emit one strip of a loop: a loop over its chunks, or straight-line code where there is one chunk."""
        if strip.stop - strip.start <= strip.width:
            with self.w.frame() as inner:
                self.emit_loops(body, replace(at, index=[*at.index, VectorValue(str(strip.start), int64, 1, 0)]))
            self.w.frames[-1].lines += inner.lines
            return
        stop = self.e.const(strip.stop, int64)
        trip_count = self.trip_count if len(at.index) == at.lanes else None
        end = stop if trip_count is None else self.e.minimum(trip_count, stop)
        if self.peel and at.masked and at.transpose_axis < 0 and strip is self.strips[0]:
            i = emit_peeled_loop(self, body, at, strip, end)
        else:
            with self.w.loop(str(strip.start), end.text, str(strip.width)) as i:
                self.emit_loops(body, replace(at, index=[*at.index, i]))
        if trip_count is not None and any(s.kind in ("reduce", "arg") for s in body):
            emit_early_exit_remainder(self, body, at, strip, i)

    def reduction_result(self, stmt: Stmt, accumulators: list[Accumulator]) -> VectorValue:
        """The final value of a reduction."""
        along = stmt.lanes in stmt.reduced
        return finalize(self.e, stmt.the_op, accumulators[-1].total(accumulators[:-1], along))

    # --- one chunk ----------------------------------------------------------------------------------------------

    def emit_chunk(self, body: list[Stmt], at: Chunk) -> list[VectorValue]:
        """Emit the statements of a body for one chunk, row by row where rows are transposed together."""
        for step in row_chunks(self.e, at):
            self.emit_statements(body, step)
        return []

    def emit_statements(self, body: list[Stmt], at: Chunk) -> None:
        """Emit the statements of a body for one chunk and row."""
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
        """Emit atomics or a histogram: one element after the other."""
        operands = [self.operand(v, stmt.the_op, stmt.index, at) for v in stmt.the_op.operands]
        if stmt.kind == "atomic":
            self.checks.atomic(stmt.the_op, operands)
            self.write_chunk(atomics()(self.e, stmt.the_op, operands), stmt.the_buffer, stmt.index, at)
        else:
            histograms()(self.memory, stmt.the_buffer, self.base_of(stmt.the_buffer), at, *operands)

    def emit_compute(self, stmt: Stmt, at: Chunk) -> None:
        """Compute a value, copy a buffer, or clear one; a contracted buffer stays in registers."""
        if stmt.source is not None:
            value = self.memory.read_scratch(stmt.source, self.base_of(stmt.source), stmt.index, at)
        elif stmt.value is not None:
            value = self.value(stmt.value, stmt.index, at)
        else:
            value = self.e.const(0, scratch_dtype(stmt.the_buffer))
        if not stmt.the_buffer.contracted:
            self.write_chunk(value, stmt.the_buffer, stmt.index, at)

    def write_chunk(self, value: VectorValue, buffer: Buffer, index: IndexMap, at: Chunk) -> None:
        """Write lanes to a buffer."""
        if at.lanes >= 0 and at.lanes in index:
            value = self.e.splat(value, at.width)
        self.memory.write_scratch(value, buffer, self.base_of(buffer), index, at)

    def emit_store(self, stmt: Stmt, at: Chunk) -> None:
        """Emit a store to an array."""
        op = stmt.the_op
        access = Access.of(op)
        assert access.value is not None
        value = self.value(access.value, stmt.index, at)
        mask = self.optional_operand(access.mask, op, stmt.index, at)
        base = self.operand(access.base, op, stmt.index, at)
        self.checks.lanes(op, base, stmt.index, at, mask)
        self.memory.store_tile(access, access.value.dtype, base, stmt.index, at, value, mask)

    def emit_accumulate(self, stmt: Stmt, at: Chunk, accumulators: list[Accumulator]) -> None:
        """Add a chunk to a reduction, or compute a chunk of a scan."""
        if stmt.kind == "scan" and stmt.the_op.attrs["reverse"]:
            at = self.reversed_chunk(stmt, at)
        accumulator = next(a for a in accumulators if a.width == at.width)
        along = stmt.lanes in stmt.reduced
        values = self.reduction_terms(stmt, at, along)
        if stmt.kind != "scan":
            before = accumulator.load()
            after = accumulator.add(values, self.memory.tail_mask(at) if along else None)
            if self.is_fixpoint is not None:
                self.is_fixpoint = self.e.and_(self.is_fixpoint, is_bitwise_equal(self.e, before, after))
            return
        state = finalize(self.e, stmt.the_op, accumulator.scan(values) if along else accumulator.add(values, None))
        self.memory.write_scratch(state, stmt.the_buffer, self.base_of(stmt.the_buffer), stmt.index, at)

    def reduction_terms(self, stmt: Stmt, at: Chunk, along: bool) -> Partial:
        """The operands of a reduction for one chunk: its values, and for argmax and argmin their indices."""
        value = self.value(stmt.the_op.operands[0], stmt.index, at)
        value = value.as_dtype(float32) if value.dtype.is_narrow else value
        value = self.e.splat(value, at.width)
        if stmt.kind != "arg":
            return (value,)
        axis = stmt.reduced[0] if stmt.reduced else -1
        first = at.index_of(stmt.loops.index(axis)) if axis in stmt.loops else self.e.const(0, int64)
        index = self.e.convert(first, int32)
        if along and at.width > 1:
            index = self.e.add(index, self.e.iota(at.width, int32))
        return value, self.e.splat(index, at.width)

    def reversed_chunk(self, stmt: Stmt, at: Chunk) -> Chunk:
        """The chunk in mirrored order, for a reverse scan."""
        axis = stmt.reduced[0]
        if axis not in stmt.loops:
            return at
        p = stmt.loops.index(axis)
        mirrored = self.e.sub(self.e.const(stmt.domain[axis] - 1, int64), at.index[p])
        return replace(at, index=[mirrored if q == p else i for q, i in enumerate(at.index)])
