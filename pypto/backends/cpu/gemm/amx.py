"""AMX micro-kernels: one instruction multiplies a tile of 16 rows of A by one of 16 columns of B, 64 bytes along K.

A and B hold bfloat16 or bytes, packed into 32-bit words of neighbours along K (see `packing`). The register tile is two
by two tiles: four accumulators, two tiles of A and two of B fill the eight tile registers. It pays wherever a core has
the instruction: one replaces 16 dot-product instructions and their loads.

Edge tiles have fewer rows. Along K all tiles have the same number of words, a divisor of the depth, so that the loop
over K has no remainder.
"""

from __future__ import annotations

import itertools
from functools import partial

from pypto.backends.cpu.codegen.prefetch import L1, L2, prefetch_line
from pypto.backends.cpu.gemm.bf16_split import term_products
from pypto.backends.cpu.gemm.blocking import FACTS
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.gemm.micro_kernel import MicroKernelEmitter, MicroTile, claim_name, side_function
from pypto.backends.cpu.peepholes.dot_products import TILE_INTRINSICS
from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.llvm.value import VectorValue
from pypto.backends.llvm.writer import Writer
from pypto.ir.types import int1, int64
from pypto.passes.target_facts import AMX_TILE, CACHE

# The eight tile registers: 0 to 3 accumulate, 4 and 5 hold A, 6 and 7 hold B.
_FIRST_A, _FIRST_B, _REGISTERS = 4, 6, 8


