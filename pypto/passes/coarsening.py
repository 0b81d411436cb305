"""Program coarsening: neighbouring programs of a product become one, with larger tiles.

A product of few rows is bound by the bandwidth for B, and memory gives long streams faster than short ones: a program
with the columns of several reads longer parts of each row of B. A product whose K is so deep that its panels exceed the
second-level cache is bound by the third level: a program with the rows of several reads the panels that often less.

Legality: in each tile that depends on the program's position on one axis, one dimension moves by its size from program
to program, and nothing else depends on the axis. A coarsened program covers at most `factor` programs; `num_programs`
of the axis is the end of those that it covers, and clips what it loads and stores.

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
from pypto.passes.analysis.dimensions import is_movement, source_dims
from pypto.passes.analysis.dot_facts import in_place_operand, may_be_skinny
from pypto.passes.analysis.memory_effects import has_side_effects
from pypto.passes.analysis.scalar_evolution import ScalarEvolution, constant_step
from pypto.passes.pattern import constant_range
from pypto.passes.target_facts import TargetFacts


def coarsen_programs(function: Function, target: TargetFacts) -> list[Function]:
    """The versions of a kernel: coarsened where that is legal and pays, else itself.

    Along an axis that is not the first one, programs between may make the coarsened version illegal for a range, so
    that the single version is needed too. A profiled kernel has one version.
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
    axes = (CoarsenAxis(function, axis, min(widths), size) for axis in range(3))
    coarsening = next((x for x in axes if x.is_coarsenable()), None)
    if coarsening is None or (coarsening.axis and function.attrs.get("profile")):
        return [function]
    if not coarsening.axis:
        return [coarsening.rewrite(function.name)]
    programs = replace(function.programs, has_coarsened_version=True)
    single = replace(function, name=f"{function.name}.single", programs=programs)
    return [coarsening.rewrite(f"{function.name}.coarsened"), single]


def coarsen_rows(function: Function, dots: Sequence[Op], target: TargetFacts) -> Function:
    """Coarsen along rows: for one deep product whose programs differ in their rows.

    The result has to stay in the second-level cache from one step along K to the next.
    """
    if len(dots) != 1 or not has_large_panels(function, dots[0], target):
        return function
    (result,) = dots[0].results
    rows, columns = result.shape
    fitting = target.caches[1] // 2 // (columns * result.dtype.itemsize)
    size = target.blocking.mc or min(target.coarsening.extent, fitting)
    coarsening = CoarsenAxis(function, 0, rows, size)
    is_legal = 2 * rows <= size and coarsening.is_coarsenable() and coarsening.coarsened_dim.get(result) == 0
    return coarsening.rewrite(function.name) if is_legal else function


def has_large_panels(function: Function, dot: Op, target: TargetFacts) -> bool:
    """Whether a sum of products is known to need more panels than half of the second-level cache."""
    loop = next((op for op in function.body.ops if op.name == "for" and dot in op.regions[0].ops), None)
    steps = constant_range(loop.operands[:3]) if loop is not None else None
    b = dot.operands[1]
    if len(dot.results[0].shape) != 2 or in_place_operand(b) is None:
        return False
    return len(steps or ()) * math.prod(b.shape) * b.dtype.itemsize > target.caches[1] // 2


def is_profitable(dot: Op, target: TargetFacts) -> bool:
    """Whether a product has few rows and reads a row-major B in place."""
    source = in_place_operand(dot.operands[1])
    return source is not None and not source[0].transposed and may_be_skinny(dot, target)


