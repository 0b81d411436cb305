"""Products with few rows: B is read where it lies, some rows at a time from end to end, and added to the rows of C.

C stays in a near cache; what takes the time is B, which is not worth being packed: it comes from memory as one long
stretch per row. Where more is to be done than waiting for it, the next rows are asked for.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import chain
from typing import Final

from pypto.backends.cpu.codegen.prefetch import L1, L2, prefetch_line
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.gemm.micro_kernel import claim_name, row_tiles, side_function
from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
from pypto.backends.cpu.llvm.value import VectorValue, intrinsic_suffix, llvm_type
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.types import DType, int64
from pypto.passes.dot_facts import InPlaceOperand, may_be_skinny

_COLUMN_REGISTERS: Final = 2  # registers of columns at a time
_SINGLE_ROW_REGISTERS: Final = 4  # the same with one row of C, where longer pieces of a row come faster
_MAX_L1_ROWS: Final = 8  # rows of C that take so long that what is asked for would not stay near
_REGISTERS_PER_SUM: Final = (
    5  # as many rows of C at a time as fit into registers: more than 8 sums do not wait for each other
)


@dataclass(frozen=True, slots=True)
class SkinnyGemm:
    """Shape of a kernel: `rows` of A and C, their pitches, and the `columns` of all of C."""

    rows: int
    lanes: int
    pitch_a: int
    pitch_c: int
    columns: int
    dtype: DType

    @property
    def vectors(self) -> int:
        """Registers of columns at a time."""
        return _SINGLE_ROW_REGISTERS if self.rows == 1 else _COLUMN_REGISTERS

    @property
    def name(self) -> str:
        sizes = self.rows, self.lanes, self.pitch_a, self.pitch_c, self.columns
        return f"stream_{self.dtype}_" + "_".join(map(str, sizes))


def is_skinny(item: Gemm, target: CpuTarget) -> bool:
    """True when a product may be one with few rows, whose right side lies in memory as it is."""
    plain = isinstance(item.b_source, InPlaceOperand) and not item.b_transposed and item.b_source.rows is not None
    return plain and not item.has_separate_version and may_be_skinny(item.op, target)


class SkinnyGemmEmitter:
    """Emits such kernels as functions, once for each shape."""

    def __init__(self, e: LaneEmitter) -> None:
        self.e = e
        self.w = e.w

    def kernel(self, s: SkinnyGemm) -> None:
        """``(a, b, c, pitch of b, depth, columns that exist, whether c is new)``."""
        if not claim_name(self.w, s.name):
            return
        args = "ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %pitch, i64 %depth, i64 %columns, i1 %fresh"
        with side_function(self.w, f"internal void @{s.name}({args}) noinline nounwind"):
            self.clear(s)
            columns = VectorValue("%columns", int64, 1, 0)
            whole, pairs = (self.e.and_(columns, self.e.const(-n * s.lanes, int64)) for n in (1, s.vectors))
            rest = self.e.splat(self.e.sub(columns, whole), s.lanes)
            mask = self.e.cmp("lt", self.e.iota(s.lanes, int64), rest)
            some = self.e.cmp("gt", columns, whole).text
            together = self.e.target.registers // (2 * _COLUMN_REGISTERS)
            deep = self.w.raw(f"and i64 %depth, {-together}")
            for first, last, count in (("0", deep, together), (deep, "%depth", 1)):
                with self.w.loop(first, last, str(count)) as k:
                    starts = self.b_rows(s, k, count)
                    with self.w.loop("0", pairs.text, str(s.vectors * s.lanes)) as j:
                        if s.rows > 1 and count > 1:
                            self.prefetch_rows(s, starts, j)
                        at = [self.e.add(j, self.e.const(v * s.lanes, int64)) for v in range(s.vectors)]
                        self.add_columns(s, k, starts, at, None)
                    with self.w.loop(pairs.text, whole.text, str(s.lanes)) as j:
                        self.add_columns(s, k, starts, [j], None)
                    end = functools.partial(self.add_columns, s, k, starts, [whole], mask)
                    self.w.branch(some, [end, list])

    def prefetch_rows(self, s: SkinnyGemm, starts: list[str], j: VectorValue) -> None:
        """Have the same columns fetched of the rows that come after these."""
        after = self.e.add(j, self.e.mul(VectorValue("%pitch", int64, 1, 0), self.e.const(len(starts), int64)))
        kind, near = llvm_type(s.dtype, 1), L1 if s.rows <= _MAX_L1_ROWS else L2
        for start in starts:
            for v in range(s.vectors):
                place = self.w.raw(f"getelementptr {kind}, ptr {start}, i64 {after.text}")
                prefetch_line(self.w, self.w.raw(f"getelementptr {kind}, ptr {place}, i64 {v * s.lanes}"), near)

    def clear(self, s: SkinnyGemm) -> None:
        stop = self.w.raw(f"select i1 %fresh, i64 {s.columns}, i64 0")
        with self.w.loop("0", stop, str(s.lanes)) as j:
            for r in range(s.rows):
                self.w.line(f"store {llvm_type(s.dtype, s.lanes)} zeroinitializer, ptr {self.c_address(s, r, j)}")

    def b_rows(self, s: SkinnyGemm, k: VectorValue, count: int) -> list[str]:
        """Rows of B."""
        pitch = VectorValue("%pitch", int64, 1, 0)
        downs = [self.e.mul(self.e.add(k, self.e.const(u, int64)), pitch) for u in range(count)]
        return [self.w.raw(f"getelementptr {llvm_type(s.dtype, 1)}, ptr %b, i64 {down.text}") for down in downs]

    def add_columns(
        self, s: SkinnyGemm, k: VectorValue, starts: list[str], at: list[VectorValue], mask: VectorValue | None
    ) -> list[VectorValue]:
        """Some registers of columns, of all rows of C; `mask` tells those that exist."""
        b = [[self.load(s, start, j, mask) for j in at] for start in starts]
        for first, count, size in row_ranges(s.rows, self.e.target.registers // _REGISTERS_PER_SUM):
            with self.w.loop(str(first), str(first + count * size), str(size)) as i:
                self.rows(s, [self.e.add(i, self.e.const(r, int64)) for r in range(size)], k, b, at)
        return []

    def rows(
        self, s: SkinnyGemm, rows: list[VectorValue], k: VectorValue, b: list[list[VectorValue]], at: list[VectorValue]
    ) -> None:
        """Some rows of C, whose sums do not wait for one another."""
        kind, wide, depth = llvm_type(s.dtype, 1), b[0][0].type, self.w.depth
        downs = [self.e.mul(r, self.e.const(s.pitch_c, int64)) for r in rows]
        places = [[self.w.raw(f"getelementptr {kind}, ptr %c, i64 {self.e.add(j, d).text}") for j in at] for d in downs]
        totals = [[self.w.instr(f"load {wide}, ptr {p}", s.dtype, s.lanes, depth) for p in row] for row in places]
        starts = [self.e.add(k, self.e.mul(r, self.e.const(s.pitch_a, int64))) for r in rows]
        left = [self.w.raw(f"getelementptr {kind}, ptr %a, i64 {first.text}") for first in starts]
        product = self.e.multiply_add if s.dtype.is_float else self.integer_multiply_add
        for u, row in enumerate(b):
            for r, a in enumerate(left):
                place = self.w.raw(f"getelementptr {kind}, ptr {a}, i64 {u}")
                factor = self.e.splat(self.w.instr(f"load {kind}, ptr {place}", s.dtype, 1, depth), s.lanes)
                totals[r] = [product(factor, x, total) for x, total in zip(row, totals[r], strict=True)]
        for total, place in zip(chain(*totals), chain(*places), strict=True):
            self.w.line(f"store {total.typed}, ptr {place}")

    def integer_multiply_add(self, a: VectorValue, b: VectorValue, c: VectorValue) -> VectorValue:
        return self.e.add(self.e.mul(a, b), c)

    def load(self, s: SkinnyGemm, start: str, j: VectorValue, mask: VectorValue | None) -> VectorValue:
        kind, size = llvm_type(s.dtype, s.lanes), s.dtype.itemsize
        place = self.w.raw(f"getelementptr {llvm_type(s.dtype, 1)}, ptr {start}, i64 {j.text}")
        if mask is None:
            return self.w.instr(f"load {kind}, ptr {place}, align {size}", s.dtype, s.lanes, self.w.depth)
        args = ("ptr", place), ("i32", str(size)), (mask.type, mask.text), (kind, "zeroinitializer")
        name = f"llvm.masked.load.{intrinsic_suffix(s.dtype, s.lanes)}.p0"
        return self.e.call(name, s.dtype, s.lanes, self.w.depth, *args)

    def c_address(self, s: SkinnyGemm, r: int, j: VectorValue) -> str:
        along = self.e.add(j, self.e.const(r * s.pitch_c, int64))
        return self.w.raw(f"getelementptr {llvm_type(s.dtype, 1)}, ptr %c, i64 {along.text}")


def row_ranges(rows: int, most: int) -> list[tuple[int, int, int]]:
    """Rows of C: the first, how many times so many follow."""
    found, first = [], 0
    for size, count in row_tiles(rows, most):
        found.append((first, count, size))
        first += size * count
    return found
