"""K blocking: a loop that adds up products along K gets the step KC of the target.

A longer step loads and stores the accumulator less often and packs longer panels; a step that divides K leaves no
remainder. The target chooses KC (`choose_kc`), such that its caches hold the panels of a step.

Legality: the loop does nothing but `acc = dot(a, b, acc)`, and each tile that runs with its index starts one element
further along K as the index grows by one. Then each element of the result adds the same products in the same order,
whatever the step. Loads must not read behind the last step of the loop as it was written, so their extents are clipped
to its end; behind that they give 0. Where an op between load and dot turns 0 into another number, KC must divide K.

    for %k = 0, 64, 16 {                                         for %k = 0, 64, 32 {
      %a = tile_load %pa[0, %k], shape [8, 16]                     %a = tile_load %pa[0, %k], shape [8, 32]
      %b = tile_load %pb[%k, 0], shape [16, 8]         ->          %b = tile_load %pb[%k, 0], shape [32, 8]
      %acc = dot %a, %b, %sum                                      %acc = dot %a, %b, %sum

A loop that runs once becomes its body.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import int64
from pypto.ops.build import OpBuilder
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.passes.analysis.dimensions import is_movement, source_dims
from pypto.passes.analysis.memory_effects import has_side_effects
from pypto.passes.analysis.scalar_evolution import ScalarEvolution, affine_of, constant_step
from pypto.passes.pattern import constant_of


def retile_reductions(function: Function, choose_kc: ChooseKC) -> Function:
    """The function with each reduction loop blocked by the KC that a target chooses."""
    return rewrite(function, RetileReduction(function, choose_kc), OpBuilder)


@dataclass
class ReductionLoop:
    """A loop that only accumulates products; `k_dim` is the dimension along K of each tile in it."""

    op: Op
    step: int
    inside: set[Value]
    evolution: ScalarEvolution
    index_dependent: set[Value]  # what depends on the index
    k_dim: dict[Value, int] = field(default_factory=dict)
    dots: list[Op] = field(default_factory=list)
    uses: Counter[Value] = field(default_factory=Counter)

    @property
    def index(self) -> Value:
        """The induction variable."""
        return self.op.regions[0].args[0]

    @property
    def loads(self) -> list[tuple[Op, int]]:
        """The loads whose offset is the induction variable, with the dimension along K."""
        return [(v.op, d) for v, d in self.k_dim.items() if v.op is not None and v.op.name == "tile_load"]

    @property
    def preserves_zero(self) -> bool:
        """Whether elements out of bounds of the loads add 0 to the sum."""
        return all(
            v.op is not None and ("zero_preserving" in TABLE[v.op.name].traits or constant_of(v) == 0)
            for v in self.k_dim
        )

    @property
    def extent_from_start(self) -> int:
        """The trip count times the step; 0 where that is not known."""
        start, stop = (constant_of(v) for v in self.op.operands[:2])
        if start is None or stop is None:
            return 0
        return max(0, -(-(int(stop) - int(start)) // self.step) * self.step)

    @property
    def has_runtime_bounds(self) -> bool:
        """Whether the trip count is known at run time alone."""
        return any(constant_of(v) is None for v in self.op.operands[:2])

    @property
    def ends_with_a_step(self) -> bool:
        """Whether the step is known to divide the range of the loop."""
        start, stop = (constant_of(v) for v in self.op.operands[:2])
        return start is not None and stop is not None and self.extent_from_start == int(stop) - int(start)

    def allows_step(self, step: int) -> bool:
        """Whether a step reads nothing beyond the end of the loop, or only elements that add 0."""
        if step == self.step or self.preserves_zero:
            return True
        return self.extent_from_start > 0 and self.extent_from_start % step == 0

    def extent(self, load: Op, d: int) -> int | None:
        """The number of elements of a load from the loop's start, where that is known."""
        access = Access.of(load)
        first = self.initial_offset(access.offsets[d])
        extent = constant_of(access.extents[d])
        return None if first is None or extent is None else max(0, int(extent) - first)

    def initial_offset(self, v: Value) -> int | None:
        """The value of an offset in the first iteration."""
        form = affine_of(v)
        start = constant_of(self.op.operands[0])
        factor = dict(form.terms).get(self.index, 0)
        if any(x is not self.index for x, _ in form.terms) or (factor and start is None):
            return None
        return form.number + factor * int(start or 0)

    # --- recognising --------------------------------------------------------------------------------------------

    def trace(self, v: Value, d: int) -> bool:
        """Whether a tile can have any size in dimension `d`, and moves by one element with the induction variable."""
        if v in self.k_dim or v.op is None or v.shape[d] != self.step:
            return self.k_dim.get(v) == d
        self.k_dim[v] = d
        op = v.op
        name = v.op.name
        if name == "constant":
            return True
        sources = source_dims(v, d)
        if name == "broadcast_to":
            return not sources and op.operands[0] not in self.index_dependent
        if v not in self.inside:
            return False
        if name == "tile_load":
            return self.load_follows_index(Access.of(op), d)
        is_followed = TABLE[name].elementwise or is_movement(op)
        return is_followed and bool(sources) and all(self.trace(*source) for source in sources)

    def load_follows_index(self, access: Access, d: int) -> bool:
        """Whether only the offset of one dimension moves with the induction variable, element by element."""
        fixed = (access.base, *access.strides, *access.extents, *(v for i, v in enumerate(access.offsets) if i != d))
        plain = access.mask is None and access.other is None and (not access.base.shape or access.base.shape[d] == 1)
        return (
            plain
            and self.index_dependent.isdisjoint(fixed)
            and constant_step(self.evolution.step(access.offsets[d], self.op)) == self.step
        )


