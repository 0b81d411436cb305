"""Sorting rows of int32 or int64 keys by a bitonic network that stays within lanes as long as it can.

A row is padded to a power of two with the greatest key, and seen as a matrix whose columns are the lanes of its
registers. First all columns are sorted at once, which takes minima and maxima of registers and nothing else: short runs
by Batcher's network, longer ones out of two, where the first step exchanges each key with its mirror image, so that all
runs go upwards, and the others exchange it with the one at half the distance of the step before. Then two, four, …
columns are merged into one run; of that only the first steps go from one lane to another: the very first one between
mirror images, each other one when shuffles have made two registers of lanes that differ in a bit. At last the matrix is
transposed in place by such shuffles.

Each sweep over the row does several steps on a group of registers, whose numbers differ in a few bits. So that the last
one can work in place, the low bits of a register's number are the high bits of its place in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from pypto.backends.cpu.codegen.function import FunctionEmitter
from pypto.backends.cpu.codegen.prefetch import claim, next_program_address, prefetch_line, tile_bytes
from pypto.backends.cpu.gemm.micro_kernel import claim_name, side_function
from pypto.backends.cpu.llvm.value import VectorValue, llvm_type
from pypto.backends.cpu.loopir.build import ItemList, LoopIRBuilder
from pypto.backends.cpu.loopir.ir import Buffer, LibraryOp, Use
from pypto.ir.core import Op
from pypto.ir.types import DType, int64

Pairs = list[tuple[int, int]]
Work = Callable[[list[VectorValue]], list[VectorValue]]


@dataclass(eq=False, slots=True)
class Sort(LibraryOp):
    """The rows of a buffer of integer keys, sorted in place."""

    buffer: Buffer

    def uses(self) -> tuple[Use, ...]:
        return (Use(self.buffer, self.op.operands[0], self.op.results[0]),)

    def __str__(self) -> str:
        return f"sort b{self.buffer.id}"


RECORDS: Sequence[type] = (Sort,)


def schedule(op: Op, scheduler: LoopIRBuilder, items: ItemList) -> None:
    buffer = scheduler.storage.buffer_of[op.results[0]]
    items.add(scheduler.compute_stmt(op.operands[0], buffer, scheduler.plan.position[op]))
    items.barrier(Sort(op, buffer))


@dataclass
class SortEmitter:
    """Emits sorts. The network for one type and length becomes a function of its own."""

    function: FunctionEmitter
    dtype: DType = int64  # of the keys at hand
    lanes: int = 0  # of a register of them
    bits: int = 0  # of the numbers of a row's registers
    turned: int = 0  # so many of those become bits of a lane's number

    def __post_init__(self) -> None:
        self.e = self.function.e

    def begin(self, program: VectorValue, ids: Sequence[VectorValue], grid: Sequence[VectorValue]) -> None:
        """A long row asks for the next program's while it is sorted."""
        rows = [x.op for x in self.function.schedule.items if type(x) is Sort and x.buffer.pitch == x.buffer.elements]
        self.ahead: Op | None = claim(self.function.nests.loads_by_nest, tile_bytes(rows[0])) if rows else None

    def emit(self, item: LibraryOp) -> None:
        """Pad and sort every row of a buffer."""
        assert isinstance(item, Sort) and isinstance(item.buffer.elem, DType)
        w, buffer, base = self.e.w, item.buffer, self.function.buffer_base(item.buffer)
        size, self.dtype = buffer.pitch, item.buffer.elem
        self.lanes = self.e.target.vector_bytes // self.dtype.itemsize
        self.bits = log2(size // self.lanes)
        self.turned = min(self.bits, log2(self.lanes))
        name = f"sort_{self.dtype}_{size}"
        if claim_name(w, name):
            with side_function(w, f"internal void @{name}(ptr noalias %row, i64 %ahead) noinline nounwind"):
                self.network(4 if self.e.target.registers > 16 else 3)
        with w.loop("0", str(buffer.elements // size), "1") as i:
            start = self.e.add(base, self.e.mul(i, self.e.const(size * self.dtype.itemsize, int64)))
            row = w.raw(f"inttoptr i64 {start.text} to ptr")
            with w.loop(str(buffer.shape[-1]), str(size), "1") as k:
                place = w.raw(f"getelementptr i{self.dtype.bits}, ptr {row}, i64 {k.text}")
                w.line(f"store i{self.dtype.bits} {self.dtype.integer_range[1]}, ptr {place}")
            ahead = (
                self.e.sub(next_program_address(self.function.memory, self.ahead), start).text if self.ahead else "0"
            )
            w.line(f"call void @{name}(ptr {row}, i64 {ahead})")

    def network(self, most: int) -> None:
        """All sweeps; a group has 2 to the power of `most` registers, in the first one twice as many."""
        short, runs = min(most + 1, self.bits), log2(self.lanes)
        self.sweep(range(short), partial(self.exchanged, batcher(1 << short)))
        for length in range(short + 1, self.bits + 1):
            self.sweep(range(length - most + 1, length), partial(self.exchanged, mirrored(1 << most)), True)
            self.halve(length - most + 1, most)
        lines = tile_bytes(self.ahead) // self.e.target.vector_bytes if self.ahead else 0
        asked = [number for number in range(1 << most) if self.place(range(most), number) < lines]
        # Where bits of a lane's number are, then those of a register's.
        self.order = list(range(runs + max(1, self.turned)))
        for run in range(1, runs + 1):
            first = range(self.bits - most + 1 if self.bits > most else 0, self.bits)
            self.sweep(first, partial(self.met, run, len(first)), True)
            self.halve(first.start, most, run == runs, asked[run - 1 :: runs])

    def halve(self, stop: int, most: int, last: bool = False, asked: Sequence[int] = ()) -> None:
        """The steps at distances below 2 to the power of `stop`; with the last ones of all, the row is transposed."""
        for start in reversed(range(0, stop, most)):
            work = partial(self.halved, min(stop - start, most), last and start == 0)
            self.sweep(range(start, start + most), work, asked=asked if start == 0 else ())

    # --- a sweep over the row --------------------------------------------------------------------------------------

    def sweep(self, bits: range, work: Work, mirror: bool = False, asked: Sequence[int] = ()) -> None:
        """Work on all groups of registers whose numbers differ in some bits, mirror images by groups in pairs.

        Meanwhile, lines are asked for that lie where some registers of each group do, in the next program's row.
        """
        e, kind, unit, pairs = self.e, llvm_type(self.dtype, self.lanes), self.dtype.itemsize, mirror and bits.start > 0
        with ExitStack() as loops:
            high, low = self.loops(range(bits.stop, self.bits), loops), self.loops(range(bits.start - pairs), loops)
            starts = [e.add(high, low)]
            if pairs:
                starts.append(e.sub(e.add(high, e.const(self.place(range(bits.start), -1), int64)), low))
            texts = [e.w.raw(f"getelementptr {kind}, ptr %row, i64 {start.text}") for start in starts]
            steps = [f"i64 {self.place(bits, number)}" for number in range(1 << len(bits))]
            places = [e.w.raw(f"getelementptr {kind}, ptr {text}, {step}") for text in texts for step in steps]
            loads = [f"load {kind}, ptr {place}, align {unit}" for place in places]
            keys = work([e.w.instr(load, self.dtype, self.lanes, e.w.depth) for load in loads])
            for number in asked:
                prefetch_line(
                    e.w,
                    e.w.raw(f"getelementptr i8, ptr {places[number]}, i64 %ahead"),
                    self.function.nests.prefetch_level,
                )
            for key, place in zip(keys, places, strict=True):
                e.w.line(f"store {key.typed}, ptr {place}, align {unit}")

    def place(self, bits: range, number: int) -> int:
        """Where a register lies whose number has those bits of another number, of which the lowest is bit 0."""
        weights = [(1 << self.bits - self.turned + b) if b < self.turned else 1 << b - self.turned for b in bits]
        return sum(weight for k, weight in enumerate(weights) if number >> k & 1)

    def loops(self, bits: range, stack: ExitStack) -> VectorValue:
        """The place given by some bits, in loops over all that they can be."""
        at = self.e.const(0, int64)
        for part in (range(bits.start, min(bits.stop, self.turned)), range(max(bits.start, self.turned), bits.stop)):
            if part:
                step = self.place(part, 1)
                at = self.e.add(at, stack.enter_context(self.e.w.loop("0", str(step << len(part)), str(step))))
        return at

    # --- what is done with a group ---------------------------------------------------------------------------------

    def exchanged(self, pairs: Pairs, keys: Sequence[VectorValue]) -> list[VectorValue]:
        """Bring pairs of registers in order, lane by lane."""
        found = list(keys)
        for i, j in pairs:
            found[i], found[j] = self.ordered(found[i], found[j])
        return found

    def ordered(self, a: VectorValue, b: VectorValue) -> tuple[VectorValue, VectorValue]:
        """The lesser and the greater of lanes.

        Bits that the lesser one leaves are the greater one's: where three operands are one instruction, that runs
        beside the minima, which Intel's cores send through one port alone, and those of 64 bits twice. Its table of
        truth, 150, is odd parity; two instructions that LLVM makes one of it double the time of what comes after.
        """
        low = self.e.intrinsic("smin", self.dtype, a, b)
        if self.e.target.vector_bytes < 64:
            return low, self.e.intrinsic("smax", self.dtype, a, b)
        name, bits = f"llvm.x86.avx512.pternlog.{'dq'[self.lanes == 8]}.512", [(x.type, x.text) for x in (a, b, low)]
        return low, self.e.call(name, self.dtype, self.lanes, self.e.w.depth, *bits, ("i32", "150"))

    def halved(self, count: int, last: bool, keys: Sequence[VectorValue]) -> list[VectorValue]:
        """So many steps of a merge between registers of a group."""
        found = self.exchanged(halvings(len(keys), count), keys)
        return self.transposed(found) if last else found

    def met(self, run: int, count: int, keys: Sequence[VectorValue]) -> list[VectorValue]:
        """The first steps that merge two runs of 2^run / 2 lanes each: from lane to lane, then `count` others.

        In the first one lanes meet their mirror images. For each other one, the bit in which their numbers differ
        changes places with the lowest one of the registers' numbers, which comes back at the end.
        """
        flip, order = sum(1 << place for place, bit in enumerate(self.order) if bit < run), self.order
        found = self.across(keys, flip, order.index(run - 1))
        for bit in reversed(range(run - 1)):
            if self.bits:
                found = self.exchanged(halvings(len(keys), 1), self.drawn(found, 0, order.index(bit)))
            else:
                found = self.across(found, 1 << bit, bit)
        if run > 1 and self.bits:
            found = self.drawn(found, 0, order.index(log2(self.lanes)))
        return self.halved(count, 1 << run == self.lanes and count == self.bits, found)

    def across(self, keys: Sequence[VectorValue], flip: int, place: int) -> list[VectorValue]:
        """The lesser of lanes whose numbers differ by `flip`, or the greater in those that have the bit at a place.

        The first register meets the last one, turned, and so on: what the one does not keep is the other's.
        """
        e, found, top = self.e, list(keys), self.e.mask([bool(lane >> place & 1) for lane in range(self.lanes)])
        picks = [lane ^ flip for lane in range(self.lanes)]
        for i in range((len(keys) + 1) // 2):
            a, b = keys[i], e.shuffle(keys[-1 - i], keys[-1 - i], picks)
            low, high = (e.intrinsic(name, self.dtype, a, b) for name in ("smin", "smax"))
            found[-1 - i], found[i] = e.shuffle(rest := e.select(top, low, high), rest, picks), e.select(top, high, low)
        return found

    def drawn(self, keys: Sequence[VectorValue], k: int, place: int) -> list[VectorValue]:
        """Bit k of the registers' numbers goes to the lanes', of which the one at a place comes for it.

        One instruction for each register does that when it takes every other part of two registers: of their units of
        128 bits, or whole ones. Bits above that place move down, and the one that comes is the highest there.
        """
        found, n, order = list(keys), log2(self.lanes), self.order
        stop = next(end for end in (log2(16 // self.dtype.itemsize), n) if end > place)
        places = [*range(place), *range(place + 1, stop), n, *range(stop, n)]
        order[:n], order[n + k] = [order[p + k * (p == n)] for p in places], order[place]
        for i, j in ((i, i + (1 << k)) for i in range(len(keys)) if not i >> k & 1):
            for to, bit in (i, 0), (j, 1 << place):
                found[to] = self.e.shuffle(keys[i], keys[j], [pick + bit for pick in self.picks(places)])
        return found

    def picks(self, places: list[int]) -> list[int]:
        """The lanes whose numbers have the bits of 0, 1, 2, … at these places."""
        return [sum((lane >> j & 1) << place for j, place in enumerate(places)) for lane in range(self.lanes)]

    def transposed(self, keys: list[VectorValue]) -> list[VectorValue]:
        """The lowest bits of the registers' numbers change places with the highest of the lanes', others move up."""
        rest, n = log2(self.lanes) - self.turned, log2(self.lanes)
        for k in range(self.turned):
            keys = self.drawn(keys, k, self.order.index(k + rest))
        places = [self.order.index(bit) for bit in (*range(n, n + self.turned), *range(rest))]
        return [self.e.shuffle(key, key, self.picks(places)) for key in keys]


emitter = SortEmitter


def log2(size: int) -> int:
    """Of a power of two."""
    return size.bit_length() - 1


def halvings(count: int, steps: int) -> Pairs:
    """Pairs at distances 2^steps / 2, …, 2, 1 of `count` numbers."""
    return [(i, i + (1 << k)) for k in reversed(range(steps)) for i in range(count) if not i >> k & 1]


def mirrored(count: int) -> Pairs:
    """The steps of a merge that `count` registers take part in: half of them are the mirror images of the others."""
    first = [(block + i, count - 1 - block - i) for block in (0, count // 2) for i in range(count // 4)]
    return first + halvings(count, log2(count) - 2)


def batcher(count: int) -> Pairs:
    """Pairs that sort a power of two of numbers: the odd-even merge sort of Batcher (1968)."""
    steps = [(1 << run, 1 << step) for run in range(log2(count)) for step in reversed(range(run + 1))]
    return [(i, i + far) for run, far in steps for i in range(far % run, count - far)
        if (i - far % run) // far % 2 == 0 and i // (2 * run) == (i + far) // (2 * run)]  # fmt: skip
