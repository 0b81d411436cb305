"""Packing: A and B are copied into the order in which micro-kernels read them.

B becomes micro-panels of NR columns, row below row, so that the micro-kernel reads one stream. A keeps its rows; a
register tile's rows are copied at a time, so that the copy stays in the first-level cache. It pays wherever a panel is
read by more than a few register tiles (see `skinny`), and where rows of A cannot be read in place.

Numbers that do not exist in memory are packed as zeros. Where one instruction multiplies several narrow numbers, they
are packed into 32-bit words of neighbours along K:

    B (K=4, N=2)    b00 b01 / b10 b11 / b20 b21 / b30 b31
    words of two    (b00 b10) (b01 b11) / (b20 b30) (b21 b31)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from pypto.backends.cpu.codegen.memory import memory_dtype, scratch_dtype
from pypto.backends.cpu.codegen.prefetch import L1, prefetch_line
from pypto.backends.cpu.codegen.register_transpose import transpose_registers
from pypto.backends.cpu.codegen.tile_access import AccessEmitter
from pypto.backends.cpu.gemm.bf16_split import split_bf16
from pypto.backends.cpu.gemm.blocking import FACTS
from pypto.backends.cpu.gemm.operands import Matrix, ValidRange
from pypto.backends.cpu.loopir.ir import Buffer
from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.llvm.value import VectorValue, intrinsic_suffix
from pypto.ir.types import int8, int16, int32, int64, uint8
from pypto.ops.memory import Access
from pypto.passes.analysis.dot_facts import InPlaceOperand
from pypto.passes.target_facts import CACHE

_SIGN_BIAS: Final = 128  # turns a signed byte into an unsigned one
Place = tuple[VectorValue, VectorValue]  # row and column
Load = Callable[[Matrix, VectorValue, VectorValue, int], VectorValue]


@dataclass(frozen=True, slots=True)
class PackedFormat:
    """How numbers are packed."""

    factor: int = 1  # numbers in a word; 1 where they are multiplied alone
    terms: int = 1  # bfloat16 numbers whose sum stands for one float32; see `bf16_split`
    flips_signs: bool = False  # bytes become unsigned, as the instruction wants them
    prefetch_rows: int = FACTS.pack_prefetch  # rows of B from what is packed to what is prefetched

    def element_bytes(self, m: Matrix) -> int:
        """Bytes of a number as it is multiplied."""
        return 4 // self.factor if self.factor > 1 else m.dtype.itemsize


PLAIN: Final = PackedFormat()


def matrix_of(memory: AccessEmitter, source: InPlaceOperand) -> Matrix:
    """The matrix in memory that a product reads in place of a load."""
    e = memory.e
    access = Access.of(source.load)
    dtype = memory_dtype((access.value or source.load.results[0]).dtype)
    strides = [memory.scalar(s) for s in access.strides]
    size = e.const(dtype.itemsize, int64)
    first = memory.offset(list(zip(map(memory.scalar, access.offsets), strides, strict=True)))
    rows, columns = valid_range(memory, access, source.rows), valid_range(memory, access, source.columns)
    for d in set(range(len(strides))) - {source.rows, source.columns}:
        fixed = valid_range(memory, access, d)
        exists = e.cmp("lt", fixed.start, fixed.stop)
        rows = ValidRange(rows.start, e.select(exists, rows.stop, e.const(0, int64)))
    pitch = e.const(0, int64) if source.rows is None else e.mul(strides[source.rows], size)
    return Matrix(e.add(memory.scalar(access.base), memory.product(first, size)), pitch, rows, columns, dtype)


def valid_range(memory: AccessEmitter, access: Access, d: int | None) -> ValidRange:
    """The elements of a dimension that exist; of a dimension of size 1 that no stride belongs to, all."""
    e = memory.e
    zero = e.const(0, int64)
    size = e.const(1 if d is None else access.shape[d], int64)
    if d is None or memory.statically_in_bounds(access, d):
        return ValidRange(zero, size)
    offset, extent = memory.scalar(access.offsets[d]), memory.scalar(access.extents[d])
    start = e.neg(offset)
    stop = e.sub(extent, offset)
    return ValidRange(*(e.minimum(e.maximum(x, zero), size) for x in (start, stop)))


def load_each(load: Load, m: Matrix, places: list[Place], width: int) -> list[VectorValue]:
    """Load pieces of rows, one by one."""
    return [load(m, *place, width) for place in places]


class PackEmitter:
    """Emits the packing of A and B."""

    def __init__(self, e: CpuLaneEmitter, target: CpuTarget) -> None:
        self.e = e
        self.w = e.w
        self.bytes = target.vector_bytes

    def index(self, n: int) -> VectorValue:
        return self.e.const(n, int64)

    # --- reading ------------------------------------------------------------------------------------------------

    def pointer(self, m: Matrix, row: VectorValue, column: VectorValue) -> str:
        down = self.e.mul(row, m.pitch)
        along = self.e.mul(column, self.index(m.dtype.itemsize))
        return self.pointer_at(self.e.add(self.e.add(m.address, down), along))

    def pointer_at(self, address: VectorValue) -> str:
        return self.w.raw(f"inttoptr i64 {address.text} to ptr")

    def load_row(self, m: Matrix, row: VectorValue, column: VectorValue, width: int) -> VectorValue:
        """Load numbers of a row that all exist."""
        text = VectorValue("", m.dtype, width, 0).type
        loaded = self.w.raw(f"load {text}, ptr {self.pointer(m, row, column)}, align {m.dtype.itemsize}")
        return VectorValue(loaded, m.dtype, width, self.w.depth)

    def load_row_masked(self, m: Matrix, row: VectorValue, column: VectorValue, width: int) -> VectorValue:
        """Load numbers of a row, 0 for those that do not exist; where none does, memory is not touched."""
        has_row = self.is_within(m.rows, row, row)
        lanes, any_lane = self.valid_lanes(m.columns, column, width)
        any_lane = self.e.and_(any_lane, has_row)
        pointer = self.w.raw(f"select i1 {any_lane.text}, ptr {self.pointer(m, row, column)}, ptr {self.w.harmless()}")
        return self.load_lanes(m, pointer, self.e.and_(lanes, self.e.splat(has_row, width)))

    def valid_lanes(self, columns: ValidRange, first: VectorValue, width: int) -> tuple[VectorValue, VectorValue]:
        """The mask of the columns that exist from `first` on, and whether any does."""
        place = self.e.add(self.e.iota(width, int32), self.e.splat(self.e.convert(first, int32), width))
        start, stop = (self.e.splat(self.e.convert(x, int32), width) for x in (columns.start, columns.stop))
        lanes = self.e.and_(self.e.cmp("ge", place, start), self.e.cmp("lt", place, stop))
        end = self.e.add(first, self.index(width))
        return lanes, self.e.and_(self.e.cmp("gt", end, columns.start), self.e.cmp("lt", first, columns.stop))

    def load_lanes(self, m: Matrix, pointer: str, lanes: VectorValue) -> VectorValue:
        """Load the numbers of a row whose lane is true; the others are 0."""
        kind = VectorValue("zeroinitializer", m.dtype, lanes.width, 0)
        args = ("ptr", pointer), ("i32", str(m.dtype.itemsize)), (lanes.type, lanes.text), (kind.type, kind.text)
        name = f"llvm.masked.load.{intrinsic_suffix(m.dtype, lanes.width)}.p0"
        return VectorValue(self.w.call(kind.type, name, args), m.dtype, lanes.width, self.w.depth)

    def is_within(self, span: ValidRange, first: VectorValue, last: VectorValue) -> VectorValue:
        return self.e.and_(self.e.cmp("ge", first, span.start), self.e.cmp("lt", last, span.stop))

    def contains_rectangle(self, m: Matrix, first: Place, last: Place) -> VectorValue:
        """Whether a matrix has both numbers, and so all between them."""
        return self.e.and_(self.is_within(m.rows, first[0], last[0]), self.is_within(m.columns, first[1], last[1]))

    def load_rows(self, m: Matrix, places: list[Place], width: int) -> list[VectorValue]:
        """Load pieces of rows: without masks where all exist, as the first and the last one tell."""
        last = places[-1][0], self.plus(places[-1][1], width - 1)
        inside = self.contains_rectangle(m, places[0], last)
        loads = [partial(load_each, load, m, places, width) for load in (self.load_row, self.load_row_masked)]
        return self.w.branch(inside.text, loads)

    def split_value(self, value: VectorValue, form: PackedFormat) -> list[VectorValue]:
        """The registers of the terms that stand for a register's numbers; bytes in words of two get 16 bits each."""
        if form.terms > 1:
            return split_bf16(self.e, value, form.terms)
        return [self.e.convert(value, int16) if value.dtype == int8 and form.factor == 2 else value]

    def store_terms(self, value: VectorValue, form: PackedFormat, start: VectorValue, term_stride: int) -> None:
        for n, term in enumerate(self.split_value(value, form)):
            self.store(term, self.offset_pointer(start, n * term_stride), self.bytes)

    def store(self, value: VectorValue, pointer: str, align: int) -> None:
        self.w.line(f"store {value.typed}, ptr {pointer}, align {align}")

    # --- B ------------------------------------------------------------------------------------------------------

    def pack_panels(self, m: Matrix, target: Buffer, base: VectorValue, depth: VectorValue, form: PackedFormat) -> None:
        """Pack the first `depth` rows of a row-major B into panels, a row of all panels at a time.

        Whether the whole row exists is tested once for all panels.
        """
        end = self.index(int(self.panel_count(target)) * target.panel - 1)
        with self.w.loop("0", self.word_count(depth, form.factor).text, "1") as g:
            row = self.e.mul(g, self.index(form.factor))
            inside = self.contains_rectangle(m, (row, self.index(0)), (self.plus(row, form.factor - 1), end))
            pack = partial(self.pack_row, m, target, base, g, form)
            loads = partial(load_each, self.load_row), self.load_rows
            self.w.branch(inside.text, [partial(pack, load) for load in loads])

    def pack_row(
        self,
        m: Matrix,
        target: Buffer,
        base: VectorValue,
        g: VectorValue,
        form: PackedFormat,
        load: Callable[[Matrix, list[Place], int], list[VectorValue]],
    ) -> list[VectorValue]:
        """Pack row `g` of words into every panel, and prefetch a later row of B."""
        factor = form.factor
        size = form.element_bytes(m)
        row = self.e.mul(g, self.index(factor))
        term_stride = self.term_stride(target, form)
        with self.w.loop("0", self.panel_count(target), "1") as p:
            first = self.e.mul(p, self.index(target.panel))
            for t, c in itertools.product(range(factor), range(0, target.panel, CACHE.line // m.dtype.itemsize)):
                prefetch_line(self.w, self.pointer(m, self.plus(row, form.prefetch_rows + t), self.plus(first, c)), L1)
            width = min(target.panel, self.bytes // size)
            start = self.panel_row_address(target, base, p, g, size * factor)
            steps = itertools.product(range(factor), range(0, target.panel, width))
            pieces = load(m, [(self.plus(row, t), self.plus(first, c)) for t, c in steps], width)
            if factor > 1:
                pieces = self.interleave(pieces, factor, self.bytes // (size * factor))
            for i, words in enumerate(pieces):
                self.store_terms(self.bias_signs(words, form), form, self.plus(start, i * self.bytes), term_stride)
        return []

    def term_stride(self, target: Buffer, form: PackedFormat) -> int:
        """Bytes from the panels of one term to those of the next."""
        return target.rows // form.terms * target.panel * 4

    def interleave(self, rows: list[VectorValue], factor: int, lanes: int) -> list[VectorValue]:
        """Registers of words, from `factor` rows of numbers."""
        n = rows[0].width
        while len(rows) > 2:
            rows = [self.e.shuffle(a, b, list(range(2 * a.width))) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        starts = range(0, n, lanes)
        picks = [[n * t + i for i in range(start, start + lanes) for t in range(factor)] for start in starts]
        return [self.e.shuffle(rows[0], rows[1], p) for p in picks]

    def pack_transposed(
        self, m: Matrix, target: Buffer, base: VectorValue, depth: VectorValue, form: PackedFormat
    ) -> None:
        """Pack a column-major B: its rows become columns of panels, by transposing squares of registers."""
        word_bytes = form.element_bytes(m) * form.factor
        numbers = self.bytes // form.element_bytes(m)  # of K in a square
        lanes = numbers // form.factor
        row_count = -(-target.shape[-1] // lanes)
        square_count = self.word_count(depth, numbers)
        with self.w.loop("0", str(row_count), "1") as i, self.w.loop("0", square_count.text, "1") as j:
            first, column = self.e.mul(i, self.index(lanes)), self.e.mul(j, self.index(numbers))
            pieces = self.load_rows(m, [(self.plus(first, r), column) for r in range(lanes)], numbers)
            terms_of_rows = [
                [self.as_words(term, form) for term in self.split_value(self.bias_signs(piece, form), form)]
                for piece in pieces
            ]
            within = self.index(target.panel // lanes)
            panel, part = self.e.binary("udiv", i, within), self.e.binary("urem", i, within)
            start = self.panel_row_address(target, base, panel, self.e.mul(j, self.index(lanes)), word_bytes)
            start = self.e.add(start, self.e.mul(part, self.index(self.bytes)))
            for n, square in enumerate(zip(*terms_of_rows, strict=True)):
                for c, words in enumerate(transpose_registers(self.e, list(square))):
                    down = n * self.term_stride(target, form) + c * target.panel * word_bytes
                    self.store(words, self.offset_pointer(start, down), self.bytes)

    def as_words(self, piece: VectorValue, form: PackedFormat) -> VectorValue:
        if form.factor == 1:
            return piece
        lanes = piece.width // form.factor
        return VectorValue(self.w.raw(f"bitcast {piece.typed} to <{lanes} x i32>"), int32, lanes, self.w.depth)

    def bias_signs(self, piece: VectorValue, form: PackedFormat) -> VectorValue:
        """Add 128 to bytes of B, by flipping their signs: the instruction multiplies unsigned bytes by signed ones."""
        bias = self.e.splat(self.e.const(_SIGN_BIAS, uint8), piece.width)
        return self.e.xor(piece, bias) if form.flips_signs else piece

    # --- A ------------------------------------------------------------------------------------------------------

    def pack_rows(
        self,
        m: Matrix,
        first: VectorValue,
        count: int,
        target: Buffer,
        base: VectorValue,
        depth: VectorValue,
        form: PackedFormat = PLAIN,
    ) -> None:
        """Copy `count` rows of A from `first` on, `depth` numbers of each."""
        size = form.element_bytes(m)
        pitch = self.index(target.pitch * scratch_dtype(target).itemsize)
        width = self.bytes // size
        term_stride = target.pitch * 4 // form.terms
        with self.w.loop("0", str(count), "1") as r:
            row = self.e.add(first, r)
            out = self.e.add(base, self.e.mul(r, pitch))

            def copy(load: Load) -> list[VectorValue]:
                with self.w.loop("0", depth.text, str(width)) as k:
                    along = self.e.mul(k, self.index(size))
                    self.store_terms(load(m, row, k, width), form, self.e.add(out, along), term_stride)
                return []

            end = self.e.and_(self.e.add(depth, self.index(width - 1)), self.index(-width))
            inside = self.contains_rectangle(m, (row, self.index(0)), (row, self.e.sub(end, self.index(1))))
            self.w.branch(inside.text, [lambda: copy(self.load_row), lambda: copy(self.load_row_masked)])

    def row_sums(
        self,
        row: VectorValue,
        pitch: VectorValue,
        count: int,
        words: VectorValue,
        add_bytes: Callable[[VectorValue, VectorValue], VectorValue],
    ) -> str:
        """What the flipped signs of B add to each row of a register tile: 128 times the sum of the row's bytes.

        Gives the stack slot of the sums. `add_bytes` adds the bytes of words to a register of sums.
        """
        lanes = self.bytes // 4
        e = self.e
        kind = f"<{lanes} x i32>"
        zero = VectorValue("zeroinitializer", int32, lanes, 0)
        slots = {self.w.slot(kind): e.add(row, e.mul(self.index(r), pitch)) for r in range(count)}
        for slot in slots:
            self.store(zero, slot, self.bytes)
        with self.w.loop("0", words.text, str(lanes)) as k:
            mask = e.cmp("lt", e.iota(lanes, int32), e.splat(e.convert(e.sub(words, k), int32), lanes))
            for slot, start in slots.items():
                place = self.pointer_at(e.add(start, e.mul(k, self.index(4))))
                args = ("ptr", place), ("i32", "1"), (mask.type, mask.text), (kind, zero.text)
                loaded = self.w.call(kind, f"llvm.masked.load.v{lanes}i32.p0", args)
                piece = VectorValue(loaded, int32, lanes, self.w.depth)
                self.store(add_bytes(self.load_words(slot, lanes), piece), slot, self.bytes)
        sums = self.w.slot(f"[{count} x i32]")
        for r, slot in enumerate(slots):
            row_sum = kind, self.load_words(slot, lanes).text
            total = self.w.call("i32", f"llvm.vector.reduce.add.v{lanes}i32", (row_sum,))
            place = self.w.raw(f"getelementptr i32, ptr {sums}, i64 {r}")
            self.w.line(f"store i32 {self.w.raw(f'shl i32 {total}, 7')}, ptr {place}")
        return sums

    def load_words(self, pointer: str, lanes: int) -> VectorValue:
        return VectorValue(self.w.raw(f"load <{lanes} x i32>, ptr {pointer}, align 64"), int32, lanes, self.w.depth)

    # --- addresses ----------------------------------------------------------------------------------------------

    def word_count(self, depth: VectorValue, factor: int) -> VectorValue:
        """Words that hold `depth` numbers, `factor` in each."""
        if factor == 1:
            return depth
        return self.e.binary("udiv", self.plus(depth, factor - 1), self.index(factor))

    def round_up(self, n: VectorValue, unit: int) -> VectorValue:
        """A number rounded up to a multiple."""
        return self.e.mul(self.word_count(n, unit), self.index(unit)) if unit > 1 else n

    def panel_count(self, target: Buffer) -> str:
        return str(-(-target.shape[-1] // target.panel))

    def plus(self, a: VectorValue, n: int) -> VectorValue:
        return self.e.add(a, self.index(n)) if n else a

    def offset_pointer(self, start: VectorValue, n: int) -> str:
        return self.pointer_at(self.plus(start, n))

    def panel_row_address(
        self, target: Buffer, base: VectorValue, panel: VectorValue, row: VectorValue, size: int
    ) -> VectorValue:
        """Address of a row of a panel of words of `size` bytes."""
        pitch = target.panel * size
        panel_start = self.e.mul(panel, self.index(target.rows * pitch))
        return self.e.add(base, self.e.add(panel_start, self.e.mul(row, self.index(pitch))))
