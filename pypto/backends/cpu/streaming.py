"""Products with very few rows: some rows of B at a time are read from end to end, and added to the rows of C.

C stays in the first-level cache; what takes the time is B, which comes from memory as one long stretch per row. Many
rows at a time come by themselves, since the machine follows each of them; of few, the next ones are asked for.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.kernel import function
from pypto.backends.cpu.lanes import Lanes, intrinsic_suffix, llvm_type
from pypto.backends.cpu.prefetch import fetch
from pypto.ir.types import DType, int64

_MOST_ROWS: Final = 8  # of B, that are read at a time
_FEW: Final = 4  # of B, where rows of C take the room in the first-level cache
_SMALL: Final = 2  # rows of C, that do not
_SPARE: Final = 6  # registers beside the elements of A


@dataclass(frozen=True, slots=True)
class Stream:
    """Shape of a kernel: `rows` of A and C, their pitches, and the `columns` of all of C."""

    rows: int
    lanes: int
    pitch_a: int
    pitch_c: int
    columns: int
    dtype: DType

    @property
    def name(self) -> str:
        sizes = self.rows, self.lanes, self.pitch_a, self.pitch_c, self.columns
        return f"stream_{self.dtype}_" + "_".join(map(str, sizes))


class StreamEmitter:
    """Emits such kernels as functions, once for each shape."""

    def __init__(self, e: LaneEmitter) -> None:
        self.e = e
        self.w = e.w
        self.made: set[str] = set()

    def kernel(self, s: Stream) -> None:
        """``(a, b, c, pitch of b, depth, columns that exist, whether c is new)``."""
        if s.name in self.made:
            return
        self.made.add(s.name)
        args = "ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %pitch, i64 %depth, i64 %columns, i1 %fresh"
        with function(self.w, f"internal void @{s.name}({args}) noinline nounwind"):
            self.clear(s)
            columns = Lanes("%columns", int64, 1, 0)
            whole = self.e.and_(columns, self.e.const(-s.lanes, int64))
            rest = self.e.splat(self.e.sub(columns, whole), s.lanes)
            mask = self.e.cmp("lt", self.e.iota(s.lanes, int64), rest)
            some = self.e.cmp("gt", columns, whole).text
            together = self.together(s)
            deep = self.w.raw(f"and i64 %depth, {-together}")
            for first, last, count in (("0", deep, together), (deep, "%depth", 1)):
                with self.w.loop(first, last, str(count)) as k:
                    factors, starts = self.factors(s, k, count), self.starts(s, k, count)
                    with self.w.loop("0", whole.text, str(s.lanes)) as j:
                        if s.rows > _SMALL and count > 1:
                            self.ask(s, starts, j)
                        self.add(s, factors, starts, j, None)
                    end = functools.partial(self.add, s, factors, starts, whole, mask)
                    self.w.branch(some, [end, list])

    def together(self, s: Stream) -> int:
        """Rows of B that are read at a time."""
        most = max(1, (self.e.target.registers - _SPARE) // s.rows)
        return min(_FEW if s.rows > _SMALL else _MOST_ROWS, 1 << (most.bit_length() - 1))

    def ask(self, s: Stream, starts: list[str], j: Lanes) -> None:
        """Have the same columns fetched of the rows that come after these."""
        after = self.e.add(j, self.e.mul(Lanes("%pitch", int64, 1, 0), self.e.const(len(starts), int64)))
        for start in starts:
            fetch(self.w, self.w.raw(f"getelementptr {llvm_type(s.dtype, 1)}, ptr {start}, i64 {after.text}"), 3)

    def clear(self, s: Stream) -> None:
        stop = self.w.raw(f"select i1 %fresh, i64 {s.columns}, i64 0")
        with self.w.loop("0", stop, str(s.lanes)) as j:
            for r in range(s.rows):
                self.w.line(f"store {llvm_type(s.dtype, s.lanes)} zeroinitializer, ptr {self.place(s, r, j)}")

    def factors(self, s: Stream, k: Lanes, count: int) -> list[list[Lanes]]:
        """Elements of A: for each row, those of the rows of B."""
        kind = llvm_type(s.dtype, 1)
        first = self.w.raw(f"getelementptr {kind}, ptr %a, i64 {k.text}")

        def element(r: int, u: int) -> Lanes:
            place = self.w.raw(f"getelementptr {kind}, ptr {first}, i64 {r * s.pitch_a + u}")
            loaded = self.w.instr(f"load {kind}, ptr {place}", s.dtype, 1, self.w.depth)
            return self.e.splat(loaded, s.lanes)

        return [[element(r, u) for u in range(count)] for r in range(s.rows)]

    def starts(self, s: Stream, k: Lanes, count: int) -> list[str]:
        """Rows of B."""
        pitch = Lanes("%pitch", int64, 1, 0)
        downs = [self.e.mul(self.e.add(k, self.e.const(u, int64)), pitch) for u in range(count)]
        return [self.w.raw(f"getelementptr {llvm_type(s.dtype, 1)}, ptr %b, i64 {down.text}") for down in downs]

    def add(self, s: Stream, factors: list[list[Lanes]], starts: list[str], j: Lanes,
            mask: Lanes | None) -> list[Lanes]:
        """One register of columns; `mask` tells those that exist."""
        row = [self.load(s, start, j, mask) for start in starts]
        for r, elements in enumerate(factors):
            place = self.place(s, r, j)
            total = self.w.instr(f"load {row[0].type}, ptr {place}", s.dtype, s.lanes, self.w.depth)
            for a, b in zip(elements, row, strict=True):
                product = self.e.multiply_add if s.dtype.is_float else self.integers
                total = product(a, b, total)
            self.w.line(f"store {total.typed}, ptr {place}")
        return []

    def integers(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        return self.e.add(self.e.mul(a, b), c)

    def load(self, s: Stream, start: str, j: Lanes, mask: Lanes | None) -> Lanes:
        kind, size = llvm_type(s.dtype, s.lanes), s.dtype.itemsize
        place = self.w.raw(f"getelementptr {llvm_type(s.dtype, 1)}, ptr {start}, i64 {j.text}")
        if mask is None:
            return self.w.instr(f"load {kind}, ptr {place}, align {size}", s.dtype, s.lanes, self.w.depth)
        args = ("ptr", place), ("i32", str(size)), (mask.type, mask.text), (kind, "zeroinitializer")
        name = f"llvm.masked.load.{intrinsic_suffix(s.dtype, s.lanes)}.p0"
        return self.e.call(name, s.dtype, s.lanes, self.w.depth, *args)

    def place(self, s: Stream, r: int, j: Lanes) -> str:
        along = self.e.add(j, self.e.const(r * s.pitch_c, int64))
        return self.w.raw(f"getelementptr {llvm_type(s.dtype, 1)}, ptr %c, i64 {along.text}")
