"""Skinny products (GEMV and few rows of A): B is read where it lies, row by row, and added to the rows of C.

With few rows of A, each number of B is used a few times only: packing it would cost as much as the product. Memory
bandwidth for B is the limit, so some rows of B are read at once, each as one long stream. C stays in the first-level
cache. Where there are several rows of A, the core has arithmetic to do meanwhile, and the next rows are prefetched.

    for k in range(0, depth, unroll):              # rows of B
        for j in range(0, columns, vectors * lanes):
            c[:, j] += a[:, k : k + unroll] @ b[k : k + unroll, j]

It is legal where B is a plain load, row-major, whose rows all exist along K; the macro-kernel tests that at run time.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import chain

from pypto.backends.cpu.codegen.prefetch import L1, L2, prefetch_line
from pypto.backends.cpu.gemm.blocking import SkinnyBlocking
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.gemm.micro_kernel import claim_name, row_tiles, side_function
from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.llvm.value import VectorValue, intrinsic_suffix, llvm_type
from pypto.ir.types import DType, int64
from pypto.passes.analysis.dot_facts import InPlaceOperand


@dataclass(frozen=True, slots=True)
class SkinnyGemm:
    """Shape of one skinny kernel."""

    rows: int  # of A and C
    lanes: int  # numbers in a register
    lda: int  # numbers from row to row of A
    ldc: int  # numbers from row to row of C
    columns: int  # of C, with those that do not exist
    dtype: DType
    blocking: SkinnyBlocking

    @property
    def vectors(self) -> int:
        """Registers of columns per inner step."""
        return self.blocking.vectors

    @property
    def name(self) -> str:
        sizes = self.rows, self.lanes, self.lda, self.ldc, self.columns
        return f"stream_{self.dtype}_" + "_".join(map(str, sizes))


def skinny_blocking(gemm: Gemm) -> SkinnyBlocking | None:
    """The blocking of a product of few rows whose right operand lies in memory row by row; None for others."""
    b = gemm.b_source
    is_plain = isinstance(b, InPlaceOperand) and not gemm.b_transposed and b.rows is not None
    return gemm.skinny if is_plain and not gemm.has_separate_version else None


class SkinnyGemmEmitter:
    """Emits skinny kernels as functions, one for each shape."""

    def __init__(self, e: CpuLaneEmitter) -> None:
        self.e = e
        self.w = e.w

    def kernel(self, s: SkinnyGemm) -> None:
        """Emit ``(a, b, c, pitch of b, depth, columns that exist, whether c starts from zero)``, unless it is there."""
        if not claim_name(self.w, s.name):
            return
        args = "ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %pitch, i64 %depth, i64 %columns, i1 %beta_zero"
        with side_function(self.w, f"internal void @{s.name}({args}) noinline nounwind"):
            self.clear(s)
            columns = VectorValue("%columns", int64, 1, 0)
            vectorized, unrolled = (self.e.and_(columns, self.e.const(-n * s.lanes, int64)) for n in (1, s.vectors))
            remainder = self.e.splat(self.e.sub(columns, vectorized), s.lanes)
            mask = self.e.cmp("lt", self.e.iota(s.lanes, int64), remainder)
            has_remainder = self.e.cmp("gt", columns, vectorized).text
            k_unroll = s.blocking.k_unroll
            unrolled_depth = self.w.raw(f"and i64 %depth, {-k_unroll}")
            for first, last, step in (("0", unrolled_depth, k_unroll), (unrolled_depth, "%depth", 1)):
                with self.w.loop(first, last, str(step)) as k:
                    b_rows = self.b_rows(s, k, step)
                    with self.w.loop("0", unrolled.text, str(s.vectors * s.lanes)) as j:
                        if s.rows > 1 and step > 1:
                            self.prefetch_rows(s, b_rows, j)
                        at = [self.e.add(j, self.e.const(v * s.lanes, int64)) for v in range(s.vectors)]
                        self.add_columns(s, k, b_rows, at, None)
                    with self.w.loop(unrolled.text, vectorized.text, str(s.lanes)) as j:
                        self.add_columns(s, k, b_rows, [j], None)
                    masked = functools.partial(self.add_columns, s, k, b_rows, [vectorized], mask)
                    self.w.branch(has_remainder, [masked, list])

    def prefetch_rows(self, s: SkinnyGemm, b_rows: list[str], j: VectorValue) -> None:
        """Prefetch the same columns of the next rows of B."""
        after = self.e.add(j, self.e.mul(VectorValue("%pitch", int64, 1, 0), self.e.const(len(b_rows), int64)))
        kind = llvm_type(s.dtype, 1)
        level = L1 if s.blocking.prefetches_to_l1 else L2
        for start in b_rows:
            for v in range(s.vectors):
                place = self.w.raw(f"getelementptr {kind}, ptr {start}, i64 {after.text}")
                prefetch_line(self.w, self.w.raw(f"getelementptr {kind}, ptr {place}, i64 {v * s.lanes}"), level)

    def clear(self, s: SkinnyGemm) -> None:
        """Zero C where it starts from zero."""
        stop = self.w.raw(f"select i1 %beta_zero, i64 {s.columns}, i64 0")
        with self.w.loop("0", stop, str(s.lanes)) as j:
            for r in range(s.rows):
                self.w.line(f"store {llvm_type(s.dtype, s.lanes)} zeroinitializer, ptr {self.c_address(s, r, j)}")

    def b_rows(self, s: SkinnyGemm, k: VectorValue, count: int) -> list[str]:
        """Pointers to `count` rows of B from `k` on."""
        pitch = VectorValue("%pitch", int64, 1, 0)
        downs = [self.e.mul(self.e.add(k, self.e.const(u, int64)), pitch) for u in range(count)]
        return [self.w.raw(f"getelementptr {llvm_type(s.dtype, 1)}, ptr %b, i64 {down.text}") for down in downs]

    def add_columns(
        self, s: SkinnyGemm, k: VectorValue, b_rows: list[str], at: list[VectorValue], mask: VectorValue | None
    ) -> list[VectorValue]:
        """Add the products of some rows of B to all rows of C, in the columns of the registers `at`."""
        b = [[self.load(s, start, j, mask) for j in at] for start in b_rows]
        for first, count, size in row_ranges(s.rows, s.blocking.mr):
            with self.w.loop(str(first), str(first + count * size), str(size)) as i:
                self.add_to_rows(s, [self.e.add(i, self.e.const(r, int64)) for r in range(size)], k, b, at)
        return []

    def add_to_rows(
        self, s: SkinnyGemm, rows: list[VectorValue], k: VectorValue, b: list[list[VectorValue]], at: list[VectorValue]
    ) -> None:
        """Add to some rows of C, whose sums are independent of each other."""
        element = llvm_type(s.dtype, 1)
        vector = b[0][0].type
        depth = self.w.depth
        c_rows = [self.e.mul(r, self.e.const(s.ldc, int64)) for r in rows]
        places = [
            [self.w.raw(f"getelementptr {element}, ptr %c, i64 {self.e.add(j, row).text}") for j in at]
            for row in c_rows
        ]
        sums = [[self.w.instr(f"load {vector}, ptr {p}", s.dtype, s.lanes, depth) for p in row] for row in places]
        starts = [self.e.add(k, self.e.mul(r, self.e.const(s.lda, int64))) for r in rows]
        a_rows = [self.w.raw(f"getelementptr {element}, ptr %a, i64 {start.text}") for start in starts]
        multiply_add = self.e.multiply_add if s.dtype.is_float else self.integer_multiply_add
        for u, b_row in enumerate(b):
            for r, a in enumerate(a_rows):
                place = self.w.raw(f"getelementptr {element}, ptr {a}, i64 {u}")
                factor = self.e.splat(self.w.instr(f"load {element}, ptr {place}", s.dtype, 1, depth), s.lanes)
                sums[r] = [multiply_add(factor, x, total) for x, total in zip(b_row, sums[r], strict=True)]
        for total, place in zip(chain(*sums), chain(*places), strict=True):
            self.w.line(f"store {total.typed}, ptr {place}")

    def integer_multiply_add(self, a: VectorValue, b: VectorValue, c: VectorValue) -> VectorValue:
        return self.e.add(self.e.mul(a, b), c)

    def load(self, s: SkinnyGemm, start: str, j: VectorValue, mask: VectorValue | None) -> VectorValue:
        """Load a register of a row of B; lanes that the mask leaves out are zero."""
        kind = llvm_type(s.dtype, s.lanes)
        size = s.dtype.itemsize
        place = self.w.raw(f"getelementptr {llvm_type(s.dtype, 1)}, ptr {start}, i64 {j.text}")
        if mask is None:
            return self.w.instr(f"load {kind}, ptr {place}, align {size}", s.dtype, s.lanes, self.w.depth)
        args = ("ptr", place), ("i32", str(size)), (mask.type, mask.text), (kind, "zeroinitializer")
        name = f"llvm.masked.load.{intrinsic_suffix(s.dtype, s.lanes)}.p0"
        return self.e.call(name, s.dtype, s.lanes, self.w.depth, *args)

    def c_address(self, s: SkinnyGemm, r: int, j: VectorValue) -> str:
        along = self.e.add(j, self.e.const(r * s.ldc, int64))
        return self.w.raw(f"getelementptr {llvm_type(s.dtype, 1)}, ptr %c, i64 {along.text}")


def row_ranges(rows: int, most: int) -> list[tuple[int, int, int]]:
    """(first row, number of blocks, rows of a block) of the even blocks of C's rows."""
    ranges = []
    first = 0
    for size, count in row_tiles(rows, most):
        ranges.append((first, count, size))
        first += size * count
    return ranges
