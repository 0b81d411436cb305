"""What the next program will load, fetched while this one computes: into the first-level cache where it has room.

The hardware follows a stream within a page; the rows of the next program mostly begin in another one. A cell that works
for long asks itself, a few lines at a time: as many as a nest asks for at once wait for one another.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.codegen.memory import Chunk, memory_dtype
from pypto.backends.cpu.llvm.value import VectorValue, memory_type
from pypto.backends.cpu.llvm.writer import Writer
from pypto.backends.cpu.loopir.index_maps import IndexMap
from pypto.backends.cpu.loopir.ir import Nest, Stmt
from pypto.backends.cpu.techniques import is_enabled
from pypto.ir.core import Function, Op
from pypto.ir.types import int64
from pypto.ops.memory import Access
from pypto.passes.pattern import constant_of
from pypto.passes.scalar_evolution import ScalarEvolution, Step

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.tile_access import AccessEmitter
    from pypto.backends.cpu.target import CpuTarget

CACHE_LINE: Final = 64  # bytes of a cache line
L1, L2 = 3, 2  # the first-level cache, the second
L1_BUDGET: Final = 20 << 10  # bytes that a program may keep and ask for in a first level of 32 KB or more


def prefetch_line(w: Writer, line: str, near: int, writes: bool = False) -> None:
    """Have a cache line fetched to a level, whether it exists or not."""
    w.call("void", "llvm.prefetch.p0", (("ptr", line), ("i32", str(int(writes))), ("i32", str(near)), ("i32", "1")))


def address_step(access: Access, loop: Op | None = None) -> Step | None:
    """How many elements the address grows by from program to program, or from turn to turn of a loop.

    None where that is not known, or nothing.
    """
    return evolution_over(loop).address_step(access, loop or 0) or None


def evolution_over(loop: Op | None) -> ScalarEvolution:
    """The steps of scalars over the grid, or over a loop. A wrong one costs a cache line."""
    return ScalarEvolution(() if loop is None else (loop,), memory_stays=True)


def loads_to_prefetch(
    function: Function, nests: Iterable[Nest], ops: Callable[[Stmt], list[Op]]
) -> dict[Op, list[Nest]]:
    """The nests that load a tile, in order: the last one asks for the next program's.

    Where there are several, that one has not to wait for the tile itself, as the first one does.
    """
    if not is_enabled(function, "prefetch"):
        return {}
    found = [(op, nest) for nest in nests for stmt in nest.stmts for op in ops(stmt) if op.name == "tile_load"]
    return {op: [nest for x, nest in found if x is op] for op, _ in found}


def target_level(loads: Iterable[Op], kept: int, target: CpuTarget, loop: Op | None = None) -> int:
    """The cache that takes what loads ask for, beside what all programs load and so many bytes that each one keeps."""
    sizes = [0, 0]
    for op in loads:
        sizes[bool(address_step(Access.of(op), loop))] += tile_bytes(op)
    stays, comes = sizes
    return L1 if comes + kept <= L1_BUDGET and 2 * comes + kept + stays <= target.caches[0] else L2


def tile_bytes(op: Op) -> int:
    """Bytes of a tile in memory."""
    return math.prod(op.results[0].shape) * memory_dtype(op.results[0].dtype).itemsize


def claim(asking: dict[Op, list[Nest]], most: int) -> Op | None:
    """A load of many bytes, though no more than so many, that a cell asks for in place of a nest."""
    large = (op for op in asking if 32 * CACHE_LINE <= tile_bytes(op) <= most)
    found = next((op for op in large if address_step(a := Access.of(op)) and constant_of(a.strides[-1]) == 1), None)
    if found is not None:
        del asking[found]
    return found


def next_program_address(memory: AccessEmitter, op: Op) -> VectorValue:
    """Address of the first element that the next program loads."""
    e, access = memory.e, Access.of(op)
    base, start = memory.scalar(access.base), Chunk([], -1, 1)
    first, _ = memory.element_offset(access, base, (None,) * len(access.shape), start)
    size = e.const(memory_dtype(op.results[0].dtype).itemsize, int64)
    return e.add(base, e.mul(e.add(first, step_value(memory, address_step(access) or {})), size))


def step_value(memory: AccessEmitter, step: Step) -> VectorValue:
    """How many elements further the next program loads."""
    e = memory.e
    found = list[tuple[VectorValue, VectorValue]]()
    for factors, count in step.items():
        wide = (e.convert(memory.scalar(f), int64) for f in factors)
        found.append((functools.reduce(memory.product, wide, e.const(1, int64)), e.const(count, int64)))
    return memory.offset(found)


def prefetch_next(
    memory: AccessEmitter, op: Op, base: VectorValue, index: IndexMap, at: Chunk, to: int, loop: Op | None, alone: bool
) -> None:
    """Ask for what the next program, or turn of a loop, will load in place of this chunk.

    What a nest `alone` loads may be a plain stream, which the hardware follows, though not far enough for memory: a
    nest that stores past the caches asks for what it loads itself soon, any other leaves streams alone.
    """
    w = memory.w
    access = Access.of(op)
    soon = alone and at.nontemporal
    elem = op.results[0].dtype
    size = memory_dtype(elem).itemsize
    first, step = memory.element_offset(access, base, index, at)
    growth = address_step(access, loop)
    goes = growth is not None and (soon or not alone or any(growth))
    if not goes or step.text != "1" or at.masked or at.tail or at.width * size < CACHE_LINE:
        return
    ahead = memory.e.const(memory.e.target.stream_prefetch // size, int64) if soon else step_value(memory, growth or {})
    pointer = memory.pointer(base, first, elem)[0]
    pointer = w.raw(f"getelementptr {memory_type(elem)}, ptr {pointer}, i64 {ahead.text}")
    for start in range(0, at.width * size, CACHE_LINE):
        prefetch_line(w, w.raw(f"getelementptr i8, ptr {pointer}, i64 {start}"), L1 if soon else to)
