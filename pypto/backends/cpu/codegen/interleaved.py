"""Interleaved access: lanes a small stride apart are loaded as whole registers and shuffled, in place of a gather.

A gather takes about one cycle for each lane; two loads and a shuffle take three for all. It pays for the strides -1, 2
and 4. Legal under a mask, which is spread over the span, so that only valid elements are touched.

gather 8 lanes of stride 2 becomes load 16 elements under the spread mask; shuffle lanes 0, 2, 4, ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pypto.backends.cpu.codegen.memory import MemoryEmitter
from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.llvm.value import VectorValue
from pypto.ir.types import DType, int64

INTERLEAVE_STRIDES: Final = ("-1", "2", "4")  # strides that are worth more than a gather
StridedAddress = tuple[VectorValue, VectorValue, int]  # base, offset of the first element, stride along the lanes


@dataclass(frozen=True, slots=True)
class InterleavedSpan:
    """The contiguous elements in which some lanes of a chunk lie, a stride apart."""

    lowest: VectorValue  # offset of the first element
    first_lane: int
    lanes: int
    stride: int

    @property
    def size(self) -> int:
        """Elements of the span."""
        return self.lanes * abs(self.stride)

    @property
    def element_of_lane(self) -> list[int]:
        """Element of the span by lane."""
        return [n * self.stride if self.stride > 0 else (self.lanes - 1 - n) * -self.stride for n in range(self.lanes)]

    @property
    def lane_of_element(self) -> list[int]:
        """Lane by element of the span, or -1 for elements between."""
        lanes = {place: lane for lane, place in enumerate(self.element_of_lane)}
        return [lanes.get(place, -1) for place in range(self.size)]


def load_interleaved(
    memory: MemoryEmitter,
    address: StridedAddress,
    dtype: DType,
    width: int,
    mask: VectorValue | None,
    other: VectorValue | None,
    level: int,
) -> VectorValue:
    """Load lanes a small stride apart; lanes outside of the mask get `other`."""
    e = memory.e
    if mask is not None:
        mask = e.splat(mask, width)
        level = max(level, mask.hoist_depth)
    parts: list[VectorValue] = []
    for span in interleaved_spans(memory, address, dtype, width):
        pointer, pointer_level = memory.pointer(address[0], span.lowest, dtype)
        span_mask = expand_mask(e, e.part(mask, span.first_lane, span.lanes), span)
        loaded = memory.load_at(pointer, max(level, pointer_level), dtype, span.size, dtype.itemsize, span_mask)
        parts.append(e.shuffle(loaded, loaded, span.element_of_lane))
    result = e.joined(parts)
    return e.select(mask, result, other) if mask is not None and other is not None else result


def store_interleaved(
    memory: MemoryEmitter, address: StridedAddress, value: VectorValue, mask: VectorValue | None
) -> None:
    """Store lanes a small stride apart; elements between them are masked out."""
    e = memory.e
    mask = e.splat(mask, value.width) if mask is not None else None
    for span in interleaved_spans(memory, address, value.dtype, value.width):
        pointer, _ = memory.pointer(address[0], span.lowest, value.dtype)
        part = e.part(value, span.first_lane, span.lanes)
        spread = e.shuffle(part, part, [max(0, lane) for lane in span.lane_of_element])
        span_mask = expand_mask(e, e.part(mask, span.first_lane, span.lanes), span)
        memory.store_at(spread, pointer, value.dtype.itemsize, span_mask)


def interleaved_spans(
    memory: MemoryEmitter, address: StridedAddress, dtype: DType, width: int
) -> list[InterleavedSpan]:
    """The spans of a chunk, each with the lanes of one register."""
    _, first, step = address
    lanes = min(width, memory.e.target.vector_bytes // dtype.itemsize)
    offsets = [start * step + min(0, (lanes - 1) * step) for start in range(0, width, lanes)]
    firsts = [memory.sum(first, memory.e.const(n, int64)) for n in offsets]
    return [InterleavedSpan(f, n * lanes, lanes, step) for n, f in enumerate(firsts)]


def expand_mask(e: CpuLaneEmitter, mask: VectorValue | None, span: InterleavedSpan) -> VectorValue | None:
    """The mask of a span's elements, from a mask of its lanes; None where all elements are accessed."""
    if mask is None:
        return e.mask([lane >= 0 for lane in span.lane_of_element]) if span.size > span.lanes else None
    none = e.mask([False] * span.lanes)
    return e.shuffle(mask, none, [lane if lane >= 0 else span.lanes for lane in span.lane_of_element])
