"""Loops along K in longer steps: copies from GM are long then, and L0 has several steps of each.

`for k in range(0, K, 64): acc = dot(a[:, k : k + 64], b[k : k + 64, :], acc)` is one sum, whatever the step. What a
longer step takes beyond the loop's end must be missing from an operand, so that it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pypto.backends.ascend.cube.blocking import blocking_of
from pypto.backends.ascend.cube.linear import Linear, combined, linear
from pypto.backends.ascend.cube.operands import Span, ends_with, reaches, side_of
from pypto.backends.ascend.cube.parts import Parts, Source, carried, parts_of
from pypto.backends.ascend.target import AscendTarget
from pypto.ir.core import Function, Op, Value
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import int64
from pypto.ops.build import OpBuilder
from pypto.ops.row import Effect
from pypto.ops.table import TABLE
from pypto.passes.pattern import constant_of


def restep(function: Function, target: AscendTarget) -> Function:
    """The function with its sums of products in steps that suit the memories of a cube core."""
    parts = parts_of(function)
    sums = {op: found for op in function.walk() if op.name == "for" and (found := find_sum(parts, op, target))}
    inside = {inner: found for found in sums.values() for inner in found.loop.regions[0].ops}
    if not sums:
        return function
    return rewrite(function, lambda r, op: widened(r, op, sums.get(op), inside.get(op)), OpBuilder)


@dataclass
class Sum:
    """A loop that adds up products; `factor` of its steps become one. `along` is K's dimension of what runs with it."""

    loop: Op
    factor: int
    along: dict[Value, int]
    rates: dict[Value, Linear]  # of the numbers that it carries, in a step
    ends: list[Value] = field(default_factory=list)  # of operands, along K


def find_sum(parts: Parts, loop: Op, target: AscendTarget) -> Sum | None:
    """The sum that a loop is, where longer steps are better and mean the same."""
    (body,) = loop.regions
    step = constant_of(loop.operands[2])
    dots = [op for op in body.body if op.name == "dot"]
    whole = all(not op.regions and TABLE[op.name].effect in (Effect.PURE, Effect.READ) for op in body.body)
    if step is None or step < 1 or not dots or not whole:
        return None
    kept = [slot for slot in carried(loop) if slot[1] in parts.sums]
    if len(kept) != len(dots) or any(v not in parts.sources for dot in dots for v in dot.operands[:2]):
        return None
    found = Sum(loop, 0, {}, {})
    if not find_rates(parts, found) or not all(runs(parts, found, dot) for dot in dots):
        return None
    found.factor = min(factor_of(parts, found, dot, target) for dot in dots)
    find_ends(parts, found, dots)
    return found if found.factor > 1 or found.ends else None


def find_ends(parts: Parts, found: Sum, dots: list[Op]) -> None:
    """Where operands end before the loop does, as far as that is known; what else it carries must not matter."""
    if any(parts.users.get(result) for _, arg, _, result in carried(found.loop) if arg in found.rates):
        return
    inside = {v for op in found.loop.regions[0].ops for v in op.results}
    for dot in dots:
        for i, v in enumerate(dot.operands[:2]):
            access, d = parts.sources[v].access, parts.sources[v].dims[1 - i] or 0
            at_index = linear(access.offsets[d]) == linear(found.loop.regions[0].args[0])
            if at_index and access.extents[d] not in inside and not reaches(access, d, Span.of(found.loop)):
                found.ends.append(access.extents[d])


def find_rates(parts: Parts, found: Sum) -> bool:
    """How much the numbers that a loop carries change in a step, which must be the same in every one."""
    body = found.loop.regions[0]
    changing = {*body.args, *(v for op in body.ops for v in op.results)}
    step = constant_of(found.loop.operands[2])
    found.rates[body.args[0]] = Linear(int(step or 0), frozenset())
    for _, arg, value, _ in carried(found.loop):
        if arg in parts.sums:
            continue
        if arg.shape or value.op is None or value.op.name != "add" or arg not in value.op.operands:
            return False
        rate = linear(value) - linear(arg)
        if any(v in changing for v, _ in rate.terms):
            return False
        found.rates[arg] = rate
    return True


def rate(found: Sum, v: Value) -> Linear | None:
    """How much a number changes in a step; None where that is not known."""
    form, total = linear(v), Linear(0, frozenset())
    inside = {w for op in found.loop.regions[0].ops for w in op.results}
    for w, factor in form.terms:
        if w in found.rates:
            total = combined((total, 1), (found.rates[w], factor))
        elif w in inside:
            return None
    return total


def runs(parts: Parts, found: Sum, dot: Op) -> bool:
    """Whether a product's operands go on along K from step to step, and one of them ends with the loop."""
    ends = False
    for i, v in enumerate(dot.operands[:2]):
        source = parts.sources[v]
        d, along = source.dims[1 - i], len(v.shape) - 1 - i
        if d is None or not goes_on(found, source, d) or v.shape[along] != source.access.shape[d]:
            return False
        rest = linear(source.access.extents[d]) - linear(source.access.offsets[d])
        ends |= ends_with(rest, found.loop.operands[1], Span.of(found.loop))
        mark(found, v, along)
    return ends


