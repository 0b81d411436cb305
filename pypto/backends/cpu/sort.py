"""Sorting rows of int64 keys: a bitonic network over memory, its last steps inside registers.

A row is padded to a power of two with the greatest key. Stages of length k = 2, 4, … n merge bitonic runs; a run whose
index has bit k is sorted downwards. Exchanges over a distance of a register or more are loops over pairs of registers,
shorter ones are shuffles.
"""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.cpu.dot import function
from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.lanes import Lanes, llvm_type
from pypto.backends.cpu.loopir import Sort
from pypto.ir.types import int64

_GREATEST = 2**63 - 1


@dataclass
class SortEmitter:
    """Emits sorts. The network for one length becomes a function of its own."""

    e: LaneEmitter
    made: set[int]

    @property
    def lanes(self) -> int:
        return self.e.target.vector_bytes // 8

    def emit(self, item: Sort, base: Lanes) -> None:
        """Pad and sort every row of a buffer."""
        w, buffer = self.e.w, item.buffer
        size = buffer.pitch
        if size not in self.made:
            self.made.add(size)
            with function(w, f"internal void @sort_{size}(ptr noalias %row) noinline nounwind"):
                self.network(size)
        rows = buffer.elements // size
        with w.loop("0", str(rows), "1") as i:
            start = self.e.add(base, self.e.mul(i, self.e.const(size * 8, int64)))
            row = w.raw(f"inttoptr i64 {start.text} to ptr")
            if size > buffer.shape[-1]:
                with w.loop(str(buffer.shape[-1]), str(size), "1") as k:
                    w.line(f"store i64 {_GREATEST}, ptr {self.at(row, k)}")
            w.line(f"call void @sort_{size}(ptr {row})")

    def at(self, row: str, index: Lanes) -> str:
        return self.e.w.raw(f"getelementptr i64, ptr {row}, i64 {index.text}")

    def load(self, index: Lanes) -> Lanes:
        kind = llvm_type(int64, self.lanes)
        text = self.e.w.raw(f"load {kind}, ptr {self.at('%row', index)}, align 8")
        return Lanes(text, int64, self.lanes, self.e.w.depth)

    def store(self, value: Lanes, index: Lanes) -> None:
        self.e.w.line(f"store {value.typed}, ptr {self.at('%row', index)}, align 8")

    def network(self, size: int) -> None:
        """All stages for a row of `size` keys."""
        w, lanes = self.e.w, self.lanes
        length = 2
        while length <= size:
            distance = length // 2
            while distance >= lanes:
                self.far(size, length, distance)
                distance //= 2
            with w.loop("0", str(size), str(lanes)) as i:
                v = self.load(i)
                while distance:
                    v = self.near(v, i, length, distance)
                    distance //= 2
                self.store(v, i)
            length *= 2

    def far(self, size: int, length: int, distance: int) -> None:
        """Exchange elements that lie registers apart."""
        e, w = self.e, self.e.w
        with w.loop("0", str(size), str(2 * distance)) as block:
            down = self.descends(block, length)
            end = e.add(block, e.const(distance, int64))
            with w.loop(block.text, end.text, str(self.lanes)) as i:
                j = e.add(i, e.const(distance, int64))
                a, b = self.load(i), self.load(j)
                low, high = e.minimum(a, b), e.maximum(a, b)
                self.store(e.select(down, high, low), i)
                self.store(e.select(down, low, high), j)

    def near(self, v: Lanes, i: Lanes, length: int, distance: int) -> Lanes:
        """Exchange lanes of one register."""
        e = self.e
        other = e.shuffle(v, v, [lane ^ distance for lane in range(self.lanes)])
        upper = [bool(lane & distance) for lane in range(self.lanes)]
        if length < self.lanes:  # the direction changes within the register
            picks = [u != bool(lane & length) for lane, u in enumerate(upper)]
            return e.select(e.mask(picks), e.maximum(v, other), e.minimum(v, other))
        take = e.xor(e.mask(upper), self.descends(i, length))
        return e.select(take, e.maximum(v, other), e.minimum(v, other))

    def descends(self, index: Lanes, length: int) -> Lanes:
        """Whether the run that begins here is sorted downwards."""
        bit = self.e.and_(index, self.e.const(length, int64))
        return self.e.cmp("ne", bit, self.e.const(0, int64))
