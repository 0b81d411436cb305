"""Products whose left side lies with its columns side by side: a block's numbers are neighbours for each step of K.

They are broadcast from where they lie. Where some do not exist, the block is copied, with zeros in their place; a block
of which none exists adds nothing. Products that are added up, one after the other, are added in registers; of these,
where only the first or the last number does not exist, it is left out, which costs nothing. Registers can leave as
columns, for a result that is stored turned. While one is multiplied, what the next one reads is asked for, or what the
next program reads in its place: rows of an image, or of one head of many, lie far apart.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.codegen.prefetch import address_evolution, next_program_address, prefetch_line
from pypto.backends.cpu.codegen.register_transpose import transpose_registers
from pypto.backends.cpu.gemm import conv_window
from pypto.backends.cpu.gemm.micro_kernel import (
    MicroKernelEmitter,
    MicroTile,
    ProductOperands,
    Slots,
    choose_mr,
    constant_or_zero,
)
from pypto.backends.cpu.gemm.operands import Destination
from pypto.backends.cpu.llvm.value import VectorValue, intrinsic_suffix, llvm_type
from pypto.ir.types import int1, int64
from pypto.ops.memory import Access
from pypto.passes.dot_facts import InPlaceOperand

if TYPE_CHECKING:
    from pypto.backends.cpu.gemm.macro_kernel import GemmOperands, MacroKernel

TABLE_WORDS: Final = 7  # numbers in the table for each product
FIRST_ROW_MISSING: Final = (
    64  # what stands there for a block without its first row; 1 for one without its last, 0 for a whole one.
)
# A block of which some exist lacks fewer rows at either end than that.


def column_row_tiles(rows: int, most: int) -> list[tuple[int, int, int]]:
    """First row, rows and number of the blocks: the largest first, so that what exists fills few of them."""
    whole, rest = divmod(rows, most)
    found = (0, most, whole), (whole * most, rest, 1)
    return [(first, size, count) for first, size, count in found if size and count]


class MultiProductEmitter(MicroKernelEmitter):
    """Emits kernels that add up products, out of a table, and store the columns of the sum where there is room."""

    arguments = "ptr noalias %parts, ptr noalias %c, i64 %stop"

    def multiply(self, block: MicroTile, slots: Slots) -> None:
        with self.w.loop("0", str(block.products), "1") as n:
            if block.has_destination:
                self.prefetch_destination(block, n)
            b, *after, a, pitch, depth, gone = self.load_table_row(n, "ptr", "ptr", "i64", "ptr", "i64", "i64", "i64")
            asks = block.products > 1 or block.prefetch_is_next_program
            part = ProductOperands(a, b, pitch, depth, tuple(after) if asks else ())
            if block.all_valid:
                self.product(block, slots, part)
                return
            last, whole = (self.w.raw(f"icmp eq i64 {gone}, {m}") for m in (1, 0))
            but = functools.partial(self.product_without_edge_row, last=last)
            self.w.branch(whole, [functools.partial(f, block, slots, part) for f in (self.product, but)])

    def load_table_row(self, n: VectorValue, *kinds: str) -> tuple[str, ...]:
        """What the table says of a product."""
        start = self.w.raw(f"getelementptr [{TABLE_WORDS} x i64], ptr %parts, i64 {n.text}")
        return tuple(self.load(k, self.w.raw(f"getelementptr i64, ptr {start}, i64 {i}")) for i, k in enumerate(kinds))

    def prefetch_destination(self, block: MicroTile, n: VectorValue) -> None:
        """Have some of the rows fetched that the result will go to: they are written all at once, and late.

        Where one begins in another line than it ends, the block before has asked for that. Some may be the next
        panel's.
        """
        some = -(-block.vectors * block.lanes // block.products)
        for i in range(some):
            row = self.e.add(self.e.mul(n, self.e.const(some, int64)), self.e.const(i, int64))
            start = self.w.raw(f"getelementptr i8, ptr %into, i64 {self.w.raw(f'mul i64 {row.text}, %apart')}")
            prefetch_line(self.w, self.element_pointer(start, block.rows - 1, block), 3, writes=True)

    def emit_stores(self, block: MicroTile, slots: Slots, rows: Sequence[str]) -> list[VectorValue]:
        stay = functools.partial(super().emit_stores, replace(block, has_destination=False), slots, rows)
        if not block.has_destination:
            return stay()
        return self.w.branch(
            self.w.raw("icmp ne ptr %into, null"), [functools.partial(self.store_transposed, block, slots), stay]
        )

    def store_transposed(self, block: MicroTile, slots: Slots) -> list[VectorValue]:
        """Store the columns of the block, as far down as there is room for them."""
        kind, lanes = llvm_type(block.result, block.lanes), block.lanes
        mask = self.e.cmp("lt", self.e.iota(lanes, int64), self.e.splat(VectorValue("%stop", int64, 1, 0), lanes))
        rows = [self.e.splat(self.e.const(0, block.result), lanes)] * lanes
        name = f"llvm.masked.store.{intrinsic_suffix(block.result, lanes)}.p0"
        for v in range(block.vectors):
            for r in range(block.rows):
                rows[r] = VectorValue(self.load(kind, slots[r, v], 64), block.result, lanes, self.w.depth)
            for n, column in enumerate(transpose_registers(self.e, rows)):
                place = self.w.raw(f"getelementptr i8, ptr %into, i64 {self.w.raw(f'mul i64 %apart, {v * lanes + n}')}")
                self.w.call("void", name, ((kind, column.text), ("ptr", place), ("i32", "4"), (mask.type, mask.text)))
        return []


def emit_products(dots: MacroKernel, parts: Sequence[GemmOperands], landing: Destination | None) -> None:
    """All blocks of a result that is the sum of some products."""
    item, e, w = parts[-1].item, dots.e, dots.w
    table = w.slot(f"[{TABLE_WORDS * len(parts)} x i64]")
    lanes = dots.lanes(item)  # a block that is copied, and one that leaves as columns, has a register for its rows
    most = min(lanes, choose_mr(dots.target, item.b.panel // lanes))
    conv_window.copy_windows(dots, parts, computed_rows(dots, parts, landing, most))
    for first, rows, count in column_row_tiles(item.c.shape[-2], most):
        with w.loop(str(first), str(first + rows * count), str(rows)) as i:
            some = functools.reduce(e.or_, (has_elements(dots, sides, i, rows) for sides in parts))
            if parts[0].item.beta_zero:
                some = e.const(True, int1) if landing is None else is_stored(dots, landing, i)
            w.branch(some.text, [functools.partial(emit_row_tile, dots, parts, landing, table, i, rows), list])


def computed_rows(
    dots: MacroKernel, parts: Sequence[GemmOperands], landing: Destination | None, unit: int
) -> VectorValue:
    """How many rows of the result are computed: all, or the blocks with those that are stored."""
    e, rows = dots.e, dots.index(parts[0].item.c.shape[-2])
    if landing is None or not parts[0].item.beta_zero:
        return rows
    stored = e.minimum(dots.packing.round_up(landing.matrix.columns.stop, unit), rows)
    return e.select(landing.in_bounds, stored, rows)


def is_stored(dots: MacroKernel, landing: Destination, i: VectorValue) -> VectorValue:
    """True when something is to be done for rows from `i` on."""
    exists = dots.e.cmp("lt", i, landing.matrix.columns.stop)
    return dots.e.or_(exists, dots.e.xor(landing.in_bounds, dots.e.const(True, int1)))


def has_elements(dots: MacroKernel, sides: GemmOperands, i: VectorValue, rows: int) -> VectorValue:
    """True when there is something to multiply in a block."""
    m, e = sides.left, dots.e
    some = e.and_(e.cmp("gt", e.add(i, dots.index(rows)), m.columns.start), e.cmp("lt", i, m.columns.stop))
    return e.and_(some, e.cmp("gt", m.rows.stop, m.rows.start))


def emit_row_tile(
    dots: MacroKernel, parts: Sequence[GemmOperands], landing: Destination | None, table: str, i: VectorValue, rows: int
) -> list[VectorValue]:
    sides, e, w = parts[-1], dots.e, dots.w

    def note(n: int, m: int, number: VectorValue) -> None:
        w.line(f"store {number.typed}, ptr {w.raw(f'getelementptr i64, ptr {table}, i64 {TABLE_WORDS * n + m}')}")

    whole = len(parts) < 2 or all(x.item.conv_window is not None for x in parts)
    lefts, later = (
        [left_columns(dots, x, i, rows, whole) for x in parts],
        [next_program_left(dots, x, len(parts), i) for x in parts],
    )
    for n, after in enumerate([*lefts[1:], lefts[0]]):
        for m, number in enumerate([*(later[n] or after[:2]), *lefts[n]]):
            note(n, m + 1, number)

    def multiply(shape: MicroTile, j: VectorValue, c: VectorValue) -> None:
        for n, x in enumerate(parts):
            note(n, 0, dots.panel_address(x, j))
        stop, there = dots.index(0), ""
        if landing is not None:
            into = dots.destination_address(landing, dots.panel_column(sides, j), i)
            apart = e.select(landing.in_bounds, landing.matrix.pitch, dots.index(0))
            stop = e.minimum(e.sub(landing.matrix.columns.stop, i), dots.index(rows))
            there = f", ptr {dots.packing.pointer_at(into)}, {apart.typed}"
        dots.multi_product_kernels.kernel(shape)
        fresh = "true" if parts[0].item.beta_zero else "false"
        numbers = f"{stop.typed}, {sides.ldc.typed}, i1 {fresh}"
        w.line(f"call void @{shape.name}(ptr {table}, ptr {dots.packing.pointer_at(c)}, {numbers}{there})")

    shape = replace(
        dots.micro_tile(sides.item, rows),
        products=len(parts),
        ldc=constant_or_zero(sides.ldc),
        has_destination=landing is not None,
        all_valid=whole,
        prefetch_is_next_program=any(later),
    )
    dots.emit_panel_loop(sides, i, shape.with_depths(*(x.k for x in parts)), multiply)
    return []


def next_program_left(dots: MacroKernel, sides: GemmOperands, parts: int, i: VectorValue) -> list[VectorValue]:
    """Where the next program finds what this one does in a block, and the pitch there; nothing where none is known.

    That is asked for where what the next product reads is near, or the same.
    """
    load, size = (
        sides.item.a.load if isinstance(sides.item.a, InPlaceOperand) else None,
        dots.index(dots.word_bytes(sides.item)),
    )
    if load is None or (sides.item.conv_window is None and parts > 1) or not address_evolution(Access.of(load)):
        return []
    start = dots.e.add(next_program_address(dots.nests.memory, load), dots.e.mul(i, size))
    return [start, dots.e.binary("udiv", sides.left.pitch, size)]


def left_columns(dots: MacroKernel, sides: GemmOperands, i: VectorValue, rows: int, whole: bool) -> list[VectorValue]:
    """Address of a block's columns, how far they lie apart, how many there are, and which row of the block is not."""
    if sides.item.conv_window is not None:
        return conv_window.window_columns(dots, sides, sides.item.conv_window, i)
    m, e, size, zero = sides.left, dots.e, dots.index(dots.word_bytes(sides.item)), dots.index(0)
    first, behind = e.sub(m.columns.start, i), e.sub(e.add(i, dots.index(rows)), m.columns.stop)
    gone = e.add(e.mul(e.maximum(first, zero), dots.index(FIRST_ROW_MISSING)), e.maximum(behind, zero))
    there = functools.reduce(
        e.or_, (e.cmp("eq", gone, dots.index(n)) for n in ((0,) if whole else (0, 1, FIRST_ROW_MISSING)))
    )
    inside = e.and_(dots.packing.is_within(m.rows, zero, e.sub(sides.k, dots.index(1))), there)
    here = [e.add(m.address, e.mul(i, size)), e.binary("udiv", m.pitch, size), sides.k, gone]
    some, none = functools.partial(copy_columns, dots, sides, i), [*here[:2], zero, zero]
    which = functools.partial(dots.w.branch, inside.text, [lambda: here, some])
    return dots.w.branch(has_elements(dots, sides, i, rows).text, [which, lambda: none])


