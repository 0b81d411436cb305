"""Unit flag checking: runs the numbers of a kernel and reports units of L0C for which a core would wait for ever.

A product with a unit flag waits until its units are empty, and a Fixpipe with one until they are full. The last product
of a sum (3) fills them, the Fixpipe (3) empties them. Loops run as often as the numbers say, long ones at their begin
and their end alone, for parameters in `PARAMETERS`. A number that depends on memory decides nothing. The checker trusts
the effects of instructions, but not the pass that set the flags: it finds what `unit_flags` did wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pypto.backends.ascend.block.dependences import is_fenced
from pypto.backends.ascend.blockir.effects import unit_flag, views
from pypto.backends.ascend.blockir.evaluation import value_of
from pypto.backends.ascend.blockir.ir import (
    Assign,
    BlockKernel,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Record,
    Scalar,
    While,
    walk,
)

PARAMETERS: Final = (4096, 100)  # values of all numbers among the parameters: many blocks, or a part of one
LONG: Final = 32  # iterations from which on a loop runs at its begin and its end alone
ENDS: Final = 2  # iterations at either end of it
LAST: Final = 3


@dataclass(frozen=True, slots=True)
class Full:
    """Units that a product has filled."""

    line: int  # the product's
    size: tuple[int | None, ...]  # its rows and columns


@dataclass
class UnitExecution:
    """One execution of a kernel's numbers, with the accumulators that are full."""

    values: dict[str, int | None]
    full: dict[str, Full] = field(default_factory=dict)  # by the accumulator's name
    problems: dict[str, None] = field(default_factory=dict)

    def report(self, text: str, line: int) -> None:
        """Note a problem at a line."""
        self.problems[f"line {line}: {text}" if line else text] = None

    def number(self, value: Scalar) -> int | None:
        """Evaluate a number, None where it depends on memory."""
        return value_of(value, self.values)

    def items(self, items: tuple[Item, ...]) -> None:
        """Execute a sequence."""
        for item in items:
            self.item(item)

    def item(self, item: Item) -> None:
        """Execute an item."""
        match item:
            case Instr():
                self.instruction(item)
            case Let() | Assign():
                self.values[item.name] = self.number(item.value)
            case Loop():
                for value in self.iterations(item):
                    self.values[item.name] = value
                    self.items(item.body)
            case If():
                holds = self.number(item.condition)
                if holds is not None or not is_fenced(item):
                    self.items(item.orelse if holds == 0 else item.body)
            case While():
                self.items((*item.test, *item.body))

    def iterations(self, loop: Loop) -> Iterator[int | None]:
        """Yield the values of a loop's variable; one that is not known where a bound is not."""
        start, stop, step = (self.number(x) for x in (loop.start, loop.stop, loop.step))
        if start is None or stop is None or not step:
            yield None
            return
        values = range(start, stop, step)
        yield from values if len(values) <= LONG else (*values[:ENDS], *values[-ENDS:])

    def instruction(self, item: Instr) -> None:
        """Execute an instruction on the units of an accumulator."""
        flag = self.number(unit_flag(item)) if item.name in ("Mmad", "Fixpipe") else None
        if flag is None:
            return
        record = item.args[-1]
        assert isinstance(record, Record)
        first, second = (None if not isinstance(x, int | str) else self.number(x) for x in record.fields[:2])
        if item.name == "Mmad":
            self.product(item, views(item)[0].of.name, flag, (first, second))
        else:
            self.check_fixpipe(item, views(item)[1].of.name, flag, (second, first))

    def product(self, item: Instr, sums: str, flag: int, size: tuple[int | None, ...]) -> None:
        """Execute a product, which waits for empty units and may fill them."""
        full = self.full.get(sums)
        if full is not None:
            after = "this product waits for ever" if flag else "this product takes no notice"
            self.report(f"no Fixpipe has emptied the units that line {full.line} fills: {after}", item.line)
        if flag == LAST:
            self.full[sums] = Full(item.line, size)

    def check_fixpipe(self, item: Instr, sums: str, flag: int, size: tuple[int | None, ...]) -> None:
        """Execute a Fixpipe, which waits for full units and may empty them."""
        full = self.full.get(sums)
        if full is None and flag:
            self.report("no product has filled the units that this Fixpipe takes: it waits for ever", item.line)
        if full is not None and not flag:
            text = f"this Fixpipe has no unit flag, but the product of line {full.line} has one"
            self.report(f"{text}: the next product waits for ever", item.line)
        if full is not None and flag and None not in (*size, *full.size) and size != full.size:
            taken, filled = (" by ".join(map(str, x)) for x in (size, full.size))
            self.report(f"this Fixpipe takes {taken} of the {filled} sums that line {full.line} fills", item.line)
        if flag in (0, LAST):
            self.full.pop(sums, None)


def unit_flag_problems(kernel: BlockKernel) -> list[str]:
    """Return where a kernel's unit flags do not fit each other, each place once."""
    if not any(unit_flag(x) != 0 for x in walk(kernel.body + kernel.cube_body)):
        return []
    problems: dict[str, None] = {}
    for items in (kernel.body, kernel.cube_body):
        for number in PARAMETERS:
            numbers: dict[str, int | None] = {p.name: number for p in kernel.params if not p.is_array}
            execution = UnitExecution({**numbers, "block": 0, "blocks": 1, "sub_block": 0})
            execution.items(items)
            for full in execution.full.values():
                execution.report("nothing takes away the sums of this product", full.line)
            problems |= execution.problems
    return list(problems)
