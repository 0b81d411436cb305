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

from pypto.backends.cpu.access import AccessEmitter
from pypto.backends.cpu.crosswise import transposed
from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.lanes import Lanes, intrinsic_suffix
from pypto.backends.cpu.loopir import Buffer
from pypto.backends.cpu.memory import memory_dtype
from pypto.backends.cpu.operands import Direct, Matrix, Span
from pypto.backends.cpu.prefetch import LINE, fetch
from pypto.backends.cpu.splitting import split
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.types import int32, int64, uint8
from pypto.ops.memory import Access

_AHEAD: Final = 4  # rows that are asked for before they are copied: more would wait for room to arrive in
_SIGN = -128  # what makes a signed byte an unsigned one
Place = tuple[Lanes, Lanes]  # row and column
Get = Callable[[Matrix, Lanes, Lanes, int], Lanes]


def matrix(memory: AccessEmitter, source: Direct) -> Matrix:
    """Where a dot reads an operand of its own."""
    e, access = memory.e, Access.of(source.load)
    dtype = memory_dtype((access.value or source.load.results[0]).dtype)
    strides, size = [memory.scalar(s) for s in access.strides], e.const(dtype.itemsize, int64)
    first = memory.offset(list(zip(map(memory.scalar, access.offsets), strides, strict=True)))
    rows, columns = span(memory, access, source.rows), span(memory, access, source.columns)
    for d in set(range(len(strides))) - {source.rows, source.columns}:
        other = span(memory, access, d)
        there = e.cmp("lt", other.start, other.stop)
        rows = Span(rows.start, e.select(there, rows.stop, e.const(0, int64)))
    pitch = e.const(0, int64) if source.rows is None else e.mul(strides[source.rows], size)
    return Matrix(e.add(memory.scalar(access.base), memory.product(first, size)), pitch, rows, columns, dtype)


def span(memory: AccessEmitter, access: Access, d: int | None) -> Span:
    """Which elements of a dimension exist."""
    e = memory.e
    zero, size = e.const(0, int64), e.const(1 if d is None else access.shape[d], int64)
    if d is None or memory.known(access, d):
        return Span(zero, size)
    offset, extent = memory.scalar(access.offsets[d]), memory.scalar(access.extents[d])
    start, stop = e.neg(offset), e.sub(extent, offset)
    return Span(*(e.minimum(e.maximum(x, zero), size) for x in (start, stop)))


def each(get: Get, m: Matrix, places: list[Place], width: int) -> list[Lanes]:
    """Pieces of rows, one by one."""
    return [get(m, *place, width) for place in places]