ChooseKC = Callable[[Function, ReductionLoop], int]


def find_reduction_loop(op: Op) -> ReductionLoop | None:
    """Match a loop that only accumulates products."""
    step = constant_of(op.operands[2]) if op.name == "for" else None
    if step is None or step < 2 or len(op.operands) == 3:
        return None
    region = op.regions[0]
    inside = {*region.args, *(v for o in region.ops for v in o.results)}
    if any(o.regions or has_side_effects(o) for o in region.body):
        return None
    evolution = ScalarEvolution((op,), memory_is_invariant=True)
    dependent = {v for v in inside if not evolution.is_invariant(v, op)}
    loop = ReductionLoop(op, int(step), inside, evolution, dependent)
    loop.uses.update(v for o in region.ops for v in o.operands)
    for arg, result in zip(region.args[1:], region.terminator.operands, strict=True):
        dot = result.op
        once = loop.uses[arg] == loop.uses[result] == 1
        if dot is None or dot.name != "dot" or dot.operands[2:] != (arg,) or not once:
            return None
        rank = len(dot.operands[0].shape)
        loop.dots.append(dot)
        if not loop.trace(dot.operands[0], rank - 1) or not loop.trace(dot.operands[1], rank - 2):
            return None
    others = (o for o in region.body if o not in loop.dots and not any(v in loop.k_dim for v in o.results))
    return None if any(v in loop.k_dim for o in others for v in o.operands) else loop