def tile_heights(rows: int) -> list[int]:
    """Rows of each tile in a column of the register tile."""
    return [rows] if rows <= AMX_TILE.rows else [-(-rows // 2), rows // 2]


def can_read_left_in_place(e: CpuLaneEmitter, pitch: VectorValue, row_bytes: int, columns: int) -> VectorValue:
    """Whether rows of A are read where they lie, `pitch` bytes apart, in place of a packed copy.

    Long rows that share few sets of the first-level cache evict each other: they are copied.
    """
    is_short = row_bytes <= FACTS.amx_short_row_bytes
    if is_short or columns >= FACTS.amx_copied_columns:
        return e.const(is_short, int1)
    return e.cmp("ne", e.and_(pitch, e.const(CACHE.alias - 1, int64)), e.const(0, int64))


def split_layout(gemm: Gemm) -> tuple[int, int, int]:
    """Terms that stand for one number, and bytes from term to term in packed A and in the panels of B."""
    block, b, terms = gemm.left_block, gemm.b, gemm.split_terms
    return (terms, 4 * block.pitch // terms, 4 * b.panel * b.rows // terms) if block is not None else (terms, 0, 0)


def configure(w: Writer, rows: int, words: int) -> None:
    """Load the tile configuration: rows and bytes per row of all eight registers.

    The table has the palette in byte 0, 16-bit row widths from byte 16 on, and heights from byte 48 on. A tile of B has
    a row for each word along K.
    """
    heights = tile_heights(rows)
    height = {r: heights[min(r // 2, len(heights) - 1)] for r in range(_FIRST_A)}
    height |= {_FIRST_A + r: height[2 * r] for r in range(2)} | dict.fromkeys(range(_FIRST_B, _REGISTERS), words)
    width = {r: 4 * words if _FIRST_A <= r < _FIRST_B else 4 * AMX_TILE.row_words for r in range(_REGISTERS)}
    table = [1, *[0] * 63]
    for r in range(_REGISTERS):
        table[16 + 2 * r] = width[r]
        table[48 + r] = height[r]
    slot = w.slot("<64 x i8>")
    w.line(f"store <64 x i8> <{', '.join(f'i8 {n}' for n in table)}>, ptr {slot}")
    w.call("void", "llvm.x86.ldtilecfg", (("ptr", slot),))


def release(w: Writer) -> None:
    """Release the tile registers, so that a context switch does not save them."""
    w.call("void", "llvm.x86.tilerelease", ())


class TileEmitter(MicroKernelEmitter):
    """Emits AMX micro-kernels as functions, one for each shape; an accumulator's number is that of its register."""

    def kernel(self, tile: MicroTile) -> None:
        if not claim_name(self.w, tile.name):
            return
        with side_function(self.w, self.header(tile)):
            start = "%c"
            pitch = str(tile.ldc or "%ldc")
            self.w.branch(
                "%beta_zero",
                [partial(self.zero_tiles, tile), partial(self.access_results, "loadd", tile, start, pitch)],
            )
            self.k_loop_tiles(tile)
            if tile.has_destination:
                is_direct = self.w.raw("icmp ne ptr %dest, null")
                start = self.w.raw(f"select i1 {is_direct}, ptr %dest, ptr %c")
                pitch = self.w.raw(f"select i1 {is_direct}, i64 %ldd, i64 {pitch}")
            self.access_results("stored", tile, start, pitch)

    def zero_tiles(self, tile: MicroTile) -> list[VectorValue]:
        for register, _, _ in result_tiles(tile):
            self.w.call("void", "llvm.x86.tilezero", (("i8", str(register)),))
        return []

    def access_results(self, access: str, tile: MicroTile, start: str, pitch: str) -> list[VectorValue]:
        """Load (`loadd`) or store (`stored`) the accumulators."""
        for register, row, column in result_tiles(tile):
            place = self.element_pointer(self.row_pointer(start, pitch, row), column, tile)
            self.tile_access(access, register, place, pitch)
        return []

    def k_loop_tiles(self, tile: MicroTile) -> None:
        """The loop over K; each step also prefetches the rows of A that a later register tile will pack."""
        prefetched = [self.row_pointer("%later", "%pitch", r) for r in range(tile.prefetch_rows)]
        lda = str(tile.lda or "%lda1")
        with self.w.loop("0", "%depth", str(tile.amx_k)) as k:
            a = self.w.raw(f"getelementptr i32, ptr %a, i64 {k.text}")
            down = self.w.raw(f"mul i64 {k.text}, {tile.panel}")
            b = self.w.raw(f"getelementptr i32, ptr %b, i64 {down}")
            terms, a_term_bytes, b_term_bytes = tile.split
            word_bytes = 4 if terms == 1 else 8  # of a word before it is packed
            for row, line in itertools.product(prefetched, range(0, word_bytes * AMX_TILE.row_words, CACHE.line)):
                start = self.row_pointer(row, k.text, word_bytes)
                prefetch_line(self.w, self.w.raw(f"getelementptr i8, ptr {start}, i64 {line}"), L2)
            if not tile.has_destination:
                self.prefetch_result(tile, k.text)
            for b_term, a_terms in term_products(terms):
                a_pointers = [self.row_pointer(a, str(a_term_bytes), n) for n in a_terms]
                self.k_step_tiles(tile, a_pointers, self.row_pointer(b, str(b_term_bytes), b_term), lda)

    def k_step_tiles(self, tile: MicroTile, a_terms: list[str], b: str, lda: str) -> None:
        """Multiply a term's tiles of B by those of A, for each term of A whose product with it matters."""
        for v in range(tile.vectors):
            place = self.element_pointer(b, v * AMX_TILE.row_words, tile)
            self.tile_access("loaddt1", _FIRST_B + v, place, str(4 * tile.panel))
        for a, (register, row, column) in itertools.product(a_terms, result_tiles(tile)):
            if not column:
                self.tile_access("loadd", _FIRST_A + register // 2, self.row_pointer(a, lda, row), lda)
            operands = register, _FIRST_A + register // 2, _FIRST_B + register % 2
            self.w.call("void", TILE_INTRINSICS[tile.packing_factor], tuple(("i8", str(n)) for n in operands))

    def prefetch_result(self, tile: MicroTile, k: str) -> None:
        """Prefetch the result of the next panel, some rows in each step: all of them in one row of tiles of A."""
        row = self.w.raw(f"udiv i64 {k}, {tile.amx_k // AMX_TILE.per_side}")
        pitch = str(tile.ldc or "%ldc")
        start = self.w.raw(f"getelementptr i8, ptr %c, i64 {self.w.raw(f'mul i64 {pitch}, {row}')}")
        for r, v in itertools.product(range(AMX_TILE.per_side), range(tile.vectors)):
            place = self.row_pointer(start, pitch, r)
            prefetch_line(self.w, self.element_pointer(place, (tile.vectors + v) * AMX_TILE.row_words, tile), L1)

    def row_pointer(self, start: str, pitch: str, rows: int) -> str:
        down = self.w.raw(f"mul i64 {pitch}, {rows}")
        return self.w.raw(f"getelementptr i8, ptr {start}, i64 {down}")

    def tile_access(self, access: str, register: int, start: str, pitch: str) -> None:
        self.w.call("void", f"llvm.x86.tile{access}64", (("i8", str(register)), ("ptr", start), ("i64", pitch)))


def result_tiles(tile: MicroTile) -> list[tuple[int, int, int]]:
    """Register, first row and first column of each accumulator."""
    heights = tile_heights(tile.rows)
    first_rows = [0, *heights][: len(heights)]
    return [
        (2 * r + v, first_row, v * AMX_TILE.row_words)
        for r, first_row in enumerate(first_rows)
        for v in range(tile.vectors)
    ]
