"""Matrix products: blocks of C by rows of A and packed panels of B, in an order that suits the caches.

Blocks of C are spread evenly, so that no thin rest is left. A block of A stays in the first-level cache while the
panels of B go by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pypto.backends.cpu.codegen.memory import scratch_dtype
from pypto.backends.cpu.codegen.nest import NestEmitter
from pypto.backends.cpu.codegen.prefetch import L1_BUDGET
from pypto.backends.cpu.gemm import amx, column_major_a
from pypto.backends.cpu.gemm.epilogue import emit_epilogue
from pypto.backends.cpu.gemm.ir import Gemm, PanelCache
from pypto.backends.cpu.gemm.micro_kernel import (
    MicroKernelEmitter,
    MicroTile,
    choose_mr,
    claim_name,
    constant_or_zero,
    row_tiles,
    side_function,
)
from pypto.backends.cpu.gemm.operands import Destination, Matrix, ValidRange
from pypto.backends.cpu.gemm.packing import PackEmitter, matrix_of
from pypto.backends.cpu.gemm.skinny import SkinnyGemm, SkinnyGemmEmitter, is_skinny
from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.loopir.ir import Buffer, LibraryOp
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Op
from pypto.ir.types import DType, int1, int32, int64
from pypto.ops.memory import Access
from pypto.passes.dot_facts import InPlaceOperand, dot_dtype

_SHALLOW_MR: Final = 4  # rows of a block that is run but seldom, or along few numbers
_SHALLOW_K: Final = 64  # so many: sums are loaded and stored as long as products are added to them
_HALF_PANEL: Final = 2  # registers of a panel of four; a narrower panel is not halved


@dataclass(frozen=True, slots=True)
class GemmOperands:
    """A dot as it is emitted: addresses of its panels and result, its left side, and how deep it goes, in words too."""

    item: Gemm
    left: Matrix
    panels: VectorValue
    result: VectorValue
    k_words: VectorValue
    k: VectorValue
    buffer_bases: dict[int, VectorValue]
    ldc: VectorValue  # bytes from row to row of the result, and of the left side
    lda: VectorValue
    destination: Destination | None = None
    bias_row_sums: str = ""  # where it stands what is too much in each row
    valid_columns: VectorValue | None = (
        None  # columns of the right side that exist, where others need not be multiplied
    )

    @property
    def stores_directly(self) -> bool:
        """Whether register kernels store the result where it goes."""
        return self.destination is not None and not self.destination.is_epilogue


class MacroKernel:
    """Emits products with the packing that they need; register kernels become functions, once for each shape."""

    def __init__(self, e: LaneEmitter, target: CpuTarget, nests: NestEmitter) -> None:
        self.e, memory = e, nests.memory
        self.w = e.w
        self.target = target
        self.matrix, self.scalar, self.interior = partial(matrix_of, memory), memory.scalar, memory.all_in_bounds
        self.epilogue_done: dict[LibraryOp, VectorValue] = {}
        self.nests = nests
        self.may_store, self.cold = True, False
        self.has_several_programs = e.const(True, int1)  # programs along the first axis
        self.filled_steps: dict[Gemm, str] = {}  # where it stands how many steps have their panels
        self.cached_keys: dict[Gemm, list[str]] = {}  # where it stands for which programs
        self.micro_kernels, self.amx_kernels = MicroKernelEmitter(e), amx.TileEmitter(e)
        self.multi_product_kernels, self.skinny_kernels = column_major_a.MultiProductEmitter(e), SkinnyGemmEmitter(e)
        self.packing = PackEmitter(e, target)

    def index(self, n: int) -> VectorValue:
        return self.e.const(n, int64)

    def emit(self, item: Gemm, base_of: dict[int, VectorValue]) -> None:
        """A dot, or one for each matrix of a stack."""
        if len(item.c.shape) < 3:
            self.emit_product(item, base_of, self.index(0))
            return
        with self.w.loop("0", str(item.c.shape[0]), "1") as i:
            self.emit_product(item, base_of, i)

    def emit_product(self, item: Gemm, base_of: dict[int, VectorValue], i: VectorValue) -> None:
        if item.a_column_major:
            parts = [self.with_panels(*self.operands_of(x, base_of, i)) for x in item.accumulation_chain]
            column_major_a.emit_products(self, parts, parts[-1].destination)
            return
        sides, right = self.operands_of(item, base_of, i)
        if right is None or not is_skinny(item, self.target):
            self.emit_block_loop(self.with_panels(sides, right))
            return
        direct = self.has_all_rows(right, sides)
        if item.panel_cache is not None:  # panels that other programs need, too, are worth their packing
            direct = self.e.and_(direct, self.e.xor(self.has_several_programs, self.e.const(True, int1)))

        def packed() -> list[VectorValue]:
            self.emit_block_loop(self.with_panels(sides, right))
            return []

        self.w.branch(direct.text, [lambda: self.emit_skinny(sides, right), packed])

    def operands_of(
        self, item: Gemm, base_of: dict[int, VectorValue], i: VectorValue
    ) -> tuple[GemmOperands, Matrix | None]:
        left = self.operand(item.a, base_of, i)
        right = self.operand(item.b_source, base_of, i) if item.b_source is not None else None
        depth, size = (
            self.packing.round_up(self.k_extent(item, left, right), item.amx_k * item.packing_factor),
            self.word_bytes(item),
        )
        panels, result = (self.stacked_matrix(x, base_of, i, size) for x in (item.b, item.c))
        down = self.index(item.c.pitch * size)
        words = self.packing.word_count(depth, max(1, item.packing_factor))
        landing = self.destination(item, item.direct_store) if item.direct_store is not None else None
        idle = item.amx_k and right is not None and (not item.beta_zero or "merged" in self.nests.function.attrs)
        across = (right.rows if item.b_transposed else right.columns).stop if right is not None and idle else None
        return GemmOperands(
            item, left, panels, result, words, depth, base_of, down, left.pitch, landing, valid_columns=across
        ), right

    def destination(self, item: Gemm, store: InPlaceOperand) -> Destination | None:
        """Where the result goes: where it is stored, if all of the tile exists; if turned, all of its columns."""
        e, there, zero, last = self.e, self.matrix(store), self.index(0), self.e.const(True, int1)
        if not self.may_store or is_skinny(item, self.target):
            self.epilogue_done[item] = e.const(False, int1)
            return None
        if item.a_column_major:
            done = self.packing.is_within(there.rows, zero, self.index(item.c.shape[-1] - 1))
            done = e.and_(done, e.cmp("eq", there.columns.start, zero))
        else:
            done = self.interior(Access.of(store.load)) or last
        if item.accumulating_loop is not None:
            index, start, stop, step = map(
                self.scalar, (item.accumulating_loop.regions[0].args[0], *item.accumulating_loop.operands[:3])
            )
            done, last = e.and_(done, e.cmp("lt", start, stop)), e.cmp("le", e.sub(stop, index), step)
        self.epilogue_done[item] = e.const(True, int1) if item.epilogue is not None else done
        return Destination(there, last if item.epilogue is not None else e.and_(done, last), item.epilogue is not None)

    def destination_address(self, landing: Destination, row: VectorValue, column: VectorValue) -> VectorValue:
        """Address of an element where the result goes; 0 where it goes elsewhere."""
        along = self.e.mul(column, self.index(landing.matrix.dtype.itemsize))
        place = self.e.add(self.e.add(landing.matrix.address, self.e.mul(row, landing.matrix.pitch)), along)
        return self.e.select(landing.in_bounds, place, self.index(0))

    def has_all_rows(self, right: Matrix, sides: GemmOperands) -> VectorValue:
        """True when all rows exist of the right side that are multiplied, from the first column on."""
        zero = self.index(0)
        rows = self.packing.is_within(right.rows, zero, self.e.sub(sides.k, self.index(1)))
        return self.e.and_(rows, self.e.cmp("eq", right.columns.start, zero))

    def with_panels(self, sides: GemmOperands, right: Matrix | None) -> GemmOperands:
        """With panels, filled where they are not yet."""
        item = sides.item
        if item.panel_cache is not None and right is not None:
            return replace(sides, panels=self.pack_once(item, item.panel_cache, right, sides))
        if right is not None:
            self.pack(item, right, sides.panels, sides.k)
        return sides

    def emit_skinny(self, sides: GemmOperands, right: Matrix) -> list[VectorValue]:
        """Few rows: the right side goes by row for row."""
        item, size = sides.item, self.word_bytes(sides.item)
        rows, lanes = item.c.shape[-2], self.target.vector_bytes // size
        a, pitch = self.left_block(sides, self.index(0), rows)
        stream = SkinnyGemm(rows, lanes, pitch, item.c.pitch, item.c.shape[-1], self.panel_dtype(item))
        self.skinny_kernels.kernel(stream)
        pointers = ", ".join(f"ptr {self.packing.pointer_at(x)}" for x in (a, right.address, sides.result))
        pitch_b = self.e.binary("udiv", right.pitch, self.index(size))
        numbers = ", ".join(f"i64 {x.text}" for x in (pitch_b, sides.k, right.columns.stop))
        self.w.line(f"call void @{stream.name}({pointers}, {numbers}, i1 {'true' if item.beta_zero else 'false'})")
        return []

    def pack(self, item: Gemm, right: Matrix, panels: VectorValue, depth: VectorValue) -> None:
        self.packing.biases_signs, self.packing.split_terms = not item.amx_k, item.split_terms
        (self.pack_transposed if item.b_transposed else self.packing.pack_panels)(
            right, item.b, panels, depth, max(1, item.packing_factor)
        )

    def pack_transposed(self, m: Matrix, target: Buffer, panels: VectorValue, depth: VectorValue, per: int) -> None:
        """Rows that become columns, by a function for each shape: many dots of a kernel often share it."""
        shape = *target.shape, target.panel, target.rows, per, int(self.packing.biases_signs), self.packing.split_terms
        name = f"turn_{m.dtype}_" + "_".join(map(str, shape))
        values = m.address, m.pitch, m.rows.start, m.rows.stop, m.columns.start, m.columns.stop, panels, depth
        if claim_name(self.w, name):
            own = [VectorValue(f"%v{n}", int64, 1, 0) for n in range(len(values))]
            source = Matrix(own[0], own[1], ValidRange(*own[2:4]), ValidRange(*own[4:6]), m.dtype)
            with side_function(self.w, f"internal void @{name}({', '.join(v.typed for v in own)}) noinline nounwind"):
                self.packing.pack_transposed(source, target, own[6], own[7], per)
        self.w.line(f"call void @{name}({', '.join(v.typed for v in values)})")

    def begin(self, items: Iterable[Gemm], begins: VectorValue, row: VectorValue) -> None:
        """As a program begins: where it is the first of all or of a row, no panels are there yet that these share."""
        for item in (item for item in items if item.panel_cache is not None):
            slot = self.filled_steps[item] = self.w.slot("i64")
            steps = self.load_slot(slot)
            first = (
                begins
                if item.panel_cache is not None and (item.panel_cache.grid_invariant or item.panel_cache.keys)
                else row
            )
            self.cached_keys[item] = [
                self.w.slot("i64") for _ in (item.panel_cache.keys if item.panel_cache is not None else ())
            ]
            self.w.line(f"store i64 {self.e.select(first, self.index(0), steps).text}, ptr {slot}")

    def pack_once(self, item: Gemm, stay: PanelCache, right: Matrix, sides: GemmOperands) -> VectorValue:
        """The panels of this step; filled, unless a program before has done so."""
        step = self.loop_step(stay.loop)
        place = self.e.minimum(step, self.index(stay.slots - 1))
        place = self.e.select(self.has_several_programs, place, self.index(0))
        size = self.index(item.b.elements // stay.slots * self.word_bytes(item))
        panels = self.e.add(sides.panels, self.e.mul(place, size))
        keys = [self.e.convert(self.scalar(v), int64) for v in stay.keys]
        filled = self.load_slot(self.filled_steps[item])
        for slot, key in zip(self.cached_keys[item], keys, strict=True):
            filled = self.e.select(self.e.cmp("eq", self.load_slot(slot), key), filled, self.index(0))
        there = self.e.cmp("lt", step, self.e.minimum(filled, self.index(stay.steps)))

        def fill() -> list[VectorValue]:
            deepest = self.index(item.op.operands[0].shape[-1])
            self.pack(item, right, panels, deepest if stay.full_depth else sides.k)
            slots, now = (self.filled_steps[item], *self.cached_keys[item]), (self.e.add(step, self.index(1)), *keys)
            for slot, v in zip(slots, now, strict=True):
                self.w.line(f"store {v.typed}, ptr {slot}")
            return []

        self.w.branch(there.text, [list, fill])
        return panels

    def load_slot(self, slot: str) -> VectorValue:
        return VectorValue(self.w.raw(f"load i64, ptr {slot}"), int64, 1, self.w.depth)

    def loop_step(self, loop: Op | None) -> VectorValue:
        """How many steps of a loop are done."""
        if loop is None:
            return self.index(0)
        own = loop.regions[0].args[0], loop.operands[0], loop.operands[2]
        index, start, by = (self.e.convert(self.scalar(v), int64) for v in own)
        return self.e.binary("sdiv", self.e.sub(index, start), by)  # both are negative where it counts down

    def operand(self, source: Buffer | InPlaceOperand, base_of: dict[int, VectorValue], i: VectorValue) -> Matrix:
        if isinstance(source, InPlaceOperand):
            return self.matrix(source)
        dtype = scratch_dtype(source)
        rows, columns = (ValidRange(self.index(0), self.index(n)) for n in source.shape[-2:])
        address = self.stacked_matrix(source, base_of, i, dtype.itemsize)
        return Matrix(address, self.index(source.pitch * dtype.itemsize), rows, columns, dtype)

    def stacked_matrix(self, buffer: Buffer, base_of: dict[int, VectorValue], i: VectorValue, size: int) -> VectorValue:
        """Address of a matrix in a stack."""
        return self.e.add(base_of[buffer.id], self.e.mul(i, self.index(buffer.rows * buffer.pitch * size)))

    def word_bytes(self, item: Gemm) -> int:
        """Bytes of what is multiplied, and of a result."""
        assert isinstance(item.c.elem, DType)
        return item.c.elem.itemsize

    def k_extent(self, item: Gemm, left: Matrix, right: Matrix | None) -> VectorValue:
        """How far along K one of the sides exists; what lies beyond is zero on both."""
        if not isinstance(item.a, InPlaceOperand) or not isinstance(item.b_source, InPlaceOperand) or right is None:
            return self.index(item.op.operands[0].shape[-1])
        ours = left.rows if item.a.transposed else left.columns
        return self.e.maximum(ours.stop, (right.columns if item.b_transposed else right.rows).stop)

    def emit_block_loop(self, sides: GemmOperands) -> None:
        """All blocks of the result, row by row."""
        item, row = sides.item, 0
        most = choose_mr(self.target, item.b.panel // self.lanes(item), isinstance(item.a, InPlaceOperand))
        most = amx.MR if item.amx_k else most
        most = min(most, _SHALLOW_MR) if self.cold or self.is_shallow(item) else most
        for rows, count in row_tiles(item.c.shape[-2], most):
            if item.amx_k:
                amx.configure(self.w, rows, item.amx_k)
            coming = -(-rows * item.b.panel // item.b.shape[-1]) if isinstance(item.a, InPlaceOperand) else 0
            with self.w.loop(str(row), self.loop_bound(sides, "rows", row + rows * count), str(rows)) as i:
                a, apart = self.left_rows(sides, i, rows)
                block = replace(
                    self.micro_tile(item, rows), prefetch_rows=min(coming, rows), has_destination=sides.stores_directly
                )
                places = a, self.prefetch_address(sides, self.e.add(i, self.index(rows))), i
                biased = item.packing_factor == 4 and not item.amx_k
                of = (
                    self.packing.row_sums(a, apart, rows, sides.k_words, self.micro_kernels.int8_row_sums)
                    if biased
                    else ""
                )
                self.emit_panel_loop(
                    sides, i, block, partial(self.multiply_panel, replace(sides, lda=apart, bias_row_sums=of), places)
                )
                emit_epilogue(self, sides, i, rows, self.index(0))
            row += rows * count
        if item.amx_k:
            amx.release(self.w)

    def is_shallow(self, item: Gemm) -> bool:
        """True where few rows are as fast as more, which would not fill the last block: that is a kernel of its own."""
        rows, depth = item.op.operands[0].shape[-2:]
        wide = isinstance(item.a, InPlaceOperand) and item.b.panel > _HALF_PANEL * self.lanes(item)
        return wide and depth <= _SHALLOW_K and rows % _SHALLOW_MR == 0

    def loop_bound(self, sides: GemmOperands, side: str, most: int, of: int = 1, some: int = 1) -> str:
        """Where rows end, or panels `of` so many columns: where the result is but stored, no further than that.

        Panels count of which `some` columns exist. Where the result is added to, rows end with those of the left side,
        and columns with those of the right one.
        """
        item, stop = sides.item, sides.valid_columns if side == "columns" else None
        if sides.destination is not None:
            stop = getattr(sides.destination.matrix, side).stop
        elif side == "rows" and isinstance(item.a, InPlaceOperand) and not item.a.transposed and not item.beta_zero:
            stop = sides.left.rows.stop
        if item.a_column_major or stop is None:
            return str(most)
        if of > 1:
            stop = self.e.binary("udiv", self.e.add(stop, self.index(of - some)), self.index(of))
        return self.e.minimum(stop, self.index(most)).text

    def multiply_panel(
        self, sides: GemmOperands, places: tuple[VectorValue, ...], block: MicroTile, j: VectorValue, c: VectorValue
    ) -> None:
        """Rows of A times a panel; those that a later block will copy are asked for."""
        (a, later, i), pitch = places, sides.left.pitch
        later = self.e.add(later, self.e.mul(self.e.mul(j, self.index(block.prefetch_rows)), pitch))
        into = (
            [self.destination_address(sides.destination, i, self.panel_column(sides, j))]
            if sides.destination and sides.stores_directly
            else []
        )
        self.call_micro_kernel(block, sides, (a, self.panel_address(sides, j), c, later, *into), pitch)
        emit_epilogue(self, sides, i, block.rows, self.panel_column(sides, j), block.vectors * block.lanes)

    def panel_column(self, sides: GemmOperands, j: VectorValue) -> VectorValue:
        """The first column of a panel."""
        return self.e.mul(j, self.index(sides.item.b.panel))

    def panel_address(self, sides: GemmOperands, j: VectorValue) -> VectorValue:
        """Address of a panel."""
        b = sides.item.b
        return self.e.add(sides.panels, self.e.mul(j, self.index(b.panel * b.rows * self.word_bytes(sides.item))))

    def lanes(self, item: Gemm) -> int:
        return self.target.vector_bytes // self.word_bytes(item)

    def micro_tile(self, item: Gemm, rows: int) -> MicroTile:
        """A block of so many rows, over a whole panel."""
        lanes, b = self.lanes(item), item.b
        far = b.rows * b.panel * self.word_bytes(item) > L1_BUDGET
        found = MicroTile(
            rows, b.panel // lanes, lanes, b.panel, self.panel_dtype(item), item.packing_factor, b_exceeds_l1=far
        )
        parted = amx.split_layout(item) if item.amx_k else found.split
        return replace(found, cold=self.cold, amx_k=item.amx_k, split=parted)

    def emit_panel_loop(
        self,
        sides: GemmOperands,
        i: VectorValue,
        block: MicroTile,
        multiply: Callable[[MicroTile, VectorValue, VectorValue], None],
    ) -> None:
        """Rows of the result, panel by panel; the last panel may be narrower, and half of a wide one may not exist."""
        item, size = sides.item, self.word_bytes(sides.item)
        out = self.e.add(sides.result, self.e.mul(i, sides.ldc))
        whole, rest = divmod(-(-item.b.shape[-1] // block.lanes), block.vectors)
        stop = wide = self.loop_bound(sides, "columns", whole, item.b.panel)
        if block.vectors > _HALF_PANEL:
            wide = self.loop_bound(sides, "columns", whole, item.b.panel, 1 + _HALF_PANEL * block.lanes)
        half = replace(block, vectors=_HALF_PANEL, cold=True)
        parts = [("0", wide, block), (wide, stop, half)]
        if rest:
            end = self.loop_bound(sides, "columns", whole + 1, item.b.panel)
            parts.append((str(whole), end, replace(block, vectors=rest)))
        for first, last, part in (x for x in parts if x[0] != x[1]):
            with self.w.loop(first, last, "1") as j:
                along = self.e.mul(j, self.index(item.b.panel * size))
                multiply(part, j, self.e.add(out, along))

    def call_micro_kernel(
        self, block: MicroTile, sides: GemmOperands, places: tuple[VectorValue, ...], pitch: VectorValue
    ) -> None:
        block = replace(block, lda=constant_or_zero(sides.lda), ldc=constant_or_zero(sides.ldc)).with_depths(
            sides.k_words
        )
        (self.amx_kernels if block.amx_k else self.micro_kernels).kernel(block)
        pointers, into = [f"ptr {self.packing.pointer_at(x)}" for x in places], ""
        if sides.destination is not None and block.has_destination:
            into = f", {pointers.pop()}, {sides.destination.matrix.pitch.typed}"
        fresh = "true" if sides.item.beta_zero else "false"
        numbers = f"i64 {pitch.text}, i64 {sides.k_words.text}, i64 {sides.ldc.text}, i1 {fresh}{into}"
        aparts = "".join(f", {self.e.mul(sides.lda, self.index(n)).typed}" for n in block.lda_multiples)
        sums = f", ptr {sides.bias_row_sums}" if sides.bias_row_sums else ""
        self.w.line(f"call void @{block.name}({', '.join(pointers)}, {numbers}{aparts}{sums})")

    def prefetch_address(self, sides: GemmOperands, row: VectorValue) -> VectorValue:
        """Address of the rows that are copied after those that are multiplied: here, or further along K."""
        m, (rows, depth) = sides.left, sides.item.op.operands[0].shape[-2:]
        along, below = (
            self.e.add(m.address, far) for far in (self.index(depth * m.dtype.itemsize), self.e.mul(row, m.pitch))
        )
        return self.e.select(self.e.cmp("lt", row, self.index(rows)), below, along)

    def left_block(self, sides: GemmOperands, i: VectorValue, rows: int) -> tuple[VectorValue, int]:
        """Address of a block of rows in scratch, and how many words they lie apart."""
        item, m = sides.item, sides.left
        if item.left_block is not None:
            base, self.packing.split_terms = sides.buffer_bases[item.left_block.id], item.split_terms
            self.packing.pack_rows(m, i, rows, item.left_block, base, sides.k)
            return base, item.left_block.pitch * scratch_dtype(item.left_block).itemsize // self.word_bytes(item)
        assert isinstance(item.a, Buffer)
        return self.e.add(m.address, self.e.mul(i, m.pitch)), item.a.pitch // max(1, item.packing_factor)

    def left_rows(self, sides: GemmOperands, i: VectorValue, rows: int) -> list[VectorValue]:
        """Address of a block of rows, and how many bytes they lie apart: where they are, if they can stay there."""
        item, m, e = sides.item, sides.left, self.e
        here = [e.add(m.address, e.mul(i, m.pitch)), m.pitch]

        def copied() -> list[VectorValue]:
            base, pitch = self.left_block(sides, i, rows)
            return [base, self.index(pitch * self.word_bytes(item))]

        if item.split_terms > 1:
            return copied()
        if not isinstance(item.a, InPlaceOperand):
            return here
        last, zero = e.sub(sides.k, self.index(1)), self.index(0)
        stays = e.cmp("eq", e.and_(sides.k, self.index(max(1, item.packing_factor) - 1)), zero)
        stays = e.and_(stays, self.packing.contains_rectangle(m, (i, zero), (e.add(i, self.index(rows - 1)), last)))
        if item.amx_k:
            row = m.dtype.itemsize * item.op.operands[0].shape[-1]
            stays = e.and_(stays, amx.can_read_left_in_place(e, m.pitch, row, item.c.shape[-1]))
        return self.w.branch(stays.text, [lambda: here, copied])

    def panel_dtype(self, item: Gemm) -> DType:
        """Type of an element of the panels."""
        return int32 if item.packing_factor else dot_dtype(item.op.operands[0].dtype)
