"""Lowering of `histogram`: lanes are counted one by one, since several may name one bin.

for each lane: bin = value; count[bin] += 1
"""

from __future__ import annotations

from pypto.backends.cpu.codegen.memory import Chunk, MemoryEmitter, and_optional
from pypto.backends.cpu.loopir.ir import Buffer
from pypto.backends.llvm.value import VectorValue, llvm_type
from pypto.ir.types import int32, int64


def count(
    memory: MemoryEmitter,
    buffer: Buffer,
    base: VectorValue,
    at: Chunk,
    value: VectorValue,
    mask: VectorValue | None = None,
) -> None:
    """Count lanes in their bins. A lane without a bin, or outside of the mask, counts in a stack slot that nobody
    reads.
    """
    e = memory.e
    w = memory.w
    bins = e.convert(e.splat(value, at.width), int64)
    valid = e.and_(e.cmp("ge", bins, e.const(0, int64)), e.cmp("lt", bins, e.const(buffer.shape[0], int64)))
    valid = and_optional(e, and_optional(e, valid, mask), memory.tail_mask(at)) or valid
    unused = VectorValue(w.raw(f"ptrtoint ptr {w.slot('i32')} to i64"), int64, 1, w.depth)
    address = e.select(valid, e.add(base, e.mul(bins, e.const(int32.itemsize, int64))), unused)
    spilled = w.slot(llvm_type(int64, at.width))
    w.line(f"store volatile {address.typed}, ptr {spilled}")  # volatile: scalar loads are faster than extracts of lanes
    for k in range(at.width):
        lane = w.raw(f"getelementptr i64, ptr {spilled}, i64 {k}")
        pointer = w.raw(f"inttoptr i64 {w.raw(f'load volatile i64, ptr {lane}')} to ptr")
        old = memory.load_at(pointer, w.depth, int32, 1, int32.itemsize)
        memory.store_at(e.add(old, e.const(1, int32)), pointer, int32.itemsize)
