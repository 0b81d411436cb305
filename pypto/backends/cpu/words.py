"""Operands of a dot in words of 32 bits, for machines that multiply several narrow numbers of a word at once.

A word holds 2 bfloat16 or 4 int8 that are neighbours along K. The left operand keeps its rows; the right one keeps its
panels, whose rows become rows of words.
"""

from __future__ import annotations

from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.lanes import Lanes, llvm_type
from pypto.backends.cpu.loopir import Words
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Op, Value
from pypto.ir.types import DType, bfloat16, int8, int32, int64


def words_of(op: Op, target: CpuTarget) -> int:
    """How many numbers of a dot's operands go into a word; 0 where they are multiplied one by one."""
    a, b = (source_dtype(v) for v in op.operands[:2])
    if op.operands[0].shape[-1] < 16 or target.vector_bytes < 64:  # not worth the packing, or no whole registers
        return 0
    if a == b == bfloat16 and target.has_bf16_dot:
        return 2
    return 4 if a == b == int8 and target.has_int8_dot else 0


def source_dtype(v: Value) -> DType:
    """The type of the numbers, before they were widened for the dot."""
    return v.op.operands[0].dtype if v.op is not None and v.op.name == "cast" else v.dtype


class WordEmitter:
    """Emits the joining of numbers into words, and the instruction that multiplies them."""

    def __init__(self, e: LaneEmitter, target: CpuTarget) -> None:
        self.e = e
        self.w = e.w
        self.lanes = target.vector_bytes // 4

    def dot(self, per: int, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        """c + the products of the numbers of each word; `a` unsigned where these are bytes."""
        if per == 4:
            args = (c, a, b)
            name = "llvm.x86.avx512.vpdpbusd.512"
            return Lanes(self.w.call(c.type, name, tuple((v.type, v.text) for v in args)), int32, self.lanes, c.level)
        kind = f"<{2 * self.lanes} x bfloat>"
        halves = [self.w.raw(f"bitcast {v.typed} to {kind}", v.level) for v in (a, b)]
        call = ((c.type, c.text), (kind, halves[0]), (kind, halves[1]))
        return Lanes(self.w.call(c.type, "llvm.x86.avx512bf16.dpbf16ps.512", call), c.dtype, self.lanes, c.level)

    def emit(self, item: Words, source: str, target: str) -> None:
        """Pointers to the first element of a matrix, and to the first word."""
        if item.left:
            self.rows(item, source, target)
        else:
            self.panels(item, source, target)

    # --- the left operand ---------------------------------------------------------------------------------------

    def rows(self, item: Words, source: str, target: str) -> None:
        m, k = item.source.shape[-2:]
        whole = k // self.lanes * self.lanes
        with self.w.loop("0", str(m), "1") as i:
            row, out = self.moved(source, item.source.pitch, i), self.moved(target, item.target.pitch, i)
            if whole:
                with self.w.loop("0", str(whole), str(self.lanes)) as j:
                    self.narrow(item, row, out, j, self.lanes)
            if k > whole:
                self.narrow(item, row, out, Lanes(str(whole), int64, 1, 0), k - whole)

    def narrow(self, item: Words, row: str, out: str, j: Lanes, count: int) -> None:
        """A register of 32-bit numbers as the narrow ones that they are; beyond `count` of them come zeros."""
        loaded = self.load(self.w.raw(f"getelementptr i32, ptr {row}, i64 {j.text}"), 4)
        if count < self.lanes:
            loaded = self.e.select(self.e.first(count, self.lanes), loaded, self.e.const(0, int32))
        bits = 32 // item.per
        if item.per == 2:
            loaded = self.e.binary("lshr", loaded, self.e.const(16, int32))
        kind = f"<{self.lanes} x i{bits}>"
        small = self.w.raw(f"trunc {loaded.typed} to {kind}")
        if item.per == 4:
            small = self.w.raw(f"xor {kind} {small}, splat (i8 -128)")
        place = self.w.raw(f"getelementptr i{bits}, ptr {out}, i64 {j.text}")
        self.w.line(f"store {kind} {small}, ptr {place}, align {bits // 8}")

    # --- the right operand --------------------------------------------------------------------------------------

    def panels(self, item: Words, source: str, target: str) -> None:
        """Row after row of words; below them, for bytes, what their signs on the left side add to every column."""
        (k, n), panel = item.source.shape[-2:], item.source.panel
        whole, words = k // item.per, -(-k // item.per)
        with self.w.loop("0", str(-(-n // panel)), "1") as p:
            first = self.moved(source, panel * item.source.rows, p)
            out = self.moved(target, panel * item.target.rows, p)
            for column in range(0, panel, self.lanes):
                total = self.w.slot(llvm_type(int32, self.lanes))
                self.w.line(f"store {llvm_type(int32, self.lanes)} zeroinitializer, ptr {total}")
                if whole:
                    with self.w.loop("0", str(whole), "1") as i:
                        left = self.place(first, panel * item.per, i, column)
                        self.join(item, left, self.place(out, panel, i, column), item.per, total)
                if words > whole:
                    i = Lanes(str(whole), int64, 1, 0)
                    left = self.place(first, panel * item.per, i, column)
                    self.join(item, left, self.place(out, panel, i, column), k - whole * item.per, total)
                if item.per == 4:
                    last = self.place(out, panel, Lanes(str(words), int64, 1, 0), column)
                    self.store(self.load(total, 64), last)

    def join(self, item: Words, first: str, out: str, count: int, total: str) -> None:
        """One register of words, from `count` rows of the panel."""
        bits, panel = 32 // item.per, item.source.panel
        places = [self.w.raw(f"getelementptr i32, ptr {first}, i64 {t * panel}") for t in range(count)]
        rows = [self.load(place, 4) for place in places]
        if item.per == 4:
            sums = self.load(total, 64)
            for row in rows:
                sums = self.e.add(sums, self.e.shl(row, self.e.const(7, int32)))
            self.store(sums, total)
        parts = [self.part(row, t, bits) for t, row in enumerate(rows)]
        word = parts[0]
        for part in parts[1:]:
            word = self.e.or_(word, part)
        self.store(word, out)

    def part(self, row: Lanes, t: int, bits: int) -> Lanes:
        """A row's numbers at their place in the word. A bfloat16 is the upper half of the float that it became."""
        if bits == 16:
            if t:
                return self.e.and_(row, self.e.const(-0x10000, int32))
            return self.e.binary("lshr", row, self.e.const(16, int32))
        byte = self.e.and_(row, self.e.const(255, int32))
        return self.e.shl(byte, self.e.const(bits * t, int32)) if t else byte

    # --- memory -------------------------------------------------------------------------------------------------

    def moved(self, pointer: str, step: int, index: Lanes) -> str:
        distance = self.w.raw(f"mul i64 {index.text}, {step}")
        return self.w.raw(f"getelementptr i32, ptr {pointer}, i64 {distance}")

    def place(self, pointer: str, step: int, index: Lanes, column: int) -> str:
        return self.w.raw(f"getelementptr i32, ptr {self.moved(pointer, step, index)}, i64 {column}")

    def load(self, pointer: str, align: int) -> Lanes:
        kind = llvm_type(int32, self.lanes)
        return Lanes(self.w.raw(f"load {kind}, ptr {pointer}, align {align}"), int32, self.lanes, self.w.depth)

    def store(self, value: Lanes, pointer: str) -> None:
        self.w.line(f"store {value.typed}, ptr {pointer}, align 4")
