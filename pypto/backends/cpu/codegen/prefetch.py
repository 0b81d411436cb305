"""Software prefetch: while a program computes, it prefetches what the next program loads.

The hardware prefetcher follows a stream within a page, but the rows of the next program mostly begin in another page. A
prefetch has no effect on results, so it is always legal. Lines go to the first-level cache where they fit beside what
this program holds, else to the second level. A product that takes long prefetches by itself, a few lines at a time (see
`claim`): there are only so many line fill buffers, and prefetches beyond these wait for one another.

%x = load row p becomes prefetch row p+1 %x = load row p
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.codegen.memory import Chunk, memory_dtype
from pypto.backends.cpu.loopir.index_maps import IndexMap
from pypto.backends.cpu.loopir.ir import Nest, Stmt
from pypto.backends.cpu.techniques import is_enabled
from pypto.backends.llvm.value import VectorValue, memory_type
from pypto.backends.llvm.writer import Writer
from pypto.ir.core import Function, Op
from pypto.ir.types import int64
from pypto.ops.memory import Access
from pypto.passes.analysis.scalar_evolution import ScalarEvolution, Step, affine_of
from pypto.passes.pattern import constant_of
from pypto.passes.target_facts import CACHE

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.tile_access import AccessEmitter
    from pypto.backends.cpu.target import CpuTarget

L1: Final = 3  # locality argument of `llvm.prefetch` for the first-level cache
L2: Final = 2  # for the second-level cache


def prefetch_line(w: Writer, line: str, level: int, writes: bool = False) -> None:
    """Emit a prefetch of a cache line to a level; the address need not be valid."""
    w.call("void", "llvm.prefetch.p0", (("ptr", line), ("i32", str(int(writes))), ("i32", str(level)), ("i32", "1")))


def address_step(access: Access, loop: Op | None = None) -> Step | None:
    """Elements by which the address of an access grows from program to program, or from iteration to iteration of a
    loop.

    None where that is not known, or zero.
    """
    return evolution_over(loop).address_step(access, loop or 0) or None


def evolution_over(loop: Op | None) -> ScalarEvolution:
    """Scalar evolution over the grid, or over a loop; scalars from memory count as invariant.

    A wrong answer costs no more than a useless cache line.
    """
    return ScalarEvolution(() if loop is None else (loop,), memory_is_invariant=True)


def loads_to_prefetch(
    function: Function, nests: Iterable[Nest], ops: Callable[[Stmt], list[Op]]
) -> dict[Op, list[Nest]]:
    """The nests that read each load, in order: the last one prefetches it for the next program.

    The first one waits for the tile itself, so that prefetches there would compete with its loads. Of tiles that mostly
    hold the same elements, as the taps of a stencil do, one is prefetched.
    """
    if not is_enabled(function, "prefetch"):
        return {}
    nests_of: dict[Op, list[Nest]] = {}
    for nest, stmt in ((x, stmt) for x in nests for stmt in x.stmts):
        for op in (x for x in ops(stmt) if x.name == "tile_load"):
            if op in nests_of or not any(mostly_overlap(Access.of(op), Access.of(other)) for other in nests_of):
                nests_of.setdefault(op, []).append(nest)
    return nests_of


def mostly_overlap(a: Access, b: Access) -> bool:
    """Whether two tiles lie in one array, at most half of their length apart in each dimension."""
    if (a.base, a.strides, a.shape) != (b.base, b.strides, b.shape):
        return False
    distances = [
        affine_of(x, wraps=False) - affine_of(y, wraps=False) for x, y in zip(a.offsets, b.offsets, strict=True)
    ]
    return all(not d.terms and 2 * abs(d.number) <= size for d, size in zip(distances, a.shape, strict=True))


def target_level(loads: Iterable[Op], scratch_bytes: int, target: CpuTarget, loop: Op | None = None) -> int:
    """The level that has room for what is prefetched, beside invariant loads and scratch."""
    invariant = varying = 0
    for op in loads:
        if address_step(Access.of(op), loop):
            varying += tile_bytes(op)
        else:
            invariant += tile_bytes(op)
    fits = varying + scratch_bytes <= target.l1_budget and 2 * varying + scratch_bytes + invariant <= target.caches[0]
    return L1 if fits else L2


def tile_bytes(op: Op) -> int:
    """Bytes of a tile in an array."""
    return math.prod(op.results[0].shape) * memory_dtype(op.results[0].dtype).itemsize


def claim(loads: dict[Op, list[Nest]], max_bytes: int) -> Op | None:
    """Take a large load, of at most so many bytes, off the list: a product prefetches it in place of a nest."""
    for op in loads:
        access = Access.of(op)
        is_large = 32 * CACHE.line <= tile_bytes(op) <= max_bytes
        if is_large and address_step(access) and constant_of(access.strides[-1]) == 1:
            del loads[op]
            return op
    return None


def next_program_address(memory: AccessEmitter, op: Op) -> VectorValue:
    """The address of the first element that the next program loads."""
    e = memory.e
    access = Access.of(op)
    base = memory.scalar(access.base)
    first, _ = memory.element_offset(access, base, (None,) * len(access.shape), Chunk([], -1, 1))
    size = e.const(memory_dtype(op.results[0].dtype).itemsize, int64)
    return e.add(base, e.mul(e.add(first, step_value(memory, address_step(access) or {})), size))


def step_value(memory: AccessEmitter, step: Step) -> VectorValue:
    """The value of a step in elements."""
    e = memory.e
    terms = list[tuple[VectorValue, VectorValue]]()
    for factors, count in step.items():
        converted = (e.convert(memory.scalar(f), int64) for f in factors)
        terms.append((functools.reduce(memory.product, converted, e.const(1, int64)), e.const(count, int64)))
    return memory.offset(terms)


def prefetch_next(
    memory: AccessEmitter,
    op: Op,
    base: VectorValue,
    index: IndexMap,
    at: Chunk,
    level: int,
    loop: Op | None,
    alone: bool,
) -> None:
    """Emit prefetches of what the next program, or iteration, loads in place of this chunk.

    A load that one nest alone reads (`alone`) may be a plain stream. The hardware follows it, though not far enough for
    memory: nests with non-temporal stores prefetch further along the stream, other nests leave it to the hardware.
    """
    w = memory.w
    access = Access.of(op)
    is_stream = alone and at.nontemporal
    elem = op.results[0].dtype
    size = memory_dtype(elem).itemsize
    first, step = memory.element_offset(access, base, index, at)
    growth = address_step(access, loop)
    if growth is None or not (is_stream or not alone or any(growth)):
        return
    if step.text != "1" or at.masked or at.tail or at.width * size < CACHE.line:
        return
    if is_stream:
        distance = memory.e.const(memory.e.target.stream_prefetch // size, int64)
    else:
        distance = step_value(memory, growth)
    pointer = memory.pointer(base, first, elem)[0]
    pointer = w.raw(f"getelementptr {memory_type(elem)}, ptr {pointer}, i64 {distance.text}")
    for start in range(0, at.width * size, CACHE.line):
        prefetch_line(w, w.raw(f"getelementptr i8, ptr {pointer}, i64 {start}"), L1 if is_stream else level)
