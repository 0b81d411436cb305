"""The cell of `histogram`: numbers counted one by one, since lanes may hold the same one."""

from __future__ import annotations

from pypto.backends.cpu.codegen.memory import Chunk, MemoryEmitter, and_optional
from pypto.backends.cpu.llvm.value import VectorValue, llvm_type
from pypto.backends.cpu.loopir.ir import Buffer
from pypto.ir.types import int32, int64


def count(
    memory: MemoryEmitter,
    buffer: Buffer,
    base: VectorValue,
    at: Chunk,
    value: VectorValue,
    mask: VectorValue | None = None,
) -> None:
    """One more in the bins that numbers name; for those without a bin, in a slot that nobody reads."""
    e, w, place = memory.e, memory.w, memory.e.convert(memory.e.splat(value, at.width), int64)
    inside = e.and_(e.cmp("ge", place, e.const(0, int64)), e.cmp("lt", place, e.const(buffer.shape[0], int64)))
    inside = and_optional(e, and_optional(e, inside, mask), memory.tail_mask(at)) or inside
    nowhere = VectorValue(w.raw(f"ptrtoint ptr {w.slot('i32')} to i64"), int64, 1, w.depth)
    address = e.select(inside, e.add(base, e.mul(place, e.const(int32.itemsize, int64))), nowhere)
    kept = w.slot(llvm_type(int64, at.width))
    w.line(f"store volatile {address.typed}, ptr {kept}")  # volatile: single loads beat what takes lanes apart
    for k in range(at.width):
        lane = w.raw(f"getelementptr i64, ptr {kept}, i64 {k}")
        pointer = w.raw(f"inttoptr i64 {w.raw(f'load volatile i64, ptr {lane}')} to ptr")
        old = memory.load_at(pointer, w.depth, int32, 1, int32.itemsize)
        memory.store_at(e.add(old, e.const(1, int32)), pointer, int32.itemsize)
