"""Operands of a dot, copied into the order that register kernels read them in.

The right operand becomes panels of one or two registers' columns, row below row; the left one keeps its rows, a block
of them at a time, so that the copy stays in the first-level cache. Both come straight from an array where they can, and
are zero where it has no elements. Where the machine multiplies several narrow numbers of a 32-bit word at once, words
hold neighbours along K.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Final

from pypto.backends.cpu.codegen.memory import memory_dtype
from pypto.backends.cpu.codegen.prefetch import CACHE_LINE, prefetch_line
from pypto.backends.cpu.codegen.register_transpose import transpose_registers
from pypto.backends.cpu.codegen.tile_access import AccessEmitter
from pypto.backends.cpu.gemm.bf16_split import split_bf16
from pypto.backends.cpu.gemm.operands import Matrix, ValidRange
from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
from pypto.backends.cpu.llvm.value import VectorValue, intrinsic_suffix
from pypto.backends.cpu.loopir.ir import Buffer
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.types import int32, int64, uint8
from pypto.ops.memory import Access
from pypto.passes.dot_facts import InPlaceOperand

_PREFETCH_ROWS: Final = 4  # rows that are asked for before they are copied: more would wait for room to arrive in
_SIGN_BIAS = -128  # what makes a signed byte an unsigned one
Place = tuple[VectorValue, VectorValue]  # row and column
Get = Callable[[Matrix, VectorValue, VectorValue, int], VectorValue]


def matrix_of(memory: AccessEmitter, source: InPlaceOperand) -> Matrix:
    """Where a dot reads an operand of its own."""
    e, access = memory.e, Access.of(source.load)
    dtype = memory_dtype((access.value or source.load.results[0]).dtype)
    strides, size = [memory.scalar(s) for s in access.strides], e.const(dtype.itemsize, int64)
    first = memory.offset(list(zip(map(memory.scalar, access.offsets), strides, strict=True)))
    rows, columns = valid_range(memory, access, source.rows), valid_range(memory, access, source.columns)
    for d in set(range(len(strides))) - {source.rows, source.columns}:
        other = valid_range(memory, access, d)
        there = e.cmp("lt", other.start, other.stop)
        rows = ValidRange(rows.start, e.select(there, rows.stop, e.const(0, int64)))
    pitch = e.const(0, int64) if source.rows is None else e.mul(strides[source.rows], size)
    return Matrix(e.add(memory.scalar(access.base), memory.product(first, size)), pitch, rows, columns, dtype)


def valid_range(memory: AccessEmitter, access: Access, d: int | None) -> ValidRange:
    """Which elements of a dimension exist."""
    e = memory.e
    zero, size = e.const(0, int64), e.const(1 if d is None else access.shape[d], int64)
    if d is None or memory.statically_in_bounds(access, d):
        return ValidRange(zero, size)
    offset, extent = memory.scalar(access.offsets[d]), memory.scalar(access.extents[d])
    start, stop = e.neg(offset), e.sub(extent, offset)
    return ValidRange(*(e.minimum(e.maximum(x, zero), size) for x in (start, stop)))


def read_each(get: Get, m: Matrix, places: list[Place], width: int) -> list[VectorValue]:
    """Pieces of rows, one by one."""
    return [get(m, *place, width) for place in places]


class PackEmitter:
    """Emits the copies. `per` numbers go into a word; 1 where they are multiplied one by one."""

    def __init__(self, e: LaneEmitter, target: CpuTarget) -> None:
        self.e = e
        self.w = e.w
        self.bytes, self.biases_signs = target.vector_bytes, True  # whether signs of bytes are
        self.split_terms = 1  # numbers of bfloat16 that stand for one

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
        """Numbers of a row that all exist."""
        text = VectorValue("", m.dtype, width, 0).type
        loaded = self.w.raw(f"load {text}, ptr {self.pointer(m, row, column)}, align {m.dtype.itemsize}")
        return VectorValue(loaded, m.dtype, width, self.w.depth)

    def load_row_masked(self, m: Matrix, row: VectorValue, column: VectorValue, width: int) -> VectorValue:
        """Numbers of a row, 0 for those that do not exist; memory without any is not touched."""
        there, (lanes, some) = self.is_within(m.rows, row, row), self.valid_lanes(m.columns, column, width)
        some = self.e.and_(some, there)
        pointer = self.w.raw(f"select i1 {some.text}, ptr {self.pointer(m, row, column)}, ptr {self.w.harmless()}")
        return self.load_lanes(m, pointer, self.e.and_(lanes, self.e.splat(there, width)))

    def valid_lanes(self, columns: ValidRange, first: VectorValue, width: int) -> tuple[VectorValue, VectorValue]:
        """Which of some neighbours exist, and whether any does."""
        place = self.e.add(self.e.iota(width, int32), self.e.splat(self.e.convert(first, int32), width))
        start, stop = (self.e.splat(self.e.convert(x, int32), width) for x in (columns.start, columns.stop))
        lanes = self.e.and_(self.e.cmp("ge", place, start), self.e.cmp("lt", place, stop))
        end = self.e.add(first, self.index(width))
        return lanes, self.e.and_(self.e.cmp("gt", end, columns.start), self.e.cmp("lt", first, columns.stop))

    def load_lanes(self, m: Matrix, pointer: str, lanes: VectorValue) -> VectorValue:
        """Numbers of a row where lanes are true, else 0."""
        kind = VectorValue("zeroinitializer", m.dtype, lanes.width, 0)
        args = ("ptr", pointer), ("i32", str(m.dtype.itemsize)), (lanes.type, lanes.text), (kind.type, kind.text)
        name = f"llvm.masked.load.{intrinsic_suffix(m.dtype, lanes.width)}.p0"
        return VectorValue(self.w.call(kind.type, name, args), m.dtype, lanes.width, self.w.depth)

    def is_within(self, span: ValidRange, first: VectorValue, last: VectorValue) -> VectorValue:
        return self.e.and_(self.e.cmp("ge", first, span.start), self.e.cmp("lt", last, span.stop))

    def contains_rectangle(self, m: Matrix, first: Place, last: Place) -> VectorValue:
        """True when a matrix has both numbers, and so all between them."""
        return self.e.and_(self.is_within(m.rows, first[0], last[0]), self.is_within(m.columns, first[1], last[1]))

    def load_rows(self, m: Matrix, places: list[Place], width: int) -> list[VectorValue]:
        """Pieces of rows, the first and last of which say whether all of them exist."""
        inside = self.contains_rectangle(m, places[0], (places[-1][0], self.plus(places[-1][1], width - 1)))
        return self.w.branch(
            inside.text, [partial(read_each, get, m, places, width) for get in (self.load_row, self.load_row_masked)]
        )

    def element_bytes(self, m: Matrix) -> int:
        """Bytes of a number as it is multiplied."""
        return m.dtype.itemsize if self.split_terms == 1 else 2

    def split_value(self, value: VectorValue) -> list[VectorValue]:
        """A register, or several whose numbers add up to a value's."""
        return [value] if self.split_terms == 1 else split_bf16(self.e, value, self.split_terms)

    def store_split(self, value: VectorValue, start: VectorValue, apart: int) -> None:
        for n, part in enumerate(self.split_value(value)):
            self.store(part, self.offset_pointer(start, n * apart), self.bytes)

    def store(self, value: VectorValue, pointer: str, align: int) -> None:
        self.w.line(f"store {value.typed}, ptr {pointer}, align {align}")

    # --- the right operand --------------------------------------------------------------------------------------

    def pack_panels(self, m: Matrix, target: Buffer, base: VectorValue, depth: VectorValue, per: int) -> None:
        """Rows of K; `depth` numbers of it are wanted. What exists in all panels is not looked at in each."""
        end = self.index(int(self.panel_count(target)) * target.panel - 1)
        with self.w.loop("0", self.word_count(depth, per).text, "1") as g:
            row = self.e.mul(g, self.index(per))
            whole = self.contains_rectangle(m, (row, self.index(0)), (self.plus(row, per - 1), end))
            copy = partial(self.pack_row, m, target, base, g, per)
            self.w.branch(whole.text, [partial(copy, partial(read_each, self.load_row)), partial(copy, self.load_rows)])

    def pack_row(
        self,
        m: Matrix,
        target: Buffer,
        base: VectorValue,
        g: VectorValue,
        per: int,
        get: Callable[[Matrix, list[Place], int], list[VectorValue]],
    ) -> list[VectorValue]:
        """A row of words in every panel."""
        row, size, apart = self.e.mul(g, self.index(per)), self.element_bytes(m), self.term_stride(target)
        with self.w.loop("0", self.panel_count(target), "1") as p:
            first = self.e.mul(p, self.index(target.panel))
            for t, c in itertools.product(range(per), range(0, target.panel, CACHE_LINE // m.dtype.itemsize)):
                prefetch_line(self.w, self.pointer(m, self.plus(row, _PREFETCH_ROWS + t), self.plus(first, c)), 3)
            width, start = min(target.panel, self.bytes // size), self.panel_row_address(target, base, p, g, size * per)
            steps = itertools.product(range(per), range(0, target.panel, width))
            pieces = get(m, [(self.plus(row, t), self.plus(first, c)) for t, c in steps], width)
            for i, words in enumerate(pieces if per == 1 else self.interleave(pieces, per, self.bytes // (size * per))):
                self.store_split(self.bias_signs(words, per), self.plus(start, i * self.bytes), apart)
        return []

    def term_stride(self, target: Buffer) -> int:
        """Bytes between the parts of numbers in panels."""
        return target.rows // self.split_terms * target.panel * 4

    def interleave(self, rows: list[VectorValue], per: int, lanes: int) -> list[VectorValue]:
        """Registers of words, from as many rows as a word has numbers."""
        n = rows[0].width
        while len(rows) > 2:
            rows = [self.e.shuffle(a, b, list(range(2 * a.width))) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        picks = [[n * t + i for i in range(start, start + lanes) for t in range(per)] for start in range(0, n, lanes)]
        return [self.e.shuffle(rows[0], rows[1], p) for p in picks]

    def pack_transposed(self, m: Matrix, target: Buffer, base: VectorValue, depth: VectorValue, per: int) -> None:
        """Rows of N: they become columns, a square of one register's words at a time."""
        size = self.element_bytes(m)
        numbers = self.bytes // size
        lanes = numbers // per
        rows, squares = -(-target.shape[-1] // lanes), self.word_count(depth, numbers)
        with self.w.loop("0", str(rows), "1") as i, self.w.loop("0", squares.text, "1") as j:
            first, column = self.e.mul(i, self.index(lanes)), self.e.mul(j, self.index(numbers))
            pieces = self.load_rows(m, [(self.plus(first, r), column) for r in range(lanes)], numbers)
            parted = [
                [self.as_words(x, per) for x in self.split_value(self.bias_signs(piece, per))] for piece in pieces
            ]
            within = self.index(target.panel // lanes)
            panel, part = self.e.binary("udiv", i, within), self.e.binary("urem", i, within)
            start = self.panel_row_address(target, base, panel, self.e.mul(j, self.index(lanes)), size * per)
            start = self.e.add(start, self.e.mul(part, self.index(self.bytes)))
            for n, square in enumerate(zip(*parted, strict=True)):
                for c, words in enumerate(transpose_registers(self.e, list(square))):
                    down = n * self.term_stride(target) + c * target.panel * size * per
                    self.store(words, self.offset_pointer(start, down), self.bytes)

    def as_words(self, piece: VectorValue, per: int) -> VectorValue:
        if per == 1:
            return piece
        lanes = piece.width // per
        return VectorValue(self.w.raw(f"bitcast {piece.typed} to <{lanes} x i32>"), int32, lanes, self.w.depth)

    def bias_signs(self, piece: VectorValue, per: int) -> VectorValue:
        """Bytes of the right side with their signs flipped: the machine multiplies unsigned ones by signed ones."""
        flip = self.e.splat(self.e.const(_SIGN_BIAS & 255, uint8), piece.width)
        return self.e.xor(piece, flip) if per == 4 and self.biases_signs else piece

    # --- the left operand ---------------------------------------------------------------------------------------

    def pack_rows(
        self, m: Matrix, first: VectorValue, count: int, target: Buffer, base: VectorValue, depth: VectorValue
    ) -> None:
        """A block of rows."""
        size, pitch = self.element_bytes(m), self.index(target.pitch * m.dtype.itemsize)
        width = self.bytes // size
        with self.w.loop("0", str(count), "1") as r:
            row, out = self.e.add(first, r), self.e.add(base, self.e.mul(r, pitch))

            def copy(get: Get) -> list[VectorValue]:
                with self.w.loop("0", depth.text, str(width)) as k:
                    along = self.e.mul(k, self.index(size))
                    self.store_split(
                        get(m, row, k, width), self.e.add(out, along), target.pitch * 4 // self.split_terms
                    )
                return []

            reach = self.e.add(depth, self.index(width - 1))
            reach = self.e.and_(reach, self.index(-width))
            inside = self.contains_rectangle(m, (row, self.index(0)), (row, self.e.sub(reach, self.index(1))))
            self.w.branch(inside.text, [lambda: copy(self.load_row), lambda: copy(self.load_row_masked)])

    def row_sums(
        self,
        row: VectorValue,
        apart: VectorValue,
        count: int,
        words: VectorValue,
        total: Callable[[VectorValue, VectorValue], VectorValue],
    ) -> str:
        """What the flipped signs of the right side add to each of a block's rows of bytes."""
        lanes, e = self.bytes // 4, self.e
        kind, zero = f"<{lanes} x i32>", VectorValue("zeroinitializer", int32, lanes, 0)
        slots = {self.w.slot(kind): e.add(row, e.mul(self.index(r), apart)) for r in range(count)}
        for slot in slots:
            self.store(zero, slot, self.bytes)
        with self.w.loop("0", words.text, str(lanes)) as k:
            there = e.cmp("lt", e.iota(lanes, int32), e.splat(e.convert(e.sub(words, k), int32), lanes))
            for slot, start in slots.items():
                place = self.pointer_at(e.add(start, e.mul(k, self.index(4))))
                args = ("ptr", place), ("i32", "1"), (there.type, there.text), (kind, zero.text)
                some = VectorValue(
                    self.w.call(kind, f"llvm.masked.load.v{lanes}i32.p0", args), int32, lanes, self.w.depth
                )
                self.store(total(self.load_words(slot, lanes), some), slot, self.bytes)
        found = self.w.slot(f"[{count} x i32]")
        for r, slot in enumerate(slots):
            one = self.w.call(
                "i32", f"llvm.vector.reduce.add.v{lanes}i32", ((kind, self.load_words(slot, lanes).text),)
            )
            place = self.w.raw(f"getelementptr i32, ptr {found}, i64 {r}")
            self.w.line(f"store i32 {self.w.raw(f'shl i32 {one}, 7')}, ptr {place}")
        return found

    def load_words(self, pointer: str, lanes: int) -> VectorValue:
        return VectorValue(self.w.raw(f"load <{lanes} x i32>, ptr {pointer}, align 64"), int32, lanes, self.w.depth)

    # --- places -------------------------------------------------------------------------------------------------

    def word_count(self, depth: VectorValue, per: int) -> VectorValue:
        """How many words, or squares, hold so many numbers."""
        if per == 1:
            return depth
        return self.e.binary("udiv", self.plus(depth, per - 1), self.index(per))

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
        """Address of a row of a panel, of words of some size."""
        pitch = target.panel * size
        before = self.e.mul(panel, self.index(target.rows * pitch))
        return self.e.add(base, self.e.add(before, self.e.mul(row, self.index(pitch))))
