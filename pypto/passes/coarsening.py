"""Program coarsening: neighbouring programs of a product become one, with larger tiles.

A product with few rows is as fast as B comes from memory, and memory gives long stretches faster than short ones: a
program with the columns of several reads longer stretches of each row of B. A product whose K is so deep that its
panels exceed the second-level cache is as fast as they come from the third one: a program with the rows of several
reads them that often less.

Legality: in each tile that depends on the program's place on one axis, one dimension moves by its size from program to
program, and nothing else depends on the axis. A coarsened program covers at most `factor` programs; `num_programs` of
the axis is the end of those that it covers, and clips what it loads and stores.

    %at = program_id * 32                                    %at = program_id * 32
    %b = tile_load %pb[0, %at] up to %n, shape [16, 32]  ->  %end = minimum %n, num_programs * 32
                                                             %b = tile_load %pb[0, %at] up to %end, shape [16, 1024]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ops.build import OpBuilder
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.passes.dimensions import is_movement, source_dims
from pypto.passes.dot_facts import in_place_operand, may_be_skinny
from pypto.passes.memory_effects import has_side_effects
from pypto.passes.pattern import constant_range
from pypto.passes.scalar_evolution import ScalarEvolution, constant_step
from pypto.passes.target_facts import TargetFacts


def coarsen_programs(function: Function, target: TargetFacts) -> list[Function]:
    """The function, its programs merged where that is right and pays.

    Where others may lie in the grid before those that can be merged, a kernel of single programs is needed, too; what
    is profiled is one kernel.
    """
    dots = [op for op in function.walk() if op.name == "dot"]
    widths = {op.operands[1].shape[-1] for op in dots if is_profitable(op, target)}
    if not widths:
        return [coarsen_rows(function, dots, target)]
    rows = max(op.results[0].shape[-2] for op in dots if is_profitable(op, target))
    limits = target.coarsening
    size = target.blocking.nc or (limits.single_row_extent if rows == 1 else limits.extent)
    if len(widths) != 1 or 2 * min(widths) > size:
        return [function]
    found = next(
        (x for x in (CoarsenAxis(function, axis, min(widths), size) for axis in range(3)) if x.is_coarsenable()), None
    )
    if found is None or (found.axis and function.attrs.get("profile")):
        return [function]
    if not found.axis:
        return [found.rewrite(function.name)]
    programs = replace(function.programs, has_coarsened_version=True)
    single = replace(function, name=f"{function.name}.apart", programs=programs)
    return [found.rewrite(f"{function.name}.merged"), single]


def coarsen_rows(function: Function, dots: Sequence[Op], target: TargetFacts) -> Function:
    """The function with more rows, where its one product is deep, and programs in a row differ in their rows.

    The result is to stay in the second-level cache from one step to the next.
    """
    if len(dots) != 1 or not has_large_panels(function, dots[0], target):
        return function
    (result,) = dots[0].results
    rows, columns = result.shape
    fitting = target.caches[1] // 2 // (columns * result.dtype.itemsize)
    size = target.blocking.mc or min(target.coarsening.extent, fitting)
    found = CoarsenAxis(function, 0, rows, size)
    better = 2 * rows <= size and found.is_coarsenable() and found.coarsened_dim.get(result) == 0
    return found.rewrite(function.name) if better else function


def has_large_panels(function: Function, dot: Op, target: TargetFacts) -> bool:
    """True when a sum of products is known to need more panels than half of the second-level cache holds."""
    loop = next((op for op in function.body.ops if op.name == "for" and dot in op.regions[0].ops), None)
    b, steps = dot.operands[1], constant_range(loop.operands[:3]) if loop is not None else None
    plain = len(dot.results[0].shape) == 2 and in_place_operand(b) is not None
    return plain and len(steps or ()) * math.prod(b.shape) * b.dtype.itemsize > target.caches[1] // 2


def is_profitable(dot: Op, target: TargetFacts) -> bool:
    found = in_place_operand(dot.operands[1])
    return found is not None and not found[0].transposed and may_be_skinny(dot, target)


@dataclass
class CoarsenAxis:
    """Tiles whose size in one dimension is the `width` that programs along an axis lie apart.

    `coarsened_dim` says which.

    `carrying_loop` are loops by their arguments, `axis_dependent` scalars that depend on the program's place on the
    axis.
    """

    function: Function
    axis: int
    width: int
    max_extent: int
    coarsened_dim: dict[Value, int] = field(default_factory=dict)
    carrying_loop: dict[Value, Op] = field(default_factory=dict)
    axis_dependent: set[Value] = field(default_factory=set)
    evolution: ScalarEvolution = field(default_factory=ScalarEvolution)

    # --- recognising --------------------------------------------------------------------------------------------

    def is_coarsenable(self) -> bool:
        """True when all that depends on the axis are such tiles, and where they lie."""
        ops = list(self.function.walk())
        self.carrying_loop = {v: op for op in ops if op.name == "for" for v in op.regions[0].args[1:]}
        self.evolution = ScalarEvolution.of(self.function)
        scalars = [v for op in ops for v in op.results if not v.shape]
        self.axis_dependent = {v for v in scalars if self.evolution.step(v, self.axis)}
        stores = [op for op in ops if op.name == "tile_store"]
        return bool(stores) and all(map(self.trace_store, stores)) and all(map(self.is_unaffected, ops))

    def is_unaffected(self, op: Op) -> bool:
        """True when an op gives the same for merged programs; what was followed is right if its operands are."""
        if op.name in ("num_programs", "program_id"):
            return op.name == "program_id" or op.attrs["axis"] != self.axis
        if op.name == "for":
            region = op.regions[0]
            handed = zip(op.operands[3:], region.args[1:], op.results, region.terminator.operands, strict=True)
            alike = all(len({v in self.coarsened_dim for v in values}) == 1 for values in handed)
            return alike and self.axis_dependent.isdisjoint(op.operands)
        d = self.coarsened_dim_of(op)
        if d is not None and op.name in ("tile_load", "tile_store", "dot"):
            return op.operands[op.name == "dot" and d < len(op.results[0].shape) - 1] not in self.coarsened_dim
        if d is not None and op.name == "broadcast_to":
            return self.coarsened_dim.get(op.operands[0], d) == d
        if op.name == "yield" or (
            op.results and (op.results[0] in self.coarsened_dim or op.results[0] in self.axis_dependent)
        ):
            return True
        pure = op.regions or not has_side_effects(op)
        return bool(pure) and not any(v in self.coarsened_dim or v in self.axis_dependent for v in op.operands)

    def coarsened_dim_of(self, op: Op) -> int | None:
        """The dimension of the columns in what an op makes or stores."""
        if op.name == "tile_store":
            return next((d for d, v in enumerate(Access.of(op).offsets) if v in self.axis_dependent), None)
        return self.coarsened_dim.get(op.results[0]) if op.results else None

    def trace_store(self, op: Op) -> bool:
        access, d = Access.of(op), self.coarsened_dim_of(op)
        if d is None or access.value is None or not self.follows_axis(access, d):
            return False
        return self.trace(access.value, d) and (access.mask is None or self.trace(access.mask, d))

    def follows_axis(self, access: Access, d: int) -> bool:
        """True when the columns of the access are those of the program, and nothing else depends on the axis."""
        fixed = (access.base, *access.strides, *access.extents, *(v for i, v in enumerate(access.offsets) if i != d))
        plain = access.shape[d] == self.width and (not access.base.shape or access.base.shape[d] == 1)
        return (
            plain
            and self.axis_dependent.isdisjoint(fixed)
            and constant_step(self.evolution.step(access.offsets[d], self.axis)) == self.width
        )

    def trace(self, v: Value, d: int) -> bool:
        """True when a tile can be made wider in dimension `d`, with all that it is computed from."""
        if v in self.coarsened_dim or v.shape[d] != self.width:
            return self.coarsened_dim.get(v) == d
        self.coarsened_dim[v] = d
        op = self.carrying_loop.get(v) if v.op is None else v.op
        if op is None:
            return False
        if op.name == "for":
            args = op.regions[0].args[1:]
            n = args.index(v) if v.op is None else op.results.index(v)
            handed = args[n], op.results[n], op.operands[3 + n], op.regions[0].terminator.operands[n]
            return all(self.trace(x, d) for x in handed)
        return self.trace_op(op, d)

    def trace_op(self, op: Op, d: int) -> bool:
        first = op.operands[0] if op.operands else None
        if op.name == "tile_load":
            access = Access.of(op)
            return self.follows_axis(access, d) and all(
                x is None or self.trace(x, d) for x in (access.mask, access.other)
            )
        if first is None:
            return op.name == "constant"
        sources = source_dims(op.results[0], d)
        if op.name == "broadcast_to" and not sources:
            return first not in self.axis_dependent and first not in self.coarsened_dim
        is_product = op.name == "dot" and d >= len(op.results[0].shape) - 2
        is_followed = TABLE[op.name].elementwise or is_movement(op) or is_product
        return is_followed and bool(sources) and all(self.trace(*source) for source in sources)

    @property
    def coarse_extent(self) -> int:
        """The size for merged programs."""
        return self.max_extent // self.width * self.width

    # --- rewriting ----------------------------------------------------------------------------------------------

    def rewrite(self, name: str) -> Function:
        types = {
            v: v.tile.with_shape(with_extent(v.shape, d, self.coarse_extent)) for v, d in self.coarsened_dim.items()
        }
        function = rewrite(self.function, self.rewrite_op, OpBuilder, types)
        programs = replace(function.programs, axis=self.axis, factor=self.coarse_extent // self.width)
        return replace(function, name=name, programs=programs)

    def rewrite_op(self, rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        d = self.coarsened_dim_of(op) if "shape" in op.attrs else None
        if d is None:
            return None
        operands, shape = list(rewriter.operands(op)), op.attrs["shape"]
        if op.name in ("tile_load", "tile_store"):
            access = Access.of(op)
            end = self.grid_end(rewriter, access.offsets[d])
            place = 1 + 2 * len(shape) + d
            operands[place] = rewriter.builder.emit("minimum", operands[place], end, propagate_nan=False)
        attrs = {**op.attrs, "shape": with_extent(shape, d, self.coarse_extent)}
        types = tuple(rewriter.types[v] for v in op.results)
        return rewriter.builder.create(op.name, tuple(operands), attrs, types).results

    def grid_end(self, rewriter: Rewriter[OpBuilder], v: Value) -> Value:
        """What an offset would be for the program behind the last."""
        if v not in self.axis_dependent or v.op is None:
            return rewriter.value(v)
        if v.op.name == "program_id":
            return rewriter.builder.emit("num_programs", axis=self.axis)
        operands = tuple(self.grid_end(rewriter, x) for x in v.op.operands)
        return rewriter.builder.create(v.op.name, operands, v.op.attrs, (v.type,)).result


def with_extent(shape: tuple[int, ...], d: int, size: int) -> tuple[int, ...]:
    return (*shape[:d], size, *shape[d + 1 :])
