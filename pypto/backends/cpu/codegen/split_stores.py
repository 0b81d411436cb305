"""Stores to arrays whose alignment is not known, in the pieces that cost least where one lies across two cache lines.

numpy's arrays begin 16 bytes behind a line, so that every other register of 64 bytes, or every one, is stored in two
lines. Machines that take a whole register in one go pay more for that than for two halves, of which one lies within a
line.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
from pypto.backends.cpu.llvm.value import VectorValue, memory_type


def split_store(e: LaneEmitter, value: VectorValue, pointer: str, align: int) -> Iterator[tuple[VectorValue, str]]:
    """Parts of what is stored, with their addresses."""
    size, at_once = value.dtype.itemsize, e.target.store_bytes
    if (
        "split_stores" in e.disabled
        or align >= at_once
        or value.width * size <= at_once
        or value.width * size % at_once
    ):
        yield value, pointer
        return
    lanes, kind = at_once // size, memory_type(value.dtype)
    for start in range(0, value.width, lanes):
        place = e.w.raw(f"getelementptr {kind}, ptr {pointer}, i64 {start}", e.w.depth)
        yield e.part(value, start, lanes), place
