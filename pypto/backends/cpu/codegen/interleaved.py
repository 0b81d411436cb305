"""Small strides: whole registers are loaded or stored, of which some lanes count, where a gather would be slower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pypto.backends.cpu.codegen.memory import MemoryEmitter
from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.ir.types import DType, int64

INTERLEAVE_STRIDES: Final = ("-1", "2", "4")  # strides that are worth more than a gather
StridedAddress = tuple[VectorValue, VectorValue, int]  # base, offset of the first element, stride along the lanes


@dataclass(frozen=True, slots=True)
class InterleavedSpan:
    """Neighbours in memory that hold some lanes of a chunk a stride apart; `lowest` is the offset of the lowest."""

    lowest: VectorValue
    first_lane: int
    lanes: int
    stride: int

    @property
    def size(self) -> int:
        return self.lanes * abs(self.stride)

    @property
    def element_of_lane(self) -> list[int]:
        """Place in the span by lane."""
        return [n * self.stride if self.stride > 0 else (self.lanes - 1 - n) * -self.stride for n in range(self.lanes)]

    @property
    def lane_of_element(self) -> list[int]:
        """Lane by place in the span, or -1."""
        lanes = {place: lane for lane, place in enumerate(self.element_of_lane)}
        return [lanes.get(place, -1) for place in range(self.size)]


def load_interleaved(
    memory: MemoryEmitter,
    place: StridedAddress,
    dtype: DType,
    width: int,
    on: VectorValue | None,
    rest: VectorValue | None,
    level: int,
) -> VectorValue:
    """Elements a small stride apart: whole registers, of which only these lanes are loaded, put together."""
    e = memory.e
    if on is not None:
        on, level = e.splat(on, width), max(level, on.hoist_depth)
    parts: list[VectorValue] = []
    for some in interleaved_spans(memory, place, dtype, width):
        pointer, known = memory.pointer(place[0], some.lowest, dtype)
        mask = expand_mask(e, e.part(on, some.first_lane, some.lanes), some)
        loaded = memory.load_at(pointer, max(level, known), dtype, some.size, dtype.itemsize, mask)
        parts.append(e.shuffle(loaded, loaded, some.element_of_lane))
    found = e.joined(parts)
    return e.select(on, found, rest) if on is not None and rest is not None else found


def store_interleaved(memory: MemoryEmitter, place: StridedAddress, value: VectorValue, on: VectorValue | None) -> None:
    e = memory.e
    on = e.splat(on, value.width) if on is not None else None
    for some in interleaved_spans(memory, place, value.dtype, value.width):
        pointer, _ = memory.pointer(place[0], some.lowest, value.dtype)
        part = e.part(value, some.first_lane, some.lanes)
        wide = e.shuffle(part, part, [max(0, lane) for lane in some.lane_of_element])
        mask = expand_mask(e, e.part(on, some.first_lane, some.lanes), some)
        memory.store_at(wide, pointer, value.dtype.itemsize, mask)


def interleaved_spans(memory: MemoryEmitter, place: StridedAddress, dtype: DType, width: int) -> list[InterleavedSpan]:
    """A register's lanes at a time, with the memory that they lie in."""
    _, first, step = place
    lanes = min(width, memory.e.target.vector_bytes // dtype.itemsize)
    low = [start * step + min(0, (lanes - 1) * step) for start in range(0, width, lanes)]
    firsts = [memory.sum(first, memory.e.const(n, int64)) for n in low]
    return [InterleavedSpan(f, n * lanes, lanes, step) for n, f in enumerate(firsts)]


def expand_mask(e: LaneEmitter, on: VectorValue | None, some: InterleavedSpan) -> VectorValue | None:
    """The mask of a span, of which a mask of its elements holds."""
    if on is None:
        return e.mask([lane >= 0 for lane in some.lane_of_element]) if some.size > some.lanes else None
    none = e.mask([False] * some.lanes)
    return e.shuffle(on, none, [lane if lane >= 0 else some.lanes for lane in some.lane_of_element])
