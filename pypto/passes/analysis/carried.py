"""Loop-carried values and branch results: the initial values, arguments, yields and results that belong together.

SSA form with regions ties these four by their position. Passes that drop or retype a carried value do it here, so that
all four change together.

    %r = for %lo, %hi, %step, %x { (%i, %a)        initial %x, carried %a, yields %e, result %r
      %e = add %a, %i
      yield %e
    }
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from types import MappingProxyType
from typing import Final

from pypto.ir.core import Function, Op, Region, Value, make_op
from pypto.ir.rewrite import Rewriter
from pypto.ir.types import Type
from pypto.ops.build import OpBuilder

Enter = Callable[[list[Value], list[Value]], Sequence[Value]]
Leave = Callable[[list[Value], list[Value]], Iterable[Value]]


@dataclass(frozen=True, slots=True)
class Layout:
    """The operands and region arguments before the carried ones, and the regions that yield the results."""

    operands: int
    args: int
    yielding: tuple[int, ...]


LAYOUTS: Final = MappingProxyType({"if": Layout(1, 0, (0, 1)), "for": Layout(3, 1, (0,)), "while": Layout(0, 0, (1,))})


def initial(op: Op) -> tuple[Value, ...]:
    """The initial values of a loop; none for `if`."""
    return op.operands[LAYOUTS[op.name].operands :]


def carried(op: Op, region: Region) -> list[Value]:
    """The arguments of a loop's region that carry its results."""
    return region.args[LAYOUTS[op.name].args :]


def yields(op: Op) -> list[tuple[Value, ...]]:
    """The values of the results, for each region that yields them."""
    return [op.regions[n].terminator.operands for n in LAYOUTS[op.name].yielding]


def flows(op: Op) -> Iterator[tuple[Value, Value]]:
    """Data flow through control flow: pairs of values, of which the first may be the second."""
    for ends in (initial(op), *yields(op)):  # what a loop begins with is its result if it never runs
        yield from zip(op.results, ends, strict=False)
        for region in op.regions:
            yield from zip(carried(op, region), ends, strict=False)


def flow_sources(function: Function) -> dict[Value, list[Value]]:
    """The values that each argument or result of control flow may be."""
    sources: dict[Value, list[Value]] = defaultdict(list)
    for v, source in (pair for op in function.walk() if op.name in LAYOUTS for pair in flows(op)):
        sources[v].append(source)
    return sources


def inline(rewriter: Rewriter[OpBuilder], region: Region, args: Sequence[Value]) -> list[Value]:
    """Emit the ops of a region at the builder's position; gives the yielded values."""
    rewriter.mapping.update(zip(region.args, args, strict=True))
    for op in region.body:
        rewriter.visit(op)
    return [rewriter.value(v) for v in region.terminator.operands]


def rebuild(
    rewriter: Rewriter[OpBuilder],
    op: Op,
    types: Sequence[Type | None],
    starts: Iterable[Value],
    enter: Enter,
    leave: Leave,
) -> tuple[Value, ...]:
    """Copy control flow with results of other types, of which None drops one; gives the new results.

    `starts` are the initial values. `enter` computes the old arguments from the new ones, `leave` what a region yields
    from its new arguments and what the old region yields.
    """
    b = rewriter.builder
    layout = LAYOUTS[op.name]
    result_types = tuple(t for t in types if t is not None)

    def region(number: int, old: Region) -> Region:
        lead = [Value(a.type, a.hint) for a in old.args[: layout.args]]
        args = [Value(t, a.hint) for t, a in zip(types, carried(op, old), strict=False) if t is not None]
        new = Region([*lead, *args])
        with b.inside(new):
            values = inline(rewriter, old, [*lead, *enter(args, carried(op, old))])
            yielded = leave(args, values) if number in layout.yielding else values
            with b.at(old.terminator.loc):
                b.create(old.terminator.name, tuple(yielded))
        return new

    regions = tuple(region(number, old) for number, old in enumerate(op.regions))
    new = make_op(
        op.name, (*rewriter.operands(op)[: layout.operands], *starts), op.attrs, result_types, regions, op.loc
    )
    b.region.ops.append(new)
    return new.results


def narrow(rewriter: Rewriter[OpBuilder], op: Op, keep: Sequence[bool]) -> list[Value]:
    """Copy control flow without some of its results, whose places the old results keep: nothing may use them."""

    def complete(values: Iterable[Value], old: Iterable[Value]) -> list[Value]:
        remaining = iter(values)
        return [next(remaining) if is_kept else rewriter.value(v) for is_kept, v in zip(keep, old, strict=False)]

    types = [v.type if is_kept else None for is_kept, v in zip(keep, op.results, strict=True)]
    starts = compress(map(rewriter.value, initial(op)), keep)
    return complete(
        rebuild(rewriter, op, types, starts, complete, lambda _, values: compress(values, keep)), op.results
    )
