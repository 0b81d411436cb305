"""Structured accesses of a chunk: bounds become masks or branches, strides become the form of the access.

Along the lanes, a stride of 1 is a contiguous access, 0 a broadcast, a small one an interleaved access, any other a
gather. The dimensions along other loops give one condition for the chunk, those along the lanes a mask. Where masks are
slow, a branch picks the unmasked form for chunks whose lanes are all valid.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from pypto.backends.cpu.codegen.interleaved import INTERLEAVE_STRIDES, load_interleaved, store_interleaved
from pypto.backends.cpu.codegen.memory import Chunk, MemoryEmitter, and_all, and_optional, memory_dtype
from pypto.backends.cpu.loopir.index_maps import IndexMap
from pypto.backends.llvm.conversions import from_memory, to_memory
from pypto.backends.llvm.value import VectorValue
from pypto.ir.types import DType, int1, int8, int64
from pypto.ops.memory import Access
from pypto.passes.pattern import constant_of


class LaneBound(NamedTuple):
    """The bounds of a dimension along the lanes."""

    first: VectorValue  # the index of the first lane
    extent: VectorValue
    may_be_negative: bool  # whether the first index has to be compared with 0


@dataclass(frozen=True, slots=True)
class Validity:
    """Which elements of a chunk are in bounds. A condition that is None is true."""

    rows_in_bounds: VectorValue | None  # the condition of all dimensions that do not lie along the lanes
    any_lane: VectorValue | None  # whether any lane is valid
    lane_bounds: tuple[LaneBound, ...]  # of the dimensions along the lanes


class AccessEmitter(MemoryEmitter):
    """Emits loads and stores of an `Access`."""

    def validity(self, access: Access, index: IndexMap, at: Chunk) -> Validity:
        """The bounds of an access at a chunk, without the tail of the chunk."""
        rows_in_bounds = any_lane = cast(VectorValue | None, None)
        lane_bounds: list[LaneBound] = []
        for d, p in enumerate(index):
            if not at.masked or self.statically_in_bounds(access, d):
                continue
            first = self.e.add(self.scalar(access.offsets[d]), at.index_of(p))
            extent = self.scalar(access.extents[d])
            is_along_lanes = p is not None and p == at.lanes
            bounds = [("lt", extent)]
            if self.may_be_negative(access, d):
                bounds.insert(
                    0, ("gt", self.e.const(-at.width, int64)) if is_along_lanes else ("ge", self.e.const(0, int64))
                )
            in_bounds = and_all(self.e, [self.e.cmp(predicate, first, bound) for predicate, bound in bounds])
            if is_along_lanes:
                lane_bounds.append(LaneBound(first, extent, len(bounds) > 1))
                any_lane = and_optional(self.e, any_lane, in_bounds)
            else:
                rows_in_bounds = and_optional(self.e, rows_in_bounds, in_bounds)
        return Validity(rows_in_bounds, and_optional(self.e, rows_in_bounds, any_lane), tuple(lane_bounds))

    def pointer_or_harmless(self, pointer: str, any_lane: VectorValue | None, level: int) -> str:
        """The pointer, or one to stack memory where no lane is valid.

        A masked access to an unmapped page takes the processor hundreds of cycles, even with an empty mask.
        """
        if any_lane is None:
            return pointer
        return self.w.raw(f"select i1 {any_lane.text}, ptr {pointer}, ptr {self.w.harmless()}", level)

    def statically_in_bounds(self, access: Access, d: int) -> bool | None:
        """Whether a dimension is in bounds, where offset and extent are constant; None where they are not."""
        offset, extent = self.scalar(access.offsets[d]).text, self.scalar(access.extents[d]).text
        return None if "%" in offset + extent else 0 <= int(offset) <= int(extent) - access.shape[d]

    def may_be_negative(self, access: Access, d: int) -> bool:
        """Whether an index may be below 0: the offset may, as loops count up from 0."""
        offset = constant_of(access.offsets[d])
        return offset is None or offset < 0

    def lanes_mask(self, validity: Validity, at: Chunk) -> VectorValue | None:
        """The mask of lanes that are in bounds; None where all are."""
        return and_all(self.e, [self.in_bounds_lanes(bound, at) for bound in validity.lane_bounds])

    def in_bounds_lanes(self, bound: LaneBound, at: Chunk) -> VectorValue:
        """The mask of lanes whose index is at least 0 and below the extent."""
        first, extent, may_be_negative = bound
        zero = self.e.const(0, int64)
        width = self.e.const(at.width, int64)
        limit = self.e.minimum(self.e.maximum(self.e.sub(extent, first), zero), width)
        if not may_be_negative:
            return self.lanes_below(limit, at.width)
        skipped = self.e.minimum(self.e.maximum(self.e.neg(first), zero), width)
        before = self.e.xor(self.lanes_below(skipped, at.width), self.e.const(True, int1))
        return self.e.and_(self.lanes_below(limit, at.width), before)

    def all_lanes_in_bounds(self, validity: Validity, at: Chunk) -> VectorValue:
        """Whether all lanes are in bounds."""
        conditions = []
        for first, extent, may_be_negative in validity.lane_bounds:
            last = self.e.add(first, self.e.const(at.width, int64))
            conditions += [self.e.cmp("ge", first, self.e.const(0, int64))] if may_be_negative else []
            conditions.append(self.e.cmp("le", last, extent))
        return functools.reduce(self.e.and_, conditions)

    def all_in_bounds(self, *accesses: Access) -> VectorValue | None:
        """The condition under which accesses are in bounds as a whole; None where it is known to hold."""
        return and_all(self.e, dict.fromkeys(x for access in accesses for x in self.bound_conditions(access)))

    def bound_conditions(self, access: Access) -> Iterator[VectorValue]:
        """The conditions under which an access is in bounds as a whole."""
        for d, size in enumerate(access.shape):
            if not self.statically_in_bounds(access, d):
                offset, extent = self.scalar(access.offsets[d]), self.scalar(access.extents[d])
                if self.may_be_negative(access, d):
                    yield self.e.cmp("ge", offset, self.e.const(0, int64))
                yield self.e.cmp("le", offset, self.e.sub(extent, self.e.const(size, int64)))

    def element_offset(
        self, access: Access, base: VectorValue, index: IndexMap, at: Chunk
    ) -> tuple[VectorValue, VectorValue]:
        """The offset of the chunk's first element from the base, and the stride along the lanes."""
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
        """A chunk of a structured load, hoisted to the frame `level` at most."""
        validity = self.validity(access, index, at)
        first, step = self.element_offset(access, base, index, at)
        dtype = memory_dtype(elem)
        if at.width == 1 or self.is_uniform(base, index, at, step, mask):
            address = self.e.add(base, self.product(first, self.e.const(dtype.itemsize, int64)))
            return self.load_scalar(address, elem, and_optional(self.e, validity.rows_in_bounds, mask), other, level)
        passthrough = to_memory(self.e, other) if other is not None else None
        if self.is_interleaved(step) and base.width == 1:
            lanes = self.combined_mask(validity, at, mask)
            span = (base, first, int(step.text))
            loaded = load_interleaved(self, span, dtype, at.width, lanes, passthrough, level)
            return from_memory(self.e, loaded, elem)
        if step.text != "1" or base.width > 1:
            addresses = self.addresses(base, first, step, at.width, elem)
            loaded = self.gather(addresses, elem, self.combined_mask(validity, at, mask), passthrough, level)
            return from_memory(self.e, loaded, elem)
        pointer, pointer_level = self.pointer(base, first, elem)
        loaded = self.load_contiguous((pointer, max(level, pointer_level), dtype), validity, at, mask, passthrough)
        return from_memory(self.e, loaded, elem)

    def load_contiguous(
        self,
        address: tuple[str, int, DType],
        validity: Validity,
        at: Chunk,
        mask: VectorValue | None,
        other: VectorValue | None,
    ) -> VectorValue:
        """Load contiguous lanes. `address` is the pointer, the frame that it is hoisted to, and the type in memory."""
        pointer, level, dtype = address
        form = dtype, at.width, dtype.itemsize
        level = max(level, validity.any_lane.hoist_depth if validity.any_lane is not None else 0)
        if level == self.w.depth and self.branches_on_validity(validity, at, mask):
            passthrough = self.e.splat(other or self.e.const(0, dtype), at.width)
            sides = (
                lambda: [self.load_at(pointer, self.w.depth, *form)],
                lambda: [self.load_at(pointer, self.w.depth, *form, self.lanes_mask(validity, at), passthrough)],
                lambda: [passthrough],
            )
            return self.emit_validity_branch(validity, at, sides)[0]
        pointer = self.pointer_or_harmless(pointer, validity.any_lane, level)
        loaded = self.load_at(pointer, level, *form, self.contiguous_mask(validity, at, mask), other, at.tail)
        if validity.rows_in_bounds is None:
            return loaded
        return self.e.select(validity.rows_in_bounds, loaded, other or self.e.const(0, dtype))

    def store_contiguous(
        self, value: VectorValue, pointer: str, validity: Validity, at: Chunk, mask: VectorValue | None
    ) -> None:
        """Store contiguous lanes."""
        size = value.dtype.itemsize
        if self.branches_on_validity(validity, at, mask):

            def store(masked: bool) -> list[VectorValue]:
                self.store_at(value, pointer, size, self.lanes_mask(validity, at) if masked else None)
                return []

            sides = (functools.partial(store, False), functools.partial(store, True), list)
            self.emit_validity_branch(validity, at, sides)
            return
        pointer = self.pointer_or_harmless(pointer, validity.any_lane, self.w.depth)
        self.store_at(value, pointer, size, self.contiguous_mask(validity, at, mask), at.tail, at.nontemporal)

    def contiguous_mask(self, validity: Validity, at: Chunk, mask: VectorValue | None) -> VectorValue | None:
        """The mask of contiguous lanes, without the tail and the condition on all of them."""
        lanes = self.e.splat(mask, at.width) if mask is not None else None
        return and_optional(self.e, self.lanes_mask(validity, at), lanes)

    def branches_on_validity(self, validity: Validity, at: Chunk, mask: VectorValue | None) -> bool:
        """Whether to branch on the validity of all lanes, or of none, instead of masking: where masks are slow."""
        return bool(validity.lane_bounds) and mask is None and not at.tail and not self.e.target.has_fast_masks

    def emit_validity_branch(
        self, validity: Validity, at: Chunk, sides: Sequence[Callable[[], list[VectorValue]]]
    ) -> list[VectorValue]:
        """Emit three sides: for chunks whose lanes are all valid, for others with some, and for those with none."""

        def isolated(side: Callable[[], list[VectorValue]]) -> list[VectorValue]:
            with self.w.isolated():
                return side()

        full, partial, empty = (functools.partial(isolated, side) for side in sides)
        is_full = and_optional(self.e, validity.rows_in_bounds, self.all_lanes_in_bounds(validity, at))
        assert is_full is not None and validity.any_lane is not None
        is_partial = validity.any_lane.text
        return self.w.branch(is_full.text, [full, lambda: self.w.branch(is_partial, [partial, empty])])

    def combined_mask(self, validity: Validity, at: Chunk, mask: VectorValue | None) -> VectorValue | None:
        """All conditions in one mask."""
        lanes = and_optional(self.e, self.tail_mask(at), self.lanes_mask(validity, at))
        return and_optional(self.e, and_optional(self.e, validity.rows_in_bounds, lanes), mask)

    def is_uniform(
        self, base: VectorValue, index: IndexMap, at: Chunk, step: VectorValue, mask: VectorValue | None
    ) -> bool:
        """Whether all lanes load one element, under no mask but that of a tail."""
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
        """A chunk of a structured store."""
        validity = self.validity(access, index, at)
        first, step = self.element_offset(access, base, index, at)
        stored = self.e.splat(to_memory(self.e, value), at.width)
        if at.width == 1:
            address = self.e.add(base, self.product(first, self.e.const(stored.dtype.itemsize, int64)))
            self.store_scalar(value, address, and_optional(self.e, validity.rows_in_bounds, mask))
        elif self.is_interleaved(step) and base.width == 1:
            store_interleaved(self, (base, first, int(step.text)), stored, self.combined_mask(validity, at, mask))
        elif step.text != "1" or base.width > 1:
            self.scatter(
                stored, self.addresses(base, first, step, at.width, elem), self.combined_mask(validity, at, mask)
            )
        else:
            self.store_contiguous(stored, self.pointer(base, first, elem)[0], validity, at, mask)

    def is_interleaved(self, step: VectorValue) -> bool:
        """Whether a stride is small enough for whole registers and shuffles."""
        return step.text in INTERLEAVE_STRIDES and "interleaved_access" not in self.e.disabled

    def lanes_below(self, count: VectorValue, width: int) -> VectorValue:
        """The mask of the lanes before a count of 0 to `width`."""
        narrow = self.e.convert(count, int8)
        return self.e.cmp("lt", self.e.iota(width, int8), self.e.splat(narrow, width))
