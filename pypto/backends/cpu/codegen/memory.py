"""Loads and stores of lanes: contiguous, gathered or scattered, and of single elements, in arrays and in scratch.

Masked accesses touch valid elements only. Addresses are sums of products that are hoisted term by term: what depends on
outer loops alone is computed outside (strength reduction is left to LLVM).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pypto.backends.cpu.codegen.split_stores import split_store
from pypto.backends.cpu.loopir.index_maps import IndexMap
from pypto.backends.cpu.loopir.ir import Buffer, Stmt, item_bytes
from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.llvm.conversions import from_memory, to_memory
from pypto.backends.llvm.value import VectorValue, intrinsic_suffix, memory_type, vector
from pypto.ir.core import Value
from pypto.ir.types import DType, PtrType, float32, int1, int64, uint8, uint16

NONTEMPORAL_ALIGN = 16  # numpy aligns its arrays to 16 bytes; four such stores fill a line


@dataclass(slots=True)
class Chunk:
    """The position of a nest while it is emitted: the loop indices, and the lanes that are computed at once.

    A chunk of several rows (see `register_transpose`) covers `transpose_rows` steps of the loop at `transpose_axis`.
    """

    index: list[VectorValue]  # by loop position
    lanes: int  # loop position along the lanes, or -1
    width: int  # number of lanes
    tail: int = 0  # valid lanes of a partial chunk; 0 for a full one
    masked: bool = True  # structured accesses may be out of bounds
    nontemporal: bool = False  # stores bypass the caches
    transpose_axis: int = -1
    transpose_rows: int = 0
    row_indices: tuple[VectorValue, ...] = ()  # indices of all rows along the transpose axis

    def index_of(self, position: int | None) -> VectorValue:
        """First index along a loop position; 0 where there is none."""
        return self.index[position] if position is not None else VectorValue("0", int64, 1, 0)


def memory_dtype(elem: DType | PtrType) -> DType:
    """The integer or float type of an element in memory."""
    if isinstance(elem, PtrType):
        return int64
    if elem.is_bool or (elem.is_narrow and elem.bits == 8):
        return uint8
    return uint16 if elem.is_narrow else elem


class MemoryEmitter:
    """Emits accesses through a `CpuLaneEmitter`."""

    def __init__(self, e: CpuLaneEmitter, scalar: Callable[[Value], VectorValue]) -> None:
        self.e = e
        self.w = e.w
        self.scalar = scalar  # the value of a scalar of Tile IR
        self.hoist_limits: dict[Buffer, int] = {}  # outermost frames for reads of buffers that the nest writes
        # Sums by name: the loop-invariant part, and the part that is not.
        self.split_offsets: dict[str, tuple[VectorValue, VectorValue]] = {}

    # --- addresses ----------------------------------------------------------------------------------------------

    def pointer(self, base: VectorValue, offset: VectorValue, elem: DType | PtrType) -> tuple[str, int]:
        """A pointer to an element, and the frame that it is hoisted to."""
        level = max(base.hoist_depth, self.w.hoist_floor)
        text = self.w.raw(f"inttoptr i64 {base.text} to ptr", level)
        if offset.text == "0":
            return text, level
        if offset.text in self.split_offsets:
            outer, offset = self.split_offsets[offset.text]
            text, level = self.pointer(base, outer, elem)
        level = max(level, offset.hoist_depth)
        return self.w.raw(f"getelementptr {memory_type(elem)}, ptr {text}, i64 {offset.text}", level), level

    def offset(self, terms: list[tuple[VectorValue, VectorValue]]) -> VectorValue:
        """The sum of index times stride, outer loops first, so that each partial sum is hoisted as far as it can be."""
        products = sorted((self.product(i, s) for i, s in terms), key=lambda v: v.hoist_depth)
        return functools.reduce(self.sum, products, VectorValue("0", int64, 1, 0))

    def product(self, a: VectorValue, b: VectorValue) -> VectorValue:
        """The product of scalars; trivial ones are folded."""
        if "0" in (a.text, b.text):
            return VectorValue("0", int64, 1, 0)
        if b.text == "1":
            return a
        return b if a.text == "1" else self.e.mul(a, b)

    def sum(self, a: VectorValue, b: VectorValue) -> VectorValue:
        """The sum of scalars; trivial ones are folded, and the loop-invariant part is recorded for `pointer`."""
        total = b if a.text == "0" else a if b.text == "0" else self.e.add(a, b)
        if a.text != "0" and a.hoist_depth < b.hoist_depth:
            self.split_offsets[total.text] = (a, b)
        return total

    # --- plain memory -------------------------------------------------------------------------------------------

    def load_at(
        self,
        pointer: str,
        level: int,
        dtype: DType,
        width: int,
        align: int,
        mask: VectorValue | None = None,
        other: VectorValue | None = None,
        tail: int = 0,
    ) -> VectorValue:
        """Load `width` contiguous lanes, in memory format: those in the mask, and of these the first `tail` unless that
        is 0.
        """
        if width == 1 or (mask is None and not tail):
            kind = vector(memory_type(dtype), width)
            return self.w.instr(f"load {kind}, ptr {pointer}, align {align}", dtype, width, level)
        level = max(level, mask.hoist_depth if mask else 0, other.hoist_depth if other else 0)
        parts = self.per_register(pointer, dtype, width, tail, level, mask, other or self.e.const(0, dtype))
        return self.e.joined([self.load_register(*part, align, level) for part in parts])

    def load_register(
        self, pointer: str, mask: VectorValue | bool, other: VectorValue, align: int, level: int
    ) -> VectorValue:
        """Load the lanes of one register; the others get `other`."""
        if mask is False:
            return other
        if mask is True:
            return self.w.instr(f"load {other.type}, ptr {pointer}, align {align}", other.dtype, other.width, level)
        name = f"llvm.masked.load.{intrinsic_suffix(other.dtype, other.width)}.p0"
        args = ("ptr", pointer), ("i32", str(align)), (mask.type, mask.text), (other.type, other.text)
        return self.e.call(name, other.dtype, other.width, level, *args)

    def store_at(
        self,
        value: VectorValue,
        pointer: str,
        align: int,
        mask: VectorValue | None = None,
        tail: int = 0,
        streaming: bool = False,
    ) -> None:
        """Store contiguous lanes: those in the mask, and of these the first `tail` unless that is 0."""
        if mask is None and not tail:
            align = min(NONTEMPORAL_ALIGN, value.width * value.dtype.itemsize) if streaming else align
            for part, address in split_store(self.e, value, pointer, align):
                self.w.line(f"store {part.typed}, ptr {address}, align {align}{', !nontemporal !0' * streaming}")
            return
        parts = self.per_register(pointer, value.dtype, value.width, tail, self.w.depth, mask, value)
        for address, lanes, part in parts:
            if lanes is True:
                self.w.line(f"store {part.typed}, ptr {address}, align {align}")
            elif lanes is not False:
                name = f"llvm.masked.store.{intrinsic_suffix(part.dtype, part.width)}.p0"
                opaque = self.opaque_mask(lanes, part.dtype)
                args = ((part.type, part.text), ("ptr", address), ("i32", str(align)), (opaque.type, opaque.text))
                self.w.call("void", name, args)

    def opaque_mask(self, mask: VectorValue, dtype: DType) -> VectorValue:
        """The mask, hidden from LLVM's constant folding where that miscompiles.

        LLVM 22.1 turns a masked store of one known lane that narrows its integers (AVX-512) into a store of the wide
        integer, over the neighbours too.
        """
        if self.e.target.vector_bytes < 64 or not dtype.is_int or dtype.itemsize == 8:
            return mask
        return self.e.and_(mask, self.e.hidden(self.e.const(True, int1)))

    def per_register(
        self,
        pointer: str,
        dtype: DType,
        width: int,
        tail: int,
        level: int,
        mask: VectorValue | None,
        value: VectorValue,
    ) -> list[tuple[str, VectorValue | bool, VectorValue]]:
        """Split a masked access into registers: pointer, mask (or True for all, False for no lanes), and lanes of
        `value`.

        LLVM 22.1 fails to split a masked access whose mask is empty in one half ("Getting value from an unknown
        LocationSize"), so it never has to.
        """
        lanes = min(width, self.e.target.vector_bytes // dtype.itemsize)
        value = self.e.splat(value, width)
        parts: list[tuple[str, VectorValue | bool, VectorValue]] = []
        for start in range(0, width, lanes):
            address = self.w.raw(f"getelementptr {memory_type(dtype)}, ptr {pointer}, i64 {start}", level)
            count = min(lanes, max(0, (tail or width) - start))
            part_mask = self.e.part(mask, start, lanes)
            valid = and_optional(self.e, part_mask, self.e.first(count, lanes) if count < lanes else None)
            parts.append((address, valid or True if count else False, self.e.part(value, start, lanes)))
        return parts

    def addresses(
        self, base: VectorValue, first: VectorValue, step: VectorValue, width: int, elem: DType | PtrType
    ) -> VectorValue:
        """Addresses of lanes that lie `step` elements apart."""
        size = self.e.const(memory_dtype(elem).itemsize, int64)
        start = self.e.add(base, self.product(first, size))
        return self.e.add(start, self.e.mul(self.e.iota(width, int64), self.product(step, size)))

    def gather(
        self,
        addresses: VectorValue,
        elem: DType | PtrType,
        mask: VectorValue | None,
        other: VectorValue | None,
        level: int,
    ) -> VectorValue:
        """Load lanes from addresses."""
        dtype = memory_dtype(elem)
        width = addresses.width
        level = max(level, addresses.hoist_depth, mask.hoist_depth if mask else 0, other.hoist_depth if other else 0)
        pointer = self.w.raw(f"inttoptr {addresses.typed} to {vector('ptr', width)}", level)
        mask = self.e.splat(mask or self.e.const(True, int1), width)
        other = self.e.splat(other, width) if other is not None else VectorValue("zeroinitializer", dtype, width, 0)
        return self.e.gathered(pointer, dtype, dtype.itemsize, mask, other, level)

    def scatter(self, value: VectorValue, addresses: VectorValue, mask: VectorValue | None) -> None:
        """Store lanes to addresses."""
        width = addresses.width
        value = self.e.splat(value, width)
        mask = self.e.splat(mask or self.e.const(True, int1), width)
        kind = vector("ptr", width)
        name = f"llvm.masked.scatter.{intrinsic_suffix(value.dtype, width)}.v{width}p0"
        pointers = self.w.raw(f"inttoptr {addresses.typed} to {kind}")
        align = ("i32", str(value.dtype.itemsize))
        self.w.call("void", name, ((value.type, value.text), (kind, pointers), align, (mask.type, mask.text)))

    # --- scalars ------------------------------------------------------------------------------------------------

    def load_scalar(
        self,
        address: VectorValue,
        elem: DType | PtrType,
        mask: VectorValue | None,
        other: VectorValue | None,
        level: int,
    ) -> VectorValue:
        """Load one element. Where the mask is false, a stack slot is read and the result is `other`."""
        dtype = memory_dtype(elem)
        level = max(level, address.hoist_depth, mask.hoist_depth if mask else 0)
        loaded = self.load_at(self.element_or_slot(address, mask, level), level, dtype, 1, dtype.itemsize)
        value = loaded if isinstance(elem, PtrType) else from_memory(self.e, loaded, elem)
        if mask is None:
            return value
        return self.e.select(mask, value, other if other is not None else self.e.const(0, value.dtype))

    def store_scalar(self, value: VectorValue, address: VectorValue, mask: VectorValue | None) -> None:
        """Store one element, to a stack slot where the mask is false."""
        pointer = self.element_or_slot(address, mask, self.w.depth)
        stored = to_memory(self.e, value)
        self.store_at(stored, pointer, stored.dtype.itemsize)

    def element_or_slot(self, address: VectorValue, mask: VectorValue | None, level: int) -> str:
        """A pointer to one element, or to a stack slot where the mask is false."""
        pointer = self.w.raw(f"inttoptr i64 {address.text} to ptr", level)
        if mask is None:
            return pointer
        return self.w.raw(f"select i1 {mask.text}, ptr {pointer}, ptr {self.w.slot('i64')}", level)

    # --- scratch ------------------------------------------------------------------------------------------------

    def buffer_terms(
        self, buffer: Buffer, index: IndexMap, strides: Sequence[int], at: Chunk
    ) -> list[tuple[VectorValue, VectorValue]]:
        """The terms of an offset in a buffer, for `offset`."""
        terms = [(at.index_of(p), self.e.const(s, int64)) for p, s in zip(index, strides, strict=True)]
        if buffer.panel and index:  # the panels before that of this chunk
            terms[-1] = (at.index_of(index[-1]), self.e.const(buffer.rows, int64))
        return terms

    def lane_step(self, strides: Sequence[int], index: IndexMap, at: Chunk) -> int:
        """Elements between neighbouring lanes; 0 where all lanes read one element."""
        return sum(s for p, s in zip(index, strides, strict=True) if p == at.lanes and at.lanes >= 0)

    def read_scratch(
        self,
        buffer: Buffer,
        base: VectorValue,
        index: IndexMap,
        at: Chunk,
        starts: Sequence[int] = (),
        steps: Sequence[int] = (),
    ) -> VectorValue:
        """Read a chunk of a buffer, or of a slice of it. Rows are padded, so that no mask is needed."""
        dtype = scratch_dtype(buffer)
        strides = [s * t for s, t in zip(buffer.strides, steps or (1,) * len(buffer.strides), strict=True)]
        step = self.lane_step(strides, index, at)
        start = sum(s * n for s, n in zip(buffer.strides, starts, strict=False))
        terms = [*self.buffer_terms(buffer, index, strides, at), (self.e.const(start, int64), self.e.const(1, int64))]
        level = max(self.hoist_limit(buffer), *(at.index_of(p).hoist_depth for p in index)) if index else self.w.depth
        if step in (-1, 2) and at.width > 1 and not at.tail:  # a load of the span, and a shuffle
            terms.append((self.e.const(min(0, step * (at.width - 1)), int64), self.e.const(1, int64)))
            pointer, pointer_level = self.pointer(base, self.offset(terms), dtype)
            span = at.width * abs(step)
            loaded = self.load_at(pointer, max(level, pointer_level), dtype, span, dtype.itemsize)
            loaded = self.e.shuffle(loaded, loaded, [*range(0, span, step)] if step > 0 else [*range(span)][::-1])
        elif step not in (0, 1) or (step and buffer.unpadded and at.tail):
            addresses = self.addresses(base, self.offset(terms), self.e.const(step, int64), at.width, dtype)
            loaded = self.gather(addresses, dtype, self.tail_mask(at), None, level)
        else:
            pointer, pointer_level = self.pointer(base, self.offset(terms), dtype)
            width = at.width if step else 1
            align = item_bytes(buffer.elem, buffer.in_memory_format) if starts else self.alignment(buffer, width)
            loaded = self.load_at(pointer, max(level, pointer_level), dtype, width, align)
        return self.from_scratch(loaded, buffer)

    def gather_scratch(
        self, buffer: Buffer, base: VectorValue, index: IndexMap, at: Chunk, where: VectorValue, axis: int
    ) -> VectorValue:
        """Read elements of a buffer at indices along an axis; an index out of range is clamped."""
        dtype = scratch_dtype(buffer)
        size = self.e.const(dtype.itemsize, int64)
        strides = list(buffer.strides)
        stride = self.e.const(strides[axis], int64)
        strides[axis] = 0
        first = self.offset(self.buffer_terms(buffer, index, strides, at))
        step = self.lane_step(strides, index, at)
        picked = self.e.maximum(self.e.convert(where, int64), self.e.const(0, int64))
        picked = self.e.minimum(picked, self.e.const(buffer.shape[axis] - 1, int64))
        bytes_along = self.e.mul(self.e.mul(picked, stride), size)
        if at.width == 1:
            address = self.e.add(self.e.add(base, self.product(first, size)), bytes_along)
            level = max(address.hoist_depth, self.hoist_limit(buffer))
            loaded = self.load_at(self.element_or_slot(address, None, level), level, dtype, 1, 1)
        else:
            addresses = self.e.add(self.addresses(base, first, self.e.const(step, int64), at.width, dtype), bytes_along)
            loaded = self.gather(addresses, dtype, self.tail_mask(at), None, self.hoist_limit(buffer))
        return self.from_scratch(loaded, buffer)

    def hoist_limit(self, buffer: Buffer) -> int:
        """The outermost frame that a read of a buffer may be hoisted to."""
        return min(self.w.depth, self.hoist_limits.get(buffer.memory, self.w.hoist_floor))

    def written_buffers(self, stmts: Iterable[Stmt], level: int = 1 << 20) -> dict[Buffer, int]:
        """The buffers that statements write, with the frame to which their reads may be hoisted.

        The default is the frame of the read.
        """
        return {s.buffer.memory: level for s in stmts if s.buffer is not None}

    def write_scratch(self, value: VectorValue, buffer: Buffer, base: VectorValue, index: IndexMap, at: Chunk) -> None:
        """Write a chunk of a buffer."""
        step = self.lane_step(buffer.strides, index, at)
        dtype = scratch_dtype(buffer)
        stored = to_memory(self.e, value) if value.dtype.is_bool or buffer.in_memory_format else value
        stored = (self.e.splat(stored, at.width) if step else stored).as_dtype(dtype)
        first = self.offset(self.buffer_terms(buffer, index, buffer.strides, at))
        if step > 1:
            addresses = self.addresses(base, first, self.e.const(step, int64), at.width, dtype)
            return self.scatter(stored, addresses, self.tail_mask(at))
        tail = at.tail if buffer.unpadded and stored.width > 1 else 0
        self.store_at(stored, self.pointer(base, first, dtype)[0], self.alignment(buffer, stored.width), tail=tail)

    def alignment(self, buffer: Buffer, width: int) -> int:
        """The alignment of a chunk in a buffer."""
        size = item_bytes(buffer.elem, buffer.in_memory_format)
        return size if buffer.unpadded else min(64, size * width)

    def from_scratch(self, loaded: VectorValue, buffer: Buffer) -> VectorValue:
        """Lanes as registers hold them, from lanes as scratch holds them."""
        elem = buffer.elem
        if isinstance(elem, PtrType):
            return loaded
        return from_memory(self.e, loaded, elem) if elem.is_bool or buffer.in_memory_format else loaded.as_dtype(elem)

    def tail_mask(self, at: Chunk) -> VectorValue | None:
        """The mask of the valid lanes of a partial chunk; None for a full one."""
        return self.e.first(at.tail, at.width) if at.tail else None


def and_optional(e: CpuLaneEmitter, a: VectorValue | None, b: VectorValue | None) -> VectorValue | None:
    """The conjunction of two conditions, of which None is true."""
    if a is None or b is None:
        return a if b is None else b
    return e.and_(a, b)


def and_all(e: CpuLaneEmitter, conditions: Iterable[VectorValue | None]) -> VectorValue | None:
    """The conjunction of conditions, of which None is true."""
    result: VectorValue | None = functools.reduce(functools.partial(and_optional, e), conditions, None)
    return result


def register_dtype(elem: DType | PtrType) -> DType:
    """The type of an element in registers."""
    return int64 if isinstance(elem, PtrType) else elem


def scratch_dtype(buffer: Buffer) -> DType:
    """The type of an element in scratch: as in registers, with bools as bytes; or as in memory."""
    narrow = isinstance(buffer.elem, DType) and buffer.elem.is_narrow and not buffer.in_memory_format
    return float32 if narrow else memory_dtype(buffer.elem)
