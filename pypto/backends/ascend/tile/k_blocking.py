"""Loops along K in longer steps: copies from GM are long then, and L0 has several steps of each.

`for k in range(0, K, 64): acc = dot(a[:, k : k + 64], b[k : k + 64, :], acc)` is one sum, whatever the step. What a
longer step takes beyond the loop's end must be missing from an operand, so that it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.blocking import blocking_of
from pypto.backends.ascend.tile.cube_regions import CubeRegions, Slot, Source, carried, cube_regions_of
from pypto.backends.ascend.tile.operand_facts import Span, ends_with, reaches_end, side_of
from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import int64
from pypto.ops.build import OpBuilder
from pypto.passes.analysis.dimensions import is_movement, source_dims
from pypto.passes.analysis.memory_effects import has_side_effects
from pypto.passes.analysis.scalar_evolution import (
    ScalarEvolution,
    add_steps,
    affine_of,
    constant_step,
    expanded,
    step_by,
)
from pypto.passes.pattern import constant_of


def block_k(function: Function, target: AscendTarget) -> Function:
    """The function with its sums of products in steps that suit the memories of a cube core."""
    parts = cube_regions_of(function)
    sums = {
        op: found for op in function.walk() if op.name == "for" and (found := find_reduction_loop(parts, op, target))
    }
    inside = {inner: found for found in sums.values() for inner in found.loop.regions[0].ops}
    if not sums:
        return function
    return rewrite(function, lambda r, op: widen_op(r, op, sums.get(op), inside.get(op)), OpBuilder)


@dataclass
class ReductionLoop:
    """A loop that adds up products; `factor` of its steps become one. `k_dim` is K's dimension of what runs with it."""

    loop: Op
    factor: int
    evolution: ScalarEvolution
    numbers: list[Slot]  # what it carries besides sums
    k_dim: dict[Value, int] = field(default_factory=dict)
    extents: list[Value] = field(default_factory=list)  # of operands, along K


def find_reduction_loop(parts: CubeRegions, loop: Op, target: AscendTarget) -> ReductionLoop | None:
    """The sum that a loop is, where longer steps are better and mean the same."""
    (body,) = loop.regions
    step = constant_of(loop.operands[2])
    dots = [op for op in body.body if op.name == "dot"]
    whole = all(not op.regions and not has_side_effects(op) for op in body.body)
    if step is None or step < 1 or not dots or not whole:
        return None
    kept = [slot for slot in carried(loop) if slot[1] in parts.sums]
    if len(kept) != len(dots) or any(v not in parts.sources for dot in dots for v in dot.operands[:2]):
        return None
    found = ReductionLoop(
        loop, 0, ScalarEvolution((loop,), exact=True), [slot for slot in carried(loop) if slot not in kept]
    )
    if not steps_are_known(found) or not all(follows_k(parts, found, dot) for dot in dots):
        return None
    found.factor = min(k_factor(parts, found, dot, target) for dot in dots)
    find_extents(parts, found, dots)
    return found if found.factor > 1 or found.extents else None


def find_extents(parts: CubeRegions, found: ReductionLoop, dots: list[Op]) -> None:
    """Where operands end before the loop does, as far as that is known; what else it carries must not matter."""
    if any(parts.users.get(result) for *_, result in found.numbers):
        return
    inside = {v for op in found.loop.regions[0].ops for v in op.results}
    for dot in dots:
        for i, v in enumerate(dot.operands[:2]):
            access, d = parts.sources[v].access, parts.sources[v].dims[1 - i] or 0
            at_index = affine_of(access.offsets[d]) == affine_of(found.loop.regions[0].args[0])
            if at_index and access.extents[d] not in inside and not reaches_end(access, d, Span.of(found.loop)):
                found.extents.append(access.extents[d])


def steps_are_known(found: ReductionLoop) -> bool:
    """Whether all numbers that a loop carries change by the same in every step."""
    for _, arg, value, _ in found.numbers:
        if arg.shape or value.op is None or value.op.name != "add" or arg not in value.op.operands:
            return False
        if found.evolution.step(arg, found.loop) is None:
            return False
    return True


def follows_k(parts: CubeRegions, found: ReductionLoop, dot: Op) -> bool:
    """Whether a product's operands go on along K from step to step, and one of them ends with the loop."""
    ends = False
    for i, v in enumerate(dot.operands[:2]):
        source = parts.sources[v]
        d, along = source.dims[1 - i], len(v.shape) - 1 - i
        if d is None or not advances(found, source, d) or v.shape[along] != source.access.shape[d]:
            return False
        rest = affine_of(source.access.extents[d]) - affine_of(source.access.offsets[d])
        ends |= ends_with(rest, found.loop.operands[1], Span.of(found.loop))
        mark_k_dim(found, v, along)
    return ends


