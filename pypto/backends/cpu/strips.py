"""Products of tiles by one instruction: programs along the grid's second axis are one, a strip of columns or rows.

There the other side, whose rows come from the last cache for every block or are packed for it, takes longer than the
products. The programs along the first axis, a row of the grid, follow one another; the first of them says how many rows
are one, and the last goes on behind all of these. What is left, and what has too few programs for all threads, is done
program by program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.emitter import LaneEmitter
from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.merging import Columns, Merged, merge, taken, taller
from pypto.backends.cpu.operands import direct_of, words_of
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.writer import Carried
from pypto.ir.core import Function, Value
from pypto.ir.types import int32, int64

if TYPE_CHECKING:
    from pypto.backends.cpu.lower import FunctionEmitter

_LONG: Final = 512  # columns of a strip, or rows
_FEW: Final = 16  # rows of which a strip is not worth it
Place = Sequence[Lanes]


def merged_or_stripped(function: Function, target: CpuTarget) -> list[Merged]:
    """The function, merged where that pays; in strips beside it where its one product is of tiles."""
    made, dots = merge(function, target), [op for op in function.walk() if op.name == "dot"]
    apart = {"checked", "prints", "profile"} & function.attrs.keys()
    if len(made) > 1 or len(dots) != 1 or apart or not target.has_tiles or not words_of(dots[0], target):
        return made
    (result,) = dots[0].results
    found = next(filter(None, (strip(function, result, d, target) for d in (1, 0))), None)
    if direct_of(dots[0].operands[1]) is None or found is None:
        return made
    wide = found.merged(f"{function.name}.merged").function
    merged = taller(wide, [op for op in wide.walk() if op.name == "dot"], target)
    alone = replace(made[0].function, name=f"{function.name}.apart")
    return [replace(merged, strips=found.wide // found.width), replace(made[0], function=alone)]


def strip(function: Function, result: Value, d: int, target: CpuTarget) -> Columns | None:
    """Programs along the second axis as one, if they differ in columns (d = 1) or rows of a product.

    The result is to take a quarter of the second-level cache at most.
    """
    size, other = result.shape[d - 2], result.shape[-1 - d]
    fits = 2 * size <= _LONG and (other if d else size) > _FEW and other <= target.caches[1] // (16 * _LONG)
    found = Columns(function, 1, size, _LONG)
    return found if fits and found.found() and found.along.get(result) == len(result.shape) - 2 + d else None


def in_turns(made: Sequence[FunctionEmitter], name: str) -> int:
    """A kernel of two functions: whole strips by the one, from where a row of the grid begins, the rest by the other.

    Gives how many programs had best run one after the other: see `Artifact`.
    """
    e, first, end = made[-1].e, Lanes("%first", int64, 1, 0), Lanes("%last", int64, 1, 0)
    size, zero, count = made[-1].slot_at(0), e.const(0, int64), made[0].merged.strips
    strip = e.mul(size, e.const(count, int64))
    starts = e.cmp("eq", e.binary("urem", first, size), zero)
    whole = e.mul(e.binary("udiv", e.sub(end, first), strip), strip)
    cut = e.add(first, e.select(starts, whole, zero))
    for one, (start, stop) in zip(made, ((first, cut), (cut, end)), strict=True):
        e.w.line(f"call void @{one.function.name}(i64 {start.text}, i64 {stop.text}, i64 %thread, ptr %args)")
    e.w.line("ret void")
    e.w.end_kernel(name)
    return -count << 32


def step_from(
    e: LaneEmitter, merged: Merged, rows: Carried, program: Lanes, ids: Place, grid: Place
) -> tuple[Lanes, dict[int, Lanes]]:
    """How far the next program is, and the ends of those that are one with a program, by axis; `rows` hands on."""
    number, ends = taken(e, merged, program, ids, grid)
    if merged.strips > 1:
        one, left = e.const(1, int64), e.sub(Lanes("%last", int64, 1, 0), program)
        follow = e.minimum(e.binary("udiv", left, grid[0]), e.sub(grid[1], ids[1]))
        follow = e.minimum(follow, e.const(merged.strips, int64))
        here = e.select(e.cmp("eq", ids[0], e.const(0, int64)), follow, Lanes(rows.name, int64, 1, e.w.depth))
        rows.next, ends[1] = here.text, e.add(ids[1], here)
        done = e.cmp("ge", e.add(ids[0], number), grid[0])
        number = e.add(number, e.select(done, e.mul(grid[0], e.sub(here, one)), e.const(0, int64)))
    return number, {axis: e.convert(end, int32) for axis, end in ends.items()}
