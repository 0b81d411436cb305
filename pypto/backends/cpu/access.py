"""Loads and stores of a chunk: contiguous, broadcast, strided, gathered; masked where elements may not exist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pypto.backends.cpu.convert import from_memory, to_memory
from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.lanes import Lanes, intrinsic_suffix, memory_type, vector
from pypto.backends.cpu.loopir import Buffer
from pypto.backends.cpu.pull import IndexMap
from pypto.backends.cpu.storage import item_bytes
from pypto.ir.core import Value
from pypto.ir.types import DType, PtrType, float32, int1, int8, int64, uint8, uint16
from pypto.ops.memory import Access

STREAM_ALIGN = 16  # numpy aligns its arrays to 16 bytes; four such stores fill a line before it leaves


@dataclass(slots=True)
class Chunk:
    """Where a nest stands: the index at every loop position, and the lanes that are under way.

    `lanes` is the loop position that lies along the lanes (or -1), `width` their number, `tail` how many of them exist
    when that is fewer. `masked` says that elements of structured accesses may lie outside, `streaming` that whole
    registers are stored past the caches.
    """

    index: list[Lanes]
    lanes: int
    width: int
    tail: int = 0
    masked: bool = True
    streaming: bool = False

    def at(self, position: int | None) -> Lanes:
        """First index along a loop position; 0 where there is none."""
        return self.index[position] if position is not None else Lanes("0", int64, 1, 0)


def memory_dtype(elem: DType | PtrType) -> DType:
    """The integer or float that memory holds."""
    if isinstance(elem, PtrType):
        return int64
    if elem.is_bool:
        return uint8
    return uint16 if elem.is_float and elem.bits == 16 else elem


class MemoryEmitter:
    """Emits accesses through a `LaneEmitter`."""

    def __init__(self, e: LaneEmitter, scalar: Callable[[Value], Lanes]) -> None:
        self.e = e
        self.w = e.w
        self.scalar = scalar  # a scalar of Tile IR that is already computed

    # --- addresses ----------------------------------------------------------------------------------------------

    def pointer(self, base: Lanes, offset: Lanes, elem: DType | PtrType) -> tuple[str, int]:
        """Pointer text to an element, and the frame from which on it is known."""
        level = max(base.level, self.w.base)
        memo = self.w.frames[level].memo
        if ("ptr", base.text) not in memo:
            memo["ptr", base.text] = Lanes(self.w.raw(f"inttoptr i64 {base.text} to ptr", level), int64, 1, level)
        text = memo["ptr", base.text].text
        if offset.text == "0":
            return text, level
        level = max(level, offset.level)
        return self.w.raw(f"getelementptr {memory_type(elem)}, ptr {text}, i64 {offset.text}", level), level

    def offset(self, terms: list[tuple[Lanes, Lanes]]) -> Lanes:
        """Σ index · stride of scalars, outer terms first, so that each part stays in the outermost frame it can."""
        total = Lanes("0", int64, 1, 0)
        products = [self.product(i, s) for i, s in terms]
        for term in sorted(products, key=lambda v: v.level):
            total = self.sum(total, term)
        return total

    def product(self, a: Lanes, b: Lanes) -> Lanes:
        if "0" in (a.text, b.text):
            return Lanes("0", int64, 1, 0)
        if b.text == "1":
            return a
        return b if a.text == "1" else self.e.mul(a, b)

    def sum(self, a: Lanes, b: Lanes) -> Lanes:
        if a.text == "0":
            return b
        return a if b.text == "0" else self.e.add(a, b)

    # --- plain memory -------------------------------------------------------------------------------------------

    def load_at(self, pointer: str, level: int, dtype: DType, width: int, align: int, mask: Lanes | None = None,
                other: Lanes | None = None) -> Lanes:
        """`width` neighbours in memory form."""
        kind = vector(memory_type(dtype), width)
        if mask is None or width == 1:
            return self.w.instr(f"load {kind}, ptr {pointer}, align {align}", dtype, width, level)
        rest = self.e.splat(other, width).text if other is not None else "zeroinitializer"
        level = max(level, mask.level, other.level if other is not None else 0)
        name = f"llvm.masked.load.{intrinsic_suffix(dtype, width)}.p0"
        args = (("ptr", pointer), ("i32", str(align)), (mask.type, mask.text), (kind, rest))
        return Lanes(self.w.call(kind, name, args, level), dtype, width, max(level, self.w.base))

    def store_at(self, value: Lanes, pointer: str, align: int, mask: Lanes | None = None,
                 streaming: bool = False) -> None:
        if mask is None:
            align = min(STREAM_ALIGN, value.width * value.dtype.itemsize) if streaming else align
            self.w.line(f"store {value.typed}, ptr {pointer}, align {align}{', !nontemporal !0' * streaming}")
            return
        name = f"llvm.masked.store.{intrinsic_suffix(value.dtype, value.width)}.p0"
        self.w.call("void", name, ((value.type, value.text), ("ptr", pointer), ("i32", str(align)),
            (mask.type, mask.text)))

    def addresses(self, base: Lanes, first: Lanes, step: Lanes, width: int, elem: DType | PtrType) -> Lanes:
        """Addresses of lanes that lie `step` elements apart."""
        size = self.e.const(memory_dtype(elem).itemsize, int64)
        start = self.e.add(base, self.product(first, size))
        return self.e.add(start, self.e.mul(self.e.iota(width, int64), self.product(step, size)))

    def gather(self, addresses: Lanes, elem: DType | PtrType, mask: Lanes | None, other: Lanes | None) -> Lanes:
        dtype, width = memory_dtype(elem), addresses.width
        kind, pointers = vector(memory_type(elem), width), vector("ptr", width)
        level = max(addresses.level, mask.level if mask else 0, other.level if other else 0, self.w.base)
        pointer = self.w.raw(f"inttoptr {addresses.typed} to {pointers}", level)
        on = self.e.splat(mask or self.e.const(True, int1), width)
        rest = self.e.splat(other, width).text if other is not None else "zeroinitializer"
        name = f"llvm.masked.gather.{intrinsic_suffix(dtype, width)}.v{width}p0"
        args = ((pointers, pointer), ("i32", str(dtype.itemsize)), (on.type, on.text), (kind, rest))
        return Lanes(self.w.call(kind, name, args, level), dtype, width, level)

    def scatter(self, value: Lanes, addresses: Lanes, mask: Lanes | None) -> None:
        width = addresses.width
        value, on = self.e.splat(value, width), self.e.splat(mask or self.e.const(True, int1), width)
        pointers = vector("ptr", width)
        pointer = self.w.raw(f"inttoptr {addresses.typed} to {pointers}")
        name = f"llvm.masked.scatter.{intrinsic_suffix(value.dtype, width)}.v{width}p0"
        self.w.call("void", name, ((value.type, value.text), (pointers, pointer), ("i32", str(value.dtype.itemsize)),
            (on.type, on.text)))

    # --- scalars ------------------------------------------------------------------------------------------------

    def load_scalar(self, address: Lanes, elem: DType | PtrType, mask: Lanes | None, other: Lanes | None,
            level: int) -> Lanes:
        """One element. Where the mask is false, a harmless stack slot is read in its place."""
        dtype = memory_dtype(elem)
        level = max(level, address.level, mask.level if mask else 0)
        pointer = self.w.raw(f"inttoptr i64 {address.text} to ptr", level)
        if mask is not None:
            pointer = self.w.raw(f"select i1 {mask.text}, ptr {pointer}, ptr {self.w.slot('i64')}", level)
        loaded = self.load_at(pointer, level, dtype, 1, dtype.itemsize)
        value = loaded if isinstance(elem, PtrType) else from_memory(self.e, loaded, elem)
        if mask is None:
            return value
        return self.e.select(mask, value, other if other is not None else self.e.const(0, value.dtype))

    def store_scalar(self, value: Lanes, address: Lanes, mask: Lanes | None) -> None:
        pointer = self.w.raw(f"inttoptr i64 {address.text} to ptr")
        if mask is not None:
            pointer = self.w.raw(f"select i1 {mask.text}, ptr {pointer}, ptr {self.w.slot('i64')}")
        held = to_memory(self.e, value)
        self.store_at(held, pointer, held.dtype.itemsize)

    # --- scratch ------------------------------------------------------------------------------------------------

    def buffer_terms(self, buffer: Buffer, index: IndexMap, at: Chunk) -> list[tuple[Lanes, Lanes]]:
        terms = [(at.at(p), self.e.const(s, int64)) for p, s in zip(index, buffer.strides, strict=True)]
        if buffer.panel and index:  # whole panels before the one that this chunk lies in
            terms[-1] = (at.at(index[-1]), self.e.const(buffer.rows, int64))
        return terms

    def lane_step(self, buffer: Buffer, index: IndexMap, at: Chunk) -> int:
        """Elements between neighbouring lanes; 0 where the value is the same in all."""
        return sum(s for p, s in zip(index, buffer.strides, strict=True) if p == at.lanes and at.lanes >= 0)

    def read(self, buffer: Buffer, base: Lanes, index: IndexMap, at: Chunk) -> Lanes:
        """A chunk of a kept tile. Scratch is padded, so that no mask is needed."""
        held = scratch_dtype(buffer.elem)
        step = self.lane_step(buffer, index, at)
        terms = self.buffer_terms(buffer, index, at)
        if step > 1 or (step and buffer.dense and at.tail):
            first = self.offset(terms)
            mask = self.tail_mask(at)
            loaded = self.gather(self.addresses(base, first, self.e.const(step, int64), at.width, held), held, mask,
                None)
        else:
            pointer, level = self.pointer(base, self.offset(terms), held)
            level = max(level, *(at.at(p).level for p in index)) if index else self.w.depth
            width = at.width if step else 1
            loaded = self.load_at(pointer, max(level, self.fresh(buffer)), memory_dtype(held), width,
                self.alignment(buffer, width))
        return self.from_scratch(loaded, buffer.elem)

    def fresh(self, buffer: Buffer) -> int:
        """Scratch may have been written in the frame that is open: its reads are not hoisted further."""
        return self.w.base

    def write(self, value: Lanes, buffer: Buffer, base: Lanes, index: IndexMap, at: Chunk) -> None:
        held = self.e.splat(self.to_scratch(value), at.width) if self.lane_step(buffer, index,
            at) else self.to_scratch(value)
        pointer, _ = self.pointer(base, self.offset(self.buffer_terms(buffer, index, at)), scratch_dtype(buffer.elem))
        mask = self.tail_mask(at) if buffer.dense and held.width > 1 else None
        self.store_at(held, pointer, self.alignment(buffer, held.width), mask)

    def alignment(self, buffer: Buffer, width: int) -> int:
        size = item_bytes(buffer.elem)
        return size if buffer.dense else min(64, size * width)

    def to_scratch(self, value: Lanes) -> Lanes:
        return to_memory(self.e, value) if value.dtype.is_bool else value

    def from_scratch(self, loaded: Lanes, elem: DType | PtrType) -> Lanes:
        if isinstance(elem, PtrType):
            return loaded
        return from_memory(self.e, loaded, elem) if elem.is_bool else loaded.as_dtype(elem)

    def tail_mask(self, at: Chunk) -> Lanes | None:
        return self.below(self.e.const(at.tail, int64), at.width) if at.tail else None

    def below(self, count: Lanes, width: int) -> Lanes:
        """Lanes before a count of 0 to `width`."""
        small = self.e.convert(count, int8)
        return self.e.cmp("lt", self.e.iota(width, int8), self.e.splat(small, width))

    # --- structured accesses ------------------------------------------------------------------------------------

    def exists(self, access: Access, index: IndexMap, at: Chunk) -> tuple[Lanes | None, Lanes | None]:
        """Condition on the whole chunk, and mask of its lanes; None where all exist."""
        whole: Lanes | None = None
        lanes = self.tail_mask(at)
        for d, p in enumerate(index):
            if not at.masked or self.inside(access, d):
                continue
            first = self.e.add(self.scalar(access.offsets[d]), at.at(p))
            extent = self.scalar(access.extents[d])
            if p is not None and p == at.lanes:
                part = self.lanes_inside(first, extent, at)
                lanes = part if lanes is None else self.e.and_(lanes, part)
            else:
                zero = self.e.const(0, int64)
                part = self.e.and_(self.e.cmp("ge", first, zero), self.e.cmp("lt", first, extent))
                whole = part if whole is None else self.e.and_(whole, part)
        return whole, lanes

    def inside(self, access: Access, d: int) -> bool:
        """True when constants show that a dimension lies within its extent."""
        offset, extent = self.scalar(access.offsets[d]).text, self.scalar(access.extents[d]).text
        if offset.startswith("%") or extent.startswith("%"):
            return False
        return int(offset) >= 0 and int(offset) + access.shape[d] <= int(extent)

    def outside(self, access: Access) -> bool:
        """True when constants show that some elements never exist."""
        known = [(self.scalar(o).text, self.scalar(x).text, n) for o, x,
            n in zip(access.offsets, access.extents, access.shape, strict=True)]
        return any("%" not in o + x and not 0 <= int(o) <= int(x) - n for o, x, n in known)

    def lanes_inside(self, first: Lanes, extent: Lanes, at: Chunk) -> Lanes:
        zero, most = self.e.const(0, int64), self.e.const(at.width, int64)
        limit = self.e.minimum(self.e.maximum(self.e.sub(extent, first), zero), most)
        skipped = self.e.minimum(self.e.maximum(self.e.neg(first), zero), most)
        before = self.e.xor(self.below(skipped, at.width), self.e.const(True, int1))
        return self.e.and_(self.below(limit, at.width), before)

    def interior(self, access: Access) -> Lanes | None:
        """Condition under which every element exists; None when that is known."""
        result: Lanes | None = None
        for d, size in enumerate(access.shape):
            if self.inside(access, d):
                continue
            offset, extent = self.scalar(access.offsets[d]), self.scalar(access.extents[d])
            fits = self.e.and_(self.e.cmp("ge", offset, self.e.const(0, int64)),
                               self.e.cmp("le", offset, self.e.sub(extent, self.e.const(size, int64))))
            result = fits if result is None else self.e.and_(result, fits)
        return result

    def place_of(self, access: Access, base: Lanes, index: IndexMap, at: Chunk) -> tuple[Lanes, Lanes]:
        """Offset of the chunk's first element from the base, and the stride along the lanes."""
        strides = [self.scalar(s) for s in access.strides]
        terms = [(self.scalar(o), s) for o, s in zip(access.offsets, strides, strict=True)]
        terms += [(at.at(p), s) for p, s in zip(index, strides, strict=True) if p is not None]
        step = next((s for p, s in zip(index, strides, strict=True) if p is not None and p == at.lanes),
            Lanes("0", int64, 1, 0))
        return self.offset(terms), step

    def load_tile(self, access: Access, elem: DType, base: Lanes, index: IndexMap, at: Chunk, mask: Lanes | None,
                  other: Lanes | None) -> Lanes:
        whole, lanes = self.exists(access, index, at)
        first, step = self.place_of(access, base, index, at)
        dtype = memory_dtype(elem)
        if at.width == 1 or self.is_uniform(base, index, at, step, mask):
            address = self.e.add(base, self.product(first, self.e.const(dtype.itemsize, int64)))
            return self.load_scalar(address, elem, both(self.e, whole, mask), other, self.w.base)
        on = both(self.e, both(self.e, whole, lanes), mask)
        on = self.e.splat(on, at.width) if on is not None else None
        rest = to_memory(self.e, other) if other is not None else None
        if step.text == "1" and base.width == 1:
            pointer, level = self.pointer(base, first, elem)
            loaded = self.load_at(pointer, max(level, self.w.base), dtype, at.width, dtype.itemsize, on, rest)
        else:
            loaded = self.gather(self.addresses(base, first, step, at.width, elem), elem, on, rest)
        return from_memory(self.e, loaded, elem)

    def is_uniform(self, base: Lanes, index: IndexMap, at: Chunk, step: Lanes, mask: Lanes | None) -> bool:
        """True when all lanes load one element; a mask that only cuts the tail does not matter then."""
        if base.width > 1 or (mask is not None and mask.width > 1):
            return False
        return at.lanes not in index or (step.text == "0" and not at.masked)

    def store_tile(self, access: Access, elem: DType, base: Lanes, index: IndexMap, at: Chunk, value: Lanes,
            mask: Lanes | None) -> None:
        whole, lanes = self.exists(access, index, at)
        first, step = self.place_of(access, base, index, at)
        on = both(self.e, both(self.e, whole, lanes), mask)
        held = self.e.splat(to_memory(self.e, value), at.width)
        if at.width == 1:
            address = self.e.add(base, self.product(first, self.e.const(held.dtype.itemsize, int64)))
            self.store_scalar(value, address, on)
        elif step.text == "1" and base.width == 1:
            pointer, _ = self.pointer(base, first, elem)
            on = self.e.splat(on, at.width) if on is not None else None
            self.store_at(held, pointer, held.dtype.itemsize, on, at.streaming)
        else:
            self.scatter(held, self.addresses(base, first, step, at.width, elem), on)


def both(e: LaneEmitter, a: Lanes | None, b: Lanes | None) -> Lanes | None:
    if a is None or b is None:
        return a if b is None else b
    return e.and_(a, b)


def scratch_dtype(elem: DType | PtrType) -> DType:
    """Scratch holds what registers hold, and bools as bytes."""
    if isinstance(elem, PtrType):
        return int64
    if elem.is_bool:
        return uint8
    return float32 if elem.is_float and elem.bits == 16 else elem