def advances(found: ReductionLoop, source: Source, d: int) -> bool:
    access = source.access
    fixed = (
        *access.strides,
        *(v for i in range(len(access.shape)) if i != d for v in (access.offsets[i], access.extents[i])),
    )
    evolution, loop, size = found.evolution, found.loop, access.shape[d]
    moved, left = evolution.step(access.offsets[d], loop), evolution.step(access.extents[d], loop)
    if not all(evolution.is_invariant(v, loop) for v in fixed) or moved is None or left is None:
        return False
    onward = evolution.address_step(access, loop)
    consumed = add_steps(moved, left, -1)
    return (
        onward is not None and constant_step(consumed) == size and expanded(onward) == step_by(access.strides[d], size)
    )


def mark_k_dim(found: ReductionLoop, v: Value, d: int) -> None:
    """Note the dimension along which an operand, and what it is made of, grows."""
    found.k_dim[v] = d
    assert v.op is not None
    for source in source_dims(v, d) if is_movement(v.op) else ():
        mark_k_dim(found, *source)


def k_factor(parts: CubeRegions, found: ReductionLoop, dot: Op, target: AscendTarget) -> int:
    """How many steps become one."""
    left, right = (side_of(parts.sources[v], i == 0, target) for i, v in enumerate(dot.operands[:2]))
    (m, k), n = dot.operands[0].shape[-2:], dot.operands[1].shape[-1]
    best = blocking_of(left, right, m, n, 1 << 20, parts.product_count, target)
    start, stop, step = (constant_of(v) for v in found.loop.operands[:3])
    known = start is not None and stop is not None and step is not None
    steps = -(-(int(stop) - int(start)) // int(step)) if known else 1 << 20  # type: ignore[arg-type]  # as was just asked
    return 1 if best is None else min(best.depth // k, max(1, steps))


# --- the new loop -----------------------------------------------------------------------------------------------------


def widen_op(
    r: Rewriter[OpBuilder], op: Op, found: ReductionLoop | None, inside: ReductionLoop | None
) -> Sequence[Value] | None:
    """An op in a loop's longer steps; the loop itself, whose step is an operand of it."""
    b = r.builder
    if found is not None:
        return widen_loop(r, found)
    if inside is None:
        return None
    if op.name == "yield":
        return widen_yield(r, op, inside)
    if len(op.results) != 1 or op.result not in inside.k_dim:
        return None
    d = inside.k_dim[op.result]
    shape = tuple(n * inside.factor if i == d else n for i, n in enumerate(op.result.shape))
    if op.name == "tile_load":
        return [b.emit("tile_load", *r.operands(op), shape=shape, masked=False)]
    return [b.emit("permute", r.value(op.operands[0]), dims=op.attrs["dims"]) if op.name == "permute" else
            b.emit("reshape", r.value(op.operands[0]), shape=shape)]  # fmt: skip


def widen_loop(r: Rewriter[OpBuilder], found: ReductionLoop) -> Sequence[Value]:
    """The loop, whose operands are those of nothing else for as long as it is copied."""
    b, (_, stop, step) = r.builder, found.loop.operands[:3]
    new = {step: b.constant(int(constant_of(step) or 0) * found.factor, step.dtype)}
    for end in dict.fromkeys(found.extents):
        least = b.emit("minimum", b.cast(new.get(stop, r.value(stop)), int64), r.value(end), propagate_nan=False)
        new[stop] = b.cast(least, stop.dtype)
    before = {v: r.value(v) for v in new}
    r.mapping.update(new)
    made = r.copy(found.loop).results
    r.mapping.update(before)
    return made


def widen_yield(r: Rewriter[OpBuilder], op: Op, found: ReductionLoop) -> Sequence[Value] | None:
    """Numbers that the loop carries change by as much as in so many steps."""
    b = r.builder
    for _, arg, value, _ in found.numbers:
        if value.op is not None:
            more = next((v for v in value.op.operands if v is not arg), arg)
            grown = b.emit("mul", r.value(more), b.constant(found.factor, more.dtype))
            r.mapping[value] = b.emit("add", r.value(arg), grown)
    return None
