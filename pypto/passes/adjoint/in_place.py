"""Arrays that a kernel reads and writes in place: what it writes becomes an array of its own.

Legal where each element is read before it is written: what is read is then what the launch has found. Programs run in
any order, so that no launch is defined in which one reads what another one writes. The order within a program is that
of its statements and trips: by the places of statements, or else element by element, see `addresses`.

    %t = tile_load %q, …                                    %t = tile_load %q, …
    tile_store %q, …, %v                             ->     tile_store %q_after, …, %v
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.rewrite import Rewriter
from pypto.ops.build import OpBuilder
from pypto.passes.adjoint.addresses import Site, Stored, accessed, are_exclusive, most_lanes, parts, span_of, within
from pypto.passes.adjoint.footprint import LaunchNumbers
from pypto.passes.analysis.memory_effects import accessed_array

_MOST_ELEMENTS: Final = 1 << 26


def with_results_apart(function: Function, names: Sequence[str]) -> tuple[Function, Mapping[str, str]]:
    """The function with an array of its own for what it stores to each of some arrays, and whose it is by its name."""
    names_in_use = {v.hint for v in function.args}
    arrays = {v: v for v in function.args if v.hint in names}
    after = {v: Value(v.type, free_name(f"{v.hint}_after", names_in_use)) for v in arrays}

    def rule(rewriter: Rewriter[OpBuilder], op: Op) -> Sequence[Value] | None:
        array = accessed_array(op) if op.name in ("store", "tile_store") else None
        if array not in after:
            return None
        pointer = rerooted(rewriter, op.operands[0], after[array])
        others = [rewriter.value(v) for v in op.operands[1:]]
        for n, v in enumerate(op.operands[1:]):
            if v.op is not None and v.op.name in ("array_shape", "array_stride") and v.op.operands[0] is array:
                others[n] = rewriter.builder.emit(v.op.name, after[array], **v.op.attrs)
        rewriter.builder.create(op.name, (pointer, *others), dict(op.attrs), ())
        return []

    copy = Rewriter(OpBuilder(Region()), rule).function(function)
    copy.body.args.extend(after.values())
    return copy, {x.hint: v.hint for v, x in after.items()}


def free_name(name: str, names_in_use: set[str]) -> str:
    while name in names_in_use:
        name += "_"
    return name


def rerooted(rewriter: Rewriter[OpBuilder], pointer: Value, array: Value) -> Value:
    """A pointer, as far from the first element of another array."""
    op = pointer.op
    assert op is not None
    if op.name == "array_ptr":
        return rewriter.builder.emit("array_ptr", array)
    base = rerooted(rewriter, op.operands[0], array)
    others = tuple(rewriter.value(v) for v in op.operands[1:])
    return rewriter.builder.op(op.name, base, *others, **op.attrs).result


@dataclass(frozen=True)
class ProgramOrder:
    """In which order the statements of one program run: `numbers` are theirs in the text."""

    numbers: Mapping[Op, int]

    @staticmethod
    def of(function: Function) -> ProgramOrder:
        return ProgramOrder({op: n for n, op in enumerate(function.walk())})

    def is_before(self, a: Site, b: Site) -> bool:
        """Whether a statement comes before another one in a trip of the loops around both."""
        return self.numbers[a.op] < self.numbers[b.op] or are_exclusive(a, b)


def shared_loops(a: Site, b: Site) -> list[Op]:
    return [x for x, y in zip(a.loops, b.loops, strict=False) if x is y]


def reads_before_writes(
    function: Function, loads: Sequence[Site], stores: Sequence[Site], name: str, launch: LaunchNumbers
) -> Stored:
    """Whether no load reads an element of an array that a store has written before: then `ONCE`."""
    order = ProgramOrder.of(function)
    for load in loads:
        for store in stores:
            loops = shared_loops(load, store)
            if not loops and order.is_before(load, store):
                continue
            how = pair_order(function, load, store, loops, order.is_before(load, store), name, launch)
            if how is not Stored.ONCE:
                return how
    return Stored.ONCE


def pair_order(
    function: Function, load: Site, store: Site, loops: Sequence[Op], is_first: bool, name: str, launch: LaunchNumbers
) -> Stored:
    """Whether no program reads by one load what a store of it has written in an earlier trip, or before it in one."""
    low, high = span_of(name, launch)
    lanes = most_lanes(function, (load, store), launch)
    if lanes is None:
        return Stored.DATA
    if high - low > _MOST_ELEMENTS or lanes > _MOST_ELEMENTS:
        return Stored.MANY
    for values in parts(function, launch, lanes):
        when = np.full(high - low + 1, -1, np.int64)
        stored, loaded = (accessed(site, values, loops) for site in (store, load))
        if stored is None or loaded is None:
            return Stored.DATA
        place, moment = within(stored, low, high)
        when[place] = moment
        place, read = within(loaded, low, high)
        written = when[place]
        is_other_program = written // values.moments(loops) != read // values.moments(loops)
        is_later = written < read if is_first else written <= read
        if ((written >= 0) & (is_other_program | is_later)).any():
            return Stored.TWICE
    return Stored.ONCE
