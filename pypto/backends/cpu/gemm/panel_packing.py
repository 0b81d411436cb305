"""Packing of panels on demand: each product packs B before its macro-kernel, unless another program has done so.

See `packing` for the panels' layout, and `panel_reuse` for when programs share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from pypto.backends.cpu.gemm.emitted_operands import GemmOperands
from pypto.backends.cpu.gemm.ir import Gemm, PanelCache
from pypto.backends.cpu.gemm.micro_kernel import claim_name, side_function
from pypto.backends.cpu.gemm.operands import Matrix, ValidRange
from pypto.backends.cpu.gemm.packing import PackedFormat, PackEmitter
from pypto.backends.cpu.loopir.ir import Buffer
from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.llvm.value import VectorValue
from pypto.ir.core import Op, Value
from pypto.ir.types import int1, int64


def packed_format(gemm: Gemm) -> PackedFormat:
    """How the numbers of a product are packed."""
    flips_signs = gemm.packing_factor == 4 and not gemm.amx_k
    return PackedFormat(max(1, gemm.packing_factor), gemm.split_terms, flips_signs, gemm.blocking.pack_prefetch)


class PanelPacker:
    """Emits the packing of panels, and keeps account in stack slots of those that later programs find in scratch."""

    def __init__(self, e: CpuLaneEmitter, packing: PackEmitter, scalar: Callable[[Value], VectorValue]) -> None:
        self.e = e
        self.w = e.w
        self.packing = packing
        self.scalar = scalar
        self.has_several_programs = e.const(True, int1)  # along the grid's first axis
        self.filled_steps: dict[Gemm, str] = {}  # slots: how many steps of the loop have their panels
        self.cached_keys: dict[Gemm, list[str]] = {}  # slots: keys of the programs that these are for

    def index(self, n: int) -> VectorValue:
        return self.e.const(n, int64)

    def begin(
        self, gemms: Iterable[Gemm], has_several_programs: VectorValue, begins: VectorValue, begins_row: VectorValue
    ) -> None:
        """At the start of a program: forget cached panels in a thread's first one, or in the first of a grid's row."""
        self.has_several_programs = has_several_programs
        for gemm in gemms:
            cache = gemm.panel_cache
            if cache is None:
                continue
            slot = self.filled_steps[gemm] = self.w.slot("i64")
            steps = self.load_slot(slot)
            is_first = begins if cache.grid_invariant or cache.keys else begins_row
            self.cached_keys[gemm] = [self.w.slot("i64") for _ in cache.keys]
            self.w.line(f"store i64 {self.e.select(is_first, self.index(0), steps).text}, ptr {slot}")

    def with_panels(self, operands: GemmOperands, right: Matrix | None) -> GemmOperands:
        """The operands with panels that are packed: before, now, or by an earlier program."""
        gemm = operands.item
        if right is None:
            return operands
        if gemm.panel_cache is not None:
            return replace(operands, panels=self.pack_once(gemm, gemm.panel_cache, right, operands))
        self.pack(gemm, right, operands.panels, operands.k)
        return operands

    def pack_once(self, gemm: Gemm, cache: PanelCache, right: Matrix, operands: GemmOperands) -> VectorValue:
        """Address of this step's panels, which are packed unless an earlier program has done so."""
        step = self.loop_step(cache.loop)
        slot_index = self.e.minimum(step, self.index(cache.slots - 1))
        slot_index = self.e.select(self.has_several_programs, slot_index, self.index(0))
        size = self.index(gemm.b.elements // cache.slots * gemm.word_bytes)
        panels = self.e.add(operands.panels, self.e.mul(slot_index, size))
        keys = [self.e.convert(self.scalar(v), int64) for v in cache.keys]
        filled = self.load_slot(self.filled_steps[gemm])
        for slot, key in zip(self.cached_keys[gemm], keys, strict=True):
            filled = self.e.select(self.e.cmp("eq", self.load_slot(slot), key), filled, self.index(0))
        is_packed = self.e.cmp("lt", step, self.e.minimum(filled, self.index(cache.steps)))

        def fill() -> list[VectorValue]:
            full_depth = self.index(gemm.op.operands[0].shape[-1])
            self.pack(gemm, right, panels, full_depth if cache.full_depth else operands.k)
            slots = self.filled_steps[gemm], *self.cached_keys[gemm]
            values = self.e.add(step, self.index(1)), *keys
            for slot, v in zip(slots, values, strict=True):
                self.w.line(f"store {v.typed}, ptr {slot}")
            return []

        self.w.branch(is_packed.text, [list, fill])
        return panels

    def pack(self, gemm: Gemm, right: Matrix, panels: VectorValue, depth: VectorValue) -> None:
        if gemm.b_transposed:
            self.call_pack_transposed(gemm, right, gemm.b, panels, depth)
        else:
            self.packing.pack_panels(right, gemm.b, panels, depth, packed_format(gemm))

    def call_pack_transposed(
        self, gemm: Gemm, m: Matrix, target: Buffer, panels: VectorValue, depth: VectorValue
    ) -> None:
        """Call the function that packs a column-major B; there is one for each shape, as products often share it."""
        form = packed_format(gemm)
        shape = *target.shape, target.panel, target.rows, form.factor, int(not gemm.amx_k), form.terms
        name = f"turn_{m.dtype}_" + "_".join(map(str, shape))
        values = m.address, m.pitch, m.rows.start, m.rows.stop, m.columns.start, m.columns.stop, panels, depth
        if claim_name(self.w, name):
            args = [VectorValue(f"%v{n}", int64, 1, 0) for n in range(len(values))]
            source = Matrix(args[0], args[1], ValidRange(*args[2:4]), ValidRange(*args[4:6]), m.dtype)
            with side_function(self.w, f"internal void @{name}({', '.join(v.typed for v in args)}) noinline nounwind"):
                self.packing.pack_transposed(source, target, args[6], args[7], form)
        self.w.line(f"call void @{name}({', '.join(v.typed for v in values)})")

    def load_slot(self, slot: str) -> VectorValue:
        return VectorValue(self.w.raw(f"load i64, ptr {slot}"), int64, 1, self.w.depth)

    def loop_step(self, loop: Op | None) -> VectorValue:
        """How many steps of a loop are done; the division also holds for a loop that counts down."""
        if loop is None:
            return self.index(0)
        scalars = loop.regions[0].args[0], loop.operands[0], loop.operands[2]
        index, start, step = (self.e.convert(self.scalar(v), int64) for v in scalars)
        return self.e.binary("sdiv", self.e.sub(index, start), step)
