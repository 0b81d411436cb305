"""Memory: neighbours, gathers and single elements, in arrays and in scratch; masked where elements may not exist."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pypto.backends.cpu.codegen.split_stores import split_store
from pypto.backends.cpu.llvm.conversions import from_memory, to_memory
from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
from pypto.backends.cpu.llvm.value import VectorValue, intrinsic_suffix, memory_type, vector
from pypto.backends.cpu.loopir.index_maps import IndexMap
from pypto.backends.cpu.loopir.ir import Buffer, Stmt, item_bytes
from pypto.ir.core import Value
from pypto.ir.types import DType, PtrType, float32, int1, int64, uint8, uint16

NONTEMPORAL_ALIGN = 16  # numpy aligns its arrays to 16 bytes; four such stores fill a line before it leaves


@dataclass(slots=True)
class Chunk:
    """Where a nest stands: the index at every loop position, and the lanes that are under way.

    `lanes` is the loop position that lies along the lanes (or -1), `width` their number, `tail` how many of them exist
    when that is fewer. `masked` says that elements of structured accesses may lie outside, `nontemporal` that whole
    registers are stored past the caches. A square takes `transpose_rows` steps of the loop at `transpose_axis` in one
    go; `row_indices` are the indices of all these steps.
    """

    index: list[VectorValue]
    lanes: int
    width: int
    tail: int = 0
    masked: bool = True
    nontemporal: bool = False
    transpose_axis: int = -1
    transpose_rows: int = 0
    row_indices: tuple[VectorValue, ...] = ()

    def index_of(self, position: int | None) -> VectorValue:
        """First index along a loop position; 0 where there is none."""
        return self.index[position] if position is not None else VectorValue("0", int64, 1, 0)


def memory_dtype(elem: DType | PtrType) -> DType:
    """The integer or float that memory holds."""
    if isinstance(elem, PtrType):
        return int64
    return uint8 if elem.is_bool or (elem.is_narrow and elem.bits == 8) else uint16 if elem.is_narrow else elem


class MemoryEmitter:
    """Emits accesses through a `LaneEmitter`."""

    def __init__(self, e: LaneEmitter, scalar: Callable[[Value], VectorValue]) -> None:
        self.e = e
        self.w = e.w
        self.scalar = scalar  # a scalar of Tile IR that is already computed
        self.hoist_limits: dict[Buffer, int] = {}  # frames that reads of what the running nest writes may be hoisted to
        self.split_offsets: dict[
            str, tuple[VectorValue, VectorValue]
        ] = {}  # offsets, by what is known further out and what is not

    # --- addresses ----------------------------------------------------------------------------------------------

    def pointer(self, base: VectorValue, offset: VectorValue, elem: DType | PtrType) -> tuple[str, int]:
        """Pointer text to an element, and the frame from which on it is known."""
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
        """Σ index · stride of scalars, outer terms first, so that each part stays in the outermost frame it can."""
        products = sorted((self.product(i, s) for i, s in terms), key=lambda v: v.hoist_depth)
        return functools.reduce(self.sum, products, VectorValue("0", int64, 1, 0))

    def product(self, a: VectorValue, b: VectorValue) -> VectorValue:
        if "0" in (a.text, b.text):
            return VectorValue("0", int64, 1, 0)
        if b.text == "1":
            return a
        return b if a.text == "1" else self.e.mul(a, b)

    def sum(self, a: VectorValue, b: VectorValue) -> VectorValue:
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
        """`width` neighbours in memory form: the first `tail` of them unless that is 0, where the mask holds."""
        if width == 1 or (mask is None and not tail):
            kind = vector(memory_type(dtype), width)
            return self.w.instr(f"load {kind}, ptr {pointer}, align {align}", dtype, width, level)
        level = max(level, mask.hoist_depth if mask else 0, other.hoist_depth if other else 0)
        parts = self.per_register(pointer, dtype, width, tail, level, mask, other or self.e.const(0, dtype))
        return self.e.joined([self.load_register(*part, align, level) for part in parts])

    def load_register(
        self, pointer: str, on: VectorValue | bool, other: VectorValue, align: int, level: int
    ) -> VectorValue:
        if on is False:
            return other
        dtype, width, kind = other.dtype, other.width, other.type
        if on is True:
            return self.w.instr(f"load {kind}, ptr {pointer}, align {align}", dtype, width, level)
        args = ("ptr", pointer), ("i32", str(align)), (on.type, on.text), (kind, other.text)
        return self.e.call(f"llvm.masked.load.{intrinsic_suffix(dtype, width)}.p0", dtype, width, level, *args)

    def store_at(
        self,
        value: VectorValue,
        pointer: str,
        align: int,
        mask: VectorValue | None = None,
        tail: int = 0,
        streaming: bool = False,
    ) -> None:
        if mask is None and not tail:
            align = min(NONTEMPORAL_ALIGN, value.width * value.dtype.itemsize) if streaming else align
            for part, place in split_store(self.e, value, pointer, align):
                self.w.line(f"store {part.typed}, ptr {place}, align {align}{', !nontemporal !0' * streaming}")
            return
        parts = self.per_register(pointer, value.dtype, value.width, tail, self.w.depth, mask, value)
        for place, on, part in parts:
            if on is True:
                self.w.line(f"store {part.typed}, ptr {place}, align {align}")
            elif on is not False:
                name = f"llvm.masked.store.{intrinsic_suffix(part.dtype, part.width)}.p0"
                where = self.opaque_mask(on, part.dtype)
                args = ((part.type, part.text), ("ptr", place), ("i32", str(align)), (where.type, where.text))
                self.w.call("void", name, args)

    def opaque_mask(self, mask: VectorValue, dtype: DType) -> VectorValue:
        """The mask, such that LLVM cannot see it to be constant where it must not.

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
        """A masked access register by register: pointer, which lanes (or all, or none), and the lanes of `value`.

        LLVM fails to split a masked access when its mask turns out to be empty in one half (22.1: "Getting value from
        an unknown LocationSize"), so it never has to.
        """
        lanes = min(width, self.e.target.vector_bytes // dtype.itemsize)
        value = self.e.splat(value, width)
        parts: list[tuple[str, VectorValue | bool, VectorValue]] = []
        for start in range(0, width, lanes):
            place = self.w.raw(f"getelementptr {memory_type(dtype)}, ptr {pointer}, i64 {start}", level)
            count = min(lanes, max(0, (tail or width) - start))
            on = and_optional(
                self.e, self.e.part(mask, start, lanes), self.e.first(count, lanes) if count < lanes else None
            )
            parts.append((place, on or True if count else False, self.e.part(value, start, lanes)))
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
        dtype, width = memory_dtype(elem), addresses.width
        level = max(level, addresses.hoist_depth, mask.hoist_depth if mask else 0, other.hoist_depth if other else 0)
        pointer = self.w.raw(f"inttoptr {addresses.typed} to {vector('ptr', width)}", level)
        on = self.e.splat(mask or self.e.const(True, int1), width)
        rest = self.e.splat(other, width) if other is not None else VectorValue("zeroinitializer", dtype, width, 0)
        return self.e.gathered(pointer, dtype, dtype.itemsize, on, rest, level)

    def scatter(self, value: VectorValue, addresses: VectorValue, mask: VectorValue | None) -> None:
        width = addresses.width
        value, on = self.e.splat(value, width), self.e.splat(mask or self.e.const(True, int1), width)
        kind, name = vector("ptr", width), f"llvm.masked.scatter.{intrinsic_suffix(value.dtype, width)}.v{width}p0"
        to, align = (kind, self.w.raw(f"inttoptr {addresses.typed} to {kind}")), ("i32", str(value.dtype.itemsize))
        self.w.call("void", name, ((value.type, value.text), to, align, (on.type, on.text)))

    # --- scalars ------------------------------------------------------------------------------------------------

    def load_scalar(
        self,
        address: VectorValue,
        elem: DType | PtrType,
        mask: VectorValue | None,
        other: VectorValue | None,
        level: int,
    ) -> VectorValue:
        """One element. Where the mask is false, a harmless stack slot is read in its place."""
        dtype, level = memory_dtype(elem), max(level, address.hoist_depth, mask.hoist_depth if mask else 0)
        loaded = self.load_at(self.element_or_slot(address, mask, level), level, dtype, 1, dtype.itemsize)
        value = loaded if isinstance(elem, PtrType) else from_memory(self.e, loaded, elem)
        if mask is None:
            return value
        return self.e.select(mask, value, other if other is not None else self.e.const(0, value.dtype))

    def store_scalar(self, value: VectorValue, address: VectorValue, mask: VectorValue | None) -> None:
        pointer, held = self.element_or_slot(address, mask, self.w.depth), to_memory(self.e, value)
        self.store_at(held, pointer, held.dtype.itemsize)

    def element_or_slot(self, address: VectorValue, mask: VectorValue | None, level: int) -> str:
        """Pointer to one element, or to a stack slot where the mask is false."""
        pointer = self.w.raw(f"inttoptr i64 {address.text} to ptr", level)
        if mask is None:
            return pointer
        return self.w.raw(f"select i1 {mask.text}, ptr {pointer}, ptr {self.w.slot('i64')}", level)

    # --- scratch ------------------------------------------------------------------------------------------------

    def buffer_terms(
        self, buffer: Buffer, index: IndexMap, strides: Sequence[int], at: Chunk
    ) -> list[tuple[VectorValue, VectorValue]]:
        terms = [(at.index_of(p), self.e.const(s, int64)) for p, s in zip(index, strides, strict=True)]
        if buffer.panel and index:  # whole panels before the one that this chunk lies in
            terms[-1] = (at.index_of(index[-1]), self.e.const(buffer.rows, int64))
        return terms

    def lane_step(self, strides: Sequence[int], index: IndexMap, at: Chunk) -> int:
        """Elements between neighbouring lanes; 0 where the value is the same in all."""
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
        """A chunk of a kept tile, or of a slice of it. Scratch is padded, so that no mask is needed."""
        held = scratch_dtype(buffer)
        strides = [s * t for s, t in zip(buffer.strides, steps or (1,) * len(buffer.strides), strict=True)]
        step = self.lane_step(strides, index, at)
        start = sum(s * n for s, n in zip(buffer.strides, starts, strict=False))
        terms = [*self.buffer_terms(buffer, index, strides, at), (self.e.const(start, int64), self.e.const(1, int64))]
        level = max(self.hoist_limit(buffer), *(at.index_of(p).hoist_depth for p in index)) if index else self.w.depth
        if step in (-1, 2) and at.width > 1 and not at.tail:  # neighbours in another order: a load and a shuffle
            terms.append((self.e.const(min(0, step * (at.width - 1)), int64), self.e.const(1, int64)))
            pointer, known = self.pointer(base, self.offset(terms), held)
            span = at.width * abs(step)
            loaded = self.load_at(pointer, max(level, known), held, span, held.itemsize)
            loaded = self.e.shuffle(loaded, loaded, [*range(0, span, step)] if step > 0 else [*range(span)][::-1])
        elif step not in (0, 1) or (step and buffer.unpadded and at.tail):
            addresses = self.addresses(base, self.offset(terms), self.e.const(step, int64), at.width, held)
            loaded = self.gather(addresses, held, self.tail_mask(at), None, level)
        else:
            pointer, known = self.pointer(base, self.offset(terms), held)
            width = at.width if step else 1
            align = item_bytes(buffer.elem, buffer.in_memory_format) if starts else self.alignment(buffer, width)
            loaded = self.load_at(pointer, max(level, known), held, width, align)
        return self.from_scratch(loaded, buffer)

    def gather_scratch(
        self, buffer: Buffer, base: VectorValue, index: IndexMap, at: Chunk, where: VectorValue, axis: int
    ) -> VectorValue:
        """Elements of a kept tile at indices along an axis; an index out of range counts as the nearest."""
        held, strides, along = scratch_dtype(buffer), list(buffer.strides), buffer.strides[axis]
        size, strides[axis] = self.e.const(held.itemsize, int64), 0
        first, step = self.offset(self.buffer_terms(buffer, index, strides, at)), self.lane_step(strides, index, at)
        wide = self.e.maximum(self.e.convert(where, int64), self.e.const(0, int64))
        wide = self.e.minimum(wide, self.e.const(buffer.shape[axis] - 1, int64))
        place = self.e.mul(self.e.mul(wide, self.e.const(along, int64)), size)
        if at.width == 1:
            address = self.e.add(self.e.add(base, self.product(first, size)), place)
            level = max(address.hoist_depth, self.hoist_limit(buffer))
            loaded = self.load_at(self.element_or_slot(address, None, level), level, held, 1, 1)
        else:
            addresses = self.e.add(self.addresses(base, first, self.e.const(step, int64), at.width, held), place)
            loaded = self.gather(addresses, held, self.tail_mask(at), None, self.hoist_limit(buffer))
        return self.from_scratch(loaded, buffer)

    def hoist_limit(self, buffer: Buffer) -> int:
        """The outermost frame that a read may be hoisted to."""
        return min(self.w.depth, self.hoist_limits.get(buffer.memory, self.w.hoist_floor))

    def written_buffers(self, stmts: Iterable[Stmt], level: int = 1 << 20) -> dict[Buffer, int]:
        """What statements write, with the frame from which on it is read: without one, where the read stands."""
        return {s.buffer.memory: level for s in stmts if s.buffer is not None}

    def write_scratch(self, value: VectorValue, buffer: Buffer, base: VectorValue, index: IndexMap, at: Chunk) -> None:
        step, elem = self.lane_step(buffer.strides, index, at), scratch_dtype(buffer)
        held = to_memory(self.e, value) if value.dtype.is_bool or buffer.in_memory_format else value
        held = (self.e.splat(held, at.width) if step else held).as_dtype(elem)
        first = self.offset(self.buffer_terms(buffer, index, buffer.strides, at))
        if step > 1:
            addresses = self.addresses(base, first, self.e.const(step, int64), at.width, elem)
            return self.scatter(held, addresses, self.tail_mask(at))
        tail = at.tail if buffer.unpadded and held.width > 1 else 0
        self.store_at(held, self.pointer(base, first, elem)[0], self.alignment(buffer, held.width), tail=tail)

    def alignment(self, buffer: Buffer, width: int) -> int:
        size = item_bytes(buffer.elem, buffer.in_memory_format)
        return size if buffer.unpadded else min(64, size * width)

    def from_scratch(self, loaded: VectorValue, buffer: Buffer) -> VectorValue:
        elem = buffer.elem
        if isinstance(elem, PtrType):
            return loaded
        return from_memory(self.e, loaded, elem) if elem.is_bool or buffer.in_memory_format else loaded.as_dtype(elem)

    def tail_mask(self, at: Chunk) -> VectorValue | None:
        return self.e.first(at.tail, at.width) if at.tail else None


def and_optional(e: LaneEmitter, a: VectorValue | None, b: VectorValue | None) -> VectorValue | None:
    if a is None or b is None:
        return a if b is None else b
    return e.and_(a, b)


def and_all(e: LaneEmitter, conditions: Iterable[VectorValue | None]) -> VectorValue | None:
    result: VectorValue | None = functools.reduce(functools.partial(and_optional, e), conditions, None)
    return result


def register_dtype(elem: DType | PtrType) -> DType:
    return int64 if isinstance(elem, PtrType) else elem


def scratch_dtype(buffer: Buffer) -> DType:
    """Scratch holds what registers hold, and bools as bytes; where it is compact, what memory holds."""
    narrow = isinstance(buffer.elem, DType) and buffer.elem.is_narrow and not buffer.in_memory_format
    return float32 if narrow else memory_dtype(buffer.elem)
