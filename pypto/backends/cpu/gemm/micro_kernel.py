"""Register kernels: a block of C stays in registers while K goes by.

Each element of A is broadcast, each row of B is read as whole registers: out of a panel, or out of the matrix itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final

from pypto.backends.cpu.codegen.prefetch import CACHE_LINE, L1, L2, prefetch_line
from pypto.backends.cpu.codegen.split_stores import split_store
from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
from pypto.backends.cpu.llvm.value import VectorValue, llvm_type
from pypto.backends.cpu.llvm.writer import Frame, Writer
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.types import DType, float32, int1, int32

Slots = dict[tuple[int, int], str]  # where registers of a block are, by row and place in the row

_MAX_K_UNROLL: Final = 4  # most steps of K in one round of the loop
_MIN_UNROLLED_FMAS: Final = (
    32  # multiply-adds that hide what a round costs beside them: more would only take longer to compile
)
_PANEL_PREFETCH_BYTES: Final = 1536  # bytes of a panel that are asked for before they are read
_MAX_IN_PLACE_MR: Final = 8  # rows of A that lie far apart, often in one set of a cache


@dataclass(frozen=True, slots=True)
class MicroTile:
    """Shape of one register kernel: `rows` of A, `vectors` registers of a panel.

    With `packing_factor`, so many numbers are multiplied at once; bytes of panels are unsigned. `prefetch_rows` rows of
    the left side are asked for, that a later block will copy. With `products`, so many products are added up, each with
    a pitch of A, and the numbers of A for one step of K are neighbours, and all there where it is `all_valid`; what is
    asked for `prefetch_is_next_program` is another program's. Else rows of A lie `lda` bytes apart, and those of C
    `ldc`. Where these are 0, callers give them: of A odd multiples, so that all of its rows are addressed from one
    pointer, and no register is spilled. A block that `has_destination` may be stored elsewhere than where it was loaded
    from. Panels that do not stay in the first-level cache are `b_exceeds_l1`. K is `k_divisible` where all rounds are
    whole ones. What is run `cold` has rounds of one step, which are compiled sooner. Where one instruction multiplies
    tiles (see amx.py), it takes a `amx_k` of so many words along K. Numbers may be `split`: sums of so many, each so
    many bytes behind the one before on the left and right side.
    """

    rows: int
    vectors: int
    lanes: int
    panel: int
    dtype: DType
    packing_factor: int = 0
    prefetch_rows: int = 0
    products: int = 0
    lda: int = 0
    ldc: int = 0
    has_destination: bool = False
    all_valid: bool = False
    prefetch_is_next_program: bool = False
    b_exceeds_l1: bool = False
    k_divisible: bool = False
    cold: bool = False
    amx_k: int = 0
    split: tuple[int, int, int] = (1, 0, 0)

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
        """True for bytes whose signs are flipped on the right side: what that adds is to be subtracted."""
        return self.packing_factor == 4 and not self.amx_k

    @property
    def lda_multiples(self) -> list[int]:
        return [] if self.products or self.lda else list(range(1, 2 if self.amx_k else self.rows, 2))

    @property
    def unroll(self) -> int:
        """Steps of K in one round."""
        if self.cold:
            return 1
        needed = -(-_MIN_UNROLLED_FMAS // (self.rows * self.vectors)) if self.products < 2 else _MAX_K_UNROLL
        return min(_MAX_K_UNROLL, 1 << (needed - 1).bit_length())

    def with_depths(self, *depths: VectorValue) -> MicroTile:
        """The same for products of these depths."""
        return replace(
            self,
            k_divisible=self.cold
            or all(constant_or_zero(n) and not constant_or_zero(n) % _MAX_K_UNROLL for n in depths),
        )

    @property
    def result(self) -> DType:
        """Type of the accumulators."""
        return float32 if self.packing_factor == 2 else self.dtype


@dataclass(frozen=True, slots=True)
class ProductOperands:
    """One product of those that a register kernel adds up, by name: pointers, the pitch where it varies, the depth.

    `next_left` is the left side of the one after it, if any: its address and pitch.
    """

    a: str
    b: str
    pitch: str
    depth: str
    next_left: tuple[str, ...] = ()


def constant_or_zero(n: VectorValue) -> int:
    """A number that is known now; 0 where it is not."""
    return 0 if "%" in n.text else int(n.text)


def choose_mr(target: CpuTarget, vectors: int, in_place: bool = False) -> int:
    """Rows whose accumulators fit into the registers, beside a panel row and a broadcast; fewer where A stays in place.

    Eight rows that lie a multiple of 4 KB apart find room in a set of twelve lines, beside what else goes by.
    """
    fit = target.registers - vectors - (1 if target.registers > 16 else 2)
    return max(1, min(fit // vectors, max(_MAX_IN_PLACE_MR, 2 * _MAX_IN_PLACE_MR // vectors) if in_place else fit))


def row_tiles(rows: int, most: int) -> list[tuple[int, int]]:
    """(size, count) of the blocks of rows: as few as fit, and as even as can be."""
    count = -(-rows // most)
    size, extra = divmod(rows, count)
    return [(n, c) for n, c in ((size + 1, extra), (size, count - extra)) if c]


class MicroKernelEmitter:
    """Emits register kernels as functions, once for each shape."""

    arguments: ClassVar = "ptr noalias %a, ptr noalias %b, ptr noalias %c, ptr %later, i64 %pitch, i64 %depth"

    def __init__(self, e: LaneEmitter) -> None:
        self.e = e
        self.w = e.w

    def kernel(self, block: MicroTile) -> None:
        if not claim_name(self.w, block.name):
            return
        with side_function(self.w, self.header(block)):
            kind = llvm_type(block.result, block.lanes)
            slots = {(r, v): self.w.slot(kind) for r in range(block.rows) for v in range(block.vectors)}
            downs = [self.w.raw(f"mul i64 {block.ldc or '%down'}, {r}") for r in range(block.rows)]
            rows = [self.w.raw(f"getelementptr i8, ptr %c, i64 {down}") for down in downs]
            for (r, v), slot in slots.items():
                place = self.element_pointer(rows[r], v * block.lanes, block)
                old = VectorValue(self.load(kind, place), block.result, block.lanes, self.w.depth)
                self.w.line(f"store {self.initial_accumulator(block, old, r).typed}, ptr {slot}")
            self.multiply(block, slots)
            self.emit_stores(block, slots, rows)

    def header(self, block: MicroTile) -> str:
        args = f"{self.arguments}, i64 %down, i1 %fresh" + ", ptr %into, i64 %apart" * block.has_destination
        args += "".join(f", i64 %apart{n}" for n in block.lda_multiples) + ", ptr %sums" * block.is_biased
        return f"internal void @{block.name}({args}) noinline nounwind"

    def multiply(self, block: MicroTile, slots: Slots) -> None:
        self.product(block, slots, ProductOperands("%a", "%b", "%pitch", "%depth"))

    def emit_stores(self, block: MicroTile, slots: Slots, rows: Sequence[str]) -> list[VectorValue]:
        """Store the block."""
        kind = llvm_type(block.result, block.lanes)
        if block.has_destination:
            lands = self.w.raw("icmp ne ptr %into, null")
            start = self.w.raw(f"select i1 {lands}, ptr %into, ptr %c")
            down = self.w.raw(f"select i1 {lands}, i64 %apart, i64 {block.ldc or '%down'}")
            downs = [self.w.raw(f"mul i64 {down}, {r}") for r in range(block.rows)]
            rows = [self.w.raw(f"getelementptr i8, ptr {start}, i64 {down}") for down in downs]
        for (r, v), slot in slots.items():
            total = VectorValue(self.load(kind, slot, 64), block.result, block.lanes, self.w.depth)
            for part, place in split_store(self.e, total, self.element_pointer(rows[r], v * block.lanes, block), 4):
                self.w.line(f"store {part.typed}, ptr {place}, align 4")
        return []

    def product(self, block: MicroTile, slots: Slots, part: ProductOperands) -> list[VectorValue]:
        """Add a product to the block."""
        whole = part.depth if block.k_divisible else self.w.raw(f"and i64 {part.depth}, {-block.unroll}")
        downs = [self.w.raw(f"mul i64 {part.pitch}, {r}") for r in range(block.prefetch_rows)]
        later = [self.w.raw(f"getelementptr i8, ptr %later, i64 {down}") for down in downs]
        self.k_loop(block, slots, part, ("0", whole, block.unroll), later)
        if not block.k_divisible:
            self.k_loop(block, slots, part, (whole, part.depth, 1))
        return []

    def product_without_edge_row(
        self, block: MicroTile, slots: Slots, part: ProductOperands, last: str
    ) -> list[VectorValue]:
        """Add a product to all rows of the block but its last or its first one."""
        few, over = replace(block, rows=block.rows - 1), ("0", part.depth, 1)
        below = {(r - 1, v): slot for (r, v), slot in slots.items() if r}
        after = replace(part, a=self.element_pointer(part.a, 1, block))
        sides = (slots, part), (below, after)
        return self.w.branch(last, [partial(self.k_loop, few, *side, over) for side in sides])

    def k_loop(
        self,
        block: MicroTile,
        slots: Slots,
        part: ProductOperands,
        over: tuple[str, str, int],
        later: Sequence[str] = (),
    ) -> list[VectorValue]:
        first, last, unroll = over
        with self.w.loop(first, last, str(unroll)) as k:
            after = self.w.raw(f"mul i64 {k.text}, {part.pitch}") if block.products else k.text
            left = self.w.raw(f"getelementptr {llvm_type(block.dtype, 1)}, ptr {part.a}, i64 {after}")
            down = self.w.raw(f"mul i64 {k.text}, {block.panel}")
            right = self.w.raw(f"getelementptr {llvm_type(block.dtype, 1)}, ptr {part.b}, i64 {down}")
            for u in range(unroll):
                for row in later[u::unroll]:
                    line = self.w.raw(f"getelementptr {llvm_type(block.dtype, 1)}, ptr {row}, i64 {k.text}")
                    prefetch_line(self.w, line, 2)
                if part.next_left:
                    self.prefetch_next_product(block, part, self.w.raw(f"add i64 {k.text}, {u}"))
                self.k_step(block, slots, replace(part, a=left, b=right), u)
        return []

    def prefetch_next_product(self, block: MicroTile, part: ProductOperands, k: str) -> None:
        """Have a step's last number of the next product fetched: those before it are in that line, or in the cache."""
        start, pitch = part.next_left
        step = self.w.raw(f"mul i64 {k}, {pitch}")
        line = self.w.raw(f"getelementptr {llvm_type(block.dtype, 1)}, ptr {start}, i64 {step}")
        prefetch_line(
            self.w, self.element_pointer(line, block.rows - 1, block), L2 if block.prefetch_is_next_program else L1
        )

    def k_step(self, block: MicroTile, slots: Slots, part: ProductOperands, k: int) -> None:
        """One row of the panel times one column of the block."""
        kind = llvm_type(block.dtype, block.lanes)
        places = [self.element_pointer(part.b, k * block.panel + v * block.lanes, block) for v in range(block.vectors)]
        for c in range(0, block.b_exceeds_l1 * block.vectors * block.lanes, CACHE_LINE // block.dtype.itemsize):
            prefetch_line(
                self.w,
                self.element_pointer(
                    part.b, k * block.panel + _PANEL_PREFETCH_BYTES // block.dtype.itemsize + c, block
                ),
                3,
            )
        align = self.align(block)
        row = [VectorValue(self.load(kind, p, align), block.dtype, block.lanes, self.w.depth) for p in places]
        for r in range(block.rows):
            align = block.dtype.itemsize // max(1, block.packing_factor)
            element = self.load(llvm_type(block.dtype, 1), self.left_element(block, part, r, k), align)
            factor = self.e.splat(VectorValue(element, block.dtype, 1, self.w.depth), block.lanes)
            for v, b in enumerate(row):
                result = llvm_type(block.result, block.lanes)
                old = VectorValue(
                    self.w.raw(f"load {result}, ptr {slots[r, v]}"), block.result, block.lanes, self.w.depth
                )
                self.w.line(f"store {self.multiply_accumulate(block, factor, b, old).typed}, ptr {slots[r, v]}")

    def left_element(self, block: MicroTile, part: ProductOperands, r: int, k: int) -> str:
        """A number of A, some rows down and some steps on."""
        if not block.products:
            times = max(1, r & -r)
            odd = block.lda * (r // times) or f"%apart{r // times}"
            down = self.w.raw(f"mul i64 {odd}, {times}") if r else "0"
            return self.element_pointer(self.w.raw(f"getelementptr i8, ptr {part.a}, i64 {down}"), k, block)
        after = self.w.raw(f"mul i64 {part.pitch}, {k}")
        return self.element_pointer(
            self.w.raw(f"getelementptr {llvm_type(block.dtype, 1)}, ptr {part.a}, i64 {after}"), r, block
        )

    def initial_accumulator(self, block: MicroTile, old: VectorValue, r: int) -> VectorValue:
        """An accumulator's first state; for bytes, without what the flipped signs of the right side will add."""
        zero = self.e.splat(self.e.const(0, old.dtype), old.width)
        start = self.e.select(VectorValue("%fresh", int1, 1, 0), zero, old)
        if block.packing_factor != 4:
            return start
        extra = VectorValue(self.load("i32", self.element_pointer("%sums", r, block)), int32, 1, self.w.depth)
        return self.e.sub(start, self.e.splat(extra, old.width))

    def multiply_accumulate(self, block: MicroTile, a: VectorValue, b: VectorValue, c: VectorValue) -> VectorValue:
        if block.packing_factor == 4:
            return self.int8_dot(c, b, a)
        if block.packing_factor == 2:
            return self.bf16_dot(c, a, b)
        return self.e.multiply_add(a, b, c) if block.dtype.is_float else self.e.add(self.e.mul(a, b), c)

    def int8_dot(self, c: VectorValue, a: VectorValue, b: VectorValue) -> VectorValue:
        """c + the products of the four bytes of each word; those of `a` are unsigned."""
        args = tuple((v.type, v.text) for v in (c, a, b))
        return VectorValue(self.w.call(c.type, "llvm.x86.avx512.vpdpbusd.512", args), int32, c.width, c.hoist_depth)

    def int8_row_sums(self, c: VectorValue, b: VectorValue) -> VectorValue:
        ones = self.e.splat(self.e.const(0x01010101, int32), c.width)
        return self.int8_dot(c, ones, b)

    def bf16_dot(self, c: VectorValue, a: VectorValue, b: VectorValue) -> VectorValue:
        """c + the products of the two bfloat16 of each word."""
        kind = f"<{2 * c.width} x bfloat>"
        halves = [self.w.raw(f"bitcast {v.typed} to {kind}", v.hoist_depth) for v in (a, b)]
        args = ((c.type, c.text), (kind, halves[0]), (kind, halves[1]))
        return VectorValue(
            self.w.call(c.type, "llvm.x86.avx512bf16.dpbf16ps.512", args), c.dtype, c.width, c.hoist_depth
        )

    def element_pointer(self, pointer: str, elements: int, block: MicroTile) -> str:
        return self.w.raw(f"getelementptr {llvm_type(block.dtype, 1)}, ptr {pointer}, i64 {elements}")

    def load(self, kind: str, pointer: str, align: int = 4) -> str:
        return self.w.raw(f"load {kind}, ptr {pointer}, align {align}")

    def align(self, block: MicroTile) -> int:
        return min(64, block.lanes * block.dtype.itemsize)


def claim_name(w: Writer, name: str) -> bool:
    """True when nobody has asked for a function of that name before."""
    known = name in w.begun
    w.begun.add(name)
    return not known


@contextmanager
def side_function(w: Writer, header: str) -> Iterator[None]:
    """Write another function beside the one that is under way."""
    outer = w.frames, w.slots, w.blocks, w.hoist_floor
    w.frames, w.slots, w.blocks, w.hoist_floor = [Frame([])], [], "", 0
    yield
    w.line("ret void")
    w.finish_function(header, w.frames[0].lines)
    w.frames, w.slots, w.blocks, w.hoist_floor = outer