def goes_on(found: Sum, source: Source, d: int) -> bool:
    access = source.access
    fixed = (
        *access.strides,
        *(v for i in range(len(access.shape)) if i != d for v in (access.offsets[i], access.extents[i])),
    )
    nothing, size = Linear(0, frozenset()), Linear(access.shape[d], frozenset())
    moved, left = rate(found, access.offsets[d]), rate(found, access.extents[d])
    pointer = pointer_rate(found, access.base)
    if any(rate(found, v) != nothing for v in fixed) or moved is None or left is None or pointer is None:
        return False
    stride = linear(access.strides[d])
    onward = combined((stride, access.shape[d]))
    by_offset = combined((stride, moved.number)) if not moved.terms else None
    return moved - left == size and by_offset is not None and combined((pointer, 1), (by_offset, 1)) == onward


def pointer_rate(found: Sum, pointer: Value) -> Linear | None:
    if pointer.op is None or pointer.op.name != "addptr":
        return Linear(0, frozenset()) if pointer not in found.rates else None
    base, offset = (pointer_rate(found, pointer.op.operands[0]), rate(found, pointer.op.operands[1]))
    return None if base is None or offset is None else combined((base, 1), (offset, 1))


def mark(found: Sum, v: Value, d: int) -> None:
    """Note the dimension along which an operand, and what it is made of, grows."""
    found.along[v] = d
    op = v.op
    assert op is not None
    if op.name == "permute":
        mark(found, op.operands[0], op.attrs["dims"][d])
    elif op.name == "reshape":
        new = [i for i, n in enumerate(v.shape) if n != 1]
        old = [i for i, n in enumerate(op.operands[0].shape) if n != 1]
        mark(found, op.operands[0], dict(zip(new, old, strict=True))[d])


def factor_of(parts: Parts, found: Sum, dot: Op, target: AscendTarget) -> int:
    """How many steps become one."""
    left, right = (side_of(parts.sources[v], i == 0, target) for i, v in enumerate(dot.operands[:2]))
    (m, k), n = dot.operands[0].shape[-2:], dot.operands[1].shape[-1]
    best = blocking_of(left, right, m, n, 1 << 20, len(parts.dots), target)
    start, stop, step = (constant_of(v) for v in found.loop.operands[:3])
    known = start is not None and stop is not None and step is not None
    steps = -(-(int(stop) - int(start)) // int(step)) if known else 1 << 20  # type: ignore[arg-type]  # as was just asked
    return 1 if best is None else min(best.depth // k, max(1, steps))


# --- the new loop -----------------------------------------------------------------------------------------------------


def widened(r: Rewriter[OpBuilder], op: Op, found: Sum | None, inside: Sum | None) -> Sequence[Value] | None:
    """An op in a loop's longer steps; the loop itself, whose step is an operand of it."""
    b = r.builder
    if found is not None:
        return looped(r, found)
    if inside is None:
        return None
    if op.name == "yield":
        return yielded(r, op, inside)
    if len(op.results) != 1 or op.result not in inside.along:
        return None
    d = inside.along[op.result]
    shape = tuple(n * inside.factor if i == d else n for i, n in enumerate(op.result.shape))
    if op.name == "tile_load":
        return [b.emit("tile_load", *r.operands(op), shape=shape, masked=False)]
    return [b.emit("permute", r.value(op.operands[0]), dims=op.attrs["dims"]) if op.name == "permute" else
            b.emit("reshape", r.value(op.operands[0]), shape=shape)]  # fmt: skip


def looped(r: Rewriter[OpBuilder], found: Sum) -> Sequence[Value]:
    """The loop, whose operands are those of nothing else for as long as it is copied."""
    b, (_, stop, step) = r.builder, found.loop.operands[:3]
    new = {step: b.constant(int(constant_of(step) or 0) * found.factor, step.dtype)}
    for end in dict.fromkeys(found.ends):
        least = b.emit("minimum", b.cast(new.get(stop, r.value(stop)), int64), r.value(end), propagate_nan=False)
        new[stop] = b.cast(least, stop.dtype)
    before = {v: r.value(v) for v in new}
    r.mapping.update(new)
    made = r.copy(found.loop).results
    r.mapping.update(before)
    return made


def yielded(r: Rewriter[OpBuilder], op: Op, found: Sum) -> Sequence[Value] | None:
    """Numbers that the loop carries change by as much as in so many steps."""
    b = r.builder
    for _, arg, value, _ in carried(found.loop):
        if arg in found.rates and value.op is not None:
            more = next((v for v in value.op.operands if v is not arg), arg)
            grown = b.emit("mul", r.value(more), b.constant(found.factor, more.dtype))
            r.mapping[value] = b.emit("add", r.value(arg), grown)
    return None
