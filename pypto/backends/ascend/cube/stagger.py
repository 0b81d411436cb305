"""The vector cores' loop in two halves of a step (`steps`), each over parts of their rows: how it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from pypto.backends.ascend.blockir import Buffer, Expr, Loop, Scalar, View, fold
from pypto.backends.ascend.cube.ahead import AHEAD, behind
from pypto.backends.ascend.cube.halves import Chunk
from pypto.backends.ascend.cube.steps import Steps
from pypto.backends.ascend.lower import control
from pypto.backends.ascend.lower.lowering import Lowering, moved
from pypto.backends.ascend.lower.scalars import compared
from pypto.backends.ascend.lower.values import Tile
from pypto.ir.core import Op, Value
from pypto.ir.types import int64
from pypto.ops.row import Effect
from pypto.ops.table import TABLE

KEPT: Final = AHEAD + 1  # of each tile that the second half of a step needs


@dataclass
class Staggered:
    """A lowering of such a loop. `homes` are what it carries and `kept` what waits for its second half, of all rows.

    What the first half receives is `fetched` for the next part as soon as nothing needs this part's any more.
    """

    low: Lowering
    chunk: Chunk
    steps: Steps
    fetched: Op | None = None

    def __post_init__(self) -> None:
        if self.fetched is not None:
            tile = self.low.new(self.fetched.result.shape, self.fetched.result.dtype, self.fetched.result.hint)
            assert isinstance(tile.view.of, Buffer)
            self.low.buffers[-1] = replace(tile.view.of, ahead=True)
            self.place = replace(tile, view=View(self.low.buffers[-1]))
        self.homes = [self.room(v, 1) for v in self.steps.args]
        self.kept = [self.room(v, KEPT) for v in self.steps.kept]

    @property
    def parts(self) -> int:
        return self.chunk.rows // self.chunk.size

    def room(self, v: Value, times: int) -> Tile:
        """Memory for a tile of each part of the rows, so many times."""
        layout = self.low.grain.layout(v.shape)
        return Tile(v.shape, v.dtype, self.low.buffer(v.hint, v.dtype, times * self.parts * layout.count), layout)

    def mine(self, tile: Tile, turn: Scalar = 0) -> Tile:
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
        steps.before = [op for op in steps.before if op not in shared]
        start, stop = (low.number(v) for v in steps.loop.operands[:2])
        with self.rows(True):
            for op in steps.before:
                low.dispatch(low, op)
            for home, init in zip(self.homes, steps.loop.operands[3:], strict=True):
                control.write(low, self.mine(home), low.held(init))
        low.loc = loc
        self.fetch(0, compared("<", start, stop))
        self.loop(start, stop)
        with self.rows(True):
            self.again(steps.after)
            low.env.update(zip(steps.loop.results, map(self.mine, self.homes), strict=True))
            for op in steps.after:
                low.dispatch(low, op)

    def shared(self) -> list[Op]:
        """Numbers that are the same for all parts."""
        own, found = {self.chunk.part}, []
        for op in self.steps.before:
            if own & set(op.operands) or TABLE[op.name].effect is not Effect.PURE or any(v.shape for v in op.results):
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
            low.env[index_of] = index
            with self.rows(compared("<", index, stop)):
                goes_on = compared("<", fold("+", index, step), stop)
                self.half(self.steps.first, fold("//", fold("-", index, start), step), goes_on)
            before = low.let("before", op.operands[0].dtype, fold("-", index, AHEAD * step))
            low.env[index_of] = before
            with self.rows(compared(">=", before, start)):
                self.half(self.steps.second, fold("//", fold("-", before, start), step))
        end = fold("+", stop, AHEAD * step)
        low.items.append(Loop(index, start, end, step, tuple(items), low.line, op.operands[0].dtype))

    def half(self, ops: list[Op], turn: Scalar, goes_on: Scalar | None = None) -> None:
        """One of the halves; the first one is told whether another step follows."""
        low, steps, is_first = self.low, self.steps, goes_on is not None
        self.again(ops)
        low.env.update(zip(steps.args, map(self.mine, self.homes), strict=True))
        if self.kept:
            turn = low.let("turn", int64, Expr("%", (turn, KEPT)))
        kept = [self.mine(tile, turn) for tile in self.kept]
        if is_first:
            for v, tile in zip(steps.kept, kept, strict=True):
                if v in steps.args:
                    control.write(low, tile, low.held(v))
        else:
            low.env.update(zip(steps.kept, kept, strict=True))
        self.work(ops, goes_on)
        if is_first:
            for v, tile in zip(steps.kept, kept, strict=True):
                if v not in steps.args:
                    control.write(low, tile, low.held(v))
        ends = steps.loop.regions[0].terminator.operands
        mine = [i for i in range(len(ends)) if (i in steps.late) != is_first]
        control.carry(low, [self.mine(self.homes[i]) for i in mine], [ends[i] for i in mine])

    def work(self, ops: list[Op], goes_on: Scalar | None) -> None:
        """The ops of a half, and what the next part needs once the last of them has read this part's."""
        low = self.low
        if self.fetched is None or goes_on is None:
            for op in ops:
                low.dispatch(low, op)
            return
        low.env[self.fetched.result] = self.place
        last = last_reader(self.fetched, ops)
        for op in ops:
            if op is not self.fetched:
                low.dispatch(low, op)
            if op is last:
                part = self.chunk.part
                following = fold("%", fold("+", low.number(part), self.chunk.size), self.chunk.rows)
                after = 0 if self.parts == 1 else low.let("next_part", int64, following)
                self.fetch(after, goes_on if self.parts == 1 else Expr("||", (compared("!=", after, 0), goes_on)))

    def fetch(self, part: Scalar, exists: Scalar) -> None:
        """Receive a part of the rows, where there is one."""
        if self.fetched is None:
            return
        low, (body,) = self.low, self.steps.loop.regions
        makers = {v: op for op in body.body for v in op.results}
        cone = behind(self.fetched, makers)
        before = dict(low.env)
        with low.when(exists):
            low.env[self.chunk.part], low.into[self.fetched.result] = part, self.place
            ops = [op for op in body.body if op in cone]
            self.again(ops)
            for op in ops:
                low.dispatch(low, op)
        del low.into[self.fetched.result]
        low.env = before

    def again(self, ops: Sequence[Op]) -> None:
        """What some ops need of what comes before the loop, where each part has its own."""
        if self.parts == 1:
            return
        makers = {v: op for op in self.steps.before for v in op.results}
        needed = {x for op in ops for v in op.operands if v in makers for x in behind(makers[v], makers)}
        for op in self.steps.before:
            if op in needed:
                self.low.dispatch(self.low, op)

    @contextmanager
    def rows(self, exists: Scalar) -> Iterator[None]:
        """The parts of the rows one after the other, or none of them."""
        low, chunk = self.low, self.chunk
        if exists is True and self.parts == 1:
            low.env[chunk.part] = 0
            yield
            return
        name = low.name("part")
        low.env[chunk.part] = name if self.parts > 1 else 0
        with low.block() as items:
            yield
        stop = chunk.rows if exists is True else Expr("?:", (exists, chunk.rows, 0))
        low.items.append(Loop(name, 0, stop, chunk.size, tuple(items), low.line))



def last_reader(load: Op, ops: list[Op]) -> Op:
    """The last op that reads what was loaded, also under another shape."""
    same, last = {load.result}, load
    for op in ops:
        if same & set(op.operands):
            last = op
            if not TABLE[op.name].elementwise and "reduction" not in TABLE[op.name].traits:
                same.update(op.results)
    return last
