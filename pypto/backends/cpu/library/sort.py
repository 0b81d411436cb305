"""Lowering of sorts: a bitonic sorting network over rows of int32 or int64 keys.

A row is padded with the greatest key to a power of two, and seen as a matrix whose columns are the lanes of registers:

1. All columns are sorted at once, by minima and maxima of registers alone. Short runs are sorted by Batcher's network,
   longer runs are merged. The first step of a merge exchanges each key with its mirror image, so that all runs ascend;
   the other steps exchange at halved distances.
2. Pairs of columns are merged into runs of 2, 4, … columns. Only the first steps of such a merge cross lanes: the very
   first one by mirror images, the others after shuffles that collect, in two registers, lanes that differ in one bit.
3. The matrix is transposed in place by the same shuffles, which makes the runs rows.

A sweep over the row does several steps on a group of registers, whose numbers differ in a few bits. The low bits of a
register's number are the high bits of its offset in memory, so that the last sweep works in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from pypto.backends.cpu.codegen.function import FunctionEmitter
from pypto.backends.cpu.codegen.prefetch import claim, next_program_address, prefetch_line, tile_bytes
from pypto.backends.cpu.gemm.micro_kernel import claim_name, side_function
from pypto.backends.cpu.loopir.build import ItemList, LoopIRBuilder
from pypto.backends.cpu.loopir.ir import Buffer, LibraryOp, Use
from pypto.backends.llvm.value import VectorValue, llvm_type
from pypto.ir.core import Op
from pypto.ir.types import DType, int64

Pairs = list[tuple[int, int]]
Work = Callable[[list[VectorValue]], list[VectorValue]]


@dataclass(eq=False, slots=True)
class Sort(LibraryOp):
    """A sort, in place, of the rows of a buffer of integer keys."""

    buffer: Buffer

    def uses(self) -> tuple[Use, ...]:
        """The buffer, which is read and written."""
        return (Use(self.buffer, self.op.operands[0], self.op.results[0]),)

    def __str__(self) -> str:
        return f"sort b{self.buffer.id}"


RECORDS: Sequence[type] = (Sort,)


def schedule(op: Op, scheduler: LoopIRBuilder, items: ItemList) -> None:
    """Copy the keys to a buffer, and sort it."""
    buffer = scheduler.storage.buffer_of[op.results[0]]
    items.add(scheduler.compute_stmt(op.operands[0], buffer, scheduler.plan.position[op]))
    items.barrier(Sort(op, buffer))


@dataclass
class SortEmitter:
    """Emits sorts. The network for one type and length is a helper function of the kernel."""

    function: FunctionEmitter
    dtype: DType = int64  # of the keys
    lanes: int = 0  # of a register
    bits: int = 0  # of the numbers of a row's registers
    transposed_bits: int = 0  # bits of these that become bits of a lane's number

    def __post_init__(self) -> None:
        self.e = self.function.e

    def begin(self, program: VectorValue, ids: Sequence[VectorValue], grid: Sequence[VectorValue]) -> None:
        """Take over the prefetch of a long row for the next program: the network spreads it over its sweeps."""
        rows = [x.op for x in self.function.schedule.items if type(x) is Sort and x.buffer.pitch == x.buffer.elements]
        self.prefetched_load: Op | None = (
            claim(self.function.nests.loads_by_nest, tile_bytes(rows[0])) if rows else None
        )

    def emit(self, item: LibraryOp) -> None:
        """Pad and sort every row of a buffer."""
        assert isinstance(item, Sort) and isinstance(item.buffer.elem, DType)
        w = self.e.w
        buffer = item.buffer
        base = self.function.buffer_base(buffer)
        size = buffer.pitch
        self.dtype = item.buffer.elem
        self.lanes = self.e.target.vector_bytes // self.dtype.itemsize
        self.bits = log2(size // self.lanes)
        self.transposed_bits = min(self.bits, log2(self.lanes))
        name = f"sort_{self.dtype}_{size}"
        if claim_name(w, name):
            with side_function(w, f"internal void @{name}(ptr noalias %row, i64 %ahead) noinline nounwind"):
                self.network(4 if self.e.target.registers > 16 else 3)
        with w.loop("0", str(buffer.elements // size), "1") as i:
            start = self.e.add(base, self.e.mul(i, self.e.const(size * self.dtype.itemsize, int64)))
            row = w.raw(f"inttoptr i64 {start.text} to ptr")
            with w.loop(str(buffer.shape[-1]), str(size), "1") as k:
                address = w.raw(f"getelementptr i{self.dtype.bits}, ptr {row}, i64 {k.text}")
                w.line(f"store i{self.dtype.bits} {self.dtype.integer_range[1]}, ptr {address}")
            distance = "0"
            if self.prefetched_load:
                distance = self.e.sub(next_program_address(self.function.memory, self.prefetched_load), start).text
            w.line(f"call void @{name}(ptr {row}, i64 {distance})")

    def network(self, group_bits: int) -> None:
        """Emit all sweeps; a group has 2**group_bits registers, in the first sweep twice as many."""
        short = min(group_bits + 1, self.bits)
        runs = log2(self.lanes)
        self.sweep(range(short), partial(self.compare_exchange, batcher(1 << short)))
        for length in range(short + 1, self.bits + 1):
            self.sweep(
                range(length - group_bits + 1, length), partial(self.compare_exchange, mirrored(1 << group_bits)), True
            )
            self.halve(length - group_bits + 1, group_bits)
        lines = tile_bytes(self.prefetched_load) // self.e.target.vector_bytes if self.prefetched_load else 0
        prefetched = [number for number in range(1 << group_bits) if self.place(range(group_bits), number) < lines]
        # Places of the bits of a lane's number, then of a register's.
        self.order = list(range(runs + max(1, self.transposed_bits)))
        for run in range(1, runs + 1):
            first = range(self.bits - group_bits + 1 if self.bits > group_bits else 0, self.bits)
            self.sweep(first, partial(self.merge_lanes, run, len(first)), True)
            self.halve(first.start, group_bits, run == runs, prefetched[run - 1 :: runs])

    def halve(self, stop: int, group_bits: int, last: bool = False, prefetched: Sequence[int] = ()) -> None:
        """Emit the steps at distances below 2**stop; the last ones of all transpose the row."""
        for start in reversed(range(0, stop, group_bits)):
            work = partial(self.merge_registers, min(stop - start, group_bits), last and start == 0)
            self.sweep(range(start, start + group_bits), work, prefetched=prefetched if start == 0 else ())

    # --- a sweep over the row --------------------------------------------------------------------------------------

    def sweep(self, bits: range, work: Work, mirror: bool = False, prefetched: Sequence[int] = ()) -> None:
        """Emit a loop over all groups of registers whose numbers differ in `bits`; with `mirror`, over pairs of
        mirrored groups.

        `prefetched` are registers of each group whose lines are prefetched in the next program's row.
        """
        e = self.e
        kind = llvm_type(self.dtype, self.lanes)
        align = self.dtype.itemsize
        has_pairs = mirror and bits.start > 0
        with ExitStack() as loops:
            high = self.loops(range(bits.stop, self.bits), loops)
            low = self.loops(range(bits.start - has_pairs), loops)
            starts = [e.add(high, low)]
            if has_pairs:
                starts.append(e.sub(e.add(high, e.const(self.place(range(bits.start), -1), int64)), low))
            texts = [e.w.raw(f"getelementptr {kind}, ptr %row, i64 {start.text}") for start in starts]
            steps = [f"i64 {self.place(bits, number)}" for number in range(1 << len(bits))]
            pointers = [e.w.raw(f"getelementptr {kind}, ptr {text}, {step}") for text in texts for step in steps]
            loads = [f"load {kind}, ptr {pointer}, align {align}" for pointer in pointers]
            keys = work([e.w.instr(load, self.dtype, self.lanes, e.w.depth) for load in loads])
            for number in prefetched:
                line = e.w.raw(f"getelementptr i8, ptr {pointers[number]}, i64 %ahead")
                prefetch_line(e.w, line, self.function.nests.prefetch_level)
            for key, pointer in zip(keys, pointers, strict=True):
                e.w.line(f"store {key.typed}, ptr {pointer}, align {align}")

    def place(self, bits: range, number: int) -> int:
        """The offset of a register, from some bits of its number."""
        high = self.bits - self.transposed_bits
        moved = [high + b if b < self.transposed_bits else b - self.transposed_bits for b in bits]
        weights = [1 << b for b in moved]
        return sum(weight for k, weight in enumerate(weights) if number >> k & 1)

    def loops(self, bits: range, stack: ExitStack) -> VectorValue:
        """Open loops over all values of some bits; gives the offset that they make."""
        offset = self.e.const(0, int64)
        high = range(bits.start, min(bits.stop, self.transposed_bits))
        low = range(max(bits.start, self.transposed_bits), bits.stop)
        for part in (high, low):
            if part:
                step = self.place(part, 1)
                index = stack.enter_context(self.e.w.loop("0", str(step << len(part)), str(step)))
                offset = self.e.add(offset, index)
        return offset

    # --- what is done with a group ---------------------------------------------------------------------------------

    def compare_exchange(self, pairs: Pairs, keys: Sequence[VectorValue]) -> list[VectorValue]:
        """Order pairs of registers, lane by lane."""
        result = list(keys)
        for i, j in pairs:
            result[i], result[j] = self.ordered(result[i], result[j])
        return result

    def ordered(self, a: VectorValue, b: VectorValue) -> tuple[VectorValue, VectorValue]:
        """The minima and maxima of lanes.

        The maxima are a xor b xor minima, by `vpternlog` with truth table 150: it runs beside the minimum, for which
        Intel's cores have one port, and two steps for 64 bits. LLVM would make two instructions of it, on the critical
        path.
        """
        low = self.e.intrinsic("smin", self.dtype, a, b)
        if self.e.target.vector_bytes < 64:
            return low, self.e.intrinsic("smax", self.dtype, a, b)
        name = f"llvm.x86.avx512.pternlog.{'dq'[self.lanes == 8]}.512"
        operands = [(x.type, x.text) for x in (a, b, low)]
        return low, self.e.call(name, self.dtype, self.lanes, self.e.w.depth, *operands, ("i32", "150"))

    def merge_registers(self, count: int, last: bool, keys: Sequence[VectorValue]) -> list[VectorValue]:
        """The steps of a merge between the registers of a group, at `count` halved distances."""
        result = self.compare_exchange(halvings(len(keys), count), keys)
        return self.transpose(result) if last else result

    def merge_lanes(self, run: int, count: int, keys: Sequence[VectorValue]) -> list[VectorValue]:
        """The first steps of the merge of two runs of 2**run / 2 lanes each: those that cross lanes, then `count`
        others.

        Lanes meet their mirror images first. For each other step, the bit in which lanes differ is exchanged with the
        lowest bit of the registers' numbers, which comes back at the end.
        """
        order = self.order
        flip = sum(1 << place for place, bit in enumerate(order) if bit < run)
        merged = self.exchange_mirrored(keys, flip, order.index(run - 1))
        for bit in reversed(range(run - 1)):
            if self.bits:
                merged = self.compare_exchange(halvings(len(keys), 1), self.exchange_bits(merged, 0, order.index(bit)))
            else:
                merged = self.exchange_mirrored(merged, 1 << bit, bit)
        if run > 1 and self.bits:
            merged = self.exchange_bits(merged, 0, order.index(log2(self.lanes)))
        return self.merge_registers(count, 1 << run == self.lanes and count == self.bits, merged)

    def exchange_mirrored(self, keys: Sequence[VectorValue], flip: int, place: int) -> list[VectorValue]:
        """Order lanes whose numbers differ by `flip`: the greater goes to the lane that has the bit at `place`.

        The first register meets the mirrored last one, and so on; what one does not keep is the other's.
        """
        e = self.e
        result = list(keys)
        is_upper = e.mask([bool(lane >> place & 1) for lane in range(self.lanes)])
        picks = [lane ^ flip for lane in range(self.lanes)]
        for i in range((len(keys) + 1) // 2):
            a = keys[i]
            b = e.shuffle(keys[-1 - i], keys[-1 - i], picks)
            low, high = (e.intrinsic(name, self.dtype, a, b) for name in ("smin", "smax"))
            mirrored_keys = e.select(is_upper, low, high)
            result[-1 - i] = e.shuffle(mirrored_keys, mirrored_keys, picks)
            result[i] = e.select(is_upper, high, low)
        return result

    def exchange_bits(self, keys: Sequence[VectorValue], k: int, place: int) -> list[VectorValue]:
        """Exchange bit k of the registers' numbers with the bit at `place` of the lanes' numbers.

        One shuffle of two sources does it for each register, where it takes every other 128-bit unit, or whole
        register, of the two. Bits above `place` move down, and the new bit is the highest there.
        """
        result = list(keys)
        n = log2(self.lanes)
        order = self.order
        stop = next(end for end in (log2(16 // self.dtype.itemsize), n) if end > place)
        places = [*range(place), *range(place + 1, stop), n, *range(stop, n)]
        order[:n], order[n + k] = [order[p + k * (p == n)] for p in places], order[place]
        for i, j in ((i, i + (1 << k)) for i in range(len(keys)) if not i >> k & 1):
            for target, bit in (i, 0), (j, 1 << place):
                result[target] = self.e.shuffle(keys[i], keys[j], [pick + bit for pick in self.picks(places)])
        return result

    def picks(self, places: list[int]) -> list[int]:
        """The lanes whose numbers have the bits of 0, 1, 2, … at these places."""
        return [sum((lane >> j & 1) << place for j, place in enumerate(places)) for lane in range(self.lanes)]

    def transpose(self, keys: list[VectorValue]) -> list[VectorValue]:
        """Exchange the lowest bits of the registers' numbers with the highest ones of the lanes'; the others
        move up.
        """
        n = log2(self.lanes)
        kept_bits = n - self.transposed_bits
        for k in range(self.transposed_bits):
            keys = self.exchange_bits(keys, k, self.order.index(k + kept_bits))
        places = [self.order.index(bit) for bit in (*range(n, n + self.transposed_bits), *range(kept_bits))]
        return [self.e.shuffle(key, key, self.picks(places)) for key in keys]


emitter = SortEmitter


def log2(size: int) -> int:
    """The logarithm of a power of two."""
    return size.bit_length() - 1


def halvings(count: int, steps: int) -> Pairs:
    """Pairs at distances 2**steps / 2, …, 2, 1 among `count` registers."""
    return [(i, i + (1 << k)) for k in reversed(range(steps)) for i in range(count) if not i >> k & 1]


def mirrored(count: int) -> Pairs:
    """The steps of a merge among `count` registers, half of which are the mirror images of the others."""
    first = [(block + i, count - 1 - block - i) for block in (0, count // 2) for i in range(count // 4)]
    return first + halvings(count, log2(count) - 2)


def batcher(count: int) -> Pairs:
    """The comparators of Batcher's odd-even merge sort (1968) for a power of two."""
    steps = [(1 << run, 1 << step) for run in range(log2(count)) for step in reversed(range(run + 1))]
    return [(i, i + distance) for run, distance in steps for i in range(distance % run, count - distance)
        if (i - distance % run) // distance % 2 == 0 and i // (2 * run) == (i + distance) // (2 * run)]  # fmt: skip
