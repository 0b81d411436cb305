"""Unswitching (versioning) of blocks whose index wraps around, `% M`: one body without their gathers, one with them.

Published kernels keep an index inside its array, `rows = (pid * B + arange(B)) % M`, and mask what they store. Access
analysis reads such a block in place, and gathers what has wrapped around. The gather keeps a product from reading its
operand in place, though hardly any program needs it.

Legality: a program needs no gather where the block ends inside the array, or where stores take nothing of the rows
that have wrapped around. Both follow from arguments and program ids alone, so the program tests it once, at its entry.
Where stores end at `M - pid * B`, and that index is surely not negative, no program needs one: there is one body.
Checked and profiled kernels stay as they are: a check or a timed statement is to stand in one body.

    %x = tile_load %p up to %m, other %g     ->     if (%m >= 8) | (%stored <= %m) { %x = tile_load %p up to %m ... }
    %acc = dot %x, %y                               else { %x = tile_load %p up to %m, other %g ... }
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pypto.ir.core import Function, Op, Region, Value, make_op
from pypto.ir.rewrite import Rewriter, Rule, rewrite
from pypto.ir.types import int1, int64
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.passes.analysis.carried import LAYOUTS, carried
from pypto.passes.analysis.dimensions import result_dims
from pypto.passes.analysis.memory_effects import is_pure
from pypto.passes.analysis.ranges import is_nonnegative
from pypto.passes.analysis.scalar_evolution import add_affine, affine_of
from pypto.passes.canonicalize import Simplifier
from pypto.passes.dce import dce
from pypto.passes.pattern import constant_of

Place = tuple[Value, int]  # a tile and a dimension of it


def unswitch_modulo(function: Function) -> Function:
    """The function with two versions of its body, where gathers keep products from reading in place."""
    wraps = {op: dims for op in function.walk() if (dims := wrapped_dims(op))}
    flow = StoredExtents(function) if wraps else None
    if flow is None or not any(user.name == "dot" for op in wraps for user, _ in flow.users[op.result]):
        return function
    b = Simplifier(Region())
    body = Region([Value(v.type, v.hint) for v in function.args])
    with b.inside(body), b.at(function.loc):
        beginning = EntryConditions(b, dict(zip(function.args, body.args, strict=True)))
        needless = [beginning.gather_is_dead(op, d, flow) for op, dims in wraps.items() for d in dims]
        if None in needless:
            return function
        condition = reduce(lambda x, y: b.emit("and_", x, y), [v for v in needless if v is not None])
        if constant_of(condition) is True:
            return dce(rewrite(function, drop_gathers(wraps), Simplifier))
        sides = tuple(clone_body(b, function, body, rule) for rule in (drop_gathers(wraps), lambda *_: None))
        b.region.ops.append(make_op("if", (condition,), {}, (), sides, function.loc))
        b.create("yield", ())
    programs = replace(function.programs, has_cold_version=True)
    return dce(replace(function, body=body, attrs=dict(function.attrs), programs=programs))


def hot_version(function: Function) -> Function:
    """The function with the hot version of its body alone, where it has two."""
    if not function.programs.has_cold_version:
        return function
    (choice,) = (op for op in function.body.ops if op.name == "if")
    body = Region(function.body.args, choice.regions[0].ops)
    return replace(function, body=body, programs=replace(function.programs, has_cold_version=False))


def wrapped_dims(op: Op) -> tuple[int, ...]:
    """The dimensions in which the index of a load wraps around: elements beyond the extent come from a gather."""
    if op.name != "tile_load":
        return ()
    access = Access.of(op)
    gather = access.other.op if access.other is not None else None
    if gather is None or gather.name != "tile_load" or access.mask is not None or access.base.shape:
        return ()
    beyond = Access.of(gather)
    starts = all(constant_of(v) == 0 for v in (*access.offsets, *beyond.offsets))
    if beyond.mask is not None or beyond.other is not None or not starts:
        return ()
    pairs = enumerate(zip(beyond.extents, access.extents, strict=True))
    return tuple(d for d, (y, x) in pairs if not (y is x or is_extent_or_zero(y, x)))


def is_extent_or_zero(y: Value, x: Value) -> bool:
    """Whether an extent is another one, or 0 under a condition."""
    return y.op is not None and y.op.name == "where" and y.op.operands[1] is x and constant_of(y.op.operands[2]) == 0


def ends_before_wrap(stored: Value, extent: Value) -> bool:
    """Whether stores that end at `stored` drop all elements that have wrapped around, in any program.

    They end at `stored = m - x`, with m the size and x the first index of the block, which is not negative. So no
    multiple of m lies between x and the last element that is stored.
    """
    wrapped = wrapped_index(extent)
    if wrapped is None:
        return False
    x, m = wrapped
    left = add_affine((affine_of(m, wraps=False), 1), (affine_of(x, wraps=False), -1))
    return is_nonnegative(x) and affine_of(stored, wraps=False) == left


def wrapped_index(extent: Value) -> tuple[Value, Value] | None:
    """The first index x and the size m, where an extent is the distance from x to the next multiple of m."""
    op = extent.op
    if op is not None and op.name == "where" and constant_of(op.operands[2]) == 0:
        op = op.operands[1].op
    if op is None or op.name != "sub":
        return None
    end, x = op.operands
    for multiple in end.op.operands if end.op is not None and end.op.name == "minimum" else (end,):
        factors = multiple.op.operands if multiple.op is not None and multiple.op.name == "mul" else ()
        for next_number, m in (factors, factors[::-1]) if factors else ():
            if is_next_quotient(next_number, x, m) and (multiple is end or is_no_bound_of(end, m)):
                return x, m
    return None


def is_next_quotient(v: Value, x: Value, m: Value) -> bool:
    """Whether a number is ``x // m + 1``."""
    quotient = v.op.operands[0].op if v.op is not None and v.op.name == "add" else None
    is_quotient = quotient is not None and quotient.name == "floordiv" and quotient.operands == (x, m)
    return is_quotient and v.op is not None and constant_of(v.op.operands[1]) == 1