class PackEmitter:
    """Emits the copies. `per` numbers go into a word; 1 where they are multiplied one by one."""

    def __init__(self, e: LaneEmitter, target: CpuTarget) -> None:
        self.e = e
        self.w = e.w
        self.bytes, self.flips = target.vector_bytes, True  # whether signs of bytes are
        self.parts = 1  # numbers of bfloat16 that stand for one

    def number(self, n: int) -> Lanes:
        return self.e.const(n, int64)

    # --- reading ------------------------------------------------------------------------------------------------

    def pointer(self, m: Matrix, row: Lanes, column: Lanes) -> str:
        down = self.e.mul(row, m.pitch)
        along = self.e.mul(column, self.number(m.dtype.itemsize))
        return self.at(self.e.add(self.e.add(m.address, down), along))

    def at(self, address: Lanes) -> str:
        return self.w.raw(f"inttoptr i64 {address.text} to ptr")

    def whole(self, m: Matrix, row: Lanes, column: Lanes, width: int) -> Lanes:
        """Numbers of a row that all exist."""
        text = Lanes("", m.dtype, width, 0).type
        loaded = self.w.raw(f"load {text}, ptr {self.pointer(m, row, column)}, align {m.dtype.itemsize}")
        return Lanes(loaded, m.dtype, width, self.w.depth)

    def masked(self, m: Matrix, row: Lanes, column: Lanes, width: int) -> Lanes:
        """Numbers of a row, 0 for those that do not exist; memory without any is not touched."""
        there, (lanes, some) = self.within(m.rows, row, row), self.existing(m.columns, column, width)
        some = self.e.and_(some, there)
        pointer = self.w.raw(f"select i1 {some.text}, ptr {self.pointer(m, row, column)}, ptr {self.w.harmless()}")
        return self.some(m, pointer, self.e.and_(lanes, self.e.splat(there, width)))

    def existing(self, columns: Span, first: Lanes, width: int) -> tuple[Lanes, Lanes]:
        """Which of some neighbours exist, and whether any does."""
        place = self.e.add(self.e.iota(width, int32), self.e.splat(self.e.convert(first, int32), width))
        start, stop = (self.e.splat(self.e.convert(x, int32), width) for x in (columns.start, columns.stop))
        lanes = self.e.and_(self.e.cmp("ge", place, start), self.e.cmp("lt", place, stop))
        end = self.e.add(first, self.number(width))
        return lanes, self.e.and_(self.e.cmp("gt", end, columns.start), self.e.cmp("lt", first, columns.stop))

    def some(self, m: Matrix, pointer: str, lanes: Lanes) -> Lanes:
        """Numbers of a row where lanes are true, else 0."""
        kind = Lanes("zeroinitializer", m.dtype, lanes.width, 0)
        args = ("ptr", pointer), ("i32", str(m.dtype.itemsize)), (lanes.type, lanes.text), (kind.type, kind.text)
        name = f"llvm.masked.load.{intrinsic_suffix(m.dtype, lanes.width)}.p0"
        return Lanes(self.w.call(kind.type, name, args), m.dtype, lanes.width, self.w.depth)

    def within(self, span: Span, first: Lanes, last: Lanes) -> Lanes:
        return self.e.and_(self.e.cmp("ge", first, span.start), self.e.cmp("lt", last, span.stop))

    def inside(self, m: Matrix, first: Place, last: Place) -> Lanes:
        """True when a matrix has both numbers, and so all between them."""
        return self.e.and_(self.within(m.rows, first[0], last[0]), self.within(m.columns, first[1], last[1]))

    def read(self, m: Matrix, places: list[Place], width: int) -> list[Lanes]:
        """Pieces of rows, the first and last of which say whether all of them exist."""
        inside = self.inside(m, places[0], (places[-1][0], self.plus(places[-1][1], width - 1)))
        return self.w.branch(inside.text, [partial(each, get, m, places, width) for get in (self.whole, self.masked)])

    def size(self, m: Matrix) -> int:
        """Bytes of a number as it is multiplied."""
        return m.dtype.itemsize if self.parts == 1 else 2

    def parted(self, value: Lanes) -> list[Lanes]:
        """A register, or several whose numbers add up to a value's."""
        return [value] if self.parts == 1 else split(self.e, value, self.parts)

    def put(self, value: Lanes, start: Lanes, apart: int) -> None:
        for n, part in enumerate(self.parted(value)):
            self.store(part, self.step(start, n * apart), self.bytes)

    def store(self, value: Lanes, pointer: str, align: int) -> None:
        self.w.line(f"store {value.typed}, ptr {pointer}, align {align}")

    # --- the right operand --------------------------------------------------------------------------------------

    def panels(self, m: Matrix, target: Buffer, base: Lanes, depth: Lanes, per: int) -> None:
        """Rows of K; `depth` numbers of it are wanted. What exists in all panels is not looked at in each."""
        end = self.number(int(self.count(target)) * target.panel - 1)
        with self.w.loop("0", self.words(depth, per).text, "1") as g:
            row = self.e.mul(g, self.number(per))
            whole = self.inside(m, (row, self.number(0)), (self.plus(row, per - 1), end))
            copy = partial(self.across, m, target, base, g, per)
            self.w.branch(whole.text, [partial(copy, partial(each, self.whole)), partial(copy, self.read)])

    def across(
        self,
        m: Matrix,
        target: Buffer,
        base: Lanes,
        g: Lanes,
        per: int,
        get: Callable[[Matrix, list[Place], int], list[Lanes]],
    ) -> list[Lanes]:
        """A row of words in every panel."""
        row, size, apart = self.e.mul(g, self.number(per)), self.size(m), self.apart(target)
        with self.w.loop("0", self.count(target), "1") as p:
            first = self.e.mul(p, self.number(target.panel))
            for t, c in itertools.product(range(per), range(0, target.panel, LINE // m.dtype.itemsize)):
                fetch(self.w, self.pointer(m, self.plus(row, _AHEAD + t), self.plus(first, c)), 3)
            width, start = min(target.panel, self.bytes // size), self.place(target, base, p, g, size * per)
            steps = itertools.product(range(per), range(0, target.panel, width))
            pieces = get(m, [(self.plus(row, t), self.plus(first, c)) for t, c in steps], width)
            for i, words in enumerate(pieces if per == 1 else self.join(pieces, per, self.bytes // (size * per))):
                self.put(self.unsigned(words, per), self.plus(start, i * self.bytes), apart)
        return []

    def apart(self, target: Buffer) -> int:
        """Bytes between the parts of numbers in panels."""
        return target.rows // self.parts * target.panel * 4

    def join(self, rows: list[Lanes], per: int, lanes: int) -> list[Lanes]:
        """Registers of words, from as many rows as a word has numbers."""
        n = rows[0].width
        while len(rows) > 2:
            rows = [self.e.shuffle(a, b, list(range(2 * a.width))) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        picks = [[n * t + i for i in range(start, start + lanes) for t in range(per)] for start in range(0, n, lanes)]
        return [self.e.shuffle(rows[0], rows[1], p) for p in picks]

    def turned(self, m: Matrix, target: Buffer, base: Lanes, depth: Lanes, per: int) -> None:
        """Rows of N: they become columns, a square of one register's words at a time."""
        size = self.size(m)
        numbers = self.bytes // size
        lanes = numbers // per
        rows, squares = -(-target.shape[-1] // lanes), self.words(depth, numbers)
        with self.w.loop("0", str(rows), "1") as i, self.w.loop("0", squares.text, "1") as j:
            first, column = self.e.mul(i, self.number(lanes)), self.e.mul(j, self.number(numbers))
            pieces = self.read(m, [(self.plus(first, r), column) for r in range(lanes)], numbers)
            parted = [[self.as_words(x, per) for x in self.parted(self.unsigned(piece, per))] for piece in pieces]
            within = self.number(target.panel // lanes)
            panel, part = self.e.binary("udiv", i, within), self.e.binary("urem", i, within)
            start = self.place(target, base, panel, self.e.mul(j, self.number(lanes)), size * per)
            start = self.e.add(start, self.e.mul(part, self.number(self.bytes)))
            for n, square in enumerate(zip(*parted, strict=True)):
                for c, words in enumerate(transposed(self.e, list(square))):
                    down = n * self.apart(target) + c * target.panel * size * per
                    self.store(words, self.step(start, down), self.bytes)

    def as_words(self, piece: Lanes, per: int) -> Lanes:
        if per == 1:
            return piece
        lanes = piece.width // per
        return Lanes(self.w.raw(f"bitcast {piece.typed} to <{lanes} x i32>"), int32, lanes, self.w.depth)

    def unsigned(self, piece: Lanes, per: int) -> Lanes:
        """Bytes of the right side with their signs flipped: the machine multiplies unsigned ones by signed ones."""
        flip = self.e.splat(self.e.const(_SIGN & 255, uint8), piece.width)
        return self.e.xor(piece, flip) if per == 4 and self.flips else piece

    # --- the left operand ---------------------------------------------------------------------------------------

    def rows(self, m: Matrix, first: Lanes, count: int, target: Buffer, base: Lanes, depth: Lanes) -> None:
        """A block of rows."""
        size, pitch = self.size(m), self.number(target.pitch * m.dtype.itemsize)
        width = self.bytes // size
        with self.w.loop("0", str(count), "1") as r:
            row, out = self.e.add(first, r), self.e.add(base, self.e.mul(r, pitch))

            def copy(get: Get) -> list[Lanes]:
                with self.w.loop("0", depth.text, str(width)) as k:
                    along = self.e.mul(k, self.number(size))
                    self.put(get(m, row, k, width), self.e.add(out, along), target.pitch * 4 // self.parts)
                return []

            reach = self.e.add(depth, self.number(width - 1))
            reach = self.e.and_(reach, self.number(-width))
            inside = self.inside(m, (row, self.number(0)), (row, self.e.sub(reach, self.number(1))))
            self.w.branch(inside.text, [lambda: copy(self.whole), lambda: copy(self.masked)])

    def sums(self, row: Lanes, apart: Lanes, count: int, words: Lanes, total: Callable[[Lanes, Lanes], Lanes]) -> str:
        """What the flipped signs of the right side add to each of a block's rows of bytes."""
        lanes, e = self.bytes // 4, self.e
        kind, zero = f"<{lanes} x i32>", Lanes("zeroinitializer", int32, lanes, 0)
        slots = {self.w.slot(kind): e.add(row, e.mul(self.number(r), apart)) for r in range(count)}
        for slot in slots:
            self.store(zero, slot, self.bytes)
        with self.w.loop("0", words.text, str(lanes)) as k:
            there = e.cmp("lt", e.iota(lanes, int32), e.splat(e.convert(e.sub(words, k), int32), lanes))
            for slot, start in slots.items():
                place = self.at(e.add(start, e.mul(k, self.number(4))))
                args = ("ptr", place), ("i32", "1"), (there.type, there.text), (kind, zero.text)
                some = Lanes(self.w.call(kind, f"llvm.masked.load.v{lanes}i32.p0", args), int32, lanes, self.w.depth)
                self.store(total(self.int32s(slot, lanes), some), slot, self.bytes)
        found = self.w.slot(f"[{count} x i32]")
        for r, slot in enumerate(slots):
            one = self.w.call("i32", f"llvm.vector.reduce.add.v{lanes}i32", ((kind, self.int32s(slot, lanes).text),))
            place = self.w.raw(f"getelementptr i32, ptr {found}, i64 {r}")
            self.w.line(f"store i32 {self.w.raw(f'shl i32 {one}, 7')}, ptr {place}")
        return found

    def int32s(self, pointer: str, lanes: int) -> Lanes:
        return Lanes(self.w.raw(f"load <{lanes} x i32>, ptr {pointer}, align 64"), int32, lanes, self.w.depth)

    # --- places -------------------------------------------------------------------------------------------------

    def words(self, depth: Lanes, per: int) -> Lanes:
        """How many words, or squares, hold so many numbers."""
        if per == 1:
            return depth
        return self.e.binary("udiv", self.plus(depth, per - 1), self.number(per))

    def up_to(self, n: Lanes, unit: int) -> Lanes:
        """A number rounded up to a multiple."""
        return self.e.mul(self.words(n, unit), self.number(unit)) if unit > 1 else n

    def count(self, target: Buffer) -> str:
        return str(-(-target.shape[-1] // target.panel))

    def plus(self, a: Lanes, n: int) -> Lanes:
        return self.e.add(a, self.number(n)) if n else a

    def step(self, start: Lanes, n: int) -> str:
        return self.at(self.plus(start, n))

    def place(self, target: Buffer, base: Lanes, panel: Lanes, row: Lanes, size: int) -> Lanes:
        """Address of a row of a panel, of words of some size."""
        pitch = target.panel * size
        before = self.e.mul(panel, self.number(target.rows * pitch))
        return self.e.add(base, self.e.add(before, self.e.mul(row, self.number(pitch))))
