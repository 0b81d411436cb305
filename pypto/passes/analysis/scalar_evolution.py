"""Scalar evolution: how integers and pointers change from program to program, and over the iterations of a loop.

An axis is a dimension of the grid (0, 1 or 2) or a loop. The step of a value over an axis is what it grows by from one
program, or iteration, to the next: a sum of products of scalars that are invariant along that axis. The step of a
pointer is in elements.

    %i = program_id {axis = 0}                     step over axis 0
    %o = mul %i, %block                              {(block,): 1}
    %p = addptr %base, %o                            {(block,): 1}
    for %lo, %hi, %four, %p { (%k, %q) ...         step over the loop
      %r = addptr %q, %width                         k {(): 4}, q and r {(width,): 1}
      yield %r

Arithmetic below 64 bits may overflow. Behind an address it does not (see `passes.widen`), so it is followed unless
`exact` is asked for. Steps of one analysis are computed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pypto.ir.core import Function, Op, Region, Value, walk
from pypto.ir.types import PtrType, TileType, int64
from pypto.ops.memory import Access
from pypto.passes.analysis.carried import carried, initial, yields
from pypto.passes.analysis.memory_effects import is_load, is_pure
from pypto.passes.pattern import constant_of

Axis = int | Op  # a dimension of the grid, or a loop
Step = Mapping[tuple[Value, ...], int]  # a sum of products of scalars, each times a number; empty where nothing changes

GRID_AXES: Final = (0, 1, 2)
INVARIANT: Final[Step] = {}
ONE_PER_TURN: Final[Step] = {(): 1}


def add_steps(a: Step, b: Step, times: int = 1) -> Step:
    """The step of a sum, whose second part counts `times` times."""
    total = dict(a)
    for factors, n in b.items():
        total[factors] = total.get(factors, 0) + times * n
    return {factors: n for factors, n in total.items() if n}


def scaled_step(step: Step, factor: Value) -> Step:
    """The step of a product with a value that does not change."""
    number = constant_of(factor)
    if number is not None:
        return {factors: n * int(number) for factors, n in step.items() if number}
    return {(*factors, factor): n for factors, n in step.items()}


def step_by(amount: Value, times: int = 1) -> Step:
    """The step of a value that grows by `times` an amount; of an amount ``x * 3`` that is 3 times x."""
    op = amount.op
    if constant_of(amount) is None and op is not None and op.name == "mul":
        for x, y in (op.operands, op.operands[::-1]):
            if constant_of(y) is not None:
                return scaled_step({(x,): times}, y)
    return scaled_step({(): times}, amount)


def expanded(step: Step) -> Step:
    """Expand a step: products with constants among its factors become separate factors."""
    total: Step = INVARIANT
    for factors, n in step.items():
        term: Step = {(): n}
        for factor in factors:
            parts = step_by(factor)
            term = {(*left, *right): x * y for left, x in term.items() for right, y in parts.items()}
        total = add_steps(total, term)
    return total


def constant_step(step: Step | None) -> int | None:
    """The number that a step is; None where it is not known, or depends on scalars."""
    if step is None or any(factors for factors in step):
        return None
    return step.get((), 0)


@dataclass(frozen=True, slots=True)
class Evolution:
    """A value, and its steps over all axes along which it changes."""

    base: Value
    steps: Mapping[Axis, Step]


@dataclass
class ScalarEvolution:
    """The steps of scalars in a function, or around some loops of it.

    What other loops than `loops` carry counts as invariant. With `exact`, a sum below 64 bits has no known step. With
    `memory_is_invariant`, a load from an invariant address counts as invariant: enough where a wrong answer costs time
    alone. Without `through_carried`, the step of what a loop carries is not known.
    """

    loops: Iterable[Op] = ()
    exact: bool = False
    memory_is_invariant: bool = False
    through_carried: bool = True
    known: dict[Axis, dict[Value, Step | None]] = field(default_factory=dict)
    loop_of: dict[Value, Op] = field(init=False)
    bodies: dict[Op, frozenset[Op]] = field(default_factory=dict)  # the ops in each loop that was asked for

    def __post_init__(self) -> None:
        self.loop_of = {arg: op for op in self.loops for region in op.regions for arg in region.args}

    @staticmethod
    def of(function: Function, exact: bool = False, through_carried: bool = True) -> ScalarEvolution:
        """The analysis of a whole function."""
        loops = [op for op in function.walk() if op.name in ("for", "while")]
        return ScalarEvolution(loops, exact, through_carried=through_carried)

    def evolution(self, v: Value) -> Evolution | None:
        """The steps of a value over the grid and all loops; None where one is not known."""
        axes: tuple[Axis, ...] = (*GRID_AXES, *dict.fromkeys(self.loop_of.values()))
        steps = {axis: self.step(v, axis) for axis in axes}
        nonzero = {axis: step for axis, step in steps.items() if step}
        return None if None in steps.values() else Evolution(v, nonzero)

    def step(self, v: Value, axis: Axis) -> Step | None:
        """How much a value grows along an axis; None where that is not known."""
        known = self.known.setdefault(axis, {})
        work = [v]
        while work:
            last = work.pop()
            is_leaf = last.op is None or last.op.regions or self._is_outside(last.op, axis)
            needed = last.op.operands if last.op is not None and not is_leaf else ()
            if waiting := [x for x in needed if x not in known]:
                work += [last, *waiting]
            elif last not in known:
                known[last] = self._compute(last, axis)
        return known[v]

    def address_step(self, access: Access, axis: Axis) -> Step | None:
        """How many elements the address of an access grows by; None where that is not known."""
        total = None if access.base.shape else self.step(access.base, axis)
        for offset, stride in zip(access.offsets, access.strides, strict=True):
            step = self.step(offset, axis)
            total = None if total is None or step is None else add_steps(total, scaled_step(step, stride))
        return total

    def is_invariant(self, v: Value, axis: Axis) -> bool:
        return self.step(v, axis) == INVARIANT

    def depends_on_program(self, v: Value, axes: Sequence[int] = GRID_AXES) -> bool:
        """Whether a value may differ in programs that differ along some axes of the grid."""
        return not all(self.is_invariant(v, axis) for axis in axes)

    def _compute(self, v: Value, axis: Axis) -> Step | None:
        op = v.op
        if op is None:
            return self._argument_step(v, axis)
        if self._is_outside(op, axis):
            return INVARIANT
        if op.name == "program_id":
            return ONE_PER_TURN if op.attrs["axis"] == axis else INVARIANT
        if op.regions:
            return INVARIANT if self._region_is_invariant(op, axis) else None
        if not self._is_repeatable(op):
            return None
        steps = [self.known[axis][x] for x in op.operands]
        return None if None in steps else self._op_step(op, [step or INVARIANT for step in steps])

    def _is_outside(self, op: Op, axis: Axis) -> bool:
        """Whether an op is not in the loop that is the axis."""
        if isinstance(axis, int):
            return False
        if axis not in self.bodies:
            self.bodies[axis] = frozenset(op for region in axis.regions for op in walk(region))
        return op not in self.bodies[axis]

    def _is_repeatable(self, op: Op) -> bool:
        """Whether an op gives the same for the same operands."""
        return is_pure(op) or (self.memory_is_invariant and is_load(op))

    def _region_is_invariant(self, op: Op, axis: Axis) -> bool:
        """Whether a loop or branch gives the same along an axis: nothing in it, and nothing that it uses, changes."""
        inner = [x for region in op.regions for x in walk(region)]
        reads_axis = any(x.name == "program_id" and x.attrs["axis"] == axis for x in inner)
        if reads_axis or not all(map(self._is_repeatable, inner)):
            return False
        return all(self.is_invariant(v, axis) for v in values_used(op))

    def _op_step(self, op: Op, steps: Sequence[Step]) -> Step | None:
        """The step of an op's result, from those of its operands."""
        if not any(steps):
            return INVARIANT
        if self.exact and not is_address_width(op.results[0]):
            return None
        if op.name == "mul":
            x, y = op.operands
            by_x, by_y = steps
            return None if by_x and by_y else scaled_step(by_x or by_y, y if by_x else x)
        if op.name == "cast":
            return steps[0]
        if op.name in ("add", "addptr", "sub"):
            return add_steps(steps[0], steps[1], -1 if op.name == "sub" else 1)
        return None

    def _argument_step(self, v: Value, axis: Axis) -> Step | None:
        """The step of an argument of the kernel, or of what a loop counts or carries."""
        loop = self.loop_of.get(v)
        if loop is None or (loop is not axis and self._is_outside(loop, axis)):
            return INVARIANT
        is_index = loop.name == "for" and v is loop.regions[0].args[0]
        if axis is loop:
            return step_by(loop.operands[2]) if is_index else self._carried_step(v, loop)
        if is_index:
            first, _, by = loop.operands[:3]
            return self.step(first, axis) if self.is_invariant(by, axis) else None
        step = self.step(v, loop)
        if step is None or not all(self.is_invariant(x, axis) for factors in step for x in factors):
            return None
        return self.step(initial(loop)[carried(loop, self._region_of(v, loop)).index(v)], axis)

    def _carried_step(self, arg: Value, loop: Op) -> Step | None:
        """How much a loop adds to a value that it carries: sums with what does not change in the loop."""
        if loop.name != "for" or not self.through_carried or (self.exact and not is_address_width(arg)):
            return None
        (region,) = loop.regions
        inside = {*region.args, *(v for op in region.body for v in op.results)}
        after = yields(loop)[0][carried(loop, region).index(arg)]
        total: Step = INVARIANT
        while after is not arg:
            op = after.op
            if op is None or after not in inside or op.name not in ("add", "addptr", "sub"):
                return None
            before, amount = op.operands
            if op.name == "add" and amount in inside:
                before, amount = amount, before
            if amount in inside:
                return None
            after = before
            total = add_steps(total, step_by(amount), -1 if op.name == "sub" else 1)
        return total

    def _region_of(self, arg: Value, loop: Op) -> Region:
        return next(region for region in loop.regions if arg in region.args)


