"""Structured accesses of a chunk: contiguous, broadcast, strided or through tiles of pointers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from pypto.backends.cpu.convert import from_memory, to_memory
from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.memory import LONG_ROW, STREAM_ALIGN, Chunk, MemoryEmitter, both, memory_dtype
from pypto.backends.cpu.operands import Direct
from pypto.backends.cpu.packing import Matrix, Span
from pypto.backends.cpu.prefetch import LINE, moves
from pypto.backends.cpu.pull import IndexMap, is_tile
from pypto.ir.types import DType, int1, int8, int64
from pypto.ops.memory import Access
from pypto.passes.pattern import constant_of


@dataclass(frozen=True, slots=True)
class Existence:
    """Which elements of a chunk exist: a condition on all, a mask of lanes, and whether any does. None is true."""

    whole: Lanes | None
    lanes: Lanes | None
    some: Lanes | None


Place = tuple[Lanes, Lanes, int]  # base, offset of the first element, stride along the lanes
_STEPS = ("-1", "2", "4")  # strides that are worth more than a gather


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbours in memory that hold some lanes of a chunk a stride apart; `first` is the offset of the lowest."""

    first: Lanes
    start: int
    lanes: int
    step: int

    @property
    def size(self) -> int:
        return self.lanes * abs(self.step)

    @property
    def picks(self) -> list[int]:
        """Place in the span by lane."""
        return [n * self.step if self.step > 0 else (self.lanes - 1 - n) * -self.step for n in range(self.lanes)]

    @property
    def sources(self) -> list[int]:
        """Lane by place in the span, or -1."""
        lanes = {place: lane for lane, place in enumerate(self.picks)}
        return [lanes.get(place, -1) for place in range(self.size)]


