"""Dispatch between versions of a kernel: single programs, and those that do the work of several (coarsened).

A coarsened function is right for programs that follow one another in the grid. What a launch hands to a thread is a
range of programs, so the kernel decides for each range, or within it, which version runs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pypto.backends.base import Locality
from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.llvm.writer import Carried
from pypto.backends.cpu.loopir.ir import LibraryOp, walk
from pypto.ir.core import ProgramMap
from pypto.ir.types import int32, int64

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.function import FunctionEmitter

Place = Sequence[VectorValue]


def dispatch_coarsened(made: Sequence[FunctionEmitter], name: str) -> Locality:
    """A kernel of two functions: with merged programs where they follow in order, else the other.

    The locality that it returns keeps programs together that are merged or share packed panels.
    """
    last = made[-1]
    together = [item.programs_sharing for item in walk(last.schedule.items) if isinstance(item, LibraryOp)]
    shared = 0 in together
    if len(made) == 1:
        return Locality("row") if shared else Locality("programs", max(last.function.programs.factor, *together, 1))
    e, programs = last.e, made[0].function.programs
    alone = e.cmp("eq", functools.reduce(e.mul, map(last.slot_at, range(programs.axis))), e.const(1, int64))
    kernel = e.w.raw(f"select i1 {alone.text}, {', '.join(f'ptr @{x.function.name}' for x in made)}")
    e.w.line(f"call void {kernel}(i64 %first, i64 %last, i64 %thread, ptr %args)")
    e.w.line("ret void")
    e.w.end_kernel(name)
    return Locality("row" if shared else "programs", programs.factor)


def dispatch_strips(made: Sequence[FunctionEmitter], name: str) -> Locality:
    """A kernel of two functions: whole strips by the one, from where a row of the grid begins, the rest by the other.

    The locality that it returns keeps the rows of a strip together.
    """
    e, first, end = made[-1].e, VectorValue("%first", int64, 1, 0), VectorValue("%last", int64, 1, 0)
    size, zero, count = made[-1].slot_at(0), e.const(0, int64), made[0].function.programs.second_factor
    strip = e.mul(size, e.const(count, int64))
    starts = e.cmp("eq", e.binary("urem", first, size), zero)
    whole = e.mul(e.binary("udiv", e.sub(end, first), strip), strip)
    cut = e.add(first, e.select(starts, whole, zero))
    for one, (start, stop) in zip(made, ((first, cut), (cut, end)), strict=True):
        e.w.line(f"call void @{one.function.name}(i64 {start.text}, i64 {stop.text}, i64 %thread, ptr %args)")
    e.w.line("ret void")
    e.w.end_kernel(name)
    return Locality("rows", count)


def covered_programs(
    e: LaneEmitter, programs: ProgramMap, program: VectorValue, ids: Sequence[VectorValue], grid: Sequence[VectorValue]
) -> tuple[VectorValue, dict[int, VectorValue]]:
    """How many programs are one with a program, and their end: as many as follow along the axis in order."""
    if programs.factor == 1:
        return e.const(1, int64), {}
    own = ids[programs.axis]
    left = e.minimum(e.sub(VectorValue("%last", int64, 1, 0), program), e.sub(grid[programs.axis], own))
    number = e.minimum(left, e.const(programs.factor, int64))
    return number, {programs.axis: e.add(own, number)}


def next_program(
    e: LaneEmitter, programs: ProgramMap, rows: Carried, program: VectorValue, ids: Place, grid: Place
) -> tuple[VectorValue, dict[int, VectorValue]]:
    """How far the next program is, and the ends of those that are one with a program, by axis; `rows` hands on."""
    number, ends = covered_programs(e, programs, program, ids, grid)
    if programs.second_factor > 1:
        one, left = e.const(1, int64), e.sub(VectorValue("%last", int64, 1, 0), program)
        follow = e.minimum(e.binary("udiv", left, grid[0]), e.sub(grid[1], ids[1]))
        follow = e.minimum(follow, e.const(programs.second_factor, int64))
        here = e.select(e.cmp("eq", ids[0], e.const(0, int64)), follow, VectorValue(rows.name, int64, 1, e.w.depth))
        rows.next, ends[1] = here.text, e.add(ids[1], here)
        done = e.cmp("ge", e.add(ids[0], number), grid[0])
        number = e.add(number, e.select(done, e.mul(grid[0], e.sub(here, one)), e.const(0, int64)))
    return number, {axis: e.convert(end, int32) for axis, end in ends.items()}
