"""Structured accesses of a chunk: contiguous, broadcast, strided or through tiles of pointers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from pypto.backends.cpu.codegen.interleaved import INTERLEAVE_STRIDES, load_interleaved, store_interleaved
from pypto.backends.cpu.codegen.memory import Chunk, MemoryEmitter, and_all, and_optional, memory_dtype
from pypto.backends.cpu.llvm.conversions import from_memory, to_memory
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.loopir.index_maps import IndexMap
from pypto.ir.types import DType, int1, int8, int64
from pypto.ops.memory import Access


@dataclass(frozen=True, slots=True)
class Validity:
    """Which elements of a chunk exist: a condition on all, and whether any does. None is true.

    `lane_bounds` are the dimensions that lie along the lanes: the first lane's place in each, and its extent.
    """

    rows_in_bounds: VectorValue | None
    any_lane: VectorValue | None
    lane_bounds: tuple[tuple[VectorValue, VectorValue], ...]


class AccessEmitter(MemoryEmitter):
    """Loads and stores under their `Access`."""

    def validity(self, access: Access, index: IndexMap, at: Chunk) -> Validity:
        """What the extents say of a chunk; its tail is known otherwise."""
        whole = some = cast(VectorValue | None, None)
        ends: list[tuple[VectorValue, VectorValue]] = []
        for d, p in enumerate(index):
            if not at.masked or self.statically_in_bounds(access, d):
                continue
            first = self.e.add(self.scalar(access.offsets[d]), at.index_of(p))
            extent = self.scalar(access.extents[d])
            if p is not None and p == at.lanes:
                ends.append((first, extent))
                reached = self.e.cmp("gt", first, self.e.const(-at.width, int64))
                some = and_optional(self.e, some, self.e.and_(reached, self.e.cmp("lt", first, extent)))
            else:
                zero = self.e.const(0, int64)
                whole = and_optional(
                    self.e, whole, self.e.and_(self.e.cmp("ge", first, zero), self.e.cmp("lt", first, extent))
                )
        return Validity(whole, and_optional(self.e, whole, some), tuple(ends))

    def pointer_or_harmless(self, pointer: str, some: VectorValue | None, level: int) -> str:
        """The pointer, or one to harmless memory when no lane exists.

        A masked access to a page that is not there takes the processor hundreds of cycles, even with an empty mask.
        """
        if some is None:
            return pointer
        return self.w.raw(f"select i1 {some.text}, ptr {pointer}, ptr {self.w.harmless()}", level)

    def statically_in_bounds(self, access: Access, d: int) -> bool | None:
        """Whether a dimension lies within its extent, where constants tell."""
        offset, extent = self.scalar(access.offsets[d]).text, self.scalar(access.extents[d]).text
        return None if "%" in offset + extent else 0 <= int(offset) <= int(extent) - access.shape[d]

    def lanes_mask(self, there: Validity, at: Chunk) -> VectorValue | None:
        """Lanes that exist."""
        return and_all(self.e, [self.in_bounds_lanes(first, extent, at) for first, extent in there.lane_bounds])

    def in_bounds_lanes(self, first: VectorValue, extent: VectorValue, at: Chunk) -> VectorValue:
        zero, most = self.e.const(0, int64), self.e.const(at.width, int64)
        limit = self.e.minimum(self.e.maximum(self.e.sub(extent, first), zero), most)
        skipped = self.e.minimum(self.e.maximum(self.e.neg(first), zero), most)
        before = self.e.xor(self.lanes_below(skipped, at.width), self.e.const(True, int1))
        return self.e.and_(self.lanes_below(limit, at.width), before)

    def all_lanes_in_bounds(self, there: Validity, at: Chunk) -> VectorValue:
        """Whether every lane exists."""
        conditions = []
        for first, extent in there.lane_bounds:
            last = self.e.add(first, self.e.const(at.width, int64))
            conditions += [self.e.cmp("ge", first, self.e.const(0, int64)), self.e.cmp("le", last, extent)]
        return functools.reduce(self.e.and_, conditions)

    def all_in_bounds(self, *accesses: Access) -> VectorValue | None:
        """Condition under which every element exists; None when that is known."""
        return and_all(self.e, dict.fromkeys(fits for access in accesses for fits in self.bound_conditions(access)))

    def bound_conditions(self, access: Access) -> Iterator[VectorValue]:
        """The parts of that condition."""
        for d, size in enumerate(access.shape):
            if not self.statically_in_bounds(access, d):
                offset, extent = self.scalar(access.offsets[d]), self.scalar(access.extents[d])
                yield self.e.cmp("ge", offset, self.e.const(0, int64))
                yield self.e.cmp("le", offset, self.e.sub(extent, self.e.const(size, int64)))

    def element_offset(
        self, access: Access, base: VectorValue, index: IndexMap, at: Chunk
    ) -> tuple[VectorValue, VectorValue]:
        """Offset of the chunk's first element from the base, and the stride along the lanes."""
        strides = [self.scalar(s) for s in access.strides]
        terms = [(self.scalar(o), s) for o, s in zip(access.offsets, strides, strict=True)]
        terms += [(at.index_of(p), s) for p, s in zip(index, strides, strict=True) if p is not None]
        along = (s for p, s in zip(index, strides, strict=True) if p is not None and p == at.lanes)
        return self.offset(terms), next(along, self.e.const(0, int64))

    def load_tile(
        self,
        access: Access,
        elem: DType,
        base: VectorValue,
        index: IndexMap,
        at: Chunk,
        mask: VectorValue | None,
        other: VectorValue | None,
        level: int,
    ) -> VectorValue:
        """A chunk of a structured load, hoisted to the frame `hoist_depth` at most."""
        there = self.validity(access, index, at)
        first, step = self.element_offset(access, base, index, at)
        dtype = memory_dtype(elem)
        if at.width == 1 or self.is_uniform(base, index, at, step, mask):
            address = self.e.add(base, self.product(first, self.e.const(dtype.itemsize, int64)))
            return self.load_scalar(address, elem, and_optional(self.e, there.rows_in_bounds, mask), other, level)
        rest = to_memory(self.e, other) if other is not None else None
        if self.is_interleaved(step) and base.width == 1:
            on = self.combined_mask(there, at, mask)
            loaded = load_interleaved(self, (base, first, int(step.text)), dtype, at.width, on, rest, level)
            return from_memory(self.e, loaded, elem)
        if step.text != "1" or base.width > 1:
            addresses = self.addresses(base, first, step, at.width, elem)
            loaded = self.gather(addresses, elem, self.combined_mask(there, at, mask), rest, level)
            return from_memory(self.e, loaded, elem)
        pointer, known = self.pointer(base, first, elem)
        loaded = self.load_contiguous((pointer, max(level, known), dtype), there, at, mask, rest)
        return from_memory(self.e, loaded, elem)

    def load_contiguous(
        self,
        place: tuple[str, int, DType],
        there: Validity,
        at: Chunk,
        mask: VectorValue | None,
        rest: VectorValue | None,
    ) -> VectorValue:
        """Lanes that are neighbours in memory, from a pointer that is known from a frame on."""
        pointer, level, dtype = place
        form = dtype, at.width, dtype.itemsize
        level = max(level, there.any_lane.hoist_depth if there.any_lane is not None else 0)
        if level == self.w.depth and self.branches_on_validity(there, at, mask):
            rest = self.e.splat(rest or self.e.const(0, dtype), at.width)
            return self.emit_validity_branch(
                there,
                at,
                (
                    lambda: [self.load_at(pointer, self.w.depth, *form)],
                    lambda: [self.load_at(pointer, self.w.depth, *form, self.lanes_mask(there, at), rest)],
                    lambda: [rest],
                ),
            )[0]
        pointer = self.pointer_or_harmless(pointer, there.any_lane, level)
        loaded = self.load_at(pointer, level, *form, self.contiguous_mask(there, at, mask), rest, at.tail)
        return (
            loaded
            if there.rows_in_bounds is None
            else self.e.select(there.rows_in_bounds, loaded, rest or self.e.const(0, dtype))
        )

    def store_contiguous(
        self, value: VectorValue, pointer: str, there: Validity, at: Chunk, mask: VectorValue | None
    ) -> None:
        size = value.dtype.itemsize
        if self.branches_on_validity(there, at, mask):

            def store(masked: bool) -> list[VectorValue]:
                self.store_at(value, pointer, size, self.lanes_mask(there, at) if masked else None)
                return []

            self.emit_validity_branch(
                there, at, (functools.partial(store, False), functools.partial(store, True), list)
            )
            return
        pointer = self.pointer_or_harmless(pointer, there.any_lane, self.w.depth)
        self.store_at(value, pointer, size, self.contiguous_mask(there, at, mask), at.tail, at.nontemporal)

    def contiguous_mask(self, there: Validity, at: Chunk, mask: VectorValue | None) -> VectorValue | None:
        """The mask of lanes that are neighbours in memory; the tail and the condition on all are apart from it."""
        return and_optional(
            self.e, self.lanes_mask(there, at), self.e.splat(mask, at.width) if mask is not None else None
        )

    def branches_on_validity(self, there: Validity, at: Chunk, mask: VectorValue | None) -> bool:
        """Whether to look first if all lanes of a chunk exist, or none: where a mask costs more than that."""
        return bool(there.lane_bounds) and mask is None and not at.tail and not self.e.target.has_fast_masks

    def emit_validity_branch(
        self, there: Validity, at: Chunk, sides: Sequence[Callable[[], list[VectorValue]]]
    ) -> list[VectorValue]:
        """What is done where all lanes exist, where some do, and where none does."""

        def based(side: Callable[[], list[VectorValue]]) -> list[VectorValue]:
            with self.w.isolated():
                return side()

        whole, part, none = (functools.partial(based, side) for side in sides)
        every = and_optional(self.e, there.rows_in_bounds, self.all_lanes_in_bounds(there, at))
        assert every is not None and there.any_lane is not None
        some = there.any_lane.text
        return self.w.branch(every.text, [whole, lambda: self.w.branch(some, [part, none])])

    def combined_mask(self, there: Validity, at: Chunk, mask: VectorValue | None) -> VectorValue | None:
        """All conditions in one mask."""
        lanes = and_optional(self.e, self.tail_mask(at), self.lanes_mask(there, at))
        return and_optional(self.e, and_optional(self.e, there.rows_in_bounds, lanes), mask)

    def is_uniform(
        self, base: VectorValue, index: IndexMap, at: Chunk, step: VectorValue, mask: VectorValue | None
    ) -> bool:
        """True when all lanes load one element; a mask that only cuts the tail does not matter then."""
        if base.width > 1 or (mask is not None and mask.width > 1):
            return False
        return at.lanes not in index or (step.text == "0" and not at.masked)

    def store_tile(
        self,
        access: Access,
        elem: DType,
        base: VectorValue,
        index: IndexMap,
        at: Chunk,
        value: VectorValue,
        mask: VectorValue | None,
    ) -> None:
        there = self.validity(access, index, at)
        first, step = self.element_offset(access, base, index, at)
        held = self.e.splat(to_memory(self.e, value), at.width)
        if at.width == 1:
            address = self.e.add(base, self.product(first, self.e.const(held.dtype.itemsize, int64)))
            self.store_scalar(value, address, and_optional(self.e, there.rows_in_bounds, mask))
        elif self.is_interleaved(step) and base.width == 1:
            store_interleaved(self, (base, first, int(step.text)), held, self.combined_mask(there, at, mask))
        elif step.text != "1" or base.width > 1:
            self.scatter(held, self.addresses(base, first, step, at.width, elem), self.combined_mask(there, at, mask))
        else:
            self.store_contiguous(held, self.pointer(base, first, elem)[0], there, at, mask)

    def is_interleaved(self, step: VectorValue) -> bool:
        """True for a stride of which whole registers are read and shuffled."""
        return step.text in INTERLEAVE_STRIDES and "interleaved_access" not in self.e.disabled

    def lanes_below(self, count: VectorValue, width: int) -> VectorValue:
        """Lanes before a count of 0 to `width`."""
        small = self.e.convert(count, int8)
        return self.e.cmp("lt", self.e.iota(width, int8), self.e.splat(small, width))
