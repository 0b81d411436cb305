"""Dispatch between versions of a kernel: single programs, and programs that were coarsened.

A coarsened program does the work of several consecutive programs of the grid. A launch hands each thread a range of
programs, so the kernel decides at run time, for the range or within it, which version runs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pypto.backends.base import Locality
from pypto.backends.cpu.loopir.ir import LibraryOp, walk
from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.llvm.value import VectorValue
from pypto.backends.llvm.writer import Carried
from pypto.ir.core import ProgramMap
from pypto.ir.types import int32, int64

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.function import FunctionEmitter

GridIndex = Sequence[VectorValue]  # by axis


def dispatch_coarsened(versions: Sequence[FunctionEmitter], name: str) -> Locality:
    """Emit the kernel of two versions along one axis: the coarsened one where that axis runs fastest.

    The returned locality keeps programs on one thread that are coarsened together or share packed panels.
    """
    last = versions[-1]
    sharing = [item.programs_sharing for item in walk(last.schedule.items) if isinstance(item, LibraryOp)]
    shares_row, axis = 0 in sharing, last.function.programs.order[0]
    if len(versions) == 1:
        if shares_row:
            return Locality("row", axis=axis)
        return Locality("programs", max(last.function.programs.factor, *sharing, 1))
    e = last.e
    programs = versions[0].function.programs
    inner_axes = functools.reduce(e.mul, map(last.grid_size, range(programs.axis)))
    runs_fastest = e.cmp("eq", inner_axes, e.const(1, int64))
    kernel = e.w.raw(f"select i1 {runs_fastest.text}, {', '.join(f'ptr @{x.function.name}' for x in versions)}")
    e.w.line(f"call void {kernel}(i64 %first, i64 %last, i64 %thread, ptr %args)")
    e.w.line("ret void")
    e.end_kernel(name)
    return Locality("row" if shares_row else "programs", programs.factor, axis)


def dispatch_strips(versions: Sequence[FunctionEmitter], name: str) -> Locality:
    """Emit the kernel of two versions along two axes: the first runs whole strips, the second the remaining programs.

    A strip is `second_factor` rows of the grid; strips are taken only where a range begins with a row. The returned
    locality keeps the rows of a strip on one thread.
    """
    e = versions[-1].e
    first = VectorValue("%first", int64, 1, 0)
    end = VectorValue("%last", int64, 1, 0)
    row = versions[-1].grid_size(0)
    zero = e.const(0, int64)
    count = versions[0].function.programs.second_factor
    strip = e.mul(row, e.const(count, int64))
    starts_row = e.cmp("eq", e.binary("urem", first, row), zero)
    in_strips = e.mul(e.binary("udiv", e.sub(end, first), strip), strip)
    split = e.add(first, e.select(starts_row, in_strips, zero))
    for version, (start, stop) in zip(versions, ((first, split), (split, end)), strict=True):
        e.w.line(f"call void @{version.function.name}(i64 {start.text}, i64 {stop.text}, i64 %thread, ptr %args)")
    e.w.line("ret void")
    e.end_kernel(name)
    return Locality("rows", count, versions[0].function.programs.order[0])


def covered_programs(
    e: CpuLaneEmitter,
    programs: ProgramMap,
    program: VectorValue,
    ids: Sequence[VectorValue],
    grid: Sequence[VectorValue],
) -> tuple[VectorValue, dict[int, VectorValue]]:
    """The number of programs that a coarsened program covers along its axis, and the end of these by axis."""
    if programs.factor == 1:
        return e.const(1, int64), {}
    position = ids[programs.axis]
    remaining = e.minimum(e.sub(VectorValue("%last", int64, 1, 0), program), e.sub(grid[programs.axis], position))
    number = e.minimum(remaining, e.const(programs.factor, int64))
    return number, {programs.axis: e.add(position, number)}


def next_program(
    e: CpuLaneEmitter, programs: ProgramMap, rows: Carried, program: VectorValue, ids: GridIndex, grid: GridIndex
) -> tuple[VectorValue, dict[int, VectorValue]]:
    """The distance to the next program, and the ends of what a coarsened program covers, by axis.

    `rows` is the phi with the number of grid rows in the strip. The first program of a row sets it; the last one steps
    over the other rows of the strip.
    """
    number, ends = covered_programs(e, programs, program, ids, grid)
    if programs.second_factor > 1:
        one = e.const(1, int64)
        remaining = e.sub(VectorValue("%last", int64, 1, 0), program)
        available = e.minimum(e.binary("udiv", remaining, grid[0]), e.sub(grid[1], ids[1]))
        available = e.minimum(available, e.const(programs.second_factor, int64))
        carried = VectorValue(rows.name, int64, 1, e.w.depth)
        strip_rows = e.select(e.cmp("eq", ids[0], e.const(0, int64)), available, carried)
        rows.next = strip_rows.text
        ends[1] = e.add(ids[1], strip_rows)
        ends_row = e.cmp("ge", e.add(ids[0], number), grid[0])
        number = e.add(number, e.select(ends_row, e.mul(grid[0], e.sub(strip_rows, one)), e.const(0, int64)))
    return number, {axis: e.convert(end, int32) for axis, end in ends.items()}