class AccessEmitter(MemoryEmitter):
    """Loads and stores under their `Access`."""

    def existence(self, access: Access, index: IndexMap, at: Chunk) -> Existence:
        """What the extents say of a chunk; its tail is known otherwise."""
        whole = lanes = some = cast(Lanes | None, None)
        for d, p in enumerate(index):
            if not at.masked or self.known(access, d):
                continue
            first = self.e.add(self.scalar(access.offsets[d]), at.at(p))
            extent = self.scalar(access.extents[d])
            if p is not None and p == at.lanes:
                lanes = both(self.e, lanes, self.lanes_inside(first, extent, at))
                reached = self.e.cmp("gt", first, self.e.const(-at.width, int64))
                some = both(self.e, some, self.e.and_(reached, self.e.cmp("lt", first, extent)))
            else:
                zero = self.e.const(0, int64)
                whole = both(self.e, whole, self.e.and_(self.e.cmp("ge", first, zero), self.e.cmp("lt", first, extent)))
        return Existence(whole, lanes, both(self.e, whole, some))

    def reachable(self, pointer: str, some: Lanes | None, level: int) -> str:
        """The pointer, or one to harmless memory when no lane exists.

        A masked access to a page that is not there takes the processor hundreds of cycles, even with an empty mask.
        """
        if some is None:
            return pointer
        return self.w.raw(f"select i1 {some.text}, ptr {pointer}, ptr {self.w.harmless()}", level)

    def known(self, access: Access, d: int) -> bool | None:
        """Whether a dimension lies within its extent, where constants tell."""
        offset, extent = self.scalar(access.offsets[d]).text, self.scalar(access.extents[d]).text
        return None if "%" in offset + extent else 0 <= int(offset) <= int(extent) - access.shape[d]

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
            if self.known(access, d):
                continue
            offset, extent = self.scalar(access.offsets[d]), self.scalar(access.extents[d])
            fits = self.e.and_(self.e.cmp("ge", offset, self.e.const(0, int64)),
                               self.e.cmp("le", offset, self.e.sub(extent, self.e.const(size, int64))))
            result = both(self.e, result, fits)
        return result

    def streamable(self, access: Access, programs: Lanes) -> Lanes | None:
        """Condition under which a store that all programs make goes past the caches; None where it never can."""
        assert access.value is not None
        size, strides = access.value.dtype.itemsize, [self.scalar(s) for s in access.strides]
        if never_streams(access):
            return None
        start = self.offset(list(zip(map(self.scalar, access.offsets), strides, strict=True)))
        bits = self.e.add(self.scalar(access.base), self.e.mul(start, self.e.const(size, int64)))
        for stride in strides[:-1]:
            bits = self.e.or_(bits, self.e.mul(stride, self.e.const(size, int64)))
        odd = self.e.and_(bits, self.e.const(stream_alignment(access) - 1, int64))
        most = self.e.target.last_level_bytes // (math.prod(access.shape) * size)
        many = self.e.cmp("gt", programs, self.e.const(most, int64))
        return self.e.and_(many, self.e.cmp("eq", odd, self.e.const(0, int64)))

    def place_of(self, access: Access, base: Lanes, index: IndexMap, at: Chunk) -> tuple[Lanes, Lanes]:
        """Offset of the chunk's first element from the base, and the stride along the lanes."""
        strides = [self.scalar(s) for s in access.strides]
        terms = [(self.scalar(o), s) for o, s in zip(access.offsets, strides, strict=True)]
        terms += [(at.at(p), s) for p, s in zip(index, strides, strict=True) if p is not None]
        along = (s for p, s in zip(index, strides, strict=True) if p is not None and p == at.lanes)
        return self.offset(terms), next(along, self.e.const(0, int64))

    def matrix(self, source: Direct) -> Matrix:
        """Where a dot reads an operand of its own."""
        access, dtype = Access.of(source.load), memory_dtype(source.load.results[0].dtype)
        strides, size = [self.scalar(s) for s in access.strides], self.e.const(dtype.itemsize, int64)
        first = self.offset(list(zip(map(self.scalar, access.offsets), strides, strict=True)))
        rows, columns = self.span(access, source.rows), self.span(access, source.columns)
        for d in set(range(len(strides))) - {source.rows, source.columns}:
            other = self.span(access, d)
            there = self.e.cmp("lt", other.start, other.stop)
            rows = Span(rows.start, self.e.select(there, rows.stop, self.e.const(0, int64)))
        pitch = self.e.const(0, int64) if source.rows is None else self.e.mul(strides[source.rows], size)
        return Matrix(self.e.add(self.scalar(access.base), self.product(first, size)), pitch, rows, columns, dtype)

    def span(self, access: Access, d: int | None) -> Span:
        """Which elements of a dimension exist."""
        zero, size = self.e.const(0, int64), self.e.const(1 if d is None else access.shape[d], int64)
        if d is None or self.known(access, d):
            return Span(zero, size)
        offset, extent = self.scalar(access.offsets[d]), self.scalar(access.extents[d])
        start, stop = self.e.neg(offset), self.e.sub(extent, offset)
        return Span(*(self.e.minimum(self.e.maximum(x, zero), size) for x in (start, stop)))

    def load_tile(self, access: Access, elem: DType, base: Lanes, index: IndexMap, at: Chunk, mask: Lanes | None,
                  other: Lanes | None, level: int) -> Lanes:
        """A chunk of a structured load, hoisted to the frame `level` at most."""
        there = self.existence(access, index, at)
        first, step = self.place_of(access, base, index, at)
        dtype = memory_dtype(elem)
        if at.width == 1 or self.is_uniform(base, index, at, step, mask):
            address = self.e.add(base, self.product(first, self.e.const(dtype.itemsize, int64)))
            return self.load_scalar(address, elem, both(self.e, there.whole, mask), other, level)
        rest = to_memory(self.e, other) if other is not None else None
        if step.text in _STEPS and base.width == 1:
            on = self.mask_of(there, at, mask)
            loaded = self.load_steps((base, first, int(step.text)), dtype, at.width, on, rest, level)
            return from_memory(self.e, loaded, elem)
        if step.text != "1" or base.width > 1:
            addresses = self.addresses(base, first, step, at.width, elem)
            loaded = self.gather(addresses, elem, self.mask_of(there, at, mask), rest, level)
            return from_memory(self.e, loaded, elem)
        pointer, known = self.pointer(base, first, elem)
        level = max(level, known, there.some.level if there.some is not None else 0)
        pointer = self.reachable(pointer, there.some, level)
        on = both(self.e, there.lanes, self.e.splat(mask, at.width) if mask is not None else None)
        loaded = self.load_at(pointer, level, dtype, at.width, dtype.itemsize, on, rest, at.tail)
        if there.whole is not None:
            loaded = self.e.select(there.whole, loaded, rest or self.e.const(0, dtype))
        return from_memory(self.e, loaded, elem)

    def prefetch(self, access: Access, elem: DType, base: Lanes, index: IndexMap, at: Chunk) -> None:
        """Ask for what the next program will load in place of this chunk."""
        first, step = self.place_of(access, base, index, at)
        size, terms = memory_dtype(elem).itemsize, moves(access)
        if terms is None or step.text != "1" or at.masked or at.tail or at.width * size < LINE:
            return
        for factor, count in terms:
            by = self.e.convert(self.scalar(factor), int64) if factor is not None else self.e.const(1, int64)
            first = self.sum(first, self.product(by, self.e.const(count, int64)))
        pointer, _ = self.pointer(base, first, elem)
        for start in range(0, at.width * size, LINE):
            line = self.w.raw(f"getelementptr i8, ptr {pointer}, i64 {start}")
            self.w.call("void", "llvm.prefetch.p0", (("ptr", line), ("i32", "0"), ("i32", "2"), ("i32", "1")))

    def mask_of(self, there: Existence, at: Chunk, mask: Lanes | None) -> Lanes | None:
        """All conditions in one mask."""
        return both(self.e, both(self.e, there.whole, both(self.e, self.tail_mask(at), there.lanes)), mask)

    def is_uniform(self, base: Lanes, index: IndexMap, at: Chunk, step: Lanes, mask: Lanes | None) -> bool:
        """True when all lanes load one element; a mask that only cuts the tail does not matter then."""
        if base.width > 1 or (mask is not None and mask.width > 1):
            return False
        return at.lanes not in index or (step.text == "0" and not at.masked)

    def store_tile(self, access: Access, elem: DType, base: Lanes, index: IndexMap, at: Chunk, value: Lanes,
                   mask: Lanes | None) -> None:
        there = self.existence(access, index, at)
        first, step = self.place_of(access, base, index, at)
        held = self.e.splat(to_memory(self.e, value), at.width)
        if at.width == 1:
            address = self.e.add(base, self.product(first, self.e.const(held.dtype.itemsize, int64)))
            self.store_scalar(value, address, both(self.e, there.whole, mask))
        elif step.text in _STEPS and base.width == 1:
            self.store_steps((base, first, int(step.text)), held, self.mask_of(there, at, mask))
        elif step.text != "1" or base.width > 1:
            self.scatter(held, self.addresses(base, first, step, at.width, elem), self.mask_of(there, at, mask))
        else:
            pointer = self.reachable(self.pointer(base, first, elem)[0], there.some, self.w.depth)
            on = both(self.e, there.lanes, self.e.splat(mask, at.width) if mask is not None else None)
            self.store_at(held, pointer, held.dtype.itemsize, on, at.tail, at.streaming)

    # --- small strides ------------------------------------------------------------------------------------------

    def load_steps(self, place: Place, dtype: DType, width: int, on: Lanes | None, rest: Lanes | None,
                   level: int) -> Lanes:
        """Elements a small stride apart: whole registers, of which only these lanes are loaded, put together."""
        if on is not None:
            on, level = self.e.splat(on, width), max(level, on.level)
        parts: list[Lanes] = []
        for some in self.spans(place, dtype, width):
            pointer, known = self.pointer(place[0], some.first, dtype)
            mask = self.spread(self.e.part(on, some.start, some.lanes), some)
            loaded = self.load_at(pointer, max(level, known), dtype, some.size, dtype.itemsize, mask)
            parts.append(self.e.shuffle(loaded, loaded, some.picks))
        found = self.e.joined(parts)
        return self.e.select(on, found, rest) if on is not None and rest is not None else found

    def store_steps(self, place: Place, value: Lanes, on: Lanes | None) -> None:
        on = self.e.splat(on, value.width) if on is not None else None
        for some in self.spans(place, value.dtype, value.width):
            pointer, _ = self.pointer(place[0], some.first, value.dtype)
            part = self.e.part(value, some.start, some.lanes)
            wide = self.e.shuffle(part, part, [max(0, lane) for lane in some.sources])
            mask = self.spread(self.e.part(on, some.start, some.lanes), some)
            self.store_at(wide, pointer, value.dtype.itemsize, mask)

    def spans(self, place: Place, dtype: DType, width: int) -> list[Stretch]:
        """A register's lanes at a time, with the memory that they lie in."""
        _, first, step = place
        lanes = min(width, self.e.target.vector_bytes // dtype.itemsize)
        low = [start * step + min(0, (lanes - 1) * step) for start in range(0, width, lanes)]
        firsts = [self.sum(first, self.e.const(n, int64)) for n in low]
        return [Stretch(f, n * lanes, lanes, step) for n, f in enumerate(firsts)]

    def spread(self, on: Lanes | None, some: Stretch) -> Lanes | None:
        """The mask of a span, of which a mask of its elements holds."""
        if on is None:
            return self.e.mask([lane >= 0 for lane in some.sources]) if some.size > some.lanes else None
        none = self.e.mask([False] * some.lanes)
        return self.e.shuffle(on, none, [lane if lane >= 0 else some.lanes for lane in some.sources])

    def below(self, count: Lanes, width: int) -> Lanes:
        """Lanes before a count of 0 to `width`."""
        small = self.e.convert(count, int8)
        return self.e.cmp("lt", self.e.iota(width, int8), self.e.splat(small, width))


def stream_alignment(access: Access) -> int:
    """A line that is not filled in one go costs more than it saves; each row has two, unless all is aligned."""
    assert access.value is not None
    return STREAM_ALIGN if access.shape[-1] * access.value.dtype.itemsize >= LONG_ROW else LINE


def never_streams(access: Access) -> str:
    """Why a store never goes past the caches, whatever the launch; empty where it may."""
    assert access.value is not None
    row = access.shape[-1] * access.value.dtype.itemsize
    reasons = {
        "a mask decides element by element": access.mask is not None,
        "it goes through a tile of pointers": is_tile(access.base),
        "its rows are not contiguous": constant_of(access.strides[-1]) != 1 or access.shape[-1] == 1,
        f"its rows of {row} bytes are no multiple of {stream_alignment(access)}": row % stream_alignment(access) > 0,
    }
    return next((why for why, holds in reasons.items() if holds), "")
