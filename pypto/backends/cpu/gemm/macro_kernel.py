"""The macro-kernel: loops over register tiles of C, which call micro-kernels with rows of A and micro-panels of B.

As in BLIS, the outer loop goes over rows of C by MR, the inner one over columns by NR. A register tile's rows of A stay
in the first-level cache while all panels of B go by. Edge tiles are spread evenly, so that none is thin.

    for i in range(0, rows, MR):          # A[i : i + MR] in place, or packed
        for j in range(0, columns, NR):   # a panel of B
            micro_kernel(A[i : i + MR], panel j, C[i : i + MR, j : j + NR])
            epilogue
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from pypto.backends.cpu.codegen.memory import scratch_dtype
from pypto.backends.cpu.codegen.nest import NestEmitter
from pypto.backends.cpu.gemm import amx, column_major_a
from pypto.backends.cpu.gemm.blocking import FACTS, SkinnyBlocking, cold_mr
from pypto.backends.cpu.gemm.emitted_operands import Bases, GemmOperands, OperandEmitter
from pypto.backends.cpu.gemm.epilogue import emit_epilogue
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.gemm.micro_kernel import MicroKernelEmitter, MicroTile, constant_or_zero, row_tiles
from pypto.backends.cpu.gemm.operands import Matrix
from pypto.backends.cpu.gemm.packing import PackEmitter
from pypto.backends.cpu.gemm.panel_packing import PanelPacker, packed_format
from pypto.backends.cpu.gemm.skinny import SkinnyGemm, SkinnyGemmEmitter, skinny_blocking
from pypto.backends.cpu.loopir.ir import Buffer
from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.llvm.value import VectorValue
from pypto.ir.types import int1, int64
from pypto.passes.analysis.dot_facts import InPlaceOperand


@dataclass(frozen=True, slots=True)
class TileRows:
    """The rows of A of one register tile, from row `i` of C on."""

    i: VectorValue
    address: VectorValue
    prefetched: VectorValue  # address of the rows that a later tile will pack


class MacroKernel:
    """Emits products: the packing that they need, the loops, and micro-kernels as functions, one for each shape."""

    def __init__(self, e: CpuLaneEmitter, target: CpuTarget, nests: NestEmitter) -> None:
        self.e = e
        self.w = e.w
        self.target = target
        self.nests = nests
        self.scalar = nests.memory.scalar
        self.cold = False
        self.packing = PackEmitter(e, target)
        self.operands = OperandEmitter(e, target, nests, self.packing)
        self.panels = PanelPacker(e, self.packing, self.scalar)
        self.micro_kernels = MicroKernelEmitter(e)
        self.amx_kernels = amx.TileEmitter(e)
        self.multi_product_kernels = column_major_a.MultiProductEmitter(e)
        self.skinny_kernels = SkinnyGemmEmitter(e)

    def index(self, n: int) -> VectorValue:
        return self.e.const(n, int64)

    def emit(self, gemm: Gemm, base_of: Bases, cold: bool, may_store: bool) -> None:
        """Emit a product, or one for each matrix of a stack. A `cold` one runs seldom: it is to compile soon.

        Where it `may_store`, C goes to its destination directly.
        """
        self.cold = cold
        if len(gemm.c.shape) < 3:
            self.emit_product(gemm, base_of, self.index(0), may_store)
            return
        with self.w.loop("0", str(gemm.c.shape[0]), "1") as i:
            self.emit_product(gemm, base_of, i, may_store)

    def emit_product(self, gemm: Gemm, base_of: Bases, i: VectorValue, may_store: bool) -> None:
        """Emit a product in the variant that suits it: column-major A, skinny, or register tiles over panels."""
        if gemm.a_column_major:
            chain = [
                self.panels.with_panels(*self.operands.emit(x, base_of, i, may_store)) for x in gemm.accumulation_chain
            ]
            column_major_a.emit_products(self, chain, chain[-1].destination)
            return
        operands, right = self.operands.emit(gemm, base_of, i, may_store)
        skinny = skinny_blocking(gemm)
        if right is None or skinny is None:
            self.emit_block_loop(self.panels.with_panels(operands, right))
            return
        reads_b_in_place = self.operands.has_all_rows(right, operands)
        if gemm.panel_cache is not None:  # panels that other programs read too are worth their packing
            is_alone = self.e.xor(self.panels.has_several_programs, self.e.const(True, int1))
            reads_b_in_place = self.e.and_(reads_b_in_place, is_alone)

        def packed() -> list[VectorValue]:
            self.emit_block_loop(self.panels.with_panels(operands, right))
            return []

        self.w.branch(reads_b_in_place.text, [lambda: self.emit_skinny(operands, right, skinny), packed])

    def emit_skinny(self, operands: GemmOperands, right: Matrix, blocking: SkinnyBlocking) -> list[VectorValue]:
        """Call the kernel for few rows, which reads B where it lies."""
        gemm = operands.item
        size = operands.item.word_bytes
        rows = gemm.c.shape[-2]
        lanes = self.target.vector_bytes // size
        a, lda = self.left_block(operands, self.index(0), rows)
        kernel = SkinnyGemm(rows, lanes, lda, gemm.c.pitch, gemm.c.shape[-1], gemm.panel_dtype, blocking)
        self.skinny_kernels.kernel(kernel)
        pointers = ", ".join(f"ptr {self.packing.pointer_at(x)}" for x in (a, right.address, operands.result))
        ldb = self.e.binary("udiv", right.pitch, self.index(size))
        numbers = ", ".join(f"i64 {x.text}" for x in (ldb, operands.k, right.columns.stop))
        self.w.line(f"call void @{kernel.name}({pointers}, {numbers}, i1 {'true' if gemm.beta_zero else 'false'})")
        return []

    # --- loops --------------------------------------------------------------------------------------------------

    def emit_block_loop(self, operands: GemmOperands) -> None:
        """The loops over register tiles: for each height of them, rows, and in these panels."""
        gemm = operands.item
        row = 0
        mr = cold_mr(gemm.blocking.mr) if self.cold else gemm.blocking.mr
        for rows, count in row_tiles(gemm.c.shape[-2], mr):
            if gemm.amx_k:
                amx.configure(self.w, rows, gemm.amx_k)
            end = row + rows * count
            with self.w.loop(str(row), self.loop_bound(operands, "rows", end), str(rows)) as i:
                self.emit_tile_row(operands, i, rows)
            row = end
        if gemm.amx_k:
            amx.release(self.w)

    def emit_tile_row(self, operands: GemmOperands, i: VectorValue, rows: int) -> None:
        """A register tile's rows times all panels."""
        gemm = operands.item
        prefetch_rows = 0
        if isinstance(gemm.a, InPlaceOperand):  # all rows of the next tile, over as many panels as there are
            prefetch_rows = min(rows, -(-rows * gemm.b.panel // gemm.b.shape[-1]))
        address, lda = self.left_rows(operands, i, rows)
        tile = replace(
            self.micro_tile(gemm, rows), prefetch_rows=prefetch_rows, has_destination=operands.stores_directly
        )
        left = TileRows(i, address, self.prefetch_address(operands, self.e.add(i, self.index(rows))))
        row_sums = ""
        if packed_format(gemm).flips_signs:
            sum_bytes = self.micro_kernels.int8_row_sums
            row_sums = self.packing.row_sums(address, lda, rows, operands.k_words, sum_bytes)
        multiply = partial(self.multiply_panel, replace(operands, lda=lda, bias_row_sums=row_sums), left)
        self.emit_panel_loop(operands, i, tile, multiply)
        emit_epilogue(self, operands, i, rows, self.index(0))

    def loop_bound(self, operands: GemmOperands, axis: str, end: int, panel: int = 1, needed: int = 1) -> str:
        """Where the loop over an axis of C ("rows" or "columns") ends: behind what exists, at `end` at the latest.

        Columns count in units of `panel`; a panel counts of which `needed` columns exist. A result that is only stored
        ends with its destination. One that is added to ends with the rows of A, or the columns of B.
        """
        gemm = operands.item
        stop = operands.valid_columns if axis == "columns" else None
        if operands.destination is not None:
            matrix = operands.destination.matrix
            stop = (matrix.rows if axis == "rows" else matrix.columns).stop
        elif axis == "rows" and isinstance(gemm.a, InPlaceOperand) and not gemm.a.transposed and not gemm.beta_zero:
            stop = operands.left.rows.stop
        if gemm.a_column_major or stop is None:
            return str(end)
        if panel > 1:
            stop = self.e.binary("udiv", self.e.add(stop, self.index(panel - needed)), self.index(panel))
        return self.e.minimum(stop, self.index(end)).text

    def emit_panel_loop(
        self,
        operands: GemmOperands,
        i: VectorValue,
        tile: MicroTile,
        multiply: Callable[[MicroTile, VectorValue, VectorValue], None],
    ) -> None:
        """The loops over panels: whole ones, one of which half the columns do not exist, and a narrower last one."""
        gemm = operands.item
        panel = operands.item.b.panel
        out = self.e.add(operands.result, self.e.mul(i, operands.ldc))
        count, remainder = divmod(-(-gemm.b.shape[-1] // tile.lanes), tile.vectors)
        stop = wide_stop = self.loop_bound(operands, "columns", count, panel)
        if tile.vectors > FACTS.half_panel:
            wide_stop = self.loop_bound(operands, "columns", count, panel, 1 + FACTS.half_panel * tile.lanes)
        half = replace(tile, vectors=FACTS.half_panel, cold=True)
        loops = [("0", wide_stop, tile), (wide_stop, stop, half)]
        if remainder:
            end = self.loop_bound(operands, "columns", count + 1, panel)
            loops.append((str(count), end, replace(tile, vectors=remainder)))
        for first, last, shape in loops:
            if first == last:
                continue
            with self.w.loop(first, last, "1") as j:
                along = self.e.mul(j, self.index(panel * gemm.word_bytes))
                multiply(shape, j, self.e.add(out, along))

    # --- register tiles -----------------------------------------------------------------------------------------

    def multiply_panel(
        self, operands: GemmOperands, left: TileRows, tile: MicroTile, j: VectorValue, c: VectorValue
    ) -> None:
        """Rows of A times panel `j`, then the epilogue; prefetches some of the rows that a later tile will pack."""
        pitch = operands.left.pitch
        rows_before = self.e.mul(j, self.index(tile.prefetch_rows))
        prefetched = self.e.add(left.prefetched, self.e.mul(rows_before, pitch))
        into = []
        if operands.destination is not None and operands.stores_directly:
            column = self.panel_column(operands, j)
            into = [self.operands.destination_address(operands.destination, left.i, column)]
        places = left.address, self.panel_address(operands, j), c, prefetched, *into
        self.call_micro_kernel(tile, operands, places, pitch)
        column = self.panel_column(operands, j)
        emit_epilogue(self, operands, left.i, tile.rows, column, tile.vectors * tile.lanes)

    def call_micro_kernel(
        self, tile: MicroTile, operands: GemmOperands, places: tuple[VectorValue, ...], pitch: VectorValue
    ) -> None:
        """Call the micro-kernel on the addresses of A, the panel, C, what is prefetched, and the destination if any."""
        tile = replace(tile, lda=constant_or_zero(operands.lda), ldc=constant_or_zero(operands.ldc))
        tile = tile.with_depths(operands.k_words)
        (self.amx_kernels if tile.amx_k else self.micro_kernels).kernel(tile)
        pointers = [f"ptr {self.packing.pointer_at(x)}" for x in places]
        into = ""
        if operands.destination is not None and tile.has_destination:
            into = f", {pointers.pop()}, {operands.destination.matrix.pitch.typed}"
        is_fresh = "true" if operands.item.beta_zero else "false"
        numbers = f"i64 {pitch.text}, i64 {operands.k_words.text}, i64 {operands.ldc.text}, i1 {is_fresh}{into}"
        multiples = "".join(f", {self.e.mul(operands.lda, self.index(n)).typed}" for n in tile.lda_multiples)
        sums = f", ptr {operands.bias_row_sums}" if operands.bias_row_sums else ""
        self.w.line(f"call void @{tile.name}({', '.join(pointers)}, {numbers}{multiples}{sums})")

    def micro_tile(self, gemm: Gemm, rows: int) -> MicroTile:
        """The shape of a micro-kernel of so many rows, over a whole panel."""
        lanes = self.lanes(gemm)
        b = gemm.b
        tile = MicroTile(rows, b.panel // lanes, lanes, b.panel, gemm.panel_dtype, gemm.packing_factor)
        return replace(
            tile,
            b_exceeds_l1=b.rows * b.panel * gemm.word_bytes > self.target.l1_budget,
            cold=self.cold,
            amx_k=gemm.amx_k,
            max_unroll=gemm.blocking.k_unroll,
            panel_prefetch=gemm.blocking.panel_prefetch,
            split=amx.split_layout(gemm) if gemm.amx_k else tile.split,
        )

    def lanes(self, gemm: Gemm) -> int:
        """Numbers, or words, in a register."""
        return self.target.vector_bytes // gemm.word_bytes

    def panel_column(self, operands: GemmOperands, j: VectorValue) -> VectorValue:
        """The first column of panel `j`."""
        return self.e.mul(j, self.index(operands.item.b.panel))

    def panel_address(self, operands: GemmOperands, j: VectorValue) -> VectorValue:
        b = operands.item.b
        return self.e.add(operands.panels, self.e.mul(j, self.index(b.panel * b.rows * operands.item.word_bytes)))

    # --- rows of A ----------------------------------------------------------------------------------------------

    def left_rows(self, operands: GemmOperands, i: VectorValue, rows: int) -> list[VectorValue]:
        """Address and pitch of a register tile's rows of A: in place if all of them exist, else packed."""
        gemm, m, e = operands.item, operands.left, self.e
        in_place = [e.add(m.address, e.mul(i, m.pitch)), m.pitch]

        def packed() -> list[VectorValue]:
            base, pitch = self.left_block(operands, i, rows)
            return [base, self.index(pitch * gemm.word_bytes)]

        if packed_format(gemm).element_bytes(m) != m.dtype.itemsize:
            return packed()
        if not isinstance(gemm.a, InPlaceOperand):
            return in_place
        last_k = e.sub(operands.k, self.index(1))
        zero = self.index(0)
        is_readable = e.cmp("eq", e.and_(operands.k, self.index(max(1, gemm.packing_factor) - 1)), zero)
        last = e.add(i, self.index(rows - 1)), last_k
        is_readable = e.and_(is_readable, self.packing.contains_rectangle(m, (i, zero), last))
        if gemm.amx_k:
            row_bytes = m.dtype.itemsize * gemm.op.operands[0].shape[-1]
            is_readable = e.and_(is_readable, amx.can_read_left_in_place(e, m.pitch, row_bytes, gemm.c.shape[-1]))
        return self.w.branch(is_readable.text, [lambda: in_place, packed])

    def left_block(self, operands: GemmOperands, i: VectorValue, rows: int) -> tuple[VectorValue, int]:
        """Address of a register tile's rows of A in scratch, packed now if need be, and their pitch in words."""
        gemm = operands.item
        m = operands.left
        block = operands.item.left_block
        if block is not None:
            base = operands.buffer_bases[block.id]
            self.packing.pack_rows(m, i, rows, block, base, operands.k, packed_format(gemm))
            return base, block.pitch * scratch_dtype(block).itemsize // gemm.word_bytes
        assert isinstance(gemm.a, Buffer)
        return self.e.add(m.address, self.e.mul(i, m.pitch)), gemm.a.pitch // max(1, gemm.packing_factor)

    def prefetch_address(self, operands: GemmOperands, row: VectorValue) -> VectorValue:
        """Address of the rows of A that are packed after those of this tile: from `row` on, or further along K."""
        m, (rows, depth) = operands.left, operands.item.op.operands[0].shape[-2:]
        down = self.e.mul(row, m.pitch)
        along = self.e.add(m.address, self.index(depth * m.dtype.itemsize))
        below = self.e.add(m.address, down)
        return self.e.select(self.e.cmp("lt", row, self.index(rows)), below, along)
