"""Emission of the vector cores' pipelined loop, chunk by chunk of their rows.

`tile.pipeline_partition` splits a step into two stages: the first produces what the cube core needs, the second
consumes what it returns, `PIPELINE_DEPTH` steps later. For each chunk of rows, the tile of the second stage is copied
in while the first stage computes. The next chunk's tile for the first stage is copied to the other buffer of a pair. So
the copies overlap the computation.

    for i in range(start, stop + depth):
        for part in chunks:
            copy in the second stage's tile of step i - depth
            if i < stop:           copy in the next tile; first stage of step i
            if i - depth >= start: second stage of step i - depth
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from pypto.backends.ascend.blockir.conditions import compared
from pypto.backends.ascend.blockir.ir import Buffer, Expr, Loop, Scalar, View, fold
from pypto.backends.ascend.tile.pipeline_partition import PipelinePartition
from pypto.backends.ascend.tile.row_split import RowChunk
from pypto.backends.ascend.tile.software_pipeline import PIPELINE_DEPTH, backward_slice
from pypto.backends.ascend.vector.builder import Lowering, advance_view
from pypto.backends.ascend.vector.handlers import control
from pypto.backends.ascend.vector.naming import local_name
from pypto.backends.ascend.vector.values import Tile
from pypto.ir.core import Op, Value
from pypto.ir.types import int32, int64
from pypto.ops.memory import Access
from pypto.passes.analysis.memory_effects import is_constant_load, is_pure, written_arrays

LIVE_STAGES: Final = PIPELINE_DEPTH + 1  # stages of a tile that the second stage needs
FETCH_STAGES: Final = 2  # buffers for the tile of the first stage


@dataclass
class PipelinedLoop:
    """The lowering of one pipelined loop."""

    low: Lowering  # the lowering of the vector side
    chunk: RowChunk  # the rows that one pass processes
    steps: PipelinePartition  # the stages
    prefetched: Op | None = None  # load of the first stage, copied one chunk ahead
    stored_back: Op | None = None  # load of the second stage, copied during the first one

    def __post_init__(self) -> None:
        self.fetch_buffers = {
            op: self.allocate_fetch_buffer(op, n)
            for op, n in ((self.prefetched, FETCH_STAGES), (self.stored_back, 1))
            if op is not None
        }
        self.carried_buffers = [self.allocate_chunks(v, 1) for v in self.steps.carried_args]
        self.live_across = [self.allocate_chunks(v, LIVE_STAGES) for v in self.steps.live_across]

    def allocate_fetch_buffer(self, load: Op, stages: int) -> Tile:
        """Allocate a buffer for a load that is copied ahead of its use."""
        tile = self.low.new_tile(load.result.shape, load.result.dtype, load.result.hint or local_name(load))
        assert isinstance(tile.view.of, Buffer)
        self.low.buffers[-1] = replace(tile.view.of, ahead=True, stages=stages)
        return replace(tile, view=View(self.low.buffers[-1]))

    @property
    def chunk_count(self) -> int:
        """Number of chunks that the rows are split into."""
        return self.chunk.rows // self.chunk.size

    def allocate_chunks(self, v: Value, stages: int) -> Tile:
        """Allocate a tile for each chunk of rows and each stage."""
        layout = self.low.grain.layout(v.shape)
        return Tile(
            v.shape, v.dtype, self.low.buffer(v.hint, v.dtype, stages * self.chunk_count * layout.count), layout
        )

    def chunk_tile(self, tile: Tile, stage: Scalar = 0) -> Tile:
        """Return the present chunk's part of such a tile."""
        part = fold("//", self.low.number(self.chunk.start), self.chunk.size)
        offset = fold("*", fold("+", fold("*", stage, self.chunk_count), part), tile.layout.count)
        return Tile(tile.shape, tile.dtype, advance_view(tile.view, offset), tile.layout)

    def emit(self) -> None:
        """Emit prologue, loop and epilogue, in place of the loop over chunks around them."""
        low, steps, loc = self.low, self.steps, self.low.loc
        invariant_ops = self.chunk_invariant_ops()
        for op in invariant_ops:
            low.dispatch(low, op)
        steps.prologue = [op for op in steps.prologue if op not in invariant_ops]
        start, stop = (low.number(v) for v in steps.loop.operands[:2])
        with self.chunk_loop():
            for op in steps.prologue:
                low.dispatch(low, op)
            for buffer, init in zip(self.carried_buffers, steps.loop.operands[3:], strict=True):
                control.copy_tile(low, self.chunk_tile(buffer), low.tile_value(init))
        low.loc = loc
        if self.prefetched is not None:
            self.fetch(self.prefetched, 0, 0, compared("<", start, stop))
        self.emit_loop(start, stop)
        with self.chunk_loop():
            self.rematerialize(steps.epilogue)
            low.env.update(zip(steps.loop.results, map(self.chunk_tile, self.carried_buffers), strict=True))
            for op in steps.epilogue:
                low.dispatch(low, op)

    def chunk_invariant_ops(self) -> list[Op]:
        """Return the scalar ops of the prologue that are the same for all chunks."""
        chunk_values = {self.chunk.start}
        invariant_ops = []
        function, written = self.low.function, written_arrays(self.low.function)
        for op in self.steps.prologue:
            can_move = is_pure(op) or is_constant_load(function, op, written)
            if chunk_values & set(op.operands) or not can_move or any(v.shape for v in op.results):
                chunk_values.update(op.results)
            else:
                invariant_ops.append(op)
        return invariant_ops

    def emit_loop(self, start: Scalar, stop: Scalar) -> None:
        """Emit the loop with both stages."""
        low, op = self.low, self.steps.loop
        (index_of, *_), step = op.regions[0].args, low.number(op.operands[2])
        assert isinstance(step, int)
        low.nonnegative.add(index_of)
        stop = low.let("stop", op.operands[1].dtype, stop)
        with low.block() as items:
            index = low.name(index_of.hint or "i")
            consumed_index = low.let("before", op.operands[0].dtype, fold("-", index, PIPELINE_DEPTH * step))
            iterations = [fold("//", fold("-", x, start), step) for x in (index, consumed_index)]
            has_first = compared("<", index, stop)
            has_second = compared(">=", consumed_index, start)
            with self.chunk_loop():
                low.env[index_of] = consumed_index
                if self.stored_back is not None:
                    self.fetch(self.stored_back, low.number(self.chunk.start), 0, has_second)
                low.env[index_of] = index
                with self.predicated(has_first):
                    self.prefetch_next(iterations[0], compared("<", fold("+", index, step), stop))
                    self.emit_stage(self.steps.produce, iterations[0], True)
                low.env[index_of] = consumed_index
                with self.predicated(has_second):
                    self.emit_stage(self.steps.consume, iterations[1], False)
        end = fold("+", stop, PIPELINE_DEPTH * step)
        low.items.append(Loop(index, start, end, step, tuple(items), low.line, op.operands[0].dtype))

    def emit_stage(self, ops: list[Op], iteration: Scalar, is_first: bool) -> None:
        """Emit one stage of a step."""
        low, steps = self.low, self.steps
        self.rematerialize(ops)
        low.env.update(zip(steps.carried_args, map(self.chunk_tile, self.carried_buffers), strict=True))
        if self.live_across:
            iteration = low.let("stage", int64, Expr("%", (iteration, LIVE_STAGES)))
        live_tiles = dict(
            zip(steps.live_across, (self.chunk_tile(tile, iteration) for tile in self.live_across), strict=True)
        )
        if is_first:
            self.save_live({v: tile for v, tile in live_tiles.items() if v in steps.carried_args})
        else:
            low.env.update(live_tiles)
        stores = [op for op in ops if not op.results]
        for op in ops:
            if op not in self.fetch_buffers and op not in stores:
                low.dispatch(low, op)
        if is_first:
            self.save_live({v: tile for v, tile in live_tiles.items() if v not in steps.carried_args})
        self.carry_values(stores, is_first)

    def save_live(self, live_tiles: dict[Value, Tile]) -> None:
        """Copy values that the second stage needs to where they stay live."""
        for v, tile in live_tiles.items():
            control.copy_tile(self.low, tile, self.low.tile_value(v))

    def carry_values(self, stores: list[Op], is_first: bool) -> None:
        """Update the loop-carried tiles, then send results, which are complete by then: so no unit waits in between."""
        low = self.low
        for op in stores:
            sent = Access.of(op).value
            if sent is not None:
                low.materialize(low.tile_value(sent))
        next_values = self.steps.loop.regions[0].terminator.operands
        own_slots = [i for i in range(len(next_values)) if (i in self.steps.late_carried) != is_first]
        control.update_carried(
            low, [self.chunk_tile(self.carried_buffers[i]) for i in own_slots], [next_values[i] for i in own_slots]
        )
        for op in stores:
            low.dispatch(low, op)

    def prefetch_next(self, iteration: Scalar, has_next: Scalar) -> None:
        """Copy in the tile of the next chunk, which is in this step or in the next one."""
        if self.prefetched is None:
            return
        low = self.low
        part = self.low.number(self.chunk.start)
        if (
            self.chunk_count > 1
        ):  # buffers alternate from chunk to chunk: an even number of them begins with the same one
            before = fold("*", iteration, self.chunk_count) if self.chunk_count % FETCH_STAGES else 0
            iteration = fold("+", before, fold("//", part, self.chunk.size))
        following = fold("%", fold("+", part, self.chunk.size), self.chunk.rows)
        next_part = 0 if self.chunk_count == 1 else low.let("next_part", int64, following)
        exists = has_next if self.chunk_count == 1 else Expr("||", (compared("!=", next_part, 0), has_next))
        self.fetch(self.prefetched, next_part, fold("+", iteration, 1), exists)
        low.env[self.prefetched.result] = self.stage_buffer(self.prefetched, iteration)

    def fetch(self, load: Op, part: Scalar, iteration: Scalar, exists: Scalar) -> None:
        """Copy in a chunk of the rows, where there is one."""
        low, (body,) = self.low, self.steps.loop.regions
        makers = {v: op for op in body.body for v in op.results}
        slice_ = backward_slice(load, makers)
        tile = self.stage_buffer(load, iteration)
        saved_env = dict(low.env)
        with low.when(exists):
            low.env[self.chunk.start], low.destinations[load.result] = part, tile
            ops = [op for op in body.body if op in slice_]
            self.rematerialize(ops)
            for op in ops:
                low.dispatch(low, op)
        del low.destinations[load.result]
        low.env = saved_env
        low.env[load.result] = tile

    def stage_buffer(self, load: Op, iteration: Scalar) -> Tile:
        """Return the buffer stage for what a load brings in an iteration."""
        tile = self.fetch_buffers[load]
        buffer = tile.view.of
        assert isinstance(buffer, Buffer)
        return replace(
            tile, view=replace(tile.view, stage=fold("%", iteration, FETCH_STAGES) if buffer.stages > 1 else 0)
        )

    def rematerialize(self, ops: Sequence[Op]) -> None:
        """Compute again, for each chunk, what some ops need of the prologue."""
        if self.chunk_count == 1:
            return
        makers = {v: op for op in self.steps.prologue for v in op.results}
        needed = {x for op in ops for v in op.operands if v in makers for x in backward_slice(makers[v], makers)}
        for op in self.steps.prologue:
            if op in needed:
                self.low.dispatch(self.low, op)

    @contextmanager
    def chunk_loop(self) -> Iterator[None]:
        """Open the loop over chunks of rows."""
        low, chunk = self.low, self.chunk
        if self.chunk_count == 1:
            low.env[chunk.start] = 0
            yield
            return
        low.env[chunk.start] = name = low.name("part")
        with low.block() as items:
            yield
        low.items.append(Loop(name, 0, chunk.rows, chunk.size, tuple(items), low.line))

    @contextmanager
    def predicated(self, exists: Scalar) -> Iterator[None]:
        """Open a stage that runs in some steps only: a loop, since a loop keeps events from one run to the next."""
        name = self.low.name("once")
        with self.low.block() as items:
            yield
        self.low.items.append(Loop(name, 0, Expr("i32", (exists,)), 1, tuple(items), self.low.line, int32))