@dataclass
class RetileReduction:
    """The rewrite: loops get the step KC, and the tiles in them that size."""

    function: Function
    choose_kc: ChooseKC
    sizes: dict[Value, tuple[int, ...]] = field(default_factory=dict)
    extents: dict[Op, tuple[int, Value]] = field(default_factory=dict)  # of loads that must end with the loop

    def __call__(self, rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        loop = find_reduction_loop(op) if op.name == "for" else None
        step = self.choose_kc(self.function, loop) if loop is not None else 0
        if loop is not None and loop.allows_step(step) and (step != loop.step or 0 < loop.extent_from_start <= step):
            return self.rewrite_loop(rewriter, loop, step)
        return self.rewrite_op(rewriter, op) if op.results and op.results[0] in self.sizes else None

    def rewrite_loop(self, rewriter: Rewriter[OpBuilder], loop: ReductionLoop, step: int) -> Sequence[Value]:
        """The loop with a new step."""
        b = rewriter.builder
        op = loop.op
        hidden = {}
        self.sizes.update((v, (*v.shape[:d], step, *v.shape[d + 1 :])) for v, d in loop.k_dim.items())
        outliving = [(load, d) for load, d in loop.loads if self.may_outlive_loop(loop, load, d)]
        self.extents.update((load, (d, self.clipped_extent(rewriter, loop, load, d))) for load, d in outliving)
        for v in loop.k_dim:
            if v not in loop.inside and v.op is not None:
                hidden[v] = rewriter.mapping[v]
                rewriter.mapping[v] = self.rewrite_op(rewriter, v.op)[0]
        start, stop, _, *inits = rewriter.operands(op)
        if outliving and not loop.ends_with_a_step:  # the last step reads beyond the loop's end
            stop = self.loop_end(rewriter, b, loop)
        if 0 < loop.extent_from_start <= step:
            return self.inline_single_step(rewriter, loop, [start, *inits], hidden)
        operands = (start, stop, b.constant(step, start.dtype), *inits)
        types = tuple(r.type for r in op.results)
        regions = (rewriter.region(op.regions[0]),)
        new = b.create(op.name, operands, op.attrs, types, regions)
        rewriter.mapping.update(hidden)
        return new.results

    def inline_single_step(
        self, rewriter: Rewriter[OpBuilder], loop: ReductionLoop, args: Sequence[Value], hidden: Mapping[Value, Value]
    ) -> Sequence[Value]:
        """The body of a loop whose trip count is 1."""
        region = loop.op.regions[0]
        rewriter.mapping.update(zip(region.args, args, strict=True))
        for op in region.body:
            rewriter.visit(op)
        rewriter.mapping.update(hidden)
        return rewriter.operands(region.terminator)

    def may_outlive_loop(self, loop: ReductionLoop, load: Op, d: int) -> bool:
        """Whether a load may have elements beyond the end of the loop."""
        extent = loop.extent(load, d)
        return extent is None or extent > loop.extent_from_start

    def loop_end(self, rewriter: Rewriter[OpBuilder], b: OpBuilder, loop: ReductionLoop) -> Value:
        """The end of the last step of the original loop."""
        start, stop = rewriter.operands(loop.op)[:2]
        if not loop.has_runtime_bounds:
            return b.emit("add", start, b.constant(loop.extent_from_start, start.dtype))
        step = b.constant(loop.step, start.dtype)
        last = b.emit("add", b.emit("sub", stop, start), b.constant(loop.step - 1, start.dtype))
        return b.emit("add", start, b.emit("mul", b.emit("floordiv", last, step), step))

    def clipped_extent(self, rewriter: Rewriter[OpBuilder], loop: ReductionLoop, load: Op, d: int) -> Value:
        """The extent of a load, clipped to the end of the original loop."""
        b = rewriter.builder
        over = {loop.index: self.loop_end(rewriter, b, loop)}

        def at_end(v: Value) -> Value:
            if v not in loop.index_dependent:
                return rewriter.value(v)
            if v not in over:
                assert v.op is not None
                over[v] = b.create(v.op.name, tuple(map(at_end, v.op.operands)), v.op.attrs, (v.type,)).result
            return over[v]

        access = Access.of(load)
        last = b.cast(at_end(access.offsets[d]), int64)
        return b.emit("minimum", rewriter.value(access.extents[d]), last, propagate_nan=False)

    def rewrite_op(self, rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value]:
        """An op with the new size along K."""
        old = op.results[0]
        shape = self.sizes[op.results[0]]
        operands = list(rewriter.operands(op))
        attrs = dict(op.attrs)
        if "shape" in attrs:
            attrs["shape"] = shape
        if op in self.extents:
            d, end = self.extents[op]
            operands[1 + 2 * len(shape) + d] = end
        return rewriter.builder.create(op.name, tuple(operands), attrs, (old.tile.with_shape(shape),)).results
