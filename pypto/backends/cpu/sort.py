"""Sorting rows of int32 or int64 keys by a bitonic network that stays within lanes as long as it can.

A row is padded to a power of two with the greatest key, and seen as a matrix whose columns are the lanes of its
registers. First all columns are sorted at once, which takes minima and maxima of registers and nothing else: short runs
by Batcher's network, longer ones out of two, where the first step exchanges each key with its mirror image, so that all
runs go upwards, and the others exchange it with the one at half the distance of the step before. Then two, four, …
columns are merged into one run; of that only the first steps go from one lane to another. At last the matrix is
transposed in place.

Each sweep over the row does several steps on a group of registers, whose numbers differ in a few bits. So that the last
one can work in place, the low bits of a register's number are the high bits of its place in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from pypto.backends.cpu.fuse import Fuser
from pypto.backends.cpu.kernel import function
from pypto.backends.cpu.lanes import Lanes, llvm_type
from pypto.backends.cpu.loopir import Buffer, CellItem
from pypto.backends.cpu.lower import FunctionEmitter
from pypto.backends.cpu.schedule import Scheduler
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Function, Op
from pypto.ir.types import DType, int64

Pairs = list[tuple[int, int]]
Work = Callable[[list[Lanes]], list[Lanes]]


@dataclass(eq=False, slots=True)
class Sort(CellItem):
    """The rows of a buffer of integer keys, sorted in place."""

    buffer: Buffer

    def __str__(self) -> str:
        return f"sort b{self.buffer.id}"


def legalize(function: Function, target: CpuTarget) -> Function:
    """Sorts are what they have to be."""
    return function


def schedule(op: Op, scheduler: Scheduler, fuser: Fuser) -> None:
    buffer = scheduler.storage.of[op.results[0]]
    fuser.add(scheduler.compute(op.operands[0], buffer, scheduler.plan.position[op]))
    fuser.barrier(Sort(op, buffer))


@dataclass
class SortEmitter:
    """Emits sorts. The network for one type and length becomes a function of its own."""

    function: FunctionEmitter
    made: set[str] = field(default_factory=set)
    dtype: DType = int64  # of the keys at hand
    bits: int = 0  # of the numbers of a row's registers

    @property
    def lanes(self) -> int:
        return self.e.target.vector_bytes // self.dtype.itemsize

    @property
    def turned(self) -> int:
        """How many bits of a register's number become bits of a lane's."""
        return min(self.bits, log2(self.lanes))

    def __post_init__(self) -> None:
        self.e = self.function.e

    def begin(self, program: Lanes, ids: Sequence[Lanes], grid: Sequence[Lanes]) -> None:
        """A sort needs nothing before it."""

    def emit(self, item: CellItem) -> None:
        """Pad and sort every row of a buffer."""
        assert isinstance(item, Sort)
        w, buffer, base = self.e.w, item.buffer, self.function.base(item.buffer)
        assert isinstance(buffer.elem, DType)
        size, self.dtype = buffer.pitch, buffer.elem
        self.bits = log2(size // self.lanes)
        name = f"sort_{self.dtype}_{size}"
        if name not in self.made:
            self.made.add(name)
            with function(w, f"internal void @{name}(ptr noalias %row) noinline nounwind"):
                self.network(4 if self.e.target.registers > 16 else 3)
        rows = buffer.elements // size
        with w.loop("0", str(rows), "1") as i:
            start = self.e.add(base, self.e.mul(i, self.e.const(size * self.dtype.itemsize, int64)))
            row = w.raw(f"inttoptr i64 {start.text} to ptr")
            if size > buffer.shape[-1]:
                with w.loop(str(buffer.shape[-1]), str(size), "1") as k:
                    place = w.raw(f"getelementptr i{self.dtype.bits}, ptr {row}, i64 {k.text}")
                    w.line(f"store i{self.dtype.bits} {self.dtype.integer_range[1]}, ptr {place}")
            w.line(f"call void @{name}(ptr {row})")

    def network(self, most: int) -> None:
        """All sweeps; a group has 2 to the power of `most` registers."""
        short = min(most, self.bits)
        self.sweep(range(short), partial(self.exchanged, batcher(1 << short)))
        for length in range(short + 1, self.bits + 1):
            first = range(length - most + 1, length)
            self.sweep(first, partial(self.exchanged, mirrored(1 << most)), True)
            self.halve(first.start, most)
        for run in range(1, log2(self.lanes) + 1):
            first = range(self.bits - most + 1 if self.bits > most else 0, self.bits)
            self.sweep(first, partial(self.met, run, len(first)), True)
            self.halve(first.start, most)
        self.sweep(range(self.turned), self.transposed)

    def halve(self, stop: int, most: int) -> None:
        """The steps at distances below 2 to the power of `stop`."""
        for end in range(stop, 0, -most):
            bits = range(max(0, end - most), end)
            self.sweep(bits, partial(self.exchanged, halvings(1 << len(bits), len(bits))))

    # --- a sweep over the row --------------------------------------------------------------------------------------

    def sweep(self, bits: range, work: Work, mirror: bool = False) -> None:
        """Work on all groups of registers whose numbers differ in some bits, mirror images by groups in pairs."""
        e, kind, pairs = self.e, llvm_type(self.dtype, self.lanes), mirror and bits.start > 0
        with ExitStack() as loops:
            high, low = self.loops(range(bits.stop, self.bits), loops), self.loops(range(bits.start - pairs), loops)
            starts = [e.add(high, low)]
            if pairs:
                starts.append(e.sub(e.add(high, e.const(self.place(range(bits.start), -1), int64)), low))
            places = []
            for start in starts:
                base = e.w.raw(f"getelementptr {kind}, ptr %row, i64 {start.text}")
                for number in range(1 << len(bits)):
                    places.append(e.w.raw(f"getelementptr {kind}, ptr {base}, i64 {self.place(bits, number)}"))
            align = f"align {self.dtype.itemsize}"
            loaded = [e.w.raw(f"load {kind}, ptr {place}, {align}") for place in places]
            keys = work([Lanes(text, self.dtype, self.lanes, e.w.depth) for text in loaded])
            for key, place in zip(keys, places, strict=True):
                e.w.line(f"store {key.typed}, ptr {place}, {align}")

    def place(self, bits: range, number: int) -> int:
        """Where a register lies whose number has those bits of another number, of which the lowest is bit 0."""
        weights = [(1 << self.bits - self.turned + b) if b < self.turned else 1 << b - self.turned for b in bits]
        return sum(weight for k, weight in enumerate(weights) if number >> k & 1)

    def loops(self, bits: range, stack: ExitStack) -> Lanes:
        """The place given by some bits, in loops over all that they can be."""
        at = self.e.const(0, int64)
        for part in (range(bits.start, min(bits.stop, self.turned)), range(max(bits.start, self.turned), bits.stop)):
            if part:
                step = self.place(part, 1)
                at = self.e.add(at, stack.enter_context(self.e.w.loop("0", str(step << len(part)), str(step))))
        return at

    # --- what is done with a group ---------------------------------------------------------------------------------

    def exchanged(self, pairs: Pairs, keys: Sequence[Lanes]) -> list[Lanes]:
        """Bring pairs of registers in order, lane by lane."""
        found = list(keys)
        for i, j in pairs:
            found[i], found[j] = self.least(found[i], found[j]), self.most(found[i], found[j])
        return found

    def met(self, run: int, count: int, keys: Sequence[Lanes]) -> list[Lanes]:
        """The first steps that merge two runs of 2^run / 2 lanes each: from lane to lane, then `count` others."""
        found = [self.across(a, b, (1 << run) - 1, 1 << run - 1) for a, b in zip(keys, keys[::-1], strict=True)]
        for distance in (1 << k for k in reversed(range(run - 1))):
            found = [self.across(key, key, distance, distance) for key in found]
        return self.exchanged(halvings(len(keys), count), found)

    def across(self, key: Lanes, other: Lanes, flip: int, bit: int) -> Lanes:
        """The lesser of lanes whose numbers differ by `flip`, or the greater in those lanes whose number has `bit`."""
        e, lanes = self.e, range(self.lanes)
        other = e.shuffle(other, other, [lane ^ flip for lane in lanes])
        upper = e.mask([bool(lane & bit) for lane in lanes])
        return e.select(upper, self.most(key, other), self.least(key, other))

    def least(self, a: Lanes, b: Lanes) -> Lanes:
        return self.e.intrinsic("smin", self.dtype, a, b)

    def most(self, a: Lanes, b: Lanes) -> Lanes:
        return self.e.intrinsic("smax", self.dtype, a, b)

    def transposed(self, keys: Sequence[Lanes]) -> list[Lanes]:
        """Each bit of the registers' numbers changes places with one of the lanes', whose others move up."""
        found, lanes, rest = list(keys), range(self.lanes), log2(self.lanes) - self.turned
        for i, j in halvings(len(keys), self.turned):
            bit = (j - i) << rest
            low = [lane if not lane & bit else self.lanes + lane - bit for lane in lanes]
            high = [lane + bit if not lane & bit else self.lanes + lane for lane in lanes]
            a, b = found[i], found[j]
            found[i], found[j] = self.e.shuffle(a, b, low), self.e.shuffle(a, b, high)
        if not 0 < rest < log2(self.lanes):
            return found
        picks = [(lane % len(keys) << rest) + lane // len(keys) for lane in lanes]
        return [self.e.shuffle(key, key, picks) for key in found]


emitter = SortEmitter


def log2(size: int) -> int:
    """Of a power of two."""
    return size.bit_length() - 1


def halvings(count: int, steps: int) -> Pairs:
    """Pairs at distances 2^steps / 2, …, 2, 1 of `count` numbers."""
    return [(i, i + (1 << k)) for k in reversed(range(steps)) for i in range(count) if not i >> k & 1]


def mirrored(count: int) -> Pairs:
    """The steps of a merge that `count` registers take part in: half of them are the mirror images of the others."""
    half = count // 2
    first = [(block + i, count - 1 - block - i) for block in (0, half) for i in range(half // 2)]
    return first + halvings(count, log2(half) - 1)


def batcher(count: int) -> Pairs:
    """Pairs that sort a power of two of numbers: the odd-even merge sort of Batcher (1968)."""
    runs = [1 << k for k in range(log2(count))]
    return [
        (i, i + distance)
        for run in runs
        for distance in (d for d in reversed(runs) if d <= run)
        for block in range(distance % run, count - distance, 2 * distance)
        for i in range(block, min(block + distance, count - distance))
        if i // (2 * run) == (i + distance) // (2 * run)
    ]
