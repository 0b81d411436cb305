"""Split stores: a register of unknown alignment is stored in pieces, so that fewer cross a cache line.

numpy's arrays begin 16 bytes behind a line, so every other store of 64 bytes, or every one, crosses a line. A processor
that stores 64 bytes at once pays more for such a store than for two halves, of which at most one crosses a line.

store <16 x float> %x, ptr %p, align 4 becomes store <8 x float> %low, ptr %p, align 4 store <8 x float> %high, ptr %p +
32, align 4
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.llvm.value import VectorValue, memory_type


def split_store(e: CpuLaneEmitter, value: VectorValue, pointer: str, align: int) -> Iterator[tuple[VectorValue, str]]:
    """The pieces of a stored value, with their addresses."""
    piece = e.target.store_bytes
    size = value.width * value.dtype.itemsize
    if "split_stores" in e.disabled or align >= piece or size <= piece or size % piece:
        yield value, pointer
        return
    lanes = piece // value.dtype.itemsize
    kind = memory_type(value.dtype)
    for start in range(0, value.width, lanes):
        address = e.w.raw(f"getelementptr {kind}, ptr {pointer}, i64 {start}", e.w.depth)
        yield e.part(value, start, lanes), address