def is_no_bound_of(least: Value, m: Value) -> bool:
    """Whether the constant of a minimum is at least the greatest value of `m`."""
    bounds = [n for v in least.op.operands if (n := constant_of(v)) is not None] if least.op is not None else []
    source = m.op.operands[0] if m.op is not None and m.op.name == "cast" else m
    most = constant_of(m) if constant_of(m) is not None else source.dtype.integer_range[1]
    return bool(bounds) and most is not None and all(n >= most for n in bounds)


def drop_gathers(wraps: dict[Op, tuple[int, ...]]) -> Rule:
    """The rule of the hot version: loads without their gathers."""

    def rule(rewriter: Rewriter[Simplifier], op: Op) -> Sequence[Value] | None:
        if op not in wraps:
            return None
        access = Access.of(op)
        alone = replace(access, other=None)
        operands = map(rewriter.value, alone.operands)
        return rewriter.builder.create(op.name, tuple(operands), op.attrs, (op.result.type,)).results

    return rule


def clone_body(b: Simplifier, function: Function, body: Region, rule: Rule) -> Region:
    """A copy of the body, rewritten by a rule."""
    region = Region()
    rewriter = Rewriter(b, rule)
    rewriter.mapping.update(zip(function.args, body.args, strict=True))
    with b.inside(region):
        for op in function.body.ops:
            rewriter.visit(op)
    return region


class StoredExtents:
    """Forward analysis from loads to stores: the readers of each value, and the regions that terminators end."""

    def __init__(self, function: Function) -> None:
        self.users: dict[Value, list[tuple[Op, int]]] = defaultdict(list)
        self.enclosing_region: dict[Op, tuple[Op, Region]] = {}
        for op in function.walk():
            for n, v in enumerate(op.operands):
                self.users[v].append((op, n))
            self.enclosing_region.update((region.terminator, (op, region)) for region in op.regions)

    def stored_extents(self, v: Value, d: int) -> list[Value] | None:
        """The extents of the stores that a dimension of a tile reaches; None where it reaches anything else."""
        work = [(v, d)]
        seen = set[Place]()
        extents = list[Value]()
        while work:
            place = work.pop()
            for op, n in self.users[place[0]] if place not in seen else ():
                access = Access.of(op) if op.name == "tile_store" else None
                if access is not None and access.value is place[0] and constant_of(access.offsets[place[1]]) == 0:
                    extents.append(access.extents[place[1]])
                    continue
                places = self.propagate(op, n, place)
                if places is not None:
                    work += places
                else:
                    return None
            seen.add(place)
        return extents

    def propagate(self, op: Op, n: int, place: Place) -> Sequence[Place] | None:
        """The dimensions of an op's results that a dimension of its operand becomes; None where that is not known."""
        v, d = place
        if op.name == "dot" and len(op.result.shape) == 2:
            return result_dims(op, v, d)
        if op.name == "for" and n >= LAYOUTS["for"].operands:
            n -= LAYOUTS["for"].operands
            return [(op.results[n], d), (carried(op, op.regions[0])[n], d)]
        if op in self.enclosing_region and self.enclosing_region[op][0].name == "for":
            loop, region = self.enclosing_region[op]
            return [(loop.results[n], d), (carried(loop, region)[n], d)]
        if len(op.results) != 1:
            return None
        row = TABLE[op.name]
        is_plain = row.elementwise and is_pure(op) and op.result.shape == v.shape
        return result_dims(op, v, d) if is_plain or op.name == "permute" else None


@dataclass
class EntryConditions:
    """The conditions that a program tests at its entry; `hoisted` maps scalars to their copies there."""

    b: Simplifier
    hoisted: dict[Value, Value]

    def gather_is_dead(self, load: Op, d: int, flow: StoredExtents) -> Value | None:
        """Whether a tile ends within its extent in a dimension, or stores drop the elements beyond it."""
        access = Access.of(load)
        ends = flow.stored_extents(load.result, d)
        if ends and all(ends_before_wrap(v, access.extents[d]) for v in ends):
            return self.b.constant(True, int1)
        extent = self.hoist(access.extents[d])
        if extent is None:
            return None
        inside = self.b.emit("ge", extent, self.b.constant(access.shape[d], int64))
        stored = [self.hoist(v) for v in ends or ()]
        if not stored or None in stored:
            return inside
        short = (self.b.emit("le", v, extent) for v in stored if v is not None)
        return self.b.emit("or_", inside, reduce(lambda x, y: self.b.emit("and_", x, y), short))

    def hoist(self, v: Value) -> Value | None:
        """A copy of a scalar that depends on arguments and program ids alone; None for others."""
        if v in self.hoisted:
            return self.hoisted[v]
        if v.op is None or v.shape or v.op.regions or not is_pure(v.op):
            return None
        operands = tuple(x for x in map(self.hoist, v.op.operands) if x is not None)
        if len(operands) < len(v.op.operands):
            return None
        return self.hoisted.setdefault(
            v, self.b.place(make_op(v.op.name, operands, v.op.attrs, (v.type,), (), v.op.loc))
        )