def is_address_width(v: Value) -> bool:
    """Whether a value is a pointer or an integer of 64 bits, which does not wrap around."""
    return isinstance(v.type, TileType) and not v.shape and (isinstance(v.tile.elem, PtrType) or v.tile.elem == int64)


def values_used(op: Op) -> list[Value]:
    """What an op with regions reads from outside of them."""
    inner = [x for region in op.regions for x in walk(region)]
    inside = {v for x in inner for v in x.results}
    inside.update(arg for x in (op, *inner) for region in x.regions for arg in region.args)
    return [v for x in (op, *inner) for v in x.operands if v not in inside]


@dataclass(frozen=True, slots=True)
class AffineExpr:
    """An integer as a number and a sum of values, each times a number: two of them can be compared."""

    number: int
    terms: frozenset[tuple[Value, int]]

    @property
    def is_natural(self) -> bool:
        """Whether it is a number of 0 or more."""
        return not self.terms and self.number >= 0

    def __sub__(self, other: AffineExpr) -> AffineExpr:
        return add_affine((self, 1), (other, -1))


ONE: Final = AffineExpr(1, frozenset())


def add_affine(*parts: tuple[AffineExpr, int]) -> AffineExpr:
    terms: Counter[Value] = Counter()
    for part, factor in parts:
        for v, n in part.terms:
            terms[v] += n * factor
    return AffineExpr(sum(p.number * f for p, f in parts), frozenset((v, n) for v, n in terms.items() if n))


def affine_of(v: Value, wraps: bool = True) -> AffineExpr:
    """The form of an integer, through sums, products with constants and casts to more bits.

    Where nothing `wraps`, as behind an address, it goes through sums and products of less than 64 bits, too.
    """
    number = constant_of(v)
    if number is not None:
        return AffineExpr(int(number), frozenset())
    op = v.op
    is_exact = v.dtype.bits == 64 or (v.dtype.is_int and not wraps)
    if op is not None and is_exact and op.name in ("add", "sub"):
        x, y = (affine_of(operand, wraps) for operand in op.operands)
        return add_affine((x, 1), (y, -1 if op.name == "sub" else 1))
    if op is not None and op.name == "cast" and op.operands[0].dtype.bits <= v.dtype.bits:
        return affine_of(op.operands[0], wraps)
    if op is not None and is_exact and op.name == "mul":
        for value, other in (op.operands, op.operands[::-1]):
            if (factor := constant_of(other)) is not None:
                return add_affine((affine_of(value, wraps), int(factor)))
    return AffineExpr(0, frozenset(((v, 1),)))
