"""What the results of `if`, `for` and `while` are tied to: initial values, region arguments and yields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from types import MappingProxyType
from typing import Final

from pypto.ir.core import Op, Region, Value, make_op
from pypto.ir.rewrite import Rewriter
from pypto.ops.build import OpBuilder


@dataclass(frozen=True, slots=True)
class Layout:
    """How many operands and region arguments stand before those of the results, and which regions yield the results."""

    operands: int
    args: int
    yielding: tuple[int, ...]


LAYOUTS: Final = MappingProxyType({"if": Layout(1, 0, (0, 1)), "for": Layout(3, 1, (0,)), "while": Layout(0, 0, (1,))})


def initial(op: Op) -> tuple[Value, ...]:
    """The values that a loop starts from; none for `if`."""
    return op.operands[LAYOUTS[op.name].operands :]


def carried(op: Op, region: Region) -> list[Value]:
    """The arguments of a loop's region that belong to results."""
    return region.args[LAYOUTS[op.name].args :]


def yields(op: Op) -> list[tuple[Value, ...]]:
    """The values of the results, for each region that yields them."""
    return [op.regions[n].terminator.operands for n in LAYOUTS[op.name].yielding]


def flows(op: Op) -> Iterator[tuple[Value, Value]]:
    """Pairs of values, the second of which the first may be."""
    for ends in (initial(op), *yields(op)):  # what a loop begins with is its result if it never runs
        yield from zip(op.results, ends, strict=False)
        for region in op.regions:
            yield from zip(carried(op, region), ends, strict=False)


def inline(rewriter: Rewriter[OpBuilder], region: Region, args: Sequence[Value]) -> list[Value]:
    """Put the ops of a region where the rewriter stands; gives what the region yields."""
    rewriter.mapping.update(zip(region.args, args, strict=True))
    for op in region.body:
        rewriter.visit(op)
    return [rewriter.value(v) for v in region.terminator.operands]


def narrow(rewriter: Rewriter[OpBuilder], op: Op, keep: Sequence[bool]) -> list[Value]:
    """Copy control flow without some of its results. In their place stand the old results, which nothing may use."""
    lead = LAYOUTS[op.name].operands
    operands = rewriter.operands(op)
    regions = tuple(_narrow_region(rewriter, op, number, keep) for number in range(len(op.regions)))
    types = tuple(v.type for v in compress(op.results, keep))
    new = make_op(op.name, (*operands[:lead], *compress(operands[lead:], keep)), op.attrs, types, regions, op.loc)
    rewriter.builder.region.ops.append(new)
    results = iter(new.results)
    return [next(results) if kept else old for kept, old in zip(keep, op.results, strict=True)]


def _narrow_region(rewriter: Rewriter[OpBuilder], op: Op, number: int, keep: Sequence[bool]) -> Region:
    old, layout = op.regions[number], LAYOUTS[op.name]
    args = [*old.args[: layout.args], *compress(old.args[layout.args :], keep)]
    new = Region([Value(a.type, a.hint) for a in args])
    with rewriter.builder.inside(new):
        values = inline(rewriter, Region(args, old.ops), new.args)
        kept = tuple(compress(values, keep)) if number in layout.yielding else tuple(values)
        with rewriter.builder.at(old.terminator.loc):
            rewriter.builder.create(old.terminator.name, kept)
    return new
