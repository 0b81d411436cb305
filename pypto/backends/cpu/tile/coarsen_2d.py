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

from pypto.backends.cpu.gemm.operands import in_place_operand, packing_factor
from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.llvm.writer import Carried
from pypto.backends.cpu.target import CpuTarget
from pypto.backends.cpu.tile.coarsening import CoarsenAxis, Coarsened, coarsen_programs, coarsen_rows, covered_programs
from pypto.ir.core import Function, Value
from pypto.ir.types import int32, int64

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.function import FunctionEmitter

_STRIP_EXTENT: Final = 512  # columns of a strip, or rows
_MIN_ROWS: Final = 16  # rows of which a strip is not worth it
Place = Sequence[VectorValue]


def coarsen(function: Function, target: CpuTarget) -> list[Coarsened]:
    """The function, merged where that pays; in strips beside it where its one product is of tiles."""
    made, dots = coarsen_programs(function, target), [op for op in function.walk() if op.name == "dot"]
    apart = {"checked", "prints", "profile"} & function.attrs.keys()
    if len(made) > 1 or len(dots) != 1 or apart or not target.has_tiles or not packing_factor(dots[0], target):
        return made
    (result,) = dots[0].results
    found = next(filter(None, (coarsen_second_axis(function, result, d, target) for d in (1, 0))), None)
    if in_place_operand(dots[0].operands[1]) is None or found is None:
        return made
    wide = found.rewrite(f"{function.name}.merged").function
    merged = coarsen_rows(wide, [op for op in wide.walk() if op.name == "dot"], target)
    alone = replace(made[0].function, name=f"{function.name}.apart")
    return [replace(merged, second_factor=found.coarse_extent // found.width), replace(made[0], function=alone)]


def coarsen_second_axis(function: Function, result: Value, d: int, target: CpuTarget) -> CoarsenAxis | None:
    """Programs along the second axis as one, if they differ in columns (d = 1) or rows of a product.

    The result is to take a quarter of the second-level cache at most.
    """
    size, other = result.shape[d - 2], result.shape[-1 - d]
    fits = (
        2 * size <= _STRIP_EXTENT
        and (other if d else size) > _MIN_ROWS
        and other <= target.caches[1] // (16 * _STRIP_EXTENT)
    )
    found = CoarsenAxis(function, 1, size, _STRIP_EXTENT)
    return (
        found
        if fits and found.is_coarsenable() and found.coarsened_dim.get(result) == len(result.shape) - 2 + d
        else None
    )


def dispatch_strips(made: Sequence[FunctionEmitter], name: str) -> int:
    """A kernel of two functions: whole strips by the one, from where a row of the grid begins, the rest by the other.

    Gives how many programs had best run one after the other: see `Artifact`.
    """
    e, first, end = made[-1].e, VectorValue("%first", int64, 1, 0), VectorValue("%last", int64, 1, 0)
    size, zero, count = made[-1].slot_at(0), e.const(0, int64), made[0].coarsened.second_factor
    strip = e.mul(size, e.const(count, int64))
    starts = e.cmp("eq", e.binary("urem", first, size), zero)
    whole = e.mul(e.binary("udiv", e.sub(end, first), strip), strip)
    cut = e.add(first, e.select(starts, whole, zero))
    for one, (start, stop) in zip(made, ((first, cut), (cut, end)), strict=True):
        e.w.line(f"call void @{one.function.name}(i64 {start.text}, i64 {stop.text}, i64 %thread, ptr %args)")
    e.w.line("ret void")
    e.w.end_kernel(name)
    return -count << 32


def next_program(
    e: LaneEmitter, merged: Coarsened, rows: Carried, program: VectorValue, ids: Place, grid: Place
) -> tuple[VectorValue, dict[int, VectorValue]]:
    """How far the next program is, and the ends of those that are one with a program, by axis; `rows` hands on."""
    number, ends = covered_programs(e, merged, program, ids, grid)
    if merged.second_factor > 1:
        one, left = e.const(1, int64), e.sub(VectorValue("%last", int64, 1, 0), program)
        follow = e.minimum(e.binary("udiv", left, grid[0]), e.sub(grid[1], ids[1]))
        follow = e.minimum(follow, e.const(merged.second_factor, int64))
        here = e.select(e.cmp("eq", ids[0], e.const(0, int64)), follow, VectorValue(rows.name, int64, 1, e.w.depth))
        rows.next, ends[1] = here.text, e.add(ids[1], here)
        done = e.cmp("ge", e.add(ids[0], number), grid[0])
        number = e.add(number, e.select(done, e.mul(grid[0], e.sub(here, one)), e.const(0, int64)))
    return number, {axis: e.convert(end, int32) for axis, end in ends.items()}
