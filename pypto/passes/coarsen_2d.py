"""Program coarsening along both axes of the grid: strips of columns or rows for products of tiles (AMX).

One instruction multiplies tiles so fast that the other operand takes longer: its rows come from the third-level cache
for every block, or are packed for it. A strip of programs along the grid's second axis uses each of them more often.

Legality: as in `coarsening`, for the second axis. Programs along the first axis follow one another, and those of a
strip lie a row of the grid apart, so whole rows of the grid are needed. What is left, and what has too few programs for
all threads, runs program by program: the CPU's `codegen/dispatch.py` chooses.

    %at = program_id(1) * 64                                 %at = program_id(1) * 64
    %b = tile_load %pb[0, %at], shape [64, 64]      ->       %b = tile_load %pb[0, %at], shape [64, 512]
"""

from __future__ import annotations

from dataclasses import replace

from pypto.ir.core import Function, Value
from pypto.passes.coarsening import CoarsenAxis, coarsen_rows
from pypto.passes.dot_facts import in_place_operand, packing_factor
from pypto.passes.target_facts import TargetFacts


def coarsen_strips(versions: list[Function], function: Function, target: TargetFacts) -> list[Function]:
    """The versions of a kernel: those that there are, or strips beside one of them for a product of tiles."""
    dots = [op for op in function.walk() if op.name == "dot"]
    if len(versions) > 1 or len(dots) != 1 or not target.has_amx:
        return versions
    dot = dots[0]
    axes = filter(None, (coarsen_second_axis(function, dot.result, d, target) for d in (1, 0)))
    found = next(axes, None) if packing_factor(dot, target) else None
    if in_place_operand(dot.operands[1]) is None or found is None:
        return versions
    wide = found.rewrite(f"{function.name}.merged")
    factor, wide = wide.programs.factor, replace(wide, programs=function.programs)
    coarse = coarsen_rows(wide, [op for op in wide.walk() if op.name == "dot"], target)
    coarse = replace(coarse, programs=replace(coarse.programs, second_factor=factor))
    return [coarse, replace(versions[0], name=f"{function.name}.apart")]


def coarsen_second_axis(function: Function, result: Value, d: int, target: TargetFacts) -> CoarsenAxis | None:
    """Programs along the second axis as one, if they differ in columns (d = 1) or rows of a product.

    The result is to take a quarter of the second-level cache at most.
    """
    size, other, limits = result.shape[d - 2], result.shape[-1 - d], target.coarsening
    extent = (target.blocking.nc if d else target.blocking.mc) or limits.strip_extent
    fits = (
        2 * size <= extent and (other if d else size) > limits.min_rows and other <= target.caches[1] // (16 * extent)
    )
    found = CoarsenAxis(function, 1, size, extent)
    return (
        found
        if fits and found.is_coarsenable() and found.coarsened_dim.get(result) == len(result.shape) - 2 + d
        else None
    )
