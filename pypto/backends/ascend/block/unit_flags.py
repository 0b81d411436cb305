"""Unit flags: a result leaves L0C while the last product of its sum, and the first one of the next sum, are at work.

`unitFlag` gives each unit of L0C, of 512 bytes, a bit by which the hardware orders products and the way out. A product
waits until a unit is empty; the last one of a sum (3; the others have 2) marks it as full. The Fixpipe (3) waits until
a unit is full, and marks it as empty. So this pair needs no events. It pays where L0C has room for one accumulator
alone; with two stages, events let a result leave while the next one is computed.

A unit that is left full stops the core for ever. So it is legal only where a sum is one product in loops, and one
Fixpipe takes all of it (`block.accumulation`). Where only a launch knows that (`whole`), edge blocks have no flags, but
events right at their waits.

    for k in range(0, n, 256):          whole: int1 = 0 < n and rows == 128 and cols == 256
        Mmad(sums, ..., 0, ...)         if not whole: <FIX to M>
    Fixpipe(c, sums, ..., 0)     ->     for k in range(0, n, 256):
                                            Mmad(sums, ..., (3 if k >= n - 256 else 2) if whole else 0, ...)
                                        if not whole: <M to FIX>
                                        Fixpipe(c, sums, ..., 3 if whole else 0)
                                        if not whole: <FIX to M>
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pypto.backends.ascend.block.accumulation import NotOneSum, Sum, find_sum, touches, unused
from pypto.backends.ascend.block.dependences import is_fenced
from pypto.backends.ascend.blockir.effects import items_of, unit_flag_index, views
from pypto.backends.ascend.blockir.instructions import EVENTS_EACH
from pypto.backends.ascend.blockir.ir import (
    BlockKernel,
    Buffer,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Record,
    Scalar,
    UnitFlags,
    Word,
    walk,
)
from pypto.backends.ascend.blockir.rewrite import inside
from pypto.backends.ascend.target import AscendTarget
from pypto.ir.types import int1

ADDS: Final = 2  # `unitFlag` of a product that others follow
LAST: Final = 3  # of the last product, and of the Fixpipe
# Events of edge blocks. Those of one pair differ, so that none is set again before its wait; `insert_sync` has no other
# events of these pairs, but in branches with barriers around them, and numbers those from 0 on.
BEFORE: Final = ("FIX_M", EVENTS_EACH - 2)
BETWEEN: Final = ("M_FIX", EVENTS_EACH - 2)
BEHIND: Final = ("FIX_M", EVENTS_EACH - 3)


def flag_units(kernel: BlockKernel, target: AscendTarget) -> BlockKernel:
    """Order products and the way out of L0C by unit flags where that is legal, and record the decision."""
    items = kernel.cube_body or kernel.body
    product = next((x for x in walk(items) if x.name == "Mmad"), None)
    if product is None or not target.has_unit_flags:
        return kernel
    try:
        changed = in_rows(with_flags(kernel, items))
    except NotOneSum as reason:
        return replace(kernel, unit_flags=UnitFlags(product.line, str(reason)))
    decided = replace(kernel, unit_flags=UnitFlags(product.line))
    return replace(decided, cube_body=changed) if kernel.cube_body else replace(decided, body=changed)


def in_rows(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Let the cube unit compute row by row, as the Fixpipe takes rows; other kernels find what is usual."""
    barrier = Instr("PipeBarrier", (Word("PIPE_ALL"),))
    return (Instr("SetMMLayoutTransform", (True,)), *items, barrier, Instr("SetMMLayoutTransform", (False,)))


def with_flags(kernel: BlockKernel, items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return the cube core's items with unit flags.

    Raises
    ------
    NotOneSum
        With the reason why they keep their events.
    """
    found = {view.of for instr in walk(items) for view in views(instr) if view.space == "L0C"}
    sums, *others = [x for x in found if isinstance(x, Buffer)]
    if others:
        raise NotOneSum("L0C has the sums of several products")
    if sums.stages > 1:
        raise NotOneSum("L0C has two stages, so that one result leaves while the next one is computed")
    taken = {x.name for x in kernel.params} | {x.name for x in kernel.buffers}
    taken |= {x.name for x in items_of(kernel.body + kernel.cube_body) if isinstance(x, Let | Loop)}
    return flagged(items, sums.name, taken)


def flagged(items: tuple[Item, ...], sums: str, taken: set[str]) -> tuple[Item, ...]:
    """Return a sequence with unit flags: its own if it has both products and Fixpipe, else those of an inner one."""
    users = [i for i, item in enumerate(items) if touches(item, sums)]
    if len(users) > 1:
        return rewritten(items, find_sum(items, sums, taken), unused("whole", taken))
    (i,) = users
    if isinstance(items[i], Instr):
        raise NotOneSum("products and Fixpipe are under different conditions")
    change = inside(items[i], lambda body: flagged(body, sums, taken) if any(touches(x, sums) for x in body) else body)
    return (*items[:i], change, *items[i + 1 :])


def rewritten(items: tuple[Item, ...], found: Sum, name: str) -> tuple[Item, ...]:
    """Return the sequence of a sum with flags, and with events where a block is not whole."""
    if found.condition is False:
        raise NotOneSum("what is stored is never all that is computed")
    versions = Versions(True if found.condition is True else name, items[found.second].line)
    test = () if versions.whole is True else (Let(name, int1, found.condition, versions.line),)
    adds: Scalar = LAST if found.is_last is True else Expr("?:", (found.is_last, LAST, ADDS))
    between = (x for x in items[found.first + 1 : found.second] if not (isinstance(x, Let) and x.name in found.moved))
    return (
        *items[: found.first],
        *found.definitions,
        *test,
        *versions.events(BEFORE),
        versions.flagged(items[found.first], "Mmad", adds),
        *between,
        *versions.events(BETWEEN),
        versions.flagged(items[found.second], "Fixpipe", LAST),
        *versions.events(BEHIND),
        *items[found.second + 1 :],
    )


@dataclass(frozen=True, slots=True)
class Versions:
    """The two ways of a block: with flags if it is `whole`, else with events."""

    whole: Scalar
    line: int

    def events(self, event: tuple[str, int]) -> tuple[Item, ...]:
        """Let one unit wait for the other at this place, in edge blocks."""
        if self.whole is True:
            return ()
        pair, number = event
        both = tuple(Instr(name, (Word(pair), number), self.line) for name in ("SetFlag", "WaitFlag"))
        return (If(Expr("not", (self.whole,)), both, (), self.line),)

    def flagged(self, item: Item, name: str, flag: Scalar) -> Item:
        """Return an item whose instructions of a name have a flag; those in branches with barriers keep none."""
        if isinstance(item, Instr) and item.name == name:
            record, i = item.args[-1], unit_flag_index(item)
            assert isinstance(record, Record)
            value = flag if self.whole is True else Expr("?:", (self.whole, flag, 0))
            return replace(item, args=(*item.args[:-1], Record((*record.fields[:i], value, *record.fields[i + 1 :]))))
        if is_fenced(item):
            return item
        return inside(item, lambda body: tuple(self.flagged(x, name, flag) for x in body))
