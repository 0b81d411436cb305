"""The vector cores' loop in two halves of a step (`steps`), part of their rows by part: how it is written.

For each part, what its second half receives is copied while its first half computes, and so is what the next part's
first half receives, to the other one of two places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from pypto.backends.ascend.blockir.ir import Buffer, Expr, Loop, Scalar, View, fold
from pypto.backends.ascend.rules.scalars import compared
from pypto.backends.ascend.tile.pipeline_partition import PipelinePartition
from pypto.backends.ascend.tile.row_split import RowChunk
from pypto.backends.ascend.tile.software_pipeline import PIPELINE_DEPTH, backward_slice
from pypto.backends.ascend.vector import control
from pypto.backends.ascend.vector.builder import Lowering, moved
from pypto.backends.ascend.vector.values import Tile
from pypto.ir.core import Op, Value
from pypto.ir.types import int32, int64
from pypto.ops.memory import Access
from pypto.passes.memory_effects import is_pure

LIVE_STAGES: Final = PIPELINE_DEPTH + 1  # of each tile that the second half of a step needs
FETCH_STAGES: Final = 2  # places for what the first half receives


@dataclass
class PipelinedLoop:
    """A lowering of such a loop.

    `carried_buffers` are what it carries and `live_across` what waits for its second half, of all rows.
    What the first half receives is `prefetched` a part ahead; what the second one receives, `stored_back`, while the
    first one runs.
    """

    low: Lowering
    chunk: RowChunk
    steps: PipelinePartition
    prefetched: Op | None = None
    stored_back: Op | None = None

    def __post_init__(self) -> None:
        self.places = {
            op: self.place(op, n)
            for op, n in ((self.prefetched, FETCH_STAGES), (self.stored_back, 1))
            if op is not None
        }
        self.carried_buffers = [self.room(v, 1) for v in self.steps.args]
        self.live_across = [self.room(v, LIVE_STAGES) for v in self.steps.live_across]

    def place(self, load: Op, stages: int) -> Tile:
        """Memory for what a load brings, which is copied ahead of its use."""
        tile = self.low.new(load.result.shape, load.result.dtype, load.result.hint)
        assert isinstance(tile.view.of, Buffer)
        self.low.buffers[-1] = replace(tile.view.of, ahead=True, stages=stages)
        return replace(tile, view=View(self.low.buffers[-1]))

    @property
    def parts(self) -> int:
        return self.chunk.rows // self.chunk.size

    def room(self, v: Value, times: int) -> Tile:
        """Memory for a tile of each part of the rows, so many times."""
        layout = self.low.grain.layout(v.shape)
        return Tile(v.shape, v.dtype, self.low.buffer(v.hint, v.dtype, times * self.parts * layout.count), layout)

    def chunk_of(self, tile: Tile, turn: Scalar = 0) -> Tile:
        """The tile of the part at hand."""
        part = fold("//", self.low.number(self.chunk.part), self.chunk.size)
        at = fold("*", fold("+", fold("*", turn, self.parts), part), tile.layout.count)
        return Tile(tile.shape, tile.dtype, moved(tile.view, at), tile.layout)

    def write(self) -> None:
        """All of it, in place of the loop over parts around it."""
        low, steps, loc = self.low, self.steps, self.low.loc
        shared = self.shared()
        for op in shared:
            low.dispatch(low, op)
        steps.prologue = [op for op in steps.prologue if op not in shared]
        start, stop = (low.number(v) for v in steps.loop.operands[:2])
        with self.rows():
            for op in steps.prologue:
                low.dispatch(low, op)
            for home, init in zip(self.carried_buffers, steps.loop.operands[3:], strict=True):
                control.write(low, self.chunk_of(home), low.held(init))
        low.loc = loc
        if self.prefetched is not None:
            self.fetch(self.prefetched, 0, 0, compared("<", start, stop))
        self.loop(start, stop)
        with self.rows():
            self.rematerialize(steps.epilogue)
            low.env.update(zip(steps.loop.results, map(self.chunk_of, self.carried_buffers), strict=True))
            for op in steps.epilogue:
                low.dispatch(low, op)

    def shared(self) -> list[Op]:
        """Numbers that are the same for all parts."""
        own, found = {self.chunk.part}, []
        for op in self.steps.prologue:
            if own & set(op.operands) or not is_pure(op) or any(v.shape for v in op.results):
                own.update(op.results)
            else:
                found.append(op)
        return found

    def loop(self, start: Scalar, stop: Scalar) -> None:
        low, op = self.low, self.steps.loop
        (index_of, *_), step = op.regions[0].args, low.number(op.operands[2])
        assert isinstance(step, int)
        low.natural.add(index_of)
        stop = low.let("stop", op.operands[1].dtype, stop)
        with low.block() as items:
            index = low.name(index_of.hint or "i")
            before = low.let("before", op.operands[0].dtype, fold("-", index, PIPELINE_DEPTH * step))
            turns = [fold("//", fold("-", x, start), step) for x in (index, before)]
            begins, ends = compared("<", index, stop), compared(">=", before, start)
            with self.rows():
                low.env[index_of] = before
                if self.stored_back is not None:
                    self.fetch(self.stored_back, low.number(self.chunk.part), 0, ends)
                low.env[index_of] = index
                with self.predicated(begins):
                    self.fetch_next(turns[0], compared("<", fold("+", index, step), stop))
                    self.half(self.steps.produce, turns[0], True)
                low.env[index_of] = before
                with self.predicated(ends):
                    self.half(self.steps.consume, turns[1], False)
        end = fold("+", stop, PIPELINE_DEPTH * step)
        low.items.append(Loop(index, start, end, step, tuple(items), low.line, op.operands[0].dtype))

    def half(self, ops: list[Op], turn: Scalar, is_first: bool) -> None:
        """One of the halves."""
        low, steps = self.low, self.steps
        self.rematerialize(ops)
        low.env.update(zip(steps.args, map(self.chunk_of, self.carried_buffers), strict=True))
        if self.live_across:
            turn = low.let("turn", int64, Expr("%", (turn, LIVE_STAGES)))
        kept = dict(zip(steps.live_across, (self.chunk_of(tile, turn) for tile in self.live_across), strict=True))
        if is_first:
            self.keep({v: tile for v, tile in kept.items() if v in steps.args})
        else:
            low.env.update(kept)
        sends = [op for op in ops if not op.results]
        for op in ops:
            if op not in self.places and op not in sends:
                low.dispatch(low, op)
        if is_first:
            self.keep({v: tile for v, tile in kept.items() if v not in steps.args})
        self.carry(sends, is_first)

    def keep(self, kept: dict[Value, Tile]) -> None:
        for v, tile in kept.items():
            control.write(self.low, tile, self.low.held(v))

    def carry(self, sends: list[Op], is_first: bool) -> None:
        """What the loop carries on, before a half sends what is made by then: no unit waits in between."""
        low = self.low
        for op in sends:
            if (sent := Access.of(op).value) is not None:
                low.made(low.held(sent))
        ends = self.steps.loop.regions[0].terminator.operands
        mine = [i for i in range(len(ends)) if (i in self.steps.late) != is_first]
        control.carry(low, [self.chunk_of(self.carried_buffers[i]) for i in mine], [ends[i] for i in mine])
        for op in sends:
            low.dispatch(low, op)

    def fetch_next(self, turn: Scalar, goes_on: Scalar) -> None:
        """What the next part needs, where there is one: of this step, or of the next one if that exists."""
        if self.prefetched is None:
            return
        low, part = self.low, self.low.number(self.chunk.part)
        turn = turn if self.parts == 1 else fold("//", part, self.chunk.size)
        following = fold("%", fold("+", part, self.chunk.size), self.chunk.rows)
        after = 0 if self.parts == 1 else low.let("next_part", int64, following)
        exists = goes_on if self.parts == 1 else Expr("||", (compared("!=", after, 0), goes_on))
        self.fetch(self.prefetched, after, fold("+", turn, 1), exists)
        low.env[self.prefetched.result] = self.stage_buffer(self.prefetched, turn)

    def fetch(self, load: Op, part: Scalar, turn: Scalar, exists: Scalar) -> None:
        """Receive a part of the rows, where there is one."""
        low, (body,) = self.low, self.steps.loop.regions
        makers = {v: op for op in body.body for v in op.results}
        cone, to = backward_slice(load, makers), self.stage_buffer(load, turn)
        before = dict(low.env)
        with low.when(exists):
            low.env[self.chunk.part], low.into[load.result] = part, to
            ops = [op for op in body.body if op in cone]
            self.rematerialize(ops)
            for op in ops:
                low.dispatch(low, op)
        del low.into[load.result]
        low.env = before
        low.env[load.result] = to

    def stage_buffer(self, load: Op, turn: Scalar) -> Tile:
        """The place for what a load brings in a turn."""
        tile = self.places[load]
        buffer = tile.view.of
        assert isinstance(buffer, Buffer)
        return replace(tile, view=replace(tile.view, stage=fold("%", turn, FETCH_STAGES) if buffer.stages > 1 else 0))

    def rematerialize(self, ops: Sequence[Op]) -> None:
        """What some ops need of what comes before the loop, where each part has its own."""
        if self.parts == 1:
            return
        makers = {v: op for op in self.steps.prologue for v in op.results}
        needed = {x for op in ops for v in op.operands if v in makers for x in backward_slice(makers[v], makers)}
        for op in self.steps.prologue:
            if op in needed:
                self.low.dispatch(self.low, op)

    @contextmanager
    def rows(self) -> Iterator[None]:
        """The parts of the rows one after the other."""
        low, chunk = self.low, self.chunk
        if self.parts == 1:
            low.env[chunk.part] = 0
            yield
            return
        low.env[chunk.part] = name = low.name("part")
        with low.block() as items:
            yield
        low.items.append(Loop(name, 0, chunk.rows, chunk.size, tuple(items), low.line))

    @contextmanager
    def predicated(self, exists: Scalar) -> Iterator[None]:
        """A half that has work only in some steps: a loop, since events are kept from one run of it to the next."""
        name = self.low.name("once")
        with self.low.block() as items:
            yield
        self.low.items.append(Loop(name, 0, Expr("i32", (exists,)), 1, tuple(items), self.low.line, int32))
