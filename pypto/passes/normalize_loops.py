"""Induction variable normalization: a loop that moves pointers along K gets an induction variable along K.

`for k in range(cdiv(K, B)): ... load(p, mask=offsets < K - k * B) ...; p += B` reads from a base that moves, up to an
extent that comes nearer; block pointers advance alike. K blocking and panel reuse know loops whose loads read at an
offset k up to K, and apply to those alone.

Legality: scalar evolution gives the step of each carried pointer and of each extent. A load may be rewritten when its
base, offset and extent move together by its size along one dimension. Nothing but such loads, and what leads to them,
may read what varies. Pointers and 64-bit numbers do not overflow; narrower ones have no known step.

    for %i = 0, %n, 1, %p = %pa {                                for %i = 0, %n * 16, 16 {
      %left = sub %k, %i * 16                                      %a = tile_load %pa[0, %i] up to %k, shape [8, 16]
      %a = tile_load %p[0, 0] up to %left, shape [8, 16]   ->      ...
      %q = addptr %p, 16
      yield %q
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pypto.ir.core import Function, Op, Region, Value, make_op
from pypto.ir.rewrite import Rewriter, rewrite
from pypto.ir.types import int64, scalar
from pypto.ops.memory import UNBOUNDED, Access
from pypto.passes.access import built
from pypto.passes.analysis.carried import carried
from pypto.passes.analysis.scalar_evolution import ScalarEvolution, Step, expanded, step_by
from pypto.passes.canonicalize import Simplifier
from pypto.passes.dce import dce
from pypto.passes.pattern import constant_of


def normalize_pointer_loops(function: Function) -> Function:
    """The function with its pointer loops normalized: their induction variable is the offset of the loads along K."""
    loops = [op for op in function.walk() if op.name == "for" and any(x.name == "dot" for x in op.regions[0].ops)]
    uses = Counter(v for op in function.walk() for v in op.operands) if loops else Counter()
    pointer_loops = {op: PointerLoop(op) for op in loops}
    normalizable = {op: loop for op, loop in pointer_loops.items() if loop.is_normalizable(uses)}
    if not normalizable:
        return function

    def rule(rewriter: Rewriter[Simplifier], op: Op) -> Sequence[Value] | None:
        return NormalizedLoop(rewriter, normalizable[op]).emit() if op in normalizable else None

    return dce(rewrite(function, rule, Simplifier))


@dataclass
class PointerLoop:
    """A loop of products, and the dimension along which each of its loads moves by its size in an iteration."""

    op: Op
    moving_dims: dict[Op, int] = field(default_factory=dict)
    evolution: ScalarEvolution = field(init=False)
    inside: set[Value] = field(init=False)

    def __post_init__(self) -> None:
        self.evolution = ScalarEvolution((self.op,), exact=True)
        self.inside = {*self.region.args, *(v for op in self.region.body for v in op.results)}

    @property
    def region(self) -> Region:
        return self.op.regions[0]

    @property
    def stride(self) -> int:
        """Elements by which the loads move in an iteration; 0 where they do not agree."""
        sizes = {op.attrs["shape"][d] for op, d in self.moving_dims.items()}
        return sizes.pop() if len(sizes) == 1 else 0

    def step_of(self, v: Value) -> Step | None:
        """The step of a value over the loop."""
        return self.evolution.step(v, self.op)

    def is_normalizable(self, uses: Mapping[Value, int]) -> bool:
        """Whether the induction variable would change, and only the addresses of loads vary with it."""
        by = constant_of(self.op.operands[2])
        if by is None or by <= 0:
            return False
        for op in self.region.body:
            if op.name == "tile_load" and (d := self.moving_dim(Access.of(op))) is not None:
                self.moving_dims[op] = d
        bases = (*carried(self.op, self.region), *(load.operands[0] for load in self.moving_dims))
        return bool(self.stride) and (by != self.stride or any(map(self.step_of, bases))) and self.is_closed(uses)

    def is_closed(self, uses: Mapping[Value, int]) -> bool:
        """Whether values that vary reach nothing but the moving loads."""
        results = zip(carried(self.op, self.region), self.op.results, self.region.terminator.operands, strict=True)
        if any(uses[result] if self.step_of(arg) else self.step_of(after) for arg, result, after in results):
            return False
        others = (
            op for op in self.region.body if op not in self.moving_dims and not any(self.step_of(v) for v in op.results)
        )
        return not any(self.step_of(v) for op in others for v in values_read(op))

    def moving_dim(self, access: Access) -> int | None:
        """The dimension in which a load advances by its size in each iteration."""
        is_plain = access.mask is None and access.other is None and not access.base.shape
        if not is_plain or any(self.step_of(v) != {} for v in access.strides):
            return None
        return next((d for d in range(len(access.shape)) if self.is_moving_dim(access, d)), None)

    def is_moving_dim(self, access: Access, d: int) -> bool:
        """Whether base, offset and extent together advance by the size of a dimension."""
        size = access.shape[d]
        pairs = list(zip(access.offsets, access.extents, strict=True))
        first, end = pairs.pop(d)
        if size == 1 or any(self.step_of(v) != {} for pair in pairs for v in pair):
            return False
        base, offset, extent = map(self.step_of, (access.base, first, end))
        if base == {}:
            return offset == {(): size} and extent == {}
        number = constant_of(first)
        nearer = extent == {(): -size} or constant_of(end) == UNBOUNDED
        return (
            number is not None and number >= 0 and nearer and expanded(base or {}) == step_by(access.strides[d], size)
        )


def values_read(op: Op) -> Iterator[Value]:
    """The values that an op and the ops in its regions read."""
    yield from op.operands
    for region in op.regions:
        for inner in region.ops:
            yield from values_read(inner)


@dataclass
class NormalizedLoop:
    """The rewrite of one loop; `initial_values` maps values that vary in the loop to their values at its entry."""

    rewriter: Rewriter[Simplifier]
    loop: PointerLoop
    initial_values: dict[Value, Value] = field(default_factory=dict)

    def emit(self) -> list[Value]:
        """The results of the normalized loop. A dropped result stands for itself, as nothing reads it."""
        b, op = self.rewriter.builder, self.loop.op
        start, stop, by, *inits = self.rewriter.operands(op)
        self.initial_values.update(zip(self.loop.region.args, (start, *inits), strict=True))
        begins = {load: self.initial_access(Access.of(load)) for load in self.loop.moving_dims}
        bounds = self.bounds(start, stop, by)
        args = self.still_carried(carried(op, self.loop.region))
        types = tuple(v.type for v in args)
        region = self.emit_body(args, begins)
        new = make_op(op.name, (*bounds, *self.still_carried(inits)), op.attrs, types, (region,), op.loc)
        b.region.ops.append(new)
        results = iter(new.results)
        old = zip(carried(op, self.loop.region), op.results, strict=True)
        return [result if self.loop.step_of(arg) else next(results) for arg, result in old]

    def still_carried(self, values: Sequence[Value]) -> list[Value]:
        """The values that the normalized loop still carries."""
        args = carried(self.loop.op, self.loop.region)
        return [v for v, arg in zip(values, args, strict=True) if not self.loop.step_of(arg)]

    def bounds(self, start: Value, stop: Value, by: Value) -> tuple[Value, Value, Value]:
        """Start, stop and step of the normalized loop."""
        b = self.rewriter.builder
        step = constant_of(by)
        last = b.emit("sub", b.cast(stop, int64), b.cast(start, int64))
        length = b.emit("add", last, b.constant(int(step or 1) - 1, int64))
        size = b.constant(self.loop.stride, int64)
        return b.constant(0, int64), b.emit("mul", b.emit("floordiv", length, b.cast(by, int64)), size), size

    def initial_value(self, v: Value) -> Value:
        """The value at the entry of the loop."""
        if v in self.initial_values or v.op is None or v not in self.loop.inside:
            return self.initial_values.get(v) or self.rewriter.value(v)
        op = make_op(v.op.name, tuple(map(self.initial_value, v.op.operands)), v.op.attrs, (v.type,), (), v.op.loc)
        return self.initial_values.setdefault(v, self.rewriter.builder.place(op))

    def initial_access(self, access: Access) -> Access:
        """The access of a load in the first iteration."""
        parts = access.offsets, access.strides, access.extents
        offsets, strides, extents = (tuple(map(self.initial_value, part)) for part in parts)
        return replace(access, base=self.initial_value(access.base), offsets=offsets, strides=strides, extents=extents)

    def emit_body(self, args: Sequence[Value], begins: Mapping[Op, Access]) -> Region:
        """The body with rewritten loads, and without the pointer increments."""
        rewriter = self.rewriter
        old = self.loop.region
        b = rewriter.builder
        index = Value(scalar(int64), old.args[0].hint)
        new = Region([index, *(Value(v.type, v.hint) for v in args)])
        rewriter.mapping.update(zip(args, new.args[1:], strict=True))
        with b.inside(new):
            for op in old.body:
                if op in begins:
                    rewriter.mapping[op.result] = self.emit_load(op, begins[op], index)
                elif not any(self.loop.step_of(v) for v in op.results):
                    rewriter.visit(op)
            with b.at(old.terminator.loc):
                ends = map(rewriter.value, self.still_carried(old.terminator.operands))
                b.create(old.terminator.name, tuple(ends))
        return new

    def emit_load(self, op: Op, access: Access, index: Value) -> Value:
        """A load at its initial offset plus the induction variable."""
        b = self.rewriter.builder
        d = self.loop.moving_dims[op]
        with b.at(op.loc):
            moved = b.emit("add", access.offsets[d], index)
            offsets = (*access.offsets[:d], moved, *access.offsets[d + 1 :])
            return built(b, "load", replace(access, offsets=offsets)).result
