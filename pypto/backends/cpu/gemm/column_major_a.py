"""Products with a column-major A, as those of a convolution: one kernel adds up a chain of them in registers.

The numbers of a register tile's rows are neighbours in memory for each step of K, so A is broadcast from where it lies
and never packed. The products of a chain are handed over in a table (panels, A, pitch, depth of each), so that their
sum is loaded and stored once. It pays where A is an image or a head of many, and B is small and the same for all
programs.

At the edges of A, a tile of which some rows do not exist is copied, with zeros in their place; a tile without any row
is skipped. If only the first or the last row is missing, as beside a convolution's padding, that row is left out of
the product: it costs nothing. A result that is stored transposed leaves the registers as columns. While one product
runs, the kernel prefetches A of the next product, or of the next program.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.codegen.prefetch import address_step, next_program_address, prefetch_line
from pypto.backends.cpu.codegen.register_transpose import transpose_registers
from pypto.backends.cpu.gemm import conv_window
from pypto.backends.cpu.gemm.blocking import FACTS
from pypto.backends.cpu.gemm.micro_kernel import MicroKernelEmitter, MicroTile, ProductOperands, Slots, constant_or_zero
from pypto.backends.cpu.gemm.operands import Destination
from pypto.backends.llvm.value import VectorValue, intrinsic_suffix, llvm_type
from pypto.ir.core import Op
from pypto.ir.types import int1, int64
from pypto.ops.memory import Access
from pypto.passes.analysis.dot_facts import InPlaceOperand

if TYPE_CHECKING:
    from pypto.backends.cpu.gemm.emitted_operands import GemmOperands
    from pypto.backends.cpu.gemm.macro_kernel import MacroKernel

TABLE_WORDS: Final = 7  # per product: panels, next A and its pitch, A and its pitch, depth, missing rows
# How the table encodes missing rows: rows missing at the start times FIRST_ROW_MISSING, plus rows missing at the end.
# A tile with some row lacks fewer than that at either end.
FIRST_ROW_MISSING: Final = 64


@dataclass(frozen=True, slots=True)
class RowTiles:
    """Register tiles of one size, one below the other: the rows where they begin and end, and the rows of each."""

    start: VectorValue
    stop: VectorValue
    size: int


def column_row_tiles(macro: MacroKernel, rows: int, mr: int, computed: VectorValue) -> list[RowTiles]:
    """The register tiles of a result: full ones first, so that rows that exist fill few tiles.

    Of few rows, each that does not exist is a large part of a tile. Then the last tiles are two rows shorter, as many
    as it takes to leave at most one row that is computed for nothing.
    """
    if mr <= FACTS.few_rows and rows % 2 == 0 and rows >= 2 * mr:
        return even_row_tiles(macro, mr, computed)
    count, remainder = divmod(rows, mr)
    middle = macro.index(count * mr)
    tiles = RowTiles(macro.index(0), middle, mr), RowTiles(middle, macro.index(rows), remainder)
    return [tiles[n] for n, exists in enumerate((count, remainder)) if exists]


def even_row_tiles(macro: MacroKernel, mr: int, computed: VectorValue) -> list[RowTiles]:
    """Register tiles of MR rows, and of two rows less: n tiles with k short ones among them have n MR - 2 k rows."""
    e = macro.e
    zero = macro.index(0)
    capacity = macro.packing.round_up(computed, mr)
    count = e.binary("udiv", capacity, macro.index(mr))
    short = e.minimum(e.binary("udiv", e.sub(capacity, computed), macro.index(2)), count)
    middle = e.mul(e.sub(count, short), macro.index(mr))
    return [RowTiles(zero, middle, mr), RowTiles(middle, e.add(middle, e.mul(short, macro.index(mr - 2))), mr - 2)]


class MultiProductEmitter(MicroKernelEmitter):
    """Emits micro-kernels that add up the products of a table, and can store the sum by columns."""

    arguments = "ptr noalias %parts, ptr noalias %c, i64 %stop"

    def multiply(self, tile: MicroTile, slots: Slots) -> None:
        with self.w.loop("0", str(tile.products), "1") as n:
            if tile.has_destination:
                self.prefetch_destination(tile, n)
            kinds = "ptr", "ptr", "i64", "ptr", "i64", "i64", "i64"
            b, next_a, next_pitch, a, pitch, depth, missing = self.load_table_row(n, *kinds)
            prefetches = tile.products > 1 or tile.prefetch_is_next_program
            product = ProductOperands(a, b, pitch, depth, (next_a, next_pitch) if prefetches else ())
            if tile.all_valid:
                self.product(tile, slots, product)
                return
            lacks_last, is_whole = (self.w.raw(f"icmp eq i64 {missing}, {m}") for m in (1, 0))
            without_edge = functools.partial(self.product_without_edge_row, lacks_last=lacks_last)
            bodies = [functools.partial(emit, tile, slots, product) for emit in (self.product, without_edge)]
            self.w.branch(is_whole, bodies)

    def load_table_row(self, n: VectorValue, *kinds: str) -> tuple[str, ...]:
        """The table's words for a product."""
        start = self.w.raw(f"getelementptr [{TABLE_WORDS} x i64], ptr %parts, i64 {n.text}")
        return tuple(self.load(k, self.w.raw(f"getelementptr i64, ptr {start}, i64 {i}")) for i, k in enumerate(kinds))

    def prefetch_destination(self, tile: MicroTile, n: VectorValue) -> None:
        """Prefetch some of the rows that the transposed result is stored to: all are written at once, and late.

        One line per row is enough: where a row begins in another line than it ends, the tile before has fetched that.
        Some of the rows may be the next panel's.
        """
        rows_per_product = -(-tile.vectors * tile.lanes // tile.products)
        for i in range(rows_per_product):
            row = self.e.add(self.e.mul(n, self.e.const(rows_per_product, int64)), self.e.const(i, int64))
            start = self.w.raw(f"getelementptr i8, ptr %dest, i64 {self.w.raw(f'mul i64 {row.text}, %ldd')}")
            prefetch_line(self.w, self.element_pointer(start, tile.rows - 1, tile), 3, writes=True)

    def emit_stores(self, tile: MicroTile, slots: Slots, rows: Sequence[str]) -> list[VectorValue]:
        to_scratch = functools.partial(super().emit_stores, replace(tile, has_destination=False), slots, rows)
        if not tile.has_destination:
            return to_scratch()
        transposed = functools.partial(self.store_transposed, tile, slots)
        return self.w.branch(self.w.raw("icmp ne ptr %dest, null"), [transposed, to_scratch])

    def store_transposed(self, tile: MicroTile, slots: Slots) -> list[VectorValue]:
        """Store the columns of the register tile, as far down as the destination has rows."""
        kind = llvm_type(tile.dtype, tile.lanes)
        lanes = tile.lanes
        mask = self.e.cmp("lt", self.e.iota(lanes, int64), self.e.splat(VectorValue("%stop", int64, 1, 0), lanes))
        rows = [self.e.splat(self.e.const(0, tile.dtype), lanes)] * lanes
        name = f"llvm.masked.store.{intrinsic_suffix(tile.dtype, lanes)}.p0"
        for v in range(tile.vectors):
            for r in range(tile.rows):
                rows[r] = VectorValue(self.load(kind, slots[r, v], 64), tile.dtype, lanes, self.w.depth)
            for n, column in enumerate(transpose_registers(self.e, rows)):
                place = self.w.raw(f"getelementptr i8, ptr %dest, i64 {self.w.raw(f'mul i64 %ldd, {v * lanes + n}')}")
                self.w.call("void", name, ((kind, column.text), ("ptr", place), ("i32", "4"), (mask.type, mask.text)))
        return []


def emit_products(macro: MacroKernel, chain: Sequence[GemmOperands], destination: Destination | None) -> None:
    """Emit the loop over the register tiles of a result that is the sum of a chain of products."""
    gemm = chain[-1].item
    e = macro.e
    w = macro.w
    table = w.slot(f"[{TABLE_WORDS * len(chain)} x i64]")
    mr = gemm.blocking.mr
    rows = macro.index(gemm.c.shape[-2])
    computed = computed_rows(macro, chain, destination)
    tiles = column_row_tiles(macro, gemm.c.shape[-2], mr, computed)
    conv_window.copy_windows(macro, chain, e.minimum(macro.packing.round_up(computed, mr), rows))
    for group in tiles:
        with w.loop(group.start.text, group.stop.text, str(group.size)) as i:
            needed = functools.reduce(e.or_, (has_elements(macro, operands, i, group.size) for operands in chain))
            if chain[0].item.beta_zero:
                needed = e.const(True, int1) if destination is None else is_stored(macro, destination, i)
            tile = functools.partial(emit_row_tile, macro, chain, destination, table, i, group.size)
            w.branch(needed.text, [tile, list])


def computed_rows(macro: MacroKernel, chain: Sequence[GemmOperands], destination: Destination | None) -> VectorValue:
    """Rows of the result that have to be computed: all, or those that are stored."""
    e = macro.e
    rows = macro.index(chain[0].item.c.shape[-2])
    if destination is None or not chain[0].item.beta_zero:
        return rows
    stored = e.maximum(e.minimum(destination.matrix.columns.stop, rows), macro.index(0))
    return e.select(destination.in_bounds, stored, rows)


def is_stored(macro: MacroKernel, destination: Destination, i: VectorValue) -> VectorValue:
    """Whether rows from `i` on are stored at their destination, or the result goes to scratch."""
    exists = macro.e.cmp("lt", i, destination.matrix.columns.stop)
    return macro.e.or_(exists, macro.e.xor(destination.in_bounds, macro.e.const(True, int1)))


def has_elements(macro: MacroKernel, operands: GemmOperands, i: VectorValue, rows: int) -> VectorValue:
    """Whether A has some row of a register tile, and some depth."""
    m, e = operands.left, macro.e
    has_row = e.and_(e.cmp("gt", e.add(i, macro.index(rows)), m.columns.start), e.cmp("lt", i, m.columns.stop))
    return e.and_(has_row, e.cmp("gt", m.rows.stop, m.rows.start))


def emit_row_tile(
    macro: MacroKernel,
    chain: Sequence[GemmOperands],
    destination: Destination | None,
    table: str,
    i: VectorValue,
    rows: int,
) -> list[VectorValue]:
    """Fill the table for the rows from `i` on, and emit the loop over panels."""
    last = chain[-1]
    is_alone = len(chain) < 2
    lefts = [left_columns(macro, x, i, rows, is_alone) for x in chain]
    following = [*lefts[1:], lefts[0]]
    next_lefts = [next_left(macro, x, later, i, is_alone) for x, later in zip(chain, following, strict=True)]
    for n, words in enumerate(zip(next_lefts, lefts, strict=True)):
        for word, value in enumerate(itertools.chain(*words), 1):
            store_table_word(macro, table, TABLE_WORDS * n + word, value)
    tile = replace(
        macro.micro_tile(last.item, rows),
        products=len(chain),
        ldc=constant_or_zero(last.ldc),
        has_destination=destination is not None,
        all_valid=is_alone,
        prefetch_is_next_program=is_alone and moving_load(last) is not None,
    )
    call = functools.partial(call_multi_product_kernel, macro, chain, destination, table, i)
    macro.emit_panel_loop(last, i, tile.with_depths(*(x.k for x in chain)), call)
    return []


def store_table_word(macro: MacroKernel, table: str, word: int, value: VectorValue) -> None:
    macro.w.line(f"store {value.typed}, ptr {macro.w.raw(f'getelementptr i64, ptr {table}, i64 {word}')}")


def call_multi_product_kernel(
    macro: MacroKernel,
    chain: Sequence[GemmOperands],
    destination: Destination | None,
    table: str,
    i: VectorValue,
    tile: MicroTile,
    j: VectorValue,
    c: VectorValue,
) -> None:
    """Call the micro-kernel for the rows from `i` on and panel `j`, whose result in scratch is at `c`."""
    last = chain[-1]
    e = macro.e
    for n, operands in enumerate(chain):
        store_table_word(macro, table, TABLE_WORDS * n, macro.panel_address(operands, j))
    stop = macro.index(0)
    into = ""
    if destination is not None:
        place = macro.operands.destination_address(destination, macro.panel_column(last, j), i)
        pitch = e.select(destination.in_bounds, destination.matrix.pitch, macro.index(0))
        stop = e.minimum(e.sub(destination.matrix.columns.stop, i), macro.index(tile.rows))
        into = f", ptr {macro.packing.pointer_at(place)}, {pitch.typed}"
    macro.multi_product_kernels.kernel(tile)
    is_fresh = "true" if chain[0].item.beta_zero else "false"
    numbers = f"{stop.typed}, {last.ldc.typed}, i1 {is_fresh}"
    macro.w.line(f"call void @{tile.name}(ptr {table}, ptr {macro.packing.pointer_at(c)}, {numbers}{into})")


def next_left(
    macro: MacroKernel, operands: GemmOperands, following: Sequence[VectorValue], i: VectorValue, is_alone: bool
) -> Sequence[VectorValue]:
    """Address and pitch of the A to be prefetched: the following product's, or that of the next program.

    The latter pays where the following product reads what is in the cache already: the same A, or a copied window.
    """
    window = operands.item.conv_window
    load = moving_load(operands)
    if load is None or not (is_alone or window is not None):
        return following[:2]
    e = macro.e
    size = macro.index(operands.item.word_bytes)
    start = e.add(next_program_address(macro.nests.memory, load), e.mul(i, size))
    program = start, e.binary("udiv", operands.left.pitch, size)
    if window is None:
        return program
    copied = conv_window.is_copied(macro, operands)
    return [e.select(copied, x, y) for x, y in zip(program, following[:2], strict=True)]


def moving_load(operands: GemmOperands) -> Op | None:
    """The load of A in memory, if it is known where it lies in the next program."""
    a = operands.item.a
    return a.load if isinstance(a, InPlaceOperand) and address_step(Access.of(a.load)) else None


def left_columns(
    macro: MacroKernel, operands: GemmOperands, i: VectorValue, rows: int, all_valid: bool
) -> list[VectorValue]:
    """Where a register tile finds A: address, pitch in numbers, depth, and its missing rows as the table has them."""
    in_place = functools.partial(columns_in_place, macro, operands, i, rows, all_valid)
    window = operands.item.conv_window
    if window is None:
        return in_place()
    in_window = functools.partial(conv_window.window_columns, macro, operands, window, i)
    return macro.w.branch(conv_window.is_copied(macro, operands).text, [in_window, in_place])


def columns_in_place(
    macro: MacroKernel, operands: GemmOperands, i: VectorValue, rows: int, all_valid: bool
) -> list[VectorValue]:
    """`left_columns` of no window: A in place, where the micro-kernel can leave out missing rows, or a copy."""
    m = operands.left
    e = macro.e
    size = macro.index(operands.item.word_bytes)
    zero = macro.index(0)
    before = e.sub(m.columns.start, i)
    behind = e.sub(e.add(i, macro.index(rows)), m.columns.stop)
    missing = e.add(e.mul(e.maximum(before, zero), macro.index(FIRST_ROW_MISSING)), e.maximum(behind, zero))
    handled = (0,) if all_valid else (0, 1, FIRST_ROW_MISSING)
    is_handled = functools.reduce(e.or_, (e.cmp("eq", missing, macro.index(n)) for n in handled))
    has_depth = macro.packing.is_within(m.rows, zero, e.sub(operands.k, macro.index(1)))
    is_in_place = e.and_(has_depth, is_handled)
    start = e.add(m.address, e.mul(i, size))
    in_place = [start, e.binary("udiv", m.pitch, size), operands.k, missing]
    nothing = [*in_place[:2], zero, zero]

    def existing() -> list[VectorValue]:
        return macro.w.branch(is_in_place.text, [lambda: in_place, lambda: copy_columns(macro, operands, i)])

    return macro.w.branch(has_elements(macro, operands, i, rows).text, [existing, lambda: nothing])


def copy_columns(macro: MacroKernel, operands: GemmOperands, i: VectorValue) -> list[VectorValue]:
    """Copy the rows of a register tile from `i` on, one register for each step of K, with zeros for missing numbers."""
    gemm, m, e, w = operands.item, operands.left, macro.e, macro.w
    assert gemm.left_block is not None
    base = operands.buffer_bases[gemm.left_block.id]
    lanes = gemm.left_block.pitch
    size = m.dtype.itemsize
    start, stop = (e.splat(e.sub(x, i), lanes) for x in (m.columns.start, m.columns.stop))
    row = e.iota(lanes, int64)
    mask = e.and_(e.cmp("ge", row, start), e.cmp("lt", row, stop))
    first = e.add(m.address, e.mul(i, macro.index(size)))
    zeros = VectorValue("zeroinitializer", m.dtype, lanes, 0)
    bounds = macro.index(0), m.rows.start, e.minimum(m.rows.stop, operands.k), operands.k
    for (begin, end), exists in zip(itertools.pairwise(bounds), (False, True, False), strict=True):
        with w.loop(begin.text, end.text, "1") as k:
            column = zeros
            if exists:
                pointer = macro.packing.pointer_at(e.add(first, e.mul(k, m.pitch)))
                args = ("ptr", pointer), ("i32", str(size)), (mask.type, mask.text), (zeros.type, zeros.text)
                name = f"llvm.masked.load.{intrinsic_suffix(m.dtype, lanes)}.p0"
                column = e.call(name, m.dtype, lanes, w.depth, *args)
            out = macro.packing.pointer_at(e.add(base, e.mul(k, macro.index(lanes * size))))
            macro.packing.store(column, out, size)
    return [base, macro.index(lanes), operands.k, macro.index(0)]
