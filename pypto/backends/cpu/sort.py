"""Sorting rows of int32 or int64 keys: a bitonic network over memory, its last steps inside registers.

A row is padded to a power of two with the greatest key. Stages of length 2, 4, … n make runs of that length out of two
shorter ones: the first step exchanges each element with its mirror image, so that all runs go upwards, the others with
the one at half the distance of the step before. Exchanges over a register or more are loops over pairs of registers,
shorter ones are shuffles.
"""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.cpu.dot import function
from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.lanes import Lanes, llvm_type
from pypto.backends.cpu.loopir import Sort
from pypto.ir.types import DType, int64


@dataclass
class SortEmitter:
    """Emits sorts. The network for one type and length becomes a function of its own."""

    e: LaneEmitter
    made: set[str]
    dtype: DType = int64  # of the keys at hand

    @property
    def lanes(self) -> int:
        return self.e.target.vector_bytes // self.dtype.itemsize

    def emit(self, item: Sort, base: Lanes) -> None:
        """Pad and sort every row of a buffer."""
        w, buffer = self.e.w, item.buffer
        assert isinstance(buffer.elem, DType)
        size, self.dtype = buffer.pitch, buffer.elem
        name = f"sort_{self.dtype}_{size}"
        if name not in self.made:
            self.made.add(name)
            with function(w, f"internal void @{name}(ptr noalias %row) noinline nounwind"):
                self.network(size)
        rows = buffer.elements // size
        with w.loop("0", str(rows), "1") as i:
            start = self.e.add(base, self.e.mul(i, self.e.const(size * self.dtype.itemsize, int64)))
            row = w.raw(f"inttoptr i64 {start.text} to ptr")
            if size > buffer.shape[-1]:
                with w.loop(str(buffer.shape[-1]), str(size), "1") as k:
                    w.line(f"store i{self.dtype.bits} {self.dtype.integer_range[1]}, ptr {self.at(row, k)}")
            w.line(f"call void @{name}(ptr {row})")

    def at(self, row: str, index: Lanes) -> str:
        return self.e.w.raw(f"getelementptr i{self.dtype.bits}, ptr {row}, i64 {index.text}")

    def load(self, index: Lanes) -> Lanes:
        kind, align = llvm_type(self.dtype, self.lanes), self.dtype.itemsize
        text = self.e.w.raw(f"load {kind}, ptr {self.at('%row', index)}, align {align}")
        return Lanes(text, self.dtype, self.lanes, self.e.w.depth)

    def store(self, value: Lanes, index: Lanes) -> None:
        self.e.w.line(f"store {value.typed}, ptr {self.at('%row', index)}, align {self.dtype.itemsize}")

    def network(self, size: int) -> None:
        """All stages for a row of `size` keys."""
        w, lanes = self.e.w, self.lanes
        with w.loop("0", str(size), str(lanes)) as i:
            v = self.load(i)
            for length in powers(2, lanes):
                v = self.exchange(v, length - 1, length // 2)
                v = self.near(v, length // 4)
            self.store(v, i)
        for length in powers(2 * lanes, size):
            self.mirror(size, length)
            for distance in reversed(powers(lanes, length // 4)):
                self.far(size, distance)
            with w.loop("0", str(size), str(lanes)) as i:
                self.store(self.near(self.load(i), lanes // 2), i)

    def mirror(self, size: int, length: int) -> None:
        """Exchange the elements of two runs, the first with the last one."""
        e, w, back = self.e, self.e.w, [*range(self.lanes)][::-1]
        with w.loop("0", str(size), str(length)) as block:
            end = e.add(block, e.const(length - self.lanes, int64))
            with w.loop("0", str(length // 2), str(self.lanes)) as k:
                i, j = e.add(block, k), e.sub(end, k)
                a, b = self.load(i), self.load(j)
                b = e.shuffle(b, b, back)
                high = e.maximum(a, b)
                self.store(e.minimum(a, b), i)
                self.store(e.shuffle(high, high, back), j)

    def far(self, size: int, distance: int) -> None:
        """Exchange elements that lie registers apart."""
        e, w = self.e, self.e.w
        with w.loop("0", str(size), str(2 * distance)) as block:
            end = e.add(block, e.const(distance, int64))
            with w.loop(block.text, end.text, str(self.lanes)) as i:
                j = e.add(i, e.const(distance, int64))
                a, b = self.load(i), self.load(j)
                self.store(e.minimum(a, b), i)
                self.store(e.maximum(a, b), j)

    def near(self, v: Lanes, distance: int) -> Lanes:
        """The steps from a distance of less than a register on."""
        for d in reversed(powers(1, distance)):
            v = self.exchange(v, d, d)
        return v

    def exchange(self, v: Lanes, flip: int, bit: int) -> Lanes:
        """Exchange lanes of one register whose numbers differ by `flip`; those with `bit` get the greater key."""
        e = self.e
        other = e.shuffle(v, v, [lane ^ flip for lane in range(self.lanes)])
        upper = e.mask([bool(lane & bit) for lane in range(self.lanes)])
        return e.select(upper, e.maximum(v, other), e.minimum(v, other))


def powers(first: int, last: int) -> list[int]:
    """first, 2 first, 4 first, … up to last."""
    return [first << k for k in range((last // first).bit_length())]
