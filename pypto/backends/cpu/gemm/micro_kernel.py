"""The micro-kernel: a register tile of C, MR rows by NR columns, stays in registers while the loop goes along K.

Each step broadcasts MR numbers of A and multiplies them by one row of a micro-panel of B, which is read as whole
registers. Every kernel becomes a function of its own, one for each shape of `MicroTile`, so that LLVM allocates
registers for it alone. The text is portable; dot-product instructions come from `llvm.dot_products`.

    load C[MR, NR]
    for k in range(depth):  for r in range(MR):  C[r, :] += A[r, k] * panel[k, :]
    store C
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from pypto.backends.cpu.codegen.prefetch import L1, L2, prefetch_line
from pypto.backends.cpu.codegen.split_stores import split_store
from pypto.backends.cpu.gemm.blocking import FACTS
from pypto.backends.cpu.peepholes.dot_products import word_dot_product
from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.llvm.value import VectorValue, llvm_type
from pypto.backends.llvm.writer import Writer
from pypto.ir.types import DType, int1, int32
from pypto.passes.target_facts import CACHE

Slots = dict[tuple[int, int], str]  # stack slots of the accumulators, by row and register of the row


@dataclass(frozen=True, slots=True)
class MicroTile:
    """Shape of one micro-kernel. Its fields make the function's name, but for those that a whole kernel shares."""

    rows: int  # MR: rows of A and C
    vectors: int  # registers in a row of C
    lanes: int  # numbers, or words, in a register
    panel: int  # NR of the packed panel: numbers or words in a row of it
    dtype: DType  # of the accumulators, and of A and B where they are multiplied alone
    packing_factor: int = 0  # numbers of a word that one instruction multiplies; 0 where they are multiplied alone
    prefetch_rows: int = 0  # rows of A to prefetch, which a later register tile will pack
    products: int = 0  # products of a table that are added up, with a column-major A; see `column_major_a`
    lda: int = 0  # bytes from row to row of A; 0 where the caller gives them
    ldc: int = 0  # bytes from row to row of C; 0 where the caller gives them
    has_destination: bool = False  # whether C may be stored to another place than it was loaded from
    all_valid: bool = False  # whether a column-major A has all rows of the tile
    prefetch_is_next_program: bool = False  # whether A is prefetched for the next program, in place of product
    b_exceeds_l1: bool = False  # whether panels do not stay in the first-level cache, and are prefetched
    k_divisible: bool = False  # whether K has no remainder after the unrolled loop
    cold: bool = False  # whether it runs seldom: nothing is unrolled, which compiles sooner
    amx_k: int = 0  # words along K of an AMX tile; 0 without AMX
    split: tuple[int, int, int] = (1, 0, 0)  # terms that stand for one number, bytes between them in A and in B
    max_unroll: int = FACTS.k_unroll  # steps of K in one round, at most; the same for all tiles of a kernel
    panel_prefetch: int = FACTS.panel_prefetch  # bytes of the panel from what is read to what is prefetched

    @property
    def name(self) -> str:
        sizes = self.rows, self.vectors * self.lanes, self.panel, self.packing_factor
        flags = (
            self.has_destination,
            self.all_valid,
            self.prefetch_is_next_program,
            self.b_exceeds_l1,
            self.k_divisible,
            self.cold,
        )
        more = self.prefetch_rows, self.products, self.lda, self.ldc, *map(int, flags), self.amx_k, *self.split
        return f"dot_{self.dtype}_" + "_".join(map(str, (*sizes, *more)))

    @property
    def is_biased(self) -> bool:
        """Whether B has bytes with flipped signs: what the flip adds is subtracted from C first."""
        return self.packing_factor == 4 and not self.amx_k

    @property
    def lda_multiples(self) -> list[int]:
        """Odd multiples of `lda` that the caller passes.

        With them each row of A is one pointer plus an offset, and no register is spilled.
        """
        return [] if self.products or self.lda else list(range(1, 2 if self.amx_k else self.rows, 2))

    @property
    def unroll(self) -> int:
        """Steps of K in one round of the loop."""
        if self.cold:
            return 1
        if self.products > 1:
            return self.max_unroll
        rounds = -(-FACTS.min_unrolled_fmas // (self.rows * self.vectors))
        return min(self.max_unroll, 1 << (rounds - 1).bit_length())

    def with_depths(self, *depths: VectorValue) -> MicroTile:
        """Return this tile shape for products of these depths."""
        constants = [constant_or_zero(depth) for depth in depths]
        divisible = all(depth and not depth % self.max_unroll for depth in constants)
        return replace(self, k_divisible=self.cold or divisible)


@dataclass(frozen=True, slots=True)
class ProductOperands:
    """One product of a micro-kernel, as LLVM names: pointers to A and the panel, the pitch of A, the depth.

    `next_left` are the address and pitch of the A to prefetch, if any.
    """

    a: str
    b: str
    pitch: str
    depth: str
    next_left: tuple[str, ...] = ()


def constant_or_zero(n: VectorValue) -> int:
    """A compile-time constant; 0 for a number that is known at run time only."""
    return 0 if "%" in n.text else int(n.text)


def row_tiles(rows: int, mr: int) -> list[tuple[int, int]]:
    """(rows, number) of the register tiles: as few as possible, and as even as possible, so that none is thin."""
    count = -(-rows // mr)
    size, larger = divmod(rows, count)
    return [(n, c) for n, c in ((size + 1, larger), (size, count - larger)) if c]


class MicroKernelEmitter:
    """Emits micro-kernels as functions, one for each shape."""

    arguments: ClassVar = "ptr noalias %a, ptr noalias %b, ptr noalias %c, ptr %later, i64 %pitch, i64 %depth"

    def __init__(self, e: CpuLaneEmitter) -> None:
        self.e = e
        self.w = e.w

    def kernel(self, tile: MicroTile) -> None:
        """Emit the function of a shape, unless it is there."""
        if not claim_name(self.w, tile.name):
            return
        with side_function(self.w, self.header(tile)):
            kind = llvm_type(tile.dtype, tile.lanes)
            slots = {(r, v): self.w.slot(kind) for r in range(tile.rows) for v in range(tile.vectors)}
            rows = self.row_pointers("%c", str(tile.ldc or "%ldc"), tile.rows)
            for (r, v), slot in slots.items():
                place = self.element_pointer(rows[r], v * tile.lanes, tile)
                old = VectorValue(self.load(kind, place), tile.dtype, tile.lanes, self.w.depth)
                self.w.line(f"store {self.initial_accumulator(tile, old, r).typed}, ptr {slot}")
            self.multiply(tile, slots)
            self.emit_stores(tile, slots, rows)

    def row_pointers(self, start: str, pitch: str, rows: int) -> list[str]:
        """Pointers to rows that lie `pitch` bytes apart."""
        downs = [self.w.raw(f"mul i64 {pitch}, {r}") for r in range(rows)]
        return [self.w.raw(f"getelementptr i8, ptr {start}, i64 {down}") for down in downs]

    def header(self, tile: MicroTile) -> str:
        args = f"{self.arguments}, i64 %ldc, i1 %beta_zero" + ", ptr %dest, i64 %ldd" * tile.has_destination
        args += "".join(f", i64 %lda{n}" for n in tile.lda_multiples) + ", ptr %sums" * tile.is_biased
        return f"internal void @{tile.name}({args}) noinline nounwind"

    def multiply(self, tile: MicroTile, slots: Slots) -> None:
        self.product(tile, slots, ProductOperands("%a", "%b", "%pitch", "%depth"))

    def emit_stores(self, tile: MicroTile, slots: Slots, rows: Sequence[str]) -> list[VectorValue]:
        """Store the register tile: to its destination where the caller gives one, else to `rows`."""
        kind = llvm_type(tile.dtype, tile.lanes)
        if tile.has_destination:
            is_direct = self.w.raw("icmp ne ptr %dest, null")
            start = self.w.raw(f"select i1 {is_direct}, ptr %dest, ptr %c")
            pitch = self.w.raw(f"select i1 {is_direct}, i64 %ldd, i64 {tile.ldc or '%ldc'}")
            rows = self.row_pointers(start, pitch, tile.rows)
        for (r, v), slot in slots.items():
            total = VectorValue(self.load(kind, slot, 64), tile.dtype, tile.lanes, self.w.depth)
            for part, place in split_store(self.e, total, self.element_pointer(rows[r], v * tile.lanes, tile), 4):
                self.w.line(f"store {part.typed}, ptr {place}, align 4")
        return []

    def product(self, tile: MicroTile, slots: Slots, product: ProductOperands) -> list[VectorValue]:
        """Add a product to the register tile: an unrolled loop over K, and one for the remainder."""
        depth = product.depth
        unrolled = depth if tile.k_divisible else self.w.raw(f"and i64 {depth}, {-tile.unroll}")
        prefetched = self.row_pointers("%later", product.pitch, tile.prefetch_rows)
        self.k_loop(tile, slots, product, ("0", unrolled, tile.unroll), prefetched)
        if not tile.k_divisible:
            self.k_loop(tile, slots, product, (unrolled, depth, 1))
        return []

    def product_without_edge_row(
        self, tile: MicroTile, slots: Slots, product: ProductOperands, lacks_last: str
    ) -> list[VectorValue]:
        """Add a product to all rows of the register tile but its last one, or but its first one."""
        shorter = replace(tile, rows=tile.rows - 1)
        k_range = "0", product.depth, 1
        lower_slots = {(r - 1, v): slot for (r, v), slot in slots.items() if r}
        lower = replace(product, a=self.element_pointer(product.a, 1, tile))
        without_last = partial(self.k_loop, shorter, slots, product, k_range)
        without_first = partial(self.k_loop, shorter, lower_slots, lower, k_range)
        return self.w.branch(lacks_last, [without_last, without_first])

    def k_loop(
        self,
        tile: MicroTile,
        slots: Slots,
        product: ProductOperands,
        k_range: tuple[str, str, int],
        prefetched: Sequence[str] = (),
    ) -> list[VectorValue]:
        """The loop over K from one step to another, some steps a round; also prefetches the rows `prefetched`."""
        first, last, unroll = k_range
        element = llvm_type(tile.dtype, 1)
        with self.w.loop(first, last, str(unroll)) as k:
            along = self.w.raw(f"mul i64 {k.text}, {product.pitch}") if tile.products else k.text
            a = self.w.raw(f"getelementptr {element}, ptr {product.a}, i64 {along}")
            down = self.w.raw(f"mul i64 {k.text}, {tile.panel}")
            b = self.w.raw(f"getelementptr {element}, ptr {product.b}, i64 {down}")
            for u in range(unroll):
                for row in prefetched[u::unroll]:
                    line = self.w.raw(f"getelementptr {element}, ptr {row}, i64 {k.text}")
                    prefetch_line(self.w, line, L2)
                if product.next_left:
                    self.prefetch_next_left(tile, product, self.w.raw(f"add i64 {k.text}, {u}"))
                self.k_step(tile, slots, replace(product, a=a, b=b), u)
        return []

    def prefetch_next_left(self, tile: MicroTile, product: ProductOperands, k: str) -> None:
        """Prefetch a step of the next A: the line of its last number, as those before are in that line or cached."""
        start, pitch = product.next_left
        step = self.w.raw(f"mul i64 {k}, {pitch}")
        column = self.w.raw(f"getelementptr {llvm_type(tile.dtype, 1)}, ptr {start}, i64 {step}")
        level = L2 if tile.prefetch_is_next_program else L1
        prefetch_line(self.w, self.element_pointer(column, tile.rows - 1, tile), level)

    def k_step(self, tile: MicroTile, slots: Slots, product: ProductOperands, k: int) -> None:
        """One step of K: a column of A times a row of the panel."""
        kind = llvm_type(tile.dtype, tile.lanes)
        size = tile.dtype.itemsize
        row_start = k * tile.panel
        places = [self.element_pointer(product.b, row_start + v * tile.lanes, tile) for v in range(tile.vectors)]
        if tile.b_exceeds_l1:
            for column in range(0, tile.vectors * tile.lanes, CACHE.line // size):
                ahead = row_start + tile.panel_prefetch // size + column
                prefetch_line(self.w, self.element_pointer(product.b, ahead, tile), L1)
        b_row = [
            VectorValue(self.load(kind, p, self.align(tile)), tile.dtype, tile.lanes, self.w.depth) for p in places
        ]
        result = llvm_type(tile.dtype, tile.lanes)
        for r in range(tile.rows):
            align = size // max(1, tile.packing_factor)
            element = self.load(llvm_type(tile.dtype, 1), self.left_element(tile, product, r, k), align)
            factor = self.e.splat(VectorValue(element, tile.dtype, 1, self.w.depth), tile.lanes)
            for v, b in enumerate(b_row):
                loaded = self.w.raw(f"load {result}, ptr {slots[r, v]}")
                old = VectorValue(loaded, tile.dtype, tile.lanes, self.w.depth)
                self.w.line(f"store {self.multiply_accumulate(tile, factor, b, old).typed}, ptr {slots[r, v]}")

    def left_element(self, tile: MicroTile, product: ProductOperands, r: int, k: int) -> str:
        """Pointer to the number of A in row `r` of the register tile, `k` steps on."""
        if not tile.products:
            power = max(1, r & -r)  # a row is an odd multiple of the pitch, shifted left
            odd_multiple = tile.lda * (r // power) or f"%lda{r // power}"
            down = self.w.raw(f"mul i64 {odd_multiple}, {power}") if r else "0"
            return self.element_pointer(self.w.raw(f"getelementptr i8, ptr {product.a}, i64 {down}"), k, tile)
        along = self.w.raw(f"mul i64 {product.pitch}, {k}")
        column = self.w.raw(f"getelementptr {llvm_type(tile.dtype, 1)}, ptr {product.a}, i64 {along}")
        return self.element_pointer(column, r, tile)

    def initial_accumulator(self, tile: MicroTile, old: VectorValue, r: int) -> VectorValue:
        """An accumulator's first value: C or zero; for bytes, minus what the flipped signs of B will add."""
        zero = self.e.splat(self.e.const(0, old.dtype), old.width)
        start = self.e.select(VectorValue("%beta_zero", int1, 1, 0), zero, old)
        if tile.packing_factor != 4:
            return start
        bias = VectorValue(self.load("i32", self.element_pointer("%sums", r, tile)), int32, 1, self.w.depth)
        return self.e.sub(start, self.e.splat(bias, old.width))

    def multiply_accumulate(self, tile: MicroTile, a: VectorValue, b: VectorValue, c: VectorValue) -> VectorValue:
        if tile.packing_factor:
            return word_dot_product(self.e, tile.packing_factor, a, b, c)
        return self.e.multiply_add(a, b, c) if tile.dtype.is_float else self.e.add(self.e.mul(a, b), c)

    def int8_row_sums(self, c: VectorValue, a: VectorValue) -> VectorValue:
        """c plus the sum of the four bytes of each word of `a`."""
        ones = self.e.splat(self.e.const(0x01010101, int32), c.width)
        return word_dot_product(self.e, 4, a, ones, c)

    def element_pointer(self, pointer: str, elements: int, tile: MicroTile) -> str:
        return self.w.raw(f"getelementptr {llvm_type(tile.dtype, 1)}, ptr {pointer}, i64 {elements}")

    def load(self, kind: str, pointer: str, align: int = 4) -> str:
        return self.w.raw(f"load {kind}, ptr {pointer}, align {align}")

    def align(self, tile: MicroTile) -> int:
        return min(64, tile.lanes * tile.dtype.itemsize)


def claim_name(w: Writer, name: str) -> bool:
    """Whether a function of that name is still to be emitted; it is then."""
    is_new = name not in w.begun
    w.begun.add(name)
    return is_new


@contextmanager
def side_function(w: Writer, header: str) -> Iterator[None]:
    """Write another function beside the one that is being written."""
    with w.another_function():
        yield
        w.line("ret void")
        w.finish_function(header, w.frames[0].lines)