def copy_columns(dots: MacroKernel, sides: GemmOperands, i: VectorValue) -> list[VectorValue]:
    item, m, e, w = sides.item, sides.left, dots.e, dots.w
    assert item.left_block is not None
    base, lanes, size = sides.buffer_bases[item.left_block.id], item.left_block.pitch, m.dtype.itemsize
    start, stop = (e.splat(e.sub(x, i), lanes) for x in (m.columns.start, m.columns.stop))
    place = e.iota(lanes, int64)
    mask = e.and_(e.cmp("ge", place, start), e.cmp("lt", place, stop))
    first, kind = e.add(m.address, e.mul(i, dots.index(size))), VectorValue("zeroinitializer", m.dtype, lanes, 0)
    ends = dots.index(0), m.rows.start, e.minimum(m.rows.stop, sides.k), sides.k
    for (begin, finish), there in zip(itertools.pairwise(ends), (False, True, False), strict=True):
        with w.loop(begin.text, finish.text, "1") as k:
            loaded = kind
            if there:
                pointer = dots.packing.pointer_at(e.add(first, e.mul(k, m.pitch)))
                args = ("ptr", pointer), ("i32", str(size)), (mask.type, mask.text), (kind.type, kind.text)
                name = f"llvm.masked.load.{intrinsic_suffix(m.dtype, lanes)}.p0"
                loaded = e.call(name, m.dtype, lanes, w.depth, *args)
            dots.packing.store(loaded, dots.packing.pointer_at(e.add(base, e.mul(k, dots.index(lanes * size)))), size)
    return [base, dots.index(lanes), sides.k, dots.index(0)]