@dataclass
class CoarsenAxis:
    """The coarsening of programs along an axis, on which they lie `width` elements of a dimension apart."""

    function: Function
    axis: int
    width: int
    max_extent: int
    coarsened_dim: dict[Value, int] = field(default_factory=dict)  # by tile
    carrying_loop: dict[Value, Op] = field(default_factory=dict)  # by argument
    axis_dependent: set[Value] = field(default_factory=set)  # scalars
    evolution: ScalarEvolution = field(default_factory=ScalarEvolution)

    # --- recognising --------------------------------------------------------------------------------------------

    def is_coarsenable(self) -> bool:
        """Whether coarsening is legal: only such tiles, and their positions, depend on the axis."""
        ops = list(self.function.walk())
        self.carrying_loop = {v: op for op in ops if op.name == "for" for v in op.regions[0].args[1:]}
        self.evolution = ScalarEvolution.of(self.function)
        scalars = [v for op in ops for v in op.results if not v.shape]
        self.axis_dependent = {v for v in scalars if self.evolution.step(v, self.axis)}
        stores = [op for op in ops if op.name == "tile_store"]
        return bool(stores) and all(map(self.trace_store, stores)) and all(map(self.is_unaffected, ops))

    def is_unaffected(self, op: Op) -> bool:
        """Whether an op gives the same in a coarsened program, or is traced and its operands are."""
        if op.name in ("num_programs", "program_id"):
            return op.name == "program_id" or op.attrs["axis"] != self.axis
        if op.name == "for":
            region = op.regions[0]
            carried = zip(op.operands[3:], region.args[1:], op.results, region.terminator.operands, strict=True)
            is_consistent = all(len({v in self.coarsened_dim for v in values}) == 1 for values in carried)
            return is_consistent and self.axis_dependent.isdisjoint(op.operands)
        d = self.coarsened_dim_of(op)
        if d is not None and op.name in ("tile_load", "tile_store", "dot"):
            return op.operands[op.name == "dot" and d < len(op.results[0].shape) - 1] not in self.coarsened_dim
        if d is not None and op.name == "broadcast_to":
            return self.coarsened_dim.get(op.operands[0], d) == d
        is_traced = bool(op.results) and (op.results[0] in self.coarsened_dim or op.results[0] in self.axis_dependent)
        if op.name == "yield" or is_traced:
            return True
        is_pure = op.regions or not has_side_effects(op)
        return bool(is_pure) and not any(v in self.coarsened_dim or v in self.axis_dependent for v in op.operands)

    def coarsened_dim_of(self, op: Op) -> int | None:
        """The dimension of an op's tile that is coarsened; None if none is."""
        if op.name == "tile_store":
            return next((d for d, v in enumerate(Access.of(op).offsets) if v in self.axis_dependent), None)
        return self.coarsened_dim.get(op.results[0]) if op.results else None

    def trace_store(self, op: Op) -> bool:
        """Trace a stored value."""
        access = Access.of(op)
        d = self.coarsened_dim_of(op)
        if d is None or access.value is None or not self.follows_axis(access, d):
            return False
        return self.trace(access.value, d) and (access.mask is None or self.trace(access.mask, d))

    def follows_axis(self, access: Access, d: int) -> bool:
        """Whether an access moves by its size in dimension `d` along the axis, and depends on the axis in
        nothing else.
        """
        fixed = (access.base, *access.strides, *access.extents, *(v for i, v in enumerate(access.offsets) if i != d))
        if access.shape[d] != self.width or (access.base.shape and access.base.shape[d] != 1):
            return False
        step = constant_step(self.evolution.step(access.offsets[d], self.axis))
        return step == self.width and self.axis_dependent.isdisjoint(fixed)

    def trace(self, v: Value, d: int) -> bool:
        """Whether a tile, with all that it is computed from, can be coarsened in dimension `d`."""
        if v in self.coarsened_dim or v.shape[d] != self.width:
            return self.coarsened_dim.get(v) == d
        self.coarsened_dim[v] = d
        op = self.carrying_loop.get(v) if v.op is None else v.op
        if op is None:
            return False
        if op.name == "for":
            args = op.regions[0].args[1:]
            n = args.index(v) if v.op is None else op.results.index(v)
            carried = args[n], op.results[n], op.operands[3 + n], op.regions[0].terminator.operands[n]
            return all(self.trace(x, d) for x in carried)
        return self.trace_op(op, d)

    def trace_op(self, op: Op, d: int) -> bool:
        """Trace the operands of an op."""
        first = op.operands[0] if op.operands else None
        if op.name == "tile_load":
            access = Access.of(op)
            operands = (access.mask, access.other)
            return self.follows_axis(access, d) and all(x is None or self.trace(x, d) for x in operands)
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
        """The size of the coarsened dimension."""
        return self.max_extent // self.width * self.width

    # --- rewriting ----------------------------------------------------------------------------------------------

    def rewrite(self, name: str) -> Function:
        """The coarsened function."""
        size = self.coarse_extent
        types = {v: v.tile.with_shape(with_extent(v.shape, d, size)) for v, d in self.coarsened_dim.items()}
        function = rewrite(self.function, self.rewrite_op, OpBuilder, types)
        programs = replace(function.programs, axis=self.axis, factor=self.coarse_extent // self.width)
        return replace(function, name=name, programs=programs)

    def rewrite_op(self, rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        """An op on a coarsened tile."""
        d = self.coarsened_dim_of(op) if "shape" in op.attrs else None
        if d is None:
            return None
        operands = list(rewriter.operands(op))
        shape = op.attrs["shape"]
        if op.name in ("tile_load", "tile_store"):
            access = Access.of(op)
            end = self.grid_end(rewriter, access.offsets[d])
            place = 1 + 2 * len(shape) + d
            operands[place] = rewriter.builder.emit("minimum", operands[place], end, propagate_nan=False)
        attrs = {**op.attrs, "shape": with_extent(shape, d, self.coarse_extent)}
        types = tuple(rewriter.types[v] for v in op.results)
        return rewriter.builder.create(op.name, tuple(operands), attrs, types).results

    def grid_end(self, rewriter: Rewriter[OpBuilder], v: Value) -> Value:
        """The value of an offset for the program behind the last."""
        if v not in self.axis_dependent or v.op is None:
            return rewriter.value(v)
        if v.op.name == "program_id":
            return rewriter.builder.emit("num_programs", axis=self.axis)
        operands = tuple(self.grid_end(rewriter, x) for x in v.op.operands)
        return rewriter.builder.create(v.op.name, operands, v.op.attrs, (v.type,)).result


def with_extent(shape: tuple[int, ...], d: int, size: int) -> tuple[int, ...]:
    """A shape with another size in one dimension."""
    return (*shape[:d], size, *shape[d + 1 :])
