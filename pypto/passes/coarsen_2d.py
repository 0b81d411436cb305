"""Program coarsening along both axes of the grid: strips of columns or rows for products of tiles (AMX).

AMX multiplies tiles so fast that the other operand is the bottleneck: its rows come from the third-level cache for
every block, or are packed for it. A strip of programs along the grid's second axis uses each of them more often.

Legality: as in `coarsening`, for the second axis. Programs along the first axis are consecutive, and those of a strip
lie a row of the grid apart, so that whole rows of the grid are needed. Remaining programs, and launches with too few
programs for all threads, run the single version: the CPU's `codegen/dispatch.py` chooses.

    %at = program_id(1) * 64                                 %at = program_id(1) * 64
    %b = tile_load %pb[0, %at], shape [64, 64]      ->       %b = tile_load %pb[0, %at], shape [64, 512]
"""

from __future__ import annotations

from dataclasses import replace

from pypto.ir.core import Function, Value
from pypto.passes.analysis.dot_facts import in_place_operand, packing_factor
from pypto.passes.coarsening import CoarsenAxis, coarsen_rows
from pypto.passes.target_facts import TargetFacts


def coarsen_strips(versions: list[Function], function: Function, target: TargetFacts) -> list[Function]:
    """The versions of a kernel: for a lone product of tiles, one over strips before the single one."""
    dots = [op for op in function.walk() if op.name == "dot"]
    if len(versions) > 1 or len(dots) != 1 or not target.has_amx:
        return versions
    dot = dots[0]
    axes = filter(None, (coarsen_second_axis(function, dot.result, d, target) for d in (1, 0)))
    coarsening = next(axes, None) if packing_factor(dot, target) else None
    if in_place_operand(dot.operands[1]) is None or coarsening is None:
        return versions
    strip = coarsening.rewrite(f"{function.name}.coarsened")
    factor = strip.programs.factor
    strip = replace(strip, programs=function.programs)
    strip = coarsen_rows(strip, [op for op in strip.walk() if op.name == "dot"], target)
    strip = replace(strip, programs=replace(strip.programs, second_factor=factor))
    return [strip, replace(versions[0], name=f"{function.name}.single")]


def coarsen_second_axis(function: Function, result: Value, d: int, target: TargetFacts) -> CoarsenAxis | None:
    """The coarsening along the second axis, whose programs differ in columns (d = 1) or rows (d = 0) of a product.

    The result has to fit into a quarter of the second-level cache. None where it is not legal or does not pay.
    """
    size = result.shape[d - 2]
    other = result.shape[-1 - d]
    limits = target.coarsening
    extent = (target.blocking.nc if d else target.blocking.mc) or limits.strip_extent
    rows = other if d else size
    if 2 * size > extent or rows <= limits.min_rows or other > target.caches[1] // (16 * extent):
        return None
    coarsening = CoarsenAxis(function, 1, size, extent)
    is_legal = coarsening.is_coarsenable() and coarsening.coarsened_dim.get(result) == len(result.shape) - 2 + d
    return coarsening if is_legal else None
