"""What the next program will load, fetched while this one computes: into the first-level cache where it has room.

The hardware follows a stream within a page; the rows of the next program mostly begin in another one. A cell that works
for long asks itself, a few lines at a time: as many as a nest asks for at once wait for one another.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.lanes import Lanes, memory_type
from pypto.backends.cpu.loopir import Nest, Stmt
from pypto.backends.cpu.memory import Chunk, memory_dtype
from pypto.backends.cpu.pull import IndexMap
from pypto.backends.cpu.writer import Writer
from pypto.ir.core import Op, Value
from pypto.ir.types import int64
from pypto.ops.memory import Access
from pypto.passes.pattern import constant_of

if TYPE_CHECKING:
    from pypto.backends.cpu.access import AccessEmitter
    from pypto.backends.cpu.target import CpuTarget

LINE: Final = 64  # bytes of a cache line
NEAR, FAR = 3, 2  # the first-level cache, the second
ROOM: Final = 20 << 10  # bytes that a program may keep and ask for in a first level of 32 KB or more
_SOON: Final = 2 << 10  # bytes from what is computed to what is asked for: memory takes that long
Terms = list[tuple[tuple[Value, ...], int]]  # a sum of products of scalars, each times a number


def fetch(w: Writer, line: str, near: int, writes: bool = False) -> None:
    """Have a cache line fetched to a level, whether it exists or not."""
    w.call("void", "llvm.prefetch.p0", (("ptr", line), ("i32", str(int(writes))), ("i32", str(near)), ("i32", "1")))


def slope(v: Value, loop: Op | None = None) -> Terms | None:
    """How much an integer or a pointer (in elements) grows from program to program, or from turn to turn of a loop.

    None where that is not known.
    """
    known: dict[Value, Terms | None] = {}
    work = [v]
    while work:
        last = work.pop()
        operands = last.op.operands if last.op is not None else ()
        if waiting := [x for x in operands if x not in known]:
            work += [last, *waiting]
        elif last not in known:
            known[last] = grown(last, [known[x] for x in operands], loop)
    return known[v]


def grown(v: Value, slopes: list[Terms | None], loop: Op | None) -> Terms | None:
    """The slope of a value, given those of its operands."""
    op = v.op
    if op is None:
        return begun(v, loop)
    if op.name == "program_id":
        return [((), 1)] if op.attrs["axis"] == 0 and loop is None else []
    if op.regions and loop is not None:
        return None
    if not any(slopes) and None not in slopes:
        return []
    first, *others = (s or [] for s in slopes)
    if None in slopes or op.name not in ("cast", "add", "addptr", "sub", "mul"):
        return None
    if op.name == "mul":
        factor, terms = (op.operands[1], first) if first else (op.operands[0], others[0])
        return times(terms, factor) if not (first and others[0]) else None
    sign = -1 if op.name == "sub" else 1
    return [*first, *((x, n * sign) for terms in others for x, n in terms)]


def begun(v: Value, loop: Op | None) -> Terms | None:
    """The slope of a kernel's argument, or of what a loop counts or carries."""
    index, *carried = loop.regions[0].args if loop is not None else (None,)
    if loop is None or v is not index:
        return None if v in carried else []
    return times([((), 1)], loop.operands[2])


def times(terms: Terms, factor: Value) -> Terms:
    number = constant_of(factor)
    if number is not None:
        return [(x, n * int(number)) for x, n in terms]
    return [((*x, factor), n) for x, n in terms]


def moves(access: Access, loop: Op | None = None) -> Terms | None:
    """How many elements the address grows by; None where that is not known, or nothing."""
    if access.base.shape:
        return None
    total = slope(access.base, loop)
    for offset, stride in zip(access.offsets, access.strides, strict=True):
        steps = slope(offset, loop)
        total = [*total, *times(steps, stride)] if total is not None and steps is not None else None
    return total or None


def asking(nests: Iterable[Nest], ops: Callable[[Stmt], list[Op]]) -> dict[Op, list[Nest]]:
    """The nests that load a tile, in order: the last one asks for the next program's.

    Where there are several, that one has not to wait for the tile itself, as the first one does.
    """
    found = [(op, nest) for nest in nests for stmt in nest.stmts for op in ops(stmt) if op.name == "tile_load"]
    return {op: [nest for x, nest in found if x is op] for op, _ in found}


def level(loads: Iterable[Op], kept: int, target: CpuTarget, loop: Op | None = None) -> int:
    """The cache that takes what loads ask for, beside what all programs load and so many bytes that each one keeps."""
    sizes = [0, 0]
    for op in loads:
        sizes[bool(moves(Access.of(op), loop))] += tile_bytes(op)
    stays, comes = sizes
    return NEAR if comes + kept <= ROOM and 2 * comes + kept + stays <= target.caches[0] else FAR


def tile_bytes(op: Op) -> int:
    """Bytes of a tile in memory."""
    return math.prod(op.results[0].shape) * memory_dtype(op.results[0].dtype).itemsize


def taken_over(asking: dict[Op, list[Nest]], most: int) -> Op | None:
    """A load of many bytes, though no more than so many, that a cell asks for in place of a nest."""
    large = (op for op in asking if 32 * LINE <= tile_bytes(op) <= most)
    found = next((op for op in large if moves(a := Access.of(op)) and constant_of(a.strides[-1]) == 1), None)
    if found is not None:
        del asking[found]
    return found


def start_ahead(memory: AccessEmitter, op: Op) -> Lanes:
    """Address of the first element that the next program loads."""
    e, access = memory.e, Access.of(op)
    base, start = memory.scalar(access.base), Chunk([], -1, 1)
    first, _ = memory.place_of(access, base, (None,) * len(access.shape), start)
    size = e.const(memory_dtype(op.results[0].dtype).itemsize, int64)
    return e.add(base, e.mul(e.add(first, further(memory, moves(access) or [])), size))


def further(memory: AccessEmitter, terms: Terms) -> Lanes:
    """How many elements further the next program loads."""
    e = memory.e
    found = list[tuple[Lanes, Lanes]]()
    for factors, count in terms:
        wide = (e.convert(memory.scalar(f), int64) for f in factors)
        found.append((functools.reduce(memory.product, wide, e.const(1, int64)), e.const(count, int64)))
    return memory.offset(found)


def prefetch(
    memory: AccessEmitter, op: Op, base: Lanes, index: IndexMap, at: Chunk, to: int, loop: Op | None, alone: bool
) -> None:
    """Ask for what the next program, or turn of a loop, will load in place of this chunk.

    What a nest `alone` loads may be a plain stream, which the hardware follows, though not far enough for memory: a
    nest that stores past the caches asks for what it loads itself soon, any other leaves streams alone.
    """
    w, access, soon = memory.w, Access.of(op), alone and at.streaming
    (first, step), elem, terms = memory.place_of(access, base, index, at), op.results[0].dtype, moves(access, loop)
    size, goes = memory_dtype(elem).itemsize, terms is not None and (soon or not alone or any(x for x, _ in terms))
    if not goes or step.text != "1" or at.masked or at.tail or at.width * size < LINE:
        return
    ahead = memory.e.const(_SOON // size, int64) if soon else further(memory, terms or [])
    pointer = memory.pointer(base, first, elem)[0]
    pointer = w.raw(f"getelementptr {memory_type(elem)}, ptr {pointer}, i64 {ahead.text}")
    for start in range(0, at.width * size, LINE):
        fetch(w, w.raw(f"getelementptr i8, ptr {pointer}, i64 {start}"), NEAR if soon else to)
