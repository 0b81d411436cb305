"""Products of tiles by one instruction (AMX): 16 rows of a left side by 16 columns of a right one, 64 bytes along K.

Both are of bfloat16 or of bytes, in words of neighbours along K, as `packing` makes them; two tiles of either side give
four of the result, for which a core's eight tile registers are enough. Rows of tiles are as many as there are; along K
all tiles are alike, so that nothing is left over.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from pypto.backends.cpu.codegen.prefetch import CACHE_LINE, L1, L2, prefetch_line
from pypto.backends.cpu.gemm.bf16_split import term_products
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.gemm.micro_kernel import MicroKernelEmitter, MicroTile, claim_name, side_function
from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.llvm.writer import Writer
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import FLOAT8, bfloat16, int1, int64
from pypto.ops.build import OpBuilder

MR: Final = 32  # of a block: two tiles
_TILE_ROWS: Final = 16  # rows and words of a tile, at most
_LEFT, _RIGHT, _ALL = 4, 6, 8  # registers: those before are for the result
_MAX_SHORT_ROW_BYTES: Final = (
    256  # bytes of a row that is read where it is: longer ones may push one another out of the cache,
)
_CACHE_ALIAS_BYTES: Final = 2048  # where they lie a multiple of so many bytes apart,
_MIN_COPY_COLUMNS: Final = 512  # and are worth a copy for so many columns
_TILE_DOTS: Final = MappingProxyType({2: "llvm.x86.tdpbf16ps", 4: "llvm.x86.tdpbssd"})


def tile_heights(rows: int) -> list[int]:
    """Rows of the tiles of a block."""
    return [rows] if rows <= _TILE_ROWS else [-(-rows // 2), rows // 2]


def float8_as_bfloat16(function: Function, target: CpuTarget) -> Function:
    """Sides of products of float8 as bfloat16, which has a number for each of theirs, where tiles are multiplied."""

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        if op.name != "dot" or not all(v.dtype in FLOAT8 for v in op.operands[:2]):
            return None
        a, b, *acc = rewriter.operands(op)
        return (rewriter.builder.emit("dot", *(rewriter.builder.cast(v, bfloat16) for v in (a, b)), *acc),)

    return rewrite(function, rule, OpBuilder) if target.has_amx else function


def can_read_left_in_place(e: LaneEmitter, pitch: VectorValue, row: int, columns: int) -> VectorValue:
    """Whether rows of the left side, of so many bytes, are read where they are."""
    if row <= _MAX_SHORT_ROW_BYTES or columns >= _MIN_COPY_COLUMNS:
        return e.const(row <= _MAX_SHORT_ROW_BYTES, int1)
    return e.cmp("ne", e.and_(pitch, e.const(_CACHE_ALIAS_BYTES - 1, int64)), e.const(0, int64))


def split_layout(item: Gemm) -> tuple[int, int, int]:
    """Parts of a number, and bytes from one to the next on the left and right side of a product."""
    block, b, n = item.left_block, item.b, item.split_terms
    return (n, 4 * block.pitch // n, 4 * b.panel * b.rows // n) if block is not None else (n, 0, 0)


def configure(w: Writer, rows: int, words: int) -> None:
    """Give tile registers their shapes; tiles of the right side have a row for each word."""
    height = {r: tile_heights(rows)[min(r // 2, len(tile_heights(rows)) - 1)] for r in range(_LEFT)}
    height |= {_LEFT + r: height[2 * r] for r in range(2)} | dict.fromkeys(range(_RIGHT, _ALL), words)
    width = {r: 4 * words if _LEFT <= r < _RIGHT else 4 * _TILE_ROWS for r in range(_ALL)}
    table = [1, *[0] * 63]
    for r in range(_ALL):
        table[16 + 2 * r], table[48 + r] = width[r], height[r]
    slot = w.slot("<64 x i8>")
    w.line(f"store <64 x i8> <{', '.join(f'i8 {n}' for n in table)}>, ptr {slot}")
    w.call("void", "llvm.x86.ldtilecfg", (("ptr", slot),))


def release(w: Writer) -> None:
    """Forget the tiles, so that nothing of them is kept when the thread is interrupted."""
    w.call("void", "llvm.x86.tilerelease", ())


class TileEmitter(MicroKernelEmitter):
    """Emits kernels of tiles as functions, once for each shape; a tile's number in a block is that of its register."""

    def kernel(self, block: MicroTile) -> None:
        if not claim_name(self.w, block.name):
            return
        with side_function(self.w, self.header(block)):
            start, pitch = "%c", str(block.ldc or "%down")
            self.w.branch(
                "%fresh", [partial(self.zero_tiles, block), partial(self.access_results, "loadd", block, start, pitch)]
            )
            self.k_loop_tiles(block)
            if block.has_destination:
                lands = self.w.raw("icmp ne ptr %into, null")
                start = self.w.raw(f"select i1 {lands}, ptr %into, ptr %c")
                pitch = self.w.raw(f"select i1 {lands}, i64 %apart, i64 {pitch}")
            self.access_results("stored", block, start, pitch)

    def zero_tiles(self, block: MicroTile) -> list[VectorValue]:
        for tile, _, _ in result_tiles(block):
            self.w.call("void", "llvm.x86.tilezero", (("i8", str(tile)),))
        return []

    def access_results(self, way: str, block: MicroTile, start: str, pitch: str) -> list[VectorValue]:
        """Load or store the tiles of the result."""
        for tile, row, column in result_tiles(block):
            self.tile_access(way, tile, self.element_pointer(self.row_pointer(start, pitch, row), column, block), pitch)
        return []

    def k_loop_tiles(self, block: MicroTile) -> None:
        """Multiply along K; rows that a later block will copy are asked for."""
        later = [self.row_pointer("%later", "%pitch", r) for r in range(block.prefetch_rows)]
        pitch = str(block.lda or "%apart1")
        with self.w.loop("0", "%depth", str(block.amx_k)) as k:
            left = self.w.raw(f"getelementptr i32, ptr %a, i64 {k.text}")
            down = self.w.raw(f"mul i64 {k.text}, {block.panel}")
            right = self.w.raw(f"getelementptr i32, ptr %b, i64 {down}")
            count, first, second = block.split
            size = 4 if count == 1 else 8  # bytes of a word where it comes from
            for start, line in itertools.product(later, range(0, size * _TILE_ROWS, CACHE_LINE)):
                prefetch_line(
                    self.w, self.w.raw(f"getelementptr i8, ptr {self.row_pointer(start, k.text, size)}, i64 {line}"), L2
                )
            if not block.has_destination:
                self.prefetch_result(block, k.text)
            for n, lefts in term_products(count):
                of = [self.row_pointer(left, str(first), m) for m in lefts]
                self.k_step_tiles(block, of, self.row_pointer(right, str(second), n), pitch)

    def k_step_tiles(self, block: MicroTile, lefts: list[str], right: str, pitch: str) -> None:
        """Multiply tiles of the right side by those of the left one, or of all of its parts that matter."""
        for v in range(block.vectors):
            self.tile_access(
                "loaddt1", _RIGHT + v, self.element_pointer(right, v * _TILE_ROWS, block), str(4 * block.panel)
            )
        for left, (tile, row, column) in itertools.product(lefts, result_tiles(block)):
            if not column:
                self.tile_access("loadd", _LEFT + tile // 2, self.row_pointer(left, pitch, row), pitch)
            sides = tile, _LEFT + tile // 2, _RIGHT + tile % 2
            self.w.call("void", _TILE_DOTS[block.packing_factor], tuple(("i8", str(n)) for n in sides))

    def prefetch_result(self, block: MicroTile, k: str) -> None:
        """Have rows of the next panel's result fetched, as many for each step as find all of them in a row of tiles."""
        row, pitch = self.w.raw(f"udiv i64 {k}, {block.amx_k * _TILE_ROWS // MR}"), str(block.ldc or "%down")
        start = self.w.raw(f"getelementptr i8, ptr %c, i64 {self.w.raw(f'mul i64 {pitch}, {row}')}")
        for r, v in itertools.product(range(MR // _TILE_ROWS), range(block.vectors)):
            prefetch_line(
                self.w,
                self.element_pointer(self.row_pointer(start, pitch, r), (block.vectors + v) * _TILE_ROWS, block),
                L1,
            )

    def row_pointer(self, start: str, pitch: str, rows: int) -> str:
        down = self.w.raw(f"mul i64 {pitch}, {rows}")
        return self.w.raw(f"getelementptr i8, ptr {start}, i64 {down}")

    def tile_access(self, way: str, tile: int, start: str, pitch: str) -> None:
        self.w.call("void", f"llvm.x86.tile{way}64", (("i8", str(tile)), ("ptr", start), ("i64", pitch)))


def result_tiles(block: MicroTile) -> list[tuple[int, int, int]]:
    """Register, first row and first column of the tiles of a block's result."""
    tops = [0, *tile_heights(block.rows)][: len(tile_heights(block.rows))]
    return [(2 * r + v, top, v * _TILE_ROWS) for r, top in enumerate(tops) for v in range(block.vectors)]
