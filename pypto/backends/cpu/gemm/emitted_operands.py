"""Operands of a product as LLVM values: where A, the panels of B and C lie, how deep K goes, and where C is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pypto.backends.cpu.codegen.memory import scratch_dtype
from pypto.backends.cpu.codegen.nest import NestEmitter
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.gemm.operands import Destination, Matrix, ValidRange
from pypto.backends.cpu.gemm.packing import PackEmitter, matrix_of
from pypto.backends.cpu.gemm.skinny import skinny_blocking
from pypto.backends.cpu.loopir.ir import Buffer, LibraryOp
from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.llvm.value import VectorValue
from pypto.ir.types import int1, int64
from pypto.ops.memory import Access
from pypto.passes.analysis.dot_facts import InPlaceOperand

Bases = Mapping[int, VectorValue]  # addresses of buffers, by their number


@dataclass(frozen=True, slots=True)
class GemmOperands:
    """A product as it is emitted. Addresses and pitches are in bytes."""

    item: Gemm
    left: Matrix  # A
    panels: VectorValue  # address of the packed panels of B
    result: VectorValue  # address of C in scratch
    k_words: VectorValue  # depth in what is packed: words, or numbers that are multiplied alone
    k: VectorValue  # depth in numbers
    buffer_bases: Bases
    ldc: VectorValue  # bytes from row to row of C in scratch
    lda: VectorValue  # bytes from row to row of A, or of its packed copy
    destination: Destination | None = None  # where C is stored in place of scratch
    bias_row_sums: str = ""  # stack slot of what the flipped signs of B add to each row
    valid_columns: VectorValue | None = None  # end of the columns of B that exist, where others may be left out

    @property
    def stores_directly(self) -> bool:
        """Whether micro-kernels store C to its destination."""
        return self.destination is not None and not self.destination.is_epilogue


class OperandEmitter:
    """Emits the addresses and valid ranges of a product's operands.

    `epilogue_done` says of products whether what follows them, the store or the epilogue, has run with them.
    """

    def __init__(self, e: CpuLaneEmitter, target: CpuTarget, nests: NestEmitter, packing: PackEmitter) -> None:
        self.e = e
        self.target = target
        self.packing = packing
        self.function = nests.function
        self.matrix = partial(matrix_of, nests.memory)
        self.scalar = nests.memory.scalar
        self.all_in_bounds = nests.memory.all_in_bounds
        self.epilogue_done: dict[LibraryOp, VectorValue] = {}

    def index(self, n: int) -> VectorValue:
        return self.e.const(n, int64)

    def emit(self, gemm: Gemm, base_of: Bases, i: VectorValue, may_store: bool) -> tuple[GemmOperands, Matrix | None]:
        """Operands of matrix `i` of a stack, and B where it is still to be packed."""
        left = self.operand(gemm.a, base_of, i)
        right = self.operand(gemm.b_source, base_of, i) if gemm.b_source is not None else None
        depth = self.packing.round_up(self.k_extent(gemm, left, right), gemm.amx_k * gemm.packing_factor)
        panels, result = (self.stacked_matrix(x, base_of, i, gemm.word_bytes) for x in (gemm.b, gemm.c))
        ldc = self.index(gemm.c.pitch * gemm.word_bytes)
        words = self.packing.word_count(depth, max(1, gemm.packing_factor))
        destination = None
        if gemm.direct_store is not None:
            destination = self.destination(gemm, gemm.direct_store, may_store)
        valid_columns = None
        if right is not None and gemm.amx_k and (not gemm.beta_zero or self.function.programs.is_coarsened):
            valid_columns = (right.rows if gemm.b_transposed else right.columns).stop
        operands = GemmOperands(
            gemm, left, panels, result, words, depth, base_of, ldc, left.pitch, destination, valid_columns=valid_columns
        )
        return operands, right

    def operand(self, source: Buffer | InPlaceOperand, base_of: Bases, i: VectorValue) -> Matrix:
        """An operand in memory, or matrix `i` of a stack in scratch."""
        if isinstance(source, InPlaceOperand):
            return self.matrix(source)
        dtype = scratch_dtype(source)
        rows, columns = (ValidRange(self.index(0), self.index(n)) for n in source.shape[-2:])
        address = self.stacked_matrix(source, base_of, i, dtype.itemsize)
        return Matrix(address, self.index(source.pitch * dtype.itemsize), rows, columns, dtype)

    def stacked_matrix(self, buffer: Buffer, base_of: Bases, i: VectorValue, size: int) -> VectorValue:
        """Address of matrix `i` of a stack of numbers of `size` bytes."""
        return self.e.add(base_of[buffer.id], self.e.mul(i, self.index(buffer.rows * buffer.pitch * size)))

    def k_extent(self, gemm: Gemm, left: Matrix, right: Matrix | None) -> VectorValue:
        """How far along K an operand exists, if both are read in place: beyond that, both are zero."""
        if not isinstance(gemm.a, InPlaceOperand) or not isinstance(gemm.b_source, InPlaceOperand) or right is None:
            return self.index(gemm.op.operands[0].shape[-1])
        of_a = left.rows if gemm.a.transposed else left.columns
        of_b = right.columns if gemm.b_transposed else right.rows
        return self.e.maximum(of_a.stop, of_b.stop)

    def destination(self, gemm: Gemm, store: InPlaceOperand, may_store: bool) -> Destination | None:
        """Where C is stored, in the last step of its loop, if all of the tile exists there.

        A transposed C needs its columns only: the micro-kernel stores as many rows as there are.
        """
        e = self.e
        matrix = self.matrix(store)
        zero = self.index(0)
        is_last = self.e.const(True, int1)
        if not may_store or skinny_blocking(gemm) is not None:
            self.epilogue_done[gemm] = e.const(False, int1)
            return None
        if gemm.a_column_major:
            in_bounds = self.packing.is_within(matrix.rows, zero, self.index(gemm.c.shape[-1] - 1))
            in_bounds = e.and_(in_bounds, e.cmp("eq", matrix.columns.start, zero))
        else:
            in_bounds = self.all_in_bounds(Access.of(store.load)) or is_last
        loop = gemm.accumulating_loop
        if loop is not None:
            index, start, stop, step = map(self.scalar, (loop.regions[0].args[0], *loop.operands[:3]))
            in_bounds = e.and_(in_bounds, e.cmp("lt", start, stop))
            is_last = e.cmp("le", e.sub(stop, index), step)
        has_epilogue = gemm.epilogue is not None
        self.epilogue_done[gemm] = e.const(True, int1) if has_epilogue else in_bounds
        return Destination(matrix, is_last if has_epilogue else e.and_(in_bounds, is_last), has_epilogue)

    def destination_address(self, destination: Destination, row: VectorValue, column: VectorValue) -> VectorValue:
        """Address of an element of C where it is stored; 0 where it goes to scratch."""
        along = self.e.mul(column, self.index(destination.matrix.dtype.itemsize))
        down = self.e.mul(row, destination.matrix.pitch)
        place = self.e.add(self.e.add(destination.matrix.address, down), along)
        return self.e.select(destination.in_bounds, place, self.index(0))

    def has_all_rows(self, right: Matrix, operands: GemmOperands) -> VectorValue:
        """Whether B has all rows that are multiplied, from its first column on."""
        zero = self.index(0)
        rows = self.packing.is_within(right.rows, zero, self.e.sub(operands.k, self.index(1)))
        return self.e.and_(rows, self.e.cmp("eq", right.columns.start, zero))
